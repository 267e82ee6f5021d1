// rehearse replay: what a trace recorded, simulated from its durations and dependencies alone.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/trace_inputs.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/replay_report.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

struct ReplayCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> traces;
  WorkChange work;
  std::vector<std::string> delays;  // as typed
  std::optional<std::filesystem::path> machines;
  std::vector<std::string> overrides;
  std::string steps;  // as typed
  bool is_forced = false;

  bool is_what_if() const { return !work.is_empty() || !delays.empty() || machines; }
};

void add_options(Options options, ReplayCommand& command) {
  options
      .add_option(
          "TRACE", command.traces,
          "Trace of PyTorch's profiler (JSON) or of Chakra (.et or JSON), plain or gzip, one of each rank; PyTorch's "
          "execution traces, besides the profiler's, say what tensors operators had")
      .required();
  add_steps(options, command.steps);
  add_work_change(options, command.work);
  options.add_repeatable("--delay", command.delays, "STREAM=TIME",
                         "What if: the first work on a stream, such as 0/7, begins so much later; repeatable");
  options
      .add_option(
          "--on", command.machines,
          "What if: collectives on the machines, network and collective library of this scenario. One trace stands for "
          "all of its workers")
      .type_name("SCENARIO");
  add_overrides(options, command.overrides,
                "Override a field of the scenario of --on: /json/pointer=value; repeatable. Of /cluster, /calibration "
                "and the algorithm of /training/strategy: all else is as recorded");
  add_catalogs(options, command.common);
  options.add_flag("--force", command.is_forced, "What-ifs also on a trace that is not replayed well");
  options.add_flag("--json", command.common.prints_json, "Print replay.json instead of tables");
  add_output(options, command.common,
             "Write summary.json, replay.json and what_if.json here, which rehearse diff compares (default: write "
             "nothing)");
  add_wall_time(options, command.common);
}

/// Those with work, of all ranks.
std::vector<std::string> working_streams(const RecordedJob& job) {
  std::set<std::string> streams;
  for (const RecordedRun& run : job.ranks)
    for (const RecordedOperation& operation : run.operations)
      if (operation.kind == RecordedOperation::Kind::kGpu)
        streams.insert(run.streams[static_cast<std::size_t>(operation.lane)]);
  return {streams.begin(), streams.end()};
}

void add_delays(RecordedChange& change, const std::vector<std::string>& delays, const RecordedJob& job) {
  for (const std::string& text : delays) {
    const auto [stream, value] = split_setting("--delay", text);
    const std::vector<std::string> streams = working_streams(job);
    if (std::ranges::find(streams, stream) == streams.end())
      throw InputError{"--delay: " + unknown_name_message("stream", stream, streams)};
    change.delays.push_back({stream, *read_seconds("--delay", value)});
  }
}

/// What of the scenario a replay does not ask for would be changed without effect.
void require_effect(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const std::string pointer = text.substr(0, text.find('='));
    const auto is_below = [&](std::string_view part) {
      return pointer == part || pointer.starts_with(std::string{part} + "/");
    };
    if (!is_below("/cluster") && !is_below("/calibration") && pointer != "/training/strategy/kind" &&
        pointer != "/training/strategy/algorithm")
      throw InputError{"--set " + shortened(pointer) +
                       ": a replay keeps what was recorded of it; rehearse import makes a model of the trace, with "
                       "which rehearse simulate answers that"};
  }
}

std::optional<Scenario> read_machines(const ReplayCommand& command, const Catalog& catalog) {
  if (!command.machines) {
    if (!command.overrides.empty()) throw InputError{"--set: changes the scenario of --on, which is not there"};
    return {};
  }
  require_effect(command.overrides);
  return read_scenario(load_checked_scenario(*command.machines, command.overrides, catalog), command.machines->string(),
                       catalog);
}

/// Where kernels are not those of the scenario's GPUs.
void remark_on_gpus(std::vector<std::string>& remarks, const Scenario& machines, const std::string& gpu) {
  std::set<std::string> others;
  for (const Group& group : machines.groups)
    if (group.role == Role::kWorker && group.accelerator && group.accelerator->name != gpu)
      others.insert(group.accelerator->name);
  if (!others.empty())
    remarks.push_back("what if: kernels are those of " + (gpu.empty() ? "the recorded GPU" : gpu) + ", not of " +
                      joined(others) + ", which the scenario has: --gpu changes them");
}

/// What was asked, as rehearse diff compares it.
Json what_if_json(const ReplayCommand& command, const ChangedWork& work, const std::optional<Scenario>& machines) {
  Json json{{"format", 1}, {"kind", "replay"}, {"traces", Json::array()}};
  for (const std::filesystem::path& trace : command.traces) json["traces"].push_back(trace.string());
  if (!command.steps.empty()) json["steps"] = command.steps;
  for (const std::string& text : command.work.factors) {
    const auto [name, value] = split_setting("--scale", text);
    json["scale"][name] = std::strtod(value.c_str(), nullptr);
  }
  for (const std::string& text : command.delays) {
    const auto [stream, value] = split_setting("--delay", text);
    json["delay"][stream] = value;
  }
  json["gpu"] = work.gpu;
  if (machines) json["on"] = *machines->effective;
  return json;
}

/// Of what is compared with a recording that has dates.
std::string measured_text(const ReplayReport& report, const char* format, double value) {
  if (!report.is_measured) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

void print_steps(const ReplayReport& report, bool is_changed) {
  std::printf("%-24s %6s  %12s  %12s  %10s", "step", "rank", "measured", "replayed", "");
  std::printf(is_changed ? "  %12s  %10s\n" : "\n", "what if", "");
  const auto print = [&](const ReplayedStep& step, const std::string& rank) {
    std::printf("%-24s %6s  %12s  %9.3f ms  %10s", shortened(step.name, 24).c_str(), rank.c_str(),
                measured_text(report, "%.3f ms", step.measured.value() * 1e3).c_str(), step.replayed.value() * 1e3,
                measured_text(report, "%+.2f %%", 100 * step.error()).c_str());
    if (is_changed)
      std::printf("  %9.3f ms  %+8.2f %%", step.changed.value() * 1e3,
                  step.replayed > Seconds{} ? 100 * (step.changed / step.replayed - 1) : 0.0);
    std::printf("\n");
  };
  for (const ReplayedStep& step : report.steps) print(step, std::to_string(step.rank));
  print(report.whole, "all");
}

/// A last column, of a what-if.
void end_row(bool is_changed, const char* format, double value) {
  if (is_changed) std::printf(format, value);
  std::printf("\n");
}

void print_shares(const ReplayReport& report, bool is_changed) {
  const char* what_if = is_changed ? "         what if" : "";
  std::printf("\n%-20s %8s  %14s  %8s%s\n", "kernels", "of them", "time", "share", what_if);
  for (const ReplayedClass& work : report.classes) {
    std::printf("%-20s %8lld  %11.3f ms  %6.1f %%", std::string{to_text(work.kernel)}.c_str(),
                static_cast<long long>(work.kernels), work.time.value() * 1e3, 100 * work.share);
    end_row(is_changed, "  %11.3f ms", work.changed.value() * 1e3);
  }
  std::printf("\n%-20s %6s  %8s  %14s  %14s%s\n", "stream", "rank", "of them", "busy, measured", "busy, replayed",
              what_if);
  for (const ReplayedStream& stream : report.streams) {
    std::printf("%-20s %6d  %8lld  %14s  %12.1f %%", stream.name.c_str(), stream.rank,
                static_cast<long long>(stream.kernels),
                measured_text(report, "%.1f %%", 100 * stream.busy_measured).c_str(), 100 * stream.busy_replayed);
    end_row(is_changed, "  %12.1f %%", 100 * stream.busy_changed);
  }
  if (report.meetings.empty()) return;
  std::printf("\n%-44s  %10s  %10s  %14s  %14s", "collective", "payload", "transfer", "wait, measured",
              "wait, replayed");
  std::printf(is_changed ? "  %10s  %14s\n" : "\n", "what if", "wait, what if");
  for (const ReplayedMeeting& meeting : report.meetings) {
    std::printf("%-44s  %10s  %7.3f ms  %11.3f ms  %11.3f ms", shortened(meeting.name, 44).c_str(),
                meeting.bytes ? to_text(*meeting.bytes).c_str() : "?", meeting.transfer.value() * 1e3,
                meeting.wait_measured.value() * 1e3, meeting.wait_replayed.value() * 1e3);
    if (is_changed)
      std::printf("  %7.3f ms  %11.3f ms", meeting.transfer_changed.value() * 1e3, meeting.wait_changed.value() * 1e3);
    std::printf("\n");
  }
}

/// The mean over ranks; of what-ifs in a last column.
void print_gpus(const ReplayReport& report, bool is_changed) {
  GpuBreakdown measured, replayed, changed;
  for (const ReplayedGpu& gpu : report.gpus) {
    measured += gpu.measured;
    replayed += gpu.replayed;
    changed += gpu.changed;
  }
  const auto ranks = static_cast<double>(report.gpus.size());
  const auto cell = [&](const GpuBreakdown& of, Seconds time) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%.3f ms %5.1f %%", time.value() * 1e3 / ranks,
                  of.window > Seconds{} ? 100 * (time / of.window) : 0.0);
    return std::string{text.data()};
  };
  std::printf("\n%-32s  %22s  %22s%s\n", report.gpus.size() > 1 ? "GPU, in the mean over ranks" : "GPU", "measured",
              "replayed", is_changed ? "                 what if" : "");
  const auto print = [&](const char* name, const auto& time_of) {
    std::printf("%-32s  %22s  %22s", name, report.is_measured ? cell(measured, time_of(measured)).c_str() : "-",
                cell(replayed, time_of(replayed)).c_str());
    if (is_changed) std::printf("  %22s", cell(changed, time_of(changed)).c_str());
    std::printf("\n");
  };
  print("first work to last", [](const GpuBreakdown& of) { return of.window; });
  print("busy", [](const GpuBreakdown& of) { return of.busy; });
  print("  computation", [](const GpuBreakdown& of) { return of.computation; });
  print("  communication", [](const GpuBreakdown& of) { return of.communication; });
  print("    overlapped by computation", [](const GpuBreakdown& of) { return of.overlapped; });
  print("    exposed", [](const GpuBreakdown& of) { return of.exposed; });
  print("  copies and fills of memory", [](const GpuBreakdown& of) { return of.memory; });
  print("idle", [](const GpuBreakdown& of) { return of.idle(); });
  print("  waits for the host", [](const GpuBreakdown& of) { return of.host_wait; });
  print("  from kernel to kernel", [](const GpuBreakdown& of) { return of.kernel_wait; });
  print("  for another reason", [](const GpuBreakdown& of) { return of.other_wait; });
}

void print_verdict(const ReplayReport& report) {
  if (report.is_measured) std::printf("\nunexplained: %.1f %% of the steps' time\n", 100 * report.unexplained);
  for (const std::string& gap : report.gaps) std::printf("  %s\n", gap.c_str());
  std::printf(
      "not scaled by what-ifs on another GPU: %.1f %% of the time of kernels, whose kind is not known, and %.1f %%, "
      "in whose precision a rate is not\n",
      100 * report.unscaled.kind, 100 * report.unscaled.precision);
  const std::string refusal = report.refusal(), warning = report.unscaled_warning();
  if (!refusal.empty() || warning.empty())
    std::printf("%s\n", refusal.empty() ? "replayed well enough for what-ifs" : refusal.c_str());
  else
    std::printf(
        "%s; good enough for those of the host, collectives, delays and all other kernels alike (--scale kernels=X)\n",
        warning.c_str());
}

void print_report(const RecordedJob& job, const ReplayReport& report, bool is_changed) {
  std::printf("%s: %zu of %d ranks, %s\n", job.ranks.front().file_name.c_str(), job.ranks.size(),
              job.ranks.front().world_size,
              job.ranks.front().gpu.empty() ? "a GPU that is not named" : job.ranks.front().gpu.c_str());
  for (const std::string& remark : report.remarks) std::printf("note: %s\n", remark.c_str());
  std::printf("\n");
  print_steps(report, is_changed);
  print_shares(report, is_changed);
  print_gpus(report, is_changed);
  print_verdict(report);
}

void write_folder(const ReplayCommand& command, const RecordedJob& job, const ReplayReport& report,
                  const Json& what_if) {
  OutputFolder files{*command.common.output};
  files.write("what_if.json", to_json_text(what_if));
  files.write("replay.json", to_json_text(replay_json(job, report, command.is_what_if())));
  files.write("summary.json", to_json_text(replay_summary(job, report, command.is_what_if())));
  files.commit();
  say_written(command.common, *command.common.output, files.names());
}

int run(const ReplayCommand& command) {
  const RecordedJob job =
      recorded_job(read_recorded_runs(command.traces, command.common.budget, {.steps = read_steps(command.steps)}));
  const Catalog catalog = load_catalog(command.common);
  ChangedWork work = read_work_change(command.work, job, catalog);
  add_delays(work.change, command.delays, job);
  const std::optional<Scenario> machines = read_machines(command, catalog);
  const bool is_changed = command.is_what_if();
  const auto made = make_folder(command.common.output);
  command.common.budget.check();
  ReplayReport report = replay_report(job, replay(job));
  command.common.budget.check();
  if (is_changed) {
    if (const std::string refusal = report.refusal(); !refusal.empty() && !command.is_forced)
      throw InputError{job.ranks.front().file_name + ": " + refusal + "; --force answers all the same"};
    add_changed(report, job, machines ? replay_on(*machines, job, work.change) : replay(job, work.change));
    report.remarks.insert(report.remarks.end(), work.remarks.begin(), work.remarks.end());
    for (std::string& remark : idle_factors(command.work, report)) report.remarks.push_back(std::move(remark));
    report.unscaled = work.unscaled.value_or(report.unscaled);
    if (machines) {
      remark_on_gpus(report.remarks, *machines, work.gpu);
      add_collectives(report, job);
    }
  }
  if (command.common.prints_json)
    std::printf("%s", to_json_text(replay_json(job, report, is_changed)).c_str());
  else
    print_report(job, report, is_changed);
  if (command.common.output) write_folder(command, job, report, what_if_json(command, work, machines));
  return kSuccess;
}

}  // namespace

CommandVerb replay_verb() {
  return make_verb<ReplayCommand>(
      "replay",
      "A recorded step, simulated beside its trace, and what if\n\nExamples: rehearse replay trace.json.gz\n"
      "          rehearse replay rank0.json rank1.json --scale collective=0.5\n"
      "          rehearse replay trace.json.gz --gpu H100 -o results/h100\n"
      "          rehearse diff results/as-recorded results/h100",
      add_options, run);
}

}  // namespace rehearse
