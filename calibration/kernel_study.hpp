#pragma once
// Studies of kind "kernels": measured times of single kernels beside those of platforms/kernels, with each GPU or
// architecture predicted by values that were fitted to the others alone, or all by those of a profile.

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibration/validation.hpp"
#include "platforms/catalog.hpp"
#include "platforms/kernels/kernels.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// One kernel on one GPU: the median of all rows that measured it.
struct KernelRow {
  kernels::Kernel kernel;
  std::size_t gpu = 0;                // of KernelStudy::gpus
  std::size_t table = 0;              // of KernelStudy::tables
  std::size_t line = 0;               // of the first of its rows in the table's file
  double measured = 0;                // s
  std::optional<double> power{};      // W of the board, in the mean, while the kernel ran again and again
  std::vector<std::string> groups{};  // "kind weight", "tensor 8": the values of the columns that the table names
};

/// How kernels were measured: a measured time is max(floor, gap + the kernel's). Both are the host's and its framework's,
/// and are fitted; none for times of the kernel alone.
struct Harness {
  double gap = 0, floor = 0;  // s

  double measured(double kernel) const;
};

/// A file { "format": 1, "kind": "kernels", "tables": [...], "leave_out": "gpu", "multiprocessor" (GPUs of an architecture
/// with as many cores in each), "architecture" or "nothing" }. With "nothing" it has "profile", the name of one in the
/// catalog: all rows are predicted by it as it is, and nothing is fitted. A table has
///   "file"     CSV, may be compressed; "where": { column: [values] } leaves out other rows
///   "kernel"   "product", "convolution", or a kind of platforms/kernels/streaming.hpp; "pass" of a convolution
///   "gpu"      { "column", "names": { value of the column: name of a GPU in the catalog } }; other rows are left out.
///              Or the name of the GPU that measured them all
///   "sizes"    { size: column, or a number }, of a product m, n, k and batch (default 1); of others rows and columns; of a
///              convolution batch, in_channels, out_channels, height, width, kernel_height, kernel_width, and
///              stride_height, stride_width, padding_height, padding_width, groups (default 1, of paddings 0)
///   "precision" of all rows
///   "time"     { "column", "unit": "s", "ms" or "us" }
///   "power"    of products: the column of the board's power, W
///   "name"     what it is called in results; default: folder and file without ending, and kernel
///   "groups"   columns; errors are told of the rows of each of their values, too
///   "harness"  a name, for tables that were measured alike; default: the kernel alone was measured
struct KernelStudy {
  std::string name, file_name;
  std::vector<std::string> tables;     // their names
  std::vector<std::string> harnesses;  // [tables]; may be empty
  std::vector<kernels::Gpu> gpus;
  std::vector<Accelerator> accelerators;  // [gpus]
  std::vector<std::string> folds;         // [gpus]: what is left out together has the same name
  std::string profile;                    // empty if each fold is predicted by a fit to the others
  std::optional<kernels::Model> model;    // of the profile
  std::vector<KernelRow> rows;
};

/// Reads such a file, and the files that it names. Throws InputError.
KernelStudy load_kernel_study(const std::filesystem::path& path, const Catalog& catalog);

/// Values of each class that the rows have, fitted to `rows` (indices): ln(predicted / measured) with Huber's loss, from
/// at most `kFittedRows` of each GPU and table. What libraries choose, the tile of batched
/// products, is the median over architectures of what fits each best.
struct KernelFit {
  kernels::Values values;
  std::map<std::pair<kernels::Class, std::string>, Harness> harnesses;
  std::map<kernels::Class, std::vector<std::pair<double, double>>> intervals;  // 95 %, in the order of the values
  std::size_t rows = 0;
};
inline constexpr std::size_t kFittedRows = 400;
KernelFit fit_kernels(const KernelStudy& study, const std::vector<std::size_t>& rows, const kernels::Values& start,
                      const Budget& budget = {});

/// Predictions of all rows, in s, each by a fit to the rows of the other folds; and what a user would try instead,
/// from the same rows:
///   roofline   max(FLOPs / peak, bytes / bandwidth) times the median of measured / roofline of the table in other folds
///   nearest    the measured kernel of another fold whose sizes are nearest (logarithms), times the ratio of the two
///              rooflines
/// `with_host` knows one number more of a GPU that is left out: how slow its host launches, as the shortest time of its
/// rows of a harness by the floor that the others have; gap and floor go with it.
struct KernelPredictions {
  std::vector<double> model, with_host, roofline, nearest;  // [rows], s
  std::map<std::string, kernels::Values> values;            // by fold that was left out
};
KernelPredictions cross_validate(const KernelStudy& study, const kernels::Values& start,
                                 const std::function<void(std::size_t done, std::size_t total)>& on_fold = {},
                                 const Budget& budget = {});

/// Predictions of all rows, in s, by the profile that the study names, beside rooflines. `with_host` and `nearest`, which
/// take other rows, are empty, and a harness costs nothing. Requires `study.model`.
KernelPredictions predict_by_profile(const KernelStudy& study);

/// W of the boards of all rows, 0 of those without a measured power, by platforms/board_power.hpp with its own values, the measured
/// time and the board's own limit: of a product's FLOPs, and of its operands' and its result's bytes, each moved once.
std::vector<double> predict_power(const KernelStudy& study);

/// The profile file "kernels" with the values of all rows together and, for each architecture with enough rows, its own.
Json kernel_profile(const KernelStudy& study, const std::string& command, const Budget& budget = {});

/// JSON Schema (draft 2020-12) of a study of kernels.
std::string kernel_study_schema();

}  // namespace rehearse
