// rehearse replay: what a trace recorded, simulated from its durations and dependencies alone.

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

std::string one_digit(double share) { return formatted("%.1f %%", 100 * share); }

/// What a report consists of as lines. Tables have last columns of the what-if, if there is one.
class ReplayText {
 public:
  ReplayText(const RecordedJob& job, const ReplayReport& report, bool is_changed)
      : report_{report}, is_changed_{is_changed} {
    const RecordedRun& first = job.ranks.front();
    answer_.json = to_json_text(replay_json(job, report, is_changed));
    answer_.line(first.file_name + ": " + std::to_string(job.ranks.size()) + " of " + std::to_string(first.world_size) +
                 " ranks, " + (first.gpu.empty() ? "a GPU that is not named" : first.gpu));
    for (const std::string& remark : report.remarks) answer_.line("note: " + remark);
    add_steps();
    add_shares();
    add_meetings();
    add_gpus();
    add_verdict();
  }

  Answer answer() && { return std::move(answer_); }

 private:
  void table(const char* layout, std::vector<std::string> header, const std::vector<std::string>& of_what_if) {
    layout_ = layout;
    answer_.line();
    row(std::move(header), of_what_if);
  }

  void row(std::vector<std::string> cells, const std::vector<std::string>& of_what_if) {
    if (is_changed_) cells.insert(cells.end(), of_what_if.begin(), of_what_if.end());
    answer_.row(layout_, std::move(cells));
  }

  /// Of what is compared with a recording that has dates.
  std::string if_measured(const std::string& text) const { return report_.is_measured ? text : "-"; }

  void add_steps();
  void add_shares();
  void add_meetings();
  void add_gpus();
  void add_verdict();

  const ReplayReport& report_;
  bool is_changed_;
  const char* layout_ = "";
  Answer answer_;
};

void ReplayText::add_steps() {
  const auto error = [](double share) { return formatted("%+.2f %%", 100 * share); };
  table("%-24s %6s  %12s  %12s  %10s  %12s  %10s", {"step", "rank", "measured", "replayed", ""}, {"what if", ""});
  const auto add = [&](const ReplayedStep& step, const std::string& rank) {
    row({shortened(step.name, 24), rank, if_measured(in_milliseconds(step.measured)), in_milliseconds(step.replayed),
         if_measured(error(step.error()))},
        {in_milliseconds(step.changed), error(step.replayed > Seconds{} ? step.changed / step.replayed - 1 : 0.0)});
  };
  for (const ReplayedStep& step : report_.steps) add(step, std::to_string(step.rank));
  add(report_.whole, "all");
}

void ReplayText::add_shares() {
  table("%-20s %8s  %14s  %8s  %14s", {"kernels", "of them", "time", "share"}, {"what if"});
  for (const ReplayedClass& work : report_.classes)
    row({std::string{to_text(work.kernel)}, std::to_string(work.kernels), in_milliseconds(work.time),
         one_digit(work.share)},
        {in_milliseconds(work.changed)});
  table("%-20s %6s  %8s  %14s  %14s  %14s", {"stream", "rank", "of them", "busy, measured", "busy, replayed"},
        {"what if"});
  for (const ReplayedStream& stream : report_.streams)
    row({stream.name, std::to_string(stream.rank), std::to_string(stream.kernels),
         if_measured(one_digit(stream.busy_measured)), one_digit(stream.busy_replayed)},
        {one_digit(stream.busy_changed)});
}

void ReplayText::add_meetings() {
  if (report_.meetings.empty()) return;
  table("%-44s  %10s  %10s  %14s  %14s  %10s  %14s",
        {"collective", "payload", "transfer", "wait, measured", "wait, replayed"}, {"what if", "wait, what if"});
  for (const ReplayedMeeting& meeting : report_.meetings)
    row({shortened(meeting.name, 44), meeting.bytes ? to_text(*meeting.bytes) : "?", in_milliseconds(meeting.transfer),
         in_milliseconds(meeting.wait_measured), in_milliseconds(meeting.wait_replayed)},
        {in_milliseconds(meeting.transfer_changed), in_milliseconds(meeting.wait_changed)});
}

/// The mean over ranks.
void ReplayText::add_gpus() {
  GpuBreakdown measured, replayed, changed;
  for (const ReplayedGpu& gpu : report_.gpus) {
    measured += gpu.measured;
    replayed += gpu.replayed;
    changed += gpu.changed;
  }
  const auto ranks = static_cast<double>(report_.gpus.size());
  const auto cell = [&](const GpuBreakdown& of, Seconds time) {
    return formatted("%.3f ms %5.1f %%", time.value() * 1e3 / ranks,
                     of.window > Seconds{} ? 100 * (time / of.window) : 0.0);
  };
  table("%-32s  %22s  %22s  %22s",
        {report_.gpus.size() > 1 ? "GPU, in the mean over ranks" : "GPU", "measured", "replayed"}, {"what if"});
  const auto add = [&](const char* name, const auto& time_of) {
    row({name, if_measured(cell(measured, time_of(measured))), cell(replayed, time_of(replayed))},
        {cell(changed, time_of(changed))});
  };
  add("first work to last", [](const GpuBreakdown& of) { return of.window; });
  add("busy", [](const GpuBreakdown& of) { return of.busy; });
  add("  computation", [](const GpuBreakdown& of) { return of.computation; });
  add("  communication", [](const GpuBreakdown& of) { return of.communication; });
  add("    overlapped by computation", [](const GpuBreakdown& of) { return of.overlapped; });
  add("    exposed", [](const GpuBreakdown& of) { return of.exposed; });
  add("  copies and fills of memory", [](const GpuBreakdown& of) { return of.memory; });
  add("idle", [](const GpuBreakdown& of) { return of.idle(); });
  add("  waits for the host", [](const GpuBreakdown& of) { return of.host_wait; });
  add("  from kernel to kernel", [](const GpuBreakdown& of) { return of.kernel_wait; });
  add("  for another reason", [](const GpuBreakdown& of) { return of.other_wait; });
}

void ReplayText::add_verdict() {
  if (report_.is_measured) {
    answer_.line();
    answer_.line("unexplained: " + one_digit(report_.unexplained) + " of the steps' time");
  }
  for (const std::string& gap : report_.gaps) answer_.line("  " + gap);
  answer_.line("not scaled by what-ifs on another GPU: " + one_digit(report_.unscaled.kind) +
               " of the time of kernels, whose kind is not known, and " + one_digit(report_.unscaled.precision) +
               ", in whose precision a rate is not");
  const std::string refusal = report_.refusal(), warning = report_.unscaled_warning();
  if (!refusal.empty() || warning.empty())
    answer_.line(refusal.empty() ? "replayed well enough for what-ifs" : refusal);
  else
    answer_.line(
        warning +
        "; good enough for those of the host, collectives, delays and all other kernels alike (--scale kernels=X)");
}

void write_folder(const ReplayCommand& command, const RecordedJob& job, const ReplayReport& report, const Json& what_if,
                  Answer& answer) {
  OutputFolder files{*command.common.output};
  files.write("what_if.json", to_json_text(what_if));
  files.write("replay.json", answer.json);
  files.write("summary.json", to_json_text(replay_summary(job, report, command.is_what_if())));
  files.commit();
  add_written(answer, command.common, *command.common.output, files.names());
}

Answer run(const ReplayCommand& command) {
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
  Answer answer = ReplayText{job, report, is_changed}.answer();
  if (command.common.output) write_folder(command, job, report, what_if_json(command, work, machines), answer);
  return answer;
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
