#pragma once
// The results of many simulations in one SQLite file, which survives whatever happens to the process that writes it.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rehearse {

/// Names a run by its content: same effective scenario, same program, same key. 128 bits of FNV-1a: a million runs
/// share none by chance (probability below 1e-26).
struct RunKey {
  std::uint64_t high = 0, low = 0;
  std::string text() const;  // 32 hexadecimal digits
  auto operator<=>(const RunKey&) const = default;
};

/// The key of a run of `scenario` (effective, JSON text) by `program` (its name and version).
RunKey run_key(std::string_view scenario, std::string_view program);

/// One row of the table runs.
struct StoredRun {
  std::string name;        // of the scenario
  std::string parameters;  // JSON text: what this run set, by JSON pointer
  std::string summary;     // JSON text; empty without result
  std::string error;       // empty with a result
  bool has_died = false;   // the process ended early: to be tried again
  double wall_s = 0;
};

/// The table
///   runs(key TEXT PRIMARY KEY, name TEXT, parameters TEXT, summary TEXT or NULL, error TEXT or NULL, died INTEGER,
///        wall_s REAL, checksum TEXT: 128 bits of FNV-1a over the other columns)
/// A row whose checksum does not match is as good as none: find() passes it over and damaged() counts it; so is one of
/// a file from before there were checksums, but uncounted.
/// Each put() is a transaction of its own, in a write-ahead log: when the process is killed, what had been put is
/// there. (When the machine loses power, the last rows may be missing; the file stays sound.) Every failure is an
/// InputError that names the file. Not to be used in a forked child.
class ResultStore {
 public:
  /// Opens `file` or makes it. InputError if it is damaged, or not a result store.
  static ResultStore open(const std::filesystem::path& file);
  /// A store that nobody sees and that ends with the process.
  static ResultStore temporary();
  /// Opens `file` if it is there, without writing to it; otherwise an empty temporary store.
  static ResultStore open_to_read(const std::filesystem::path& file);

  ResultStore(ResultStore&&) noexcept;
  ~ResultStore();

  void put(const RunKey& key, const StoredRun& run);
  std::optional<StoredRun> find(const RunKey& key) const;
  /// Rows that find() has met and passed over, because their content is not what was put there.
  std::size_t damaged() const;
  /// Whether there is a row that need not be tried again.
  bool is_finished(const RunKey& key) const;

 private:
  struct Connection;
  explicit ResultStore(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace rehearse
