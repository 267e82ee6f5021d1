#pragma once
// What `train` wrote, whatever it is: a network, or the corrected engine.

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "predictor/corrected/corrected.hpp"
#include "predictor/metrics_predictor.hpp"
#include "predictor/torch_file.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/csv.hpp"

namespace rehearse {

/// What the engine says of some samples, simulated when it is first asked for, with progress.
class EngineOnDemand {
 public:
  /// What is simulated is kept in the file `finished`, from which an interrupted command goes on; empty: nowhere.
  EngineOnDemand(const Dataset& dataset, std::vector<std::size_t> samples, const CommonOptions& common,
                 std::filesystem::path finished = {})
      : dataset_{dataset}, samples_{std::move(samples)}, common_{common}, finished_{std::move(finished)} {}
  const EngineLabels& get();

 private:
  const Dataset& dataset_;
  std::vector<std::size_t> samples_;
  const CommonOptions& common_;
  std::filesystem::path finished_;
  std::optional<EngineLabels> found_;
};

/// The network of the `state` that a file has: in rehearse our own, of another one the process becomes rehearse-predictor,
/// which has them all. Each program has its own definition. Throws InputError, "where: ...".
std::unique_ptr<MetricsPredictor> load_network(const TorchValue& state, const std::string& where);

class AnyPredictor {
 public:
  /// Throws InputError that names the file.
  explicit AnyPredictor(const std::filesystem::path& folder);

  /// Of a network; null: it is the corrected engine.
  MetricsPredictor* network() { return network_.get(); }
  /// What it says of `samples`, of which `engine` is. All is NaN where nothing says what a network has to know
  /// (MetricsPredictor::needs_step()), and where the engine has no result.
  std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples,
                                        EngineOnDemand& engine);

 private:
  std::unique_ptr<MetricsPredictor> network_;
  std::optional<CorrectedEngine> corrected_;
};

/// Throws InputError if a network has no units for its labels (MetricsPredictor::has_units()): nothing to compare labels with.
void require_units(AnyPredictor& predictor, const std::filesystem::path& folder);

/// Adds what is to be said of the settings of predictions (PredictedMetrics::caution), each once, with how many it is of.
void add_cautions(const std::string& predictor, std::span<const PredictedMetrics> predictions,
                  std::vector<std::string>& warnings);

/// The field of a table for a number that may not be known.
inline CsvField or_empty(double value) { return std::isnan(value) ? CsvField{""} : CsvField{value}; }

}  // namespace rehearse
