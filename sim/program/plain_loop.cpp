#include "sim/program/plain_loop.hpp"

#include <algorithm>

#include "sim/resources/max_min_network.hpp"

namespace rehearse {

namespace {

class PlainNetwork final : public MaxMinNetwork {
 public:
  PlainNetwork(const Topology& topology, Clock& clock) : MaxMinNetwork{topology}, clock_{clock} {}

  Seconds now() const override { return Seconds{now_}; }

  void run() {
    while (true) {
      while (!clock_.is_empty() && clock_.next_date().value() <= now_) clock_.advance_to(Seconds{now_});
      const double flow = next_completion(now_);
      double delay = flow == MaxMinFlows::kNever ? flow : flow - now_;
      if (!clock_.is_empty()) delay = std::min(delay, clock_.next_date().value() - now_);
      if (delay == MaxMinFlows::kNever) return;
      now_ += delay;
      const auto& due = take_completed(now_);
      if (due.empty()) continue;
      clock_.advance_to(Seconds{now_});
      for (const auto& on_sent : due) on_sent();
    }
  }

 private:
  Clock& clock_;
  double now_ = 0;
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
