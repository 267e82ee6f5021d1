#pragma once
// Space files: random workloads on given clusters. See spaces in scenarios/spaces/.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// A family of random workloads. `let`, `model`, `batch` and `optimizer` are JSON in which an object of one of these
/// forms stands for a value that is drawn:
///   { "choose": [a, b, ...] }                        one of them, equally likely
///   { "integer": [low, high], "multiple_of": m, "logarithmic": true, "unit": "Mbps" }
///                                                    low to high, both included; rounded down to a multiple of m >= 1;
///                                                    with a unit a text, "250Mbps"
///   { "list": n, "of": x }                           n values, each drawn on its own
///   { "value": "name", "times": k }                  what `let` drew by this name; times k if that is given
struct WorkloadFamily {
  std::string place;                              // "reference.json: /workloads/3", for error messages
  std::string family;                             // label of the graphs
  double weight = 1;                              // relative to the other families
  std::vector<std::pair<std::string, Json>> let;  // drawn first, in this order
  Json model;                                     // a name, or a model file's object
  Json batch;                                     // per worker
  Json optimizer;
};

/// A cluster and how to train on it: `name` and what the scenario becomes. One with a count is there so often, with what
/// its `set` draws (as above, after its `let`): the same for the same space, whatever the seed of the workloads.
struct SpaceSetting {
  std::string name, group;  // "driple/01-v100-ps1-w2 synchronous", "driple/01-v100-ps1-w2"; "ring 17", "ring"
  std::string file;         // of the scenario, for error messages and paths
  Json scenario;
  JsonOrigins origins;  // what the space has set in it
};

struct Space {
  std::string name;
  std::string file_name;  // for error messages
  std::vector<WorkloadFamily> families;
  std::vector<SpaceSetting> settings;  // every cluster with every variant
  int settings_per_graph = 0;          // chosen at random, all equally often; by default all
  int least_operators = 1, most_operators = 100'000;
  std::int64_t iterations = 20;  // that the labels are taken over, per worker
  std::int64_t warmup_steps = 1;
  Seconds sampling_period{0.1};
  double validation_share = 0.2, test_share = 0.2;  // of the models
  std::string text;                                 // the whole, with its scenarios: what a dataset depends on
};

/// Throws InputError. Scenario files are read, and changed as the space says, but not resolved.
Space read_space(const Json& json, const std::string& file_name);
Space load_space(const std::filesystem::path& file);

/// Leaves the settings whose name or cluster is one of `names`. Throws InputError for a name that the space lacks.
void keep_settings(Space& space, const std::vector<std::string>& names);

/// A workload as drawn.
struct DrawnWorkload {
  std::size_t index = 0;  // in Space::families
  std::string family;
  Json model;  // a name, or an object
  int batch = 0;
  std::string optimizer;
};

/// Draw number `index` of the space's workloads: the same for the same seed, whatever was drawn before. Throws
/// InputError if what is drawn is no workload; whether the model can be built is not looked at.
DrawnWorkload draw_workload(const Space& space, std::uint64_t seed, std::uint64_t index);

/// JSON Schema (draft 2020-12) of a space file.
std::string space_schema();

}  // namespace rehearse
