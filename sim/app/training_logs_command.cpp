// `rehearse calibrate` on a study of kind "training_logs": from logs of training jobs to the coefficients of their
// workload.

#include <cmath>
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

Answer answer_of(const TrainingCoefficients& fit) {
  Answer answer;
  const auto named = [&](const std::string& name, const std::string& text) { answer.row("%-34s %s", {name, text}); };
  answer.line(std::to_string(fit.entries) + " entries of logs");
  named("parameters", formatted("%.4g MB", as_double(fit.parameters) / 1e6));
  named("required bandwidth", formatted("%.4g MB/s", fit.required_bandwidth.value / 1e6));
  for (const MachineStep& machine : fit.machines)
    named("step of " + machine.instance + ", batch " + std::to_string(machine.batch),
          formatted("%.4g s   95 %%: %.4g to %.4g; without exchange %.4g s", machine.step.value,
                    machine.step.interval->first, machine.step.interval->second, machine.compute.value));
  const auto add = [&](const std::string& name, double value, const Limits* interval) {
    named(name, formatted("%.4g", value) +
                    (interval ? formatted("   95 %%: %.4g to %.4g", interval->first, interval->second) : ""));
  };
  if (fit.contention_slope) {
    const auto interval = [](const Estimate& estimate) { return estimate.interval ? &*estimate.interval : nullptr; };
    add("contention slope", fit.contention_slope->value, interval(*fit.contention_slope));
    add("contention intercept", fit.contention_intercept->value, interval(*fit.contention_intercept));
  }
  if (const auto& model = fit.convergence) {
    const auto find = [&fit](const char* key) -> const Limits* {
      for (const auto& [name, interval] : fit.convergence_intervals)
        if (name == key) return &interval;
      return nullptr;
    };
    if (model->offset) add("convergence offset", *model->offset, find("offset"));
    if (model->initial_loss) add("convergence initial_loss", *model->initial_loss, find("initial_loss"));
    add("convergence batch_slope", model->batch_slope, find("batch_slope"));
    add("convergence batch_intercept", model->batch_intercept, find("batch_intercept"));
    if (model->spread_offset) add("convergence spread_offset", *model->spread_offset, find("spread_offset"));
    add("convergence floor", model->floor, find("floor"));
    named("loss", formatted("mean error %.2f %%, for %.4g to %.4g samples per update and %d to %d workers",
                            100 * *fit.loss_error, model->weighted_batch.first, model->weighted_batch.second,
                            model->workers.first, model->workers.second));
  }
  for (const LoggedCluster& cluster : fit.clusters)
    named("cluster " + cluster.name, formatted("%.4g samples/s, by these values %.4g (%+.1f %%)", cluster.samples_per_s,
                                               cluster.predicted_samples_per_s,
                                               100 * (cluster.predicted_samples_per_s / cluster.samples_per_s - 1)));
  return answer;
}

}  // namespace

Answer calibrate_training_logs(const CalibrateCommand& command) {
  if (command.studies.size() > 1)
    throw InputError{"calibrate: a study of training logs goes alone; found " + std::to_string(command.studies.size()) +
                     " studies"};
  if (command.report || command.bootstrap)
    throw InputError{std::string{"calibrate: "} + (command.report ? "--report" : "--bootstrap") +
                     " does not go with a study of training logs"};
  const TrainingStudy study = load_training_study(command.studies.front());
  const auto made = make_folder_of(command.common.output);
  const TrainingCoefficients fit = fit_training_logs(study);
  Answer answer = answer_of(fit);
  answer.json = to_json_text(to_json(fit, study, command.common.command_line));
  if (command.common.output) {
    write_file(*command.common.output, answer.json);
    add_written(answer, command.common, *command.common.output);
  }
  answer = of_fit(command.common, std::move(answer));
  for (const std::string& warning : fit.warnings) add_warning(answer, warning);
  return answer;
}

}  // namespace rehearse
