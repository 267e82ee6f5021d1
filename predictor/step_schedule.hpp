#pragma once
// When the operations of a compiled step take place if each resource is as busy with others' work as a pace says: the engine's own
// executor runs the programs of a few workers by themselves.

#include <map>
#include <vector>

#include "sim/training/cluster_step.hpp"

namespace rehearse {

/// How many times as busy resources are as with these workers alone; those that are not there, once. A link is that much slower. Cores
/// that serve variables are shared evenly: of n cores that are s times as busy ceil(n / s) are left, each at n / s of that.
struct Slowdowns {
  std::map<int, double> links;
  std::map<int, double> pools;  // of a machine, or of a server's own threads: machines + server
};

/// Workers that wait for one another.
struct ScheduledTeam {
  std::vector<int> workers;
  /// [workers] from whom what they fetch comes.
  std::vector<Endpoint> partners;
  Slowdowns slowdowns;
};

/// An operation in its place in time.
struct Scheduled {
  int worker = 0, step = 0;  // the worker's place in the team
  OperationIndex operation = 0;
  double ready = 0, start = 0, end = 0;  // seconds; a message that waits for its turn starts with that
};

struct StepSchedule {
  std::vector<Scheduled> operations;      // of all steps, in the order in which their ends are known
  std::vector<std::vector<double>> ends;  // [workers][steps] seconds
};

/// Several steps in a row of the team alone, as sessions have them (session.hpp), on resources that are idle at first. Collectives take what
/// they take on an idle network, once those of the team have come to them. `idle`: paths of the same topology.
StepSchedule schedule_steps(StepCompiler& compiler, const ClusterStep& step, const ScheduledTeam& team, int steps,
                            Network& idle);

}  // namespace rehearse
