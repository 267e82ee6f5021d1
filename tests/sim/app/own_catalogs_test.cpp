// A program that was installed or copied uses the catalogs of its own place, not those of the folder it was built in.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "sim/base/files.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

using namespace test;

/// Runs a command; what it prints, "" if it fails.
std::string output_of(const std::string& command) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const int status = std::system((command + " >" + out + " 2>&1").c_str());
  const std::string text = read_file(out, 16 * kMiB);
  INFO(command << ":\n" << text);
  CHECK(status == 0);
  return text;
}

void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file, kMiB);
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, file << ": " << from);
  write_file(file, text.replace(at, from.size(), to));
}

/// Changes a GPU's name and a server's cost in the catalogs of `tree`; then `program` must know both, and say where
/// they are.
void check_uses(const std::string& program, const fs::path& tree) {
  CAPTURE(program);
  const std::string scenario = (tree / "scenarios/cm-dare.json").string();
  const std::string simulate = " simulate " + scenario + " --set /training/steps=60 --quiet";
  CHECK(output_of(program + " --version").find("catalogs: " + fs::canonical(tree).string() + "\n") !=
        std::string::npos);
  CHECK(output_of(program + " list gpus").find("A100") != std::string::npos);
  const std::string before = output_of(program + simulate);
  const fs::path accelerators = tree / "platforms/catalog/accelerators.json";
  const fs::path profile = tree / "calibration/profiles/cm-dare.json";
  const std::string own_accelerators = read_file(accelerators, kMiB), own_profile = read_file(profile, kMiB);
  replace_in(accelerators, "\"A100", "\"Changed-A100");
  replace_in(profile, "\"time_per_variable\": \"", "\"time_per_variable\": \"9");
  CHECK(output_of(program + " list gpus").find("Changed-A100") != std::string::npos);
  CHECK(output_of(program + simulate) != before);
  CHECK(output_of(build_folder() + "/rehearse" + simulate) == before);  // the built one has its own
  write_file(accelerators, own_accelerators);
  write_file(profile, own_profile);
}

}  // namespace

TEST_CASE("an installed program uses the catalogs that were installed with it, also through a symbolic link") {
  const TemporaryFolder folder;
  const fs::path prefix = folder / "prefix";
  for (const char* component : {"simulator", "data"})
    (void)output_of("cmake --install " + build_folder() + " --component " + component + " --prefix " + prefix.string());
  check_uses((prefix / "bin/rehearse").string(), prefix / "share/rehearse");
  fs::create_directory(folder / "bin");
  fs::create_symlink(prefix / "bin/rehearse", folder / "bin/rehearse");
  check_uses((folder / "bin/rehearse").string(), prefix / "share/rehearse");
}

TEST_CASE("a program in a copied source tree uses the copied catalogs") {
  const TemporaryFolder folder;
  const fs::path tree = folder / "copy";
  for (const char* part : {"platforms/catalog", "workloads/models", "calibration/profiles", "scenarios"}) {
    fs::create_directories(tree / part);
    fs::copy(fs::path{kRoot} / part, tree / part, fs::copy_options::recursive);
  }
  fs::create_directories(tree / "build");
  fs::copy(fs::path{build_folder()} / "rehearse", tree / "build/rehearse");
  check_uses((tree / "build/rehearse").string(), tree);
}

TEST_CASE("a program without catalogs says where it looked for them") {
  const TemporaryFolder folder;
  fs::copy(fs::path{build_folder()} / "rehearse", folder / "rehearse");
  const std::string err = (folder / "err").string();
  const int status = std::system(((folder / "rehearse").string() + " list gpus >/dev/null 2>" + err).c_str());
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(read_file(err, kMiB).find("expected the catalogs beside this program") != std::string::npos);
}

}  // namespace rehearse
