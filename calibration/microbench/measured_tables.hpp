#pragma once
// Measured kernels on disk, a table for products, convolutions and streaming kernels each.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "calibration/microbench/device.hpp"

namespace rehearse::microbench {

/// "products", "convolutions" or "streaming"; of a kernel that consists of others std::logic_error.
std::string table_of(const kernels::Kernel& kernel);
/// Columns of a table that say which kernel was measured, device first.
const std::vector<std::string>& key_columns(const std::string& table);
/// Their values. The layout is one of them where `device` is given.
std::vector<std::string> key_of(const Case& of, const std::string& device);

/// The rows in FOLDER/products.csv, convolutions.csv and streaming.csv: key columns, then time_s (the median),
/// least_s and samples. Rows of other devices stay.
class MeasuredTables {
 public:
  /// Takes over what is there. Throws InputError if a file is damaged or has other columns.
  explicit MeasuredTables(std::filesystem::path folder);

  bool has(const Case& of, const std::string& device) const;
  void add(const Case& of, const std::string& device, const Sample& sample);
  /// Replaces the files by what is known now. Throws InputError.
  void save() const;
  std::size_t rows() const { return known_.size(); }
  /// Values of a key column that rows of `device` have, sorted; none of a table without rows.
  std::set<std::string> values(const std::string& table, const std::string& device, const std::string& column) const;

 private:
  struct Row {
    std::vector<std::string> key;
    Sample sample;
  };
  std::vector<Row>& rows_of(const std::string& table);
  const std::vector<Row>& rows_of(const std::string& table) const;

  std::filesystem::path folder_;
  std::vector<Row> products_, convolutions_, streaming_;
  std::set<std::string> known_;  // keys as one text, with the table
};

}  // namespace rehearse::microbench
