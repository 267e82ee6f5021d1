#pragma once
// Kernels on one thread of a processor: no waves over multiprocessors, but vectors to fill, data to pack, and caches.
// An accelerator of kProcessorArchitecture (gpu.hpp) is such a thread; its "cores_per_multiprocessor" are the numbers in fp32
// that it multiplies and adds in a cycle: twice those of a vector, for two units.

#include <array>

#include "platforms/kernels/convolution.hpp"
#include "platforms/kernels/gpu.hpp"
#include "platforms/kernels/product.hpp"
#include "platforms/kernels/streaming.hpp"
#include "platforms/kernels/value.hpp"
#include "sim/base/units.hpp"

namespace rehearse::kernels {

struct ProcessorProductValues {
  double launch = 3000;     // cycles of a call besides its work
  double batched = 1500;    // cycles of each product of a batch besides its work
  double arithmetic = 1.1;  // time by FLOPs / peak
  double memory = 0.5;      // time of the operands by bytes / bandwidth: packed for the caches, which hides a part

  static constexpr std::array<Value<ProcessorProductValues>, 4> table() {
    return {{{"launch", &ProcessorProductValues::launch, 10, 1e6},
             {"batched", &ProcessorProductValues::batched, 10, 1e6},
             {"arithmetic", &ProcessorProductValues::arithmetic, 0.5, 10},
             {"memory", &ProcessorProductValues::memory, 1e-3, 20}}};
  }
};

/// launch / clock + arithmetic FLOPs' / peak + memory bytes / bandwidth, and batched / clock for each product of a batch
/// of more than one. FLOPs' are those of m, n rounded up to blocks of registers: 4 rows by a vector's columns.
/// Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008: operands are
/// packed once, then multiplied in blocks that registers hold.
Seconds processor_time(const Product& product, const Gpu& processor, const ProcessorProductValues& values);

struct ProcessorConvolutionValues {
  double launch = 60000;         // cycles of a call besides its work: three changes of layout and the convolution
  double arithmetic = 1.1;       // time by FLOPs / peak
  double depthwise_weights = 8;  // the same of the gradient of depthwise weights
  double images = 1;             // time of what is read and written for an image, by bytes / bandwidth
  double weights = 2;            // the same of weights

  static constexpr std::array<Value<ProcessorConvolutionValues>, 5> table() {
    return {{{"launch", &ProcessorConvolutionValues::launch, 10, 1e7},
             {"arithmetic", &ProcessorConvolutionValues::arithmetic, 0.5, 10},
             {"depthwise_weights", &ProcessorConvolutionValues::depthwise_weights, 0.5, 1000},
             {"images", &ProcessorConvolutionValues::images, 1e-3, 50},
             {"weights", &ProcessorConvolutionValues::weights, 1e-3, 50}}};
  }
};

/// launch / clock + arithmetic FLOPs' / peak + (images (input + output) + weights weights) / bandwidth. FLOPs' are those
/// of channels rounded up to whole vectors, but for up to three of the input. All passes alike: each changes two tensors
/// from rows of pixels to blocks of channels, or back; but the gradient of depthwise weights has depthwise_weights for
/// arithmetic.
/// Source: Georganas et al., Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures, SC 2018:
/// vectors along the channels; measured with oneDNN 2.6 (tests/calibration/microbench).
Seconds processor_time(const Convolution& convolution, const Gpu& processor, const ProcessorConvolutionValues& values);

/// Cycles of arithmetic for a number, by kind, besides what memory and calls cost all kinds.
struct ProcessorStreamingValues {
  double launch = 2000;                            // cycles of a call besides its work
  double memory = 0.5;                             // time by bytes / bandwidth
  double channel = 2000, channel_backward = 6000;  // cycles for each channel of a batch normalisation (its rows)
  double row = 50;                                 // and for each row of other kernels by rows
  double unary = 0.1, binary = 0.1, copy = 0.1, reduction = 0.1, softmax = 2, softmax_backward = 1, layer_norm = 0.5,
         layer_norm_backward = 1, embedding = 0.1, embedding_backward = 0.1, cross_entropy = 5, sgd = 0.1,
         momentum = 0.1, adam = 0.5, batch_norm = 1, batch_norm_backward = 1, gelu = 2, gelu_backward = 3, pooling = 3,
         pooling_backward = 0.5;

  static constexpr std::array<Value<ProcessorStreamingValues>, 25> table() {
    using Own = ProcessorStreamingValues;
    constexpr double kLeast = 1e-3, kMost = 1000;
    return {{{"launch", &Own::launch, 10, 1e6},
             {"memory", &Own::memory, 1e-3, 20},
             {"channel", &Own::channel, 1, 1e6},
             {"channel_backward", &Own::channel_backward, 1, 1e6},
             {"row", &Own::row, 0.1, 1e5},
             {"unary", &Own::unary, kLeast, kMost},
             {"binary", &Own::binary, kLeast, kMost},
             {"copy", &Own::copy, kLeast, kMost},
             {"reduction", &Own::reduction, kLeast, kMost},
             {"softmax", &Own::softmax, kLeast, kMost},
             {"softmax_backward", &Own::softmax_backward, kLeast, kMost},
             {"layer_norm", &Own::layer_norm, kLeast, kMost},
             {"layer_norm_backward", &Own::layer_norm_backward, kLeast, kMost},
             {"embedding", &Own::embedding, kLeast, kMost},
             {"embedding_backward", &Own::embedding_backward, kLeast, kMost},
             {"cross_entropy", &Own::cross_entropy, kLeast, kMost},
             {"sgd", &Own::sgd, kLeast, kMost},
             {"momentum", &Own::momentum, kLeast, kMost},
             {"adam", &Own::adam, kLeast, kMost},
             {"batch_norm", &Own::batch_norm, kLeast, kMost},
             {"batch_norm_backward", &Own::batch_norm_backward, kLeast, kMost},
             {"gelu", &Own::gelu, kLeast, kMost},
             {"gelu_backward", &Own::gelu_backward, kLeast, kMost},
             {"pooling", &Own::pooling, kLeast, kMost},
             {"pooling_backward", &Own::pooling_backward, kLeast, kMost}}};
  }
};

/// (launch + (cycles of its kind) numbers + (cycles of a row or channel) rows) / clock
///   + memory bytes / bandwidth.
Seconds processor_time(const Streaming& kernel, const Gpu& processor, const ProcessorStreamingValues& values);

}  // namespace rehearse::kernels
