#include "sim/app/output/traffic_document.hpp"

#include <algorithm>
#include <cmath>

#include "sim/app/output/traffic_tables.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostHosts = 32;  // of the heat map
constexpr std::size_t kMostPairs = 8;   // of a plot or table: those with the most bytes
constexpr double kDetail = 0.25;        // seconds of the detail: bins of 10 ms around the middle
constexpr double kDetailBin = 0.01;
constexpr std::size_t kMostBins = 2000;  // of the whole run's plot

std::string megabytes(double bytes) { return display(bytes / 1e6) + " MB"; }
std::string gigabits(double bytes_per_second) { return display(bytes_per_second * 8 / 1e9) + " Gbit/s"; }

Section rates_of(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  Section section{.title = "Over time"};
  const std::int64_t end = traffic.bins.end();
  const std::int64_t factor = std::max<std::int64_t>(
      1, (end + static_cast<std::int64_t>(kMostBins) - 1) / static_cast<std::int64_t>(kMostBins));
  Plot whole{
      .title = "Rate of all frames, in bins of " + display(statistics.bin_s * static_cast<double>(factor)) + " s",
      .x_label = "time after the first packet, s",
      .y_label = "Gbit/s"};
  whole.series.push_back(rate_line(traffic, traffic.bins, "all", {0, end, factor}));
  section.figures.emplace_back(std::move(whole));
  const auto bin = std::max<std::int64_t>(1, std::llround(kDetailBin / statistics.bin_s));
  const double period = statistics.all.period ? statistics.all.period->seconds : statistics.step_time_s;
  const auto length = std::llround(std::max(kDetail, 3 * period) / statistics.bin_s);
  const std::int64_t begin = std::max<std::int64_t>(0, (end - length) / 2);
  Plot detail{
      .title = "Rate in the middle of the run, in bins of " +
               display(statistics.bin_s * static_cast<double>(bin) * 1e3) + " ms",
      .x_label = "s, from " + display(statistics.bin_s * static_cast<double>(begin)) + " s after the first packet",
      .y_label = "Gbit/s"};
  for (const std::size_t p : largest_pairs(traffic, kMostPairs))
    detail.series.push_back(rate_line(traffic, traffic.pairs[p].bins, label_of(traffic, traffic.pairs[p]),
                                      {begin, std::min<std::int64_t>(end, begin + length), bin}));
  section.figures.emplace_back(std::move(detail));
  Plot cumulative{.title = "Bytes since the first packet", .x_label = "time, s", .y_label = "GB"};
  Series sum = rate_line(traffic, traffic.bins, "all", {0, end, factor});
  double gigabytes = 0;
  for (double& rate : sum.y) {
    gigabytes += rate / 8 * statistics.bin_s * static_cast<double>(factor);
    rate = gigabytes;
  }
  cumulative.series.push_back(std::move(sum));
  section.figures.emplace_back(std::move(cumulative));
  return section;
}

/// Takes the name and the statistics of each of the largest pairs whose series were studied.
template <class Take>
void for_each_shown(const ObservedTraffic& traffic, const TrafficStatistics& statistics, const Take& take) {
  for (const std::size_t p : largest_pairs(traffic, kMostPairs))
    if (const SeriesStatistics* series = statistics.of_pair(p)) take(label_of(traffic, traffic.pairs[p]), *series);
}

Section bursts_of(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  Section section{
      .title = "Bursts and gaps",
      .paragraphs = {
          "Traffic is ON in bins of " + display(statistics.bin_s * 1e3) + " ms above " +
          gigabits(statistics.threshold.value()) + "; gaps shorter than " +
          display(statistics.shortest_gap.value() * 1e3) +
          " ms are part of the burst around them. The link's rate is " + gigabits(statistics.link_rate.value()) +
          (statistics.is_link_rate_known ? "."
                                         : ": the highest of a pair in a bin, as it was not given (--link-rate).")}};
  Table table{
      .header = {"from, to", "mean rate", "bursts", "duration, ms", "size", "peak", "gap, ms", "ON", "period, ms"},
      .rows = {}};
  const auto row = [&](const std::string& name, const SeriesStatistics& series) {
    const BurstSummary& bursts = series.summary;
    table.rows.push_back({name, gigabits(series.mean_rate), std::to_string(bursts.bursts),
                          display(bursts.duration_s * 1e3), megabytes(bursts.bytes), gigabits(bursts.peak_rate),
                          display(bursts.gap_s * 1e3), percent_text(bursts.duty_cycle),
                          series.period ? display(series.period->seconds * 1e3) : "none"});
  };
  row("all", statistics.all);
  Plot volumes{.title = "Bytes of a burst", .x_label = "MB", .y_label = "share of the bursts"};
  const auto add_volumes = [&](const std::string& name, const SeriesStatistics& series) {
    std::vector<double> values;
    for (const Burst& burst : series.bursts) values.push_back(burst.bytes / 1e6);
    if (!values.empty()) volumes.series.push_back(distribution(name, std::move(values)));
  };
  add_volumes("all", statistics.all);
  for_each_shown(traffic, statistics, row);
  for_each_shown(traffic, statistics, add_volumes);
  section.tables.push_back(std::move(table));
  Plot scales{.title = "Peak to mean over time scales", .x_label = "window, log10 of seconds", .y_label = "ratio"};
  Plot envelopes{.title = "Burst envelope: most bytes in a window",
                 .x_label = "window, log10 of seconds",
                 .y_label = "log10 of bytes"};
  const auto add_scales = [&](const std::string& name, const SeriesStatistics& series) {
    Series ratio{.name = name, .x = {}, .y = {}}, most{.name = name, .x = {}, .y = {}};
    for (std::size_t i = 0; i < statistics.scales_bins.size(); ++i) {
      ratio.x.push_back(std::log10(statistics.bin_s * static_cast<double>(statistics.scales_bins[i])));
      ratio.y.push_back(series.peak_to_mean[i]);
      most.x.push_back(ratio.x.back());
      most.y.push_back(std::log10(std::max(1.0, series.envelope_bytes[i])));
    }
    scales.series.push_back(std::move(ratio));
    envelopes.series.push_back(std::move(most));
  };
  add_scales("all", statistics.all);
  for_each_shown(traffic, statistics, add_scales);
  section.figures = {std::move(volumes), std::move(scales), std::move(envelopes)};
  return section;
}

Section flows_of(const ObservedTraffic& traffic) {
  Section section{.title = "Flows",
                  .paragraphs = {std::to_string(traffic.flows.size()) +
                                 " directed flows (addresses, ports, protocol). A TCP connection is two: its "
                                 "acknowledgements are the other."}};
  Series arrivals{.name = "first packet", .x = {}, .y = {}, .is_points = true};
  Series departures{.name = "last packet", .x = {}, .y = {}, .is_points = true};
  for (std::size_t f = 0; f < traffic.flows.size(); ++f) {
    const TrafficFlow& flow = traffic.flows[f];
    arrivals.x.push_back(static_cast<double>(flow.arrival_ns) * 1e-9);
    arrivals.y.push_back(static_cast<double>(f));
    departures.x.push_back(static_cast<double>(flow.departure_ns) * 1e-9);
    departures.y.push_back(static_cast<double>(f));
  }
  section.figures.emplace_back(Plot{.title = "Bytes of a flow",
                                    .x_label = "log10 of bytes",
                                    .y_label = "share of the flows",
                                    .series = {flow_size_distribution("flows", traffic)}});
  section.figures.emplace_back(Plot{.title = "Arrivals and departures",
                                    .x_label = "time, s",
                                    .y_label = "flow",
                                    .series = {std::move(arrivals), std::move(departures)}});
  return section;
}

Section steps_of(const TrafficStatistics& statistics) {
  Section section{.title = "Beside the training's steps"};
  Series cumulative{.name = "bytes", .x = {}, .y = {}}, accuracy{.name = "accuracy", .x = {}, .y = {}};
  for (std::size_t i = 0; i < statistics.steps.size(); ++i) {
    const TrafficAtStep& step = statistics.steps[i];
    cumulative.x.push_back(static_cast<double>(i));
    cumulative.y.push_back(step.cumulative_bytes / 1e9);
    if (!step.has_metrics) continue;
    accuracy.x.push_back(step.cumulative_bytes / 1e9);
    accuracy.y.push_back(step.accuracy);
  }
  section.figures.emplace_back(
      Plot{.title = "Bytes until a step", .x_label = "step", .y_label = "GB", .series = {std::move(cumulative)}});
  if (!accuracy.x.empty())
    section.figures.emplace_back(Plot{.title = "Accuracy that traffic buys",
                                      .x_label = "GB since the first packet",
                                      .y_label = "accuracy of the batch",
                                      .series = {std::move(accuracy)}});
  return section;
}

Section throughput_of(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  Section section{
      .title = "Throughput",
      .paragraphs = {"Means over windows of 1 s, from " + display(statistics.throughput_window.start.value()) +
                     " s to " + display(statistics.throughput_window.end.value()) + " s, and of 10 ms, from " +
                     display(statistics.fine_window.start.value()) + " s to " +
                     display(statistics.fine_window.end.value()) +
                     " s, with 1.96 standard deviations over the square root of the windows' number."}};
  Table table{.header = {"from, to", "1 s: Gbit/s", "+-", "10 ms: Gbit/s", "+-"}, .rows = {}};
  const auto row = [&](const std::string& name, const SeriesStatistics& series) {
    table.rows.push_back({name, display(series.gbps.mean), display(series.gbps.half_width),
                          display(series.fine_gbps.mean), display(series.fine_gbps.half_width)});
  };
  row("all", statistics.all);
  for_each_shown(traffic, statistics, row);
  section.tables.push_back(std::move(table));
  return section;
}

Section notes_of(const RunTraffic& run, const TrafficStatistics& statistics) {
  Section section{.title = "Notes"};
  section.paragraphs = statistics.notes;
  for (const std::string& warning : run.traffic.warnings) section.paragraphs.push_back(warning);
  if (run.run_payload_bytes)
    section.paragraphs.push_back("The whole run sent " + megabytes(static_cast<double>(*run.run_payload_bytes)) +
                                 " between its machines, of which " +
                                 megabytes(static_cast<double>(run.traffic.total.payload_bytes)) +
                                 " are in the messages that were recorded, and here.");
  return section;
}

}  // namespace

Series rate_line(const ObservedTraffic& traffic, const BinnedBytes& bins, const std::string& name,
                 const PlottedBins& plotted) {
  const auto [first, end, factor] = plotted;
  const double width = static_cast<double>(traffic.bin_ns) * 1e-9;
  Series line{.name = name, .x = {}, .y = {}};
  for (std::int64_t begin = first; begin < end; begin += factor) {
    double bytes = 0;
    for (std::int64_t i = begin; i < begin + factor; ++i) bytes += static_cast<double>(bins.at(i));
    line.x.push_back(width * static_cast<double>(begin - first));
    line.y.push_back(bytes * 8 / 1e9 / (width * static_cast<double>(factor)));
  }
  return line;
}

HeatMap traffic_matrix(const ObservedTraffic& traffic) {
  HeatMap map{.title = "GB from each host (row) to each other",
              .unit = "GB",
              .rows = {},
              .columns = {},
              .values = {},
              .row_label = "from",
              .column_label = "to"};
  const std::size_t size = std::min(traffic.hosts.size(), kMostHosts);
  for (std::size_t h = 0; h < size; ++h) map.rows.push_back(label_of(traffic.hosts[h]));
  map.columns = map.rows;
  map.values.assign(size, std::vector<double>(size));
  for (const TrafficPair& pair : traffic.pairs) {
    const auto from = static_cast<std::size_t>(pair.from), to = static_cast<std::size_t>(pair.to);
    if (from < size && to < size) map.values[from][to] = static_cast<double>(pair.counts.wire_bytes) / 1e9;
  }
  return map;
}

Series distribution(const std::string& name, std::vector<double> values) {
  std::ranges::sort(values);
  Series line{.name = name, .x = {}, .y = {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    line.x.insert(line.x.end(), 2, values[i]);
    line.y.push_back(static_cast<double>(i) / static_cast<double>(values.size()));
    line.y.push_back(static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return line;
}

Series flow_size_distribution(const std::string& name, const ObservedTraffic& traffic) {
  std::vector<double> sizes;
  for (const TrafficFlow& flow : traffic.flows)
    sizes.push_back(std::log10(static_cast<double>(std::max<std::int64_t>(1, flow.counts.wire_bytes))));
  return distribution(name, std::move(sizes));
}

Document traffic_document(const RunTraffic& run, const TrafficStatistics& statistics) {
  const ObservedTraffic& traffic = run.traffic;
  const auto optional = [](const std::optional<double>& bytes) { return bytes ? megabytes(*bytes) : "not known"; };
  Document document{
      .title = "Traffic of " + run.name,
      .subtitle = std::string{run.is_simulated ? "simulated" : "measured"} + ", " + display(statistics.duration_s) +
                  " s, " + std::to_string(traffic.hosts.size()) + " hosts",
      .headlines = {{"bytes on the wire", megabytes(static_cast<double>(traffic.total.wire_bytes))},
                    {"packets", std::to_string(traffic.total.packets)},
                    {"mean rate", gigabits(statistics.all.mean_rate)},
                    {"pairs", std::to_string(traffic.pairs.size())},
                    {"flows", std::to_string(traffic.flows.size())},
                    {"period of the traffic",
                     statistics.all.period ? display(statistics.all.period->seconds * 1e3) + " ms" : "none"},
                    {"step", statistics.step_time_s > 0 ? display(statistics.step_time_s * 1e3) + " ms" : "not known"},
                    {"data per step",
                     optional(statistics.data_per_step ? statistics.data_per_step : statistics.data_per_period)},
                    {"retransmitted", traffic.has_sequences
                                          ? megabytes(static_cast<double>(traffic.total.retransmitted_bytes))
                                          : "not known"}},
      .sections = {{.title = "Traffic matrix", .figures = {traffic_matrix(traffic)}}}};
  document.verdict =
      std::to_string(traffic.hosts.size()) + " hosts exchange " +
      megabytes(static_cast<double>(traffic.total.wire_bytes)) + " in " + display(statistics.duration_s) + " s" +
      (statistics.all.period ? ", in bursts " + display(statistics.all.period->seconds * 1e3) + " ms apart" : "") + ".";
  if (traffic.hosts.size() > kMostHosts)
    document.sections[0].paragraphs.emplace_back("The first 32 hosts by address; matrix.csv has all.");
  document.sections.push_back(rates_of(traffic, statistics));
  document.sections.push_back(bursts_of(traffic, statistics));
  document.sections.push_back(flows_of(traffic));
  if (statistics.steps.size() > 1) document.sections.push_back(steps_of(statistics));
  document.sections.push_back(throughput_of(traffic, statistics));
  if (Section notes = notes_of(run, statistics); !notes.paragraphs.empty())
    document.sections.push_back(std::move(notes));
  return document;
}

}  // namespace rehearse
