// A statement does one thing: nothing is done on the way to a returned value, before a comma.

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The code with blanks in place of comments and texts, so that every character stays where it was.
std::string without_texts(std::string code) {
  const auto blank = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, code.size()); ++i)
      if (code[i] != '\n') code[i] = ' ';
    return end;
  };
  const auto behind = [&](std::string_view end, std::size_t from) {
    const std::size_t at = code.find(end, from);
    return at == std::string::npos ? code.size() : at + end.size();
  };
  for (std::size_t i = 0; i < code.size();) {
    const std::string_view rest = std::string_view{code}.substr(i);
    if (rest.starts_with("//")) {
      i = blank(i, code.find('\n', i));
    } else if (rest.starts_with("/*")) {
      i = blank(i, behind("*/", i));
    } else if (rest.starts_with("R\"")) {
      const std::size_t open = code.find('(', i);
      i = blank(i, behind(")" + code.substr(i + 2, open - i - 2) + "\"", open));
    } else if (rest[0] == '"' || (rest[0] == '\'' && (i == 0 || !is_of_word(code[i - 1])))) {
      std::size_t end = i + 1;
      while (end < code.size() && code[end] != rest[0]) end += code[end] == '\\' ? 2 : 1;
      i = blank(i, end + 1);
    } else {
      ++i;
    }
  }
  return code;
}

/// Lines of the return statements with a comma outside of all brackets.
std::vector<std::size_t> lines_of_double_returns(const std::string& text) {
  const std::string code = without_texts(text);
  std::vector<std::size_t> lines;
  for (std::size_t at = code.find("return"); at != std::string::npos; at = code.find("return", at + 1)) {
    if ((at > 0 && is_of_word(code[at - 1])) || is_of_word(code[at + 6])) continue;
    int depth = 0;
    for (std::size_t i = at + 6; i < code.size() && !(code[i] == ';' && depth == 0); ++i) {
      const char c = code[i];
      // A comparison or a shift has blanks around it, a bracket of a template has not.
      const std::size_t first = code.find_last_not_of('>', i) + 1;  // of ">>"
      const bool opens = c == '<' && code[i - 1] != ' ' && code[i + 1] != ' ' && code[i + 1] != '=';
      const bool closes = c == '>' && code[first - 1] != ' ' && code[first - 1] != '-' && depth > 0;
      if (c == '(' || c == '[' || c == '{' || opens) ++depth;
      if (c == ')' || c == ']' || c == '}' || closes) --depth;
      if (c != ',' || depth > 0) continue;
      lines.push_back(
          static_cast<std::size_t>(std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1));
      break;
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("a return statement that does two things is found, and no other") {
  CHECK(lines_of_double_returns("if (bad)\n  return outcome.problem = text, outcome;") == std::vector<std::size_t>{2});
  CHECK(lines_of_double_returns("return ++counts[i], true;").size() == 1);
  CHECK(lines_of_double_returns("return end(worker, slot), client_.update(worker);").size() == 1);
  for (const char* fine :
       {"return {.a = 1, .b = 2};", "return f(a, b);", "return std::pair<int, int>{a = 1, 2};",
        "return [a, b = c](int d, int e) { return d < e; };", "// return a = b, c;", "return \"a = b, c\";",
        "return a < b ? c : d;", "return f(a >> 2, b);", "int returned = a, b;", "return R\"json(\" = , \")json\";"})
    CHECK_MESSAGE(lines_of_double_returns(fine).empty(), fine);
}

TEST_CASE("no return statement does two things") {
  std::size_t files = 0;
  for (const char* folder : {"sim", "platforms", "workloads", "calibration", "predictor", "tests"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator{fs::path{source_folder()} / folder}) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp") continue;
      ++files;
      for (const std::size_t line : lines_of_double_returns(read_file(entry.path(), 4 * kMiB)))
        FAIL_CHECK(entry.path().lexically_relative(source_folder()).string()
                   << ":" << line << ": a return does two things");
    }
  CHECK(files > 300);
}

}  // namespace rehearse
