#include "sim/record/cost.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

/// `usd(charged, stretch)`: what the times cost, none if a price is unknown.
template <typename Usd>
std::optional<Cost> with_interval(const std::optional<std::pair<double, double>>& speeds, const Usd& usd) {
  const auto billed = usd(Charged::kAsBilled, 1.0), by_the_moment = usd(Charged::kByTheMoment, 1.0);
  if (!billed || !by_the_moment) return {};
  Cost cost{.usd = *billed, .usd_by_the_moment = *by_the_moment};
  if (speeds)
    cost.interval.emplace(usd(Charged::kAsBilled, 1 / speeds->second).value_or(*billed),
                          usd(Charged::kAsBilled, 1 / speeds->first).value_or(*billed));
  return cost;
}

/// "aws bills at least 60 s", "my-rack bills whole 3600 s".
std::string rule_text(const BillingRule& rule) {
  if (rule.minimum > rule.granularity) return rule.name + " bills at least " + to_text(rule.minimum.value()) + " s";
  return rule.name + " bills whole units of " + to_text(rule.granularity.value()) + " s";
}

}  // namespace

std::optional<double> cost_of(const Scenario& scenario, const Machine& machine, const std::vector<Rental>& rentals,
                              Charged charged, double stretch) {
  const Group& group = scenario.groups[static_cast<std::size_t>(machine.group)];
  double sum = 0;
  for (const Rental& rental : rentals) {
    const Seconds start = rental.span.start * stretch, end = rental.span.end * stretch;
    const auto usd = scenario.costs.usd(group.instance, group.market == Market::kSpot, group.zone, start, end,
                                        rental.is_ended_by_provider ? Ended::kByProvider : Ended::kByUser, charged);
    if (!usd) return {};
    sum += *usd;
    if (group.disk_price) sum += storage_usd(*group.disk_price, group.disk, end - start);
  }
  return rentals.empty() && !group.instance.usd_per_hour(group.market == Market::kSpot, group.zone)
             ? std::nullopt
             : std::optional{sum};
}

std::optional<double> cost_of_spares(const Scenario& scenario, const std::vector<Machine>& machines, Seconds until,
                                     Charged charged) {
  double sum = 0;
  for (const Machine& machine : machines) {
    if (&machine != machines.data() && (&machine - 1)->group == machine.group) continue;
    const auto& faults = scenario.groups[static_cast<std::size_t>(machine.group)].faults;
    if (!faults || faults->spares == 0 || !(until > Seconds{})) continue;
    const auto usd = cost_of(scenario, machine, {Rental{.span = {Seconds{}, until}}}, charged);
    if (!usd) return {};
    sum += *usd * faults->spares;
  }
  return sum;
}

std::optional<Cost> cost_until(const Scenario& scenario, const RunRecord& record, Seconds date,
                               const std::optional<std::pair<double, double>>& speeds) {
  const auto usd = [&](Charged charged, double stretch) -> std::optional<double> {
    double sum = 0;
    for (std::size_t m = 0; m < record.machines.size(); ++m) {
      std::vector<Rental> rentals;
      for (Rental rental : record.rentals[m]) {
        if (rental.span.start >= date) continue;
        if (rental.span.end > date) rental = {.span = {rental.span.start, date}};
        rentals.push_back(rental);
      }
      const auto cost = cost_of(scenario, record.machines[m], rentals, charged, stretch);
      if (!cost) return {};
      sum += *cost;
    }
    const auto spares = cost_of_spares(scenario, record.machines, std::min(date, record.end) * stretch, charged);
    return spares ? std::optional{sum + *spares} : std::nullopt;
  };
  return with_interval(speeds, usd);
}

std::optional<Cost> training_cost(const Scenario& scenario, const std::vector<Machine>& machines, Seconds time,
                                  const std::optional<std::pair<double, double>>& speeds) {
  const auto usd = [&](Charged charged, double stretch) -> std::optional<double> {
    double sum = 0;
    for (const Machine& machine : machines) {
      const Group& group = scenario.groups[static_cast<std::size_t>(machine.group)];
      const Seconds end = time * stretch;
      const Span rented{group.joins_at, std::min(end, group.leaves_at.value_or(end))};
      if (group.is_standby || !(rented.end > rented.start)) continue;
      const auto cost = cost_of(scenario, machine, {Rental{.span = rented}}, charged);
      if (!cost) return {};
      sum += *cost;
    }
    return sum;
  };
  return with_interval(speeds, usd);
}

std::optional<double> rent_usd_per_hour(const Scenario& scenario) {
  double sum = 0;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0 || !group.is_there_from_the_start()) continue;
    const auto price =
        scenario.costs.usd_per_hour(group.instance, group.market == Market::kSpot, group.zone, Seconds{}, Seconds{});
    if (!price) return {};
    const double disk = group.disk_price ? storage_usd(*group.disk_price, group.disk, kHour) : 0;
    sum += (*price + disk) * (group.count + (group.faults ? group.faults->spares : 0));
  }
  return sum;
}

std::optional<double> usd_per_million_samples(const std::optional<double>& usd_per_hour, double samples_per_s) {
  if (!usd_per_hour || samples_per_s <= 0) return {};
  return *usd_per_hour / kHour.value() / samples_per_s * 1e6;
}

std::string billing_text(const Scenario& scenario) {
  std::set<std::string> rules;
  for (const Group& group : scenario.groups)
    if (const BillingRule& rule = group.instance.billing_rule();
        rule.minimum > Seconds{} || rule.granularity > Seconds{1})
      rules.insert(rule_text(rule));
  return joined(std::vector<std::string>{rules.begin(), rules.end()}, "; ");
}

std::string remark_on_billing(const Scenario& scenario, const Cost& cost) {
  if (!cost.is_mostly_rounding()) return {};
  return "cost_usd is mostly for time that is billed beyond the run (" + billing_text(scenario) +
         "): compare by cost_usd_by_the_moment or usd_per_million_samples";
}

}  // namespace rehearse
