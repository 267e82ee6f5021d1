#include "platforms/kernels/tiles.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace rehearse::kernels {

namespace {

struct Tile {
  double rows, columns;
};
constexpr std::array kMatrixTiles{Tile{256, 128}, Tile{128, 256}, Tile{128, 128}, Tile{128, 64},
                                  Tile{64, 128},  Tile{64, 64},   Tile{32, 64},   Tile{64, 32},
                                  Tile{32, 128},  Tile{16, 64},   Tile{16, 128}};
constexpr std::array kVectorTiles{Tile{128, 128}, Tile{128, 64}, Tile{64, 128}, Tile{64, 64}, Tile{128, 32},
                                  Tile{32, 128},  Tile{64, 32},  Tile{32, 64},  Tile{32, 32}};
constexpr std::array<double, 10> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
constexpr double kShortestSum = 128;
constexpr double kTermsPerStep = 64;
constexpr double kOperandRate = 64;  // B per cycle and multiprocessor
constexpr double kLanes = 32;        // loads or stores per cycle and multiprocessor
constexpr double kLoad = 16;         // B, the widest of a lane

/// What does not depend on the tile.
struct Rates {
  double terms;               // of which sums consist
  double cycles_per_flop;     // of one multiprocessor
  double cycles_per_operand;  // number of rows and columns
};

TilePlan with_tile(const TiledWork& work, const Gpu& gpu, const TileValues& values, const Rates& rates,
                   const Tile& tile, double splits) {
  const double tiles = work.batch * std::ceil(work.m / tile.rows) * std::ceil(work.n / tile.columns) * splits;
  const double waves = std::ceil(tiles / gpu.multiprocessors);
  const double terms = std::ceil(work.k / (splits * rates.terms)) * rates.terms;
  const double per_term =
      2 * tile.rows * tile.columns * rates.cycles_per_flop + (tile.rows + tile.columns) * rates.cycles_per_operand;
  const double store = tile.rows * tile.columns * bytes_of(work.precision) / kOperandRate;
  double cycles = std::max(waves * terms * per_term, values.step * terms / kTermsPerStep) +
                  (values.wave + store) * (gpu.overlaps_tiles ? 1 : waves);
  double memory = 0;
  if (splits > 1) {
    cycles += values.split;
    memory = 8 * splits * work.batch * work.m * work.n / gpu.bandwidth;
  }
  return {tile.rows, tile.columns, splits, waves, cycles / gpu.clock + memory};
}

}  // namespace

TilePlan plan_tiles(const TiledWork& work, const Gpu& gpu, const TileValues& values) {
  const double peak = gpu.peak(work.precision);
  const double bytes = bytes_of(work.precision);
  const double unaligned = work.load > 0 ? 2 * (1 / work.load - bytes / kLoad) / kLanes : 0;
  const Rates rates{.terms = is_reduced(work.precision) ? 64.0 : 16.0,
                    .cycles_per_flop = values.arithmetic * gpu.multiprocessors * gpu.clock / peak,
                    .cycles_per_operand = bytes * values.operands / kOperandRate + unaligned};
  TilePlan best{.time = std::numeric_limits<double>::infinity()};
  const std::span<const Tile> list = is_reduced(work.precision) ? std::span<const Tile>{kMatrixTiles} : kVectorTiles;
  const bool has_batched_tile = work.batch > 1 && std::ranges::any_of(list, [&](const Tile& tile) {
                                  return tile.rows * tile.columns == values.batched_cells;
                                });
  for (const Tile& tile : list) {
    if (has_batched_tile && (tile.rows * tile.columns != values.batched_cells || tile.rows > tile.columns)) continue;
    const double tiles = work.batch * std::ceil(work.m / tile.rows) * std::ceil(work.n / tile.columns);
    for (const double splits : kSplits) {
      if (splits > 1 && (work.batch > 1 || work.k < splits * kShortestSum || tiles * splits > 2 * gpu.multiprocessors))
        break;
      const TilePlan plan = with_tile(work, gpu, values, rates, tile, splits);
      if (plan.time < best.time) best = plan;
    }
  }
  return best;
}

}  // namespace rehearse::kernels
