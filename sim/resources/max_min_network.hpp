#pragma once
// A network whose flows share bandwidth by max_min_flows.hpp, whoever runs the clock: SimGrid (simgrid_backend.cpp) or
// plain_loop.cpp.

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "sim/resources/max_min_flows.hpp"
#include "sim/resources/network.hpp"

namespace rehearse {

class MaxMinNetwork : public Network {
 public:
  explicit MaxMinNetwork(const Topology& topology) : Network{topology}, flows_{capacities(topology)} {}

  void cancel(FlowId id) final {
    const auto flow = static_cast<MaxMinFlows::FlowIndex>(id);
    if (id == 0 || flow >= running_.size() || running_[flow].id != id) return;
    running_[flow] = {};
    flows_.cancel(flow);
  }

  void watch(const std::vector<int>& links, OnRate on_rate) final {
    for (const int link : links) flows_.watch(link);
    on_rate_ = std::move(on_rate);
  }

 protected:
  bool is_idle(int link) const final { return flows_.is_idle(link); }

  /// Date at which the next flow ends, if no other starts; MaxMinFlows::kNever without flows. Called before time goes
  /// on from `now`.
  double next_completion(double now) {
    const double date = flows_.next_completion(now);
    if (on_rate_)
      for (const std::uint32_t link : flows_.take_changed())
        on_rate_(static_cast<int>(link), Seconds{now}, flows_.used(link));
    return date;
  }

  /// What is to run for the flows that end at `now`, in the order in which they were started. All of them are over
  /// before any of it runs: flows that it starts may reuse their numbers. Valid until the next call.
  const std::vector<std::function<void()>>& take_completed(double now) {
    completed_.clear();
    due_.clear();
    flows_.pop_completed(now, completed_);
    for (const auto flow : completed_) {
      due_.push_back(std::move(running_[flow].on_sent));
      running_[flow] = {};
    }
    return due_;
  }

 private:
  struct Running {
    FlowId id = 0;
    std::function<void()> on_sent;
  };

  static std::vector<double> capacities(const Topology& topology) {
    std::vector<double> rates;
    for (const TopologyLink& link : topology.links()) rates.push_back(link.rate.value());
    return rates;
  }

  void set_rate(int link, BytesPerSecond rate) final { flows_.set_capacity(link, rate.value()); }

  FlowId start(PathIndex index, Bytes size, std::optional<BytesPerSecond> most, double weight,
               std::function<void()> on_sent) final {
    return begin(index, as_double(size), most, weight, std::move(on_sent));
  }

  FlowId resume(PathIndex index, double bytes, double weight, std::function<void()> on_sent) final {
    return begin(index, bytes, {}, weight, std::move(on_sent));
  }

  FlowId begin(PathIndex index, double bytes, std::optional<BytesPerSecond> most, double weight,
               std::function<void()> on_sent) {
    const Path& way = path(index);
    double cap = way.per_flow_rate ? way.per_flow_rate->value() : MaxMinFlows::kNever;
    if (most) cap = std::min(cap, most->value());
    const auto flow = flows_.start(way.links, bytes, cap, weight);
    if (flow >= running_.size()) running_.resize(flow + std::size_t{1});
    const FlowId id = ++started_ << 32U | flow;
    running_[flow] = {id, std::move(on_sent)};
    return id;
  }

  MaxMinFlows flows_;
  std::vector<Running> running_;  // [flows]
  std::vector<MaxMinFlows::FlowIndex> completed_;
  std::vector<std::function<void()>> due_;
  FlowId started_ = 0;
  OnRate on_rate_;
};

}  // namespace rehearse
