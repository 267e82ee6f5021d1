#pragma once
// Counters that operations advance when they end, and the gates that wait for them.

#include <cstdint>
#include <vector>

#include "sim/program/program.hpp"

namespace rehearse {

class RunningWorker;

/// An operation of one of a worker's steps that are under way.
struct StepOperation {
  int slot = 0;  // of the step
  OperationIndex index = 0;
};

/// Counters of a worker, of a team or of all.
class Counters {
 public:
  struct Place {
    RunningWorker* worker = nullptr;  // nullptr: nobody
    StepOperation operation{};
  };
  struct Counter {
    std::int64_t count = 0;
    Seconds date{};         // of its latest advance
    Place latest{};         // by whom that was,
    std::int64_t step = 0;  // in which of its steps
  };

  Counter counter(int index) const { return at(index) < counters_.size() ? counters_[at(index)].counter : Counter{}; }
  /// It advances at `when`, and gates pass that waited for that.
  void advance(int index, const Place& by, Seconds when);
  void wait(int index, const Place& gate);
  /// It came to its latest count so much later.
  void delay(int index, Seconds by) { entry(index).counter.date += by; }

 private:
  struct List {
    int size = 0, first = -1, last = -1;  // in gates_
  };
  struct Entry {
    Counter counter;
    List waiting;
  };
  struct Waiting {
    Place gate;
    int next;
  };

  Entry& entry(int index);
  Place take(int index);

  std::vector<Entry> counters_;
  std::vector<Waiting> gates_;  // lists
  int free_ = -1;               // one of them
};

}  // namespace rehearse
