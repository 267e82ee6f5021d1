// rehearse microbench: kernels of this machine, as an accelerator's entry, tables and a study that calibrate takes.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibration/kernel_study.hpp"
#include "calibration/microbench/network_comparison.hpp"
#include "calibration/microbench/study_files.hpp"
#include "sim/app/program.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

using microbench::Case;
using microbench::Device;
using microbench::Effort;
using microbench::MeasuredTables;

constexpr double kSecondsBetweenSaves = 5;
constexpr double kStepsPerKernel = 75;  // time for a network's steps by that for a kernel
constexpr int kRounds = 3;              // of them, each between others: a busy minute spoils one
constexpr int kPausedSteps = 8;
constexpr double kPause = 0.1, kPeriod = 0.01;  // s; of their series

struct MicrobenchCommand {
  CommonOptions common;
  std::string device = "gpu";
  std::string effort = "40ms";
  bool is_quick = false, compares_networks = false;
};

void add_options(Options options, MicrobenchCommand& command) {
  options.add_option("--device", command.device, "WORD", "gpu: the first GPU; cpu: one thread of this processor")
      .check(is_one_of({"gpu", "cpu"}))
      .shows_default();
  options.add_flag("--quick", command.is_quick, "About a quarter of the kernels");
  options.add_option("--time-per-kernel", command.effort, "TIME", "At least so long, besides warming up")
      .shows_default();
  options.add_flag("--networks", command.compares_networks,
                   "Then fit a profile, predict the training steps of six networks whose kernels were not measured, "
                   "measure them, and print both; then measure them with a pause after each step, as jobs for "
                   "rehearse import: paused/measurements.json (cpu alone)");
  add_json(options, command.common);
  add_output(options, command.common,
             "Folder of the results, a catalog for --catalog: accelerators.json, study/, profiles/. What an earlier "
             "run measured there is not measured again")
      .required();
  add_wall_time(options, command.common);
}

struct Model {
  microbench::Network network;
  Json json;
};

std::vector<Model> load_models() {
  std::vector<Model> models;
  for (const microbench::Network& network : microbench::kNetworks)
    models.push_back({network, load_json_file(shipped_files() / "calibration" / "microbench" / "networks" /
                                              (std::string{network.name} + ".json"))});
  return models;
}

/// Without kernels of the networks whose steps are predicted.
std::vector<Case> cases_of(const MicrobenchCommand& command, const Device& device, const std::vector<Model>& models) {
  std::vector<kernels::Kernel> predicted;
  for (const Model& model : models) {
    const auto of_step = microbench::kernels_of_step(model.json, model.network.name, model.network.batch);
    predicted.insert(predicted.end(), of_step.begin(), of_step.end());
  }
  return microbench::without(device.cases(command.is_quick ? microbench::Extent::kQuick : microbench::Extent::kDefault),
                             predicted);
}

/// Measures what the tables do not have, and saves them every few seconds, and at the end, also an early one.
void measure(const MicrobenchCommand& command, Device& device, const std::string& name, const std::vector<Case>& cases,
             const Effort& effort, MeasuredTables& tables) {
  Progress progress{"kernels", command.common.is_quiet};
  const auto is_over = command.common.budget.asked();
  double saved = 0;
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (is_over()) break;
    progress.update(static_cast<std::int64_t>(i), static_cast<std::int64_t>(cases.size()), to_text(cases[i]));
    if (tables.has(cases[i], name)) continue;
    const auto sample = device.measure(cases[i], effort, is_over);
    if (sample)
      tables.add(cases[i], name, *sample);
    else
      ++unknown;
    if (progress.elapsed().count() > saved + kSecondsBetweenSaves) {
      tables.save();
      saved = progress.elapsed().count();
    }
  }
  progress.clear();
  tables.save();
  if (is_over())
    end_early(command.common.budget,
              std::to_string(tables.rows()) + " measured kernels, which another run goes on from");
  if (unknown > 0 && !command.common.is_quiet)
    say(std::to_string(unknown) + " kernels left out: no library of this machine has them");
}

/// Fits the study to a profile, which keeps the dispatch that was measured.
void fit(const MicrobenchCommand& command, const fs::path& folder, const CommonOptions& with_folder) {
  const KernelStudy study = load_kernel_study(folder / "study" / "kernels.json", load_catalog(with_folder));
  const fs::path file = folder / "profiles" / (std::string{microbench::kProfileName} + ".json");
  Json profile = load_json_file(file);
  const Json fitted = kernel_profile(study, command.common.command_line, command.common.budget);
  profile["kernels"] = fitted.at("kernels");
  profile["source"] = fitted.at("source");
  write_file(file, to_json_text(profile));
}

struct Compared {
  std::string name;
  int batch = 0;
  double predicted = 0, measured = 0, least = 0;  // s; a step, and the shortest
  double predicted_kept = 0, measured_kept = 0;   // bytes, for the backward pass
};

std::vector<Compared> compare(const MicrobenchCommand& command, const std::vector<Model>& models, const Effort& effort,
                              const CommonOptions& with_folder) {
  const Catalog catalog = load_catalog(with_folder);
  std::vector<Compared> all;
  for (const Model& model : models) {
    const Json scenario = microbench::step_scenario(model.network.name, model.network.batch);
    const auto step = microbench::predicted_step(scenario, model.network.name, catalog);
    write_file(*command.common.output / "steps" / (std::string{model.network.name} + ".csv"), step.kernels);
    all.push_back({.name = model.network.name,
                   .batch = model.network.batch,
                   .predicted = step.time,
                   .predicted_kept = step.kept,
                   .measured_kept = static_cast<double>(microbench::kept_bytes(model.network))});
  }
  Progress progress{"steps of networks", command.common.is_quiet};
  const auto is_over = command.common.budget.asked();
  std::vector<std::vector<double>> times(models.size()), least(models.size());
  for (std::size_t i = 0; i < kRounds * models.size(); ++i) {
    progress.update(static_cast<std::int64_t>(i), static_cast<std::int64_t>(kRounds * models.size()));
    const std::size_t of = i % models.size();
    const auto sample = microbench::measure_step(
        models[of].network, {.seconds = effort.seconds * kStepsPerKernel / kRounds, .fewest_samples = 5}, is_over);
    if (!sample) end_early(command.common.budget, "what was measured of kernels");
    times[of].push_back(sample->time);
    least[of].push_back(sample->least);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].measured = median(times[i]);
    all[i].least = std::ranges::min(least[i]);
  }
  return all;
}

/// Steps with pauses: bursts of a processor that are known, as jobs for `import`.
void record_paused_steps(const MicrobenchCommand& command, const std::vector<Model>& models, const fs::path& folder) {
  Progress progress{"steps with pauses", command.common.is_quiet};
  const auto is_over = command.common.budget.asked();
  const fs::path profile = folder / "profiles" / (std::string{microbench::kProfileName} + ".json"),
                 paused = folder / "profiles" / (std::string{microbench::kPausedProfileName} + ".json");
  std::vector<std::pair<fs::path, std::string>> files{
      {paused, to_json_text(microbench::paused_profile(load_json_file(profile), kPause))}};
  Json jobs = Json::array();
  for (std::size_t i = 0; i < models.size(); ++i) {
    progress.update(static_cast<std::int64_t>(i), static_cast<std::int64_t>(models.size()));
    const std::string name = models[i].network.name;
    const auto steps = microbench::paused_steps(models[i].network, kPausedSteps, kPause, is_over);
    if (steps.empty()) end_early(command.common.budget, "what was measured of kernels and networks");
    files.emplace_back(folder / "paused" / (name + ".csv"), microbench::paused_series(steps, kPause, kPeriod));
    jobs.push_back(microbench::paused_measurement(name, microbench::paused_step_time(steps, kPause)));
  }
  files.emplace_back(folder / "paused" / "measurements.json",
                     to_json_text({{"format", 1},
                                   {"source",
                                    "rehearse microbench: training steps on one thread of this processor, "
                                    "with a pause of 100 ms after each"},
                                   {"profiles", std::move(jobs)}}));
  progress.clear();
  write_files(files);
  say_written(command.common, folder / "paused" / "measurements.json");
}

void report(const CommonOptions& common, const fs::path& folder, const std::vector<Compared>& all) {
  CsvWriter csv{{"network", "batch", "predicted_s", "measured_s", "measured_least_s", "error_pct", "predicted_kept_B",
                 "measured_kept_B", "kept_error_pct"}};
  std::vector<double> predicted, measured;
  Json steps = Json::array();
  for (const Compared& each : all) {
    const double error = 100 * (each.predicted / each.measured - 1);
    const double kept_error = 100 * (each.predicted_kept / each.measured_kept - 1);
    csv.row({each.name, each.batch, each.predicted, each.measured, each.least, error, each.predicted_kept,
             each.measured_kept, kept_error});
    predicted.push_back(each.predicted);
    measured.push_back(each.measured);
    steps.push_back({{"network", each.name},
                     {"batch", each.batch},
                     {"predicted_s", each.predicted},
                     {"measured_s", each.measured},
                     {"error_pct", error},
                     {"predicted_kept_B", each.predicted_kept},
                     {"measured_kept_B", each.measured_kept},
                     {"kept_error_pct", kept_error}});
  }
  const double median_error = microbench::median_error(predicted, measured);
  Answer answer{.json = to_json_text({{"median_ape", median_error}, {"steps", steps}})};
  const auto row = [&](std::vector<std::string> cells) {
    answer.row("%-14s %6s %14s %14s %10s %12s %14s", std::move(cells));
  };
  row({"step of", "batch", "predicted, ms", "measured, ms", "error, %", "kept, MB", "error of it, %"});
  for (std::size_t i = 0; i < all.size(); ++i)
    row({all[i].name, std::to_string(all[i].batch), formatted("%.2f", 1e3 * predicted[i]),
         formatted("%.2f", 1e3 * measured[i]), formatted("%+.1f", steps[i]["error_pct"].get<double>()),
         formatted("%.2f", all[i].measured_kept / 1e6), formatted("%+.2f", steps[i]["kept_error_pct"].get<double>())});
  answer.line(formatted("median of the absolute errors: %.1f %%", median_error));
  (void)print(answer, common.prints_json);  // before steps are measured, for minutes
  write_file(folder / "networks.csv", csv.text());
  say_written(common, folder / "networks.csv");
}

void make_folders(const fs::path& folder) {
  for (const char* part : {"study", "profiles", "models", "scenarios", "steps", "paused"}) {
    std::error_code error;
    fs::create_directories(folder / part, error);
    if (error) throw InputError{(folder / part).string() + ": cannot be made: " + error.message()};
  }
}

/// The device as it was described before, so that all rows are of one, or as it is now.
Accelerator described(Device& device, const fs::path& folder, const Effort& effort) {
  if (const auto before = microbench::read_catalog_entry(folder / "accelerators.json")) return *before;
  Accelerator accelerator = device.describe(effort);
  write_file(folder / "accelerators.json", to_json_text(microbench::catalog_entry(accelerator)));
  return accelerator;
}

Answer run(const MicrobenchCommand& command) {
  const bool is_processor = command.device == "cpu";
  if (command.compares_networks && !is_processor)
    throw InputError{"--networks: needs --device cpu: there is no LibTorch for GPUs in this program"};
  const Effort effort{.seconds = read_seconds("--time-per-kernel", command.effort)->value()};
  const std::unique_ptr<Device> device =
      is_processor ? microbench::make_processor_device() : microbench::make_gpu_device(0);
  const fs::path folder = *command.common.output;
  const auto made = make_folder(command.common.output);
  make_folders(folder);
  const std::vector<Model> models = load_models();
  const Accelerator accelerator = described(*device, folder, effort);
  MeasuredTables tables{folder / "study"};
  measure(command, *device, accelerator.name, cases_of(command, *device, models), effort, tables);
  std::vector<std::pair<fs::path, std::string>> files{
      {folder / "study" / "kernels.json", to_json_text(microbench::kernel_study(tables, accelerator.name))},
      {folder / "profiles" / (std::string{microbench::kProfileName} + ".json"),
       to_json_text(microbench::profile_start(device->dispatch(effort)))}};
  if (const auto figures = device->system_figures(effort); !figures.empty())
    files.emplace_back(folder / "study" / "system.csv", microbench::system_table(figures));
  for (const Model& model : models) {
    const std::string name = model.network.name;
    files.emplace_back(folder / "models" / (name + ".json"), to_json_text(model.json));
    files.emplace_back(folder / "scenarios" / (name + ".json"),
                       to_json_text(microbench::step_scenario(name, model.network.batch)));
  }
  write_files(files);
  CommonOptions with_folder = command.common;
  with_folder.catalogs = {folder};
  fit(command, folder, with_folder);
  say_written(command.common, folder);
  if (command.compares_networks) {
    report(command.common, folder, compare(command, models, effort, with_folder));
    record_paused_steps(command, models, folder);
    return {};
  }
  return {.json = to_json_text({{"accelerator", accelerator.name}, {"folder", folder.string()}})};
}

}  // namespace

CommandVerb microbench_verb() {
  return make_verb<MicrobenchCommand>(
      "microbench",
      "Measure this machine's kernels: an accelerator for the catalog, tables, a study, and a profile fitted to "
      "them\n\nExample: rehearse microbench -o my-gpu\nrehearse microbench --device cpu --networks -o my-cpu",
      add_options, run);
}

}  // namespace rehearse
