#pragma once
// When steps repeat: where all that follows the end of a step depends on nothing but a state, such as the order in
// which workers have come to a barrier, a state that comes again brings again what came after it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

class SteadyState {
 public:
  /// Looks for cycles of up to `longest` steps, the first of which begins at `start`.
  SteadyState(Seconds start, std::size_t longest) : last_end_{start}, longest_{longest} {}

  /// A step has ended now, in `state`: numbers and, from now, dates. In how many steps what happens repeats, which is
  /// known once a cycle has had the states and lengths of the one before; 0 if it is not known.
  std::size_t end_step(Seconds now, std::vector<double> state) {
    steps_.push_front({(now - std::exchange(last_end_, now)).value(), std::move(state)});
    if (steps_.size() > 2 * longest_) steps_.pop_back();
    for (std::size_t cycle = 1; 2 * cycle <= steps_.size(); ++cycle) {
      const auto second = steps_.begin() + static_cast<std::ptrdiff_t>(cycle);
      if (std::equal(steps_.begin(), second, second, are_alike)) return cycle;
    }
    return 0;
  }
  Seconds last_end() const { return last_end_; }
  /// Length of the last `cycle` steps.
  Seconds length(std::size_t cycle) const {
    Seconds sum{};
    for (std::size_t i = 0; i < cycle; ++i) sum += Seconds{steps_[i].length};
    return sum;
  }
  /// Length of the next step, if it is what the one was a cycle ago.
  Seconds next_length(std::size_t cycle) const { return Seconds{steps_[cycle - 1].length}; }
  /// Steps are skipped that take so long.
  void skip(Seconds time) { last_end_ += time; }
  /// What follows is something else.
  void forget() { steps_.clear(); }

  /// Equal but for rounding of dates in steps of such a length.
  static bool is_same(const std::vector<double>& some, const std::vector<double>& others, double length) {
    return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                      [rounding = 1e-11 * length](double a, double b) { return std::abs(a - b) <= rounding; });
  }

 private:
  struct Step {
    double length;
    std::vector<double> state;
  };
  static bool are_alike(const Step& a, const Step& b) {
    return is_same({a.length}, {b.length}, a.length) && is_same(a.state, b.state, a.length);
  }

  Seconds last_end_;
  std::size_t longest_;
  std::deque<Step> steps_;  // the latest first
};

}  // namespace rehearse
