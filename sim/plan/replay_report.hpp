#pragma once
// A replay beside its recording: how far a what-if on it can be trusted.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/units.hpp"
#include "sim/job/replay.hpp"
#include "sim/plan/gpu_breakdown.hpp"
#include "sim/plan/recorded_gpu.hpp"

namespace rehearse {

struct ReplayedStep {
  std::string name;
  int rank = 0;
  Seconds measured{}, replayed{}, changed{};  // measured: 0 where no dates are recorded; changed: of a what-if
  /// 0 where there was nothing to do and nothing is done.
  double error() const;
};

/// Kernels and copies of all ranks.
struct ReplayedClass {
  KernelClass kernel = KernelClass::kOther;
  std::int64_t kernels = 0;
  Seconds time{}, changed{};
  double share = 0;  // of the time of all
};

struct ReplayedStream {
  std::string name;
  int rank = 0;
  std::int64_t kernels = 0;
  double busy_measured = 0, busy_replayed = 0, busy_changed = 0;  // share of the time from its first work to its last
};

/// A collective of all ranks, which takes its transfer from when the last has come. Waits are sums over them.
struct ReplayedMeeting {
  std::string name;
  std::optional<Bytes> bytes;
  Seconds transfer{}, transfer_replayed{}, transfer_changed{};
  Seconds wait_measured{}, wait_replayed{}, wait_changed{};
};

/// Of a rank's GPU, or the mean of all.
struct ReplayedGpu {
  int rank = 0;
  GpuBreakdown measured{}, replayed{}, changed{};
};

struct ReplayReport {
  bool is_measured = true;          // whether dates are recorded: otherwise nothing can be compared
  std::vector<ReplayedStep> steps;  // empty if the trace has none
  ReplayedStep whole;               // from the beginning of the first recording to the end of what was recorded last
  std::vector<ReplayedClass> classes;
  std::vector<ReplayedStream> streams;
  std::vector<ReplayedMeeting> meetings;
  std::vector<ReplayedGpu> gpus;  // of each rank
  UnscaledShare unscaled{};       // of all ranks
  double unexplained = 0;         // largest share of a rank, see unexplained_time()
  std::vector<std::string> gaps;  // the longest of them
  std::vector<std::string> remarks;

  /// Why no what-if is answered from this replay; empty if there is no reason. A step may be 5 % off, and 10 % of the
  /// time may be unexplained; without dates nobody knows.
  std::string refusal() const;
  /// That a what-if by class of kernels, or on another GPU, leaves more than 10 % of their time as it is; empty if less.
  std::string unscaled_warning() const;
};

ReplayReport replay_report(const RecordedJob& job, const Replay& replay);
/// Adds what a what-if makes of steps, classes, streams and collectives.
void add_changed(ReplayReport& report, const RecordedJob& job, const Replay& changed);

/// Says which collectives were simulated, and which were not (simulated_collectives()).
void add_collectives(ReplayReport& report, const RecordedJob& job);

/// `work`: "host", "kernels" (all but collectives and copies), or a class. Throws InputError.
void scale(RecordedChange& change, const std::string& work, double factor);

/// Plain values, as "summary.json" of a simulation has them: of the what-if if there is one, else of the replay.
/// iteration_time_s is the mean over steps and ranks, or all of the recording if no step is marked; NAME_time_s the sum
/// over kernels of a class, gpu_NAME_time_s the mean over ranks of a part of GpuBreakdown, collective_wait_s over ranks that wait for others.
Json replay_summary(const RecordedJob& job, const ReplayReport& report, bool is_changed);

Json replay_json(const RecordedJob& job, const ReplayReport& report, bool is_changed);

}  // namespace rehearse
