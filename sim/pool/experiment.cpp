#include "sim/pool/experiment.hpp"

#include <utility>

namespace rehearse {

std::optional<std::vector<PooledRun>> Experiment::run(const SimulationMeans& means) const {
  std::vector<PooledRun> runs(count);
  std::size_t done = 0;
  const auto keep = [&](std::size_t index, PooledRun run) {
    runs[index] = std::move(run);
    if (means.on_done) means.on_done(++done, count);
  };
  if (!means.pool.run(count, job, keep, means.limits)) return std::nullopt;
  return runs;
}

std::vector<PooledRun> Experiment::run(const Pool& pool, const std::function<void(std::size_t, std::size_t)>& on_done,
                                       const Budget& budget) const {
  auto runs = run({.pool = pool, .on_done = on_done, .limits = {.is_stopped = budget.asked(), .job_wall_s = {}}});
  if (!runs) budget.stop();
  return std::move(*runs);
}

bool Experiment::run(ResultStore& store, const SimulationMeans& means) const {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < count; ++i)
    if (!store.is_finished(key(i))) missing.push_back(i);
  std::size_t done = 0;
  const auto keep = [&](std::size_t index, const PooledRun& run) {
    store.put(key(missing[index]), with_result(row(missing[index]), run));
    if (means.on_done) means.on_done(++done, missing.size());
  };
  return means.pool.run(
      missing.size(), [&](std::size_t index) { return job(missing[index]); }, keep, means.limits);
}

StoredRun with_result(StoredRun row, const PooledRun& run) {
  (run.has_succeeded ? row.summary : row.error) = run.text;
  row.has_died = run.has_died;
  row.wall_s = run.wall_s;
  return row;
}

}  // namespace rehearse
