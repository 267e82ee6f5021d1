#include "sim/app/output/document.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace rehearse {

namespace {

constexpr double kWidth = 720, kHeight = 300, kLeft = 64, kRight = 16, kTop = 16, kBottom = 46;
constexpr std::size_t kMostPoints = 2000;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1d2430; --soft: #5b6577; --line: #d9dee7; --card: #f5f7fa; --page: #ffffff;
  --c0: #2563eb; --c1: #d9480f; --c2: #0f8a5f; --c3: #9333ea; --c4: #b7791f; --c5: #0e7490; --c6: #be185d; --c7: #4d7c0f; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ef; --soft: #9aa4b5; --line: #323a47; --card: #1b212b; --page: #12161d;
  --c0: #6ea8fe; --c1: #ff9a62; --c2: #4cd3a0; --c3: #c58bff; --c4: #e6b450; --c5: #58c7de; --c6: #f58ab8; --c7: #a6d155; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 32px 20px 64px; font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 20px; margin: 40px 0 8px; }
.subtitle, figcaption, th { color: var(--soft); } p { margin: 8px 0; max-width: 80ch; overflow-wrap: anywhere; }
.headlines { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 12px; margin: 24px 0; padding: 0; }
.headlines div { background: var(--card); border-radius: 10px; padding: 12px 14px; }
.headlines dt { font-size: 13px; color: var(--soft); } .headlines dd { margin: 0; font-size: 20px; font-weight: 600; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; margin: 8px 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.text { text-align: left; white-space: normal; min-width: 18em; } th { font-weight: 500; }
.heat td { text-align: center; min-width: 5em; background: color-mix(in srgb, var(--c0) var(--share), transparent); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 20px; }
figure { margin: 8px 0; max-width: 640px; } figcaption { font-size: 14px; margin-bottom: 4px; } svg { width: 100%; height: auto; display: block; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 13px; color: var(--soft); }
.legend span::before { content: ""; display: inline-block; width: 12px; height: 3px; margin-right: 6px; vertical-align: middle; background: var(--c); }
.legend span.points::before { width: 8px; height: 8px; border-radius: 50%; }
text { fill: var(--soft); font: 12px system-ui, sans-serif; } .axis { stroke: var(--line); stroke-width: 1; } .diagonal { stroke: var(--soft); stroke-dasharray: 5 4; }
)";

constexpr std::size_t kLongestLine = 40;  // of a table's cell, in bytes; longer ones are broken

std::string fixed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

/// 1, 2 or 5 times a power of ten, so that `range` has about five ticks.
double tick_step(double range) {
  const double raw = range / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

struct Axis {
  double low = 0, high = 1, step = 1;
};

Axis make_axis(double low, double high) {
  low = std::min(low, 0.0);  // plots start at zero: lengths stay comparable
  if (!(high > low)) high = low + 1;
  Axis axis{low, high, tick_step(high - low)};
  axis.high = std::ceil(high / axis.step - 1e-9) * axis.step;
  axis.low = std::floor(low / axis.step + 1e-9) * axis.step;
  return axis;
}

std::string render(const Plot& plot) {
  double x_low = 0, x_high = 0, y_low = 0, y_high = 0;
  bool is_first = true;
  for (const Series& series : plot.series)
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
      x_low = is_first ? series.x[i] : std::min(x_low, series.x[i]);
      x_high = is_first ? series.x[i] : std::max(x_high, series.x[i]);
      y_low = is_first ? series.y[i] : std::min(y_low, series.y[i]);
      y_high = is_first ? series.y[i] : std::max(y_high, series.y[i]);
      is_first = false;
    }
  if (plot.has_diagonal) x_high = y_high = std::max(x_high, y_high);
  const Axis x_axis = make_axis(x_low, x_high), y_axis = make_axis(y_low, y_high);
  const auto x_of = [&](double x) {
    return kLeft + (x - x_axis.low) / (x_axis.high - x_axis.low) * (kWidth - kLeft - kRight);
  };
  const auto y_of = [&](double y) {
    return kHeight - kBottom - (y - y_axis.low) / (y_axis.high - y_axis.low) * (kHeight - kTop - kBottom);
  };

  std::string svg = "<figure><figcaption>" + escape_html(plot.title) +
                    "</figcaption><svg viewBox=\"0 0 720 300\" role=\"img\" aria-label=\"" + escape_html(plot.title) +
                    "\">";
  const auto text = [&svg](double x, double y, const char* anchor, const std::string& content) {
    svg += "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor + "\">" +
           escape_html(content) + "</text>";
  };
  const auto line = [&svg](const char* style, double x1, double y1, double x2, double y2) {
    svg += std::string{"<line class=\""} + style + "\" x1=\"" + fixed(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" +
           fixed(x2) + "\" y2=\"" + fixed(y2) + "\"/>";
  };
  for (int i = 0; x_axis.low + i * x_axis.step <= x_axis.high + 1e-9 * x_axis.step; ++i) {
    const double x = x_axis.low + i * x_axis.step;
    line("axis", x_of(x), kTop, x_of(x), kHeight - kBottom);
    text(x_of(x), kHeight - kBottom + 16, "middle", display(std::abs(x) < 1e-12 * x_axis.step ? 0 : x));
  }
  for (int i = 0; y_axis.low + i * y_axis.step <= y_axis.high + 1e-9 * y_axis.step; ++i) {
    const double y = y_axis.low + i * y_axis.step;
    line("axis", kLeft, y_of(y), kWidth - kRight, y_of(y));
    text(kLeft - 6, y_of(y) + 4, "end", display(std::abs(y) < 1e-12 * y_axis.step ? 0 : y));
  }
  text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", plot.x_label);
  svg += "<text transform=\"translate(14 " + fixed((kTop + kHeight - kBottom) / 2) +
         ") rotate(-90)\" text-anchor=\"middle\">" + escape_html(plot.y_label) + "</text>";
  if (plot.has_diagonal)
    line("diagonal", x_of(x_axis.low), y_of(x_axis.low), x_of(std::min(x_axis.high, y_axis.high)),
         y_of(std::min(x_axis.high, y_axis.high)));

  std::string legend;
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    const std::string color = "var(--c" + std::to_string(s % 8) + ")";
    const std::size_t stride = std::max<std::size_t>(1, (series.x.size() + kMostPoints - 1) / kMostPoints);
    std::string points;
    for (std::size_t i = 0; i < series.x.size(); i += stride) {
      if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
      const std::string x = fixed(x_of(series.x[i])), y = fixed(y_of(series.y[i]));
      if (series.is_points)
        svg += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"3.5\" fill=\"" + color + "\"/>";
      else
        points += (points.empty() ? "" : " ") + x + "," + y;
    }
    if (!points.empty())
      svg += "<polyline fill=\"none\" stroke-width=\"1.8\" stroke=\"" + color + "\" points=\"" + points + "\"/>";
    legend += std::string{"<span"} + (series.is_points ? " class=\"points\"" : "") + " style=\"--c:" + color + "\">" +
              escape_html(series.name) + "</span>";
  }
  return svg + "</svg><div class=\"legend\">" + legend + "</div></figure>\n";
}

std::string render(const Table& table) {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  for (const std::string& cell : table.header) html += "<th>" + escape_html(cell) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const std::string& cell : row)
      html += (cell.size() > kLongestLine ? "<td class=\"text\">" : "<td>") + escape_html(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string render(const HeatMap& map) {
  constexpr double kDarkest = 70;  // percent of the colour: what is written on it stays legible
  double most = 0;
  for (const std::vector<double>& row : map.values)
    for (const double value : row) most = std::max(most, value);
  std::string html = "<figure><figcaption>" + escape_html(map.title) +
                     "</figcaption><div class=\"scroll\"><table class=\"heat\"><thead><tr><th>" +
                     escape_html(map.unit) + "</th>";
  for (const std::string& label : map.labels) html += "<th>" + escape_html(label) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    html += "<tr><th>" + escape_html(map.labels[i]) + "</th>";
    for (const double value : map.values[i])
      html += "<td style=\"--share:" + fixed(most > 0 ? kDarkest * value / most : 0) + "%\">" +
              (value != 0 ? display(value) : "") + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div></figure>\n";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string display(double value) {
  const double size = std::abs(value);
  const bool is_plain = size >= 9999.5 && size < 1e7;  // 10584 rather than 1.058e+04
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), is_plain ? "%.0f" : "%.4g", value);
  return text.data();
}

std::string display_if_known(double value) { return std::isnan(value) ? "" : display(value); }

std::string time_text(double seconds) {
  constexpr double kRounding = 1e-12, kMinute = 60, kHour = 3600, kDay = 86400;
  if (std::abs(seconds) < kRounding) return "0 s";
  std::string text = display(seconds) + " s";
  if (!(seconds >= kHour && seconds < 1e13)) return text;
  const bool has_days = seconds >= 2 * kDay;
  const double large = has_days ? kDay : kHour, small = has_days ? kHour : kMinute;
  const auto all = static_cast<std::int64_t>(std::llround(seconds / small)),
             each = static_cast<std::int64_t>(std::llround(large / small));
  text += " (" + std::to_string(all / each) + (has_days ? " days" : " h");
  if (all % each > 0) text += " " + std::to_string(all % each) + (has_days ? " h" : " min");
  return text + ")";
}

std::string count_text(double count) {
  constexpr std::array<std::pair<double, const char*>, 3> kWords{
      {{1e12, " trillion"}, {1e9, " billion"}, {1e6, " million"}}};
  if (std::abs(count) >= 1e15) return display(count);
  for (const auto& [size, name] : kWords)
    if (std::abs(count) >= size) return display(count / size) + name;
  return std::abs(count) >= 1e4 ? std::to_string(std::llround(count)) : display(count);
}

std::string to_text(const Table& table) {
  std::vector<std::size_t> widths;
  for (const std::string& name : table.header) widths.push_back(name.size());
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += (i == 0 ? "" : "  ") + row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size(), ' ');
    }
    text += '\n';
  };
  add(table.header);
  for (const auto& row : table.rows) add(row);
  return text;
}

std::string render_html(const Document& document) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>" +
      escape_html(document.title) + "</title><style>" + std::string{kStyle} + "</style></head>\n<body>\n<h1>" +
      escape_html(document.title) + "</h1>\n<p class=\"subtitle\">" + escape_html(document.subtitle) +
      "</p>\n<dl class=\"headlines\">\n";
  for (const auto& [label, value] : document.headlines)
    html += "<div><dt>" + escape_html(label) + "</dt><dd>" + escape_html(value) + "</dd></div>\n";
  html += "</dl>\n";
  for (const Section& section : document.sections) {
    html += "<h2>" + escape_html(section.title) + "</h2>\n";
    for (const std::string& paragraph : section.paragraphs) html += "<p>" + escape_html(paragraph) + "</p>\n";
    for (const HeatMap& map : section.heat_maps) html += render(map);
    for (const Table& table : section.tables) html += render(table);
    if (!section.plots.empty()) {
      html += "<div class=\"plots\">\n";
      for (const Plot& plot : section.plots) html += render(plot);
      html += "</div>\n";
    }
  }
  return html + "</body></html>\n";
}

}  // namespace rehearse
