#include "sim/base/output_folder.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <memory>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;
using test::TemporaryFolder;

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator{folder})
    if (!entry.is_directory()) names.insert(entry.path().lexically_relative(folder).string());
  return names;
}

void write_run(const fs::path& folder, const std::set<std::string>& names, const std::string& content) {
  OutputFolder output{folder};
  for (const std::string& name : names) output.write(name, content);
  output.commit();
}

/// No file of this process grows beyond `bytes`, as on a disk that fills.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a run replaces all files of the earlier one, and leaves those of others and the user's") {
  const TemporaryFolder folder;
  folder.write("notes.txt", "mine");
  write_run(folder.path, {"summary.json", "timeline.json", "parts/one.csv"}, "first");
  write_run(folder.path, {"diagnosis.json"}, "diagnosis");
  CHECK(names_in(folder.path) == std::set<std::string>{".rehearse-files", "notes.txt", "summary.json", "timeline.json",
                                                       "parts/one.csv", "diagnosis.json"});
  write_run(folder.path, {"summary.json", "runs.csv"}, "second");
  CHECK(names_in(folder.path) ==
        std::set<std::string>{".rehearse-files", "notes.txt", "summary.json", "runs.csv", "diagnosis.json"});
  CHECK(read_file(folder.path / "summary.json", kMiB) == "second");
  CHECK(read_file(folder.path / "notes.txt", kMiB) == "mine");
  CHECK_NOTHROW(require_complete(folder.path));
}

TEST_CASE("a full disk, or an end before the commit, leaves the earlier run as it was") {
  const TemporaryFolder folder;
  write_run(folder.path, {"summary.json", "steps.csv"}, "first");
  {
    const FullDisk disk{1000};
    OutputFolder output{folder.path};
    output.write("summary.json", "second");
    CHECK_THROWS_WITH_AS(output.write("steps.csv", std::string(2000, 'x')), doctest::Contains("File too large"),
                         InputError);
  }
  CHECK(names_in(folder.path) == std::set<std::string>{".rehearse-files", "summary.json", "steps.csv"});
  CHECK(read_file(folder.path / "summary.json", kMiB) == "first");
  CHECK_NOTHROW(require_complete(folder.path));
}

TEST_CASE("a commit that cannot be finished says that the folder is incomplete, and the next run repairs it") {
  const TemporaryFolder folder;
  write_run(folder.path, {"a.csv", "b.csv", "old.csv"}, "first");
  OutputFolder output{folder.path};
  output.write("a.csv", "second");
  output.write("b.csv", "second");
  fs::remove(folder.path / "b.csv");
  fs::create_directories(folder.path / "b.csv" / "in the way");
  CHECK_THROWS_AS(output.commit(), InputError);
  CHECK_THROWS_WITH_AS(require_complete(folder.path), doctest::Contains("is incomplete"), InputError);
  fs::remove_all(folder.path / "b.csv");
  write_run(folder.path, {"a.csv", "b.csv"}, "third");
  CHECK_NOTHROW(require_complete(folder.path));
  CHECK(read_file(folder.path / "a.csv", kMiB) == "third");
  CHECK_FALSE(fs::exists(folder.path / "old.csv"));
}

TEST_CASE("the next run takes away what a run left that was ended in its commit, whatever its files are called") {
  const TemporaryFolder folder;
  folder.write("notes.txt", "mine");
  write_run(folder.path, {"diagnosis.json"}, "of another verb");
  write_run(folder.path, {"job.0.et", "job.1.et", "job.2.et"}, "first");
  {
    OutputFolder output{folder.path};
    output.write("job.0.et", "second");
    output.write("job.1.et", "second");
    fs::remove(folder.path / "job.1.et");
    fs::create_directories(folder.path / "job.1.et" / "in the way");
    CHECK_THROWS_AS(output.commit(), InputError);
  }
  fs::remove_all(folder.path / "job.1.et");
  write_run(folder.path, {"other.0.et"}, "third");
  CHECK_NOTHROW(require_complete(folder.path));
  CHECK(names_in(folder.path) == std::set<std::string>{".rehearse-files", "notes.txt", "diagnosis.json", "other.0.et"});
}

TEST_CASE("a run that ends without its commit leaves no folder, and one without old files no empty one") {
  const TemporaryFolder folder;
  {
    OutputFolder output{folder.path};
    output.write("kineto/rank-0.json", "half");
  }
  CHECK_FALSE(fs::exists(folder.path / "kineto"));
  write_run(folder.path, {"summary.json", "kineto/ranks/0.json"}, "first");
  write_run(folder.path, {"summary.json"}, "second");
  CHECK_FALSE(fs::exists(folder.path / "kineto"));
  folder.write("in-the-way", "a file");
  OutputFolder output{folder.path};
  CHECK_THROWS_WITH_AS(output.write("in-the-way/a.csv", ""), doctest::Contains("cannot create this folder"),
                       InputError);
}

TEST_CASE("a process that ends at once leaves nothing unfinished") {
  const TemporaryFolder folder;
  const MadeFolder made{folder.path / "a/b"}, made_for_user{folder.path / "c"};
  folder.write("c/notes.txt", "mine");
  const auto files = std::make_unique<OutputFolder>(folder.path / "a/b");
  files->write("kineto/rank-0.json", "half");
  { const MadeFolder given_back{folder.path / "d"}; }
  fs::create_directories(folder.path / "d");
  folder.write("d/notes.txt", "mine");
  remove_unfinished_output();
  CHECK_FALSE(fs::exists(folder.path / "a"));
  CHECK(names_in(folder.path) == std::set<std::string>{"c/notes.txt", "d/notes.txt"});
}

TEST_CASE("what a killed run left behind is removed by the next one, what a living one writes is not") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / ".rehearse-new-killed");
  folder.write(".rehearse-new-killed/summary.json", "half");
  OutputFolder living{folder.path};
  living.write("living.csv", "living");
  write_run(folder.path, {"summary.json"}, "whole");
  CHECK_FALSE(fs::exists(folder.path / ".rehearse-new-killed"));
  living.commit();
  CHECK(read_file(folder.path / "living.csv", kMiB) == "living");
  CHECK(read_file(folder.path / "summary.json", kMiB) == "whole");
}

TEST_CASE("a folder in parts is incomplete until all are there, and a list of foreign names removes nothing outside") {
  const TemporaryFolder folder;
  const fs::path results = folder.path / "results";
  fs::create_directories(results);
  const FolderInParts parts{results};
  CHECK_THROWS_AS(require_complete(results), InputError);
  parts.finish();
  CHECK_NOTHROW(require_complete(results));

  folder.write("precious.txt", "mine");
  folder.write("results/.rehearse-files", "summary.json\n../precious.txt\n" + (folder.path / "precious.txt").string());
  write_run(results, {"summary.json"}, "new");
  CHECK(fs::exists(folder.path / "precious.txt"));

  fs::create_directories(results / "mine");
  folder.write("results/notes.txt", "mine");
  folder.write("results/.rehearse-files", "summary.json\n.\nmine\nnotes.txt/x\n" + std::string(5000, 'a') + "\n");
  write_run(results, {"summary.json"}, "newer");
  CHECK_NOTHROW(require_complete(results));
  CHECK(names_in(results) == std::set<std::string>{".rehearse-files", "notes.txt", "summary.json"});
}

}  // namespace rehearse
