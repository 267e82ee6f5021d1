#include "calibration/trace_measurements.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

std::optional<double> median_seconds(std::vector<Nanoseconds> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return seconds(*middle).value();
}

/// What one rank measured in one step.
struct StepMeasurements {
  std::string name;
  Nanoseconds start = 0, end = 0;
  Nanoseconds overhead = 0, dispatch = 0;
  std::optional<Nanoseconds> first_launch, together;  // together: its first collective has ended
  std::int64_t launches = 0;
  std::vector<Nanoseconds> latencies, gaps;
  std::array<std::int64_t, kKernelClassNames.size()> kernels{};
  std::array<Nanoseconds, kKernelClassNames.size()> kernel_time{};
};

class RankTable {
 public:
  RankTable(CsvWriter& csv, const RecordedRun& run) : csv_{csv}, run_{run} {
    for (const RecordedStep& step : run.steps) {
      steps_.push_back({.name = step.name, .start = step.recorded_start, .end = step.recorded_end});
      if (const std::int32_t first = first_collective(run, step); first >= 0)
        steps_.back().together = run.operations[at(first)].recorded_end;
    }
    if (!steps_.empty()) return;
    Nanoseconds end = run.recorded_start();
    for (const RecordedOperation& operation : run.operations) end = std::max(end, operation.recorded_end);
    steps_.push_back({.name = "the recording", .start = run.recorded_start(), .end = end + 1});
  }

  void write() {
    for (const RecordedOperation& operation : run_.operations)
      if (operation.kind == RecordedOperation::Kind::kGpu) add_work(operation);
    for (const Dependency& dependency : run_.dependencies)
      if (dependency.reason == Dependency::Reason::kLaunch) add_launch(dependency);
    for (const RecordedOperation& operation : run_.operations)
      if (operation.kind == RecordedOperation::Kind::kHost && !operation.is_idle) add_host(operation);
    for (const StepMeasurements& step : steps_) write_step(step);
  }

 private:
  StepMeasurements* step_of(Nanoseconds when) {
    const auto next = std::ranges::upper_bound(steps_, when, {}, &StepMeasurements::start);
    if (next == steps_.begin() || when >= std::prev(next)->end) return nullptr;
    return &*std::prev(next);
  }

  void add_work(const RecordedOperation& work) {
    StepMeasurements* step = step_of(work.recorded_start);
    if (step == nullptr) return;
    ++step->kernels[static_cast<std::size_t>(work.kernel)];
    step->kernel_time[static_cast<std::size_t>(work.kernel)] += work.duration;
  }

  /// The call begins when the host operation before it has ended.
  void add_launch(const Dependency& launch) {
    const Nanoseconds called = run_.operations[at(launch.earlier)].recorded_end;
    StepMeasurements* step = step_of(called);
    if (step == nullptr) return;
    ++step->launches;
    step->first_launch = std::min(step->first_launch.value_or(called), called);
    const Nanoseconds began = run_.operations[at(launch.later)].recorded_start;
    std::optional<Nanoseconds> free;  // when the stream had nothing left to do
    for (const Dependency& wait : run_.waits_of(launch.later)) {
      if (wait.reason == Dependency::Reason::kStream) free = run_.operations[at(wait.earlier)].recorded_end;
      if (wait.reason != Dependency::Reason::kStream && wait.reason != Dependency::Reason::kLaunch) return;
    }
    if (!free || called > *free + kClearlyApart) step->latencies.push_back(std::max<Nanoseconds>(began - called, 0));
    if (free && called < *free - kClearlyApart) step->gaps.push_back(std::max<Nanoseconds>(began - *free, 0));
  }

  /// What ends with a step belongs to it.
  void add_host(const RecordedOperation& work) {
    StepMeasurements* step = step_of(work.recorded_end - 1);
    if (step == nullptr) return;
    const Nanoseconds first = step->first_launch.value_or(step->end);
    (work.recorded_end <= first ? step->overhead : step->dispatch) +=
        std::min(work.duration, work.recorded_end - step->start);
  }

  void row(const std::string& kind, const StepMeasurements& step, const std::string& name, std::int64_t count,
           std::optional<double> time) {
    if (!time || count == 0) return;
    csv_.row({kind, step.name, static_cast<std::int64_t>(run_.rank), static_cast<std::int64_t>(run_.world_size), name,
              count, "", *time});
  }

  void write_step(const StepMeasurements& step) {
    row("step", step, "", 1, seconds(step.end - step.start).value());
    if (step.together && *step.together < step.end)
      row("after_first_collective", step, "", 1, seconds(step.end - *step.together).value());
    if (step.launches > 0) {
      row("step_overhead", step, "", 1, seconds(step.overhead).value());
      row("dispatch", step, "", step.launches, seconds(step.dispatch).value() / static_cast<double>(step.launches));
    }
    row("latency", step, "", static_cast<std::int64_t>(step.latencies.size()), median_seconds(step.latencies));
    row("gap", step, "", static_cast<std::int64_t>(step.gaps.size()), median_seconds(step.gaps));
    for (std::size_t c = 0; c < kKernelClassNames.size(); ++c)
      row("kernels", step, std::string{kKernelClassNames[c]}, step.kernels[c], seconds(step.kernel_time[c]).value());
  }

  CsvWriter& csv_;
  const RecordedRun& run_;
  std::vector<StepMeasurements> steps_;
};

void write_collectives(CsvWriter& csv, const RecordedJob& job) {
  std::vector<bool> is_written(job.meetings.size());
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RecordedRun& run = job.ranks[r];
    for (std::size_t k = 0; k < run.collectives.size(); ++k) {
      const RecordedCollective& collective = run.collectives[k];
      Nanoseconds time = run.operations[at(collective.operation)].duration;
      if (!job.meetings.empty()) {
        const std::size_t meeting = at(job.meeting_of[r][k]);
        time = job.meetings[meeting].transfer;
        if (is_written[meeting]) continue;
        is_written[meeting] = true;
      }
      csv.row({"collective", "", static_cast<std::int64_t>(run.rank), static_cast<std::int64_t>(run.world_size),
               std::string{to_text(collective.work)}, std::int64_t{1},
               collective.bytes >= 0 ? CsvField{collective.bytes} : CsvField{""}, seconds(time).value()});
    }
  }
}

}  // namespace

CsvTable measurements_of(const RecordedJob& job, const std::string& file_name) {
  CsvWriter csv{{"kind", "step", "rank", "ranks", "name", "count", "bytes", "time_s"}};
  for (const RecordedRun& run : job.ranks) RankTable{csv, run}.write();
  write_collectives(csv, job);
  return parse_csv(csv.text(), file_name);
}

std::vector<std::filesystem::path> measurement_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{path})
    if (entry.is_regular_file()) files.push_back(entry.path());
  if (files.empty()) throw InputError{path.string() + ": expected files of measurements; the folder has none"};
  std::ranges::sort(files);
  return files;
}

RecordedJob load_recorded_job(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = measurement_files(path);
  if (files.size() > 1)  // what execution traces add to a profiler's, tensors, is not measured
    std::erase_if(files, [](const auto& file) { return find_trace_format(file) == TraceFormat::kPytorchEt; });
  return recorded_job(read_recorded_runs(files));
}

CsvTable load_trace_measurements(const std::filesystem::path& path) {
  return measurements_of(load_recorded_job(path), path.string());
}

}  // namespace rehearse
