#pragma once
// The memberships of a job of many runs (monte_carlo.hpp), each simulated once, and what comes of them: how fast the job goes on
// with the machines that are there, and on which batch.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/plan/monte_carlo.hpp"

namespace rehearse {

/// Memberships that have been simulated, each with a multiple of the scenario's batches. Those that are asked for besides are missing.
class MembershipSpeeds {
 public:
  /// Machines, and times the scenario's batches.
  using Membership = std::pair<MachineCounts, int>;

  /// `fixed_batch`: MonteCarloOptions; none: that of ElasticBatch, if the scenario has it.
  MembershipSpeeds(Scenario scenario, std::optional<int> fixed_batch);

  /// The scenario with the samples and steps that its target takes, in place of that.
  Scenario sized_job() const;
  /// Of the full cluster.
  double samples_per_s() const { return speed({reference_, 1}, reference(), 0).samples_per_s(); }
  double samples_per_step() const { return speed({reference_, 1}, reference(), 0).samples_per_update; }

  /// A membership that has not been simulated yet is remembered as missing, and goes at the reference's speed per
  /// machine meanwhile.
  TrainingSpeed operator()(const MachineCounts& counts, double share_done);

  std::set<Membership>& missing() { return missing_; }
  /// Why larger batches are not tried; empty: all could be simulated.
  const std::string& untried() const { return untried_; }

  /// Asks for what lies between those that are known, where the machines of one group change and these are many: nearly every run
  /// would come to one of the few that are not known, and be done again. One that cannot be simulated matters only to a run that
  /// comes to it.
  void ask_between();
  /// Simulates those that are missing. Throws NoResultError if one cannot be, and MonteCarloStopped.
  void measure(const MonteCarloOptions& options);

  /// What keep() took, for another process: [[membership, measured], ..].
  Json known() const;
  void keep(const Membership& membership, const Json& json);

  /// With the scenario's batches, at the start.
  std::map<MachineCounts, double> all() const;

 private:
  /// What one membership's simulation says.
  struct Measured {
    double steps_per_s = 0, samples_per_s = 0;
    double numerator = 1;  // of the convergence model
    double updates = 0;    // to the target's loss
    std::optional<double> above_rest_w{};
  };

  const Measured& reference() const { return measured_.at({reference_, 1}); }
  void leave_out(const Membership& membership, const std::string& reason);
  Json scenario_of(const Membership& membership) const;
  std::string key_of(const Membership& membership) const;
  PoolJob job_of(const Membership& membership) const;
  TrainingSpeed speed(const Membership& membership, const Measured& measured, double share_done) const;
  TrainingSpeed progress(const Membership& membership, const Measured& measured, double share_done) const;
  TrainingSpeed speed_by_noise(const ElasticBatch& rule, const Membership& membership, double steps_per_s,
                               double share_done) const;

  Scenario scenario_;
  std::vector<int> batches_;  // that are tried
  bool is_known_;             // samples of an update follow from who trains, not from how fast each is
  MachineCounts reference_;
  std::map<Membership, Measured> measured_;
  std::set<Membership> missing_;
  std::set<Membership> guesses_;  // of them, those that no run has asked for
  std::set<Membership> guessed_;  // those that ever were
  std::string untried_;
  int untried_from_ = 0;
};

}  // namespace rehearse
