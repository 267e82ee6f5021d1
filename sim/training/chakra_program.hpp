#pragma once
// Programs as traces of Chakra, one a rank, for simulators that read those.
//
//   kernel            COMP on the GPU, behind a COMP on the host for the time until it is dispatched
//   host work         COMP on the host
//   copy              MEM_LOAD to the GPU, MEM_STORE from it
//   message           COMM_SEND on the rank that sends, COMM_RECV on the one that gets it, with the same tag
//   collective        COMM_COLL, whose ranks are those of its process group
//   gate, fence ...   METADATA, which takes no time
//
// What an operation waits for are data dependencies, also what it waits for by a counter within the step: of another rank
// there is then a message, which is empty if only memory is shared. The order of a stream is in control dependencies,
// as it says when there is a choice. What a parameter server does is in the server's own trace; a worker's trace has
// METADATA in its place. Attributes that begin with "rehearse." say the rest: kinds, numbers and times of operations as the
// program has them, so that the program can be made again (tests/support/chakra_program.hpp does).

#include "sim/training/cluster_step.hpp"
#include "workloads/traces/chakra.hpp"

namespace rehearse {

/// Throws InputError if the scenario's workers choose whom they exchange with when they run, as those that average in
/// pairs: graphs of Chakra are fixed; or if they pass keys and values on in a ring, for which it has no collective.
void require_exportable(const Scenario& scenario);

/// A step of a full cluster that follows others.
struct ExportedStep {
  /// The scenario has to outlive it. Throws what Site and the compilers throw.
  explicit ExportedStep(const Scenario& scenario);

  const Program& program(int worker) { return compiler.program(step.workers[at(worker)]); }

  Site site;
  StepCompiler compiler;
  ClusterStep step;
  /// Groups that are not of all ranks, each once: the name of the i-th in a trace is i + 1.
  std::vector<std::vector<int>> process_groups;
};

/// What `rank`, a worker or a server, does in it.
ChakraTrace chakra_trace(ExportedStep& step, int rank);

}  // namespace rehearse
