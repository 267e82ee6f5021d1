#include "calibration/detail/least_squares.hpp"

#include <doctest/doctest.h>

#include <Eigen/QR>
#include <cmath>

namespace rehearse {

namespace {

constexpr int kRows = 24;

Bounds wide(Eigen::Index values) {
  return {Eigen::VectorXd::Constant(values, -20), Eigen::VectorXd::Constant(values, 20)};
}

Eigen::VectorXd every_row(Eigen::Index rows = kRows) { return Eigen::VectorXd::Ones(rows); }

/// Time of a worker with work i: a i + b, here with a = e^x0, b = e^x1; as residuals against `measured`.
ResidualFunction line_through(const Eigen::VectorXd& measured, int& evaluations) {
  return [&measured, &evaluations](const std::vector<Eigen::VectorXd>& points) {
    std::vector<Eigen::VectorXd> residuals;
    for (const Eigen::VectorXd& x : points) {
      residuals.emplace_back(measured.size());
      for (Eigen::Index i = 0; i < measured.size(); ++i)
        residuals.back()[i] = std::log((std::exp(x[0]) * static_cast<double>(i) + std::exp(x[1])) / measured[i]);
      ++evaluations;
    }
    return residuals;
  };
}

/// 2 i + 10, off by normal noise of this standard deviation.
Eigen::VectorXd measured_line(double noise, Rng& rng) {
  Eigen::VectorXd measured(kRows);
  for (int i = 0; i < kRows; ++i) measured[i] = (2.0 * i + 10) * std::exp(noise * rng.normal());
  return measured;
}

std::vector<std::vector<std::size_t>> single_rows() {
  std::vector<std::vector<std::size_t>> blocks;
  for (std::size_t i = 0; i < kRows; ++i) blocks.push_back({i});
  return blocks;
}

}  // namespace

TEST_CASE("a quadratic in a box: held values at their bound, the others at the minimum that remains") {
  // N = [2 1; 1 2], g = (-3, -3): minimum at (1, 1); with d0 <= 0.5, d1 = (3 - 0.5) / 2.
  const Eigen::MatrixXd normal{{2, 1}, {1, 2}};
  const Eigen::Vector2d gradient{-3, -3}, low{-5, -5};
  CHECK(solve_in_box(normal, gradient, low, Eigen::Vector2d{5, 5}).isApprox(Eigen::Vector2d{1, 1}));
  CHECK(solve_in_box(normal, gradient, low, Eigen::Vector2d{0.5, 5}).isApprox(Eigen::Vector2d{0.5, 1.25}));
}

TEST_CASE("a quadratic in a box: no allowed move lowers it") {
  Rng rng{11, "boxes"};
  for (int repetition = 0; repetition < 200; ++repetition) {
    const auto random = [&](Eigen::Index rows, Eigen::Index columns) {
      return Eigen::MatrixXd{Eigen::MatrixXd::NullaryExpr(rows, columns, [&] { return rng.normal(); })};
    };
    const Eigen::MatrixXd root = random(8, 5);
    const Eigen::MatrixXd normal = root.transpose() * root + 0.01 * Eigen::MatrixXd::Identity(5, 5);
    const Eigen::VectorXd gradient = 3 * random(5, 1);
    const Eigen::VectorXd low = -random(5, 1).cwiseAbs(), high = random(5, 1).cwiseAbs();
    const Eigen::VectorXd step = solve_in_box(normal, gradient, low, high);
    const Eigen::VectorXd slope = gradient + normal * step;
    for (Eigen::Index p = 0; p < 5; ++p) {
      CAPTURE(repetition);
      CHECK(step[p] >= low[p]);
      CHECK(step[p] <= high[p]);
      if (step[p] > low[p]) CHECK(slope[p] <= 1e-9);
      if (step[p] < high[p]) CHECK(slope[p] >= -1e-9);
    }
  }
}

TEST_CASE("a fit finds the minimum with few evaluations") {
  Rng rng{1, "noise"};
  const Eigen::VectorXd measured = measured_line(0, rng);
  int evaluations = 0;
  const LinearModel minimum = minimize(line_through(measured, evaluations), Eigen::Vector2d{std::log(5), std::log(3)},
                                       every_row(), wide(2), 20);
  CHECK(std::exp(minimum.at[0]) == doctest::Approx(2).epsilon(1e-3));
  CHECK(std::exp(minimum.at[1]) == doctest::Approx(10).epsilon(1e-3));
  CHECK(evaluations <= 20);
}

TEST_CASE("a value whose minimum lies beyond its bound ends there, and the others make up for it") {
  Rng rng{1, "noise"};
  const Eigen::VectorXd measured = measured_line(0, rng);
  int evaluations = 0;
  Bounds bounds = wide(2);
  bounds.high[0] = std::log(1.8);
  const LinearModel minimum =
      minimize(line_through(measured, evaluations), Eigen::Vector2d{0, 0}, every_row(), bounds, 20);
  CHECK(minimum.at[0] == bounds.high[0]);
  CHECK(std::exp(minimum.at[1]) > 10);
  const Eigen::VectorXd weights = huber_weights(minimum.residuals, every_row());
  const Eigen::VectorXd slope = minimum.jacobian.transpose() * weights.cwiseProduct(minimum.residuals);
  CHECK(std::abs(slope[1]) < 0.01);
  CHECK(slope[0] < -0.01);  // it would go on
}

TEST_CASE("a row that is off by a factor of ten moves the fit by less than its share") {
  Rng rng{1, "noise"};
  Eigen::VectorXd measured = measured_line(0, rng);
  measured[5] *= 10;
  int evaluations = 0;
  const LinearModel minimum =
      minimize(line_through(measured, evaluations), Eigen::Vector2d{0, 0}, every_row(), wide(2), 20);
  CHECK(std::exp(minimum.at[0]) == doctest::Approx(2).epsilon(0.02));
  CHECK(std::exp(minimum.at[1]) == doctest::Approx(10).epsilon(0.03));
}

TEST_CASE("rows that do not count are not fitted") {
  Rng rng{1, "noise"};
  Eigen::VectorXd measured = measured_line(0, rng);
  Eigen::VectorXd counts = every_row();
  for (const Eigen::Index row : {3, 4, 5, 6}) {
    measured[row] *= 3;
    counts[row] = 0;
  }
  int evaluations = 0;
  const LinearModel minimum = minimize(line_through(measured, evaluations), Eigen::Vector2d{0, 0}, counts, wide(2), 20);
  CHECK(std::exp(minimum.at[1]) == doctest::Approx(10).epsilon(1e-3));
}

TEST_CASE("Broyden's update reproduces the step that it was made from") {
  LinearModel model{Eigen::Vector2d{0, 0}, Eigen::Vector3d{1, 2, 3}, Eigen::MatrixXd::Ones(3, 2)};
  const Eigen::Vector2d step{0.1, -0.2};
  const Eigen::Vector3d there{4, 5, 7};
  update_jacobian(model, step, there);
  CHECK(model.after(step).isApprox(there));
  CHECK((model.jacobian * Eigen::Vector2d{0.2, 0.1}).isApprox(Eigen::Vector3d::Constant(0.3)));  // as before
  const Eigen::MatrixXd before = model.jacobian;
  update_jacobian(model, step / 100, there);  // too short
  CHECK(model.jacobian == before);
}

TEST_CASE("with the slope that a minimum feigns, it stays where it is, and moves with the rows that count") {
  Rng rng{3, "noise"};
  const Eigen::VectorXd measured = measured_line(0.05, rng);
  int evaluations = 0;
  const ResidualFunction residuals = line_through(measured, evaluations);
  LinearModel minimum = minimize(residuals, Eigen::Vector2d{0, 0}, every_row(), wide(2), 20);
  Eigen::VectorXd counts = every_row();
  counts[2] = 0;
  const Eigen::VectorXd without = minimize(residuals, minimum.at, counts, wide(2), 20).at - minimum.at;
  minimum.jacobian.col(0).array() += 0.3 * (minimum.residuals.array() > 0).cast<double>();  // as a kink would
  const Eigen::VectorXd slope = feigned_slope(minimum, every_row(), wide(2));
  CHECK(slope.norm() > 0.01);
  CHECK(linear_minimum(minimum, every_row(), wide(2), slope).norm() < 1e-6);
  const Eigen::VectorXd step = linear_minimum(minimum, counts, wide(2), slope);
  CHECK((step - without).norm() < 0.5 * without.norm());
}

TEST_CASE("intervals hold the true values in 95 % of repetitions, from the derivatives and by the bootstrap") {
  constexpr int kRepetitions = 1000;
  const Eigen::Vector2d truth{std::log(2), std::log(10)};
  int by_derivatives = 0, by_bootstrap = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    Rng rng{static_cast<std::uint64_t>(repetition), "noise"};
    const Eigen::VectorXd measured = measured_line(0.04, rng);
    int evaluations = 0;
    const LinearModel minimum = minimize(line_through(measured, evaluations), truth, every_row(), wide(2), 20);
    const Eigen::MatrixXd covariances = covariance(minimum, every_row());
    const auto intervals = bootstrap_intervals(minimum, single_rows(), wide(2), 200, rng);
    for (Eigen::Index p = 0; p < 2; ++p) {
      by_derivatives +=
          std::abs(minimum.at[p] - truth[p]) <= student_t_95(kRows - 2) * std::sqrt(covariances(p, p)) ? 1 : 0;
      const Interval& interval = intervals[static_cast<std::size_t>(p)];
      by_bootstrap += interval.low <= truth[p] && truth[p] <= interval.high ? 1 : 0;
    }
  }
  // 2000 trials: a standard deviation of 0.5 % if they were independent. 24 rows make percentiles of the bootstrap a
  // little narrow: their spread is that of 24 rows without the two that the values take.
  CHECK(by_derivatives / (2.0 * kRepetitions) == doctest::Approx(0.95).epsilon(0.015));
  CHECK(by_bootstrap / (2.0 * kRepetitions) > 0.88);
  CHECK(by_bootstrap / (2.0 * kRepetitions) < 0.96);
}

TEST_CASE("values that act alike, or not at all, are named") {
  Rng rng{5, "rows"};
  LinearModel minimum{Eigen::VectorXd::Zero(4), Eigen::VectorXd(40), Eigen::MatrixXd(40, 4)};
  for (Eigen::Index i = 0; i < 40; ++i) {
    minimum.residuals[i] = 0.03 * rng.normal();
    const double alike = rng.normal();
    minimum.jacobian.row(i) << alike, rng.normal(), 0, -2 * alike + 0.1 * rng.normal();
  }
  const auto confusions = find_confusions(minimum, every_row(40));
  REQUIRE(confusions.size() == 2);
  CHECK(confusions[0].first == 2);
  CHECK(confusions[0].second == 2);
  CHECK(confusions[1].first == 0);
  CHECK(confusions[1].second == 3);
  CHECK(confusions[1].correlation > 0.98);
  minimum.jacobian.col(2).setRandom();
  minimum.jacobian.col(3).setRandom();
  CHECK(find_confusions(minimum, every_row(40)).empty());
}

TEST_CASE("a direction of six values along which nothing changes makes each two of them look alike") {
  LinearModel minimum{Eigen::VectorXd::Zero(6), Eigen::VectorXd::Constant(200, 0.02), Eigen::MatrixXd(200, 6)};
  Rng rng{6, "rows"};
  for (Eigen::Index i = 0; i < 200; ++i) {
    for (Eigen::Index p = 0; p < 6; ++p) minimum.jacobian(i, p) = rng.normal();
    minimum.jacobian(i, 5) = minimum.jacobian.row(i).head(5).sum() + 0.03 * rng.normal();
  }
  CHECK(find_confusions(minimum, every_row(200)).size() == 15);
}

}  // namespace rehearse
