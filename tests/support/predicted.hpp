#pragma once
// Predictions of a study's metric for other scenarios than those of its rows.

#include <string>
#include <vector>

#include "calibration/study.hpp"

namespace rehearse::test {

inline std::vector<Prediction> predict(const std::vector<std::string>& scenarios, const Study& study,
                                       const Catalog& catalog, const Pool& pool) {
  Study asked = study;
  asked.rows.clear();
  for (const std::string& scenario : scenarios)
    asked.rows.push_back({.row = study.rows.front().row, .scenario = scenario});
  return rehearse::predict(asked, catalog, pool);
}

}  // namespace rehearse::test
