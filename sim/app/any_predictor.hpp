#pragma once
// What `train` wrote, whatever it is: a network, or the corrected engine.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "predictor/corrected/corrected.hpp"
#include "predictor/gnn/predictor.hpp"
#include "sim/app/verb.hpp"

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

class AnyPredictor {
 public:
  /// Throws InputError that names the file.
  explicit AnyPredictor(const std::filesystem::path& folder);

  /// Of a network; null: it is the corrected engine.
  Predictor* network() { return network_.get(); }
  /// What it says of `samples`, of which `engine` is. All is NaN where a network cannot tell the setting from others
  /// (is_described()), and where the engine has no result.
  std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples,
                                        EngineOnDemand& engine);

 private:
  std::unique_ptr<Predictor> network_;
  std::optional<CorrectedEngine> corrected_;
};

}  // namespace rehearse
