#pragma once
// What a strategy hands back: raw measurements of one run, before they are turned into a summary.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/messaging.hpp"
#include "sim/base/units.hpp"
#include "sim/record/recorder.hpp"
#include "sim/resources/tcp_loss.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// Work of a machine within the steady-state window, or within the whole run. Bytes are those that cross its NICs.
struct MachineUse {
  Seconds cpu_busy{};  // sum over cores, by parameter servers
  Bytes sent{};
  Bytes received{};
};

/// A link that is no NIC and may hold up those behind it, or a connection whose rate is limited by itself
/// (RegionLink::per_flow_rate). Copies over a PCIe link that a GPU has for itself are left out.
struct LinkUse {
  std::string name;
  bool is_connection = false;
  double utilization = 0;  // bytes over rate and time, at most 1
};

/// What a worker's step has for its host, and for the start of its kernels, as planned (ComputePlan).
struct HostWork {
  Seconds overhead{};         // of the step, `copies` included
  Seconds copies{};           // variables that lie on the host, to the GPU, and their gradients back
  Seconds update_dispatch{};  // part of the update that lasts as long as its host's dispatch
  Seconds update{};           // the host's, of what it keeps of the states; 0 if the GPU's beside it is longer
  double launch_share = 0;    // of the time of kernels: before their work begins
  double hidden_share = 0;    // of the time of kernels: while the host still dispatches (share_behind_dispatch())
};

/// Time in which a machine is paid for.
struct Rental {
  Span span;
  bool is_ended_by_provider = false;
  Seconds startup{};  // of it, before it could train
};

/// How far a training has come.
struct TrainingProgress {
  std::int64_t updates = 0;
  std::int64_t samples = 0;
};

/// Where a job's samples went. What its workers have computed is used, lost or dropped:
///   computed = done + lost + dropped + unfilled
/// Steps that were cut before their end have computed none.
struct SampleCounts {
  std::int64_t done = 0;  // in updates that the model has
  std::int64_t lost = 0;  // in updates that a roll-back destroyed, and in steps whose update a lost machine prevented
  std::int64_t repeated = 0;  // done again after a roll-back
  std::int64_t dropped = 0;   // computed too late to be used by anybody, such as by backup workers
  std::int64_t computed = 0;  // by the workers' own steps
  std::int64_t unfilled = 0;  // by which the last update was larger than what was left
};

/// When a job had come so far.
struct Milestone {
  Seconds at{};
  TrainingProgress done;
};

/// What a job's time was for, from its start to its last update. The parts add up to that.
struct TimeUse {
  Seconds trained{};      // steps that last: the goodput, by all of the time
  Seconds checkpoints{};  // training stood still while they were written or copied
  Seconds redone{};       // steps whose update a fault prevented, or a roll-back destroyed
  Seconds detection{};    // until a loss was noticed
  Seconds waiting{};      // for machines
  Seconds restarting{};   // the job's start, reading the checkpoint, sending the model

  Seconds total() const { return trained + checkpoints + redone + detection + waiting + restarting; }
};

/// What is lost of it, as results name it and as readers do.
struct LostTime {
  const char* key;
  const char* text;
  Seconds TimeUse::*time;
};
inline constexpr std::array kLostTimes{LostTime{"checkpoints", "checkpoints", &TimeUse::checkpoints},
                                       LostTime{"redone", "steps done again", &TimeUse::redone},
                                       LostTime{"detection", "detection", &TimeUse::detection},
                                       LostTime{"waiting", "waiting for machines", &TimeUse::waiting},
                                       LostTime{"restarting", "restarts", &TimeUse::restarting}};

/// What revocations and faults did to the job.
struct Interruptions {
  int notices = 0;
  int revocations = 0;            // of machines that were there
  int faults = 0;                 // of machines that were there
  int replacements = 0;           // machines that came
  int restarts = 0;               // from a checkpoint, or from the beginning
  int pauses = 0;                 // the job stood still without losing updates
  std::int64_t lost_updates = 0;  // done again
  Seconds stopped{};              // in which nobody trained
  std::int64_t checkpoints = 0;
  int decisions = 0;  // of rules (Control) that changed the machines
};

struct RunRecord {
  std::vector<Machine> machines;
  std::vector<MachineUse> total;                                   // [machines]
  std::vector<MachineUse> in_window;                               // [machines]
  std::map<std::pair<MachineIndex, MachineIndex>, Bytes> carried;  // in the whole run, from one machine to another
  std::vector<std::vector<Span>> presence;                         // [machines] each time from joining to leaving
  std::vector<std::vector<Rental>> rentals;                        // [machines]
  std::vector<Span> stopped;                                       // the job stood still
  Interruptions interruptions;
  TimeUse time_use;
  LinkUse busiest_link;      // in the window
  Span window;               // steady state: after the warm-up of all that are there from the start, until the first
                             // worker runs out of work
  Seconds end{};             // the last update
  std::int64_t updates = 0;  // synchronous: steps of all workers together; otherwise of each
  SampleCounts samples;
  std::optional<Milestone> target;  // the update by which the samples of the scenario's target were done
  bool is_synchronous = false;
  Bytes sent{}, received{}, lost{};           // over all NICs; lost: on the way when one of the two machines went,
                                              // and packets that were sent again
  LossCounts losses;                          // of packets
  std::vector<Seconds> gpu_time_per_step;     // [machines] of one worker, 0 without
  std::vector<Seconds> memory_time_per_step;  // [machines]
  std::vector<double>
      gpu_energy_per_step;               // [machines] J of one GPU of a worker, besides those at rest (step_energy())
  std::vector<Seconds> update_per_step;  // [machines] of all variables, by a worker that does it itself
  std::vector<HostWork> host_work;       // [machines] of one worker in a step
  std::vector<Bytes> placed_bytes;       // [machines] bytes of trainable variables, servers only
  std::vector<int> placed_variables;     // [machines]
  std::vector<std::string> unit_names;   // of the messages' units
  /// Identical workers were folded: only workers of this machine recorded steps, for those of the machines that name
  /// it. -1: every worker of the machine recorded its own.
  std::vector<MachineIndex> recorded_by;  // [machines]
  std::vector<int> stands_for;            // [machines] workers for which each does that recorded steps there
  Seconds drained{};                      // when the last message of dropped or late work had ended; >= end
  Messaging messaging;                    // of the scenario
  Recorder recorder;
  std::uint64_t fingerprint = 0;
  std::uint64_t events = 0;
};

}  // namespace rehearse
