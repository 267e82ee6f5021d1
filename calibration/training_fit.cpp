#include "calibration/training_fit.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "calibration/detail/least_squares.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLargestLog = 256 * kMiB;
constexpr int kMostFitSteps = 100;

struct Worker {
  const WorkerLog* log = nullptr;
  std::vector<LogEntry> entries;  // used
  double step = 0;                // mean seconds
  double step_error = 0;          // half of its 95 % interval
};

struct Cluster {
  std::string name;
  std::vector<Worker> workers;
  ConvergenceCluster shape;
  double samples_per_s = 0;
};

using MachineKey = std::tuple<std::string, int, int>;  // instance, GPUs, batch

MachineKey machine_of(const Worker& worker) { return {worker.log->instance, worker.log->gpus, worker.log->batch}; }

std::string place_of(const WorkerLog& log) {
  return "worker " + in_quotes(log.worker) + " of cluster " + in_quotes(log.cluster);
}

Worker summarize(const WorkerLog& log, const TrainingStudy& study) {
  const auto skipped = static_cast<std::size_t>(study.skip_first + study.skip_last);
  if (log.entries.size() < skipped + 2)
    throw InputError{study.file_name + ": " + place_of(log) + " has " + std::to_string(log.entries.size()) +
                     " entries, of which the first " + std::to_string(study.skip_first) + " and the last " +
                     std::to_string(study.skip_last) + " do not count: expected at least two more"};
  Worker worker{.log = &log,
                .entries = {log.entries.begin() + study.skip_first, log.entries.end() - study.skip_last},
                .step = 0,
                .step_error = 0};
  std::vector<double> seconds;
  for (const LogEntry& entry : worker.entries)
    if (entry.seconds_per_batch) seconds.push_back(*entry.seconds_per_batch);
  if (seconds.empty()) throw InputError{study.file_name + ": " + place_of(log) + " has no time per batch"};
  worker.step = mean(seconds);
  if (seconds.size() > 1)
    worker.step_error = student_t_95(static_cast<double>(seconds.size() - 1)) * sample_standard_deviation(seconds) /
                        std::sqrt(static_cast<double>(seconds.size()));
  return worker;
}

std::vector<Cluster> group_by_cluster(const TrainingStudy& study) {
  std::map<std::string, Cluster> clusters;
  for (const WorkerLog& log : study.logs) {
    Cluster& cluster = clusters[log.cluster];
    cluster.name = log.cluster;
    cluster.workers.push_back(summarize(log, study));
  }
  std::vector<Cluster> all;
  for (auto& [name, cluster] : clusters) {
    double updates_per_s = 0;
    std::vector<double> speeds;
    for (const Worker& worker : cluster.workers) {
      updates_per_s += 1 / worker.step;
      speeds.push_back(worker.log->batch / worker.step);
      cluster.samples_per_s += speeds.back();
    }
    cluster.shape = {.workers = static_cast<int>(cluster.workers.size()),
                     .weighted_batch = cluster.samples_per_s / updates_per_s,
                     .spread = speed_spread(speeds)};
    all.push_back(std::move(cluster));
  }
  return all;
}

/// 95 % of f(x) when x has these covariances, f linearised: f(x) +- width sqrt(g C g).
std::vector<Limits> intervals_of(const std::function<std::vector<double>(const Eigen::VectorXd&)>& values,
                                 const Eigen::VectorXd& at, const Eigen::MatrixXd& covariances, double width) {
  constexpr double kDifference = 1e-4;
  const std::vector<double> there = values(at);
  Eigen::MatrixXd slopes(static_cast<Eigen::Index>(there.size()), at.size());
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    Eigen::VectorXd above = at, below = at;
    above[i] += kDifference;
    below[i] -= kDifference;
    const std::vector<double> high = values(above), low = values(below);
    for (std::size_t v = 0; v < there.size(); ++v)
      slopes(static_cast<Eigen::Index>(v), i) = (high[v] - low[v]) / (2 * kDifference);
  }
  std::vector<Limits> intervals;
  for (std::size_t v = 0; v < there.size(); ++v) {
    const Eigen::VectorXd slope = slopes.row(static_cast<Eigen::Index>(v)).transpose();
    const double distance = width * std::sqrt(std::max(0.0, slope.dot(covariances * slope)));
    intervals.emplace_back(there[v] - distance, there[v] + distance);
  }
  return intervals;
}

ResidualFunction at_each(const std::function<Eigen::VectorXd(const Eigen::VectorXd&)>& residuals) {
  return [residuals](const std::vector<Eigen::VectorXd>& points) {
    std::vector<Eigen::VectorXd> all;
    for (const Eigen::VectorXd& point : points) all.push_back(residuals(point));
    return all;
  };
}

/// Intervals of `values` at a minimum, if there are more rows than values.
std::optional<std::vector<Limits>> intervals_at(
    const LinearModel& minimum, const std::function<std::vector<double>(const Eigen::VectorXd&)>& values) {
  const Eigen::Index more = minimum.residuals.size() - minimum.at.size();
  if (more < 1) return {};
  const Eigen::VectorXd counts = Eigen::VectorXd::Ones(minimum.residuals.size());
  return intervals_of(values, minimum.at, covariance(minimum, counts), student_t_95(static_cast<double>(more)));
}

class TrainingFitter {
 public:
  explicit TrainingFitter(const TrainingStudy& study) : study_{study}, clusters_{group_by_cluster(study)} {}

  TrainingCoefficients fit() {
    fit_.name = study_.name;
    fit_.server = study_.server;
    for (const Cluster& cluster : clusters_)
      for (const Worker& worker : cluster.workers) fit_.entries += worker.entries.size();
    measure_exchange();
    measure_machines();
    fit_contention();
    compare_speeds();
    fit_loss();
    return std::move(fit_);
  }

 private:
  void measure_exchange() {
    std::vector<double> exchanged;
    double bytes = 0, seconds = 0;
    for (const Cluster& cluster : clusters_)
      for (const Worker& worker : cluster.workers)
        for (const LogEntry& entry : worker.entries) {
          if (!entry.exchanged_bytes) continue;
          exchanged.push_back(*entry.exchanged_bytes);
          if (cluster.workers.size() > 1 || !entry.exchange_seconds) continue;
          bytes += *entry.exchanged_bytes;
          seconds += *entry.exchange_seconds;
        }
    if (!study_.parameters && exchanged.empty())
      throw InputError{study_.file_name +
                       ": /parameters: expected the bytes of the parameters, or logs with exchanged_B"};
    fit_.parameters = study_.parameters ? *study_.parameters : Bytes{std::llround(mean(exchanged) / 2)};
    if (fit_.parameters <= Bytes{}) throw InputError{study_.file_name + ": expected parameters of more than 0 bytes"};
    if (!study_.required_bandwidth && !(seconds > 0 && bytes > 0))
      throw InputError{study_.file_name +
                       ": /required_bandwidth: expected what a lone worker reaches, or logs of workers " +
                       "alone with exchanged_B and exchange_s"};
    fit_.required_bandwidth.value = study_.required_bandwidth ? study_.required_bandwidth->value() : bytes / seconds;
  }

  SpotdnnWorkload workload() const {
    SpotdnnWorkload workload{.parameters = fit_.parameters,
                             .required_bandwidth = BytesPerSecond{fit_.required_bandwidth.value},
                             .contention = {}};
    if (fit_.contention_slope)
      workload.contention = {.slope = fit_.contention_slope->value, .intercept = fit_.contention_intercept->value};
    return workload;
  }

  void measure_machines() {
    std::map<MachineKey, std::vector<const Worker*>> alone;
    for (const Cluster& cluster : clusters_)
      if (cluster.workers.size() == 1) alone[machine_of(cluster.workers[0])].push_back(&cluster.workers[0]);
    for (const auto& [key, workers] : alone) {
      const auto& [instance, gpus, batch] = key;
      std::vector<double> steps;
      double error = 0;
      MachineStep machine{.instance = instance, .gpus = gpus, .batch = batch, .step = {}, .compute = {}};
      for (const Worker* worker : workers) {
        steps.push_back(worker->step);
        error += worker->step_error * worker->step_error;
        machine.entries += worker->entries.size();
      }
      const double step = mean(steps), half = std::sqrt(error) / static_cast<double>(workers.size());
      const double compute = step - exchange_alone() - copies(gpus);
      if (compute <= 0)
        throw InputError{study_.file_name + ": " + place_of(*workers[0]->log) + ": its step of " +
                         to_text(Seconds{step}) + " is no longer than its exchange, " +
                         to_text(Seconds{exchange_alone() + copies(gpus)})};
      machine.step = {step, Limits{step - half, step + half}};
      machine.compute = {compute, Limits{compute - half, compute + half}};
      fit_.machines.push_back(machine);
    }
    for (const Cluster& cluster : clusters_)
      for (const Worker& worker : cluster.workers)
        if (!alone.contains(machine_of(worker)))
          throw InputError{study_.file_name + ": " + place_of(*worker.log) + ": expected a log of one " +
                           worker.log->instance + " alone, with " + std::to_string(worker.log->gpus) +
                           " GPUs and batch " + std::to_string(worker.log->batch) + "; found none"};
  }

  double exchange_alone() const { return 2 * as_double(fit_.parameters) / fit_.required_bandwidth.value; }
  double copies(int gpus) const { return 2 * gpus * as_double(fit_.parameters) / fit_.server.pcie.value(); }

  const MachineStep& machine_alone(const Worker& worker) const {
    return *std::find_if(fit_.machines.begin(), fit_.machines.end(), [&](const MachineStep& machine) {
      return MachineKey{machine.instance, machine.gpus, machine.batch} == machine_of(worker);
    });
  }

  std::vector<SpotdnnWorker> workers_of(const Cluster& cluster) const {
    std::vector<SpotdnnWorker> workers;
    for (const Worker& worker : cluster.workers)
      workers.push_back({.gpus = worker.log->gpus,
                         .batch = static_cast<double>(worker.log->batch),
                         .step_alone = Seconds{machine_alone(worker).step.value}});
    return workers;
  }

  /// P at the smallest and at the largest contended cluster are the values of the fit.
  void fit_contention() {
    std::vector<const Cluster*> contended;
    std::set<int> sizes;
    Eigen::Index rows = 0;
    for (const Cluster& cluster : clusters_) {
      if (cluster.shape.workers * fit_.required_bandwidth.value <= fit_.server.bandwidth.value()) continue;
      contended.push_back(&cluster);
      sizes.insert(cluster.shape.workers);
      rows += cluster.shape.workers;
    }
    if (sizes.size() < 2) {
      fit_.warnings.push_back(
          "contention is not fitted: it takes clusters of two sizes whose workers together require more than the "
          "server's bandwidth of " +
          to_text(fit_.server.bandwidth) + "; found " + std::to_string(sizes.size()));
      return;
    }
    const double low = std::sqrt(*sizes.begin()), high = std::sqrt(*sizes.rbegin());
    const auto values = [low, high](const Eigen::VectorXd& x) {
      const double slope = (x[1] - x[0]) / (high - low);
      return std::vector<double>{slope, x[0] - slope * low};
    };
    const auto residuals = [&](const Eigen::VectorXd& x) {
      const std::vector<double> at = values(x);
      SpotdnnWorkload tried = workload();
      tried.contention = {.slope = at[0], .intercept = at[1]};
      Eigen::VectorXd difference(rows);
      Eigen::Index row = 0;
      for (const Cluster* cluster : contended) {
        const AsynchronousSpeed speed = predict_speed(workers_of(*cluster), tried, fit_.server, SpotdnnVariant::kPaper);
        for (std::size_t i = 0; i < cluster->workers.size(); ++i)
          difference[row++] = speed.steps[i].value() / cluster->workers[i].step - 1;
      }
      return difference;
    };
    const Bounds bounds{Eigen::VectorXd::Constant(2, -1), Eigen::VectorXd::Constant(2, 2)};
    const LinearModel minimum = minimize(at_each(residuals), Eigen::VectorXd::Constant(2, 0.5),
                                         Eigen::VectorXd::Ones(rows), bounds, kMostFitSteps);
    const std::vector<double> found = values(minimum.at);
    fit_.contention_slope = Estimate{found[0], {}};
    fit_.contention_intercept = Estimate{found[1], {}};
    if (const auto intervals = intervals_at(minimum, values)) {
      fit_.contention_slope->interval = (*intervals)[0];
      fit_.contention_intercept->interval = (*intervals)[1];
    }
  }

  void compare_speeds() {
    for (const Cluster& cluster : clusters_) {
      const AsynchronousSpeed speed =
          predict_speed(workers_of(cluster), workload(), fit_.server, SpotdnnVariant::kPaper);
      fit_.clusters.push_back({.name = cluster.name,
                               .shape = cluster.shape,
                               .samples_per_s = cluster.samples_per_s,
                               .predicted_samples_per_s = speed.samples_per_s});
    }
  }

  struct LoggedLoss {
    const ConvergenceCluster* cluster;
    double updates, loss;
  };

  struct LossFit {
    LinearModel minimum;
    std::function<Convergence(const Eigen::VectorXd&)> model;
    double loss = 0;
  };

  /// Values of the fit, all but the first as logarithms: floor, offset or initial loss above the floor, the numerator's
  /// part of the batch at the smallest b_w (and at the largest, if there are two), R + spread_offset at the smallest R.
  LossFit fit_loss_model(const std::vector<LoggedLoss>& losses, bool has_initial_loss) const {
    const auto by_batch = std::minmax_element(clusters_.begin(), clusters_.end(), [](const auto& a, const auto& b) {
      return a.shape.weighted_batch < b.shape.weighted_batch;
    });
    const double small = by_batch.first->shape.weighted_batch, large = by_batch.second->shape.weighted_batch;
    const bool has_slope = large > small * 1.01;
    double least_spread = 1, lowest = losses[0].loss, highest = losses[0].loss;
    for (const Cluster& cluster : clusters_) least_spread = std::min(least_spread, cluster.shape.spread);
    for (const LoggedLoss& entry : losses) {
      lowest = std::min(lowest, entry.loss);
      highest = std::max(highest, entry.loss);
    }
    const Eigen::Index spread_at = has_slope ? 4 : 3;
    const auto model = [=, this](const Eigen::VectorXd& x) {
      Convergence found;
      found.floor = std::exp(x[0]);
      if (has_initial_loss)
        found.initial_loss = found.floor + std::exp(x[1]);
      else
        found.offset = std::exp(x[1]);
      const double at_small = std::exp(x[2]), at_large = has_slope ? std::exp(x[3]) : at_small;
      found.batch_slope = has_slope ? (at_large - at_small) / (large - small) : 0;
      found.batch_intercept = at_small - found.batch_slope * small;
      if (study_.uses_spread) found.spread_offset = std::exp(x[spread_at]) - least_spread;
      found.weighted_batch = {small, large};
      return found;
    };
    const auto residuals = [&](const Eigen::VectorXd& x) {
      const Convergence tried = model(x);
      Eigen::VectorXd difference(static_cast<Eigen::Index>(losses.size()));
      for (std::size_t i = 0; i < losses.size(); ++i)
        difference[static_cast<Eigen::Index>(i)] =
            loss_after(tried, *losses[i].cluster, losses[i].updates) / losses[i].loss - 1;
      return difference;
    };
    // Where the loss is halfway down to half of the lowest: the offset, roughly.
    const double floor = lowest / 2, half = floor + (highest - floor) / 2;
    double halfway = 1, workers = 0;
    for (const LoggedLoss& entry : losses) {
      if (entry.loss >= half) halfway = std::max(halfway, entry.updates);
      workers = std::max<double>(workers, entry.cluster->workers);
    }
    const Eigen::Index values = spread_at + (study_.uses_spread ? 1 : 0);
    Eigen::VectorXd start(values);
    start[0] = std::log(floor);
    start[1] = std::log(has_initial_loss ? highest - floor + 0.1 * lowest : halfway);
    for (Eigen::Index i = 2; i < spread_at; ++i) start[i] = std::log(halfway * (highest - floor) / std::sqrt(workers));
    if (study_.uses_spread) start[spread_at] = 0;
    Bounds bounds{start.array() - std::log(1e4), start.array() + std::log(1e4)};
    bounds.high[0] = std::log(lowest * 0.9999);
    LossFit fit{.minimum = minimize(at_each(residuals), start, Eigen::VectorXd::Ones(residuals(start).size()), bounds,
                                    kMostFitSteps),
                .model = model};
    fit.loss = huber_loss(fit.minimum.residuals, Eigen::VectorXd::Ones(fit.minimum.residuals.size()));
    return fit;
  }

  void fit_loss() {
    std::vector<LoggedLoss> losses;
    for (const Cluster& cluster : clusters_)
      for (const Worker& worker : cluster.workers)
        for (const LogEntry& entry : worker.entries)
          if (entry.loss && *entry.loss > 0)
            losses.push_back({&cluster.shape, static_cast<double>(entry.step), *entry.loss});
    constexpr std::size_t kFewest = 10;
    if (losses.empty()) return;
    if (losses.size() < kFewest) {
      fit_.warnings.push_back("the loss is not fitted: it takes at least 10 entries; found " +
                              std::to_string(losses.size()));
      return;
    }
    const LossFit common_offset = fit_loss_model(losses, false), common_start = fit_loss_model(losses, true);
    const LossFit& best = common_start.loss < common_offset.loss ? common_start : common_offset;
    fit_.convergence = best.model(best.minimum.at);
    Convergence& found = *fit_.convergence;
    found.workers = {clusters_[0].shape.workers, clusters_[0].shape.workers};
    for (const Cluster& cluster : clusters_) {
      found.workers.first = std::min(found.workers.first, cluster.shape.workers);
      found.workers.second = std::max(found.workers.second, cluster.shape.workers);
    }
    found.source = study_.name + ": fitted by rehearse calibrate to " + std::to_string(losses.size()) + " losses";
    fit_.loss_error = best.minimum.residuals.cwiseAbs().mean();
    const auto values = [&best](const Eigen::VectorXd& x) {
      const Convergence at = best.model(x);
      std::vector<double> all{at.initial_loss ? *at.initial_loss : *at.offset, at.batch_slope, at.batch_intercept,
                              at.floor};
      if (at.spread_offset) all.push_back(*at.spread_offset);
      return all;
    };
    if (const auto intervals = intervals_at(best.minimum, values)) {
      const std::array<const char*, 5> keys{found.initial_loss ? "initial_loss" : "offset", "batch_slope",
                                            "batch_intercept", "floor", "spread_offset"};
      for (std::size_t i = 0; i < intervals->size(); ++i)
        fit_.convergence_intervals.emplace_back(keys[i], (*intervals)[i]);
    }
    if (found.weighted_batch.second <= found.weighted_batch.first * 1.01)
      fit_.warnings.emplace_back("batch_slope is taken as 0: all clusters have the same samples per update");
  }

  const TrainingStudy& study_;
  std::vector<Cluster> clusters_;
  TrainingCoefficients fit_;
};

WorkerLog read_text_log(const JsonReader& json, const std::string& file, const std::string& text) {
  WorkerLog log{.cluster = json.required<std::string>("cluster"),
                .worker = json.required<std::string>("worker"),
                .instance = json.required<std::string>("instance"),
                .gpus = json.optional<int>("gpus", 1),
                .batch = json.required<int>("batch"),
                .entries = {}};
  const int steps_per_entry = json.optional<int>("steps_per_entry", 1);
  if (json.has("gpus")) json.expect(log.gpus >= 1 && log.gpus <= 64, "gpus", "1 to 64 GPUs");
  json.expect(log.batch >= 1 && log.batch <= 1'000'000, "batch", "1 to 1000000 samples");
  if (json.has("steps_per_entry"))
    json.expect(steps_per_entry >= 1 && steps_per_entry <= 1'000'000, "steps_per_entry", "1 to 1000000 steps");
  const LinePattern pattern{json.required<std::string>("line"), json.file_name() + ": " + json.pointer() + "/line"};
  parse_log_text(text, file, pattern, steps_per_entry, log);
  return log;
}

Json to_json(const Limits& limits) { return Json::array({limits.first, limits.second}); }

Json to_json(const Convergence& model) {
  Json json = Json::object();
  if (model.offset) json["offset"] = *model.offset;
  if (model.initial_loss) json["initial_loss"] = *model.initial_loss;
  json["batch_slope"] = model.batch_slope;
  json["batch_intercept"] = model.batch_intercept;
  if (model.spread_offset) json["spread_offset"] = *model.spread_offset;
  json["floor"] = model.floor;
  json["weighted_batch"] = {model.weighted_batch.first, model.weighted_batch.second};
  json["workers"] = {model.workers.first, model.workers.second};
  json["source"] = model.source;
  return json;
}

}  // namespace

TrainingStudy load_training_study(const fs::path& path) {
  const Json file = load_json_file(path);
  const JsonReader json{file, path.string()};
  json.begin_file(training_log_study_schema, "training_logs");
  refuse_missing_keys(json, training_log_study_schema);
  TrainingStudy study;
  study.name = path.stem().string();
  study.file_name = path.string();
  std::set<std::pair<std::string, std::string>> names;
  for (const JsonReader& entry : json.children("logs")) {
    const std::size_t before = study.logs.size();
    const fs::path log = entry.resolve(entry.required<std::string>("file")).lexically_normal();
    const std::string text = log.extension() == ".gz" ? gunzip(read_file(log, kLargestLog), kLargestLog, log.string())
                                                      : read_file(log, kLargestLog);
    std::array<char, 17> hash{};
    std::snprintf(hash.data(), hash.size(), "%016llx", static_cast<unsigned long long>(fnv1a(text)));
    study.files.emplace_back(log.filename().string(), hash.data());
    if (entry.has("line"))
      study.logs.push_back(read_text_log(entry, log.string(), text));
    else
      for (WorkerLog& worker : parse_log_table(text, log.string())) study.logs.push_back(std::move(worker));
    entry.reject_unknown_keys();
    for (std::size_t i = before; i < study.logs.size(); ++i)  // before any other log is read
      if (const WorkerLog& found = study.logs[i]; !names.insert({found.cluster, found.worker}).second)
        json.fail("logs", "expected one log of " + place_of(found) + "; found two");
  }
  if (study.logs.empty()) json.fail("logs", "expected at least one log");
  study.parameters = json.maybe<Bytes>("parameters");
  study.required_bandwidth = json.maybe<BytesPerSecond>("required_bandwidth");
  study.server.bandwidth = json.optional<BytesPerSecond>("server_bandwidth", study.server.bandwidth);
  study.server.pcie = json.optional<BytesPerSecond>("pcie_bandwidth", study.server.pcie);
  for (const char* rate : {"required_bandwidth", "server_bandwidth", "pcie_bandwidth"})
    if (json.has(rate)) json.expect(json.required<BytesPerSecond>(rate) > BytesPerSecond{}, rate, "a rate above 0Bps");
  study.uses_spread = json.optional<bool>("uses_spread", false);
  study.skip_first = json.optional<int>("skip_first", study.skip_first);
  study.skip_last = json.optional<int>("skip_last", study.skip_last);
  for (const char* skip : {"skip_first", "skip_last"})
    if (json.has(skip))
      json.expect(json.required<int>(skip) >= 0 && json.required<int>(skip) <= 1'000'000, skip, "0 to 1000000 entries");
  json.reject_unknown_keys();
  return study;
}

TrainingCoefficients fit_training_logs(const TrainingStudy& study) { return TrainingFitter{study}.fit(); }

Json to_json(const TrainingCoefficients& fit, const TrainingStudy& study, const std::string& command) {
  Json machines = Json::array(), clusters = Json::array(), files = Json::array(), intervals = Json::object();
  for (const MachineStep& machine : fit.machines) {
    machines.push_back(Json{{"instance", machine.instance},
                            {"gpus", machine.gpus},
                            {"batch", machine.batch},
                            {"step_s", machine.step.value},
                            {"step_s_95", to_json(*machine.step.interval)},
                            {"compute_s", machine.compute.value},
                            {"compute_s_95", to_json(*machine.compute.interval)},
                            {"entries", machine.entries}});
  }
  for (const LoggedCluster& cluster : fit.clusters)
    clusters.push_back(Json{{"name", cluster.name},
                            {"workers", cluster.shape.workers},
                            {"weighted_batch", cluster.shape.weighted_batch},
                            {"spread", cluster.shape.spread},
                            {"samples_per_s", cluster.samples_per_s},
                            {"predicted_samples_per_s", cluster.predicted_samples_per_s}});
  for (const auto& [name, hash] : study.files) files.push_back(Json{{"file", name}, {"fnv1a", hash}});
  Json json{{"format", 1},
            {"kind", "training_coefficients"},
            {"name", fit.name},
            {"source", "fitted by rehearse calibrate to training logs"},
            {"parameters", to_text(fit.parameters)},
            {"required_bandwidth", to_text(BytesPerSecond{fit.required_bandwidth.value})},
            {"server_bandwidth", to_text(fit.server.bandwidth)},
            {"pcie_bandwidth", to_text(fit.server.pcie)},
            {"machines", std::move(machines)},
            {"contention", nullptr},
            {"convergence", nullptr}};
  if (fit.contention_slope) {
    json["contention"] = {{"slope", fit.contention_slope->value}, {"intercept", fit.contention_intercept->value}};
    if (fit.contention_slope->interval) {
      json["contention"]["slope_95"] = to_json(*fit.contention_slope->interval);
      json["contention"]["intercept_95"] = to_json(*fit.contention_intercept->interval);
    }
  }
  if (fit.convergence) json["convergence"] = to_json(*fit.convergence);
  for (const auto& [key, interval] : fit.convergence_intervals) intervals[key] = to_json(interval);
  json["convergence_95"] = std::move(intervals);
  json["clusters"] = std::move(clusters);
  json["fit"] = {{"command", command},
                 {"files", std::move(files)},
                 {"entries", fit.entries},
                 {"loss_error", fit.loss_error ? Json(*fit.loss_error) : Json(nullptr)},
                 {"warnings", fit.warnings}};
  return json;
}

}  // namespace rehearse
