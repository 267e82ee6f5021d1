#include "sim/app/output/answer.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("an answer is shown as its parts one below the other") {
  Answer answer{.json = "{}\n"};
  answer.named("speed", "17.84 steps/s");
  answer.line();
  answer.line("a sentence");
  answer.text("two\nlines\n");
  answer.table({.header = {"input", "A"}, .rows = {{"/seed", "1"}}});
  CHECK(to_text(answer) == "speed                    17.84 steps/s\n\na sentence\ntwo\nlines\ninput  A\n/seed  1\n");
  CHECK(to_text(Answer{}).empty());
}

TEST_CASE("columns are as printf has them, and a row ends with its last cell") {
  Answer answer;
  answer.row("%-6s %4s  %8s | %s", {"left", "r", "1.5 ms", "end"});
  answer.row("%-6s %4s  %8s | %s", {"left", "right"});
  answer.row("%-6s %4s  %8s | %s", {"too long", "too long"});
  answer.row("of it: %4s", {"10 %"});
  CHECK(to_text(answer) == "left      r    1.5 ms | end\nleft   right\ntoo long too long\nof it: 10 %\n");
}

TEST_CASE("numbers of fixed digits, however long") {
  CHECK(formatted("%.3f ms, %+.1f %%", 1.5, 2.25) == "1.500 ms, +2.2 %");
  CHECK(formatted("%300d|", 7).size() == 301);
  CHECK(formatted("%s", "").empty());
}

}  // namespace rehearse
