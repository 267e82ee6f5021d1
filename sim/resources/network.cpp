#include "sim/resources/network.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace rehearse {

namespace {

/// 20 bits of machine and 12 of GPU: scenarios have at most 20000 machines of at most 1000 GPUs.
std::uint64_t number(Endpoint endpoint) {
  return static_cast<std::uint64_t>(endpoint.machine) << 12U | static_cast<std::uint64_t>(endpoint.gpu + 1);
}

}  // namespace

PathIndex Network::path(Endpoint from, Endpoint to) {
  const auto [entry, is_new] =
      indices_.emplace(number(from) << 32U | number(to), static_cast<PathIndex>(known_.size()));
  if (is_new) {
    known_.push_back({from, to, find(from, to)});
    carried_.emplace_back();
    if (on_path_) on_path_(known_.size());
  }
  return entry->second;
}

Path Network::find(Endpoint from, Endpoint to) const {
  Path path = find_way(from, to);
  if (!first_like_.empty() && stands(from))
    for (int& link : path.links) link = first_like_[static_cast<std::size_t>(link)];
  return path;
}

Path Network::find_way(Endpoint from, Endpoint to) const {
  if (from == to) return {};
  if (folded_links_ && fold_.stands(from.machine)) {
    Path way = topology_.path(from, to);
    for (int& link : way.links) link = folded_links_.like[static_cast<std::size_t>(link)];
    return way;
  }
  if (fold_.stands(from.machine) && !fold_.stands(to.machine))
    return topology_.path_over_nics(from, {fold_.standing_for(to.machine), to.gpu});
  return topology_.path(from, to);
}

BytesPerSecond Network::rate(int link) const {
  const auto folded = folded_links_.rates.find(link);
  return folded != folded_links_.rates.end() ? folded->second : topology_.links()[static_cast<std::size_t>(link)].rate;
}

void Network::set_rate(int, BytesPerSecond) { throw std::logic_error{"links of this network are not folded"}; }

// NOLINTNEXTLINE(performance-unnecessary-value-param): who can resume a flow keeps it
FlowId Network::resume(PathIndex, double, double, std::function<void()>) {
  throw std::logic_error{"links of this network are not held"};
}

FlowId Network::resume_flow(PathIndex index, Bytes size, double left, std::function<void()> on_sent, double weight) {
  end_holds(path(index).links);
  count(index, size);
  ++started_flows_;
  return resume(index, as_double(size) * left, weight, std::move(on_sent));
}

void Network::fold(const MachineFold& fold, LinkFold links) {
  const LinkFold before = std::exchange(folded_links_, std::move(links));
  for (const auto& [link, rate] : before.rates) set_rate(link, this->rate(link));
  for (const auto& [link, rate] : folded_links_.rates) set_rate(link, rate);
  fold_ = fold;
  first_like_.clear();
  if (fold_.joins_gpus) {
    first_like_.resize(topology_.links().size());
    std::iota(first_like_.begin(), first_like_.end(), 0);
    for (int machine = 0; machine < static_cast<int>(topology_.machines().size()); ++machine)
      for (const std::vector<int>& kind : topology_.links_by_gpu(machine))
        for (const int link : kind) first_like_[static_cast<std::size_t>(link)] = kind.front();
  }
  for (KnownPath& known : known_) known.path = find(known.from, known.to);
}

/// What of a message passes at once: what the buckets of all its links with a burst hold. A bucket fills at the link's
/// rate: it is full so much later for each byte that it has let pass (the generic cell rate algorithm, ITU-T I.371).
Bytes Network::take_burst(const Path& path, Bytes size) {
  Bytes passes{};
  bool has_burst = false;
  const auto link_of = [this](int link) -> const TopologyLink& {
    return topology_.links()[static_cast<std::size_t>(link)];
  };
  for (const int link : path.links) {
    const TopologyLink& limited = link_of(link);
    if (limited.burst == Bytes{}) continue;
    if (is_full_at_.empty()) is_full_at_.resize(topology_.links().size());
    Seconds& full = is_full_at_[static_cast<std::size_t>(link)];
    full = std::max(full, now());
    const double held = as_double(limited.burst) - (full - now()).value() * limited.rate.value();
    const Bytes here = std::min(size, Bytes{static_cast<std::int64_t>(std::max(0.0, held))});
    passes = has_burst ? std::min(passes, here) : here;
    has_burst = true;
    full += size / limited.rate;
  }
  if (passes > Bytes{} && on_burst_)
    for (const int link : path.links) on_burst_(link, passes);
  return passes;
}

HoldId Network::hold(const std::vector<int>& links, std::function<void()> on_end) {
  if (holders_.empty()) holders_.resize(topology_.links().size());
  const auto is_free = [this](int link) { return holders_[static_cast<std::size_t>(link)] == 0 && is_idle(link); };
  if (!std::ranges::all_of(links, is_free)) return 0;
  const HoldId id = ++last_hold_;
  for (const int link : links) holders_[static_cast<std::size_t>(link)] = id;
  holds_.try_emplace(id, Hold{&links, std::move(on_end)});
  return id;
}

void Network::release(HoldId id) {
  const auto hold = holds_.find(id);
  if (hold == holds_.end()) return;
  for (const int link : *hold->second.links) holders_[static_cast<std::size_t>(link)] = 0;
  holds_.erase(hold);
}

void Network::end_holds(const std::vector<int>& links) {
  if (holds_.empty()) return;
  for (const int link : links)
    if (const HoldId id = holders_[static_cast<std::size_t>(link)]; id != 0) {
      const std::function<void()> on_end = std::move(holds_.at(id).on_end);
      release(id);
      on_end();
    }
}

FlowId Network::start_flow(PathIndex index, Bytes size, std::function<void()> on_sent,
                           std::optional<BytesPerSecond> most, double weight) {
  if (path(index).links.empty()) {
    on_sent();
    return 0;
  }
  end_holds(path(index).links);
  count(index, size);
  ++started_flows_;
  return start(index, std::max(size - take_burst(path(index), size), Bytes{1}), most, weight, std::move(on_sent));
}

}  // namespace rehearse
