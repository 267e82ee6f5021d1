#pragma once
// Convolutions of large kernels through the frequencies of their images. Frameworks that try a library's algorithms take them
// where they are faster than plan_convolution()'s.

#include <optional>

#include "platforms/kernels/convolution.hpp"

namespace rehearse::kernels {

/// Of what is transformed, before and after the transposition that brings the numbers of a frequency together; 0 where fft_time() has
/// none.
Bytes fft_workspace(const Convolution& convolution);

/// Time by Fourier transforms of tiles of 32 x 32 pixels, which overlap by the kernel: T = batch ceil(h / (33 - kernel
/// height)) ceil(w / (33 - kernel width)) tiles have 32 * 17 frequencies each, of two numbers. For each frequency there is
/// a complex product T x (in channels) x (out channels), 4 multiplications for each of it, whose transforms are kernels of
/// their own, as those of unfused Winograd: winograd_unfused times its tiles' time (plan_tiles()); what is transformed is
/// written and read. None of kernels below 5 x 5, strides, groups and other precisions than fp32 (libraries have none, or
/// the fits of plan_convolution() have seen it). Nothing is fitted. Sources: Mathieu et al., Fast Training of Convolutional
/// Networks through FFTs, arXiv:1312.5851, 2013; cuDNN Developer Guide, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING.
std::optional<Seconds> fft_time(const Convolution& convolution, const Gpu& gpu, const ConvolutionValues& values,
                                double energy);

}  // namespace rehearse::kernels
