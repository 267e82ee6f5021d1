#pragma once
// Convolutions of images, forward and backward: which algorithm a library takes, and how long that takes.

#include <array>
#include <cstdint>

#include "platforms/kernels/gpu.hpp"
#include "platforms/kernels/tiles.hpp"
#include "platforms/kernels/value.hpp"
#include "sim/base/named.hpp"
#include "sim/base/units.hpp"

namespace rehearse::kernels {

/// The output, the gradient of the input ("data") or that of the weights.
enum class Pass { kForward, kData, kWeights };
inline constexpr std::array kPasses{Named{"forward", Pass::kForward}, Named{"data", Pass::kData},
                                    Named{"weights", Pass::kWeights}};

struct Convolution {
  std::int64_t batch = 1, in_channels = 1, out_channels = 1;  // channels of all groups together
  std::int64_t height = 1, width = 1;                         // of the input
  std::int64_t kernel_height = 1, kernel_width = 1, stride_height = 1, stride_width = 1;
  std::int64_t padding_height = 0, padding_width = 0;
  std::int64_t groups = 1;  // as many as channels: depthwise
  Pass pass = Pass::kForward;
  Precision precision = Precision::kFp32;

  double out_height() const;  // (height + 2 padding - kernel) / stride + 1, rounded down
  double out_width() const;
  double flops() const;  // 2 batch out_height out_width out_channels in_channels / groups kernel, of direct sums
  double bytes() const;  // input, weights and output once
};

enum class Algorithm { kImplicitProduct, kWinogradFused, kWinogradUnfused, kDirect };

struct ConvolutionValues : TileValues {
  double launch = 4000;         // cycles from the launch to the end besides the work
  double memory = 1.1;          // time of the memory by bytes / delivered bandwidth, >= 1
  double sharpness = 2.5;       // of the passage from one bound to the other
  double winograd_fused = 1.4;  // cycles of Winograd's products by those of other ones, transforms in the same kernel
  double winograd_unfused = 1.05;  // the same with kernels of their own for transforms

  static constexpr std::array<Value<ConvolutionValues>, 10> table() {
    return {{{"launch", &ConvolutionValues::launch, 500, 40000},
             {"arithmetic", &ConvolutionValues::arithmetic, 1, 3},
             {"operands", &ConvolutionValues::operands, 1e-3, 6},
             {"wave", &ConvolutionValues::wave, 1, 20000},
             {"step", &ConvolutionValues::step, 1, 40000},
             {"split", &ConvolutionValues::split, 1, 80000},
             {"memory", &ConvolutionValues::memory, 1, 4},
             {"sharpness", &ConvolutionValues::sharpness, 1, 10},
             {"winograd_fused", &ConvolutionValues::winograd_fused, 0.5, 4},
             {"winograd_unfused", &ConvolutionValues::winograd_unfused, 0.5, 4}}};
  }
};

/// max(FLOPs / peak, bytes / bandwidth), where Winograd's algorithm may be taken with its 4 times fewer FLOPs.
Seconds roofline(const Convolution& convolution, const Gpu& gpu);

struct ConvolutionPlan {
  Algorithm algorithm = Algorithm::kImplicitProduct;
  Seconds time{};
};

/// The fastest algorithm, and launch / clock; no less than roofline(). Each computes tiles (plan_tiles()) of a product
/// m x n with sums of k terms, beside what memory takes, memory bytes / delivered bandwidth:
///   implicit product   groups of (batch out_height out_width) x (out_channels) x (in_channels kernel); the gradient of
///                      the data has input pixels and channels in their place, and each of stride^2 products has
///                      1 / stride^2 of the terms; that of the weights is out_channels x (in_channels kernel) x (pixels);
///                      fed_share() / implicit_share() times their time
///   Winograd, fused    F(2x2, 3x3): 16 products of (pixels / 4) x out x in, 2.25 times fewer FLOPs, winograd_fused
///                      times their time; transformed weights are written and read; where has_fused_winograd()
///   Winograd, unfused  F(4x4, 3x3): 36 products of (pixels / 16) x out x in, 4 times fewer FLOPs, winograd_unfused
///                      times their time; everything transformed is written and read
///   direct             depthwise alone: FLOPs at a quarter of the fp32 units' peak
/// Winograd's are for kernels of 3 x 3, stride 1, one group, fp32. Sources: Chetlur et al., cuDNN, arXiv:1410.0759, 2014;
/// Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016. The quarter is not fitted.
ConvolutionPlan plan_convolution(const Convolution& convolution, const Gpu& gpu, const ConvolutionValues& values);

/// s of `work`, which takes `compute` s at the full clock, beside `streaming` s of memory, at clock_at_limit().
double limited_convolution(const TiledWork& work, double compute, double streaming, const Gpu& gpu,
                           const ConvolutionValues& values);

}  // namespace rehearse::kernels
