#pragma once
// The network as the strategies see it: flows between endpoints that share links max-min fairly, full duplex.

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "platforms/topology.hpp"
#include "sim/base/pinned.hpp"
#include "sim/base/units.hpp"
#include "sim/resources/machine_fold.hpp"

namespace rehearse {

using PathIndex = int;
using FlowId = std::uint64_t;
/// 0: none.
using HoldId = std::uint32_t;

/// Latency is not part of a flow: whoever sends pays latency(path) before the data count as arrived.
class Network : private Pinned {
 public:
  explicit Network(const Topology& topology) : topology_{topology} {}
  virtual ~Network() = default;

  /// The way from one endpoint to another; asked for once, used for many flows. An endpoint and itself are connected
  /// by a path without links.
  PathIndex path(Endpoint from, Endpoint to);
  const Path& path(PathIndex index) const { return known_[static_cast<std::size_t>(index)].path; }
  /// Latency of one way.
  Seconds latency(PathIndex index) const { return path(index).latency; }
  Endpoint source(PathIndex index) const { return known_[static_cast<std::size_t>(index)].from; }
  Endpoint destination(PathIndex index) const { return known_[static_cast<std::size_t>(index)].to; }
  const Topology& topology() const { return topology_; }
  /// Folds the network, before any flow: what some machines do, those for which they stand do at the same time. A path from one
  /// of them to a machine for which another stands then crosses the links of that other one, and of `links` those that stand for
  /// the ones of its way. Without either each is for itself again.
  void fold(const MachineFold& fold, LinkFold links = {});
  const MachineFold& fold() const { return fold_; }
  /// Whether what this end sends is sent for others, too, or for itself alone; else another one sends it.
  bool stands(Endpoint end) const { return fold_.stands(end.machine) && (!fold_.joins_gpus || end.gpu <= 0); }
  /// Of a link, for all messages that are simulated: the topology's, or what of it the fold leaves for these.
  BytesPerSecond rate(int link) const;
  /// `action` is called with the number of paths known, after each new one; it may throw.
  void on_path(std::function<void(std::size_t)> action) { on_path_ = std::move(action); }
  std::uint64_t started_flows() const { return started_flows_; }

  /// Moves `size` bytes, at least one, over a path; `on_sent` runs when the last byte has left. On a path without links
  /// that is at once, before the call returns. `most` limits this flow alone. Throws nothing. A flow of twice the `weight`
  /// gets twice as much of a link that both wait for, where flows share links by max_min_flows.hpp.
  FlowId start_flow(PathIndex path, Bytes size, std::function<void()> on_sent, std::optional<BytesPerSecond> most = {},
                    double weight = 1);
  /// Whether no flow and no hold uses any of the links; if so, they are held until release(), or until a flow is to cross one
  /// of them: then `on_end` runs first, the hold being over. `links` outlive it. Otherwise 0.
  HoldId hold(const std::vector<int>& links, std::function<void()> on_end);
  /// `on_end` will not run. Unknown ids are ignored.
  void release(HoldId hold);
  /// start_flow() of what was held: all of its bytes count, and the share `left` of them is still to move.
  FlowId resume_flow(PathIndex path, Bytes size, double left, std::function<void()> on_sent, double weight);
  /// Counts bytes that cross a path without a flow.
  void count(PathIndex path, Bytes size) { carried_[static_cast<std::size_t>(path)] += size; }
  /// [paths] bytes that have been sent over each, those under way included.
  const std::vector<Bytes>& carried() const { return carried_; }
  /// `action` is told of bytes that pass a link at once, as its burst allows, and are in no flow.
  void on_burst(std::function<void(int link, Bytes)> action) { on_burst_ = std::move(action); }
  /// Stops a flow; its `on_sent` will not run. Unknown ids are ignored.
  virtual void cancel(FlowId flow) = 0;
  virtual Seconds now() const = 0;
  /// From now on tells, whenever it has changed, the sum of the flows' rates over each of these links, in bytes per
  /// second: once for each date at which it does, before time goes on.
  using OnRate = std::function<void(int link, Seconds now, double rate)>;
  virtual void watch(const std::vector<int>& links, OnRate on_rate) = 0;

 protected:
  /// Whether no flow crosses the link. Where nothing can be held: no.
  virtual bool is_idle(int) const { return false; }
  /// Where something can be held.
  virtual FlowId resume(PathIndex path, double bytes, double weight, std::function<void()> on_sent);
  /// Changes the rate of a link, before any flow. Throws std::logic_error where flows do not share links max-min fairly.
  virtual void set_rate(int link, BytesPerSecond rate);
  virtual FlowId start(PathIndex path, Bytes size, std::optional<BytesPerSecond> most, double weight,
                       std::function<void()> on_sent) = 0;

 private:
  struct KnownPath {
    Endpoint from, to;
    Path path;
  };
  Path find(Endpoint from, Endpoint to) const;
  Path find_way(Endpoint from, Endpoint to) const;
  Bytes take_burst(const Path& path, Bytes size);
  void end_holds(const std::vector<int>& links);

  const Topology& topology_;
  MachineFold fold_;
  LinkFold folded_links_;
  std::vector<int> first_like_;  // [links] of the GPU that runs for all of its machine; empty: each runs
  std::vector<KnownPath> known_;
  std::vector<Bytes> carried_;                            // [paths]
  std::unordered_map<std::uint64_t, PathIndex> indices_;  // by both endpoints; looked up only, never iterated
  std::function<void(std::size_t)> on_path_;
  std::vector<Seconds> is_full_at_;  // [links with bursts, or none] when the token bucket will be full
  std::function<void(int, Bytes)> on_burst_;
  std::uint64_t started_flows_ = 0;
  struct Hold {
    const std::vector<int>* links = nullptr;
    std::function<void()> on_end;
  };
  std::unordered_map<HoldId, Hold> holds_;  // looked up only, never iterated
  std::vector<HoldId> holders_;             // [links], once there was a hold
  HoldId last_hold_ = 0;
};

}  // namespace rehearse
