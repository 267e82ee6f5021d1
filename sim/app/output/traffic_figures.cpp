#include "sim/app/output/traffic_figures.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/app/output/traffic_document.hpp"

namespace rehearse {

namespace {

using Runs = std::vector<const TrafficOfRun*>;

/// Settings in the order of their first run, each with its runs.
std::vector<std::pair<std::string, Runs>> by_setting(const std::vector<TrafficOfRun>& runs,
                                                     bool (*counts)(const TrafficOfRun&)) {
  std::vector<std::pair<std::string, Runs>> settings;
  for (const TrafficOfRun& run : runs) {
    if (!counts(run)) continue;
    auto known = std::ranges::find(settings, run.setting(), &std::pair<std::string, Runs>::first);
    if (known == settings.end()) known = settings.insert(known, {run.setting(), {}});
    known->second.push_back(&run);
  }
  return settings;
}

bool is_drawn(const TrafficOfRun& run) { return run.loss_percent == 0 && !run.figures.matrix.empty(); }
bool has_duration(const TrafficOfRun& run) { return run.training_s > 0; }

std::string line_name(const TrafficOfRun& run) { return run.model.empty() ? run.name : run.model; }

/// The mean over the runs that have the hosts of the first.
HeatMap mean_matrix(const std::string& setting, const Runs& runs) {
  const TrafficFigures& first = runs.front()->figures;
  HeatMap map{.title = setting, .unit = "MB", .rows = first.hosts, .columns = first.hosts, .values = first.matrix};
  for (std::vector<double>& row : map.values) std::ranges::fill(row, 0.0);
  const auto count = static_cast<double>(
      std::ranges::count_if(runs, [&](const TrafficOfRun* run) { return run->figures.hosts == first.hosts; }));
  for (const TrafficOfRun* run : runs) {
    if (run->figures.hosts != first.hosts) continue;
    for (std::size_t i = 0; i < map.values.size(); ++i)
      for (std::size_t j = 0; j < map.values[i].size(); ++j)
        map.values[i][j] += run->figures.matrix[i][j] / 1e6 / count;
  }
  return map;
}

Plot rates(const std::string& setting, const Runs& runs) {
  Plot plot{.title = setting + ": " + runs.front()->figures.pair, .x_label = "time, s", .y_label = "Gbit/s"};
  for (const TrafficOfRun* run : runs) {
    Series line{.name = line_name(*run), .x = {}, .y = run->figures.gbps};
    for (std::size_t i = 0; i < line.y.size(); ++i) line.x.push_back(static_cast<double>(i) * run->figures.bin_s);
    plot.series.push_back(std::move(line));
  }
  return plot;
}

Plot flow_sizes(const std::string& setting, const Runs& runs) {
  Plot plot{.title = setting, .x_label = "log10 of bytes a step", .y_label = "share of the flows"};
  for (const TrafficOfRun* run : runs) {
    std::vector<double> sizes;
    for (const double bytes : run->figures.flow_sizes) sizes.push_back(std::log10(std::max(1.0, bytes)));
    plot.series.push_back(distribution(line_name(*run), std::move(sizes)));
  }
  return plot;
}

/// Over the shortest of the same model; none if all lose as many packets.
Plot durations(const std::string& setting, const Runs& runs) {
  Plot plot{.title = setting, .x_label = "packets lost, %", .y_label = "duration, of the shortest"};
  std::map<std::string, std::map<double, double>> by_model;  // loss and seconds
  for (const TrafficOfRun* run : runs) by_model[line_name(*run)][run->loss_percent] = run->training_s;
  for (const auto& [model, of_loss] : by_model) {
    if (of_loss.size() < 2) continue;
    double least = of_loss.begin()->second;
    for (const auto& [loss, seconds] : of_loss) least = std::min(least, seconds);
    Series line{.name = model, .x = {}, .y = {}};
    for (const auto& [loss, seconds] : of_loss) {
      line.x.push_back(loss);
      line.y.push_back(seconds / least);
    }
    plot.series.push_back(std::move(line));
  }
  return plot;
}

}  // namespace

std::vector<Section> figures_of_runs(const std::vector<TrafficOfRun>& runs) {
  Section matrices{
      .title = "Traffic matrices",
      .paragraphs = {"MB a step, headers and acknowledgements included; the mean over the models of a setting."}};
  Section over_time{
      .title = "Rates over time",
      .paragraphs = {
          "Of one pair in the middle of the run, in bins of 10 ms: 250 ms, or three steps if they are longer."}};
  Section sizes{.title = "Flow sizes",
                .paragraphs = {
                    "Bytes a step of each directed flow. Those that carry acknowledgements alone are the small ones."}};
  for (const auto& [setting, some] : by_setting(runs, is_drawn)) {
    matrices.figures.emplace_back(mean_matrix(setting, some));
    over_time.figures.emplace_back(rates(setting, some));
    sizes.figures.emplace_back(flow_sizes(setting, some));
  }
  Section loss{.title = "Duration against packet loss"};
  for (const auto& [setting, some] : by_setting(runs, has_duration))
    if (Plot plot = durations(setting, some); !plot.series.empty()) loss.figures.emplace_back(std::move(plot));
  std::vector<Section> sections;
  if (!matrices.figures.empty()) sections = {std::move(matrices), std::move(over_time), std::move(sizes)};
  if (!loss.figures.empty()) sections.push_back(std::move(loss));
  return sections;
}

}  // namespace rehearse
