#pragma once
// A transformer's pass as the kernels that a framework launches one by one.

#include <cstdint>

#include "platforms/kernels/gpu.hpp"
#include "sim/base/units.hpp"

namespace rehearse::kernels {

struct Values;

/// Layers of self-attention and feed-forward network, and a head over the vocabulary, or over classes.
struct Transformer {
  std::int64_t batch = 1, sequence = 1, layers = 1, hidden = 1, heads = 1, feed_forward = 1, vocabulary = 1;
  std::int64_t activation_passes =
      2;                       // over feed_forward numbers of a token: 2, or 18 if it is made of elementary operations
  std::int64_t is_causal = 1;  // 0 or 1
  bool is_training = false;    // the gradients, too, but no optimizer
  Precision precision = Precision::kFp32;

  double flops() const;  // of its products
};

/// Sum over its kernels of each one's bound.
Seconds roofline(const Transformer& transformer, const Gpu& gpu);

/// Sum over its kernels, of t = batch sequence tokens, s = batch heads sequence^2 scores; host and gaps cost nothing:
///   products   4 of t x hidden x hidden, t x feed_forward x hidden and back, scores and output of attention in batches;
///              the head, t x vocabulary x hidden; each two more for the gradients
///   by memory  of s numbers a scaling, a mask, a softmax; of t hidden two norms, two sums, two copies; of t feed_forward
///              the activation. In training dropouts, of s and two of t hidden, and gradients as many, but for those of
///              sums; two of the softmax, whose gradient is multiplied by it in a kernel of its own (SoftMax.cu); the loss's,
///              of t vocabulary; each variable's gradient added to the last step's, as no optimizer sets these to zero
/// As PyTorch's eager mode runs HuggingFace's models without fused attention: operators of calibration/data/neusight-graphs,
/// and NeuSight's neusight/Tracing/trace.py, which measured them.
Seconds transformer_time(const Transformer& transformer, const Gpu& gpu, const Values& values);

}  // namespace rehearse::kernels
