#include "sim/plan/replay_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr double kLargestError = 0.05;
constexpr double kMostUnexplained = 0.10;
constexpr double kMostUnscaled = 0.10;
constexpr std::size_t kListedGaps = 3;
constexpr Nanoseconds kListedGap = 1'000'000;

bool is_on_gpu(const RecordedOperation& operation) { return operation.kind == RecordedOperation::Kind::kGpu; }

Seconds replayed_length(const RecordedRun& run, const ReplayedRank& replayed, const GpuSteps& gpu, std::size_t step) {
  if (gpu.first.empty()) return replayed.steps[step + 1] - replayed.steps[step];
  const Span& first = replayed.operations[static_cast<std::size_t>(gpu.first[step])];
  const Span& next = replayed.operations[static_cast<std::size_t>(gpu.first[step + 1])];
  const bool to_its_end = gpu.ends_with_last && step + 1 == run.steps.size();
  return (to_its_end ? next.end : next.start) - first.start;
}

std::vector<ReplayedStep> steps_of(const RecordedJob& job, const Replay& replay) {
  std::vector<ReplayedStep> steps;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RecordedRun& run = job.ranks[r];
    const GpuSteps gpu = gpu_steps(run);
    for (std::size_t s = 0; s < run.steps.size(); ++s)
      steps.push_back({.name = run.steps[s].name,
                       .rank = run.rank,
                       .measured = seconds(recorded_length(run, gpu, s)),
                       .replayed = replayed_length(run, replay.ranks[r], gpu, s)});
  }
  return steps;
}

ReplayedStep whole_of(const RecordedJob& job, const Replay& replay) {
  Nanoseconds end = job.recorded_start();
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    for (const RecordedOperation& operation : job.ranks[r].operations)
      end = std::max(end, operation.recorded_end + job.clock_offset[r]);
  return {.name = "the recording", .measured = seconds(end - job.recorded_start()), .replayed = replay.end};
}

std::vector<ReplayedClass> classes_of(const RecordedJob& job) {
  std::array<ReplayedClass, kKernelClassNames.size()> classes;
  Seconds all{};
  for (const RecordedRun& run : job.ranks) {
    for (const RecordedOperation& operation : run.operations) {
      if (!is_on_gpu(operation)) continue;
      ReplayedClass& work = classes[static_cast<std::size_t>(operation.kernel)];
      ++work.kernels;
      work.time += seconds(operation.duration);
      all += seconds(operation.duration);
    }
  }
  std::vector<ReplayedClass> found;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].kernels == 0) continue;
    classes[c].kernel = static_cast<KernelClass>(c);
    classes[c].share = all > Seconds{} ? classes[c].time / all : 0;
    found.push_back(classes[c]);
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &ReplayedClass::time);
  return found;
}

void add_streams(std::vector<ReplayedStream>& streams, const RecordedRun& run, const ReplayedRank& replayed) {
  struct Dates {
    Nanoseconds first = 0, last = 0;
    double busy = 0;
    Span span{Seconds{1e300}, Seconds{}};
    Seconds busy_replayed{};
  };
  std::vector<Dates> dates_of(run.streams.size());
  std::vector<std::int64_t> kernels(run.streams.size());
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    const RecordedOperation& operation = run.operations[i];
    if (!is_on_gpu(operation)) continue;
    const auto lane = static_cast<std::size_t>(operation.lane);
    Dates& dates = dates_of[lane];
    dates.first = kernels[lane]++ == 0 ? operation.recorded_start : std::min(dates.first, operation.recorded_start);
    dates.last = std::max(dates.last, operation.recorded_end);
    dates.busy += static_cast<double>(operation.recorded_end - operation.recorded_start);
    const Span& span = replayed.operations[i];
    dates.span = {std::min(dates.span.start, span.start), std::max(dates.span.end, span.end)};
    dates.busy_replayed += span.end - span.start;
  }
  for (std::size_t s = 0; s < run.streams.size(); ++s) {
    if (kernels[s] == 0) continue;
    const Dates& dates = dates_of[s];
    ReplayedStream stream{.name = run.streams[s], .rank = run.rank, .kernels = kernels[s]};
    if (dates.last > dates.first) stream.busy_measured = dates.busy / static_cast<double>(dates.last - dates.first);
    if (dates.span.end > dates.span.start)
      stream.busy_replayed = dates.busy_replayed / (dates.span.end - dates.span.start);
    streams.push_back(std::move(stream));
  }
}

std::vector<ReplayedMeeting> meetings_of(const RecordedJob& job, const Replay& replay) {
  std::vector<ReplayedMeeting> meetings;
  for (const RecordedMeeting& meeting : job.meetings) meetings.push_back({.transfer = seconds(meeting.transfer)});
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RecordedRun& run = job.ranks[r];
    for (std::size_t k = 0; k < run.collectives.size() && !job.meetings.empty(); ++k) {
      const auto place = static_cast<std::size_t>(job.meeting_of[r][k]);
      ReplayedMeeting& found = meetings[place];
      const RecordedCollective& collective = run.collectives[k];
      const auto index = static_cast<std::size_t>(collective.operation);
      found.name = run.names[static_cast<std::size_t>(run.operations[index].name)];
      if (collective.bytes >= 0) found.bytes = Bytes{collective.bytes};
      found.wait_measured += seconds(run.operations[index].duration - job.meetings[place].transfer);
      const Span& kernel = replay.ranks[r].operations[index];
      found.transfer_replayed = kernel.end - kernel.start;
      found.wait_replayed += std::max(kernel.start - ready_date(run, replay.ranks[r], collective.operation), Seconds{});
    }
  }
  return meetings;
}

std::string describe_gap(const RecordedRun& run, const UnexplainedTime::Gap& gap) {
  const RecordedOperation& operation = run.operations[static_cast<std::size_t>(gap.before)];
  const bool on_gpu = is_on_gpu(operation);
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms at %.3f ms of rank %d, ", static_cast<double>(gap.time) * 1e-6,
                static_cast<double>(operation.recorded_start - run.recorded_start()) * 1e-6, run.rank);
  return std::string{text.data()} +
         (on_gpu ? "stream " + run.streams[static_cast<std::size_t>(operation.lane)] + ": " +
                       shortened(run.names[static_cast<std::size_t>(operation.name)], 60) + " could have begun earlier"
                 : "thread " + run.threads[static_cast<std::size_t>(operation.lane)] + ": nothing recorded");
}

/// Seconds, without what sums in another order differ by.
double in_nanoseconds(Seconds time) { return std::round(time.value() * 1e9) * 1e-9; }

/// As results name them.
constexpr std::pair<const char*, Seconds GpuBreakdown::*> kParts[] = {
    {"window", &GpuBreakdown::window},
    {"busy", &GpuBreakdown::busy},
    {"computation", &GpuBreakdown::computation},
    {"communication", &GpuBreakdown::communication},
    {"overlapped_communication", &GpuBreakdown::overlapped},
    {"exposed_communication", &GpuBreakdown::exposed},
    {"memory", &GpuBreakdown::memory},
    {"idle_host_wait", &GpuBreakdown::host_wait},
    {"idle_kernel_wait", &GpuBreakdown::kernel_wait},
    {"idle_other_wait", &GpuBreakdown::other_wait},
};

Json breakdown_json(const GpuBreakdown& breakdown) {
  Json json = Json::object();
  for (const auto& [name, part] : kParts) json[std::string{name} + "_s"] = in_nanoseconds(breakdown.*part);
  return json;
}

/// What is said of all ranks is said once.
void add_remarks(std::vector<std::string>& remarks, const RecordedJob& job) {
  std::map<std::string, std::size_t> ranks;
  for (const RecordedRun& run : job.ranks)
    for (const std::string& remark : run.remarks) ++ranks[remark];
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    for (const std::string& remark : job.ranks[r].remarks) {
      const bool is_of_all = ranks.at(remark) == job.ranks.size();
      if (!is_of_all || r == 0) remarks.push_back((is_of_all ? "" : job.ranks[r].file_name + ": ") + remark);
    }
}

}  // namespace

double ReplayedStep::error() const {
  if (measured > Seconds{}) return replayed / measured - 1;
  return replayed > Seconds{1e-6} ? 1 : 0;
}

std::string ReplayReport::refusal() const {
  if (!is_measured) return "no dates are recorded with which the replay could be compared: no what-ifs";
  std::array<char, 160> text{};
  for (const ReplayedStep& step : steps) {
    if (std::abs(step.error()) <= kLargestError) continue;
    std::snprintf(text.data(), text.size(), "the replay of %s of rank %d is %.1f %% off, more than 5 %%: no what-ifs",
                  shortened(step.name, 60).c_str(), step.rank, 100 * step.error());
    return text.data();
  }
  if (steps.empty() && std::abs(whole.error()) > kLargestError) return "the replay is more than 5 % off: no what-ifs";
  if (unexplained <= kMostUnexplained) return "";
  std::snprintf(text.data(), text.size(), "%.1f %% of the time is unexplained, more than 10 %%: no what-ifs",
                100 * unexplained);
  return text.data();
}

std::string ReplayReport::unscaled_warning() const {
  const double share = unscaled.kind + unscaled.precision;
  if (share <= kMostUnscaled) return "";
  std::array<char, 200> text{};
  std::snprintf(
      text.data(), text.size(),
      "not good enough for what-ifs %son another GPU: they leave %.1f %% of the time of kernels as it is, more "
      "than 10 %%",
      unscaled.kind > kMostUnscaled ? "by class of kernels or " : "", 100 * share);
  return text.data();
}

ReplayReport replay_report(const RecordedJob& job, const Replay& replay) {
  ReplayReport report{.is_measured = std::ranges::all_of(job.ranks, &RecordedRun::has_dates),
                      .steps = steps_of(job, replay),
                      .whole = whole_of(job, replay),
                      .classes = classes_of(job),
                      .meetings = meetings_of(job, replay),
                      .unscaled = unscaled_share(job),
                      .remarks = job.remarks};
  if (report.whole.replayed <= Seconds{} || (report.is_measured && report.whole.measured <= Seconds{}))
    throw InputError{job.ranks.front().file_name + ": nothing in it takes any time: all durations are 0"};
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RecordedRun& run = job.ranks[r];
    add_streams(report.streams, run, replay.ranks[r]);
    report.gpus.push_back({.rank = run.rank,
                           .measured = run.has_dates ? gpu_breakdown(run, recorded_spans(run)) : GpuBreakdown{},
                           .replayed = gpu_breakdown(run, replay.ranks[r].operations)});
    const UnexplainedTime unexplained = unexplained_time(run);
    report.unexplained = std::max(report.unexplained, unexplained.share());
    for (std::size_t i = 0; i < std::min(kListedGaps, unexplained.gaps.size()); ++i)
      if (unexplained.gaps[i].time >= kListedGap) report.gaps.push_back(describe_gap(run, unexplained.gaps[i]));
  }
  add_remarks(report.remarks, job);
  if (std::ranges::any_of(job.ranks, [](const RecordedRun& run) { return !gpu_steps(run).first.empty(); }))
    report.remarks.emplace_back(
        "the GPU falls behind the host, whose marks say nothing about the length of a step: a step is from its first "
        "work "
        "on the GPU to that of the next");
  return report;
}

void add_changed(ReplayReport& report, const RecordedJob& job, const Replay& changed) {
  const std::vector<ReplayedStep> steps = steps_of(job, changed);
  for (std::size_t i = 0; i < steps.size(); ++i) report.steps[i].changed = steps[i].replayed;
  report.whole.changed = changed.end;
  std::array<Seconds, kKernelClassNames.size()> times{};
  std::vector<ReplayedStream> streams;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const std::vector<RecordedOperation>& operations = job.ranks[r].operations;
    for (std::size_t i = 0; i < operations.size(); ++i)
      if (is_on_gpu(operations[i]))
        times[static_cast<std::size_t>(operations[i].kernel)] +=
            changed.ranks[r].operations[i].end - changed.ranks[r].operations[i].start;
    add_streams(streams, job.ranks[r], changed.ranks[r]);
    report.gpus[r].changed = gpu_breakdown(job.ranks[r], changed.ranks[r].operations);
  }
  for (ReplayedClass& work : report.classes) work.changed = times[static_cast<std::size_t>(work.kernel)];
  for (std::size_t i = 0; i < streams.size(); ++i) report.streams[i].busy_changed = streams[i].busy_replayed;
  const std::vector<ReplayedMeeting> meetings = meetings_of(job, changed);
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    report.meetings[i].transfer_changed = meetings[i].transfer_replayed;
    report.meetings[i].wait_changed = meetings[i].wait_replayed;
  }
}

void add_collectives(ReplayReport& report, const RecordedJob& job) {
  const SimulatedCollectives simulated = simulated_collectives(job);
  std::map<std::string, std::size_t> as_simulated, as_recorded;
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    for (std::size_t k = 0; k < simulated[r].size(); ++k) {
      const RecordedCollective& collective = job.ranks[r].collectives[k];
      const std::string work{to_text(collective.work)};
      if (simulated[r][k])
        ++as_simulated[work];
      else
        ++as_recorded[work + (collective.bytes < 0 ? " without payload" : "")];
    }
  const auto listed = [](const std::map<std::string, std::size_t>& counts) {
    std::string text;
    for (const auto& [work, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + work;
    return text.empty() ? "none" : text;
  };
  report.remarks.push_back("what if: collectives that are simulated: " + listed(as_simulated) +
                           "; that last as recorded: " + listed(as_recorded));
}

void scale(RecordedChange& change, const std::string& work, double factor) {
  if (work == "host") {
    change.host *= factor;
    return;
  }
  bool is_known = false;
  for (std::size_t c = 0; c < kKernelClassNames.size(); ++c) {
    const auto kernel = static_cast<KernelClass>(c);
    const bool is_kernel = kernel != KernelClass::kCollective && kernel != KernelClass::kCopy;
    if (work != kKernelClassNames[c] && !(work == "kernels" && is_kernel)) continue;
    change.kernels[c] *= factor;
    is_known = true;
  }
  if (is_known) return;
  std::vector<std::string> names{"host", "kernels"};
  names.insert(names.end(), kKernelClassNames.begin(), kKernelClassNames.end());
  throw InputError{"--scale: " + unknown_name_message("work", work, names)};
}

Json replay_summary(const RecordedJob& job, const ReplayReport& report, bool is_changed) {
  const auto time_of = [&](const ReplayedStep& step) { return is_changed ? step.changed : step.replayed; };
  Seconds sum{}, measured{};
  for (const ReplayedStep& step : report.steps) {
    sum += time_of(step);
    measured += step.measured;
  }
  const auto steps = static_cast<double>(report.steps.size());
  const Seconds iteration = report.steps.empty() ? time_of(report.whole) : sum / steps;
  Json json{{"format", 1},
            {"kind", "replay"},
            {"gpu", job.ranks.front().gpu},
            {"ranks", job.ranks.size()},
            {"steps", report.steps.size()},
            {"iteration_time_s", in_nanoseconds(iteration)},
            {"steps_per_s", in_nanoseconds(iteration) > 0 ? 1 / in_nanoseconds(iteration) : 0},
            {"time_s", in_nanoseconds(time_of(report.whole))}};
  if (report.is_measured) {
    json["measured_iteration_time_s"] = in_nanoseconds(report.steps.empty() ? report.whole.measured : measured / steps);
    json["unexplained_share"] = report.unexplained;
  }
  for (const ReplayedClass& work : report.classes) {
    std::string key{to_text(work.kernel)};
    std::ranges::replace(key, '-', '_');
    json[key + "_time_s"] = in_nanoseconds(is_changed ? work.changed : work.time);
  }
  GpuBreakdown all;
  for (const ReplayedGpu& gpu : report.gpus) all += is_changed ? gpu.changed : gpu.replayed;
  for (const auto& [name, part] : kParts)
    json["gpu_" + std::string{name} + "_time_s"] = in_nanoseconds(all.*part / static_cast<double>(report.gpus.size()));
  json["unscaled_share"] = report.unscaled.kind + report.unscaled.precision;
  Seconds wait{};
  for (const ReplayedMeeting& meeting : report.meetings)
    wait += is_changed ? meeting.wait_changed : meeting.wait_replayed;
  if (!report.meetings.empty()) json["collective_wait_s"] = in_nanoseconds(wait);
  return json;
}

Json replay_json(const RecordedJob& job, const ReplayReport& report, bool is_changed) {
  Json json{{"format", 1},
            {"trace", job.ranks.front().file_name},
            {"ranks", job.ranks.size()},
            {"world_size", job.ranks.front().world_size},
            {"gpu", job.ranks.front().gpu},
            {"unexplained_share", report.is_measured ? Json(report.unexplained) : Json()},
            {"unscaled_share", {{"kind", report.unscaled.kind}, {"precision", report.unscaled.precision}}},
            {"allows_what_ifs", report.refusal().empty() && report.unscaled_warning().empty()},
            {"remarks", report.remarks},
            {"whole", nullptr},
            {"steps", Json::array()},
            {"classes", Json::array()},
            {"streams", Json::array()},
            {"gpus", Json::array()},
            {"collectives", Json::array()}};
  const auto times = [is_changed, is_measured = report.is_measured](const ReplayedStep& step) {
    Json json_of_step{{"replayed_s", step.replayed.value()}};
    if (is_measured) json_of_step["measured_s"] = step.measured.value();
    if (is_changed) json_of_step["changed_s"] = step.changed.value();
    return json_of_step;
  };
  json["whole"] = times(report.whole);
  for (const ReplayedStep& step : report.steps) {
    json["steps"].push_back({{"name", step.name}, {"rank", step.rank}});
    json["steps"].back().update(times(step));
  }
  for (const ReplayedClass& work : report.classes) {
    json["classes"].push_back(
        {{"class", to_text(work.kernel)}, {"kernels", work.kernels}, {"time_s", work.time.value()}});
    if (is_changed) json["classes"].back()["changed_s"] = work.changed.value();
  }
  for (const ReplayedStream& stream : report.streams) {
    json["streams"].push_back({{"stream", stream.name},
                               {"rank", stream.rank},
                               {"kernels", stream.kernels},
                               {"busy_replayed", stream.busy_replayed}});
    if (report.is_measured) json["streams"].back()["busy_measured"] = stream.busy_measured;
    if (is_changed) json["streams"].back()["busy_changed"] = stream.busy_changed;
  }
  for (const ReplayedGpu& gpu : report.gpus) {
    Json json_of_gpu{{"rank", gpu.rank}, {"replayed", breakdown_json(gpu.replayed)}};
    if (report.is_measured) json_of_gpu["measured"] = breakdown_json(gpu.measured);
    if (is_changed) json_of_gpu["changed"] = breakdown_json(gpu.changed);
    json["gpus"].push_back(std::move(json_of_gpu));
  }
  for (const ReplayedMeeting& meeting : report.meetings) {
    json["collectives"].push_back({{"name", meeting.name},
                                   {"transfer_s", meeting.transfer.value()},
                                   {"wait_measured_s", meeting.wait_measured.value()},
                                   {"wait_replayed_s", meeting.wait_replayed.value()}});
    if (is_changed) {
      json["collectives"].back()["transfer_changed_s"] = meeting.transfer_changed.value();
      json["collectives"].back()["wait_changed_s"] = meeting.wait_changed.value();
    }
    if (meeting.bytes) json["collectives"].back()["bytes"] = meeting.bytes->value();
  }
  return json;
}

}  // namespace rehearse
