#pragma once
// PyTorch's execution traces (ExecutionTraceObserver, JSON): operators of one process with their tensors and what called
// them, without dates or durations. Those are in the profiler's trace of the same run (kineto.hpp), whose events they are
// linked to.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/budget.hpp"
#include "workloads/traces/kineto.hpp"

namespace rehearse {

struct PytorchTensor {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0, element_size = 0;  // the size in bytes
  std::int32_t type = 0;                        // in PytorchTrace::types
  std::int64_t bytes() const { return elements * element_size; }

  friend bool operator==(const PytorchTensor&, const PytorchTensor&) = default;
};

struct PytorchOperator {
  std::uint64_t id = 0, parent = 0;  // the caller; of what nobody calls its own id
  std::int32_t name = 0;             // in PytorchTrace::names
  std::int64_t order = 0;            // "rf_id": on each thread operators begin in this order
  std::int64_t thread = 0;
  bool is_leaf = true;  // calls nobody
  std::vector<PytorchTensor> inputs, outputs;
  std::int32_t collective = -1;  // of "record_param_comms", in PytorchTrace::names: what is done
  std::int32_t group = -1;       // and among whom, in PytorchTrace::groups; -1: not recorded
};

struct PytorchGroup {
  std::string name;
  std::vector<std::int64_t> ranks;  // none: all
  std::int64_t size = 0;            // 0: not recorded
};

struct PytorchTrace {
  std::string file_name, schema;
  std::vector<std::string> names, types;
  std::vector<PytorchOperator> operators;
  std::vector<PytorchGroup> groups;
};

/// The trace of a file, plain or gzip, operator by operator; of any version, with lists of inputs ("input_shapes") or
/// objects ("inputs": {"shapes": ...}). Throws InputError "FILE: node 17 "aten::add": parent: node 9 is not in the
/// file", or with the byte at which JSON is broken, or if operators call each other in a circle.
PytorchTrace read_pytorch_trace(const std::filesystem::path& file, const Budget& budget = {});
PytorchTrace parse_pytorch_trace(std::string_view text, const std::string& file_name);

/// [events] the operator that the event is, or -1. On each thread both come in their order: names are compared one after
/// the other, and what only one of the two has is passed over.
std::vector<std::int32_t> linked_operators(const KinetoTrace& kineto, const PytorchTrace& trace);

/// Gives events of operators that do not state the bytes of their first tensor those that the execution trace has: so
/// payloads of collectives and sizes of gradients are known. Says in a remark how many were linked. Throws InputError if
/// hardly any are: the traces are of different runs.
void add_tensors(KinetoTrace& kineto, const PytorchTrace& trace);

}  // namespace rehearse
