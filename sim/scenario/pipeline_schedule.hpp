#pragma once
// What each stage of a pipeline does in a step, in which order, as a list: programs walk it (compile_pipeline.cpp), and so does
// the memory of a stage. A schedule is a generator of such lists.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/scenario/strategy.hpp"

namespace rehearse {

/// Which part of a micro-batch's work a pass is. Where a schedule splits the backward pass, gradients of weights are computed in
/// passes of their own, and backward ones give those of what they have read.
enum class PassPhase : std::uint8_t { kForward, kBackward, kWeights };
inline constexpr std::size_t kPassPhases = 3;

/// A pass of a stage: a micro-batch through one of its chunks.
struct PipelineSlot {
  PassPhase phase = PassPhase::kForward;
  int chunk = 0, microbatch = 0;
  /// With messages that block: nothing is exchanged between the pass before and this one. What both receive has come before
  /// the first of them, and what both send goes after the last.
  bool is_joined = false;
  /// One with the pass before: it waits for what both receive, and sends what both send when it has ended. A forward and a backward
  /// pass that are one run in turns, each while what the other exchanges between workers that hold layers together is on its way.
  bool is_merged = false;

  bool operator==(const PipelineSlot&) const = default;
};

/// The passes of stage r of p in a step of m micro-batches, with v chunks. The k-th forward pass, k from 0, takes micro-batches
/// in groups of G (Pipeline::group()), each group through one chunk after the other. With g = G, or what is left for the last
/// group, it is of
///   chunk (k mod G v) / g, micro-batch floor(k / (G v)) G + (k mod G v) mod g
/// and the k-th backward pass of the same micro-batch and the chunk v - 1 less that one. A stage has w forward passes, then
/// forward and backward ones in turns, then the backward ones that are left:
///   gpipe         w = m
///   1f1b          w = min(m, p - 1 - r)
///   interleaved   w = min(m v, 2 (p - 1 - r) + (v - 1) G), one more if a forward and a backward pass that are in turns are merged
///   zb1p          w = min(m, p - 1 - r); the i-th gradients of weights, from 0, follow the (i + r)-th backward pass, and the last r
///                 ones the last backward pass, so that every stage keeps p micro-batches of what they read
///   zb2p          the same with 2 (p - 1 - r) and 2 r, so that every stage keeps 2 p - 1: none waits between its first pass and its
///                 last one, with passes alike. Steps of which each ends with its slowest stage are no shorter than with zb1p:
///                 Pipeline::validates_afterwards
/// Every stage comes to the end of its list, with each pass waiting for what it receives, if each group has at least p
/// micro-batches; with shorter ones between others it may not.
///
/// Where the model is folded (Pipeline::part_of()), F0 is a forward pass of the first chunk, B1 a backward one of the second, W their
/// gradients of weights. Of each kind micro-batches come in order. r' = p - r.
///   zbv           (2 r' - 1) F0, r (F1 F0), r' (F1 B1 W1), then (F0 B0 W0 F1 B1 W1) as long as there are forward passes, without F0
///                 in the end, r (B0 B1), r' (B0 W0), and the gradients of weights that are left. Fewer than 2 p - 1
///                 micro-batches are those of so many, without the others.
///   dualpipev     2 (r' - 1) F0, r + 1 (F0 F1), r' - 1 (B1 W F1), m - 2 p + r + 1 (F0B1 F1B0), r' - 1 (B1 F1B0), r + 1 (B1 B0),
///                 r' - 1 (W B0), r + 1 W. F0B1 is one pass, but for the first one of the last stage. Backward passes are one with
///                 their gradients of weights, but for those before a W and, from the middle of (B1 B0) on, all; these are put off,
///                 and a W takes the oldest.
///   dualpipe      with m / 2 micro-batches in each direction, r'' = min(r, p - 1 - r): the list of stage r'' of dualpipev with p / 2
///                 stages and m / 2 micro-batches, whose first chunk is the part of the copy that has begun nearer to the stage
/// With passes of chunks that take F = B = W, and free messages, a step takes (p - 1) F more than its passes with zbv, for which the
/// last stage waits for its first micro-batch, 2 (p - 1) F with dualpipev and 2 (p / 2 - 1) F with dualpipe. They keep 2 p, 2 p + 1
/// and p + 1 chunks.
/// Sources: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream-2BW, ICML 2021, and SC 2021 (2104.04473), section 2.2;
/// Megatron-LM, core/pipeline_parallel/schedules.py, for groups, and for which passes messages that block are exchanged between;
/// Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (2401.10241), for zb1p and zb2p (ZB-H1, ZB-H2), and with PyTorch's ScheduleZBVZeroBubble
/// (torch.distributed.pipelining) for zbv; DeepSeek-AI, DualPipe (github.com/deepseek-ai/DualPipe), for dualpipe
/// and dualpipev.
/// Micro-batches of a slot are numbered among those of its copy of the model, m / copies.
std::vector<PipelineSlot> pipeline_slots(const Pipeline& pipeline, int microbatches, int stage);

/// Whether a step can have so many micro-batches: no group of an interleaved pipeline, the last one neither, has fewer than stages,
/// as in Megatron-LM; dualpipe and dualpipev have at least 2 p, dualpipe an even number.
bool can_have_microbatches(const Pipeline& pipeline, int microbatches);

/// DualPipe, with one copy of the model or two.
inline bool is_dual_pipe(const Pipeline& pipeline) {
  return pipeline.schedule == PipelineSchedule::kDualPipeV || pipeline.schedule == PipelineSchedule::kDualPipe;
}

inline bool splits_backward(const Pipeline& pipeline) {
  return pipeline.schedule == PipelineSchedule::kZeroBubble || pipeline.schedule == PipelineSchedule::kZeroBubble2 ||
         pipeline.is_folded();
}

}  // namespace rehearse
