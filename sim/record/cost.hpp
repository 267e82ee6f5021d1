#pragma once
// What a run costs, and what a million samples do: rent as providers bill it, and by the moment.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Rent and disks of some times, in USD.
struct Cost {
  double usd = 0;                // as providers bill it (platforms/price.hpp)
  double usd_by_the_moment = 0;  // if they neither rounded up nor charged a least time
  /// Ends of the interval of 90 % of `usd`: what is billed if all times are as much shorter or longer as the speed's interval says.
  std::optional<std::pair<double, double>> interval{};

  /// More than a tenth of it is for time in which nothing ran: it says little about how cost moves with speed.
  bool is_mostly_rounding() const { return usd > 1.1 * usd_by_the_moment; }
};

/// Cost in USD of the times in which a machine is rented, by the prices and the billing rule of the scenario; none if
/// its price is unknown. All times are `stretch` times as long.
std::optional<double> cost_of(const Scenario& scenario, const Machine& machine, const std::vector<Rental>& rentals,
                              Charged charged = Charged::kAsBilled, double stretch = 1);

/// The same of all spares of the scenario's groups until a date, where its machines are those of a site: those that wait, those
/// that are repaired and those that have taken another's place, whose rent is then counted there no more.
std::optional<double> cost_of_spares(const Scenario& scenario, const std::vector<Machine>& machines, Seconds until,
                                     Charged charged = Charged::kAsBilled);

/// All machines of a run until a date. `speeds`: what its speed is multiplied by for the ends of its interval.
std::optional<Cost> cost_until(const Scenario& scenario, const RunRecord& record, Seconds date,
                               const std::optional<std::pair<double, double>>& speeds);

/// All machines for a training that takes so long, without revocations.
std::optional<Cost> training_cost(const Scenario& scenario, const std::vector<Machine>& machines, Seconds time,
                                  const std::optional<std::pair<double, double>>& speeds);

/// Rent of all machines that are there from the start, spares and disks included, at the prices of that moment; none if one is unknown.
std::optional<double> rent_usd_per_hour(const Scenario& scenario);

/// USD for a million samples at this rent and speed:  usd_per_hour / 3600 s / samples_per_s * 1e6; none if either is unknown.
std::optional<double> usd_per_million_samples(const std::optional<double>& usd_per_hour, double samples_per_s);

/// "aws bills at least 60 s", of each provider that bills more than the time itself; empty if there is none.
std::string billing_text(const Scenario& scenario);

/// That a run's cost is mostly of what providers bill beyond its time, and why; empty if it is not.
std::string remark_on_billing(const Scenario& scenario, const Cost& cost);

}  // namespace rehearse
