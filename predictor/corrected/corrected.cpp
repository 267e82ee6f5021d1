#include "predictor/corrected/corrected.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "predictor/choices.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kStep = kBurstLabels;  // step_time_s
constexpr int kChoices = 3, kResamples = 400;

struct Row {
  Residual residual;
  std::string model;
  Alternative alternative{};  // as the engine predicts it
};

std::vector<Row> rows_of(const Dataset& dataset, std::span<const std::size_t> samples, const EngineLabels& engine,
                         std::size_t label) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = dataset.samples[samples[i]];
    if (sample.origin != Origin::kMeasured || !is_observed(dataset, sample, label)) continue;
    const double measured = sample.labels[label], simulated = engine.labels[i][label];
    if (measured > 0 && simulated > 0)
      rows.push_back({{engine.traits[i], std::log(measured / simulated)},
                      engine.traits[i].model,
                      {.part = engine.traits[i].study,
                       .question = engine.questions[i].back(),
                       .name = std::to_string(sample.graph) + " " + std::to_string(sample.setting),
                       .measured = measured,
                       .predicted = {simulated}}});
  }
  return rows;
}

std::vector<Residual> residuals_of(const std::vector<Row>& rows) {
  std::vector<Residual> residuals;
  for (const Row& row : rows) residuals.push_back(row.residual);
  return residuals;
}

/// Absolute percentage error of a prediction that is `off` in ln.
double ape(double off) { return 100 * std::abs(std::exp(off) - 1); }

/// Mean over models of the mean error of each.
double macro(const std::vector<Row>& rows, const std::vector<double>& errors, const std::vector<std::size_t>& chosen) {
  std::map<std::string, std::pair<double, double>> of_model;
  for (const std::size_t i : chosen) {
    of_model[rows[i].model].first += errors[i];
    of_model[rows[i].model].second += 1;
  }
  double sum = 0;
  for (const auto& [model, total] : of_model) sum += total.first / total.second;
  return sum / static_cast<double>(std::max<std::size_t>(1, of_model.size()));
}

std::vector<std::size_t> numbers_to(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

/// Errors with `added` rows of the study known, added to `point`.
void add_choice(const std::vector<Residual>& others, const ResidualModel::Variances& variances,
                const std::vector<Row>& study, Rng& random, StudyCurve::Point& point) {
  std::vector<std::size_t> order = numbers_to(study.size());
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::vector<Residual> known = others;
  std::vector<Row> asked;
  for (std::size_t i = 0; i < order.size(); ++i)
    i < point.added ? known.push_back(study[order[i]].residual) : asked.push_back(study[order[i]]);
  const ResidualModel model{known, variances};
  const double reach = conformal_quantiles(model.left_out_scores())[kShown];
  std::vector<double> engine, corrected;
  std::vector<Alternative> alternatives;
  double covered = 0;
  for (const Row& row : asked) {
    const ResidualEstimate estimate = model.estimate(row.residual.job);
    const double off = estimate.mean - row.residual.value;
    engine.push_back(ape(-row.residual.value));
    corrected.push_back(ape(off));
    covered += std::abs(off) <= reach * estimate.deviation ? 1 : 0;
    alternatives.push_back(row.alternative);
    alternatives.back().predicted.push_back(row.alternative.predicted[0] * std::exp(estimate.mean));
  }
  const std::vector<std::size_t> all = numbers_to(asked.size());
  std::vector<double> ratios;
  for (int k = 0; k < kResamples; ++k) {
    std::vector<std::size_t> drawn;
    for (std::size_t i = 0; i < asked.size(); ++i) drawn.push_back(random.below(asked.size()));
    ratios.push_back(macro(asked, corrected, drawn) / std::max(1e-9, macro(asked, engine, drawn)));
  }
  point.engine += macro(asked, engine, all) / kChoices;
  point.corrected += macro(asked, corrected, all) / kChoices;
  point.ratio_low += percentile(ratios, 5) / kChoices;
  point.ratio_high += percentile(ratios, 95) / kChoices;
  const std::vector<MeasuredChoice> choices = measured_choices(alternatives);
  const RegretScore by_engine = regret_score(choices, 0, ""), by_corrected = regret_score(choices, 1, "");
  point.questions += static_cast<double>(choices.size()) / kChoices;
  point.regret_by_chance += by_engine.by_chance / kChoices;
  point.regret_engine += by_engine.mean / kChoices;
  point.regret_corrected += by_corrected.mean / kChoices;
  point.covered += covered / static_cast<double>(asked.size()) / kChoices;
}

}  // namespace

CorrectedEngine::CorrectedEngine(const Dataset& dataset, std::span<const std::size_t> samples,
                                 const EngineLabels& engine)
    : labels_{dataset.labels} {
  for (std::size_t l = 0; l < labels_.size(); ++l) {
    const std::vector<Residual> residuals = residuals_of(rows_of(dataset, samples, engine, l));
    if (residuals.size() < kLeastResiduals) continue;
    OfLabel of{ResidualModel{residuals}};
    of.quantiles = conformal_quantiles(of.model.left_out_scores());
    of_.emplace(l, std::move(of));
  }
  if (of_.empty())
    throw InputError{"the dataset has no label with " + std::to_string(kLeastResiduals) +
                     " measured values that the engine can be compared with"};
}

TorchValue CorrectedEngine::state() const {
  TorchList labels;
  for (const std::string& label : labels_) labels.items.emplace_back(label);
  TorchDict by_label;
  for (const auto& [l, of] : of_) {
    TorchList jobs;
    std::vector<double> numbers;
    for (const Residual& residual : of.model.residuals()) {
      const JobTraits& job = residual.job;
      jobs.items.emplace_back(
          TorchTuple{{TorchValue{job.study}, TorchValue{job.gpu}, TorchValue{job.model}, TorchValue{job.strategy}}});
      numbers.insert(numbers.end(), {job.workers, job.machines, job.batch, residual.value});
    }
    const auto count = static_cast<std::int64_t>(of.model.residuals().size());
    const auto& variances = of.model.variances();
    by_label.items.emplace_back(
        labels_[l],
        TorchDict{
            {{"jobs", std::move(jobs)},
             {"numbers", TorchTensor::of_doubles({count, 4}, numbers)},
             {"variances", TorchTensor::of_doubles({static_cast<std::int64_t>(variances.size())}, variances)},
             {"quantiles", TorchTensor::of_doubles({static_cast<std::int64_t>(of.quantiles.size())}, of.quantiles)}}});
  }
  return TorchDict{{{"network", "corrected"}, {"labels", std::move(labels)}, {"residuals", std::move(by_label)}}};
}

CorrectedEngine::CorrectedEngine(const TorchValue& state, const std::string& where) {
  for (const TorchValue& label : state.at("labels", where).list(where)) labels_.push_back(label.text(where));
  if (labels_ != label_names()) throw InputError{where + ": its labels are not those of this program"};
  const auto numbers_of = [&](const TorchValue& value, std::size_t count) {
    std::vector<double> numbers = value.tensor(where).values();
    if (numbers.size() != count ||
        !std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); }))
      throw InputError{where + ": expected " + std::to_string(count) + " finite numbers; found " +
                       std::to_string(numbers.size())};
    return numbers;
  };
  for (const auto& [name, of_label] : state.at("residuals", where).dict(where).items) {
    const auto found = std::find(labels_.begin(), labels_.end(), name.text(where));
    if (found == labels_.end()) throw InputError{where + ": residuals of an unknown label"};
    const TorchItems& jobs = of_label.at("jobs", where).list(where);
    const std::vector<double> numbers = numbers_of(of_label.at("numbers", where), 4 * jobs.size());
    std::vector<Residual> residuals;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const TorchItems& names = jobs[i].list(where);
      if (names.size() != 4) throw InputError{where + ": expected 4 names of a job"};
      residuals.push_back({{.study = names[0].text(where),
                            .gpu = names[1].text(where),
                            .model = names[2].text(where),
                            .strategy = names[3].text(where),
                            .workers = std::max(0.0, numbers[4 * i]),
                            .machines = std::max(0.0, numbers[4 * i + 1]),
                            .batch = std::max(0.0, numbers[4 * i + 2])},
                           numbers[4 * i + 3]});
    }
    ResidualModel::Variances variances{};
    const std::vector<double> kept = numbers_of(of_label.at("variances", where), variances.size());
    const auto is_variance = [](double x) {
      return x >= ResidualModel::kLeastVariance && x <= ResidualModel::kMostVariance;
    };
    if (!std::all_of(kept.begin(), kept.end(), is_variance))
      throw InputError{where + ": expected variances of 1e-6 to 0.3"};
    std::copy(kept.begin(), kept.end(), variances.begin());
    OfLabel of{ResidualModel{residuals, variances}};
    const std::vector<double> quantiles = numbers_of(of_label.at("quantiles", where), of.quantiles.size());
    if (!std::all_of(quantiles.begin(), quantiles.end(), [](double x) { return x >= 0; }))
      throw InputError{where + ": expected quantiles of at least 0"};
    std::copy(quantiles.begin(), quantiles.end(), of.quantiles.begin());
    of_.emplace(static_cast<std::size_t>(found - labels_.begin()), std::move(of));
  }
}

PredictedMetrics CorrectedEngine::correct(const std::vector<double>& simulated, const JobTraits& job) const {
  PredictedMetrics metrics;
  const auto step = of_.find(kStep);
  for (std::size_t l = 0; l < labels_.size(); ++l) {
    auto of = of_.find(l);
    double sign = 1;
    if (of == of_.end() && labels_[l].find("_mean_") != std::string::npos) {
      of = step;
      sign = -1;
    }
    if (of == of_.end() || std::isnan(simulated[l])) {
      metrics.labels.push_back({simulated[l], simulated[l], simulated[l]});
      metrics.widths.push_back(0);
      metrics.reaches.emplace_back();
      continue;
    }
    const ResidualEstimate estimate = of->second.model.estimate(job);
    metrics.reaches.push_back(reaches_of(estimate.deviation, of->second.quantiles));
    const double reach = metrics.reaches.back()[kShown];
    const double middle = simulated[l] * std::exp(sign * estimate.mean);
    metrics.labels.push_back({middle, middle * std::exp(-reach), middle * std::exp(reach)});
    metrics.widths.push_back(estimate.deviation);
  }
  return metrics;
}

std::vector<std::pair<std::string, std::size_t>> CorrectedEngine::counts() const {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const auto& [l, of] : of_) counts.emplace_back(labels_[l], of.model.residuals().size());
  return counts;
}

std::vector<StudyCurve> left_out_studies(const Dataset& dataset, std::span<const std::size_t> samples,
                                         const EngineLabels& engine, std::size_t least, std::uint64_t seed) {
  std::map<std::string, std::vector<Row>> studies;
  for (Row& row : rows_of(dataset, samples, engine, kStep)) studies[row.residual.job.study].push_back(std::move(row));
  std::vector<StudyCurve> curves;
  for (const auto& [name, rows] : studies) {
    if (rows.size() < least) continue;
    std::vector<Residual> others;
    for (const auto& [other, other_rows] : studies) {
      if (other == name) continue;
      const std::size_t count = std::min(other_rows.size(), ResidualModel::kMostPerStudy);
      for (std::size_t i = 0; i < count; ++i) others.push_back(other_rows[i * other_rows.size() / count].residual);
    }
    const ResidualModel of_others{others};
    StudyCurve curve{.study = name, .rows = rows.size()};
    std::map<std::string, int> models;
    for (const Row& row : rows) ++models[row.model];
    curve.models = models.size();
    for (const std::size_t added : {0U, 10U, 30U}) {
      if (2 * added > rows.size()) continue;
      StudyCurve::Point& point = curve.points.emplace_back();
      point.added = added;
      for (int choice = 0; choice < kChoices; ++choice) {
        Rng random{seed, name + " " + std::to_string(choice)};
        add_choice(others, of_others.variances(), rows, random, point);
      }
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace rehearse
