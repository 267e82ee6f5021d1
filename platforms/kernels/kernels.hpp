#pragma once
// How long a kernel takes on a GPU that is known by its data sheet. Start here to read platforms/kernels:
//   gpu.hpp     what is taken from the data sheet
//   product.hpp, convolution.hpp, streaming.hpp, attention.hpp   kernels
//   transformer.hpp   many kernels as one
//   tiles.hpp   what products and convolutions share
//   processor.hpp   the same kernels on one thread of a processor
//   value.hpp   tables of fitted values
// A class of kernels has a few values (calibration/profiles/kernels.json). They belong to an architecture; a GPU of
// another one has those that were fitted to all architectures together.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "platforms/kernels/convolution.hpp"
#include "platforms/kernels/gpu.hpp"
#include "platforms/kernels/processor.hpp"
#include "platforms/kernels/product.hpp"
#include "platforms/kernels/streaming.hpp"
#include "platforms/kernels/transformer.hpp"
#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse::kernels {

using Kernel = std::variant<Product, Convolution, Streaming, Transformer>;

/// Kernels that share fitted values.
enum class Class {
  kVectorProduct,
  kMatrixProduct,
  kConvolution,
  kElementwise,
  kSoftmax,
  kNorm,
  kProcessorProduct,
  kProcessorConvolution,
  kProcessorStreaming
};
inline constexpr std::array kClasses{Named{"products_fp32", Class::kVectorProduct},
                                     Named{"products_reduced", Class::kMatrixProduct},
                                     Named{"convolutions", Class::kConvolution},
                                     Named{"elementwise", Class::kElementwise},
                                     Named{"softmax", Class::kSoftmax},
                                     Named{"norms", Class::kNorm},
                                     Named{"processor_products", Class::kProcessorProduct},
                                     Named{"processor_convolutions", Class::kProcessorConvolution},
                                     Named{"processor_streaming", Class::kProcessorStreaming}};
/// That of its products, of a kernel that consists of others.
Class class_of(const Kernel& kernel, const Gpu& gpu);
/// Whether it consists of kernels with values of their own.
bool is_composite(const Kernel& kernel);

struct Values {
  ProductValues products_fp32, products_reduced;
  ConvolutionValues convolutions;
  StreamingValues elementwise, softmax, norms;
  ProcessorProductValues processor_products;
  ProcessorConvolutionValues processor_convolutions;
  ProcessorStreamingValues processor_streaming;
};

/// Name and bounds of each value of a class.
struct ValueBounds {
  const char* name;
  double low, high;
};
std::vector<ValueBounds> bounds_of(Class kind);
/// The values of a class in the order of bounds_of().
std::vector<double> values_of(const Values& values, Class kind);
void set_values(Values& values, Class kind, std::span<const double> to);

Seconds time(const Kernel& kernel, const Gpu& gpu, const Values& values);
/// Part of it that passes before the kernel's work begins: its class's `launch` / clock. 0 on a processor.
Seconds launch_time(const Kernel& kernel, const Gpu& gpu, const Values& values);
inline Seconds launch_time(const Gpu& gpu, const StreamingValues& values) { return Seconds{values.launch / gpu.clock}; }
/// max(FLOPs / peak, bytes / bandwidth): no kernel is faster.
Seconds roofline(const Kernel& kernel, const Gpu& gpu);
double flops(const Kernel& kernel);

/// Fitted values for every architecture.
struct Model {
  Values otherwise;
  std::map<std::string, Values> by_architecture;

  const Values& of(const Gpu& gpu) const;
};

/// The section "kernels" of a profile: by class its "values", and in "by_architecture" those of single ones. Throws
/// InputError.
Model read_model(const JsonReader& json);
/// What read_model() reads as this model again.
Json to_json(const Model& model);
/// JSON Schema of that section.
std::string model_schema_text();

}  // namespace rehearse::kernels
