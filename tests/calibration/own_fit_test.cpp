// Fits to a few runs of one's own: values that made the runs are found, what they do not tell stays, bad tables are refused.

#include "calibration/own_fit.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "sim/base/files.hpp"
#include "sim/base/parse_quantity.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

const std::string kOwnFile = source_folder() + "/scenarios/own.json";

/// scenarios/cm-dare.json on so many K80: servers and workers that do not wait for one another.
Json servers_with(int gpus, const Json& profile) {
  Json scenario =
      test::shipped_scenario({{"/cluster/groups/1/count", std::to_string(gpus)}, {"/training/start_interval", "even"}});
  if (!profile.is_null()) scenario["calibration"] = profile;
  return scenario;
}

/// ResNet-50 on so many GPUs of DGX-1 whose steps vary.
Json varying(int gpus, double variation) {
  const Json dgx = load_json_file(source_folder() + "/scenarios/dgx.json");
  OwnFit fit;
  const Json profile = read_scenario(dgx, kOwnFile, test::shipped_catalog()).effective->at("calibration");
  fit.profile = profile.dump();
  fit.variation = variation;
  return own_scenario(dgx, kOwnFile, gpus, fit, test::shipped_catalog());
}

OwnRuns speeds_of(const std::vector<int>& sizes, const std::function<Json(int)>& scenario) {
  OwnRuns runs{.metric = "steps_per_s", .runs = {}, .file = source_folder() + "/scenarios/cm-dare.json", .remarks = {}};
  for (const int gpus : sizes)
    runs.runs.push_back({.gpus = gpus,
                         .settings = {},
                         .value = test::simulated(scenario(gpus))["steps_per_s"].get<double>(),
                         .place = "runs.csv:" + std::to_string(runs.runs.size() + 2)});
  return runs;
}

const OwnValue* find_value(const OwnFit& fit, const std::string& what) {
  for (const OwnValue& value : fit.values)
    if (value.what.find(what) != std::string::npos) return &value;
  return nullptr;
}

OwnRuns read_table(const std::string& text) { return own_runs_of(parse_csv(text, "runs.csv")); }

std::string refusal_of_table(const std::string& text) {
  return test::error_of([&] { (void)read_table(text); });
}

}  // namespace

TEST_CASE("own runs tell the step of a GPU and what servers take, and with them sizes that were not run") {
  Json truth = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  set_json_pointer(truth, "/gpu/peak_efficiency/K80", "0.5");
  const double per_byte = parse_seconds(truth["servers"]["time_per_byte"].get<std::string>()).value();
  set_json_pointer(truth, "/servers/time_per_byte", to_text(Seconds{2.5 * per_byte}));
  const auto true_run = [&](int gpus) { return servers_with(gpus, truth); };
  const OwnRuns runs = speeds_of({1, 2, 6, 10}, true_run);
  const Json scenario = servers_with(4, {});
  const OwnFit fit = fit_own_runs(scenario, kOwnFile, runs, test::shipped_catalog(), {.command = "test"});
  CHECK(fit.fit.in_sample.front().mape < 2);
  REQUIRE(find_value(fit, "/servers/time_per_byte") != nullptr);
  const OwnValue& bytes = *find_value(fit, "/servers/time_per_byte");
  CHECK(parse_seconds(bytes.low).value() < 2.5 * per_byte);
  CHECK(parse_seconds(bytes.high).value() > 2.5 * per_byte);
  REQUIRE(find_value(fit, "step of one K80") != nullptr);
  CHECK(find_value(fit, "step of one K80")->is_told);
  const double predicted =
      test::simulated(own_scenario(scenario, kOwnFile, 16, fit, test::shipped_catalog()))["steps_per_s"].get<double>();
  const double measured = test::simulated(true_run(16))["steps_per_s"].get<double>();
  const double by_profile = test::simulated(servers_with(16, {}))["steps_per_s"].get<double>();
  CHECK(std::abs(by_profile / measured - 1) > 0.3);  // what there is to be learnt
  CHECK(predicted == doctest::Approx(measured).epsilon(0.06));
  CHECK(fit.fit.cross_validated.size() == 1);  // four sizes
}

TEST_CASE("own runs that scale badly tell how much steps vary") {
  const OwnRuns runs = speeds_of({1, 2, 4, 8, 16}, [](int gpus) { return varying(gpus, 0.15); });
  const Json dgx = load_json_file(source_folder() + "/scenarios/dgx.json");
  const OwnFit fit = fit_own_runs(dgx, kOwnFile, runs, test::shipped_catalog(), {.command = "test"});
  CHECK(fit.variation == doctest::Approx(0.15).epsilon(0.35));
  CHECK(fit.fit.in_sample.front().mape < 3);
  const OwnFit none =
      fit_own_runs(dgx, kOwnFile, speeds_of({1, 2, 4, 8, 16}, [](int gpus) { return varying(gpus, 0); }),
                   test::shipped_catalog(), {.command = "test"});
  CHECK(none.variation == 0);
  CHECK(none.fit.in_sample.front().mape < 0.1);
}

TEST_CASE("one run tells one step, and says that it tells no more") {
  const OwnRuns runs = speeds_of({8}, [](int gpus) { return varying(gpus, 0); });
  const Json dgx = load_json_file(source_folder() + "/scenarios/dgx.json");
  const OwnFit fit = fit_own_runs(dgx, kOwnFile, runs, test::shipped_catalog(), {.command = "test"});
  CHECK(fit.fit.cross_validated.empty());
  REQUIRE(find_value(fit, "variation") != nullptr);
  CHECK_FALSE(find_value(fit, "variation")->is_told);
}

TEST_CASE("tables of own runs are read by their columns") {
  const OwnRuns runs =
      read_table("gpus,step_time_ms,batch_per_gpu,/workload/precision,who\n8,250,32,fp16,me\n16,260,,fp16,me\n");
  CHECK(runs.metric == "iteration_time_s");
  REQUIRE(runs.runs.size() == 2);
  CHECK(runs.runs[0].value == 0.25);
  CHECK(runs.runs[0].batch_per_gpu == 32);
  CHECK_FALSE(runs.runs[1].batch_per_gpu);
  CHECK(runs.runs[1].settings == decltype(runs.runs[1].settings){{"/workload/precision", "fp16"}});
  REQUIRE(runs.remarks.size() == 1);
  CHECK(runs.remarks[0].ends_with("columns that say nothing here are left out: who"));
}

TEST_CASE("a table of own runs that can be misunderstood is refused") {
  CHECK(
      refusal_of_table("gpus,samples_per_s,batch\n1,2,3\n") ==
      "runs.csv: column \"batch\": call it batch_per_gpu (samples of one GPU in a step) or global_batch (of all GPUs)");
  CHECK(refusal_of_table("gpus,speed\n1,2\n") ==
        "runs.csv: expected a column samples_per_s, steps_per_s, step_time_s or step_time_ms");
  CHECK(refusal_of_table("gpus,step_time_s,steps_per_s\n1,2,3\n") ==
        "runs.csv: expected one of the columns step_time_s and steps_per_s");
  CHECK(refusal_of_table("gpus,step_time_s,global_batch,batch_per_gpu\n1,2,3,3\n") ==
        "runs.csv: expected one of the columns global_batch and batch_per_gpu");
  CHECK(refusal_of_table("gpus,steps_per_s\n0,2\n") == "runs.csv:2: expected 1 to 1000000 GPUs; found 0");
  CHECK(refusal_of_table("gpus,steps_per_s\n1,-2\n") ==
        "runs.csv:2: expected a measured value of 1e-12 to 1e12; found -2");
  CHECK(refusal_of_table("gpus,steps_per_s,global_batch\n1,2,1.5\n") ==
        "runs.csv:2: expected 1 to 1000000000 samples; found 1.5");
}

TEST_CASE("own runs that the scenario cannot have are refused at their place") {
  const Json dgx = load_json_file(source_folder() + "/scenarios/dgx.json");
  const auto refusal_of_run = [&](const Json& scenario, OwnRun run) {
    run.place = "runs.csv:2";
    run.value = 1;
    const OwnRuns runs{.metric = "steps_per_s", .runs = {std::move(run)}, .file = kOwnFile, .remarks = {}};
    return test::error_of([&] { (void)fit_own_runs(scenario, kOwnFile, runs, test::shipped_catalog(), {}); });
  };
  CHECK(refusal_of_run(dgx, {.gpus = 12}) == "runs.csv:2: expected sizes of whole machines of 8 GPUs; found 12");
  CHECK(refusal_of_run(dgx, {.gpus = 8, .batch = 100}) ==
        "runs.csv:2: expected as many samples for each of the 8 GPUs; found a batch of 100");
  CHECK(refusal_of_run(servers_with(4, {}), {.gpus = 4, .batch = 64})
            .starts_with("runs.csv:2: workers that do not wait for one another have no global_batch"));
  CHECK(refusal_of_run(dgx, {.gpus = 8, .settings = {{"/workload/precision", "fp17"}}}).starts_with("runs.csv:2: "));
}

}  // namespace rehearse
