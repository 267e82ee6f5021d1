#pragma once
// Two traffics side by side: measured beside simulated, pair by pair, bin by bin.

#include <optional>
#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/base/json.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

/// A number of both, which may be unknown.
struct TrafficFigure {
  std::string name;  // with its unit
  std::optional<double> a, b;
};

/// The bytes from one host to another, or all frames, in both.
struct ComparedSeries {
  std::string a, b;  // their ends
  double bytes_a = 0, bytes_b = 0;
  double rate_a = 0, rate_b = 0;     // bytes/s
  CrossCorrelation correlation;      // of their bytes in bins of TrafficDiff::bin_s
  std::optional<double> volumes_ks;  // Kolmogorov-Smirnov distance of the bytes of their bursts
  int pair_a = -1, pair_b = -1;      // indices into ObservedTraffic::pairs; -1: all frames, or no such pair
};

struct TrafficDiff {
  std::string a, b;
  double bin_s = 0;
  std::vector<std::pair<std::string, std::string>> hosts;  // which is taken for which
  std::vector<TrafficFigure> figures;
  ComparedSeries all;
  std::vector<ComparedSeries> pairs;    // by hosts of A; a pair of one of the two alone has no bytes in the other
  std::optional<double> flow_sizes_ks;  // Kolmogorov-Smirnov distance of the bytes of their flows
  std::vector<std::string> notes;
  TrafficStatistics statistics_a, statistics_b;
};

/// Hosts are taken for each other in the order of their addresses. Series begin with the first packet of each; bins are
/// of at least 10 ms.
TrafficDiff compare_traffic(const RunTraffic& a, const RunTraffic& b, const BurstOptions& options);

/// The figures, and the pairs with their correlations.
Table figures_table(const TrafficDiff& diff);
Table pairs_table(const TrafficDiff& diff);

std::string to_text(const TrafficDiff& diff);
Json to_json(const TrafficDiff& diff);

}  // namespace rehearse
