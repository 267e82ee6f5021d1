#pragma once
// Replanning of a scenario (Control): spotDNN's takeover provisioning. After a notice or a loss the planner of provision.hpp looks for
// the cheapest machines that do what is left by the deadline, which keep those that stay. Source: spotDNN, IWQoS 2023, section IV;
// its released program leaves this out.

#include <memory>

#include "sim/base/json.hpp"
#include "sim/job/control.hpp"
#include "sim/plan/provision_run.hpp"

namespace rehearse {

/// What the planner has to know of the scenario's groups of workers: prepare_provision() of one machine of each. For
/// replan_rule(), also of another process. Throws what prepare_provision() throws.
Json replan_problem(const Scenario& scenario, const SimulationMeans& means);

/// Of a scenario with Control::replan and a loss as target. What is left is that which the groups that are there from the start still had
/// to do, after loss(j) of workloads/convergence.hpp. Machines of groups with a replay are never requested. Where no plan is in time, or
/// none that the loss model was fitted for, the fastest of Algorithm 1 is taken, then whatever is fastest. With Replanning::releases a
/// plan without some of the machines is taken if it is cheaper, with the takeover, than any that keeps them.
std::shared_ptr<const ControlRule> replan_rule(const Scenario& scenario, const Json& problem);

}  // namespace rehearse
