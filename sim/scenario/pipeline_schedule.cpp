#include "sim/scenario/pipeline_schedule.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rehearse {

namespace {

PipelineSlot pass(PassPhase phase, const Pipeline& pipeline, int microbatches, int k) {
  const int passes_of_group = pipeline.group() * pipeline.chunks;
  const int first = k / passes_of_group * pipeline.group();
  const int size = std::min(pipeline.group(), microbatches - first);
  const int chunk = k % passes_of_group / size;
  return {.phase = phase,
          .chunk = phase == PassPhase::kForward ? chunk : pipeline.chunks - 1 - chunk,
          .microbatch = first + k % passes_of_group % size};
}

int forward_passes_first(const Pipeline& pipeline, int microbatches, int stage) {
  const int stages_after = pipeline.stages - 1 - stage;
  switch (pipeline.schedule) {
    case PipelineSchedule::kGpipe:
      return microbatches;
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kZeroBubble:
      return std::min(microbatches, stages_after);
    case PipelineSchedule::kZeroBubble2:
      return std::min(microbatches, 2 * stages_after);
    case PipelineSchedule::kInterleaved:
      return std::min(microbatches * pipeline.chunks,
                      2 * stages_after + (pipeline.chunks - 1) * pipeline.group() + (pipeline.merges_passes ? 1 : 0));
    case PipelineSchedule::kZeroBubbleV:
    case PipelineSchedule::kDualPipeV:
    case PipelineSchedule::kDualPipe:
      break;
  }
  return 0;
}

/// The list of a stage of a folded pipeline, as it is written in the header.
class FoldedSlots {
 public:
  explicit FoldedSlots(int microbatches) : microbatches_{microbatches} {}

  void forward(int chunk) { add(PassPhase::kForward, chunk, next_[0][at(chunk)]++); }
  void backward(int chunk) { add(PassPhase::kBackward, chunk, next_[1][at(chunk)]++); }
  void weights(int chunk) { add(PassPhase::kWeights, chunk, next_[2][at(chunk)]++); }

  void backward_then_weights(int chunk) {
    backward(chunk);
    weights(chunk);
  }
  void whole_backward(int chunk) {
    backward_then_weights(chunk);
    slots_.back().is_merged = true;
  }
  void put_off(int chunk) {
    backward(chunk);
    put_off_.push_back(chunk);
  }
  void oldest_weights() {
    weights(put_off_.front());
    put_off_.erase(put_off_.begin());
  }
  void both(int of_forward, int of_backward) {
    forward(of_forward);
    whole_backward(of_backward);
    slots_[slots_.size() - 2].is_merged = true;
  }

  int forward_passes(int chunk) const { return next_[0][at(chunk)]; }
  int backward_passes_without_weights(int chunk) const { return next_[1][at(chunk)] - next_[2][at(chunk)]; }
  std::vector<PipelineSlot> finish() { return std::move(slots_); }

 private:
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }

  void add(PassPhase phase, int chunk, int microbatch) {
    if (microbatch < microbatches_) slots_.push_back({.phase = phase, .chunk = chunk, .microbatch = microbatch});
  }

  int microbatches_;
  std::array<std::array<int, 2>, kPassPhases> next_{};  // [phases][chunks] micro-batch
  std::vector<int> put_off_;                            // chunks, the oldest first
  std::vector<PipelineSlot> slots_;
};

std::vector<PipelineSlot> zero_bubble_v(int stages, int microbatches, int stage) {
  const int after = stages - stage, all = std::max(microbatches, 2 * stages - 1);
  FoldedSlots slots{microbatches};
  for (int i = 0; i < 2 * after - 1; ++i) slots.forward(0);
  for (int i = 0; i < stage; ++i) {
    slots.forward(1);
    slots.forward(0);
  }
  for (int i = 0; i < after; ++i) {
    slots.forward(1);
    slots.backward_then_weights(1);
  }
  while (slots.forward_passes(1) < all) {
    if (slots.forward_passes(0) < all) slots.forward(0);
    slots.backward_then_weights(0);
    slots.forward(1);
    slots.backward_then_weights(1);
  }
  for (int i = 0; i < stage; ++i) {
    slots.backward(0);
    slots.backward(1);
  }
  for (int i = 0; i < after; ++i) slots.backward_then_weights(0);
  for (const int chunk : {1, 0})
    while (slots.backward_passes_without_weights(chunk) > 0) slots.weights(chunk);
  return slots.finish();
}

std::vector<PipelineSlot> dual_pipe_v(int stages, int microbatches, int stage) {
  const int after = stages - 1 - stage, until = stage + 1;
  FoldedSlots slots{microbatches};
  for (int i = 0; i < 2 * after; ++i) slots.forward(0);
  for (int i = 0; i < until; ++i) {
    slots.forward(0);
    slots.forward(1);
  }
  for (int i = 0; i < after; ++i) {
    slots.put_off(1);
    slots.oldest_weights();
    slots.forward(1);
  }
  for (int i = 0; i < microbatches - 2 * stages + until; ++i) {
    if (i == 0 && after == 0) {
      slots.forward(0);
      slots.whole_backward(1);
    } else {
      slots.both(0, 1);
    }
    slots.both(1, 0);
  }
  for (int i = 0; i < after; ++i) {
    slots.whole_backward(1);
    slots.both(1, 0);
  }
  for (int i = 0; i < until; ++i) {
    const int first = until / 2;
    const bool puts_off = i > first || (i == first && stage % 2 == 1);
    puts_off ? slots.put_off(1) : slots.whole_backward(1);
    i >= first ? slots.put_off(0) : slots.whole_backward(0);
  }
  for (int i = 0; i < after; ++i) {
    slots.oldest_weights();
    slots.put_off(0);
  }
  for (int i = 0; i < until; ++i) slots.oldest_weights();
  return slots.finish();
}

std::vector<PipelineSlot> dual_pipe(int stages, int microbatches, int stage) {
  const bool is_of_second_half = 2 * stage >= stages;
  std::vector<PipelineSlot> slots =
      dual_pipe_v(stages / 2, microbatches / 2, is_of_second_half ? stages - 1 - stage : stage);
  if (is_of_second_half)
    for (PipelineSlot& slot : slots) slot.chunk = 1 - slot.chunk;
  return slots;
}

}  // namespace

std::vector<PipelineSlot> pipeline_slots(const Pipeline& pipeline, int microbatches, int stage) {
  if (pipeline.schedule == PipelineSchedule::kZeroBubbleV) return zero_bubble_v(pipeline.stages, microbatches, stage);
  if (pipeline.schedule == PipelineSchedule::kDualPipeV) return dual_pipe_v(pipeline.stages, microbatches, stage);
  if (pipeline.schedule == PipelineSchedule::kDualPipe) return dual_pipe(pipeline.stages, microbatches, stage);
  const int passes = microbatches * pipeline.chunks;
  const int first = forward_passes_first(pipeline, microbatches, stage);
  const int put_off = pipeline.schedule == PipelineSchedule::kZeroBubble2 ? 2 * stage : stage;  // gradients of weights
  std::vector<PipelineSlot> slots;
  slots.reserve(static_cast<std::size_t>(2 * passes));
  for (int k = 0; k < passes + first; ++k) {
    if (k < passes) slots.push_back(pass(PassPhase::kForward, pipeline, microbatches, k));
    if (k < first) continue;
    slots.push_back(pass(PassPhase::kBackward, pipeline, microbatches, k - first));
    const bool is_joined = pipeline.schedule == PipelineSchedule::kInterleaved && k < passes;
    (pipeline.merges_passes ? slots.back().is_merged : slots.back().is_joined) = is_joined;
    if (splits_backward(pipeline) && k - first >= put_off)
      slots.push_back({.phase = PassPhase::kWeights, .microbatch = k - first - put_off});
  }
  if (splits_backward(pipeline))
    for (int k = std::max(0, passes - put_off); k < passes; ++k)
      slots.push_back({.phase = PassPhase::kWeights, .microbatch = k});
  return slots;
}

bool can_have_microbatches(const Pipeline& pipeline, int microbatches) {
  if (pipeline.stages == 1) return true;
  if (is_dual_pipe(pipeline)) return microbatches >= 2 * pipeline.stages && microbatches % pipeline.copies() == 0;
  if (pipeline.schedule != PipelineSchedule::kInterleaved) return true;
  const int left = microbatches % pipeline.group();
  return microbatches >= std::max(pipeline.stages, pipeline.group()) && (left == 0 || left >= pipeline.stages);
}

}  // namespace rehearse
