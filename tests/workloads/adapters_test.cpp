// Low-rank adapters: what is trained, computed and kept when all else is frozen.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/paths.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

ModelDescription llama() {
  const Json file = load_json_file(source_folder() + "/workloads/models/llama3_8b.json");
  return read_model("llama3_8b", JsonReader{file, "llama3_8b.json"});
}

Workload with_adapters(const LowRankAdapters& adapters, const TensorSplit& split = {}) {
  ModelDescription model = llama();
  model.adapters = adapters;
  model.split = split;
  return build_workload(model, 1, Precision::kBf16, "m.json");
}

Flops backward_flops(const Workload& workload, Phase phase) {
  Flops sum{};
  for (const Operator& op : workload.graph)
    if (op.phase == phase) sum += op.flops;
  return sum;
}

}  // namespace

TEST_CASE(
    "adapters of rank 16 beside all products of Llama 3 8B have 41,943,040 parameters, and 8.03 billion are frozen") {
  const Workload workload = with_adapters({.rank = 16});
  CHECK(workload.parameters() == 41'943'040);  // as PEFT counts them
  std::int64_t frozen = 0;
  for (const Variable& variable : workload.variables) {
    CHECK(variable.is_trainable != variable.is_frozen);
    CHECK(variable.is_trainable == (variable.name.find("/adapter_") != std::string::npos));
    frozen += variable.is_frozen ? variable.scalars() : 0;
  }
  CHECK(frozen == 8'030'261'248);
  CHECK(with_adapters({.rank = 16, .feed_forward = false}).parameters() ==
        32LL * 16 * (4 * 4096 + 4096 + 1024 + 1024 + 4096));
  CHECK(with_adapters({}).parameters() == 8'030'261'248);
}

TEST_CASE("gradients are computed of adapters alone, and passed on to where the first of them is") {
  const Workload whole = with_adapters({}), workload = with_adapters({.rank = 16});
  for (const Operator& op : workload.graph)
    for (const int variable : op.produces_gradients)
      CHECK(workload.variables[static_cast<std::size_t>(variable)].is_trainable);
  std::int64_t updates = 0;
  for (const Operator& op : workload.graph) updates += op.phase == Phase::kUpdate ? 1 : 0;
  CHECK(updates == workload.trainable_tensors());

  // Of frozen products only those of the data, but for the projections that read the first layer's input; of adapters both, of A
  // in the first layer only the weights'.
  constexpr double s = 8192, h = 4096, kv = 1024, f = 14336, r = 16;
  // Queries, keys and values; the output; inner features and gates; the outer product: inputs and outputs of each.
  const double of_layer = (h + h) + 2 * (h + kv) + (h + h) + 2 * (h + f) + (f + h),
               adapters = 2 * s * r * of_layer * 32;
  const double weights = backward_flops(workload, Phase::kBackwardWeights).value();
  CHECK(weights == doctest::Approx(adapters).epsilon(1e-12));
  const double data = backward_flops(workload, Phase::kBackwardData).value(),
               of_whole = backward_flops(whole, Phase::kBackwardData).value();
  const double first_projections = 2 * s * h * (h + 2 * kv), first_a = 2 * s * r * h * 3;
  CHECK(data == doctest::Approx(of_whole - first_projections + adapters - first_a).epsilon(1e-12));
}

TEST_CASE("what only gradients of frozen weights would read is not kept") {
  const auto kept = [](const LowRankAdapters& adapters) { return with_adapters(adapters).activation_bytes.value(); };
  const std::int64_t whole = kept({}), all = kept({.rank = 16}), attention = kept({.rank = 16, .feed_forward = false});
  // Adapters read what their products read, and keep what A gives: seven times the rank of a position and layer. Before the first
  // of them nothing is kept for the norm; behind the last one the head's input is of no use.
  constexpr std::int64_t s = 8192, h = 4096, f = 14336, r = 16, layers = 32;
  CHECK(all == whole + 2 * s * layers * 7 * r - 2 * s * 2 * h);
  // Without those of the feed-forward layer its norm's output, and the product that the last one reads, are not kept.
  CHECK(attention == all - 2 * s * layers * (3 * r + h + f));
}

TEST_CASE("adapters of products that GPUs share: B has columns where they have columns, A rows where they have rows") {
  const Workload whole = with_adapters({.rank = 16}, {.degree = 1});
  const auto sent = [](const Workload& workload) {
    double bytes = 0;
    for (const Operator& op : workload.graph) bytes += op.exchange ? as_double(op.exchange->bytes) : 0;
    return bytes;
  };
  for (const int t : {2, 4, 8})
    for (const bool in_parts : {false, true}) {
      const TensorSplit split{.degree = t, .has_sequence_parts = in_parts, .vocabulary_multiple = 1};
      const Workload part = with_adapters({.rank = 16}, split);
      CHECK(part.parameters_of_all(t) == whole.parameters());
      for (const Variable& variable : part.variables) {
        if (!variable.is_trainable) continue;
        const bool has_rows =
            variable.name.find("/output/") != std::string::npos || variable.name.find("/outer/") != std::string::npos;
        const bool is_first = variable.name.find("/adapter_a/") != std::string::npos;
        CAPTURE(variable.name);
        CHECK(variable.is_shard == (has_rows == is_first));
        CHECK(variable.has_partial_gradient == !variable.is_shard);
      }
      // All compute what the A of columns and the B of rows are multiplied with in full: Q, K, V, two inner ones; two outer ones.
      constexpr double s = 8192, h = 4096, r = 16, layers = 32;
      const double again = 2 * s * r * layers * (5 * h + 2 * h);
      CHECK(part.forward_flops().value() * t ==
            doctest::Approx(whole.forward_flops().value() + (t - 1) * again).epsilon(1e-12));
      // They send nothing of their own; the first layer's gradient has nowhere to go, nor is its input gathered for frozen weights.
      const double all = sent(with_adapters({}, split)), batch = s * h * 2;
      CHECK(sent(part) < all);
      CHECK(sent(part) >= all - 3 * batch);
    }
}

}  // namespace rehearse
