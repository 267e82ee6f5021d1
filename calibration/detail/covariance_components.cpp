#include "calibration/detail/covariance_components.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace rehearse {

std::vector<Eigen::VectorXd> components_of(const Eigen::MatrixXd& covariances) {
  constexpr double kNegligible = 1e-4, kMost = 3, kUnstated = 5e-5;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen{covariances};
  std::vector<Eigen::VectorXd> components;
  for (Eigen::Index k = covariances.rows(); k-- > 0;) {
    const Eigen::VectorXd component = eigen.eigenvectors().col(k) * std::sqrt(std::max(0.0, eigen.eigenvalues()[k]));
    if (component.norm() > kNegligible)
      components.emplace_back(
          (component.array().abs() < kUnstated).select(0, component).cwiseMax(-kMost).cwiseMin(kMost));
  }
  return components;
}

}  // namespace rehearse
