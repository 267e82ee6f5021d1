#pragma once
// Speeds of jobs on placements: stated, of a table, or simulated once for each placement and kept.

#include <functional>
#include <map>
#include <set>
#include <tuple>

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
  /// As the job states, or as its simulation says.
  std::optional<double> gpu_power_w(std::size_t kind, const GpuPlacement& placement) override;

  /// Scenarios that do not run on a placement, and why; and what those say that do.
  std::vector<std::string> warnings() const;

 private:
  /// Group and GPUs on each machine, the most first.
  using Shape = std::pair<std::size_t, std::vector<int>>;
  static Shape shape_of(const GpuPlacement& placement);
  double of_table(const JobKind& kind, const Shape& shape);
  void read_scenarios();
  Json placed_scenario(std::size_t kind, const Shape& shape) const;
  /// None where a job of this kind has no scenario, or no room.
  std::optional<Shape> packed_shape(std::size_t kind, std::size_t group) const;
  std::string does_not_run(std::size_t kind, const Shape& shape) const;
  void simulate(const std::vector<std::pair<std::size_t, Shape>>& wanted,
                const std::function<void(std::size_t, std::size_t)>& on_done);

  const QueueSetup& setup_;
  const std::optional<SpeedTable>& speeds_;
  const Catalog& catalog_;
  const Pool& pool_;
  ResultStore& store_;
  std::string program_;
  const Budget& budget_;
  std::map<std::pair<std::size_t, Shape>, double> known_;  // [kind, shape]
  std::map<std::pair<std::size_t, Shape>, double>
      gpu_power_w_;  // the same of those that are simulated, where it is known
  std::map<std::pair<std::size_t, Shape>, std::string> why_not_;  // of those that do not run
  std::map<std::string, Json> scenarios_;                         // by file
  std::set<std::string> warnings_;                                // of those that run
};

}  // namespace rehearse
