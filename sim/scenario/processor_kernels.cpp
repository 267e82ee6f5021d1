#include "sim/scenario/processor_kernels.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rehearse {

namespace {

using kernels::StreamingKind;

constexpr double kBytesOfNumber = 4;    // fp32
constexpr double kSmallestShare = 0.2;  // of an output in the input of a pooling by windows: 2 x 2 have a quarter

std::int64_t numbers(Bytes bytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(as_double(bytes) / kBytesOfNumber));
}

bool is_softmax(const Operator& op) {
  const std::string_view name = op.name;
  return name.ends_with("/softmax") || name.ends_with("/softmax/gradient");
}

/// Over an output whose rows are its last dimension.
kernels::Kernel by_rows(StreamingKind kind, const Operator& op) {
  kernels::Streaming kernel{.kind = kind};
  if (op.output_shape.empty()) return kernel;
  kernel.columns = op.output_shape.back();
  for (std::size_t i = 0; i + 1 < op.output_shape.size(); ++i) kernel.rows *= op.output_shape[i];
  return kernel;
}

/// A batch normalisation has a row for each channel.
kernels::Kernel by_channels(StreamingKind kind, const Operator& op) {
  auto kernel = std::get<kernels::Streaming>(by_rows(kind, op));
  std::swap(kernel.rows, kernel.columns);
  return kernel;
}

kernels::Kernel kernel_over(StreamingKind kind, Bytes bytes) {
  return kernels::Streaming{.kind = kind, .rows = 1, .columns = numbers(bytes)};
}

std::optional<kernels::Kernel> forward_kernel(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::kBatchNorm:
      return by_channels(StreamingKind::kBatchNorm, op);
    case OperatorKind::kLayerNorm:
      return by_rows(StreamingKind::kLayerNorm, op);
    case OperatorKind::kActivation:
      return kernel_over(is_softmax(op)    ? StreamingKind::kSoftmax
                         : op.is_composite ? StreamingKind::kGelu
                                           : StreamingKind::kUnary,
                         op.bytes_written);
    case OperatorKind::kPooling:
      return kernel_over(as_double(op.bytes_written) < kSmallestShare * as_double(op.bytes_read)
                             ? StreamingKind::kReduction
                             : StreamingKind::kPooling,
                         op.bytes_read);
    case OperatorKind::kEmbedding:
      return kernel_over(StreamingKind::kEmbedding, op.bytes_written);
    case OperatorKind::kSoftmaxLoss:
      return by_rows(StreamingKind::kCrossEntropy, op);
    default:
      break;
  }
  const bool reads_several = as_double(op.bytes_read) > 1.5 * as_double(op.bytes_written);
  return kernel_over(reads_several ? StreamingKind::kBinary : StreamingKind::kUnary, op.bytes_written);
}

std::optional<kernels::Kernel> backward_kernel(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::kBatchNorm:
      return by_channels(StreamingKind::kBatchNormBackward, op);
    case OperatorKind::kLayerNorm:
      return by_rows(StreamingKind::kLayerNormBackward, op);
    case OperatorKind::kActivation:
      return kernel_over(is_softmax(op)    ? StreamingKind::kSoftmaxBackward
                         : op.is_composite ? StreamingKind::kGeluBackward
                                           : StreamingKind::kBinary,
                         op.bytes_written);
    case OperatorKind::kPooling:
      return kernel_over(as_double(op.bytes_read) < (1 + kSmallestShare) * as_double(op.bytes_written)
                             ? StreamingKind::kUnary
                             : StreamingKind::kPoolingBackward,
                         op.bytes_written);
    case OperatorKind::kEmbedding:  // the gradient of the table is cleared, then rows are added
      return kernel_over(StreamingKind::kEmbeddingBackward, Bytes{op.bytes_written.value() / 2});
    default:
      break;
  }
  if (op.phase == Phase::kBackwardWeights) return kernel_over(StreamingKind::kReduction, op.bytes_read);
  if (as_double(op.bytes_written) > 1.5 * as_double(op.bytes_read)) return {};
  const bool reads_several = as_double(op.bytes_read) > 1.5 * as_double(op.bytes_written);
  return kernel_over(reads_several ? StreamingKind::kBinary : StreamingKind::kUnary, op.bytes_written);
}

}  // namespace

std::optional<kernels::Kernel> streaming_on_processor(const Operator& op) {
  return op.phase == Phase::kForward ? forward_kernel(op) : backward_kernel(op);
}

}  // namespace rehearse
