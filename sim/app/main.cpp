// The command line: reads what the user typed, hands it to a verb (commands.hpp), turns errors into one line and an
// exit code.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <thread>
#include <utility>

#include "sim/app/commands.hpp"
#include "sim/app/option_names.hpp"
#include "sim/app/program.hpp"
#include "sim/app/schema_kinds.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace {

using namespace rehearse;

void add_common(CLI::App& verb, CommonOptions& common) {
  verb.add_option("--catalog", common.catalogs,
                  "Folder with the user's own accelerators, instances, regions, models and profiles; repeatable")
      ->allow_extra_args(false)
      ->type_name("DIR");
}

void add_output(CLI::App& verb, CommonOptions& common, const std::string& what) {
  verb.add_option("-o,--output", common.output, what)->type_name("DIR");
  verb.add_flag("--quiet", common.is_quiet, "No progress on stderr");
}

void add_parallel(CLI::App& verb, CommonOptions& common) {
  verb.add_option("-j,--jobs", common.parallel, "Simulations at a time (default: the number of processors)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
}

void add_wall_time(CLI::App& verb, std::string& text) {
  verb.add_option("--max-wall-time", text, kWallTimeHelp)->type_name("T");
}

Seconds read_seconds(const std::string& option, const std::string& text) {
  try {
    return parse_seconds(text);
  } catch (const QuantityError& error) { throw InputError{option + ": " + error.what()}; }
}

/// The verbs of rehearse-predictor, for --help, and what it says of them.
constexpr std::array<std::pair<const char*, const char*>, 4> kPredictorVerbs{
    {{"import",
      "Measured jobs become a dataset; datasets are put together\n\nExample: rehearse import simulated.db "
      "measured.json -o mixed.db"},
     {"train", "Train a graph neural network on a dataset\n\nExample: rehearse train dataset.db -o model"},
     {"predict", "Resource profile of a scenario without simulation\n\nExample: rehearse predict model scenario.json"},
     {"compare",
      "Predictions beside labels: errors per metric, family and setting\n\nExample: rehearse compare model "
      "dataset.db"}}};

/// Becomes the program that loads LibTorch, which stands beside this one.
[[noreturn]] void start_predictor(char** argv) {
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rehearse-predictor").string();
  ::execv(program.c_str(), argv);
  throw InputError{program + ": cannot be started: " + std::strerror(errno)};
}

int run_command_line(int argc, char** argv) {
  CLI::App app{
      "Rehearse: try a distributed training run before paying for it.\n"
      "Simulates the operators, GPUs, parameter servers and network of a cluster, event by event.\n"
      "\nExample: rehearse init && rehearse simulate scenario.json -o results"};
  app.set_version_flag("--version", [] { return version_text(); });
  app.require_subcommand(1);
  CommonOptions common;
  common.parallel = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int i = 0; i < argc; ++i) common.command_line += (i == 0 ? "rehearse" : std::string{" "} + argv[i]);

  std::string name = "scenario";
  auto* init_verb =
      app.add_subcommand("init", "Write a commented starter scenario, NAME.json\n\nExample: rehearse init my-run");
  init_verb->add_option("NAME", name, "File name without .json")->capture_default_str();

  SimulateCommand simulate;
  std::string simulate_deadline;
  std::string max_wall_time, max_run_time;
  auto* simulate_verb = app.add_subcommand(
      "simulate",
      "Run one scenario: speed, time, cost, bottleneck\n\n"
      "Example: rehearse simulate scenarios/cm-dare.json --set /cluster/groups/1/count=8 -o results");
  simulate_verb->add_option("SCENARIO", simulate.scenario, "Scenario file")->required();
  simulate_verb->add_option("--set", simulate.overrides, "Override a scenario field: /json/pointer=value; repeatable")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUE");
  simulate_verb->add_option("--seed", simulate.seed, "Seed of every random stream (default: the scenario's, or 1)")
      ->check(is_seed)
      ->type_name("N");
  simulate_verb
      ->add_option("--runs", simulate.runs,
                   "Run the job so many times, each with revocations of its own: finish time, cost, lost work as "
                   "percentiles; each membership of the cluster is simulated once")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  simulate_verb
      ->add_option("--deadline", simulate_deadline,
                   "With --runs: the probability of being finished by then, such as 24h")
      ->type_name("T");
  add_parallel(*simulate_verb, common);
  simulate_verb->add_flag("--dry-run", simulate.is_dry_run,
                          "Check the scenario; print memory, messages and an estimate of the run's own duration");
  simulate_verb->add_flag("--exact", simulate.is_exact,
                          "Simulate every kernel, message and step, on SimGrid's own network: slow, to check results");
  simulate_verb
      ->add_option("--trace-window", simulate.trace_window,
                   "With -o: record kernels and messages of this part of the run, such as 10s..12s (default: until the "
                   "steady state has lasted for 60s and 20 steps)")
      ->type_name("FROM..TO");
  simulate_verb
      ->add_option("--trace-ranks", simulate.trace_ranks,
                   "With -o: record the machines of these workers only, such as 0,8..15 (workers count from 0)")
      ->type_name("RANKS");
  simulate_verb->add_flag("--explain", simulate.explains, "Print where each number came from");
  simulate_verb->add_flag(
      "--print-program", simulate.prints_program,
      "Print what the first worker does in a step, operation by operation, and what each waits for");
  simulate_verb->add_flag("--json", simulate.common.prints_json, "Print summary.json instead of text");
  add_common(*simulate_verb, common);
  add_output(*simulate_verb, common,
             "Write summary.json, tables, timeline and report.html here (default: write nothing)");

  ValidateCommand validate;
  auto* validate_verb =
      app.add_subcommand("validate",
                         "Simulate every measured row of a study; print the errors\n\n"
                         "Example: rehearse validate scenarios/studies/cm-dare-cluster.json -o results");
  validate_verb->add_option("STUDY", validate.study, "Study file, or a set of studies")->required();
  validate_verb->add_option("--measurements", validate.measurements, "Another CSV with the same columns")
      ->type_name("CSV");
  validate_verb->add_flag("--json", validate.common.prints_json, "Print summary.json instead of text");
  add_common(*validate_verb, common);
  add_output(*validate_verb, common,
             "Write validation.csv, summary.json and report.html here (default: write nothing)");
  add_parallel(*validate_verb, common);

  CalibrateCommand calibrate;
  auto* calibrate_verb = app.add_subcommand("calibrate",
                                            "Fit the profile's free values to the measurements of studies; print "
                                            "them with intervals, and the errors of cross-validated predictions\n\n"
                                            "Example: rehearse calibrate scenarios/studies/cm-dare-cluster.json "
                                            "scenarios/studies/cm-dare-single-worker.json -o my-profile.json");
  calibrate_verb->add_option("STUDY", calibrate.studies, "Study files")->required();
  calibrate_verb->add_option("-o,--output", common.output, "The fitted profile (default: print it)")
      ->type_name("PROFILE");
  calibrate_verb
      ->add_option("--steps", calibrate.most_steps,
                   "Most steps of the fit (default: 20); 0 keeps the profile's values and finds their intervals and "
                   "errors")
      ->check(CLI::Range(0, 1000))
      ->type_name("N");
  calibrate_verb
      ->add_option("--bootstrap", calibrate.bootstrap,
                   "Also print 95 % intervals from N resamplings of the rows, and of the cross-validation's folds, "
                   "linearised around the fit (default: none)")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  calibrate_verb
      ->add_option("--report", calibrate.report,
                   "Write a page with plots here: measured against simulated, residuals, values (default: none)")
      ->type_name("FILE");
  calibrate_verb->add_flag("--quiet", common.is_quiet, "No progress on stderr");
  add_common(*calibrate_verb, common);
  add_parallel(*calibrate_verb, common);

  SweepCommand sweep;
  auto* sweep_verb = app.add_subcommand(
      "sweep",
      "Simulate every combination of a grid; what has finished is kept, and the same command goes on where it "
      "stopped\n\n"
      "Values: a,b,c   1..8   0..1+0.25   1..64*2\n"
      "Conditions: and or not  == != < <= > >=  + - * / ( )  numbers, 'texts', keys of summary.json, JSON pointers\n"
      "Example: rehearse sweep scenarios/cm-dare.json --grid /cluster/groups/1/count=1..8 --grid "
      "/workload/batch_per_worker=32..256*2 --where \"gpu_utilization > 0.5\" --top 5 -o results/sweep\n"
      "Example: rehearse sweep scenarios/sweeps/cm-dare-workers.json -o results/sweep");
  sweep_verb->add_option("SCENARIO", sweep.file, "Scenario file, or sweep file (rehearse schema sweep)")->required();
  sweep_verb->add_option("--grid", sweep.grids, "A place and its values; repeatable, the last one varies fastest")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUES");
  sweep_verb
      ->add_option("--list", sweep.lists, "Places to set together, \"/a=1;/b=2\"; repeatable: once for each choice")
      ->allow_extra_args(false)
      ->type_name("SETTINGS");
  sweep_verb->add_option("--set", sweep.overrides, "Set a field in every combination; repeatable")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUE");
  sweep_verb
      ->add_option("--constraint", sweep.constraints,
                   "Leave out combinations that break this condition on JSON pointers; repeatable")
      ->allow_extra_args(false)
      ->type_name("CONDITION");
  sweep_verb->add_option("--seeds", sweep.seeds, "Run each with the scenario's seed and the next ones, N in all")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  sweep_verb->add_option("--where", sweep.where, "Print only rows that fulfil this condition; sweep.csv has all")
      ->type_name("CONDITION");
  sweep_verb->add_option("--top", sweep.top, "Print only the N rows with the largest --by")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  sweep_verb->add_option("--by", sweep.by, "What --top compares: a key or formula; -x puts the smallest x first")
      ->capture_default_str()
      ->type_name("FORMULA");
  sweep_verb
      ->add_option("--max-run-time", max_run_time,
                   "Give up on one simulation after this much real time, such as 30s: a row with that error, tried "
                   "again when the sweep is (default: none)")
      ->type_name("T");
  sweep_verb->add_flag("--dry-run", sweep.is_dry_run,
                       "Check every combination; print how many, and how long they take");
  sweep_verb->add_flag("--json", sweep.common.prints_json, "Print the rows as JSON instead of a table");
  add_common(*sweep_verb, common);
  add_output(*sweep_verb, common, "Keep results.sqlite and write sweep.csv here (default: write nothing)");
  add_parallel(*sweep_verb, common);

  ProvisionCommand provision;
  std::string deadline, takeover;
  auto* provision_verb = app.add_subcommand(
      "provision",
      "The cheapest machines that reach a loss by a deadline, within quotas: found by a closed form, checked by "
      "simulation\n\n"
      "Prints the answer, the frontier of cost, time and risk, and what other planners choose. Machines may be those "
      "of "
      "the scenario's groups of workers, or those of a provision file\n"
      "Exit code 3 if no plan is in time with enough probability; the nearest misses are printed\n\n"
      "Example: rehearse provision scenarios/provision/resnet110.json --deadline 2600s --target-loss 0.8 -o "
      "results/plans\n"
      "Example: rehearse provision scenarios/provision/resnet110.json --deadline 810s --target-loss 0.8 --current-loss "
      "0.9 --existing g3.16xlarge=3 --quota g3.8xlarge=0");
  provision_verb->add_option("SCENARIO", provision.file, "Scenario file, or provision file (rehearse schema provision)")
      ->required();
  provision_verb->add_option("--deadline", deadline, "Time that the training may take from now on, such as 45min")
      ->required()
      ->type_name("T");
  provision_verb->add_option("--target-loss", provision.target_loss, "Training loss to be reached")
      ->required()
      ->type_name("LOSS");
  provision_verb
      ->add_option("--candidate", provision.candidates,
                   "Only this machine type; repeatable. An instance of the catalog that the file does not name is "
                   "taken with the fields of the first group of workers")
      ->allow_extra_args(false)
      ->type_name("NAME");
  provision_verb
      ->add_option("--quota", provision.quotas,
                   "Most machines of a type, with the existing ones (default: the file's, or 10); repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME=N");
  provision_verb
      ->add_option("--existing", provision.existing,
                   "Machines of a type that train already and stay (default: the file's, or 0); repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME=N");
  provision_verb->add_option("--current-loss", provision.current_loss, "Loss that a run under way has reached")
      ->type_name("LOSS");
  provision_verb
      ->add_option("--updates-done", provision.updates_done,
                   "Updates that a run under way has done, of those that its loss takes")
      ->check(CLI::Range(0.0, 1e15))
      ->excludes("--current-loss")
      ->type_name("N");
  provision_verb
      ->add_option("--takeover", takeover,
                   "Added to the time of plans that join new machines to existing ones (default: the file's, or 30s)")
      ->type_name("T");
  provision_verb
      ->add_option("--confidence", provision.confidence,
                   "Least probability of being in time (default: the file's, or 0.95)")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
  provision_verb
      ->add_option(
          "--price", provision.price,
          "spot, on-demand, or catalog: of the market that each group states (default: the file's, or catalog)")
      ->type_name("SOURCE");
  provision_verb
      ->add_option("--planner", provision.planner,
                   "Whose plan is the answer: ours, spotdnn-paper, spotdnn-released, cm-dare+, exhaustive, homogeneous")
      ->capture_default_str()
      ->type_name("NAME");
  provision_verb
      ->add_option("--plans", provision.plans,
                   "Simulate this many of our cheapest plans in time, besides those for the frontier")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  provision_verb
      ->add_option("--runs", provision.runs,
                   "Run each plan whose machines may be revoked so many times, each with revocations of its own")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  provision_verb->add_option("--set", provision.overrides, "Override a scenario field: /json/pointer=value; repeatable")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUE");
  provision_verb
      ->add_option("--max-run-time", max_run_time,
                   "Give up on one simulation after this much real time, such as 30s (default: none)")
      ->type_name("T");
  provision_verb->add_flag("--json", provision.common.prints_json, "Print summary.json instead of tables");
  add_common(*provision_verb, common);
  add_output(*provision_verb, common, "Write summary.json, plans.csv and report.html here (default: write nothing)");
  add_parallel(*provision_verb, common);

  DiffCommand diff;
  auto* diff_verb = app.add_subcommand(
      "diff",
      "What differs between two runs: inputs, results, and which input made which part of the difference\n\n"
      "Example: rehearse diff results/four-workers results/eight-workers");
  diff_verb->add_option("RUN_A", diff.a, "Output folder of simulate, or scenario file")->required();
  diff_verb->add_option("RUN_B", diff.b, "The same")->required();
  diff_verb->add_flag("--json", diff.common.prints_json, "Print diff.json instead of tables");
  add_common(*diff_verb, common);
  add_output(*diff_verb, common, "Write diff.json here (default: write nothing)");
  add_parallel(*diff_verb, common);

  RemainingCommand remaining;
  std::string replaced_after;
  auto* remaining_verb = app.add_subcommand(
      "remaining",
      "How long a training still takes after workers were revoked, until a replacement works and from then on\n\n"
      "Example: rehearse remaining scenarios/cm-dare.json --set /training/steps=64000 --step 32096 --lost 1");
  remaining_verb->add_option("SCENARIO", remaining.scenario, "Scenario file")->required();
  remaining_verb->add_option("--set", remaining.overrides, "Override a scenario field: /json/pointer=value; repeatable")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUE");
  remaining_verb->add_option("--step", remaining.step, "Steps done when the machines were lost")
      ->required()
      ->check(is_not_negative)
      ->type_name("N");
  remaining_verb->add_option("--group", remaining.group, "Group of workers that lost them (default: the first)")
      ->type_name("NAME");
  remaining_verb->add_option("--lost", remaining.lost, "Machines lost (default: 1)")
      ->check(CLI::Range(1, 20000))
      ->type_name("N");
  remaining_verb
      ->add_option("--replaced-after", replaced_after,
                   "Time until the replacements work, such as 90s (default: the profile's start-up of machine and "
                   "framework)")
      ->type_name("T");
  remaining_verb->add_flag("--warm", remaining.is_warm, "The replacements have run the framework before");
  remaining_verb
      ->add_option("--measured-speed", remaining.measured_speed,
                   "Speed before the loss, steps/s (default: the simulated one)")
      ->check(is_positive)
      ->type_name("X");
  remaining_verb
      ->add_option("--history", remaining.history,
                   "Past revocations of this cluster, to fit speed and time until replaced: a CSV with "
                   "revocation_step, total_steps, measured_remaining_s")
      ->type_name("CSV");
  remaining_verb->add_flag("--json", remaining.common.prints_json, "Print remaining.json instead of text");
  add_common(*remaining_verb, common);
  add_output(*remaining_verb, common, "Write remaining.json here (default: write nothing)");
  add_parallel(*remaining_verb, common);

  DiagnoseCommand diagnose;
  std::string measured_step_time;
  auto* diagnose_verb = app.add_subcommand(
      "diagnose",
      "Why a run is as fast as it was measured to be: what its steps consist of, what else may slow it, and what would "
      "help, with gain and cost; all of it simulated\n\n"
      "Example: rehearse diagnose scenarios/cm-dare.json --set /workload/model=cm-dare/resnet15 --set "
      "/cluster/groups/1/instance=gce-custom-8-p100 --set /cluster/groups/1/count=8 --measured-speed 104");
  diagnose_verb->add_option("SCENARIO", diagnose.scenario, "Scenario file")->required();
  diagnose_verb->add_option("--set", diagnose.overrides, "Override a scenario field: /json/pointer=value; repeatable")
      ->allow_extra_args(false)
      ->type_name("POINTER=VALUE");
  diagnose_verb
      ->add_option("--measured-speed", diagnose.measured_steps_per_s,
                   "Steps per second: of all workers together, or of each where they wait for one another")
      ->check(is_positive)
      ->type_name("X");
  diagnose_verb
      ->add_option("--measured-samples-per-s", diagnose.measured_samples_per_s,
                   "In place of it: samples per second of all workers together")
      ->check(is_positive)
      ->type_name("X");
  diagnose_verb
      ->add_option("--measured-step-time", measured_step_time,
                   "In place of it: time from one step of a worker to its next, such as 350ms")
      ->type_name("TIME");
  diagnose_verb->add_flag("--json", diagnose.common.prints_json, "Print diagnosis.json instead of text");
  add_common(*diagnose_verb, common);
  add_output(*diagnose_verb, common, "Write diagnosis.json here (default: write nothing)");
  add_parallel(*diagnose_verb, common);

  GenerateCommand generate;
  auto* generate_verb = app.add_subcommand(
      "generate",
      "Random workloads on the clusters of a space file, simulated: graphs with the 12 burst metrics of Driple, step "
      "time and mean rates, to train a predictor on; or the measured rows of studies, with step times and what follows "
      "from them\n\n"
      "The same bytes for the same seed, whatever -j. What is finished is kept in DATASET.part, where the same command "
      "goes on, also with another --count. Label distributions are drawn in DATASET.report.html\n\n"
      "Example: rehearse generate scenarios/spaces/small.json --count 200 -o results/small.dataset\n"
      "         rehearse generate scenarios/studies/all.json -o results/measured.dataset");
  generate_verb->add_option("SPACE", generate.space, "Space file (rehearse schema space), or a study or set of studies")
      ->required();
  generate_verb
      ->add_option("--count", generate.count, "Samples of a space: graphs times the settings that each is simulated in")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000'000}))
      ->type_name("N");
  generate_verb
      ->add_option("--setting", generate.settings, "Only this setting of the space, or this cluster; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  generate_verb->add_option("--seed", generate.seed, "Seed of every random stream (default: 1)")
      ->check(is_seed)
      ->type_name("N");
  generate_verb
      ->add_option("--format", generate.format,
                   "rehearse: a dataset file; driple: DATASET is a folder with this file, dataset.db, and one for each "
                   "setting, SETTING.dat, that Driple's program reads: graphs of 100 groups in batches of 32, the "
                   "splits of dataset.db without their incomplete last batch")
      ->check(is_one_of({"rehearse", "driple"}))
      ->capture_default_str()
      ->type_name("NAME");
  generate_verb->add_flag("--dry-run", generate.is_dry_run, "Draw the graphs; print how many, and their size");
  generate_verb->add_flag("--json", generate.common.prints_json, "Print a summary as JSON instead of tables");
  add_common(*generate_verb, common);
  generate_verb->add_option("-o,--output", common.output, "Dataset file to write, or folder with --format driple")
      ->type_name("DATASET");
  generate_verb->add_flag("--quiet", common.is_quiet, "No progress on stderr");
  add_parallel(*generate_verb, common);

  for (CLI::App* verb : {simulate_verb, validate_verb, calibrate_verb, sweep_verb, provision_verb, diff_verb,
                         remaining_verb, diagnose_verb, generate_verb})
    add_wall_time(*verb, max_wall_time);

  std::string list_kind;
  auto* list_verb = app.add_subcommand("list", "What the catalogs hold\n\nExample: rehearse list models");
  list_verb
      ->add_option("KIND", list_kind,
                   "gpus, instances, interconnects, regions, models, profiles, spot_pools or topologies")
      ->required();
  bool lists_json = false;
  list_verb->add_flag("--json", lists_json, "Print an array of objects instead of lines");
  add_common(*list_verb, common);

  std::string schema_kind, kinds_of_schemas;
  for (const SchemaKind& kind : schema_kinds())
    kinds_of_schemas += (kinds_of_schemas.empty() ? "" : ", ") + std::string{kind.name};
  auto* schema_verb = app.add_subcommand("schema", "JSON Schema of a file kind\n\nExample: rehearse schema scenario");
  schema_verb->add_option("KIND", schema_kind, kinds_of_schemas)->required();

  if (REHEARSE_HAS_PREDICTOR) {
    for (const auto& [verb, what] : kPredictorVerbs) {
      if (argc > 1 && std::string_view{argv[1]} == verb) start_predictor(argv);
      app.add_subcommand(verb, what);
    }
  }

  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw InputError{describe_parse_error(app, error, argc, argv)};
  }
  std::optional<Seconds> wall_time;
  common.prints_json = simulate.common.prints_json || validate.common.prints_json || sweep.common.prints_json ||
                       provision.common.prints_json || diff.common.prints_json || remaining.common.prints_json ||
                       diagnose.common.prints_json || generate.common.prints_json || lists_json;
  if (!max_wall_time.empty()) wall_time = read_seconds("--max-wall-time", max_wall_time);
  common.budget = start_budget("rehearse", wall_time);
  limit_memory();
  simulate.common = validate.common = calibrate.common = sweep.common = provision.common = diff.common =
      remaining.common = diagnose.common = generate.common = common;
  if (generate_verb->parsed() && !common.output && !generate.is_dry_run)
    throw InputError{"generate: expected -o DATASET, or --dry-run; see rehearse generate --help"};
  if (!max_run_time.empty()) {
    sweep.max_run_time = provision.max_run_time = read_seconds("--max-run-time", max_run_time);
    if (!(*sweep.max_run_time > Seconds{}))
      throw InputError{"--max-run-time: expected a time above 0s; found " + max_run_time};
  }
  if (!simulate_deadline.empty()) simulate.deadline = read_seconds("--deadline", simulate_deadline);
  if (simulate.runs && simulate.is_exact)
    throw InputError{
        "--exact: expected no --runs beside it, which go on speeds of whole memberships; see rehearse simulate --help"};
  if (simulate.deadline && !simulate.runs)
    throw InputError{"--deadline: expected --runs beside it; see rehearse simulate --help"};
  if (!measured_step_time.empty())
    diagnose.measured_step_time = read_seconds("--measured-step-time", measured_step_time);
  if (!deadline.empty()) provision.deadline = read_seconds("--deadline", deadline);
  if (!takeover.empty()) provision.takeover = read_seconds("--takeover", takeover);
  if (!replaced_after.empty()) remaining.replaced_after = read_seconds("--replaced-after", replaced_after);
  if (init_verb->parsed()) return init(name);
  if (simulate_verb->parsed()) return run(simulate);
  if (validate_verb->parsed()) return run(validate);
  if (calibrate_verb->parsed()) return run(calibrate);
  if (sweep_verb->parsed()) return run(sweep);
  if (provision_verb->parsed()) return run(provision);
  if (diff_verb->parsed()) return run(diff);
  if (remaining_verb->parsed()) return run(remaining);
  if (diagnose_verb->parsed()) return run(diagnose);
  if (generate_verb->parsed()) return run(generate);
  if (list_verb->parsed()) return list(common, list_kind);
  return print_schema(schema_kind);
}

}  // namespace

int main(int argc, char** argv) { return run_program("rehearse", run_command_line, argc, argv); }
