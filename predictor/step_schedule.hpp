#pragma once
// When the operations of a compiled step would take place if each resource were as busy with others' work as a pace says.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "sim/program/program.hpp"

namespace rehearse {

/// A way of messages. Links are queues, first come, first served: one that is `slowdown` times as busy as with these workers
/// alone takes so many times as long for each byte.
struct PacedPath {
  struct Link {
    int link = 0;
    double seconds_per_byte = 0;  // slowdown / rate
  };
  std::vector<Link> links;
  double latency = 0;           // seconds
  double seconds_per_byte = 0;  // alone, over the slowest of the links
};

/// Cores that serve a server's variables.
struct PacedCores {
  int pool = 0;  // servers of one machine may share them
  int cores = 1;
  double slowdown = 1;  // work that comes with each of these workers' own, in parts of it
};

/// What a collective takes while nothing else uses the network, and what of it enters and leaves the chief's machine.
struct CollectiveCost {
  double seconds = 0;
  double received = 0, transmitted = 0;  // bytes
};

/// A worker of those that are scheduled.
struct PacedWorker {
  const Program* program = nullptr;
  std::vector<PacedPath> connections;  // as its program numbers them
  std::array<PacedPath, 2> copies;     // by CopyDirection
  PacedPath fetch;                     // from another worker
  PacedCores host;                     // of its machine
  std::vector<int> groups;             // of the cluster, as its program numbers them
};

/// Workers that wait for one another, and what they use.
struct PacedTeam {
  std::vector<PacedWorker> workers;
  std::vector<PacedCores> servers;
  std::function<CollectiveCost(int group, const Collective& what, Bytes bytes)> cost;
  bool is_in_lockstep = false;  // the next step begins when all have ended this one
  bool is_by_priority = false;  // of collectives that wait
  double cycle = 0;             // at whose end collectives begin that are ready, as one; 0: none
  Bytes largest{};              // of what a cycle fuses; 0: no limit
};

/// An operation in its place in time.
struct Scheduled {
  int worker = 0, step = 0;
  OperationIndex operation = 0;
  double ready = 0, start = 0, end = 0;  // seconds
  CollectiveCost cost;                   // of collectives; what is fused into another one costs nothing
};

struct StepSchedule {
  std::vector<Scheduled> operations;      // of all steps, without order
  std::vector<std::vector<double>> ends;  // [workers][steps] seconds
};

/// Several steps in a row, on idle resources at first: messages one at a time on each connection, kernels in the order of
/// their streams, copies of a direction and collectives of a group one at a time. Counters that all workers share advance with
/// those of the team. Takes time in proportion to the operations.
StepSchedule schedule_steps(const PacedTeam& team, int steps);

}  // namespace rehearse
