#pragma once
// Products of linear layers in 8 or 4 bits: how frameworks cast their inputs, weights and gradients.

#include <array>
#include <cstdint>

#include "sim/base/named.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// How the scales of casts are found, and with that what else a framework does.
///   delayed, current   one of a tensor: by earlier steps' largest numbers, or by its own, which takes one more pass over it
///   block              4 bytes of 128 numbers of a sum, of weights of 128 x 128
///   mxfp8              1 byte of 32 numbers of a sum
///   nvfp4              1 byte of 16 numbers of a sum in 4 bits, besides one of the tensor by its own largest number
///   tensorwise         one of a tensor, by its own largest number
///   rowwise            4 bytes of each row, or of each column
/// The first five are Transformer Engine's: casts are kept for the backward pass instead of 16-bit inputs, each in the one layout
/// that it reads; casts of weights serve all micro-batches of a step; all-gathers of positions send casts. The last two are
/// torchao's: 16-bit inputs are kept, and the backward pass casts them and the weights again. Of nvfp4 the rotations (Hadamard) and
/// random rounding of casts take no time of their own.
/// Sources: Transformer Engine, transformer_engine/pytorch/module/linear.py and common/recipe; torchao, float8/float8_linear.py;
/// Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433; Rouhani et al., Microscaling Data Formats, arXiv 2310.10537;
/// DeepSeek-V3, arXiv 2412.19437, section 3.3; NVIDIA, Pretraining Large Language Models with NVFP4, arXiv 2509.25149.
enum class Fp8 : std::uint8_t { kNone, kDelayed, kCurrent, kBlock, kMx, kNvfp4, kTensorwise, kRowwise };

inline constexpr std::array kFp8Recipes{Named{"none", Fp8::kNone},
                                        Named{"delayed", Fp8::kDelayed},
                                        Named{"current", Fp8::kCurrent},
                                        Named{"block", Fp8::kBlock},
                                        Named{"mxfp8", Fp8::kMx},
                                        Named{"nvfp4", Fp8::kNvfp4},
                                        Named{"tensorwise", Fp8::kTensorwise},
                                        Named{"rowwise", Fp8::kRowwise}};

/// Of each factor.
inline int bits_of(Fp8 recipe) { return recipe == Fp8::kNone ? 0 : recipe == Fp8::kNvfp4 ? 4 : 8; }

inline constexpr std::int64_t kFp8Multiple = 16;  // of features of both sides; other products stay in 16 bits

/// Whether casts are kept instead of 16-bit inputs, those of weights serve a whole step, and positions are gathered as casts.
inline bool keeps_casts(Fp8 recipe) { return recipe >= Fp8::kDelayed && recipe <= Fp8::kNvfp4; }
/// Whether sums along rows and along columns read other casts. Else both read the same, transposed where matrix units want that.
inline bool casts_each_way(Fp8 recipe) {
  return recipe == Fp8::kBlock || recipe == Fp8::kMx || recipe == Fp8::kNvfp4 || recipe == Fp8::kRowwise;
}
/// Times that a cast reads the tensor: once more to find its largest number first.
inline int reads_of_cast(Fp8 recipe) {
  return recipe == Fp8::kCurrent || recipe == Fp8::kNvfp4 || recipe == Fp8::kTensorwise ? 2 : 1;
}
/// Bytes of a cast of so many `sums` of `terms` numbers each, and of its scales, rounded up.
Bytes cast_bytes(Fp8 recipe, std::int64_t sums, std::int64_t terms, bool is_of_weights = false);

}  // namespace rehearse
