#pragma once
// Files of recorded processes, whatever their format: which one it is is told by what is in them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "workloads/traces/recorded_run.hpp"

namespace rehearse {

enum class TraceFormat : std::uint8_t {
  kKineto,      // JSON with traceEvents, or a list of them
  kChakraJson,  // JSON with a workload_graph
  kChakraEt,    // messages of Chakra
  kPytorchEt,   // JSON with nodes: PyTorch's execution traces
};

/// Reads as far as it must; none if nothing says which it is.
std::optional<TraceFormat> find_trace_format(const std::filesystem::path& file, const Budget& budget = {});
/// Of the beginning of a file: whether that is a message of Chakra behind its length.
bool begins_as_chakra_et(std::string_view bytes);

/// The processes of one job, one a file; of profilers' traces the same steps. Files that do not say of which rank they
/// are, nor how many there are, are of ranks 0, 1, ... in their order. Execution traces of PyTorch, which have neither
/// durations nor dates, are given besides profilers' traces of the same runs, in the same order, and say what tensors
/// those had. Throws InputError as the readers do, and if an execution trace has no such trace besides it.
std::vector<RecordedRun> read_recorded_runs(std::span<const std::filesystem::path> files, const Budget& budget = {},
                                            const KinetoOptions& options = {});

}  // namespace rehearse
