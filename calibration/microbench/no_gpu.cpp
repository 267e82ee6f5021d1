// In place of cuda_device.cu where nvcc was not found.

#include "calibration/microbench/device.hpp"
#include "sim/base/errors.hpp"

namespace rehearse::microbench {

std::unique_ptr<Device> make_gpu_device(int) {
  throw NoResultError{"no GPU can be measured: this program was built without CUDA (nvcc)"};
}

}  // namespace rehearse::microbench
