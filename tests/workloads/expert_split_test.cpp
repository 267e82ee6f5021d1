// Mixtures whose experts are spread over GPUs: what is sent, computed and kept, against closed forms. b micro-batch, s sequence, h
// width, f feed-forward of an expert, E experts, k of them for a token, L layers; e GPUs with other experts, t degree of tensor
// parallelism, T tokens of a GPU.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/llama_structure.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse::expert_split {

namespace {

constexpr std::int64_t b = 2, s = 128, h = 256, f = 512, V = 1024, L = 3, E = 16, k = 2;

Workload spread(const ExpertSplit& experts, const TensorSplit& split = {}, const Json& more = Json::object()) {
  Json structure = test::llama_structure({{"layers", L},
                                          {"width", h},
                                          {"heads", 8},
                                          {"feed_forward", f},
                                          {"experts", E},
                                          {"experts_per_token", k},
                                          {"grouped_experts", true},
                                          {"vocabulary", V},
                                          {"sequence_length", s}});
  structure.update(more);
  ModelDescription model = test::model_of(structure);
  model.expert_split = experts;
  model.split = split;
  return build_workload(model, static_cast<int>(b), Precision::kBf16, "m.json");
}

/// Bytes of tokens that a GPU has to send, its own included, forward and backward.
std::pair<double, double> dispatched(const Workload& workload) {
  double forward = 0, backward = 0;
  for (const Operator& op : workload.graph)
    if (op.exchange && op.exchange->among == SplitGroup::kExperts)
      (op.is_of_forward_pass() ? forward : backward) += as_double(op.exchange->bytes);
  return {forward, backward};
}

double flops_of_experts(const Workload& workload) {
  double sum = 0;
  for (const Operator& op : workload.graph)
    if (op.name.find("/experts/") != std::string::npos) sum += op.flops.value();
  return sum;
}

}  // namespace

TEST_CASE("tokens are sent to their experts and back, forward and backward: T k h numbers each") {
  for (const int e : {2, 4, 16})
    for (const int t : {1, 2}) {
      const TensorSplit split{.degree = t, .has_sequence_parts = t > 1, .vocabulary_multiple = 1};
      const double tokens = static_cast<double>(b * s) / t, bytes = tokens * k * static_cast<double>(h) * 2;
      for (const int tensor : {1, t}) {
        const auto [forward, backward] = dispatched(spread({.degree = e, .tensor = tensor}, split));
        CHECK(forward == doctest::Approx(2 * L * bytes).epsilon(1e-12));
        CHECK(backward == doctest::Approx(forward).epsilon(1e-12));
      }
    }
  CHECK(dispatched(spread({.degree = 1})).first == 0);
  // Of the fullest GPU, or with as many rows as there are places.
  const double even = dispatched(spread({.degree = 4})).first;
  CHECK(dispatched(spread({.degree = 4, .imbalance = 1.5})).first == doctest::Approx(1.5 * even).epsilon(1e-12));
  CHECK(dispatched(spread({.degree = 4, .capacity = 1.25, .pads = true})).first ==
        doctest::Approx(1.25 * even).epsilon(1e-12));
  CHECK(dispatched(spread({.degree = 4, .imbalance = 3, .capacity = 2.0})).first ==
        doctest::Approx(2 * even).epsilon(1e-12));
}

TEST_CASE(
    "GPUs have all experts together, and compute all of their products; the fullest one as many more as it is fuller") {
  const Workload whole = spread({.degree = 1});
  for (const int e : {2, 4, 16}) {
    const Workload part = spread({.degree = e});
    CHECK(part.parameters_of_all(1) == whole.parameters());
    CHECK(part.training_flops().value() == doctest::Approx(whole.training_flops().value()).epsilon(1e-12));
    std::int64_t of_experts = 0;
    for (const Variable& variable : part.variables)
      if (variable.parts_of_experts > 0) of_experts += variable.scalars();
    CHECK(of_experts == L * 3 * h * f * E / e);
    CHECK(flops_of_experts(spread({.degree = e, .imbalance = 1.5})) ==
          doctest::Approx(1.5 * flops_of_experts(part)).epsilon(1e-12));
  }
  // Held by two each, of whom each has its columns and rows; or by one, while layers around are held by two.
  const TensorSplit split{.degree = 2, .has_sequence_parts = true, .vocabulary_multiple = 1};
  for (const int tensor : {1, 2}) {
    const Workload part = spread({.degree = 4, .tensor = tensor}, split);
    CHECK(part.parameters_of_all(2) == whole.parameters());
    CHECK(flops_of_experts(part) * 2 == doctest::Approx(flops_of_experts(whole)).epsilon(1e-12));
  }
}

TEST_CASE("gradients of experts are whole at each GPU that has them, whoever sends the tokens") {
  const TensorSplit split{.degree = 2, .has_sequence_parts = true};
  for (const int tensor : {1, 2})
    for (const Variable& variable : spread({.degree = 4, .tensor = tensor}, split).variables) {
      if (variable.name.find("/experts/") == std::string::npos) continue;
      CHECK(variable.parts_of_experts == 4 * tensor);
      CHECK_FALSE(variable.has_partial_gradient);
      CHECK_FALSE(variable.is_shard);
    }
  for (const Variable& variable : spread({.degree = 4}, split).variables)
    if (variable.name.find("/router") != std::string::npos) CHECK(variable.has_partial_gradient);
}

TEST_CASE("the part that all tokens pass runs while they are sent to their experts") {
  const Workload workload = spread({.degree = 4}, {}, {{"shared_feed_forward", 64}});
  const auto place = [&](const std::string& name) {
    return std::ranges::distance(workload.graph.begin(), std::ranges::find(workload.graph, name, &OperatorAt::name));
  };
  const std::string at = "encoder/layer2/feed_forward";
  CHECK(place(at + "/to_experts") < place(at + "/shared/inner"));
  CHECK(place(at + "/shared/outer") < place(at + "/experts/sorted"));
}

TEST_CASE("operators of a mixture are as many whatever the number of experts") {
  const std::size_t few = spread({.degree = 4}).graph.size();
  CHECK(spread({.degree = 4}, {}, {{"experts", 256}, {"experts_per_token", 8}}).graph.size() == few);
}

TEST_CASE(
    "a token goes once to each machine, N (1 - C(E - E / N, k) / C(E, k)) of them in the mean, or as many as its "
    "router takes") {
  const auto between = [](const ExpertSplit& experts) {
    double bytes = 0;
    for (const Operator& op : spread(experts).graph)
      if (op.exchange && op.exchange->among == SplitGroup::kExpertMachines && op.is_of_forward_pass())
        bytes += as_double(op.exchange->bytes);
    return bytes;
  };
  const double tokens = 2 * L * static_cast<double>(b * s * h) * 2;  // there and back
  for (const int machines : {2, 4}) {
    const double each = static_cast<double>(E) / machines;  // C(E - E / N, 2) / C(E, 2) by two draws
    const double none = (E - each) / E * (E - 1 - each) / (E - 1);
    CHECK(between({.degree = 8, .machines = machines}) ==
          doctest::Approx(tokens * machines * (1 - none)).epsilon(1e-5));  // whole bytes
    CHECK(between({.degree = 8, .machines = machines, .machines_per_token = 1}) ==
          doctest::Approx(tokens).epsilon(1e-6));
    // On the machines they go to each of their experts.
    CHECK(dispatched(spread({.degree = 8, .machines = machines})) == dispatched(spread({.degree = 8})));
  }
  CHECK(between({.degree = 8}) == 0);
}

TEST_CASE("weights that are multiplied within experts go with the tokens") {
  const Json within{{"weighted_inner", true}};
  const double bytes = static_cast<double>(b * s * k) * 2;
  const double apart = dispatched(spread({.degree = 4})).first;
  CHECK(dispatched(spread({.degree = 4}, {}, within)).first == doctest::Approx(apart + L * bytes).epsilon(1e-12));
}

}  // namespace rehearse::expert_split
