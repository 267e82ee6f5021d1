#include "calibration/microbench/cases.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "calibration/microbench/measured_tables.hpp"
#include "sim/base/random.hpp"

namespace rehearse::microbench {

namespace {

using kernels::Convolution;
using kernels::Precision;
using kernels::Product;
using kernels::Streaming;
using kernels::StreamingKind;

constexpr std::uint64_t kSeed = 1;

/// What a device can bear: FLOPs and bytes of one kernel.
struct Range {
  double least_flops, most_flops, most_bytes;
};
constexpr Range kProcessorRange{2e4, 1.2e9, 16e6};
constexpr Range kGpuRange{1e6, 1e12, 2e9};

class Draw {
 public:
  explicit Draw(const char* stream) : rng_{kSeed, stream} {}

  std::int64_t size(double low, double high) {
    return std::llround(std::exp(rng_.uniform(std::log(low), std::log(high))));
  }
  /// A multiple of `step`, at least that.
  std::int64_t multiple(double low, double high, std::int64_t step) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(size(low, high)) / static_cast<double>(step))) *
           step;
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[rng_.below(values.size())];
  }
  bool is_below(double share) { return rng_.uniform() < share; }

 private:
  Rng rng_;
};

bool fits(const kernels::Kernel& kernel, const Range& range) {
  const double flops = kernels::flops(kernel);
  const double bytes = std::visit(
      [](const auto& of_class) -> double {
        if constexpr (requires { of_class.bytes(); }) return of_class.bytes();
        return 0;
      },
      kernel);
  return flops <= range.most_flops && bytes <= range.most_bytes &&
         (flops >= range.least_flops || std::holds_alternative<Streaming>(kernel));
}

/// Draws until one fits.
template <class Next>
auto drawn(const Range& range, Next next) {
  for (;;)
    if (const auto kernel = next(); fits(kernel, range)) return kernel;
}

Product product_of_processor(Draw& draw) {
  if (draw.is_below(0.25))
    return {.batch = draw.size(4, 128), .m = draw.size(12, 160), .n = draw.size(12, 160), .k = draw.size(12, 160)};
  return {.batch = 1, .m = draw.size(8, 2500), .n = draw.size(8, 2500), .k = draw.size(8, 2500)};
}

Convolution convolution_of_processor(Draw& draw) {
  Convolution c{.batch = draw.size(16, 64)};
  c.height = c.width = draw.size(2, 64);
  if (draw.is_below(0.12)) {
    c.in_channels = draw.one_of<std::int64_t>({1, 3});
    c.out_channels = draw.multiple(6, 64, 2);
    c.kernel_height = draw.one_of<std::int64_t>({3, 5, 7});
  } else if (draw.is_below(0.3)) {
    c.in_channels = c.out_channels = c.groups = draw.multiple(8, 800, 8);
    c.kernel_height = 3;
  } else {
    c.in_channels = draw.multiple(6, 500, 2);
    c.out_channels = draw.multiple(12, 500, 4);
    c.kernel_height = draw.one_of<std::int64_t>({1, 1, 3, 3, 5});
  }
  c.kernel_width = c.kernel_height;
  c.padding_height = c.padding_width = (c.kernel_height - 1) / 2;
  c.stride_height = c.stride_width = draw.is_below(0.25) ? 2 : 1;
  return c;
}

/// All passes, but for the gradient of an input that no framework asks for.
void add_passes(std::vector<Case>& cases, Convolution c) {
  for (const auto& [name, pass] : kernels::kPasses) {
    if (pass == kernels::Pass::kData && c.in_channels <= 3) continue;
    c.pass = pass;
    cases.push_back({c});
  }
}

/// Rows and columns of `numbers` as kernels of its kind have them.
Streaming streaming_of(StreamingKind kind, std::int64_t numbers, Draw& draw) {
  std::int64_t columns = 1024;
  switch (kind) {
    case StreamingKind::kSoftmax:
    case StreamingKind::kSoftmaxBackward:
    case StreamingKind::kLayerNorm:
    case StreamingKind::kLayerNormBackward:
    case StreamingKind::kEmbedding:
    case StreamingKind::kEmbeddingBackward:
      columns = draw.multiple(32, 512, 8);
      break;
    case StreamingKind::kCrossEntropy:
      columns = draw.size(10, 3000);
      break;
    case StreamingKind::kReduction:
      columns = draw.multiple(16, 1024, 8);
      break;
    case StreamingKind::kBatchNorm:
    case StreamingKind::kBatchNormBackward:
      columns = 16 * draw.size(2, 1024);
      break;
    case StreamingKind::kPooling:
    case StreamingKind::kPoolingBackward: {
      const std::int64_t edge = 2 * draw.size(2, 16);  // of a square image
      columns = edge * edge;
      break;
    }
    default:
      columns = draw.multiple(16, 2048, 16);
  }
  return {.kind = kind, .rows = std::max<std::int64_t>(1, numbers / columns), .columns = columns};
}

/// One of each list in turn, each in proportion to its length.
std::vector<Case> merged(const std::vector<std::vector<Case>>& lists) {
  std::vector<Case> all;
  std::size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  for (std::size_t i = 0; i < longest; ++i)
    for (const auto& list : lists) {
      const std::size_t from = i * list.size() / longest, to = (i + 1) * list.size() / longest;
      all.insert(all.end(), list.begin() + static_cast<std::ptrdiff_t>(from),
                 list.begin() + static_cast<std::ptrdiff_t>(to));
    }
  return all;
}

Layout layout_of(std::size_t i) { return kLayouts[i % kLayouts.size()].value; }

std::vector<Case> streaming_cases(std::size_t sizes, double least, double most, const Range& range, Precision precision,
                                  Draw& draw) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < sizes; ++i)
    for (const kernels::StreamingRow& row : kernels::kStreamingKinds) {
      Streaming kernel = drawn(range, [&] { return streaming_of(row.value, draw.size(least, most), draw); });
      kernel.precision = precision;
      cases.push_back({kernel});
    }
  return cases;
}

Product product_of_gpu(Draw& draw, Precision precision) {
  const bool is_batched = draw.is_below(0.25);
  const double most = is_batched ? 512 : 16384;
  return {.batch = is_batched ? draw.size(4, 512) : 1,
          .m = draw.multiple(is_batched ? 16 : 32, most, 8),
          .n = draw.multiple(is_batched ? 16 : 32, most, 8),
          .k = draw.multiple(is_batched ? 16 : 32, most, 8),
          .precision = precision};
}

Convolution convolution_of_gpu(Draw& draw, Precision precision) {
  Convolution c{.batch = draw.size(1, 256), .precision = precision};
  c.height = c.width = draw.size(4, 224);
  if (draw.is_below(0.15)) {
    c.in_channels = c.out_channels = c.groups = draw.multiple(8, 1024, 8);
    c.kernel_height = 3;
  } else {
    c.in_channels = draw.is_below(0.1) ? 3 : draw.multiple(8, 2048, 8);
    c.out_channels = draw.multiple(8, 2048, 8);
    c.kernel_height = draw.one_of<std::int64_t>({1, 1, 3, 3, 3, 5, 7});
  }
  c.kernel_width = c.kernel_height;
  c.padding_height = c.padding_width = (c.kernel_height - 1) / 2;
  c.stride_height = c.stride_width = draw.is_below(0.25) ? 2 : 1;
  return c;
}

}  // namespace

std::vector<Case> processor_cases(Extent extent) {
  const bool is_quick = extent == Extent::kQuick;
  Draw products{"microbench products"}, convolutions{"microbench convolutions"}, streams{"microbench streaming"};
  std::vector<Case> of_products, of_convolutions;
  for (std::size_t i = 0; i < (is_quick ? 70U : 400U); ++i)
    of_products.push_back({drawn(kProcessorRange, [&] { return product_of_processor(products); }), layout_of(i)});
  for (std::size_t i = 0; i < (is_quick ? 40U : 250U); ++i)
    add_passes(of_convolutions, drawn(kProcessorRange, [&] { return convolution_of_processor(convolutions); }));
  return merged({of_products, of_convolutions,
                 streaming_cases(is_quick ? 8 : 20, 2e3, 3e6, kProcessorRange, Precision::kFp32, streams)});
}

std::vector<Case> gpu_cases(Extent extent) {
  const bool is_quick = extent == Extent::kQuick;
  Draw products{"microbench GPU products"}, convolutions{"microbench GPU convolutions"},
      streams{"microbench GPU streaming"};
  std::vector<std::vector<Case>> lists;
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kFp16, Precision::kBf16}) {
    std::vector<Case> list;
    for (std::size_t i = 0; i < (is_quick ? 40U : 400U); ++i)
      list.push_back({drawn(kGpuRange, [&] { return product_of_gpu(products, precision); }), layout_of(i)});
    lists.push_back(std::move(list));
  }
  for (const Precision precision : {Precision::kFp32, Precision::kFp16}) {
    std::vector<Case> list;
    for (std::size_t i = 0; i < (is_quick ? 20U : 150U); ++i)
      add_passes(list, drawn(kGpuRange, [&] { return convolution_of_gpu(convolutions, precision); }));
    lists.push_back(std::move(list));
    lists.push_back(streaming_cases(is_quick ? 4 : 20, 1e3, 2e8, kGpuRange, precision, streams));
  }
  return merged(lists);
}

bool is_same(const kernels::Kernel& a, const kernels::Kernel& b) {
  return table_of(a) == table_of(b) && key_of({a}, "") == key_of({b}, "");
}

std::vector<Case> without(std::vector<Case> cases, const std::vector<kernels::Kernel>& predicted) {
  std::set<std::vector<std::string>> keys;
  for (const kernels::Kernel& kernel : predicted) keys.insert(key_of({kernel}, table_of(kernel)));
  std::erase_if(cases, [&](const Case& of) { return keys.contains(key_of({of.kernel}, table_of(of.kernel))); });
  return cases;
}

std::string to_text(const Case& of) {
  std::string text = std::holds_alternative<kernels::Product>(of.kernel) ? "product" : "";
  for (const std::string& field : key_of(of, ""))
    if (!field.empty()) text += (text.empty() ? "" : " ") + field;
  return text;
}

}  // namespace rehearse::microbench
