#include "sim/app/output/recorded_work.hpp"

#include <algorithm>

namespace rehearse {

StepsOfWorkers::StepsOfWorkers(const std::vector<StepSpan>& steps) {
  for (const StepSpan& step : steps) steps_[{step.machine, step.gpu}].push_back(step);
}

std::int64_t StepsOfWorkers::at(WorkerPlace worker, Seconds date) const {
  const std::vector<StepSpan>& steps = of(worker);
  auto after = std::ranges::upper_bound(steps, date, {}, [](const StepSpan& step) { return step.span.start; });
  if (after == steps.begin()) return -1;
  --after;
  return date <= after->span.end ? after->step : -1;
}

const std::vector<StepSpan>& StepsOfWorkers::of(WorkerPlace worker) const {
  static const std::vector<StepSpan> none;
  const auto found = steps_.find(worker);
  return found == steps_.end() ? none : found->second;
}

std::map<WorkerPlace, std::vector<std::vector<StreamedCollective>>> collectives_on_streams(
    const std::vector<CollectiveSpan>& collectives) {
  std::vector<CollectiveSpan> ordered = collectives;
  std::ranges::stable_sort(ordered, {}, &CollectiveSpan::began);
  std::map<WorkerPlace, std::vector<std::vector<StreamedCollective>>> streams;
  for (const CollectiveSpan& collective : ordered) {
    std::vector<std::vector<StreamedCollective>>& of_worker = streams[{collective.machine, collective.gpu}];
    const auto free = std::ranges::find_if(of_worker, [&](const std::vector<StreamedCollective>& stream) {
      return stream.back().span.end <= collective.began;
    });
    std::vector<StreamedCollective>& stream = free == of_worker.end() ? of_worker.emplace_back() : *free;
    Span span = collective.span;
    if (!stream.empty()) span.start = std::max(span.start, stream.back().span.end);
    stream.push_back({collective, span});
  }
  return streams;
}

std::map<WorkerPlace, std::vector<WaitSpan>> waits_in_order(const std::vector<WaitSpan>& waits) {
  std::map<WorkerPlace, std::vector<WaitSpan>> of_workers;
  for (const WaitSpan& wait : waits) of_workers[{wait.machine, wait.gpu}].push_back(wait);
  for (auto& [worker, list] : of_workers) {
    std::ranges::stable_sort(list, {}, [](const WaitSpan& wait) { return wait.span.start; });
    Seconds end{};
    for (WaitSpan& wait : list) {
      wait.span.start = std::max(wait.span.start, end);
      end = std::max(end, wait.span.end);
    }
    std::erase_if(list, [](const WaitSpan& wait) { return !(wait.span.end > wait.span.start); });
  }
  return of_workers;
}

}  // namespace rehearse
