#include "sim/engine/plain_loop.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "sim/engine/max_min_flows.hpp"

namespace rehearse {

namespace {

class PlainNetwork final : public Network {
 public:
  PlainNetwork(const Topology& topology, Clock& clock)
      : Network{topology}, clock_{clock}, flows_{capacities(topology)} {}

  void cancel(FlowId id) override {
    const auto flow = static_cast<MaxMinFlows::FlowIndex>(id);
    if (id == 0 || flow >= running_.size() || running_[flow].id != id) return;
    running_[flow] = {};
    flows_.cancel(flow);
  }

  void set_capacity(MachineIndex machine, BytesPerSecond rate) override {
    for (const int link : topology().nic_links(machine)) flows_.set_capacity(link, rate.value());
  }

  Seconds now() const override { return Seconds{now_}; }

  void run() {
    while (true) {
      while (!clock_.is_empty() && clock_.next_date().value() <= now_) clock_.advance_to(Seconds{now_});
      const double flow = flows_.next_completion(now_);
      double delay = flow == MaxMinFlows::kNever ? flow : flow - now_;
      if (!clock_.is_empty()) delay = std::min(delay, clock_.next_date().value() - now_);
      if (delay == MaxMinFlows::kNever) return;
      now_ += delay;
      hand_on_completed();
    }
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

  FlowId start(PathIndex index, Bytes size, std::function<void()> on_sent) override {
    const Path& way = path(index);
    const auto flow =
        flows_.start(way.links, as_double(size), way.per_flow_rate ? way.per_flow_rate->value() : MaxMinFlows::kNever);
    if (flow >= running_.size()) running_.resize(flow + std::size_t{1});
    const FlowId id = ++started_ << 32U | flow;
    running_[flow] = {id, std::move(on_sent)};
    return id;
  }

  void hand_on_completed() {
    completed_.clear();
    flows_.pop_completed(now_, completed_);
    if (completed_.empty()) return;
    due_.clear();  // before any of them runs: flows that they start may reuse the numbers
    for (const auto flow : completed_) {
      due_.push_back(std::move(running_[flow].on_sent));
      running_[flow] = {};
    }
    clock_.advance_to(Seconds{now_});
    for (const auto& on_sent : due_) on_sent();
  }

  Clock& clock_;
  MaxMinFlows flows_;
  double now_ = 0;
  std::vector<Running> running_;  // [flows]
  std::vector<MaxMinFlows::FlowIndex> completed_;
  std::vector<std::function<void()>> due_;
  FlowId started_ = 0;
};

}  // namespace

struct PlainLoop::Implementation {
  explicit Implementation(const Topology& topology) : network{topology, clock} {}
  Clock clock;
  PlainNetwork network;
};

PlainLoop::PlainLoop(const Topology& topology) : implementation_{std::make_unique<Implementation>(topology)} {}
PlainLoop::~PlainLoop() = default;

Clock& PlainLoop::clock() { return implementation_->clock; }
Network& PlainLoop::network() { return implementation_->network; }
void PlainLoop::run() { implementation_->network.run(); }

}  // namespace rehearse
