#pragma once
// Speeds of jobs on placements: stated, of a table, or simulated once for each placement and kept.

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/budget.hpp"
#include "sim/pool/pool.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/queue/policy.hpp"
#include "sim/queue/speed_table.hpp"

namespace rehearse {

class PlacementSpeeds : public JobSpeeds {
 public:
  /// All but `speeds` must outlive it. `program` is part of what a kept simulation is found by.
  PlacementSpeeds(const QueueSetup& setup, const std::optional<SpeedTable>& speeds, const Catalog& catalog,
                  const Pool& pool, ResultStore& store, std::string program, const Budget& budget);

  /// Simulates the jobs of scenarios on every group, packed, several at a time. `on_done(done, all)` is called after
  /// each. Throws InputError of a scenario that cannot be read, NoResultError of the first that runs on no group.
  void prepare(const std::function<void(std::size_t, std::size_t)>& on_done);

  double steps_per_s(std::size_t kind, const GpuPlacement& placement) override;
  /// Of simulated jobs. A step with slower NICs is simulated for 1, 1/2, 1/4 ... of their rate, and is linear between.
  std::optional<std::vector<double>> nic_use(std::size_t kind, const GpuPlacement& placement) override;
  double step_s(std::size_t kind, const GpuPlacement& placement, double slowdown) override;
  /// As the job states, or as its simulation says.
  std::optional<double> gpu_power_w(std::size_t kind, const GpuPlacement& placement) override;

  /// Scenarios that do not run on a placement, and why; and what those say that do.
  std::vector<std::string> warnings() const;

 private:
  /// A kind of job on GPUs of a group.
  struct Placed {
    std::size_t kind = 0, group = 0;
    std::vector<int> gpus;  // on each machine, the most first
    int halvings = 0;       // of its NICs' rate
    auto operator<=>(const Placed&) const = default;
  };
  struct Known {
    double steps_per_s = 0;  // 0: it does not run there
    std::string why_not;
    std::optional<double> gpu_power_w;  // of one that is simulated, where it is known
    std::map<int, double> nic_use;      // of one that is simulated, by its GPUs on a machine: the most of any
  };
  using Placements = std::vector<Placed>;
  static Placed placed(std::size_t kind, const GpuPlacement& placement);
  const Known& known(const Placed& placed);
  double of_table(const Placed& placed) const;
  void read_scenarios();
  Json placed_instance(const Placed& placed, int gpus) const;
  Json placed_scenario(const Placed& placed) const;
  /// None where a job of this kind has no scenario, or no room.
  std::optional<Placed> packed(std::size_t kind, std::size_t group, int gpus) const;
  std::string does_not_run(const Placed& placed) const;
  void simulate(const Placements& wanted, const std::function<void(std::size_t, std::size_t)>& on_done);
  void note_result(const Placed& placed, const std::optional<StoredRun>& stored, const std::string& error);

  const QueueSetup& setup_;
  const std::optional<SpeedTable>& speeds_;
  const Catalog& catalog_;
  const Pool& pool_;
  ResultStore& store_;
  std::string program_;
  const Budget& budget_;
  std::map<Placed, Known> known_;
  std::map<std::string, Json> scenarios_;  // by file
  std::set<std::string> warnings_;         // of those that run
};

}  // namespace rehearse
