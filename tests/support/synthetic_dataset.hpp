#pragma once
// A small dataset whose labels are formulas of its graphs, for tests that train.

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "predictor/dataset.hpp"
#include "predictor/described_step.hpp"
#include "predictor/labels.hpp"
#include "sim/base/random.hpp"

namespace rehearse::test {

/// The step of as many kernels as layers, which take `t` seconds and are half a step apart from what follows if they wait.
inline DescribedStep synthetic_step(int layers, double t, bool waits) {
  DescribedStep step{.waits_for_all = waits};
  const auto seconds = static_cast<float>(t / layers);
  for (std::int32_t i = 0; i < layers; ++i) {
    step.nodes.push_back({.kind = 3,
                          .part = i,
                          .resource = static_cast<std::int32_t>(StepResource::kGpu),
                          .costs = {1, seconds, seconds, 0, 0, static_cast<float>(i) * seconds,
                                    static_cast<float>(i + 1) * seconds, 2}});
    if (i > 0) step.edges.push_back({i - 1, i});
    step.timelines[0][static_cast<std::size_t>(i)][0] = seconds;
    step.timelines[1][static_cast<std::size_t>(i)][0] = seconds;
  }
  step.loads[static_cast<std::size_t>(StepResource::kGpu)] = {{static_cast<float>(t), static_cast<float>(t), seconds}};
  for (std::vector<double>& shown : step.shown) shown = {t, t, 0.4, t, t, 0.8, t, t, 3e8, t, t, 2e8, 1.2 * t, 1e8, 2e8};
  const std::span<const StepTotal> totals = step_totals();
  for (std::size_t t = 0; t < totals.size(); ++t) {  // operations of all kinds, in the last totals
    const bool is_done_without =
        totals[t].is_mechanism && t + kStepKinds < totals.size() && totals[t].name != std::string{"is_gated"};
    step.totals.push_back(totals[t].name == std::string{"window_steps"} ? 20 : is_done_without ? 0 : 1);
  }
  return step;
}

/// `graphs` chains of convolutions, activations and updates in two settings of two synchronizations each; graph g is
/// for training, validation or tests by g mod 5 (0 to 2, 3, 4). With t = seconds of all FLOPs at half of the peak:
/// active durations are t, idle ones t / 2 (synchronous) or 0, peaks shares or parts of the link; transmit's idle
/// duration is not known in the first setting.
inline Dataset synthetic_dataset(int graphs = 20, std::uint64_t seed = 1) {
  Dataset data;
  data.node_features = node_feature_names();
  data.labels = label_names();
  Rng random{seed, "synthetic dataset"};
  for (const std::string cluster : {"a", "b"})
    for (const std::string how : {"synchronous", "asynchronous"})
      data.settings.push_back(
          {.name = cluster + " " + how,
           .group = cluster,
           .provenance = R"({"cluster": {"groups": [{"role": "worker", "count": 2, "instance": {"accelerator": ")" +
                         cluster + R"(", "nic": "10Gbps"}}]}, "output": {"sampling_period": "1ms"},
                                             "training": {"strategy": {"kind": "parameter_server", "synchronization": ")" +
                         how + R"("}}, "calibration": "ideal"})"});
  for (int g = 0; g < graphs; ++g) {
    DatasetGraph graph{.family = g % 2 == 0 ? "even" : "odd",
                       .name = "graph " + std::to_string(g),
                       .provenance = "{}",
                       .features = {},
                       .edges = {}};
    const int layers = 2 + static_cast<int>(random.below(6));
    const auto batch = static_cast<float>(16 << random.below(4));
    double flops = 0;
    for (int i = 0; i < layers; ++i) {
      const float rows = batch * 256, columns = 64, reduction = 576;
      const float work = 2 * rows * columns * reduction, bytes = 4 * rows * columns;
      flops += work;
      const auto add = [&](OperatorKind kind, Phase phase, std::initializer_list<float> rest) {
        graph.features.insert(graph.features.end(), {static_cast<float>(kind), static_cast<float>(phase)});
        graph.features.insert(graph.features.end(), rest);
      };
      const auto first = static_cast<std::int32_t>(3 * i);
      add(OperatorKind::kConvolution, Phase::kForward,
          {work, bytes, bytes, 147456, rows * columns, rows, columns, reduction, 1, 1, 1, static_cast<float>(i), 0, -1,
           0, 0});
      add(OperatorKind::kActivation, Phase::kForward,
          {0, bytes, bytes, 0, rows * columns, 0, 0, 0, 0, 0, 0, -1, 0, -1, 0, 0});
      add(OperatorKind::kUpdate, Phase::kUpdate,
          {0, 294912, 147456, 147456, 36864, 0, 0, 0, 0, 0, 1, static_cast<float>(i), 0, -1, 0, 0});
      graph.edges.insert(graph.edges.end(), {{first, first + 1}, {first, first + 2}});
      if (i > 0) graph.edges.push_back({first - 2, first});
    }
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(data.settings.size()); ++s) {
      const double t = flops / (0.5 * (s < 2 ? 14e12 : 7e12));
      const double idle = s % 2 == 0 ? t / 2 : 0;
      data.samples.push_back({.graph = g,
                              .setting = s,
                              .split = g % 5 < 3    ? Split::kTrain
                                       : g % 5 == 3 ? Split::kValidation
                                                    : Split::kTest,
                              .labels = {idle, t, 0.5, idle, t, 0.9, idle, t, 4e8, s == 0 ? std::nan("") : idle, t, 3e8,
                                         1.5 * t, 2e8, 1e8},
                              .step = numbers_of(synthetic_step(layers, t, s % 2 == 0))});
    }
    data.graphs.push_back(std::move(graph));
  }
  return data;
}

}  // namespace rehearse::test
