#include "sim/scenario/pipeline_schedule.hpp"

#include <algorithm>

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
    case PipelineSchedule::kInterleaved:
      return std::min(microbatches * pipeline.chunks, 2 * stages_after + (pipeline.chunks - 1) * pipeline.group());
  }
  return 0;
}

}  // namespace

std::vector<PipelineSlot> pipeline_slots(const Pipeline& pipeline, int microbatches, int stage) {
  const int passes = microbatches * pipeline.chunks;
  const int first = forward_passes_first(pipeline, microbatches, stage);
  std::vector<PipelineSlot> slots;
  slots.reserve(static_cast<std::size_t>(2 * passes));
  for (int k = 0; k < passes + first; ++k) {
    if (k < passes) slots.push_back(pass(PassPhase::kForward, pipeline, microbatches, k));
    if (k < first) continue;
    slots.push_back(pass(PassPhase::kBackward, pipeline, microbatches, k - first));
    slots.back().is_joined = pipeline.schedule == PipelineSchedule::kInterleaved && k < passes;
    if (splits_backward(pipeline) && k - first >= stage)
      slots.push_back({.phase = PassPhase::kWeights, .microbatch = k - first - stage});
  }
  if (splits_backward(pipeline))
    for (int k = std::max(0, passes - stage); k < passes; ++k)
      slots.push_back({.phase = PassPhase::kWeights, .microbatch = k});
  return slots;
}

bool can_have_microbatches(const Pipeline& pipeline, int microbatches) {
  if (pipeline.schedule != PipelineSchedule::kInterleaved || pipeline.stages == 1) return true;
  const int left = microbatches % pipeline.group();
  return microbatches >= std::max(pipeline.stages, pipeline.group()) && (left == 0 || left >= pipeline.stages);
}

}  // namespace rehearse
