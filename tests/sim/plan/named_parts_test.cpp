// What a verdict names is what limits the step: with that resource twice as fast the step gets shorter.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "sim/plan/slowdown.hpp"
#include "sim/record/step_parts.hpp"
#include "sim/record/summary.hpp"
#include "tests/support/from_environment.hpp"
#include "tests/support/random_scenario.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

constexpr double kNamed = 0.1;  // shares that the verdict's text names

/// What makes a part's resource twice as fast (made_worse()); none of parts that are no resource.
std::vector<std::string> mechanisms_of(const std::string& part) {
  static const std::map<std::string, std::vector<std::string>> all{
      {"worker_gpu", {"gpu"}},        {"kernel_launch", {"launch"}},
      {"worker_update", {"gpu"}},     {"update_dispatch", {"host"}},
      {"host_update", {"host"}},      {"worker_host", {"host"}},
      {"host_copies", {"links"}},     {"input_copy", {"links"}},
      {"input_load", {"host"}},       {"pcie", {"links"}},
      {"server_cpu", {"servers"}},    {"server_nic", {"network"}},
      {"worker_nic", {"network"}},    {"connection", {"network"}},
      {"link", {"links", "network"}}, {"network", {"network", "links"}},
      {"latency", {"latency"}}};
  const auto found = all.find(part);
  return found == all.end() ? std::vector<std::string>{} : found->second;
}

Summary summary_of(const Scenario& scenario) { return summarize(scenario, simulate(scenario)); }

/// Of each part that is named: by how much the step gets shorter.
Json gains(const Scenario& scenario) {
  Json gains = Json::array();
  const Summary before = summary_of(scenario);
  for (const StepPart& part : before.verdict.parts) {
    std::vector<std::string> mechanisms = mechanisms_of(part.part);
    if (part.share < kNamed || mechanisms.empty()) continue;
    if (part.remedy.starts_with("faster ones alone would wait")) continue;  // as the verdict says
    if (part.remedy.find("is as busy") != std::string::npos) mechanisms = {"network", "links"};
    Scenario better = scenario;
    for (const std::string& mechanism : mechanisms) better = made_worse(std::move(better), mechanism, 0.5, Seconds{});
    const Summary after = summary_of(better);
    gains.push_back({part.part, part.share, 1 - after.iteration_time / before.iteration_time, part.remedy,
                     scenario.training.strategy.is_synchronous()});
  }
  return gains;
}

/// Where orders may change with dates, and with them everything (Graham's anomalies): with cycles, with steps that begin
/// while messages of others are under way, with noise.
bool has_anomalies(const Json& scenario) {
  const Json& training = scenario["training"];
  const Json& strategy = training["strategy"];
  return strategy.contains("cycle_time") || strategy.value("overlap", "") == "forward" ||
         training.value("step_time_variation", 0.0) > 0;
}

}  // namespace

TEST_CASE("in random scenarios the step gets shorter with each named part's resource twice as fast") {
  const std::uint64_t first = test::from_environment("REHEARSE_FIRST_SEED", 1);
  const std::uint64_t count = test::from_environment("REHEARSE_PAIRS", 120);
  const auto results = run_isolated(count, 2, [first](std::size_t i) {
    const Json scenario = test::ScenarioGenerator{first + i}.generate();
    return has_anomalies(scenario) ? "[]" : gains(test::resolved(scenario)).dump();
  });
  int checked = 0, of_asynchronous = 0, exceptions = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t seed = first + i;
    CAPTURE(seed);
    REQUIRE_MESSAGE(results[i].has_succeeded, results[i].text);
    for (const Json& part : Json::parse(results[i].text)) {
      CAPTURE(part.dump());
      ++checked;
      if (!part[4].get<bool>()) {  // who meets whom changes: a faster GPU may meet more
        ++of_asynchronous;
        exceptions += part[2].get<double>() > 1e-6 ? 0 : 1;
        continue;
      }
      CHECK(part[2].get<double>() > 1e-6);
    }
  }
  CHECK(exceptions <= 0.1 * of_asynchronous);
  MESSAGE(checked << " named parts, " << of_asynchronous << " of asynchronous workers, of which " << exceptions
                  << " do not get shorter");
}

TEST_CASE("with profiles of real machines the step gets shorter with each named part's resource twice as fast") {
  struct Case {
    const char* file;
    std::vector<std::pair<std::string, std::string>> changes;
  };
  const std::vector<Case> cases{
      {"cm-dare.json", {{"/training/steps", "40"}}},
      {"cm-dare.json",
       {{"/training/steps", "100"}, {"/cluster/groups/1/count", "8"}, {"/workload/batch_per_worker", "16"}}},
      {"cm-dare.json", {{"/training/steps", "40"}, {"/training/strategy/synchronization", "synchronous"}}},
      {"data-sheet.json", {}},
      {"data-sheet.json", {{"/workload/batch_per_worker", "1"}}},
      {"data-sheet.json", {{"/workload/batch_per_worker", "1"}, {"/workload/optimizer", "adam"}}},
      {"data-sheet.json",
       {{"/workload/model", "bert_base"}, {"/workload/batch_per_worker", "1"}, {"/workload/precision", "fp16"}}},
      {"dgx.json", {}},
      {"dgx.json", {{"/calibration", "kernels"}}},
      {"dlperf.json", {}},
      {"hkbu-bert-large.json", {}},
      {"hkbu-byteps.json", {{"/training/steps", "6"}}},
      {"mxnet-ps.json", {}},
      {"pollux.json", {}},
      {"resnet50-ec2.json", {}},
      {"tensorflow-ps.json", {}},
      {"tum/horovod-ring.json", {}},
      {"tum/kungfu-pair-averaging.json", {}},
      {"gpt2-xl-pipeline.json", {}}};
  const auto results = run_isolated(cases.size(), 2, [&](std::size_t i) {
    Json json = load_json_file(source_folder() + "/scenarios/" + cases[i].file);
    for (const auto& [pointer, value] : cases[i].changes) set_json_pointer(json, pointer, value);
    return gains(read_scenario(json, source_folder() + "/scenarios/" + cases[i].file, test::shipped_catalog())).dump();
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    CAPTURE(std::string{cases[i].file});
    REQUIRE_MESSAGE(results[i].has_succeeded, results[i].text);
    for (const Json& part : Json::parse(results[i].text)) {
      CAPTURE(part.dump());
      CHECK(part[2].get<double>() > 1e-6);
    }
  }
}

}  // namespace rehearse
