#pragma once
// What a rank does in one step of training, as data: operations, what each waits for, and the resource that carries it
// out. Strategies compile to programs (compile.hpp), the executor runs them (executor.hpp).

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/kernel_time.hpp"

namespace rehearse {

enum class OperationKind : std::uint8_t {
  kDelay,       // of the host: a fixed time, on no resource
  kCopy,        // from host memory to the rank's GPU, first in, first out
  kBegin,       // of the step's kernels
  kCompute,     // kernels on a stream, in the order of the program
  kCollective,  // with the other ranks of a group, once all of them have come to it
  kGate,        // passes when a counter of the rank has reached the number of its steps before this one
  kUpdate,      // part of the step's update, which is complete when it is at all ranks
  kFence,       // end of the step
};

/// What ranks do with a payload of n bytes: add up all of it everywhere; add it up, each rank keeping a part; gather
/// the parts everywhere.
enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };

using OperationIndex = std::int32_t;

/// A kernel takes `host` until it is dispatched and `time` on the GPU:
///   dispatched = max(dispatched before, ready) + host,   end = max(end before, dispatched) + time
/// A chain of them is an operation too (fuse_chains()), with the sums of both and
///   end = max(end before + time, max(dispatched before, ready) + critical)
struct Operation {
  OperationKind kind = OperationKind::kDelay;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  bool is_chain = false;
  int resource = 0;  // of its kind: stream, group, counter
  int label = 0;     // kernel: vertex of the operator graph; collective: one of Program::labels
  int priority = 0;  // of a collective: the lowest goes first
  int signals = -1;  // the counter of the rank that it advances when it ends
  Seconds host{}, time{}, critical{};
  Seconds memory{};  // part of `time` in which device memory is read or written
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
  int counters = 0;
  std::vector<std::string> labels;  // of collectives, in each group once a step
  Seconds kernel_time{};            // sum over kernels, at no slowdown
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
