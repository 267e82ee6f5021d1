#pragma once
// Regressions of few rows on what they state, by least squares and by support vectors.

#include <Eigen/Core>
#include <memory>

namespace rehearse {

/// What is fitted to (x, y), with each feature scaled to 0 to 1 over the rows (one that is the same in all of them to 0):
///   linear       y = a + b x, at the least of sum (y - a - b x)^2 + ridge rows |b|^2
///   polynomial   y = a + sum c_i (gamma x_i x + 1)^2, by support vectors
///   radial       y = a + sum c_i exp(-gamma |x_i - x|^2), by support vectors
/// with gamma = 1 / features. Support vectors: errors below `tube` cost nothing, larger ones `cost` times what exceeds it.
/// Source: Drucker et al., Support Vector Regression Machines, NIPS 1996; Chang and Lin, LIBSVM, ACM TIST 2(3), 2011,
/// to a tolerance of 1e-6. Checked against least squares in closed form and svm-train in
/// regressor_test.cpp.
struct RegressionSettings {
  enum class Kind { kLinear, kPolynomial, kRadial } kind = Kind::kLinear;
  double ridge = 0;
  double cost = 100, tube = 0.01;
};

class Regressor {
 public:
  /// `x` [rows, features], `y` [rows]; at least one row.
  Regressor(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const RegressionSettings& settings);
  Regressor(Regressor&&) noexcept;
  ~Regressor();
  /// `x` [features].
  double predict(const Eigen::VectorXd& x) const;

 private:
  Eigen::VectorXd scaled(const Eigen::VectorXd& x) const;

  struct SupportVectors;  // holds LIBSVM's model, in regressor.cpp
  Eigen::VectorXd low_, scale_;
  Eigen::VectorXd slope_;
  double intercept_ = 0;
  std::unique_ptr<SupportVectors> vectors_;
};

}  // namespace rehearse
