// Folders of jobs: a result is there as a whole or not at all, whatever ends who writes it.

#include "sim/pool/job_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const JobOwner kOwner{.program = "rehearse 1", .arguments = {"sweep", "a.json"}, .directory = "/home"};

std::map<RunKey, PooledRun> results_of(const JobFolder& folder) {
  std::map<RunKey, PooledRun> results;
  ResultReader{folder}.read_new([&](const RunKey& key, PooledRun run) { results[key] = std::move(run); });
  return results;
}

std::filesystem::path only_file(const std::filesystem::path& folder) {
  return std::filesystem::directory_iterator { folder } -> path();
}

}  // namespace

TEST_CASE("a folder gives back results byte by byte, those of several writers, each once") {
  const test::TemporaryFolder place;
  const JobFolder folder{place.path / "jobs", kOwner};
  ResultWriter one{folder, "a"}, other{folder, "a"};
  ResultReader reader{folder};
  std::map<RunKey, PooledRun> results;
  const auto read = [&] {
    std::size_t count = 0;
    reader.read_new([&](const RunKey& key, PooledRun run) {
      results[key] = std::move(run);
      ++count;
    });
    return count;
  };
  const std::string bytes{"lines\n and\0 zeros\xff", 18};
  one.append(folder.key("job 1"), {.has_succeeded = true, .text = bytes, .wall_s = 0.25});
  CHECK(read() == 1);
  other.append(folder.key("job 2"), {.has_succeeded = false, .text = "", .has_died = true});
  one.append(folder.key("job 3"), {.has_succeeded = false, .text = "wrong"});
  CHECK(read() == 2);
  CHECK(read() == 0);
  CHECK(results.at(folder.key("job 1")).text == bytes);
  CHECK(results.at(folder.key("job 1")).has_succeeded);
  CHECK(results.at(folder.key("job 1")).wall_s == 0.25);
  CHECK(results.at(folder.key("job 2")).has_died);
  CHECK_FALSE(results.at(folder.key("job 3")).has_died);
}

TEST_CASE("a result that is cut short is none until the rest is there, a changed one is never") {
  const test::TemporaryFolder place;
  const JobFolder folder{place.path / "jobs", kOwner};
  ResultWriter{folder, "a"}.append(folder.key("job"), {.has_succeeded = true, .text = "the result"});
  const std::filesystem::path file = only_file(folder.path() / "results");
  const std::string whole = read_file(file, kMiB);
  ResultReader reader{folder};
  std::size_t count = 0;
  const auto read = [&](const std::string& content) {
    write_file(file, content);
    reader.read_new([&](const RunKey&, const PooledRun&) { ++count; });
    return count;
  };
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK(read(whole.substr(0, size)) == 0);
  CHECK(read(whole) == 1);

  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_file(file, changed);
    const auto results = results_of(folder);
    const bool is_wall_time = results.size() == 1 && results.begin()->second.text == "the result";
    CHECK((results.empty() || is_wall_time));
  }
}

TEST_CASE("a folder belongs to one command of one build") {
  const test::TemporaryFolder place;
  const JobFolder folder{place.path / "jobs", kOwner};
  CHECK_NOTHROW(JobFolder(folder.path(), kOwner));
  CHECK(JobFolder(folder.path()).owner().arguments == kOwner.arguments);
  JobOwner other = kOwner;
  other.program = "rehearse 2";
  CHECK_THROWS_AS(JobFolder(folder.path(), other), InputError);
  other = kOwner;
  other.arguments.emplace_back("--seeds=2");
  CHECK_THROWS_AS(JobFolder(folder.path(), other), InputError);
  CHECK_THROWS_AS(JobFolder(place.path), InputError);
  CHECK_FALSE(folder.key("job") == JobFolder(place.path / "else", {.program = "rehearse 2"}).key("job"));
}

TEST_CASE("a task runs what has no result, and again what died") {
  const test::TemporaryFolder place;
  const JobFolder folder{place.path / "jobs", kOwner};
  folder.add_task(7, {"not a job 1\n", "not\na job 2\n", "not a job 3\n"});
  CHECK(folder.tasks() == std::vector{7});
  ResultWriter{folder, "a"}.append(folder.key("not a job 1\n"), {.has_succeeded = true, .text = "there"});
  ResultWriter{folder, "a"}.append(folder.key("not\na job 2\n"), {.text = "killed", .has_died = true});
  CHECK(run_task(folder, 7, 1, {}));
  const auto results = results_of(folder);
  CHECK(results.at(folder.key("not a job 1\n")).text == "there");
  CHECK(results.at(folder.key("not a job 3\n")).text.starts_with("job: expected a JSON object"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{folder.path() / "results"}) ++files;
  CHECK(files == 3);
  CHECK(run_task(folder, 7, 1, {}));
}

}  // namespace rehearse
