// The first guess of a profile, worked out by hand.

#include "predictor/step_sketch.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "predictor/dataset.hpp"

namespace rehearse {

namespace {

/// Position of a label.
std::size_t at(const std::string& name) {
  const auto& names = label_names();
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

TEST_CASE("without variables a step takes the first dispatch and the kernels, or all dispatches and the last kernel") {
  const std::vector<SketchedKernel> kernels(10, {.time_s = 1e-3, .memory_s = 0.5e-3});
  SketchedCluster cluster{.dispatch_s = 1e-4, .link_Bps = 1e9, .serving_Bps = 1e9, .period_s = 1e-4};
  CHECK(sketch_labels(kernels, {}, cluster)[at("step_time_s")] == doctest::Approx(10.1e-3));
  cluster.dispatch_s = 2e-3;
  CHECK(sketch_labels(kernels, {}, cluster)[at("step_time_s")] == doctest::Approx(10 * 2e-3 + 1e-3));
}

TEST_CASE("a variable is pulled before its kernel and pushed after it") {
  // 1 MB at 1 GB/s: 1 ms in, a kernel of 2 ms, 1 ms out; the GPU is idle for 1 + 1 ms between two steps
  const std::vector<SketchedKernel> kernels{{.time_s = 2e-3, .memory_s = 1e-3, .first_variable = 0, .variables = 1}};
  const std::vector<SketchedVariable> variables{{.bytes = 1e6, .machine = 1, .gradient = 0}};
  const SketchedCluster cluster{.link_Bps = 1e9, .serving_Bps = 1e9, .period_s = 1e-4};
  const std::vector<double> labels = sketch_labels(kernels, variables, cluster);
  CHECK(labels.size() == label_names().size());
  CHECK(labels[at("step_time_s")] == doctest::Approx(4e-3));
  CHECK(labels[at("gpu_idle_s")] == doctest::Approx(2e-3));
  CHECK(labels[at("gpu_active_s")] == doctest::Approx(2e-3));
  CHECK(labels[at("gpu_peak")] == doctest::Approx(1));
  CHECK(labels[at("memory_peak")] == doctest::Approx(0.5));
  CHECK(labels[at("receive_active_s")] == doctest::Approx(1e-3));
  CHECK(labels[at("receive_peak_Bps")] == doctest::Approx(1e9));
  CHECK(labels[at("receive_mean_Bps")] == doctest::Approx(1e6 / 4e-3));
  CHECK(labels[at("transmit_mean_Bps")] == doctest::Approx(1e6 / 4e-3));
}

TEST_CASE("four workers share a server's link, and the chief's own server sends to the others") {
  const std::vector<SketchedKernel> kernels{{.time_s = 2e-3, .memory_s = 0, .first_variable = 0, .variables = 1}};
  SketchedCluster cluster{.link_Bps = 1e9, .serving_Bps = 1e9, .sharers = 4, .period_s = 1e-4};
  // 4 ms in, 2 ms, 4 ms out
  CHECK(sketch_labels(kernels, {{.bytes = 1e6, .machine = 1, .gradient = 0}}, cluster)[at("step_time_s")] ==
        doctest::Approx(10e-3));
  cluster.chief_serves = true;
  const std::vector<double> own = sketch_labels(kernels, {{.bytes = 1e6, .machine = 0, .gradient = 0}}, cluster);
  CHECK(own[at("transmit_mean_Bps")] == doctest::Approx(4e6 / own[at("step_time_s")]));
}

}  // namespace rehearse
