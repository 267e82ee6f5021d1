#pragma once
// What sessions have in common whose workers run programs (executor.hpp).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/job/session.hpp"
#include "sim/job/steady_state.hpp"
#include "sim/job/training_log.hpp"
#include "sim/job/workers.hpp"
#include "sim/program/executor.hpp"
#include "sim/program/reductions.hpp"

namespace rehearse {

class ProgramSession : public Session, protected Executor::Client {
 public:
  TrainingProgress progress() const override { return done_; }

 protected:
  ProgramSession(const SessionParts& parts, TrainingProgress done, std::size_t longest_cycle)
      : cluster_{parts.cluster},
        workers_{parts.workers},
        compiler_{parts.workers.compiler()},
        window_{parts.window},
        log_{parts.log},
        job_{parts.job},
        scenario_{cluster_.site.scenario},
        clock_{cluster_.clock, cluster_.clock.new_owner()},
        reductions_{plan_reductions(scenario_, cluster_.is_exact, cluster_.recorder.keeps_activity)},
        all_samples_{scenario_.training.samples},
        target_samples_{target_samples(scenario_)},
        done_{done},
        steady_state_{cluster_.clock.now(), longest_cycle} {}

  /// Whole cycles of `steps` steps, of `samples` each, from now until the next change, and before the last step and that which
  /// reaches the target.
  std::int64_t cycles_left(std::int64_t steps, Seconds length, std::int64_t samples) const {
    const std::int64_t until = done_.samples < target_samples_ ? target_samples_ : all_samples_;
    const std::int64_t steps_left = (until - done_.samples + samples - 1) / samples;
    const std::int64_t cycles = (steps_left - 1) / steps;
    const double until_change = (window_.next_change(workers_.next_change()) - clock_.now()).value();
    return static_cast<std::int64_t>(
        std::min(static_cast<double>(cycles), std::ceil(until_change / length.value()) - 1));
  }

  /// Counts so many steps, of `samples` and `use` each, that take `time` and are not run.
  void skip(std::int64_t steps, const Use& use, std::int64_t samples, Seconds time) {
    window_.skip(steps, use);
    steady_state_.skip(time);
    done_.updates += steps;
    done_.samples += steps * samples;
    use_before_ = window_.use_so_far();
    end_ += time;
  }

  Cluster& cluster_;
  Workers& workers_;
  StepCompiler& compiler_;
  SteadyWindow& window_;
  TrainingLog& log_;
  SessionOwner& job_;
  const Scenario& scenario_;
  OwnedClock clock_;
  Reductions reductions_;
  std::int64_t all_samples_, target_samples_;
  TrainingProgress done_;
  Seconds end_{};  // of the latest update
  SteadyState steady_state_;
  Use use_before_;  // the latest step, while steps that are alike are looked for
};

}  // namespace rehearse
