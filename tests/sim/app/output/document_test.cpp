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

}  // namespace rehearse
