// Streaming kernels as a framework's library has them: element by element with a grid-stride loop, or a block for each
// row (of a batch normalisation: each channel).

#include <cuda_fp16.h>

#include <algorithm>

#include "calibration/microbench/cuda_kernels.hpp"
#include "platforms/kernels/streaming.hpp"

namespace rehearse::microbench {

namespace {

using kernels::StreamingKind;

constexpr int kThreads = 256;
constexpr int kMostBlocks = 65535;
constexpr int kWarp = 32;

__device__ float load(const float* from, std::int64_t i) { return from[i]; }
__device__ float load(const __half* from, std::int64_t i) { return __half2float(from[i]); }
__device__ void store(float* to, std::int64_t i, float value) { to[i] = value; }
__device__ void store(__half* to, std::int64_t i, float value) { to[i] = __float2half(value); }

template <class Number>
struct Arrays {
  Number *x, *y, *z, *m, *v;
  const std::int64_t* indices;
  std::int64_t rows, columns;
};

/// z of x (and y); updates of x by the gradient y with the states m and v.
template <StreamingKind kKind, class Number>
__global__ void by_elements(Arrays<Number> a) {
  const std::int64_t count = a.rows * a.columns, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += stride) {
    const float x = load(a.x, i);
    if constexpr (kKind == StreamingKind::kUnary) {
      store(a.z, i, fmaxf(x, 0.0F));
    } else if constexpr (kKind == StreamingKind::kBinary) {
      store(a.z, i, load(a.y, i) > 0 ? x : 0.0F);
    } else if constexpr (kKind == StreamingKind::kCopy) {
      store(a.z, (i % a.columns) * a.rows + i / a.columns, x);
    } else if constexpr (kKind == StreamingKind::kGelu) {
      store(a.z, i, 0.5F * x * (1 + erff(x * 0.70710678F)));
    } else if constexpr (kKind == StreamingKind::kGeluBackward) {
      const float density = 0.39894228F * expf(-0.5F * x * x);
      store(a.z, i, load(a.y, i) * (0.5F * (1 + erff(x * 0.70710678F)) + x * density));
    } else if constexpr (kKind == StreamingKind::kEmbedding) {
      store(a.z, i, load(a.x, a.indices[i / a.columns] * a.columns + i % a.columns));
    } else if constexpr (kKind == StreamingKind::kEmbeddingBackward) {
      atomicAdd(a.z + a.indices[i / a.columns] * a.columns + i % a.columns, a.x[i]);
    } else if constexpr (kKind == StreamingKind::kSgd) {
      store(a.x, i, x - 1e-6F * load(a.y, i));
    } else if constexpr (kKind == StreamingKind::kMomentum) {
      const float m = 0.9F * load(a.m, i) + load(a.y, i);
      store(a.m, i, m);
      store(a.x, i, x - 1e-6F * m);
    } else if constexpr (kKind == StreamingKind::kAdam) {
      const float g = load(a.y, i), m = 0.9F * load(a.m, i) + 0.1F * g, v = 0.999F * load(a.v, i) + 0.001F * g * g;
      store(a.m, i, m);
      store(a.v, i, v);
      store(a.x, i, x - 1e-6F * m / (sqrtf(v) + 1e-3F));
    }
  }
}

struct Sum {
  __device__ static float of(float a, float b) { return a + b; }
  static constexpr float kStart = 0;
};
struct Most {
  __device__ static float of(float a, float b) { return fmaxf(a, b); }
  static constexpr float kStart = -3e38F;
};

/// Over the threads of a block; each gets the result.
template <class Operation>
__device__ float reduced(float value) {
  __shared__ float of_warps[kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = Operation::of(value, __shfl_xor_sync(0xffffffffU, value, offset));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = threadIdx.x % kWarp < blockDim.x / kWarp ? of_warps[threadIdx.x % kWarp] : Operation::kStart;
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = Operation::of(value, __shfl_xor_sync(0xffffffffU, value, offset));
  return value;
}

/// z of x (and y) by rows.
template <StreamingKind kKind, class Number>
__global__ void by_rows(Arrays<Number> a) {
  constexpr bool kHasExponentials = kKind == StreamingKind::kSoftmax || kKind == StreamingKind::kCrossEntropy;
  constexpr bool kHasGradient = kKind == StreamingKind::kSoftmaxBackward ||
                                kKind == StreamingKind::kLayerNormBackward ||
                                kKind == StreamingKind::kBatchNormBackward;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const std::int64_t start = row * a.columns;
    float first = kHasExponentials ? Most::kStart : 0, second = 0;
    for (std::int64_t i = threadIdx.x; i < a.columns; i += blockDim.x) {
      const float x = load(a.x, start + i);
      if constexpr (kHasExponentials) {
        first = fmaxf(first, x);
      } else if constexpr (kHasGradient) {
        const float y = load(a.y, start + i);
        first += x * y;
        second += y;
      } else {
        first += x;
        second += x * x;
      }
    }
    first = kHasExponentials ? reduced<Most>(first) : reduced<Sum>(first);
    if constexpr (kHasExponentials) {
      for (std::int64_t i = threadIdx.x; i < a.columns; i += blockDim.x) second += expf(load(a.x, start + i) - first);
    }
    second = reduced<Sum>(second);
    if constexpr (kKind == StreamingKind::kReduction) {
      if (threadIdx.x == 0) store(a.z, row, first);
    } else {
      const float count = static_cast<float>(a.columns), mean = first / count;
      const float scale = kHasExponentials ? 1 / second : rsqrtf(fmaxf(second / count - mean * mean, 0.0F) + 1e-5F);
      for (std::int64_t i = threadIdx.x; i < a.columns; i += blockDim.x) {
        const float x = load(a.x, start + i);
        if constexpr (kHasExponentials)
          store(a.z, start + i, expf(x - first) * scale);
        else if constexpr (kHasGradient)
          store(a.z, start + i, (load(a.y, start + i) - mean) * x);
        else
          store(a.z, start + i, (x - mean) * scale);
      }
    }
  }
}

/// Windows of 2 x 2 over square images, each a row; backward the gradient z of y goes to the largest of x.
template <StreamingKind kKind, class Number>
__global__ void by_windows(Arrays<Number> a, std::int64_t edge) {
  const std::int64_t half = edge / 2, count = a.rows * half * half;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += stride) {
    const std::int64_t row = i / (half * half), at = i % (half * half);
    const std::int64_t corner = row * a.columns + 2 * (at / half) * edge + 2 * (at % half);
    const std::int64_t places[4] = {corner, corner + 1, corner + edge, corner + edge + 1};
    int most = 0;
    for (int k = 1; k < 4; ++k)
      if (load(a.x, places[k]) > load(a.x, places[most])) most = k;
    if constexpr (kKind == StreamingKind::kPooling)
      store(a.z, i, load(a.x, places[most]));
    else
      for (int k = 0; k < 4; ++k) store(a.z, places[k], k == most ? load(a.y, i) : 0.0F);
  }
}

int blocks(std::int64_t count, std::int64_t of_block) {
  return static_cast<int>(std::clamp<std::int64_t>((count + of_block - 1) / of_block, 1, kMostBlocks));
}

template <StreamingKind kKind, class Number>
void start(const Arrays<Number>& a) {
  constexpr bool kIsByRows = kKind == StreamingKind::kReduction || kKind == StreamingKind::kSoftmax ||
                             kKind == StreamingKind::kSoftmaxBackward || kKind == StreamingKind::kLayerNorm ||
                             kKind == StreamingKind::kLayerNormBackward || kKind == StreamingKind::kCrossEntropy ||
                             kKind == StreamingKind::kBatchNorm || kKind == StreamingKind::kBatchNormBackward;
  if constexpr (kIsByRows) {
    by_rows<kKind><<<blocks(a.rows, 1), kThreads>>>(a);
  } else if constexpr (kKind == StreamingKind::kPooling || kKind == StreamingKind::kPoolingBackward) {
    std::int64_t edge = 1;
    while ((edge + 1) * (edge + 1) <= a.columns) ++edge;
    by_windows<kKind><<<blocks(a.rows * a.columns / 4, kThreads), kThreads>>>(a, edge);
  } else {
    by_elements<kKind><<<blocks(a.rows * a.columns, kThreads), kThreads>>>(a);
  }
}

template <class Number>
bool start_of(StreamingKind kind, const Arrays<Number>& a) {
  switch (kind) {
#define REHEARSE_START(name)       \
  case StreamingKind::name:        \
    start<StreamingKind::name>(a); \
    return true;
    REHEARSE_START(kUnary)
    REHEARSE_START(kBinary)
    REHEARSE_START(kCopy)
    REHEARSE_START(kReduction)
    REHEARSE_START(kSoftmax)
    REHEARSE_START(kSoftmaxBackward)
    REHEARSE_START(kLayerNorm)
    REHEARSE_START(kLayerNormBackward)
    REHEARSE_START(kEmbedding)
    REHEARSE_START(kEmbeddingBackward)
    REHEARSE_START(kCrossEntropy)
    REHEARSE_START(kSgd)
    REHEARSE_START(kMomentum)
    REHEARSE_START(kAdam)
    REHEARSE_START(kBatchNorm)
    REHEARSE_START(kBatchNormBackward)
    REHEARSE_START(kGelu)
    REHEARSE_START(kGeluBackward)
    REHEARSE_START(kPooling)
    REHEARSE_START(kPoolingBackward)
#undef REHEARSE_START
  }
  return false;
}

template <class Number>
Arrays<Number> of(const StreamingArrays& a) {
  return {static_cast<Number*>(a.x),
          static_cast<Number*>(a.y),
          static_cast<Number*>(a.z),
          static_cast<Number*>(a.m),
          static_cast<Number*>(a.v),
          a.indices,
          a.rows,
          a.columns};
}

__global__ void empty() {}

}  // namespace

bool start_streaming(int kind, const StreamingArrays& arrays) {
  const auto which = static_cast<StreamingKind>(kind);
  return arrays.is_half ? start_of(which, of<__half>(arrays)) : start_of(which, of<float>(arrays));
}

void start_empty() { empty<<<1, 1>>>(); }

}  // namespace rehearse::microbench
