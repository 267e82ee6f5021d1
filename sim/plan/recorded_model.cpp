#include "sim/plan/recorded_model.hpp"

#include <algorithm>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

/// A gradient, or several that are exchanged together, in the order of the backward pass.
struct CompletedGradient {
  std::string name;
  Seconds date{};
  Bytes bytes{};
};

/// A step in GPU time: from the end of what was launched before it, to that of what was launched in it.
struct StepDates {
  Seconds start{}, backward{}, end{};
  Seconds update{};  // end of the last work that it launched
};

/// The first rank, whose gradients are exchanged in no time. Other collectives, such as all-to-all, last as they did.
RecordedJob without_exchange(const RecordedJob& job) {
  RecordedRun run = job.ranks.front();
  for (std::size_t k = 0; k < run.collectives.size(); ++k) {
    Nanoseconds& duration = run.operations[static_cast<std::size_t>(run.collectives[k].operation)].duration;
    if (exchanges_gradients(run.collectives[k]))
      duration = 0;
    else if (!job.meetings.empty())
      duration = job.meetings[static_cast<std::size_t>(job.meeting_of.front()[k])].transfer;
  }
  return recorded_job({std::move(run)});
}

class StepModel {
 public:
  StepModel(const RecordedJob& job, const RecordedModelRequest& request)
      : request_{request}, job_{without_exchange(job)}, run_{job_.ranks.front()}, dates_{replay(job_).ranks.front()} {
    if (run_.steps.empty()) fail("no step is marked, and nothing repeats: there is no step to make a model of");
    std::vector<Seconds> fences = gpu_dates();
    std::vector<std::size_t> order;
    for (std::size_t s = 0; s < run_.steps.size(); ++s) order.push_back(s);
    std::ranges::stable_sort(order, {}, [&](std::size_t s) { return fences[s + 1] - fences[s]; });
    step_ = order[(order.size() - 1) / 2];
    if (request.change != RecordedChange{}) {
      dates_ = replay(job_, request.change).ranks.front();
      fences = gpu_dates();
    }
    step_dates_ = {fences[step_], fences[step_], fences[step_ + 1], end_of_work()};
  }

  RecordedModel model() {
    RecordedModel model{.layers = {.batch = request_.batch,
                                   .scales_with_batch = request_.scales_with_batch,
                                   .is_whole_step = true,
                                   .gpu = request_.gpu},
                        .step = run_.steps[step_].name,
                        .measured = seconds(recorded_length(run_, gpu_steps(run_), step_)),
                        .compute = step_dates_.end - step_dates_.start,
                        .remarks = {}};
    const std::vector<CompletedGradient> gradients = completed_gradients(model.remarks);
    step_dates_.backward = begin_of_backward(gradients.front().date);
    fill(model.layers, gradients);
    if (gradients.back().date <= step_dates_.backward && model.layers.optimizer_time > Seconds{})
      model.remarks.emplace_back(
          "no backward pass is marked, as autograd does: what comes before the last exchange counts as forward pass, "
          "what "
          "comes after it as update, so that nothing hides the exchange in a simulation");
    remark(model.remarks);
    return model;
  }

 private:
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  [[noreturn]] void fail(const std::string& what) const { throw InputError{run_.file_name + ": " + what}; }

  bool is_in_step(Nanoseconds recorded) const {
    return recorded >= run_.steps[step_].recorded_start && recorded < run_.steps[step_].recorded_end;
  }

  /// [steps + 1] when the host begins a step, or later when the GPU has done what it was given before.
  std::vector<Seconds> gpu_dates() const {
    std::vector<Seconds> fences = dates_.steps;
    for (const Dependency& launch : run_.dependencies) {
      if (launch.reason != Dependency::Reason::kLaunch) continue;
      const Nanoseconds launched = run_.operations[at(launch.earlier)].recorded_end;
      const auto next = std::ranges::upper_bound(run_.steps, launched, {}, &RecordedStep::recorded_start);
      if (next == run_.steps.begin()) continue;  // before the first
      if (next == run_.steps.end() && launched >= run_.steps.back().recorded_end) continue;
      Seconds& fence = fences[static_cast<std::size_t>(next - run_.steps.begin())];
      fence = std::max(fence, dates_.operations[at(launch.later)].end);
    }
    for (std::size_t s = 1; s < fences.size(); ++s) fences[s] = std::max(fences[s], fences[s - 1]);
    return fences;
  }

  /// Of what the step launches, but for the exchange.
  Seconds end_of_work() const {
    Seconds end{};
    for (const Dependency& launch : run_.dependencies)
      if (launch.reason == Dependency::Reason::kLaunch &&
          is_in_step(run_.operations[at(launch.earlier)].recorded_end) &&
          run_.operations[at(launch.later)].collective < 0)
        end = std::max(end, dates_.operations[at(launch.later)].end);
    return end;
  }

  /// Of the step, by date.
  std::vector<CompletedGradient> completed_gradients(std::vector<std::string>& remarks) const {
    std::vector<CompletedGradient> gradients;
    std::size_t unsized = 0;
    for (const RecordedGradient& gradient : run_.gradients) {
      if (!is_in_step(gradient.recorded)) continue;
      unsized += gradient.bytes <= 0 ? 1 : 0;
      gradients.push_back(
          {"", dates_.operations[at(gradient.after)].end, Bytes{std::max<std::int64_t>(gradient.bytes, 0)}});
    }
    if (request_.variables) {
      name(gradients);
    } else if (unsized < gradients.size()) {
      std::erase_if(gradients, [](const CompletedGradient& gradient) { return gradient.bytes == Bytes{}; });
      if (unsized > 0)
        remarks.push_back(std::to_string(unsized) +
                          " gradients have no shape, as those of sparse tables: left out of the exchange");
      for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].name = "gradient " + std::to_string(i + 1);
    } else {
      gradients = exchanged_gradients();
      if (gradients.empty())
        fail(unsized == 0 ? "records neither gradients (AccumulateGrad) nor all-reduces with their payloads"
                          : "does not say how large the " + std::to_string(unsized) +
                                " gradients of a step are: record shapes, or name the model with --variables");
      remarks.push_back(std::to_string(gradients.size()) +
                        " all-reduces are a layer each: the sizes of single gradients are not recorded");
    }
    Seconds latest = step_dates_.start;
    for (CompletedGradient& gradient : gradients)
      latest = gradient.date = std::clamp(gradient.date, latest, std::max(latest, step_dates_.end));
    return gradients;
  }

  /// The backward pass comes to variables in the opposite order of their creation.
  void name(std::vector<CompletedGradient>& gradients) const {
    std::vector<const Variable*> variables;
    for (const Variable& variable : request_.variables->variables)
      if (variable.is_trainable) variables.push_back(&variable);
    if (variables.size() != gradients.size())
      fail("a step completes " + std::to_string(gradients.size()) + " gradients; " + request_.variables->name +
           " has " + std::to_string(variables.size()) + " trainable variables");
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Variable& variable = *variables[variables.size() - 1 - i];
      gradients[i].name = variable.name;
      gradients[i].bytes = variable.bytes;
    }
  }

  /// Complete when the all-reduce that exchanges them could begin.
  std::vector<CompletedGradient> exchanged_gradients() const {
    std::vector<CompletedGradient> gradients;
    for (const RecordedCollective& collective : run_.collectives) {
      const RecordedOperation& kernel = run_.operations[at(collective.operation)];
      if (exchanges_gradients(collective) && collective.bytes > 0 && is_in_step(kernel.recorded_start))
        gradients.push_back({"all-reduce " + std::to_string(gradients.size() + 1),
                             dates_.operations[at(collective.operation)].start, Bytes{collective.bytes}});
    }
    std::ranges::stable_sort(gradients, {}, &CompletedGradient::date);
    return gradients;
  }

  /// When the GPU begins with what the backward pass launches; `latest` if it is not known.
  Seconds begin_of_backward(Seconds latest) const {
    for (const Dependency& launch : run_.dependencies) {
      const RecordedOperation& call = run_.operations[at(launch.earlier)];
      if (launch.reason == Dependency::Reason::kLaunch && call.lane == run_.backward_thread &&
          is_in_step(call.recorded_end))
        latest = std::min(latest, dates_.operations[at(launch.later)].start);
    }
    return std::max(latest, step_dates_.start);
  }

  void fill(TimedLayers& layers, const std::vector<CompletedGradient>& gradients) const {
    const Seconds last = gradients.back().date;
    const Seconds update = std::clamp(step_dates_.update, last, step_dates_.end);
    const Seconds forward = step_dates_.backward - step_dates_.start + (step_dates_.end - update);
    const Seconds backward = last - step_dates_.backward;
    const double equal = 1 / static_cast<double>(gradients.size());
    for (std::size_t i = gradients.size(); i-- > 0;) {
      const Seconds before = i > 0 ? gradients[i - 1].date : step_dates_.backward;
      const Seconds time = gradients[i].date - before;
      const double share = backward > Seconds{} ? time / backward : equal;
      layers.layers.push_back(
          {.name = gradients[i].name, .gradient = gradients[i].bytes, .forward = forward * share, .backward = time});
    }
    layers.optimizer_time = update - last;
  }

  void remark(std::vector<std::string>& remarks) const {
    const auto others = std::ranges::count_if(run_.collectives, [&](const RecordedCollective& collective) {
      return !exchanges_gradients(collective) && is_in_step(run_.operations[at(collective.operation)].recorded_start);
    });
    if (others > 0)
      remarks.push_back(std::to_string(others) +
                        " collectives that exchange no gradients, such as all-to-all, count as computation");
  }

  const RecordedModelRequest& request_;
  RecordedJob job_;
  const RecordedRun& run_;
  ReplayedRank dates_;
  std::size_t step_ = 0;
  StepDates step_dates_;
};

}  // namespace

RecordedModel recorded_model(const RecordedJob& job, const RecordedModelRequest& request) {
  return StepModel{job, request}.model();
}

}  // namespace rehearse
