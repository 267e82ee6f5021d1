#pragma once
// What a row of a study states, without simulating it: numbers and words that simple predictions (baselines.hpp) are
// made of.

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The workers of a group. `flops` and `bytes` are those of one GPU in a step: of its kernels that multiply, and what
/// all of them read and write.
struct WorkerFacts {
  std::string gpu;
  double workers = 0;
  double gpus = 1;   // of one worker
  double batch = 0;  // samples of one worker in a step
  double flops = 0, bytes = 0;
  double peak = 0;       // FLOP/s, at the workload's precision
  double bandwidth = 0;  // of the GPU's memory, B/s

  /// max(flops / peak, bytes / bandwidth), s.
  double roofline() const;
};

/// Sorts of metrics: what is stated about one has the same numbers and words in all rows.
enum class FactsOf { kSpeed, kCheckpoint, kStartup, kCollective, kOther };

struct RowFacts {
  FactsOf kind = FactsOf::kOther;
  std::string model, framework, precision;
  std::vector<WorkerFacts> workers;
  std::vector<double> numbers;     // above 0: [numbers_of(kind)]
  std::vector<std::string> words;  // [as many in all rows of a kind]
  double checkpoint_bytes = 0;
  std::optional<double> bound;  // roofline_time()
  /// As if each GPU drew its limit all the time: gpu_power_w; node_power_w, of its GPUs alone; gpu_energy_per_sample_j, for as long
  /// as the roofline.
  std::optional<double> limit;
  double unit = 1;  // a metric is unit / time (of a rate), or unit x time
  bool is_rate = false;

  /// Speeds are compared as the time in which a worker makes a step,
  ///   t = sum over workers of batch / (samples/s),
  /// whatever the metric: samples_per_s, steps_per_s, iteration_time_s, training_time_s. Other metrics are times
  /// already, or taken as they are.
  double time_of(double metric) const { return is_rate ? unit / metric : metric / unit; }
  double metric_of(double time) const { return is_rate ? unit / time : unit * time; }
  double samples_of_a_round() const;  // sum over workers of batch
  double all_workers() const;
};

/// Names of RowFacts::numbers, for messages and tests.
std::vector<std::string> numbers_of(FactsOf kind);
FactsOf facts_of(const std::string& metric);

/// `probability`: of the quantile that the row is compared with. Throws NoResultError if a loss is the target of a
/// training and cannot be reached.
RowFacts read_facts(const Scenario& scenario, const std::string& metric, std::optional<double> probability);

/// No step, or all-reduce, takes less than the slowest of
///   a GPU's kernels     WorkerFacts::roofline(), the mean of all workers
///   the network         bytes through the NICs of a machine / their rate; of an all-reduce 2 (m - 1) / m of the payload
///                       for m machines; of servers the payload of all their senders / servers
///   links of a machine  2 (g - 1) / g of the payload / rate of one GPU, for all-reduces of g GPUs in it
/// Source: Williams, Waterman, Patterson, Roofline, Comm. ACM 52(4), 2009; Patarasuk and Yuan, J. Parallel Distrib.
/// Comput. 69(2), 2009. None for other metrics.
std::optional<double> roofline_time(const Scenario& scenario, const RowFacts& facts);

/// Time of a worker's step from the profile's measured ones of the same model, GPU, precision and framework: that with
/// the nearest batch, in proportion to it. None if there is none.
std::optional<double> stated_step_time(const Profile& profile, const RowFacts& facts, const WorkerFacts& worker);

}  // namespace rehearse
