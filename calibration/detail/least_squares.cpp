#include "calibration/detail/least_squares.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr double kLargestStep = 0.7;  // of the logarithm of a value
constexpr double kSettled = 5e-4;     // of the loss: what a step must promise
constexpr double kExact = 1e-9;       // loss per row that needs no further step: errors of 0.005 %
constexpr double kNear = 0.2;         // derivatives count as those of points this near
constexpr double kRidge = 1e-9;       // keeps values on which nothing depends where they are
constexpr double kNoEffect = 1e-4;    // of a residual, root mean square, per e-fold of a value
constexpr double kTooAlike = 0.98;    // correlation
constexpr int kMostFailures = 3;      // steps in a row that do not help

Eigen::MatrixXd normal_matrix(const LinearModel& model, const Eigen::VectorXd& weights) {
  Eigen::MatrixXd normal = model.jacobian.transpose() * weights.asDiagonal() * model.jacobian;
  normal.diagonal().array() += kRidge;
  return normal;
}

Eigen::VectorXd damped_step(const LinearModel& model, const Eigen::VectorXd& counts, const Bounds& bounds,
                            double lambda) {
  const Eigen::VectorXd weights = huber_weights(model.residuals, counts);
  Eigen::MatrixXd normal = normal_matrix(model, weights);
  normal.diagonal() *= 1 + lambda;
  return solve_in_box(normal, model.jacobian.transpose() * weights.cwiseProduct(model.residuals),
                      (bounds.low - model.at).cwiseMax(-kLargestStep), (bounds.high - model.at).cwiseMin(kLargestStep));
}

Eigen::MatrixXd differences(const ResidualFunction& residuals, const Eigen::VectorXd& at, const Bounds& bounds) {
  std::vector<Eigen::VectorXd> points(2 * static_cast<std::size_t>(at.size()), at);
  for (Eigen::Index p = 0; p < at.size(); ++p) {
    points[2 * static_cast<std::size_t>(p)][p] = std::max(at[p] - kDifference, bounds.low[p]);
    points[2 * static_cast<std::size_t>(p) + 1][p] = std::min(at[p] + kDifference, bounds.high[p]);
  }
  const std::vector<Eigen::VectorXd> there = residuals(points);
  Eigen::MatrixXd jacobian(there.front().size(), at.size());
  for (Eigen::Index p = 0; p < at.size(); ++p) {
    const std::size_t below = 2 * static_cast<std::size_t>(p), above = below + 1;
    jacobian.col(p) = (there[above] - there[below]) / (points[above][p] - points[below][p]);
  }
  return jacobian;
}

double correlation(const Eigen::MatrixXd& covariances, Eigen::Index i, Eigen::Index j) {
  const double scale = std::sqrt(covariances(i, i) * covariances(j, j));
  return scale > 0 ? covariances(i, j) / scale : 0;
}

}  // namespace

double huber_loss(const Eigen::VectorXd& residuals, const Eigen::VectorXd& counts) {
  double loss = 0;
  for (Eigen::Index i = 0; i < residuals.size(); ++i) {
    const double size = std::abs(residuals[i]);
    loss += counts[i] * (size <= kHuber ? size * size / 2 : kHuber * (size - kHuber / 2));
  }
  return loss;
}

Eigen::VectorXd huber_weights(const Eigen::VectorXd& residuals, const Eigen::VectorXd& counts) {
  Eigen::VectorXd weights(residuals.size());
  for (Eigen::Index i = 0; i < residuals.size(); ++i)
    weights[i] = counts[i] * (std::abs(residuals[i]) <= kHuber ? 1 : kHuber / std::abs(residuals[i]));
  return weights;
}

Eigen::VectorXd solve_in_box(const Eigen::MatrixXd& normal, const Eigen::VectorXd& gradient, const Eigen::VectorXd& low,
                             const Eigen::VectorXd& high) {
  const Eigen::Index size = gradient.size();
  Eigen::VectorXd step = Eigen::VectorXd::Zero(size);
  std::vector<bool> is_held(static_cast<std::size_t>(size));
  for (Eigen::Index round = 0; round < 10 * size; ++round) {
    std::vector<Eigen::Index> loose;
    for (Eigen::Index p = 0; p < size; ++p) {
      if (is_held[static_cast<std::size_t>(p)]) continue;
      loose.push_back(p);
      step[p] = 0;
    }
    const Eigen::VectorXd pull = -(gradient + normal * step);
    const Eigen::VectorXd solved = normal(loose, loose).ldlt().solve(pull(loose));
    bool has_crossed = false;
    for (std::size_t k = 0; k < loose.size(); ++k) {
      const Eigen::Index p = loose[k];
      const double wanted = solved[static_cast<Eigen::Index>(k)];
      step[p] = std::clamp(wanted, low[p], high[p]);
      if (step[p] == wanted) continue;
      is_held[static_cast<std::size_t>(p)] = true;
      has_crossed = true;
    }
    if (has_crossed) continue;
    const Eigen::VectorXd slope = gradient + normal * step;
    Eigen::Index most = -1;
    double steepest = 1e-12;
    for (Eigen::Index p = 0; p < size; ++p) {
      if (!is_held[static_cast<std::size_t>(p)] || low[p] == high[p]) continue;
      const double inwards = step[p] <= low[p] ? -slope[p] : slope[p];
      if (inwards > steepest) {
        steepest = inwards;
        most = p;
      }
    }
    if (most < 0) break;
    is_held[static_cast<std::size_t>(most)] = false;
  }
  return step;
}

Eigen::VectorXd feigned_slope(const LinearModel& minimum, const Eigen::VectorXd& counts, const Bounds& bounds) {
  Eigen::VectorXd slope =
      minimum.jacobian.transpose() * huber_weights(minimum.residuals, counts).cwiseProduct(minimum.residuals);
  for (Eigen::Index p = 0; p < slope.size(); ++p)
    if (minimum.at[p] <= bounds.low[p] || minimum.at[p] >= bounds.high[p]) slope[p] = 0;
  return slope;
}

Eigen::VectorXd linear_minimum(const LinearModel& model, const Eigen::VectorXd& counts, const Bounds& bounds,
                               const Eigen::VectorXd& slope, double lambda) {
  const Eigen::VectorXd low = (bounds.low - model.at).cwiseMax(-kLargestStep);
  const Eigen::VectorXd high = (bounds.high - model.at).cwiseMin(kLargestStep);
  Eigen::VectorXd step = Eigen::VectorXd::Zero(model.at.size());
  for (int round = 0; round < 100; ++round) {
    const Eigen::VectorXd weights = huber_weights(model.after(step), counts);
    const Eigen::VectorXd gradient = model.jacobian.transpose() * weights.cwiseProduct(model.residuals) - slope;
    Eigen::MatrixXd normal = normal_matrix(model, weights);
    normal.diagonal() *= 1 + lambda;
    const Eigen::VectorXd next = solve_in_box(normal, gradient, low, high);
    const bool has_settled = (next - step).lpNorm<Eigen::Infinity>() < 1e-7;
    step = next;
    if (has_settled) break;
  }
  return step;
}

void update_jacobian(LinearModel& model, const Eigen::VectorXd& step, const Eigen::VectorXd& residuals_there) {
  if (step.norm() < kDifference) return;
  model.jacobian += (residuals_there - model.after(step)) * step.transpose() / step.squaredNorm();
}

LinearModel minimize(const ResidualFunction& residuals, const Eigen::VectorXd& start, const Eigen::VectorXd& counts,
                     const Bounds& bounds, int most_steps, const std::function<void(const Eigen::VectorXd&)>& on_step) {
  LinearModel model{start, residuals({start}).front(), {}};
  model.jacobian = differences(residuals, model.at, bounds);
  Eigen::VectorXd differenced_at = model.at;
  double loss = huber_loss(model.residuals, counts);
  double lambda = kDamping;
  int failures = 0;
  const auto renew = [&] {
    model.jacobian = differences(residuals, model.at, bounds);
    differenced_at = model.at;
    failures = 0;
    lambda = kDamping;
  };
  const auto is_near = [&] { return (model.at - differenced_at).lpNorm<Eigen::Infinity>() <= kNear; };

  for (int steps = 0; steps < most_steps;) {
    const Eigen::VectorXd step = damped_step(model, counts, bounds, lambda);
    const double promised = loss - huber_loss(model.after(step), counts);
    if (promised < kSettled * loss || loss < kExact * counts.sum() || failures == kMostFailures) {
      if (is_near()) break;
      renew();
      continue;
    }
    const Eigen::VectorXd there = residuals({model.at + step}).front();
    ++steps;
    const double loss_there = huber_loss(there, counts);
    update_jacobian(model, step, there);
    if (loss_there < loss) {
      model.at += step;
      model.residuals = there;
      loss = loss_there;
      lambda = std::max(lambda / 5, 1e-8);
      failures = 0;
      if (on_step) on_step(model.residuals);
    } else {
      lambda *= 10;
      ++failures;
      if (failures == 2 && model.at != differenced_at) renew();
    }
  }
  if (!is_near()) renew();
  return model;
}

double residual_deviation(const LinearModel& minimum, const Eigen::VectorXd& counts) {
  const Eigen::VectorXd weights = huber_weights(minimum.residuals, counts);
  const auto values = static_cast<double>(minimum.at.size());
  return std::sqrt(minimum.residuals.cwiseAbs2().dot(weights) / std::max(1.0, counts.sum() - values));
}

Eigen::MatrixXd covariance(const LinearModel& minimum, const Eigen::VectorXd& counts) {
  const Eigen::VectorXd weights = huber_weights(minimum.residuals, counts);
  const double variance = residual_deviation(minimum, counts) * residual_deviation(minimum, counts);
  const Eigen::MatrixXd normal = normal_matrix(minimum, weights);
  return variance * normal.ldlt().solve(Eigen::MatrixXd::Identity(normal.rows(), normal.cols()));
}

double student_t_95(double degrees_of_freedom) {
  return boost::math::quantile(boost::math::students_t{std::max(1.0, degrees_of_freedom)}, 0.975);
}

std::vector<Confusion> find_confusions(const LinearModel& minimum, const Eigen::VectorXd& counts) {
  std::vector<Confusion> confusions;
  const Eigen::VectorXd weights = huber_weights(minimum.residuals, counts);
  const Eigen::MatrixXd normal = normal_matrix(minimum, weights);
  const Eigen::MatrixXd covariances = normal.ldlt().solve(Eigen::MatrixXd::Identity(normal.rows(), normal.cols()));
  const auto has_effect = [&](Eigen::Index p) { return normal(p, p) > kNoEffect * kNoEffect * counts.sum(); };
  const auto name = [&](Eigen::Index p, Eigen::Index q) {
    confusions.push_back({static_cast<std::size_t>(p), static_cast<std::size_t>(q), correlation(covariances, p, q)});
  };
  for (Eigen::Index p = 0; p < normal.rows(); ++p) {
    if (!has_effect(p)) {
      name(p, p);
      continue;
    }
    for (Eigen::Index q = 0; q < p; ++q)
      if (has_effect(q) && std::abs(correlation(covariances, p, q)) > kTooAlike) name(q, p);
  }
  return confusions;
}

std::vector<Interval> bootstrap_intervals(const LinearModel& minimum,
                                          const std::vector<std::vector<std::size_t>>& blocks, const Bounds& bounds,
                                          int draws, Rng& rng, const Budget& budget) {
  const Eigen::Index values = minimum.at.size();
  Eigen::VectorXd counts = Eigen::VectorXd::Zero(minimum.residuals.size());
  const auto add = [&](const std::vector<std::size_t>& block) {
    for (const std::size_t row : block) counts[static_cast<Eigen::Index>(row)] += 1;
  };
  for (const auto& block : blocks) add(block);
  const Eigen::VectorXd slope = feigned_slope(minimum, counts, bounds);
  std::vector<std::vector<double>> moves(static_cast<std::size_t>(values));
  for (int draw = 0; draw < draws; ++draw) {
    budget.check();
    counts.setZero();
    for (std::size_t i = 0; i < blocks.size(); ++i) add(blocks[rng.below(blocks.size())]);
    const Eigen::VectorXd step = linear_minimum(minimum, counts, bounds, slope);
    const Eigen::VectorXd effect = (minimum.jacobian.transpose().cwiseAbs2() * counts) / counts.sum();
    for (Eigen::Index p = 0; p < values; ++p)
      if (effect[p] > kNoEffect * kNoEffect) moves[static_cast<std::size_t>(p)].push_back(step[p]);
  }
  std::vector<Interval> intervals;
  for (Eigen::Index p = 0; p < values; ++p) {
    const std::vector<double>& of_value = moves[static_cast<std::size_t>(p)];
    const bool is_known = !of_value.empty();
    intervals.push_back({is_known ? minimum.at[p] + percentile(of_value, 2.5) : bounds.low[p],
                         is_known ? minimum.at[p] + percentile(of_value, 97.5) : bounds.high[p]});
  }
  return intervals;
}

}  // namespace rehearse
