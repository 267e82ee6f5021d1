#include "calibration/microbench/measured_tables.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"

namespace rehearse::microbench {

namespace fs = std::filesystem;

namespace {

constexpr std::array kTables{"products", "convolutions", "streaming"};
const std::vector<std::string> kFigures{"time_s", "least_s", "samples"};

std::string text_of(const std::string& table, const std::vector<std::string>& key) {
  std::string text = table;
  for (const std::string& field : key) text += '\n' + field;
  return text;
}

template <class... Sizes>
void append(std::vector<std::string>& to, Sizes... sizes) {
  (to.push_back(std::to_string(sizes)), ...);
}

std::vector<std::string> all_columns(const std::string& table) {
  std::vector<std::string> columns = key_columns(table);
  columns.insert(columns.end(), kFigures.begin(), kFigures.end());
  return columns;
}

}  // namespace

std::string table_of(const kernels::Kernel& kernel) {
  if (std::holds_alternative<kernels::Product>(kernel)) return kTables[0];
  if (std::holds_alternative<kernels::Convolution>(kernel)) return kTables[1];
  if (std::holds_alternative<kernels::Streaming>(kernel)) return kTables[2];
  throw std::logic_error{"a kernel that consists of others is not measured"};
}

const std::vector<std::string>& key_columns(const std::string& table) {
  static const std::vector<std::string> products{"device", "precision", "batch", "m", "n", "k", "layout"};
  static const std::vector<std::string> convolutions{"device",         "pass",          "precision",     "batch",
                                                     "in_channels",    "out_channels",  "height",        "width",
                                                     "kernel_height",  "kernel_width",  "stride_height", "stride_width",
                                                     "padding_height", "padding_width", "groups"};
  static const std::vector<std::string> streaming{"device", "kernel", "precision", "rows", "columns"};
  return table == kTables[0] ? products : table == kTables[1] ? convolutions : streaming;
}

std::vector<std::string> key_of(const Case& of, const std::string& device) {
  std::vector<std::string> key{device};
  if (const auto* p = std::get_if<kernels::Product>(&of.kernel)) {
    key.emplace_back(name_in(kernels::kPrecisions, p->precision));
    append(key, p->batch, p->m, p->n, p->k);
    key.emplace_back(name_in(kLayouts, of.layout));
  } else if (const auto* c = std::get_if<kernels::Convolution>(&of.kernel)) {
    key.emplace_back(name_in(kernels::kPasses, c->pass));
    key.emplace_back(name_in(kernels::kPrecisions, c->precision));
    append(key, c->batch, c->in_channels, c->out_channels, c->height, c->width, c->kernel_height, c->kernel_width,
           c->stride_height, c->stride_width, c->padding_height, c->padding_width, c->groups);
  } else {
    const auto& s = std::get<kernels::Streaming>(of.kernel);
    key.emplace_back(std::ranges::find(kernels::kStreamingKinds, s.kind, &kernels::StreamingRow::value)->name);
    key.emplace_back(name_in(kernels::kPrecisions, s.precision));
    append(key, s.rows, s.columns);
  }
  return key;
}

MeasuredTables::MeasuredTables(fs::path folder) : folder_{std::move(folder)} {
  for (const std::string table : kTables) {
    const fs::path path = folder_ / (table + ".csv");
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    const CsvTable csv = load_csv_file(path);
    if (csv.columns() != all_columns(table))
      throw InputError{path.string() + ":1: its columns are not those that microbench writes; name another folder"};
    const std::size_t keys = key_columns(table).size();
    for (const CsvRow& row : csv.rows()) {
      Row read{.key = {},
               .sample = {row.number("time_s"), row.number("least_s"), static_cast<int>(row.integer("samples"))}};
      if (!(read.sample.time > 0)) row.fail("time_s", "expected a time above 0");
      for (std::size_t i = 0; i < keys; ++i) read.key.emplace_back(row.text_at(i));
      if (!known_.insert(text_of(table, read.key)).second)
        row.fail(key_columns(table)[1], "this kernel is there twice");
      rows_of(table).push_back(std::move(read));
    }
  }
}

std::vector<MeasuredTables::Row>& MeasuredTables::rows_of(const std::string& table) {
  return table == kTables[0] ? products_ : table == kTables[1] ? convolutions_ : streaming_;
}
const std::vector<MeasuredTables::Row>& MeasuredTables::rows_of(const std::string& table) const {
  return table == kTables[0] ? products_ : table == kTables[1] ? convolutions_ : streaming_;
}

bool MeasuredTables::has(const Case& of, const std::string& device) const {
  return known_.contains(text_of(table_of(of.kernel), key_of(of, device)));
}

void MeasuredTables::add(const Case& of, const std::string& device, const Sample& sample) {
  const std::string table = table_of(of.kernel);
  Row row{.key = key_of(of, device), .sample = sample};
  if (known_.insert(text_of(table, row.key)).second) rows_of(table).push_back(std::move(row));
}

void MeasuredTables::save() const {
  std::vector<std::pair<fs::path, std::string>> files;
  for (const std::string table : kTables) {
    const std::vector<Row>& rows = rows_of(table);
    if (rows.empty()) continue;
    CsvWriter csv{all_columns(table)};
    for (const Row& row : rows) {
      std::vector<CsvField> fields{row.key.begin(), row.key.end()};
      fields.emplace_back(row.sample.time);
      fields.emplace_back(row.sample.least);
      fields.emplace_back(row.sample.samples);
      csv.row(fields);
    }
    files.emplace_back(folder_ / (table + ".csv"), csv.text());
  }
  write_files(files);
}

std::set<std::string> MeasuredTables::values(const std::string& table, const std::string& device,
                                             const std::string& column) const {
  const std::vector<std::string>& columns = key_columns(table);
  const auto place = static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin());
  std::set<std::string> values;
  for (const Row& row : rows_of(table))
    if (row.key.front() == device) values.insert(row.key.at(place));
  return values;
}

}  // namespace rehearse::microbench
