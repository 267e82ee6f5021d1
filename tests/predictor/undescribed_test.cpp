// What changes a run although a dataset has no column for it is named, and nothing else is.

#include "predictor/undescribed.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

std::string pointer_of(const Json& json) {
  const auto found = undescribed(test::resolved(json));
  return found ? found->pointer : "";
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

TEST_CASE("each part of a scenario that no column holds is named") {
  const std::string strategy = "/training/strategy/", synchronous = strategy + "synchronization";
  const Json servers = test::shipped_scenario();
  const std::vector<std::pair<std::string, Changes>> cases{
      {"/cluster/groups/3/instance", {{"/cluster/groups/2", kOther}, {"/cluster/groups/3", kThird}}},
      {"/cluster/groups/1/batch_per_worker",
       {{"/cluster/groups/2", kSame}, {"/cluster/groups/3", kOther}, {"/cluster/groups/2/batch_per_worker", "7"}}},
      {"/cluster/groups/1/batch_per_worker", {{"/cluster/groups/1/batch_per_worker", "7"}}},
      {"/cluster/groups/3/batch_per_worker",
       {{"/cluster/groups/2", kSame},
        {"/cluster/groups/3", kSame},
        {"/cluster/groups/2/batch_per_worker", "7"},
        {"/cluster/groups/3/batch_per_worker", "8"}}},
      {"/cluster/groups/0/region", {{"/cluster/groups/0/region", "us-east1"}}},
      {"/cluster/groups/1/joins_at", {{"/cluster/groups/2", kSame}, {"/cluster/groups/1/joins_at", "3s"}}},
      {"/cluster/groups/1/leaves_at", {{"/cluster/groups/2", kSame}, {"/cluster/groups/1/leaves_at", "3s"}}},
      {"/cluster/groups/3/joins_at",
       {{"/cluster/groups/2", kSame},
        {"/cluster/groups/3", kSame},
        {"/cluster/groups/2/joins_at", "3s"},
        {"/cluster/groups/3/joins_at", "4s"}}},
      {"/cluster/groups/3/leaves_at",
       {{"/cluster/groups/2", kSame},
        {"/cluster/groups/3", kSame},
        {"/cluster/groups/2/leaves_at", "3s"},
        {"/cluster/groups/3/leaves_at", "4s"}}},
      {strategy + "pushes_back_each_variable",
       {{synchronous, "synchronous"}, {strategy + "pushes_back_each_variable", "true"}}},
      {strategy + "aggregation", {{synchronous, "synchronous"}, {strategy + "aggregation", "host"}}},
      {"/training/checkpoint",
       {{"/training/checkpoint", R"({"every_steps": 50, "fixed_time": "1s", "rate": "1GBps"})"}}},
      {"/training/control",
       {{"/workload/convergence", R"({"offset": 1, "batch_slope": 0, "batch_intercept": 100, "floor": 0.1,
           "weighted_batch": [1, 65536], "workers": [1, 100], "source": "test"})"},
        {"/training/target", R"({"loss": 0.9})"},
        {"/training/control", R"({"replan": {"deadline": "1h"}})"}}},
      {"/training/step_time_variation", {{"/training/step_time_variation", "0.1"}}},
      {"/training/start_interval", {{"/training/start_interval", "2s"}}},
      {"/cluster/network/tcp/turn", {{"/cluster/network", R"({"tcp": {"turn": "128KiB"}})"}}},
      {"/output/reading_interval", {{"/output", R"({"reading_interval": "20ms"})"}}},
  };
  CHECK(pointer_of(servers).empty());
  for (const auto& [pointer, changes] : cases) {
    CAPTURE(pointer);
    CHECK(pointer_of(changed(servers, changes)) == pointer);
  }
  const Json ring = load_json_file(source_folder() + "/scenarios/tum/tensorflow-ring.json");
  CHECK(pointer_of(ring).empty());
  CHECK(pointer_of(changed(ring, {{strategy + "sharding", "parameters"}})) == strategy + "sharding");
  const Changes words{{"/workload/model", "gpt2"}, {"/workload/batch_per_worker", "1"}};
  const Json language = changed(ring, words);
  CHECK(pointer_of(language).empty());
  CHECK(pointer_of(changed(language, {{"/workload/recompute", "full"}})) == "/workload/recompute");
  CHECK(pointer_of(changed(language, {{strategy + "tensor", R"({"degree": 2})"}})) == strategy + "tensor");
  const Json mixture = changed(
      ring,
      {{"/workload/model", "mixtral_8x7b"}, {"/workload/batch_per_worker", "1"}, {"/training/memory_check", "warn"}});
  for (const char* shared : {"context", "experts"})
    CHECK(pointer_of(changed(mixture, {{strategy + shared, R"({"degree": 2})"}})) == strategy + shared);
  const std::string spot = source_folder() + "/scenarios/cm-dare-spot.json";
  CHECK(
      undescribed(read_scenario(load_json_file(spot), spot, test::shipped_catalog()))->pointer.ends_with("/spot_pool"));
}

TEST_CASE("what is said otherwise, or changes nothing, is no reason to refuse") {
  const Json servers = test::shipped_scenario();
  for (const Changes& changes :
       {Changes{{"/training/strategy/gradient_precision", "fp32"}, {"/training/strategy/accumulation_steps", "1"}},
        Changes{{"/cluster/groups/1/count", "2"}, {"/cluster/groups/2", kSame}},
        Changes{{"/cluster/groups/2", kSame}, {"/cluster/groups/2/batch_per_worker", "7"}},
        Changes{{"/cluster/groups/2", kOther}, {"/cluster/groups/3", kOther}},
        Changes{{"/cluster/groups/2", with_gpus(2)}, {"/cluster/groups/3", with_gpus(3)}},
        Changes{{"/cluster/groups/2", kOther}, {"/cluster/groups/2/batch_per_worker", "7"}},
        Changes{{"/cluster/network", R"({"topology": "fat_tree", "machines_per_leaf": 2, "oversubscription": 4})"}},
        Changes{{"/cluster/groups/2", kSame},
                {"/cluster/groups/2/joins_at", "3s"},
                {"/cluster/groups/2/leaves_at", "9s"},
                {"/cluster/groups/3", kSame},
                {"/cluster/groups/3/leaves_at", "9s"}},
        Changes{{"/seed", "7"}, {"/training/target", R"({"samples": 1e6})"}}})
    CHECK(pointer_of(changed(servers, changes)).empty());
}

TEST_CASE("the refusal is one line with file and pointer") {
  const Scenario scenario = test::resolved(changed(test::shipped_scenario(), {{"/training/start_interval", "2s"}}));
  CHECK_THROWS_WITH_AS(require_described(scenario, "job.json"),
                       "job.json: /training/start_interval: workers that start one after another, of which datasets "
                       "and predictors know nothing: simulate it instead",
                       InputError);
}

}  // namespace rehearse
