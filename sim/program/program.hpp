#pragma once
// What a worker does in one step of training, as data: operations, what each waits for, and the resource that carries
// it out. Strategies compile to programs (compile.hpp), the executor runs them (executor.hpp).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/collective_kind.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

using OperationIndex = std::int32_t;

/// The place in a vector.
template <class Index>
constexpr std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

/// Who shares a counter: nobody, the workers of a team, or all.
enum class CounterScope : std::uint8_t { kWorker, kTeam, kAll };
/// A counter that an operation advances when it ends.
struct Signal {
  CounterScope scope = CounterScope::kWorker;
  int counter = 0;
};

// The operations. A `label` is a place in Program::labels: what is exchanged. Of what waits for one resource the lowest
// `priority` goes first, and of equals the first. `is_event`: all that wait for the operation go on together when its
// end has come, not when that is known.

/// A fixed time of the host, on no resource.
struct Delay {
  bool is_event = false;
  Seconds time{};
};
enum class CopyDirection : std::uint8_t { kToGpu, kFromGpu };
/// Between host memory and the worker's GPUs: first in, first out in each direction.
struct Copy {
  static constexpr int kSamples = -1;  // a label: the step's samples
  CopyDirection direction = CopyDirection::kToGpu;
  int label = 0, priority = 0;
  Bytes bytes{};
};
/// The step's kernels may run from now on.
struct BeginKernels {};
/// A kernel on a stream, in the order of the program, takes `host` until it is dispatched and `time` on the GPU:
///   dispatched = max(dispatched before, ready) + host,   end = max(end before, dispatched) + time
/// or, if the host does not wait for what the GPU waits for, as of streams that wait for events of others,
///   dispatched = dispatched before + host,               end = max(end before, dispatched, ready) + time
struct Compute {
  int stream = 0;
  bool is_dispatched_ahead = false;
  int label = 0;  // its vertex in the operator graph
  Seconds host{}, time{};
  Seconds memory{};  // part of `time` in which device memory is read or written
  Seconds critical() const { return host + time; }
};
/// Several of them (fuse_chains()), with the sums of both and
///   end = max(end before + time, max(dispatched before, ready) + critical)
/// or, dispatched ahead,
///   end = max(max(end before, ready) + time, dispatched before + critical)
struct Chain {
  int stream = 0;
  bool is_dispatched_ahead = false;  // its first kernel
  Seconds first_host{};              // of its first kernel
  Seconds host{}, time{}, critical{};
};
/// A message over a connection of the worker, which has one on the wire at a time: ends when it has arrived.
struct Send {
  int connection = 0, label = 0, priority = 0;
  bool is_collected = false;  // goes at the end of a Program::cycle, with what else is ready for the same connection
  Bytes bytes{};
};
/// The same for what has no payload: the connection's latency.
struct Notify {
  int connection = 0;
  bool is_event = false;
};
/// A core of a server, or one of its threads that serve messages, reads a variable that is asked for.
struct ReadVariable {
  int server = 0, label = 0;
  Seconds time{};
};
/// Cores of a server apply a gradient. Those of all workers are counted, if a counter of all is given; with the last
/// one of a step the update takes place, and advances the counter if it `is_event`.
struct ApplyGradient {
  int server = 0, label = 0;
  int parts = 1;            // cores on which it runs at once, each for `time`
  int counter = -1;         // -1: not counted
  bool is_message = false;  // by the threads that serve messages, where the profile tells them apart
  bool is_event = false;
  Seconds time{}, update{};  // the update's is added to the last one's
};
/// Cores of the worker's own machine add up a gradient in host memory.
struct AddGradient {
  int label = 0;
  int parts = 1;  // cores on which it runs at once, each for `time`
  Seconds time{};
};
/// So many bytes from the GPU of a worker that is chosen then.
struct Fetch {
  int label = 0;
  Bytes bytes{};
};
/// With the other workers of a group, once all of them have come to it.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int group = 0, label = 0, priority = 0;  // each label once in a step
  Bytes bytes{};
  PayloadOf of = PayloadOf::kAll;  // the same for all workers
};
/// Passes when the counter has reached each x (steps before this one + 1 - lag).
struct Gate {
  CounterScope scope = CounterScope::kWorker;
  int counter = 0, lag = 0, each = 1;
};
/// Passes when enough workers have ended the step `lag` before the one that begins then (step_gate.hpp).
struct StepsGate {
  int lag = 0;
};
/// The worker's part of the step's update, which is complete when all have come to it that share the step.
struct Update {};
/// End of the step: the training says who goes on.
struct Fence {};
/// The next step begins.
struct NextStep {};

using Operation = std::variant<Delay, Copy, BeginKernels, Compute, Chain, Send, Notify, ReadVariable, ApplyGradient,
                               AddGradient, Fetch, Collective, Gate, StepsGate, Update, Fence, NextStep>;

inline bool is_kernels(const Operation& operation) {
  return std::holds_alternative<Compute>(operation) || std::holds_alternative<Chain>(operation);
}

/// A chain, or a kernel as a chain of one.
inline Chain chain_of(const Operation& kernels) {
  const auto* kernel = std::get_if<Compute>(&kernels);
  return kernel == nullptr ? std::get<Chain>(kernels)
                           : Chain{kernel->stream, kernel->is_dispatched_ahead, kernel->host, kernel->host,
                                   kernel->time,   kernel->critical()};
}

/// An operation in its place in a program.
struct Node {
  Operation operation;
  std::optional<Signal> signal{};
  OperationIndex needs = 0;                        // operations before it that must have ended
  OperationIndex first_after = 0, last_after = 0;  // range of Program::after
};

/// Operations of a stream, in order, `repeat` times. What is repeated waits for nothing and nothing waits for it.
struct Stretch {
  OperationIndex begin = 0, end = 0;  // range of Program::nodes
  std::int64_t repeat = 1;
};

/// At whose end collected messages go: for each connection as one, or as several of up to `largest`.
struct Cycle {
  Seconds time{};
  std::optional<Bytes> largest;
};

struct Program {
  std::vector<Node> nodes;                    // [operations]
  std::vector<OperationIndex> after;          // of each operation those that wait for it
  std::vector<std::vector<Stretch>> streams;  // [streams] of kernels
  std::vector<OperationIndex> first;          // need nothing
  int counters = 0;                           // of the worker
  int common_counters = 0;                    // that all advance once in a step
  OperationIndex has_variables = -1;          // when it ends the GPU has all variables of the step; -1: from the start
  OperationIndex awaits_samples = -1;         // that the host has the samples of the step; -1: it has them
  OperationIndex copies_samples = -1;         // when it begins the host has them
  std::vector<std::string> labels;            // of what is exchanged; of collectives, in each group once a step
  std::optional<Cycle> cycle;                 // of messages that are collected; none: none is
  Seconds kernel_time{};                      // sum over kernels, at no slowdown
  bool counts_waits = true;                   // whether it is asked what kernels have waited for

  const Operation& operation(OperationIndex index) const { return nodes[at(index)].operation; }
};

/// Builds a program in any order that has the kernels of each stream in theirs.
class ProgramBuilder {
 public:
  /// About so many operations are to be added.
  void reserve(std::size_t operations) { program_.nodes.reserve(operations); }
  /// Of the next operation that is added.
  OperationIndex next() const { return static_cast<OperationIndex>(program_.nodes.size()); }
  OperationIndex add(const Operation& operation, const std::optional<Signal>& signal = {}) {
    program_.nodes.push_back({.operation = operation, .signal = signal});
    return next() - 1;
  }
  /// An operation advances one counter. Throws std::logic_error if it advances one already.
  void signal(OperationIndex operation, Signal signal) {
    std::optional<Signal>& its = program_.nodes[at(operation)].signal;
    if (its) throw std::logic_error{"an operation that advances two counters"};
    its = signal;
  }
  /// `later` waits for `earlier`. Of one operation those that wait go on in the order of the calls.
  void order(OperationIndex earlier, OperationIndex later) { edges_.push_back({earlier, later}); }
  /// The operations from `begin` to now are a stretch of the stream.
  void add_stretch(int stream, OperationIndex begin, std::int64_t repeat = 1);
  int new_counter() { return program_.counters++; }
  Program& program() { return program_; }
  /// The program, with what waits for what in Program::after and Program::first.
  Program finish();

 private:
  struct Edge {
    OperationIndex earlier, later;
  };
  Program program_;
  std::vector<Edge> edges_;
};

/// Joins kernels between which nothing waits and for which nothing waits: exact where no noise stretches kernels.
Program fuse_chains(const Program& program);

/// A line for each operation: "12 compute conv1 on stream 0: 1.2ms after 11, 3".
std::string to_text(const Program& program, const std::vector<std::string>& kernels);

}  // namespace rehearse
