#include "sim/app/output/answer.hpp"

#include <charconv>
#include <cstdio>

#include "sim/base/overloaded.hpp"

namespace rehearse {

namespace {

/// `cell` in the column that `layout` begins with, after what stands before it; takes both away from `layout`.
std::string next_column(std::string_view& layout, const std::string& cell) {
  const std::size_t column = layout.find('%') + 1, end = layout.find('s', column);
  const bool is_left = layout[column] == '-';
  std::size_t width = 0;
  std::from_chars(layout.data() + column + (is_left ? 1 : 0), layout.data() + end, width);
  const std::string rest(width - std::min(width, cell.size()), ' ');
  std::string text{layout.substr(0, column - 1)};
  layout.remove_prefix(end + 1);
  return text + (is_left ? cell + rest : rest + cell);
}

std::string laid_out(const Row& row) {
  std::string text;
  std::string_view layout = row.layout;
  for (const std::string& cell : row.cells) text += next_column(layout, cell);
  return text + "\n";
}

}  // namespace

std::string to_text(const Answer& answer) {
  const Overloaded shown{[](const std::string& lines) { return lines; }, [](const Row& row) { return laid_out(row); },
                         [](const Table& table) { return to_text(table); }};
  std::string text;
  for (const Answer::Part& part : answer.parts) text += std::visit(shown, part);
  return text;
}

int print(const Answer& answer, bool as_json) {
  const std::string text = as_json ? answer.json : to_text(answer);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  for (const std::string& remark : answer.remarks) say(remark);
  return answer.exit_code;
}

void say(const std::string& line) {
  std::fflush(stdout);
  std::fputs((line + "\n").c_str(), stderr);
}

}  // namespace rehearse
