// What the network is told of a sample is what the simulator itself computes with.

#include "predictor/features.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/training/collective_time.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

Scenario driple(const std::string& name) {
  Json json = load_json_file(source_folder() + "/scenarios/driple/" + name + ".json");
  json["workload"]["model"] = "cm-dare/resnet15";
  return test::resolved(json);
}

/// A shipped scenario with another model, for as many steps as a sample of the reference space.
Json short_run(const std::string& name, const std::string& model) {
  Json json = load_json_file(source_folder() + "/scenarios/" + name + ".json");
  json["workload"]["model"] = model;
  json["training"]["steps"] = 22;
  json["output"]["sampling_period"] = "2ms";
  return json;
}

Dataset dataset_of(const Scenario& scenario) {
  Dataset data;
  data.node_features = node_feature_names();
  data.descriptors = descriptor_names();
  data.labels = label_names();
  data.settings.push_back({.name = "s", .group = "s", .provenance = "{}", .descriptor = descriptor_of(scenario)});
  data.graphs.push_back({.family = "f",
                         .name = "g",
                         .provenance = "{}",
                         .features = node_features_of(scenario.workload, scenario.optimizer),
                         .edges = edges_of(scenario.workload)});
  data.samples.push_back({.labels = std::vector<double>(data.labels.size(), 1.0)});
  return data;
}

double sum_of(const SampleFeatures& features, std::size_t cost) {
  double sum = 0;
  for (std::size_t i = cost; i < features.costs.size(); i += kCosts) sum += features.costs[i];
  return sum;
}

}  // namespace

TEST_CASE("the costs of a graph's kernels add up to the simulator's plan of a step") {
  for (const char* name : {"01-v100-ps1-w2", "07-2080ti-ps2-w2", "12-2080ti-ps5-w5"}) {
    CAPTURE(name);
    const Scenario scenario = driple(name);
    const Accelerator& gpu = *scenario.first_workers().accelerator;
    const ComputePlan plan = plan_compute(scenario.workload, gpu, scenario.peak_of(gpu), scenario.profile);
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    CHECK(sum_of(features, 0) == doctest::Approx(plan.gpu_time.value()).epsilon(1e-5));  // features are float32
    CHECK(sum_of(features, 1) == doctest::Approx(plan.memory_time.value()).epsilon(1e-5));
    double host = 0;
    for (const PlannedKernel& kernel : plan.kernels)
      host += std::max(kernel.time.total.value(), scenario.profile.host.dispatch.value());
    CHECK(sum_of(features, 2) == doctest::Approx(host).epsilon(1e-5));
  }
}

TEST_CASE("each variable crosses the link or is the chief's own, and costs its server once") {
  for (const char* name : {"01-v100-ps1-w2", "07-2080ti-ps2-w2", "12-2080ti-ps5-w5"}) {
    CAPTURE(name);
    const Scenario scenario = driple(name);
    const Dataset data = dataset_of(scenario);
    double bytes = 0, variables = 0;
    for (std::size_t i = 0; i < data.nodes(data.graphs[0]); ++i) {
      const float* x = data.graphs[0].features.data() + i * data.node_features.size();
      if (static_cast<OperatorKind>(static_cast<int>(x[0])) == OperatorKind::kUpdate) bytes += x[5], ++variables;
    }
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    const double link = features.bounds[8];  // of receive's peak
    const auto described = [&](const std::string& column) {
      const auto at = std::find(data.descriptors.begin(), data.descriptors.end(), column);
      return data.settings[0].descriptor[static_cast<std::size_t>(at - data.descriptors.begin())];
    };
    const bool is_one_machine = described("worker_machines") == 1;
    const double remote = described("workers") * (1 - 1 / described("worker_machines"));
    // what the chief's servers hold goes to the workers of the other machines, what others hold comes to the chief
    const double own = is_one_machine ? 0 : sum_of(features, 5) * link / remote;
    CHECK(sum_of(features, 3) * link + own == doctest::Approx(bytes).epsilon(1e-5));
    CHECK(sum_of(features, 6) >= sum_of(features, 5) * (1 - 1e-6));  // the busiest machine holds no less
    const ServerParameters& servers = scenario.profile.servers;
    CHECK(sum_of(features, 4) ==
          doctest::Approx(variables * servers.time_per_variable.value() + bytes * servers.time_per_byte.value())
              .epsilon(1e-5));
  }
}

TEST_CASE("the first guess is what the simulator finds, of synchronous and of asynchronous steps") {
  for (const char* name : {"01-v100-ps1-w2", "04-2080ti-ps1-w3", "07-2080ti-ps2-w2", "10-titanrtx-ps4-w4",
                           "12-2080ti-ps5-w5", "14-2080ti-ps5-w10"})
    for (const char* synchronization : {"synchronous", "asynchronous"}) {
      CAPTURE(name);
      CAPTURE(synchronization);
      Json json = short_run(std::string{"driple/"} + name, "resnet18");
      json["training"]["strategy"]["synchronization"] = synchronization;
      json["training"]["warmup_steps"] = 1;
      json["training"]["steps"] = 41;
      const Scenario scenario = test::resolved(json);
      const Dataset data = dataset_of(scenario);
      const std::vector<double> guess = FeatureReader{data}.read(data, data.samples[0]).guess;
      const std::vector<double> labels = simulate_labels(scenario);
      for (std::size_t l = 0; l < labels.size(); ++l) {
        CAPTURE(data.labels[l]);
        CHECK(guess[l] == doctest::Approx(labels[l]).epsilon(0.03));
      }
    }
}

TEST_CASE("gradients cross a ring once, nothing is pulled or served, and rates stay below the links' own") {
  for (const char* name : {"tum/tensorflow-ring", "tum/horovod-ring", "hkbu-bert-large", "dlperf", "dgx"}) {
    CAPTURE(name);
    Json json = short_run(name, "resnet50");
    json["workload"]["batch_per_worker"] = 32;
    json["training"]["step_time_variation"] = 0;
    const Scenario scenario = test::resolved(json);
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    // The others have a measured step time, which no operator knows, and protocols that send flags beside the payload.
    const bool is_simulated_as_sketched = std::string{name}.starts_with("tum/");
    const double beyond_latencies = (collective_time(scenario) - collective_time(scenario, Bytes{})).value();
    CHECK(2 * sum_of(features, 3) / beyond_latencies == doctest::Approx(1).epsilon(0.01));
    for (const std::size_t cost : {4U, 5U, 6U}) CHECK(sum_of(features, cost) == 0);
    const std::vector<double> labels = simulate_labels(scenario);
    for (std::size_t l = 0; l < labels.size(); ++l) {
      CAPTURE(label_names()[l]);
      if (features.bounds[l] > 0) CHECK(labels[l] <= features.bounds[l] * (1 + 1e-6));
    }
    if (!is_simulated_as_sketched) continue;
    CHECK(features.guess[12] / labels[12] == doctest::Approx(1).epsilon(0.02));
    CHECK(features.guess[13] / labels[13] == doctest::Approx(1).epsilon(0.02));
    CHECK(features.guess[14] / labels[14] == doctest::Approx(1).epsilon(0.02));
  }
}

TEST_CASE("a dataset from before all-reduce was described has parameter servers all the same") {
  Dataset data = dataset_of(driple("07-2080ti-ps2-w2"));
  const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
  const auto at = std::find(data.descriptors.begin(), data.descriptors.end(), "all_reduce_latency_s");
  data.settings[0].descriptor.resize(static_cast<std::size_t>(at - data.descriptors.begin()));
  data.descriptors.erase(at, data.descriptors.end());
  CHECK(FeatureReader{data}.read(data, data.samples[0]).costs == features.costs);
}

TEST_CASE("shares are bounded by 1, rates by the links, nothing else") {
  Dataset data = test::synthetic_dataset(2);
  const auto bounds = [&] { return FeatureReader{data}.read(data, data.samples[0]).bounds; };
  // Driple's twelve, step time, mean rates
  const double nic = 1.25e9;
  CHECK(bounds() == std::vector<double>{0, 0, 1, 0, 0, 1, 0, 0, nic, 0, 0, nic, 0, nic, nic});
  const auto set = [&](const char* name, double value) {
    const auto at = std::find(data.descriptors.begin(), data.descriptors.end(), name) - data.descriptors.begin();
    data.settings[0].descriptor[static_cast<std::size_t>(at)] = value;
  };
  set("worker_machines", 1);
  set("is_colocated", 1);
  set("gpus_per_machine", 2);
  CHECK(bounds()[8] == 2 * 12e9);  // everything goes over the PCIe links of one machine
}

TEST_CASE(
    "features have the announced sizes, finite numbers, and a dataset without a column that they need is refused") {
  Dataset data = test::synthetic_dataset(3);
  const FeatureReader reader{data};
  for (const Sample& sample : data.samples) {
    const std::size_t operators = data.nodes(data.graphs[static_cast<std::size_t>(sample.graph)]);
    const SampleFeatures features = reader.read(data, sample);
    CHECK(features.nodes.size() == operators * reader.node_inputs());
    CHECK(features.costs.size() == operators * kCosts);
    CHECK(features.totals.size() == reader.total_inputs());
    CHECK(features.bounds.size() == data.labels.size());
    for (const std::vector<float>& values : {features.nodes, features.costs, features.totals})
      for (const float value : values) CHECK(std::isfinite(value));
  }
  Dataset other = data;
  other.descriptors[0] = "something";
  CHECK_THROWS_AS(FeatureReader{other}, InputError);
  // A file may hold any finite numbers.
  const auto reads = [&](const Dataset& any) { return FeatureReader{any}.read(any, any.samples[0]).nodes.size(); };
  for (std::size_t column = 0; column < data.node_features.size(); ++column)
    for (const float value : {-2.0F, 3e38F}) {
      CAPTURE(data.node_features[column]);
      other = data;
      other.graphs[0].features[2 * data.node_features.size() + column] = value;  // of an update
      CHECK_THROWS_AS(reads(other), InputError);
    }
  other = data;
  other.graphs[0].features[data.node_features.size() - 1] = -1;  // a kernel that reads a variable, but none
  CHECK_THROWS_AS(reads(other), InputError);
  for (const char* name : {"workers", "servers", "worker_machines", "nic_Bps", "multiprocessors"}) {
    CAPTURE(name);
    const auto at = std::find(data.descriptors.begin(), data.descriptors.end(), name) - data.descriptors.begin();
    for (const double value : {-1.0, 1e300}) {
      other = data;
      other.settings[0].descriptor[static_cast<std::size_t>(at)] = value;
      CHECK_THROWS_AS(reads(other), InputError);
    }
  }
  other = data;
  other.node_features.pop_back();
  CHECK_THROWS_AS(FeatureReader{other}, InputError);
}

}  // namespace rehearse
