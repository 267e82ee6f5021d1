#include "sim/scenario/gpu_power.hpp"

#include <doctest/doctest.h>

#include "sim/scenario/step_time.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// ResNet-50 on one GPU of the catalog, by profile kernels.
Json on_one_gpu(const char* instance, const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  Json json = load_json_file(source_folder() + "/scenarios/data-sheet.json");
  set_json_pointer(json, "/cluster/groups/0/instance", instance);
  for (const auto& [pointer, value] : changes) set_json_pointer(json, pointer, value);
  return json;
}

ComputePlan plan_under(const Json& json) {
  const Scenario scenario = test::resolved(json);
  return plan_step(scenario, scenario.first_workers());
}

}  // namespace

TEST_CASE("a lower limit takes more time and less energy, until the clock is too low") {
  const ComputePlan own = plan_under(on_one_gpu("p3.2xlarge"));
  CHECK(plan_under(on_one_gpu("p3.2xlarge", {{"/cluster/groups/0/power_limit", "250W"}})).gpu_time == own.gpu_time);
  ComputePlan before = own;
  for (const char* limit : {"150W", "125W", "100W", "80W"}) {
    const ComputePlan plan = plan_under(on_one_gpu("p3.2xlarge", {{"/cluster/groups/0/power_limit", limit}}));
    CHECK(plan.gpu_time > before.gpu_time);
    CHECK(step_energy(plan, 1) < step_energy(before, 1));
    // The sum over kernels is what the plan says.
    Seconds sum{};
    for (const PlannedKernel& kernel : plan.kernels) sum += kernel.time.total;
    CHECK(plan.gpu_time.value() == doctest::Approx(sum.value()));
    before = plan;
  }
}

TEST_CASE("each kernel keeps to the limit of its board") {
  const Scenario scenario = test::resolved(on_one_gpu("p3.2xlarge", {{"/cluster/groups/0/power_limit", "125W"}}));
  const ComputePlan plan = plan_step(scenario, scenario.first_workers());
  const double rest = board_power(scenario, scenario.first_workers()).rest_w();
  for (const PlannedKernel& kernel : plan.kernels) {
    const double work = (kernel.time.total - kernel.time.launch).value();
    if (work > 0) CHECK(rest + kernel.energy / work < 125 + 1e-3);
  }
}

TEST_CASE("a board that draws more in a training computes more slowly, at its own limit and below") {
  const auto times = [](double factor) {
    Json json = on_one_gpu("p4d.24xlarge");
    json["workload"]["precision"] = "fp16";
    const Json nobody;
    Json profile = test::shipped_catalog().profile("kernels", JsonReader{nobody, "test"}).value();
    profile["sustained_draw"] = {{"Ampere", factor}};
    json["calibration"] = profile;
    std::vector<double> found;
    for (const char* limit : {"400W", "300W", "250W"}) {
      json["cluster"]["groups"][0]["power_limit"] = limit;
      found.push_back(plan_under(json).gpu_time.value());
    }
    return found;
  };
  const std::vector<double> cool = times(1), hot = times(2);
  for (std::size_t i = 0; i < cool.size(); ++i) {
    CHECK(hot[i] > cool[i]);
    if (i > 0) CHECK(hot[i] / hot[i - 1] > cool[i] / cool[i - 1]);
  }
}

TEST_CASE("precisions with matrix units draw less for a FLOP") {
  const double fp32 = step_energy(plan_under(on_one_gpu("p3.2xlarge")), 1);
  const double fp16 = step_energy(plan_under(on_one_gpu("p3.2xlarge", {{"/workload/precision", "fp16"}})), 1);
  CHECK(fp16 < fp32 / 2);
}

TEST_CASE("limits that a board does not take are refused") {
  const auto limited = [](const char* limit) {
    return test::problem_of(on_one_gpu("p3.2xlarge", {{"/cluster/groups/0/power_limit", limit}}));
  };
  CHECK(limited("50W") == "/cluster/groups/0/power_limit: expected 62.5W to 250W, as the board of V100; found \"50W\"");
  CHECK(limited("251W") ==
        "/cluster/groups/0/power_limit: expected 62.5W to 250W, as the board of V100; found \"251W\"");
  CHECK(limited("much").find("expected a power in watts, such as \"400W\"") != std::string::npos);
  CHECK(limited("-5W").find("expected a power in watts") != std::string::npos);
  CHECK(test::problem_of(on_one_gpu("gh200", {{"/cluster/groups/0/power_limit", "300W"}}))
            .find("none for GH200 96GB, whose entry does not state") != std::string::npos);
  Json servers = test::shipped_scenario({{"/cluster/groups/0/power_limit", "300W"}});
  CHECK(test::problem_of(servers).find("/cluster/groups/0/power_limit: expected none but for workers") == 0);
  CHECK(test::problem_of(on_one_gpu("p3.2xlarge", {{"/cluster/groups/0/step_time", R"({"time": "0s"})"}})) ==
        "/cluster/groups/0/step_time/time: expected a time above 0s; found \"0s\"");
}

TEST_CASE("what electricity costs is refused outside of what there is") {
  const auto problem = [](const char* electricity) {
    return test::problem_of(on_one_gpu("p3.2xlarge", {{"/cluster/electricity", electricity}}));
  };
  CHECK(problem(R"({"pue": 0.9})") == "/cluster/electricity/pue: expected 1 to 10; found 0.9");
  CHECK(problem(R"({"usd_per_kwh": -1})") == "/cluster/electricity/usd_per_kwh: expected 0 to 100 USD; found -1");
  CHECK(problem(R"({"gco2_per_kwh": 1e9})").find("/cluster/electricity/gco2_per_kwh: expected 0 to 10000 g") == 0);
  CHECK(problem(R"({"price": 1})").find("unknown key \"price\"") != std::string::npos);
  CHECK(problem("{}").empty());
}

}  // namespace rehearse
