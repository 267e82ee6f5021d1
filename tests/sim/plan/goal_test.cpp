// Goals: which machines are in question, which of them is the answer, and what is said where none is.

#include "sim/plan/goal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse::goal_test {

namespace {

std::string refusal(const MachineFilter& filter) {
  try {
    (void)machine_choices(test::shipped_catalog(), filter);
  } catch (const InputError& error) { return error.what(); }
  return {};
}

/// ResNet-50 on so many p3.2xlarge, each with a V100, at the catalog's price; or on others with a GPU at the same price.
GoalCandidate candidate(int machines, const std::string& instance = "p3.2xlarge", const std::string& gpu = "V100") {
  constexpr double usd_per_hour = 3.06;
  const MachineChoice choice{.instance = instance,
                             .count = machines,
                             .is_spot = false,
                             .gpus = machines,
                             .gpu = gpu,
                             .usd_per_hour = usd_per_hour,
                             .region = "us-east-1"};
  Json scenario = scenario_of_model("resnet50", choice, test::shipped_catalog());
  scenario["cluster"]["groups"][0]["instance"] = instance;
  scenario["calibration"] = "kernels";
  scenario["training"]["warmup_steps"] = 0;
  scenario["training"]["target"] = {{"samples", 1e6}};
  return {.machines = choice.text(),
          .scenario = share(scenario),
          .file_name = "--model resnet50",
          .global_batch = 128,
          .gpus = machines,
          .usd_per_hour = usd_per_hour * machines};
}

GoalAnswer answer_of(const std::vector<GoalCandidate>& candidates, const TrainingGoal& goal) {
  ResultStore store = ResultStore::temporary();
  return search_goal(candidates, goal, test::shipped_catalog(), {.degrees = {.least = 4}},
                     {.pool = 2, .store = store, .program = "test"});
}

}  // namespace

TEST_CASE("machines in question: by GPU, provider, market and number") {
  const Catalog& catalog = test::shipped_catalog();
  for (const MachineChoice& choice : machine_choices(catalog, {.gpus = {"H100", "A100"}, .gpu_count = 512})) {
    CHECK(choice.gpus == 512);
    CHECK((choice.gpu.starts_with("H100") || choice.gpu.starts_with("A100")));
    CHECK(choice.usd_per_hour.has_value());
  }
  std::vector<int> counts;
  for (const MachineChoice& choice : machine_choices(catalog, {.instances = {"p5.48xlarge"}, .most_gpus = 48}))
    counts.push_back(choice.count);
  CHECK(counts == std::vector{1, 2, 4, 6});
  for (const MachineChoice& choice :
       machine_choices(catalog, {.providers = {"aws"}, .are_spot = {true}, .gpu_count = 8}))
    CHECK(choice.is_spot);
  CHECK(machine_choices(catalog, {.instances = {"dgx-h100"}, .gpu_count = 8}).front().text() ==
        "1 x dgx-h100 (8 H100)");

  std::vector<std::string> unmatched;
  std::vector<std::string> texts;
  for (const MachineChoice& choice : machine_choices(catalog,
                                                     {.gpus = {"A100", "V100", "GTX 1080"},
                                                     .instances = {"p4d.24xlarge", "p3dn.24xlarge", "p5.48xlarge"},
                                                     .numbers = {{"p4d.24xlarge", {4}}, {"p3dn.24xlarge", {8, 2}}},
                                                     .most_gpus = 8},
                                                     &unmatched))
    texts.push_back(choice.text());
  CHECK(texts == std::vector<std::string>{"8 x p3dn.24xlarge (64 V100 SXM2 32GB)",
                                          "2 x p3dn.24xlarge (16 V100 SXM2 32GB)", "4 x p4d.24xlarge (32 A100)"});
  REQUIRE(unmatched.size() == 2);
  CHECK(unmatched[0].starts_with("GPU \"GTX 1080\": no machine"));
  CHECK(unmatched[1].starts_with("instance \"p5.48xlarge\": "));
  const std::vector<std::string> pools = pools_of_gpu(catalog, "V100 SXM2 32GB");
  CHECK(std::ranges::find(pools, "bamboo/p3") != pools.end());
  CHECK(std::ranges::find(pools, "bamboo/g4dn") == pools.end());
  CHECK(pools_of_gpu(catalog, "H100").empty());
  CHECK(refusal({.gpus = {"H1000"}, .gpu_count = 8}).starts_with("--gpu: unknown GPU \"H1000\""));
  CHECK(refusal({.instances = {"p5.48xlarg"}, .gpu_count = 8}).find("did you mean \"p5.48xlarge\"?") !=
        std::string::npos);
  CHECK(refusal({.providers = {"amazon"}, .gpu_count = 8}).starts_with("--provider: unknown provider \"amazon\""));
  CHECK(refusal({.instances = {"p5.48xlarge"}, .gpu_count = 12}) ==
        "--gpus: expected those of 1 to 20000 machines, a multiple of 8; found 12");
  CHECK(refusal({.instances = {"p5.48xlarge"}, .most_gpus = 7}) ==
        "--max-gpus: expected at least the GPUs of a machine, 8; found 7");
  CHECK(refusal({.gpus = {"H100"}, .are_spot = {true}, .gpu_count = 8}).starts_with("no machine of the catalogs"));
}

TEST_CASE("the answer is the cheapest in time, or the fastest within the budget, and never outside of the frontier") {
  const std::vector<GoalCandidate> candidates{candidate(1), candidate(2), candidate(4)};
  const GoalAnswer free = answer_of(candidates, {.samples = 1e6});
  REQUIRE(free.answer);
  std::vector<double> times, costs;
  for (const GoalPlan& plan : free.plans) {
    REQUIRE(plan.best() != nullptr);
    CHECK(plan.time_s >= plan.least_time.value());
    CHECK(
        *plan.cost_usd ==
        doctest::Approx(*plan.candidate.usd_per_hour * plan.time_s / 3600).epsilon(1e-3));  // whole seconds are billed
    times.push_back(plan.time_s);
    costs.push_back(*plan.cost_usd);
    const Json summary = *plan.best()->summary;
    REQUIRE(plan.energy_kwh);
    CHECK(*plan.energy_kwh ==
          doctest::Approx(plan.candidate.gpus * summary["node_power_w"].get<double>() * plan.time_s / 3.6e6)
              .epsilon(1e-3));
  }
  CHECK(*free.plans[*free.answer].cost_usd == *std::ranges::min_element(costs));
  CHECK(free.plans[*free.answer].is_on_frontier);
  const double fastest = *std::ranges::min_element(times), slowest = *std::ranges::max_element(times);

  const GoalAnswer hurried =
      answer_of(candidates, {.samples = 1e6, .deadline = Seconds{fastest * 1.01}, .confidence = 0.5});
  REQUIRE(hurried.answer);
  CHECK(hurried.plans[*hurried.answer].time_s == fastest);
  const GoalAnswer rich = answer_of(candidates, {.samples = 1e6, .budget_usd = 1e6});
  REQUIRE(rich.answer);
  CHECK(rich.plans[*rich.answer].time_s == fastest);

  const GoalAnswer late = answer_of(candidates, {.samples = 1e6, .deadline = Seconds{fastest * 0.9}});
  CHECK(!late.answer);
  CHECK(miss_in_words(late, {.samples = 1e6, .deadline = Seconds{fastest * 0.9}})
            .find("the fastest, 4 x p3.2xlarge (4 V100), takes ") != std::string::npos);
  const TrainingGoal frugal{.samples = 1e6, .deadline = {}, .budget_usd = *std::ranges::min_element(costs) * 0.99};
  const GoalAnswer poor = answer_of(candidates, frugal);
  CHECK(!poor.answer);
  CHECK(miss_in_words(poor, frugal).starts_with("nothing costs at most "));
  CHECK(slowest > fastest);

  // A deadline is to be met with the probability that is asked for, however far the predicted speed may be off.
  const GoalPlan& quickest = hurried.plans[*hurried.answer];
  const double surely = quickest.time_with(0.95).value();
  CHECK(quickest.probability_by(Seconds{surely}) == doctest::Approx(0.95).epsilon(1e-6));
  CHECK(surely == doctest::Approx(fastest / quickest.uncertainty.interval(0).first).epsilon(1e-3));
  CHECK(!answer_of(candidates, {.samples = 1e6, .deadline = Seconds{surely * 0.99}}).answer);
  const TrainingGoal sure{.samples = 1e6, .deadline = Seconds{surely * 1.001}};
  const GoalAnswer safe = answer_of(candidates, sure);
  REQUIRE(safe.answer);
  CHECK(safe.plans[*safe.answer].probability_by(*sure.deadline) >= 0.95);
  CHECK(miss_in_words(late, {.samples = 1e6, .deadline = Seconds{fastest * 0.9}}).find("with a probability of 0.95") !=
        std::string::npos);

  // What is written has a row for each plan, and the answer's scenario gives its time.
  std::size_t plans = 0;
  for (const GoalPlan& plan : free.plans) plans += plan.search->plans.size();
  CHECK(parse_csv(plans_csv(free), "plans.csv").row_count() == plans);
  const GoalPlan& best = free.plans[*free.answer];
  const Json run = test::simulated(plan_scenario(best, best.best()->degrees, false));
  CHECK(run["training_time_s"].get<double>() == doctest::Approx(best.time_s).epsilon(1e-12));
}

TEST_CASE(
    "machines that by the closed form are slower and dearer than found ones are not simulated, and are told with it") {
  std::vector<GoalCandidate> candidates{candidate(1), candidate(2), candidate(4)};
  const GoalAnswer without = answer_of(candidates, {.samples = 1e6});
  candidates.push_back(candidate(1, "g4dn.xlarge", "T4"));
  const GoalAnswer answer = answer_of(candidates, {.samples = 1e6});
  REQUIRE(answer.answer);
  CHECK(answer.plans[*answer.answer].candidate.machines == without.plans[*without.answer].candidate.machines);
  std::size_t found = 0, left_out = 0;
  for (const GoalPlan& plan : answer.plans) {
    if (plan.candidate.machines.find("T4") == std::string::npos) {
      CHECK(plan.left_out.empty());
      found += plan.is_on_frontier ? 1 : 0;
      continue;
    }
    ++left_out;
    CHECK(!plan.search);
    CHECK(plan.left_out.starts_with("about "));
    CHECK(plan.left_out.find(" by the closed form; ") != std::string::npos);
  }
  CHECK(left_out == 1);
  CHECK(found == static_cast<std::size_t>(std::ranges::count_if(without.plans, &GoalPlan::is_on_frontier)));
}

TEST_CASE("machines whose arithmetic alone misses the goal are not simulated") {
  const TrainingGoal goal{.samples = 1e6, .deadline = Seconds{1}};
  const GoalAnswer answer = answer_of({candidate(1)}, goal);
  CHECK(!answer.plans.front().search);
  CHECK(answer.plans.front().left_out.starts_with("at the peak of its GPUs the arithmetic alone takes "));
  CHECK(miss_in_words(answer, goal).starts_with("no machines are in question; "));
}

}  // namespace rehearse::goal_test
