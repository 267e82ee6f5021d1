#include "sim/record/energy.hpp"

#include <algorithm>
#include <limits>

#include "platforms/node_power.hpp"
#include "sim/record/step_parts.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/gpu_power.hpp"

namespace rehearse {

namespace {

/// Steps of workers: their number and what they waited for collectives.
struct Steps {
  double count = 0;
  Seconds waits{};

  void add(const StepSpan& step, double repeats) {
    count += repeats;
    waits += (step.times.network + step.times.latency) * repeats;
  }
};

/// [machines] of all workers of each. On a machine that recorded for others some of its workers did for the rest.
std::vector<Steps> steps_of_machines(const RunRecord& record, bool in_window) {
  struct Counted {
    Steps all, first;  // of all workers that recorded on it, of its first one
  };
  std::vector<Counted> counted(record.machines.size());
  for (const StepSpan& step : record.recorder.steps) {
    const std::int64_t repeats = in_window ? steps_in_window(step, record) : step.repeats;
    Counted& of = counted[static_cast<std::size_t>(step.machine)];
    of.all.add(step, static_cast<double>(repeats));
    if (step.gpu == 0) of.first.add(step, static_cast<double>(repeats));
  }
  std::vector<Steps> steps(counted.size());
  for (std::size_t m = 0; m < steps.size(); ++m) {
    const MachineIndex by = record.recorded_by[m];
    if (by < 0) {
      steps[m] = counted[m].all;
      continue;
    }
    const Counted& of = counted[static_cast<std::size_t>(by)];
    const double count = of.first.count * record.machines[m].workers;
    steps[m] = {.count = count, .waits = of.all.count > 0 ? of.all.waits * (count / of.all.count) : Seconds{}};
  }
  return steps;
}

/// What draws on a machine.
class DrawingMachine {
 public:
  DrawingMachine(const Scenario& scenario, const Machine& machine)
      : group_{scenario.groups[static_cast<std::size_t>(machine.group)]},
        workers_{machine.workers},
        gpus_{group_.accelerator ? group_.instance.accelerators : 0} {
    if (gpus_ == 0 || !has_board_power(*group_.accelerator)) return;
    const BoardPower board = board_power(scenario, group_);
    rest_ = board.rest_w();
    polling_ = scenario.training.strategy.kind->updates_on_workers() ? board.polling_w() : 0;
  }

  int gpus() const { return gpus_; }
  /// W of all its GPUs, by the steps of its workers in a second, what a GPU draws in one, and how much of the time a worker waits.
  double gpus_w(double steps_per_s, double energy_of_step, double waiting) const {
    return gpus_ * rest_ + group_.gpus_per_worker * (steps_per_s * energy_of_step + workers_ * waiting * polling_);
  }
  /// W from the wall; `busy` threads of servers.
  double node_w(double gpus_w, double busy) const {
    return node_power(group_.instance, group_.interconnect, gpus_w,
                      busy + NodePowerValues{}.busy_threads_of_gpu * workers_ * group_.gpus_per_worker);
  }

 private:
  const Group& group_;
  int workers_ = 0, gpus_ = 0;
  double rest_ = 0, polling_ = 0;
};

}  // namespace

double rest_power(const Scenario& scenario, const Machine& machine) {
  const DrawingMachine draws{scenario, machine};
  return draws.node_w(draws.gpus_w(0, 0, 0), 0);
}

std::optional<RunEnergy> energy_of(const Scenario& scenario, const RunRecord& record,
                                   const std::vector<double>& rates) {
  if (!has_gpu_power(scenario) || record.gpu_energy_per_step.empty()) return {};
  RunEnergy energy;
  const std::vector<Steps> all = steps_of_machines(record, false), steady = steps_of_machines(record, true);
  const double window = (record.window.end - record.window.start).value();
  double gpus = 0, machines = 0;
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const Machine& machine = record.machines[m];
    const DrawingMachine draws{scenario, machine};
    const double of_step = record.gpu_energy_per_step[m];
    const int workers = std::max(1, machine.workers);
    if (const double rented = rented_time(record, m).value(); rented > 0) {
      const double watts = draws.gpus_w(all[m].count / rented, of_step, all[m].waits.value() / (rented * workers));
      energy.gpu_j += watts * rented;
      energy.node_j += draws.node_w(watts, record.total[m].cpu_busy.value() / rented) * rented;
    }
    const double waiting = steady[m].count > 0 ? steady[m].waits.value() / steady[m].count * rates[m] / workers : 0;
    const double present = share_of_window(record, m);
    const double watts = draws.gpus_w(rates[m], of_step, waiting);
    const double node = draws.node_w(watts, window > 0 ? record.in_window[m].cpu_busy.value() / window : 0);
    energy.all_power_w += node * present;
    if (machine.workers == 0) continue;
    energy.all_gpu_power_w += watts * present;
    gpus += draws.gpus() * present;
    machines += present;
    energy.node_power_w += node * present;
  }
  if (gpus > 0) {
    energy.gpu_power_w = energy.all_gpu_power_w / gpus;
    energy.node_power_w /= machines;
  }
  return energy;
}

}  // namespace rehearse
