#pragma once
// What a verb answers, as a value. A verb returns it, and print() alone writes it, as text or as JSON.

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/app/output/document.hpp"

namespace rehearse {

/// A line of cells in columns. `layout` is as for printf, with texts alone: "%-24s %6s  %12s". Where there are fewer cells than columns
/// the line ends with the last cell.
struct Row {
  std::string layout;
  std::vector<std::string> cells;
};

struct Answer {
  using Part = std::variant<std::string, Row, Table>;  // texts end with their newline
  std::string json{};                                  // what --json prints in place of the parts
  std::vector<Part> parts{};                           // on standard output
  std::vector<std::string> remarks{};                  // lines on stderr after that: warnings, what -o has written
  int exit_code = 0;

  /// "speed                    17.84 steps/s".
  void named(const std::string& name, const std::string& value) { row("%-24s %s", {name, value}); }
  void line(const std::string& sentence = {}) { parts.emplace_back(sentence + "\n"); }
  void text(std::string lines) { parts.emplace_back(std::move(lines)); }
  void row(std::string layout, std::vector<std::string> cells) {
    parts.emplace_back(Row{std::move(layout), std::move(cells)});
  }
  void table(Table table) { parts.emplace_back(std::move(table)); }
};

/// The parts one below the other, as a terminal shows them.
std::string to_text(const Answer& answer);

/// Prints the answer, and returns its exit code.
int print(const Answer& answer, bool as_json = false);

/// Prints a line on stderr, after what is on standard output already.
void say(const std::string& line);

}  // namespace rehearse
