#pragma once
// Measured speeds of types of jobs, from a CSV file.

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/base/csv.hpp"

namespace rehearse {

/// Columns: type, gpu, gpus, steps_per_s: steps of all GPUs together; 0 says that it does not run. Besides, if there:
/// machines: on how many, empty: on any number; steps: of a whole job of this type, for traces that do not say;
/// samples_per_step.
class SpeedTable {
 public:
  explicit SpeedTable(const CsvTable& csv);

  /// Steps per second; of the nearest number of machines in the table, of two equally near ones the larger. None if the
  /// table has no row of this type, GPU and number of GPUs.
  std::optional<double> speed(const std::string& type, const std::string& gpu, int gpus, int machines) const;
  /// Whether the table states the speed on so many machines, or on any number.
  bool states(const std::string& type, const std::string& gpu, int gpus, int machines) const;
  bool has_type(const std::string& type) const { return types_.contains(type); }
  std::vector<std::string> types() const;
  std::optional<std::int64_t> steps(const std::string& type) const;
  /// The most GPUs of any row of the type.
  int most_gpus(const std::string& type) const;
  std::int64_t samples_per_step(const std::string& type, int gpus) const;

 private:
  struct Type {
    std::optional<std::int64_t> steps;
    std::map<int, std::int64_t> samples_per_step;  // by GPUs
  };
  std::map<std::string, Type> types_;
  std::map<std::tuple<std::string, std::string, int>, std::map<int, double>> speeds_;  // by machines; 0: any number
};

SpeedTable load_speed_table(const std::filesystem::path& file);

}  // namespace rehearse
