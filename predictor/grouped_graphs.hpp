#pragma once
// Files of graphs as the published networks take them: groups of operators with their three features.

#include <filesystem>
#include <string>
#include <vector>

#include "predictor/grouping.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

struct NamedGroups {
  std::string name;
  GroupedGraph groups;
  std::vector<double> outputs;  // what another program says of it, the network's twelve outputs; empty: nothing
};

/// Whether a JSON value is such a file, and no scenario.
bool is_grouped_graphs(const Json& json);

/// Throws InputError, also for more than 10000 graphs, and for one of more than 1000 nodes: the networks go over all of them half as many times.
std::vector<NamedGroups> read_grouped_graphs(const Json& json, const std::string& file_name);

/// JSON Schema (draft 2020-12) of such a file.
std::string grouped_graphs_schema();

}  // namespace rehearse
