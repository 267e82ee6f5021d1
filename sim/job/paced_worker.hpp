#pragma once
// What a training in which workers go on by themselves (paced_training.cpp) knows of each of them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/job/program_session.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse::paced {

struct PacedWorker;

/// Workers that exchange with the servers as one: those of a machine, or a single one.
struct Team {
  std::vector<PacedWorker*> members;
  std::shared_ptr<Counters> counters = std::make_shared<Counters>();
};

/// A step, and its samples.
struct Sent {
  std::int64_t number = 0, samples = 0;
};

/// A worker of the training.
struct PacedWorker {
  PacedWorker(Worker& worker_, std::uint64_t seed)
      : worker{worker_}, choice{seed, "partners of worker " + std::to_string(worker_.index)} {}
  Worker& worker;
  Rng choice;  // of partners
  RunningWorker* running = nullptr;
  Team* team = nullptr;
  bool is_first_of_team = false;
  std::vector<WorkerGroup> meets;                            // groups of its own GPUs
  std::vector<std::unique_ptr<CollectiveGroup>> own_groups;  // of these
  std::vector<CollectiveGroup*> groups;                      // the same, as the executor takes them
  std::int64_t updates_at_start = 0;
  std::optional<Seconds> ready_since;  // to begin its next step
  std::int64_t left_out = 0;           // steps in which it was late, or that were begun before it joined
  std::int64_t counted_in = -1;        // synchronous: the latest step that was shared with it
  std::int64_t latest_step = -1;       // that it has begun
  FirstVariables first = FirstVariables::kPushed;
  std::vector<Sent> sent;  // asynchronous: steps that are not applied, if it runs ahead
  bool is_present = false;
  bool is_training = false;
  WorkerStep next;  // what it does in the step that it is in, or will begin next
};

/// In the step that it has ended now: what its kernels waited for, and what came after them. `servers`: nullptr without
/// any; `runs_ahead`: steps begin before the update of the one before.
void record_times(PacedWorker& paced, Seconds now, const ServerRules* servers, bool runs_ahead);

/// A synchronous step that others begin before its update.
struct Round {
  std::vector<int> workers{};         // that have part in it
  std::int64_t samples = 0;           // of its update
  std::int64_t begun = 0, ended = 0;  // samples of workers that have begun it, and that have ended it
};

}  // namespace rehearse::paced
