#include "sim/app/output/lifetime_document.hpp"

#include <algorithm>

#include "sim/app/output/document.hpp"

namespace rehearse {

namespace {

/// Steps down where machines were lost.
Series survival_steps(const SurvivalCurve& curve, const std::string& name) {
  Series series{.name = name, .x = {0}, .y = {1}};
  for (std::size_t i = 0; i < curve.ages.size(); ++i) {
    const double age = curve.ages[i].value() / 3600;
    series.x.insert(series.x.end(), {age, age});
    series.y.insert(series.y.end(), {series.y.back(), curve.survival[i]});
  }
  return series;
}

Series survival_line(const SurvivalCurve& curve) {
  Series series{.name = "fitted", .x = {0}, .y = {1}};
  for (std::size_t i = 0; i < curve.ages.size(); ++i) {
    series.x.push_back(curve.ages[i].value() / 3600);
    series.y.push_back(curve.survival[i]);
  }
  return series;
}

}  // namespace

std::string lifetime_report(const LifetimeStudy& study, const std::vector<SeriesFit>& fits,
                            const std::vector<SeriesQuality>& qualities) {
  Document document{.title = "Lifetimes of study " + study.name,
                    .subtitle = std::to_string(fits.size()) + " spot pools",
                    .headlines = {},
                    .sections = {}};
  Table overview{.header = {"pool", "law", "Kolmogorov-Smirnov"}, .rows = {}};
  for (std::size_t i = 0; i < fits.size(); ++i)
    overview.rows.push_back({fits[i].pool.name, describe(fits[i]), display(qualities[i].distance)});
  if (!fits.empty()) {
    const auto farthest = std::ranges::max_element(qualities, {}, &SeriesQuality::distance);
    document.verdict = "Fitted laws are at most " + display(100 * farthest->distance) +
                       " % of the machines from the recorded survival, in " +
                       fits[static_cast<std::size_t>(farthest - qualities.begin())].pool.name + ".";
  }
  document.sections.push_back({.title = "Fits", .paragraphs = {}, .tables = {std::move(overview)}});
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const SeriesQuality& quality = qualities[i];
    Section section{.title = fits[i].pool.name, .paragraphs = {fits[i].pool.source}, .tables = {}};
    if (!quality.bands.empty()) {
      Table bands{.header = {"lost up to age, h", "counted", "95 % of simulated fleets"}, .rows = {}};
      for (const LossBand& band : quality.bands)
        bands.rows.push_back(
            {display(band.age.value() / 3600), display(band.counted), display(band.low) + " to " + display(band.high)});
      section.tables.push_back(std::move(bands));
    }
    if (const auto& comparison = quality.comparison)
      section.tables.push_back({.header = {"", "recorded", "simulated"},
                                .rows = {{"mean number of machines", display(comparison->mean_size),
                                          display(comparison->simulated_mean_size)},
                                         {"losses", std::to_string(comparison->losses), ""},
                                         {"greatest difference of the shares of losses up to a size", "",
                                          display(comparison->loss_size_distance)}}});
    if (!fits[i].tried.empty()) {
      Table tried{.header = {"law", "values", "ln likelihood", "AIC", "Kolmogorov-Smirnov"}, .rows = {}};
      for (std::size_t k = 0; k < std::min<std::size_t>(fits[i].tried.size(), 8); ++k) {
        const LifetimeFit& one = fits[i].tried[k];
        tried.rows.push_back({one.law, std::to_string(one.values), display(one.log_likelihood), display(one.aic),
                              display(one.distance)});
      }
      section.tables.push_back(std::move(tried));
    }
    section.figures.emplace_back(Plot{
        .title = "Machines still running",
        .x_label = "age, h",
        .y_label = "share",
        .series = {survival_steps(quality.observed, "observed, by Kaplan and Meier"), survival_line(quality.fitted)}});
    document.sections.push_back(std::move(section));
  }
  return render_html(document);
}

}  // namespace rehearse
