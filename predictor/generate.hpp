#pragma once
// From a space to a dataset: draws graphs, simulates each in its settings, several at a time.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "predictor/dataset.hpp"
#include "predictor/space.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

struct GenerateRequest {
  std::uint64_t seed = 1;
  std::int64_t count = 0;  // samples
  Pool pool = 1;
  std::filesystem::path output;
  std::string program;               // what finished samples depend on besides the space
  std::function<bool()> is_stopped;  // asked several times a second
  std::function<void(std::int64_t done, std::int64_t total)> on_progress;
};

/// Draws that are no graph of the dataset.
struct Redrawn {
  std::int64_t duplicates = 0;        // same features and edges as an earlier one
  std::int64_t exceeding_memory = 0;  // of a GPU of a setting
  std::int64_t other_sizes = 0;       // operators outside of the space's range
  std::int64_t unbuildable = 0;       // the sizes do not fit together
  std::string last_reason;            // of the latter
};

struct Generated {
  bool is_complete = false;
  std::int64_t kept = 0;  // samples that an earlier call had finished
  std::int64_t graphs = 0;
  std::int64_t without_result = 0;  // samples that could not be simulated, which are left out
  std::string last_failure;         // why
  Redrawn redrawn;
  double median_operators = 0;
  std::vector<std::string> families;  // [graphs]
  std::vector<DatasetSetting> settings;
  std::vector<Sample> samples;  // in the order of the file
};

/// What a call would do, without simulating: the graphs, the settings, and the samples without labels.
Generated plan_dataset(const Space& space, const Catalog& catalog, const GenerateRequest& request);

/// Writes request.output: the same bytes for the same space, catalogs and seed, whatever the pool and however often
/// it was interrupted. What is finished is kept in the file `output`.part, at most a second behind, which the same call
/// takes up again, also with another count; when all is done the dataset takes its place. Graphs come in the order in
/// which they are drawn, so that a smaller count gives the beginning of a larger one.
///
/// A graph is simulated in Space::settings_per_graph settings (the last one in fewer if need be). All graphs of one
/// model, whatever their batch, are in the same split: models are dealt to the splits in the order in which they come,
/// each to the split that has the fewest compared with its share.
///
/// Throws InputError (space, catalogs, file), NoResultError if a thousand draws in a row give no new graph or another
/// process writes the output.
Generated generate_dataset(const Space& space, const Catalog& catalog, const GenerateRequest& request);

}  // namespace rehearse
