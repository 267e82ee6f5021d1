#pragma once
// Predictors and baselines beside labels: tables, page and files of a comparison.

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "predictor/choices.hpp"
#include "predictor/predicted_metrics.hpp"
#include "predictor/scoring.hpp"
#include "sim/app/output/answer.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

using PredictedValues = std::vector<std::vector<double>>;  // [samples][labels]

inline constexpr const char* kEngine = "simulated";  // the simulator as a contender

/// One way to predict.
struct Contender {
  std::string name;
  PredictedValues values;
  Score score;
  std::vector<PredictedMetrics> predictions;           // of predictors
  std::map<std::string, Score> by_family, by_setting;  // of predictors
  std::map<std::string, Score> by_study;               // of measured samples
};

/// The samples of one origin, and everyone's scores on them.
struct ComparedPart {
  Origin origin{};
  std::vector<std::size_t> samples;
  std::vector<Contender> contenders;  // the predictors first
  std::size_t predictor_count = 0;
  std::string note;  // on the engine
  /// By what is free: of measured samples, with a regret for each contender.
  std::vector<std::pair<std::string, std::vector<MeasuredChoice>>> choices;
  std::span<const Contender> predictors() const { return {contenders.data(), predictor_count}; }
};

/// Of the labels of some samples, the share that is in intervals of each of kCoverages; labels and predictions above 0,
/// with an interval.
struct Coverage {
  std::size_t labels = 0;
  std::array<double, kCoverages.size()> inside{};
};

/// A row for each sample and label.
void append_predictions(CsvWriter& csv, const Dataset& dataset, const std::vector<std::size_t>& samples,
                        const Contender& contender);

/// Regrets of each contender, by what is free to choose; empty without choices.
Json choices_json(const ComparedPart& part);

/// A line for each choice and contender that knows its alternatives.
std::string choices_csv(const ComparedPart& part);

/// Of the samples that count.
Coverage coverage_of(const Dataset& dataset, const ComparedPart& part, const Contender& contender,
                     const std::function<bool(const Sample&)>& counts);

/// By the share that intervals are meant to have.
Json to_json(const Coverage& coverage);

/// Per label and job what was simulated, what each predictor says, and what was measured, with the errors of the latter.
Table side_by_side(const Dataset& dataset, const ComparedPart& part, std::size_t most_rows);

/// Scores, and those of families, settings and studies where there are some.
Json to_json(const Contender& contender);

/// The page of a comparison.
Document compare_document(const std::string& command_line, const Dataset& dataset, std::span<const ComparedPart> parts);

/// What the terminal shows of it.
void add_comparison(Answer& answer, const Dataset& dataset, const ComparedPart& part, const std::string& split);

}  // namespace rehearse
