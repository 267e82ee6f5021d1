#include "sim/scenario/kept_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/scenario/gpu_memory.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// A transformer of four layers with logits of 1 MB and layers of far more, or the reverse.
Json transformer(const std::string& recompute, int vocabulary = 256) {
  Json scenario = test::timed_scenario(1, {{"4B"}}, {{"kind", "all_reduce"}}, 1);
  scenario["training"]["strategy"].erase("bucket_size");
  scenario["workload"]["model"]["structure"] = {{"family", "transformer"},
                                                {"layers", 4},
                                                {"width", 64},
                                                {"heads", 4},
                                                {"feed_forward", 256},
                                                {"vocabulary", vocabulary},
                                                {"sequence_length", 64},
                                                {"causal", true},
                                                {"normalisation", "pre"},
                                                {"head", "language_model"}};
  scenario["workload"]["recompute"] = recompute;
  return scenario;
}

/// Sum of what is taken and not given back after each operator of both passes.
std::vector<std::int64_t> curve(const Workload& workload) {
  const PassOperators operators = pass_operators(workload.graph);
  const KeptChanges changes = kept_changes(workload, operators);
  std::vector<std::int64_t> kept;
  KeptBytes now;
  for (const auto& of_phase : operators.front())
    for (const int v : of_phase) {
      now += changes.taken[static_cast<std::size_t>(v)];
      kept.push_back(now.total().value());
      now -= changes.given_back[static_cast<std::size_t>(v)];
    }
  kept.push_back(now.total().value());
  return kept;
}

}  // namespace

TEST_CASE("what is kept of any model is given back by the end of its backward pass, and never more than that") {
  const std::vector<std::pair<const char*, const char*>> cases{{"resnet50", "none"},  {"bert_base", "none"},
                                                               {"bert_base", "full"}, {"gpt2", "none"},
                                                               {"gpt2", "full"},      {"lstm_language_model", "none"},
                                                               {"vgg16", "none"},     {"transformer_base", "full"},
                                                               {"yolov3", "none"},    {"dlrm", "none"}};
  for (const auto& [model, recompute] : cases) {
    CAPTURE(model);
    CAPTURE(recompute);
    Json scenario = test::timed_scenario(1, {{"4B"}}, {{"kind", "all_reduce"}}, 1);
    scenario["training"]["strategy"].erase("bucket_size");
    scenario["workload"]["model"] = model;
    scenario["workload"]["recompute"] = recompute;
    scenario["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] = "4TiB";
    const Workload workload = test::resolved(scenario).workload;
    const std::vector<std::int64_t> kept = curve(workload);
    CHECK(kept.back() == 0);
    CHECK(*std::ranges::min_element(kept) >= 0);
    const std::int64_t all = (workload.activation_bytes + workload.logits_bytes).value();
    if (std::string{recompute} == "none")
      CHECK(*std::ranges::max_element(kept) == all);
    else
      CHECK(*std::ranges::max_element(kept) <= all + workload.recomputed_bytes.value());
  }
}

TEST_CASE(
    "a framework keeps more or less of each activation, and temporaries beside a product of a weight's gradient") {
  const Scenario scenario = test::resolved(transformer("none"));
  const PassOperators operators = pass_operators(scenario.workload.graph);
  const auto most = [&](const FrameworkMemory& framework) {
    return fullest_moment(kept_changes(scenario.workload, operators, framework),
                          {{.phase = PassPhase::kForward}, {.phase = PassPhase::kBackward}}, operators);
  };
  const FullestMoment usual = most({});
  CHECK(most({.kept_activations = 2}).kept.activations == usual.kept.activations * 2);
  CHECK(most({.kept_activations = 2}).kept.logits == usual.kept.logits);
  CHECK(most({.kept_split_activations = 2}).kept.activations == usual.kept.activations);  // one worker holds all
  const auto of_two = [&](const FrameworkMemory& framework) {
    return fullest_moment(kept_changes(scenario.workload, operators, framework, 2),
                          {{.phase = PassPhase::kForward}, {.phase = PassPhase::kBackward}}, operators);
  };
  CHECK(of_two({.kept_activations = 5, .kept_split_activations = 2}).kept.activations == usual.kept.activations * 2);
  CHECK(of_two({.kept_activations = 2}).kept.activations == usual.kept.activations * 2);
  // So large that they are the most: 64 x 256 parameters of a feed-forward layer, or the words.
  const FullestMoment beside = most({.gradient_temporaries = 100});
  CHECK(beside.kept.activations >= Bytes{std::int64_t{64} * 256 * 100});
  CHECK(scenario.workload.graph[static_cast<std::size_t>(beside.vertex)]->phase == Phase::kBackwardWeights);
  for (const KeptChanges& changes : {kept_changes(scenario.workload, operators, {.gradient_temporaries = 6})}) {
    KeptBytes sum;
    for (std::size_t v = 0; v < changes.taken.size(); ++v) {
      sum += changes.taken[v];
      sum -= changes.given_back[v];
    }
    CHECK(sum == KeptBytes{});
  }
}

TEST_CASE("a gradient that is written over the logits takes no room of its own, where their loss is fused") {
  Json json = transformer("none");
  json["workload"]["precision"] = "fp16";
  const auto logits = [&](bool is_fused, bool is_in_place) {
    json["workload"]["fused_loss"] = is_fused;
    Scenario scenario = test::resolved(json);
    Framework framework;
    framework.memory.loss_in_place = is_in_place;
    scenario.profile.frameworks["otherwise"] = framework;
    return gpu_memory(scenario, scenario.first_workers()).logits;
  };
  const Bytes each =
      test::resolved(json).workload.batch * Bytes{std::int64_t{64} * 256 * 2};  // positions, words, 16 bits
  CHECK(logits(true, false) == 2 * each);
  CHECK(logits(true, true) == each);
  CHECK(logits(false, true) == logits(false, false));  // reads a copy in fp32
}

TEST_CASE("weights of one shape share a buffer for gradients that their products have added up") {
  const auto buffers = [](int layers) {
    Json json = transformer("none", 512);
    json["workload"]["model"]["structure"]["layers"] = layers;
    const Scenario scenario = test::resolved(json);
    return gradient_buffers(scenario.workload, pass_operators(scenario.workload.graph), 2);
  };
  CHECK(buffers(4) == buffers(1));
  // Queries, keys, values and outputs are alike; feed-forward layers each way; logits.
  CHECK(buffers(1).value() == 2 * (64 * 64 + 2 * 64 * 256 + 64 * 512));

  Scenario scenario = test::resolved(transformer("none", 512));
  const GpuMemory without = gpu_memory(scenario, scenario.first_workers());
  Framework framework;
  framework.memory.gradient_buffers = 2;
  scenario.profile.frameworks["otherwise"] = framework;
  const GpuMemory with = gpu_memory(scenario, scenario.first_workers());
  CHECK(with.gradients - without.gradients == buffers(4));
  CHECK(with.total() - without.total() == buffers(4));
}

TEST_CASE("the fullest moment is the loss, or the backward pass of a layer that is computed again") {
  const auto peak = [](const Json& json) {
    const Scenario scenario = test::resolved(json);
    return gpu_memory(scenario, scenario.first_workers());
  };
  const GpuMemory kept = peak(transformer("none"));
  CHECK(kept.moment.phase == PassPhase::kForward);
  CHECK(kept.moment.op == "loss");
  CHECK(describe_moment(kept) == "in the forward pass, as loss begins");

  const Scenario again = test::resolved(transformer("full"));
  const GpuMemory memory = gpu_memory(again, again.first_workers());
  CHECK(memory.moment.phase == PassPhase::kBackward);
  CHECK(memory.logits == Bytes{});  // are gone by then
  // All but what the head and the last norm keep, whose backward pass has ended.
  CHECK(memory.activations < again.workload.activation_bytes + again.workload.recomputed_bytes);
  CHECK(memory.activations > again.workload.recomputed_bytes + Bytes{again.workload.activation_bytes.value() / 2});

  const GpuMemory wide = peak(transformer("full", 262'144));
  CHECK(wide.moment.op == "loss");
  CHECK(wide.activations < memory.activations);
  CHECK(wide.logits > Bytes{});
}

TEST_CASE("gradients of weights that are put off keep what they read, whatever of a layer is computed again") {
  const auto put_off = [](const Json& recompute) {
    Json json = transformer("none");
    json["workload"]["recompute"] = recompute;
    const Workload workload = test::resolved(json).workload;
    PassOperators operators = pass_operators(workload.graph);
    const std::vector<bool> are = are_of_weights(workload.graph);
    std::vector<int>& backward = operators.front()[1];
    for (const int v : backward)
      if (are[static_cast<std::size_t>(v)]) operators.front()[2].push_back(v);
    std::erase_if(backward, [&](int v) { return are[static_cast<std::size_t>(v)]; });
    const KeptChanges changes = kept_changes(workload, operators);
    KeptBytes kept;
    const auto walk = [&](const std::vector<int>& vertices) {
      for (const int v : vertices) {
        kept += changes.taken[static_cast<std::size_t>(v)];
        kept -= changes.given_back[static_cast<std::size_t>(v)];
      }
    };
    walk(operators.front()[0]);
    walk(operators.front()[1]);
    const std::int64_t between = kept.total().value();
    walk(operators.front()[2]);
    CHECK(kept == KeptBytes{});
    return between;
  };
  // Bytes of a position and layer, in fp32: what products read (h twice, h of attention, f = 4 h) and gradients of what they give
  // (3 h of queries, keys and values, h, f, h); of logits what is read and the gradient.
  const std::int64_t each = test::resolved(transformer("none")).workload.batch * std::int64_t{64} * 4, h = 64;
  const std::int64_t layers = 4 * (7 * h + 9 * h), logits = h + 256;
  CHECK(put_off("none") == each * (layers + logits));
  for (const Json& recompute : {Json("full"), Json::array({"feed_forward"}), Json::array({"norms", "activations"}),
                                Json::array({"core_attention"})}) {
    CAPTURE(recompute.dump());
    CHECK(put_off(recompute) == put_off("none"));
  }
}

TEST_CASE("a pass that has ended keeps nothing, one on its way what it has come to") {
  // One chunk of two operators forward and two backward: 5 and 3 bytes, 7 more in the last backward operator.
  KeptChanges changes{std::vector<KeptBytes>(4), std::vector<KeptBytes>(4)};
  changes.taken[0].activations = changes.given_back[3].activations = Bytes{5};
  changes.taken[1].logits = changes.given_back[2].logits = Bytes{3};
  changes.taken[3].activations += Bytes{7};
  changes.given_back[3].activations += Bytes{7};
  const PassOperators operators{{std::vector{0, 1}, std::vector{2, 3}}};
  const std::vector<PipelineSlot> one{{.phase = PassPhase::kForward}, {.phase = PassPhase::kBackward}};
  const FullestMoment alone = fullest_moment(changes, one, operators);
  CHECK(alone.kept == KeptBytes{.activations = Bytes{12}});
  CHECK(alone.slot == 1);
  CHECK(alone.vertex == 3);
  // Two micro-batches forward, then backward: the first backward pass has the second one beside it.
  const std::vector<PipelineSlot> two{{.microbatch = 0},
                                      {.microbatch = 1},
                                      {.phase = PassPhase::kBackward, .microbatch = 0},
                                      {.phase = PassPhase::kBackward, .microbatch = 1}};
  const FullestMoment both = fullest_moment(changes, two, operators);
  CHECK(both.kept == KeptBytes{.activations = Bytes{17}, .logits = Bytes{3}});
  CHECK(both.slot == 2);
  CHECK(both.vertex == 3);
}

}  // namespace rehearse
