// `rehearse calibrate` on a study of kind "training_logs": from logs of training jobs to the coefficients of their
// workload.

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "calibration/training_fit.hpp"
#include "sim/app/calibrate_command.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

void print(std::FILE* out, const TrainingCoefficients& fit) {
  std::fprintf(out, "%zu entries of logs\n", fit.entries);
  std::fprintf(out, "%-34s %.4g MB\n", "parameters", as_double(fit.parameters) / 1e6);
  std::fprintf(out, "%-34s %.4g MB/s\n", "required bandwidth", fit.required_bandwidth.value / 1e6);
  for (const MachineStep& machine : fit.machines)
    std::fprintf(out, "%-34s %.4g s   95 %%: %.4g to %.4g; without exchange %.4g s\n",
                 ("step of " + machine.instance + ", batch " + std::to_string(machine.batch)).c_str(),
                 machine.step.value, machine.step.interval->first, machine.step.interval->second,
                 machine.compute.value);
  const auto print_value = [out](const std::string& name, double value, const Limits* interval) {
    std::fprintf(out, "%-34s %.4g", name.c_str(), value);
    if (interval != nullptr) std::fprintf(out, "   95 %%: %.4g to %.4g", interval->first, interval->second);
    std::fprintf(out, "\n");
  };
  if (fit.contention_slope) {
    const auto interval = [](const Estimate& estimate) { return estimate.interval ? &*estimate.interval : nullptr; };
    print_value("contention slope", fit.contention_slope->value, interval(*fit.contention_slope));
    print_value("contention intercept", fit.contention_intercept->value, interval(*fit.contention_intercept));
  }
  if (const auto& model = fit.convergence) {
    const auto find = [&fit](const char* key) -> const Limits* {
      for (const auto& [name, interval] : fit.convergence_intervals)
        if (name == key) return &interval;
      return nullptr;
    };
    if (model->offset) print_value("convergence offset", *model->offset, find("offset"));
    if (model->initial_loss) print_value("convergence initial_loss", *model->initial_loss, find("initial_loss"));
    print_value("convergence batch_slope", model->batch_slope, find("batch_slope"));
    print_value("convergence batch_intercept", model->batch_intercept, find("batch_intercept"));
    if (model->spread_offset) print_value("convergence spread_offset", *model->spread_offset, find("spread_offset"));
    print_value("convergence floor", model->floor, find("floor"));
    std::fprintf(out, "%-34s mean error %.2f %%, for %.4g to %.4g samples per update and %d to %d workers\n", "loss",
                 100 * *fit.loss_error, model->weighted_batch.first, model->weighted_batch.second, model->workers.first,
                 model->workers.second);
  }
  for (const LoggedCluster& cluster : fit.clusters)
    std::fprintf(out, "%-34s %.4g samples/s, by these values %.4g (%+.1f %%)\n", ("cluster " + cluster.name).c_str(),
                 cluster.samples_per_s, cluster.predicted_samples_per_s,
                 100 * (cluster.predicted_samples_per_s / cluster.samples_per_s - 1));
}

}  // namespace

int calibrate_training_logs(const CalibrateCommand& command) {
  if (command.studies.size() > 1)
    throw InputError{"calibrate: a study of training logs goes alone; found " + std::to_string(command.studies.size()) +
                     " studies"};
  if (command.report || command.bootstrap)
    throw InputError{std::string{"calibrate: "} + (command.report ? "--report" : "--bootstrap") +
                     " does not go with a study of training logs"};
  const TrainingStudy study = load_training_study(command.studies.front());
  const auto made = make_folder_of(command.common.output);
  const TrainingCoefficients fit = fit_training_logs(study);
  const std::string text = to_json_text(to_json(fit, study, command.common.command_line));
  if (command.common.output) {
    write_file(*command.common.output, text);
    say_written(command.common, *command.common.output);
  }
  print(print_fitted(command.common, text), fit);
  print_warnings(fit.warnings);
  return kSuccess;
}

}  // namespace rehearse
