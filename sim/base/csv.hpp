#pragma once
// CSV tables (RFC 4180: commas, double quotes, CRLF or LF). Columns carry their unit in the name: time_s, size_B.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

class CsvTable;

/// One row of a table, which must outlive it.
class CsvRow {
 public:
  CsvRow(const CsvTable& table, std::size_t index) : table_{&table}, index_{index} {}

  /// The field of `column`; InputError if the table has no such column.
  std::string_view text(std::string_view column) const;
  /// A finite number; otherwise InputError `file:line: column "x": expected a number; found "abc"`.
  double number(std::string_view column) const;
  /// The same of a whole number.
  std::int64_t integer(std::string_view column) const;
  /// The field at a position known from CsvTable::columns().
  std::string_view text_at(std::size_t column) const;
  /// Line of the file on which the row starts; the header is usually on line 1.
  std::size_t line() const;
  /// Throws InputError `file:line: column "x": message`.
  [[noreturn]] void fail(std::string_view column, std::string_view message) const;

 private:
  const CsvTable* table_;
  std::size_t index_;
};

/// A table with distinct column names and at least one row.
class CsvTable {
 public:
  const std::vector<std::string>& columns() const { return columns_; }
  bool has_column(std::string_view name) const;
  /// Position of a column; InputError with the nearest name if there is none.
  std::size_t column_index(std::string_view name) const;
  std::vector<CsvRow> rows() const;
  std::size_t row_count() const { return lines_.size(); }
  CsvRow row(std::size_t index) const { return {*this, index}; }
  const std::string& file_name() const { return file_name_; }

 private:
  friend class CsvRow;
  friend CsvTable parse_csv(std::string text, const std::string& file_name);
  struct Field {
    std::uint32_t begin = 0, size = 0;
  };

  std::string file_name_;
  std::vector<std::string> columns_;
  std::string text_;                // fields refer to it
  std::vector<Field> fields_;       // row after row
  std::vector<std::size_t> lines_;  // [rows]
};

/// The table in a file. InputError if it cannot be read, has more than 256 MiB (uncompressed; "*.gz" is read through
/// gunzip), no header, no row, a duplicate or empty column name, a row with more or fewer fields than the header, a
/// misplaced quote, text that is not UTF-8, or control characters and invisible ones (find_deceptive_character). Blank
/// lines are skipped.
CsvTable load_csv_file(const std::filesystem::path& path);
/// The table in a text; errors name `file_name`.
CsvTable parse_csv(std::string text, const std::string& file_name);

/// A field to be written: text, an integer, or a double as the shortest text that reads back the same (empty if not
/// finite).
class CsvField {  // NOLINTBEGIN(google-explicit-constructor): rows are written as {"K80", 1.5}
 public:
  CsvField(std::string_view text) : text_{text} {}
  CsvField(const std::string& text) : text_{text} {}
  CsvField(const char* text) : text_{text} {}
  CsvField(double value);
  CsvField(int value) : text_{std::to_string(value)} {}
  CsvField(long value) : text_{std::to_string(value)} {}
  CsvField(long long value) : text_{std::to_string(value)} {}
  CsvField(unsigned value) : text_{std::to_string(value)} {}
  CsvField(unsigned long value) : text_{std::to_string(value)} {}
  CsvField(unsigned long long value) : text_{std::to_string(value)} {}  // NOLINTEND(google-explicit-constructor)
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Builds the text of a table. Text that a spreadsheet would take for a formula, such as "=1+2", is written behind an
/// apostrophe, which CsvRow takes away again; numbers stay as they are:  CsvWriter csv{{"gpu", "time_s"}};
/// csv.row({"K80", 1.5});  write_file(path, csv.text());
class CsvWriter {
 public:
  explicit CsvWriter(const std::vector<std::string>& columns);
  /// Adds a row of as many fields as columns; another number is our own mistake and throws std::logic_error.
  void row(std::initializer_list<CsvField> fields) { row(std::span{fields.begin(), fields.size()}); }
  void row(std::span<const CsvField> fields);
  /// Adds blank lines, so that the next row stands on `line`, if that is not above it.
  void skip_to_line(std::size_t line);
  const std::string& text() const { return text_; }

 private:
  std::size_t columns_;
  std::size_t line_ = 1;  // of what is written next
  std::string text_;
};

}  // namespace rehearse
