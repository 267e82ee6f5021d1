// Labels are what simulate writes of the same scenario.

#include "predictor/labels.hpp"

#include <doctest/doctest.h>

#include "predictor/dataset.hpp"
#include "predictor/described_step.hpp"
#include "sim/record/resource_profile.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

Json driple(const char* name, const char* synchronization) {
  Json json = load_json_file(source_folder() + "/scenarios/driple/" + name + ".json");
  json["workload"]["model"] = "cm-dare/resnet15";
  json["training"]["strategy"]["synchronization"] = synchronization;
  json["training"].erase("steps");
  json["training"]["steps_per_worker"] = 22;
  json["training"]["warmup_steps"] = 1;
  json["output"]["sampling_period"] = "2ms";
  return json;
}

Json of_file(const std::string& file) {
  Json json = load_json_file(source_folder() + "/scenarios/" + file);
  json["training"].erase("steps");
  json["training"]["steps_per_worker"] = 22;
  json["training"]["warmup_steps"] = 1;
  json["output"]["sampling_period"] = "2ms";
  return json;
}

}  // namespace

TEST_CASE("the columns of datasets keep their names and their order, by which files and predictors are read") {
  const auto joined = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
  };
  CHECK(joined(node_feature_names()) ==
        "kind phase flops bytes_read bytes_written parameter_bytes output_elements rows columns reduction products "
        "is_3x3_stride_1 variables variable statistics statistic statistic_bytes input_bytes");
  CHECK(joined(label_names()) ==
        "memory_idle_s memory_active_s memory_peak gpu_idle_s gpu_active_s gpu_peak receive_idle_s receive_active_s "
        "receive_peak_Bps transmit_idle_s transmit_active_s transmit_peak_Bps step_time_s receive_mean_Bps "
        "transmit_mean_Bps");
}

TEST_CASE("labels equal the profile and the step time of simulate, on SimGrid and with every step") {
  for (const char* name : {"01-v100-ps1-w2", "07-2080ti-ps2-w2", "12-2080ti-ps5-w5"})
    for (const char* synchronization : {"synchronous", "asynchronous"}) {
      CAPTURE(name);
      CAPTURE(synchronization);
      const Scenario scenario = test::resolved(driple(name, synchronization));
      const Json expected = test::in_child([&] {  // as sim/app does for bursts.csv and summary.json
        const RunRecord record = simulate(scenario, {.keeps_activity = true});
        const ResourceProfile profile = resource_profile(record, scenario.output.sampling_period);
        const BurstMetrics& chief = profile.bursts.front();
        Json values = Json::array();
        for (const Bursts* metric : {&chief.memory, &chief.gpu, &chief.receive, &chief.transmit})
          for (const double value : {metric->idle.value(), metric->active.value(), metric->peak})
            values.push_back(value);
        values.push_back(summarize(scenario, record).iteration_time.value());
        return values;
      });
      const std::vector<double> labels = simulate_labels(scenario);
      REQUIRE(labels.size() == label_names().size());
      const bool has_nic_traffic = std::string{name} != "01-v100-ps1-w2";
      for (std::size_t i = 0; i < 13; ++i) {
        CAPTURE(label_names()[i]);
        if (has_nic_traffic || i < 6 || i == 12)
          CHECK(labels[i] == doctest::Approx(expected[i].get<double>()).epsilon(1e-9));
      }
      CHECK(labels[13] > 0);
      CHECK(labels[14] > 0);
    }
}

TEST_CASE("in a cluster of one machine GPUs receive variables and samples, and send gradients") {
  // Of each of the two GPUs in a step: all trainable variables and the samples in; gradients and moving averages out.
  const Scenario scenario = test::resolved(driple("01-v100-ps1-w2", "synchronous"));
  const std::vector<double> labels = simulate_labels(scenario);
  const double in = as_double(scenario.workload.parameter_bytes() + scenario.workload.input_bytes);
  const double out = as_double(scenario.workload.variable_bytes());
  CHECK(labels[13] * labels[12] == doctest::Approx(2 * in).epsilon(0.05));  // whole samples, not whole steps
  CHECK(labels[14] * labels[12] == doctest::Approx(2 * out).epsilon(0.05));
}

TEST_CASE("a job of labels gives them to the last bit, and so do several in one, of which one may fail") {
  const Scenario scenario = test::resolved(driple("09-2080ti-ps4-w4", "asynchronous"));
  const std::string job = kLabels.job(scenario).text(), bad = kLabels.job(scenario, {{"colour", "red"}}).text();
  const Json done = Json::parse(run_job(job));
  CHECK(done["labels"].get<std::vector<double>>() == simulate_labels(scenario));
  CHECK(done["step"].get<std::vector<float>>() == numbers_of(describe_step(scenario)));
  const Json results = Json::parse(run_job(batch_of({job, bad, job}).text()));
  REQUIRE(results.size() == 3);
  CHECK(results[0]["result"] == run_job(job));
  CHECK(results[1]["error"] == "job: /options: unknown key \"colour\"; none is known here");
  CHECK(results[2] == results[0]);
}

TEST_CASE("a machine of a ring receives and sends 2 (p - 1) / p of the gradients in a step") {
  Json json = of_file("tum/tensorflow-ring.json");
  for (const int workers : {2, 4, 8}) {
    CAPTURE(workers);
    json["cluster"]["groups"][0]["count"] = workers;
    const Scenario scenario = test::resolved(json);
    const std::vector<double> labels = simulate_labels(scenario);
    const double bytes = 2.0 * (workers - 1) / workers * as_double(scenario.workload.parameter_bytes());
    for (const std::size_t direction : {13U, 14U})
      CHECK(labels[direction] * labels[12] == doctest::Approx(bytes).epsilon(0.01));  // whole samples, not whole steps
  }
}

TEST_CASE("the eight GPUs of one machine receive 2 (p - 1) / p of the gradients each, and what the protocol adds") {
  Json json = of_file("dlperf.json");
  json["cluster"]["groups"][0]["count"] = 1;
  json["training"]["step_time_variation"] = 0;
  const Scenario scenario = test::resolved(json);
  const double flags = scenario.profile.collectives.on("dgx-1-v100").protocols.at("Simple").efficiency;
  CHECK(flags < 1);
  const std::vector<double> labels = simulate_labels(scenario);
  const double bytes = 8 * (2.0 * 7 / 8) * as_double(scenario.workload.parameter_bytes()) / flags;
  for (const std::size_t direction : {13U, 14U})
    CHECK(labels[direction] * labels[12] == doctest::Approx(bytes).epsilon(0.02));
}

}  // namespace rehearse
