#include "sim/plan/diagnosis.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "sim/plan/slowdown.hpp"
#include "sim/scenario/step_time.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

const Changes kEightP100{{"/workload/model", "cm-dare/resnet15"},
                         {"/cluster/groups/1/instance", "gce-custom-8-p100"},
                         {"/cluster/groups/1/count", "8"},
                         {"/training/steps", "400"}};

Diagnosis diagnosed(const Changes& changes, double measured, Measured::Unit unit = Measured::Unit::kStepsPerSecond) {
  return *diagnose({.scenario = test::shipped_scenario(changes),
                    .file_name = source_folder() + "/scenarios/test.json",
                    .measured = {unit, measured}},
                   test::shipped_catalog(), 2);
}

bool adds_a_server(const Remedy& remedy) {
  return std::find(remedy.settings.begin(), remedy.settings.end(), "/cluster/groups/0/count=2") !=
         remedy.settings.end();
}

}  // namespace

TEST_CASE("CM-DARE's eight P100 and one server: the server is the bottleneck, a second one the remedy") {
  const Diagnosis diagnosis = diagnosed(kEightP100, 104);  // as measured
  CHECK(diagnosis.is_flagged);
  CHECK(diagnosis.finding == Finding::kExplained);
  CHECK(diagnosis.simulated.bottleneck_resource == "server_cpu");
  CHECK(diagnosis.verdict == "the run is as fast as simulated, so what limits it is what limits the simulated run: " +
                                 diagnosis.simulated.bottleneck);
  CHECK(diagnosis.explanations.empty());
  const auto plain = std::find_if(diagnosis.remedies.begin(), diagnosis.remedies.end(), [](const Remedy& remedy) {
    return remedy.settings.size() == 1 && adds_a_server(remedy);
  });
  REQUIRE(plain != diagnosis.remedies.end());
  // Measured with two servers: 176 steps/s, and the machines cost 1.8 % more.
  CHECK(plain->result->steps_per_s == doctest::Approx(176).epsilon(0.1));
  CHECK(*plain->cost_change == doctest::Approx((16.6459 / 16.3403) / (1 + *plain->simulated_gain) - 1).epsilon(0.02));
  CHECK(*plain->cost_change < -0.25);
  double last = 1e9;
  for (const Remedy& remedy : diagnosis.remedies) {
    if (!remedy.result) continue;
    CHECK(*remedy.simulated_gain >= 0.01);
    CHECK(*remedy.simulated_gain <= last);
    last = *remedy.simulated_gain;
  }
}

TEST_CASE("CM-DARE's four K80 have no bottleneck: no server helps, more or faster workers do") {
  const Diagnosis diagnosis = diagnosed({}, 18.14);  // as measured
  CHECK_FALSE(diagnosis.is_flagged);
  CHECK(diagnosis.finding == Finding::kExplained);
  CHECK(diagnosis.simulated.bottleneck_resource == "worker_gpu");
  for (const Remedy& remedy : diagnosis.remedies) CHECK_FALSE(adds_a_server(remedy));
  CHECK(std::any_of(diagnosis.remedies.begin(), diagnosis.remedies.end(), [](const Remedy& remedy) {
    return remedy.settings == std::vector<std::string>{"/cluster/groups/1/count=5"} &&
           std::abs(*remedy.simulated_gain - 0.25) < 0.02;
  }));
}

namespace {

/// Groups of four GPUs that hold a small transformer's layers, on two machines of as many.
Json of_global_batch(const Json& strategy) {
  Json scenario = test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}}, 4);
  scenario["workload"]["model"] = test::small_transformer();
  scenario["training"]["strategy"].update(strategy);
  scenario["training"]["steps"] = 3;
  return scenario;
}

Diagnosis diagnosed(const Json& scenario) {
  return *diagnose({.scenario = scenario, .file_name = "s.json", .measured = {Measured::Unit::kSamplesPerSecond, 1}},
                   test::shipped_catalog(), 2);
}

}  // namespace

TEST_CASE("a stated global batch stays what it is in remedies, whose settings give what they promise") {
  const Json scenario = of_global_batch({{"global_batch", 32}, {"tensor", {{"degree", 4}}}});
  const Diagnosis diagnosis = diagnosed(scenario);
  CHECK(diagnosis.by_addition.has_value());
  std::size_t followed = 0;
  for (const Remedy& remedy : diagnosis.remedies) {
    CAPTURE(remedy.change);
    CHECK(remedy.change.find("added up before") == std::string::npos);
    if (!remedy.result || remedy.settings.empty()) continue;
    Json changed = scenario;
    for (const std::string& setting : remedy.settings)
      set_json_pointer(changed, setting.substr(0, setting.find('=')), setting.substr(setting.find('=') + 1));
    const Json summary = test::simulated(changed);
    REQUIRE_FALSE(summary.contains("error"));
    CHECK(summary["steps_per_s"].get<double>() == doctest::Approx(remedy.result->steps_per_s).epsilon(1e-6));
    const double samples = remedy.change == "twice as many samples in a step" ? 64 : 32;
    CHECK(summary["samples_per_s"].get<double>() / summary["steps_per_s"].get<double>() ==
          doctest::Approx(samples).epsilon(1e-6));
    ++followed;
  }
  CHECK(followed >= 2);
}

TEST_CASE("a model that is on several machines has no speed of one alone") {
  const Diagnosis diagnosis =
      diagnosed(of_global_batch({{"tensor", {{"degree", 4}}}, {"pipeline", {{"stages", 2}, {"microbatches", 4}}}}));
  CHECK_FALSE(diagnosis.by_addition.has_value());
  CHECK_FALSE(diagnosis.is_flagged);
  CHECK(to_json(diagnosis).at("steps_per_s_by_addition").is_null());
}

TEST_CASE("a ratio of speeds is told in one way, wherever it stands") {
  CHECK(against_simulated(0.67) == "33.0 % slower than simulated");
  CHECK(against_simulated(1.5) == "50.0 % faster than simulated");
  CHECK(diagnosed({}, 12).verdict.starts_with("the run is " +
                                              against_simulated(12 / diagnosed({}, 12).simulated.steps_per_s)));
}

TEST_CASE("a run that is slower than simulated, as fast, or faster: one verdict each") {
  const Diagnosis slow = diagnosed({}, 12);
  CHECK(slow.is_flagged);  // as CM-DARE's rule would
  CHECK(slow.finding == Finding::kSlower);
  CHECK(
      slow.verdict.starts_with("the run is 32.8 % slower than simulated: something that is not in the simulation slows "
                               "it; the most plausible single cause is "));
  CHECK(slow.verdict.find("what limits the simulated run") == std::string::npos);
  // A step of 4 / 17.83 s has to last 4 / 12 s.
  const auto input = std::find_if(slow.explanations.begin(), slow.explanations.end(),
                                  [](const Explanation& e) { return e.mechanism == "input"; });
  REQUIRE(input != slow.explanations.end());
  REQUIRE(input->strength);
  CHECK((*input->strength - 1) * slow.simulated.iteration_time_s ==
        doctest::Approx(4 / 12.0 - slow.simulated.iteration_time_s).epsilon(0.05));
  const Diagnosis fast = diagnosed({}, 30);
  CHECK(fast.finding == Finding::kFaster);
  CHECK_FALSE(fast.is_flagged);
  CHECK(fast.explanations.empty());
  CHECK(fast.verdict.find("too pessimistic") != std::string::npos);
  CHECK(fast.verdict.find("slows the run") == std::string::npos);
}

TEST_CASE("a speed far above the interval is implausible, whatever the profile") {
  const Diagnosis simulated = diagnosed({}, 30);
  const double high =
      simulated.interval ? simulated.interval->second : (1 + kFlaggedShortfall) * simulated.simulated.steps_per_s;
  const Diagnosis below = diagnosed({}, 0.99 * kImplausiblyFaster * high),
                  above = diagnosed({}, 1.01 * kImplausiblyFaster * high);
  CHECK(below.finding == Finding::kFaster);
  CHECK(above.finding == Finding::kImplausible);
  CHECK(to_json(above).at("finding") == "implausible");
  CHECK(above.verdict.find("which is implausible: 2.02 times what the interval of 90 % allows") != std::string::npos);
  CHECK(above.verdict.find("too pessimistic") == std::string::npos);
}

namespace {

/// ResNet-50 on two machines of eight V100, whose steps in fp32 profile hkbu-ddl-benchmarks has measured.
Json measured_v100() {
  return Json::parse(R"({
    "format": 1, "name": "ResNet-50 on 16 V100",
    "workload": { "model": "resnet50", "batch_per_worker": 64, "optimizer": "sgd", "precision": "fp32" },
    "cluster": {
      "groups": [ { "name": "w", "role": "worker", "count": 2, "region": "r", "instance": {
        "source": "test", "vcpus": 64, "memory": "256GiB", "nic": "80Gbps", "accelerators": 8, "accelerator": "V100",
        "interconnect": "dgx-1-v100" } } ],
      "network": { "links": [ { "from": "r", "to": "r", "latency": "3us", "source": "assumption" } ] } },
    "training": { "strategy": { "kind": "all_reduce", "bucket_size": "25MiB" }, "steps": 8, "warmup_steps": 2 },
    "calibration": "hkbu-ddl-benchmarks"
  })");
}

Diagnosis diagnosis_of(const Json& scenario, double samples_per_s) {
  return *diagnose({.scenario = scenario,
                    .file_name = source_folder() + "/scenarios/test.json",
                    .measured = {Measured::Unit::kSamplesPerSecond, samples_per_s}},
                   test::shipped_catalog(), 2);
}

}  // namespace

TEST_CASE("half precision of a measured step gains what it does where both are computed, with an interval") {
  const Diagnosis diagnosis = diagnosis_of(measured_v100(), 4000);
  CHECK(diagnosis.simulated.step_source == "measured");
  const auto half = std::find_if(diagnosis.remedies.begin(), diagnosis.remedies.end(),
                                 [](const Remedy& remedy) { return remedy.change == "half precision"; });
  REQUIRE(half != diagnosis.remedies.end());
  CHECK(half->result->step_source == "estimated");
  REQUIRE(half->gain_interval);
  // In one framework a V100 is 2.2 to 3 times as fast in half precision (MXNet: 3.02, profile oneflow-dlperf). The
  // measured step against a computed one says 4.2 times.
  CHECK(*half->simulated_gain < 2.6);
  CHECK(half->gain_interval->first < 1.2);
  CHECK(half->gain_interval->second > 2);
  CHECK(half->note.find("steps of the run are measured, those of this remedy estimated") != std::string::npos);
  CHECK(to_json(diagnosis)["remedies"][0].contains("gain_low"));
  // What changes no source has neither note nor interval.
  for (const Remedy& remedy : diagnosis.remedies)
    if (remedy.change.starts_with("all-reduce as ")) CHECK(!remedy.gain_interval);
}

TEST_CASE("a run in the interval that is slower by a third is not as fast as simulated") {
  Json scenario = measured_v100();
  scenario["workload"]["precision"] = "fp16";
  const double simulated = diagnosis_of(scenario, 10000).simulated.samples_per_s;
  const Diagnosis slower = diagnosis_of(scenario, simulated * 0.67);
  REQUIRE(slower.interval);
  REQUIRE(slower.interval->first < slower.measured);
  CHECK(slower.finding == Finding::kUndecided);
  CHECK(slower.verdict.starts_with("the run is 33.0 % slower than simulated. That lies within the interval of 90 % ("));
  CHECK(slower.verdict.find("cannot tell whether something slows it") != std::string::npos);
  CHECK(!slower.explanations.empty());
  CHECK(diagnosis_of(scenario, simulated * 0.95).finding == Finding::kExplained);
  CHECK(diagnosis_of(scenario, simulated * 1.2).finding == Finding::kUndecided);
  CHECK(diagnosis_of(scenario, simulated * 1.2).explanations.empty());
}

TEST_CASE("a run that is as fast as simulated in fp32 is said to compute in fp32, where the scenario has 16 bits") {
  const auto of_precision = [](const Diagnosis& diagnosis) {
    return std::ranges::find(diagnosis.explanations, "precision", &Explanation::mechanism);
  };
  const Json full = measured_v100();
  Json half = full;
  half["workload"]["precision"] = "fp16";
  const double in_full = diagnosis_of(full, 4000).simulated.samples_per_s;

  const Diagnosis same = diagnosis_of(half, in_full);
  REQUIRE(of_precision(same) == same.explanations.begin());
  CHECK(of_precision(same)->speed == doctest::Approx(1));
  CHECK(*of_precision(same)->strength == doctest::Approx(same.simulated.samples_per_s / in_full));
  CHECK(same.verdict.find("the most plausible single cause is computing in fp32 instead of fp16 (") !=
        std::string::npos);

  const Diagnosis slower = diagnosis_of(half, in_full * 0.8), faster = diagnosis_of(half, in_full * 1.25);
  REQUIRE(of_precision(slower) != slower.explanations.end());
  CHECK(!of_precision(slower)->strength);  // not enough
  CHECK(of_precision(faster) == faster.explanations.end());
  const Diagnosis in_fp32 = diagnosis_of(full, in_full * 0.5);
  CHECK(of_precision(in_fp32) == in_fp32.explanations.end());
}

TEST_CASE("a measured speed in samples, or as the time of a step, says the same as in steps") {
  const Diagnosis steps = diagnosed({}, 18);
  const Diagnosis samples = diagnosed({}, 18 * 128, Measured::Unit::kSamplesPerSecond);
  const Diagnosis time = diagnosed({}, 4 / 18.0, Measured::Unit::kStepTime);
  CHECK(samples.measured == doctest::Approx(18));
  CHECK(samples.measured_samples_per_s == doctest::Approx(18 * 128));
  CHECK(time.measured == doctest::Approx(18).epsilon(0.02));
  CHECK(to_json(samples)["remedies"] == to_json(steps)["remedies"]);
}

TEST_CASE("a change that is refused is listed with its reason, in one line") {
  // A batch of 512 fills most of a K80, twice as much does not fit.
  const Diagnosis diagnosis = diagnosed({{"/workload/batch_per_worker", "2000"}}, 2);
  const auto doubled = std::find_if(diagnosis.remedies.begin(), diagnosis.remedies.end(), [](const Remedy& remedy) {
    return remedy.change == "twice the batch of each worker";
  });
  REQUIRE(doubled != diagnosis.remedies.end());
  CHECK(!doubled->result);
  CHECK(doubled->error.find("memory") != std::string::npos);
  CHECK(doubled->error.find('\n') == std::string::npos);
}

TEST_CASE("workers that wait for one another are as fast as the slowest alone, not as their sum") {
  const Changes two_kinds{{"/cluster/groups", R"([
      {"name": "ps", "role": "parameter_server", "instance": "gce-custom-4", "region": "us-west1"},
      {"name": "slow", "role": "worker", "instance": "gce-custom-4-k80", "count": 2, "region": "us-west1"},
      {"name": "fast", "role": "worker", "instance": "gce-custom-8-p100", "count": 2, "region": "us-west1"}])"}};
  Changes together = two_kinds;
  together.emplace_back("/training/strategy/synchronization", "synchronous");
  const double sum = diagnosed(two_kinds, 4).by_addition.value(), slowest = diagnosed(together, 4).by_addition.value();
  CHECK(sum == doctest::Approx(2 * 4.46 + 2 * 11.5).epsilon(0.1));
  CHECK(slowest == doctest::Approx(4.46).epsilon(0.1));
}

TEST_CASE("with backup workers one machine alone has a step of its own, as there is no other to wait for") {
  const Diagnosis diagnosis = diagnosed({{"/training/strategy/synchronization", "\"synchronous\""},
                                         {"/training/strategy/backup_workers", "1"},
                                         {"/training/recovery", R"({"minimum_workers": 4})"},
                                         {"/training/steps", "200"}},
                                        3);
  CHECK(diagnosis.by_addition.value() == doctest::Approx(18.14 / 4).epsilon(0.1));
}

TEST_CASE("a run on several machines can be told to use another all-reduce, in the units of the command line") {
  const Diagnosis diagnosis =
      diagnosed({{"/training/strategy", R"({"kind": "all_reduce", "algorithm": "ring", "overlap": "none"})"},
                 {"/cluster/groups", R"([{"name": "w", "role": "worker", "instance": "gce-custom-8-p100", "count": 8,
                               "region": "us-west1"}])"},
                 {"/workload/model", "cm-dare/shake_big"},
                 {"/training/steps", "20"}},
                1);
  CHECK(std::any_of(diagnosis.remedies.begin(), diagnosis.remedies.end(), [](const Remedy& remedy) {
    return remedy.settings == std::vector<std::string>{"/training/strategy/overlap=backward"};
  }));
}

TEST_CASE("a speed that cannot have been measured is refused") {
  CHECK_THROWS_WITH_AS((void)diagnosed({}, 0), "--measured-speed: expected 1e-12 to 1e12; found 0", InputError);
  CHECK_THROWS_AS((void)diagnosed({}, 1e308), InputError);
}

TEST_CASE("the job of a scenario that is made worse gives the summary of that scenario") {
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/training/steps", "40"}}));
  for (const Mechanism& mechanism : list_mechanisms(scenario)) {
    CAPTURE(mechanism.name);
    const auto results = run_isolated(2, 2, [&](std::size_t i) {
      if (i == 0) return summary_text(made_worse(scenario, mechanism.name, 3, Seconds{0.2}));
      return run_job(
          kSimulateWorse.job(scenario, {{"mechanism", mechanism.name}, {"strength", 3}, {"step_s", 0.2}}).text());
    });
    CHECK(results[0].has_succeeded);
    CHECK(results[1].text == results[0].text);
  }
  CHECK_THROWS_WITH(
      run_job(kSimulateWorse.job(scenario, {{"mechanism", "luck"}, {"strength", 3}, {"step_s", 0.2}}).text()),
      "unknown mechanism \"luck\"");
}

TEST_CASE("kernels from data sheets take as many times as long on a slower GPU") {
  const Scenario scenario = test::resolved(load_json_file(source_folder() + "/scenarios/data-sheet.json"));
  const Scenario slower = made_worse(scenario, "gpu", 2, Seconds{1});
  const auto gpu_time = [](const Scenario& s) { return plan_step(s, s.groups[0]).gpu_time.value(); };
  CHECK(gpu_time(slower) == doctest::Approx(2 * gpu_time(scenario)).epsilon(1e-6));
}

}  // namespace rehearse
