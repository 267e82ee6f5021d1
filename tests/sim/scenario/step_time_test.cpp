#include "sim/scenario/step_time.hpp"

#include <doctest/doctest.h>

#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// ResNet-50 on one V100, nobody to talk to.
Json lone_worker(int batch, int workers = 1) {
  Json scenario = parse_json(R"({ "format": 1, "name": "lone",
    "workload": { "model": "resnet50", "batch_per_worker": )" +
                                 std::to_string(batch) + R"( },
    "cluster": { "groups": [ { "name": "w", "role": "worker", "instance": "p3.2xlarge", "region": "us-east1", "count": )" +
                                 std::to_string(workers) + R"( } ] },
    "training": { "strategy": { "kind": "all_reduce", "overlap": "none" }, "steps": 20, "warmup_steps": 2 },
    "calibration": {} })",
                             "lone");
  // Collectives cost what links do.
  scenario["calibration"] = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  scenario["calibration"]["unstated"] = "ideal";
  return scenario;
}

StepTime measured(int batch, double seconds) {
  return {.model = "resnet50",
          .accelerator = "V100",
          .precision = "fp32",
          .framework = "",
          .gpus = 1,
          .batch = batch,
          .time = Seconds{seconds}};
}

double step_of(const Json& scenario, const std::vector<StepTime>& times, const std::string& framework = "") {
  return test::simulated(scenario,
                         [&](Scenario& s) {
                           s.profile.step_times = times;
                           s.framework = framework;
                         })
      .at("iteration_time_s")
      .get<double>();
}

double factor(int batch, const std::vector<StepTime>& times) {
  Scenario scenario = test::resolved(lone_worker(batch));
  scenario.profile.step_times = times;
  return step_time_factor(scenario, scenario.groups[0]).value();
}

}  // namespace

TEST_CASE("a lone worker's step lasts as long as measured") {
  CHECK(step_of(lone_worker(32), {measured(32, 0.1)}) == doctest::Approx(0.1).epsilon(1e-9));
  // The exchange comes on top, as long as without the measurement, which holds the copy of the input.
  const double modelled = step_of(lone_worker(32), {}), exchanging = step_of(lone_worker(32, 4), {});
  CHECK(step_of(lone_worker(32, 4), {measured(32, modelled)}) == doctest::Approx(exchanging).epsilon(1e-6));
}

TEST_CASE("a measured step may hold a copy of its input, which takes longer where GPUs share the way to the host") {
  // 32 images of 224 x 224 x 3 floats: 19.3 MB, at 1 GB/s.
  constexpr double kCopy = 32 * 224 * 224 * 3 * 4 / 1e9;
  Json scenario = lone_worker(32);
  scenario["workload"]["copies_input"] = true;
  scenario["cluster"]["groups"][0]["instance"] = parse_json(R"({ "vcpus": 8, "memory": "61GiB", "accelerator": "V100",
    "nic": "10Gbps", "interconnect": { "pcie": "10GBps", "pcie_root": "1GBps" }, "source": "test" })",
                                                            "instance");
  const std::vector<StepTime> times{measured(32, 0.1)};
  CHECK(step_of(scenario, times) == doctest::Approx(0.1).epsilon(1e-9));
  // Four GPUs copy together in four times the time; their all-reduce, far faster, comes on top in both cases.
  scenario["cluster"]["groups"][0]["instance"]["accelerators"] = 4;
  scenario["cluster"]["groups"][0]["instance"]["interconnect"]["nvswitch"] = "100TBps";
  const double together = step_of(scenario, times);
  CHECK(together == doctest::Approx(0.1 + 3 * kCopy).epsilon(1e-3));
  scenario["workload"]["copies_input"] = false;
  CHECK(step_of(scenario, times) == doctest::Approx(0.1).epsilon(1e-3));
}

TEST_CASE("a step time is of one model, GPU, precision and framework") {
  const Scenario scenario = test::resolved(lone_worker(32));
  const auto has_factor = [&](StepTime step) {
    Scenario changed = scenario;
    changed.profile.step_times = {step};
    return step_time_factor(changed, changed.groups[0]).has_value();
  };
  CHECK(has_factor(measured(32, 0.1)));
  for (const auto& change : std::vector<std::function<void(StepTime&)>>{
           [](StepTime& step) { step.model = "resnet101"; }, [](StepTime& step) { step.accelerator = "P100"; },
           [](StepTime& step) { step.precision = "fp16"; }, [](StepTime& step) { step.framework = "mxnet"; }}) {
    StepTime step = measured(32, 0.1);
    change(step);
    CHECK_FALSE(has_factor(step));
  }
  StepTime named = measured(32, 0.2);
  named.framework = "mxnet";
  CHECK(step_of(lone_worker(32), {measured(32, 0.1), named}, "mxnet") == doctest::Approx(0.2).epsilon(1e-9));
}

TEST_CASE("an update takes its accesses to memory, and is part of a measured step") {
  const Scenario scenario = test::resolved(lone_worker(32));
  const auto step = [](double accesses, const std::vector<StepTime>& times) {
    return test::simulated(lone_worker(32),
                           [&](Scenario& s) {
                             s.profile.gpu.update_accesses["momentum"] = accesses;
                             s.profile.gpu.memory_efficiency = 0.5;
                             s.profile.step_times = times;
                           })
        .at("iteration_time_s")
        .get<double>();
  };
  // 4 bytes per scalar, 10 times, at half of 900 GB/s
  const double update = 10 * as_double(scenario.workload.parameter_bytes()) / (0.5 * 900e9);
  CHECK(step(10, {}) - step(0, {}) == doctest::Approx(update).epsilon(1e-6));
  CHECK(step(10, {measured(32, 0.1)}) == doctest::Approx(0.1).epsilon(1e-9));
}

TEST_CASE("copies over PCIe reach the profile's share of its rate") {
  Json machine = lone_worker(32);
  machine["cluster"]["groups"][0]["instance"] = {
      {"name", "four"},    {"vcpus", 8},      {"memory", "64GiB"},           {"accelerator", "V100"},
      {"accelerators", 4}, {"nic", "10Gbps"}, {"interconnect", "pcie3-own"}, {"source", "test"}};
  machine["training"]["strategy"]["bucket_size"] = "4GiB";
  const auto step = [&](double efficiency) {
    return test::simulated(machine,
                           [&](Scenario& s) {
                             s.profile.collectives.otherwise.pcie_efficiency = efficiency;
                             s.profile.step_times = {measured(32, 0.1)};
                           })
        .at("iteration_time_s")
        .get<double>();
  };
  // a ring of four: 2 * 3 / 4 of the gradients over each link of 12 GB/s
  const double exchange = 1.5 * as_double(test::resolved(machine).workload.parameter_bytes()) / 12e9;
  CHECK(step(0.5) - step(1) == doctest::Approx(exchange).epsilon(1e-3));
}

TEST_CASE("between two measured batches the factor is interpolated, beyond them it stays") {
  const std::vector<StepTime> times{measured(16, 0.05), measured(64, 0.3)};
  const double low = factor(16, times), high = factor(64, times);
  CHECK(factor(32, times) == doctest::Approx((low + high) / 2).epsilon(1e-9));
  CHECK(factor(8, times) == doctest::Approx(low).epsilon(1e-9));
  CHECK(factor(128, times) == doctest::Approx(high).epsilon(1e-9));
}

TEST_CASE("what is computed again, and what other GPUs have of a layer, changes a measured step as a computed one") {
  const auto times = [](const std::string& recompute, int degree) {
    Json json = lone_worker(4, 2);
    json["workload"]["model"] = "gpt2";
    json["workload"]["recompute"] = recompute;
    json["training"]["strategy"]["tensor"] = {{"degree", degree}};
    Scenario scenario = test::resolved(json);
    const auto computed = plan_step(scenario, scenario.groups[0]).gpu_time;
    StepTime step = measured(4, 0.5);
    step.model = "gpt2";
    scenario.profile.step_times = {step};
    return std::pair{computed, plan_step(scenario, scenario.groups[0]).gpu_time};
  };
  const auto [computed, as_measured] = times("none", 1);
  for (const auto& [recompute, degree] : {std::pair{"full", 1}, std::pair{"none", 2}, std::pair{"full", 2}}) {
    const auto [other, its] = times(recompute, degree);
    CHECK(other != computed);
    CHECK(its / as_measured == doctest::Approx(other / computed).epsilon(1e-9));
  }
}

}  // namespace rehearse
