#pragma once
// The page of fitted lifetimes: how long machines lived, and the curve of each fit.

#include <string>
#include <vector>

#include "calibration/lifetime_study.hpp"

namespace rehearse {

/// `fits` and `qualities` belong to the study's series.
std::string lifetime_report(const LifetimeStudy& study, const std::vector<SeriesFit>& fits,
                            const std::vector<SeriesQuality>& qualities);

}  // namespace rehearse
