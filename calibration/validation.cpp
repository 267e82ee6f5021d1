#include "calibration/validation.hpp"

#include <algorithm>
#include <array>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/metric.hpp"
#include "sim/base/names.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

/// "K80, 1, resnet15": the values of the columns in a row.
std::string label_of(const StudyRow& row, const std::vector<std::string>& columns) {
  std::string label;
  for (const std::string& column : columns)
    label += (label.empty() ? "" : ", ") + column + " " + std::string{row.row.text(column)};
  return label;
}

std::optional<double> ratio_of_means(const Study& study, const Validation& validation, const StudyRatio& ratio,
                                     bool is_simulated) {
  std::array<std::vector<double>, 2> values;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const ValidationRow& row = validation.rows[i];
    if (is_simulated && !row.simulated) continue;
    for (const auto& [filter, list] :
         {std::pair{&ratio.numerator, &values[0]}, std::pair{&ratio.denominator, &values[1]}})
      if (study.rows[i].fits(*filter)) list->push_back(is_simulated ? *row.simulated : row.measured);
  }
  if (values[0].empty() || values[1].empty()) return {};
  return mean(values[0]) / mean(values[1]);
}

/// Whether the bounds of 95 % of a count of trials hold a share.
bool is_within_bounds(double measured, double trials, double share) {
  using Binomial = boost::math::binomial_distribution<>;
  constexpr double kEachSide = 0.025;
  const double count = std::round(measured * trials);
  return share >= (count > 0 ? Binomial::find_lower_bound_on_p(trials, count, kEachSide) : 0) &&
         share <= (count < trials ? Binomial::find_upper_bound_on_p(trials, count, kEachSide) : 1);
}

}  // namespace

ErrorStatistics error_statistics(const std::vector<ValidationRow>& rows,
                                 const std::vector<std::optional<double>>& noise) {
  ErrorStatistics statistics;
  if (rows.empty()) return statistics;
  std::vector<double> absolute, errors, floors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    errors.push_back(rows[i].error_pct);
    absolute.push_back(std::abs(rows[i].error_pct));
    if (noise[i]) floors.push_back(100 * *noise[i] / rows[i].measured);
  }
  statistics.rows = rows.size();
  statistics.mape = mean(absolute);
  statistics.median_ape = median(absolute);
  statistics.p90_ape = percentile(absolute, 90);
  statistics.max_ape = percentile(absolute, 100);
  statistics.bias = mean(errors);
  if (!floors.empty()) statistics.noise_floor = mean(floors);
  return statistics;
}

namespace {

template <class Condition>
ErrorStatistics statistics_where(const Study& study, const std::vector<ValidationRow>& rows, Condition is_in) {
  std::vector<ValidationRow> members;
  std::vector<std::optional<double>> noise;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!is_in(study.rows[i])) continue;
    members.push_back(rows[i]);
    noise.push_back(study.rows[i].noise);
  }
  return error_statistics(members, noise);
}

}  // namespace

ErrorStatistics error_statistics(const Study& study, const std::vector<ValidationRow>& rows, RowUse use) {
  return statistics_where(study, rows, [use](const StudyRow& row) { return row.use == use; });
}

ErrorStatistics error_statistics(const Study& study, const std::vector<ValidationRow>& rows) {
  return statistics_where(study, rows, [](const StudyRow& row) { return row.use != RowUse::kStepTime; });
}

std::vector<std::pair<std::string, ErrorStatistics>> group_statistics(const Study& study,
                                                                      const std::vector<ValidationRow>& rows) {
  std::vector<std::pair<std::string, ErrorStatistics>> statistics;
  for (const std::string& column : study.group_by) {
    std::set<std::string> labels;
    for (const StudyRow& row : study.rows)
      if (row.use != RowUse::kStepTime) labels.insert(label_of(row, {column}));
    for (const std::string& label : labels)
      statistics.emplace_back(label, statistics_where(study, rows, [&](const StudyRow& row) {
                                return row.use != RowUse::kStepTime && label_of(row, {column}) == label;
                              }));
  }
  return statistics;
}

std::optional<std::string> remark_on_scale(const std::string& what, const std::string& metric,
                                           const std::vector<double>& ratios) {
  constexpr double kAnotherUnit = 5;  // bits for bytes are 8
  if (ratios.empty()) return {};
  const double ratio = percentile(ratios, 50);
  if (ratio <= kAnotherUnit && ratio >= 1 / kAnotherUnit) return {};
  std::array<char, 32> times{};
  std::snprintf(times.data(), times.size(), "%.4g", ratio);
  return what + " is in the median " + times.data() + " times " + metric +
         " as simulated: another unit than the metric's (ms for s, bits for bytes, one GPU for all), or not of these "
         "machines; a fit takes that up in its values";
}

std::optional<std::string> remark_on_scale(const Study& study, const std::vector<ValidationRow>& rows) {
  std::vector<double> ratios;
  for (const ValidationRow& row : rows)
    if (row.simulated && *row.simulated > 0 && row.measured > 0) ratios.push_back(row.measured / *row.simulated);
  return remark_on_scale(study.name + ": column " + in_quotes(study.target_column), study.metric, ratios);
}

double saturation_workers(const std::vector<double>& x, const std::vector<double>& speed) {
  std::vector<double> largest = speed, per_worker;
  std::sort(largest.rbegin(), largest.rend());
  largest.resize(std::min<std::size_t>(largest.size(), 3));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] <= 2) per_worker.push_back(speed[i] / x[i]);
  return per_worker.empty() ? 0 : mean(largest) / median(per_worker);
}

double ks_distance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double distance = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double at = std::min(a[i], b[j]);
    while (i < a.size() && a[i] <= at) ++i;
    while (j < b.size() && b[j] <= at) ++j;
    distance = std::max(distance, std::abs(static_cast<double>(i) / static_cast<double>(a.size()) -
                                           static_cast<double>(j) / static_cast<double>(b.size())));
  }
  return distance;
}

namespace {

std::vector<SampleComparison> compare_samples(const Study& study, const std::vector<ValidationRow>& rows) {
  struct Sample {
    std::vector<double> measured, simulated;
  };
  std::map<std::pair<bool, std::string>, Sample> samples;  // whether it is all rows together, and its label
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].simulated) continue;
    const std::string use = " (" + to_text(study.rows[i].use) + ")";
    for (const auto& key :
         {std::pair{false, label_of(study.rows[i], study.sample_of) + use}, std::pair{true, "all" + use}}) {
      samples[key].measured.push_back(rows[i].measured);
      samples[key].simulated.push_back(*rows[i].simulated);
    }
  }
  std::vector<SampleComparison> comparisons;
  for (const auto& [key, values] : samples)
    comparisons.push_back({.label = key.second,
                           .values = values.measured.size(),
                           .measured_mean = mean(values.measured),
                           .simulated_mean = mean(values.simulated),
                           .ks_distance = ks_distance(values.measured, values.simulated)});
  return comparisons;
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto less = std::ranges::count_if(values, [=](double other) { return other < value; });
    const auto equal = std::ranges::count(values, value);
    ranks.push_back(static_cast<double>(less) + static_cast<double>(equal + 1) / 2);
  }
  return ranks;
}

std::vector<ChoiceResult> judge_choices(const Study& study, const std::vector<ValidationRow>& rows) {
  std::map<std::string, std::vector<const ValidationRow*>> choices;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].simulated && study.rows[i].use != RowUse::kStepTime)
      choices[label_of(study.rows[i], study.choice_by)].push_back(&rows[i]);
  std::vector<ChoiceResult> results;
  for (const auto& [label, candidates] : choices) {
    if (candidates.size() < 2) continue;
    std::vector<double> measured, simulated;  // times, or what is proportional to them
    for (const ValidationRow* row : candidates) {
      measured.push_back(is_rate(study.metric) ? 1 / row->measured : row->measured);
      simulated.push_back(is_rate(study.metric) ? 1 / *row->simulated : *row->simulated);
    }
    const auto chosen = static_cast<std::size_t>(std::ranges::min_element(simulated) - simulated.begin());
    results.push_back({.label = label,
                       .rows = candidates.size(),
                       .regret_pct = 100 * (measured[chosen] / std::ranges::min(measured) - 1),
                       .rank_correlation = rank_correlation(measured, simulated)});
  }
  return results;
}

}  // namespace

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> of_a = ranks(a), of_b = ranks(b);
  const double middle = (static_cast<double>(a.size()) + 1) / 2;
  double both = 0, alone_a = 0, alone_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (of_a[i] - middle) * (of_b[i] - middle);
    alone_a += (of_a[i] - middle) * (of_a[i] - middle);
    alone_b += (of_b[i] - middle) * (of_b[i] - middle);
  }
  if (!(alone_a > 0 && alone_b > 0)) return {};
  return both / std::sqrt(alone_a * alone_b);
}

std::optional<ChoiceStatistics> choice_statistics(const Validation& validation) {
  if (validation.choices.empty()) return {};
  ChoiceStatistics statistics{.choices = validation.choices.size()};
  std::vector<double> regrets, correlations;
  for (const ChoiceResult& choice : validation.choices) {
    regrets.push_back(choice.regret_pct);
    if (choice.rank_correlation) correlations.push_back(*choice.rank_correlation);
  }
  statistics.median_regret_pct = median(regrets);
  statistics.mean_regret_pct = mean(regrets);
  if (!correlations.empty()) statistics.rank_correlation = mean(correlations);
  return statistics;
}

Validation validate(const Study& study, const std::vector<Prediction>& predictions) {
  Validation validation;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const StudyRow& row = study.rows[i];
    ValidationRow result{.measured = row.measured,
                         .simulated = predictions[i].value,
                         .error_pct = -100,
                         .problem = row.problem.empty() ? predictions[i].problem : row.problem,
                         .profile = predictions[i].profile,
                         .kind = predictions[i].kind};
    if (result.simulated && predictions[i].interval) {
      const auto [low, high] = *predictions[i].interval;
      result.interval = is_rate(study.metric) ? std::pair{low * *result.simulated, high * *result.simulated}
                                              : std::pair{*result.simulated / high, *result.simulated / low};
    }
    if (result.simulated)
      result.error_pct = 100 * (row.trials ? *result.simulated - row.measured : *result.simulated / row.measured - 1);
    if (result.simulated && row.trials) {
      ++validation.within_bounds.rows;
      validation.within_bounds.inside += is_within_bounds(row.measured, *row.trials, *result.simulated) ? 1 : 0;
    }
    validation.rows.push_back(std::move(result));
  }
  validation.all = error_statistics(study, validation.rows);
  validation.fitted = error_statistics(study, validation.rows, RowUse::kFitted);
  validation.predicted = error_statistics(study, validation.rows, RowUse::kPredicted);
  validation.groups = group_statistics(study, validation.rows);
  // nobody takes the plan with the least memory
  if (!study.choice_by.empty() && is_speed(study.metric)) validation.choices = judge_choices(study, validation.rows);
  if (!study.sample_of.empty()) validation.samples = compare_samples(study, validation.rows);

  if (!study.curve_x.empty()) {
    std::map<std::string, CurveSaturation> curves;
    for (std::size_t i = 0; i < study.rows.size(); ++i) {
      if (!validation.rows[i].simulated) continue;
      CurveSaturation& curve = curves[label_of(study.rows[i], study.curve_by)];
      curve.x.push_back(study.rows[i].row.number(study.curve_x));
      curve.measured.push_back(validation.rows[i].measured);
      curve.simulated.push_back(*validation.rows[i].simulated);
    }
    for (auto& [label, curve] : curves) {
      curve.curve = label;
      curve.measured_workers = saturation_workers(curve.x, curve.measured);
      curve.simulated_workers = saturation_workers(curve.x, curve.simulated);
      const auto last = static_cast<std::size_t>(std::max_element(curve.x.begin(), curve.x.end()) - curve.x.begin());
      std::vector<double> per_worker;
      for (std::size_t i = 0; i < curve.x.size(); ++i)
        if (curve.x[i] <= 2) per_worker.push_back(curve.measured[i] / curve.x[i]);
      curve.is_saturated =
          curve.x.size() >= 3 && !per_worker.empty() && curve.measured[last] < 0.9 * curve.x[last] * median(per_worker);
      validation.curves.push_back(std::move(curve));
    }
  }

  for (const StudyRatio& ratio : study.ratios) {
    const auto measured = ratio_of_means(study, validation, ratio, false);
    const auto simulated = ratio_of_means(study, validation, ratio, true);
    if (measured && simulated)
      validation.ratios.push_back({ratio.label, 100 * (*measured - 1), 100 * (*simulated - 1)});
  }
  return validation;
}

std::string validation_csv(const Study& study, const Validation& validation,
                           const std::vector<PredictedColumn>& others) {
  std::vector<std::string> columns = study.table->columns();
  std::vector<std::string> added{"use",     "measured", "simulated", "error_pct", "problem",
                                 "profile", "kind",     "low",       "high"};
  for (const PredictedColumn& other : others) added.push_back(other.name);
  for (std::string name : added) {
    while (std::find(columns.begin(), columns.end(), name) != columns.end()) name = "rehearse_" + name;
    columns.push_back(name);
  }
  CsvWriter csv{columns};
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    std::vector<CsvField> fields;
    for (std::size_t column = 0; column < study.table->columns().size(); ++column)
      fields.emplace_back(study.rows[i].row.text_at(column));
    const ValidationRow& row = validation.rows[i];
    fields.emplace_back(to_text(study.rows[i].use));
    fields.emplace_back(row.measured);
    fields.push_back(row.simulated ? CsvField{*row.simulated} : CsvField{""});
    fields.emplace_back(row.error_pct);
    fields.emplace_back(row.problem);
    fields.emplace_back(row.profile);
    fields.emplace_back(row.kind);
    fields.push_back(row.interval ? CsvField{row.interval->first} : CsvField{""});
    fields.push_back(row.interval ? CsvField{row.interval->second} : CsvField{""});
    for (const PredictedColumn& other : others)
      fields.push_back(other.values[i] ? CsvField{*other.values[i]} : CsvField{""});
    csv.row(fields);
  }
  return csv.text();
}

Json to_json(const ErrorStatistics& statistics) {
  return Json{{"rows", statistics.rows},
              {"mape", statistics.mape},
              {"median_ape", statistics.median_ape},
              {"p90_ape", statistics.p90_ape},
              {"max_ape", statistics.max_ape},
              {"bias", statistics.bias},
              {"noise_floor", statistics.noise_floor ? Json(*statistics.noise_floor) : Json(nullptr)}};
}

bool is_scored(const StudyRow& row, StudyQuality::Of quality) {
  switch (quality) {
    case StudyQuality::Of::kCrossValidated:
      return row.use != RowUse::kStepTime;
    case StudyQuality::Of::kPredicted:
      return row.use == RowUse::kPredicted;
    case StudyQuality::Of::kFitted:
      return row.use == RowUse::kFitted;
  }
  return false;
}

StudyQuality study_quality(const Study& study, const Validation& validation, const Json& profile) {
  for (const Json& record : profile.value("/fit/studies"_json_pointer, Json::array())) {
    if (record.value("study", "") != study.name || !record.contains("cross_validated") ||
        record.value("measurements_fnv1a", "") != measurements_hash(study))
      continue;
    const Json& kept = record.at("cross_validated");
    StudyQuality quality{.of = StudyQuality::Of::kCrossValidated,
                         .errors = {.rows = kept.value("rows", std::size_t{0}),
                                    .mape = kept.value("mape", 0.0),
                                    .median_ape = kept.value("median_ape", 0.0),
                                    .p90_ape = kept.value("p90_ape", 0.0),
                                    .max_ape = kept.value("max_ape", 0.0),
                                    .bias = kept.value("bias", 0.0),
                                    .noise_floor = validation.all.noise_floor}};
    return quality;
  }
  if (validation.predicted.rows > 0) return {.of = StudyQuality::Of::kPredicted, .errors = validation.predicted};
  return {.of = StudyQuality::Of::kFitted, .errors = validation.fitted};
}

RowCount interval_coverage(const Study& study, const Validation& validation) {
  RowCount coverage;
  if (validation.within_bounds.rows > 0) return coverage;
  for (std::size_t i = 0; i < validation.rows.size(); ++i) {
    const ValidationRow& row = validation.rows[i];
    if (study.rows[i].use == RowUse::kStepTime || !row.interval) continue;
    ++coverage.rows;
    coverage.inside += row.is_inside() ? 1 : 0;
  }
  return coverage;
}

std::vector<ExcludedRows> unscored_rows(const Study& study, const Validation& validation) {
  std::vector<ExcludedRows> unscored = study.excluded;
  const auto add = [&](const std::string& reason, std::size_t line) {
    const auto known =
        std::find_if(unscored.begin(), unscored.end(), [&](const ExcludedRows& rows) { return rows.reason == reason; });
    (known == unscored.end() ? unscored.emplace_back(ExcludedRows{reason, {}}) : *known).lines.push_back(line);
  };
  for (std::size_t i = 0; i < validation.rows.size(); ++i) {
    const std::size_t line = study.rows[i].row.line();
    if (study.rows[i].use == RowUse::kStepTime)
      add("an input: gives the profile a step time", line);
    else if (!validation.rows[i].simulated)
      add("counted as an error of 100 %: " + validation.rows[i].problem, line);
  }
  std::erase_if(unscored, [](const ExcludedRows& rows) { return rows.lines.empty(); });
  return unscored;
}

Json to_json(const ChoiceStatistics& statistics) {
  Json json{{"choices", statistics.choices},
            {"median_regret_pct", statistics.median_regret_pct},
            {"mean_regret_pct", statistics.mean_regret_pct}};
  if (statistics.rank_correlation) json["rank_correlation"] = *statistics.rank_correlation;
  return json;
}

Json to_json(const Study& study, const Validation& validation) {
  Json json{{"format", 1},
            {"study", study.name},
            {"measurements", std::filesystem::path{study.measurements_file}.filename().string()},
            {"metric", study.metric}};
  json.update(to_json(validation.all));
  json["fitted"] = to_json(validation.fitted);
  json["predicted"] = to_json(validation.predicted);
  Json groups = Json::object(), saturation = Json::object(), ratios = Json::object(), excluded = Json::object(),
       problems = Json::array();
  for (const auto& [label, statistics] : validation.groups) groups[label] = to_json(statistics);
  for (const CurveSaturation& curve : validation.curves)
    if (curve.is_saturated)
      saturation[curve.curve] =
          Json{{"measured_workers", curve.measured_workers}, {"simulated_workers", curve.simulated_workers}};
  for (const RatioResult& ratio : validation.ratios)
    ratios[ratio.label] =
        Json{{"measured_gain_pct", ratio.measured_gain_pct}, {"simulated_gain_pct", ratio.simulated_gain_pct}};
  for (const auto& [reason, lines] : study.excluded) excluded[reason] = lines.size();
  for (std::size_t i = 0; i < validation.rows.size(); ++i)
    if (!validation.rows[i].simulated)
      problems.push_back(Json{{"line", study.rows[i].row.line()}, {"problem", validation.rows[i].problem}});
  if (validation.within_bounds.rows > 0)
    json["within_bounds"] = {{"inside", validation.within_bounds.inside}, {"rows", validation.within_bounds.rows}};
  json["groups"] = std::move(groups);
  json["saturation"] = std::move(saturation);
  json["ratios"] = std::move(ratios);
  json["excluded"] = std::move(excluded);
  json["problems"] = std::move(problems);
  if (const auto choices = choice_statistics(validation)) {
    json["choices"] = to_json(*choices);
    for (const ChoiceResult& choice : validation.choices)
      json["choices"]["each"][choice.label] = {{"rows", choice.rows}, {"regret_pct", choice.regret_pct}};
  }
  for (const SampleComparison& sample : validation.samples)
    json["samples"][sample.label] = Json{{"values", sample.values},
                                         {"measured_mean", sample.measured_mean},
                                         {"simulated_mean", sample.simulated_mean},
                                         {"ks_distance", sample.ks_distance}};
  return json;
}

}  // namespace rehearse
