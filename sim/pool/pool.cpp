#include "sim/pool/pool.hpp"

#include <nlohmann/json.hpp>

#include "sim/job/simulate.hpp"
#include "sim/pool/detail/isolated.hpp"
#include "sim/pool/detail/wall_clock.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

bool run_in_processes(std::size_t count, int parallel, const JobOf& job, const OnRun& on_run, const JobLimits& limits) {
  constexpr double kBrief = 0.1;  // begins no more jobs, whose process costs about a millisecond each
  return for_each_isolated(count, parallel, [&](std::size_t index) { return job(index).run(); }, on_run, limits,
                           {.most_s = kBrief, .ahead = Pool{parallel}.ahead()});
}

bool run_brief_here(std::size_t count, int parallel, const JobOf& job, const OnRun& on_run, const JobLimits& limits) {
  constexpr double kBrief = 0.01;
  const WallClock::time_point start = WallClock::now();
  std::size_t done = 0;
  for (; done < count && seconds_since(start) < kBrief; ++done) {
    if (limits.is_stopped && limits.is_stopped()) return false;
    const WallClock::time_point begin = WallClock::now();
    PooledRun run;
    try {
      run.text = job(done).run();
      run.has_succeeded = true;
    } catch (const std::exception& error) { run.text = error.what(); }
    run.wall_s = seconds_since(begin);
    on_run(done, std::move(run));
  }
  return run_in_processes(
      count - done, parallel, [&](std::size_t index) { return job(done + index); },
      [&](std::size_t index, PooledRun run) { on_run(done + index, std::move(run)); }, limits);
}

Json PooledRun::json() const { return parse_json(text, "result of a job"); }

std::string summary_text(const Scenario& scenario) {
  return to_json(scenario, summarize(scenario, simulate(scenario)))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Verb kSimulate{"simulate", [](Scenario scenario, const JsonReader& options) {
                       if (!options.optional("has_revocations", true))
                         for (Group& group : scenario.groups) {
                           group.pool.reset();
                           group.replay.reset();
                           group.faults.reset();
                         }
                       if (const auto steps = options.maybe<std::int64_t>("steps")) set_steps(scenario, *steps);
                       options.reject_unknown_keys();
                       return summary_text(scenario);
                     }};

}  // namespace rehearse
