#pragma once
// Which kernels are measured, on a GPU or on one thread of a processor. Start here to read calibration/microbench:
//   timing.hpp          how long to repeat one, and which figure counts
//   device.hpp          what measures: cuda_device.cu, torch_device.cpp
//   measured_tables.hpp rows on disk, to go on where it stopped
//   study_files.hpp     what `rehearse calibrate` and `simulate --catalog` take
//   network_steps.hpp   whole steps of training, to compare predictions with

#include <array>
#include <string>
#include <vector>

#include "platforms/kernels/kernels.hpp"

namespace rehearse::microbench {

/// How a product's operands lie in memory: C = A B, A B^T (a layer's forward pass) or A^T B (the gradient of weights).
enum class Layout { kPlain, kSecondTransposed, kFirstTransposed };
inline constexpr std::array kLayouts{Named{"plain", Layout::kPlain},
                                     Named{"second_transposed", Layout::kSecondTransposed},
                                     Named{"first_transposed", Layout::kFirstTransposed}};

struct Case {
  kernels::Kernel kernel;
  Layout layout = Layout::kPlain;  // of a product
};

enum class Extent { kQuick, kDefault };

/// Cases of one thread of a processor, in fp32: products; convolutions of at least 16 samples, dense, of images with up
/// to three channels, and depthwise with 3 x 3, each with its gradients; each kind of streaming kernel. Sizes are drawn
/// from the logarithms of their ranges, the same each time; kernels of different classes alternate, so that what was
/// measured until an interrupt is of all of them.
std::vector<Case> processor_cases(Extent extent);

/// Cases of a GPU: products in fp32, tf32, fp16 and bf16, convolutions in fp32 and fp16, streaming kernels.
std::vector<Case> gpu_cases(Extent extent);

/// The cases without those whose kernel is one of `predicted`, which a comparison is not to have seen.
std::vector<Case> without(std::vector<Case> cases, const std::vector<kernels::Kernel>& predicted);

/// Whether both compute the same: sizes, kind, pass, precision.
bool is_same(const kernels::Kernel& a, const kernels::Kernel& b);

/// Kind and sizes, as the tables have them: "product fp32 1 64 96 128 plain".
std::string to_text(const Case& of);

}  // namespace rehearse::microbench
