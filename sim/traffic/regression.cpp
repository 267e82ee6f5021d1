#include "sim/traffic/regression.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <set>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

struct Predictor {
  std::string name;
  Eigen::VectorXd values;
};

std::vector<Predictor> columns_of(const std::vector<RegressionRow>& rows, const std::vector<std::string>& factors) {
  const auto count = static_cast<Eigen::Index>(rows.size());
  std::vector<Predictor> columns{{"intercept", Eigen::VectorXd::Ones(count)}, {"model size", Eigen::VectorXd(count)}};
  for (Eigen::Index i = 0; i < count; ++i) columns[1].values[i] = rows[static_cast<std::size_t>(i)].size;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    std::set<std::string> levels;
    for (const RegressionRow& row : rows) levels.insert(row.levels.at(f));
    if (!levels.empty()) levels.erase(levels.begin());
    for (const std::string& level : levels) {
      Predictor column{factors[f] + " " + level, Eigen::VectorXd::Zero(count)};
      for (Eigen::Index i = 0; i < count; ++i)
        if (rows[static_cast<std::size_t>(i)].levels[f] == level) column.values[i] = 1;
      columns.push_back(std::move(column));
    }
  }
  return columns;
}

/// What of a column no combination of `others` tells.
double independent_part(const Eigen::VectorXd& column, const Eigen::MatrixXd& others) {
  if (others.cols() == 0) return column.norm();
  return (column - others * others.colPivHouseholderQr().solve(column)).norm();
}

}  // namespace

Regression regress(const std::vector<RegressionRow>& rows, const std::vector<std::string>& factors) {
  constexpr double kDependent = 1e-9;  // of a column's length
  const auto count = static_cast<Eigen::Index>(rows.size());
  Regression result{.rows = rows.size()};
  Eigen::MatrixXd x(count, 0);
  for (const Predictor& column : columns_of(rows, factors)) {
    if (independent_part(column.values, x) <= kDependent * std::max(1.0, column.values.norm())) {
      result.dropped.push_back(column.name);
      continue;
    }
    x.conservativeResize(Eigen::NoChange, x.cols() + 1);
    x.rightCols(1) = column.values;
    result.terms.push_back({.name = column.name});
  }
  const Eigen::Index freedom = count - x.cols();
  if (freedom < 1)
    throw NoResultError{"the regression has " + std::to_string(x.cols()) + " values from " + std::to_string(count) +
                        " runs: expected more runs"};
  Eigen::VectorXd y(count);
  for (Eigen::Index i = 0; i < count; ++i) y[i] = rows[static_cast<std::size_t>(i)].response;
  const Eigen::VectorXd values = x.colPivHouseholderQr().solve(y);
  const double residual = (y - x * values).squaredNorm();
  const double total = (y.array() - y.mean()).matrix().squaredNorm();
  const double variance = residual / static_cast<double>(freedom);
  const Eigen::MatrixXd covariance =
      (x.transpose() * x).ldlt().solve(Eigen::MatrixXd::Identity(x.cols(), x.cols())) * variance;
  const double t = boost::math::quantile(boost::math::students_t{static_cast<double>(freedom)}, 0.975);
  for (Eigen::Index i = 0; i < x.cols(); ++i) {
    RegressionTerm& term = result.terms[static_cast<std::size_t>(i)];
    const double width = t * std::sqrt(std::max(0.0, covariance(i, i)));
    term.value = values[i];
    term.low = values[i] - width;
    term.high = values[i] + width;
  }
  result.r_squared = total > 0 ? 1 - residual / total : 1;
  result.residual = std::sqrt(variance);
  return result;
}

}  // namespace rehearse
