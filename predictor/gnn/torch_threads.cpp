#include "predictor/gnn/torch_threads.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>

#include <filesystem>

#include "sim/base/names.hpp"

namespace rehearse {

void keep_freed_memory() {
  constexpr int kGigabyte = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kGigabyte);
  ::mallopt(M_TRIM_THRESHOLD, kGigabyte);
}

void use_torch_threads(int threads) {
  at::set_num_threads(threads);
  // Debian's LibTorch finds its matrix products in whichever BLAS is installed.
  if (void* set = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(threads);
}

std::string linear_algebra_library() {
  Dl_info info{};
  void* product = ::dlsym(RTLD_DEFAULT, "sgemm_");
  if (product == nullptr || ::dladdr(product, &info) == 0 || info.dli_fname == nullptr) return "part of LibTorch";
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(info.dli_fname, failed);
  return failed ? info.dli_fname : real.string();
}

std::string linear_algebra_warning() {
  const std::string library = linear_algebra_library();
  if (library.find("/blas/libblas") == std::string::npos) return "";
  return "the linear algebra library is the slow reference one, " + in_quotes(library, 200) +
         ": install the Debian package libopenblas0-pthread";
}

}  // namespace rehearse
