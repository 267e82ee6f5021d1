#pragma once
// Ordinary least squares: how data per step follows from what a job is.

#include <string>
#include <vector>

namespace rehearse {

/// A job as the regression sees it.
struct RegressionRow {
  std::string name;
  double response = 0;              // MB per step
  double size = 0;                  // of the model, MB
  std::vector<std::string> levels;  // [factors] such as framework, batch, topology
};

struct RegressionTerm {
  std::string name;
  double value = 0;
  double low = 0, high = 0;  // 95 %: value +- t s sqrt((X^T X)^-1); t: Student's, of rows - terms
};

struct Regression {
  std::vector<RegressionTerm> terms;   // the intercept, the size, then each factor's levels but its first
  std::vector<std::string> dropped;    // terms that others tell already
  double r_squared = 0, residual = 0;  // residual: standard deviation, MB
  std::size_t rows = 0;
};

/// y = intercept + b size + dummies of each factor's levels, the first of which (by name) is the base. Terms that are
/// combinations of those before them are dropped and named. Needs more rows than terms; otherwise throws NoResultError.
/// The model is that of the study of doi 10.23919/CNSM52442.2021.9615524.
Regression regress(const std::vector<RegressionRow>& rows, const std::vector<std::string>& factors);

}  // namespace rehearse
