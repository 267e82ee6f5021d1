#include "platforms/fleet_trace.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string_view>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/named_queue.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostEvents = 1'000'000;

double read_time(const CsvRow& row, const std::string& column, double unit, double last) {
  const double time = row.number(column) * unit;
  if (!(time >= last && time <= kLongest.value())) row.fail(column, "expected dates from 0 to 1e9 s that do not fall");
  return time;
}

/// The dates of the column among `names` that the table has: "time_ms" and so on.
struct TimeColumn {
  std::string name;
  double seconds = 1;
};
std::optional<TimeColumn> time_column(const CsvTable& table) {
  for (const TimeColumn& column : {TimeColumn{"time_s", 1}, TimeColumn{"time_ms", 1e-3}, TimeColumn{"time_h", 3600}})
    if (table.has_column(column.name)) return column;
  return {};
}

void add_event(FleetTrace& trace, TraceEvent event, const CsvRow& row, std::string_view column) {
  if (trace.events.size() == kMostEvents) row.fail(column, "expected at most 1000000 arrivals and losses of machines");
  trace.events.push_back(std::move(event));
}

FleetTrace read_events(const CsvTable& table, const TimeColumn& time) {
  FleetTrace trace;
  std::set<std::string, std::less<>> alive;
  double last = 0;
  for (const CsvRow& row : table.rows()) {
    last = read_time(row, time.name, time.seconds, last);
    const std::string_view event = row.text("event");
    if (event != "add" && event != "remove") row.fail("event", "expected add or remove");
    const bool is_added = event == "add";
    std::string node{row.text("node")};
    if (node.empty()) row.fail("node", "expected a name");
    if (is_added && !alive.insert(node).second) row.fail("node", "this node is already there");
    if (!is_added && alive.erase(node) == 0) row.fail("node", "this node is not there");
    add_event(trace, {Seconds{last}, is_added, std::move(node)}, row, "event");
  }
  trace.end = Seconds{last};
  return trace;
}

/// Turns numbers of machines into events: first come, first gone.
class Counter {
 public:
  void set(Seconds at, const CsvRow& row, std::string_view column) {
    const std::int64_t count = row.integer(column);
    if (count < 0 || count > 10'000) row.fail(column, "expected 0 to 10000 machines");
    while (static_cast<std::int64_t>(alive_.size()) > count) {
      add_event(trace_, {at, false, std::to_string(alive_.front())}, row, column);
      alive_.pop_front();
    }
    while (static_cast<std::int64_t>(alive_.size()) < count) {
      add_event(trace_, {at, true, std::to_string(next_)}, row, column);
      alive_.push_back(next_++);
    }
  }
  FleetTrace finish(Seconds end) {
    trace_.end = end;
    trace_.has_names = false;
    return std::move(trace_);
  }

 private:
  FleetTrace trace_;
  std::deque<std::int64_t> alive_;
  std::int64_t next_ = 1;
};

FleetTrace read_runs(const CsvTable& table) {
  Counter counter;
  double end = 0;
  for (const CsvRow& row : table.rows()) {
    const double start = read_time(row, "start_s", 1, end);
    counter.set(Seconds{start}, row, "available_instances");
    const double duration = row.number("duration_s");
    if (!(duration >= 0 && start + duration <= kLongest.value()))
      row.fail("duration_s", "expected a duration of at least 0 s");
    end = start + duration;
  }
  return counter.finish(Seconds{end});
}

FleetTrace read_counts(const CsvTable& table, const TimeColumn& time) {
  Counter counter;
  double last = 0;
  for (const CsvRow& row : table.rows()) {
    last = read_time(row, time.name, time.seconds, last);
    counter.set(Seconds{last}, row, "instances");
  }
  return counter.finish(Seconds{last});
}

}  // namespace

FleetTrace read_fleet_trace(const CsvTable& table) {
  const std::optional<TimeColumn> time = time_column(table);
  if (time && table.has_column("event")) return read_events(table, *time);
  if (time && table.has_column("instances")) return read_counts(table, *time);
  if (table.has_column("available_instances")) return read_runs(table);
  throw InputError{table.file_name() +
                   ": expected the columns time_s,event,node or time_s,instances or "
                   "start_s,available_instances,duration_s"};
}

FleetTrace load_fleet_trace(const std::filesystem::path& path) { return read_fleet_trace(load_csv_file(path)); }

FleetTrace cut(const FleetTrace& trace, Seconds from) {
  FleetTrace rest{.end = std::max(trace.end - from, Seconds{}), .has_names = trace.has_names};
  NamedQueue<> there;
  auto event = trace.events.begin();
  for (; event != trace.events.end() && event->at <= from; ++event) {
    if (event->is_added)
      there.append(event->node);
    else
      (void)there.take(event->node);
  }
  while (!there.empty()) rest.events.push_back({Seconds{}, true, there.take_first().first});
  for (; event != trace.events.end(); ++event) rest.events.push_back({event->at - from, event->is_added, event->node});
  return rest;
}

FleetReplay::FleetReplay(const FleetTrace& trace, int slots, Seconds from, Seconds notice)
    : runs_at_start_(static_cast<std::size_t>(slots), false) {
  std::map<std::string, int, std::less<>> slot_of;  // of the nodes that have one
  NamedQueue<> without;
  std::set<int> free;
  std::vector<Seconds> runs_from(static_cast<std::size_t>(slots));
  for (int slot = 0; slot < slots; ++slot) free.insert(slot);

  const auto place = [&](Seconds at, const std::string& node) {
    const int slot = *free.begin();
    free.erase(free.begin());
    slot_of[node] = slot;
    runs_from[static_cast<std::size_t>(slot)] = at;
    if (at > Seconds{})
      events_.push_back({at, slot, FleetEvent::Kind::kRunning});
    else
      runs_at_start_[static_cast<std::size_t>(slot)] = true;
  };
  const auto remove = [&](Seconds at, const std::string& node) {
    const auto found = slot_of.find(node);
    if (found == slot_of.end()) {
      (void)without.take(node);
      return;
    }
    const int slot = found->second;
    slot_of.erase(found);
    free.insert(slot);
    if (at > Seconds{}) {
      if (notice > Seconds{})
        events_.push_back(
            {std::max(at - notice, runs_from[static_cast<std::size_t>(slot)]), slot, FleetEvent::Kind::kNotice});
      events_.push_back({at, slot, FleetEvent::Kind::kRevoked});
    } else {
      runs_at_start_[static_cast<std::size_t>(slot)] = false;
    }
    if (without.empty()) return;
    place(std::max(at, Seconds{}), without.take_first().first);
  };
  for (const TraceEvent& event : trace.events) {
    const Seconds at = event.at > from ? event.at - from : Seconds{};
    if (!event.is_added) {
      remove(at, event.node);
    } else if (free.empty()) {
      without.append(event.node);
    } else {
      place(at, event.node);
    }
  }
  std::stable_sort(events_.begin(), events_.end(),
                   [](const FleetEvent& a, const FleetEvent& b) { return a.at < b.at; });
}

std::optional<FleetEvent> FleetReplay::next() {
  if (told_ == events_.size()) return {};
  return events_[told_++];
}

}  // namespace rehearse
