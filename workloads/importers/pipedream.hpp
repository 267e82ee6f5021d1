#pragma once
// Profiles of PipeDream: layers with measured times and sizes, and who reads whose output. Source: Narayanan et al.,
// PipeDream, SOSP 2019, and its repository's profiler/*/profiles/*/graph.txt.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// Lines `node1 -- Conv2d(...) -- forward_compute_time=1.5, ..., parameter_size=0`, perhaps with ` -- stage_id=0` behind
/// them, and `node1 -- node2`, or a table of
/// the nodes with that of the edges beside it: NAME.nodes.csv and NAME.edges.csv.
bool is_pipedream_profile(const Source& source);

/// A model of timed layers in topological order, for the batch of the profile, which the bytes of a layer with known
/// features tell. Inputs are left out: their time is that of loading data. A layer passes on what layers after it still
/// read, its own output or an earlier one, and keeps what no layer before it has kept. Throws InputError.
ImportedModel read_pipedream_profile(const Source& source);

}  // namespace rehearse
