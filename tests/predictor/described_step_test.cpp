// Every scenario that does not change by chance has a step, which is what the simulator itself shows where nothing is shared.

#include "predictor/described_step.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

/// Described, written, and read back.
DescribedStep step_of(const Json& json) {
  const DescribedStep step = describe_step(test::resolved(json));
  const std::vector<float> numbers = numbers_of(step);
  CHECK(numbers_of(described_step(numbers, "file")) == numbers);
  return step;
}

Json changed(Json json, const Changes& changes) {
  for (const auto& [pointer, value] : changes)
    if (pointer == "/cluster/groups/2" || pointer == "/cluster/groups/3") {
      json["cluster"]["groups"].push_back(parse_json(value, pointer));
      json["cluster"]["groups"].back()["name"] = pointer;
    } else {
      set_json_pointer(json, pointer, value);
    }
  return json;
}

const std::string kOther =
    R"({"name": "x", "role": "worker", "instance": "gce-custom-8-p100", "count": 1, "region": "us-west1"})";
const std::string kThird =
    R"({"name": "x", "role": "worker", "instance": "gce-custom-8-v100", "count": 1, "region": "us-west1"})";
const std::string kSame =
    R"({"name": "x", "role": "worker", "instance": "gce-custom-4-k80", "count": 2, "region": "us-west1"})";

/// A machine like those of the scenario but for the number of its GPUs.
std::string with_gpus(int count) {
  return R"({"name": "x", "role": "worker", "count": 1, "region": "us-west1", "instance": {"vcpus": 4, "memory": "52GiB",
    "accelerator": "K80", "accelerators": )" +
         std::to_string(count) + R"(, "nic": "8Gbps", "source": "test"}})";
}

}  // namespace

TEST_CASE("what no column of a dataset held has a step, whose costs are above 0") {
  const std::string strategy = "/training/strategy/", synchronous = strategy + "synchronization";
  const Json servers = test::shipped_scenario();
  for (const Changes& changes : std::vector<Changes>{
           {{"/cluster/groups/2", kOther}, {"/cluster/groups/3", kThird}},
           {{"/cluster/groups/2", kSame}, {"/cluster/groups/3", kOther}, {"/cluster/groups/2/batch_per_worker", "7"}},
           {{"/cluster/groups/1/batch_per_worker", "7"}},
           {{"/cluster/groups/2", with_gpus(2)}, {"/cluster/groups/3", with_gpus(3)}},
           {{"/cluster/groups/0/region", "us-east1"}},
           {{"/cluster/groups/2", kSame}, {"/cluster/groups/1/joins_at", "3s"}},
           {{"/cluster/groups/2", kSame}, {"/cluster/groups/1/leaves_at", "3s"}},
           {{synchronous, "synchronous"}, {strategy + "pushes_back_each_variable", "true"}},
           {{synchronous, "synchronous"}, {strategy + "aggregation", "host"}},
           {{"/training/checkpoint", R"({"every_steps": 50, "fixed_time": "1s", "rate": "1GBps"})"}},
           {{"/training/step_time_variation", "0.1"}},
           {{"/training/start_interval", "2s"}},
           {{"/cluster/network", R"({"tcp": {"turn": "128KiB"}})"}},
           {{"/output", R"({"reading_interval": "20ms"})"}}}) {
    CAPTURE(changes.front().first);
    CAPTURE(changes.back().first);
    const DescribedStep step = step_of(changed(servers, changes));
    CHECK(!step.nodes.empty());
    CHECK(!step.edges.empty());
    for (const std::vector<double>& shown : step.shown) CHECK(shown[12] > 0);
  }
  const Json ring = load_json_file(source_folder() + "/scenarios/tum/tensorflow-ring.json");
  CHECK(step_of(changed(ring, {{strategy + "sharding", "parameters"}})).shown[0][12] > 0);
  const Json language = changed(ring, {{"/workload/model", "gpt2"}, {"/workload/batch_per_worker", "1"}});
  CHECK(step_of(changed(language, {{"/workload/recompute", "full"}})).shown[0][12] > step_of(language).shown[0][12]);
  CHECK(step_of(changed(language, {{strategy + "tensor", R"({"degree": 2})"}})).shown[0][12] > 0);
}

TEST_CASE("where nothing is shared a step shows what the simulator does") {
  for (const char* name : {"tum/tensorflow-ring", "dlperf"}) {
    CAPTURE(name);
    Json json = load_json_file(source_folder() + "/scenarios/" + name + ".json");
    json["training"].erase("steps");
    json["training"]["steps_per_worker"] = 22;
    json["training"]["step_time_variation"] = 0;
    json["training"]["warmup_steps"] = 1;
    json["output"]["sampling_period"] = "2ms";
    const Scenario scenario = test::resolved(json);
    const std::vector<double> labels = simulate_labels(scenario), &shown = describe_step(scenario).shown[0];
    CHECK(shown[12] == doctest::Approx(labels[12]).epsilon(0.01));
    for (const std::size_t l : {4U, 13U, 14U}) {
      CAPTURE(label_names()[l]);
      CHECK(shown[l] == doctest::Approx(labels[l]).epsilon(0.05));
    }
  }
}

TEST_CASE(
    "no worker is slower alone than when all do the same at the same time, and what crosses its links is the same") {
  for (const char* name : {"07-2080ti-ps2-w2", "12-2080ti-ps5-w5"}) {
    CAPTURE(name);
    Json json = load_json_file(source_folder() + "/scenarios/driple/" + name + ".json");
    json["workload"]["model"] = "cm-dare/resnet15";
    json["training"]["strategy"]["synchronization"] = "synchronous";
    const DescribedStep step = step_of(json);
    CHECK(step.waits_for_all);
    const auto &alone = step.shown[0], &at_once = step.shown[1];
    CHECK(alone[12] <= at_once[12]);
    CHECK(alone[13] * alone[12] == doctest::Approx(at_once[13] * at_once[12]).epsilon(0.1));
  }
}

TEST_CASE("machines that come and go by chance have no step, and the refusal says where") {
  const std::string spot = source_folder() + "/scenarios/cm-dare-spot.json";
  const Scenario scenario = read_scenario(load_json_file(spot), spot, test::shipped_catalog());
  CHECK(changes_by_chance(scenario).ends_with("/spot_pool"));
  CHECK(changes_by_chance(test::resolved(test::shipped_scenario())).empty());
  CHECK_THROWS_WITH_AS(
      require_regular(scenario, "job.json"),
      ("job.json: " + changes_by_chance(scenario) +
       ": machines that come and go by chance, of which datasets and predictors know nothing: simulate "
       "it instead")
          .c_str(),
      InputError);
}

TEST_CASE("numbers that are no step are refused in one line") {
  const std::vector<float> numbers = numbers_of(describe_step(test::resolved(test::shipped_scenario())));
  const auto problem_with = [&](std::size_t at, float value) {
    std::vector<float> damaged = numbers;
    damaged[at] = value;
    try {
      (void)described_step(damaged, "file");
    } catch (const InputError& error) { return std::string{error.what()}; }
    return std::string{};
  };
  CHECK(problem_with(3, 24) == "file: expected whole numbers below 24 of a step");
  CHECK(problem_with(4, 0.5F) == "file: expected whole numbers below 48 of a step");
  CHECK(problem_with(2, 2) == "file: expected whole numbers below 2 of a step");
  for (const float value : {-1.0F, std::nanf(""), 1e31F})
    CHECK(problem_with(6, value) == "file: expected numbers from 0 to 1e30 of a step");
  CHECK(problem_with(0, numbers[0] + 1).starts_with("file: expected "));
  CHECK_THROWS_AS(described_step({}, "file"), InputError);
  CHECK_THROWS_AS(described_step(std::span{numbers}.first(numbers.size() - 1), "file"), InputError);
}

}  // namespace rehearse
