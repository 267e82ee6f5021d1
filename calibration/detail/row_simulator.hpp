#pragma once
// The rows of studies, simulated again and again with other profiles. Scenarios are read once. What has been simulated
// is not simulated again, nor is a row whose scenario does not use what has changed.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/study.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The part of `profile` on which a simulation of `scenario` depends, as text: peak efficiencies of its own GPUs, step
/// times of its own model, its own framework, collectives on its own interconnects, server times only if it has parameter servers,
/// checkpoint times only if it takes them from there, no start-up times, no descriptions.
std::string used_profile(const Scenario& scenario, Json profile);

class RowSimulator {
 public:
  /// A row of one of the studies.
  struct Row {
    std::size_t study = 0, row = 0;  // indices
  };

  /// `on_simulated(done, total)` after each simulation of a call of simulate(); once `budget` is over, its stop() ends
  /// the call.
  /// Throws InputError if a row cannot be mapped to a scenario.
  RowSimulator(const std::vector<Study>& studies, const Catalog& catalog, Pool pool,
               std::function<void(std::size_t done, std::size_t total)> on_simulated = {}, Budget budget = {});

  const std::vector<Row>& rows() const { return rows_; }  // of all studies, in order
  const Scenario& scenario(std::size_t row) const { return scenarios_[scenario_of_[row]].scenario; }

  /// [profiles] of [rows[profile]]: the studies' metrics. What a profile does not state is substituted as everywhere
  /// (sim/scenario/substitutes.hpp). All profiles, of all calls, state the same values. Throws InputError if a row gives
  /// no value above 0.
  std::vector<std::vector<double>> simulate(const std::vector<Json>& profiles,
                                            const std::vector<std::vector<std::size_t>>& rows);

  std::size_t simulations() const { return simulations_; }  // so far

 private:
  struct Prepared {
    Scenario scenario;
    std::string metric;
    std::optional<double> probability;
    std::optional<bool> is_complete;  // profiles state all that the metric needs; not known before the first
  };
  using Key = std::pair<std::size_t, std::size_t>;  // scenario, number of what it uses of the profile

  /// A profile of a call, and the numbers of what has been looked for in it.
  struct Stated {
    const Json& file;
    Profile profile;
    std::map<std::string, std::size_t> by_metric;     // of a closed form
    std::map<std::string, std::size_t> by_framework;  // without the other ones
  };

  /// Equal texts have equal numbers.
  std::size_t number_of(const std::string& text) { return numbers_.try_emplace(text, numbers_.size()).first->second; }

  /// Gives the scenario the profile with what is substituted for it. Returns whether anything is.
  bool complete(Prepared& prepared, const Profile& stated) const;

  /// The number of what the metric of a scenario depends on.
  std::size_t number_used(std::size_t scenario, Stated& stated);

  const std::vector<Study>& studies_;
  const Catalog& catalog_;
  Pool pool_;
  std::function<void(std::size_t, std::size_t)> on_simulated_;
  Budget budget_;
  std::vector<Row> rows_;
  std::vector<std::size_t> scenario_of_;        // [rows]
  std::vector<Prepared> scenarios_;             // different ones
  std::map<std::string, std::size_t> numbers_;  // of texts, as they come
  std::map<Key, std::size_t> completed_;        // by scenario and what is stated but for other frameworks: what is used
  std::map<Key, double> known_;
  std::size_t simulations_ = 0;
};

}  // namespace rehearse
