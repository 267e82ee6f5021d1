#include "calibration/baselines.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/detail/folds.hpp"
#include "calibration/detail/like_rows.hpp"
#include "calibration/detail/regressor.hpp"
#include "calibration/row_facts.hpp"
#include "platforms/profile.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

using RegressionKind = RegressionSettings::Kind;
constexpr std::size_t kFewestForRegression = 3;  // of a regression

/// A row whose scenario can be read.
struct KnownRow {
  const Study* study = nullptr;
  const StudyRow* row = nullptr;
  RowFacts facts;
  std::vector<double> logarithms;  // of facts.numbers
  double time = 0;                 // measured
};

std::optional<KnownRow> read_row(const Study& study, const StudyRow& row, const Catalog& catalog) {
  if (row.scenario.empty()) return {};
  try {
    const Scenario scenario =
        read_scenario(parse_json(row.scenario, study.scenario_file), study.scenario_file, catalog, row.origins);
    KnownRow known{.study = &study,
                   .row = &row,
                   .facts = read_facts(scenario, study.metric, row.probability),
                   .logarithms = {},
                   .time = 0};
    known.time = known.facts.time_of(row.measured);
    for (const double number : known.facts.numbers) known.logarithms.push_back(std::log(number));
    return known;
  } catch (const std::runtime_error&) {
    return {};  // the study says so beside its simulated value
  }
}

Eigen::VectorXd vector_of(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

Eigen::MatrixXd matrix_of(const std::vector<std::vector<double>>& rows) {
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(rows.front().size()));
  for (std::size_t i = 0; i < rows.size(); ++i) matrix.row(static_cast<Eigen::Index>(i)) = vector_of(rows[i]);
  return matrix;
}

bool is_single(const RowFacts& facts) { return facts.all_workers() <= 1 && facts.workers.front().gpus <= 1; }

double gpus_of(const RowFacts& facts) {
  double gpus = 0;
  for (const WorkerFacts& worker : facts.workers) gpus += worker.workers * worker.gpus;
  return gpus;
}

/// Time of a round of workers that do not wait for one another, whose own steps take `time_of(worker)`.
template <class TimeOf>
std::optional<double> added_up(const RowFacts& facts, TimeOf time_of) {
  double speed = 0;
  for (const WorkerFacts& worker : facts.workers) {
    const std::optional<double> time = time_of(worker);
    if (!time || !(*time > 0)) return {};
    speed += worker.workers * worker.batch / *time;
  }
  return facts.samples_of_a_round() / speed;
}

/// Predictions from the known rows of one fold.
class FoldPredictor {
 public:
  FoldPredictor(std::vector<const KnownRow*> known, const Profile& profile)
      : known_{std::move(known)}, profile_{profile} {
    for (const KnownRow* row : known_)
      if (row->facts.bound) {
        for (const WorkerFacts& worker : row->facts.workers) factors_.add(worker.gpu, row->time, *row->facts.bound);
        factors_.add("", row->time, *row->facts.bound);
      }
  }

  std::optional<double> predict(StudyBaseline baseline, const KnownRow& row) {
    switch (baseline) {
      case StudyBaseline::kCmDareLinear:
        return by_cm_dare(RegressionKind::kLinear, row.facts);
      case StudyBaseline::kCmDarePolynomial:
        return by_cm_dare(RegressionKind::kPolynomial, row.facts);
      case StudyBaseline::kCmDareRadial:
        return by_cm_dare(RegressionKind::kRadial, row.facts);
      case StudyBaseline::kRegressionLinear:
        return by_regression(RegressionKind::kLinear, row);
      case StudyBaseline::kRegressionPolynomial:
        return by_regression(RegressionKind::kPolynomial, row);
      case StudyBaseline::kRegressionRadial:
        return by_regression(RegressionKind::kRadial, row);
      case StudyBaseline::kLinearScaling:
        return by_scaling(row.facts);
      case StudyBaseline::kNearestRow:
        return by_nearest(row);
      case StudyBaseline::kRoofline:
        return by_roofline(row.facts);
      case StudyBaseline::kPowerLimit:
        return row.facts.limit;
      case StudyBaseline::kPowerShare:
        return by_share_of_limit(row.facts);
    }
    return {};
  }

 private:
  std::optional<double> by_cm_dare(RegressionKind kind, const RowFacts& facts) {
    if (facts.kind == FactsOf::kCheckpoint) {
      const Regressor* regressor = cm_dare_regressor(kind, "checkpoint");
      if (regressor == nullptr) return {};
      return regressor->predict(Eigen::VectorXd::Constant(1, facts.checkpoint_bytes));
    }
    if (facts.kind != FactsOf::kSpeed) return {};
    return added_up(facts, [&](const WorkerFacts& worker) -> std::optional<double> {
      const double flops = worker.flops * worker.gpus;
      if (const Regressor* own = cm_dare_regressor(kind, worker.gpu))
        return own->predict(Eigen::VectorXd::Constant(1, flops));
      const Regressor* of_all = cm_dare_regressor(kind, "");
      if (of_all == nullptr) return {};
      return of_all->predict(Eigen::VectorXd::Constant(1, flops / worker.peak));
    });
  }

  /// Of single workers with `gpu`, of all if it is empty, or of checkpoints; null if there are too few.
  const Regressor* cm_dare_regressor(RegressionKind kind, const std::string& gpu) {
    const auto key = std::pair{kind, gpu};
    if (const auto made = cm_dare_.find(key); made != cm_dare_.end()) return made->second ? &*made->second : nullptr;
    std::vector<std::vector<double>> x;
    std::vector<double> y;
    std::set<double> different;
    for (const KnownRow* row : known_) {
      const WorkerFacts& worker = row->facts.workers.front();
      if (gpu == "checkpoint")
        x.push_back({row->facts.checkpoint_bytes});
      else if (is_single(row->facts) && (gpu.empty() || worker.gpu == gpu))
        x.push_back({gpu.empty() ? worker.flops / worker.peak : worker.flops});
      else
        continue;
      different.insert(x.back().front());
      y.push_back(row->time);
    }
    RegressionSettings settings{.kind = kind};
    if (gpu == "checkpoint" && kind == RegressionKind::kRadial) {
      settings.cost = 10;
      settings.tube = 0.14;
    }
    std::optional<Regressor>& regressor = cm_dare_[key];
    if (different.size() >= kFewestForRegression) regressor.emplace(matrix_of(x), vector_of(y), settings);
    return regressor ? &*regressor : nullptr;
  }

  /// Logarithms of the numbers, and 1 for each word of the known rows that this one has.
  std::vector<double> features_of(const KnownRow& row) const {
    std::vector<double> features = row.logarithms;
    for (const auto& [position, word] : words_) features.push_back(row.facts.words[position] == word ? 1 : 0);
    return features;
  }

  std::optional<double> by_regression(RegressionKind kind, const KnownRow& row) {
    if (known_.size() < kFewestForRegression || known_.front()->facts.kind != row.facts.kind) return {};
    std::optional<Regressor>& regressor = regressors_[kind];
    if (!regressor) {
      for (const KnownRow* known : known_)
        for (std::size_t i = 0; i < known->facts.words.size(); ++i) words_.insert({i, known->facts.words[i]});
      std::vector<std::vector<double>> x;
      std::vector<double> y;
      for (const KnownRow* known : known_) {
        x.push_back(features_of(*known));
        y.push_back(std::log(known->time));
      }
      constexpr double kRidge = 1e-3;
      regressor.emplace(matrix_of(x), vector_of(y), RegressionSettings{.kind = kind, .ridge = kRidge});
    }
    return std::exp(regressor->predict(vector_of(features_of(row))));
  }

  std::optional<double> by_scaling(const RowFacts& facts) const {
    if (facts.kind != FactsOf::kSpeed) return {};
    return added_up(facts, [&](const WorkerFacts& worker) -> std::optional<double> {
      const KnownRow* best = nullptr;
      std::pair<double, double> least;
      for (const KnownRow* row : known_) {
        const RowFacts& known = row->facts;
        const WorkerFacts& alike = known.workers.front();
        if (known.workers.size() != 1 || known.model != facts.model || alike.gpu != worker.gpu ||
            known.precision != facts.precision || known.framework != facts.framework)
          continue;
        const std::pair distance{gpus_of(known),
                                 std::abs(std::log(alike.batch / alike.gpus / (worker.batch / worker.gpus)))};
        if (best != nullptr && !(distance < least)) continue;
        best = row;
        least = distance;
      }
      const std::optional<double> stated = stated_step_time(profile_, facts, worker);
      if (best == nullptr || (stated && !is_single(best->facts))) return stated;
      const WorkerFacts& alike = best->facts.workers.front();
      return best->time * (worker.batch / worker.gpus) / (alike.batch / alike.gpus);
    });
  }

  std::optional<double> by_nearest(const KnownRow& row) const {
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < known_.size(); ++i)
      if (known_[i]->facts.kind == row.facts.kind) candidates.push_back(i);
    const auto found = nearest_of(candidates, [&](std::size_t i) {
      const KnownRow& known = *known_[i];
      double distance = squared_distance(known.logarithms, row.logarithms);
      for (std::size_t w = 0; w < row.facts.words.size(); ++w)
        distance += known.facts.words[w] == row.facts.words[w] ? 0 : 1;
      return distance;
    });
    if (!found) return {};
    const KnownRow& like = *known_[*found];
    return row.facts.bound && like.facts.bound ? like.time * *row.facts.bound / *like.facts.bound : like.time;
  }

  std::optional<double> by_roofline(const RowFacts& facts) const {
    if (!facts.bound) return {};
    std::optional<double> factor = factors_.of(facts.workers.front().gpu);
    if (!factor) factor = factors_.of("");
    if (!factor) return {};
    return *factor * *facts.bound;
  }

  std::optional<double> by_share_of_limit(const RowFacts& facts) const {
    std::vector<double> shares;
    for (const KnownRow* row : known_)
      if (row->facts.limit) shares.push_back(row->time / *row->facts.limit);
    if (!facts.limit || shares.empty()) return {};
    return *facts.limit * median(shares);
  }

  std::vector<const KnownRow*> known_;
  const Profile& profile_;
  BoundFactors factors_;  // by GPU, and of all
  std::set<std::pair<std::size_t, std::string>> words_;
  std::map<RegressionKind, std::optional<Regressor>> regressors_;
  std::map<std::pair<RegressionKind, std::string>, std::optional<Regressor>> cm_dare_;
};

/// The other studies that the profile was fitted to, if they lie beside this one.
std::vector<Study> companions_of(const Study& study, const Json& profile) {
  std::vector<Study> companions;
  for (const Json& record : profile.value("/fit/studies"_json_pointer, Json::array())) {
    const auto name = record.value("study", std::string{});
    const std::filesystem::path file = std::filesystem::path{study.file_name}.parent_path() / (name + ".json");
    if (record.contains("rows") && name != study.name &&
        std::filesystem::exists(file))  // stated by hand: fitted to none
      companions.push_back(std::move(load_studies(file).front()));
  }
  return companions;
}

/// Whether values of one metric tell of the other: all speeds are times of steps.
bool is_comparable(const std::string& metric, const std::string& other) {
  return metric == other || (facts_of(metric) == FactsOf::kSpeed && facts_of(other) == FactsOf::kSpeed);
}

/// Rows that are predicted together, and those that are known then.
struct BaselineFold {
  std::vector<std::size_t> predicted;  // of the study
  std::vector<const KnownRow*> known;
};

class Comparer {
 public:
  Comparer(const Study& study, StudyQuality::Of quality, const Json& profile, const Catalog& catalog)
      : study_{study}, quality_{quality}, companions_{companions_of(study, profile)} {
    for (const StudyRow& row : study.rows) own_.push_back(read_row(study, row, catalog));
    for (const Study& companion : companions_)
      for (const StudyRow& row : companion.rows)
        if (row.use != RowUse::kPredicted && is_comparable(companion.metric, study.metric))
          if (auto known = read_row(companion, row, catalog)) others_.push_back(std::move(*known));
  }

  std::vector<BaselineFold> folds(std::string& known_rows) const {
    if (quality_ == StudyQuality::Of::kCrossValidated) return of_fit(known_rows);
    if (quality_ == StudyQuality::Of::kPredicted)
      if (BaselineFold fold = of_seen_rows(); !fold.known.empty()) {
        known_rows = "the " + std::to_string(fold.known.size()) + " rows that its fit knows";
        return {std::move(fold)};
      }
    known_rows = "all other rows of the study, though its fit knows none";
    if (quality_ == StudyQuality::Of::kFitted) known_rows = "all other rows of the study, of which its fit knows all";
    return of_scenarios();
  }

  const std::optional<KnownRow>& row(std::size_t i) const { return own_[i]; }

 private:
  /// Of the rows that the fit has seen or that give step times, those for which `is_known(study, row)`.
  template <class IsKnown>
  std::vector<const KnownRow*> seen_rows(IsKnown is_known) const {
    std::vector<const KnownRow*> known;
    const auto add = [&](const KnownRow& row) {
      if (row.row->use != RowUse::kPredicted && is_known(*row.study, *row.row)) known.push_back(&row);
    };
    for (const std::optional<KnownRow>& row : own_)
      if (row) add(*row);
    for (const KnownRow& row : others_) add(row);
    return known;
  }

  std::vector<BaselineFold> of_fit(std::string& known_rows) const {
    std::vector<BaselineFold> folds;
    for (const auto& [key, members] : folds_of(study_, study_.cross_validate)) {
      const FoldKey& left_out = key;
      folds.push_back({.predicted = members, .known = seen_rows([&](const Study& other, const StudyRow& row) {
                                               return row.use == RowUse::kStepTime ||
                                                      !is_left_out(study_, study_.cross_validate, left_out, other, row);
                                             })});
    }
    known_rows = "rows with another";
    for (const std::string& column : study_.cross_validate)
      known_rows += (&column == study_.cross_validate.data() ? " " : " or ") + column;
    std::set<std::string> names;
    for (const KnownRow& other : others_) names.insert(other.study->name);
    for (const std::string& name : names) known_rows += ", " + name;
    return folds;
  }

  BaselineFold of_seen_rows() const {
    BaselineFold fold{.predicted = {}, .known = seen_rows([](const Study&, const StudyRow&) { return true; })};
    for (std::size_t i = 0; i < study_.rows.size(); ++i)
      if (is_scored(study_.rows[i], quality_)) fold.predicted.push_back(i);
    return fold;
  }

  std::vector<BaselineFold> of_scenarios() const {
    std::map<std::string, std::vector<std::size_t>> members;
    for (std::size_t i = 0; i < study_.rows.size(); ++i)
      if (is_scored(study_.rows[i], quality_)) members[study_.rows[i].scenario].push_back(i);
    std::vector<BaselineFold> folds;
    for (const auto& [scenario, rows] : members) {
      BaselineFold fold{.predicted = rows, .known = {}};
      for (const std::optional<KnownRow>& row : own_)
        if (row && row->row->scenario != scenario) fold.known.push_back(&*row);
      folds.push_back(std::move(fold));
    }
    return folds;
  }

  const Study& study_;
  StudyQuality::Of quality_;
  std::vector<Study> companions_;
  std::vector<std::optional<KnownRow>> own_;  // [study rows]
  std::vector<KnownRow> others_;
};

}  // namespace

const BaselineResult* BaselineComparison::best() const {
  const auto least = std::ranges::min_element(results, {}, [](const BaselineResult& r) { return r.errors.mape; });
  return least == results.end() ? nullptr : &*least;
}

BaselineComparison compare_baselines(const Study& study, StudyQuality::Of quality, const Json& profile,
                                     const Catalog& catalog, const std::vector<StudyBaseline>& baselines,
                                     const Budget& budget) {
  BaselineComparison comparison;
  if (std::ranges::any_of(study.rows, [](const StudyRow& row) { return row.trials.has_value(); })) {
    comparison.known_rows = "none: shares of trials";
    return comparison;
  }
  const Comparer comparer{study, quality, profile, catalog};
  const Profile read = read_profile(JsonReader{profile, study.profile_name});
  const std::vector<BaselineFold> folds = comparer.folds(comparison.known_rows);
  comparison.folds = folds.size();
  std::vector<BaselineResult> results;
  for (const StudyBaseline baseline : baselines)
    results.push_back({.baseline = baseline,
                       .values = std::vector<std::optional<double>>(study.rows.size()),
                       .rows = 0,
                       .errors = {}});
  for (const BaselineFold& fold : folds) {
    budget.check();
    FoldPredictor predictor{fold.known, read};
    for (BaselineResult& result : results)
      for (const std::size_t i : fold.predicted) {
        const std::optional<KnownRow>& row = comparer.row(i);
        if (!row || fold.known.empty()) continue;
        const std::optional<double> time = predictor.predict(result.baseline, *row);
        if (time && *time > 0 && std::isfinite(*time)) result.values[i] = row->facts.metric_of(*time);
      }
  }
  for (BaselineResult& result : results) {
    std::vector<ValidationRow> rows;
    std::vector<std::optional<double>> noise;
    for (std::size_t i = 0; i < study.rows.size(); ++i) {
      if (!is_scored(study.rows[i], quality)) continue;
      const std::optional<double>& value = result.values[i];
      const double measured = study.rows[i].measured;
      rows.push_back({.measured = measured,
                      .simulated = value,
                      .error_pct = value ? 100 * (*value / measured - 1) : -100,
                      .problem = {}});
      noise.push_back(study.rows[i].noise);
      result.rows += value ? 1 : 0;
    }
    result.errors = error_statistics(rows, noise);
    if (result.rows > 0) comparison.results.push_back(std::move(result));
  }
  return comparison;
}

Json to_json(const BaselineComparison& comparison) {
  Json results = Json::object();
  for (const BaselineResult& result : comparison.results) {
    Json& entry = results[name_in(kStudyBaselines, result.baseline)] = to_json(result.errors);
    entry["predicted_rows"] = result.rows;
  }
  const BaselineResult* best = comparison.best();
  return {{"known_rows", comparison.known_rows},
          {"folds", comparison.folds},
          {"errors", results},
          {"best", best == nullptr ? Json(nullptr) : Json(name_in(kStudyBaselines, best->baseline))}};
}

}  // namespace rehearse
