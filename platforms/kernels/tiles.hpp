#pragma once
// Matrix products as libraries compute them: in tiles, one after another on each multiprocessor.

#include "platforms/kernels/gpu.hpp"

namespace rehearse::kernels {

/// `batch` products [m, k] by [k, n] in the units of the formula.
struct TiledWork {
  double batch = 1, m = 1, n = 1, k = 1;
  Precision precision = Precision::kFp32;
  double load =
      0;  // numbers that a matrix unit's operands are loaded by, where rows are not aligned to 16 B; 0: they are

  double flops() const { return 2 * batch * m * n * k; }
};

/// Fitted values of computing tiles. value.hpp says how their tables look.
struct TileValues {
  double arithmetic = 1.02;  // cycles per cycle of the peak rate, >= 1
  double operands =
      0.2;              // share of the operands' way from L2, at 64 B per cycle and multiprocessor, that is not hidden
  double wave = 500;    // cycles per wave: first operands, results
  double step = 150;    // fewest cycles for 64 terms of a sum: latency
  double split = 4000;  // cycles for adding up the parts of split sums, besides their bytes
  double batched_cells =
      0;  // of the tile of batched products, for which libraries take a single one, no taller than wide; 0: any
};

struct TilePlan {
  double rows = 0, columns = 0, splits = 1;  // of a tile; of the sums of k terms
  double waves = 0;                          // tiles that the busiest multiprocessor computes
  double time = 0;                           // s, without what device memory takes
};

/// At the full clock, the fastest of a list of tiles a x b and of splits s of the sums, for P multiprocessors of clock f:
///   waves w  = ceil(batch ceil(m / a) ceil(n / b) s / P),  K = ceil(k / (s u)) u terms in each, u = 64 (16 in fp32)
///   cycles   = max(w K (2 a b arithmetic / rate + (a + b) bytes operands / 64 + c), step K / 64) + wave w
///              rate: FLOPs per cycle of a multiprocessor at the peak
///              c: of operands that are not aligned, (a + b) 2 (1 / load - bytes / 16) / 32: 32 lanes load a number each
///              instead of 16 B, and store it in shared memory
///   time     = cycles / f + (s > 1: split / f + 8 s batch m n B / bandwidth)
/// A sum is split where that leaves at least 128 terms, into at most 2 P tiles; batched products are not split.
/// Sources: NVIDIA, Matrix Multiplication Background User's Guide (tiles and waves); Kerr et al., CUTLASS: Fast Linear
/// Algebra in CUDA C++, 2017 (tiles, operands through shared memory); latencies count in cycles, as in Jia et al.,
/// Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018; alignment to 16 B, the guide of
/// products, section 2.1, 32 lanes for loads in each multiprocessor, CUDA C++ Programming Guide.
TilePlan plan_tiles(const TiledWork& work, const Gpu& gpu, const TileValues& values);

}  // namespace rehearse::kernels
