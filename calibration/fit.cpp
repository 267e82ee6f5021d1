#include "calibration/fit.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/profile.hpp"
#include "sim/base/files.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

namespace {

constexpr double kHuber = 0.10;  // residuals beyond 10 % count linearly
constexpr double kDifference =
    0.03;                           // relative step of finite differences: large against the graininess of a simulation
constexpr int kMostRefitSteps = 4;  // of each fit without a fold
constexpr double kLargestStep = 0.7;  // of the logarithm of a value, per iteration

std::string short_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

/// Values of a profile as positive numbers, whatever their unit.
class FreeValues {
 public:
  FreeValues(const Json& profile, const std::string& file_name, const std::vector<std::string>& pointers)
      : profile_{profile}, file_name_{file_name}, pointers_{pointers} {
    for (const std::string& pointer : pointers) {
      const Json* value = json_pointer_find(profile, pointer);
      if (value == nullptr)
        throw InputError{file_name + ": " + pointer + ": a study wants to fit this value, but the profile has none"};
      is_text_.push_back(value->is_string());
      start_.push_back(is_text_.back() ? number_of(*value, pointer) : value->is_number() ? value->get<double>() : 0);
      if (!(start_.back() > 0))
        throw InputError{file_name + ": " + pointer + ": expected a value above 0 to start the fit from; found " +
                         value->dump()};
    }
  }

  std::size_t size() const { return pointers_.size(); }
  const std::vector<std::string>& pointers() const { return pointers_; }
  Eigen::VectorXd start() const {
    Eigen::VectorXd logs(static_cast<Eigen::Index>(size()));
    for (std::size_t i = 0; i < size(); ++i) logs[static_cast<Eigen::Index>(i)] = std::log(start_[i]);
    return logs;
  }

  /// The profile with these values (logarithms), rounded to four digits so that the file says all there is.
  Json profile_with(const Eigen::VectorXd& logs) const {
    Json profile = profile_;
    for (std::size_t i = 0; i < size(); ++i)
      set_json_pointer(profile, pointers_[i], text(i, logs[static_cast<Eigen::Index>(i)], 8));
    return profile;
  }

  /// A value as the file has it, at `digits` significant digits.
  std::string text(std::size_t i, double log_value, int digits = 4) const {
    std::array<char, 40> rounded{};
    std::snprintf(rounded.data(), rounded.size(), "%.*g", digits, std::exp(log_value));
    const double value = std::strtod(rounded.data(), nullptr);
    return is_text_[i] ? to_text(Seconds{value}) : to_text(value);
  }

  /// Whether the profile's reader accepts the values: shares at most 1, and so on.
  bool is_valid(const Eigen::VectorXd& logs) const {
    try {
      const Json profile = profile_with(logs);
      (void)read_profile(JsonReader{profile, file_name_});
      return true;
    } catch (const InputError&) { return false; }
  }

 private:
  double number_of(const Json& value, const std::string& pointer) const {
    try {
      return parse_seconds(value.get<std::string>()).value();
    } catch (const QuantityError&) {
      throw InputError{file_name_ + ": " + pointer + ": only plain numbers and times can be fitted; found " +
                       value.dump()};
    }
  }

  const Json& profile_;
  std::string file_name_;
  std::vector<std::string> pointers_;
  std::vector<bool> is_text_;
  std::vector<double> start_;
};

/// A row of one of the studies.
struct Sample {
  std::size_t study = 0, row = 0;
  double measured = 0;
  bool is_fitted = true;  // satisfies the study's fit.where
};

class Fitter {
 public:
  Fitter(const std::vector<Study>& studies, const Json& profile, const std::string& profile_file,
         const Catalog& catalog, const FitOptions& options)
      : studies_{studies},
        catalog_{catalog},
        options_{options},
        profile_file_{profile_file},
        values_{profile, profile_file, pointers(studies)} {
    for (std::size_t s = 0; s < studies.size(); ++s)
      for (std::size_t r = 0; r < studies[s].rows.size(); ++r) {
        const StudyRow& row = studies[s].rows[r];
        if (!row.problem.empty())
          throw InputError{studies[s].measurements_file + ":" + std::to_string(row.row.line()) + ": " + row.problem};
        samples_.push_back({s, r, row.measured, row.fits(studies[s].fit_where)});
      }
  }

  Fit run() {
    Eigen::VectorXd at = values_.start();
    for (Eigen::Index i = 0; i < at.size(); ++i)
      if (!values_.is_valid(at)) throw InputError{profile_file_ + ": the fit cannot start from these values"};
    Eigen::VectorXd residuals = simulate(at, all());
    double loss = huber_loss(residuals, fitted());
    progress("start: " + describe(residuals));
    double lambda = 1e-3;
    Eigen::MatrixXd jacobian;
    for (int iteration = 1; iteration <= options_.most_iterations; ++iteration) {
      jacobian = derivatives(at, residuals);
      bool has_improved = false, has_converged = false;
      for (int attempt = 0; attempt < 5 && !has_improved; ++attempt) {
        const Eigen::VectorXd candidate = stepped(at, gauss_newton_step(jacobian, residuals, fitted(), lambda));
        const Eigen::VectorXd candidate_residuals = simulate(candidate, all());
        const double candidate_loss = huber_loss(candidate_residuals, fitted());
        if (candidate_loss < loss) {
          has_improved = true;
          has_converged = loss - candidate_loss < 1e-3 * loss;
          at = candidate;
          residuals = candidate_residuals;
          loss = candidate_loss;
          lambda = std::max(lambda / 5, 1e-8);
        } else {
          lambda *= 8;
        }
      }
      progress("iteration " + std::to_string(iteration) + ": " + describe(residuals));
      if (!has_improved || has_converged) break;
    }
    jacobian = derivatives(at, residuals);
    return report(at, residuals, jacobian);
  }

 private:
  static std::vector<std::string> pointers(const std::vector<Study>& studies) {
    std::vector<std::string> all;
    for (const Study& study : studies)
      for (const std::string& pointer : study.free)
        if (std::find(all.begin(), all.end(), pointer) == all.end()) all.push_back(pointer);
    if (all.empty())
      throw InputError{studies.front().file_name + ": /fit/free: expected at least one value to fit; found none"};
    return all;
  }

  std::vector<std::size_t> all() const {
    std::vector<std::size_t> samples(samples_.size());
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = i;
    return samples;
  }
  std::vector<bool> fitted() const {
    std::vector<bool> mask;
    for (const Sample& sample : samples_) mask.push_back(sample.is_fitted);
    return mask;
  }

  /// ln(simulated / measured) of the samples, in their order.
  Eigen::VectorXd simulate(const Eigen::VectorXd& at, const std::vector<std::size_t>& samples) const {
    const std::string profile = to_json_text(values_.profile_with(at));
    Eigen::VectorXd residuals(static_cast<Eigen::Index>(samples.size()));
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      std::vector<std::string> scenarios;
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const Sample& sample = samples_[samples[i]];
        if (sample.study != s) continue;
        Json scenario = parse_json(studies_[s].rows[sample.row].scenario, studies_[s].scenario_file);
        scenario["calibration"] = parse_json(profile, profile_file_);
        scenarios.push_back(to_json_text(scenario));
        places.push_back(i);
      }
      const auto predictions =
          predict(scenarios, studies_[s].scenario_file, studies_[s].metric, catalog_, options_.parallel);
      for (std::size_t i = 0; i < places.size(); ++i) {
        const Sample& sample = samples_[samples[places[i]]];
        if (!predictions[i].value || !(*predictions[i].value > 0))
          throw InputError{studies_[s].measurements_file + ":" +
                           std::to_string(studies_[s].rows[sample.row].row.line()) +
                           ": cannot be simulated: " + predictions[i].problem};
        residuals[static_cast<Eigen::Index>(places[i])] = std::log(*predictions[i].value / sample.measured);
      }
    }
    return residuals;
  }

  Eigen::MatrixXd derivatives(const Eigen::VectorXd& at, const Eigen::VectorXd& residuals) const {
    Eigen::MatrixXd jacobian(residuals.size(), at.size());
    for (Eigen::Index p = 0; p < at.size(); ++p) {
      Eigen::VectorXd moved = at;
      moved[p] += kDifference;
      double difference = kDifference;
      if (!values_.is_valid(moved)) {  // at its upper limit
        moved[p] = at[p] - kDifference;
        difference = -kDifference;
      }
      jacobian.col(p) = (simulate(moved, all()) - residuals) / difference;
      progress("derivative " + std::to_string(p + 1) + " of " + std::to_string(at.size()), true);
    }
    return jacobian;
  }

  static double weight(double residual) { return std::min(1.0, kHuber / std::max(std::abs(residual), 1e-300)); }

  static double huber_loss(const Eigen::VectorXd& residuals, const std::vector<bool>& mask) {
    double loss = 0;
    for (Eigen::Index i = 0; i < residuals.size(); ++i) {
      if (!mask[static_cast<std::size_t>(i)]) continue;
      const double size = std::abs(residuals[i]);
      loss += size <= kHuber ? size * size / 2 : kHuber * (size - kHuber / 2);
    }
    return loss;
  }

  static Eigen::MatrixXd normal_matrix(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& weights) {
    return jacobian.transpose() * weights.asDiagonal() * jacobian;
  }

  static Eigen::VectorXd masked_weights(const Eigen::VectorXd& residuals, const std::vector<bool>& mask) {
    Eigen::VectorXd weights(residuals.size());
    for (Eigen::Index i = 0; i < residuals.size(); ++i)
      weights[i] = mask[static_cast<std::size_t>(i)] ? weight(residuals[i]) : 0;
    return weights;
  }

  static Eigen::VectorXd gauss_newton_step(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& residuals,
                                           const std::vector<bool>& mask, double lambda) {
    const Eigen::VectorXd weights = masked_weights(residuals, mask);
    Eigen::MatrixXd normal = normal_matrix(jacobian, weights);
    normal.diagonal() += lambda * normal.diagonal() + Eigen::VectorXd::Constant(normal.rows(), 1e-9);
    return normal.ldlt().solve(-(jacobian.transpose() * (weights.asDiagonal() * residuals)));
  }

  /// Takes the step, value by value, as far as the profile's limits allow.
  Eigen::VectorXd stepped(const Eigen::VectorXd& from, const Eigen::VectorXd& step) const {
    Eigen::VectorXd to = from;
    for (Eigen::Index p = 0; p < from.size(); ++p) {
      double move = std::clamp(step[p], -kLargestStep, kLargestStep);
      for (int halving = 0; halving < 12; ++halving, move /= 2) {
        to[p] = from[p] + move;
        if (values_.is_valid(to)) break;
        to[p] = from[p];
      }
    }
    return to;
  }

  std::vector<ValidationRow> rows_of(std::size_t study, const Eigen::VectorXd& residuals) const {
    std::vector<ValidationRow> rows;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (samples_[i].study != study) continue;
      const double ratio = std::exp(residuals[static_cast<Eigen::Index>(i)]);
      rows.push_back({.measured = samples_[i].measured,
                      .simulated = ratio * samples_[i].measured,
                      .error_pct = 100 * (ratio - 1)});
    }
    return rows;
  }

  std::string describe(const Eigen::VectorXd& residuals) const {
    std::string text;
    for (std::size_t s = 0; s < studies_.size(); ++s)
      text += (text.empty() ? "" : ", ") + studies_[s].name + " MAPE " +
              short_text(error_statistics(studies_[s], rows_of(s, residuals)).mape) + " %";
    return text;
  }

  void progress(const std::string& line, bool is_detail = false) const {
    if (options_.on_progress && !is_detail) options_.on_progress(line);
  }

  /// Residuals of all samples after a fit to those of `mask`, from the full fit and with its derivatives.
  Eigen::VectorXd refit(const std::vector<bool>& mask, Eigen::VectorXd at, Eigen::VectorXd residuals,
                        const Eigen::MatrixXd& jacobian) const {
    double loss = huber_loss(residuals, mask);
    double lambda = 1e-3;
    for (int attempt = 0; attempt < kMostRefitSteps; ++attempt) {
      const Eigen::VectorXd candidate = stepped(at, gauss_newton_step(jacobian, residuals, mask, lambda));
      const Eigen::VectorXd candidate_residuals = simulate(candidate, all());
      const double candidate_loss = huber_loss(candidate_residuals, mask);
      if (candidate_loss >= loss) {
        lambda = std::max(lambda, 1e-2) * 10;
        continue;
      }
      const bool has_converged = loss - candidate_loss < 2e-3 * loss;
      at = candidate;
      residuals = candidate_residuals;
      loss = candidate_loss;
      if (has_converged) break;
    }
    return residuals;
  }

  CrossValidation cross_validate(std::size_t s, const Eigen::VectorXd& at, const Eigen::VectorXd& residuals,
                                 const Eigen::MatrixXd& jacobian) const {
    const Study& study = studies_[s];
    std::map<std::vector<std::string>, std::vector<std::size_t>>
        folds;  // values of the columns -> samples of this study
    for (std::size_t i = 0; i < samples_.size(); ++i)
      if (samples_[i].study == s) folds[key_of(i, study.cross_validate)].push_back(i);
    Eigen::VectorXd held_out = residuals;
    for (const auto& [key, members] : folds) {
      std::vector<bool> mask = fitted();
      for (std::size_t i = 0; i < samples_.size(); ++i)
        if (is_left_out_with(i, s) && key_of(i, study.cross_validate) == key) mask[i] = false;
      const Eigen::VectorXd predicted = refit(mask, at, residuals, jacobian);
      for (const std::size_t member : members)
        held_out[static_cast<Eigen::Index>(member)] = predicted[static_cast<Eigen::Index>(member)];
    }
    CrossValidation result{.study = study.name, .left_out_by = study.cross_validate, .all = {}, .groups = {}};
    const auto rows = rows_of(s, held_out);
    result.all = error_statistics(study, rows);
    result.groups = group_statistics(study, rows);
    for (const ValidationRow& row : rows) held_out_errors_.push_back(std::abs(row.error_pct) / 100);
    return result;
  }

  /// Whether a sample can belong to a fold of `study`: it is one of its rows, or another study's with the same columns.
  bool is_left_out_with(std::size_t sample, std::size_t study) const {
    if (samples_[sample].study == study) return true;
    const std::vector<std::string>& columns = studies_[study].cross_validate;
    const CsvTable& table = *studies_[samples_[sample].study].table;
    return studies_[study].leaves_out_of_all_studies &&
           std::all_of(columns.begin(), columns.end(),
                       [&](const std::string& column) { return table.has_column(column); });
  }
  std::vector<std::string> key_of(std::size_t sample, const std::vector<std::string>& columns) const {
    std::vector<std::string> key;
    for (const std::string& column : columns)
      key.emplace_back(studies_[samples_[sample].study].rows[samples_[sample].row].row.text(column));
    return key;
  }

  /// What the fit has seen: a scenario outside of it gets a warning.
  Json seen() const {
    std::set<std::string> accelerators, models;
    int batch_min = 1 << 30, batch_max = 0, workers = 0, servers = 0;
    for (const Sample& sample : samples_) {
      const Study& study = studies_[sample.study];
      const Json json = parse_json(study.rows[sample.row].scenario, study.scenario_file);
      const Scenario scenario = read_scenario(json, study.scenario_file, catalog_);
      for (const Group& group : scenario.groups)
        if (group.accelerator) accelerators.insert(group.accelerator->name);
      models.insert(scenario.model.name);
      batch_min = std::min(batch_min, scenario.batch);
      batch_max = std::max(batch_max, scenario.batch);
      workers = std::max(workers, scenario.count(Role::kWorker));
      servers = std::max(servers, scenario.count(Role::kParameterServer));
    }
    return Json{{"accelerators", accelerators}, {"models", models},       {"batch_min", batch_min},
                {"batch_max", batch_max},       {"workers_max", workers}, {"servers_max", servers}};
  }

  Fit report(const Eigen::VectorXd& at, const Eigen::VectorXd& residuals, const Eigen::MatrixXd& jacobian) {
    Fit fit;
    fit.rows = static_cast<std::size_t>(
        std::count_if(samples_.begin(), samples_.end(), [](const Sample& sample) { return sample.is_fitted; }));
    const Eigen::VectorXd weights = masked_weights(residuals, fitted());
    Eigen::MatrixXd normal = normal_matrix(jacobian, weights);
    normal.diagonal().array() += 1e-9;
    const double freedom = std::max(1.0, static_cast<double>(fit.rows) - static_cast<double>(values_.size()));
    const double variance = residuals.cwiseAbs2().dot(weights) / freedom;
    const Eigen::MatrixXd covariance =
        variance * normal.ldlt().solve(Eigen::MatrixXd::Identity(normal.rows(), normal.cols()));
    for (std::size_t p = 0; p < values_.size(); ++p) {
      const auto i = static_cast<Eigen::Index>(p);
      const double spread = 1.96 * std::sqrt(std::max(0.0, covariance(i, i)));
      fit.values.push_back({values_.pointers()[p], values_.text(p, at[i]), values_.text(p, at[i] - spread),
                            values_.text(p, at[i] + spread)});
      for (std::size_t q = 0; q < p; ++q) {
        const auto j = static_cast<Eigen::Index>(q);
        const double correlation = covariance(i, j) / std::sqrt(std::max(1e-300, covariance(i, i) * covariance(j, j)));
        if (std::abs(correlation) > 0.97)
          fit.warnings.push_back("the data can hardly tell " + values_.pointers()[q] + " and " + values_.pointers()[p] +
                                 " apart (correlation " + short_text(correlation) + ")");
      }
    }
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      fit.in_sample.push_back(error_statistics(studies_[s], rows_of(s, residuals)));
      if (!studies_[s].cross_validate.empty()) {
        fit.cross_validated.push_back(cross_validate(s, at, residuals, jacobian));
        progress("cross-validated " + studies_[s].name + ": MAPE " + short_text(fit.cross_validated.back().all.mape) +
                 " %");
      }
    }

    Json profile = values_.profile_with(at);
    for (std::size_t p = 0; p < values_.size(); ++p)
      set_json_pointer(profile, fit.values[p].pointer, fit.values[p].value);
    profile.erase("fit");
    Json& record = profile["fit"];
    record["command"] = options_.command;
    record["rows"] = fit.rows;
    Json& studies = record["studies"] = Json::array();
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      const std::filesystem::path data{studies_[s].measurements_file};
      std::array<char, 17> hash{};
      std::snprintf(hash.data(), hash.size(), "%016llx",
                    static_cast<unsigned long long>(fnv1a(read_file(data, 256 * kMiB))));
      Json entry{{"study", studies_[s].name},
                 {"measurements", data.filename().string()},
                 {"measurements_fnv1a", hash.data()},
                 {"rows", fit.in_sample[s].rows},
                 {"mape", rounded(fit.in_sample[s].mape)}};
      for (const CrossValidation& validation : fit.cross_validated)
        if (validation.study == studies_[s].name) {
          entry["left_out_by"] = validation.left_out_by;
          entry["cross_validated_mape"] = rounded(validation.all.mape);
          for (const auto& [label, statistics] : validation.groups)
            entry["cross_validated_mape_by_group"][label] = rounded(statistics.mape);
        }
      studies.push_back(std::move(entry));
    }
    record["error_p90"] = rounded(held_out_errors_.empty() ? 0 : percentile(held_out_errors_, 90));
    Json& values = record["values"] = Json::array();
    for (const FittedValue& value : fit.values)
      values.push_back(
          Json{{"pointer", value.pointer}, {"value", value.value}, {"low_95", value.low}, {"high_95", value.high}});
    record["seen"] = seen();
    fit.profile = to_json_text(profile);
    return fit;
  }

  static double rounded(double value) { return std::round(value * 1e4) / 1e4; }

  const std::vector<Study>& studies_;
  const Catalog& catalog_;
  const FitOptions& options_;
  std::string profile_file_;
  FreeValues values_;
  std::vector<Sample> samples_;
  mutable std::vector<double> held_out_errors_;
};

}  // namespace

Fit fit_profile(const std::vector<Study>& studies, const Json& profile, const std::string& profile_file,
                const Catalog& catalog, const FitOptions& options) {
  return Fitter{studies, profile, profile_file, catalog, options}.run();
}

}  // namespace rehearse
