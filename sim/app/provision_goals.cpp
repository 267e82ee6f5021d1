#include "sim/app/provision_goals.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "calibration/parameter_uncertainty.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/goal_document.hpp"
#include "sim/app/prepared_goal.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/goal.hpp"
#include "sim/plan/launch_commands.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

/// What the best plan that did not fit needs, as `simulate` says it, and what would make it fit; empty if none is faster.
std::string refusal_of(const GoalPlan& plan, const Catalog& catalog) {
  const SearchedPlan* refused = plan.search->best_too_large();
  if (refused == nullptr || refused->estimate_s >= plan.best()->estimate_s) return {};
  std::string said;
  try {
    (void)read_scenario(plan_scenario(plan, refused->degrees, false), plan.candidate.file_name, catalog);
  } catch (const NoResultError& error) { said = error.what(); }
  return "faster by the closed form, but too large: " + plan_text(plan.candidate, refused->degrees) + ": " + said;
}

Answer shown(const GoalAnswer& answer, const AskedGoal& asked, const std::optional<std::pair<double, double>>& interval,
             const std::string& refused) {
  constexpr std::size_t kMostLeftOut = 8, kMostRows = 16;
  const GoalPlan* const plan = answer.answer ? &answer.plans[*answer.answer] : nullptr;
  Json json = to_json(answer, asked.goal);
  json["unmatched"] = asked.unmatched;
  if (interval && plan != nullptr && !plan->risk) {
    json["answer"]["time_s_low"] = plan->time_s * interval->first;
    json["answer"]["time_s_high"] = plan->time_s * interval->second;
  }
  Answer text{.json = to_json_text(json)};
  if (plan != nullptr) text.line(goal_sentence(answer, asked, interval) + "\n");
  if (Table table = goal_plans_table(answer, asked.goal.deadline, kMostRows); !table.rows.empty()) {
    text.table(std::move(table));
    text.line("=> the answer   * on the frontier of time and cost");
  }
  if (plan != nullptr && answer.is_complete) {
    if (Table table = next_plans_table(*plan); !table.rows.empty()) {
      text.line();
      text.table(std::move(table));
    }
    text.line("\n" + goal_search_text(*plan));
    if (!refused.empty()) text.line(refused);
  }
  for (const std::string& reason : left_out_texts(answer, asked, kMostLeftOut)) text.line("left out: " + reason);
  return text;
}

/// Throws ProvisionStopped where the command's time is over, so that what was found so far is printed.
double uncertainty_by_parameters(const Scenario& scenario, const GoalQuestion& question) {
  if (!has_uncertain_values(scenario)) return 0;
  const Budget& budget = question.common.budget;
  try {
    return speed_uncertainty(scenario, pool_of(question.common), {}, budget);
  } catch (const Interrupted&) { throw ProvisionStopped{}; } catch (const NoResultError&) {
    if (budget.is_over()) throw ProvisionStopped{};
    throw;
  }
}

/// Times of the best plan by the 90 % interval of its speed.
std::optional<std::pair<double, double>> interval_of(const GoalPlan& plan, bool has_deadline,
                                                     const GoalQuestion& question, const Catalog& catalog) {
  const Scenario scenario =
      read_scenario(plan_scenario(plan, plan.best()->degrees, false), plan.candidate.file_name, catalog);
  const auto [low, high] =
      plan.uncertainty.interval(has_deadline ? plan.by_parameters : uncertainty_by_parameters(scenario, question));
  if (!(low > 0) || low == high) return {};
  return std::pair{1 / high, 1 / low};
}

/// What a user should know: of the best plan's scenario, once each.
void warn(const GoalPlan& plan, const PreparedGoal& prepared, const GoalCommand& goal, const GoalQuestion& question,
          const Catalog& catalog) {
  if (question.common.is_quiet) return;
  if (prepared.has_assumed_gpus)
    print_warning("at most " + std::to_string(kMostGpus) + " GPUs are rented: --max-gpus says otherwise");
  if (goal.most_gpus.value_or(0) > kMostMachinesOfScenario)
    print_warning("clusters of more than " + std::to_string(kMostMachinesOfScenario) + " machines are not compared");
  if (prepared.has_assumed_restarts)
    print_warning(
        "the training goes back to a checkpoint when it loses a machine, as assumed: --set /training/checkpoint=.. and "
        "--set /training/recovery=.. say otherwise");
  if (prepared.has_assumed_batch)
    print_warning("steps are taken to have " + std::to_string(prepared.global_batch) + " samples" +
                  (prepared.asked.positions > 0 ? " of " + std::to_string(prepared.asked.positions) + " tokens" : "") +
                  ": --global-batch says otherwise");
  if (prepared.has_other_updates)
    print_warning(
        "plans are compared by the samples that they train on; how many a loss takes differs with the samples of a "
        "step, and with who waits for whom");
  const Scenario scenario = read_scenario(plan_scenario(plan, plan.best()->degrees, plan.risk.has_value()),
                                          plan.candidate.file_name, catalog);
  if (question.file.empty()) warn_of_assumptions(scenario, overrides_of(goal, question));
  for (const std::string& warning : scenario.warnings) print_warning(shortened(warning, 500));
  const Group& group = scenario.first_workers();
  if (group.market == Market::kSpot && !scenario.has_revocations()) {
    const std::vector<std::string> pools = pools_of_gpu(catalog, group.accelerator->name);
    print_warning("spot machines are taken never to be revoked: --spot-pool says when they are" +
                  (pools.empty() ? "; the catalog has none of machines with " + in_quotes(group.accelerator->name)
                                 : ", such as " + pools.back() +
                                       ", of machines with the same GPU (rehearse list spot_pools has " +
                                       std::to_string(pools.size()) + " of these)"));
  }
}

std::vector<std::string> write_results(const fs::path& folder, const GoalAnswer& answer, const std::string& json,
                                       const std::string& page, const Catalog& catalog) {
  OutputFolder files{folder};
  files.write("summary.json", json);
  files.write("plans.csv", plans_csv(answer));
  files.write("report.html", page);
  if (answer.answer) {
    const GoalPlan& plan = answer.plans[*answer.answer];
    const Json scenario = plan_scenario(plan, plan.best()->degrees, plan.risk.has_value());
    files.write("plan.json", to_json_text(scenario));
    write_launch(read_scenario(scenario, plan.candidate.file_name, catalog), files);
  }
  files.commit();
  return files.names();
}

}  // namespace

void add_goal_options(Options options, GoalCommand& goal) {
  options.add_option("--model", goal.model, "MODEL",
                     "Model to train (rehearse list models), in place of the scenario's");
  options.add_option("--tokens", goal.tokens, "N",
                     "Tokens to train on, such as 300B or 1.5T; searches for the best way to train, as all options "
                     "below but --set do");
  options.add_option("--samples", goal.samples, "N", "Samples to train on, such as 90M");
  options.add_option("--epochs", goal.epochs, "N",
                     "Passes through the data set, of samples_per_epoch in the scenario's workload");
  options.add_option("--gpus", goal.gpus, "N", "GPUs of the cluster").range(1, 100'000);
  options
      .add_option(
          "--max-gpus", goal.most_gpus, "N",
          "At most so many GPUs: clusters of 1, 2, 4 and more machines, up to 20000, are compared (default: 64)")
      .range(1, 100'000);
  options
      .add_option("--gpu", goal.gpus_named, "NAME,...",
                  "Machines of the catalog with these GPUs, such as H100,A100 (rehearse list gpus)")
      .delimiter(',');
  options
      .add_option("--instance", goal.instances, "NAME,...",
                  "These machines (rehearse list instances), or so many of them: p4d.24xlarge=4,p3dn.24xlarge=8")
      .delimiter(',');
  options.add_option("--provider", goal.providers, "NAME,...", "Machines of aws, gce or azure").delimiter(',');
  options.add_option("--market", goal.markets, "NAME,...", "Prices: on-demand (default) or spot").delimiter(',');
  options.add_option(
      "--spot-pool", goal.spot_pool, "NAME",
      "Spot machines are revoked as those of this pool (rehearse list spot_pools), and the training goes "
      "back to a checkpoint then, unless the scenario says otherwise");
  options.add_option("--budget", goal.budget, "AMOUNT",
                     "Most that the training may cost, such as 20kUSD: the fastest within it");
  options
      .add_option("--global-batch", goal.global_batches, "N,...",
                  "Samples of a step of all workers; of several numbers each is tried (default: the scenario's; else "
                  "about 4 million tokens, or 1024 samples)")
      .range(1, 10'000'000)
      .delimiter(',');
  options
      .add_option("--strategy", goal.strategies, "NAME,...",
                  "How workers exchange: " + joined(strategy_words(), ", ") +
                      "; of several each is tried (default: the scenario's; with --model: all_reduce)")
      .delimiter(',');
  options.add_option(
      "--server", goal.server, "NAME",
      "Machine of parameter servers (default: the scenario's; else the one of the provider whose NICs cost "
      "least)");
  options.add_option("--sequence", goal.sequence, "N", "Tokens of a sample, in place of the model's")
      .range(1, 10'000'000);
  options.add_option("--precision", goal.precision, "NAME",
                     "fp32, tf32, fp16 or bf16 (default with --model: 16 bits where GPUs have units for them)");
  options.add_option("--optimizer", goal.optimizer, "NAME", "sgd, momentum or adam (default with --model: adam)");
  options.add_option("--calibration", goal.calibration, "NAME",
                     "Profile that says what costs how much (rehearse list profiles; default with --model: auto)");
  options.add_count("--simulated", goal.most_simulated, 1, 100'000,
                    "Simulate at most so many plans on each set of machines (default: 240)");
}

bool has_goal(const GoalCommand& goal) {
  return !goal.model.empty() || !goal.tokens.empty() || !goal.samples.empty() || goal.epochs || goal.gpus ||
         goal.most_gpus || names_machines(goal) || !goal.budget.empty() || !goal.spot_pool.empty() ||
         !goal.global_batches.empty() || !goal.strategies.empty() || !goal.server.empty() || goal.sequence ||
         !goal.precision.empty() || !goal.optimizer.empty() || !goal.calibration.empty() || goal.most_simulated;
}

Answer run_goal(const GoalCommand& goal, const GoalQuestion& question) {
  const CommonOptions& common = question.common;
  const auto max_run_time = read_max_run_time(question.max_run_time);
  const Catalog catalog = load_catalog(common);
  const PreparedGoal prepared = prepare_goal(goal, question, catalog);
  const auto made = make_folder(common.output);
  if (made) require_complete(*common.output);
  ResultStore store = common.output ? ResultStore::open(*common.output / "results.sqlite") : ResultStore::temporary();
  Progress progress{"simulations", common.is_quiet};
  std::int64_t simulated = 0;
  const SearchMeans means{.pool = pool_of(common),
                          .store = store,
                          .program = program_identity(),
                          .limits = {.is_stopped = common.budget.asked(),
                                     .job_wall_s = max_run_time ? std::optional{max_run_time->value()} : std::nullopt},
                          .on_done = [&](std::size_t) { progress.update(++simulated, 0); }};
  GoalOptions options{.degrees = {.is_exhaustive = question.is_exhaustive},
                      .runs = static_cast<std::size_t>(question.runs),
                      .uncertainty_by_parameters =
                          [&](const Scenario& scenario) { return uncertainty_by_parameters(scenario, question); },
                      .on_machines =
                          [&](const std::string& machines, std::size_t number, std::size_t candidates) {
                            progress.note(", on " + machines +
                                          (candidates > 1 ? " (" + std::to_string(number) + " of " +
                                                                std::to_string(candidates) + " sets of machines)"
                                                          : ""));
                          }};
  if (goal.most_simulated) {
    options.degrees.most = static_cast<std::size_t>(*goal.most_simulated);
    options.degrees.least = std::min(options.degrees.least, options.degrees.most);
  }
  GoalAnswer answer = search_goal(prepared.candidates, prepared.asked.goal, catalog, options, means);
  std::optional<std::pair<double, double>> interval;
  std::string refused;
  if (answer.answer && answer.is_complete) {
    const GoalPlan& plan = answer.plans[*answer.answer];
    try {
      interval = interval_of(plan, prepared.asked.goal.deadline.has_value(), question, catalog);
    } catch (const ProvisionStopped&) { answer.is_complete = false; }
    refused = refusal_of(plan, catalog);
  }
  progress.clear();
  Answer text = shown(answer, prepared.asked, interval, refused);
  if (answer.answer && common.output) text.line("\nrehearse simulate " + (*common.output / "plan.json").string());
  if (common.output)
    add_written(text, common, *common.output,
                write_results(*common.output, answer, text.json, goal_report(answer, prepared.asked, interval, refused),
                              catalog));
  if (answer.answer && answer.is_complete) warn(answer.plans[*answer.answer], prepared, goal, question, catalog);
  if (answer.answer && answer.is_complete) return text;
  (void)print(text, common.prints_json);
  if (!answer.is_complete)
    end_early(common.budget, common.output
                                 ? "what was found is kept in " + (*common.output / "results.sqlite").string() +
                                       "; the same command goes on there"
                                 : "-o DIR would have kept what was found");
  throw NoResultError{miss_in_words(answer, prepared.asked.goal)};
}

}  // namespace rehearse
