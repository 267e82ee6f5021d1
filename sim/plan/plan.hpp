#pragma once
// What-if work on top of the engine. Read in this order:
//   sweep_request.hpp  what a sweep should run: a file, the command line, or both
//   sweep.hpp          every combination: checked first, then simulated into a result store, then a table
//   provision_run.hpp  the cheapest machines for a loss and a deadline: planners in closed form, checked by simulation
//   diff.hpp           what differs between two runs, and which difference made which effect
//   remaining_time.hpp how long a training still takes after machines of it were lost
//   diagnosis.hpp      why a run is as fast as it was measured to be, and what would help

#include "sim/plan/diagnosis.hpp"
#include "sim/plan/diff.hpp"
#include "sim/plan/provision_run.hpp"
#include "sim/plan/remaining_time.hpp"
#include "sim/plan/sweep.hpp"
#include "sim/plan/sweep_request.hpp"
