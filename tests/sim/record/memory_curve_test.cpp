#include "sim/record/memory_curve.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/job/simulate.hpp"
#include "tests/support/isolated.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// A small GPT on four workers.
Json scenario_of(Json strategy, const char* recompute = "none") {
  Json scenario = test::timed_scenario(4, {{"4B"}}, std::move(strategy), 1);
  scenario["training"]["strategy"].erase("bucket_size");
  scenario["training"]["steps"] = 5;
  scenario["workload"]["recompute"] = recompute;
  scenario["workload"]["model"]["structure"] = {{"family", "transformer"},
                                                {"layers", 8},
                                                {"width", 64},
                                                {"heads", 4},
                                                {"feed_forward", 256},
                                                {"vocabulary", 256},
                                                {"sequence_length", 64},
                                                {"causal", true},
                                                {"normalisation", "pre"},
                                                {"head", "language_model"}};
  return scenario;
}

}  // namespace

namespace {

/// What is wrong with the curves of a run; empty: nothing.
std::string faults(const Json& json) {
  const Scenario scenario = test::resolved(json);
  const RunRecord record = simulate(scenario, {.keeps_activity = true});
  const MemoryCurves curves{scenario, record};
  std::string text = curves.gpus().size() == 4 ? "" : "not all GPUs have curves; ";
  const auto expect = [&](bool condition, const std::string& what) {
    if (!condition) text += what + "; ";
  };
  for (const MemoryCurves::Gpu& gpu : curves.gpus()) {
    const GpuMemory needed = WorkerMemory{scenario, curves.group_of(gpu)}.of(gpu.stage);
    const std::vector<HeldMemory> curve = curves.of(gpu);
    if (curve.size() < 4) return "a curve of no steps";
    expect(curve.front().bytes == needed.constant(), "the beginning");
    expect(std::prev(curve.end(), 2)->bytes == needed.constant(), "the end of the last step");
    expect(curve.back().bytes == Bytes{}, "after the run");
    expect(std::ranges::is_sorted(curve, {}, &HeldMemory::from), "the order");
    expect(std::ranges::max(curve, {}, &HeldMemory::bytes).bytes == needed.total(), "the most");
  }
  ResourceProfile profile = resource_profile(scenario, record);
  add_gpu_memory(curves, profile);
  double most = 0;
  for (const ResourceSeries& series : profile.series)
    most = std::max(most, *std::ranges::max_element(series.gpu_memory));
  expect(most == as_double(gpu_memory(scenario, scenario.first_workers()).total()), "the most of all samples");
  return text;
}

}  // namespace

TEST_CASE("the curve of every GPU begins and ends at what is constant, and its most is what the GPU needs") {
  const std::vector<Json> strategies{
      {{"kind", "all_reduce"}},
      {{"kind", "all_reduce"}, {"accumulation_steps", 3}, {"sharding", "parameters"}},
      {{"kind", "all_reduce"}, {"tensor", {{"degree", 2}, {"sequence_parallel", true}}}},
      {{"kind", "all_reduce"}, {"pipeline", {{"stages", 4}, {"microbatches", 6}}}},
      {{"kind", "all_reduce"},
       {"pipeline", {{"stages", 2}, {"microbatches", 4}, {"schedule", "interleaved"}, {"chunks", 2}}}}};
  const auto runs = run_isolated(2 * strategies.size(), 2, [&](std::size_t i) {
    return faults(scenario_of(strategies[i / 2], i % 2 == 0 ? "none" : "full"));
  });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(strategies[i / 2].dump());
    CAPTURE(i % 2);
    CHECK(runs[i].has_succeeded);
    CHECK(runs[i].text == "");
  }
}

}  // namespace rehearse
