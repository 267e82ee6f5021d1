#include "sim/queue/max_min_allocation.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

namespace rehearse {

namespace {

using Vector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMostGroups + 1, 1>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMostGroups + 1, kMostGroups + 1>;

/// The barrier problem: minimize -t / mu - sum of the logarithms of all slacks.
class Barrier {
 public:
  Barrier(const std::vector<std::vector<double>>& rates, const std::vector<double>& gpus,
          const std::vector<double>& capacity)
      : gpus_{gpus}, types_{static_cast<int>(capacity.size())}, jobs_(rates.size()), left_{types_} {
    capacity_ = Eigen::Map<const Eigen::VectorXd>{capacity.data(), types_};
    double scale = std::numeric_limits<double>::infinity();  // no least share is above it
    for (const auto& row : rates) scale = std::min(scale, *std::ranges::max_element(row));
    const double all = std::max(1.0, [&] {
      double sum = 0;
      for (const double count : gpus) sum += count;
      return sum;
    }());
    constraints_ = static_cast<double>(2 * rates.size()) + types_;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      Job& job = jobs_[i];
      job.rate = Vector::Zero(types_);
      job.x = Vector::Zero(types_);
      job.is_open = Vector::Zero(types_);
      for (int j = 0; j < types_; ++j) {
        if (rates[i][static_cast<std::size_t>(j)] <= 0 || gpus[i] > capacity[static_cast<std::size_t>(j)]) continue;
        job.is_open[j] = 1;
        job.rate[j] = rates[i][static_cast<std::size_t>(j)] / scale;
        job.x[j] = 0.5 * std::min(1.0 / types_, capacity[static_cast<std::size_t>(j)] / all);
        ++constraints_;
      }
    }
    least_ = std::numeric_limits<double>::infinity();
    for (const Job& job : jobs_) least_ = std::min(least_, 0.5 * job.rate.dot(job.x));
  }

  double constraints() const { return constraints_; }

  /// Newton's method until its decrement is small.
  void minimize(double mu) {
    constexpr int kMostNewtonSteps = 60;
    for (int step = 0; step < kMostNewtonSteps; ++step)
      if (newton_step(mu) < 1e-7) return;
  }

  std::vector<std::vector<double>> shares() const {
    std::vector<std::vector<double>> shares;
    for (const Job& job : jobs_) shares.emplace_back(job.x.data(), job.x.data() + types_);
    return shares;
  }

 private:
  struct Job {
    Vector rate, x, is_open, step;
    Vector solved_gradient;  // B^-1 g
    Vector solved_least;     // B^-1 h
    Matrix solved_gpus;      // B^-1 A
  };

  double value(double mu) const {
    Vector left = capacity_;
    double sum = -least_ / mu;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const Job& job = jobs_[i];
      const double above = job.rate.dot(job.x) - least_, idle = 1 - job.x.sum();
      if (above <= 0 || idle <= 0) return std::numeric_limits<double>::infinity();
      sum -= std::log(above) + std::log(idle);
      for (int j = 0; j < types_; ++j) {
        if (job.is_open[j] == 0) continue;
        if (job.x[j] <= 0) return std::numeric_limits<double>::infinity();
        sum -= std::log(job.x[j]);
      }
      left -= gpus_[i] * job.x;
    }
    for (int j = 0; j < types_; ++j) {
      if (left[j] <= 0) return std::numeric_limits<double>::infinity();
      sum -= std::log(left[j]);
    }
    return sum;
  }

  /// Takes a step and returns the decrement squared, half of which is how far above its minimum the value is.
  double newton_step(double mu) {
    left_ = capacity_;
    for (std::size_t i = 0; i < jobs_.size(); ++i) left_ -= gpus_[i] * jobs_[i].x;
    // Unknowns that join the jobs: w, how the use of each type changes over left^2, and the change of the least share.
    Matrix joint = Matrix::Zero(types_ + 1, types_ + 1);
    Vector right = Vector::Zero(types_ + 1);
    for (int j = 0; j < types_; ++j) joint(j, j) = left_[j] * left_[j];
    double gradient_least = -1 / mu;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      Job& job = jobs_[i];
      const double above = job.rate.dot(job.x) - least_, idle = 1 - job.x.sum();
      Vector gradient = Vector::Zero(types_);
      Matrix hessian = Matrix::Identity(types_, types_);
      for (int j = 0; j < types_; ++j) {
        if (job.is_open[j] == 0) continue;
        gradient[j] = -job.rate[j] / above + 1 / idle + gpus_[i] / left_[j] - 1 / job.x[j];
        hessian(j, j) = 1 / (job.x[j] * job.x[j]);
      }
      hessian +=
          job.rate * job.rate.transpose() / (above * above) + job.is_open * job.is_open.transpose() / (idle * idle);
      const Vector least = -job.rate / (above * above);
      const Eigen::LLT<Matrix> factored{hessian};
      job.solved_gradient = factored.solve(gradient);
      job.solved_least = factored.solve(least);
      const Matrix uses = Matrix{(gpus_[i] * job.is_open).asDiagonal()};
      job.solved_gpus = factored.solve(uses);
      joint.topLeftCorner(types_, types_) += uses * job.solved_gpus;
      joint.block(0, types_, types_, 1) += uses * job.solved_least;
      joint.block(types_, 0, 1, types_) -= least.transpose() * job.solved_gpus;
      joint(types_, types_) += 1 / (above * above) - least.dot(job.solved_least);
      right.head(types_) -= uses * job.solved_gradient;
      right[types_] += least.dot(job.solved_gradient) - 1 / above;
      gradient_least += 1 / above;
      job.step = gradient;  // kept for the decrement
    }
    right[types_] += 1 / mu;
    const Vector shared = joint.partialPivLu().solve(right);
    const double step_least = shared[types_];
    double decrement = -gradient_least * step_least;
    for (Job& job : jobs_) {
      const Vector gradient = job.step;
      job.step = -(job.solved_gradient + job.solved_gpus * shared.head(types_) + job.solved_least * step_least);
      decrement -= gradient.dot(job.step);
    }
    const double before = value(mu);
    const double start_least = least_;
    for (Job& job : jobs_) job.solved_gradient = job.x;  // where the step starts
    for (double length = 1; length > 1e-12; length /= 2) {
      least_ = start_least + length * step_least;
      for (Job& job : jobs_) job.x = job.solved_gradient + length * job.step;
      if (value(mu) <= before - 0.1 * length * decrement) return decrement;
    }
    least_ = start_least;
    for (Job& job : jobs_) job.x = job.solved_gradient;
    return 0;  // as near as doubles come
  }

  const std::vector<double>& gpus_;
  int types_;
  std::vector<Job> jobs_;
  Vector capacity_, left_;
  double least_ = 0, constraints_ = 0;
};

}  // namespace

std::vector<std::vector<double>> max_min_allocation(const std::vector<std::vector<double>>& rates,
                                                    const std::vector<double>& gpus,
                                                    const std::vector<double>& capacity) {
  if (rates.empty()) return {};
  constexpr double kGap = 1e-6, kFactor = 0.1;
  Barrier barrier{rates, gpus, capacity};
  double mu = 1;
  for (; mu * barrier.constraints() > kGap; mu *= kFactor) barrier.minimize(mu);
  barrier.minimize(mu);
  return barrier.shares();
}

}  // namespace rehearse
