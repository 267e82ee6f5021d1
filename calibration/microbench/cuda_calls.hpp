#pragma once
// What the sources of the GPU share: refused calls, memory, streams of timed runs.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "sim/base/errors.hpp"

namespace rehearse::microbench {

/// Throws NoResultError if a call of CUDA's runtime failed.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw NoResultError{std::string{"the GPU cannot be measured: "} + what + ": " + cudaGetErrorString(status)};
}

/// Memory of the GPU, cleared.
class GpuMemory {
 public:
  explicit GpuMemory(std::size_t bytes) {
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
    check(cudaMemset(data_, 0, bytes), "cudaMemset");
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  ~GpuMemory() { (void)cudaFree(data_); }
  void* get() const { return data_; }
  char* bytes() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace rehearse::microbench
