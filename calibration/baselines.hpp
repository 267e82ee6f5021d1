#pragma once
// What a user would try instead of simulating, on the rows of a study: each row predicted from those that the study's
// fit knows, never from one that is predicted with it.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "calibration/study.hpp"
#include "calibration/validation.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/named.hpp"

namespace rehearse {

/// Predictions of t, the time of a step of one worker (RowFacts::time_of()) or the metric's own. t' are those of rows
/// that are known.
///   cm-dare-*        of speeds: a regression of the t' of single workers on the FLOPs of a step, for each GPU with at
///                    least three models, otherwise for all on FLOPs / peak; speeds of workers are added up. Of checkpoints:
///                    a regression on their bytes. By least squares, or by support vectors with a polynomial kernel of
///                    degree 2 (cost 100, tube 0.01 s) or a radial one (of checkpoints cost 10, tube 0.14 s).
///                    Source: Li, Walls, Guo, ICDCS 2020, and the notebooks of github.com/cake-lab/CM-DARE.
///   regression-*     ln t' on the logarithms of all that rows state (row_facts.hpp) and on an indicator for each word,
///                    by ridge regression (0.001) or support vectors (cost 100, tube 0.01)
///   linear-scaling   t' of the fewest GPUs known of the same model, GPU, precision and framework, or a step time of the
///                    profile, in proportion to the batch: workers do not wait for one another
///   nearest-row      t' of the row with the nearest logarithms of numbers, a word that differs counts 1, times the
///                    ratio of the two rooflines
///   roofline         roofline_time(), times the median of t' / roofline of the known rows with the same GPU, or of all
///   power-limit      of powers and energies: RowFacts::limit
///   power-share      that times the median of t' / limit of the known rows
enum class StudyBaseline {
  kCmDareLinear,
  kCmDarePolynomial,
  kCmDareRadial,
  kRegressionLinear,
  kRegressionPolynomial,
  kRegressionRadial,
  kLinearScaling,
  kNearestRow,
  kRoofline,
  kPowerLimit,
  kPowerShare
};
inline constexpr std::array kStudyBaselines{Named{"cm-dare-linear", StudyBaseline::kCmDareLinear},
                                            Named{"cm-dare-polynomial", StudyBaseline::kCmDarePolynomial},
                                            Named{"cm-dare-radial", StudyBaseline::kCmDareRadial},
                                            Named{"regression-linear", StudyBaseline::kRegressionLinear},
                                            Named{"regression-polynomial", StudyBaseline::kRegressionPolynomial},
                                            Named{"regression-radial", StudyBaseline::kRegressionRadial},
                                            Named{"linear-scaling", StudyBaseline::kLinearScaling},
                                            Named{"nearest-row", StudyBaseline::kNearestRow},
                                            Named{"roofline", StudyBaseline::kRoofline},
                                            Named{"power-limit", StudyBaseline::kPowerLimit},
                                            Named{"power-share", StudyBaseline::kPowerShare}};

struct BaselineResult {
  StudyBaseline baseline{};
  std::vector<std::optional<double>> values;  // [study rows] the metric
  std::size_t rows = 0;                       // scored ones that it predicts; of others the error is 100 %
  ErrorStatistics errors;                     // over the rows of study_quality()
};

struct BaselineComparison {
  /// Which rows are known when one is predicted: "rows with another model", "the 90 rows that the fit saw".
  std::string known_rows;
  std::size_t folds = 0;
  std::vector<BaselineResult> results;  // of those that predict a row

  /// That with the least mean absolute error; null without results.
  const BaselineResult* best() const;
};

/// On the folds of the study's fit if its quality is cross-validated: known are the rows that were fitted, of all studies
/// of the profile's fit that lie beside this one, and those of step times, without what the fold leaves out. Otherwise
/// known are all rows that were fitted or give step times; if there are none, or no others than those that are scored,
/// each combination of equal scenarios is left out in turn. Rows with counts of trials have no baselines.
BaselineComparison compare_baselines(const Study& study, StudyQuality::Of quality, const Json& profile,
                                     const Catalog& catalog, const std::vector<StudyBaseline>& baselines,
                                     const Budget& budget = {});

Json to_json(const BaselineComparison& comparison);

}  // namespace rehearse
