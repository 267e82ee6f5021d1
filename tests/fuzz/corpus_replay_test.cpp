// Replays tests/fuzz/corpus/<target>/*: seeds, and every input that once broke something.
#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

TEST_CASE("every input of the fuzzing corpus is read, or refused with one line") {
  std::vector<fuzz::Target> targets = fuzz::all_targets();
  const auto networks = fuzz::targets_of_networks();
  targets.insert(targets.end(), networks.begin(), networks.end());
  for (const fuzz::Target& target : targets) {
    int inputs = 0;
    const std::filesystem::path folder = std::filesystem::path{source_folder()} / "tests/fuzz/corpus" / target.name;
    for (const auto& entry : std::filesystem::directory_iterator{folder}) {
      CAPTURE(entry.path().string());
      const std::string input = read_file(entry.path(), 64 * kMiB);
      CHECK_NOTHROW(target.run(input));
      ++inputs;
    }
    CAPTURE(target.name);
    CHECK(inputs > 0);
  }
}

}  // namespace rehearse
