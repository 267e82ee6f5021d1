#pragma once
// The scenarios of a study's rows: a base scenario, changed by what the row's columns say.

#include <memory>
#include <string>
#include <vector>

#include "calibration/study.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// What a study file says of it: "columns", and behind them "derive".
class RowChanges {
 public:
  /// Throws InputError.
  RowChanges(const JsonReader& study, const CsvTable& table);
  ~RowChanges();

  /// The scenario of a row, whose place is `row_place`; sets its problem if a value is not mapped.
  std::string scenario(const Json& base, const std::string& row_place, StudyRow& row) const;

  /// Of each column whose value goes to a pointer and that some rows leave empty, but not all: how many of them keep what the
  /// scenario has there.
  std::vector<std::string> remarks(const std::vector<StudyRow>& rows) const;

 private:
  struct Rules;
  std::unique_ptr<const Rules> rules_;
};

}  // namespace rehearse
