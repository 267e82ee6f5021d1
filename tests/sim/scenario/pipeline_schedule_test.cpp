// Lists of what the stages of a pipeline do, against the formulas of the literature.

#include "sim/scenario/pipeline_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/random.hpp"
#include "tests/support/kept_microbatches.hpp"
#include "tests/support/makespan.hpp"

namespace rehearse {

namespace {

using test::end_of_pass;
using test::makespan;

constexpr PassPhase kForward = PassPhase::kForward, kBackward = PassPhase::kBackward, kWeights = PassPhase::kWeights;

Pipeline interleaved(int stages, int chunks, int group = 0) {
  return {.stages = stages, .schedule = PipelineSchedule::kInterleaved, .chunks = chunks, .microbatch_group = group};
}

Pipeline merged(Pipeline pipeline) {
  pipeline.merges_passes = true;
  return pipeline;
}

Pipeline zero_bubble(int stages) { return {.stages = stages, .schedule = PipelineSchedule::kZeroBubble}; }

Pipeline folded(PipelineSchedule schedule, int stages) { return {.stages = stages, .schedule = schedule, .chunks = 2}; }
Pipeline two_copies(int stages) { return {.stages = stages, .schedule = PipelineSchedule::kDualPipe}; }

int most_kept(const Pipeline& pipeline, int microbatches, int stage) {
  const std::vector<int> kept =
      test::kept_at_peak(pipeline_slots(pipeline, microbatches, stage),
                         std::vector<Bytes>(static_cast<std::size_t>(pipeline.parts_of_stage()), Bytes{1}));
  return std::accumulate(kept.begin(), kept.end(), 0);
}

/// The most chunks of which the forward pass has run and gradients of weights have not.
int most_kept_with_weights(const Pipeline& pipeline, int microbatches, int stage) {
  int kept = 0, most = 0;
  for (const PipelineSlot& slot : pipeline_slots(pipeline, microbatches, stage)) {
    kept += slot.phase == kForward ? 1 : slot.phase == kWeights ? -1 : 0;
    most = std::max(most, kept);
  }
  return most;
}

/// Every pass once, and the backward one after the forward one.
void check_passes(const Pipeline& pipeline, int microbatches) {
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    std::set<std::tuple<PassPhase, int, int>> done;
    for (const PipelineSlot& slot : pipeline_slots(pipeline, microbatches, stage)) {
      CHECK((slot.chunk >= 0 && slot.chunk < pipeline.parts_of_stage()));
      CHECK((slot.microbatch >= 0 && slot.microbatch < microbatches / pipeline.copies()));
      CHECK(done.emplace(slot.phase, slot.chunk, slot.microbatch).second);
      if (slot.phase == kBackward) CHECK(done.contains({kForward, slot.chunk, slot.microbatch}));
      if (slot.phase == kWeights) CHECK(done.contains({kBackward, slot.chunk, slot.microbatch}));
    }
    CHECK(done.size() ==
          static_cast<std::size_t>((splits_backward(pipeline) ? 3 : 2) * microbatches * pipeline.chunks));
  }
}

/// Whether all stages come to the end of their lists if each pass waits for what it receives; and, with messages that block, also
/// for what those receive that are joined to it.
bool comes_to_an_end(const Pipeline& pipeline, int microbatches, bool blocks) {
  std::vector<std::vector<PipelineSlot>> lists;
  for (int stage = 0; stage < pipeline.stages; ++stage) lists.push_back(pipeline_slots(pipeline, microbatches, stage));
  std::vector<std::size_t> next(lists.size());
  std::set<std::tuple<PassPhase, int, int>> done;  // by part
  const auto has_come = [&](const PipelineSlot& slot, int stage) {
    if (slot.phase == kWeights) return true;
    const int part = pipeline.part_of(stage, slot.chunk);
    const bool is_forward = slot.phase == kForward;
    return !pipeline.is_read_after(is_forward ? part - 1 : part) ||
           done.contains({slot.phase, is_forward ? part - 1 : part + 1, slot.microbatch});
  };
  for (bool has_moved = true; std::exchange(has_moved, false);)
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      while (next[s] < lists[s].size()) {
        bool may_run = true;
        for (std::size_t i = next[s]; i < end_of_pass(lists[s], next[s]); ++i)
          may_run = may_run && has_come(lists[s][i], stage);
        for (std::size_t i = next[s] + 1; blocks && i < lists[s].size() && lists[s][i].is_joined; ++i)
          may_run = may_run && has_come(lists[s][i], stage);
        if (!may_run) break;
        for (const std::size_t end = end_of_pass(lists[s], next[s]); next[s] < end; ++next[s])
          done.emplace(lists[s][next[s]].phase, pipeline.part_of(stage, lists[s][next[s]].chunk),
                       lists[s][next[s]].microbatch);
        has_moved = true;
      }
    }
  for (std::size_t s = 0; s < lists.size(); ++s)
    if (next[s] < lists[s].size()) return false;
  return true;
}

}  // namespace

TEST_CASE(
    "stage r of p keeps m micro-batches with GPipe, min(m, p - r) with 1F1B, min(m v, w + 1) chunks if interleaved") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int m : {1, 2, 3, 4, 8, 9, 24})
      for (int r = 0; r < p; ++r) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(r);
        CHECK(most_kept({.stages = p, .schedule = PipelineSchedule::kGpipe}, m, r) == m);
        CHECK(most_kept({.stages = p}, m, r) == std::min(m, p - r));
        for (const int v : {2, 3, 5})
          for (const int group : {p, p + 1, 2 * p})
            CHECK(most_kept(interleaved(p, v, group), m, r) == std::min(m * v, 2 * (p - 1 - r) + (v - 1) * group + 1));
      }
  // The first stage: 1 + (p - 1) / (p v) of the activations of all p v parts.
  CHECK(most_kept(interleaved(4, 2), 64, 0) == 4 * 2 + 4 - 1);
}

TEST_CASE(
    "with gradients of weights put off a step takes (p - 1) (F + B - 2 W) more than its passes, and all stages keep "
    "p") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int m : {p, p + 1, 2 * p + 3, 6 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(makespan(zero_bubble(p), m, 1, 1, 1) == doctest::Approx(3.0 * m + (p - 1) * (1 + 2 - 2)).epsilon(1e-12));
      CHECK(makespan({.stages = p}, m, 1, 2, 0) == doctest::Approx(3.0 * m + (p - 1) * 3).epsilon(1e-12));
      // Where a stage would wait longer than it has put off.
      CHECK(makespan(zero_bubble(p), m, 2, 2, 1) == doctest::Approx(5.0 * m + (p - 1) * (2 + 3 - 2)).epsilon(1e-12));
      for (int r = 0; r < p; ++r) CHECK(most_kept_with_weights(zero_bubble(p), m, r) == std::min(m, p));
    }
}

TEST_CASE(
    "put off twice as far, no stage waits between its passes, and each keeps 2 p - 1; steps come one after the other") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int m : {2 * p - 1, 2 * p, 6 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const Pipeline pipeline{.stages = p, .schedule = PipelineSchedule::kZeroBubble2};
      for (const test::StageTimes& times : test::stage_times(pipeline, m, 1, 1, 1, 1))
        CHECK(times.end - times.begin == doctest::Approx(3.0 * m).epsilon(1e-12));
      CHECK(makespan(pipeline, m, 1, 1, 1, 5) == doctest::Approx(5 * 3.0 * m + p - 1).epsilon(1e-12));
      CHECK(makespan(zero_bubble(p), m, 1, 1, 1, 5) >= 5 * 3.0 * m + p - 1);
      for (int r = 0; r < p; ++r) CHECK(most_kept_with_weights(pipeline, m, r) == 2 * p - 1);
    }
}

TEST_CASE(
    "of a folded model the step takes (p - 1) F more than its passes with zbv, (p - 1) (F&B + B - 3 W) with dualpipev, "
    "where F = B of what they read = W") {
  for (const int p : {2, 3, 4, 8})
    for (const int m : {2 * p, 2 * p + 1, 5 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const Pipeline zbv = folded(PipelineSchedule::kZeroBubbleV, p), dual = folded(PipelineSchedule::kDualPipeV, p);
      CHECK(makespan(zbv, m, 1, 1, 1) == doctest::Approx(6.0 * m + (p - 1)).epsilon(1e-12));
      CHECK(makespan(dual, m, 1, 1, 1) == doctest::Approx(6.0 * m + (p - 1) * (3 + 2 - 3)).epsilon(1e-12));
      // No more than what DeepSeek's table says where passes differ.
      CHECK(makespan(dual, m, 2, 3, 1) <= 12.0 * m + (p - 1) * (6 + 4 - 3));
      CHECK(makespan(dual, m, 2, 3, 1) >= 12.0 * m + (p - 1) * (6 + 4 - 3) - 2);
      for (int r = 0; r < p; ++r) {
        CHECK(most_kept_with_weights(zbv, m, r) == 2 * p);
        CHECK(most_kept_with_weights(dual, m, r) == 2 * p + 1);
      }
    }
  // With fewer micro-batches than keep it busy zbv is the longer list without those that are not there.
  CHECK(makespan(folded(PipelineSchedule::kZeroBubbleV, 4), 1, 1, 1, 1) == doctest::Approx(18));
}

TEST_CASE(
    "with two copies the step of DualPipe takes (p / 2 - 1) (F&B + B - 3 W) more than its passes, and keeps p + 1 "
    "chunks") {
  for (const int p : {2, 4, 6, 8})
    for (const int m : {2 * p, 2 * p + 2, 5 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(makespan(two_copies(p), m, 1, 1, 1) == doctest::Approx(3.0 * m + (p / 2 - 1) * (3 + 2 - 3)).epsilon(1e-12));
      CHECK(makespan(two_copies(p), m, 2, 3, 1) <= 6.0 * m + (p / 2 - 1) * (6 + 4 - 3));
      for (int r = 0; r < p; ++r) CHECK(most_kept_with_weights(two_copies(p), m, r) == p + 1);
    }
  CHECK_FALSE(can_have_microbatches(two_copies(2), 5));
  CHECK_FALSE(can_have_microbatches(two_copies(4), 6));
}

TEST_CASE("interleaved micro-batches go in groups through chunks, backward from the last one") {
  // Two stages, groups of 3 and 2 micro-batches: the table of Megatron-LM for "PP2 N3M5 VP2".
  const std::vector<int> microbatches{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}, chunks{0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  for (int stage = 0; stage < 2; ++stage) {
    std::vector<std::vector<int>> of(4);
    for (const PipelineSlot& slot : pipeline_slots(interleaved(2, 2, 3), 5, stage)) {
      of[slot.phase == kForward ? 0 : 2].push_back(slot.microbatch);
      of[slot.phase == kForward ? 1 : 3].push_back(slot.phase == kForward ? slot.chunk : 1 - slot.chunk);
    }
    CHECK(of == std::vector<std::vector<int>>{microbatches, chunks, microbatches, chunks});
  }
}

TEST_CASE("the passes of a list, one after the other") {
  const auto text = [](const Pipeline& pipeline, int m, int stage) {
    std::string all;
    for (const PipelineSlot& slot : pipeline_slots(pipeline, m, stage))
      all += (slot.is_merged   ? "+"
              : slot.is_joined ? ""
                               : " ") +
             std::string(1, "FBW"[static_cast<std::size_t>(slot.phase)]) + std::to_string(slot.microbatch) +
             (pipeline.parts_of_stage() > 1 ? std::string(1, "ab"[slot.chunk]) : "");
    return all;
  };
  CHECK(text({.stages = 3, .schedule = PipelineSchedule::kGpipe}, 2, 0) == " F0 F1 B0 B1");
  CHECK(text({.stages = 3}, 4, 0) == " F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(text({.stages = 3}, 4, 2) == " F0 B0 F1 B1 F2 B2 F3 B3");
  CHECK(text(zero_bubble(3), 4, 0) == " F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  CHECK(text(zero_bubble(3), 4, 2) == " F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  const Pipeline zb2p{.stages = 2, .schedule = PipelineSchedule::kZeroBubble2};
  CHECK(text(zb2p, 4, 0) == " F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  CHECK(text(zb2p, 4, 1) == " F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  CHECK(text(folded(PipelineSchedule::kZeroBubbleV, 2), 4, 0) ==
        " F0a F1a F2a F0b B0b W0b F1b B1b W1b F3a B0a W0a F2b B2b W2b B1a W1a F3b B3b W3b B2a W2a B3a W3a");
  CHECK(text(folded(PipelineSchedule::kDualPipeV, 2), 4, 1) ==
        " F0a F0b F1a F1b F2a B0b+W0b F2b+B0a+W0a F3a+B1b+W1b F3b+B1a+W1a B2b+W2b B2a+W2a B3b B3a W3b W3a");
  // The list of one stage of two parts, from both ends.
  CHECK(text(two_copies(2), 4, 0) == text(folded(PipelineSchedule::kDualPipeV, 1), 2, 0));
  CHECK(text(two_copies(2), 4, 0) == " F0a F0b F1a B0b+W0b F1b+B0a+W0a B1b+W1b B1a W1a");
  CHECK(text(two_copies(2), 4, 1) == " F0b F0a F1b B0a+W0a F1a+B0b+W0b B1a+W1a B1b W1b");
  CHECK(text(interleaved(2, 2), 4, 1) == " F0a F1a F0bB0b F1bB1b F2aB0a F3aB1a F2bB2b F3bB3b B2a B3a");
  CHECK(text(merged(interleaved(2, 2)), 4, 1) == " F0a F1a F0b F1b+B0b F2a+B1b F3a+B0a F2b+B1a F3b+B2b B3b B2a B3a");
  CHECK(text(interleaved(2, 2), 4, 0) == " F0a F1a F0b F1b F2aB0b F3aB1b F2bB0a F3bB1a B2b B3b B2a B3a");
}

TEST_CASE("in random schedules each pass runs once and all stages come to an end") {
  Rng random{7, "schedules"};
  const auto between = [&](int from, int to) {
    return from + static_cast<int>(random.below(static_cast<std::uint64_t>(to - from + 1)));
  };
  for (int i = 0; i < 300; ++i) {
    const int p = between(2, 9), v = between(2, 5), group = between(p, 2 * p + 3);
    int m = between(p, 5 * p + 3);
    if (const int left = m % group; left > 0 && left < p) m += p - left;
    CAPTURE(p);
    CAPTURE(v);
    CAPTURE(group);
    CAPTURE(m);
    for (const Pipeline& pipeline :
         {Pipeline{.stages = p, .schedule = PipelineSchedule::kGpipe}, Pipeline{.stages = p}, interleaved(p, v, group),
          merged(interleaved(p, v, group)), zero_bubble(p),
          Pipeline{.stages = p, .schedule = PipelineSchedule::kZeroBubble2}, folded(PipelineSchedule::kZeroBubbleV, p),
          folded(PipelineSchedule::kDualPipeV, p), two_copies(p - p % 2)}) {
      if (!can_have_microbatches(pipeline, m)) continue;
      check_passes(pipeline, m);
      CHECK(comes_to_an_end(pipeline, m, false));
      CHECK(comes_to_an_end(pipeline, m, true));
    }
  }
  // With a last group of fewer than the stages the first one would wait for the last one, and that for the first.
  check_passes(interleaved(4, 3), 9);
  CHECK_FALSE(comes_to_an_end(interleaved(4, 3), 9, false));
}

TEST_CASE("chunks of unequal activations: what is kept is the most in bytes") {
  // Stage 1 of 2: F0a F1a F0b | B0b F1b B1b B0a B1a, two of the first chunk and one of the second; three more bytes are there
  // than after the warm-up if those of the second chunk are counted.
  const std::vector<PipelineSlot> slots = pipeline_slots(interleaved(2, 2), 2, 1);
  CHECK(test::kept_at_peak(slots, {Bytes{5}, Bytes{3}}) == std::vector{2, 1});
  CHECK(test::kept_at_peak(slots, {Bytes{5}, Bytes{0}}) == std::vector{2, 0});
  // The first stage keeps both chunks of both micro-batches.
  CHECK(test::kept_at_peak(pipeline_slots(interleaved(2, 2), 2, 0), {Bytes{5}, Bytes{3}}) == std::vector{2, 2});
}

}  // namespace rehearse
