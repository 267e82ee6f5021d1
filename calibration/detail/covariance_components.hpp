#pragma once
// The directions in which fitted values are uncertain together. By itself, as decompositions of matrices take long to compile.

#include <Eigen/Core>
#include <vector>

namespace rehearse {

/// [components] of [values]: C^(1/2), by eigenvectors; those that hardly matter are left out, no value is moved by
/// more than a factor of 20, however little is known about it, and none by less than a record states, so that rows
/// that do not depend on the others are not simulated again.
std::vector<Eigen::VectorXd> components_of(const Eigen::MatrixXd& covariances);

}  // namespace rehearse
