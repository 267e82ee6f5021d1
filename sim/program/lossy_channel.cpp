#include "sim/program/lossy_channel.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace rehearse {

namespace {

/// Of a flow that is alone.
BytesPerSecond rate_of(const Network& network, const Path& path) {
  const std::vector<TopologyLink>& links = network.topology().links();
  const auto rate_of_link = [&](int link) { return links[static_cast<std::size_t>(link)].rate; };
  BytesPerSecond rate = path.per_flow_rate.value_or(rate_of_link(path.links.front()));
  for (const int link : path.links) rate = std::min(rate, rate_of_link(link));
  return rate;
}

}  // namespace

LossyChannel::LossyChannel(OwnedClock clock, Cluster& cluster, PathIndex path)
    : clock_{clock},
      cluster_{cluster},
      path_{path},
      machine_{static_cast<std::size_t>(cluster.network.source(path).machine)},
      segment_{cluster.site.scenario.tcp.segment},
      announcements_{cluster.site.scenario.seed, "announcements " + std::to_string(cluster.lossy_connections)} {
  const Scenario& scenario = cluster.site.scenario;
  const Path& way = cluster.network.path(path);
  rate_ = rate_of(cluster.network, way) / scenario.tcp.connections;
  lossy_ = {.loss = way.packet_loss, .round_trip = way.latency * 2, .rate = rate_};
  for (int i = 0; i < scenario.tcp.connections; ++i)
    parts_.push_back({TcpSender{scenario.tcp, lossy_,
                                Rng{scenario.seed, "packet loss " + std::to_string(cluster.lossy_connections++)}}});
}

LossyChannel::~LossyChannel() {
  if (!is_busy()) return;
  std::erase(cluster_.sending[machine_], this);
  for (const Part& part : parts_) cluster_.network.cancel(part.flow);
  if (has_begun_) cluster_.network.count(path_, Bytes{} - size_ - losses_.retransmitted);
}

void LossyChannel::send(Bytes size, bool is_followed, std::function<void()> on_sent, bool is_announced) {
  size_ = size;
  losses_ = {};
  started_ = clock_.now();
  if (is_announced) started_ += delay_of_lone_packet(cluster_.site.scenario.tcp, lossy_, announcements_, losses_);
  on_sent_ = std::move(on_sent);
  has_begun_ = false;
  cluster_.sending[machine_].push_back(this);
  clock_.schedule(started_, [this, is_followed] { begin(is_followed); });
}

void LossyChannel::begin(bool is_followed) {
  has_begun_ = true;
  TcpSurroundings surroundings{.is_followed = is_followed};
  const MachineIndex receiver = cluster_.network.destination(path_).machine;
  for (const LossyChannel* other : cluster_.sending[static_cast<std::size_t>(receiver)]) other->add_to(surroundings);
  const std::int64_t count = std::clamp<std::int64_t>(size_.value(), 1, static_cast<std::int64_t>(parts_.size()));
  parts_left_ = static_cast<std::size_t>(count);
  for (std::int64_t i = 0; i < count; ++i)
    start(parts_[static_cast<std::size_t>(i)], Bytes{size_.value() * (i + 1) / count - size_.value() * i / count},
          surroundings);
}

void LossyChannel::add_to(TcpSurroundings& surroundings) const {
  if (clock_.now() < started_) return;  // not announced yet
  const BytesPerSecond rate = rate_ * static_cast<double>(parts_.size());
  double window = 0;
  for (const Part& part : parts_) window += part.sender.window();
  surroundings.opposing += std::max(Seconds{}, size_ / rate - (clock_.now() - started_));
  surroundings.opposing_queue += segment_ / rate * window;
}

void LossyChannel::start(Part& part, Bytes size, const TcpSurroundings& surroundings) {
  part.flow = 0;
  const std::int64_t segments = std::max<std::int64_t>(1, (size.value() + segment_.value() - 1) / segment_.value());
  const TcpTransfer transfer = part.sender.send(segments, surroundings);
  const Bytes again = std::min(segment_, std::max(size, Bytes{1})) * transfer.retransmitted;
  losses_.add({again, transfer.fast_retransmits, transfer.probes, transfer.late_probes, transfer.timeouts});
  const double sent = as_double(segment_) * static_cast<double>(transfer.segments + transfer.retransmitted);
  std::optional<BytesPerSecond> limit;  // by the window
  if (const BytesPerSecond mean{sent / transfer.sending.value()}; mean < rate_ * (1 - 1e-9)) limit = mean;
  part.flow = cluster_.network.start_flow(
      path_, size + again,
      [this, &part, waiting = transfer.waiting] {
        part.flow = 0;
        if (waiting > Seconds{})
          clock_.schedule_in(waiting, [this] { end_part(); });
        else
          end_part();
      },
      limit);
}

void LossyChannel::end_part() {
  if (--parts_left_ > 0) return;
  std::erase(cluster_.sending[machine_], this);
  const Endpoint from = cluster_.network.source(path_), to = cluster_.network.destination(path_);
  cluster_.traffic.sent(from, to, losses_.retransmitted);
  cluster_.traffic.lost(from, to, losses_.retransmitted);
  cluster_.losses.add(losses_);
  std::exchange(on_sent_, nullptr)();
}

std::unique_ptr<LossyChannel> lossy_channel(OwnedClock clock, Cluster& cluster, PathIndex path) {
  if (!(cluster.network.path(path).packet_loss > 0)) return nullptr;
  return std::make_unique<LossyChannel>(clock, cluster, path);
}

}  // namespace rehearse
