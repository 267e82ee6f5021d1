// Looks for inputs that break a target, where libFuzzer cannot: fuzz_search TARGET SECONDS SEED CORPUS_FOLDER. Inputs of the
// corpus are changed by chance, without regard to what they reach. The last one is in ./fuzz-input if the program ends by
// itself before its time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "sim/base/random.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace rehearse {
namespace {

std::string changed(std::string input, Rng& random) {
  for (std::uint64_t i = 0, count = 1 + random.below(24); i < count; ++i) {
    const auto at = static_cast<std::size_t>(random.below(input.size() + 1));
    const char byte = static_cast<char>(random.below(random.below(2) == 0 ? 256 : 16));
    if (at == input.size() || random.below(3) == 0)
      input.insert(at, 1, byte);
    else if (random.below(8) == 0)
      input.erase(at, 1);
    else
      input[at] = byte;
  }
  return input;
}

int search(const std::string& name, double seconds, std::uint64_t seed, const std::string& folder) {
  std::vector<fuzz::Target> targets = fuzz::all_targets();
  const auto networks = fuzz::targets_of_networks();
  targets.insert(targets.end(), networks.begin(), networks.end());
  const auto target = std::ranges::find(targets, name, &fuzz::Target::name);
  if (target == targets.end()) return EXIT_FAILURE;
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) corpus.push_back(read_file(entry.path(), kMiB));
  Rng random{seed, name};
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t count = 0;
  for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; ++count) {
    const std::string input = changed(corpus[random.below(corpus.size())], random);
    write_file("fuzz-input", input);
    try {
      target->run(input);
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
      return EXIT_FAILURE;
    }
  }
  std::filesystem::remove("fuzz-input");
  std::printf("%llu inputs\n", static_cast<unsigned long long>(count));
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace rehearse

int main(int count, char** words) {
  if (count != 5) return EXIT_FAILURE;
  return rehearse::search(words[1], std::atof(words[2]), std::strtoull(words[3], nullptr, 10), words[4]);
}
