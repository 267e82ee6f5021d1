#pragma once
// Gradient-boosted trees of XGBoost.

#include <vector>

namespace rehearse {

/// What 400 trees of depth 6 that are fitted to the squared errors of `targets` [n] from `rows` [n][columns] say of
/// `asked` [m][columns]: [m]. The same for the same input, on one thread. Throws std::runtime_error if XGBoost does.
std::vector<double> boosted_trees(const std::vector<std::vector<double>>& rows, const std::vector<double>& targets,
                                  const std::vector<std::vector<double>>& asked);

}  // namespace rehearse
