#include "sim/app/output/traffic_tables.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "sim/base/files.hpp"
#include "sim/base/statistics.hpp"
#include "sim/base/utc_time.hpp"

namespace rehearse {

namespace {

constexpr double kSecondsPerNs = 1e-9;

std::string address_of(const ObservedTraffic& traffic, int host) {
  return to_text(traffic.hosts[static_cast<std::size_t>(host)].address);
}

/// Empty if payload and sequence numbers are not known.
CsvField if_known(const ObservedTraffic& traffic, std::int64_t value) {
  return traffic.has_sequences ? CsvField{value} : CsvField{""};
}

/// Addresses of a series; empty of all frames.
std::pair<std::string, std::string> ends_of(const ObservedTraffic& traffic, const SeriesStatistics& series) {
  if (series.pair < 0) return {};
  const TrafficPair& pair = traffic.pairs[static_cast<std::size_t>(series.pair)];
  return {address_of(traffic, pair.from), address_of(traffic, pair.to)};
}

template <class Take>
void for_each_series(const TrafficStatistics& statistics, const Take& take) {
  take(statistics.all);
  for (const SeriesStatistics& pair : statistics.pairs) take(pair);
}

std::string hosts_csv(const ObservedTraffic& traffic) {
  CsvWriter csv{{"address", "name", "sent_packets", "sent_B", "received_packets", "received_B"}};
  for (const TrafficHost& host : traffic.hosts)
    csv.row({to_text(host.address), host.name, host.sent.packets, host.sent.wire_bytes, host.received.packets,
             host.received.wire_bytes});
  return csv.text();
}

std::string matrix_csv(const ObservedTraffic& traffic) {
  CsvWriter csv{{"from", "to", "packets", "size_B", "payload_B", "retransmitted_B", "retransmitted_packets"}};
  for (const TrafficPair& pair : traffic.pairs)
    csv.row({address_of(traffic, pair.from), address_of(traffic, pair.to), pair.counts.packets, pair.counts.wire_bytes,
             if_known(traffic, pair.counts.payload_bytes), if_known(traffic, pair.counts.retransmitted_bytes),
             if_known(traffic, pair.counts.retransmitted_packets)});
  return csv.text();
}

std::string bins_csv(const ObservedTraffic& traffic) {
  CsvWriter csv{{"time_s", "from", "to", "size_B"}};
  const double width = static_cast<double>(traffic.bin_ns) * kSecondsPerNs;
  const auto rows = [&](const BinnedBytes& bins, const std::string& from, const std::string& to) {
    for (std::size_t i = 0; i < bins.bytes.size(); ++i)
      if (bins.bytes[i] != 0)
        csv.row({width * static_cast<double>(bins.first + static_cast<std::int64_t>(i)), from, to, bins.bytes[i]});
  };
  for (const TrafficPair& pair : traffic.pairs)
    rows(pair.bins, address_of(traffic, pair.from), address_of(traffic, pair.to));
  rows(traffic.bins, "", "");
  return csv.text();
}

std::string flows_csv(const ObservedTraffic& traffic) {
  CsvWriter csv{{"from", "from_port", "to", "to_port", "protocol", "packets", "size_B", "payload_B", "retransmitted_B",
                 "arrival_s", "departure_s"}};
  for (const TrafficFlow& flow : traffic.flows)
    csv.row({address_of(traffic, flow.from), static_cast<int>(flow.from_port), address_of(traffic, flow.to),
             static_cast<int>(flow.to_port), static_cast<int>(flow.protocol), flow.counts.packets,
             flow.counts.wire_bytes, if_known(traffic, flow.counts.payload_bytes),
             if_known(traffic, flow.counts.retransmitted_bytes), static_cast<double>(flow.arrival_ns) * kSecondsPerNs,
             static_cast<double>(flow.departure_ns) * kSecondsPerNs});
  return csv.text();
}

std::string flow_sizes_csv(const ObservedTraffic& traffic) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const TrafficFlow& flow : traffic.flows) ++counts[flow.counts.wire_bytes];
  CsvWriter csv{{"size_B", "flows", "pdf", "cdf"}};
  const auto all = static_cast<double>(traffic.flows.size());
  std::int64_t below = 0;
  for (const auto& [size, count] : counts) {
    below += count;
    csv.row({size, count, static_cast<double>(count) / all, static_cast<double>(below) / all});
  }
  return csv.text();
}

std::string flow_load_csv(const ObservedTraffic& traffic) {
  CsvWriter csv{{"time_s", "bin_s", "from", "from_port", "to", "to_port", "protocol", "size_B"}};
  const double width = static_cast<double>(traffic.load_bin_ns) * kSecondsPerNs;
  for (const TrafficFlow& flow : traffic.flows)
    for (std::size_t i = 0; i < flow.load.bytes.size(); ++i)
      if (flow.load.bytes[i] != 0)
        csv.row({width * static_cast<double>(flow.load.first + static_cast<std::int64_t>(i)), width,
                 address_of(traffic, flow.from), static_cast<int>(flow.from_port), address_of(traffic, flow.to),
                 static_cast<int>(flow.to_port), static_cast<int>(flow.protocol), flow.load.bytes[i]});
  return csv.text();
}

std::string bursts_csv(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  CsvWriter csv{{"from", "to", "start_s", "end_s", "size_B", "peak_Bps"}};
  for_each_series(statistics, [&](const SeriesStatistics& series) {
    const auto [from, to] = ends_of(traffic, series);
    for (const Burst& burst : series.bursts)
      csv.row({from, to, burst.start_s, burst.end_s, burst.bytes, burst.peak_rate});
  });
  return csv.text();
}

std::string series_csv(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  CsvWriter csv{{"from", "to", "mean_Bps", "bursts", "burst_duration_s", "burst_size_B", "burst_peak_Bps", "gap_s",
                 "duty_cycle", "threshold_Bps", "shortest_gap_s", "period_s", "period_correlation"}};
  for_each_series(statistics, [&](const SeriesStatistics& series) {
    const auto [from, to] = ends_of(traffic, series);
    const BurstSummary& bursts = series.summary;
    csv.row({from, to, series.mean_rate, bursts.bursts, bursts.duration_s, bursts.bytes, bursts.peak_rate, bursts.gap_s,
             bursts.duty_cycle, statistics.threshold.value(), statistics.shortest_gap.value(),
             series.period ? CsvField{series.period->seconds} : CsvField{""},
             series.period ? CsvField{series.period->correlation} : CsvField{""}});
  });
  return csv.text();
}

std::string scales_csv(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  CsvWriter csv{{"from", "to", "window_s", "envelope_B", "peak_to_mean"}};
  for_each_series(statistics, [&](const SeriesStatistics& series) {
    const auto [from, to] = ends_of(traffic, series);
    for (std::size_t i = 0; i < statistics.scales_bins.size(); ++i)
      csv.row({from, to, statistics.bin_s * static_cast<double>(statistics.scales_bins[i]), series.envelope_bytes[i],
               series.peak_to_mean[i]});
  });
  return csv.text();
}

std::string backlog_csv(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  CsvWriter csv{{"from", "to", "rate_Bps", "backlog_B"}};
  for_each_series(statistics, [&](const SeriesStatistics& series) {
    const auto [from, to] = ends_of(traffic, series);
    for (std::size_t i = 0; i < std::size(kBacklogShares); ++i)
      csv.row({from, to, kBacklogShares[i] * statistics.link_rate.value(), series.backlog_bytes[i]});
  });
  return csv.text();
}

std::string throughput_csv(const ObservedTraffic& traffic, const TrafficStatistics& statistics) {
  CsvWriter csv{{"from", "to", "from_s", "to_s", "window_s", "windows", "mean_Gbps", "half_width_Gbps"}};
  for_each_series(statistics, [&](const SeriesStatistics& series) {
    const auto [from, to] = ends_of(traffic, series);
    const auto row = [&](Span span, double window_s, const MeanOfWindows& rate) {
      csv.row({from, to, span.start.value(), span.end.value(), window_s, rate.windows, rate.mean, rate.half_width});
    };
    row(statistics.throughput_window, 1, series.gbps);
    row(statistics.fine_window, 0.01, series.fine_gbps);
  });
  return csv.text();
}

std::string steps_csv(const TrafficStatistics& statistics) {
  CsvWriter csv{{"step", "time_s", "cumulative_B", "loss", "accuracy"}};
  std::int64_t index = 0;
  for (const TrafficAtStep& step : statistics.steps)
    csv.row({index++, step.time_s, step.cumulative_bytes, step.has_metrics ? CsvField{step.loss} : CsvField{""},
             step.has_metrics ? CsvField{step.accuracy} : CsvField{""}});
  return csv.text();
}

Json to_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const TrafficCounts& counts, bool has_sequences) {
  Json json{{"packets", counts.packets}, {"size_B", counts.wire_bytes}};
  json["payload_B"] = has_sequences ? Json(counts.payload_bytes) : Json();
  json["retransmitted_B"] = has_sequences ? Json(counts.retransmitted_bytes) : Json();
  json["retransmitted_packets"] = has_sequences ? Json(counts.retransmitted_packets) : Json();
  return json;
}

Json to_json(const MeanOfWindows& rate, Span span, double window_s) {
  return {{"from_s", span.start.value()}, {"to_s", span.end.value()}, {"window_s", window_s},
          {"windows", rate.windows},      {"mean_Gbps", rate.mean},   {"half_width_Gbps", rate.half_width}};
}

Json bursts_json(const SeriesStatistics& series) {
  const BurstSummary& bursts = series.summary;
  return {{"bursts", bursts.bursts},      {"duration_s", bursts.duration_s}, {"size_B", bursts.bytes},
          {"peak_Bps", bursts.peak_rate}, {"gap_s", bursts.gap_s},           {"duty_cycle", bursts.duty_cycle}};
}

Json flow_sizes_json(const ObservedTraffic& traffic) {
  std::vector<double> sizes;
  for (const TrafficFlow& flow : traffic.flows) sizes.push_back(static_cast<double>(flow.counts.wire_bytes));
  Json json = Json::object();
  if (sizes.empty()) return json;
  for (const int percent : {5, 50, 95}) json["p" + std::to_string(percent)] = percentile(sizes, percent);
  json["mean"] = mean(sizes);
  return json;
}

}  // namespace

std::string label_of(const TrafficHost& host) { return host.name.empty() ? to_text(host.address) : host.name; }

std::string label_of(const ObservedTraffic& traffic, const TrafficPair& pair) {
  return label_of(traffic.hosts[static_cast<std::size_t>(pair.from)]) + " to " +
         label_of(traffic.hosts[static_cast<std::size_t>(pair.to)]);
}

std::vector<std::pair<std::string, std::string>> traffic_tables(const RunTraffic& run,
                                                                const TrafficStatistics& statistics) {
  const ObservedTraffic& traffic = run.traffic;
  std::vector<std::pair<std::string, std::string>> files{{"hosts.csv", hosts_csv(traffic)},
                                                         {"matrix.csv", matrix_csv(traffic)},
                                                         {"bins.csv.gz", gzip(bins_csv(traffic))},
                                                         {"flows.csv", flows_csv(traffic)},
                                                         {"flow_sizes.csv", flow_sizes_csv(traffic)},
                                                         {"flow_load.csv", flow_load_csv(traffic)},
                                                         {"bursts.csv", bursts_csv(traffic, statistics)},
                                                         {"series.csv", series_csv(traffic, statistics)},
                                                         {"scales.csv", scales_csv(traffic, statistics)},
                                                         {"backlog.csv", backlog_csv(traffic, statistics)},
                                                         {"throughput.csv", throughput_csv(traffic, statistics)}};
  if (!statistics.steps.empty()) files.emplace_back("steps.csv", steps_csv(statistics));
  return files;
}

Json to_json(const RunTraffic& run, const TrafficStatistics& statistics) {
  const ObservedTraffic& traffic = run.traffic;
  const SeriesStatistics& all = statistics.all;
  Json json{{"format", 1}, {"name", run.name}, {"is_simulated", run.is_simulated}, {"files", run.files}};
  json["first_packet_utc"] = utc_text(static_cast<double>(traffic.origin_ns / kNanosecondsPerSecond));
  json["first_packet_ns"] = traffic.origin_ns % kNanosecondsPerSecond;
  json["duration_s"] = statistics.duration_s;
  json["bin_s"] = statistics.bin_s;
  json["total"] = to_json(traffic.total, traffic.has_sequences);
  json["without_ip"] = Json{{"packets", traffic.other.packets}, {"size_B", traffic.other.wire_bytes}};
  json["run_payload_B"] = run.run_payload_bytes ? Json(*run.run_payload_bytes) : Json();
  json["hosts"] = Json::array();
  for (const TrafficHost& host : traffic.hosts)
    json["hosts"].push_back(Json{{"address", to_text(host.address)},
                                 {"name", host.name},
                                 {"sent_B", host.sent.wire_bytes},
                                 {"received_B", host.received.wire_bytes}});
  json["matrix"] = Json::array();
  for (const TrafficPair& pair : traffic.pairs) {
    Json entry{{"from", address_of(traffic, pair.from)}, {"to", address_of(traffic, pair.to)}};
    entry.update(to_json(pair.counts, traffic.has_sequences));
    json["matrix"].push_back(std::move(entry));
  }
  json["flows"] = traffic.flows.size();
  json["flow_size_B"] = flow_sizes_json(traffic);
  json["mean_rate_Bps"] = all.mean_rate;
  json["link_rate_Bps"] = statistics.link_rate.value();
  json["link_rate_is_known"] = statistics.is_link_rate_known;
  json["burst_threshold_Bps"] = statistics.threshold.value();
  json["shortest_gap_s"] = statistics.shortest_gap.value();
  json["bursts"] = bursts_json(all);
  json["period_s"] = all.period ? Json(all.period->seconds) : Json();
  json["period_correlation"] = all.period ? Json(all.period->correlation) : Json();
  json["steps"] = statistics.steps.size();
  json["step_time_s"] = statistics.step_time_s > 0 ? Json(statistics.step_time_s) : Json();
  json["training_s"] = statistics.training_s > 0 ? Json(statistics.training_s) : Json();
  json["data_per_step_B"] = to_json(statistics.data_per_step);
  json["data_per_step_resampled_B"] = to_json(statistics.data_per_step_resampled);
  json["data_per_period_B"] = to_json(statistics.data_per_period);
  json["throughput"] = to_json(all.gbps, statistics.throughput_window, 1);
  json["peak_to_mean"] = Json::array();
  for (std::size_t i = 0; i < statistics.scales_bins.size(); ++i)
    json["peak_to_mean"].push_back(Json{{"window_s", statistics.bin_s * static_cast<double>(statistics.scales_bins[i])},
                                        {"ratio", all.peak_to_mean[i]},
                                        {"envelope_B", all.envelope_bytes[i]}});
  json["notes"] = statistics.notes;
  json["warnings"] = traffic.warnings;
  return json;
}

}  // namespace rehearse
