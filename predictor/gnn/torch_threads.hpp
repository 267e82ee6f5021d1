#pragma once
// How LibTorch computes in this process.

#include <string>

namespace rehearse {

/// LibTorch, OpenMP and OpenBLAS compute with `threads` >= 1 threads from now on. One is best: more threads of a
/// process gained nothing on these small matrices and lose much when anything else runs; use more processes.
void use_torch_threads(int threads);

/// The process keeps what it frees, up to 1 GiB: each training step allocates the same tensors again, and a third of
/// its time went into fresh pages.
void keep_freed_memory();

/// The file of the linear algebra library in use, such as "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3".
std::string linear_algebra_library();

/// One line of advice if that library is the reference implementation, with which training takes 10 to 25 times longer;
/// empty otherwise.
std::string linear_algebra_warning();

}  // namespace rehearse
