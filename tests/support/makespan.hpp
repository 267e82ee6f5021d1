#pragma once
// How long a step takes by the lists of its stages alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/scenario/pipeline_schedule.hpp"

namespace rehearse::test {

/// Behind slot `from`, that which is no part of its pass any more.
inline std::size_t end_of_pass(const std::vector<PipelineSlot>& slots, std::size_t from) {
  std::size_t end = from + 1;
  while (end < slots.size() && slots[end].is_merged) ++end;
  return end;
}

struct StageTimes {
  double begin = 0, end = 0;
};

/// [stages] of steps whose passes take so long for each chunk, with messages that take no time. A stage goes on to its next step as
/// soon as it has ended one.
inline std::vector<StageTimes> stage_times(const Pipeline& pipeline, int microbatches, int steps, double forward,
                                           double backward, double weights) {
  std::vector<std::vector<PipelineSlot>> lists(static_cast<std::size_t>(pipeline.stages));
  for (int step = 0; step < steps; ++step)
    for (int stage = 0; stage < pipeline.stages; ++stage)
      for (PipelineSlot slot : pipeline_slots(pipeline, microbatches, stage)) {
        slot.microbatch += step * microbatches;
        lists[static_cast<std::size_t>(stage)].push_back(slot);
      }
  std::vector<StageTimes> times(lists.size());
  std::vector<std::size_t> next(lists.size());
  std::vector<double> now(lists.size());
  std::map<std::tuple<PassPhase, int, int>, double> done;  // by part
  for (bool has_moved = true; std::exchange(has_moved, false);)
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      for (; next[s] < lists[s].size(); has_moved = true) {
        const std::size_t end = end_of_pass(lists[s], next[s]);
        double begin = now[s], takes = 0;
        bool may_run = true;
        for (std::size_t i = next[s]; i < end; ++i) {
          const PipelineSlot& slot = lists[s][i];
          const bool is_forward = slot.phase == PassPhase::kForward;
          const int part = pipeline.part_of(stage, slot.chunk), from = part + (is_forward ? -1 : 1);
          takes += is_forward ? forward : slot.phase == PassPhase::kBackward ? backward : weights;
          if (slot.phase == PassPhase::kWeights || !pipeline.is_read_after(std::min(part, from))) continue;
          const auto before = done.find({slot.phase, from, slot.microbatch});
          may_run = may_run && before != done.end();
          if (may_run) begin = std::max(begin, before->second);
        }
        if (!may_run) break;
        if (next[s] == 0) times[s].begin = begin;
        now[s] = begin + takes;
        for (; next[s] < end; ++next[s])
          done.emplace(std::tuple{lists[s][next[s]].phase, pipeline.part_of(stage, lists[s][next[s]].chunk),
                                  lists[s][next[s]].microbatch},
                       now[s]);
      }
    }
  for (std::size_t s = 0; s < lists.size(); ++s) {
    REQUIRE(next[s] == lists[s].size());
    times[s].end = now[s];
  }
  return times;
}

/// Of such steps, until the last stage has ended them.
inline double makespan(const Pipeline& pipeline, int microbatches, double forward, double backward, double weights,
                       int steps = 1) {
  double last = 0;
  for (const StageTimes& times : stage_times(pipeline, microbatches, steps, forward, backward, weights))
    last = std::max(last, times.end);
  return last;
}

}  // namespace rehearse::test
