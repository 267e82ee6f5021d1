#include "workloads/importers/neusight.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/timed_layers.hpp"

namespace rehearse {

namespace {

constexpr std::string_view kNeusightColumns =
    "name,op,target,inputs,input_shapes,output_shape,dtype,fw_ms,bw_ms,acc_ms";
constexpr double kMostScalarsOfRow = 1e12, kMostTime = 1e9;

/// All numbers in a text such as "(2, 512)", or in the first brackets of "[[2, 512], [3]]".
std::vector<double> first_shape(std::string_view text) {
  std::vector<double> sizes;
  bool is_inside = false;
  for (std::size_t i = 0; i < text.size();) {
    double size = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), size);
    if (error == std::errc{} && size >= 0) {
      sizes.push_back(size);
      is_inside = true;
      i = static_cast<std::size_t>(end - text.data());
      continue;
    }
    if ((text[i] == ']' || text[i] == ')') && is_inside) break;
    ++i;
  }
  return sizes;
}

double product_of(const std::vector<double>& sizes) {
  double product = 1;
  for (const double size : sizes) product = std::min(product * size, 2 * kMostScalarsOfRow);
  return product;
}

bool has_word(std::string_view target, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return target.find(word) != std::string_view::npos; });
}

/// What a table says, row by row.
class NeusightGraph {
 public:
  NeusightGraph(const Source& source, const CsvTable& table) : source_{source} {
    for (const CsvRow& row : table.rows()) add(row);
    if (timed_.batch == 0) throw InputError{source.name() + ": expected an input (op placeholder) with a batch"};
    if (timed_.layers.empty()) throw InputError{source.name() + ": expected an operator besides inputs"};
  }

  ImportedModel imported() {
    remarks_.insert(remarks_.begin(), "times are those of single operators with a batch of " +
                                          std::to_string(timed_.batch) + ", of as many blocks as the graph has");
    return {.model_file = model_file(source_, "NeuSight graph", timed_layers_json(timed_)), .remarks = remarks_};
  }

 private:
  static double time(const CsvRow& row, const char* column) {
    const double value = row.number(column);
    if (!(value >= 0 && value <= kMostTime)) row.fail(column, "expected 0 to 1e9 ms");
    return value * 1e-3;
  }

  void add(const CsvRow& row) {
    const std::string_view op = row.text("op"), target = row.text("target"), type = row.text("dtype");
    const std::vector<double> shape = first_shape(row.text("output_shape"));
    if (product_of(shape) > kMostScalarsOfRow) row.fail("output_shape", "more than 1e12 scalars");
    if (op == "placeholder") {
      if (timed_.batch > 0) return;
      if (shape.empty() || shape[0] < 1 || shape[0] > 65536) row.fail("output_shape", "expected a batch of 1 to 65536");
      timed_.batch = static_cast<int>(shape[0]);
      return;
    }
    if (op == "output" || type.empty()) return;
    if (op == "get_attr") {
      if (type.find("float") != std::string_view::npos && has_word(target, {".weight", ".bias"}))
        attributes_[std::string{row.text("name")}] = product_of(shape);
      return;
    }
    const double scalars = parameters_of(row, op, target, shape);
    timed_.layers.push_back({.name = std::string{row.text("name")},
                             .gradient = Bytes{std::llround(4 * scalars)},
                             .forward = Seconds{time(row, "fw_ms")},
                             .backward = Seconds{time(row, "bw_ms") + time(row, "acc_ms")},
                             .output = Bytes{std::max(1LL, std::llround(4 * product_of(shape)))}});
  }

  double parameters_of(const CsvRow& row, std::string_view op, std::string_view target,
                       const std::vector<double>& shape) {
    if (op != "call_module") {  // those that it reads
      double scalars = 0;
      std::istringstream inputs{std::string{row.text("inputs")}};
      for (std::string input; inputs >> input;) {
        const auto attribute = attributes_.find(input);
        if (attribute == attributes_.end()) continue;
        scalars += attribute->second;
        attributes_.erase(attribute);  // counted once
      }
      return scalars;
    }
    if (row.number("acc_ms") <= 0 || shape.empty()) return 0;  // nothing to accumulate
    const std::vector<double> input = first_shape(row.text("input_shapes"));
    if (has_word(target, {"norm", "Norm", "ln_"})) return 2 * shape.back();
    if (input.size() < shape.size()) {
      remarks_.push_back("rows of the table " + std::string{target} + " are not known: it has no gradient here");
      return 0;
    }
    return shape.back() * (input.back() + 1);
  }

  const Source& source_;
  TimedLayers timed_;
  std::map<std::string, double> attributes_;  // learned tensors and their scalars
  std::vector<std::string> remarks_;
};

}  // namespace

bool is_neusight_graph(const Source& source) { return source.start().starts_with(kNeusightColumns); }

ImportedModel read_neusight_graph(const Source& source) {
  const CsvTable table = parse_csv(source.content(), source.name());
  return NeusightGraph{source, table}.imported();
}

}  // namespace rehearse
