// Planners of spot clusters: what the released code printed, and that nothing cheaper is overlooked.

#include "sim/plan/provision.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/released_convergence.hpp"

namespace rehearse {

namespace {

const std::filesystem::path kData = std::filesystem::path{source_folder()} / "calibration/data/spotdnn";

/// ResNet-110 as released: resnet110_fitted_coefficients.csv, and the machines of resnet110_profile.csv.
ProvisionProblem released_problem(double loss, double deadline) {
  ProvisionProblem problem{
      .offers = {},
      .workload = {.parameters = Bytes{11'500'000},
                   .required_bandwidth = BytesPerSecond{142e6},
                   .contention = {.slope = 0.8, .intercept = -1.92}},
      .server = {},
      .convergence = test::released_convergence(100),
      .objective = {.loss = loss, .deadline = Seconds{deadline}, .loss_so_far = {}, .keeps_range = false}};
  const CsvTable table = load_csv_file(kData / "resnet110_profile.csv");
  for (const CsvRow row : table.rows()) {
    const int gpus = static_cast<int>(row.integer("gpus"));
    const double batch = gpus * row.number("batch_per_gpu");
    problem.offers.push_back({.name = std::string{row.text("likely_real_instance")},
                              .worker = {.gpus = gpus,
                                         .batch = batch,
                                         .step_alone = Seconds{batch / row.number("profiled_speed_samples_per_s")}},
                              .usd_per_hour = row.number("spot_price_usd_per_hour"),
                              .quota = static_cast<int>(row.integer("quota"))});
  }
  return problem;
}

std::vector<int> counts_of(const CsvRow& row) {
  std::vector<int> counts;
  for (int i = 0; i < 5; ++i) counts.push_back(static_cast<int>(row.integer("n_" + std::to_string(i))));
  return counts;
}

/// Table III: seven types, ten of each; steps of the types that were not measured like those that were, GPU for GPU.
ProvisionProblem seventy_machines(double loss, double deadline) {
  ProvisionProblem problem = released_problem(loss, deadline);
  problem.objective.keeps_range = true;
  problem.convergence.weighted_batch = {1024, 4096};
  problem.offers = {{.name = "p3.2xlarge", .worker = {1, 1024, Seconds{0.543}}, .usd_per_hour = 1.25},
                    {.name = "p2.8xlarge", .worker = {8, 8192, Seconds{3.873}}, .usd_per_hour = 2.16},
                    {.name = "g4dn.12xlarge", .worker = {4, 4096, Seconds{1.392}}, .usd_per_hour = 1.22},
                    {.name = "g4dn.4xlarge", .worker = {1, 1024, Seconds{1.365}}, .usd_per_hour = 0.36},
                    {.name = "g3.16xlarge", .worker = {4, 2048, Seconds{1.027}}, .usd_per_hour = 1.37},
                    {.name = "g3.8xlarge", .worker = {2, 1024, Seconds{1.006}}, .usd_per_hour = 0.69},
                    {.name = "g3.4xlarge", .worker = {1, 1024, Seconds{1.990}}, .usd_per_hour = 0.34}};
  for (MachineOffer& offer : problem.offers) offer.quota = 10;
  return problem;
}

/// Up to `types` machine types of any price and speed, any loss model and objective.
ProvisionProblem random_problem(Rng& rng, int types, int quota) {
  ProvisionProblem problem =
      seventy_machines(rng.uniform(0.55, 1.6), std::exp(rng.uniform(std::log(300), std::log(2e4))));
  problem.offers.resize(static_cast<std::size_t>(types));
  for (MachineOffer& offer : problem.offers) {
    if (rng.uniform() < 0.7) {
      offer.worker.step_alone = Seconds{rng.uniform(0.4, 4)};
      offer.worker.batch = 256 * static_cast<double>(1 + rng.below(16));
      offer.usd_per_hour = offer.worker.batch / offer.worker.step_alone.value() / 2000 * rng.uniform(0.5, 1.5);
    }
    offer.quota = static_cast<int>(rng.below(static_cast<std::uint64_t>(quota) + 1));
    if (rng.uniform() < 0.15) offer.existing = static_cast<int>(rng.below(static_cast<std::uint64_t>(offer.quota) + 1));
    if (rng.uniform() < 0.1) offer.workers = 2;
  }
  problem.convergence.weighted_batch = {512, 3000};
  if (rng.uniform() < 0.5) problem.convergence.spread_offset = rng.uniform(-0.0, 1.0);
  if (rng.uniform() < 0.3) {
    problem.convergence.offset.reset();
    problem.convergence.initial_loss = 4.6;
  }
  if (rng.uniform() < 0.3) problem.objective.fixed_usd_per_hour = rng.uniform(0, 1);
  if (rng.uniform() < 0.2) problem.objective.loss_so_far = problem.objective.loss * 1.3;
  if (rng.uniform() < 0.2) problem.objective.takeover = Seconds{30};
  return problem;
}

/// Whether there is a plan.
bool finds_what_enumeration_finds(const ProvisionProblem& problem) {
  const auto best = exhaustive_plan(problem).plan;
  const CheapestPlans ours = cheapest_plans(problem);
  REQUIRE(ours.plans.empty() == !best);
  if (best) CHECK(ours.plans[0].cost_usd == doctest::Approx(best->cost_usd).epsilon(1e-12));
  return best.has_value();
}

}  // namespace

TEST_CASE("the released planner chooses what the released code printed, for every objective") {
  const CsvTable table = load_csv_file(kData / "released_code_planner_outputs.csv");
  for (const CsvRow row : table.rows()) {
    CAPTURE(row.line());
    const PlannerResult result =
        spotdnn_released_plan(released_problem(row.number("objective_loss"), row.number("objective_time_s")));
    const std::vector<int> counts = counts_of(row);
    const bool has_plan = std::any_of(counts.begin(), counts.end(), [](int count) { return count > 0; });
    REQUIRE(result.plan.has_value() == has_plan);
    if (!has_plan) continue;
    CHECK(result.plan->counts == counts);
    CHECK(result.plan->weighted_batch == row.number("wa_batch"));
    CHECK(std::abs(result.plan->samples_per_s - row.number("cluster_speed_samples_per_s")) <= 5e-6);  // ten digits
    CHECK(result.plan->updates == row.number("normalized_iterations"));
    CHECK(result.plan->time.value() == row.number("predicted_time_s"));
    CHECK(result.plan->cost_usd == row.number("predicted_cost_usd"));
  }
}

TEST_CASE("the released predictor gives what the released code printed, for every plan") {
  const CsvTable table = load_csv_file(kData / "released_code_predictor_outputs.csv");
  for (const CsvRow row : table.rows()) {
    CAPTURE(row.line());
    const ProvisionProblem problem = released_problem(0.8, 3600);
    const MachinePlan plan = evaluate_released_plan(problem, counts_of(row));
    CHECK(plan.workers == row.integer("workers"));
    CHECK(plan.weighted_batch == row.number("wa_batch"));
    const auto digits = [](double value) {  // twelve of them
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.12g", value);
      return std::string{text.data()};
    };
    CHECK(digits(plan.samples_per_s) == row.text("cluster_speed_samples_per_s"));
    const double updates =
        updates_to_loss(problem.convergence, {.workers = plan.workers, .weighted_batch = plan.weighted_batch}, 0.8);
    CHECK(digits(updates) == row.text("iterations_to_loss_0.8"));
    CHECK(plan.updates == std::nearbyint(updates));
  }
}

TEST_CASE("the bounds of the paper's planner") {
  ProvisionProblem problem = released_problem(0.8, 2600);
  // ((1 + 1.92) / 0.8)^2 = 13.32
  CHECK(most_workers(problem) == 13);
  problem.workload.contention = {.slope = 0, .intercept = 1};
  CHECK(most_workers(problem) == 25);
  // b_min = 1024: j = (2507.6 - 204.8) / 0.3 - 876.5 = 6799.5; v_max = 2115; 1024 x 6799.5 / (2115 x 2600) = 1.27
  CHECK(least_workers(problem) == 2);
  problem.objective.deadline = Seconds{100};
  CHECK(least_workers(problem) == 33);
}

TEST_CASE("a plan's time is its updates over their rate, its cost time x price") {
  ProvisionProblem problem = released_problem(0.8, 2600);
  problem.objective.fixed_usd_per_hour = 0.192;
  const MachinePlan plan = evaluate_plan(problem, {0, 0, 5, 3, 0});
  CHECK(plan_text(problem, plan.counts) == "5*g3.8xlarge;3*g3.16xlarge");
  // below n B_req = B_ps a worker is as fast as alone: 5 x 1018 + 3 x 1995
  CHECK(plan.samples_per_s == doctest::Approx(11075).epsilon(1e-9));
  CHECK(plan.updates_per_s == doctest::Approx(5 * 1018 / 1024.0 + 3 * 1995 / 2048.0).epsilon(1e-9));
  const double updates = (2507.6 - 0.2 * plan.weighted_batch) * std::sqrt(8) / 0.3 - 876.5;
  CHECK(plan.time.value() == doctest::Approx(updates / plan.updates_per_s).epsilon(1e-9));
  CHECK(plan.cost_usd == doctest::Approx((5 * 0.684 + 3 * 1.5676 + 0.192) * plan.time.value() / 3600).epsilon(1e-9));
  CHECK(plan.spread == doctest::Approx(speed_spread({1018, 1018, 1018, 1018, 1018, 1995, 1995, 1995})).epsilon(1e-9));
}

TEST_CASE("a run under way has only the rest to do, and pays for the takeover if it takes new machines") {
  ProvisionProblem problem = released_problem(0.8, 2600);
  problem.offers[3].existing = 3;
  problem.objective.takeover = Seconds{30};
  const double rate = evaluate_plan(problem, {0, 0, 0, 3, 0}).updates_per_s;
  const double whole = evaluate_plan(problem, {0, 0, 0, 3, 0}).time.value();
  problem.objective.loss_so_far = 0.9;
  // A (1 / 0.3 - 1 / 0.4) = (2507.6 - 409.6) sqrt(3) / 1.2
  const MachinePlan rest = evaluate_plan(problem, {0, 0, 0, 3, 0});
  CHECK(rest.time.value() == doctest::Approx(2098 * std::sqrt(3) / 1.2 / rate).epsilon(1e-9));
  const MachinePlan more = evaluate_plan(problem, {3, 0, 0, 3, 0});
  CHECK(more.time.value() == doctest::Approx(more.updates / more.updates_per_s + 30).epsilon(1e-9));
  problem.objective.loss_so_far.reset();
  problem.objective.updates_so_far = 1000;
  CHECK(evaluate_plan(problem, {0, 0, 0, 3, 0}).time.value() == doctest::Approx(whole - 1000 / rate).epsilon(1e-9));
  for (const MachinePlan& plan : cheapest_plans(problem, 20).plans) CHECK(plan.counts[3] >= 3);
}

TEST_CASE("spotDNN's plan within the range of the loss model") {
  ProvisionProblem problem = released_problem(1.4, 3600);
  CHECK(spotdnn_plan(problem).plan->counts == std::vector<int>{0, 0, 0, 0, 1});  // a loss of 1.4 in 89 updates of 8192
  problem.objective.keeps_range = true;
  const PlannerResult result = spotdnn_plan(problem);
  CHECK(result.out_of_range > 0);
  REQUIRE(result.plan);
  CHECK(result.plan->weighted_batch <= 2048);
  CHECK(result.plan->counts[4] == 0);
}

TEST_CASE("homogeneous clusters have the plan's number of workers and one of its types") {
  const ProvisionProblem problem = released_problem(0.8, 2600);
  const MachinePlan plan = evaluate_plan(problem, {0, 0, 5, 3, 0});
  CHECK(homogeneous_plan(problem, plan, false).counts == std::vector<int>{0, 0, 8, 0, 0});
  CHECK(homogeneous_plan(problem, plan, true).counts == std::vector<int>{0, 0, 0, 8, 0});
}

TEST_CASE("ideal speeds are the sum of the lone workers'") {
  const ProvisionProblem problem = released_problem(0.8, 2600);
  const MachinePlan plan = evaluate_plan(problem, {2, 5, 5, 8, 0}, SpeedModel::kIdeal);
  CHECK(plan.samples_per_s == doctest::Approx(2 * 1885 + 5 * 750 + 5 * 1018 + 8 * 1995).epsilon(1e-12));
  CHECK(evaluate_plan(problem, {2, 5, 5, 8, 0}).samples_per_s < plan.samples_per_s);
}

TEST_CASE("with seventy machines the cheapest plan is never dearer than spotDNN's, for 500 objectives") {
  Rng rng{5, "objectives"};
  std::size_t with_plan = 0, cheaper = 0, ours_alone = 0;
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    ProvisionProblem problem = seventy_machines(rng.uniform(0.55, 1.6), 1e9);
    if (i % 2 == 1) problem.convergence.spread_offset = rng.uniform(0, 1);
    if (i % 5 == 0) problem.objective.fixed_usd_per_hour = 0.192;
    if (i % 3 == 0) problem.convergence.weighted_batch.second = 2048;
    for (MachineOffer& offer : problem.offers) {
      offer.usd_per_hour *= rng.uniform(0.5, 1.5);  // spot prices vary
      if (i % 4 >= 2) offer.quota = static_cast<int>(rng.below(5));
    }
    const std::vector<MachinePlan> fastest = fastest_plans(problem, 1);
    if (!fastest.empty()) problem.objective.deadline = fastest[0].time * rng.uniform(0.9, 2.5);
    const auto theirs = spotdnn_plan(problem).plan;
    const CheapestPlans ours = cheapest_plans(problem);
    CHECK(ours.is_optimal);
    if (i % 20 == 3) {  // small enough to enumerate
      const auto best = exhaustive_plan(problem).plan;
      REQUIRE(ours.plans.empty() == !best);
      if (best) CHECK(ours.plans[0].cost_usd == doctest::Approx(best->cost_usd).epsilon(1e-12));
    }
    if (!theirs) {
      if (!ours.plans.empty()) ++ours_alone;
      continue;
    }
    ++with_plan;
    REQUIRE_FALSE(ours.plans.empty());
    CHECK(ours.plans[0].cost_usd <= theirs->cost_usd);
    CHECK(ours.plans[0].time <= problem.objective.deadline);
    CHECK(ours.plans[0].is_in_range);
    if (ours.plans[0].cost_usd < theirs->cost_usd * (1 - 1e-9)) ++cheaper;
  }
  MESSAGE("spotDNN has " << with_plan << " plans; " << cheaper << " of ours are cheaper, " << ours_alone
                         << " ours alone");
  CHECK(with_plan >= 400);
  CHECK(cheaper >= 10);
}

TEST_CASE("branch and bound finds what enumeration finds, in random problems of every kind") {
  Rng rng{6, "problems"};
  int with_plan = 0;
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    const ProvisionProblem problem = random_problem(rng, 4, 6);
    with_plan += finds_what_enumeration_finds(problem) ? 1 : 0;
  }
  CHECK(with_plan >= 200);
}

TEST_CASE("of machines that differ in their price alone the cheaper ones are taken first, and no plan is missed") {
  Rng rng{7, "problems"};
  int with_plan = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    ProvisionProblem problem = random_problem(rng, 6, 3);
    for (std::size_t k = 2; k < problem.offers.size(); ++k) {
      MachineOffer& copy = problem.offers[k];
      copy.worker = problem.offers[k % 2].worker;
      copy.workers = problem.offers[k % 2].workers;
      copy.usd_per_hour = problem.offers[k % 2].usd_per_hour * (rng.uniform() < 0.2 ? 1 : rng.uniform(0.9, 1.2));
    }
    with_plan += finds_what_enumeration_finds(problem) ? 1 : 0;
  }
  CHECK(with_plan >= 100);
}

TEST_CASE("hundreds of machines that are nearly alike are searched in few nodes") {
  ProvisionProblem problem = released_problem(0.8, 2600);
  const std::vector<MachineOffer> kinds = problem.offers;
  problem.offers.clear();
  for (int i = 0; i < 300; ++i) {
    MachineOffer& copy = problem.offers.emplace_back(kinds[static_cast<std::size_t>(i) % kinds.size()]);
    copy.quota = 2;
    copy.usd_per_hour *= 1 + 1e-4 * i;
  }
  const CheapestPlans ours = cheapest_plans(problem, 1, 20'000);
  CHECK(ours.is_optimal);
  REQUIRE(!ours.plans.empty());
  for (std::size_t i = kinds.size(); i < ours.plans[0].counts.size(); ++i)
    if (ours.plans[0].counts[i] > 0) CHECK(ours.plans[0].counts[i - kinds.size()] == 2);
}

TEST_CASE("the cheapest plans come in order, and are those that enumeration would list") {
  const ProvisionProblem problem = released_problem(0.8, 2600);
  const CheapestPlans several = cheapest_plans(problem, 50);
  REQUIRE(several.plans.size() == 50);
  for (std::size_t i = 1; i < 50; ++i) CHECK(several.plans[i - 1].cost_usd <= several.plans[i].cost_usd);
  CHECK(several.plans[0].cost_usd == exhaustive_plan(problem).plan->cost_usd);
}

TEST_CASE("the search ends at its limit with a plan that is no dearer than spotDNN's") {
  const ProvisionProblem problem = seventy_machines(0.6, 6000);
  const CheapestPlans limited = cheapest_plans(problem, 1, 10);
  CHECK_FALSE(limited.is_optimal);
  CHECK(limited.plans.at(0).cost_usd <= spotdnn_plan(problem).plan->cost_usd);
}

TEST_CASE("enumeration of too many combinations is refused") {
  ProvisionProblem problem = seventy_machines(0.8, 2600);
  for (MachineOffer& offer : problem.offers) offer.quota = 20;
  CHECK_THROWS_WITH_AS((void)exhaustive_plan(problem),
                       "--planner exhaustive: expected at most 2e+08 combinations of machines; found 1801088541",
                       NoResultError);
}

}  // namespace rehearse
