#pragma once
// Parts of the READMEs that a program writes, each between two comments that name it (cmake/refresh_readmes.sh).

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::test {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The lines between the comments "<!-- PART, written by ...: begin -->" and "<!-- PART: end -->", without the empty
/// ones around them.
inline std::vector<std::string> readme_part(const std::string& readme, const std::string& part) {
  const std::vector<std::string> lines = lines_of(read_file(source_folder() + "/" + readme, 4 * kMiB));
  const auto begin = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.starts_with("<!-- " + part + ", written by ") && line.ends_with(": begin -->");
  });
  const auto end = std::find(lines.begin(), lines.end(), "<!-- " + part + ": end -->");
  REQUIRE_MESSAGE(begin < end, readme << " has no part \"" << part << "\"");
  REQUIRE_MESSAGE(end != lines.end(), readme << ": the part \"" << part << "\" has no end");
  REQUIRE(end - begin > 3);
  return {begin + 2, end - 1};
}

/// Compares such a part, line by line, with what it should be; `refresh` is the command that writes it.
inline void check_readme_part(const std::string& readme, const std::string& part, const std::string& expected,
                              const std::string& refresh) {
  std::vector<std::string> stated = readme_part(readme, part), wanted = lines_of(expected);
  const std::size_t size = std::max(stated.size(), wanted.size());
  stated.resize(size, "(no line)");
  wanted.resize(size, "(no line)");
  for (std::size_t i = 0; i < size; ++i)
    CHECK_MESSAGE(stated[i] == wanted[i], readme << ", " << part << ", line " << i + 1 << ":\n  states    " << stated[i]
                                                 << "\n  should be " << wanted[i] << "\n  to refresh: " << refresh);
}

/// calibration/README.md has the row, cells and all.
inline void check_calibration_row(const std::string& row) {
  const std::string readme = read_file(source_folder() + "/calibration/README.md", 4 * kMiB);
  CHECK_MESSAGE(readme.find("\n" + row + "\n") != std::string::npos, "calibration/README.md has no row " << row);
}

/// "1.46".
inline std::string with_decimals(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

}  // namespace rehearse::test
