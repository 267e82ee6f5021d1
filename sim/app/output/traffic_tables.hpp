#pragma once
// The tables of a run's traffic, and its numbers as JSON.

#include <string>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

/// File names and their content, as `traffic -o` writes them. Hosts are told by their address; hosts.csv has the names.
/// A row without `from` and `to` is of all frames.
std::vector<std::pair<std::string, std::string>> traffic_tables(const RunTraffic& run,
                                                                const TrafficStatistics& statistics);

/// traffic.json
Json to_json(const RunTraffic& run, const TrafficStatistics& statistics);

/// The name of a host, or else its address.
std::string label_of(const TrafficHost& host);

/// "worker-0 to worker-1".
std::string label_of(const ObservedTraffic& traffic, const TrafficPair& pair);

}  // namespace rehearse
