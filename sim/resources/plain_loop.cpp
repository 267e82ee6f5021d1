#include "sim/resources/plain_loop.hpp"

#include <algorithm>

namespace rehearse {

/// The time until the next date is added to the present one, as SimGrid does: dates are those of its loop to the last bit.
bool PlainLoop::turn() {
  const double now = network_.now().value();
  const auto next_event = [this] { return clock_.is_empty() ? MaxMinFlows::kNever : clock_.next_date().value(); };
  double event = next_event();
  for (; event <= now; event = next_event()) clock_.advance_to(Seconds{now});
  const double next = std::min(event, network_.next_completion());
  if (next == MaxMinFlows::kNever) return false;
  const auto& due = network_.advance(next - now);
  if (due.empty()) return true;
  clock_.advance_to(network_.now());
  for (const auto& on_sent : due) on_sent();
  return true;
}

}  // namespace rehearse
