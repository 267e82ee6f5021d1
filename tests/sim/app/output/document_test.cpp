#include "sim/app/output/document.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("names from users cannot become markup") {
  CHECK(escape_html("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#39;");
  const std::string html = render_html(
      {.title = "<script>alert(1)</script>",
       .subtitle = "",
       .headlines = {{"<i>", "<i>"}},
       .sections = {
           {.title = "<u>",
            .paragraphs = {"<p>"},
            .tables = {{{"<td>"}, {{"<td>"}}}},
            .plots = {{.title = "<svg>", .x_label = "<x>", .y_label = "<y>", .series = {{"<s>", {0, 1}, {0, 1}}}}}}}});
  for (const char* markup : {"<script", "<i>", "<u>", "<x>", "<y>", "<s>"})
    CHECK_MESSAGE(html.find(markup) == std::string::npos, markup);
}

TEST_CASE("a report asks for nothing outside of itself") {
  const std::string html = render_html({.title = "t", .subtitle = "s", .headlines = {}, .sections = {}});
  for (const char* reference : {"http:", "https:", "src=", "href=", "@import", "url("})
    CHECK_MESSAGE(html.find(reference) == std::string::npos, reference);
}

TEST_CASE("plots survive empty, constant, huge and unreal series, and thin long ones") {
  const double infinite = 1e308 * 10;
  Series many{.name = "many", .x = {}, .y = {}};
  for (int i = 0; i < 100'000; ++i) {
    many.x.push_back(i);
    many.y.push_back(i % 7);
  }
  const std::string html =
      render_html({.title = "t",
                   .subtitle = "",
                   .headlines = {},
                   .sections = {{.title = "p",
                                 .paragraphs = {},
                                 .tables = {},
                                 .plots = {{.series = {}},
                                           {.series = {{"flat", {1, 1}, {5, 5}}}},
                                           {.series = {{"unreal", {0, infinite, 2}, {infinite, 1, -infinite}}}},
                                           {.series = {{"huge", {0, 1e300}, {-1e300, 1e300}}}},
                                           {.series = {many}}}}}});
  CHECK(html.find("nan") == std::string::npos);
  CHECK(html.find("inf") == std::string::npos);
  CHECK(html.size() < 200'000);
}

TEST_CASE("long times have days and hours beside their seconds, large counts a word, tiny waits are none") {
  CHECK(time_text(12.3) == "12.3 s");
  CHECK(time_text(7588) == "7588 s (2 h 6 min)");
  CHECK(time_text(3600) == "3600 s (1 h)");
  CHECK(time_text(42'080'000) == "4.208e+07 s (487 days 1 h)");  // 487 x 86400 + 3200
  CHECK(time_text(2 * 86400 - 1) == "172799 s (48 h)");
  CHECK(time_text(1e-13) == "0 s");
  CHECK(time_text(0) == "0 s");
  CHECK(count_text(4998) == "4998");
  CHECK(count_text(512'000) == "512000");
  CHECK(count_text(61'035'156) == "61.04 million");
  CHECK(count_text(1e12) == "1 trillion");
}

}  // namespace rehearse
