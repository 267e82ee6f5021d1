#pragma once
// Formulas of a study file over the columns of its measurements, and the names of columns that it has elsewhere.

#include <string>

#include "calibration/study.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// Throws InputError for a column that the table lacks.
void expect_column(const JsonReader& json, const std::string& column, const CsvTable& table);

/// `may_point`: names may be pointers into the row's scenario, too. Throws InputError.
RowFormula read_formula(const JsonReader& json, const CsvTable& table, bool may_point);

/// What a column says in a formula: a number if it is one, nothing if it is empty.
ExpressionValue value_of(const CsvRow& row, const std::string& column);

/// What `ask` says of the formula in this row; errors say where both are.
template <typename Ask>
auto asked(const RowFormula& formula, const CsvRow& row, Ask ask) {
  try {
    return ask(formula.expression);
  } catch (const InputError& error) {
    throw InputError{formula.place + " (line " + std::to_string(row.line()) + " of the measurements): " + error.what()};
  }
}

}  // namespace rehearse
