// A GPU that the catalog knows is one that can be tried: networks on every instance, computed by the kernels of data sheets.

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

Json on_instance(const std::string& instance, const std::string& model, int batch) {
  Json scenario = load_json_file(source_folder() + "/scenarios/data-sheet.json");
  scenario["workload"]["model"] = model;
  scenario["workload"]["batch_per_worker"] = batch;
  scenario["cluster"]["groups"][0]["instance"] = instance;
  scenario["cluster"]["groups"][0].erase("market");
  scenario["training"]["strategy"]["algorithm"] = "fastest";
  scenario["training"]["steps"] = 3;
  scenario["training"]["warmup_steps"] = 1;
  return scenario;
}

}  // namespace

TEST_CASE("ResNet-50 and GPT-2 run on every instance by the kernels of its GPU's data sheet") {
  int instances = 0;
  for (const std::string& name : test::shipped_catalog().instance_names()) {
    const Json nobody;
    const Instance instance = read_instance(name, test::shipped_catalog().instance(name, JsonReader{nobody, "test"}));
    if (instance.accelerator.empty()) continue;
    CAPTURE(name);
    ++instances;
    for (const bool is_resnet : {true, false}) {
      CAPTURE(is_resnet);
      const Json summary = test::in_child([&] {
        const Json json = is_resnet ? on_instance(name, "resnet50", 16) : on_instance(name, "gpt2", 1);
        const Scenario scenario = read_scenario(json, "s.json", test::shipped_catalog());
        return to_json(scenario, summarize(scenario, simulate(scenario, {})));
      });
      REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
      const double speed = summary["samples_per_s"].get<double>() / instance.accelerators;
      CHECK(speed > (is_resnet ? 10 : 0.2));  // of a GPU
      CHECK(speed < (is_resnet ? 10000 : 300));
    }
  }
  CHECK(instances > 70);
}

TEST_CASE("a GPU of an architecture that no fit has seen takes the values of all together, and says so") {
  const auto says = [](const std::string& instance) {
    const Scenario scenario = read_scenario(on_instance(instance, "resnet50", 16), "s.json", test::shipped_catalog());
    return std::any_of(scenario.warnings.begin(), scenario.warnings.end(), [](const std::string& warning) {
      return warning.find("architecture \"CDNA 3\": as those of all architectures") != std::string::npos;
    });
  };
  CHECK(says("ND96isr_MI300X_v5"));
  CHECK(!says("p5.48xlarge"));
}

}  // namespace rehearse
