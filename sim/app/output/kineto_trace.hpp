#pragma once
// What a simulated run did, one trace a rank, in the form of PyTorch's profiler (Kineto): for Holistic Trace Analysis
// (HTA), Perfetto, and rehearse replay and import.
//
// A rank is a worker, by its first GPU. Its trace has
//   cpu_op, cuda_runtime   dispatch of each kernel, with the launch at its end; waits of the host for the GPU
//   kernel                 kernels on stream 7, by names that tell their kind; collectives and messages on streams of
//                          their own, by NCCL's names, with their wait for other ranks, as NCCL's kernels have
//   gpu_memcpy             samples
//   cuda_sync              for which kernel a collective waits
//   user_annotation        ProfilerStep#N, N from 1
//   wait                   what the worker waits for, on a thread of its own
// Parameter servers have no trace. HTA takes kernels for communication by "ncclKernel" in their names, so messages of
// workers and servers bear it, too.
// Source: HTA, hta/common/trace_file.py (a file needs distributedInfo.rank, a whole number) and trace_parser.py (what
// comes before traceEvents is read first; events without cat or dur are dropped; dates are rounded to microseconds); a
// stream of at least 0 makes an event one of the GPU, correlation ties it to its launch, ProfilerStep#N to a step.

#include <memory>
#include <string>
#include <vector>

#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The traces of a run, whose scenario and record must outlive this.
class KinetoTraces {
 public:
  KinetoTraces(const Scenario& scenario, const RunRecord& record);
  ~KinetoTraces();
  KinetoTraces(KinetoTraces&&) noexcept;

  /// Those that were recorded, in order.
  const std::vector<int>& ranks() const;
  /// Uncompressed JSON of the whole steps of a rank that begin in the scenario's timeline window: at least the first
  /// that is recorded, if any is whole. Dates are microseconds with three decimals.
  std::string text(int rank) const;

 private:
  struct Activity;
  std::unique_ptr<Activity> activity_;
};

}  // namespace rehearse
