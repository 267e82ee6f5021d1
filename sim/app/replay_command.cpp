// rehearse replay: what a trace recorded, simulated from its durations and dependencies alone.

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/trace_inputs.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/recorded_gpu.hpp"
#include "sim/plan/replay_report.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

struct ReplayCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> traces;
  std::vector<std::string> factors, delays;  // as typed
  std::optional<std::filesystem::path> machines;
  std::vector<std::string> overrides;
  std::string steps, gpu;  // as typed
  bool is_forced = false;
};

void add_options(Options options, ReplayCommand& command) {
  options
      .add_option(
          "TRACE", command.traces,
          "Trace of PyTorch's profiler (JSON) or of Chakra (.et or JSON), plain or gzip, one of each rank; PyTorch's "
          "execution traces, besides the profiler's, say what tensors operators had")
      .required();
  add_steps(options, command.steps);
  options.add_repeatable("--scale", command.factors, "WORK=X",
                         "What if: times of this work are X times as long. WORK: host, kernels, or a class of kernels "
                         "such as convolution or collective; repeatable");
  options.add_repeatable("--delay", command.delays, "STREAM=TIME",
                         "What if: the first work on a stream, such as 0/7, begins so much later; repeatable");
  options
      .add_option("--gpu", command.gpu,
                  "What if: the kernels run on this GPU of the catalog, each class as much faster as the memory or the "
                  "arithmetic that bounds it. OLD=NEW if the catalog has another name for the recorded one")
      .type_name("NAME");
  options
      .add_option(
          "--on", command.machines,
          "What if: collectives on the machines, network and collective library of this scenario. One trace stands for "
          "all of its workers")
      .type_name("SCENARIO");
  add_overrides(options, command.overrides,
                "Override a field of the scenario of --on: /json/pointer=value; repeatable");
  add_catalogs(options, command.common);
  options.add_flag("--force", command.is_forced, "What-ifs also on a trace that is not replayed well");
  options.add_flag("--json", command.common.prints_json, "Print the replay as JSON instead of tables");
  add_wall_time(options, command.common);
}

/// "WORK=X" in its parts.
std::pair<std::string, std::string> split(const std::string& option, const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError{option + ": expected NAME=VALUE; found " + in_quotes(text)};
  return {text.substr(0, equals), text.substr(equals + 1)};
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

RecordedChange read_change(const ReplayCommand& command, const RecordedJob& job) {
  RecordedChange change;
  for (const std::string& text : command.factors) {
    const auto [work, value] = split("--scale", text);
    char* end = nullptr;
    const double factor = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(factor >= 0 && factor <= 1e6))
      throw InputError{"--scale: " + work + ": expected a factor from 0 to 1000000; found " + in_quotes(value)};
    scale(change, work, factor);
  }
  for (const std::string& text : command.delays) {
    const auto [stream, value] = split("--delay", text);
    const std::vector<std::string> streams = working_streams(job);
    if (std::ranges::find(streams, stream) == streams.end())
      throw InputError{"--delay: " + unknown_name_message("stream", stream, streams)};
    change.delays.push_back({stream, *read_seconds("--delay", value)});
  }
  return change;
}

Accelerator read_gpu(const Catalog& catalog, const std::string& name) {
  const Json asked = name;
  return read_accelerator(name, catalog.accelerator(name, JsonReader{asked, "--gpu"}));
}

/// Changes kernels to those of --gpu, and returns what is said of it.
std::vector<std::string> change_gpu(RecordedChange& change, const std::string& option, const RecordedJob& job,
                                    const Catalog& catalog) {
  const std::size_t equals = option.find('=');
  const std::string& recorded = job.ranks.front().gpu;
  const std::string from =
      equals == std::string::npos ? catalog_name(recorded, catalog.accelerator_names()) : option.substr(0, equals);
  if (from.empty())
    throw InputError{job.ranks.front().file_name + ": --gpu: the catalog does not know " +
                     (recorded.empty() ? "the GPU, which is not named" : in_quotes(recorded)) + ": name it, OLD=NEW"};
  const std::string to = equals == std::string::npos ? option : option.substr(equals + 1);
  return move_to_gpu(change, job, read_gpu(catalog, from), read_gpu(catalog, to));
}

std::optional<Scenario> read_machines(const ReplayCommand& command, const Catalog& catalog) {
  if (!command.machines) {
    if (!command.overrides.empty()) throw InputError{"--set: changes the scenario of --on, which is not there"};
    return {};
  }
  return read_scenario(load_checked_scenario(*command.machines, command.overrides, catalog), command.machines->string(),
                       catalog);
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
      std::printf("  %9.3f ms  %+8.2f %%", step.changed.value() * 1e3, 100 * (step.changed / step.replayed - 1));
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

void print_report(const RecordedJob& job, const ReplayReport& report, bool is_changed) {
  std::printf("%s: %zu of %d ranks, %s\n", job.ranks.front().file_name.c_str(), job.ranks.size(),
              job.ranks.front().world_size,
              job.ranks.front().gpu.empty() ? "a GPU that is not named" : job.ranks.front().gpu.c_str());
  for (const std::string& remark : report.remarks) std::printf("note: %s\n", remark.c_str());
  std::printf("\n");
  print_steps(report, is_changed);
  print_shares(report, is_changed);
  if (report.is_measured) std::printf("\nunexplained: %.1f %% of the steps' time\n", 100 * report.unexplained);
  for (const std::string& gap : report.gaps) std::printf("  %s\n", gap.c_str());
  const std::string refusal = report.refusal();
  std::printf("%s\n", refusal.empty() ? "replayed well enough for what-ifs" : refusal.c_str());
}

int run(const ReplayCommand& command) {
  const RecordedJob job =
      recorded_job(read_recorded_runs(command.traces, command.common.budget, {.steps = read_steps(command.steps)}));
  const Catalog catalog = load_catalog(command.common);
  RecordedChange change = read_change(command, job);
  std::vector<std::string> remarks;
  if (!command.gpu.empty()) remarks = change_gpu(change, command.gpu, job, catalog);
  const std::optional<Scenario> machines = read_machines(command, catalog);
  const bool is_changed = !command.factors.empty() || !command.delays.empty() || !command.gpu.empty() || machines;
  command.common.budget.check();
  ReplayReport report = replay_report(job, replay(job));
  command.common.budget.check();
  if (is_changed) {
    if (const std::string refusal = report.refusal(); !refusal.empty() && !command.is_forced)
      throw InputError{job.ranks.front().file_name + ": " + refusal + "; --force answers all the same"};
    add_changed(report, job, machines ? replay_on(*machines, job, change) : replay(job, change));
    report.remarks.insert(report.remarks.end(), remarks.begin(), remarks.end());
    if (machines) add_collectives(report, job);
  }
  if (command.common.prints_json)
    std::printf("%s", to_json_text(replay_json(job, report, is_changed)).c_str());
  else
    print_report(job, report, is_changed);
  return kSuccess;
}

}  // namespace

CommandVerb replay_verb() {
  return make_verb<ReplayCommand>(
      "replay",
      "A recorded step, simulated beside its trace, and what if\n\nExamples: rehearse replay trace.json.gz\n"
      "          rehearse replay rank0.json rank1.json --scale collective=0.5\n"
      "          rehearse replay trace.json.gz --gpu H100",
      add_options, run);
}

}  // namespace rehearse
