#include "sim/app/output/fit_document.hpp"

#include <algorithm>
#include <map>

#include "sim/app/output/document.hpp"

namespace rehearse {

namespace {

std::string text(const ValueInterval& interval) { return interval.low + " to " + interval.high; }

Table value_table(const Fit& fit) {
  const bool has_bootstrap = std::any_of(fit.values.begin(), fit.values.end(),
                                         [](const FittedValue& value) { return value.by_rows && value.by_folds; });
  Table table{.header = {"value", "fitted", "95 %"}, .rows = {}};
  if (has_bootstrap) table.header.insert(table.header.end(), {"bootstrap over rows", "bootstrap over folds"});
  for (const FittedValue& value : fit.values) {
    table.rows.push_back({value.pointer, value.value, text(value.interval)});
    if (has_bootstrap) {
      table.rows.back().push_back(value.by_rows ? text(*value.by_rows) : "");
      table.rows.back().push_back(value.by_folds ? text(*value.by_folds) : "");
    }
  }
  return table;
}

const CrossValidation* find_cross_validation(const Fit& fit, const Study& study) {
  const auto found = std::find_if(fit.cross_validated.begin(), fit.cross_validated.end(),
                                  [&](const CrossValidation& validation) { return validation.study == study.name; });
  return found == fit.cross_validated.end() ? nullptr : &*found;
}

Series points(const std::string& name) { return {.name = name, .x = {}, .y = {}, .is_points = true}; }

Plot measured_against_predicted(const Study& study, const std::vector<ValidationRow>& seen,
                                const CrossValidation* unseen) {
  Series fitted = points("seen by the fit"), held_out = points("predicted by fits without it");
  for (std::size_t i = 0; i < seen.size(); ++i) {
    fitted.x.push_back(seen[i].measured);
    fitted.y.push_back(*seen[i].simulated);
    if (unseen == nullptr) continue;
    held_out.x.push_back(unseen->rows[i].measured);
    held_out.y.push_back(*unseen->rows[i].simulated);
  }
  Plot plot{.title = "Predicted against measured",
            .x_label = "measured " + study.metric,
            .y_label = "predicted " + study.metric,
            .series = {std::move(fitted)},
            .has_diagonal = true};
  if (unseen != nullptr) plot.series.push_back(std::move(held_out));
  return plot;
}

/// Residuals over the measured value, one series for each value of the column.
Plot residuals_by(const Study& study, const std::string& column, const std::vector<ValidationRow>& rows) {
  std::map<std::string, Series> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string group{study.rows[i].row.text(column)};
    Series& series = groups.try_emplace(group, points(column + " " + group)).first->second;
    series.x.push_back(rows[i].measured);
    series.y.push_back(rows[i].error_pct);
  }
  Plot plot{.title = "Residuals by " + column,
            .x_label = "measured " + study.metric,
            .y_label = "predicted / measured - 1, %",
            .series = {}};
  for (auto& [group, series] : groups) plot.series.push_back(std::move(series));
  return plot;
}

}  // namespace

std::string fit_report(const std::vector<Study>& studies, const Fit& fit, const std::string& profile_name) {
  Document document{.title = "Fit of profile " + profile_name,
                    .subtitle = std::to_string(fit.values.size()) + (fit.values.size() == 1 ? " value" : " values") +
                                " fitted to " + std::to_string(fit.rows) + " rows by " +
                                std::to_string(fit.simulations) + " simulations",
                    .headlines = {},
                    .sections = {}};
  Section values{.title = "Values",
                 .paragraphs = {"Intervals of 95 %: from the derivatives at the fit and, if asked for, from resampled "
                                "rows or folds of the cross-validation."},
                 .tables = {value_table(fit)}};
  for (const std::string& warning : fit.warnings) values.paragraphs.push_back("Warning: " + warning + ".");
  document.sections.push_back(std::move(values));
  for (std::size_t s = 0; s < studies.size(); ++s) {
    const Study& study = studies[s];
    const CrossValidation* unseen = find_cross_validation(fit, study);
    if (document.verdict.empty() || unseen != nullptr)
      document.verdict = unseen != nullptr
                             ? "Rows of " + study.name + " are told " + display(unseen->all.median_ape) +
                                   " % off in the median by fits that have not seen them, nine of ten within " +
                                   display(unseen->all.p90_ape) + " %."
                             : "Rows of " + study.name + ", which the fit has seen, are " +
                                   display(fit.in_sample[s].median_ape) + " % off in the median.";
    document.headlines.push_back({"MAPE of " + study.name, display(fit.in_sample[s].mape) + " %"});
    Section section{.title = "Study " + study.name,
                    .paragraphs = {},
                    .tables = {},
                    .figures = {measured_against_predicted(study, fit.validation[s], unseen)}};
    if (unseen != nullptr) {
      document.headlines.push_back({"the same, cross-validated", display(unseen->all.mape) + " %"});
      std::string columns;
      for (const std::string& column : unseen->left_out_by) columns += (columns.empty() ? "" : ", ") + column;
      section.paragraphs.push_back("Residuals are of predictions by fits without the row's combination of " + columns +
                                   ".");
    }
    for (const std::string& column : study.group_by)
      section.figures.emplace_back(residuals_by(study, column, unseen != nullptr ? unseen->rows : fit.validation[s]));
    document.sections.push_back(std::move(section));
  }
  return render_html(document);
}

}  // namespace rehearse
