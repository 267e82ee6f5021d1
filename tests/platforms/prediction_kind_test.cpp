#include "platforms/prediction_kind.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"

namespace rehearse {
namespace {

/// Fitted with step times of one model on V100, by rings over PCIe and a NIC of 10 Gbit/s, up to 32 workers.
Profile some_profile() {
  Profile profile;
  profile.fitted_models = {"resnet50"};
  profile.fitted_accelerators = {"V100"};
  profile.step_times = {{.model = "resnet50",
                         .accelerator = "V100",
                         .precision = "fp32",
                         .framework = "",
                         .batch = 64,
                         .time = Seconds{0.2}}};
  profile.fitted_exchanges = {
      {.strategy = "all_reduce", .links = "PCIe", .nic = BytesPerSecond{1.25e9}, .workers_max = 32},
      {.strategy = "all_reduce", .links = "PCIe", .nic = {}, .workers_max = 4}};
  return profile;
}

TrainingFacts some_training() {
  TrainingFacts facts;
  facts.gpus = {Accelerator{}};
  facts.gpus.front().name = "V100";
  facts.model = "resnet50";
  facts.precision = "fp32";
  facts.batch = 64;
  facts.workers = 32;
  facts.strategy = "all_reduce";
  facts.links = "PCIe";
  facts.nic = BytesPerSecond{1.25e9};
  return facts;
}

std::string kind_text(const TrainingFacts& facts) { return to_text(kind_of(facts, some_profile())); }

}  // namespace

TEST_CASE("a prediction's kind says where computation and exchange come from") {
  CHECK(kind_text(some_training()) == "step time; cluster: fitted");
  TrainingFacts facts = some_training();
  facts.framework = "another";
  CHECK(kind_text(facts) == "step time of another framework; cluster: fitted");
  facts = some_training();
  facts.precision = "fp16";
  CHECK(kind_text(facts) == "other step time; cluster: fitted");
  facts = some_training();
  facts.gpus.front().name = "T4";
  CHECK(kind_text(facts) == "other step time; cluster: other links");
  facts = some_training();
  facts.workers = 128;
  CHECK(kind_text(facts) == "step time; cluster: fitted to fewer");
  facts.links = "NVLinks, NVLink 2";
  CHECK(kind_text(facts) == "step time; cluster: other links");
  facts = some_training();
  facts.nic = BytesPerSecond{12.5e9};
  CHECK(kind_text(facts) == "step time; cluster: other links");
  Profile of_one_machine = some_profile();
  of_one_machine.fitted_exchanges.erase(of_one_machine.fitted_exchanges.begin());
  CHECK(to_text(kind_of(some_training(), of_one_machine)) == "step time; cluster: other profile");
  facts = some_training();
  facts.nic = {};
  facts.workers = 4;
  CHECK(kind_text(facts) == "step time; machine: fitted");
  facts.strategy = "parameter_server";
  facts.servers = 1;
  CHECK(kind_text(facts) == "step time; servers: other profile");
}

TEST_CASE("TCP over NICs that one socket does not fill is a kind by itself") {
  TrainingFacts facts = some_training();
  facts.is_over_tcp = true;
  CHECK(kind_text(facts) == "step time; cluster: fitted");
  facts.nic = BytesPerSecond{12.5e9};
  CHECK(kind_text(facts) == "step time; cluster over TCP: other links");
  facts.is_over_tcp = false;
  CHECK(kind_text(facts) == "step time; cluster: other links");
}

TEST_CASE("a collective alone is fitted where its operation and about its size are") {
  Profile profile = some_profile();
  profile.fitted_exchanges = {{.strategy = "all_reduce",
                               .links = "PCIe",
                               .nic = {},
                               .workers_max = 8,
                               .collective = "all_reduce",
                               .payload_min = Bytes{1 << 20},
                               .payload_max = Bytes{1 << 28}}};
  TrainingFacts facts = some_training();
  facts.computes = false;
  facts.workers = 8;
  facts.nic = {};
  const auto text = [&](const char* operation, int size) {
    facts.collective = operation;
    facts.payload = Bytes{size};
    return to_text(kind_of(facts, profile));
  };
  CHECK(text("all_reduce", 1 << 19) == "nothing; collective: fitted");
  CHECK(text("all_reduce", (1 << 19) - 1) == "nothing; collective: other links");
  CHECK(text("all_reduce", (1 << 29) + 1) == "nothing; collective: other links");
  CHECK(text("all_gather", 1 << 20) == "nothing; collective: other links");
  profile.fitted_exchanges.front().collective.clear();
  CHECK(text("all_reduce", 1 << 20) == "nothing; collective: other links");
}

TEST_CASE("nothing that is stated, or is not there, makes a prediction less certain") {
  TrainingFacts facts = some_training();
  facts.computes = false;
  CHECK(kind_text(facts) == "nothing; cluster: fitted");
  facts = some_training();
  facts.workers = 1;
  facts.nic = {};
  facts.links = {};
  CHECK(kind_text(facts) == "step time; no exchange");
}

TEST_CASE("errors of a kind are those of its rows, or else of its parts as if these were independent") {
  const Json file = Json::parse(R"({
    "data sheet": {"rows": 80, "sources": 4, "median": 0.08, "low": -0.3, "high": 0.2},
    "machine: other links": {"rows": 50, "sources": 3, "median": 0.06, "low": -0.4, "high": -0.01},
    "data sheet; cluster: other links": {"rows": 40, "sources": 2, "median": 0.2, "low": -0.5, "high": 0.6},
    "data sheet; machine: other profile": {"rows": 9, "sources": 2, "median": 9, "low": -9, "high": 9},
    "machine: other profile": {"rows": 50, "sources": 3, "median": 0.06, "low": -0.4, "high": -0.01},
    "data sheet; machine: other links": {"rows": 39, "sources": 2, "median": 0.5, "low": -9, "high": 9}})");
  const PredictionErrors errors = read_prediction_errors(JsonReader{file, "test"});
  const auto cluster = errors.of({ComputationFrom::kDataSheet, ExchangeFrom::kOtherLinks, ExchangePlace::kCluster});
  REQUIRE(cluster);
  CHECK(cluster->low == -0.5);
  CHECK(cluster->high == 0.6);
  const auto machine = errors.of({ComputationFrom::kDataSheet, ExchangeFrom::kOtherLinks, ExchangePlace::kMachine});
  REQUIRE(machine);
  CHECK(machine->low == doctest::Approx(-0.5));
  CHECK(machine->high == doctest::Approx(0.2));
  CHECK(machine->median == 0.5);  // rows enough for a median, though not for ends
  CHECK(errors.of({ComputationFrom::kDataSheet, ExchangeFrom::kOtherProfile, ExchangePlace::kMachine})->median ==
        doctest::Approx(0.1));
  CHECK(!errors.of({ComputationFrom::kOtherStep, ExchangeFrom::kOtherLinks, ExchangePlace::kMachine}));
  const auto fitted_exchange = errors.of({ComputationFrom::kDataSheet, ExchangeFrom::kFitted, ExchangePlace::kMachine});
  REQUIRE(fitted_exchange);
  CHECK(fitted_exchange->high == doctest::Approx(0.2));
  CHECK(!errors.of({ComputationFrom::kStepTime, ExchangeFrom::kFitted, ExchangePlace::kMachine}));
}

}  // namespace rehearse
