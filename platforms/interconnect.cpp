#include "platforms/interconnect.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "platforms/read_rate.hpp"
#include "platforms/schemas.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

Interconnect read_interconnect(const JsonReader& json, BytesPerSecond pcie) {
  json.use_schema(interconnect_schema);
  constexpr int kMostPairs = 4096;
  Interconnect interconnect;
  interconnect.pcie = json.has("pcie") ? read_rate(json, "pcie") : pcie;
  if (json.has("pcie_root")) interconnect.pcie_root = read_rate(json, "pcie_root");
  if (json.has("gpus_per_root")) {
    json.expect(interconnect.pcie_root.has_value(), "gpus_per_root", "a rate \"pcie_root\" beside it");
    interconnect.gpus_per_root = json.required<int>("gpus_per_root");
    json.expect(interconnect.gpus_per_root >= 1 && interconnect.gpus_per_root <= 1000, "gpus_per_root",
                "1 to 1000 GPUs");
  }
  if (json.has("socket_link") || json.has("gpus_per_socket")) {  // neither means anything without the other
    interconnect.socket_link = read_rate(json, "socket_link");
    interconnect.gpus_per_socket = json.required<int>("gpus_per_socket");
    json.expect(interconnect.gpus_per_socket >= 1 && interconnect.gpus_per_socket <= 1000, "gpus_per_socket",
                "1 to 1000 GPUs");
  }
  interconnect.reaches_nics_directly = json.optional<bool>("reaches_nics_directly", false);
  interconnect.stages_copies_in_host = json.optional<bool>("stages_copies_in_host", false);
  interconnect.latency = json.optional<Seconds>("latency", Seconds{0});
  json.expect(interconnect.latency <= Seconds{1}, "latency", "at most 1s");
  if (json.has("nvswitch")) interconnect.nvswitch = read_rate(json, "nvswitch");
  interconnect.generation = json.optional<std::string>("generation", "");
  interconnect.leaves_out = json.optional<std::string>("leaves_out", "");
  interconnect.reduces_in_switch = json.optional<bool>("reduces_in_switch", false);
  if (interconnect.reduces_in_switch)
    json.expect(interconnect.nvswitch.has_value(), "reduces_in_switch", "a rate \"nvswitch\" beside it");
  if (json.has("nvlink_domain")) {
    interconnect.nvlink_domain = json.required<int>("nvlink_domain");
    json.expect(interconnect.nvlink_domain >= 2 && interconnect.nvlink_domain <= kMostNvlinkGpus, "nvlink_domain",
                "2 to 576 GPUs");
    json.expect(interconnect.nvswitch.has_value() && !json.has("nvlinks"), "nvlink_domain",
                "a rate \"nvswitch\" beside it, and no \"nvlinks\"");
  }
  if (json.has("nvlinks") || json.has("nvlink_rate")) {  // neither means anything without the other
    interconnect.nvlink_rate = read_rate(json, "nvlink_rate");
    const std::vector<JsonReader> pairs = json.children("nvlinks");
    json.expect(pairs.size() <= kMostPairs, "nvlinks", "at most 4096 pairs");
    for (const JsonReader& entry : pairs) {
      const NvlinkPair pair{entry.required<int>("a"), entry.required<int>("b"), entry.optional<int>("count", 1)};
      for (const char* end : {"a", "b"})
        entry.expect(entry.required<int>(end) >= 0 && entry.required<int>(end) < kMostNvlinkGpus, end,
                     "a GPU from 0 to 575");
      entry.expect(pair.a != pair.b, "b", "another GPU than \"a\"");
      entry.expect(pair.count >= 1 && pair.count <= 100, "count", "1 to 100 links");
      for (const NvlinkPair& other : interconnect.nvlinks)
        if (std::minmax(other.a, other.b) == std::minmax(pair.a, pair.b))
          entry.fail("b", "these two GPUs are listed already; state their links as one \"count\"");
      entry.reject_unknown_keys();
      interconnect.nvlinks.push_back(pair);
    }
  }
  interconnect.name = json.optional<std::string>("name", "");
  interconnect.source = json.optional<std::string>("source", "");
  json.reject_unknown_keys();
  return interconnect;
}

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

/// Cycles over nodes 0 .. n-1 that start at 0, each once per direction pair; `left` [n][n] links not used yet.
class RingSearch {
 public:
  /// `relay` [n][n]: the node through which two without link reach one another, -1 if they do not.
  RingSearch(std::vector<std::vector<int>> left, std::vector<std::vector<int>> relay)
      : left_{std::move(left)}, relay_{std::move(relay)} {}

  std::vector<std::vector<int>> run() {
    cycle_ = {0};
    extend();
    return best_;
  }

 private:
  /// Extends the open cycle; a closed one is taken and the next begun from nothing.
  void extend() {
    if (++steps_ > kMostSteps) return;
    const int n = static_cast<int>(left_.size());
    const int at = cycle_.back();
    if (static_cast<int>(cycle_.size()) == n) {
      if (!is_free(at, 0) || (n > 2 && cycle_[1] > at)) return;  // the other direction is the same cycle
      take(at, 0, -1);
      rings_.push_back(cycle_);
      if (rings_.size() > best_.size()) best_ = rings_;
      const std::vector<int> closed = std::exchange(cycle_, {0});
      if (best_.size() < bound()) extend();
      cycle_ = closed;
      rings_.pop_back();
      take(at, 0, +1);
      return;
    }
    for (int next = 1; next < n; ++next) {
      if (!is_free(at, next) || std::find(cycle_.begin(), cycle_.end(), next) != cycle_.end()) continue;
      take(at, next, -1);
      cycle_.push_back(next);
      extend();
      cycle_.pop_back();
      take(at, next, +1);
      if (best_.size() >= bound()) return;
    }
  }

  bool is_free(int a, int b) const {
    const int relay = relay_[index(a)][index(b)];
    if (relay < 0) return left_[index(a)][index(b)] > 0;
    return left_[index(a)][index(relay)] > 0 && left_[index(relay)][index(b)] > 0;
  }

  void take(int a, int b, int change) {
    const int relay = relay_[index(a)][index(b)];
    if (relay >= 0) {
      take(a, relay, change);
      take(relay, b, change);
      return;
    }
    left_[index(a)][index(b)] += change;
    left_[index(b)][index(a)] += change;
  }

  /// No more cycles than half of the links of any node, counting those in use.
  std::size_t bound() const {
    int fewest = std::numeric_limits<int>::max();
    for (std::size_t a = 0; a < left_.size(); ++a) {
      int links = 0;
      for (const int count : left_[a]) links += count;
      fewest = std::min(fewest, links);
    }
    return rings_.size() + index(fewest) / 2 + (cycle_.size() > 1 ? 1 : 0);
  }

  static constexpr int kMostSteps = 200'000;
  std::vector<std::vector<int>> left_, relay_;
  std::vector<int> cycle_;
  std::vector<std::vector<int>> rings_, best_;
  int steps_ = 0;
};

}  // namespace

std::optional<int> nvlink_relay(const Interconnect& interconnect, const std::vector<int>& gpus, int a, int b) {
  if (interconnect.nvlink_relay_efficiency == 0) return {};
  const auto links = [&](int from, int to) {
    for (const NvlinkPair& pair : interconnect.nvlinks)
      if (std::minmax(pair.a, pair.b) == std::minmax(from, to)) return pair.count;
    return 0;
  };
  if (links(a, b) > 0) return {};
  std::optional<int> best;
  int most = 0;
  for (const int gpu : gpus) {
    if (gpu == a || gpu == b) continue;
    const int both = std::min(links(a, gpu), links(gpu, b));
    if (both > most) best = gpu;
    most = std::max(most, both);
  }
  return best;
}

std::vector<std::vector<int>> find_rings(const Interconnect& interconnect, const std::vector<int>& gpus) {
  constexpr std::size_t kMostGpus = 8;
  const std::size_t n = gpus.size();
  if (n < 2 || n > kMostGpus || interconnect.nvlinks.empty()) return {};
  std::vector<std::vector<int>> links(n, std::vector<int>(n));
  for (const NvlinkPair& pair : interconnect.nvlinks) {
    const auto a = std::find(gpus.begin(), gpus.end(), pair.a), b = std::find(gpus.begin(), gpus.end(), pair.b);
    if (a == gpus.end() || b == gpus.end() || a == b) continue;
    const auto i = static_cast<std::size_t>(a - gpus.begin()), j = static_cast<std::size_t>(b - gpus.begin());
    links[i][j] += pair.count;
    links[j][i] += pair.count;
  }
  std::vector<std::vector<int>> rings;
  if (n == 2) {  // every link is a ring of two in itself
    for (int i = 0; i < links[0][1]; ++i) rings.push_back(gpus);
    return rings;
  }
  std::vector<std::vector<int>> relay(n, std::vector<int>(n, -1));
  auto cycles = RingSearch{links, relay}.run();
  if (cycles.empty() && interconnect.nvlink_relay_efficiency > 0) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (const auto through = i != j ? nvlink_relay(interconnect, gpus, gpus[i], gpus[j]) : std::nullopt)
          relay[i][j] = static_cast<int>(std::find(gpus.begin(), gpus.end(), *through) - gpus.begin());
    cycles = RingSearch{links, relay}.run();
  }
  for (const std::vector<int>& cycle : cycles) {
    std::vector<int> ring;
    for (const int node : cycle) ring.push_back(gpus[index(node)]);
    rings.push_back(ring);
    std::reverse(ring.begin(), ring.end());
    rings.push_back(std::move(ring));
  }
  return rings;
}

}  // namespace rehearse
