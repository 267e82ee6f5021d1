#pragma once
// What a worker does in one step of training, as data: operations, what each waits for, and the resource that carries
// it out. Strategies compile to programs (compile.hpp), the executor runs them (executor.hpp).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/collective_kind.hpp"
#include "sim/base/units.hpp"
#include "sim/scenario/kernel_time.hpp"

namespace rehearse {

enum class OperationKind : std::uint8_t {
  kDelay,    // of the host: a fixed time, on no resource
  kCopy,     // between host memory and the worker's GPUs: resource 0 to them, 1 from them; each first in, first out
  kBegin,    // of the step's kernels
  kCompute,  // kernels on a stream, in the order of the program
  kSend,     // over a connection of the worker, which has one message on the wire at a time: ends when it has arrived
  kNotify,   // the same for what has no payload: the connection's latency
  kServerWork,  // on cores of a server, or of the worker's own machine
  kFetch,       // of as many bytes from the GPU of a worker that is chosen then
  kCollective,  // with the other workers of a group, once all of them have come to it
  kGate,        // passes when a counter has come so far
  kUpdate,      // part of the step's update, which is complete when all workers have come to it that share the step
  kFence,       // end of the step: the training says who goes on
  kNext,        // the next step begins
};

/// Who shares a counter: nobody, the workers of a team, or all. kSteps is one counter: of workers that ended a step.
enum class CounterScope : std::uint8_t { kWorker, kTeam, kAll, kSteps };

/// A core reads a variable that is asked for; applies a gradient, and once all of them have come the update; or adds up
/// one in host memory, on several cores.
enum class ServerWorkKind : std::uint8_t { kRead, kApply, kAdd };

using OperationIndex = std::int32_t;

/// The place in a vector.
template <class Index>
constexpr std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

/// A kernel takes `host` until it is dispatched and `time` on the GPU:
///   dispatched = max(dispatched before, ready) + host,   end = max(end before, dispatched) + time
/// A chain of them is an operation too (fuse_chains()), with the sums of both and
///   end = max(end before + time, max(dispatched before, ready) + critical)
struct Operation {
  OperationKind kind = OperationKind::kDelay;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  ServerWorkKind work = ServerWorkKind::kRead;
  CounterScope scope = CounterScope::kWorker;         // of a gate's counter
  CounterScope signal_scope = CounterScope::kWorker;  // of the counter in `signals`
  bool is_chain = false;
  bool is_collected = false;  // message: goes at the end of a cycle, with what else is ready for the same connection
  bool is_message = false;    // work on one: by the threads that serve messages, where the profile tells them apart
  bool is_event = false;      // all that wait for it go on together when its end has come, not when that is known
  int resource = 0;           // of its kind: stream, group, counter, connection, server (-1: own machine)
  int label = 0;              // kernel: vertex of the operator graph; else one of Program::labels, -1: the samples
  int priority = 0;           // of copies, messages and collectives: the lowest goes first
  int signals = -1;           // the counter that it advances when it ends; work that applies: when the last one does
  int lag = 0;                // gate: passes when the counter has reached each x (steps before this one + 1 - lag)
  int each = 1;
  int parts = 1;                       // work: cores on which it runs at once, each for `time`
  Seconds host{}, time{}, critical{};  // work that applies: `host` longer for the last one of a step
  Seconds first_host{};                // of a chain's first kernel
  Seconds memory{};                    // part of `time` in which device memory is read or written
  Bytes bytes{};
  OperationIndex needs = 0;                        // operations before it that must have ended
  OperationIndex first_after = 0, last_after = 0;  // range of Program::after
};

/// Operations of a stream, in order, `repeat` times. What is repeated waits for nothing and nothing waits for it.
struct Stretch {
  OperationIndex begin = 0, end = 0;  // range of Program::operations
  std::int64_t repeat = 1;
};

struct Program {
  std::vector<Operation> operations;
  std::vector<OperationIndex> after;          // of each operation those that wait for it
  std::vector<std::vector<Stretch>> streams;  // [streams] of compute
  std::vector<OperationIndex> first;          // need nothing
  int counters = 0;                           // of the worker
  int common_counters = 0;                    // that all advance once in a step
  OperationIndex has_variables = -1;          // when it ends the GPU has all variables of the step; -1: from the start
  std::vector<std::string> labels;            // of what is exchanged; of collectives, in each group once a step
  Seconds kernel_time{};                      // sum over kernels, at no slowdown
  bool counts_waits = true;                   // whether it is asked what kernels have waited for
};

/// Builds a program in any order that has the kernels of each stream in theirs.
class ProgramBuilder {
 public:
  OperationIndex add(Operation operation) {
    program_.operations.push_back(operation);
    return static_cast<OperationIndex>(program_.operations.size() - 1);
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
