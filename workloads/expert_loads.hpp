#pragma once
// How unevenly tokens choose the experts of a mixture, and what that gives the GPUs that share these.

#include <vector>

#include "workloads/graph_builder.hpp"

namespace rehearse {

/// Tokens of each expert by the mean of all, the most wanted first: of the i-th i^-exponent times those of the first. None has more
/// than all tokens, experts / per_token, as no token chooses it twice; what is above goes to the others in proportion. Source: Zipf's
/// law, by which loads of experts without a loss that balances them are often described; the exponent is the user's.
std::vector<double> zipf_loads(int experts, int per_token, double exponent);

/// What the GPUs of a split have of a mixture, which experts are wanted most being drawn for each mixture, the same in every run.
struct ExpertLoads {
  std::vector<double> of_gpus;  // [degree] rows of each GPU's experts by the mean, what is above their places left out
  std::vector<double> of_machines;  // [machines] share of all tokens that go to each: with one copy a machine

  /// With `zipf`; else all are alike, and none are listed.
  ExpertLoads(const ExpertSplit& split, const ExpertsOfLayer& mixture);
};

/// Machines that a token goes to, its own included, if experts have even loads: N (1 - C(E - E / N, k) / C(E, k)) of N.
double machines_of_token(const ExpertSplit& split, const ExpertsOfLayer& mixture);

}  // namespace rehearse
