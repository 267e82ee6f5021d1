#include "sim/app/output/document.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/app/setup.hpp"
#include "sim/base/files.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostPoints = 2000;

/// What a reader can tell apart: so many digits, and a page is not longer than it has to be.
double rounded(double value, int digits = 6) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();  // null in JSON
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return std::strtod(text.data(), nullptr);
}

/// Rounded and thinned evenly; `digits` of dates are more.
Json numbers(const std::vector<double>& values, int digits = 6) {
  const std::size_t stride = std::max<std::size_t>(1, (values.size() + kMostPoints - 1) / kMostPoints);
  Json list = Json::array();
  for (std::size_t i = 0; i < values.size(); i += stride) list.push_back(rounded(values[i], digits));
  return list;
}

Json to_json(const Plot& plot) {
  constexpr int kDigitsOfDates = 9;
  Json series = Json::array();
  for (const Series& one : plot.series)
    series.push_back(
        {{"name", one.name}, {"points", one.is_points}, {"x", numbers(one.x, kDigitsOfDates)}, {"y", numbers(one.y)}});
  return {{"kind", "plot"},
          {"title", plot.title},
          {"x", plot.x_label},
          {"y", plot.y_label},
          {"series", std::move(series)},
          {"diagonal", plot.has_diagonal},
          {"logarithmic", plot.is_logarithmic}};
}

Json to_json(const HeatMap& map) {
  Json values = Json::array();
  for (const std::vector<double>& row : map.values) values.push_back(numbers(row));
  return {{"kind", "heat"},         {"title", map.title}, {"unit", map.unit},      {"rows", map.rows},
          {"columns", map.columns}, {"y", map.row_label}, {"x", map.column_label}, {"values", std::move(values)}};
}

Json to_json(const Bars& bars) {
  Json list = Json::array();
  for (const Bars::Bar& bar : bars.bars) {
    Json parts = Json::array();
    for (const Bars::Part& part : bar.parts)
      parts.push_back(
          {{"name", part.name}, {"value", rounded(part.value)}, {"note", part.note}, {"family", part.family}});
    list.push_back({{"name", bar.name}, {"parts", std::move(parts)}});
  }
  return {{"kind", "bars"}, {"title", bars.title}, {"unit", bars.unit}, {"bars", std::move(list)}};
}

Json to_json(const Waterfall& fall) {
  Json changes = Json::array();
  for (const auto& [name, change] : fall.changes) changes.push_back({name, rounded(change)});
  return {{"kind", "waterfall"},          {"title", fall.title},     {"unit", fall.unit},
          {"from_name", fall.from_name},  {"to_name", fall.to_name}, {"from", rounded(fall.from)},
          {"changes", std::move(changes)}};
}

Json to_json(const Lanes& lanes) {
  std::map<std::string, std::size_t> known;  // each name once: a step has thousands of kernels
  Json names = Json::array(), spans = Json::array();
  for (const Lanes::Work& work : lanes.work) {
    const auto [name, is_new] = known.try_emplace(work.name, known.size());
    if (is_new) names.push_back(work.name);
    spans.push_back({work.lane, work.of_class, rounded(work.start), rounded(work.end), name->second});
  }
  return {{"kind", "lanes"},           {"title", lanes.title},
          {"unit", lanes.unit},        {"length", rounded(lanes.length)},
          {"lanes", lanes.lanes},      {"classes", lanes.classes},
          {"names", std::move(names)}, {"spans", std::move(spans)}};
}

Json to_json(const ClusterPicture& cluster) {
  Json networks = Json::array(), groups = Json::array();
  for (const ClusterPicture::Network& network : cluster.networks)
    networks.push_back({{"name", network.name}, {"note", network.note}});
  for (const ClusterPicture::Machines& group : cluster.groups)
    groups.push_back({{"name", group.name},
                      {"note", group.note},
                      {"count", group.count},
                      {"network", group.network},
                      {"link", group.link},
                      {"load", rounded(group.load)},
                      {"gpus", group.gpus},
                      {"gpu", group.gpu},
                      {"gpu_busy", rounded(group.gpu_busy)},
                      {"cpu_busy", rounded(group.cpu_busy)}});
  return {
      {"kind", "cluster"}, {"title", cluster.title}, {"networks", std::move(networks)}, {"groups", std::move(groups)}};
}

Json to_json(const ParallelAxes& axes) {
  Json rows = Json::array();
  for (const auto& row : axes.rows) {
    Json values = Json::array();
    for (const ParallelAxes::Value& value : row) {
      const double* const number = std::get_if<double>(&value);
      values.push_back(number != nullptr ? Json(rounded(*number)) : Json(std::get<std::string>(value)));
    }
    rows.push_back(std::move(values));
  }
  return {{"kind", "parallel"}, {"title", axes.title}, {"axes", axes.axes}, {"rows", std::move(rows)}};
}

Json to_json(const std::vector<Section>& sections) {
  Json list = Json::array();
  for (const Section& section : sections) {
    Json tables = Json::array(), figures = Json::array();
    for (const Table& table : section.tables)
      tables.push_back({{"header", table.header}, {"rows", table.rows}, {"csv", table.csv}});
    for (const Figure& figure : section.figures)
      figures.push_back(std::visit([](const auto& one) { return to_json(one); }, figure));
    list.push_back({{"title", section.title},
                    {"paragraphs", section.paragraphs},
                    {"tables", std::move(tables)},
                    {"figures", std::move(figures)},
                    {"wide", section.is_wide}});
  }
  return list;
}

Json to_json(const Document& document) {
  Json headlines = Json::array();
  for (const KeyNumber& headline : document.headlines)
    headlines.push_back({{"label", headline.label}, {"value", headline.value}, {"range", headline.range}});
  return {{"title", document.title},
          {"subtitle", document.subtitle},
          {"verdict", document.verdict},
          {"headlines", std::move(headlines)},
          {"overview", to_json(document.overview)},
          {"sections", to_json(document.sections)}};
}

/// JSON that cannot end the element it stands in; bytes that are no UTF-8 are replaced.
std::string inside_of_script(const Json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
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

std::string formatted(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

std::string display(double value) {
  const double size = std::abs(value);
  const bool is_plain = size >= 9999.5 && size < 1e7;  // 10584 rather than 1.058e+04
  return formatted(is_plain ? "%.0f" : "%.4g", value);
}

std::string display_if_known(double value) { return std::isnan(value) ? "" : display(value); }

namespace {

/// In its largest unit and the next: "11 min 39 s", "2 h 6 min", "487 days 1 h".
std::string in_two_units(double seconds) {
  struct Unit {
    double s;
    const char* name;
  };
  constexpr std::array<Unit, 4> kUnits{{{1, " s"}, {60, " min"}, {3600, " h"}, {86400, " days"}}};
  const std::size_t largest = seconds >= 2 * kUnits[3].s ? 3 : seconds >= kUnits[2].s ? 2 : 1;
  const Unit &large = kUnits[largest], &small = kUnits[largest - 1];
  const auto all = static_cast<std::int64_t>(std::llround(seconds / small.s)),
             each = static_cast<std::int64_t>(std::llround(large.s / small.s));
  std::string text = std::to_string(all / each) + large.name;
  if (all % each > 0) text += " " + std::to_string(all % each) + small.name;
  return text;
}

bool is_long(double seconds) { return seconds >= 3600 && seconds < 1e13; }

}  // namespace

std::string brief(double value) {
  return formatted(std::abs(value) >= 99.95 && std::abs(value) < 1e6 ? "%.0f" : "%.3g", value);
}

std::string time_text(double seconds) {
  constexpr double kRounding = 1e-12;
  if (std::abs(seconds) < kRounding) return "0 s";
  const std::string text = display(seconds) + " s";
  return is_long(seconds) ? text + " (" + in_two_units(seconds) + ")" : text;
}

std::string short_text(double value) {
  constexpr std::array<std::pair<double, const char*>, 4> kPrefixes{
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  constexpr double kPlain = 9999.5;  // below, all digits are as short
  if (std::abs(value) < kPlain || std::abs(value) >= 1e15) return brief(value);
  for (const auto& [size, prefix] : kPrefixes)
    if (std::abs(value) >= size) return brief(value / size) + prefix;
  return brief(value);
}

std::string short_time_text(double seconds) {
  constexpr double kMinutes = 600;  // below, seconds read as well: "340 s"
  if (is_long(seconds) || (seconds >= kMinutes && seconds < 3600)) return in_two_units(seconds);
  const double size = std::abs(seconds);
  if (size >= 1 || size < 1e-12) return brief(size < 1e-12 ? 0 : seconds) + " s";
  return size >= 1e-3 ? brief(seconds * 1e3) + " ms" : brief(seconds * 1e6) + " \u00b5s";
}

std::string column_time_text(double seconds) {
  return seconds >= 60 && seconds < 3600 ? in_two_units(seconds) : short_time_text(seconds);
}

std::string share_text(double share) {
  constexpr double kLeast = 1e-4;
  return share > 0 && share < kLeast ? "< 0.01 %" : brief(share * 100) + " %";
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
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  add(table.header);
  for (const auto& row : table.rows) add(row);
  return text;
}

std::string render_html(const Document& document) {
  const std::filesystem::path folder = shipped_files() / "sim/app/pages";
  const auto file = [&](const char* name) { return read_file(folder / name, 4 * kMiB); };
  const std::map<std::string, std::string> parts{{"title", escape_html(document.title)},
                                                 {"style", file("page.css")},
                                                 {"library", file("third_party/echarts/echarts.min.js")},
                                                 {"tables", file("tables.js")},
                                                 {"script", file("page.js")},
                                                 {"data", inside_of_script(to_json(document))}};
  const std::string page = file("page.html");
  std::string html;
  std::size_t end = 0;
  for (std::size_t begin = page.find("{{"); begin != std::string::npos; begin = page.find("{{", end)) {
    html.append(page, end, begin - end);
    end = page.find("}}", begin) + 2;
    html += parts.at(page.substr(begin + 2, end - begin - 4));
  }
  return html.append(page, end);
}

}  // namespace rehearse
