#include "sim/app/output/sweep_document.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace rehearse {

namespace {

std::string text_of(const ParallelAxes::Value& value) {
  const double* const number = std::get_if<double>(&value);
  return number != nullptr ? display(*number) : std::get<std::string>(value);
}

/// Values of a parameter: numbers by size, texts in the order in which they come.
std::vector<ParallelAxes::Value> values_of(const SweepResults& results, std::size_t parameter) {
  std::vector<ParallelAxes::Value> values;
  for (const SweepPoint& point : results.points)
    if (std::ranges::find(values, point.parameters[parameter]) == values.end())
      values.push_back(point.parameters[parameter]);
  if (std::ranges::all_of(values, [](const auto& value) { return std::holds_alternative<double>(value); }))
    std::ranges::sort(values);
  return values;
}

std::string setting_of(const SweepResults& results, const SweepPoint& point) {
  std::string text;
  for (std::size_t i = 0; i < results.parameters.size(); ++i)
    text += (i == 0 ? "" : ", ") + results.parameters[i] + " " + text_of(point.parameters[i]);
  return text.empty() ? "seed alone" : text;
}

/// Means over the points of a cell.
HeatMap heat_of(const SweepResults& results, std::size_t row, std::size_t column, const std::string& title,
                const std::string& unit, const auto& value_of) {
  const auto rows = values_of(results, row), columns = values_of(results, column);
  HeatMap map{.title = title, .unit = unit, .rows = {}, .columns = {}, .values = {}};
  std::ranges::transform(rows, std::back_inserter(map.rows), text_of);
  std::ranges::transform(columns, std::back_inserter(map.columns), text_of);
  map.values.assign(rows.size(), std::vector<double>(columns.size(), std::nan("")));
  std::map<std::pair<std::size_t, std::size_t>, std::pair<double, double>> cells;  // sum, points
  const auto place = [](const auto& values, const auto& value) {
    return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
  };
  for (const SweepPoint& point : results.points) {
    const std::optional<double> value = value_of(point);
    if (!value) continue;
    auto& [sum, count] = cells[{place(rows, point.parameters[row]), place(columns, point.parameters[column])}];
    sum += *value;
    ++count;
  }
  for (const auto& [cell, mean] : cells) map.values[cell.first][cell.second] = mean.first / mean.second;
  map.row_label = results.parameters[row];
  map.column_label = results.parameters[column];
  return map;
}

Figure speeds_over(const SweepResults& results, std::size_t parameter) {
  const auto values = values_of(results, parameter);
  Plot plot{.title = "Speed", .x_label = results.parameters[parameter], .y_label = "samples/s"};
  Bars bars{.title = "Speed", .unit = "samples/s", .bars = {}};
  Series line{.name = "samples/s", .x = {}, .y = {}};
  for (const auto& value : values) {
    double sum = 0, count = 0;
    for (const SweepPoint& point : results.points)
      if (point.parameters[parameter] == value) {
        sum += point.samples_per_s;
        ++count;
      }
    bars.bars.push_back({text_of(value), {{"samples/s", sum / count}}});
    if (const double* const number = std::get_if<double>(&value)) {
      line.x.push_back(*number);
      line.y.push_back(sum / count);
    }
  }
  if (line.x.size() != values.size() || values.size() < 2) return bars;
  plot.series.push_back(std::move(line));
  return plot;
}

/// Cost over time of all combinations, and a line through those that none is below in both.
Plot frontier_of(const SweepResults& results) {
  Series all{.name = "combinations", .x = {}, .y = {}, .is_points = true}, best{.name = "frontier", .x = {}, .y = {}};
  std::vector<std::pair<double, double>> points;
  for (const SweepPoint& point : results.points)
    if (point.cost_usd) points.emplace_back(point.time_s / 3600, *point.cost_usd);
  std::ranges::sort(points);
  for (const auto& [hours, usd] : points) {
    all.x.push_back(hours);
    all.y.push_back(usd);
    if (!best.y.empty() && usd >= best.y.back()) continue;
    best.x.push_back(hours);
    best.y.push_back(usd);
  }
  return {.title = results.is_of_target ? "Time and cost of the training" : "Time and cost of a million samples",
          .x_label = "hours",
          .y_label = "USD",
          .series = points.empty() ? std::vector<Series>{} : std::vector{std::move(all), std::move(best)}};
}

}  // namespace

Document sweep_document(const SweepResults& results) {
  Document document{.title = results.title, .subtitle = "", .headlines = {}, .sections = {}};
  document.subtitle = std::to_string(results.points.size()) + " combinations with a result" +
                      (results.without_result > 0 ? ", " + std::to_string(results.without_result) + " without" : "");
  std::vector<std::size_t> varying;
  for (std::size_t i = 0; i < results.parameters.size(); ++i)
    if (values_of(results, i).size() > 1) varying.push_back(i);
  const auto fastest = std::ranges::max_element(results.points, {}, &SweepPoint::samples_per_s);
  if (fastest != results.points.end()) {
    const auto slowest = std::ranges::min_element(results.points, {}, &SweepPoint::samples_per_s);
    document.verdict = "Fastest of " + std::to_string(results.points.size()) + ": " + setting_of(results, *fastest) +
                       ", " + short_text(fastest->samples_per_s) + " samples/s";
    document.headlines = {
        {"fastest", short_text(fastest->samples_per_s) + " samples/s", setting_of(results, *fastest)},
        {"slowest", short_text(slowest->samples_per_s) + " samples/s", setting_of(results, *slowest)}};
    const SweepPoint* cheapest = nullptr;
    for (const SweepPoint& point : results.points)
      if (point.cost_usd && (cheapest == nullptr || *point.cost_usd < *cheapest->cost_usd)) cheapest = &point;
    if (cheapest != nullptr) {
      document.verdict +=
          cheapest == &*fastest ? "; it is the cheapest, too" : "; cheapest: " + setting_of(results, *cheapest);
      document.headlines.push_back({results.is_of_target ? "cheapest training" : "cheapest million samples",
                                    short_text(*cheapest->cost_usd) + " USD", setting_of(results, *cheapest)});
    }
    document.verdict += ".";
  }
  const auto speed = [](const SweepPoint& point) { return std::optional{point.samples_per_s}; };
  Section speeds{.title = "Speed"};
  if (varying.size() == 1) speeds.figures.push_back(speeds_over(results, varying[0]));
  if (varying.size() == 2)
    speeds.figures.emplace_back(heat_of(results, varying[0], varying[1], "", "samples/s", speed));
  if (varying.size() > 2) {
    constexpr std::size_t kMostLines = 2000;
    ParallelAxes axes{.title = "", .axes = {}, .rows = {}};
    for (const std::size_t i : varying) axes.axes.push_back(results.parameters[i]);
    axes.axes.emplace_back("samples/s");
    const std::size_t stride = results.points.size() / kMostLines + 1;
    for (std::size_t p = 0; p < results.points.size(); p += stride) {
      axes.rows.emplace_back();
      for (const std::size_t i : varying) axes.rows.back().push_back(results.points[p].parameters[i]);
      axes.rows.back().emplace_back(results.points[p].samples_per_s);
    }
    speeds.figures.emplace_back(std::move(axes));
    speeds.is_wide = true;
  }
  if (!speeds.figures.empty()) document.overview.push_back(std::move(speeds));
  if (Plot frontier = frontier_of(results); !frontier.series.empty()) {
    const std::string title = std::exchange(frontier.title, "");
    document.overview.push_back({.title = title, .paragraphs = {}, .tables = {}, .figures = {std::move(frontier)}});
  }
  document.sections.push_back({.title = "Combinations", .paragraphs = {}, .tables = {results.table}});
  return document;
}

}  // namespace rehearse
