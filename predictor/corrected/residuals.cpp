#include "predictor/corrected/residuals.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace rehearse {

namespace {

constexpr double kReach = 1.5;            // in doublings
constexpr double kLargestResidual = 1.5;  // what is further off tells of a mistake, not of the engine
constexpr ResidualModel::Variances kFirst{1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
constexpr double kDoubt = 2;  // rows of a study without any correction that are put beside its own
constexpr double kLeastVariance = 1e-6, kMostVariance = 0.3;

/// The parts of K that two jobs share, before they are weighted.
std::array<double, ResidualModel::kShares> shares_of(const JobTraits& a, const JobTraits& b) {
  const bool study = !a.study.empty() && a.study == b.study, gpu = a.gpu == b.gpu, model = a.model == b.model;
  const auto doublings = [](double x, double y) { return std::log2((1 + x) / (1 + y)) / kReach; };
  const double far = std::pow(doublings(a.workers, b.workers), 2) + std::pow(doublings(a.machines, b.machines), 2) +
                     std::pow(doublings(a.batch, b.batch), 2);
  const double near = std::exp(-far / 2);
  const auto flag = [](bool condition) { return condition ? 1.0 : 0.0; };
  return {flag(study), flag(study && gpu), flag(study && model),
          flag(study && gpu && model && a.strategy == b.strategy) * near, flag(study) * near};
}

double covariance(const JobTraits& a, const JobTraits& b, const ResidualModel::Variances& variances) {
  const auto shares = shares_of(a, b);
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) sum += shares[i] * variances[i];
  return sum;
}

Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

/// ln likelihood of the residuals of the matrices of shares, which are 0 on average.
class Likelihood {
 public:
  explicit Likelihood(const std::vector<Residual>& residuals) : values_(index(residuals.size())) {
    const Eigen::Index n = values_.size();
    for (Eigen::MatrixXd& part : parts_) part.resize(n, n);
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      values_(index(i)) = residuals[i].value;
      for (std::size_t j = 0; j <= i; ++j) {
        const auto shares = shares_of(residuals[i].job, residuals[j].job);
        for (std::size_t p = 0; p < shares.size(); ++p)
          parts_[p](index(i), index(j)) = parts_[p](index(j), index(i)) = shares[p];
      }
    }
  }
  double at(const ResidualModel::Variances& variances) const {
    Eigen::MatrixXd k = variances.back() * Eigen::MatrixXd::Identity(values_.size(), values_.size());
    for (std::size_t p = 0; p < parts_.size(); ++p) k += variances[p] * parts_[p];
    const Eigen::LLT<Eigen::MatrixXd> factor{k};
    const double log_determinant = 2 * factor.matrixLLT().diagonal().array().log().sum();
    return -0.5 * (values_.dot(factor.solve(values_)) + log_determinant);
  }

 private:
  std::array<Eigen::MatrixXd, ResidualModel::kShares> parts_;
  Eigen::VectorXd values_;
};

/// At most kMostPerStudy of each study, evenly spaced.
std::vector<Residual> balanced(const std::vector<Residual>& residuals) {
  std::map<std::string, std::vector<std::size_t>> of_study;
  for (std::size_t i = 0; i < residuals.size(); ++i) of_study[residuals[i].job.study].push_back(i);
  std::vector<Residual> chosen;
  for (const auto& [study, rows] : of_study) {
    const std::size_t count = std::min(rows.size(), ResidualModel::kMostPerStudy);
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(residuals[rows[i * rows.size() / count]]);
  }
  return chosen;
}

/// Climbs along one variance after another, by factors that become smaller.
ResidualModel::Variances most_likely(const std::vector<Residual>& residuals) {
  const Likelihood likelihood{balanced(residuals)};
  ResidualModel::Variances best = kFirst;
  double value = likelihood.at(best);
  for (const double factor : {8.0, 8.0, 3.0, 3.0, 1.6, 1.6})
    for (double& variance : best)
      for (const double step : {factor, 1 / factor}) {
        const double before = variance;
        variance = std::clamp(variance * step, kLeastVariance, kMostVariance);
        const double now = likelihood.at(best);
        if (now > value) {
          value = now;
          break;
        }
        variance = before;
      }
  return best;
}

std::vector<Residual> clipped(std::vector<Residual> residuals) {
  for (Residual& residual : residuals) residual.value = std::clamp(residual.value, -kLargestResidual, kLargestResidual);
  return residuals;
}

}  // namespace

ResidualModel::ResidualModel(std::vector<Residual> residuals)
    : residuals_{clipped(std::move(residuals))}, variances_{residuals_.empty() ? kFirst : most_likely(residuals_)} {
  solve();
}

ResidualModel::ResidualModel(std::vector<Residual> residuals, const Variances& variances)
    : residuals_{clipped(std::move(residuals))}, variances_{variances} {
  solve();
}

void ResidualModel::solve() {
  const std::size_t n = residuals_.size();
  Eigen::MatrixXd k(index(n), index(n));
  Eigen::VectorXd values(index(n));
  for (std::size_t i = 0; i < n; ++i) {
    values(index(i)) = residuals_[i].value;
    for (std::size_t j = 0; j <= i; ++j)
      k(index(i), index(j)) = k(index(j), index(i)) = covariance(residuals_[i].job, residuals_[j].job, variances_);
    k(index(i), index(i)) += variances_.back();
  }
  const Eigen::LLT<Eigen::MatrixXd> factor{k};
  const Eigen::VectorXd weights = factor.solve(values);
  weights_.assign(weights.begin(), weights.end());
  const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(index(n), index(n)));
  inverse_.assign(inverse.data(), inverse.data() + inverse.size());
  struct Sums {
    double products = 0, means = 0, values = 0, rows = 0;
  };
  std::map<std::string, Sums> of_study;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = left_out_mean(i), value = residuals_[i].value;
    Sums& sums = of_study[residuals_[i].job.study];
    sums.products += mean * value;
    sums.means += mean * mean;
    sums.values += value * value;
    sums.rows += 1;
  }
  for (const auto& [study, sums] : of_study) {
    const double scale = sums.means + kDoubt * sums.values / sums.rows;
    trust_[study] = scale > 0 ? std::clamp(sums.products / scale, 0.0, 1.0) : 0;
  }
}

double ResidualModel::left_out_mean(std::size_t row) const {
  return residuals_[row].value - weights_[row] / inverse_[row * residuals_.size() + row];
}

double ResidualModel::trust_in(const std::string& study) const {
  const auto found = trust_.find(study);
  return found == trust_.end() ? 1 : found->second;
}

ResidualEstimate ResidualModel::estimate(const JobTraits& job) const {
  const auto n = index(residuals_.size());
  Eigen::VectorXd shared(n);
  for (Eigen::Index i = 0; i < n; ++i)
    shared(i) = covariance(job, residuals_[static_cast<std::size_t>(i)].job, variances_);
  const Eigen::Map<const Eigen::VectorXd> weights{weights_.data(), n};
  const Eigen::Map<const Eigen::MatrixXd> inverse{inverse_.data(), n, n};
  JobTraits measured = job;
  if (measured.study.empty()) measured.study = "?";  // a job that is measured belongs to some study
  const double known = n == 0 ? 0 : shared.dot(inverse * shared);
  const double variance = covariance(measured, measured, variances_) + variances_.back() - known;
  return {n == 0 ? 0 : trust_in(job.study) * shared.dot(weights), std::sqrt(std::max(variance, variances_.back()))};
}

std::vector<double> ResidualModel::left_out_scores() const {
  const std::size_t n = residuals_.size();
  std::vector<double> scores;
  for (std::size_t i = 0; i < n; ++i)
    scores.push_back(std::abs(trust_in(residuals_[i].job.study) * left_out_mean(i) - residuals_[i].value) *
                     std::sqrt(inverse_[i * n + i]));
  return scores;
}

}  // namespace rehearse
