// Exchanges of layers that are held together, in parts beside their products: the same work and bytes, in an order that can run.

#include "workloads/overlapped_exchanges.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/llama_structure.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

Workload of_llama(const TensorSplit& split, const Recomputation& again = {}, Fp8 fp8 = Fp8::kNone) {
  ModelDescription model = test::model_of(test::llama_structure({{"layers", 2},
                                                                 {"width", 256},
                                                                 {"heads", 8},
                                                                 {"kv_heads", 4},
                                                                 {"feed_forward", 1024},
                                                                 {"vocabulary", 1024},
                                                                 {"sequence_length", 128},
                                                                 {"joint_projection", true}}));
  model.split = split;
  model.again = again;
  model.fp8 = fp8;
  return build_workload(model, 2, Precision::kBf16, "m.json");
}

/// What must not depend on whether exchanges are in parts.
struct Sums {
  double flops = 0, sent = 0, kept = 0, kept_again = 0, output = 0, written = 0;
  std::multiset<int> gradients;
};

Sums sums_of(const Workload& workload, int degree) {
  Sums sums;
  for (const Operator& op : workload.graph) {
    sums.flops += op.flops.value();
    sums.kept += as_double(op.kept);
    sums.kept_again += as_double(op.kept_again);
    sums.output += as_double(op.output);
    sums.written += as_double(op.bytes_written);
    sums.gradients.insert(op.produces_gradients.begin(), op.produces_gradients.end());
    if (!op.exchange) continue;
    const double steps = op.exchange->kind == CollectiveKind::kShift       ? 1
                         : op.exchange->kind == CollectiveKind::kAllReduce ? 2.0 * (degree - 1) / degree
                                                                           : 1.0 * (degree - 1) / degree;
    sums.sent += steps * as_double(op.exchange->bytes);
  }
  return sums;
}

std::map<std::string, std::vector<std::string>> reads_by_name(const Workload& workload) {
  std::map<std::string, std::vector<std::string>> reads;
  for (const auto& [from, to] : workload.graph.edges())
    reads[workload.graph[to].name()].push_back(workload.graph[from].name());
  return reads;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

TEST_CASE("exchanges beside products: the same work, bytes, gradients and kept values, in an order that can run") {
  for (const int degree : {2, 4})
    for (const Recomputation& again : {Recomputation{}, Recomputation{.layers = true}, Recomputation{.norms = true}})
      for (const Fp8 fp8 : {Fp8::kNone, Fp8::kDelayed, Fp8::kCurrent}) {
        CAPTURE(degree);
        const Workload whole = of_llama({.degree = degree, .has_sequence_parts = true}, again, fp8);
        const Workload parts =
            of_llama({.degree = degree, .has_sequence_parts = true, .is_asynchronous = true}, again, fp8);
        CHECK(parts.graph.size() > whole.graph.size());
        const Sums a = sums_of(whole, degree), b = sums_of(parts, degree);
        CHECK(b.flops == doctest::Approx(a.flops).epsilon(1e-12));
        CHECK(b.sent == doctest::Approx(a.sent).epsilon(1e-12));
        CHECK(b.kept == a.kept);
        CHECK(b.kept_again == a.kept_again);
        CHECK(b.output == a.output);
        CHECK(b.written == a.written);
        CHECK(b.gradients == a.gradients);
        for (const auto& [from, to] : parts.graph.edges()) CHECK(from < to);
        for (std::size_t vertex = 0; vertex < parts.graph.size(); ++vertex)
          CHECK(parts.graph[vertex].backward_of() < static_cast<int>(vertex));
      }
}

TEST_CASE("a product begins with its own positions, and what it gives is sent part by part") {
  const Workload parts = of_llama({.degree = 4, .has_sequence_parts = true, .is_asynchronous = true});
  const auto reads = reads_by_name(parts);
  const std::string layer = "encoder/layer1/feed_forward/";
  std::set<std::string> names;
  for (const Operator& op : parts.graph) names.insert(op.name);
  std::string gather, scatter, inner, outer;
  for (const std::string& name : names) {
    if (!name.starts_with(layer) || !name.ends_with("/part1")) continue;
    const std::string stem = name.substr(0, name.size() - 1);
    if (stem.ends_with("/gathered/part")) gather = stem;
    if (stem.ends_with("/added_up/part")) scatter = stem;
    if (stem.ends_with("inner/part") || stem.ends_with("gate/part") || stem.ends_with("gates/part")) inner = stem;
    if (stem.ends_with("outer/part")) outer = stem;
  }
  REQUIRE_FALSE(gather.empty());
  REQUIRE_FALSE(scatter.empty());
  REQUIRE_FALSE(inner.empty());
  REQUIRE_FALSE(outer.empty());
  CHECK_FALSE(contains(reads.at(inner + "1"), gather + "1"));
  CHECK(contains(reads.at(inner + "2"), gather + "1"));
  CHECK(contains(reads.at(inner + "4"), gather + "3"));
  CHECK_FALSE(names.contains(gather + "4"));
  for (const char* part : {"1", "2", "3", "4"}) CHECK(reads.at(scatter + part) == std::vector{outer + part});
}

TEST_CASE("the gradient of what is added up is gathered beside the product that reads it, before that of the weights") {
  const Workload parts = of_llama({.degree = 2, .has_sequence_parts = true, .is_asynchronous = true});
  int data = -1, weights = -1, exchange = -1;
  for (std::size_t vertex = 0; vertex < parts.graph.size(); ++vertex) {
    const std::string& name = parts.graph[vertex].name();
    if (name == "encoder/layer1/feed_forward/outer/data_gradient/part1") data = static_cast<int>(vertex);
    if (name == "encoder/layer1/feed_forward/outer/weight_gradient") weights = static_cast<int>(vertex);
    if (name.starts_with("encoder/layer1/feed_forward/") && name.ends_with("gathered_gradient/part1"))
      exchange = static_cast<int>(vertex);
  }
  REQUIRE(exchange >= 0);
  CHECK(exchange < data);
  CHECK(data < weights);
}

}  // namespace rehearse
