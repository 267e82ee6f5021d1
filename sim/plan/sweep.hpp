#pragma once
// Every combination of a sweep: read and checked before the first one runs, simulated into a result store, given back
// as rows in combination order. Runs are known by their content, so whatever the store holds already is not run again.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/expression.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/sweep_request.hpp"
#include "sim/pool/pool.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// One combination and what came of it. Refers to values that live as long as the call that hands it over.
struct SweepRow {
  std::size_t combination = 0;
  const Json& scenario;  // as set, names not resolved
  std::uint64_t seed = 0;
  const Json& summary;  // null without result
  std::string error;    // empty with a result
  bool is_finished = false;
};

/// What check() found.
struct SweepCheck {
  std::size_t combinations = 0;  // all
  std::size_t left_out = 0;      // by constraints
  std::size_t failed = 0;        // refused before they ran: rows with an error
  std::size_t distinct = 0;      // different scenarios among the rest: simulations
};

class Sweep {
 public:
  /// Reads the base scenario and looks for every place that is to be set. `program` is part of every run's key. Throws
  /// InputError, also for more than kMaxCombinations. `catalog` must outlive it.
  Sweep(SweepRequest request, const Catalog& catalog, std::string program);
  Sweep(Sweep&&) noexcept;
  ~Sweep();

  /// The number of all combinations, before constraints.
  std::size_t combinations() const;

  /// Applies the constraints, then reads every scenario. `on_checked(done, scenario)` is called after each combination;
  /// the scenario is nullptr for one that is left out or refused. Throws InputError if no combination is left or, with
  /// the first one's error, if all are refused; NoResultError if all of them are valid but can have no result.
  SweepCheck check(const std::function<void(std::size_t done, const Scenario* scenario)>& on_checked = {});

  // Only after check():

  /// Throws InputError if `expression` uses a name that is no key of a summary, or a pointer that leads nowhere, or
  /// combines what cannot be combined.
  void check_expression(const Expression& expression, bool is_condition) const;

  /// The number of distinct scenarios that `store` does not hold yet.
  std::size_t pending(const ResultStore& store) const;

  /// Simulates what is pending, in combination order, and puts each result as it comes. False if `limits.is_stopped`
  /// has ended it. `on_done(done, total)` is called after each simulation.
  bool run(ResultStore& store, const Pool& pool,
           const std::function<void(std::size_t done, std::size_t total)>& on_done, const JobLimits& limits) const;

  /// Every row, in combination order.
  void for_each_row(const ResultStore& store, const std::function<void(const SweepRow& row)>& on_row) const;

  /// What an expression's name stands for in this row.
  ExpressionValue look_up(const SweepRow& row, const std::string& name) const;

  /// The places that differ between combinations; without /seed, which has a column of its own.
  const std::vector<std::string>& parameters() const;

  /// The table: one column for each parameter, seed, the summary's plain values (a list of warnings counts as their
  /// number), error. Depends on the results only, not on their order or on how many ran at a time.
  std::string csv(const ResultStore& store) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A summary's plain values by key, in its order, those of an object as "object.key"; without "format", "name" and "seed".
std::vector<std::pair<std::string, Json>> plain_values(const Json& summary);

/// The text of a scenario's value in a table: strings without quotes, a catalog object as its name, nothing as "".
std::string parameter_text(const Json* value);

/// Whether the schema of scenarios (Json of scenario_schema()) knows the place; an InputError names the nearest key.
void expect_known_place(const Json& schema, std::string_view pointer);

}  // namespace rehearse
