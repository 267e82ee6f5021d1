#pragma once
// What the simulator says of the samples of a dataset: the yardstick of whatever is measured.

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "predictor/dataset.hpp"
#include "predictor/job_traits.hpp"
#include "sim/base/json.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

/// The part of a scenario's effective workload that no graph's provenance holds, as it belongs to the setting.
Json rest_of_workload(const Json& workload);

/// Samples per worker of a group that states `group_batch` where the setting has `own_batch`, in a workload drawn with
/// `batch`:  max(1, round(batch group_batch / own_batch)).
int batch_of_group(int group_batch, int own_batch, int batch);

/// The setting's scenario with a graph's workload, whose batch is that of one GPU. If the setting has a batch of its own,
/// groups that state one keep their ratio to it.
Json with_workload(Json setting, const Json& workload, int gpus_per_worker);

/// What a graph's provenance says of its workload: `model` of a scenario, and the batch of one GPU.
Json graph_provenance(const Scenario& scenario, const Json& model);

/// The scenario that a sample's provenance describes; none if its graph came without a model, as a GraphDef.
std::optional<Json> scenario_of(const Dataset& dataset, const Sample& sample);

/// What is left free when a job of a model on a number of GPUs is chosen, the most first.
inline constexpr std::array<const char*, 3> kFreeToChoose = {"all but the number of GPUs", "batch and placement",
                                                             "placement"};
/// By what is free, what is given: model and number of GPUs; precision, framework and kinds of GPUs; samples of a step.
using Questions = std::array<std::string, kFreeToChoose.size()>;
Questions questions_of(const Scenario& scenario);

struct EngineLabels {
  std::vector<std::vector<double>> labels;  // [samples][labels], NaN without result
  std::vector<JobTraits> traits;            // [samples] the study is the group of the setting
  std::vector<double> samples_per_step;     // [samples] of all workers; 0 without scenario
  std::vector<Questions> questions;         // [samples] empty without scenario
  std::size_t without_scenario = 0, without_result = 0;
  std::string last_failure;  // why one of the latter has none
};

/// simulate_labels() of each of `samples`, once for each graph and setting, as the scenario was when the sample was
/// made. The dataset's labels are label_names(). `on_progress` is told how many are done and may throw. What `finished`
/// has of the same scenario and program is not simulated again, and what is simulated is put there; null: nowhere.
EngineLabels engine_labels(const Dataset& dataset, std::span<const std::size_t> samples, const Catalog& catalog,
                           const std::function<void(std::size_t done, std::size_t total)>& on_progress,
                           ResultStore* finished = nullptr, const std::string& program = {});

}  // namespace rehearse
