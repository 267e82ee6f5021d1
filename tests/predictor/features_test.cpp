// What the network is told of a sample is what the simulator itself computes with.

#include "predictor/features.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "predictor/labels.hpp"
#include "predictor/undescribed.hpp"
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
                         .features = node_features_of(scenario),
                         .edges = edges_of(scenario.workload)});
  data.samples.push_back({.labels = std::vector<double>(data.labels.size(), 1.0)});
  return data;
}

/// Of a column of the timeline.
double sum_of(const SampleFeatures& features, std::size_t column) {
  double sum = 0;
  for (std::size_t i = column; i < features.timeline.size(); i += kTimelineInputs) sum += features.timeline[i];
  return sum * features.bounds.all();
}

}  // namespace

TEST_CASE("no step is shorter than its bounds, and they are what the simulator computes with") {
  for (const char* name : {"01-v100-ps1-w2", "04-2080ti-ps1-w3", "07-2080ti-ps2-w2", "10-titanrtx-ps4-w4",
                           "12-2080ti-ps5-w5", "13-v100-ps5-w10"}) {
    CAPTURE(name);
    Json json = short_run(std::string{"driple/"} + name, "resnet18");
    json["training"]["strategy"]["synchronization"] = "synchronous";
    const Scenario scenario = test::resolved(json);
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    const ComputePlan plan = plan_compute(scenario.workload, *scenario.first_workers().accelerator,
                                          scenario.peak_of(*scenario.first_workers().accelerator), scenario.profile);
    CHECK(features.bounds.compute ==
          doctest::Approx((end_of_kernels(plan) + plan.step_overhead).value()).epsilon(1e-6));
    CHECK(sum_of(features, 9) == doctest::Approx(plan.gpu_time.value()).epsilon(1e-5));
    CHECK(sum_of(features, 10) == doctest::Approx(plan.memory_time.value()).epsilon(1e-5));
    const std::vector<double> labels = simulate_labels(scenario);
    CHECK(labels[12] >= features.bounds.all() * (1 - 1e-6));
    // What crosses the chief's links in a step is what is received and sent in a step's time.
    CHECK(labels[13] * labels[12] == doctest::Approx(features.bases[13] * features.bounds.all()).epsilon(0.02));
    CHECK(labels[14] * labels[12] == doctest::Approx(features.bases[14] * features.bounds.all()).epsilon(0.02));
  }
}

TEST_CASE("of an all-reduce in one bucket the bound is what the collective takes, and nothing is served") {
  for (const char* name : {"tum/tensorflow-ring", "tum/horovod-ring", "hkbu-bert-large", "dlperf", "dgx"}) {
    CAPTURE(name);
    Json json = short_run(name, "resnet50");
    json["workload"]["batch_per_worker"] = 32;
    json["training"]["step_time_variation"] = 0;
    json["training"]["strategy"].erase("cycle_time");
    json["training"]["strategy"]["bucket_size"] = "1GiB";
    const Scenario scenario = test::resolved(json);
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    CHECK(features.bounds.link == doctest::Approx(collective_time(scenario).value()).epsilon(0.01));
    CHECK(features.bounds.core == 0);
    CHECK(features.servers.empty());
    CHECK(features.placed.empty());
    const std::vector<double> labels = simulate_labels(scenario);
    for (std::size_t l = 0; l < labels.size(); ++l) {
      CAPTURE(label_names()[l]);
      if (features.limits[l] > 0) CHECK(labels[l] <= features.limits[l] * (1 + 1e-6));
    }
  }
}

TEST_CASE("what strategies do to gradients is what the simulator sends, and no step is shorter than its bounds") {
  const std::string synchronous = R"({"kind": "parameter_server", "synchronization": "synchronous", )";
  const std::string ring = R"({"kind": "all_reduce", )";
  struct Case {
    const char* scenario;
    std::string strategy;
  };
  for (const auto& [name, how] : std::vector<Case>{
           {"driple/07-2080ti-ps2-w2", synchronous + R"("placement": "round_robin", "partition_size": "1MiB"})"},
           {"driple/07-2080ti-ps2-w2", synchronous + R"("placement": "sharded"})"},
           {"driple/12-2080ti-ps5-w5", synchronous + R"("placement": "sharded", "gradient_precision": "fp16"})"},
           {"driple/12-2080ti-ps5-w5", synchronous + R"("placement": "greedy_by_bytes", "partition_size": "4MiB"})"},
           {"driple/11-v100-ps5-w5", synchronous + R"("placement": "round_robin", "gradient_precision": "fp16"})"},
           {"driple/11-v100-ps5-w5", synchronous + R"("placement": "round_robin", "accumulation_steps": 3})"},
           {"tum/tensorflow-ring", ring + R"("algorithm": "binary_tree"})"},
           {"tum/tensorflow-ring", ring + R"("algorithm": "ring", "gradient_precision": "fp16"})"},
           {"tum/horovod-ring", ring + R"("algorithm": "hierarchical", "accumulation_steps": 2})"},
           {"hkbu-bert-large", ring + R"("algorithm": "binary_tree", "bucket_size": "25MiB"})"}}) {
    CAPTURE(name);
    CAPTURE(how);
    CAPTURE(std::string{name});
    Json json = short_run(name, "resnet18");
    json["workload"]["batch_per_worker"] = 16;
    json["training"]["strategy"] = parse_json(how, "strategy");
    const Scenario scenario = test::resolved(json);
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    const std::vector<double> labels = simulate_labels(scenario);
    CHECK(labels[12] >= features.bounds.all() * (1 - 1e-6));
    CHECK(labels[13] * labels[12] == doctest::Approx(features.bases[13] * features.bounds.all()).epsilon(0.03));
    CHECK(labels[14] * labels[12] == doctest::Approx(features.bases[14] * features.bounds.all()).epsilon(0.03));
  }
}

TEST_CASE("machines of two kinds, workers of several GPUs and fabrics are what the simulator runs on") {
  const std::string group =
      R"({"name": "others", "role": "worker", "region": "lab", "count": 2, "instance": {"vcpus": 16,
    "memory": "128GiB", "accelerator": "K80", "accelerators": 1, "nic": "2Gbps", "interconnect": "pcie3-own", "source": "test"}})";
  const std::string asynchronous = R"({"kind": "parameter_server", "synchronization": "asynchronous"})";
  const std::string synchronous = R"({"kind": "parameter_server", "synchronization": "synchronous"})";
  struct Case {
    std::string what, servers, strategy;
    bool has_others, has_fabric;
    int workers_per_machine;
  };
  for (const Case& of :
       std::vector<Case>{{"two kinds, own servers", "own", synchronous, true, false, 2},
                         {"two kinds, servers beside the first", "beside", synchronous, true, false, 2},
                         {"two kinds that do not wait", "own", asynchronous, true, false, 2},
                         {"two kinds in a ring", "",
                          R"({"kind": "all_reduce", "algorithm": "ring", "overlap": "none"})", true, false, 2},
                         {"two GPUs a worker", "own", synchronous, false, false, 1},
                         {"two GPUs a worker, on one machine", "alone", synchronous, false, false, 1},
                         {"fat tree", "own", synchronous, false, true, 2}}) {
    CAPTURE(of.what);
    Json json = short_run(of.servers.empty() ? "tum/horovod-ring" : "driple/01-v100-ps1-w2", "resnet18");
    Json& groups = json["cluster"]["groups"];
    groups[0]["count"] = of.servers == "alone" ? 1 : 2;
    groups[0]["instance"]["accelerators"] = 2;
    groups[0]["instance"]["interconnect"] = "pcie3-own";
    if (!of.servers.empty()) groups[0]["workers_per_machine"] = of.workers_per_machine;
    if (of.servers == "own") {
      groups[1].erase("colocated_with");
      groups[1]["region"] = "lab";
      groups[1]["instance"] =
          parse_json(R"({"vcpus": 16, "memory": "64GiB", "nic": "1Gbps", "source": "test"})", "instance");
    }
    if (of.has_others) groups.push_back(parse_json(group, "group"));
    if (of.has_fabric)
      json["cluster"]["network"].update(
          parse_json(R"({"topology": "fat_tree", "machines_per_leaf": 2, "oversubscription": 4})", "network"));
    json["training"]["strategy"] = parse_json(of.strategy, "strategy");
    if (of.strategy == asynchronous) json["training"]["start_interval"] = "0s";
    const Scenario scenario = test::resolved(json);
    REQUIRE(!undescribed(scenario));
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    const std::vector<double> labels = simulate_labels(scenario);
    CAPTURE(features.bounds.compute);
    CAPTURE(features.bounds.link);
    CAPTURE(features.bounds.core);
    CAPTURE(features.bounds.chain);
    CHECK(labels[12] >= features.bounds.all() * (1 - 1e-6));
    CHECK(labels[12] <= 2.5 * features.bounds.all());
    if (of.strategy != asynchronous) {
      CHECK(labels[13] * labels[12] == doctest::Approx(features.bases[13] * features.bounds.all()).epsilon(0.03));
      CHECK(labels[14] * labels[12] == doctest::Approx(features.bases[14] * features.bounds.all()).epsilon(0.03));
    }
    const std::size_t machines = features.machines.size() / kMachineInputs;
    CHECK(machines == (of.servers == "alone" ? 1 : 2) + (of.has_others ? 2 : 0) + (of.servers == "own" ? 1 : 0));
    if (of.has_others)  // the third machine is slower
      CHECK(features.machines[3 * kMachineInputs - 1] > features.machines[kMachineInputs - 1]);
  }
}

TEST_CASE("where kernels take what a profile's formulas say, so does the compute bound") {
  for (const char* model : {"resnet50", "bert_base"}) {
    CAPTURE(std::string{model});
    const Scenario scenario = test::resolved(short_run("data-sheet", model));
    REQUIRE(scenario.profile.kernels);
    const Dataset data = dataset_of(scenario);
    const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
    CHECK(simulate_labels(scenario)[12] == doctest::Approx(features.bounds.compute).epsilon(0.03));
  }
}

TEST_CASE("without overlap a step of a ring takes the kernels and then the collectives") {
  Json json = short_run("tum/tensorflow-ring", "resnet50");
  json["training"]["strategy"] = parse_json(
      R"({"kind": "all_reduce", "algorithm": "ring", "overlap": "none", "bucket_size": "16MiB"})", "strategy");
  const Scenario scenario = test::resolved(json);
  const Dataset data = dataset_of(scenario);
  const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
  CHECK(features.bounds.chain == doctest::Approx(features.bounds.compute + features.bounds.link).epsilon(1e-6));
  CHECK(simulate_labels(scenario)[12] == doctest::Approx(features.bounds.chain).epsilon(0.01));
}

TEST_CASE("edges say where variables are read, completed and kept") {
  const Scenario scenario = driple("07-2080ti-ps2-w2");
  const Dataset data = dataset_of(scenario);
  const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
  const std::size_t variables = features.variables.size() / kVariableInputs;
  CHECK(features.placed.size() == variables);
  CHECK(features.servers.size() == 2 * kServerInputs);
  CHECK(features.machines.size() == 2 * kMachineInputs);
  CHECK(features.hosted == NodeLinks{{0, 0}, {1, 1}});
  for (const auto& [variable, server] : features.placed) CHECK(server == variable % 2);  // in turn
  // Gradients are complete in the opposite order of what the forward pass reads.
  CHECK(features.needed.front() < features.needed[variables - 2]);
  CHECK(features.ready.front() > features.ready[variables - 2]);

  const SampleFeatures shuffled = FeatureReader{data, Ablation::kEdges}.read(data, data.samples[0]);
  CHECK(shuffled.reads != features.reads);
  CHECK(shuffled.reads.size() == features.reads.size());
  CHECK(shuffled.operators == features.operators);
  // The nodes are the same, and what the step cannot go below; not what follows what, where much comes and goes.
  CHECK(shuffled.bounds.compute == features.bounds.compute);
  CHECK(shuffled.bounds.link == features.bounds.link);
  CHECK(FeatureReader{data, Ablation::kEdges}.read(data, data.samples[0]).reads == shuffled.reads);
  const SampleFeatures unbounded = FeatureReader{data, Ablation::kBounds}.read(data, data.samples[0]);
  CHECK(unbounded.bases[12] == 1);
  CHECK(unbounded.totals[0] == 0);
}

TEST_CASE("servers stand machine by machine") {
  Json json = load_json_file(source_folder() + "/scenarios/driple/07-2080ti-ps2-w2.json");
  json["workload"]["model"] = "cm-dare/resnet15";
  json["cluster"]["groups"][1]["count"] = 5;
  const Scenario scenario = test::resolved(json);
  const Dataset data = dataset_of(scenario);
  CHECK(FeatureReader{data}.read(data, data.samples[0]).hosted == NodeLinks{{0, 0}, {1, 0}, {2, 0}, {3, 1}, {4, 1}});
}

TEST_CASE("a dataset from before all-reduce was described has parameter servers all the same") {
  Dataset data = dataset_of(driple("07-2080ti-ps2-w2"));
  const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
  const auto at = std::find(data.descriptors.begin(), data.descriptors.end(), "all_reduce_latency_s");
  data.settings[0].descriptor.resize(static_cast<std::size_t>(at - data.descriptors.begin()));
  data.descriptors.erase(at, data.descriptors.end());
  CHECK(FeatureReader{data}.read(data, data.samples[0]).timeline == features.timeline);
}

TEST_CASE("shares are limited by 1, peaks of traffic by the links, nothing else") {
  Dataset data = test::synthetic_dataset(2);
  const auto limits = [&] { return FeatureReader{data}.read(data, data.samples[0]).limits; };
  // Driple's twelve, step time, mean rates
  const double nic = 1.25e9;
  CHECK(limits() == std::vector<double>{0, 0, 1, 0, 0, 1, 0, 0, nic, 0, 0, nic, 0, 0, 0});
  const auto set = [&](const char* name, double value) {
    const auto at = std::find(data.descriptors.begin(), data.descriptors.end(), name) - data.descriptors.begin();
    data.settings[0].descriptor[static_cast<std::size_t>(at)] = value;
  };
  set("worker_machines", 1);
  set("is_colocated", 1);
  set("gpus_per_machine", 2);
  CHECK(limits()[8] == 2 * 12e9);  // everything goes over the PCIe links of one machine
}

TEST_CASE(
    "features have the announced sizes, finite numbers, and a dataset without a column that they need is refused") {
  Dataset data = test::synthetic_dataset(3);
  const FeatureReader reader{data};
  for (const Sample& sample : data.samples) {
    const std::size_t operators = data.nodes(data.graphs[static_cast<std::size_t>(sample.graph)]);
    const SampleFeatures features = reader.read(data, sample);
    CHECK(features.operators.size() == features.kinds.size() * kOperatorInputs);
    CHECK(features.kinds.size() + features.variables.size() / kVariableInputs == operators);  // an update of each
    CHECK(features.totals.size() == reader.total_inputs());
    CHECK(features.bases.size() == data.labels.size());
    for (const std::vector<float>& values : {features.operators, features.variables, features.servers,
                                             features.machines, features.timeline, features.totals})
      for (const float value : values) CHECK(std::isfinite(value));
  }
  Dataset other = data;
  other.descriptors[0] = "something";
  CHECK_THROWS_AS(FeatureReader{other}, InputError);
  // A file may hold any finite numbers.
  const auto reads = [&](const Dataset& any) { return FeatureReader{any}.read(any, any.samples[0]).operators.size(); };
  for (std::size_t column = 0; column < data.node_features.size(); ++column)
    for (const float value : {-2.0F, 3e38F}) {
      CAPTURE(data.node_features[column]);
      other = data;
      other.graphs[0].features[2 * data.node_features.size() + column] = value;  // of an update
      CHECK_THROWS_AS(reads(other), InputError);
    }
  other = data;
  for (std::size_t node = 0; node < other.nodes(other.graphs[0]); ++node) {
    float* const row = other.graphs[0].features.data() + node * data.node_features.size();
    if (row[0] != static_cast<float>(OperatorKind::kUpdate)) row[12] = 1e5F, row[13] = 0;
  }
  for (int i = 0; i < 3; ++i) {  // more of the same: each reads 100000 variables
    const std::vector<float> once = other.graphs[0].features;
    other.graphs[0].features.insert(other.graphs[0].features.end(), once.begin(), once.end());
  }
  CHECK_THROWS_WITH_AS(reads(other), doctest::Contains("read too many variables"), InputError);
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
