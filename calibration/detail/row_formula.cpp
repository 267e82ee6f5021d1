#include "calibration/detail/row_formula.hpp"

#include <charconv>
#include <cmath>

#include "sim/base/names.hpp"

namespace rehearse {

void expect_column(const JsonReader& json, const std::string& column, const CsvTable& table) {
  if (!table.has_column(column))
    json.fail(unknown_name_message("column", column, table.columns()) + ", of " + table.file_name());
}

RowFormula read_formula(const JsonReader& json, const CsvTable& table, bool may_point) {
  const auto text = json.as<std::string>();
  RowFormula formula{.expression = {}, .place = json.place()};
  try {
    formula.expression = Expression::parse(text);
  } catch (const InputError& error) { json.fail(error.what()); }
  for (const std::string& name : formula.expression.names()) {
    if (name.starts_with('/'))
      json.expect(may_point, "names of columns alone");
    else
      expect_column(json, name, table);
  }
  return formula;
}

ExpressionValue value_of(const CsvRow& row, const std::string& column) {
  const std::string_view text = row.text(column);
  if (text.empty()) return {};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(number)) return number;
  return std::string{text};
}

}  // namespace rehearse
