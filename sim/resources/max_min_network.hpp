#pragma once
// A network whose flows share bandwidth by max_min_flows.hpp. plain_loop.hpp runs its clock.

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "sim/resources/max_min_flows.hpp"
#include "sim/resources/network.hpp"

namespace rehearse {

class MaxMinNetwork final : public Network {
 public:
  explicit MaxMinNetwork(const Topology& topology) : Network{topology}, flows_{capacities(topology)} {}

  Seconds now() const override { return Seconds{now_}; }

  void cancel(FlowId id) override {
    const auto flow = static_cast<MaxMinFlows::FlowIndex>(id);
    if (id == 0 || flow >= running_.size() || running_[flow].id != id) return;
    running_[flow] = {};
    flows_.cancel(flow);
  }

  void watch(const std::vector<int>& links, OnRate on_rate) override {
    for (const int link : links) flows_.watch(link);
    on_rate_ = std::move(on_rate);
  }

  /// Date at which the next flow ends, if no other starts; MaxMinFlows::kNever without flows. Called before time goes on.
  double next_completion() {
    const double date = flows_.next_completion(now_);
    if (on_rate_)
      for (const std::uint32_t link : flows_.take_changed()) on_rate_(static_cast<int>(link), now(), flows_.used(link));
    return date;
  }

  /// Goes on by `delay`, at most to the next completion. Returns what is to run for the flows that end then, in the order in which
  /// they were started. All of them are over before any of it runs: flows that it starts may reuse their numbers. Valid until the
  /// next call.
  const std::vector<std::function<void()>>& advance(double delay) {
    now_ += delay;
    completed_.clear();
    due_.clear();
    flows_.pop_completed(now_, completed_);
    for (const auto flow : completed_) {
      Running& ended = running_[flow];
      latest_[static_cast<std::size_t>(ended.path)] = flow;
      due_.push_back(std::move(ended.on_sent));
      ended.id = 0;
    }
    return due_;
  }

 private:
  struct Running {
    FlowId id = 0;
    PathIndex path = 0;
    std::function<void()> on_sent{};
  };

  static std::vector<double> capacities(const Topology& topology) {
    std::vector<double> rates;
    for (const TopologyLink& link : topology.links()) rates.push_back(link.rate.value());
    return rates;
  }

  bool is_idle(int link) const override { return flows_.is_idle(link); }

  void set_rate(int link, BytesPerSecond rate) override { flows_.set_capacity(link, rate.value()); }

  FlowId start(PathIndex index, Bytes size, std::optional<BytesPerSecond> most, double weight,
               std::function<void()> on_sent) override {
    return begin(index, as_double(size), most, weight, std::move(on_sent));
  }

  FlowId resume(PathIndex index, double bytes, double weight, std::function<void()> on_sent) override {
    return begin(index, bytes, {}, weight, std::move(on_sent));
  }

  FlowId begin(PathIndex index, double bytes, std::optional<BytesPerSecond> most, double weight,
               std::function<void()> on_sent) {
    const Path& way = path(index);
    double cap = way.per_flow_rate ? way.per_flow_rate->value() : MaxMinFlows::kNever;
    if (most) cap = std::min(cap, most->value());
    const auto flow = flows_.start(way.links, bytes, cap, weight, latest(index));
    if (flow >= running_.size()) running_.resize(flow + std::size_t{1});
    const FlowId id = ++started_ << 32U | flow;
    running_[flow] = {id, index, std::move(on_sent)};
    return id;
  }

  /// The flow that has ended on the path, and whose number no other one has had since; kNone: there is none.
  MaxMinFlows::FlowIndex latest(PathIndex path) {
    const auto place = static_cast<std::size_t>(path);
    if (place >= latest_.size()) latest_.resize(place + 1, MaxMinFlows::kNone);
    const auto flow = std::exchange(latest_[place], MaxMinFlows::kNone);
    return flow != MaxMinFlows::kNone && running_[flow].path == path ? flow : MaxMinFlows::kNone;
  }

  MaxMinFlows flows_;
  std::vector<Running> running_;                // [flows]
  std::vector<MaxMinFlows::FlowIndex> latest_;  // [paths] to have ended there, until another one starts; kNone: none
  std::vector<MaxMinFlows::FlowIndex> completed_;
  std::vector<std::function<void()>> due_;
  FlowId started_ = 0;
  double now_ = 0;  // date
  OnRate on_rate_;
};

}  // namespace rehearse
