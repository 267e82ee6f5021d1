#pragma once
// From many measurements of one thing to its time.

#include <functional>
#include <vector>

namespace rehearse::microbench {

/// Processor time of this thread, in seconds: that of others on a shared machine does not count.
double thread_seconds();

/// How much is spent on one kernel.
struct Effort {
  double seconds = 0.05;  // at least, unless there are most_samples before
  int fewest_samples = 5;
  int most_samples = 200;
  double shortest = 20e-6;  // s of a sample: shorter kernels are repeated within one
};

/// Seconds of one run: the median, so that a kernel and a step of many are measured alike where others use the machine,
/// too, and the least.
struct Sample {
  double time = 0, least = 0;
  int samples = 0;
};
Sample summarize(std::vector<double> seconds);

/// Samples of `run`, which gets the number of the run, by `clock`: a run before that warms up and says how many runs
/// a sample needs. `is_over` ends it early; then fewer samples than the fewest are no result.
std::vector<double> sample(const std::function<void(int)>& run, const std::function<double()>& clock,
                           const Effort& effort, const std::function<bool()>& is_over = {});

}  // namespace rehearse::microbench
