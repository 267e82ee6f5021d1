#include "calibration/kernel_study.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "platforms/board_power.hpp"
#include "platforms/profile.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kLargestSize = 1'000'000'000;
constexpr double kMostWatts = 1e5;  // of a board
constexpr double kMostRows = 1e15;  // of a transformer's attention: batch * sequence * heads

/// A size of a kernel: from a column, or the same in all rows.
struct Size {
  std::string column;
  std::int64_t number = 1, least = 1;
};

/// Which sizes a kernel has: the first of them must be stated.
struct SizeNames {
  std::vector<std::string> names;
  std::size_t required;
};
const SizeNames kProductSizes{{"m", "n", "k", "batch"}, 3};
const SizeNames kStreamingSizes{{"rows", "columns"}, 2};
const SizeNames kConvolutionSizes{
    {"batch", "in_channels", "out_channels", "height", "width", "kernel_height", "kernel_width", "stride_height",
     "stride_width", "padding_height", "padding_width", "groups"},
    7};
const SizeNames kTransformerSizes{
    {"batch", "sequence", "layers", "hidden", "heads", "feed_forward", "vocabulary", "activation_passes", "is_causal"},
    9};
constexpr std::size_t kMostSizes = 12;
using Sizes = std::array<std::int64_t, kMostSizes>;

/// Reads the rows of one table.
class TableReader {
 public:
  TableReader(KernelStudy& study, const JsonReader& json, const Catalog& catalog)
      : study_{study}, json_{json}, catalog_{catalog} {}

  void read() {
    const fs::path path = json_.resolve(json_.required<std::string>("file"));
    const CsvTable table = load_csv_file(path);
    std::string name = path.filename().string();
    read_kernel();
    study_.tables.push_back(json_.optional<std::string>(
        "name", path.parent_path().filename().string() + "/" + name.substr(0, name.find('.')) + " " + word_));
    study_.harnesses.push_back(json_.optional<std::string>("harness", ""));
    read_precision();
    const JsonReader time = json_.child("time");
    time_column_ = time.required<std::string>("column");
    read_power();
    read_unit(time);
    read_filter();
    read_gpus();
    groups_ = json_.optional<std::vector<std::string>>("groups", {});
    json_.reject_unknown_keys();
    const std::size_t before = rows_.size();
    for (const CsvRow& row : table.rows())
      if (is_wanted(row)) add(row);
    if (rows_.size() == before) json_.fail("no row of " + table.file_name() + " is like that");
    take_medians();
  }

 private:
  void read_kernel() {
    word_ = json_.required<std::string>("kernel");
    if (word_ == "product") return read_sizes(kProductSizes);
    if (word_ == "convolution") {
      const auto pass = json_.optional<std::string>("pass", "forward");
      const auto known =
          std::find_if(kernels::kPasses.begin(), kernels::kPasses.end(), [&](const auto& p) { return pass == p.name; });
      json_.expect(known != kernels::kPasses.end(), "pass", "\"forward\", \"data\" or \"weights\"");
      pass_ = known->value;
      word_ += " " + pass;
      return read_sizes(kConvolutionSizes);
    }
    if (word_ == "transformer" || word_ == "transformer_training") {
      is_transformer_ = true;
      return read_sizes(kTransformerSizes);
    }
    std::vector<std::string> names{"product", "convolution", "transformer", "transformer_training"};
    for (const kernels::StreamingRow& row : kernels::kStreamingKinds) {
      names.emplace_back(row.name);
      if (word_ == row.name) streaming_ = row.value;
    }
    if (!streaming_) json_.fail("kernel", unknown_name_message("kernel", word_, names));
    read_sizes(kStreamingSizes);
  }

  void read_precision() {
    const auto word = json_.required<std::string>("precision");
    for (const auto& [name, value] : kernels::kPrecisions)
      if (word == name) {
        precision_ = value;
        return;
      }
    json_.fail("precision", unknown_name_message("precision", word, names_in(kernels::kPrecisions)));
  }

  void read_sizes(const SizeNames& known) {
    const JsonReader sizes = json_.child("sizes");
    for (std::size_t i = 0; i < known.names.size(); ++i) {
      const std::string& name = known.names[i];
      const std::int64_t least = name.starts_with("padding") || name == "is_causal" ? 0 : 1;
      Size size{.column = {}, .number = least, .least = least};
      if (i < known.required || sizes.has(name)) {
        const JsonReader value = sizes.child(name);
        if (value.is_string()) {
          size.column = value.as<std::string>();
        } else {
          size.number = value.as<std::int64_t>();
          value.expect(size.number >= least && size.number <= kLargestSize, "a column, or a number from 1 to 1e9");
        }
      }
      sizes_.push_back(size);
    }
    sizes.reject_unknown_keys();
  }

  void read_power() {
    if (!json_.has("power")) return;
    json_.expect(word_ == "product", "power", "none but of products, whose bytes are known");
    power_column_ = json_.required<std::string>("power");
  }

  void read_unit(const JsonReader& time) {
    const auto unit = time.required<std::string>("unit");
    time.expect(unit == "s" || unit == "ms" || unit == "us", "unit", "\"s\", \"ms\" or \"us\"");
    unit_ = unit == "s" ? 1 : unit == "ms" ? 1e-3 : 1e-6;
    time.reject_unknown_keys();
  }

  void read_filter() {
    if (!json_.has("where")) return;
    for (const auto& [column, values] : json_.child("where").items())
      filter_.emplace_back(column, values.as<std::vector<std::string>>());
  }

  void read_gpus() {
    const JsonReader gpu = json_.child("gpu");
    if (gpu.is_string()) {
      gpus_[""] = place_of(gpu);
      return;
    }
    gpu_column_ = gpu.required<std::string>("column");
    for (const auto& [value, name] : gpu.child("names").items()) gpus_[value] = place_of(name);
    gpu.reject_unknown_keys();
  }

  /// Place of a GPU, by its name, in the study's; it is added if it is not there.
  std::size_t place_of(const JsonReader& name) {
    const auto known = name.as<std::string>();
    auto at = std::find_if(study_.gpus.begin(), study_.gpus.end(), [&](const auto& g) { return g.name == known; });
    if (at == study_.gpus.end()) {
      study_.accelerators.push_back(read_accelerator(known, catalog_.accelerator(known, name)));
      study_.gpus.push_back(kernels::gpu_of(study_.accelerators.back(), name.place()));
      at = std::prev(study_.gpus.end());
    }
    const auto place = static_cast<std::size_t>(at - study_.gpus.begin());
    name.expect(power_column_.empty() || has_board_power(study_.accelerators[place]),
                "a GPU whose entry states \"power\", \"process_nm\" and \"memory_kind\"");
    return place;
  }

  /// What stands for its GPU in a row; nothing where one has measured them all.
  std::string gpu_text(const CsvRow& row) const {
    return gpu_column_.empty() ? std::string{} : std::string{row.text(gpu_column_)};
  }

  std::vector<std::string> groups_of(const CsvRow& row) const {
    std::vector<std::string> result;
    for (const std::string& column : groups_) result.push_back(column + " " + std::string{row.text(column)});
    return result;
  }

  bool is_wanted(const CsvRow& row) const {
    return gpus_.contains(gpu_text(row)) && std::all_of(filter_.begin(), filter_.end(), [&](const auto& condition) {
             return std::ranges::find(condition.second, row.text(condition.first)) != condition.second.end();
           });
  }

  void add(const CsvRow& row) {
    Sizes sizes{};
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      sizes[i] = sizes_[i].column.empty() ? sizes_[i].number : row.integer(sizes_[i].column);
      if (sizes[i] < sizes_[i].least || sizes[i] > kLargestSize) row.fail(sizes_[i].column, "expected 1 to 1e9");
    }
    const auto rows = kernels::number(sizes[0]) * kernels::number(sizes[1]) * kernels::number(sizes[4]);
    if (is_transformer_ && rows > kMostRows)
      row.fail(time_column_, "expected a batch, a sequence and heads whose product is at most 1e15");
    const double time = row.number(time_column_) * unit_;
    if (!(time > 0 && time <= kLongest.value())) row.fail(time_column_, "expected a time above 0, at most 1e9 s");
    Measured& measured = rows_[{gpus_.at(gpu_text(row)), sizes, groups_of(row)}];
    if (measured.times.empty()) measured.line = row.line();
    measured.times.push_back(time);
    if (power_column_.empty()) return;
    const double power = row.number(power_column_);
    if (!(power > 0 && power <= kMostWatts)) row.fail(power_column_, "expected a power above 0, at most 1e5 W");
    measured.powers.push_back(power);
  }

  kernels::Kernel kernel(const Sizes& s) const {
    if (streaming_)
      return kernels::Streaming{.kind = *streaming_, .rows = s[0], .columns = s[1], .precision = precision_};
    if (is_transformer_)
      return kernels::Transformer{.batch = s[0],
                                  .sequence = s[1],
                                  .layers = s[2],
                                  .hidden = s[3],
                                  .heads = s[4],
                                  .feed_forward = s[5],
                                  .vocabulary = s[6],
                                  .activation_passes = s[7],
                                  .is_causal = s[8],
                                  .is_training = word_ == "transformer_training",
                                  .precision = precision_};
    if (!pass_) return kernels::Product{.batch = s[3], .m = s[0], .n = s[1], .k = s[2], .precision = precision_};
    return kernels::Convolution{.batch = s[0],
                                .in_channels = s[1],
                                .out_channels = s[2],
                                .height = s[3],
                                .width = s[4],
                                .kernel_height = s[5],
                                .kernel_width = s[6],
                                .stride_height = s[7],
                                .stride_width = s[8],
                                .padding_height = s[9],
                                .padding_width = s[10],
                                .groups = s[11],
                                .pass = *pass_,
                                .precision = precision_};
  }

  void take_medians() {
    for (const auto& [key, found] : rows_)
      study_.rows.push_back({.kernel = kernel(std::get<Sizes>(key)),
                             .gpu = std::get<std::size_t>(key),
                             .table = study_.tables.size() - 1,
                             .line = found.line,
                             .measured = median(found.times),
                             .power = found.powers.empty() ? std::nullopt : std::optional{median(found.powers)},
                             .groups = std::get<std::vector<std::string>>(key)});
  }

  KernelStudy& study_;
  const JsonReader& json_;
  const Catalog& catalog_;
  kernels::Precision precision_{};
  std::string word_;  // the kernel's
  bool is_transformer_ = false;
  std::optional<kernels::Pass> pass_;
  std::optional<kernels::StreamingKind> streaming_;
  std::vector<Size> sizes_;
  std::string time_column_, gpu_column_, power_column_;
  double unit_ = 1;
  std::vector<std::pair<std::string, std::vector<std::string>>> filter_;
  std::map<std::string, std::size_t> gpus_;
  std::vector<std::string> groups_;  // columns
  struct Measured {
    std::size_t line = 0;  // of the first row
    std::vector<double> times, powers;
  };
  std::map<std::tuple<std::size_t, Sizes, std::vector<std::string>>, Measured> rows_;
};

}  // namespace

double Harness::measured(double kernel) const { return std::max(floor, gap + kernel); }

KernelStudy load_kernel_study(const fs::path& path, const Catalog& catalog) {
  const Json file = load_json_file(path);
  const JsonReader json{file, path.string()};
  json.begin_file(kernel_study_schema, "kernels");
  KernelStudy study{.name = path.stem().string(), .file_name = path.string()};
  const auto leave_out = json.required<std::string>("leave_out");
  json.expect(
      leave_out == "gpu" || leave_out == "multiprocessor" || leave_out == "architecture" || leave_out == "nothing",
      "leave_out", "\"gpu\", \"multiprocessor\", \"architecture\" or \"nothing\"");
  json.expect((leave_out == "nothing") == json.has("profile"), "leave_out",
              "\"nothing\" and a \"profile\", by which all rows are predicted, or neither");
  if (leave_out == "nothing") {
    const JsonReader name = json.child("profile");
    study.profile = name.as<std::string>();
    const Profile profile = read_profile(catalog.profile(study.profile, name));
    name.expect(profile.kernels != nullptr, "a profile with a section \"kernels\"");
    study.model = *profile.kernels;
  }
  const std::vector<JsonReader> tables = json.children("tables");
  json.expect(!tables.empty(), "tables", "at least one table");
  for (const JsonReader& table : tables) TableReader{study, table, catalog}.read();
  json.reject_unknown_keys();
  for (const kernels::Gpu& gpu : study.gpus) {
    std::string fold = leave_out == "gpu" || gpu.architecture.empty() ? gpu.name : gpu.architecture;
    if (leave_out == "multiprocessor") fold += " " + std::to_string(std::lround(gpu.cores));
    study.folds.push_back(fold);
  }
  return study;
}

}  // namespace rehearse
