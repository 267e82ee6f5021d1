#pragma once
// Rows of studies as measured samples: the speeds that others published are labels where a label follows from them.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/study.hpp"
#include "predictor/dataset.hpp"
#include "sim/base/budget.hpp"

namespace rehearse {

/// Training samples of one step of every worker, of all batches that it adds up; without those that backup workers drop.
double samples_per_step(const Scenario& scenario);

/// Mean time between two steps of one worker that a measured value stands for; W workers with b samples each, of all
/// batches that a step adds up:
///   iteration_time_s                 the value
///   steps_per_s                      W / value, synchronous 1 / value
///   samples_per_s                    samples_per_step() / value
///   training_time_s                  value samples_per_step() / n, if the training ends after n samples
/// None for other metrics, a training that ends at a loss, and machines of several kinds whose workers do not wait for
/// one another: each has a step time of its own.
std::optional<Seconds> measured_step_time(const Scenario& scenario, const std::string& metric, double measured);

/// Bytes that cross the NICs of the chief's machine in one step.
struct StepTraffic {
  double received = 0, sent = 0;
};

/// The traffic of a step where the strategy alone says it, for several machines:
///   servers      w senders on each machine (its workers; one, where its gradients are added up first) are sent every
///                variable and send every gradient. What a server of the chief's machine holds goes between it and the
///                senders of the others instead.
///   ring         2 (p - 1) / p of the gradients for p workers
/// None for a cluster of one machine, other strategies, and, with servers, for sparse tables (what is sent depends on
/// the samples) and steps of which some workers' gradients are dropped.
std::optional<StepTraffic> step_traffic(const Scenario& scenario);

struct MeasuredStudies {
  Dataset dataset;
  struct Count {
    std::string study;
    std::string reason;  // why rows became no samples; empty: they did
    std::size_t rows = 0;
  };
  std::vector<Count> counts;
};

/// A sample for each row whose scenario can be described: `origin: measured`, step_time_s, the mean rates where
/// step_traffic() knows them, NaN otherwise; only the former is_observed(). Rows of one workload share a graph, rows of
/// one cluster a setting; a model of a study is in one split (deal_splits()). A row that an earlier study has, too, is no
/// second sample: the same line of a table, or one of another table of its folder with the same model, samples of a step,
/// workers and time of a step in four digits. The dataset's provenance lists file and line of each sample. Throws InputError if no row becomes a sample, or the catalog lacks what a scenario names. `on_row(done,
/// total)` is called after each row; once `budget` is over, its stop() ends the call. `catalog_of` gives the catalog of a
/// study's rows.
MeasuredStudies read_measured_studies(const std::vector<Study>& studies,
                                      const std::function<const Catalog&(const Study&)>& catalog_of,
                                      const std::function<void(std::size_t, std::size_t)>& on_row = {},
                                      const Budget& budget = {});
/// The same with one catalog.
MeasuredStudies read_measured_studies(const std::vector<Study>& studies, const Catalog& catalog);

}  // namespace rehearse
