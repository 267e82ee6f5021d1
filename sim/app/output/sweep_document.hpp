#pragma once
// The report of a sweep.

#include <optional>
#include <string>
#include <vector>

#include "sim/app/output/document.hpp"

namespace rehearse {

/// A combination with a result.
struct SweepPoint {
  std::vector<ParallelAxes::Value> parameters;
  double samples_per_s = 0;
  /// Of the whole training, or of a million samples.
  double time_s = 0;
  std::optional<double> cost_usd;
};

struct SweepResults {
  std::string title;
  std::vector<std::string> parameters;  // headings
  std::vector<SweepPoint> points;
  bool is_of_target = false;  // times and costs are those of the whole training
  std::size_t without_result = 0;
  Table table;  // of all rows
};

/// Speed over what varies: bars or a line for one place, a heat map for two (the mean over seeds and what else varies), parallel
/// axes for more; and the frontier of time and cost, which no other combination is below in both.
Document sweep_document(const SweepResults& results);

}  // namespace rehearse
