#include "platforms/kernels/processor.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace rehearse::kernels {

namespace {

constexpr double kBlockRows = 4;            // of registers that hold a block of a product
constexpr double kVectorsPerCycle = 2;      // multiplied and added
constexpr std::int64_t kPlainChannels = 3;  // of an input that is read as it is

double rounded_up(double size, double to) { return std::ceil(size / to) * to; }

/// Numbers in fp32 of a vector.
double lanes(const Gpu& processor) { return std::max(1.0, processor.cores / kVectorsPerCycle); }

/// Channels as they are computed: whole vectors of them.
double vectors_of(std::int64_t channels, const Gpu& processor) {
  return channels <= kPlainChannels ? number(channels) : rounded_up(number(channels), lanes(processor));
}

double cycles_of(StreamingKind kind, const ProcessorStreamingValues& values) {
  const auto row = std::ranges::find(kStreamingKinds, kind, &StreamingRow::value);
  for (const auto& value : ProcessorStreamingValues::table())
    if (std::string_view{value.name} == row->name) return values.*value.member;
  return 0;
}

double cycles_of_row(StreamingKind kind, const ProcessorStreamingValues& values) {
  if (kind == StreamingKind::kBatchNorm) return values.channel;
  if (kind == StreamingKind::kBatchNormBackward) return values.channel_backward;
  return std::ranges::find(kStreamingKinds, kind, &StreamingRow::value)->is_by_rows ? values.row : 0;
}

}  // namespace

Seconds processor_time(const Product& product, const Gpu& processor, const ProcessorProductValues& values) {
  const double calls = product.batch > 1 ? values.batched * number(product.batch) : 0;
  const double flops = 2 * number(product.batch) * rounded_up(number(product.m), kBlockRows) *
                       rounded_up(number(product.n), lanes(processor)) * number(product.k);
  return Seconds{(values.launch + calls) / processor.clock +
                 values.arithmetic * flops / processor.peak(product.precision) +
                 values.memory * product.bytes() / processor.bandwidth};
}

Seconds processor_time(const Convolution& c, const Gpu& processor, const ProcessorConvolutionValues& values) {
  const double outputs = number(c.batch) * c.out_height() * c.out_width();
  const bool is_depthwise = c.groups == c.in_channels && c.groups > 1;
  const double in = is_depthwise ? 1 : vectors_of(c.in_channels / c.groups, processor);
  const double flops = 2 * outputs * rounded_up(number(c.out_channels), lanes(processor)) * in *
                       number(c.kernel_height) * number(c.kernel_width);
  const double weights = bytes_of(c.precision) * number(c.out_channels) * number(c.in_channels) / number(c.groups) *
                         number(c.kernel_height) * number(c.kernel_width);
  const double arithmetic = is_depthwise && c.pass == Pass::kWeights ? values.depthwise_weights : values.arithmetic;
  return Seconds{values.launch / processor.clock + arithmetic * flops / processor.peak(c.precision) +
                 (values.images * (c.bytes() - weights) + values.weights * weights) / processor.bandwidth};
}

Seconds processor_time(const Streaming& kernel, const Gpu& processor, const ProcessorStreamingValues& values) {
  const double bytes = kernel.bytes(), numbers = number(kernel.rows) * number(kernel.columns);
  return Seconds{(values.launch + cycles_of(kernel.kind, values) * numbers +
                  cycles_of_row(kernel.kind, values) * number(kernel.rows)) /
                     processor.clock +
                 values.memory * bytes / processor.bandwidth};
}

}  // namespace rehearse::kernels
