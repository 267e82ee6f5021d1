#pragma once
// The streaming kernels that cuda_device.cpp times, as plain functions.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rehearse::microbench {

/// Arrays on the GPU of rows x columns numbers each, in fp32 or fp16 ("is_half"); statistics in fp32, one or two for
/// each row; which of them a kernel reads and writes its comment in cuda_kernels.cu says.
struct StreamingArrays {
  void *x = nullptr, *y = nullptr, *z = nullptr, *m = nullptr, *v = nullptr;
  const std::int64_t* indices = nullptr;  // [rows], below rows
  std::int64_t rows = 1, columns = 1;
  bool is_half = false;
};

/// Starts the kernel of a kind, by its number in kernels::StreamingKind, on the default stream. False for a kind that
/// has none.
bool start_streaming(int kind, const StreamingArrays& arrays);
/// An empty kernel.
void start_empty();

}  // namespace rehearse::microbench
