#pragma once
// A loss model to test with.

#include "workloads/convergence.hpp"

namespace rehearse::test {

/// ResNet-110 on CIFAR-100 as spotDNN released it: calibration/data/spotdnn/resnet110_fitted_coefficients.csv.
inline Convergence released_convergence(int most_workers) {
  return {.offset = 876.5,
          .initial_loss = {},
          .batch_slope = -0.2,
          .batch_intercept = 2507.6,
          .spread_offset = {},
          .floor = 0.5,
          .weighted_batch = {1024, 2048},
          .workers = {1, most_workers},
          .source = "test"};
}

}  // namespace rehearse::test
