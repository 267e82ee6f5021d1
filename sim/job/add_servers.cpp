#include <cmath>

#include "sim/base/parse_quantity.hpp"
#include "sim/job/control.hpp"

namespace rehearse {

namespace {

class AddServers final : public ControlRule {
 public:
  AddServers(const ServerAddition& rule, int most) : rule_{rule}, most_{most} {}

  ControlEvent event() const override { return ControlEvent::kObservation; }

  std::optional<ControlDecision> decide(const ControlView& view) const override {
    const auto group = static_cast<std::size_t>(rule_.group);
    if (view.joining[group] > 0 || view.machines[group] >= most_) return {};
    if (view.updates_per_s >= (1 - rule_.threshold) * view.updates_per_s_alone) return {};
    const auto rounded = [](double value) { return to_text(std::round(value * 100) / 100); };
    ControlDecision decision{view.machines, "one more server: " + rounded(view.updates_per_s) + " steps/s of the " +
                                                rounded(view.updates_per_s_alone) + " of all workers alone"};
    ++decision.machines[group];
    return decision;
  }

 private:
  ServerAddition rule_;
  int most_;
};

}  // namespace

std::shared_ptr<const ControlRule> add_servers_rule(const Scenario& scenario) {
  const ServerAddition& rule = *scenario.training.control->add_servers;
  return std::make_shared<AddServers>(rule, scenario.groups[static_cast<std::size_t>(rule.group)].count);
}

}  // namespace rehearse
