#include "sim/resources/plain_loop.hpp"

#include <algorithm>

namespace rehearse {

/// The time until the next date is added to the present one, as SimGrid does: dates are those of its loop to the last bit.
bool PlainLoop::turn() {
  const double now = network_.now().value();
  while (!clock_.is_empty() && clock_.next_date().value() <= now) clock_.advance_to(Seconds{now});
  const double flow = network_.next_completion();
  double delay = flow == MaxMinFlows::kNever ? flow : flow - now;
  if (!clock_.is_empty()) delay = std::min(delay, clock_.next_date().value() - now);
  if (delay == MaxMinFlows::kNever) return false;
  const auto& due = network_.advance(delay);
  if (due.empty()) return true;
  clock_.advance_to(network_.now());
  for (const auto& on_sent : due) on_sent();
  return true;
}

}  // namespace rehearse
