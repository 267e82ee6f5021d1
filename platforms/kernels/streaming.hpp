#pragma once
// Kernels that are bound by memory: element by element, row by row, copies, updates.

#include <array>
#include <cstdint>

#include "platforms/kernels/gpu.hpp"
#include "platforms/kernels/value.hpp"
#include "sim/base/units.hpp"

namespace rehearse::kernels {

/// What such a kernel does to a matrix of rows x columns numbers.
enum class StreamingKind {
  kUnary,
  kBinary,
  kCopy,
  kReduction,
  kSoftmax,
  kSoftmaxBackward,
  kLayerNorm,
  kLayerNormBackward,
  kEmbedding,
  kEmbeddingBackward,
  kCrossEntropy,
  kSgd,
  kMomentum,
  kAdam,
  kBatchNorm,
  kBatchNormBackward,
  kGelu,
  kGeluBackward,
  kPooling,
  kPoolingBackward
};

/// A kind: how often it reads or writes all numbers, and whether a row's numbers depend on each other. Rows longer than
/// `in_registers` numbers are read again, `rereads` passes, while a multiprocessor has `rows_held` of them at once.
struct StreamingRow {
  const char* name;
  StreamingKind value;
  double passes;
  bool is_by_rows;
  double rereads = 0, in_registers = 0, rows_held = 0;
};
// Of PyTorch 2.1's kernels: a warp keeps 1024 numbers of a softmax, longer rows have blocks of 512 threads (4 at once), those
// of norms 128 (16 at once).
inline constexpr std::array kStreamingKinds{
    StreamingRow{"unary", StreamingKind::kUnary, 2, false},    // relu, gelu, by a scalar: x -> y
    StreamingRow{"binary", StreamingKind::kBinary, 3, false},  // x, y -> z
    StreamingRow{"copy", StreamingKind::kCopy, 2, false},
    StreamingRow{"reduction", StreamingKind::kReduction, 1, true},  // a number for each row
    StreamingRow{"softmax", StreamingKind::kSoftmax, 2, true, 2, 1024, 4},
    StreamingRow{"softmax_backward", StreamingKind::kSoftmaxBackward, 3, true, 2, 1024, 4},
    StreamingRow{"layer_norm", StreamingKind::kLayerNorm, 2, true, 1, 0, 16},
    StreamingRow{"layer_norm_backward", StreamingKind::kLayerNormBackward, 3, true, 2, 0, 16},
    StreamingRow{"embedding", StreamingKind::kEmbedding, 2, false},  // a row of the table for each token
    StreamingRow{"embedding_backward", StreamingKind::kEmbeddingBackward, 3, false},
    StreamingRow{"cross_entropy", StreamingKind::kCrossEntropy, 2, true, 2, 1024, 4},  // of logits, with their gradient
    StreamingRow{"sgd", StreamingKind::kSgd, 3, false},                                // p, g -> p, in one kernel
    StreamingRow{"momentum", StreamingKind::kMomentum, 5, false},                      // p, g, m -> p, m
    StreamingRow{"adam", StreamingKind::kAdam, 7, false},                              // p, g, m, v -> p, m, v
    StreamingRow{"batch_norm", StreamingKind::kBatchNorm, 3, false},                   // of training: x twice
    StreamingRow{"batch_norm_backward", StreamingKind::kBatchNormBackward, 5, false},
    StreamingRow{"gelu", StreamingKind::kGelu, 2, false},
    StreamingRow{"gelu_backward", StreamingKind::kGeluBackward, 3, false},
    StreamingRow{"pooling", StreamingKind::kPooling, 1.25, false},  // numbers that are read; 2 x 2 of them make one
    StreamingRow{"pooling_backward", StreamingKind::kPoolingBackward, 1.5, false}};

struct Streaming {
  StreamingKind kind = StreamingKind::kUnary;
  std::int64_t rows = 1, columns = 1;
  Precision precision = Precision::kFp32;

  double flops() const { return 0; }  // never what bounds it
  double bytes() const;               // passes * rows * columns numbers
};

struct StreamingValues {
  double launch = 4000;  // cycles from the launch to the end besides the work
  double memory = 1.1;   // time of the memory by bytes / delivered bandwidth, >= 1
  double number = 20;    // cycles of a core for a number of a row that is read again
  double row = 100;      // cycles for a row, of kernels by rows

  static constexpr std::array<Value<StreamingValues>, 4> table() {
    return {{{"launch", &StreamingValues::launch, 500, 20000},
             {"memory", &StreamingValues::memory, 1, 4},
             {"number", &StreamingValues::number, 1e-3, 500},
             {"row", &StreamingValues::row, 1e-3, 10000}}};
  }
};

/// bytes / bandwidth.
Seconds roofline(const Streaming& kernel, const Gpu& gpu);

/// launch / clock + memory (passes + missed rereads) rows columns numbers / delivered bandwidth
///   + (number rows columns / cores + row rows) / (multiprocessors clock), no less than roofline()
/// rereads and number of rows longer than in_registers, row of all kernels by rows;
///   missed   share of what is read again that L2 does not have any more: clamp(held / L2 - 1 / 2, 0, 1), held: the rows that
///            all multiprocessors have at once. Results take the other half of L2.
/// Source: Williams et al., Roofline, CACM 52(4), 2009; passes, registers and blocks as the kernels of PyTorch 2.1.
Seconds streaming_time(const Streaming& kernel, const Gpu& gpu, const StreamingValues& values);

/// The same of a kernel of which only its bytes are known, and whose numbers do not depend on each other by rows.
Seconds memory_time(double bytes, const Gpu& gpu, const StreamingValues& values);

/// Numbers that the block of threads of one channel reads and writes in a second, in a batch norm of images whose channels are
/// first: each waits for its loads, in fewer bytes for numbers of 16 bits. Measured on an H200, fp32, channels of 32 x 112 x 112
/// and 32 x 56 x 56 numbers (calibration/data/h200-layers, kernels.csv): cuDNN's bn_fw_tr_1C11_kernel_NCHW 5.2e9 and 4.3e9, its
/// bn_bw_1C11_kernel_new 3.4e9 and 2.6e9.
inline constexpr double kChannelRate = 4.7e9, kChannelRateBackward = 3e9;

/// The same of a batch norm with one block of threads for each channel, which few channels bound:
/// launch / clock + max(memory bytes / delivered bandwidth, bytes / bytes of a number / (channels rate)).
Seconds channel_time(double bytes, double channels, bool is_backward, Precision precision, const Gpu& gpu,
                     const StreamingValues& values);

}  // namespace rehearse::kernels
