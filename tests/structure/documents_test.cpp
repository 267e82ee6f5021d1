// What holds for every README and other Markdown file: lines that a terminal and a diff can show, links that lead
// somewhere, a first page that stays short.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

struct Document {
  std::string name;  // relative to the root
  std::vector<std::string> lines;
};

/// All Markdown files but those of hidden, build and output folders.
std::vector<Document> documents() {
  const fs::path root = source_folder();
  std::vector<Document> found;
  for (fs::recursive_directory_iterator entry{root}, end; entry != end; ++entry) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    if (entry->is_directory() && (name.starts_with(".") || name == "results" || fs::exists(path / "CMakeCache.txt")))
      entry.disable_recursion_pending();
    if (!entry->is_regular_file() || path.extension() != ".md") continue;
    Document document{.name = path.lexically_relative(root).string(), .lines = {}};
    std::istringstream text{read_file(path, 4 * kMiB)};
    for (std::string line; std::getline(text, line);) document.lines.push_back(line);
    found.push_back(std::move(document));
  }
  return found;
}

/// Characters of UTF-8.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace

TEST_CASE("no line of a Markdown file is longer than 200 characters, addresses aside") {
  const std::regex address{R"re(https?://\S+)re"};
  const std::vector<Document> all = documents();
  for (const Document& document : all)
    for (std::size_t i = 0; i < document.lines.size(); ++i) {
      const std::size_t length = length_of(std::regex_replace(document.lines[i], address, ""));
      CHECK_MESSAGE(length <= 200, document.name << ":" << i + 1 << ": " << length << " characters");
    }
  CHECK(all.size() > 20);
}

TEST_CASE("links between Markdown files lead to files") {
  const std::regex link{R"re(\]\(([^)#\s]+)[^)]*\))re"};
  std::size_t links = 0;
  for (const Document& document : documents())
    for (std::size_t i = 0; i < document.lines.size(); ++i) {
      const std::string& line = document.lines[i];
      for (std::sregex_iterator match{line.begin(), line.end(), link}, end; match != end; ++match) {
        const std::string target = (*match)[1];
        if (target.find("://") != std::string::npos) continue;
        ++links;
        const fs::path path = fs::path{source_folder()} / fs::path{document.name}.parent_path() / target;
        CHECK_MESSAGE(fs::exists(path), document.name << ":" << i + 1 << ": no file \"" << target << "\"");
      }
    }
  CHECK(links > 10);
}

TEST_CASE("the first page has at most 10 kB") { CHECK(fs::file_size(source_folder() + "/README.md") <= 10000); }

}  // namespace rehearse
