#pragma once
// How much a step has to do, counted in what is compiled of it.

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// A step of all workers.
struct StepSize {
  double messages = 0;     // over the network, or between processes of a machine; of collectives, too
  double collectives = 0;  // to which workers come: a collective of p workers counts p times
  double edges = 0;        // of the plans of all groups of workers (CollectivePhase::edges)
  double kernels = 0;
};

/// Throws what Site and the compilers throw, and InputError if a collective does not work among these machines.
StepSize step_size(const Scenario& scenario);

/// Messages of the all-reduce of the first group of workers; 0 if there is none.
double messages_per_all_reduce(const Scenario& scenario);

}  // namespace rehearse
