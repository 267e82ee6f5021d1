#include "sim/app/output/validation_document.hpp"

#include "sim/app/output/document.hpp"

namespace rehearse {

namespace {

std::vector<std::string> table_row(const std::string& label, const ErrorStatistics& statistics) {
  return {label,
          std::to_string(statistics.rows),
          display(statistics.mape),
          display(statistics.median_ape),
          display(statistics.p90_ape),
          display(statistics.max_ape),
          display(statistics.bias),
          statistics.noise_floor ? display(*statistics.noise_floor) : ""};
}

Section scaling_curves(const Study& study, const Validation& validation) {
  Section curves{.title = "Scaling curves"};
  for (const CurveSaturation& curve : validation.curves) {
    if (curve.x.size() < 3) continue;
    curves.figures.emplace_back(
        Plot{.title = curve.curve,
             .x_label = study.curve_x,
             .y_label = study.metric,
             .series = {{"simulated", curve.x, curve.simulated, false}, {"measured", curve.x, curve.measured, true}}});
  }
  return curves;
}

Section saturation_and_choices(const Validation& validation) {
  Section more{.title = "Saturation, gains and choices"};
  Table saturation{.header = {"saturation point of", "measured, workers", "simulated, workers"}, .rows = {}};
  for (const CurveSaturation& curve : validation.curves)
    if (curve.is_saturated)
      saturation.rows.push_back({curve.curve, display(curve.measured_workers), display(curve.simulated_workers)});
  Table gains{.header = {"gain by", "measured, %", "simulated, %"}, .rows = {}};
  for (const RatioResult& ratio : validation.ratios)
    gains.rows.push_back({ratio.label, display(ratio.measured_gain_pct), display(ratio.simulated_gain_pct)});
  Table choices{.header = {"choice of", "rows", "regret, %", "rank correlation"}, .rows = {}};
  for (const ChoiceResult& choice : validation.choices)
    choices.rows.push_back({choice.label, std::to_string(choice.rows), display(choice.regret_pct),
                            choice.rank_correlation ? display(*choice.rank_correlation) : "-"});
  if (!saturation.rows.empty()) more.tables.push_back(std::move(saturation));
  if (!gains.rows.empty()) more.tables.push_back(std::move(gains));
  if (!choices.rows.empty()) more.tables.push_back(std::move(choices));
  return more;
}

Section rows_left_out(const Study& study, const Validation& validation) {
  Section exclusions{.title = "Rows left out or not simulated"};
  for (const auto& [reason, lines] : study.excluded)
    exclusions.paragraphs.push_back(std::to_string(lines.size()) + " rows excluded: " + reason);
  for (std::size_t i = 0; i < validation.rows.size(); ++i)
    if (!validation.rows[i].simulated)
      exclusions.paragraphs.push_back("line " + std::to_string(study.rows[i].row.line()) + ": " +
                                      validation.rows[i].problem);
  return exclusions;
}

}  // namespace

std::string validation_report(const Study& study, const Validation& validation, const StudyQuality& quality,
                              const std::string& fitted_values) {
  Document document{.title = "Study " + study.name,
                    .subtitle = study.metric + ", simulated against measured, " + std::to_string(validation.all.rows) +
                                " rows; profile " + study.profile_name + ", fitted values: " + fitted_values,
                    .headlines = {{"MAPE", display(validation.all.mape) + " %"},
                                  {"median error", display(validation.all.median_ape) + " %"},
                                  {"90th percentile", display(validation.all.p90_ape) + " %"},
                                  {"largest error", display(validation.all.max_ape) + " %"},
                                  {"bias", display(validation.all.bias) + " %"}},
                    .sections = {}};
  if (validation.all.noise_floor)
    document.headlines.push_back({"noise of the measurements", display(*validation.all.noise_floor) + " %"});

  Series measured_against_simulated{.name = "row", .x = {}, .y = {}, .is_points = true};
  for (const ValidationRow& row : validation.rows) {
    if (!row.simulated) continue;
    measured_against_simulated.x.push_back(row.measured);
    measured_against_simulated.y.push_back(*row.simulated);
  }
  Section errors{
      .title = "Errors",
      .paragraphs = {"In percent of the measured value. A row that could not be simulated counts as 100 %."}};
  errors.tables.push_back({.header = {"", "rows", "MAPE", "median", "p90", "max", "bias", "noise"},
                           .rows = {table_row("all", validation.all)}});
  if (validation.fitted.rows > 0 && validation.predicted.rows > 0) {
    errors.tables.back().rows.push_back(table_row("seen by the fit", validation.fitted));
    errors.tables.back().rows.push_back(table_row("not seen by the fit", validation.predicted));
  }
  if (quality.of == StudyQuality::Of::kCrossValidated) {
    document.headlines.push_back({"MAPE, cross-validated", display(quality.errors.mape) + " %"});
    errors.tables.back().rows.push_back(table_row("cross-validated by the fit", quality.errors));
  }
  for (const auto& [label, statistics] : validation.groups)
    errors.tables.back().rows.push_back(table_row(label, statistics));
  document.verdict = "Simulated values are off by " + display(validation.all.median_ape) + " % in the median of " +
                     std::to_string(validation.all.rows) + " measured rows; nine of ten by less than " +
                     display(validation.all.p90_ape) + " %.";
  document.overview.push_back({.title = "Simulated against measured",
                               .paragraphs = {},
                               .tables = {},
                               .figures = {Plot{.title = "",
                                                .x_label = "measured " + study.metric,
                                                .y_label = "simulated " + study.metric,
                                                .series = {measured_against_simulated},
                                                .has_diagonal = true}}});
  Bars by_group{.title = "", .unit = "%", .bars = {}};
  constexpr std::size_t kMostGroups = 10;
  for (const auto& [label, statistics] : validation.groups)
    if (by_group.bars.size() < kMostGroups) by_group.bars.push_back({label, {{"MAPE", statistics.mape}}});
  if (by_group.bars.size() > 1)
    document.overview.push_back(
        {.title = "Mean error by group", .paragraphs = {}, .tables = {}, .figures = {std::move(by_group)}});
  document.sections.push_back(std::move(errors));

  for (Section section :
       {scaling_curves(study, validation), saturation_and_choices(validation), rows_left_out(study, validation)})
    if (!section.figures.empty() || !section.tables.empty() || !section.paragraphs.empty())
      document.sections.push_back(std::move(section));
  return render_html(document);
}

}  // namespace rehearse
