// rehearse provision: the cheapest machines that reach a loss by a deadline.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/app/executor.hpp"
#include "sim/app/output/provision_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/provision_goals.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/launch_commands.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

struct ProvisionCommand {
  CommonOptions common;
  GoalCommand goal;
  std::filesystem::path file;  // scenario or provision file; may be empty with --model
  std::string deadline;        // as typed
  std::optional<double> target_loss;
  std::vector<std::string> overrides;   // "/pointer=value"
  std::vector<std::string> candidates;  // names; empty: all
  std::vector<std::string> quotas;      // "name=machines"
  std::vector<std::string> existing;    // the same
  std::optional<double> current_loss, updates_done;
  std::string takeover;    // as typed
  std::string confidence;  // as typed
  std::optional<std::string> price;
  std::string planner = "ours";
  int plans = 6;
  int runs = 200;            // of each plan whose machines may be revoked
  std::string max_run_time;  // of each simulation, as typed
};

/// What the user asks for, and has.
void add_request_options(Options options, ProvisionCommand& command) {
  options.add_option("SCENARIO", command.file,
                     "Scenario file, or provision file (rehearse schema provision); not needed with --model");
  options.add_option("--deadline", command.deadline, "T", "Time that the training may take from now on, such as 45min");
  options.add_option("--target-loss", command.target_loss, "LOSS",
                     "Training loss to be reached by asynchronous servers: machines and their numbers are searched");
  options.add_repeatable(
      "--candidate", command.candidates, "NAME",
      "Only this machine type; repeatable. An instance of the catalog that the file does not name is "
      "taken with the fields of the first group of workers");
  options.add_repeatable("--quota", command.quotas, "NAME=N",
                         "Most machines of a type, with the existing ones (default: the file's, or 10); repeatable");
  options.add_repeatable("--existing", command.existing, "NAME=N",
                         "Machines of a type that train already and stay (default: the file's, or 0); repeatable");
  options.add_option("--current-loss", command.current_loss, "LOSS", "Loss that a run under way has reached");
  options
      .add_option("--updates-done", command.updates_done, "N",
                  "Updates that a run under way has done, of those that its loss takes")
      .range(0.0, 1e15)
      .excludes("--current-loss");
}

void add_options(Options options, ProvisionCommand& command) {
  add_request_options(options, command);
  add_goal_options(options, command.goal);
  options.add_option(
      "--takeover", command.takeover, "T",
      "Added to the time of plans that join new machines to existing ones (default: the file's, or 30s)");
  options.add_option(
      "--price", command.price, "SOURCE",
      "spot, on-demand, or catalog: of the market that each group states (default: the file's, or catalog)");
  options.add_option("--confidence", command.confidence, "P",
                     "Least probability of being in time, such as 0.9 or 90% (default: the file's, or 0.95); 0.5 asks "
                     "for a prediction in time alone, however far it may be off");
  options
      .add_option("--planner", command.planner, "NAME",
                  "Whose plan is the answer: ours, spotdnn-paper, spotdnn-released, cm-dare+, exhaustive, homogeneous")
      .shows_default();
  options
      .add_count("--plans", command.plans, 1, 1000,
                 "Simulate this many of our cheapest plans in time, besides those for the frontier")
      .shows_default();
  options
      .add_count("--runs", command.runs, 2, 1'000'000,
                 "Run each plan whose machines may be revoked so many times, each with revocations of its own")
      .shows_default();
  add_overrides(options, command.overrides);
  add_max_run_time(options, command.max_run_time);
  add_work_options(options, command.common, "Print summary.json instead of tables",
                   "Write summary.json, plans.csv and report.html here (default: write nothing)");
}

void keep_candidates(ProvisionRequest& request, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::vector<ProvisionCandidate> kept;
  for (const std::string& name : names) {
    const auto is_named = [&](const ProvisionCandidate& candidate) { return candidate.name == name; };
    if (std::any_of(kept.begin(), kept.end(), is_named)) continue;
    const auto known = std::find_if(request.candidates.begin(), request.candidates.end(), is_named);
    if (known != request.candidates.end())
      kept.push_back(*known);
    else
      kept.push_back(
          {.name = name, .group = share(Json{{"instance", name}}), .usd_per_hour = {}, .place = "--candidate " + name});
  }
  request.candidates = std::move(kept);
}

ProvisionRequest make_request(const ProvisionCommand& command, Seconds deadline, std::optional<Seconds> takeover) {
  ProvisionRequest request = load_provision_request(command.file, command.overrides);
  request.deadline = deadline;
  request.loss = *command.target_loss;
  if (!(request.deadline > Seconds{}))
    throw InputError{"--deadline: expected a time above 0s; found " + to_text(request.deadline)};
  keep_candidates(request, command.candidates);
  for (const std::string& text : command.quotas) {
    const auto [name, machines] = read_machine_number("--quota", text);
    find_candidate(request, name, "--quota").quota = machines;
  }
  for (const std::string& text : command.existing) {
    const auto [name, machines] = read_machine_number("--existing", text);
    find_candidate(request, name, "--existing").existing = machines;
  }
  for (const ProvisionCandidate& candidate : request.candidates)
    if (candidate.existing > candidate.quota)
      throw InputError{(candidate.place.empty() ? request.scenario_file : candidate.place) + ": candidate " +
                       in_quotes(candidate.name) + ": expected a quota of at least the " +
                       std::to_string(candidate.existing) + " existing machines; found " +
                       std::to_string(candidate.quota)};
  if (command.current_loss) {
    request.loss_so_far = command.current_loss;
    request.updates_so_far = 0;
  }
  if (command.updates_done) {
    request.updates_so_far = *command.updates_done;
    request.loss_so_far.reset();
  }
  if (takeover) request.takeover = *takeover;
  if (const auto confidence = read_share("--confidence", command.confidence)) request.confidence = *confidence;
  if (command.price) take_prices_of(request, about("--price", [&] { return read_price_source(*command.price); }));
  return request;
}

Answer answer_of(const ProvisionCase& provision_case, const ProvisionOptions& options, const Provision& result) {
  Answer answer{.json = to_json_text(to_json(provision_case, options, result))};
  if (result.answer) answer.line(plan_in_words(provision_case, result.plans[*result.answer]) + "\n");
  answer.table(plans_table(provision_case, result, false));
  answer.line("=> the answer   * on the frontier of cost, time and risk\n");
  answer.table(planners_table(provision_case, result));
  return answer;
}

std::string miss_in_words(const ProvisionCase& provision_case, const ProposedPlan& miss) {
  return plan_text(provision_case.problem, miss.plan.counts) + formatted(" in %.0f s for %.2f USD (%.0f %%)",
                                                                         miss.risk.time_s.p50, miss.risk.cost_usd.p50,
                                                                         miss.risk.probability * 100);
}

/// One line for main().
std::string describe_misses(const ProvisionCase& provision_case, const ProvisionOptions& options,
                            const Provision& result) {
  std::string text = "no plan of " + to_text(options.planner) + " reaches a loss of " +
                     to_text(provision_case.problem.objective.loss) + " within " +
                     to_text(provision_case.problem.objective.deadline) + " with a probability of " +
                     to_text(options.confidence);
  for (std::size_t i = 0; i < result.misses.size(); ++i)
    text += (i == 0 ? "; nearest: " : "; ") + miss_in_words(provision_case, result.plans[result.misses[i]]);
  return text;
}

/// Options that only one of the two kinds of questions has.
void expect_none_of_servers(const ProvisionCommand& command) {
  for (const char* option : {"--target-loss", "--candidate", "--quota", "--existing", "--current-loss",
                             "--updates-done", "--takeover", "--price", "--plans"})
    if (command.common.given.contains(option))
      throw InputError{std::string{option} + ": expected none beside " +
                       "--model, --gpus and other options of a search for the best way to train: it is about "
                       "asynchronous servers and a loss"};
}

Answer run_search(const ProvisionCommand& command) {
  expect_none_of_servers(command);
  const bool is_exhaustive = command.planner == "exhaustive";
  if (!is_exhaustive && command.planner != "ours")
    throw InputError{"--planner: expected \"ours\" or \"exhaustive\" in a search for the best way to train; found " +
                     in_quotes(command.planner)};
  return run_goal(command.goal, {.common = command.common,
                                 .file = command.file,
                                 .overrides = command.overrides,
                                 .deadline = command.deadline,
                                 .confidence = read_share("--confidence", command.confidence).value_or(0.95),
                                 .runs = command.runs,
                                 .is_exhaustive = is_exhaustive,
                                 .max_run_time = command.max_run_time});
}

Answer run(const ProvisionCommand& command) {
  if (has_goal(command.goal)) return run_search(command);
  if (command.file.empty()) throw InputError{"SCENARIO is required, or --model with --gpus"};
  if (!command.target_loss)
    throw InputError{
        "--target-loss is required, of asynchronous servers; or --tokens, --samples or --epochs, for the best way to "
        "train"};
  if (command.deadline.empty()) throw InputError{"--deadline is required"};
  const auto max_run_time = read_max_run_time(command.max_run_time);
  const Seconds deadline = read_seconds("--deadline", command.deadline).value();
  const auto takeover = read_seconds("--takeover", command.takeover);
  ProvisionOptions options{.most_of_ours = static_cast<std::size_t>(command.plans)};
  options.planner = about("--planner", [&] { return read_planner(command.planner); });
  const ProvisionRequest request = make_request(command, deadline, takeover);
  options.confidence = request.confidence;
  const Catalog catalog = load_catalog(command.common);
  const auto made = make_folder(command.common.output);

  Progress progress{"simulations", command.common.is_quiet};
  const SimulationMeans means{
      .pool = pool_of(command.common),
      .on_done = progress.counter(),
      .limits = {.is_stopped = command.common.budget.asked(),
                 .job_wall_s = max_run_time ? std::optional{max_run_time->value()} : std::nullopt}};
  try {
    const ProvisionCase provision_case = prepare_provision(request, catalog, means);
    if (!command.common.is_quiet)
      for (const std::string& reason : provision_case.dropped)
        print_warning("candidate left out: " + shortened(reason, 500));
    const auto [low, high] = provision_case.speed_interval;
    if (const std::string warning = source_warning(provision_case.step_sources, low, high);
        !warning.empty() && !command.common.is_quiet)
      print_warning(warning);
    const Provision result = provision(
        provision_case, options,
        evaluate_by_monte_carlo(catalog, provision_case.file_name, means, static_cast<std::size_t>(command.runs)));
    Answer answer = answer_of(provision_case, options, result);
    const Json scenario = result.answer ? scenario_of(provision_case, result.plans[*result.answer].plan) : Json{};
    if (result.answer)
      print_warnings(read_scenario(scenario, provision_case.file_name, catalog).warnings, command.common.is_quiet);
    if (const auto& folder = command.common.output) {
      OutputFolder files{*folder};
      files.write("summary.json", answer.json);
      files.write("plans.csv", plans_csv(provision_case, result));
      files.write("report.html", provision_report(provision_case, options, result));
      if (result.answer) {
        files.write("scenario.json", to_json_text(scenario));
        write_launch(read_scenario(scenario, provision_case.file_name, catalog), files);
      }
      files.commit();
      add_written(answer, command.common, *folder, files.names());
    }
    if (result.answer) return answer;
    (void)print(answer, command.common.prints_json);
    throw NoResultError{describe_misses(provision_case, options, result)};
  } catch (const ProvisionStopped&) { command.common.budget.stop(); }
}

}  // namespace

CommandVerb provision_verb() {
  return make_verb<ProvisionCommand>(
      "provision",
      "The best way to train a model on given GPUs, or the cheapest machines that reach a loss by a deadline: found by "
      "a "
      "closed form, checked by simulation\n\n"
      "With --tokens, --samples or --epochs: degrees of tensor, context, expert and pipeline parallelism, micro-batch, "
      "recomputation and sharding, or servers and their number, on machines of the catalog, or on a scenario's own. "
      "Prints the best plan, the frontier of "
      "time and cost, why the next plans are slower, and what would make a faster one fit into memory. -o keeps "
      "simulations, so that the same command goes on where it was ended\n"
      "With --target-loss: asynchronous servers. Prints the answer, the frontier of cost, time and risk, and what "
      "other "
      "planners choose. Machines may be those of the scenario's groups of workers, or those of a provision file\n"
      "-o writes launch.sh and sky.yaml, too, which start the answer's machines at AWS, Google Cloud or Azure; nothing "
      "is "
      "started here\n"
      "Exit code 3 if no plan meets the goal; by how much it is missed is printed\n\n"
      "Example: rehearse provision --model llama3_70b --tokens 1T --gpus 512 --gpu H100 --provider aws -o "
      "results/llama\n"
      "Example: rehearse provision --model resnet50 --samples 115M --max-gpus 64 --instance p3.2xlarge,p3.16xlarge "
      "--deadline 10h\n"
      "Example: rehearse provision scenarios/llama3-8b.json --tokens 300B --gpus 128 --budget 200kUSD\n"
      "Example: rehearse provision scenarios/cm-dare.json --samples 10M --max-gpus 8 --gpu K80 --strategy "
      "asynchronous_servers,all_reduce\n"
      "Example: rehearse provision scenarios/provision/resnet110.json --deadline 2600s --target-loss 0.8 -o "
      "results/plans\n"
      "Example: rehearse provision scenarios/provision/resnet110.json --deadline 810s --target-loss 0.8 --current-loss "
      "0.9 --existing g3.16xlarge=3 --quota g3.8xlarge=0",
      add_options, run);
}

}  // namespace rehearse
