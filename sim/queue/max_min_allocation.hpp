#pragma once
// The linear program below Gavel's policies.

#include <vector>

namespace rehearse {

/// Shares of time x[i][j] in [0, 1] of job i on GPUs of type j that maximize the least of
///   sum_j rates[i][j] x[i][j]   over the jobs i,
/// where no job has more than all of its time, sum_j x[i][j] <= 1, and no type more GPUs than it has,
/// sum_i gpus[i] x[i][j] <= capacity[j]. A rate of 0 says that the job does not run there: x is 0.
///
/// Of the many best x it is the one in their middle, their analytic centre: the limit of a barrier method, as of the
/// interior-point solver that Gavel uses. So capacity that does not raise the least share is given, too. The least
/// share is within 1e-6 of the optimum, by the gap of the dual. Newton's steps cost O(jobs types^3), since jobs meet
/// in the sums of types alone.
/// Source: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies, OSDI 2020, section 4; the method: Boyd and
/// Vandenberghe, Convex Optimization, 2004, chapter 11. Checked in max_min_allocation_test.cpp.
/// Requires: every job has a positive rate where capacity >= its gpus; at most kMostGroups types.
std::vector<std::vector<double>> max_min_allocation(const std::vector<std::vector<double>>& rates,
                                                    const std::vector<double>& gpus,
                                                    const std::vector<double>& capacity);

inline constexpr int kMostGroups = 16;

}  // namespace rehearse
