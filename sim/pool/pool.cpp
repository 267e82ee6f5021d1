#include "sim/pool/pool.hpp"

#include <nlohmann/json.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/engine/summary.hpp"

namespace rehearse {

bool simulate_each(std::size_t count, int parallel, const std::function<Scenario(std::size_t)>& scenario,
                   const std::function<void(std::size_t, const PooledRun&)>& on_run, const IsolatedLimits& limits) {
  return for_each_isolated(
      count, parallel,
      [&](std::size_t index) {
        const Scenario own = scenario(index);
        return to_json(own, summarize(own, simulate(own))).dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      [&](std::size_t index, IsolatedResult result) {
        PooledRun run{.has_died = result.has_died, .wall_s = result.wall_s};
        (result.has_succeeded ? run.summary : run.error) = std::move(result.text);
        on_run(index, run);
      },
      limits);
}

}  // namespace rehearse
