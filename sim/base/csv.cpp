#include "sim/base/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kMaxTable = 256 * kMiB;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

[[noreturn]] void fail_at(const std::string& file_name, std::size_t line, const std::string& message) {
  throw InputError{file_name + ":" + std::to_string(line) + ": " + message};
}

/// Reads field after field. A quoted field with doubled quotes is shortened in place, so that every field is a piece of
/// the text.
class CsvScanner {
 public:
  struct Field {
    std::size_t begin, size;
    bool ends_row;
  };

  CsvScanner(std::string& text, const std::string& file_name) : text_{text}, file_name_{file_name} {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  bool is_at_end() const { return at_ >= text_.size(); }
  std::size_t line() const { return line_; }

  void skip_blank_lines() {
    while (take_line_end()) {}
  }

  Field next() { return !is_at_end() && text_[at_] == '"' ? next_quoted() : next_plain(); }

 private:
  Field next_plain() {
    const std::size_t begin = at_;
    while (!is_at_end() && text_[at_] != ',' && !is_line_end()) {
      if (text_[at_] == '"')
        fail_at(file_name_, line_, "expected no quote inside a field that does not start with one");
      ++at_;
    }
    return finish(begin, at_ - begin);
  }

  Field next_quoted() {
    const std::size_t opening_line = line_;
    const std::size_t begin = ++at_;
    std::size_t end = begin;
    while (true) {
      if (is_at_end()) fail_at(file_name_, opening_line, "expected a closing quote for the field that starts here");
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c == '"') {
        if (is_at_end() || text_[at_] != '"') break;
        ++at_;
      }
      text_[end++] = c;
    }
    if (!is_at_end() && text_[at_] != ',' && !is_line_end()) {
      fail_at(file_name_, line_, "expected a comma or the end of the line after a closing quote");
    }
    return finish(begin, end - begin);
  }

  Field finish(std::size_t begin, std::size_t size) {
    if (!is_at_end() && text_[at_] == ',') {
      ++at_;
      return {begin, size, false};
    }
    take_line_end();
    return {begin, size, true};
  }

  bool is_line_end() const { return text_[at_] == '\n' || (text_[at_] == '\r' && text_.compare(at_, 2, "\r\n") == 0); }

  bool take_line_end() {
    if (is_at_end() || !is_line_end()) return false;
    at_ += text_[at_] == '\r' ? 2 : 1;
    ++line_;
    return true;
  }

  std::string& text_;
  const std::string& file_name_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

void require_distinct(const std::vector<std::string>& columns, const std::string& file_name, std::size_t line) {
  std::set<std::string_view> seen;
  for (const std::string& column : columns) {
    if (column.empty()) fail_at(file_name, line, "expected a name for every column; found an empty one");
    if (!seen.insert(column).second)
      fail_at(file_name, line, "expected distinct columns; found " + in_quotes(column) + " twice");
  }
}

std::string count_of_fields(std::size_t count) { return std::to_string(count) + (count == 1 ? " field" : " fields"); }

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

template <class T>
std::optional<T> read_number(std::string_view text) {
  text = trimmed(text);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Where a formula would begin behind apostrophes: a spreadsheet takes a field for one if it begins with = + - @, their
/// wide forms, a tab or a carriage return. Source: OWASP, CSV Injection.
bool begins_like_formula(std::string_view text) {
  const std::string_view rest = text.substr(std::min(text.find_first_not_of('\''), text.size()));
  if (rest.empty()) return false;
  for (const std::string_view wide : {"\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D", "\xEF\xBC\xA0"})
    if (rest.starts_with(wide)) return true;
  return std::string_view{"=+-@\t\r"}.find(rest[0]) != std::string_view::npos;
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return false;
  const bool has_blank_end = text.front() == ' ' || text.back() == ' ';
  return has_blank_end || text.find_first_of(",\"\r\n") != std::string_view::npos || text.starts_with(kByteOrderMark);
}

/// Escaped line by line, should our own text hold what no input may.
std::string without_deception(std::string_view text) {
  if (!find_deceptive_character(text)) return std::string{text};
  std::string result;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result += printable(text.substr(begin, end - begin));
    if (end == text.size()) return result;
    result += '\n';
    begin = end + 1;
  }
}

}  // namespace

CsvTable load_csv_file(const std::filesystem::path& path) {
  std::string text = read_file(path, kMaxTable);
  if (path.extension() == ".gz") text = gunzip(text, kMaxTable, path.string());
  return parse_csv(std::move(text), path.string());
}

CsvTable parse_csv(std::string text, const std::string& file_name) {
  if (text.size() > kMaxTable) throw InputError{file_name + ": expected at most 256MiB of text"};
  const auto bad = std::min(find_invalid_utf8(text).value_or(text.size()), text.find('\0'));
  if (bad < text.size()) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    fail_at(file_name, static_cast<std::size_t>(line),
            "expected UTF-8 text; found byte " + in_quotes(text.substr(bad, 1)));
  }
  for (std::size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0, line = 1; begin < text.size();
       ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view content = std::string_view{text}.substr(begin, end - begin);
    if (content.ends_with('\r')) content.remove_suffix(1);
    if (const auto deceptive = find_deceptive_character(content))
      fail_at(file_name, line,
              "expected text without control characters and invisible ones; found " +
                  in_quotes(content.substr(*deceptive, 10)));
    begin = end + 1;
  }

  CsvTable table;
  table.file_name_ = file_name;
  table.text_ = std::move(text);
  CsvScanner scanner{table.text_, file_name};
  if (const std::string_view what = emptiness(table.text_); !what.empty())
    throw InputError{file_name + ": expected a line of column names; found " + std::string{what}};
  scanner.skip_blank_lines();
  const std::size_t header_line = scanner.line();
  for (bool ends_row = false; !ends_row;) {
    const auto field = scanner.next();
    table.columns_.emplace_back(trimmed(std::string_view{table.text_}.substr(field.begin, field.size)));
    ends_row = field.ends_row;
  }
  require_distinct(table.columns_, file_name, header_line);

  for (scanner.skip_blank_lines(); !scanner.is_at_end(); scanner.skip_blank_lines()) {
    const std::size_t line = scanner.line();
    std::size_t count = 0;
    for (bool ends_row = false; !ends_row; ++count) {
      const auto field = scanner.next();
      table.fields_.push_back({static_cast<std::uint32_t>(field.begin), static_cast<std::uint32_t>(field.size)});
      ends_row = field.ends_row;
    }
    if (count != table.columns_.size()) {
      fail_at(
          file_name, line,
          "expected " + count_of_fields(table.columns_.size()) + " as in the header; found " + std::to_string(count));
    }
    table.lines_.push_back(line);
  }
  if (table.lines_.empty())
    throw InputError{file_name + ": expected at least one row below the column names; found none"};
  return table;
}

bool CsvTable::has_column(std::string_view name) const { return std::ranges::find(columns_, name) != columns_.end(); }

std::size_t CsvTable::column_index(std::string_view name) const {
  const auto column = std::ranges::find(columns_, name);
  if (column == columns_.end())
    throw InputError{file_name_ + ": expected a column " + in_quotes(name) + "; found " + list_in_quotes(columns_)};
  return static_cast<std::size_t>(column - columns_.begin());
}

std::vector<CsvRow> CsvTable::rows() const {
  std::vector<CsvRow> rows;
  rows.reserve(row_count());
  for (std::size_t i = 0; i < row_count(); ++i) rows.emplace_back(*this, i);
  return rows;
}

std::size_t CsvRow::line() const { return table_->lines_[index_]; }

std::string_view CsvRow::text_at(std::size_t column) const {
  const auto [begin, size] = table_->fields_[index_ * table_->columns_.size() + column];
  const std::string_view text = std::string_view{table_->text_}.substr(begin, size);
  return text.starts_with('\'') && begins_like_formula(text) ? text.substr(1) : text;
}

std::string_view CsvRow::text(std::string_view column) const { return text_at(table_->column_index(column)); }

double CsvRow::number(std::string_view column) const {
  const auto value = read_number<double>(text(column));
  if (!value || !std::isfinite(*value)) fail(column, "expected a number; found " + in_quotes(text(column)));
  return *value;
}

std::int64_t CsvRow::integer(std::string_view column) const {
  const auto value = read_number<std::int64_t>(text(column));
  if (!value) fail(column, "expected a whole number; found " + in_quotes(text(column)));
  return *value;
}

void CsvRow::fail(std::string_view column, std::string_view message) const {
  fail_at(table_->file_name_, line(), "column " + in_quotes(column) + ": " + std::string{message});
}

CsvField::CsvField(double value) : text_{std::isfinite(value) ? to_text(value) : ""} {}

CsvWriter::CsvWriter(const std::vector<std::string>& columns) : columns_{columns.size()} {
  const std::vector<CsvField> fields{columns.begin(), columns.end()};
  row(fields);
}

void CsvWriter::row(std::span<const CsvField> fields) {
  if (fields.size() != columns_) throw std::logic_error{"a CSV row has another number of fields than the header"};
  for (const CsvField& field : fields) {
    if (&field != fields.data()) text_ += ',';
    const bool is_formula = begins_like_formula(field.text()) && !read_number<double>(field.text());
    const std::string text = (is_formula ? "'" : "") + without_deception(field.text());
    const bool is_blank_line = fields.size() == 1 && text.empty();
    if (!is_blank_line && !needs_quotes(text)) {
      text_ += text;
      continue;
    }
    text_ += '"';
    for (const char c : text) text_.append(c == '"' ? 2 : 1, c);
    text_ += '"';
    line_ += static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }
  text_ += '\n';
  ++line_;
}

void CsvWriter::skip_to_line(std::size_t line) {
  if (line <= line_) return;
  text_.append(line - line_, '\n');
  line_ = line;
}

}  // namespace rehearse
