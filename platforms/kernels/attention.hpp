#pragma once
// Attention, of separate kernels or fused into one.

#include <cstdint>

#include "platforms/kernels/kernels.hpp"

namespace rehearse::kernels {

/// softmax(Q K^T / sqrt(d)) V. Grouped queries: `key_heads` heads of keys and values serve `heads` of queries.
struct Attention {
  std::int64_t batch = 1, heads = 1, key_heads = 1;
  std::int64_t queries = 1, keys = 1;  // tokens
  std::int64_t head_size = 1;          // of queries and keys
  std::int64_t value_size = 0;         // of values and of the output; 0: as head_size
  bool is_causal = false;              // a query sees the keys up to its own place: half of the products
  bool is_backward = false;
  bool is_fused = true;
  Precision precision = Precision::kBf16;

  std::int64_t size_of_values() const { return value_size > 0 ? value_size : head_size; }
  /// 2 batch heads queries keys (head_size + value_size), half of it if causal; backward twice that, fused the scores once
  /// more: (3 head_size + 2 value_size) / (head_size + value_size) of it, 2.5 if both are the same.
  double flops() const;
  double bytes() const;  // Q, K, V and the output once; backward twice
};

/// max(FLOPs / peak, bytes / bandwidth).
Seconds roofline(const Attention& attention, const Gpu& gpu);

/// Unfused: a batched product for the scores, one kernel that scales and masks them, their softmax, a batched product
/// with the values; backward two products for each, and the softmax's gradient. Nothing is left out for causal ones.
/// Fused, as FlashAttention-2: launch / clock + beside_memory(compute, memory), compute = FLOPs arithmetic / (peak e) with e of
/// products (values.products_reduced) and what FlashAttention-2 reaches beside them, 0.75 forward and 0.65 backward, or 0.35
/// and 0.30 where products overlap their tiles by asynchronous copies, which it does not use; at clock_at_limit(); on as many
/// multiprocessors as blocks of 128 queries fill. No less than roofline().
/// Source: Dao, FlashAttention-2, arXiv:2307.08691, 2023, section 4.1: up to 73 % of an A100's peak forward, 63 % backward;
/// Shah et al., FlashAttention-3, arXiv:2407.08608, 2024, abstract: FlashAttention-2 reaches 35 % of an H100's. That backward
/// passes lose as much there as on an A100 is assumed. These shares are not fitted here.
Seconds attention_time(const Attention& attention, const Gpu& gpu, const Values& values);

/// What kernels made for the architecture take, which no framework's rate goes below: FLOPs / (peak e), on as many
/// multiprocessors as blocks of queries fill, with e what cuDNN reaches of the peak, heads of 128 numbers, causal or not: on
/// Hopper 0.70 forward, 0.59 backward (9.19, an H200, 16,384 and 32,768 tokens), on Blackwell 0.62 and 0.48 (9.13, a B200,
/// 32,768 to 131,072). There exponentials and the traffic of shared memory, of which a multiprocessor does as many per cycle
/// as Hopper's, take as long as products that are twice as fast. 0 of other architectures, and unfused.
/// Sources: NVIDIA, cudnn-frontend, benchmark/sdpa_benchmark_training, artifacts of commit bb37575 (B200) and
/// results/h200_919_only_cudnn (H200); Zadouri et al., FlashAttention-4, arXiv:2603.05451, 2026 (exponentials, shared memory).
Seconds least_attention_time(const Attention& attention, const Gpu& gpu);

}  // namespace rehearse::kernels
