#include "sim/pool/result_store.hpp"

#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/sqlite.hpp"

namespace rehearse {

namespace {

constexpr int kApplicationId = 0x52656873;  // "Rehs": tells our files from other SQLite databases
constexpr int kVersion = 2;                 // 1 had no checksums
constexpr int kBusyMilliseconds = 60'000;   // another process may be writing

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

/// The database and its prepared statements.
struct ResultStore::Connection {
  /// Refuses what is damaged or not ours, makes what is new. Without a `file` it is a temporary database.
  Connection(const std::string& file, const std::string& shown, bool writes)
      : database{file, shown, "result store",
                 writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI} {
    database.execute("PRAGMA busy_timeout = " + std::to_string(kBusyMilliseconds));
    const std::string reading = "read this result store";
    const bool is_new = database.value_of("SELECT count(*) FROM sqlite_master", reading) == "0" &&
                        database.value_of("PRAGMA application_id", reading) == "0";
    const bool has_checksums = is_new || database.version_of(kApplicationId, 1, kVersion, reading) > 1;
    if (writes) {
      database.execute("PRAGMA journal_mode = WAL");
      database.execute("PRAGMA synchronous = NORMAL");
      database.execute("BEGIN IMMEDIATE");  // now, not after the first simulation, must it be writable
      database.execute(
          "CREATE TABLE IF NOT EXISTS runs(key TEXT PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL, summary "
          "TEXT, error TEXT, died INTEGER NOT NULL, wall_s REAL NOT NULL, checksum TEXT)");
      if (!has_checksums) database.execute("ALTER TABLE runs ADD COLUMN checksum TEXT");
      if (is_new || !has_checksums) database.mark(kApplicationId, kVersion);
      database.execute("COMMIT");
      put.emplace(
          database.prepare("INSERT OR REPLACE INTO runs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", "write a result"));
    }
    find.emplace(database.prepare(std::string{"SELECT name, parameters, summary, error, died, wall_s, "} +
                                      (has_checksums || writes ? "checksum" : "NULL") + " FROM runs WHERE key = ?1",
                                  "read a result"));
  }

  SqliteFile database;  // its end moves the log into the file
  std::optional<SqliteStatement> put, find;
  std::set<RunKey> damaged;
};

ResultStore::ResultStore(std::unique_ptr<Connection> connection) : connection_{std::move(connection)} {}
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
  const auto if_any = [](const std::string& text) { return text.empty() ? nullptr : &text; };
  connection_->put->run(key.text(), run.name, run.parameters, if_any(run.summary), if_any(run.error),
                        std::int64_t{run.has_died}, run.wall_s, checksum_of(key, run));
  connection_->damaged.erase(key);
}

std::optional<StoredRun> ResultStore::find(const RunKey& key) const {
  SqliteStatement& row = *connection_->find;
  const std::string name = key.text();
  row.reset();
  row.bind(0, name);
  if (!row.step()) return {};
  const auto text = [&row](int column) { return row.bytes(column).value_or(""); };
  const StoredRun run{.name = text(0),
                      .parameters = text(1),
                      .summary = text(2),
                      .error = text(3),
                      .has_died = row.number(4) != 0,
                      .wall_s = row.number(5)};
  const std::optional<std::string> checksum = row.bytes(6);
  row.reset();
  if (checksum == checksum_of(key, run)) return run;
  if (checksum) connection_->damaged.insert(key);
  return {};
}

std::size_t ResultStore::damaged() const { return connection_->damaged.size(); }

bool ResultStore::is_finished(const RunKey& key) const {
  const std::optional<StoredRun> run = find(key);
  return run && !run->has_died;
}

}  // namespace rehearse
