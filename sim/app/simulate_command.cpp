// rehearse simulate: one scenario, once; with --runs see monte_carlo_command.cpp.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "calibration/parameter_uncertainty.hpp"
#include "platforms/catalog.hpp"
#include "sim/app/estimate.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/explain.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/run_files.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/simulate_command.hpp"
#include "sim/app/simulate_once.hpp"
#include "sim/app/traffic_runs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/simulate.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/plan/remedy_trial.hpp"
#include "sim/record/recording_scope.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/site.hpp"
#include "sim/traffic/messages.hpp"
#include "sim/training/compile.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

/// Of one processor, for simulations that nobody asked for; or as much as the run itself takes.
constexpr Seconds kMostForRemedies{10};

void add_options(Options options, SimulateCommand& command) {
  add_scenario(options, command);
  options.add_option("--seed", command.seed, "N", "Seed of every random stream (default: the scenario's, or 1)")
      .check(is_seed);
  options.add_count("--runs", command.runs, 1, 1'000'000,
                    "Run the job so many times, each with revocations of its own: finish time, cost, lost work as "
                    "percentiles; each membership of the cluster is simulated once. A run that is not finished after "
                    "/training/recovery/give_up_after is given up, as some never end (default: 60 days, or ten times "
                    "the time without revocations, or --deadline, whichever is last), and means are then lower bounds");
  options.add_option("--deadline", command.deadline, "T",
                     "With --runs: the probability of being finished by then, such as 24h");
  add_parallel(options, command.common);
  options.add_flag("--dry-run", command.is_dry_run,
                   "Check the scenario; print GPU memory by part, messages and an estimate of the run's own duration");
  options.add_flag("--exact", command.is_exact,
                   "Simulate every kernel, message and step, on SimGrid's own network: slow, to check results");
  options.add_option(
      "--trace-window", command.trace_window, "FROM..TO",
      "With -o: record kernels and messages of this part of the run, such as 10s..12s (default: until the "
      "steady state has lasted for 60s and 20 steps)");
  options.add_option("--trace-workers,--trace-ranks", command.trace_workers, "WORKERS",
                     "With -o: record the machines of these workers only, such as 0,8..15 (workers count from 0; "
                     "default: all, or where that "
                     "were tens of millions of kernels and messages one worker of each stage)");
  options
      .add_option(
          "--trace-format", command.trace_format, "FORMAT",
          "With -o: chrome writes timeline.json.gz, for Perfetto; kineto instead kineto/rank-N.json.gz, a trace "
          "of each worker as PyTorch's profiler makes them, for Holistic Trace Analysis and rehearse replay")
      .check(is_one_of({"chrome", "kineto"}))
      .shows_default();
  options.add_flag("--explain", command.explains, "Print where each number came from");
  options.add_flag("--print-program", command.prints_program,
                   "Print what the first worker does in a step, operation by operation, and what each waits for");
  options.add_flag("--json", command.common.prints_json,
                   "Print summary.json instead of text; with --dry-run what that prints, as JSON");
  add_catalogs(options, command.common);
  add_output(options, command.common,
             "Write summary.json, tables, timeline and report.html here (default: write nothing)");
  options
      .add_option("--remedies", command.remedies, "WHICH",
                  "With -o: simulate for report.html what might help, as diagnose does. auto: if that takes about " +
                      to_text(kMostForRemedies) +
                      " of a processor at most, or no longer than the run; all: however long it takes; none")
      .check(is_one_of({"auto", "all", "none"}))
      .shows_default();
  options.add_option("--pcap", command.pcap, "DIR",
                     "Write the packets that leave each machine as captures DIR/MACHINE.pcap, of what is recorded "
                     "(--trace-window): segments of TCP, 1448 bytes each, and acknowledgements");
  add_wall_time(options, command.common);
}

void require_options_that_go_together(const SimulateCommand& command) {
  if (command.runs && command.is_exact)
    throw InputError{
        "--exact: expected no --runs beside it, which go on speeds of whole memberships; see rehearse simulate --help"};
  if (command.pcap && command.runs)
    throw InputError{"--pcap: expected no --runs beside it, which record nothing; see rehearse simulate --help"};
  if (command.common.given.contains("--trace-format") && !command.common.output)
    throw InputError{"--trace-format: expected -o beside it; see rehearse simulate --help"};
  if (command.common.given.contains("--remedies") && !command.common.output)
    throw InputError{"--remedies: expected -o beside it; see rehearse simulate --help"};
  if (!command.deadline.empty() && !command.runs)
    throw InputError{"--deadline: expected --runs beside it; see rehearse simulate --help"};
}

Scenario load_scenario(const SimulateCommand& command, const Catalog& catalog) {
  return read_scenario_with(load_scenario_of(command, catalog), command.file_name(), command.overrides, command.seed,
                            catalog);
}

std::string samples_text(const SampleCounts& samples) {
  std::string text = std::to_string(samples.done) + " done";
  for (const auto& [count, what] : {std::pair{samples.lost, " lost"}, std::pair{samples.repeated, " repeated"},
                                    std::pair{samples.dropped, " dropped"}})
    if (count > 0) text += ", " + std::to_string(count) + what;
  return text;
}

/// Whether something has ended the steady state long before the run.
bool is_of_a_part(const Summary& summary) { return summary.window.end < summary.time * 0.9; }

/// "12 kWh, 1.2 USD, 3.4 kg CO2", as far as the scenario says what a kWh costs and emits.
std::string energy_text(const Scenario& scenario, double kwh) {
  std::string text = display(kwh) + " kWh";
  if (const auto usd = scenario.electricity.usd(kwh)) text += ", " + display(*usd) + " USD";
  if (const auto co2 = scenario.electricity.co2_kg(kwh)) text += ", " + display(*co2) + " kg CO2";
  return text;
}

void add_energy(Answer& answer, const Scenario& scenario, const Summary& summary) {
  const auto& energy = summary.energy;
  if (!energy) return;
  answer.named("power", formatted("a GPU %.4g W, its machine %.4g W", energy->gpu_power_w, energy->node_power_w));
  std::string text = energy_text(scenario, scenario.electricity.kwh(energy->node_j));
  if (const auto& target = summary.to_target; target && target->energy_kwh)
    text += "; to the target " + energy_text(scenario, *target->energy_kwh);
  answer.named("energy", text);
}

std::string cost_text(const Scenario& scenario, const std::optional<Cost>& cost) {
  if (!cost) return "unknown: an instance has no price";
  std::string text = display(cost->usd) + " USD";
  if (cost->is_mostly_rounding())
    text += " as " + billing_text(scenario) + "; " + display(cost->usd_by_the_moment) + " USD by the moment";
  return text;
}

std::string step_text(const Summary& summary) {
  constexpr double kLongStep = 10;  // s
  const bool is_long = summary.iteration_time.value() >= kLongStep;
  const double per_unit = is_long ? 1 : 1e3;
  const char* unit = is_long ? "s" : "ms";
  return formatted("%.4g %s per worker, of which %.4g %s wait for network, servers and others",
                   summary.iteration_time.value() * per_unit, unit, summary.exposed_communication.value() * per_unit,
                   unit);
}

Answer answer_of(const Scenario& scenario, const Summary& summary) {
  Answer answer{.json = to_json_text(to_json(scenario, summary))};
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  answer.named("speed", display(summary.steps_per_s) + " steps/s (" +
                            (is_synchronous ? "all workers together" : "sum of all workers") + "), " +
                            display(summary.samples_per_s) + " samples/s");
  if (is_of_a_part(summary))
    answer.named("steady state", "from " + time_text(summary.window.start.value()) + " to " +
                                     time_text(summary.window.end.value()) + " of the run's " +
                                     time_text(summary.time.value()) +
                                     ": speed, step and utilization are of this part");
  if (summary.interval)
    answer.named("interval", formatted("%.4g to %.4g steps/s (90 %%)", summary.steps_per_s * summary.interval->first,
                                       summary.steps_per_s * summary.interval->second));
  answer.named("time",
               time_text(summary.time.value()) + " for " + count_text(static_cast<double>(summary.steps)) + " steps");
  answer.named("samples", samples_text(summary.samples));
  answer.named("step", step_text(summary));
  answer.named("cost", cost_text(scenario, summary.cost));
  add_energy(answer, scenario, summary);
  if (const auto& target = summary.to_target)
    answer.named("to the target", time_text(target->time.value()) + ", " + count_text(target->updates) + " updates, " +
                                      count_text(target->samples) + " samples" +
                                      (target->cost ? ", " + display(target->cost->usd) + " USD" : "") +
                                      (target->remark.empty() ? "" : ", " + target->remark));
  if (const auto& what = summary.interruptions)
    answer.named("machines come and go",
                 std::to_string(what->revocations) + " revocations, " +
                     (what->faults > 0 ? std::to_string(what->faults) + " faults, " : "") +
                     std::to_string(what->replacements) + " replacements, " + std::to_string(what->restarts) +
                     " restarts, " + std::to_string(what->lost_updates) + " steps lost; the job stood still for " +
                     time_text(what->stopped.value()));
  if (summary.time_use) answer.named("goodput", goodput_text(*summary.time_use));
  if (const auto& what = summary.losses)
    answer.named("lost packets", to_text(what->retransmitted) + " sent again; " +
                                     std::to_string(what->fast_retransmits) + " fast retransmits, " +
                                     std::to_string(what->probes) + " tail loss probes, " +
                                     std::to_string(what->late_probes) + " of them late, " +
                                     std::to_string(what->timeouts) + " time-outs");
  answer.named("GPU utilization", formatted("%.0f %%", summary.gpu_utilization * 100));
  if (!is_synchronous)
    answer.named("staleness", formatted("mean %.2f, at most ", summary.staleness_mean) +
                                  std::to_string(summary.staleness_max) + " updates");
  answer.named("bottleneck", summary.verdict.text);
  return answer;
}

/// Workers whose machines are recorded, as --trace-workers has them: of what would be too much to keep the first one of each stage.
std::string recorded_workers(const SimulateCommand& command, const Scenario& scenario) {
  constexpr double kMostRecords = 3e7;  // about 3 GB
  const bool is_chosen = !command.trace_workers.empty() || !command.trace_window.empty();
  if (!command.common.output || command.runs || command.is_dry_run || is_chosen) return command.trace_workers;
  const double records = expected_records(scenario);
  if (records <= kMostRecords) return {};
  std::string workers;
  for (const int worker : rank_grid(scenario).along(Axis::kPipeline, 0))
    workers += (workers.empty() ? "" : ",") + std::to_string(worker);
  if (!command.common.is_quiet)
    print_warning("kernels and messages of all machines would be " + display(records / 1e6) +
                  " million: tables and timeline have those of worker" +
                  (workers == "0" ? " 0" : "s " + shortened(workers, 60) + ", one of each stage") +
                  "; --trace-workers chooses others");
  return workers;
}

/// For report.html. The run itself has been simulated, so what its remedies lack is no error.
ReportedRemedies simulated_remedies(const SimulateCommand& command, const Scenario& scenario, const Catalog& catalog,
                                    const SimulateOptions& options) {
  if (command.remedies == "none") return {.simulated = {}, .why_not = "as --remedies none asks"};
  try {
    const RemedyTrial trial{scenario, catalog};
    const auto count = static_cast<double>(trial.simulations());
    const Seconds each = expected_run(shortened(scenario)).duration;
    const Seconds most = std::max(kMostForRemedies, expected_run(scenario, options).duration);
    if (command.remedies == "auto" && count * each > most)
      return {.simulated = {},
              .why_not = "as " + std::to_string(trial.simulations()) + " simulations of about " +
                         duration_text(each.value()) + " would be long; --remedies all simulates them"};
    Progress progress{"simulations of remedies, which Ctrl-C leaves out", command.common.is_quiet};
    const SimulationMeans means{.pool = pool_of(command.common),
                                .on_done = progress.counter(),
                                .limits = {.is_stopped = command.common.budget.asked(), .job_wall_s = {}}};
    const auto tried = trial.run([&](const Experiment& experiment) { return experiment.run(means); });
    if (!tried) return {.simulated = {}, .why_not = "as they were stopped"};
    return {.simulated = tried->remedies, .why_not = {}};
  } catch (const NoResultError& error) {
    return {.simulated = {}, .why_not = std::string{"as the steady state has no result: "} + error.what()};
  }
}

std::vector<std::string> write_pcap(const fs::path& folder, const RunRecord& record) {
  constexpr std::int64_t kMostPackets = 200'000'000;  // 16 GB
  const std::vector<Message> messages = messages_of(record, std::numeric_limits<std::size_t>::max());
  if (const std::int64_t packets = count_packets(messages); packets > kMostPackets)
    throw NoResultError{"--pcap: the messages recorded are " + std::to_string(packets) + " packets, more than " +
                        std::to_string(kMostPackets) + ": choose a shorter --trace-window"};
  OutputFolder files{folder};
  const std::vector<std::string> names = machine_names(record);
  const std::vector<RunConnection> connections = connections_of(messages);
  for (const MachineCapture& capture : captures_of(connections))
    write_capture(files.place(capture_name(names[static_cast<std::size_t>(capture.machine)])), capture);
  files.commit();
  return files.names();
}

Answer run(const SimulateCommand& command) {
  const auto deadline = read_seconds("--deadline", command.deadline);
  require_options_that_go_together(command);
  const Catalog catalog = load_catalog_as_asked(command.common);
  Scenario scenario = load_scenario(command, catalog);
  if (command.is_exact && scenario.training.share_variation > 0)
    scenario.warnings.emplace_back("--exact shares links evenly: \"share_variation\" counts as 0");
  const RecordingScope scope =
      read_recording_scope(command.trace_window, recorded_workers(command, scenario), Site{scenario});
  if (!command.trace_window.empty()) {
    scenario.output.timeline_start = scope.window.start;
    scenario.output.timeline_length = scope.window.end - scope.window.start;
  }
  const bool moves_profile = has_time_for_moved_profiles(scenario);
  const bool keeps_activity = command.common.output || command.pcap;
  const SimulateOptions options{
      .keeps_activity = keeps_activity, .scope = scope, .is_exact = command.is_exact, .is_on_simgrid = true};
  if (!command.runs) require_memory(scenario, options);
  const auto made = command.is_dry_run ? std::nullopt : make_folder(command.common.output);
  const auto made_captures = command.is_dry_run ? std::nullopt : make_folder(command.pcap);
  if (!command.common.is_quiet) {
    if (!command.model.empty()) warn_of_assumptions(scenario, command.overrides);
    print_warnings(scenario.warnings);
    const std::string of_captures = command.pcap ? rdma_warning(scenario) : "";
    if (!of_captures.empty()) print_warning(of_captures);
    const std::string of_time = command.is_dry_run || command.runs ? "" : warning_of_long_run(scenario, options);
    if (!of_time.empty()) print_warning(of_time);
  }
  const std::string program = command.prints_program ? program_text(scenario) : "";
  if (command.explains) (void)print({.parts = {explain(scenario)}});
  if (command.prints_program) return {.json = program, .parts = {program}};
  if (command.is_dry_run) {
    const Seconds interval = moves_profile ? interval_duration(scenario, processors()) : Seconds{};
    const ExpectedRun run = expected_run(scenario, options);
    return {.json = to_json_text(dry_run_json(scenario, options, run, interval)),
            .parts = {describe_dry_run(scenario, options, run, interval)}};
  }
  if (command.runs) return run_many(command, deadline, scenario);

  const Budget& budget = command.common.budget;
  const double uncertainty = moves_profile ? uncertainty_by_profile(scenario, command.common.is_quiet, budget) : 0;
  Progress progress{"steps", command.common.is_quiet};
  const Simulated simulated = simulate_once(scenario, options, uncertainty, progress, budget);
  const RunRecord& record = simulated.record;
  const Summary& summary = simulated.summary;
  if (scenario.has_revocations() && !scenario.training.recovery.give_up_after && record.end > kGivesUpAfter &&
      !command.common.is_quiet)
    print_warning(
        "this run takes longer than 60 days: of many (--runs) those are given up that are not finished after that, or "
        "after ten times their work (/training/recovery/give_up_after)");
  if (!simulated.warning.empty() && !command.common.is_quiet) print_warning(simulated.warning);
  Answer answer = answer_of(scenario, summary);
  if (command.common.output) {
    const ReportedRemedies remedies = simulated_remedies(command, scenario, catalog, options);
    const bool were_stopped = budget.is_over();  // the remedies: the run itself has finished
    if (were_stopped) let_finished_work_be_written();
    const Budget writing = were_stopped ? Budget{} : budget;
    progress.say("writing " + command.common.output->string());
    const TimelineFormat format = command.trace_format == "kineto" ? TimelineFormat::kKineto : TimelineFormat::kChrome;
    add_written(answer, command.common, *command.common.output,
                write_run_files(*command.common.output, {scenario, record, summary, remedies}, format, writing));
  }
  if (command.pcap) {
    progress.say("writing " + command.pcap->string());
    add_written(answer, command.common, *command.pcap, write_pcap(*command.pcap, record));
  }
  return answer;
}

}  // namespace

CommandVerb simulate_verb() {
  return make_verb<SimulateCommand>(
      "simulate",
      "Run one scenario: speed, time, cost, bottleneck\n\n"
      "Example: rehearse simulate scenarios/cm-dare.json --set /cluster/groups/1/count=8 -o results\n"
      "         rehearse simulate --model llama3_8b --instance p5.48xlarge=8 --batch 1 --set "
      "/training/strategy/sharding=parameters",
      add_options, run);
}

}  // namespace rehearse
