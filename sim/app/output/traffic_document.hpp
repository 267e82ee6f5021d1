#pragma once
// traffic.html: who sent how much to whom, when, in which bursts.

#include "sim/app/output/document.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

/// Bins that a plot shows: from the bin `first` to `end`, which is not in it, `factor` bins a point.
struct PlottedBins {
  std::int64_t first = 0, end = 0, factor = 1;
};

Document traffic_document(const RunTraffic& run, const TrafficStatistics& statistics);

/// The distribution of the bytes of directed flows, over their logarithm to base 10.
Series flow_size_distribution(const std::string& name, const ObservedTraffic& traffic);

/// The pairs with the most bytes that a page has room for: their indices, in the order of the pairs.

/// The rate in Gbit/s over the time from the first of the bins on.
Series rate_line(const ObservedTraffic& traffic, const BinnedBytes& bins, const std::string& name,
                 const PlottedBins& plotted);

/// Bytes from each host to each other one, in GB; of at most 32 hosts.
HeatMap traffic_matrix(const ObservedTraffic& traffic);

/// The distribution function of `values` as a line of steps.
Series distribution(const std::string& name, std::vector<double> values);

}  // namespace rehearse
