#include "platforms/kernels/fft_convolution.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::kernels {

namespace {

constexpr std::int64_t kSmallestKernel = 5;
constexpr double kFftEdge = 32;                                 // pixels of a tile
constexpr double kFrequencies = kFftEdge * (kFftEdge / 2 + 1);  // of real numbers
constexpr double kComplexParts = 2;                             // of a complex number
constexpr double kRoundTrip = 2;                                // what is transformed is written and read
constexpr double kLayouts = 2;

bool is_for_fft(const Convolution& c) {
  return std::min(c.kernel_height, c.kernel_width) >= kSmallestKernel &&
         static_cast<double>(std::max(c.kernel_height, c.kernel_width)) < kFftEdge && c.stride_height == 1 &&
         c.stride_width == 1 && c.groups == 1 && c.precision == Precision::kFp32;
}

double tiles_of(const Convolution& c) {
  const double height = c.pass == Pass::kData ? number(c.height) : c.out_height();
  const double width = c.pass == Pass::kData ? number(c.width) : c.out_width();
  return number(c.batch) * std::ceil(height / (kFftEdge + 1 - number(c.kernel_height))) *
         std::ceil(width / (kFftEdge + 1 - number(c.kernel_width)));
}

double transformed_bytes(const Convolution& c) {
  const double in = number(c.in_channels), out = number(c.out_channels);
  return kFrequencies * kComplexParts * bytes_of(c.precision) * (tiles_of(c) * (in + out) + in * out);
}

}  // namespace

Bytes fft_workspace(const Convolution& c) {
  return is_for_fft(c) ? Bytes{static_cast<std::int64_t>(kLayouts * transformed_bytes(c))} : Bytes{};
}

std::optional<Seconds> fft_time(const Convolution& c, const Gpu& gpu, const ConvolutionValues& values) {
  if (!is_for_fft(c)) return {};
  const double tiles = tiles_of(c);
  const double in = number(c.in_channels), out = number(c.out_channels);
  TiledWork work{kFrequencies, tiles, kComplexParts * out, kComplexParts * in, c.precision};
  if (c.pass == Pass::kData) work = {kFrequencies, tiles, kComplexParts * in, kComplexParts * out, c.precision};
  if (c.pass == Pass::kWeights) work = {kFrequencies, out, kComplexParts * in, kComplexParts * tiles, c.precision};
  const double rate = gpu.bandwidth * gpu.delivered / values.memory;
  const double compute = values.winograd_unfused * plan_tiles(work, gpu, values).time;
  return Seconds{values.launch / gpu.clock + limited_convolution(work, compute, c.bytes() / rate, gpu, values) +
                 kRoundTrip * transformed_bytes(c) / rate};
}

}  // namespace rehearse::kernels
