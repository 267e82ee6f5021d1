// The first guess of a profile, worked out by hand.

#include "predictor/run_sketch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "predictor/dataset.hpp"

namespace rehearse {

namespace {

std::vector<double> sketch_labels(const std::vector<SketchedKernel>& kernels,
                                  const std::vector<SketchedVariable>& variables, const SketchedCluster& cluster) {
  return sketch_metrics(kernels, variables, cluster).labels;
}

/// Position of a label.
std::size_t at(const std::string& name) {
  const auto& names = label_names();
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

TEST_CASE("without variables a step takes the first dispatch and the kernels, or all dispatches and the last kernel") {
  const std::vector<SketchedKernel> kernels(10, {.time_s = 1e-3, .memory_s = 0.5e-3});
  SketchedCluster cluster{.dispatch_s = 1e-4,
                          .nic_bytes_per_s = 1e9,
                          .flow_bytes_per_s = 1e9,
                          .gpu_link_bytes_per_s = 1e9,
                          .period_s = 1e-4};
  CHECK(sketch_labels(kernels, {}, cluster)[at("step_time_s")] == doctest::Approx(10.1e-3));
  cluster.dispatch_s = 2e-3;
  CHECK(sketch_labels(kernels, {}, cluster)[at("step_time_s")] == doctest::Approx(10 * 2e-3 + 1e-3));
  cluster.input_bytes = 3e6;
  CHECK(sketch_labels(kernels, {}, cluster)[at("step_time_s")] == doctest::Approx(3e-3 + 10 * 2e-3 + 1e-3));
}

/// One kernel of 2 ms that reads a variable of 1 MB; links of 1 GB/s, GPU links that take no time.
const std::vector<SketchedKernel> kKernel{{.time_s = 2e-3, .memory_s = 1e-3, .first_variable = 0, .variables = 1}};
const SketchedVariable kMegabyte{.pulled_bytes = 1e6, .pushed_bytes = 1e6, .server = 0, .gradient = 0};
const SketchedCluster kCluster{.servers = 1,
                               .nic_bytes_per_s = 1e9,
                               .server_nic_bytes_per_s = 1e9,
                               .flow_bytes_per_s = 1e9,
                               .gpu_link_bytes_per_s = 1e30,
                               .split_above_bytes = 1e9,
                               .is_synchronous = true,
                               .period_s = 1e-4,
                               .window_steps = 20};

TEST_CASE("a variable is pulled before its kernel and pushed after it") {
  // 1 ms in, 2 ms, 1 ms out; the GPU is idle for 1 + 1 ms between two steps
  const std::vector<double> labels = sketch_labels(kKernel, {kMegabyte}, kCluster);
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

TEST_CASE("every cost of a server makes the step longer by what it takes") {
  const auto step_with = [](auto change) {
    SketchedCluster cluster = kCluster;
    change(cluster);
    return sketch_labels(kKernel, {kMegabyte}, cluster)[at("step_time_s")];
  };
  CHECK(step_with([](SketchedCluster& c) { c.variable_s = 1e-3; }) == doctest::Approx(4e-3 + 2 * 1e-3));
  CHECK(step_with([](SketchedCluster& c) { c.byte_s = 2e-9; }) == doctest::Approx(4e-3 + 2 * 2e-3));
  CHECK(step_with([](SketchedCluster& c) { c.update_s = 1e-3; }) == doctest::Approx(4e-3 + 1e-3));
  CHECK(step_with([](SketchedCluster& c) { c.split_update_s = 1e-3, c.split_above_bytes = 1e5; }) ==
        doctest::Approx(4e-3 + 1e-3));
  CHECK(step_with([](SketchedCluster& c) { c.latency_s = 1e-3; }) == doctest::Approx(4e-3 + 4 * 1e-3));
  CHECK(step_with([](SketchedCluster& c) { c.server_nic_bytes_per_s = 0.5e9; }) == doctest::Approx(4e-3 + 2 * 1e-3));
  CHECK(step_with([](SketchedCluster& c) { c.flow_bytes_per_s = 0.5e9; }) == doctest::Approx(4e-3 + 2 * 1e-3));
  CHECK(step_with([](SketchedCluster& c) { c.gpu_link_bytes_per_s = 1e9; }) == doctest::Approx(4e-3 + 2 * 1e-3));
}

TEST_CASE("four workers share a server's link and its cores; a fifth beside the server does not use the link") {
  SketchedCluster cluster = kCluster;
  cluster.machines = cluster.workers = 4;
  CHECK(sketch_labels(kKernel, {kMegabyte}, cluster)[at("step_time_s")] == doctest::Approx(4e-3 + 2e-3 + 4e-3));
  cluster.variable_s = 1e-3;
  CHECK(sketch_labels(kKernel, {kMegabyte}, cluster)[at("step_time_s")] ==
        doctest::Approx(4e-3 + 1e-3 + 2e-3 + 1e-3 + 1e-3));  // reads one after the other, transfers in between
  cluster.variable_s = 0;
  cluster.machines = cluster.workers = 5;
  cluster.is_colocated = true;  // the server is on the chief's machine, which sends and gets four times the variable
  cluster.window_steps = 2000;  // of the last of them no gradient, as the chief's worker finds no step left before
  const std::vector<double> labels = sketch_labels(kKernel, {kMegabyte}, cluster);
  CHECK(labels[at("step_time_s")] == doctest::Approx(10e-3));
  CHECK(labels[at("transmit_mean_Bps")] == doctest::Approx(4e6 / 10e-3).epsilon(0.001));
  CHECK(labels[at("receive_mean_Bps")] == doctest::Approx(4e6 / 10e-3).epsilon(0.001));
}

TEST_CASE("asynchronous workers of equal speed come to miss each other at the server, unequal ones share by chance") {
  SketchedCluster cluster = kCluster;
  cluster.workers = 2;
  cluster.is_colocated = true;
  cluster.variable_s = 1e-3;  // of the only core: the second waits for the first in lockstep, once
  cluster.cores = 1;
  const double together = sketch_labels(kKernel, {kMegabyte}, cluster)[at("step_time_s")];
  cluster.is_synchronous = false;
  cluster.window_steps = 5000;  // once they have come to miss each other
  CHECK(sketch_labels(kKernel, {kMegabyte}, cluster)[at("step_time_s")] / (1e-3 + 2e-3 + 1e-3) ==
        doctest::Approx(1).epsilon(0.04));
  CHECK(together == doctest::Approx(1e-3 + 1e-3 + 2e-3 + 1e-3));

  cluster.machines = 2;  // the second worker pulls and pushes over the network, alone
  cluster.variable_s = 0;
  const double lengths[] = {2e-3, 4e-3};
  CHECK(sketch_labels(kKernel, {kMegabyte}, cluster)[at("step_time_s")] ==
        doctest::Approx(2 / (1 / lengths[0] + 1 / lengths[1])));  // the mean of all steps until the run ends
}

TEST_CASE(
    "samples are taken from when all have done a step until one finds none left, of what is on the wire then too") {
  SketchedCluster cluster = kCluster;
  cluster.is_synchronous = false;
  cluster.is_colocated = true;
  cluster.machines = cluster.workers = 2;
  cluster.nic_bytes_per_s = cluster.flow_bytes_per_s = 1e9 / 3;
  cluster.window_steps = 4;  // 9 steps in all
  // Worker 0, beside the server, begins one every 2 ms and finds none left at 14 ms. Worker 1 pulls until 3 ms,
  // computes until 5, pushes until 8; and then pulls until 11, computes until 13, and has pushed a third at 14.
  const std::vector<double> labels = sketch_labels(kKernel, {kMegabyte}, cluster);
  CHECK(labels[at("transmit_mean_Bps")] == doctest::Approx(1e6 / 6e-3));
  CHECK(labels[at("receive_mean_Bps")] == doctest::Approx(1e6 / 3 / 6e-3));
  CHECK(labels[at("step_time_s")] == doctest::Approx((8e-3 + 4 * 2e-3) / 5));  // those that end from 8 to 14 ms
  CHECK(labels[at("gpu_active_s")] == doctest::Approx(6e-3));
}

TEST_CASE("of a run that is over before a slow worker has done a step all is sampled") {
  SketchedCluster cluster = kCluster;
  cluster.is_synchronous = false;
  cluster.is_colocated = true;
  cluster.machines = cluster.workers = 2;
  cluster.nic_bytes_per_s = cluster.flow_bytes_per_s = 1e6;  // a second for each way
  const std::vector<double> labels = sketch_labels(kKernel, {kMegabyte}, cluster);
  CHECK(labels[at("step_time_s")] == doctest::Approx((40 * 2e-3 + 2.002) / 41));
  CHECK(labels[at("transmit_mean_Bps")] == doctest::Approx(1e6 / 2.002));
}

TEST_CASE("however long a run, and however slow one of its workers, a sketch ends") {
  SketchedCluster cluster = kCluster;
  cluster.is_synchronous = false;
  cluster.is_colocated = true;
  cluster.machines = cluster.workers = 2;
  cluster.window_steps = 1e12;
  for (const double rate : {1e9, 1e3, 1e-3}) {  // up to 30 years for a step
    CAPTURE(rate);
    cluster.nic_bytes_per_s = cluster.flow_bytes_per_s = rate;
    for (const double label : sketch_labels(kKernel, {kMegabyte}, cluster)) CHECK(std::isfinite(label));
  }
}

TEST_CASE("without servers gradients go round a ring") {
  SketchedCluster cluster = kCluster;
  cluster.servers = 0;
  cluster.machines = cluster.workers = 4;
  const std::vector<double> labels = sketch_labels(kKernel, {kMegabyte}, cluster);
  CHECK(labels[at("step_time_s")] == doctest::Approx(2e-3 + 1.5e-3));  // 2 (n - 1) / n of it
  CHECK(labels[at("transmit_mean_Bps")] == doctest::Approx(1.5e6 / 3.5e-3));
}

TEST_CASE("gradients go through a ring one after another, in buckets, in cycles, or after all kernels") {
  // Three kernels of 2 ms; the gradients of 1 MB are complete after 2, 4 and 6 ms. A ring: 0.5 ms + 1 ms for each MB,
  // of which each of four machines receives and sends 1.5 MB.
  const std::vector<SketchedKernel> kernels(3, {.time_s = 2e-3, .memory_s = 1e-3});
  std::vector<SketchedVariable> variables;
  for (int i = 0; i < 3; ++i) variables.push_back({.pulled_bytes = 1e6, .pushed_bytes = 1e6, .gradient = i});
  variables.push_back({.pushed_bytes = 1e9, .gradient = 2});  // a moving average, which stays
  SketchedCluster cluster{
      .machines = 4, .workers = 4, .nic_bytes_per_s = 1e9, .gpu_link_bytes_per_s = 1e9, .period_s = 1e-4};
  cluster.window_steps = 20;
  cluster.ring = {.latency_s = 0.5e-3, .byte_s = 1e-9};
  const auto ms = [&] { return 1e3 * sketch_labels(kernels, variables, cluster)[at("step_time_s")]; };
  CHECK(ms() == doctest::Approx(7.5));  // the last one goes by itself, from 6 ms on
  const std::vector<double> labels = sketch_labels(kernels, variables, cluster);
  for (const char* rate : {"receive_mean_Bps", "transmit_mean_Bps"})
    CHECK(labels[at(rate)] == doctest::Approx(1.5 * 3e6 / 7.5e-3).epsilon(0.01));
  CHECK(1e3 * labels[at("gpu_idle_s")] == doctest::Approx(1.5));
  cluster.ring.bucket_bytes = 2e6;  // two at 4 ms, one at 6 ms, when the first bucket has 0.5 ms to go
  CHECK(ms() == doctest::Approx(8));
  cluster.ring.bucket_bytes = 1e9;  // all at 6 ms
  CHECK(ms() == doctest::Approx(9.5));
  cluster.ring.bucket_bytes = 0;
  cluster.ring.cycle_s = 5e-3;  // two at 5 ms, until 7.5 ms; the third at 10 ms
  CHECK(ms() == doctest::Approx(11.5));
  cluster.ring.cycle_s = 0;
  cluster.ring.waits_for_backward = true;  // from 6 ms on, each by itself
  CHECK(ms() == doctest::Approx(6 + 3 * 1.5));
  cluster.ring = {};  // 1.5 MB at 1 GB/s
  CHECK(ms() == doctest::Approx(7.5));
}

}  // namespace rehearse
