#include "calibration/transfer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"
#include "sim/resources/tcp_loss.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

namespace {

constexpr int kMessages = 4000;

/// Between the first two machines.
struct Way {
  Path path;
  BytesPerSecond rate{};
  Bytes burst{};  // that passes at once, all links being idle
};

Way way_of(const Scenario& scenario) {
  const Site site{scenario};
  if (site.machines.size() < 2) throw InputError{"a transfer needs two machines; found one"};
  Way way{.path = site.topology.path({0, Endpoint::kHost}, {1, Endpoint::kHost})};
  const auto rate_of = [&](int link) { return site.topology.links()[static_cast<std::size_t>(link)].rate; };
  way.rate = way.path.per_flow_rate.value_or(rate_of(way.path.links.front()));
  for (const int link : way.path.links) way.rate = std::min(way.rate, rate_of(link));
  way.burst = site.topology.burst(way.path);
  return way;
}

struct Outcome {
  double seconds = 0;
  bool has_timeout = false;
};

/// Message after message, in equal parts on each of the connections.
std::vector<Outcome> lossy_transfers(const Scenario& scenario, const Way& way) {
  const TcpParameters& tcp = scenario.tcp;
  const LossyPath lossy{
      .loss = way.path.packet_loss, .round_trip = way.path.latency * 2, .rate = way.rate / tcp.connections};
  std::vector<TcpSender> senders;
  for (int i = 0; i < tcp.connections; ++i)
    senders.emplace_back(tcp, lossy, Rng{scenario.seed, "transfers " + std::to_string(i)});
  const double part = as_double(scenario.workload.parameter_bytes()) / tcp.connections;
  const auto segments = std::max<std::int64_t>(1, std::llround(std::ceil(part / as_double(tcp.segment))));
  // Of the last segment, which is shorter, only what is in it takes time.
  const Seconds spared{(static_cast<double>(segments) * as_double(tcp.segment) - part) / lossy.rate.value()};
  const Seconds at_once = std::min(way.burst, scenario.workload.parameter_bytes()) / way.rate;
  std::vector<Outcome> outcomes(kMessages);
  for (Outcome& outcome : outcomes) {
    Seconds longest{};
    for (TcpSender& sender : senders) {
      const TcpTransfer transfer = sender.send(segments);
      longest = std::max(longest, transfer.sending - spared + transfer.waiting);
      outcome.has_timeout = outcome.has_timeout || transfer.timeouts > 0;
    }
    outcome.seconds = (longest + way.path.latency - at_once).value();
  }
  return outcomes;
}

}  // namespace

double transfer_rate(const Scenario& scenario) { return way_of(scenario).rate.value(); }

double transfer_time(const Scenario& scenario, std::optional<double> probability) {
  const Way way = way_of(scenario);
  const Bytes size = scenario.workload.parameter_bytes();
  if (!(way.path.packet_loss > 0)) return (way.path.latency + (size - std::min(size, way.burst)) / way.rate).value();
  std::vector<double> seconds;
  for (const Outcome& outcome : lossy_transfers(scenario, way)) seconds.push_back(outcome.seconds);
  if (probability) return percentile(seconds, 100 * *probability);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / kMessages;
}

double transfer_timeout_share(const Scenario& scenario) {
  const Way way = way_of(scenario);
  if (!(way.path.packet_loss > 0)) return 0;
  const std::vector<Outcome> outcomes = lossy_transfers(scenario, way);
  return static_cast<double>(std::ranges::count(outcomes, true, &Outcome::has_timeout)) / kMessages;
}

}  // namespace rehearse
