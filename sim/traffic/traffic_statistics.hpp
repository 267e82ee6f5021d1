#pragma once
// What is read off the traffic of a run.

#include <optional>
#include <string>
#include <vector>

#include "sim/record/recorder.hpp"
#include "sim/traffic/burstiness.hpp"
#include "sim/traffic/traffic_input.hpp"

namespace rehearse {

struct BurstOptions {
  std::optional<BytesPerSecond> link_rate;  // otherwise the run's, or else the highest rate of a pair in a bin
  double threshold_share = 0.01;            // of the link rate: above it traffic is ON
  Seconds shortest_gap{5e-3};               // shorter ones belong to the burst around them
};

/// How a series of bytes is spread over time: all frames, or those from one host to another.
struct SeriesStatistics {
  int pair = -1;  // index into ObservedTraffic::pairs; -1: all frames
  std::vector<Burst> bursts;
  BurstSummary summary;
  std::optional<Period> period;
  double mean_rate = 0;
  std::vector<double> envelope_bytes;  // [TrafficStatistics::scales_bins]
  std::vector<double> peak_to_mean;    // [TrafficStatistics::scales_bins]
  std::vector<double> backlog_bytes;   // [kBacklogShares]
  MeanOfWindows gbps;                  // throughput in windows of 1 s, see TrafficStatistics::throughput_window
  MeanOfWindows fine_gbps;             // in windows of 10 ms, gathered in seconds: 90 s to 120 s
};

/// Rates of the queue whose backlog is told, as shares of the link rate.
inline constexpr double kBacklogShares[] = {0.1, 0.2, 0.5, 0.8, 1.0};

struct TrafficAtStep {
  double time_s = 0;  // after the first packet
  double cumulative_bytes = 0;
  double loss = 0, accuracy = 0;
  bool has_metrics = false;
};

struct TrafficStatistics {
  BytesPerSecond link_rate{};
  bool is_link_rate_known = false;
  BytesPerSecond threshold{};
  Seconds shortest_gap{};
  double bin_s = 0;
  double duration_s = 0;  // from the first packet to the last
  SeriesStatistics all;
  /// Those of the pairs with the most bytes, in the order of ObservedTraffic::pairs: as many as have 4 million bins
  /// together, or 16 for each packet; one at least. A note counts the others.
  std::vector<SeriesStatistics> pairs;
  std::vector<double> mean_rates;                 // [ObservedTraffic::pairs] bytes/s
  std::vector<std::int64_t> scales_bins;          // 1, 2, 5, 10, ... bins
  Span throughput_window;                         // 200 s to 300 s, or the whole seconds of a shorter run
  Span fine_window;                               // 90 s to 120 s, or the same
  double step_time_s = 0;                         // of the log; 0 without
  double training_s = 0;                          // from the log's first step to its last
  std::optional<double> data_per_step;            // bytes between the log's first and last step over their number
  std::optional<double> data_per_step_resampled;  // mean over bins of the step time from the first packet on
  std::optional<double> data_per_period;          // mean rate times the period, where there is no log
  std::vector<TrafficAtStep> steps;
  std::vector<std::string> notes;  // what could not be told, and why

  /// The statistics of a pair, an index into ObservedTraffic::pairs; null if its series was not studied.
  const SeriesStatistics* of_pair(std::size_t pair) const;
};

TrafficStatistics traffic_statistics(const RunTraffic& run, const BurstOptions& options);

}  // namespace rehearse
