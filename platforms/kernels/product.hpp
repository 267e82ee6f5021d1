#pragma once
// Matrix products: which tiles a library cuts them into, and how long that takes.

#include <array>
#include <cstdint>

#include "platforms/kernels/gpu.hpp"
#include "platforms/kernels/tiles.hpp"
#include "platforms/kernels/value.hpp"
#include "sim/base/units.hpp"

namespace rehearse::kernels {

/// `batch` products C [m, n] = A [m, k] B [k, n]; each at least 1.
struct Product {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  Precision precision = Precision::kFp32;

  double flops() const;  // 2 batch m n k
  double bytes() const;  // A, B and C once
};

/// Numbers that one load brings of rows of n and of k numbers: as many as 16 B have, if n and k are multiples of that.
double numbers_per_load(const Product& product);
bool is_aligned(const Product& product);

/// Values of a class of products (fp32 units, or matrix units), the same for all GPUs of an architecture.
struct ProductValues : TileValues {
  double launch = 4000;    // cycles from the launch to the end besides the work
  double memory = 1.1;     // time of the memory by bytes / delivered bandwidth, >= 1
  double sharpness = 2.5;  // of the passage from one bound to the other

  static constexpr std::array<Value<ProductValues>, 9> table() {
    return {{{"launch", &ProductValues::launch, 500, 20000},
             {"arithmetic", &ProductValues::arithmetic, 1, 1.15},
             {"operands", &ProductValues::operands, 1e-3, 5},
             {"wave", &ProductValues::wave, 1, 20000},
             {"step", &ProductValues::step, 1, 20000},
             {"split", &ProductValues::split, 1, 40000},
             {"memory", &ProductValues::memory, 1, 4},
             {"sharpness", &ProductValues::sharpness, 1, 20},
             {"batched_cells", &ProductValues::batched_cells, 0, 65536}}};
  }
};

/// max(FLOPs / peak, bytes / bandwidth).
Seconds roofline(const Product& product, const Gpu& gpu);

struct ProductPlan {
  TilePlan tiles;
  Seconds time{};
};

/// launch / clock + beside_memory(tiles / x, memory bytes / delivered bandwidth), x = clock_at_limit(), but no less than roofline():
/// tiles as plan_tiles() says.
ProductPlan plan_product(const Product& product, const Gpu& gpu, const ProductValues& values);

}  // namespace rehearse::kernels
