#include "sim/app/output/traffic_diff_document.hpp"

#include <algorithm>
#include <cmath>

#include "sim/app/output/traffic_document.hpp"
#include "sim/app/output/traffic_tables.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostComparedPairs = 8;  // with plots of their own: those with the most bytes
constexpr double kPointsOfWhole = 2000;        // of a plot over the whole time
constexpr double kComparedDetail = 0.25;       // seconds of the detail, or three periods
constexpr double kLeastDetailBin = 1e-3;

/// One of the two, and how it is called.
struct DiffSide {
  const RunTraffic& run;
  const TrafficStatistics& statistics;
  std::string label;

  /// The bins of a pair, or of all frames; null if there is no such pair.
  const BinnedBytes* bins(const ComparedSeries& series, int pair) const {
    if (&series == all) return &run.traffic.bins;
    return pair < 0 ? nullptr : &run.traffic.pairs[static_cast<std::size_t>(pair)].bins;
  }
  const SeriesStatistics* of(const ComparedSeries& series, int pair) const {
    if (&series == all) return &statistics.all;
    return pair < 0 ? nullptr : statistics.of_pair(static_cast<std::size_t>(pair));
  }
  const ComparedSeries* all = nullptr;
};

class DiffPage {
 public:
  DiffPage(const TrafficDiff& diff, const RunTraffic& a, const RunTraffic& b)
      : diff_{diff}, a_{side(a, diff.statistics_a, "A")}, b_{side(b, diff.statistics_b, "B")} {
    for (const ComparedSeries& series : diff.pairs) largest_.push_back(&series);
    std::ranges::stable_sort(largest_, std::ranges::greater{},
                             [](const ComparedSeries* s) { return std::max(s->bytes_a, s->bytes_b); });
    if (largest_.size() > kMostComparedPairs) largest_.resize(kMostComparedPairs);
    std::ranges::sort(largest_);  // in the order of the pairs
  }

  Document make() const {
    const auto number = [](const std::optional<double>& value) { return value ? display(*value) : "not known"; };
    Document document{.title = "Traffic of " + diff_.a + " and " + diff_.b,
                      .subtitle = a_.label + " beside " + b_.label,
                      .headlines = {{"bytes in A", display(diff_.all.bytes_a / 1e6) + " MB"},
                                    {"bytes in B", display(diff_.all.bytes_b / 1e6) + " MB"},
                                    {"correlation", display(diff_.all.correlation.at_zero)},
                                    {"bursts, KS distance", number(diff_.all.volumes_ks)},
                                    {"flow sizes, KS distance", number(diff_.flow_sizes_ks)}},
                      .sections = {},
                      .verdict = "B sends " + display(diff_.all.bytes_b / 1e6) + " MB, A " +
                                 display(diff_.all.bytes_a / 1e6) + " MB; their rates over time are correlated at " +
                                 display(diff_.all.correlation.at_zero) + "."};
    document.sections = {{.title = "Figures", .tables = {figures_table(diff_)}},
                         {.title = "Traffic matrices", .figures = {matrix(a_), matrix(b_)}},
                         over_time(),
                         pair_by_pair(),
                         bursts(),
                         flow_sizes()};
    if (!diff_.notes.empty()) document.sections.push_back({.title = "Notes", .paragraphs = diff_.notes});
    return document;
  }

 private:
  DiffSide side(const RunTraffic& run, const TrafficStatistics& statistics, const char* letter) const {
    return {.run = run,
            .statistics = statistics,
            .label = std::string{letter} + ", " + (run.is_simulated ? "simulated" : "measured"),
            .all = &diff_.all};
  }

  static HeatMap matrix(const DiffSide& side) {
    HeatMap map = traffic_matrix(side.run.traffic);
    map.title = side.label + ": " + map.title;
    return map;
  }

  static std::string name_of(const ComparedSeries& series) { return series.a.empty() ? series.b : series.a; }

  /// Both from `start_s` on, in points of `point_s`.
  Plot plot(const ComparedSeries& series, double start_s, double end_s, double point_s) const {
    Plot plot{.title = name_of(series) + ", in bins of " + display(point_s * 1e3) + " ms",
              .x_label = "s, from " + display(start_s) + " s after the first packet",
              .y_label = "Gbit/s"};
    const auto add = [&](const DiffSide& side, int pair) {
      const BinnedBytes* bins = side.bins(series, pair);
      const double bin_s = side.statistics.bin_s;
      const PlottedBins plotted{.first = std::llround(start_s / bin_s),
                                .end = std::min<std::int64_t>(side.run.traffic.bins.end(), std::llround(end_s / bin_s)),
                                .factor = std::max<std::int64_t>(1, std::llround(point_s / bin_s))};
      plot.series.push_back(rate_line(side.run.traffic, bins != nullptr ? *bins : BinnedBytes{}, side.label, plotted));
    };
    add(a_, series.pair_a);
    add(b_, series.pair_b);
    return plot;
  }

  double longest() const { return std::max(a_.statistics.duration_s, b_.statistics.duration_s); }

  /// In the middle of the shorter one.
  Plot detail(const ComparedSeries& series) const {
    const double shortest = std::min(a_.statistics.duration_s, b_.statistics.duration_s);
    const auto period = [](const DiffSide& side) {
      return side.statistics.all.period ? side.statistics.all.period->seconds : side.statistics.step_time_s;
    };
    const double length = std::min(shortest, std::max({kComparedDetail, 3 * period(a_), 3 * period(b_)}));
    const double start = (shortest - length) / 2;
    return plot(series, start, start + length,
                std::max({kLeastDetailBin, a_.statistics.bin_s, b_.statistics.bin_s, length / kPointsOfWhole}));
  }

  Section over_time() const {
    const double point = std::max(diff_.bin_s, longest() / kPointsOfWhole);
    Section section{.title = "Over time",
                    .paragraphs = {"Each begins with its first packet."},
                    .figures = {plot(diff_.all, 0, longest() + point, point), detail(diff_.all)}};
    Plot lags{.title = "Cross-correlation", .x_label = "B later than A by, s", .y_label = "coefficient"};
    const auto add = [&](const ComparedSeries& series) {
      const std::vector<double>& values = series.correlation.by_lag;
      if (values.empty()) return;
      Series line{.name = name_of(series), .x = {}, .y = values};
      const auto middle = static_cast<std::int64_t>(values.size() / 2);
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i)
        line.x.push_back(static_cast<double>(i - middle) * diff_.bin_s);
      lags.series.push_back(std::move(line));
    };
    add(diff_.all);
    for (const ComparedSeries* series : largest_) add(*series);
    section.figures.emplace_back(std::move(lags));
    return section;
  }

  Section pair_by_pair() const {
    Section section{.title = "Pair by pair",
                    .paragraphs = {"Correlation in bins of " + display(diff_.bin_s * 1e3) +
                                   " ms, as they are, and the highest with B that much later than A. Bursts: the "
                                   "Kolmogorov-Smirnov distance of their bytes."},
                    .tables = {pairs_table(diff_)}};
    for (const ComparedSeries* series : largest_) section.figures.emplace_back(detail(*series));
    return section;
  }

  Section bursts() const {
    Section section{.title = "Bursts and gaps",
                    .paragraphs = {"Traffic is ON above " + display(a_.statistics.threshold.value() * 8 / 1e9) +
                                   " Gbit/s; gaps shorter than " + display(a_.statistics.shortest_gap.value() * 1e3) +
                                   " ms are part of the burst around them."}};
    Table table{.header = {"from, to", "", "bursts", "duration, ms", "MB", "peak, Gbit/s", "gap, ms", "period, ms"},
                .rows = {}};
    Plot volumes{.title = "Bytes of a burst", .x_label = "MB", .y_label = "share of the bursts"};
    const auto add = [&](const ComparedSeries& series, const DiffSide& side, int pair) {
      const SeriesStatistics* found = side.of(series, pair);
      if (found == nullptr) return;
      const BurstSummary& summary = found->summary;
      table.rows.push_back({name_of(series), side.label, std::to_string(summary.bursts),
                            display(summary.duration_s * 1e3), display(summary.bytes / 1e6),
                            display(summary.peak_rate * 8 / 1e9), display(summary.gap_s * 1e3),
                            found->period ? display(found->period->seconds * 1e3) : "none"});
      std::vector<double> values;
      for (const Burst& burst : found->bursts) values.push_back(burst.bytes / 1e6);
      if (&series == &diff_.all && !values.empty())
        volumes.series.push_back(distribution(side.label, std::move(values)));
    };
    const auto add_both = [&](const ComparedSeries& series) {
      add(series, a_, series.pair_a);
      add(series, b_, series.pair_b);
    };
    add_both(diff_.all);
    for (const ComparedSeries* series : largest_) add_both(*series);
    section.tables.push_back(std::move(table));
    section.figures.emplace_back(std::move(volumes));
    return section;
  }

  Section flow_sizes() const {
    Plot plot{.title = "Bytes of a directed flow", .x_label = "log10 of bytes", .y_label = "share of the flows"};
    for (const DiffSide* side : {&a_, &b_})
      plot.series.push_back(flow_size_distribution(side->label, side->run.traffic));
    return {.title = "Flows", .figures = {std::move(plot)}};
  }

  const TrafficDiff& diff_;
  DiffSide a_, b_;
  std::vector<const ComparedSeries*> largest_;
};

}  // namespace

Document traffic_diff_document(const TrafficDiff& diff, const RunTraffic& a, const RunTraffic& b) {
  return DiffPage{diff, a, b}.make();
}

}  // namespace rehearse
