#include "sim/program/counters.hpp"

#include <utility>

#include "sim/program/running_worker.hpp"

namespace rehearse {

Counters::Entry& Counters::entry(int index) {
  if (counters_.size() <= at(index)) counters_.resize(at(index) + 1);
  return counters_[at(index)];
}

void Counters::advance(int index, const Place& by, Seconds when) {
  Counter& advanced = entry(index).counter;
  ++advanced.count;
  if (when >= advanced.date)
    advanced = {advanced.count, when, by, by.worker != nullptr ? by.worker->step_of(by.operation) : 0};
  for (int left = entry(index).waiting.size; left > 0 && entry(index).waiting.size > 0; --left) {
    const Place gate = take(index);
    if (!gate.worker->pass(gate.operation, counter(index))) wait(index, gate);
  }
}

void Counters::wait(int index, const Place& gate) {
  const int added = std::exchange(free_, free_ < 0 ? -1 : gates_[at(free_)].next);
  const int place = added < 0 ? static_cast<int>(gates_.size()) : added;
  if (added < 0) gates_.emplace_back();
  gates_[at(place)] = {gate, -1};
  List& waiting = entry(index).waiting;
  (waiting.last < 0 ? waiting.first : gates_[at(waiting.last)].next) = place;
  waiting.last = place;
  ++waiting.size;
}

/// The first of those that wait for the counter, which no longer does.
Counters::Place Counters::take(int index) {
  List& waiting = entry(index).waiting;
  const int place = waiting.first;
  --waiting.size;
  waiting.first = std::exchange(gates_[at(place)].next, std::exchange(free_, place));
  if (waiting.first < 0) waiting.last = -1;
  return gates_[at(place)].gate;
}

}  // namespace rehearse
