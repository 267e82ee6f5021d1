#include "sim/view/served_folder.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

TEST_CASE("a served folder gives its regular files, and nothing that leads out of it") {
  const test::TemporaryFolder scratch;
  fs::create_directories(scratch / "served/below");
  scratch.write("secret.txt", "of the user");
  scratch.write("served/below/file.txt", "content");
  fs::create_symlink(scratch / "secret.txt", scratch / "served/out.txt");
  fs::create_symlink(scratch.path, scratch / "served/parent");
  fs::create_symlink(scratch / "served/below/file.txt", scratch / "served/within.txt");
  REQUIRE(::mkfifo((scratch / "served/pipe.txt").c_str(), 0600) == 0);
  fs::create_symlink(scratch / "served", scratch / "link");
  const ServedFolder folder{scratch / "link"};
  CHECK(folder.root() == fs::canonical(scratch / "served"));

  const auto file = folder.open("below/file.txt");
  REQUIRE(file);
  CHECK(file->size() == 7);
  CHECK(file->read(0, 100) == "content");
  CHECK(file->read(3, 2) == "te");
  CHECK(file->read(7, 2).empty());
  CHECK(folder.open("within.txt"));
  CHECK(folder.find("below") == folder.root() / "below");
  CHECK(folder.find("") == folder.root());
  for (const char* name :
       {"", "below", "out.txt", "parent/secret.txt", "pipe.txt", "../secret.txt", "below/../below/file.txt",
        "./below/file.txt", "below//file.txt", "/below/file.txt", "below/", "nothing.txt"}) {
    CAPTURE(name);
    CHECK_FALSE(folder.open(name));
  }
  CHECK_FALSE(folder.find("parent"));
  CHECK_FALSE(folder.find(".."));
}

TEST_CASE("plain names have no part that a program or a file system takes for something else") {
  for (const char* name : {"", "a", "a/b c/d.json", "a..b", "a/b-", "\u00e9t\u00e9"})
    CHECK(ServedFolder::is_plain(name));
  for (const std::string name : {".", "..", "a/..", ".a", "a/.b", "-o", "a/-o", "/", "/a", "a/", "a//b", "a\nb", "a\tb",
                                 "a\\b", "\xff", "a\u202eb"})
    CHECK_FALSE(ServedFolder::is_plain(name));
  CHECK_FALSE(ServedFolder::is_plain(std::string{"a\0b", 3}));
  CHECK_FALSE(ServedFolder::is_plain(std::string(3000, 'a')));
}

TEST_CASE("what is no folder is refused in a line") {
  const test::TemporaryFolder scratch;
  const fs::path file = scratch.write("file", "");
  CHECK(test::error_of([&] { ServedFolder{file}; }) == file.string() + ": expected a folder of results; found a file");
  CHECK(test::error_of([&] { ServedFolder{scratch / "none"}; }) ==
        (scratch / "none").string() + ": expected a folder of results; No such file or directory");
}

TEST_CASE("a folder holds itself and what is below it, not what begins with its name") {
  CHECK(is_inside("/a/b", "/a/b"));
  CHECK(is_inside("/a/b/c", "/a/b"));
  CHECK_FALSE(is_inside("/a/bc", "/a/b"));
  CHECK_FALSE(is_inside("/a", "/a/b"));
}

TEST_CASE("paths that lead out are found in any place of a scenario, in lists of values, and behind links") {
  const test::TemporaryFolder scratch;
  fs::create_directories(scratch / "served/below");
  fs::create_symlink("/etc", scratch / "served/below/link");
  const fs::path root = fs::canonical(scratch / "served");
  const auto outside = [&](const Json& json) {
    return find_path_outside(json, {root / "below", root}, {root, "/usr/share"});
  };
  CHECK(outside({{"workload", {{"model", "../../secret.json"}}}}) == "/workload/model");
  CHECK(outside({{"workload", {{"model", "/etc/passwd"}}}}) == "/workload/model");
  CHECK(outside({{"groups", {{{"a", 1}}, {{"replay", "link/passwd"}}}}}) == "/groups/1/replay");
  CHECK(outside({{"grid", {{"/workload/model", "resnet50,/etc/passwd"}}}}) == "/grid/~1workload~1model");
  CHECK(outside({{"model", "../secret.json"}}) == "/model");  // from the folder itself
  CHECK_FALSE(outside({{"model", "cm-dare/resnet32"}, {"rate", "25GBps"}, {"file", "../below/x.json"}}) == "/model");
  CHECK_FALSE(outside(
      {{"model", "/usr/share/x.json"}, {"name", "/etc"}, {"source", "../../x"}, {"long", std::string(5000, 'a')}}));
}

}  // namespace rehearse
