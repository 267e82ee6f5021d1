#pragma once
// Robust least squares within bounds, for residuals that are expensive: Levenberg-Marquardt with few evaluations.
//
//   L(x) = sum_i n_i rho(r_i(x)),  low <= x <= high;  rho(r) = r^2 / 2 up to kHuber, kHuber (|r| - kHuber / 2) beyond
//   step d: minimises g d + d (N + lambda diag N) d / 2 within the bounds, where w_i = n_i min(1, kHuber / |r_i|),
//           N = J^T W J, g = J^T W r
//   J by differences between kDifference below and above: rows often stand on a kink between two bottlenecks, and see
//           the mean of both slopes; after a step that is at least as long, Broyden's update
//           J += (r(x + d) - r(x) - J d) d^T / (d^T d) instead of new differences
//
// Source: Marquardt, SIAM J. Appl. Math. 11(2), 1963; Huber, Ann. Math. Statist. 35(1), 1964; Broyden, Math. Comp.
// 19(92), 1965. Checked on functions with known minima in least_squares_test.cpp.

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "sim/base/budget.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

inline constexpr double kHuber = 0.10;       // residuals beyond 10 % count linearly
inline constexpr double kDifference = 0.03;  // large against the graininess of a simulation
inline constexpr double kDamping = 0.01;     // lambda to start with

struct Bounds {
  Eigen::VectorXd low, high;
};

/// Residuals near a point: r(x + d) = residuals + jacobian d.
struct LinearModel {
  Eigen::VectorXd at;         // [values]
  Eigen::VectorXd residuals;  // [rows]
  Eigen::MatrixXd jacobian;   // [rows, values]

  Eigen::VectorXd after(const Eigen::VectorXd& step) const { return residuals + jacobian * step; }
};

/// r at each of several points, [points] of [rows].
using ResidualFunction = std::function<std::vector<Eigen::VectorXd>(const std::vector<Eigen::VectorXd>& points)>;

// `counts`, [rows]: how often each row counts; 0 leaves it out.
double huber_loss(const Eigen::VectorXd& residuals, const Eigen::VectorXd& counts);
Eigen::VectorXd huber_weights(const Eigen::VectorXd& residuals, const Eigen::VectorXd& counts);

/// The d within low <= d <= high at which g d + d N d / 2 is least. N: positive definite. Active set: values that cross
/// a bound are held there, and let go if the slope leads inwards.
Eigen::VectorXd solve_in_box(const Eigen::MatrixXd& normal, const Eigen::VectorXd& gradient, const Eigen::VectorXd& low,
                             const Eigen::VectorXd& high);

/// The slope of L at the minimum by the linear model: what kinks and graininess feign, since no step helps there. Zero
/// for values at a bound, which really have one.
Eigen::VectorXd feigned_slope(const LinearModel& minimum, const Eigen::VectorXd& counts, const Bounds& bounds);

/// The step to the minimum of L - slope d for the linear model, weights included: how the minimum moves when other rows
/// count than those for which `slope` was feigned. Values on which no row depends stay. `lambda` damps the step.
Eigen::VectorXd linear_minimum(const LinearModel& model, const Eigen::VectorXd& counts, const Bounds& bounds,
                               const Eigen::VectorXd& slope, double lambda = 0);

/// J += (r(x + d) - r(x) - J d) d^T / (d^T d), unless the step d is so short that graininess would dominate.
void update_jacobian(LinearModel& model, const Eigen::VectorXd& step, const Eigen::VectorXd& residuals_there);

/// From `start`, which lies within the bounds, to a minimum of L, with the derivatives there. At most `most_steps`
/// steps; it ends when the linear model promises less than 1/2000 of L. `on_step(residuals)` after each that helps.
LinearModel minimize(const ResidualFunction& residuals, const Eigen::VectorXd& start, const Eigen::VectorXd& counts,
                     const Bounds& bounds, int most_steps,
                     const std::function<void(const Eigen::VectorXd& residuals)>& on_step = {});

/// s = sqrt(sum w r^2 / (rows - values)), rows: those that count.
double residual_deviation(const LinearModel& minimum, const Eigen::VectorXd& counts);

/// s^2 (J^T W J)^-1.
Eigen::MatrixXd covariance(const LinearModel& minimum, const Eigen::VectorXd& counts);

/// Half the width of a 95 % interval in standard deviations: Student's t for this many rows more than values.
double student_t_95(double degrees_of_freedom);

/// Two values that change the residuals alike, or one that does not change them at all (then both are the same).
struct Confusion {
  std::size_t first = 0, second = 0;
  double correlation = 0;  // of the two estimates
};

/// Pairs with a correlation above 0.98 in size, and values without effect. A direction along which L hardly rises makes
/// the values that take part in it such pairs.
std::vector<Confusion> find_confusions(const LinearModel& minimum, const Eigen::VectorXd& counts);

struct Interval {
  double low = 0, high = 0;
};

/// 95 % intervals of each value by the bootstrap over `blocks` of rows: as many blocks as there are, drawn with
/// replacement, and the minimum of the linear model for each draw; 2.5th to 97.5th percentile of `draws`. A value
/// counts those draws that hold a row which depends on it. `budget` may end it. Source: Efron, Ann. Statist. 7(1),
/// 1979.
std::vector<Interval> bootstrap_intervals(const LinearModel& minimum,
                                          const std::vector<std::vector<std::size_t>>& blocks, const Bounds& bounds,
                                          int draws, Rng& rng, const Budget& budget = {});

}  // namespace rehearse
