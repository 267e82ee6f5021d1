#include "sim/app/traffic_diff.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "calibration/validation.hpp"
#include "sim/app/output/traffic_tables.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr double kLeastBin = 0.01;  // seconds, of series that are correlated
constexpr std::size_t kMostBins = 1U << 20U;

std::optional<double> distance(std::vector<double> a, std::vector<double> b) {
  if (a.empty() || b.empty()) return {};
  return ks_distance(std::move(a), std::move(b));
}

std::vector<double> volumes(const SeriesStatistics* series) {
  std::vector<double> values;
  if (series != nullptr)
    for (const Burst& burst : series->bursts) values.push_back(burst.bytes);
  return values;
}

std::vector<double> flow_sizes(const ObservedTraffic& traffic) {
  std::vector<double> sizes;
  for (const TrafficFlow& flow : traffic.flows) sizes.push_back(static_cast<double>(flow.counts.wire_bytes));
  return sizes;
}

/// Bytes in bins of `bin_s`, whatever the width of those that were counted.
std::vector<double> series_in(const ObservedTraffic& traffic, const BinnedBytes& bins, double bin_s) {
  const double width = static_cast<double>(traffic.bin_ns) * 1e-9;
  const std::vector<double> fine = series_of(bins, traffic.bins.end());
  std::vector<double> series(static_cast<std::size_t>(static_cast<double>(fine.size()) * width / bin_s) + 1);
  for (std::size_t i = 0; i < fine.size(); ++i)
    series[std::min(series.size() - 1, static_cast<std::size_t>((static_cast<double>(i) + 0.5) * width / bin_s))] +=
        fine[i];
  return series;
}

class Comparison {
 public:
  Comparison(const RunTraffic& a, const RunTraffic& b, const BurstOptions& options)
      : a_{a}, b_{b}, of_a_{diff_.statistics_a}, of_b_{diff_.statistics_b} {
    diff_.a = a.name;
    diff_.b = b.name;
    diff_.statistics_a = traffic_statistics(a, options);
    diff_.statistics_b = traffic_statistics(b, options);
    const double longest = std::max(of_a_.duration_s, of_b_.duration_s);
    diff_.bin_s = std::max({kLeastBin, of_a_.bin_s, of_b_.bin_s, longest / static_cast<double>(kMostBins)});
  }

  TrafficDiff make() {
    add_hosts();
    add_figures();
    diff_.all = compared("all", &a_.traffic.bins, &of_a_.all, "all", &b_.traffic.bins, &of_b_.all);
    diff_.flow_sizes_ks = distance(flow_sizes(a_.traffic), flow_sizes(b_.traffic));
    add_pairs();
    return std::move(diff_);
  }

 private:
  void add_hosts() {
    const std::size_t both = std::min(a_.traffic.hosts.size(), b_.traffic.hosts.size());
    for (std::size_t h = 0; h < both; ++h)
      diff_.hosts.emplace_back(label_of(a_.traffic.hosts[h]), label_of(b_.traffic.hosts[h]));
    if (a_.traffic.hosts.size() != b_.traffic.hosts.size())
      diff_.notes.push_back("A has " + std::to_string(a_.traffic.hosts.size()) + " hosts and B " +
                            std::to_string(b_.traffic.hosts.size()) +
                            ": they are taken for each other in the order of their addresses.");
  }

  void add_figures() {
    const auto add = [&](const char* name, std::optional<double> a, std::optional<double> b) {
      diff_.figures.push_back({name, a, b});
    };
    const auto figure = [&](const char* name, const auto& value) { add(name, value(a_, of_a_), value(b_, of_b_)); };
    using Value = std::optional<double>;
    const auto if_known = [](double value) { return value > 0 ? Value{value} : Value{}; };
    figure("duration_s", [](const RunTraffic&, const TrafficStatistics& s) { return Value{s.duration_s}; });
    figure("size_B", [](const RunTraffic& r, const TrafficStatistics&) {
      return Value{static_cast<double>(r.traffic.total.wire_bytes)};
    });
    figure("packets", [](const RunTraffic& r, const TrafficStatistics&) {
      return Value{static_cast<double>(r.traffic.total.packets)};
    });
    figure("retransmitted_B", [](const RunTraffic& r, const TrafficStatistics&) {
      return r.traffic.has_sequences ? Value{static_cast<double>(r.traffic.total.retransmitted_bytes)} : Value{};
    });
    figure("flows", [](const RunTraffic& r, const TrafficStatistics&) {
      return Value{static_cast<double>(r.traffic.flows.size())};
    });
    figure("pairs", [](const RunTraffic& r, const TrafficStatistics&) {
      return Value{static_cast<double>(r.traffic.pairs.size())};
    });
    figure("mean_rate_Bps", [](const RunTraffic&, const TrafficStatistics& s) { return Value{s.all.mean_rate}; });
    figure("step_time_s", [&](const RunTraffic&, const TrafficStatistics& s) { return if_known(s.step_time_s); });
    figure("period_s", [](const RunTraffic&, const TrafficStatistics& s) {
      return s.all.period ? Value{s.all.period->seconds} : Value{};
    });
    figure("data_per_step_B", [](const RunTraffic&, const TrafficStatistics& s) {
      return s.data_per_step ? s.data_per_step : s.data_per_period;
    });
    figure("bursts", [](const RunTraffic&, const TrafficStatistics& s) {
      return Value{static_cast<double>(s.all.summary.bursts)};
    });
    figure("burst_duration_s",
           [](const RunTraffic&, const TrafficStatistics& s) { return Value{s.all.summary.duration_s}; });
    figure("burst_size_B", [](const RunTraffic&, const TrafficStatistics& s) { return Value{s.all.summary.bytes}; });
    figure("gap_s", [](const RunTraffic&, const TrafficStatistics& s) { return Value{s.all.summary.gap_s}; });
    figure("duty_cycle", [](const RunTraffic&, const TrafficStatistics& s) { return Value{s.all.summary.duty_cycle}; });
    for (const auto& [name, window] :
         {std::pair{"peak_to_mean_1ms", 1e-3}, {"peak_to_mean_10ms", 1e-2}, {"peak_to_mean_100ms", 1e-1}})
      add(name, peak_to_mean(of_a_, window), peak_to_mean(of_b_, window));
  }

  static std::optional<double> peak_to_mean(const TrafficStatistics& statistics, double window_s) {
    for (std::size_t i = 0; i < statistics.scales_bins.size(); ++i)
      if (std::abs(statistics.bin_s * static_cast<double>(statistics.scales_bins[i]) / window_s - 1) < 1e-6)
        return statistics.all.peak_to_mean[i];
    return {};
  }

  /// Of a series that one of the two does not have, bins and statistics are null.
  ComparedSeries compared(const std::string& name_a, const BinnedBytes* bins_a, const SeriesStatistics* of_a,
                          const std::string& name_b, const BinnedBytes* bins_b, const SeriesStatistics* of_b) const {
    ComparedSeries series{.a = name_a, .b = name_b};
    std::vector<double> x, y;
    if (bins_a != nullptr) x = series_in(a_.traffic, *bins_a, diff_.bin_s);
    if (bins_b != nullptr) y = series_in(b_.traffic, *bins_b, diff_.bin_s);
    for (const double bytes : x) series.bytes_a += bytes;
    for (const double bytes : y) series.bytes_b += bytes;
    if (of_a != nullptr) series.rate_a = of_a->mean_rate;
    if (of_b != nullptr) series.rate_b = of_b->mean_rate;
    // Beyond the end of the shorter one there is nothing to compare.
    if (!x.empty() && !y.empty()) {
      x.resize(std::min(x.size(), y.size()));
      y.resize(x.size());
      series.correlation = cross_correlation(x, y);
    }
    series.volumes_ks = distance(volumes(of_a), volumes(of_b));
    return series;
  }

  void add_pairs() {
    std::map<std::pair<int, int>, std::pair<int, int>> pairs;  // by hosts: indices in A and B, -1 without
    for (std::size_t p = 0; p < a_.traffic.pairs.size(); ++p)
      pairs[{a_.traffic.pairs[p].from, a_.traffic.pairs[p].to}] = {static_cast<int>(p), -1};
    for (std::size_t p = 0; p < b_.traffic.pairs.size(); ++p) {
      auto& indices =
          pairs.try_emplace({b_.traffic.pairs[p].from, b_.traffic.pairs[p].to}, std::pair{-1, -1}).first->second;
      indices.second = static_cast<int>(p);
    }
    std::size_t not_studied = 0;  // in a run that has them
    for (const auto& [hosts, indices] : pairs) {
      const auto [in_a, in_b] = indices;
      const auto* of_a = in_a < 0 ? nullptr : of_a_.of_pair(static_cast<std::size_t>(in_a));
      const auto* of_b = in_b < 0 ? nullptr : of_b_.of_pair(static_cast<std::size_t>(in_b));
      if ((in_a >= 0 && of_a == nullptr) || (in_b >= 0 && of_b == nullptr)) {
        ++not_studied;
        continue;
      }
      const TrafficPair* a = in_a < 0 ? nullptr : &a_.traffic.pairs[static_cast<std::size_t>(in_a)];
      const TrafficPair* b = in_b < 0 ? nullptr : &b_.traffic.pairs[static_cast<std::size_t>(in_b)];
      diff_.pairs.push_back(compared(a != nullptr ? label_of(a_.traffic, *a) : "", a != nullptr ? &a->bins : nullptr,
                                     of_a, b != nullptr ? label_of(b_.traffic, *b) : "",
                                     b != nullptr ? &b->bins : nullptr, of_b));
      diff_.pairs.back().pair_a = in_a;
      diff_.pairs.back().pair_b = in_b;
    }
    if (not_studied > 0)
      diff_.notes.push_back(std::to_string(not_studied) +
                            " pairs with few bytes are not compared: their bursts were not studied.");
  }

  const RunTraffic& a_;
  const RunTraffic& b_;
  TrafficDiff diff_;
  const TrafficStatistics& of_a_;
  const TrafficStatistics& of_b_;
};

using NumberOfSeries = double (*)(const ComparedSeries&, double bin_s);

constexpr std::array kNumbersOfSeries{
    Named<NumberOfSeries>{"a_size_B", [](const ComparedSeries& series, double) { return series.bytes_a; }},
    Named<NumberOfSeries>{"b_size_B", [](const ComparedSeries& series, double) { return series.bytes_b; }},
    Named<NumberOfSeries>{"a_rate_Bps", [](const ComparedSeries& series, double) { return series.rate_a; }},
    Named<NumberOfSeries>{"b_rate_Bps", [](const ComparedSeries& series, double) { return series.rate_b; }},
    Named<NumberOfSeries>{"correlation",
                          [](const ComparedSeries& series, double) { return series.correlation.at_zero; }},
    Named<NumberOfSeries>{"highest_correlation",
                          [](const ComparedSeries& series, double) { return series.correlation.highest; }},
    Named<NumberOfSeries>{"lag_s", [](const ComparedSeries& series, double bin_s) {
                            return static_cast<double>(series.correlation.lag) * bin_s;
                          }}};

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string cell(const std::optional<double>& value) { return value ? display(*value) : "-"; }

/// B over A, less 1.
std::string relative(double a, double b) {
  if (!(a > 0)) return "-";
  const double change = 100 * (b / a - 1);
  return (change < 0 ? "" : "+") + display(change) + " %";
}

}  // namespace

TrafficDiff compare_traffic(const RunTraffic& a, const RunTraffic& b, const BurstOptions& options) {
  return Comparison{a, b, options}.make();
}

Table figures_table(const TrafficDiff& diff) {
  Table table{.header = {"traffic", "A", "B", "B to A"}, .rows = {}};
  for (const TrafficFigure& figure : diff.figures)
    table.rows.push_back(
        {figure.name, cell(figure.a), cell(figure.b), figure.a && figure.b ? relative(*figure.a, *figure.b) : "-"});
  return table;
}

Table pairs_table(const TrafficDiff& diff) {
  Table table{.header = {"pair of A", "pair of B", "bytes in A", "bytes in B", "B to A", "correlation", "highest",
                         "later, ms", "bursts"},
              .rows = {}};
  const auto row = [&](const ComparedSeries& series) {
    table.rows.push_back({series.a.empty() ? "-" : printable(series.a), series.b.empty() ? "-" : printable(series.b),
                          display(series.bytes_a), display(series.bytes_b), relative(series.bytes_a, series.bytes_b),
                          display(series.correlation.at_zero), display(series.correlation.highest),
                          display(static_cast<double>(series.correlation.lag) * diff.bin_s * 1e3),
                          cell(series.volumes_ks)});
  };
  row(diff.all);
  for (const ComparedSeries& series : diff.pairs) row(series);
  return table;
}

std::string to_text(const TrafficDiff& diff) {
  std::string text = "A  " + printable(diff.a) + "\nB  " + printable(diff.b) + "\n\n" + to_text(figures_table(diff));
  text += "\nin bins of " + display(diff.bin_s * 1e3) +
          " ms; correlation as they are, and the highest with B that much later than A; bursts: Kolmogorov-Smirnov "
          "distance of their bytes\n";
  text += to_text(pairs_table(diff)) + "\nflow sizes: Kolmogorov-Smirnov distance " + cell(diff.flow_sizes_ks) + "\n";
  for (const std::string& note : diff.notes) text += note + "\n";
  return text;
}

Json to_json(const TrafficDiff& diff) {
  const auto series_json = [&](const ComparedSeries& series) {
    Json json;
    for (const auto& entry : kNumbersOfSeries) json[entry.name] = entry.value(series, diff.bin_s);
    json["a"] = series.a;
    json["b"] = series.b;
    json["burst_sizes_ks"] = number(series.volumes_ks);
    return json;
  };
  Json json{{"format", 1}, {"a", diff.a}, {"b", diff.b}, {"bin_s", diff.bin_s}};
  json["hosts"] = Json::array();
  for (const auto& [a, b] : diff.hosts) json["hosts"].push_back(Json{{"a", a}, {"b", b}});
  json["figures"] = Json::array();
  for (const TrafficFigure& figure : diff.figures)
    json["figures"].push_back(Json{{"name", figure.name}, {"a", number(figure.a)}, {"b", number(figure.b)}});
  json["all"] = series_json(diff.all);
  json["pairs"] = Json::array();
  for (const ComparedSeries& series : diff.pairs) json["pairs"].push_back(series_json(series));
  json["flow_sizes_ks"] = number(diff.flow_sizes_ks);
  json["notes"] = diff.notes;
  return json;
}

}  // namespace rehearse
