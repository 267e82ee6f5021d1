#include "platforms/kernels/convolution.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::kernels {

namespace {

constexpr double kDirectShare = 0.25;   // of the fp32 units' peak
constexpr double kWinogradSavings = 4;  // FLOPs of direct sums by those of F(4x4, 3x3)
constexpr double kWinogradPasses = 2;   // what is transformed is written and read

double pixels_of(const Convolution& c) { return c.out_height() * c.out_width(); }

bool is_for_winograd(const Convolution& c) {
  return c.kernel_height == 3 && c.kernel_width == 3 && c.stride_height == 1 && c.stride_width == 1 && c.groups == 1 &&
         c.precision == Precision::kFp32;
}

TiledWork implicit_product(const Convolution& c) {
  const double kernel = number(c.kernel_height * c.kernel_width), stride = number(c.stride_height * c.stride_width);
  const double in = number(c.in_channels) / number(c.groups), out = number(c.out_channels) / number(c.groups);
  const double pixels = number(c.batch) * pixels_of(c), groups = number(c.groups);
  switch (c.pass) {
    case Pass::kForward:
      break;
    case Pass::kData:
      return {groups * stride, std::ceil(number(c.batch) * number(c.height) * number(c.width) / stride), in,
              std::max(1.0, out * kernel / stride), c.precision};
    case Pass::kWeights:
      return {groups, out, in * kernel, pixels, c.precision};
  }
  return {groups, pixels, out, in * kernel, c.precision};
}

/// The products of F(edge x edge, 3x3).
TiledWork winograd_products(const Convolution& c, double edge) {
  const bool is_data = c.pass == Pass::kData;
  const double height = is_data ? number(c.height) : c.out_height(), width = is_data ? number(c.width) : c.out_width();
  const double tiles = number(c.batch) * std::ceil(height / edge) * std::ceil(width / edge);
  const double in = number(c.in_channels), out = number(c.out_channels), products = (edge + 2) * (edge + 2);
  if (c.pass == Pass::kWeights) return {products, out, in, tiles, c.precision};
  return {products, tiles, is_data ? in : out, is_data ? out : in, c.precision};
}

}  // namespace

double Convolution::out_height() const {
  return std::max(1.0, std::floor(number(height + 2 * padding_height - kernel_height) / number(stride_height)) + 1);
}
double Convolution::out_width() const {
  return std::max(1.0, std::floor(number(width + 2 * padding_width - kernel_width) / number(stride_width)) + 1);
}

double Convolution::flops() const {
  return 2 * number(batch) * pixels_of(*this) * number(out_channels) * number(in_channels) / number(groups) *
         number(kernel_height) * number(kernel_width);
}

double Convolution::bytes() const {
  return bytes_of(precision) *
         (number(batch) * number(in_channels) * number(height) * number(width) +
          number(batch) * number(out_channels) * pixels_of(*this) +
          number(out_channels) * number(in_channels) / number(groups) * number(kernel_height) * number(kernel_width));
}

Seconds roofline(const Convolution& convolution, const Gpu& gpu) {
  const double savings = is_for_winograd(convolution) ? kWinogradSavings : 1;
  return Seconds{
      std::max(convolution.flops() / savings / gpu.peak(convolution.precision), convolution.bytes() / gpu.bandwidth)};
}

double limited_convolution(const TiledWork& work, double compute, double streaming, const Gpu& gpu,
                           const ConvolutionValues& values) {
  const auto at = [&](double clock) { return combined(compute / clock, streaming, values.sharpness); };
  const double bytes = streaming * gpu.bandwidth * gpu.delivered / values.memory;
  return at(clock_at_limit(gpu, work.precision, work.flops(), bytes, at));
}

ConvolutionPlan plan_convolution(const Convolution& c, const Gpu& gpu, const ConvolutionValues& values) {
  const double rate = gpu.bandwidth * gpu.delivered / values.memory;
  const double streaming = c.bytes() / rate;
  const auto computed = [&](const TiledWork& work, double slower) {
    return limited_convolution(work, slower * plan_tiles(work, gpu, values).time, streaming, gpu, values);
  };
  const double slower = fed_share(gpu.architecture) / implicit_share(gpu.architecture);
  ConvolutionPlan best{.algorithm = Algorithm::kImplicitProduct,
                       .time = Seconds{computed(implicit_product(c), slower)}};
  const auto take = [&best](Algorithm algorithm, double time) {
    if (Seconds{time} < best.time) best = {algorithm, Seconds{time}};
  };
  if (is_for_winograd(c)) {
    const double number_bytes = bytes_of(c.precision), in = number(c.in_channels), out = number(c.out_channels);
    const auto transformed = [&](double numbers) { return kWinogradPasses * numbers * number_bytes / rate; };
    const TiledWork fused = winograd_products(c, 2), unfused = winograd_products(c, 4);
    if (has_fused_winograd(gpu.architecture))
      take(Algorithm::kWinogradFused, computed(fused, values.winograd_fused) + transformed(fused.batch * in * out));
    const double tiles = c.pass == Pass::kWeights ? unfused.k : unfused.m;
    take(Algorithm::kWinogradUnfused,
         computed(unfused, values.winograd_unfused) + transformed(unfused.batch * (in * out + tiles * (in + out))));
  }
  if (c.groups > 1 && c.groups == c.in_channels)
    take(Algorithm::kDirect, combined(c.flops() / (kDirectShare * gpu.vector_peak), streaming, values.sharpness));
  best.time = std::max(best.time + Seconds{values.launch / gpu.clock}, roofline(c, gpu));
  return best;
}

}  // namespace rehearse::kernels
