#include "sim/plan/diagnosis.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

const Changes kEightP100{{"/workload/model", "cm-dare/resnet15"},
                         {"/cluster/groups/1/instance", "gce-custom-8-p100"},
                         {"/cluster/groups/1/count", "8"},
                         {"/training/steps", "400"}};

Diagnosis diagnosed(const Changes& changes, double measured) {
  return *diagnose(test::shipped_scenario(changes), source_folder() + "/scenarios/test.json", test::shipped_catalog(),
                   measured, 2);
}

bool adds_a_server(const Remedy& remedy) {
  return std::find(remedy.settings.begin(), remedy.settings.end(), "/cluster/groups/0/count=2") !=
         remedy.settings.end();
}

}  // namespace

TEST_CASE("CM-DARE's eight P100 and one server: the server is the bottleneck, a second one the remedy") {
  const Diagnosis diagnosis = diagnosed(kEightP100, 104);  // as measured
  CHECK(diagnosis.is_flagged);
  CHECK(diagnosis.is_explained);
  CHECK(diagnosis.simulated.bottleneck_resource == "server_cpu");
  CHECK(diagnosis.verdict.find("a bottleneck between them that the simulated run has, too") != std::string::npos);
  REQUIRE(!diagnosis.remedies.empty());
  CHECK(adds_a_server(diagnosis.remedies[0]));
  const auto plain = std::find_if(diagnosis.remedies.begin(), diagnosis.remedies.end(), [](const Remedy& remedy) {
    return remedy.settings.size() == 1 && adds_a_server(remedy);
  });
  REQUIRE(plain != diagnosis.remedies.end());
  // Measured with two servers: 176 steps/s, and the machines cost 1.8 % more.
  CHECK(plain->result->steps_per_s == doctest::Approx(176).epsilon(0.1));
  CHECK(*plain->cost_change == doctest::Approx((16.6459 / 16.3403) / (1 + *plain->simulated_gain) - 1).epsilon(0.02));
  CHECK(*plain->cost_change < -0.25);
  for (const Remedy& remedy : diagnosis.remedies)
    if (remedy.result) CHECK(*remedy.simulated_gain >= 0.01);
}

TEST_CASE("CM-DARE's four K80 have no bottleneck: no server helps, more or faster workers do") {
  const Diagnosis diagnosis = diagnosed({}, 18.14);  // as measured
  CHECK_FALSE(diagnosis.is_flagged);
  CHECK(diagnosis.is_explained);
  CHECK(diagnosis.simulated.bottleneck_resource == "worker_gpu");
  for (const Remedy& remedy : diagnosis.remedies) CHECK_FALSE(adds_a_server(remedy));
  CHECK(std::any_of(diagnosis.remedies.begin(), diagnosis.remedies.end(), [](const Remedy& remedy) {
    return remedy.settings == std::vector<std::string>{"/cluster/groups/1/count=5"} &&
           std::abs(*remedy.simulated_gain - 0.25) < 0.02;
  }));
}

TEST_CASE("a run slower than the model explains is said to be slowed by something else") {
  const Diagnosis slow = diagnosed({}, 12);
  CHECK(slow.is_flagged);  // as CM-DARE's rule would
  CHECK_FALSE(slow.is_explained);
  CHECK(slow.verdict.starts_with("something that is not in the model slows the run: 32.7 % of its speed is missing"));
  CHECK(slow.verdict.find("but the simulated run has none") != std::string::npos);
  const Diagnosis fast = diagnosed({}, 30);
  CHECK_FALSE(fast.is_explained);
  CHECK_FALSE(fast.is_flagged);
  CHECK(fast.verdict.find("faster than the model says") != std::string::npos);
}

TEST_CASE("workers that wait for one another are as fast as the slowest alone, not as their sum") {
  const Changes two_kinds{{"/cluster/groups", R"([
      {"name": "ps", "role": "parameter_server", "instance": "gce-custom-4", "region": "us-west1"},
      {"name": "slow", "role": "worker", "instance": "gce-custom-4-k80", "count": 2, "region": "us-west1"},
      {"name": "fast", "role": "worker", "instance": "gce-custom-8-p100", "count": 2, "region": "us-west1"}])"}};
  Changes together = two_kinds;
  together.emplace_back("/training/strategy/synchronization", "synchronous");
  const double sum = diagnosed(two_kinds, 4).by_addition, slowest = diagnosed(together, 4).by_addition;
  CHECK(sum == doctest::Approx(2 * 4.46 + 2 * 11.5).epsilon(0.1));
  CHECK(slowest == doctest::Approx(4.46).epsilon(0.1));
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
  CHECK_THROWS_WITH_AS((void)diagnosed({}, 0), "expected a measured speed above 0 steps/s", InputError);
}

}  // namespace rehearse
