#include "calibration/fit.hpp"

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
#include <utility>

#include "calibration/detail/covariance_components.hpp"
#include "calibration/detail/fit_record.hpp"
#include "calibration/detail/folds.hpp"
#include "calibration/detail/free_values.hpp"
#include "calibration/detail/least_squares.hpp"
#include "calibration/detail/row_simulator.hpp"
#include "calibration/metric.hpp"
#include "platforms/profile.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

// Of the fit without a fold. Its damping decides how far values go that the other rows hardly know.
constexpr double kSurelyNear = 2e-3;  // of its loss: a step that promises less is not checked by simulations
constexpr double kFoldDamping = 0.1;  // lambda to start with: flat directions stay near the full fit's values
constexpr double kFairPart = 0.25;    // of what a step promises: a step that keeps less is refused
constexpr int kMostChecks = 2;        // steps that are checked; the next one is taken as it is

std::string short_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

Json without_fit(Json profile) {
  profile.erase("fit");
  return profile;
}

std::vector<FreeValue> all_free(const std::vector<Study>& studies) {
  std::vector<FreeValue> all;
  for (const Study& study : studies) all.insert(all.end(), study.free.begin(), study.free.end());
  if (all.empty() && std::none_of(studies.begin(), studies.end(),
                                  [](const Study& study) { return has_use(study, RowUse::kStepTime); }))
    throw InputError{studies.front().file_name +
                     ": /fit: expected at least one value under \"free\", or rows under \"step_times\""};
  return all;
}

/// One combination of a study's cross-validation columns.
struct Fold {
  std::size_t study = 0;
  std::vector<std::size_t> members;  // rows of the study that are predicted
  Eigen::VectorXd counts;            // [rows, then priors] 0 for those that its fit does not see
  Eigen::VectorXd at;                // where its fit ends
};

class Fitter {
 public:
  Fitter(const std::vector<Study>& studies, const Json& profile, const std::string& profile_file,
         const Catalog& catalog, const FitOptions& options)
      : studies_{studies},
        options_{options},
        simulator_{studies, catalog, options.pool,
                   [this](std::size_t done, std::size_t total) {
                     if (options_.on_simulated) options_.on_simulated(stage_, done, total);
                   },
                   options.budget},
        profile_(with_step_times(without_fit(profile))),
        values_{profile_, profile_file, all_free(studies),
                [&profile_file](const Json& changed) {
                  try {
                    (void)read_profile(JsonReader{changed, profile_file});
                    return true;
                  } catch (const InputError&) { return false; }
                }},
        counts_{Eigen::VectorXd::Zero(static_cast<Eigen::Index>(simulator_.rows().size()) + values_.priors())} {
    counts_.tail(values_.priors()).setOnes();
    std::set<std::tuple<std::string, std::size_t, std::string>> counted;  // a row of several studies counts once
    for (std::size_t i = 0; i < simulator_.rows().size(); ++i)
      if (row(i).use == RowUse::kFitted &&
          counted.insert({study(i).measurements_file, row(i).row.line(), study(i).target_column}).second)
        counts_[static_cast<Eigen::Index>(i)] = 1;
  }

  Fit run() {
    stage_ = "simulations for the fit";
    LinearModel minimum = fit_values();
    stage_ = "simulations of rows that the fit did not see";
    for (const RowUse use : {RowUse::kStepTime, RowUse::kPredicted})
      minimum.residuals += residuals_of_all({minimum.at}, rows_that(use), false).front();
    Fit fit;
    fit.rows = static_cast<std::size_t>(counts_.sum()) - static_cast<std::size_t>(values_.priors());
    fit.warnings = unlikely_studies_;
    describe_values(fit, minimum);
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      fit.validation.push_back(validation_rows(s, minimum.residuals));
      fit.in_sample.push_back(error_statistics(studies_[s], fit.validation.back(), RowUse::kFitted));
      fit.predicted.push_back(error_statistics(studies_[s], fit.validation.back(), RowUse::kPredicted));
    }
    stage_ = "simulations for the cross-validation";
    fit.cross_validated = leave_out(minimum, [](const Study& study) { return study.cross_validate; });
    fit.left_out_for_interval = leave_out(minimum, [](const Study& study) {
      return study.cross_validate.empty() ? std::vector<std::string>{} : study.interval_by;
    });
    stage_ = "simulations for the intervals";
    find_uncertainty(fit, minimum);
    fit.simulations = simulator_.simulations();
    fit.profile = to_json_text(profile_file(fit, minimum.at));
    return fit;
  }

 private:
  LinearModel fit_values() {
    if (values_.size() == 0)
      return {values_.start(), Eigen::VectorXd::Zero(counts_.size()), Eigen::MatrixXd::Zero(counts_.size(), 0)};
    return minimize(
        [this, is_at_start = true](const std::vector<Eigen::VectorXd>& points) mutable {
          auto there = residuals_of_all(points, rows_that(RowUse::kFitted));
          if (std::exchange(is_at_start, false)) note_unlikely_studies(there.front());
          return there;
        },
        values_.start(), counts_, values_.bounds(), options_.most_steps,
        [this](const Eigen::VectorXd& there) { progress("fit: " + describe(there)); });
  }

  /// By the profile that the fit starts from.
  void note_unlikely_studies(const Eigen::VectorXd& of_rows) {
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      std::vector<ValidationRow> fitted;
      const std::vector<ValidationRow> all = validation_rows(s, of_rows);
      for (std::size_t i = 0; i < all.size(); ++i)
        if (studies_[s].rows[i].use == RowUse::kFitted) fitted.push_back(all[i]);
      if (const auto remark = remark_on_scale(studies_[s], fitted)) unlikely_studies_.push_back(*remark);
    }
  }

  const Study& study(std::size_t i) const { return studies_[simulator_.rows()[i].study]; }
  const StudyRow& row(std::size_t i) const { return study(i).rows[simulator_.rows()[i].row]; }

  std::vector<std::size_t> every_row() const {
    std::vector<std::size_t> rows(simulator_.rows().size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    return rows;
  }

  std::vector<std::size_t> rows_that(RowUse use) const {
    std::vector<std::size_t> rows;
    for (const std::size_t i : every_row())
      if (row(i).use == use) rows.push_back(i);
    return rows;
  }

  /// The measured step times of the studies, and those of the profile that they do not replace.
  Json with_step_times(Json profile) const {
    using Key = std::array<std::string, 5>;  // model, accelerator, precision, framework, GPUs of the worker
    std::map<std::pair<Key, int>, std::vector<double>> times;
    for (const std::size_t i : rows_that(RowUse::kStepTime)) {
      const Scenario& scenario = simulator_.scenario(i);
      const std::string& metric = study(i).metric;
      if (scenario.count(Role::kWorker) != 1 || scenario.training.strategy.exchange.accumulation_steps != 1)
        throw InputError{place_of(i) + ": a step time is measured with one worker and no accumulation"};
      const auto worker = std::find_if(scenario.groups.begin(), scenario.groups.end(),
                                       [](const Group& group) { return group.role == Role::kWorker; });
      double time = row(i).measured;
      if (metric == "samples_per_s")
        time = worker->batch / time;
      else if (metric == "steps_per_s")
        time = 1 / time;
      else if (metric != "iteration_time_s")
        throw InputError{study(i).file_name + ": /fit/step_times: " + metric + " does not give the time of a step"};
      times[{{scenario.model.name, worker->accelerator->name, to_text(scenario.precision), scenario.framework,
              std::to_string(worker->gpus_per_worker)},
             worker->batch}]
          .push_back(time);
    }
    if (times.empty()) return profile;
    Json entries = Json::array();
    for (const auto& [key, measured] : times) {
      const auto& [model, accelerator, precision, framework, gpus] = key.first;
      entries.push_back(Json{{"model", model}, {"accelerator", accelerator}, {"precision", precision}});
      if (!framework.empty()) entries.back()["framework"] = framework;
      if (gpus != "1") entries.back()["gpus"] = std::stoi(gpus);
      entries.back()["batch"] = key.second;
      entries.back()["time"] = to_text(Seconds{mean(measured)});
    }
    for (const Json& old : profile.value("step_times", Json::array())) {
      const Key key{old.at("model"), old.at("accelerator"), old.at("precision"), old.value("framework", ""),
                    std::to_string(old.value("gpus", 1))};
      if (!times.contains({key, old.at("batch").get<int>()})) entries.push_back(old);
    }
    profile["step_times"] = std::move(entries);
    return profile;
  }

  /// "speeds.csv:12"
  std::string place_of(std::size_t i) const {
    return study(i).measurements_file + ":" + std::to_string(row(i).row.line());
  }

  /// [points] of [all rows, then priors]: ln(simulated / measured) of `rows`, 0 of the others; of priors, if asked for,
  /// what FreeValues says.
  std::vector<Eigen::VectorXd> residuals_of_all(const std::vector<Eigen::VectorXd>& points,
                                                const std::vector<std::size_t>& rows, bool has_priors = true) {
    std::vector<Eigen::VectorXd> all;
    const auto simulated = residuals(points, std::vector(points.size(), rows));
    for (std::size_t p = 0; p < points.size(); ++p) {
      all.emplace_back(Eigen::VectorXd::Zero(counts_.size()));
      all.back()(rows) = simulated[p];
      if (has_priors) all.back().tail(values_.priors()) = values_.prior_residuals(points[p]);
    }
    return all;
  }

  /// [points] of [rows[point]]: ln(simulated / measured).
  std::vector<Eigen::VectorXd> residuals(const std::vector<Eigen::VectorXd>& points,
                                         const std::vector<std::vector<std::size_t>>& rows) {
    std::vector<Json> profiles;
    for (const Eigen::VectorXd& point : points) profiles.push_back(values_.profile_with(point));
    const auto simulated = simulator_.simulate(profiles, rows);
    std::vector<Eigen::VectorXd> there;
    for (std::size_t p = 0; p < points.size(); ++p) {
      there.emplace_back(static_cast<Eigen::Index>(rows[p].size()));
      for (std::size_t k = 0; k < rows[p].size(); ++k)
        there.back()[static_cast<Eigen::Index>(k)] = std::log(simulated[p][k] / row(rows[p][k]).measured);
    }
    return there;
  }

  std::vector<ValidationRow> validation_rows(std::size_t s, const Eigen::VectorXd& of_rows) const {
    std::vector<ValidationRow> rows;
    for (std::size_t i = 0; i < simulator_.rows().size(); ++i) {
      if (simulator_.rows()[i].study != s) continue;
      const double ratio = std::exp(of_rows[static_cast<Eigen::Index>(i)]);
      rows.push_back({.measured = row(i).measured,
                      .simulated = ratio * row(i).measured,
                      .error_pct = 100 * (ratio - 1),
                      .problem = {}});
    }
    return rows;
  }

  std::string describe(const Eigen::VectorXd& of_rows) const {
    std::string text;
    for (std::size_t s = 0; s < studies_.size(); ++s)
      text += (text.empty() ? "" : ", ") + studies_[s].name + " MAPE " +
              short_text(error_statistics(studies_[s], validation_rows(s, of_rows), RowUse::kFitted).mape) + " %";
    return text;
  }

  void progress(const std::string& line) const {
    if (options_.on_progress) options_.on_progress(line);
  }

  void describe_values(Fit& fit, const LinearModel& minimum) const {
    if (values_.size() == 0) return;
    const Eigen::MatrixXd covariances = covariance(minimum, counts_);
    const double width = student_t_95(counts_.sum() - static_cast<double>(values_.size()));
    const Bounds& bounds = values_.bounds();
    const auto text = [&](std::size_t i, const Interval& interval) {
      const auto p = static_cast<Eigen::Index>(i);
      return ValueInterval{values_.text(i, std::max(interval.low, bounds.low[p])),
                           values_.text(i, std::min(interval.high, bounds.high[p]))};
    };
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto p = static_cast<Eigen::Index>(i);
      const double margin = width * std::sqrt(std::max(0.0, covariances(p, p)));
      fit.values.push_back({.pointer = values_.pointer(i),
                            .value = values_.text(i, minimum.at[p]),
                            .interval = text(i, {minimum.at[p] - margin, minimum.at[p] + margin}),
                            .by_rows = {},
                            .by_folds = {}});
    }
    if (options_.bootstrap_draws > 0) {
      Rng draws_of_rows{1, "bootstrap over rows"}, draws_of_folds{1, "bootstrap over folds"};
      const auto intervals = [&](bool of_folds, Rng& draws) {
        return bootstrap_intervals(minimum, blocks(of_folds), bounds, options_.bootstrap_draws, draws, options_.budget);
      };
      const auto by_rows = intervals(false, draws_of_rows);
      const auto by_folds = intervals(true, draws_of_folds);
      for (std::size_t i = 0; i < values_.size(); ++i) {
        fit.values[i].by_rows = text(i, by_rows[i]);
        fit.values[i].by_folds = text(i, by_folds[i]);
      }
    }
    constexpr double kAtBound = 1e-6;  // of logarithms
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto p = static_cast<Eigen::Index>(i);
      const double low = minimum.at[p] - bounds.low[p], high = bounds.high[p] - minimum.at[p];
      if (std::min(low, high) > kAtBound) continue;
      fit.warnings.push_back(values_.pointer(i) + " ends at " + values_.text(i, minimum.at[p]) + ", the " +
                             (low < high ? "least" : "most") + " that it may be: the rows would have it beyond");
    }
    for (const Confusion& confusion : find_confusions(minimum, counts_)) {
      const std::string& first = values_.pointer(confusion.first);
      fit.warnings.push_back(confusion.first == confusion.second
                                 ? "no row depends on " + first
                                 : "the data can hardly tell " + first + " and " + values_.pointer(confusion.second) +
                                       " apart (correlation " + short_text(confusion.correlation) + ")");
    }
  }

  /// Fitted rows that a bootstrap draws together: each alone, or those of a fold of their own study.
  std::vector<std::vector<std::size_t>> blocks(bool of_folds) const {
    std::map<std::vector<std::string>, std::vector<std::size_t>> blocks;
    for (const std::size_t i : every_row()) {
      if (counts_[static_cast<Eigen::Index>(i)] == 0) continue;
      std::vector<std::string> key{study(i).name};
      if (of_folds && !study(i).cross_validate.empty()) {
        const auto values = fold_key(row(i), study(i).cross_validate);
        key.insert(key.end(), values.begin(), values.end());
      } else {
        key.push_back(std::to_string(i));
      }
      blocks[key].push_back(i);
    }
    std::vector<std::vector<std::size_t>> all;
    for (const auto& [key, rows] : blocks) all.push_back(rows);
    return all;
  }

  /// What of a study is left out in turn; empty: nothing.
  using Columns = std::function<std::vector<std::string>(const Study&)>;

  std::vector<Fold> folds(const Columns& columns_of) const {
    std::vector<Fold> folds;
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      const std::vector<std::string> columns = columns_of(studies_[s]);
      if (columns.empty()) continue;
      std::vector<std::size_t> of_study;  // [rows of the study] indices of all rows
      for (const std::size_t i : every_row())
        if (simulator_.rows()[i].study == s) of_study.push_back(i);
      for (const auto& [key, members] : folds_of(studies_[s], columns)) {
        Fold fold{.study = s, .members = {}, .counts = counts_, .at = {}};
        for (const std::size_t row : members) fold.members.push_back(of_study[row]);
        for (const std::size_t i : every_row())
          if (is_left_out(studies_[s], columns, key, study(i), row(i))) fold.counts[static_cast<Eigen::Index>(i)] = 0;
        folds.push_back(std::move(fold));
      }
    }
    return folds;
  }

  std::vector<std::size_t> rows_of(const Fold& fold) const {
    std::vector<std::size_t> rows;
    for (const std::size_t i : every_row())
      if (fold.counts[static_cast<Eigen::Index>(i)] > 0) rows.push_back(i);
    return rows;
  }

  /// Moves each fold from the minimum of the full fit to its own, by the derivatives there. A step whose fold,
  /// simulated again, does not keep a fair part of what the derivatives promise is damped more.
  void refit(std::vector<Fold>& folds, const LinearModel& minimum) {
    const Eigen::VectorXd slope = feigned_slope(minimum, counts_, values_.bounds());
    std::vector<Fold*> moving;
    for (Fold& fold : folds) moving.push_back(&fold);
    double lambda = kFoldDamping;
    for (int attempt = 0; attempt <= kMostChecks; ++attempt, lambda *= 10) {
      std::vector<double> promised;
      std::vector<Eigen::VectorXd> points;
      std::vector<std::vector<std::size_t>> rows;
      std::vector<Fold*> checked;
      for (Fold* fold : moving) {
        const Eigen::VectorXd step = linear_minimum(minimum, fold->counts, values_.bounds(), slope, lambda);
        const double loss = huber_loss(minimum.residuals, fold->counts);
        const double gain = loss - huber_loss(minimum.after(step), fold->counts) + slope.dot(step);
        fold->at = minimum.at + step;
        if (gain < kSurelyNear * loss || attempt == kMostChecks) continue;
        checked.push_back(fold);
        promised.push_back(gain);
        points.push_back(fold->at);
        rows.push_back(rows_of(*fold));
      }
      const auto simulated = residuals(points, rows);
      moving.clear();
      for (std::size_t f = 0; f < checked.size(); ++f) {
        const Eigen::VectorXd& counts = checked[f]->counts;
        Eigen::VectorXd there = minimum.residuals;
        there(rows[f]) = simulated[f];
        there.tail(values_.priors()) = values_.prior_residuals(points[f]);
        const double gain = huber_loss(minimum.residuals, counts) - huber_loss(there, counts);
        if (gain < kFairPart * promised[f]) moving.push_back(checked[f]);
      }
    }
  }

  std::vector<CrossValidation> leave_out(const LinearModel& minimum, const Columns& columns_of) {
    if (values_.size() == 0) return {};
    std::vector<Fold> all = folds(columns_of);
    if (all.empty()) return {};
    refit(all, minimum);
    std::vector<Eigen::VectorXd> points;
    std::vector<std::vector<std::size_t>> rows;
    for (const Fold& fold : all) {
      points.push_back(fold.at);
      rows.push_back(fold.members);
    }
    const auto predicted = residuals(points, rows);
    Eigen::VectorXd held_out = minimum.residuals;
    for (std::size_t f = 0; f < all.size(); ++f)
      for (std::size_t k = 0; k < rows[f].size(); ++k)
        held_out[static_cast<Eigen::Index>(rows[f][k])] = predicted[f][static_cast<Eigen::Index>(k)];
    std::vector<CrossValidation> results;
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      const std::vector<std::string> columns = columns_of(studies_[s]);
      if (columns.empty()) continue;
      CrossValidation result{.study = studies_[s].name,
                             .left_out_by = columns,
                             .rows = validation_rows(s, held_out),
                             .all = {},
                             .groups = {}};
      result.all = error_statistics(studies_[s], result.rows);
      result.groups = group_statistics(studies_[s], result.rows);
      results.push_back(std::move(result));
    }
    return results;
  }

  /// A row that was predicted without having been seen.
  struct Unseen {
    std::size_t row = 0;
    std::vector<std::string> fold;  // rows that were left out together; of one alone its number
    double error = 0;               // ln(predicted / measured) of a speed
  };

  /// Null: the study has none.
  static const CrossValidation* validation_of(const std::string& study, const std::vector<CrossValidation>& all) {
    const auto found = std::ranges::find(all, study, &CrossValidation::study);
    return found == all.end() ? nullptr : &*found;
  }

  /// Rows that only checked the fit and say how fast something is: at most kMostChecking of a study, evenly spread, since
  /// each component moves them once more.
  std::vector<std::size_t> checking_rows() const {
    constexpr std::size_t kMostChecking = 96;
    std::vector<std::vector<std::size_t>> of_study(studies_.size());
    for (const std::size_t i : rows_that(RowUse::kPredicted))
      if (is_speed(study(i).metric)) of_study[simulator_.rows()[i].study].push_back(i);
    std::vector<std::size_t> rows;
    for (const std::vector<std::size_t>& all : of_study) {
      const std::size_t count = std::min(kMostChecking, all.size());
      for (std::size_t k = 0; k < count; ++k) rows.push_back(all[k * all.size() / count]);
    }
    return rows;
  }

  /// ln(predicted / measured) of the row's metric as that of a speed, which PredictionUncertainty is about: a time that is
  /// predicted too long is a speed that is predicted too low.
  double error_of_speed(std::size_t i, double error) const { return is_rate(study(i).metric) ? error : -error; }

  std::vector<Unseen> unseen_rows(const Fit& fit) const {
    std::vector<Unseen> unseen;
    const std::vector<std::size_t> checking = checking_rows();
    for (const std::size_t i : every_row()) {
      const auto [s, r] = simulator_.rows()[i];
      const CrossValidation* validation = validation_of(studies_[s].name, fit.left_out_for_interval);
      if (validation == nullptr) validation = validation_of(studies_[s].name, fit.cross_validated);
      if (row(i).use == RowUse::kStepTime || (validation == nullptr && row(i).use == RowUse::kFitted)) continue;
      if (row(i).use == RowUse::kPredicted && !std::ranges::binary_search(checking, i)) continue;
      Unseen one{.row = i, .fold = {study(i).name}, .error = 0};
      if (validation != nullptr) {
        const auto key = fold_key(row(i), validation->left_out_by);
        one.fold.insert(one.fold.end(), key.begin(), key.end());
      } else {
        one.fold.push_back(std::to_string(i));
      }
      one.error = error_of_speed(
          i, std::log1p((validation != nullptr ? validation->rows[r] : fit.validation[s][r]).error_pct / 100));
      unseen.push_back(std::move(one));
    }
    return unseen;
  }

  /// The 5th and 95th percentile, a little wider for few errors so that another one lies between them as often.
  /// `independent`: errors, or what several errors share, such as sessions of measuring; of few these are all errors.
  static Interval middle_90(const std::vector<double>& errors, std::size_t independent) {
    const auto count = static_cast<double>(independent);
    const double outside = std::max(0.0, 100 - 95 * (count + 1) / count);
    return {percentile(errors, outside), percentile(errors, 100 - outside)};
  }

  void find_uncertainty(Fit& fit, const LinearModel& minimum) {
    std::vector<Unseen> unseen = unseen_rows(fit);
    if (unseen.empty())
      for (const std::size_t i : rows_that(RowUse::kFitted))
        unseen.push_back({i, {std::to_string(i)}, error_of_speed(i, minimum.residuals[static_cast<Eigen::Index>(i)])});
    constexpr std::size_t kFewest = 5;
    if (unseen.size() < kFewest) return;
    std::vector<Eigen::VectorXd> components;
    double seen_variance = 0;
    if (values_.size() > 0 && counts_.sum() > static_cast<double>(values_.size())) {
      seen_variance = std::pow(residual_deviation(minimum, counts_), 2);
      components = components_of(covariance(minimum, counts_));
    }
    const Eigen::VectorXd by_values = variances_by(components, minimum);
    double unseen_variance = 0;  // that the values do not explain
    for (const Unseen& one : unseen)
      unseen_variance +=
          (one.error * one.error - by_values[static_cast<Eigen::Index>(one.row)]) / static_cast<double>(unseen.size());
    PredictionUncertainty& uncertainty = fit.uncertainty;
    uncertainty.residual = std::sqrt(std::max(seen_variance, unseen_variance));
    if (!(uncertainty.residual > 0)) return;
    const Eigen::VectorXd deviations = (by_values.array() + uncertainty.residual * uncertainty.residual).sqrt();
    std::vector<double> errors;
    for (const Unseen& one : unseen) errors.push_back(one.error / deviations[static_cast<Eigen::Index>(one.row)]);
    std::set<std::vector<std::string>> folds;
    for (const Unseen& one : unseen) folds.insert(one.fold);
    const bool shares = !fit.left_out_for_interval.empty();
    const Interval all = middle_90(errors, shares ? folds.size() : errors.size());
    uncertainty.low = all.low;
    uncertainty.high = all.high;
    for (const Eigen::VectorXd& component : components) {
      uncertainty.components.emplace_back();
      for (std::size_t i = 0; i < values_.size(); ++i)
        uncertainty.components.back()[values_.pointer(i)] = component[static_cast<Eigen::Index>(i)];
    }
    fit.interval_rows = unseen.size();
    std::size_t inside = 0;
    for (std::size_t i = 0; i < unseen.size(); ++i) {
      std::vector<double> others;
      for (std::size_t j = 0; j < unseen.size(); ++j)
        if (unseen[j].fold != unseen[i].fold) others.push_back(errors[j]);
      const std::vector<double>& known = others.empty() ? errors : others;
      const Interval interval = middle_90(known, shares ? std::max<std::size_t>(1, folds.size() - 1) : known.size());
      inside += errors[i] >= interval.low && errors[i] <= interval.high ? 1 : 0;
    }
    fit.interval_coverage = static_cast<double>(inside) / static_cast<double>(unseen.size());
  }

  /// [all rows] variance of ln(predicted) that follows from the components.
  Eigen::VectorXd variances_by(const std::vector<Eigen::VectorXd>& components, const LinearModel& minimum) {
    Eigen::VectorXd variances = Eigen::VectorXd::Zero(counts_.size());
    std::vector<Eigen::VectorXd> points;
    for (const Eigen::VectorXd& component : components)
      points.emplace_back((minimum.at + component).cwiseMax(values_.bounds().low).cwiseMin(values_.bounds().high));
    const std::vector<std::size_t> predicted = checking_rows();
    const auto moved = residuals(points, std::vector(points.size(), predicted));
    for (std::size_t k = 0; k < components.size(); ++k) {
      Eigen::VectorXd change = minimum.jacobian * components[k];
      change(predicted) = moved[k] - minimum.residuals(predicted);
      variances += change.cwiseAbs2();
    }
    return variances;
  }

  /// The fitted profile and, under "fit", where it comes from and how far its predictions were off.
  Json profile_file(const Fit& fit, const Eigen::VectorXd& at) const {
    Json profile = values_.profile_with(at);
    for (const FittedValue& value : fit.values) set_json_pointer(profile, value.pointer, value.value);
    const std::size_t free_values = values_.size() + profile.value("step_times", Json::array()).size();
    profile["fit"] = fit_record(fit, {studies_, simulator_, counts_, free_values, options_.command});
    return profile;
  }

  const std::vector<Study>& studies_;
  const FitOptions& options_;
  RowSimulator simulator_;
  Json profile_;  // from which the fit starts
  FreeValues values_;
  Eigen::VectorXd counts_;  // [rows, then priors] 1 for those that satisfy their study's fit.where, and for priors
  std::vector<std::string> unlikely_studies_;  // as remark_on_scale() says, before the fit
  std::string stage_;
};

}  // namespace

Fit fit_profile(const std::vector<Study>& studies, const Json& profile, const std::string& profile_file,
                const Catalog& catalog, const FitOptions& options) {
  return Fitter{studies, profile, profile_file, catalog, options}.run();
}

}  // namespace rehearse
