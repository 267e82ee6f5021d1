#pragma once
// SQLite files with errors as InputErrors that name the file. Who includes this links SQLite::SQLite3: rehearse::base
// itself does not, so that programs without databases do not load it.

#include <sqlite3.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

/// A database that is open: where it is, as errors show it, and what its file is to the user ("dataset").
struct SqliteConnection {
  /// Throws "SHOWN: cannot DOING: SQLite's reason"; if `doing` is empty, that it cannot be used.
  [[noreturn]] void fail(const std::string& doing = {}) const {
    const std::string why = database ? shortened(sqlite3_errmsg(database.get()), 200) : "out of memory";
    throw InputError{shown + ": cannot " + (doing.empty() ? "use this " + kind : doing) + ": " + why};
  }

  struct Close {
    void operator()(sqlite3* opened) const { sqlite3_close(opened); }
  };
  std::string shown, kind;
  std::unique_ptr<sqlite3, Close> database;
};

/// A prepared statement; indices of columns and parameters count from 0. Ends before its file does.
class SqliteStatement {
 public:
  /// Errors of its steps say "cannot DOING".
  SqliteStatement(const SqliteConnection& file, const std::string& sql, std::string doing)
      : file_{&file}, doing_{std::move(doing)} {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(file.database.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) file.fail();
    statement_.reset(statement);
  }

  /// Whether there is another row.
  bool step() {
    const int result = sqlite3_step(statement_.get());
    if (result != SQLITE_ROW && result != SQLITE_DONE) file_->fail(doing_);
    return result == SQLITE_ROW;
  }
  void reset() { sqlite3_reset(statement_.get()); }
  /// To its end, with these values of its parameters, in their order.
  template <class... Values>
  void run(const Values&... values) {
    reset();
    int index = 0;
    (bind(index++, values), ...);
    step();
    reset();
  }

  // Texts and blobs have to live until the last step.
  void bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_.get(), index + 1, value); }
  void bind(int index, double value) { sqlite3_bind_double(statement_.get(), index + 1, value); }
  void bind(int index, const std::string& text) {
    sqlite3_bind_text64(statement_.get(), index + 1, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind(int index, const std::string* text) {  // NULL without one
    if (text)
      bind(index, *text);
    else
      sqlite3_bind_null(statement_.get(), index + 1);
  }
  template <class T>
  void bind(int index, const std::vector<T>& values) {
    const void* data = values.empty() ? "" : static_cast<const void*>(values.data());  // a null pointer would be NULL
    sqlite3_bind_blob64(statement_.get(), index + 1, data, values.size() * sizeof(T), SQLITE_STATIC);
  }

  std::int64_t integer(int column) const {
    if (type(column) != SQLITE_INTEGER) refuse(column, "an integer");
    return sqlite3_column_int64(statement_.get(), column);
  }
  double real(int column) const {
    const double value = number(column);
    if ((type(column) != SQLITE_FLOAT && type(column) != SQLITE_INTEGER) || !std::isfinite(value))
      refuse(column, "a number");
    return value;
  }
  std::string text(int column) const {
    if (type(column) != SQLITE_TEXT) refuse(column, "text");
    std::string value = *bytes(column);
    if (find_invalid_utf8(value)) refuse(column, "UTF-8");
    if (find_deceptive_character(value)) refuse(column, "text without control characters and invisible ones");
    return value;
  }
  template <class T>
  std::vector<T> blob(int column) const {
    if (type(column) != SQLITE_BLOB) refuse(column, "a blob");
    const void* data = sqlite3_column_blob(statement_.get(), column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
    if (size % sizeof(T) != 0) refuse(column, "a whole number of values");
    std::vector<T> values(size / sizeof(T));
    if (size > 0) std::memcpy(values.data(), data, size);
    return values;
  }
  // Whatever the column holds, converted as SQLite does; there are no bytes of a NULL.
  double number(int column) const { return sqlite3_column_double(statement_.get(), column); }
  std::optional<std::string> bytes(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    if (!text) return {};
    return std::string{text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  int type(int column) const { return sqlite3_column_type(statement_.get(), column); }
  [[noreturn]] void refuse(int column, const std::string& expected) const {
    const char* name = sqlite3_column_name(statement_.get(), column);
    throw InputError{file_->shown + ": column " + (name ? name : "?") + ": expected " + expected + " in every row"};
  }

  const SqliteConnection* file_;
  std::string doing_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// A database of ours, `kind` to the user; errors call it `shown`. `doing` is what an error says cannot be done, without
/// it "use this KIND".
class SqliteFile {
 public:
  /// What exists has to be a regular file: SQLite would wait for the writer of a pipe. "" is a temporary database.
  /// `flags` are SQLite's; with SQLITE_OPEN_URI a file without log is one that nobody writes.
  SqliteFile(const std::filesystem::path& path, const std::string& shown, const std::string& kind, int flags)
      : opened_{std::make_unique<SqliteConnection>(SqliteConnection{shown, kind, {}})} {
    if (std::error_code error; std::filesystem::exists(path, error)) require_regular_file(path);
    sqlite3* database = nullptr;
    const std::string name = (flags & SQLITE_OPEN_URI) != 0 ? uri_to_read(path.string()) : path.string();
    const int result = sqlite3_open_v2(name.c_str(), &database, flags, nullptr);
    opened_->database.reset(database);
    if (result != SQLITE_OK) opened_->fail("open this " + kind);
    if ((flags & SQLITE_OPEN_READONLY) == 0) return;
    sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  }

  SqliteStatement prepare(const std::string& sql, const std::string& doing = {}) const {
    return {*opened_, sql, doing};
  }
  void execute(const std::string& sql, const std::string& doing = {}) const {
    if (sqlite3_exec(opened_->database.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      opened_->fail(doing);
  }
  /// The first column of the first row.
  std::string value_of(const std::string& sql, const std::string& doing = {}) const {
    SqliteStatement statement = prepare(sql, doing);
    if (!statement.step()) opened_->fail(doing);
    return statement.bytes(0).value_or("");
  }

  void mark(int application_id, int version, const std::string& doing = {}) const {
    execute("PRAGMA application_id = " + std::to_string(application_id), doing);
    execute("PRAGMA user_version = " + std::to_string(version), doing);
  }
  /// The version that mark() wrote, from `oldest` to `newest`. Refuses what is damaged, and what others have written.
  int version_of(int application_id, int oldest, int newest, const std::string& doing = {}) const {
    const auto refuse = [&](const std::string& what) { throw InputError{opened_->shown + ": " + what}; };
    const std::string expected = "expected a " + opened_->kind + " of ";
    if (value_of("PRAGMA application_id", doing) != std::to_string(application_id))
      refuse(expected + "rehearse; found another SQLite database");
    const std::string version = value_of("PRAGMA user_version", doing);
    int found = oldest;
    while (found < newest && version != std::to_string(found)) ++found;
    if (version != std::to_string(found))
      refuse(expected + "version " + std::to_string(newest) + "; found version " + version);
    if (const std::string damage = value_of("PRAGMA quick_check(1)", doing); damage != "ok")
      refuse("this " + opened_->kind + " is damaged: " + shortened(damage, 200));
    return found;
  }

 private:
  /// Who only reads cannot remove the log that SQLite makes to read a file that has one.
  static std::string uri_to_read(const std::string& file) {
    std::string uri = file.starts_with("/") ? "file://" : "file:";
    for (const char c : file) {
      std::array<char, 4> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "%%%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      uri += std::string{"%?#"}.find(c) == std::string::npos ? std::string{c} : std::string{escaped.data()};
    }
    return std::filesystem::exists(file + "-wal") ? uri : uri + "?immutable=1";
  }

  std::unique_ptr<SqliteConnection> opened_;
};

}  // namespace rehearse
