// Looks for inputs that break a target, where libFuzzer cannot: fuzz_search TARGET SECONDS SEED CORPUS_FOLDER. Bytes or words of
// the corpus's inputs are changed by chance, without regard to what they reach. The last one is in ./fuzz-input if the program ends by
// itself before its time.
#include <algorithm>
#include <cctype>
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

/// Where the pieces of a text begin: quoted words, numbers and bare words, single other characters.
std::vector<std::string> pieces_of(const std::string& text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  std::vector<std::string> pieces;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin + 1;
    if (text[begin] == '"')
      end = std::min(text.find('"', end), text.size() - 1) + 1;
    else if (is_word(text[begin]))
      while (end < text.size() && is_word(text[end])) ++end;
    pieces.push_back(text.substr(begin, end - begin));
  }
  return pieces;
}

/// A few pieces become others of the same kind, of `other` or out of the ordinary, stand twice or not at all: mostly, the text keeps
/// its syntax.
std::string with_other_words(const std::string& input, const std::string& other, Rng& random) {
  static const std::vector<std::string> kNumbers{
      "0",      "-1",   "1",    "2",  "3",  "7",   "8", "1e308", "0.5", "65536", "2147483647", "9223372036854775807",
      "1e-300", "null", "true", "[]", "{}", "\"\""};
  std::vector<std::string> pieces = pieces_of(input);
  const std::vector<std::string> others = pieces_of(other);
  if (pieces.empty() || others.empty()) return input;
  const auto one_of = [&random](const std::vector<std::string>& list) { return list[random.below(list.size())]; };
  const auto is_plain = [](const std::string& piece) {
    return piece.size() == 1 && !std::isalnum(static_cast<unsigned char>(piece[0]));
  };
  for (std::uint64_t i = 0, count = 1 + random.below(4); i < count; ++i) {
    std::string* piece = nullptr;
    for (int tries = 0; tries < 50 && (piece == nullptr || is_plain(*piece)); ++tries)
      piece = &pieces[random.below(pieces.size())];
    const bool is_quoted = piece->starts_with('"');
    if (random.below(8) == 0) {
      *piece = random.below(2) == 0 ? std::string{} : *piece + one_of(others);
    } else if (random.below(3) == 0) {
      *piece = one_of(kNumbers);
    } else {
      for (int tries = 0; tries < 50; ++tries)
        if (const std::string found = one_of(others); !is_plain(found) && found.starts_with('"') == is_quoted) {
          *piece = found;
          break;
        }
    }
  }
  std::string result;
  for (const std::string& piece : pieces) result += piece;
  return result;
}

std::string with_other_bytes(std::string input, Rng& random) {
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
    const std::string& seed_input = corpus[random.below(corpus.size())];
    const std::string input = random.below(4) == 0
                                  ? with_other_bytes(seed_input, random)
                                  : with_other_words(seed_input, corpus[random.below(corpus.size())], random);
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
