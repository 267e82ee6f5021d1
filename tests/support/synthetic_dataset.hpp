#pragma once
// A small dataset whose labels are formulas of its graphs, for tests that train.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "predictor/dataset.hpp"
#include "predictor/labels.hpp"
#include "sim/base/random.hpp"

namespace rehearse::test {

/// `graphs` chains of convolutions, activations and updates in two settings of two synchronizations each; graph g is
/// for training, validation or tests by g mod 5 (0 to 2, 3, 4). With t = seconds of all FLOPs at half of the peak:
/// active durations are t, idle ones t / 2 (synchronous) or 0, peaks shares or parts of the link; transmit's idle
/// duration is not known in the first setting.
inline Dataset synthetic_dataset(int graphs = 20, std::uint64_t seed = 1) {
  Dataset data;
  data.node_features = node_feature_names();
  data.descriptors = descriptor_names();
  data.labels = label_names();
  Rng random{seed, "synthetic dataset"};
  for (const std::string cluster : {"a", "b"})
    for (const std::string how : {"synchronous", "asynchronous"}) {
      std::map<std::string, double> values{{"gpu_peak_flops", cluster == "a" ? 14e12 : 7e12},
                                           {"gpu_memory_bandwidth_Bps", 900e9},
                                           {"gpu_memory_B", 16e9},
                                           {"multiprocessors", 80},
                                           {"peak_efficiency", 0.5},
                                           {"memory_efficiency", 0.7},
                                           {"kernel_overhead_s", 2e-6},
                                           {"reduction_half", 100},
                                           {"winograd_gain", 1},
                                           {"dispatch_s", 5e-6},
                                           {"workers", 2},
                                           {"worker_machines", 2},
                                           {"gpus_per_machine", 1},
                                           {"servers", 1},
                                           {"nic_Bps", 1.25e9},
                                           {"pcie_Bps", 12e9},
                                           {"server_time_per_variable_s", 1e-5},
                                           {"server_time_per_byte_s", 1e-10},
                                           {"sampling_period_s", 1e-3},
                                           {"window_steps", 20},
                                           {"gradient_bytes_ratio", 1},
                                           {"overlaps_backward", 1},
                                           {"accumulation_steps", 1},
                                           {"is_described", 1},
                                           {"is_" + how, 1}};
      DatasetSetting setting{.name = cluster + " " + how, .group = cluster, .provenance = "{}", .descriptor = {}};
      for (const std::string& name : data.descriptors) setting.descriptor.push_back(values[name]);
      data.settings.push_back(std::move(setting));
    }
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
      const double t = flops / (0.5 * data.settings[static_cast<std::size_t>(s)].descriptor[0]);
      const double idle = s % 2 == 0 ? t / 2 : 0;
      data.samples.push_back({.graph = g,
                              .setting = s,
                              .split = g % 5 < 3    ? Split::kTrain
                                       : g % 5 == 3 ? Split::kValidation
                                                    : Split::kTest,
                              .labels = {idle, t, 0.5, idle, t, 0.9, idle, t, 4e8, s == 0 ? std::nan("") : idle, t, 3e8,
                                         1.5 * t, 2e8, 1e8}});
    }
    data.graphs.push_back(std::move(graph));
  }
  return data;
}

}  // namespace rehearse::test
