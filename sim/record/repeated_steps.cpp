#include "sim/record/repeated_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// What starts within [from, to), in the order in which it was recorded.
template <class Activity>
std::vector<Activity> within(const std::vector<Activity>& all, Span time, Span Activity::*span) {
  std::vector<Activity> some;
  for (const Activity& one : all)
    if ((one.*span).start >= time.start && (one.*span).start < time.end) some.push_back(one);
  return some;
}

class Extension {
 public:
  explicit Extension(const RunRecord& record) : record_{record} {}

  std::optional<RunRecord> extended(std::int64_t more, std::int64_t cycle) const {
    const std::int64_t last = record_.updates;
    if (!record_.is_synchronous || last < 2 * cycle + 1 || more % cycle != 0) return {};
    const Span before{end_of(last - 2 * cycle), end_of(last - cycle)}, repeated{before.end, end_of(last)};
    const Seconds period = repeated.end - repeated.start;
    const bool ends_with_last = record_.window.end > before.end && record_.window.end <= record_.end;
    if (repeated.end != record_.end || !ends_with_last || !are_near(period, before.end - before.start)) return {};
    RunRecord longer = record_;
    Recorder& recorder = longer.recorder;
    const std::int64_t cycles = more / cycle;
    if (!repeat(recorder.kernels, before, repeated, cycles, &KernelSpan::span) ||
        !repeat(recorder.messages, before, repeated, cycles, &MessageSpan::on_wire) ||
        !repeat_rates(recorder.rates, before, repeated, cycles))
      return {};
    std::vector<StepSpan> steps;
    for (const StepSpan& step : record_.recorder.steps)
      if (step.global_step > last - cycle) steps.push_back(step);
    for (std::int64_t i = 1; i <= cycles; ++i)
      for (StepSpan step : steps) {
        const Seconds later = period * static_cast<double>(i);
        step.span = shifted(step.span, later);
        step.last_pull += later;
        step.compute_end += later;
        step.step += i * cycle;
        step.global_step += i * cycle;
        recorder.steps.push_back(step);
      }
    longer.updates += more;
    longer.end += period * static_cast<double>(cycles);
    longer.window.end += period * static_cast<double>(cycles);  // when the first worker has no more to do
    return longer;
  }

 private:
  Seconds end_of(std::int64_t global_step) const {
    Seconds end{};
    for (const StepSpan& step : record_.recorder.steps)
      if (step.global_step == global_step) end = std::max(end, step.span.end);
    return end;
  }

  bool are_near(Seconds a, Seconds b) const { return std::abs((a - b).value()) <= 1e-9 * record_.end.value(); }

  static Span shifted(Span span, Seconds by) { return {span.start + by, span.end + by}; }

  /// Appends what happened within `repeated`, `more` times; false if it is not what happened within `before`.
  template <class Activity>
  bool repeat(std::vector<Activity>& all, Span before, Span repeated, std::int64_t more, Span Activity::*span) const {
    const std::vector<Activity> first = within(all, before, span), second = within(all, repeated, span);
    if (first.size() != second.size()) return false;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Span a = first[i].*span, b = second[i].*span;
      if (!are_near(a.start - before.start, b.start - repeated.start) || !are_near(a.end - a.start, b.end - b.start) ||
          !is_same(first[i], second[i]))
        return false;
    }
    all.reserve(all.size() + second.size() * static_cast<std::size_t>(more));
    for (std::int64_t step = 1; step <= more; ++step)
      for (Activity one : second) {
        one.*span = shifted(one.*span, (repeated.end - repeated.start) * static_cast<double>(step));
        all.push_back(one);
      }
    return true;
  }

  /// The same for rates, which need not begin and end with a cycle. What comes after the last step stays the last.
  bool repeat_rates(std::vector<LinkRate>& rates, Span before, Span repeated, std::int64_t more) const {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const double start = repeated.start.value(), end = repeated.end.value(), length = end - start;
    std::vector<double> carried(record_.recorder.links.size()), change(carried.size());
    for (const LinkRate& rate : rates) {
      const double by_start = rate.pulses.until(start), in_cycle = rate.pulses.until(end) - by_start;
      carried[rate.link] += in_cycle;
      change[rate.link] += in_cycle - (by_start - rate.pulses.until(before.start.value()));
    }
    for (std::size_t link = 0; link < carried.size(); ++link) {  // alike but for the rounding of dates: see are_near()
      const double rounding = 1e-9 * record_.end.value() * record_.recorder.links[link].rate.value();
      if (std::abs(change[link]) > 1e-6 * carried[link] + rounding) return false;
    }
    std::vector<LinkRate> longer;
    std::vector<RatePulses> parts;
    for (const LinkRate& rate : rates) {
      const auto append = [&](double from, double to, double later) {
        parts.clear();
        append_within(rate.pulses, from, to, parts);
        for (RatePulses& part : parts) {
          part.start += later;
          longer.push_back({rate.link, part});
        }
      };
      append(0, end, 0);
      for (std::int64_t cycle = 1; cycle <= more; ++cycle) append(start, end, length * static_cast<double>(cycle));
      append(end, kNever, length * static_cast<double>(more));
    }
    rates = std::move(longer);
    return true;
  }

  bool is_same(const KernelSpan& a, const KernelSpan& b) const {
    return a.machine == b.machine && a.gpu == b.gpu && a.vertex == b.vertex && are_near(a.memory, b.memory);
  }
  static bool is_same(const MessageSpan& a, const MessageSpan& b) {
    return a.from == b.from && a.to == b.to && a.unit == b.unit && a.size == b.size;
  }

  const RunRecord& record_;
};

}  // namespace

bool may_repeat(const Scenario& scenario) {
  return has_regular_steps(scenario) && scenario.training.strategy.is_synchronous() &&
         scenario.training.start_interval == Seconds{} && !scenario.has_changing_membership() &&
         !scenario.has_revocations();
}

std::optional<RunRecord> extend_steps(const RunRecord& record, std::int64_t more, std::int64_t cycle) {
  return Extension{record}.extended(more, cycle);
}

}  // namespace rehearse
