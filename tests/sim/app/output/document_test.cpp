#include "sim/app/output/document.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("names from users cannot become markup, nor end the data") {
  CHECK(escape_html("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#39;");
  const std::string hostile = "</script><script>alert(1)</script><!--{{script}}";
  const std::string html = render_html({.title = hostile,
                                        .subtitle = hostile,
                                        .headlines = {{hostile, hostile, hostile}},
                                        .sections = {{.title = hostile,
                                                      .paragraphs = {hostile, "no UTF-8: \xff"},
                                                      .tables = {{{hostile}, {{hostile}}, hostile}},
                                                      .figures = {Plot{.title = hostile,
                                                                       .x_label = hostile,
                                                                       .y_label = hostile,
                                                                       .series = {{hostile, {0, 1}, {0, 1}}}}}}},
                                        .verdict = hostile});
  CHECK(html.find("alert(1)</script>") == std::string::npos);
  CHECK(html.find("<!--{{") == std::string::npos);
  CHECK(html.find("\\u003c/script>") != std::string::npos);
  CHECK(html.find('\xff') == std::string::npos);
  std::size_t scripts = 0;
  for (std::size_t at = html.find("</script>"); at != std::string::npos; at = html.find("</script>", at + 1)) ++scripts;
  CHECK(scripts == 3);  // data, library, drawing
}

TEST_CASE("plots survive empty, constant, huge and unreal series, and thin long ones") {
  const double infinite = 1e308 * 10;
  Series many{.name = "many", .x = {}, .y = {}};
  for (int i = 0; i < 100'000; ++i) {
    many.x.push_back(i);
    many.y.push_back(i % 7);
  }
  const auto page = [](std::vector<Figure> figures) {
    return render_html({.title = "t",
                        .subtitle = "",
                        .headlines = {},
                        .sections = {{.title = "p", .paragraphs = {}, .tables = {}, .figures = std::move(figures)}}});
  };
  const std::size_t empty = page({}).size();
  const std::string html = page({Plot{.series = {}}, Plot{.series = {{"flat", {1, 1}, {5, 5}}}},
                                 Plot{.series = {{"unreal", {0, infinite, 2}, {infinite, 1, -infinite}}}},
                                 Plot{.series = {{"huge", {0, 1e300}, {-1e300, 1e300}}}}, Plot{.series = {many}}});
  CHECK(html.find("\"x\":[0.0,null,2.0],\"y\":[null,1.0,null]") != std::string::npos);
  CHECK(html.size() - empty < 40'000);  // 2000 points
}

TEST_CASE("short texts have three digits and the prefix or the unit of their size") {
  CHECK(short_text(10'584) == "10.6 k");
  CHECK(short_text(47.4144) == "47.4");
  CHECK(short_text(2284) == "2284");
  CHECK(short_text(61'035'156) == "61 M");
  CHECK(short_time_text(0.0938) == "93.8 ms");
  CHECK(short_time_text(752e-6) == "752 \u00b5s");
  CHECK(short_time_text(162.3) == "162 s");
  CHECK(short_time_text(7588) == "2 h 6 min");
  CHECK(short_time_text(699) == "11 min 39 s");
  CHECK(short_time_text(2460) == "41 min");
  CHECK(short_time_text(0) == "0 s");
  CHECK(column_time_text(274) == "4 min 34 s");
  CHECK(column_time_text(699) == short_time_text(699));
  CHECK(column_time_text(42.3) == "42.3 s");
  CHECK(column_time_text(7588) == "2 h 6 min");
  CHECK(share_text(0.7091) == "70.9 %");
  CHECK(share_text(1e-5) == "< 0.01 %");
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
