#pragma once
// What measured jobs say of the engine's errors: a Gaussian process over studies, GPUs, models and sizes.

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "predictor/job_traits.hpp"

namespace rehearse {

/// A measured job of which the engine said something else: ln(measured / simulated).
struct Residual {
  JobTraits job;
  double value = 0;
};

/// What the residual of a job is thought to be.
struct ResidualEstimate {
  double mean = 0, deviation = 0;  // of another measurement of the job, its noise included
};

/// Residuals r ~ N(0, K + noise), where two jobs share
///   K = a0 [study] + a1 [study, GPU] + a2 [study, model] + a3 [study, GPU, model, strategy] s
///     + a4 [study] s,   s = exp(-d^2 / 2), d^2 = sum of squared differences of ln2(1 + workers), ln2(1 + machines),
///                           ln2(1 + batch), over 1.5^2
/// with [..] = 1 where both are the same and 0 else: so the mean is 0, and the engine as it is, for a job of a study of
/// which nothing was measured. (What other studies of the same framework and GPU say made it worse.) The variances a and the noise maximize the likelihood of the
/// residuals, of at most kMostPerStudy rows of a study, so that none outweighs the others.
///
/// What rows of a study say is only taken as far as they foretell one another: the mean m_i that the others give for row i
/// is compared with its residual r_i, and the correction of a job of this study is the mean times
///   t = sum of m_i r_i / (sum of m_i^2 + 2 mean of r_i^2), at least 0 and at most 1
/// For a model that the study has no row of, m_i is what rows of other models give, and 2 models count as 2 rows do: 0
/// where all rows are of one model.
class ResidualModel {
 public:
  static constexpr std::size_t kShares = 5, kMostPerStudy = 120, kMostRows = 1000;
  static constexpr double kLeastVariance = 1e-6, kMostVariance = 0.3;  // that are found
  using Variances = std::array<double, kShares + 1>;                   // a0 to a4, noise

  /// Finds the variances.
  explicit ResidualModel(const std::vector<Residual>& residuals);
  /// With given ones.
  ResidualModel(const std::vector<Residual>& residuals, const Variances& variances);

  ResidualEstimate estimate(const JobTraits& job) const;
  const Variances& variances() const { return variances_; }
  /// At most kMostRows of a study, evenly spaced.
  const std::vector<Residual>& residuals() const { return residuals_; }
  /// What the other jobs say of a residual, and how far that is taken in its study: m_i and t.
  double left_out_mean(std::size_t row) const;
  double trust_in(const std::string& study) const;
  double trust_in_new_models(const std::string& study) const;
  /// |residual - t m_i| / deviation, of every job.
  std::vector<double> left_out_scores() const;

 private:
  struct Study {
    std::vector<std::size_t> rows;  // in residuals_
    // What solved() finds of them:
    std::vector<double> weights;                                       // K^-1 r
    std::vector<double> inverse;                                       // K^-1, by rows
    std::map<std::string, std::vector<std::ptrdiff_t>> rows_of_model;  // in `rows`
    double trust = 0, trust_in_new_models = 0;                         // t
  };
  /// Solved when it is first asked for: what one study is asked about does not depend on others.
  const Study& solved(const std::string& name) const;

  std::vector<Residual> residuals_;
  Variances variances_{};
  std::vector<std::size_t> place_;  // [residuals] in its study
  mutable std::map<std::string, Study> studies_;
};

}  // namespace rehearse
