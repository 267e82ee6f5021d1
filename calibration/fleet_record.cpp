#include "calibration/fleet_record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/named_queue.hpp"

namespace rehearse {

namespace {

/// A trace as the probe sees it: at each look the machines that went and those that came. Without names, only how many.
struct Look {
  int gone = 0, come = 0;
  std::vector<std::string> gone_names;
  NamedQueue<> come_names;
};
std::map<std::int64_t, Look> looks(const FleetTrace& trace, Seconds resolution) {
  std::map<std::int64_t, Look> result;
  for (const TraceEvent& event : trace.events) {
    const auto date = static_cast<std::int64_t>(std::ceil(event.at / resolution - 1e-6));
    Look& look = result.try_emplace(result.end(), date)->second;
    ++(event.is_added ? look.come : look.gone);
    if (!trace.has_names) continue;
    if (event.is_added) {
      look.come_names.append(event.node);
    } else if (!look.come_names.take(event.node)) {
      look.gone_names.push_back(event.node);
    } else {  // came and went between two looks
      --look.gone;
      --look.come;
    }
  }
  if (trace.has_names) return result;
  for (auto& [date, look] : result) {
    const int both = std::min(look.gone, look.come);
    look.gone -= both;
    look.come -= both;
  }
  return result;
}

}  // namespace

Seconds resolution_of(const FleetTrace& trace) {
  Seconds shortest = trace.end, last{};
  for (const TraceEvent& event : trace.events) {
    if (event.at > last) shortest = std::min(shortest, event.at - last);
    last = std::max(last, event.at);
  }
  if (trace.end > last) shortest = std::min(shortest, trace.end - last);
  return std::max(shortest, shortest_resolution(trace));
}

Seconds shortest_resolution(const FleetTrace& trace) { return trace.end * 1e-9; }

int most_machines(const FleetTrace& trace) {
  int now = 0, most = 0;
  for (const TraceEvent& event : trace.events) most = std::max(most, now += event.is_added ? 1 : -1);
  return most;
}

FleetRecord observe(const FleetTrace& trace, Seconds resolution, int slots) {
  FleetRecord record{.slots = slots, .resolution = resolution, .duration = trace.end};
  record.time_with.assign(static_cast<std::size_t>(slots) + 1, Seconds{});
  NamedQueue<Seconds> alive;  // since when
  std::deque<Seconds> lost(static_cast<std::size_t>(slots), Seconds{});
  std::deque<Seconds> open_gaps;
  Seconds last{}, watched{};
  const auto spend = [&](Seconds until) {
    const std::size_t n = std::min(alive.size(), static_cast<std::size_t>(slots));
    record.time_with[n] += until - last;
    record.mean_size += static_cast<double>(alive.size()) * ((until - last) / trace.end);
    if (!alive.empty()) watched += until - last;
    last = until;
  };
  for (auto& [date, look] : looks(trace, resolution)) {
    const Seconds at = std::min(resolution * static_cast<double>(date), trace.end);
    spend(at);
    if (look.gone > 0 && at > Seconds{}) {
      record.losses.push_back({at, look.gone, static_cast<int>(alive.size()), watched});
      open_gaps.push_back(at);
    }
    for (int i = 0; i < look.gone; ++i) {
      const Seconds since = trace.has_names ? alive.take(look.gone_names[static_cast<std::size_t>(i)]).value_or(at)
                                            : alive.take_first().second;
      record.lives.push_back({at - since, at - since});
      lost.push_back(at);
    }
    for (int i = 0; i < look.come; ++i) {
      alive.append(trace.has_names ? look.come_names.take_first().first : std::string{}, at);
      if (lost.empty()) continue;
      if (at > Seconds{} && at > lost.front()) record.waits.push_back({at - lost.front(), at - lost.front()});
      lost.pop_front();
    }
    if (look.come > 0 && look.gone == 0) {
      for (const Seconds since : open_gaps) record.gaps.push_back(at - since);
      open_gaps.clear();
    }
  }
  spend(trace.end);
  for (const auto& [node, since] : alive)
    if (trace.end > since) record.lives.push_back({trace.end - since, kNever});
  for (const Seconds since : lost)
    if (trace.end > since && since > Seconds{}) record.waits.push_back({trace.end - since, kNever});
  return record;
}

}  // namespace rehearse
