#pragma once
// What, made worse than a scenario says, would make its simulated speed the measured one.

#include <string>
#include <vector>

#include "sim/pool/job_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// One cause that a simulation does not know of. Its strength is a factor above 1: of times, or of what a rate is
/// divided by; for stragglers 1 + the coefficient of variation of a step's compute time.
struct Mechanism {
  std::string name;  // "input", "host", "network", "servers", "stragglers", "gpu"; besides "launch", "links", "latency"
  double most = 1;   // the largest strength that is tried
  /// The strength that is nothing unusual in practice. A judgement: it orders explanations, and nothing else.
  double usual = 1;
};

/// The mechanisms that a scenario can be subject to.
std::vector<Mechanism> list_mechanisms(const Scenario& scenario);

/// The scenario with one mechanism at work, which strengths below 1 turn round. input: every step lasts (strength - 1)
/// `step` longer on its host. host: its work, loading samples included, takes `strength` times as long; servers: that of their cores; gpu: kernels;
/// launch: their start. network: NICs and connections have 1 / strength of their rate; links: those of the fabric and
/// between GPUs. latency: `strength` times as long.
Scenario made_worse(Scenario scenario, const std::string& mechanism, double strength, Seconds step);

/// The verb that gives the summary of such a run, as kSimulate does, without a target. Options: "mechanism", "strength",
/// "step_s", "steps".
extern const Verb kSimulateWorse;

/// What the strength means, in words.
std::string describe(const Mechanism& mechanism, double strength, Seconds step);

}  // namespace rehearse
