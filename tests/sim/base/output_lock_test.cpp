#include "sim/base/output_lock.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "sim/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {
namespace {

using test::TemporaryFolder;

std::string refusal(const std::filesystem::path& output) {
  try {
    const OutputLock lock{output};
  } catch (const NoResultError& error) { return error.what(); }
  return "none";
}

}  // namespace

TEST_CASE("an output has one writer, whom others are told") {
  const TemporaryFolder folder;
  const std::string output = folder / "data";
  {
    const OutputLock lock{output};
    CHECK(refusal(output) == output + ": process " + std::to_string(::getpid()) +
                                 " is writing it: wait until that has ended, or choose another output");
    CHECK(refusal(folder / "other") == "none");
  }
  CHECK(folder.entry_count() == 0);
  CHECK(refusal(output) == "none");
}

TEST_CASE("a killed process leaves no lock, and its file does not stay") {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const OutputLock lock{folder / "data"};
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(folder.entry_count() == 1);
  CHECK(refusal(folder / "data") == "none");
  CHECK(folder.entry_count() == 0);
}

TEST_CASE("a lock needs its folder, and does not follow a link") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(OutputLock{folder / "none/data"},
                       ((folder / "none/data").string() + ": cannot lock: " + (folder / "none/data.lock").string() +
                        ": No such file or directory")
                           .c_str(),
                       InputError);
  std::filesystem::create_symlink(folder.write("precious", "content"), folder / "data.lock");
  CHECK_THROWS_AS(OutputLock{folder / "data"}, InputError);
  CHECK(read_file(folder / "precious", 100) == "content");
}

}  // namespace rehearse
