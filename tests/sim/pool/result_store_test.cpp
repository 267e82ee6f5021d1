// The result store: what was put is there after a kill, and a file that is not ours is refused with one line.

#include "sim/pool/result_store.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

std::string refusal(const std::filesystem::path& file) {
  try {
    (void)ResultStore::open(file);
  } catch (const InputError& error) {
    CHECK(std::string{error.what()}.find('\n') == std::string::npos);
    return std::string{error.what()}.substr(file.string().size());
  }
  return "accepted";
}

}  // namespace

TEST_CASE("keys are FNV-1a of program, a zero byte and scenario, in 128 bits") {
  CHECK(run_key("a", "").text().size() == 32);
  CHECK(run_key("a", "b") == run_key("a", "b"));
  CHECK(run_key("a", "b") != run_key("b", "a"));
  CHECK(run_key("ab", "") != run_key("b", "a"));
  // One zero byte: basis x prime. The prime is 2^88 + 315, so the low 64 bits are those of the basis x 315.
  CHECK(run_key("", "").low == 0x62b821756295c58dULL * 315);
}

TEST_CASE("what is put is found, and replaced by what is put later") {
  const test::TemporaryFolder folder;
  const RunKey key = run_key("scenario", "program"), other = run_key("other", "program");
  {
    ResultStore store = ResultStore::open(folder / "results.sqlite");
    CHECK_FALSE(store.find(key));
    store.put(key, {.name = "died", .parameters = "{}", .error = "signal 9", .has_died = true});
    CHECK_FALSE(store.is_finished(key));
    store.put(key, {.name = "n'a\"me", .parameters = "{\"/a\":1}", .summary = "{\"x\":1}", .wall_s = 0.5});
    store.put(other, {.name = "failed", .parameters = "{}", .error = "too large"});
  }
  CHECK(folder.entry_count() == 1);  // the log is merged
  const ResultStore store = ResultStore::open_to_read(folder / "results.sqlite");
  REQUIRE(store.find(key));
  CHECK(store.find(key)->name == "n'a\"me");
  CHECK(store.find(key)->parameters == "{\"/a\":1}");
  CHECK(store.find(key)->summary == "{\"x\":1}");
  CHECK(store.find(key)->error.empty());
  CHECK(store.find(key)->wall_s == 0.5);
  CHECK(store.is_finished(key));
  CHECK(store.find(other)->summary.empty());
  CHECK(store.find(other)->error == "too large");
  CHECK(store.is_finished(other));
  CHECK_FALSE(store.is_finished(run_key("scenario", "another program")));
}

TEST_CASE("reading leaves nothing beside a store, whatever its name") {
  const test::TemporaryFolder folder;
  const RunKey key{1, 2};
  for (const char* name : {"results.sqlite", "a b?c#d%20e.sqlite"}) {
    const std::filesystem::path file = folder / name;
    ResultStore::open(file).put(key, {.name = "run", .parameters = "{}", .summary = "{}", .error = "", .wall_s = 1});
    CHECK(ResultStore::open_to_read(file).is_finished(key));
    CHECK_FALSE(std::filesystem::exists(file.string() + "-shm"));
    CHECK_FALSE(std::filesystem::exists(file.string() + "-wal"));
  }
}

TEST_CASE("a row of which one character has changed, in any column, is as good as none, until it is put again") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.sqlite";
  const RunKey key{1, 2}, other{3, 4};
  const StoredRun run{
      .name = "first", .parameters = "{\"/a\":17}", .summary = "{\"steps_per_s\":17.25}", .wall_s = 0.5};
  const auto execute = [&](const char* sql) {
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
    REQUIRE(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
  };
  for (const char* change : {"summary = '{\"steps_per_s\":17.35}'", "parameters = '{\"/a\":18}'", "name = 'fist'",
                             "error = 'none'", "died = 1", "wall_s = 0.75", "checksum = '0'", "summary = NULL"}) {
    CAPTURE(change);
    {
      ResultStore store = ResultStore::open(file);
      store.put(key, run);
      store.put(other, run);
      CHECK(store.is_finished(key));
      CHECK(store.damaged() == 0);
    }
    execute((std::string{"UPDATE runs SET "} + change + " WHERE key LIKE '%1%2'").c_str());
    CHECK_FALSE(ResultStore::open_to_read(file).find(key));
    ResultStore store = ResultStore::open(file);
    CHECK_FALSE(store.find(key));
    CHECK_FALSE(store.is_finished(key));
    CHECK(store.damaged() == 1);
    CHECK(store.is_finished(other));
    store.put(key, run);
    CHECK(store.damaged() == 0);
    CHECK(store.find(key)->summary == run.summary);
  }
}

TEST_CASE("a store from before there were checksums is taken over, its rows are not") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.sqlite";
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database,
                       "CREATE TABLE runs(key TEXT PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL, summary "
                       "TEXT, error TEXT, died INTEGER NOT NULL, wall_s REAL NOT NULL);"
                       "INSERT INTO runs VALUES('00000000000000010000000000000002', 'n', '{}', '{}', NULL, 0, 0.5);"
                       "PRAGMA application_id = 1382377587; PRAGMA user_version = 1;",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK_FALSE(ResultStore::open_to_read(file).find({1, 2}));
  ResultStore store = ResultStore::open(file);
  CHECK_FALSE(store.find({1, 2}));
  CHECK(store.damaged() == 0);
  store.put({1, 2}, {.name = "n", .parameters = "{}", .summary = "{}"});
  CHECK(store.is_finished({1, 2}));
}

TEST_CASE("a temporary store leaves no file") {
  ResultStore store = ResultStore::temporary();
  store.put({1, 2}, {.name = "n", .parameters = "{}", .summary = "{}"});
  CHECK(store.is_finished({1, 2}));
  CHECK_FALSE(ResultStore::open_to_read("/nowhere/results.sqlite").is_finished({1, 2}));
}

TEST_CASE("what was put before a kill is there") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.sqlite";
  const pid_t writer = ::fork();
  if (writer == 0) {
    ResultStore store = ResultStore::open(file);
    for (std::uint64_t i = 0; i < 100; ++i) store.put({0, i}, {.name = "n", .parameters = "{}", .summary = "{}"});
    ::raise(SIGKILL);
  }
  ::waitpid(writer, nullptr, 0);
  const ResultStore store = ResultStore::open(file);
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(store.is_finished({0, i}));
}

TEST_CASE("two processes may put into one store") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.sqlite";
  { (void)ResultStore::open(file); }
  std::vector<pid_t> writers;
  for (std::uint64_t w = 0; w < 2; ++w) {
    writers.push_back(::fork());
    if (writers.back() != 0) continue;
    try {
      ResultStore store = ResultStore::open(file);
      for (std::uint64_t i = 0; i < 200; ++i) store.put({w, i}, {.name = "n", .parameters = "{}", .summary = "{}"});
    } catch (const std::exception&) { ::_exit(1); }
    ::_exit(0);
  }
  for (const pid_t writer : writers) {
    int status = 0;
    ::waitpid(writer, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  const ResultStore store = ResultStore::open(file);
  for (std::uint64_t w = 0; w < 2; ++w)
    for (std::uint64_t i = 0; i < 200; ++i) CHECK(store.is_finished({w, i}));
}

TEST_CASE("a damaged or foreign file is refused with one line") {
  const test::TemporaryFolder folder;
  CHECK(refusal(folder.write("text", "once upon a time there was no database at all")) ==
        ": cannot use this result store: file is not a database");
  std::string content;
  {
    const std::filesystem::path file = folder / "own";
    {
      ResultStore store = ResultStore::open(file);
      for (std::uint64_t i = 0; i < 500; ++i)
        store.put({i, i}, {.name = "n", .parameters = "{}", .summary = std::string(1000, 'x')});
    }
    content = read_file(file, 64 * kMiB);
  }
  CHECK(refusal(folder.write("whole", content)) == "accepted");
  CHECK(refusal(folder.write("empty", "")) == "accepted");
  std::string overwritten = content;
  for (std::size_t i = content.size() / 3; i < 2 * content.size() / 3; ++i) overwritten[i] = static_cast<char>(i * 37);
  CHECK(refusal(folder.write("overwritten", overwritten)).find(": this result store is damaged: ") == 0);
  CHECK(refusal(folder.write("short", content.substr(0, content.size() / 2))).find("accepted") == std::string::npos);
  std::string foreign = content;
  foreign[68] = 'x';  // the application id: bytes 68 to 71 of an SQLite file's header
  CHECK(refusal(folder.write("foreign", foreign)) ==
        ": expected a result store of rehearse; found another SQLite database");
  std::string later = content;
  later[63] = 9;  // the user version: bytes 60 to 63
  CHECK(refusal(folder.write("later", later)) == ": expected a result store of version 2; found version 9");
  CHECK(refusal(folder.path) == ": cannot read: Is a directory");
  CHECK(refusal(folder / "missing" / "results.sqlite") ==
        ": cannot open this result store: unable to open database file");
}

}  // namespace rehearse
