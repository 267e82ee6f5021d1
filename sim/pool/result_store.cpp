#include "sim/pool/result_store.hpp"

#include <sqlite3.h>

#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr int kApplicationId = 0x52656873;  // "Rehs": tells our files from other SQLite databases
constexpr int kVersion = 2;                 // 1 had no checksums
constexpr int kBusyMilliseconds = 60'000;   // another process may be writing

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

__extension__ using Hash = unsigned __int128;

/// Of all that a row holds, each field with its length before it.
std::string checksum_of(const RunKey& key, const StoredRun& run) {
  std::array<char, 32> wall_s{};
  std::snprintf(wall_s.data(), wall_s.size(), "%a", run.wall_s);
  std::string content;
  for (const std::string& field : {key.text(), run.name, run.parameters, run.summary, run.error,
                                   std::string{run.has_died ? "1" : "0"}, std::string{wall_s.data()}})
    content += std::to_string(field.size()) + ":" + field;
  return run_key(content, "row").text();
}

/// Who only reads cannot remove the log that SQLite makes to read a file that has one. Without one nobody writes.
std::string uri_to_read(const std::string& file) {
  std::string uri = file.starts_with("/") ? "file://" : "file:";
  for (const char c : file) {
    std::array<char, 4> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "%%%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    uri += std::string{"%?#"}.find(c) == std::string::npos ? std::string{c} : std::string{escaped.data()};
  }
  return std::filesystem::exists(file + "-wal") ? uri : uri + "?immutable=1";
}

}  // namespace

std::string RunKey::text() const {
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return digits.data();
}

RunKey run_key(std::string_view scenario, std::string_view program) {
  // FNV-1a, 128 bits: hash = (hash ^ byte) * prime.  Source: draft-eastlake-fnv, section 5 (parameters).
  constexpr Hash kBasis = (Hash{0x6c62272e07bb0142ULL} << 64U) | 0x62b821756295c58dULL;
  constexpr Hash kPrime = (Hash{1} << 88U) | 0x13bU;
  Hash hash = kBasis;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  };
  add(program);
  add({"\0", 1});
  add(scenario);
  return {static_cast<std::uint64_t>(hash >> 64U), static_cast<std::uint64_t>(hash)};
}

/// The database and its three prepared statements.
struct ResultStore::Connection {
  Connection(const std::string& file, const std::string& shown, bool writes) : shown_name{shown}, may_write{writes} {
    if (!file.empty() && std::filesystem::exists(file)) require_regular_file(file);  // SQLite waits for pipes
    const int flags = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    const std::string name = writes ? file : uri_to_read(file);
    if (sqlite3_open_v2(name.c_str(), &database, flags, nullptr) != SQLITE_OK) {
      const std::string why = database ? sqlite3_errmsg(database) : "out of memory";
      sqlite3_close(database);
      throw InputError{shown_name + ": cannot open this result store: " + why};
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    put = {};
    find = {};
    sqlite3_close(database);  // moves the log into the file
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError{shown_name + ": " + what + ": " + sqlite3_errmsg(database)};
  }

  void execute(const char* sql) const {
    if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("cannot use this result store");
  }

  std::unique_ptr<sqlite3_stmt, Finalize> prepare(const char* sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK) fail("cannot use this result store");
    return std::unique_ptr<sqlite3_stmt, Finalize>{statement};
  }

  /// The first column of the first row.
  std::string first_text(const char* sql) const {
    const auto statement = prepare(sql);
    if (sqlite3_step(statement.get()) != SQLITE_ROW) fail("cannot read this result store");
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
    return text ? text : "";
  }

  /// Refuses what is damaged or not ours, makes what is new.
  void check_and_create() {
    sqlite3_busy_timeout(database, kBusyMilliseconds);
    const bool is_new =
        first_text("SELECT count(*) FROM sqlite_master") == "0" && first_text("PRAGMA application_id") == "0";
    if (!is_new && first_text("PRAGMA application_id") != std::to_string(kApplicationId))
      throw InputError{shown_name + ": expected a result store of rehearse; found another SQLite database"};
    const bool has_no_checksums = !is_new && first_text("PRAGMA user_version") == "1";
    if (!is_new && !has_no_checksums && first_text("PRAGMA user_version") != std::to_string(kVersion))
      throw InputError{shown_name + ": expected a result store of version " + std::to_string(kVersion) +
                       "; found version " + first_text("PRAGMA user_version")};
    if (!is_new)
      if (const std::string damage = first_text("PRAGMA quick_check(1)"); damage != "ok")
        throw InputError{shown_name + ": this result store is damaged: " + shortened(damage, 200)};
    if (may_write) {
      execute("PRAGMA journal_mode = WAL");
      execute("PRAGMA synchronous = NORMAL");
      execute("BEGIN IMMEDIATE");  // now, not after the first simulation, must it be writable
      execute(
          "CREATE TABLE IF NOT EXISTS runs(key TEXT PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL, summary "
          "TEXT, error TEXT, died INTEGER NOT NULL, wall_s REAL NOT NULL, checksum TEXT)");
      if (has_no_checksums) execute("ALTER TABLE runs ADD COLUMN checksum TEXT");
      if (is_new) execute(("PRAGMA application_id = " + std::to_string(kApplicationId)).c_str());
      if (is_new || has_no_checksums) execute(("PRAGMA user_version = " + std::to_string(kVersion)).c_str());
      execute("COMMIT");
      put = prepare("INSERT OR REPLACE INTO runs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    }
    const bool lacks_checksums = has_no_checksums && !may_write;
    find = prepare(lacks_checksums
                       ? "SELECT name, parameters, summary, error, died, wall_s, NULL FROM runs WHERE key = ?1"
                       : "SELECT name, parameters, summary, error, died, wall_s, checksum FROM runs WHERE key = ?1");
  }

  sqlite3* database = nullptr;
  std::string shown_name;
  bool may_write;
  std::unique_ptr<sqlite3_stmt, Finalize> put, find;
  std::set<RunKey> damaged;
};

namespace {

void bind_text(sqlite3_stmt* statement, int index, const std::string& text) {
  sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

std::string column_text(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return text ? std::string{text, static_cast<std::size_t>(sqlite3_column_bytes(statement, column))} : std::string{};
}

}  // namespace

ResultStore::ResultStore(std::unique_ptr<Connection> connection) : connection_{std::move(connection)} {
  connection_->check_and_create();
}
ResultStore::ResultStore(ResultStore&&) noexcept = default;
ResultStore::~ResultStore() = default;

ResultStore ResultStore::open(const std::filesystem::path& file) {
  return ResultStore{std::make_unique<Connection>(file.string(), shortened(file.string(), 4096), true)};
}

ResultStore ResultStore::temporary() {
  return ResultStore{std::make_unique<Connection>("", "temporary result store", true)};  // SQLite's name for it
}

ResultStore ResultStore::open_to_read(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) || read_file_start(file, 1).empty()) return temporary();
  return ResultStore{std::make_unique<Connection>(file.string(), shortened(file.string(), 4096), false)};
}

void ResultStore::put(const RunKey& key, const StoredRun& run) {
  sqlite3_stmt* statement = connection_->put.get();
  bind_text(statement, 1, key.text());
  bind_text(statement, 2, run.name);
  bind_text(statement, 3, run.parameters);
  if (!run.summary.empty()) bind_text(statement, 4, run.summary);
  if (!run.error.empty()) bind_text(statement, 5, run.error);
  sqlite3_bind_int(statement, 6, run.has_died ? 1 : 0);
  sqlite3_bind_double(statement, 7, run.wall_s);
  bind_text(statement, 8, checksum_of(key, run));
  const bool is_written = sqlite3_step(statement) == SQLITE_DONE;
  if (!is_written) connection_->fail("cannot write a result");
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  connection_->damaged.erase(key);
}

std::optional<StoredRun> ResultStore::find(const RunKey& key) const {
  sqlite3_stmt* statement = connection_->find.get();
  sqlite3_reset(statement);
  bind_text(statement, 1, key.text());
  const int step = sqlite3_step(statement);
  if (step != SQLITE_ROW && step != SQLITE_DONE) connection_->fail("cannot read a result");
  std::optional<StoredRun> run;
  if (step == SQLITE_ROW)
    run = StoredRun{.name = column_text(statement, 0),
                    .parameters = column_text(statement, 1),
                    .summary = column_text(statement, 2),
                    .error = column_text(statement, 3),
                    .has_died = sqlite3_column_int(statement, 4) != 0,
                    .wall_s = sqlite3_column_double(statement, 5)};
  const bool has_checksum = run && sqlite3_column_type(statement, 6) != SQLITE_NULL;
  const std::string checksum = has_checksum ? column_text(statement, 6) : std::string{};
  sqlite3_reset(statement);
  if (!run || (has_checksum && checksum == checksum_of(key, *run))) return run;
  if (has_checksum) connection_->damaged.insert(key);
  return {};
}

std::size_t ResultStore::damaged() const { return connection_->damaged.size(); }

bool ResultStore::is_finished(const RunKey& key) const {
  const std::optional<StoredRun> run = find(key);
  return run && !run->has_died;
}

}  // namespace rehearse
