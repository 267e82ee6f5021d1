#pragma once
// Many runs of one job on spot machines, each with revocations of its own: when it finishes, what it costs, how likely
// it is to be done in time.
//
// Each membership of the cluster that occurs is simulated once, message by message, in its steady state; each run then
// is a sequence of events (job.hpp) at these speeds (memoised_session.hpp). Its seed follows from the scenario's and its
// number, so results depend neither on the number of processes nor on how many runs there are besides.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/job/memoised_session.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// Where the money of one run goes, USD.
struct CostSplit {
  double workers = 0;  // while they train
  double servers = 0;  // the same
  double idle = 0;     // of all machines while the job stands still, and of spares
  double startup = 0;  // of workers before they can train
  double total() const { return workers + servers + idle + startup; }
};

/// Seed of run `run` of a scenario with `seed`: its own of run 0, so that the run can be repeated alone by its seed; of the
/// others a draw below 2^53, exact in a double, so that runs of another seed are others.
std::uint64_t seed_of_run(std::uint64_t seed, std::size_t run);

struct RunOutcome {
  std::uint64_t seed = 0;
  bool is_finished = false;
  double time_s = 0;                  // until the end, or until it was given up, and then a lower bound as all else
  std::optional<CostSplit> cost_usd;  // none if a price is unknown
  std::optional<double> energy_j;     // from the wall, of all machines while they are rented; none: not known
  Interruptions interruptions;
  TimeUse time_use;
  SampleCounts samples;
};

struct MonteCarlo {
  std::vector<RunOutcome> runs;
  Seconds gives_up_after{};                // runs that are not finished by then
  std::map<MachineCounts, double> speeds;  // steps per second, of the full cluster's steps
  std::int64_t steps = 0;                  // of the full cluster
  std::int64_t samples = 0;                // of the job
  double samples_per_step = 0;             // of the full cluster
  Trajectory sample;                       // the run whose time is the median
  std::size_t sample_index = 0;
  bool is_controlled = false;     // rules were asked
  std::string untried_batches{};  // why larger ones were not tried by ElasticBatch; empty: all were
};

/// What was simulated, as JSON text, and what came of it: for jobs of which some memberships are the same.
using SimulatedMemberships = std::map<std::string, std::string>;

struct MonteCarloOptions {
  std::size_t runs = 1000;
  std::optional<Seconds> deadline = {};  // no run is given up before
  Pool pool = 1;
  /// Rules of Control are not asked, and each worker has so many times its batch: the plan that they are compared with.
  std::optional<int> fixed_batch = {};
  SimulatedMemberships* known = nullptr;  // looked up and added to; null: nothing is
  std::function<void(std::size_t done, std::size_t total)> on_progress = {};
  JobLimits limits = {};
};

/// Runs without Recovery::give_up_after are not given up before.
inline constexpr Seconds kGivesUpAfter{60 * 86400.0};

/// Thrown when `limits.is_stopped` has ended the runs.
struct MonteCarloStopped {};

/// What ElasticBatch chooses from, times the scenario's batches: powers of two, and those half as large again. Without it {1}.
std::vector<int> elastic_batches(const Scenario& scenario);

/// The job's samples are those of the scenario, of its target, or of the updates that the full cluster takes to its
/// loss; an update of another membership then counts A / A' as much, the numerators of the convergence model. Throws
/// NoResultError if a membership cannot be simulated. Some jobs never end, so runs are given up: after
/// Recovery::give_up_after; without it after 60 days, or ten times what the full cluster takes without revocations, or at
/// the deadline, whichever is last.
MonteCarlo run_monte_carlo(const Scenario& scenario, const MonteCarloOptions& options);

/// A mean over pairs of runs of one seed, and where it lies with a probability of 95 %: 1.96 standard errors to both sides.
struct PairedMean {
  double mean = 0, low = 0, high = 0;
};
/// What rules of Control did: their runs less those of the fixed plan, seed by seed. Runs that were given up count as they were then.
struct ControlGain {
  PairedMean fixed_time_s, time_s;                                 // of the fixed plan, and the difference
  std::optional<PairedMean> fixed_cost_usd, cost_usd;              // none if a price is unknown
  std::optional<PairedMean> fixed_deadline_share, deadline_share;  // finished by the deadline, if there is one
  double decisions = 0;                                            // that changed machines, of a run
  double decided = 0;                                              // share of the runs with any
};
/// Both of the same scenario and number of runs: MonteCarloOptions::fixed_batch.
ControlGain control_gain(const MonteCarlo& fixed, const MonteCarlo& controlled, std::optional<Seconds> deadline);
Json to_json(const ControlGain& gain);

/// The fixed plan that is the fastest in the mean of those with another batch of elastic_batches(), and what the rule did to it.
struct BatchGain {
  int times = 1;  // the scenario's batches
  ControlGain gain;
};
/// None without ElasticBatch, or if no other batch can be simulated. `options`: as of `controlled`.
std::optional<BatchGain> gain_over_batches(const Scenario& scenario, MonteCarloOptions options,
                                           const MonteCarlo& controlled);

/// Runs that were given up. Means over all runs are lower bounds if there are any.
std::size_t unfinished_runs(const MonteCarlo& result);
/// "160 of 200 runs had not finished after 60 days, ..": none if all had.
std::optional<std::string> remark_on_unfinished(const MonteCarlo& result);
/// Percentiles and the probability of a deadline are of what happens to machines; how far the speed itself may be off comes
/// besides. None where the profile does not know.
std::optional<std::string> remark_on_speeds(const Scenario& scenario);
/// That providers bill more than half of the runs for longer than they take; none if they do not.
std::optional<std::string> remark_on_billing(const Scenario& scenario, const MonteCarlo& result);

/// Percentiles over all runs; one that is not finished takes for ever, and costs without end.
struct RunPercentiles {
  double p5 = 0, p50 = 0, p95 = 0;
};
RunPercentiles time_percentiles(const MonteCarlo& result);
RunPercentiles goodput_percentiles(const MonteCarlo& result);
/// Sums over all runs.
TimeUse time_use_of(const MonteCarlo& result);
std::optional<RunPercentiles> cost_percentiles(const MonteCarlo& result);
/// J; none if it is not known.
std::optional<RunPercentiles> energy_percentiles(const MonteCarlo& result);
/// Share of the runs that are finished by `deadline`.
double probability_by(const MonteCarlo& result, Seconds deadline);

/// Version 1 of summary.json for many runs: time_s and cost_usd are medians.
Json to_json(const Scenario& scenario, const MonteCarlo& result, std::optional<Seconds> deadline);
/// runs.csv: one row for each.
std::string runs_csv(const MonteCarlo& result);

}  // namespace rehearse
