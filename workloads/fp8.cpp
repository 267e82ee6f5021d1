#include "workloads/fp8.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kBytesOfScale = 4;
constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kMicroBlock = 32, kMicroBlockOf4Bits = 16;  // each with a scale of one byte

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t scale_bytes(Fp8 recipe, std::int64_t sums, std::int64_t terms, bool is_of_weights) {
  switch (recipe) {
    case Fp8::kBlock:
      return kBytesOfScale * divided(terms, kBlock) * (is_of_weights ? divided(sums, kBlock) : sums);
    case Fp8::kMx:
      return divided(terms, kMicroBlock) * sums;
    case Fp8::kNvfp4:
      return divided(terms, kMicroBlockOf4Bits) * sums;
    case Fp8::kRowwise:
      return kBytesOfScale * sums;
    case Fp8::kNone:
    case Fp8::kDelayed:
    case Fp8::kCurrent:
    case Fp8::kTensorwise:
      break;
  }
  return 0;
}

}  // namespace

Bytes cast_bytes(Fp8 recipe, std::int64_t sums, std::int64_t terms, bool is_of_weights) {
  return Bytes{divided(sums * terms * bits_of(recipe), 8) + scale_bytes(recipe, sums, terms, is_of_weights)};
}

}  // namespace rehearse
