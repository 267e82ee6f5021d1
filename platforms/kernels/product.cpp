#include "platforms/kernels/product.hpp"

#include <algorithm>

namespace rehearse::kernels {

double Product::flops() const { return 2 * number(batch) * number(m) * number(n) * number(k); }

double Product::bytes() const {
  const auto rows = number(m), columns = number(n), terms = number(k);
  return bytes_of(precision) * number(batch) * (rows * terms + terms * columns + rows * columns);
}

Seconds roofline(const Product& product, const Gpu& gpu) {
  return Seconds{std::max(product.flops() / gpu.peak(product.precision), product.bytes() / gpu.bandwidth)};
}

ProductPlan plan_product(const Product& product, const Gpu& gpu, const ProductValues& values) {
  const TilePlan tiles = plan_tiles({.batch = number(product.batch),
                                     .m = number(product.m),
                                     .n = number(product.n),
                                     .k = number(product.k),
                                     .precision = product.precision},
                                    gpu, values);
  const double memory = values.memory * product.bytes() / (gpu.bandwidth * gpu.delivered);
  const Seconds time{values.launch / gpu.clock + combined(tiles.time, memory, values.sharpness)};
  return {tiles, std::max(time, roofline(product, gpu))};
}

}  // namespace rehearse::kernels
