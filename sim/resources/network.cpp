#include "sim/resources/network.hpp"

#include <algorithm>
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
  if (from == to) return {};
  if (block_ > 0 && from.machine < block_ && to.machine >= block_)
    return topology_.path_over_nics(from, {to.machine % block_, to.gpu});
  return topology_.path(from, to);
}

void Network::fold(int block) {
  block_ = block;
  for (KnownPath& known : known_) known.path = find(known.from, known.to);
}

FlowId Network::start_flow(PathIndex index, Bytes size, std::function<void()> on_sent,
                           std::optional<BytesPerSecond> most) {
  if (path(index).links.empty()) {
    on_sent();
    return 0;
  }
  count(index, size);
  ++started_flows_;
  return start(index, std::max(size, Bytes{1}), most, std::move(on_sent));
}

}  // namespace rehearse
