#include "platforms/kernels/product.hpp"

#include <algorithm>
#include <numeric>

namespace rehearse::kernels {

namespace {

constexpr double kWidestLoad = 16;  // B

}  // namespace

double numbers_per_load(const Product& product) {
  const auto widest = static_cast<std::int64_t>(kWidestLoad / bytes_of(product.precision));
  return number(std::gcd(std::gcd(product.n, product.k), widest));
}

bool is_aligned(const Product& product) {
  return numbers_per_load(product) >= kWidestLoad / bytes_of(product.precision);
}

double Product::flops() const { return 2 * number(batch) * number(m) * number(n) * number(k); }

double Product::bytes() const {
  const auto rows = number(m), columns = number(n), terms = number(k);
  return bytes_of(precision) * number(batch) * (rows * terms + terms * columns + rows * columns);
}

Seconds roofline(const Product& product, const Gpu& gpu) {
  return Seconds{std::max(product.flops() / gpu.peak(product.precision), product.bytes() / gpu.bandwidth)};
}

ProductPlan plan_product(const Product& product, const Gpu& gpu, const ProductValues& values) {
  const TilePlan tiles =
      plan_tiles({.batch = number(product.batch),
                  .m = number(product.m),
                  .n = number(product.n),
                  .k = number(product.k),
                  .precision = product.precision,
                  .load = is_reduced(product.precision) && !is_aligned(product) ? numbers_per_load(product) : 0},
                 gpu, values);
  const double memory = values.memory * product.bytes() / (gpu.bandwidth * gpu.delivered);
  const auto at = [&](double clock) { return beside_memory(tiles.time / clock, memory, values.sharpness, gpu); };
  const double clock = clock_at_limit(gpu, product.precision, product.flops(), product.bytes(), at);
  const Seconds time{values.launch / gpu.clock + at(clock)};
  return {tiles, std::max(time, roofline(product, gpu))};
}

}  // namespace rehearse::kernels
