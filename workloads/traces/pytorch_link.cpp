// Events of a profiler's trace and operators of the execution trace of the same run.

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "sim/base/errors.hpp"
#include "workloads/traces/pytorch_et.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kAlike = 12;            // names in a row that are no coincidence
constexpr std::size_t kMostLeftOut = 64;      // that only one of the two has
constexpr std::size_t kMostBeginnings = 256;  // operators with which what is alike may begin
constexpr std::size_t kGoesOn = 3;            // names in a row after such

/// What comes on a thread, by the numbers of names that both traces share.
struct Sequence {
  std::vector<std::int32_t> names;
  std::vector<std::int32_t> places;  // in KinetoTrace::events or PytorchTrace::operators
};

std::size_t alike_from(const Sequence& a, std::size_t i, const Sequence& b, std::size_t j, std::size_t most) {
  std::size_t count = 0;
  while (count < most && i + count < a.names.size() && j + count < b.names.size() &&
         a.names[i + count] == b.names[j + count])
    ++count;
  return count;
}

/// Goes on behind the fewest that only one of the two has; false if there are too many.
bool skip(const Sequence& a, std::size_t& i, const Sequence& b, std::size_t& j) {
  for (std::size_t skipped = 1; skipped <= kMostLeftOut; ++skipped)
    for (std::size_t of_a = 0; of_a <= skipped; ++of_a) {
      const std::size_t next_i = i + of_a, next_j = j + skipped - of_a;
      if (next_i >= a.names.size() || next_j >= b.names.size()) continue;
      const std::size_t left = std::min(a.names.size() - next_i, b.names.size() - next_j);
      if (alike_from(a, next_i, b, next_j, kGoesOn) < std::min(kGoesOn, left)) continue;
      i = next_i;
      j = next_j;
      return true;
    }
  return false;
}

/// Pairs of places: from the first part that is alike on, or from the beginning of short ones.
std::vector<std::pair<std::int32_t, std::int32_t>> align(const Sequence& events, const Sequence& operators) {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  std::size_t i = 0, j = 0;
  const auto find_beginning = [&] {
    for (; j < std::min(operators.names.size(), kMostBeginnings); ++j)
      for (std::size_t at = i; at < events.names.size(); ++at)
        if (events.names[at] == operators.names[j] && alike_from(events, at, operators, j, kAlike) == kAlike) {
          i = at;
          return true;
        }
    return false;
  };
  if (!find_beginning()) i = j = 0;
  while (i < events.names.size() && j < operators.names.size()) {
    if (events.names[i] == operators.names[j])
      pairs.emplace_back(events.places[i++], operators.places[j++]);
    else if (!skip(events, i, operators, j))
      ++i, ++j;
  }
  return pairs;
}

}  // namespace

std::vector<std::int32_t> linked_operators(const KinetoTrace& kineto, const PytorchTrace& trace) {
  std::unordered_map<std::string, std::int32_t> number;
  for (std::size_t name = 0; name < trace.names.size(); ++name)
    number.emplace(trace.names[name], static_cast<std::int32_t>(name));
  std::map<std::int32_t, Sequence> events;  // by thread
  for (std::size_t i = 0; i < kineto.events.size(); ++i) {
    const KinetoEvent& event = kineto.events[i];
    if (event.kind != KinetoEvent::Kind::kOperator && event.kind != KinetoEvent::Kind::kAnnotation) continue;
    const auto known = number.find(kineto.names[static_cast<std::size_t>(event.name)]);
    if (known == number.end()) continue;
    events[event.lane].names.push_back(known->second);
    events[event.lane].places.push_back(static_cast<std::int32_t>(i));
  }
  std::map<std::int64_t, Sequence> operators;  // by thread
  std::vector<std::int32_t> order(trace.operators.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto at = [&](std::int32_t i) -> const PytorchOperator& {
    return trace.operators[static_cast<std::size_t>(i)];
  };
  std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return at(i).order; });
  std::vector<bool> is_known(trace.names.size());
  for (const auto& [thread, sequence] : events)
    for (const std::int32_t name : sequence.names) is_known[static_cast<std::size_t>(name)] = true;
  for (const std::int32_t i : order) {
    if (!is_known[static_cast<std::size_t>(at(i).name)]) continue;
    operators[at(i).thread].names.push_back(at(i).name);
    operators[at(i).thread].places.push_back(i);
  }
  std::vector<std::int32_t> linked(kineto.events.size(), -1);
  for (const auto& [thread, sequence] : operators) {
    std::vector<std::pair<std::int32_t, std::int32_t>> best;
    for (const auto& [lane, of_lane] : events)
      if (auto pairs = align(of_lane, sequence); pairs.size() > best.size()) best = std::move(pairs);
    for (const auto& [event, found] : best) linked[static_cast<std::size_t>(event)] = found;
  }
  return linked;
}

void add_tensors(KinetoTrace& kineto, const PytorchTrace& trace) {
  const std::vector<std::int32_t> linked = linked_operators(kineto, trace);
  const auto count = std::ranges::count_if(linked, [](std::int32_t found) { return found >= 0; });
  const auto size = std::ssize(trace.operators);
  if (2 * count < size)
    throw InputError{trace.file_name + ": " + std::to_string(count) + " of its " + std::to_string(size) +
                     " operators are in " + kineto.file_name + ": it is of another run"};
  std::int64_t added = 0;
  for (std::size_t i = 0; i < linked.size(); ++i) {
    if (linked[i] < 0 || kineto.events[i].bytes >= 0) continue;
    const PytorchOperator& found = trace.operators[static_cast<std::size_t>(linked[i])];
    if (found.inputs.empty()) continue;
    kineto.events[i].bytes = found.inputs.front().bytes();
    ++added;
  }
  kineto.remarks.push_back(std::to_string(count) + " of " + std::to_string(size) +
                           " operators of the execution trace are linked to events; " + std::to_string(added) +
                           " sizes of tensors come from there");
}

}  // namespace rehearse
