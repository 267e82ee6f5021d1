#include "calibration/detail/regressor.hpp"

#include <doctest/doctest.h>

namespace rehearse {

namespace {

using RegressionKind = RegressionSettings::Kind;

Eigen::VectorXd at(std::initializer_list<double> values) {
  Eigen::VectorXd x(static_cast<Eigen::Index>(values.size()));
  Eigen::Index i = 0;
  for (const double value : values) x[i++] = value;
  return x;
}

/// Five rows with two features from 0 to 1, which scaling leaves as they are.
const Eigen::MatrixXd kFeatures{{0, 0.5}, {0.25, 1}, {0.5, 0}, {0.75, 0.25}, {1, 0.75}};
const Eigen::VectorXd kTargets = at({0.31, 0.4, 0.58, 1.05, 1.9});

}  // namespace

TEST_CASE("least squares of a line in closed form, with and without ridge") {
  // x = 0, 1, 2, 3; y = 1, 3, 2, 5: sum (x - 1.5)(y - 2.75) = 5.5, sum (x - 1.5)^2 = 5; y = 1.1 + 1.1 x
  const Eigen::MatrixXd x{{0}, {1}, {2}, {3}};
  const Eigen::VectorXd y = at({1, 3, 2, 5});
  CHECK(Regressor{x, y, {}}.predict(at({4})) == doctest::Approx(5.5).epsilon(1e-12));
  // x / 3: sums 5.5 / 3 and 5 / 9, to which 0.1 for each of four rows comes: a slope of 5.5 / 3 / (5 / 9 + 0.4)
  const double slope = 5.5 / 3 / (5.0 / 9 + 0.4);
  CHECK(Regressor{x, y, {.ridge = 0.1}}.predict(at({4})) ==
        doctest::Approx(2.75 + slope * (4.0 / 3 - 0.5)).epsilon(1e-12));
}

TEST_CASE("a feature that is the same in all rows, or tells what another tells, changes nothing") {
  const Eigen::MatrixXd x{{0, 7, 0}, {1, 7, 10}, {2, 7, 20}, {3, 7, 30}};
  const Eigen::VectorXd y = at({1, 3, 2, 5});
  CHECK(Regressor{x, y, {}}.predict(at({4, 9, 40})) == doctest::Approx(5.5).epsilon(1e-12));
}

TEST_CASE("support vectors predict what svm-train and svm-predict of LIBSVM do") {
  // svm-train -s 3 -t 1 -d 2 -g 0.5 -r 1 -c 100 -p 0.01 -e 1e-7
  const Regressor polynomial{kFeatures, kTargets, {.kind = RegressionKind::kPolynomial}};
  CHECK(polynomial.predict(at({0.1, 0.1})) == doctest::Approx(0.38511853191068857).epsilon(1e-5));
  CHECK(polynomial.predict(at({0.6, 0.9})) == doctest::Approx(1.0644399075702027).epsilon(1e-5));
  CHECK(polynomial.predict(at({1.2, 0.4})) == doctest::Approx(2.0425336554853666).epsilon(1e-5));
  // svm-train -s 3 -t 2 -g 0.5 -c 10 -p 0.14 -e 1e-7
  const Regressor radial{kFeatures, kTargets, {.kind = RegressionKind::kRadial, .cost = 10, .tube = 0.14}};
  CHECK(radial.predict(at({0.1, 0.1})) == doctest::Approx(0.29606642112709003).epsilon(1e-5));
  CHECK(radial.predict(at({0.6, 0.9})) == doctest::Approx(1.1162344362364633).epsilon(1e-5));
  CHECK(radial.predict(at({1.2, 0.4})) == doctest::Approx(1.8567667629213722).epsilon(1e-5));
}

TEST_CASE("features count by their place between the smallest and the largest of the rows") {
  Eigen::MatrixXd stretched = kFeatures;
  stretched.col(0) = stretched.col(0).array() * 1e9 + 5e9;
  for (const RegressionKind kind : {RegressionKind::kLinear, RegressionKind::kPolynomial, RegressionKind::kRadial})
    CHECK(Regressor{stretched, kTargets, {.kind = kind}}.predict(at({5.6e9, 0.9})) ==
          doctest::Approx(Regressor{kFeatures, kTargets, {.kind = kind}}.predict(at({0.6, 0.9}))).epsilon(1e-5));
}

}  // namespace rehearse
