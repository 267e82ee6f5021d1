#include "sim/scenario/server_range.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "sim/base/names.hpp"
#include "sim/scenario/gradient_units.hpp"

namespace rehearse {

namespace {

constexpr double kRounding = 1.001, kPerDoubling = 0.1;

/// "40 Gbit/s".
std::string gigabits(BytesPerSecond rate) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.4g Gbit/s", rate.value() * 8e-9);
  return text.data();
}

/// "0.838 GB".
std::string gigabytes(Bytes size) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3g GB", as_double(size) * 1e-9);
  return text.data();
}

std::string off_by(double spread) {
  return "; predictions may be off by " + std::to_string(std::lround(100 * std::expm1(spread))) + " %";
}

/// What all NICs of a machine carry at the provider's rate, of the fastest that workers or servers run on. A lone machine
/// uses none: 0.
BytesPerSecond fastest_nic(const Scenario& scenario) {
  BytesPerSecond fastest{};
  int machines = 0;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) continue;
    machines += group.count;
    fastest = std::max(fastest, group.instance.all_nics());
  }
  return machines < 2 ? BytesPerSecond{} : fastest;
}

}  // namespace

Bytes server_traffic(const Scenario& scenario) {
  const int servers = scenario.count(Role::kParameterServer);
  const Aggregation aggregation = scenario.training.strategy.server_rules().aggregation;
  if (servers == 0) return {};
  std::vector<Bytes> sent(static_cast<std::size_t>(servers));
  for (const GradientUnit& unit : plan_gradient_units(scenario, servers).units)
    sent[static_cast<std::size_t>(unit.server)] += unit.value_bytes;
  std::int64_t teams = 0;  // that exchange with the servers
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && !group.is_standby)
      teams += aggregation == Aggregation::kNone ? group.workers() : group.count;
  return *std::max_element(sent.begin(), sent.end()) * teams;
}

std::vector<Substitute> beyond_fitted_servers(const Scenario& scenario) {
  std::vector<Substitute> beyond;
  if (!scenario.profile.servers.fitted) return beyond;
  const Bytes traffic = server_traffic(scenario);
  if (traffic == Bytes{}) return beyond;
  const FittedServers& fitted = *scenario.profile.servers.fitted;
  const std::string begin = "the servers of profile " + in_quotes(fitted.profile) + " were fitted on ";
  if (const BytesPerSecond nic = fastest_nic(scenario); nic > fitted.nic_max * kRounding) {
    const double spread = std::log(nic / fitted.nic_max) / kNormal95;
    beyond.push_back({begin + "NICs of " + (fitted.nic_min < fitted.nic_max ? gigabits(fitted.nic_min) + " to " : "") +
                          gigabits(fitted.nic_max) + "; here " + gigabits(nic) +
                          ": whether their processes can use that is not known" + off_by(spread),
                      spread,
                      {}});
  }
  const int workers = scenario.count(Role::kWorker), servers = scenario.count(Role::kParameterServer);
  const std::array ratios{as_double(traffic) / std::max(1.0, as_double(fitted.traffic_max)),
                          workers / std::max(1.0, 1.0 * fitted.workers_max),
                          servers / std::max(1.0, 1.0 * fitted.servers_max)};
  const double most = *std::max_element(ratios.begin(), ratios.end());
  if (most <= kRounding) return beyond;
  const double spread = kPerDoubling * std::log2(most);
  std::string text = begin;
  if (most == ratios[0])
    text += "up to " + gigabytes(fitted.traffic_max) + " that a server sends in a step of all workers; here " +
            gigabytes(traffic);
  else if (most == ratios[1])
    text += "up to " + std::to_string(fitted.workers_max) + " workers; here " + std::to_string(workers);
  else
    text += "up to " + std::to_string(fitted.servers_max) + " servers; here " + std::to_string(servers);
  beyond.push_back({text + off_by(spread), spread, {}});
  return beyond;
}

}  // namespace rehearse
