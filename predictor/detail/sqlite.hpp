#pragma once
// SQLite files with errors as InputErrors that name the file.

#include <sqlite3.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse::detail {

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

/// A prepared statement; indices of columns and parameters count from 0.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& file, const char* sql) : database_{database}, file_{&file} {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK) fail();
    statement_.reset(statement);
  }

  bool step() {
    const int result = sqlite3_step(statement_.get());
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) fail();
    return false;
  }
  void run() {
    step();
    sqlite3_reset(statement_.get());
  }
  /// With these values of its parameters, in their order.
  template <class... Values>
  void run(const Values&... values) {
    int index = 0;
    (bind(index++, values), ...);
    run();
  }

  void bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_.get(), index + 1, value); }
  void bind(int index, double value) { sqlite3_bind_double(statement_.get(), index + 1, value); }
  void bind(int index, const std::string& text) {
    sqlite3_bind_text64(statement_.get(), index + 1, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  template <class T>
  void bind(int index, const std::vector<T>& values) {
    const void* data = values.empty() ? "" : static_cast<const void*>(values.data());  // a null pointer would be NULL
    sqlite3_bind_blob64(statement_.get(), index + 1, data, values.size() * sizeof(T), SQLITE_STATIC);
  }

  std::int64_t integer(int column) const {
    if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) refuse(column, "an integer");
    return sqlite3_column_int64(statement_.get(), column);
  }
  double real(int column) const {
    const int type = sqlite3_column_type(statement_.get(), column);
    const double value = sqlite3_column_double(statement_.get(), column);
    if ((type != SQLITE_FLOAT && type != SQLITE_INTEGER) || !std::isfinite(value)) refuse(column, "a number");
    return value;
  }
  std::string text(int column) const {
    if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) refuse(column, "text");
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    std::string value{text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
    if (find_invalid_utf8(value)) refuse(column, "UTF-8");
    if (find_deceptive_character(value)) refuse(column, "text without control characters and invisible ones");
    return value;
  }
  template <class T>
  std::vector<T> blob(int column) const {
    if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) refuse(column, "a blob");
    const void* data = sqlite3_column_blob(statement_.get(), column);
    const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
    if (bytes % sizeof(T) != 0) refuse(column, "a whole number of values");
    std::vector<T> values(bytes / sizeof(T));
    if (bytes > 0) std::memcpy(values.data(), data, bytes);
    return values;
  }

 private:
  [[noreturn]] void fail() const {
    throw InputError{*file_ + ": cannot use this dataset: " + shortened(sqlite3_errmsg(database_), 200)};
  }
  [[noreturn]] void refuse(int column, const std::string& expected) const {
    const char* name = sqlite3_column_name(statement_.get(), column);
    throw InputError{*file_ + ": column " + (name ? name : "?") + ": expected " + expected + " in every row"};
  }

  sqlite3* database_;
  const std::string* file_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Database = std::unique_ptr<sqlite3, Close>;

/// What exists has to be a regular file: SQLite would wait for the writer of a pipe.
inline Database open(const std::filesystem::path& path, const std::string& shown, int flags) {
  if (std::error_code error; std::filesystem::exists(path, error)) require_regular_file(path);
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  Database database{opened};
  if (result != SQLITE_OK)
    throw InputError{
        shown + ": cannot open this dataset: " + (opened ? shortened(sqlite3_errmsg(opened), 200) : "out of memory")};
  return database;
}

}  // namespace rehearse::detail
