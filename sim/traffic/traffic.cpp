#include "sim/traffic/traffic.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kLoadBin = 10'000'000'000;  // of a flow's bytes over time, in ns
constexpr std::size_t kMostCells = 8'000'000;      // of all series together: 64 MB
constexpr std::size_t kMostLoadCells = 2'000'000;
constexpr std::size_t kMostFlows = 1'000'000;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A value's bits in every place of the result (the finalizer of MurmurHash3).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 33U)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33U)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33U);
}

struct AddressHash {
  std::size_t operator()(const Address& address) const {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < 16; i += 8) {
      std::uint64_t half = 0;
      for (std::size_t j = 0; j < 8; ++j) half = half << 8U | address.bytes[i + j];
      hash = mixed(hash ^ half);
    }
    return hash;
  }
};

struct FlowKey {
  std::uint64_t hosts = 0, ports = 0;  // ports and protocol
  friend bool operator==(const FlowKey&, const FlowKey&) = default;
};

struct FlowHash {
  std::size_t operator()(const FlowKey& key) const { return mixed(key.hosts ^ mixed(key.ports)); }
};

/// Series whose bins have one width, which doubles when their cells would be too many.
class Bins {
 public:
  Bins(std::int64_t width, std::size_t most_cells) : width_{width}, most_cells_{most_cells} {}

  std::int64_t width() const { return width_; }

  /// A new series, empty.
  std::size_t add_series() {
    series_.emplace_back();
    return series_.size() - 1;
  }

  void add(std::size_t index, std::int64_t time_ns, std::int64_t bytes) {
    std::int64_t bin = floor_div(time_ns, width_);
    while (true) {
      const Series& series = series_[index];
      const std::int64_t first = series.size() == 0 ? bin : std::min(series.first(), bin);
      const std::int64_t end = series.size() == 0 ? bin + 1 : std::max(series.cells.end(), bin + 1);
      const auto more = static_cast<std::size_t>(end - first) - series.size();
      if (more == 0 || cells_ + more <= most_cells_) break;
      if (!can_halve()) break;
      halve();
      bin = floor_div(time_ns, width_);
    }
    put(series_[index], bin, bytes);
  }

  BinnedBytes& operator[](std::size_t index) {
    series_[index].drop_spare();
    return series_[index].cells;
  }

 private:
  /// Cells behind spare ones, which are as many as those in use at most: packets may come backwards in time, one by one.
  struct Series {
    BinnedBytes cells;
    std::size_t spare = 0;

    std::size_t size() const { return cells.bytes.size() - spare; }
    std::int64_t first() const { return cells.first + static_cast<std::int64_t>(spare); }
    void make_room(std::size_t more) {
      if (spare < more) {
        const std::size_t added = std::max(more - spare, size());
        cells.bytes.insert(cells.bytes.begin(), added, 0);
        cells.first -= static_cast<std::int64_t>(added);
        spare += added;
      }
      spare -= more;
    }
    void drop_spare() {
      cells.bytes.erase(cells.bytes.begin(), cells.bytes.begin() + static_cast<std::ptrdiff_t>(spare));
      cells.first = first();
      spare = 0;
    }
  };

  bool can_halve() const { return width_ < (std::int64_t{1} << 61U); }

  void put(Series& series, std::int64_t bin, std::int64_t bytes) {
    BinnedBytes& cells = series.cells;
    if (cells.bytes.empty()) cells.first = bin;
    if (bin < series.first()) {
      const auto more = static_cast<std::size_t>(series.first() - bin);
      series.make_room(more);
      cells_ += more;
    }
    if (bin >= cells.end()) {
      const auto more = static_cast<std::size_t>(bin + 1 - cells.end());
      cells.bytes.resize(cells.bytes.size() + more);
      cells_ += more;
    }
    cells.bytes[static_cast<std::size_t>(bin - cells.first)] += bytes;
  }

  void halve() {
    width_ *= 2;
    cells_ = 0;
    for (Series& series : series_) {
      series.drop_spare();
      const BinnedBytes old = std::exchange(series, {}).cells;
      for (std::size_t i = 0; i < old.bytes.size(); ++i)
        put(series, floor_div(old.first + static_cast<std::int64_t>(i), 2), old.bytes[i]);
      series.cells.bytes.shrink_to_fit();
    }
  }

  std::int64_t width_;
  std::size_t most_cells_, cells_ = 0;
  std::vector<Series> series_;
};

/// What a flow's sequence numbers have come to.
struct SequenceState {
  std::uint32_t next = 0;  // behind the highest byte seen
  bool is_known = false;

  /// Bytes of a segment that are below what was seen; 2^31 and more ahead is behind (RFC 9293, 3.4).
  std::int64_t repeated(std::uint32_t start, std::int64_t size) {
    if (size <= 0) return 0;
    const std::uint32_t end = start + static_cast<std::uint32_t>(size);
    const auto behind = [&](std::uint32_t at) {
      return static_cast<std::int64_t>(static_cast<std::int32_t>(next - at));
    };
    const std::int64_t old = is_known ? std::clamp<std::int64_t>(behind(start), 0, size) : 0;
    if (!is_known || behind(end) < 0) next = end;
    is_known = true;
    return old;
  }
};

}  // namespace

TrafficCounts& TrafficCounts::operator+=(const TrafficCounts& other) {
  packets += other.packets;
  wire_bytes += other.wire_bytes;
  payload_bytes += other.payload_bytes;
  retransmitted_bytes += other.retransmitted_bytes;
  retransmitted_packets += other.retransmitted_packets;
  return *this;
}

std::vector<std::size_t> largest_pairs(const ObservedTraffic& traffic, std::size_t most) {
  std::vector<std::size_t> pairs(traffic.pairs.size());
  std::iota(pairs.begin(), pairs.end(), std::size_t{0});
  std::ranges::stable_sort(pairs, std::ranges::greater{},
                           [&](std::size_t p) { return traffic.pairs[p].counts.wire_bytes; });
  pairs.resize(std::min(pairs.size(), most));
  std::ranges::sort(pairs);
  return pairs;
}

class TrafficCounter::State {
 public:
  State(std::int64_t origin_ns, std::int64_t bin_ns)
      : origin_{origin_ns}, bins_{bin_ns, kMostCells}, loads_{kLoadBin, kMostLoadCells} {
    bins_.add_series();  // of all frames
  }

  void add(const Packet& packet) {
    const std::int64_t time = packet.time_ns - origin_;
    TrafficCounts counts{.packets = 1, .wire_bytes = packet.wire_bytes, .payload_bytes = packet.payload_bytes};
    last_ = has_any_ ? std::max(last_, time) : time;
    has_any_ = true;
    bins_.add(0, time, packet.wire_bytes);
    if (!packet.is_ip) {
      traffic_.other += counts;
      traffic_.total += counts;
      return;
    }
    Flow& flow = flow_of(packet);
    if (packet.has_sequence) {
      traffic_.has_sequences = true;
      counts.retransmitted_bytes = flow.sequence.repeated(packet.sequence, packet.payload_bytes);
      counts.retransmitted_packets = counts.retransmitted_bytes > 0 ? 1 : 0;
    }
    TrafficFlow& sums = flow.sums;
    const bool is_first = sums.counts.packets == 0;
    sums.arrival_ns = is_first ? time : std::min(sums.arrival_ns, time);
    sums.departure_ns = is_first ? time : std::max(sums.departure_ns, time);
    sums.counts += counts;
    traffic_.total += counts;
    loads_.add(flow.load, time, packet.wire_bytes);
    bins_.add(flow.pair_bins, time, packet.wire_bytes);
  }

  ObservedTraffic finish() {
    ObservedTraffic traffic = std::move(traffic_);
    traffic.origin_ns = origin_;
    traffic.end_ns = last_;
    traffic.bin_ns = bins_.width();
    traffic.load_bin_ns = loads_.width();
    traffic.bins = bins_[0];
    std::vector<int> place(hosts_.size());
    add_hosts(traffic, place);
    for (Flow& flow : flows_) {
      flow.sums.from = place[static_cast<std::size_t>(flow.sums.from)];
      flow.sums.to = place[static_cast<std::size_t>(flow.sums.to)];
      flow.sums.load = std::move(loads_[flow.load]);
    }
    std::ranges::sort(flows_, {}, [](const Flow& flow) {
      return std::tuple{flow.sums.from, flow.sums.to, flow.sums.from_port, flow.sums.to_port, flow.sums.protocol};
    });
    for (Flow& flow : flows_) {
      const TrafficFlow& sums = flow.sums;
      traffic.hosts[static_cast<std::size_t>(sums.from)].sent += sums.counts;
      traffic.hosts[static_cast<std::size_t>(sums.to)].received += sums.counts;
      if (traffic.pairs.empty() || traffic.pairs.back().from != sums.from || traffic.pairs.back().to != sums.to)
        traffic.pairs.push_back(
            {.from = sums.from, .to = sums.to, .counts = {}, .bins = std::move(bins_[flow.pair_bins])});
      traffic.pairs.back().counts += sums.counts;
      traffic.flows.push_back(std::move(flow.sums));
    }
    return traffic;
  }

 private:
  struct Flow {
    TrafficFlow sums;
    SequenceState sequence;
    std::size_t pair_bins = 0, load = 0;  // series
  };

  std::uint32_t host_of(const Address& address) {
    const auto [known, is_new] = index_of_host_.try_emplace(address, static_cast<std::uint32_t>(hosts_.size()));
    if (is_new) hosts_.push_back(address);
    return known->second;
  }

  Flow& flow_of(const Packet& packet) {
    if (last_flow_ && last_from_ == packet.from && last_to_ == packet.to &&
        flows_[*last_flow_].sums.from_port == packet.from_port && flows_[*last_flow_].sums.to_port == packet.to_port &&
        flows_[*last_flow_].sums.protocol == packet.protocol)
      return flows_[*last_flow_];
    const std::uint32_t from = host_of(packet.from), to = host_of(packet.to);
    const std::uint64_t hosts = std::uint64_t{from} << 32U | to;
    const FlowKey key{hosts,
                      std::uint64_t{packet.from_port} << 32U | std::uint64_t{packet.to_port} << 16U | packet.protocol};
    const auto [known, is_new] = index_of_flow_.try_emplace(key, flows_.size());
    if (is_new) {
      if (flows_.size() == kMostFlows)
        throw NoResultError{"the packets are of more than " + std::to_string(kMostFlows) +
                            " flows (addresses, ports, protocol): expected those of a training job"};
      const auto [pair, is_new_pair] = bins_of_pair_.try_emplace(hosts, 0);
      if (is_new_pair) pair->second = bins_.add_series();
      flows_.push_back({.sums = {.from = static_cast<int>(from),
                                 .to = static_cast<int>(to),
                                 .from_port = packet.from_port,
                                 .to_port = packet.to_port,
                                 .protocol = packet.protocol,
                                 .counts = {},
                                 .load = {}},
                        .sequence = {},
                        .pair_bins = pair->second,
                        .load = loads_.add_series()});
    }
    last_flow_ = known->second;
    last_from_ = packet.from;
    last_to_ = packet.to;
    return flows_[*last_flow_];
  }

  /// By address; place[i] is where the host that came as the i-th is.
  void add_hosts(ObservedTraffic& traffic, std::vector<int>& place) const {
    std::vector<std::size_t> order(hosts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [this](std::size_t host) { return hosts_[host]; });
    for (const std::size_t host : order) {
      place[host] = static_cast<int>(traffic.hosts.size());
      traffic.hosts.push_back({.address = hosts_[host], .name = {}, .sent = {}, .received = {}});
    }
  }

  std::int64_t origin_, last_ = 0;
  bool has_any_ = false;
  ObservedTraffic traffic_;
  Bins bins_, loads_;
  std::vector<Address> hosts_;
  std::unordered_map<Address, std::uint32_t, AddressHash> index_of_host_;
  std::vector<Flow> flows_;
  std::unordered_map<FlowKey, std::size_t, FlowHash> index_of_flow_;
  std::unordered_map<std::uint64_t, std::size_t> bins_of_pair_;
  std::optional<std::size_t> last_flow_;  // of the packet before
  Address last_from_, last_to_;
};

TrafficCounter::TrafficCounter(std::int64_t origin_ns, std::int64_t bin_ns)
    : state_{std::make_unique<State>(origin_ns, bin_ns)} {}

TrafficCounter::~TrafficCounter() = default;

void TrafficCounter::add(const Packet& packet) { state_->add(packet); }

ObservedTraffic TrafficCounter::finish() { return state_->finish(); }

}  // namespace rehearse
