#pragma once
// traffic.html: who sent how much to whom, when, in which bursts.

#include "sim/app/output/document.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

Document traffic_document(const RunTraffic& run, const TrafficStatistics& statistics);

/// Bytes from each host to each other one, in GB; of at most 32 hosts.
HeatMap traffic_matrix(const ObservedTraffic& traffic);

/// The distribution function of `values` as a line of steps.
Series distribution(const std::string& name, std::vector<double> values);

}  // namespace rehearse
