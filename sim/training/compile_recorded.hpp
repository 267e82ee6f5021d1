#pragma once
// Programs of what traces recorded: each rank's work with its own times, and what it waits for. No date of the trace is
// in them but one: how much later than the first a rank began to be recorded.

#include <array>
#include <optional>
#include <vector>

#include "sim/program/program.hpp"
#include "workloads/traces/recorded_job.hpp"

namespace rehearse {

/// What is different from the recording: factors of times.
struct RecordedChange {
  std::array<double, kKernelClassNames.size()> kernels = all_one();  // [KernelClass]
  double host = 1;
  struct Delay {
    std::string stream;  // "0/7", of every rank; its first work begins so much later
    Seconds time{};
    friend bool operator==(const Delay&, const Delay&) = default;
  };
  std::vector<Delay> delays;

  friend bool operator==(const RecordedChange&, const RecordedChange&) = default;

 private:
  static constexpr std::array<double, kKernelClassNames.size()> all_one() {
    std::array<double, kKernelClassNames.size()> factors{};
    factors.fill(1);
    return factors;
  }
};

/// Whether it exchanges gradients: all-reduces and reduce-scatters.
bool exchanges_gradients(const RecordedCollective& collective);

/// A recorded collective as one of the simulated machines. Of an all-gather the payload is what a rank has in the end,
/// which does not change with the number of ranks; of an all-to-all what it sends, in parts that are taken as equal.
struct SimulatedCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Bytes payload{};
};

/// [ranks][collectives] those that are simulated on other machines: of a kind that Rehearse has, whose payload is known,
/// among all ranks. Where ranks meet, their largest payload counts. The others last as recorded wherever they are.
using SimulatedCollectives = std::vector<std::vector<std::optional<SimulatedCollective>>>;
SimulatedCollectives simulated_collectives(const RecordedJob& job);

struct RecordedProgram {
  Program program;                         // kernels are labelled by their recorded operation
  std::vector<OperationIndex> operations;  // [recorded operations]
  Seconds gap{};                           // at the front of each kernel's time
};

/// The whole recording of a rank as one step: host work is a delay, work on the GPU is on stream i for the i-th of the
/// run's. A stream's gap is at the front of its work:
///   end = max(end before, ready - gap) + gap + time
/// At the job's meetings a rank waits at a counter of its team, to which all ranks of the group have to come.
/// `simulated`: these are collectives of group 0, labelled by their meeting or, of one rank alone, by their place in
/// RecordedRun::collectives, and their kernels end with them. None if empty.
RecordedProgram compile_recorded(const RecordedJob& job, std::size_t rank, const RecordedChange& change,
                                 const SimulatedCollectives& simulated = {});

}  // namespace rehearse
