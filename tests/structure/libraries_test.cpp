// Which libraries the programs load.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// What ldd says of a file in the build folder.
std::string libraries_of(const std::string& file) {
  const test::TemporaryFolder folder;
  const std::string command = "ldd " + build_folder() + "/" + file + " >" + (folder / "libraries").string();
  REQUIRE(std::system(command.c_str()) == 0);
  return read_file(folder / "libraries", kMiB);
}

}  // namespace

TEST_CASE(
    "the program starts without LibTorch, SimGrid and an HTTP library, whose start takes longer than a small "
    "simulation") {
  const std::string libraries = libraries_of("rehearse");
  CHECK(libraries_of("rehearse-simgrid.so").find("libsimgrid") != std::string::npos);
  for (const char* heavy : {"libsimgrid", "libtorch", "libc10", "libopenblas", "libblas", "libcpp-httplib", "libssl"}) {
    CAPTURE(heavy);
    CHECK(libraries.find(heavy) == std::string::npos);
  }
}

TEST_CASE("a verb of another program says so where that was not built") {
  const test::TemporaryFolder folder;
  std::filesystem::copy(build_folder() + "/rehearse", folder / "rehearse");
  const std::string command = (folder / "rehearse").string() + " train data.db 2>" + (folder / "said").string();
  CHECK(std::system(command.c_str()) == 2 << 8);
  CHECK(read_file(folder / "said", kMiB) == "rehearse: " + (folder / "rehearse-predictor").string() +
                                                ": cannot be started: it was not built: ./run.sh train builds it\n");
  const std::string view = (folder / "rehearse").string() + " view . 2>" + (folder / "said").string();
  CHECK(std::system(view.c_str()) == 2 << 8);
  CHECK(read_file(folder / "said", kMiB).find("it needs the Debian package libcpp-httplib-dev") != std::string::npos);
}

}  // namespace rehearse
