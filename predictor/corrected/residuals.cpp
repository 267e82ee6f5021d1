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
constexpr double kDoubt = 2;  // rows, or models, of a study without any correction that are put beside its own

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

/// Indices of the residuals of each study, at most `most` of it, evenly spaced.
std::map<std::string, std::vector<std::size_t>> rows_by_study(const std::vector<Residual>& residuals,
                                                              std::size_t most) {
  std::map<std::string, std::vector<std::size_t>> all, chosen;
  for (std::size_t i = 0; i < residuals.size(); ++i) all[residuals[i].job.study].push_back(i);
  for (const auto& [study, rows] : all)
    for (std::size_t i = 0; i < std::min(rows.size(), most); ++i)
      chosen[study].push_back(rows[i * rows.size() / std::min(rows.size(), most)]);
  return chosen;
}

std::vector<Residual> clipped_and_thinned(const std::vector<Residual>& residuals) {
  std::vector<Residual> kept;
  for (const auto& [study, rows] : rows_by_study(residuals, ResidualModel::kMostRows))
    for (const std::size_t i : rows) {
      kept.push_back(residuals[i]);
      kept.back().value = std::clamp(kept.back().value, -kLargestResidual, kLargestResidual);
    }
  return kept;
}

/// ln likelihood of the residuals, which are 0 on average. Studies have nothing in common.
class Likelihood {
 public:
  explicit Likelihood(const std::vector<Residual>& residuals) {
    for (const auto& [study, rows] : rows_by_study(residuals, ResidualModel::kMostPerStudy)) {
      Study& of = studies_.emplace_back();
      const Eigen::Index n = index(rows.size());
      of.values.resize(n);
      for (Eigen::MatrixXd& part : of.parts) part.resize(n, n);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        of.values(index(i)) = residuals[rows[i]].value;
        for (std::size_t j = 0; j <= i; ++j) {
          const auto shares = shares_of(residuals[rows[i]].job, residuals[rows[j]].job);
          for (std::size_t p = 0; p < shares.size(); ++p)
            of.parts[p](index(i), index(j)) = of.parts[p](index(j), index(i)) = shares[p];
        }
      }
    }
  }
  double at(const ResidualModel::Variances& variances) const {
    double sum = 0;
    for (const Study& study : studies_) {
      const Eigen::Index n = study.values.size();
      Eigen::MatrixXd k = variances.back() * Eigen::MatrixXd::Identity(n, n);
      for (std::size_t p = 0; p < study.parts.size(); ++p) k += variances[p] * study.parts[p];
      const Eigen::LLT<Eigen::MatrixXd> factor{k};
      const double log_determinant = 2 * factor.matrixLLT().diagonal().array().log().sum();
      sum -= 0.5 * (study.values.dot(factor.solve(study.values)) + log_determinant);
    }
    return sum;
  }

 private:
  struct Study {
    std::array<Eigen::MatrixXd, ResidualModel::kShares> parts;
    Eigen::VectorXd values;
  };
  std::vector<Study> studies_;
};

/// Climbs along one variance after another, by factors that become smaller.
ResidualModel::Variances most_likely(const std::vector<Residual>& residuals) {
  const Likelihood likelihood{residuals};
  ResidualModel::Variances best = kFirst;
  double value = likelihood.at(best);
  for (const double factor : {8.0, 8.0, 3.0, 3.0, 1.6, 1.6})
    for (double& variance : best)
      for (const double step : {factor, 1 / factor}) {
        const double before = variance;
        variance = std::clamp(variance * step, ResidualModel::kLeastVariance, ResidualModel::kMostVariance);
        const double now = likelihood.at(best);
        if (now > value) {
          value = now;
          break;
        }
        variance = before;
      }
  return best;
}

/// How far `means` that others gave foretell `values`, beside `doubt` rows that they said nothing of.
double trust_of(const Eigen::VectorXd& means, const Eigen::VectorXd& values, double doubt) {
  const double scale = means.squaredNorm() + doubt * values.squaredNorm() / static_cast<double>(values.size());
  return scale > 0 ? std::clamp(means.dot(values) / scale, 0.0, 1.0) : 0;
}

}  // namespace

ResidualModel::ResidualModel(const std::vector<Residual>& residuals)
    : ResidualModel{residuals, residuals.empty() ? kFirst : most_likely(clipped_and_thinned(residuals))} {}

ResidualModel::ResidualModel(const std::vector<Residual>& residuals, const Variances& variances)
    : residuals_{clipped_and_thinned(residuals)}, variances_{variances} {
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    Study& study = studies_[residuals_[i].job.study];
    place_.push_back(study.rows.size());
    study.rows.push_back(i);
  }
}

const ResidualModel::Study& ResidualModel::solved(const std::string& name) const {
  static const Study none;
  const auto found = studies_.find(name);
  if (found == studies_.end()) return none;
  Study& study = found->second;
  if (!study.weights.empty()) return study;
  const std::size_t n = study.rows.size();
  Eigen::MatrixXd k(index(n), index(n));
  Eigen::VectorXd values(index(n));
  for (std::size_t i = 0; i < n; ++i) {
    const Residual& residual = residuals_[study.rows[i]];
    values(index(i)) = residual.value;
    for (std::size_t j = 0; j <= i; ++j)
      k(index(i), index(j)) = k(index(j), index(i)) =
          covariance(residual.job, residuals_[study.rows[j]].job, variances_);
    k(index(i), index(i)) += variances_.back();
  }
  const Eigen::LLT<Eigen::MatrixXd> factor{k};
  const Eigen::VectorXd weights = factor.solve(values);
  study.weights.assign(weights.begin(), weights.end());
  const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(index(n), index(n)));
  study.inverse.assign(inverse.data(), inverse.data() + inverse.size());
  Eigen::VectorXd of_others(index(n));
  for (std::size_t i = 0; i < n; ++i)
    of_others(index(i)) = values(index(i)) - study.weights[i] / study.inverse[i * n + i];
  study.trust = trust_of(of_others, values, kDoubt);
  for (std::size_t i = 0; i < n; ++i) study.rows_of_model[residuals_[study.rows[i]].job.model].push_back(index(i));
  const auto models = static_cast<double>(study.rows_of_model.size());
  if (models < 2) return study;
  for (const auto& [model, rows] : study.rows_of_model) {
    const Eigen::MatrixXd block = inverse(rows, rows);
    const Eigen::VectorXd own = weights(rows);
    of_others(rows) = values(rows) - block.llt().solve(own);
  }
  study.trust_in_new_models = trust_of(of_others, values, kDoubt * static_cast<double>(n) / models);
  return study;
}

double ResidualModel::left_out_mean(std::size_t row) const {
  const Study& study = solved(residuals_[row].job.study);
  const std::size_t i = place_[row];
  return residuals_[row].value - study.weights[i] / study.inverse[i * study.rows.size() + i];
}

double ResidualModel::trust_in(const std::string& study) const { return solved(study).trust; }

double ResidualModel::trust_in_new_models(const std::string& study) const { return solved(study).trust_in_new_models; }

ResidualEstimate ResidualModel::estimate(const JobTraits& job) const {
  const Study& study = solved(job.study);
  const auto n = index(study.rows.size());
  Eigen::VectorXd shared(n);
  for (Eigen::Index i = 0; i < n; ++i)
    shared(i) = covariance(job, residuals_[study.rows[static_cast<std::size_t>(i)]].job, variances_);
  const Eigen::Map<const Eigen::VectorXd> weights{study.weights.data(), n};
  const Eigen::Map<const Eigen::MatrixXd> inverse{study.inverse.data(), n, n};
  JobTraits measured = job;
  if (measured.study.empty()) measured.study = "?";  // a job that is measured belongs to some study
  const double known = n == 0 ? 0 : shared.dot(inverse * shared);
  const double variance = covariance(measured, measured, variances_) + variances_.back() - known;
  const double trust = study.rows_of_model.contains(job.model) ? study.trust : study.trust_in_new_models;
  return {n == 0 ? 0 : trust * shared.dot(weights), std::sqrt(std::max(variance, variances_.back()))};
}

std::vector<double> ResidualModel::left_out_scores() const {
  std::vector<double> scores;
  for (std::size_t row = 0; row < residuals_.size(); ++row) {
    const Study& study = solved(residuals_[row].job.study);
    const std::size_t i = place_[row];
    scores.push_back(std::abs(study.trust * left_out_mean(row) - residuals_[row].value) *
                     std::sqrt(study.inverse[i * study.rows.size() + i]));
  }
  return scores;
}

}  // namespace rehearse
