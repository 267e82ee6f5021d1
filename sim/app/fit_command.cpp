// rehearse fit SCENARIO RUNS...

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/job_log.hpp"
#include "calibration/own_fit.hpp"
#include "calibration/validation.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/fit_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/simulate_once.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/statistics.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

struct FitCommand : ScenarioCommand {
  std::vector<std::string> runs;  // as typed
  std::string model, instance;    // in place of a scenario
  std::vector<std::string> gpus;  // to be predicted, as typed
  std::string name = "own";
  std::int64_t skip_steps = JobLogOptions{}.skip_steps;
  int most_steps = 20;
};

void add_options(Options options, FitCommand& command) {
  options.add_option("SCENARIO", command.scenario, "Scenario file; not needed with --model").required();
  options.add_option(
      "RUNS", command.runs,
      "Tables with a row for each run: gpus; samples_per_s, steps_per_s, step_time_s or step_time_ms; "
      "batch_per_gpu or global_batch, unless it is the scenario's; columns named as a place of the scenario, "
      "such as /workload/precision. Or logs of trainings, 8=train.log on 8 GPUs: " +
          job_log_frameworks());
  options.add_option("--model", command.model, "MODEL",
                     "Model that was trained (rehearse list models), by all-reduce, in place of a scenario");
  options.add_option("--instance", command.instance, "NAME",
                     "With --model: the machines that it was trained on (rehearse list instances)");
  add_overrides(options, command.overrides);
  options
      .add_option("--gpus", command.gpus, "N[,N...]",
                  "Predict the scenario on so many GPUs with what was fitted (default: none)")
      .delimiter(',');
  options.add_option("--name", command.name, "NAME", "Of the profile (default: own)");
  options.add_count("--skip-steps", command.skip_steps, 0, 1'000'000'000,
                    "Steps at the beginning of logs that are left out (default: 10)");
  options.add_count("--steps", command.most_steps, 0, 1000, "Most steps of the fit (default: 20)");
  add_work_options(
      options, command.common, "Print summary.json instead of tables",
      "Write scenario.json, which has what was fitted in it, catalog/profiles/NAME.json for --catalog, runs.csv, "
      "summary.json and fit.html here (default: write nothing)");
}

/// The scenario on so many GPUs, by what was fitted.
struct Predicted {
  int gpus = 0;
  double samples_per_s = 0, step_time_s = 0, samples_per_step = 0;
  std::pair<double, double> interval;  // of samples_per_s, 90 %
  std::vector<std::string> warnings;
};

std::vector<int> sizes_of(const std::vector<std::string>& texts) {
  std::set<int> sizes;
  for (const std::string& text : texts) {
    int gpus = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gpus);
    if (error != std::errc{} || end != text.data() + text.size() || gpus < 1 || gpus > kMostGpus)
      throw InputError{"--gpus: expected 1 to 1000000 GPUs; found " + in_quotes(text)};
    sizes.insert(gpus);
  }
  return {sizes.begin(), sizes.end()};
}

/// What is fitted, and to what.
struct Question {
  Json scenario;
  std::string file;  // of the scenario
  std::vector<std::string> runs;
  bool has_batch = true;  // that the runs have unless they say otherwise
};

Question question_of(const FitCommand& command, const Catalog& catalog) {
  if (command.model.empty()) {
    if (!command.instance.empty()) throw InputError{"--instance: expected --model beside it"};
    if (command.runs.empty())
      throw InputError{"RUNS is required behind the scenario; or --model and --instance in place of a scenario"};
    return {.scenario = load_checked_scenario(command.scenario, command.overrides, catalog),
            .file = command.scenario.string(),
            .runs = command.runs};
  }
  Question question{.scenario = {}, .file = "--model " + command.model, .runs = {command.scenario.string()}};
  question.runs.insert(question.runs.end(), command.runs.begin(), command.runs.end());
  constexpr int kMachines = 2;  // of a cluster, which has links; runs and --gpus say how many there are
  question.scenario = scenario_of_machines(command.model, command.instance, kMachines, catalog);
  Json& batch = question.scenario["workload"]["batch_per_worker"];
  batch = nullptr;
  JsonOrigins origins;
  override_scenario(question.scenario, question.file, command.overrides, catalog, origins);
  question.has_batch = !question.scenario["workload"]["batch_per_worker"].is_null();
  if (!question.has_batch) question.scenario["workload"]["batch_per_worker"] = 1;
  return question;
}

/// The batch of the last run of the most GPUs, in a scenario that has none of its own.
void take_batch(const OwnRuns& runs, Json& scenario) {
  int most = 0;
  for (const OwnRun& run : runs.runs) {
    if (!run.batch && !run.batch_per_gpu)
      throw InputError{run.place +
                       ": expected a column batch_per_gpu or global_batch, or --set /workload/batch_per_worker=N"};
    if (run.gpus < most) continue;
    most = run.gpus;
    const double batch = run.batch_per_gpu ? *run.batch_per_gpu : *run.batch / run.gpus;
    scenario["workload"]["batch_per_worker"] = std::max(1, static_cast<int>(std::lround(batch)));
  }
}

std::vector<Predicted> predictions(const FitCommand& command, const std::vector<int>& sizes, const Question& question,
                                   const OwnFit& fit, const Catalog& catalog) {
  std::vector<Predicted> all;
  const Json& scenario = question.scenario;
  const std::string& file = question.file;
  for (const int gpus : sizes) {
    const Scenario own = read_scenario(own_scenario(scenario, file, gpus, fit, catalog), file, catalog);
    const double uncertainty = uncertainty_by_profile(own, command.common.is_quiet, command.common.budget);
    const Experiment experiment{1, [&](std::size_t) { return kSimulate.job(own); }};
    const std::vector<PooledRun> runs = experiment.run(pool_of(command.common), {}, command.common.budget);
    if (!runs.front().has_succeeded) throw NoResultError{runs.front().error_in(file)};
    const Json summary = runs.front().json();
    const double speed = summary.at("samples_per_s").get<double>();
    const auto [low, high] = own.profile.uncertainty.interval(uncertainty);
    all.push_back({.gpus = gpus,
                   .samples_per_s = speed,
                   .step_time_s = summary.at("iteration_time_s").get<double>(),
                   .samples_per_step = samples_per_update(own),
                   .interval = {speed * low, speed * high},
                   .warnings = own.warnings});
  }
  return all;
}

class FitResult {
 public:
  FitResult(const OwnRuns& runs, const OwnFit& fit, const std::vector<Predicted>& predicted)
      : runs_{runs}, fit_{fit}, predicted_{predicted} {}

  Json to_json() const {
    Json rows = Json::array(), values = Json::array(), sizes = Json::array();
    for (std::size_t i = 0; i < runs_.runs.size(); ++i)
      rows.push_back({{"gpus", runs_.runs[i].gpus},
                      {"samples_per_step", samples(i)},
                      {"measured", runs_.runs[i].value},
                      {"before", fit_.before[i]},
                      {"fitted", fitted(i)},
                      {"size_left_out", left_out(i) ? Json(*left_out(i)) : Json{}}});
    for (const OwnValue& value : fit_.values)
      values.push_back({{"what", value.what},
                        {"before", value.before},
                        {"fitted", value.fitted},
                        {"low_95", value.low},
                        {"high_95", value.high},
                        {"is_told", value.is_told}});
    for (const Predicted& one : predicted_)
      sizes.push_back({{"gpus", one.gpus},
                       {"samples_per_step", one.samples_per_step},
                       {"samples_per_s", one.samples_per_s},
                       {"samples_per_s_low", one.interval.first},
                       {"samples_per_s_high", one.interval.second},
                       {"iteration_time_s", one.step_time_s},
                       {"warnings", one.warnings}});
    return {{"format", 1},
            {"metric", runs_.metric},
            {"runs", std::move(rows)},
            {"values", std::move(values)},
            {"mean_error_before", error_before()},
            {"mean_error_fitted", error_fitted()},
            {"mean_error_size_left_out", has_left_out() ? Json(error_left_out()) : Json{}},
            {"predictions", std::move(sizes)}};
  }

  Answer answer() const {
    Answer answer{.json = to_json_text(to_json())};
    constexpr double kPoor = 0.15;
    Table runs{.header = {"GPUs", "samples in a step", "measured " + runs_.metric, "profile as it was", "fitted"},
               .rows = {}};
    if (has_left_out()) runs.header.emplace_back("this size left out");
    for (std::size_t i = 0; i < runs_.runs.size(); ++i) {
      const auto with_error = [&](double predicted) {
        return display(predicted) + " (" + signed_percent_text(predicted / runs_.runs[i].value - 1) + ")";
      };
      runs.rows.push_back({std::to_string(runs_.runs[i].gpus), display(samples(i)), display(runs_.runs[i].value),
                           with_error(fit_.before[i]), with_error(fitted(i))});
      if (has_left_out()) runs.rows.back().push_back(with_error(*left_out(i)));
    }
    answer.table(std::move(runs));
    answer.line();
    Table values{.header = {"value", "before", "fitted", "95 %", ""}, .rows = {}};
    for (const OwnValue& value : fit_.values)
      values.rows.push_back({value.what, value.before, value.fitted,
                             value.is_told ? value.low + " to " + value.high : "",
                             value.is_told ? "" : "the runs do not tell it: kept near what it was"});
    answer.table(std::move(values));
    answer.line("\nmean error " + share_text(error_before()) + " as the profile was, " + share_text(error_fitted()) +
                " fitted" +
                (has_left_out()
                     ? ", " + share_text(error_left_out()) + " of a size that the fit has not seen"
                     : "; with runs of three sizes it could say how far sizes are off that it has not seen"));
    if (error_fitted() > kPoor)
      answer.line("the scenario hardly describes these runs: check its model, batch, precision, GPUs and strategy");
    if (predicted_.empty()) return answer;
    Table sizes{.header = {"GPUs", "samples in a step", "samples/s", "90 %", "step"}, .rows = {}};
    for (const Predicted& one : predicted_)
      sizes.rows.push_back({std::to_string(one.gpus), display(one.samples_per_step), display(one.samples_per_s),
                            display(one.interval.first) + " to " + display(one.interval.second),
                            short_time_text(one.step_time_s)});
    answer.line();
    answer.table(std::move(sizes));
    return answer;
  }

  std::string csv() const {
    CsvWriter csv{{"gpus", "samples_per_step", "metric", "measured", "before", "fitted", "size_left_out"}};
    for (std::size_t i = 0; i < runs_.runs.size(); ++i)
      csv.row({runs_.runs[i].gpus, samples(i), runs_.metric, runs_.runs[i].value, fit_.before[i], fitted(i),
               left_out(i) ? CsvField{*left_out(i)} : CsvField{""}});
    return csv.text();
  }

 private:
  /// Mean of |predicted / measured - 1|.
  double mean_error(const std::function<double(std::size_t)>& predicted) const {
    double sum = 0;
    for (std::size_t i = 0; i < runs_.runs.size(); ++i) sum += std::abs(predicted(i) / runs_.runs[i].value - 1);
    return sum / static_cast<double>(runs_.runs.size());
  }
  double error_before() const {
    return mean_error([&](std::size_t i) { return fit_.before[i]; });
  }
  double error_fitted() const {
    return mean_error([&](std::size_t i) { return fitted(i); });
  }
  double error_left_out() const {
    return mean_error([&](std::size_t i) { return *left_out(i); });
  }
  double samples(std::size_t i) const { return fit_.study.rows[i].row.number("samples_per_step"); }
  double fitted(std::size_t i) const { return fit_.fit.validation.front()[i].simulated.value_or(NAN); }
  bool has_left_out() const { return !fit_.fit.cross_validated.empty(); }
  std::optional<double> left_out(std::size_t i) const {
    return has_left_out() ? fit_.fit.cross_validated.front().rows[i].simulated : std::nullopt;
  }

  const OwnRuns& runs_;
  const OwnFit& fit_;
  const std::vector<Predicted>& predicted_;
};

void write(const FitCommand& command, const Question& question, const Catalog& catalog, const OwnFit& fit,
           const FitResult& result) {
  OutputFolder folder{*command.common.output};
  folder.write("summary.json", to_json_text(result.to_json()));
  folder.write("runs.csv", result.csv());
  folder.write("catalog/profiles/" + command.name + ".json", fit.profile);
  folder.write("scenario.json",
               to_json_text(own_scenario(question.scenario, question.file, std::nullopt, fit, catalog)));
  folder.write("fit.html", fit_report({fit.study}, fit.fit, command.name));
  folder.commit();
  say_written(command.common, *command.common.output, folder.names());
}

/// Runs that are faster than their GPUs' peak are of something else. The scenario with a run's settings, `read`, is that of its own
/// number of GPUs.
void refuse_impossible(const Json& scenario, const std::string& file, const OwnRuns& runs, const Catalog& catalog) {
  const OwnRun* before = nullptr;
  std::optional<Scenario> with_settings;  // of the run before, whose settings mostly are the same
  double possible = 0;                    // samples/s of a GPU, with these
  for (const OwnRun& run : runs.runs) {
    if (before == nullptr || run.settings != before->settings) {
      Json changed = scenario;
      for (const auto& [pointer, value] : run.settings) set_json_pointer(changed, pointer, value);
      with_settings = read_scenario(changed, file, catalog);
      possible = 0;
    }
    before = &run;
    const Scenario& read = *with_settings;
    const double own = samples_per_update(read) / training_gpus(read) * run.gpus;
    const double samples = run.batch ? *run.batch : run.batch_per_gpu ? *run.batch_per_gpu * run.gpus : own;
    const double speed = runs.metric == "samples_per_s" ? run.value
                         : runs.metric == "steps_per_s" ? run.value * samples
                                                        : samples / run.value;
    if (speed <= possible * run.gpus) continue;
    if (const std::string what = impossible_speed(read, speed, run.gpus); !what.empty())
      throw InputError{run.place + ": " + what};
    possible = speed / run.gpus;
  }
}

Answer run(const FitCommand& command) {
  if (command.name.empty() || command.name.find('/') != std::string::npos || command.name == kAutomaticProfile)
    throw InputError{"--name: expected a name without /, other than \"auto\"; found " + in_quotes(command.name)};
  const std::vector<int> sizes = sizes_of(command.gpus);
  const Catalog catalog = load_catalog(command.common);
  Question question = question_of(command, catalog);
  const OwnRuns runs = read_own_runs(question.runs, command.skip_steps);
  if (!question.has_batch) take_batch(runs, question.scenario);
  print_warnings(runs.remarks, command.common.is_quiet);
  if (!command.model.empty() && !command.common.is_quiet) {
    std::vector<std::string> stated = command.overrides;
    for (const auto& [pointer, value] : runs.runs.front().settings) stated.push_back(pointer + "=");
    warn_of_assumptions(read_scenario(question.scenario, question.file, catalog), stated);
  }
  refuse_impossible(question.scenario, question.file, runs, catalog);
  const auto made = make_folder(command.common.output);
  std::optional<Progress> stage;
  const OwnFit fit =
      fit_own_runs(question.scenario, question.file, runs, catalog,
                   {.name = command.name,
                    .most_steps = command.most_steps,
                    .pool = pool_of(command.common),
                    .command = command.common.command_line,
                    .on_simulated =
                        [&](const std::string& name, std::size_t done, std::size_t total) {
                          if (done == 1) stage.emplace(name, command.common.is_quiet);
                          stage->update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
                        },
                    .budget = command.common.budget});
  stage.reset();
  const std::vector<Predicted> predicted = predictions(command, sizes, question, fit, catalog);
  std::set<std::string> said;
  for (const Predicted& one : predicted)
    for (const std::string& warning : one.warnings)
      if (said.insert(warning).second) print_warnings(std::array{warning}, command.common.is_quiet);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < runs.runs.size(); ++i)
    if (fit.before[i] > 0) ratios.push_back(runs.runs[i].value / fit.before[i]);
  if (const auto remark = remark_on_scale(runs.file + ": " + runs.metric, runs.metric, ratios))
    print_warnings(std::array{*remark}, command.common.is_quiet);
  const FitResult result{runs, fit, predicted};
  if (command.common.output) write(command, question, catalog, fit, result);
  return result.answer();
}

}  // namespace

CommandVerb fit_verb() {
  return make_verb<FitCommand>(
      "fit",
      "A profile from a few runs of your own: speeds by GPUs and batch in a table, or logs of trainings; says what the "
      "runs tell, what they do not, and how far sizes are off that they do not have\n\n"
      "Example: rehearse fit scenarios/dgx.json my-runs.csv --gpus 64 -o mine\n"
      "         rehearse fit my-runs.csv --model resnet50 --instance p3.16xlarge --gpus 64\n"
      "         rehearse fit scenarios/dgx.json 1=one-gpu.log 8=eight.log --gpus 16,32\n"
      "         rehearse simulate mine/scenario.json",
      add_options, run);
}

}  // namespace rehearse
