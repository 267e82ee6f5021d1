#include "sim/plan/measured_sizes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "calibration/job_log.hpp"
#include "calibration/parameter_uncertainty.hpp"
#include "calibration/study.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

MeasuredSize checked(const MeasuredSize& size, const std::string& place) {
  if (size.gpus < 1 || size.gpus > kMostGpus)
    throw InputError{place + ": expected 1 to 1000000 GPUs; found " + std::to_string(size.gpus)};
  if (!(size.samples_per_s >= 1e-12 && size.samples_per_s <= 1e12))
    throw InputError{place + ": expected 1e-12 to 1e12 samples per second; found " + to_text(size.samples_per_s)};
  return size;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// The scenario with a step of one GPU that takes `time`, whatever else the profile knows.
Json with_step(Json effective, const Scenario& scenario, const Group& group, Seconds time) {
  Json step{{"model", scenario.model.name},
            {"accelerator", group.accelerator->name},
            {"precision", to_text(scenario.precision)}};
  if (!scenario.framework.empty()) step["framework"] = scenario.framework;
  step["batch"] = group.batch / group.gpus_per_worker;
  step["time"] = to_text(time);
  effective["calibration"]["step_times"] = Json::array({std::move(step)});
  return effective;
}

struct SimulatedSizes {
  std::vector<std::optional<double>> samples_per_s;
  std::vector<std::string> errors;
};

/// Simulates scenarios, with progress through all rounds.
class Simulations {
 public:
  Simulations(const std::string& file_name, const Catalog& catalog, const Pool& pool,
              const std::function<void(std::size_t, std::size_t)>& on_done, const std::function<bool()>& is_stopped,
              std::size_t total)
      : file_name_{file_name},
        catalog_{catalog},
        pool_{pool},
        on_done_{on_done},
        is_stopped_{is_stopped},
        total_{total} {}

  /// None if it was stopped.
  std::optional<SimulatedSizes> run(const std::vector<Json>& scenarios) {
    SimulatedSizes speeds{std::vector<std::optional<double>>(scenarios.size()),
                          std::vector<std::string>(scenarios.size())};
    std::vector<PoolJob> jobs;
    std::vector<std::size_t> place;
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      if (scenarios[i].is_null()) continue;
      try {
        jobs.push_back(brief_job(kSimulate, read_scenario(scenarios[i], file_name_, catalog_)));
        place.push_back(i);
      } catch (const InputError& error) { speeds.errors[i] = error.what(); } catch (const NoResultError& error) {
        speeds.errors[i] = error.what();
      }
    }
    const Experiment experiment{jobs.size(), [&](std::size_t i) { return jobs[i]; }};
    const auto runs = experiment.run({.pool = pool_,
                                      .on_done =
                                          [&](std::size_t, std::size_t) {
                                            ++done_;
                                            if (on_done_) on_done_(done_, std::max(total_, done_));
                                          },
                                      .limits = {.is_stopped = is_stopped_, .job_wall_s = {}}});
    if (!runs) return std::nullopt;
    for (std::size_t i = 0; i < runs->size(); ++i)
      if ((*runs)[i].has_succeeded)
        speeds.samples_per_s[place[i]] = (*runs)[i].json()["samples_per_s"].get<double>();
      else
        speeds.errors[place[i]] = (*runs)[i].text;
    return speeds;
  }

 private:
  const std::string& file_name_;
  const Catalog& catalog_;
  const Pool& pool_;
  const std::function<void(std::size_t, std::size_t)>& on_done_;
  const std::function<bool()>& is_stopped_;
  std::size_t done_ = 0, total_;
};

std::string gpus_text(int gpus) { return gpus == 1 ? "one GPU" : std::to_string(gpus) + " GPUs"; }

std::string compute_verdict_of(const SizesDiagnosis& diagnosis) {
  if (!diagnosis.compute) {
    const SizeRow& smallest = diagnosis.rows.front();
    if (smallest.measured.gpus == 1) return "computation: not known, as one GPU was not simulated: " + smallest.error;
    std::string text = "computation: not known, as no speed of one GPU was measured";
    return diagnosis.can_run_on_one_gpu ? text + " (--measured 1=SAMPLES_PER_S)" : text;
  }
  const double ratio = *diagnosis.compute;
  if (std::abs(ratio - 1) <= kFlaggedShortfall) return "computation: one GPU is as fast as simulated";
  std::string text = "computation: one GPU is " + against_simulated(ratio);
  const auto& interval = diagnosis.compute_interval;
  if (interval && ratio >= interval->first && ratio <= interval->second)
    return text + ", which the simulation's interval of 90 % allows";
  if (interval && ratio > kImplausiblyFaster * interval->second)
    return text + ", which is implausible: measurement and scenario are hardly of the same model, batch and precision";
  return text + (ratio < 1 ? ": look at one GPU first (software, clock, input)" : ": the profile is too pessimistic");
}

std::string scaling_verdict_of(const SizesDiagnosis& diagnosis) {
  const std::vector<SizeRow>& rows = diagnosis.rows;
  if (rows.size() < 2) return "scaling: not known, as one size was measured";
  const SizeRow& largest = rows.back();
  const int smallest = diagnosis.reference().measured.gpus;
  if (smallest == largest.measured.gpus)
    return "scaling: not known, as " + gpus_text(smallest) + " alone of the measured sizes were simulated";
  std::array<char, 32> times{};
  std::snprintf(times.data(), times.size(), "%.4g", static_cast<double>(largest.measured.gpus) / smallest);
  const std::string of = gpus_text(largest.measured.gpus) + " reach " + percent_text(largest.measured_efficiency) +
                         " of " + times.data() + " times the speed of " + gpus_text(smallest);
  if (!largest.simulated_efficiency) return "scaling: " + of + "; it was not simulated: " + largest.error;
  const std::string both = of + ", simulated " + percent_text(*largest.simulated_efficiency);
  const double ratio = largest.measured_efficiency / *largest.simulated_efficiency;
  if (std::abs(ratio - 1) <= kFlaggedShortfall) return "scaling: as simulated: " + both;
  // A GPU is not faster for being one of many.
  if (largest.measured_efficiency > (1 + kFlaggedShortfall) * std::max(1.0, *largest.simulated_efficiency))
    return "scaling: implausible: " + both +
           "; the speeds are hardly of one training: check unit, model, batch, precision and number of GPUs of each";
  if (ratio > 1) return "scaling: better than simulated: " + both;
  int first = largest.measured.gpus;
  for (const SizeRow& row : rows)
    if (row.simulated_efficiency && row.measured_efficiency < (1 - kFlaggedShortfall) * *row.simulated_efficiency) {
      first = row.measured.gpus;
      break;
    }
  return "scaling: worse than simulated: " + both + "; it falls behind from " + gpus_text(first) +
         " on, so what is exchanged between them (network, collectives, servers, stragglers) takes longer than "
         "simulated";
}

/// [sizes] the scenarios, null where a size cannot be; why goes to the row.
template <class Change>
std::vector<Json> clusters_of(std::vector<SizeRow>& rows, const Change& change) {
  std::vector<Json> clusters;
  for (SizeRow& row : rows) try {
      clusters.push_back(change(row.measured.gpus));
    } catch (const InputError& error) {
      clusters.emplace_back();
      row.error = error.what();
    }
  return clusters;
}

/// Of the log of a training on so many GPUs, the last batch of which counts.
MeasuredSize read_logged_size(int gpus, const std::string& file, std::int64_t skip_steps) {
  const Measurements log =
      load_job_logs(file, {.skip_steps = skip_steps, .batch = {}, .gpus = gpus, .sequence_length = {}});
  const LoggedSpeed speed = logged_speed(log, log.table.row(log.table.row_count() - 1));
  return {.gpus = gpus, .samples_per_s = speed.samples_per_s, .batch = speed.batch, .remarks = log.remarks};
}

/// A log of another batch than the scenario's on so many GPUs measured something else.
void refuse_other_batches(const std::vector<SizeRow>& rows, const std::vector<Json>& clusters,
                          const std::string& file_name, const Catalog& catalog) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].measured.batch || clusters[i].is_null()) continue;
    const Scenario scenario = read_scenario(clusters[i], file_name, catalog);
    if (const std::string text = log_contradiction(rows[i].measured.batch, {}, scenario); !text.empty())
      throw InputError{"--measured " + std::to_string(rows[i].measured.gpus) + ": " + text};
  }
}

}  // namespace

std::vector<MeasuredSize> read_measured_sizes(const std::vector<std::string>& options, std::int64_t skip_steps) {
  std::vector<MeasuredSize> sizes;
  for (const std::string& text : options) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      const CsvTable table = load_csv_file(text);
      for (const CsvRow& row : table.rows()) {
        const std::int64_t gpus = row.integer("gpus");
        sizes.push_back(checked({.gpus = static_cast<int>(std::clamp<std::int64_t>(gpus, -1, kMostGpus + 1)),
                                 .samples_per_s = row.number("samples_per_s")},
                                text + ":" + std::to_string(row.line())));
      }
      continue;
    }
    MeasuredSize size;
    const bool has_gpus = read_number(std::string_view{text}.substr(0, equals), size.gpus);
    const std::string value = text.substr(equals + 1);
    if (has_gpus && size.gpus >= 1 && std::filesystem::is_regular_file(value))
      size = read_logged_size(size.gpus, value, skip_steps);
    else if (!has_gpus || !read_number(std::string_view{value}, size.samples_per_s))
      throw InputError{"--measured: expected GPUS=SAMPLES_PER_S, such as 8=6679, GPUS=LOG or a CSV file; found " +
                       in_quotes(text)};
    sizes.push_back(checked(size, "--measured " + shortened(text)));
  }
  std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.gpus < b.gpus; });
  for (std::size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i].gpus == sizes[i - 1].gpus)
      throw InputError{"--measured: expected each number of GPUs once; found " + std::to_string(sizes[i].gpus) +
                       " twice"};
  return sizes;
}

const SizeRow& SizesDiagnosis::reference() const {
  const auto first = std::ranges::find_if(rows, [](const SizeRow& row) { return row.simulated.has_value(); });
  return first == rows.end() ? rows.front() : *first;
}

std::optional<SizesDiagnosis> diagnose_sizes(const SizesCase& sizes_case, const Catalog& catalog, const Pool& pool,
                                             const std::function<void(std::size_t, std::size_t)>& on_done,
                                             const std::function<bool()>& is_stopped) {
  const auto& [json, file_name, sizes] = sizes_case;
  const Scenario scenario = read_scenario(json, file_name, catalog);
  const Group& group = scenario.groups[only_workers(scenario)];
  const Json& effective = *scenario.effective;
  SizesDiagnosis diagnosis;
  for (const MeasuredSize& size : sizes) diagnosis.rows.push_back({.measured = size});
  std::vector<SizeRow>& rows = diagnosis.rows;
  Simulations simulations{file_name, catalog, pool, on_done, is_stopped, 2 * sizes.size() + 1};

  // Whatever the step is, it is stretched as a whole: its time follows from two speeds of one GPU.
  const bool has_one = rows.front().measured.gpus == 1;
  std::vector<Json> clusters = clusters_of(rows, [&](int gpus) {
    Json cluster = with_gpus(effective, scenario, gpus);
    return gpus == 1 ? without_exchange(std::move(cluster), scenario) : cluster;
  });
  refuse_other_batches(rows, clusters, file_name, catalog);
  if (has_one && !clusters.front().is_null())
    clusters.push_back(with_step(clusters.front(), scenario, group, step_time_with(scenario, group, 1)));
  const auto stated = simulations.run(clusters);
  if (!stated) return std::nullopt;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].simulated = stated->samples_per_s[i];
    if (rows[i].error.empty()) rows[i].error = stated->errors[i];
  }
  std::optional<Seconds> step;
  if (has_one && rows.front().simulated && stated->samples_per_s.size() > rows.size() && stated->samples_per_s.back()) {
    diagnosis.compute = rows.front().measured.samples_per_s / *rows.front().simulated;
    step = step_time_with(scenario, group, *stated->samples_per_s.back() / rows.front().measured.samples_per_s);
    if (scenario.profile.uncertainty.residual > 0)
      diagnosis.compute_interval = scenario.profile.uncertainty.interval(0);
    clusters.pop_back();
    for (Json& cluster : clusters)
      if (!cluster.is_null()) cluster = with_step(std::move(cluster), scenario, group, *step);
    const auto own = simulations.run(clusters);
    if (!own) return std::nullopt;
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].by_own_step = own->samples_per_s[i];
  }
  const auto speed = [](const SizeRow& row) { return row.by_own_step ? row.by_own_step : row.simulated; };
  const SizeRow& reference = diagnosis.reference();
  for (SizeRow& row : rows) {
    const double times = static_cast<double>(row.measured.gpus) / reference.measured.gpus;
    row.measured_efficiency = row.measured.samples_per_s / reference.measured.samples_per_s / times;
    if (speed(row) && speed(reference)) row.simulated_efficiency = *speed(row) / *speed(reference) / times;
  }
  diagnosis.can_run_on_one_gpu = can_run_on_one_gpu(scenario, catalog);
  diagnosis.compute_verdict = compute_verdict_of(diagnosis);
  diagnosis.scaling_verdict = scaling_verdict_of(diagnosis);
  if (rows.back().measured.gpus == 1 || clusters[rows.size() - 1].is_null()) return diagnosis;
  diagnosis.largest = diagnose({.scenario = clusters[rows.size() - 1],
                                .file_name = file_name,
                                .measured = {Measured::Unit::kSamplesPerSecond, rows.back().measured.samples_per_s},
                                .knows_computation = step.has_value()},
                               catalog, pool, on_done, is_stopped);
  return diagnosis.largest ? std::optional{std::move(diagnosis)} : std::nullopt;
}

Json to_json(const SizesDiagnosis& diagnosis) {
  Json json = diagnosis.largest ? to_json(*diagnosis.largest) : Json{{"format", 1}};
  Json sizes = Json::array();
  for (const SizeRow& row : diagnosis.rows)
    sizes.push_back({{"gpus", row.measured.gpus},
                     {"measured_samples_per_s", row.measured.samples_per_s},
                     {"simulated_samples_per_s", or_null(row.simulated)},
                     {"simulated_by_own_step_samples_per_s", or_null(row.by_own_step)},
                     {"measured_efficiency", row.measured_efficiency},
                     {"simulated_efficiency", or_null(row.simulated_efficiency)},
                     {"error", row.error.empty() ? Json{} : Json(row.error)}});
  json["sizes"] = std::move(sizes);
  json["compute_efficiency"] = or_null(diagnosis.compute);
  json["compute_verdict"] = diagnosis.compute_verdict;
  json["scaling_verdict"] = diagnosis.scaling_verdict;
  return json;
}

}  // namespace rehearse
