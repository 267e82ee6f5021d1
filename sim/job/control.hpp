#pragma once
// Rules that change the machines of a job under way (Control of the scenario). The job (job.hpp) asks them at its events, and
// requests and releases machines as they say; a rule knows neither the provider nor how the job trains.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// When a rule is asked.
enum class ControlEvent {
  kLoss,         // machines of workers are given notice, or are gone without one
  kObservation,  // a window of observation has ended (ServerAddition)
};

/// What a rule is told.
struct ControlView {
  Seconds now{};
  double share_done = 0;      // of the job's samples
  std::vector<int> machines;  // [groups] that are there or have been requested, without those that are about to go
  std::vector<int> joining;   // [groups] of these, that do not train yet
  // Of an observation:
  double updates_per_s = 0;        // that were counted
  double updates_per_s_alone = 0;  // sum of those of each machine of workers without the others
};

/// How many machines there are to be.
struct ControlDecision {
  std::vector<int> machines;  // [groups]
  std::string reason;
};

class ControlRule {
 public:
  virtual ~ControlRule() = default;
  virtual ControlEvent event() const = 0;
  /// None: everything stays as it is.
  virtual std::optional<ControlDecision> decide(const ControlView& view) const = 0;
};
using ControlRules = std::vector<std::shared_ptr<const ControlRule>>;

/// ServerAddition of the scenario: one more server while none is on its way and the group has another one, where
///   updates/s < (1 - threshold) sum of the machines' updates/s alone.
/// Source: CM-DARE (ICDCS 2020); its threshold of 6.7 % after 30 s is quoted from memory.
std::shared_ptr<const ControlRule> add_servers_rule(const Scenario& scenario);

/// What a job that is controlled goes by; without rules none of it is used.
struct JobControl {
  ControlRules rules;
  /// Sum of the updates per second of these machines [groups], each alone with the servers of the start.
  std::function<double(const std::vector<int>& machines)> updates_per_s_alone;
};

}  // namespace rehearse
