#pragma once
// Speed of asynchronous workers with one parameter server in closed form: spotDNN's predictor, beside which a
// simulation can be held, and whose coefficients `rehearse calibrate` fits to training logs.
//
//   cluster   updates/s = sum 1 / T_i,  samples/s = sum b_i / T_i,  b_w = samples/s / updates/s          (2, 4)
//   worker    T_i = C_i + X_i                                                                              (6)
//   exchange  X_i = 2 S / B + 2 g_i S / B_pcie                                                             (7)
//   sharing   B = B_req                            if n B_req <= B_ps, or else                             (8)
//             B = P B_ps / n + (1 - P) B_req,  P = slope sqrt(n) + intercept, at least 0, at most 1        (9)
//   compute   C_i = A_i - 2 S / B_req - 2 g_i S / B_pcie
//
// S: bytes of the parameters, n: workers, g_i: GPUs of a worker, b_i: its batch. A_i: its step alone with the server. Nothing overlaps.
// Source: Shang et al., spotDNN, IWQoS 2023, by their numbers; repository icloud-ecnu/spotDNN. Checked against the
// outputs of the released code in asynchronous_speed_test.cpp.

#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

/// kReleased: as the published code computes: the PCIe term is added to the step alone instead of taken off, and not
/// added again, so T = A - 2 S / B_req + 2 g S / B_pcie + 2 S / B; b_w is rounded to 0.1.
enum class SpotdnnVariant { kPaper, kReleased };

/// P = slope sqrt(n) + intercept: share of the time in which a worker's transfers have to share the server's bandwidth.
struct Contention {
  double slope = 0, intercept = 1;
};

struct SpotdnnWorkload {
  Bytes parameters{};                 // S
  BytesPerSecond required_bandwidth;  // B_req: of a lone worker while it exchanges parameters
  Contention contention;
};

struct SpotdnnServer {
  BytesPerSecond bandwidth{1.2e9};  // B_ps, of all servers together
  BytesPerSecond pcie{1e10};        // B_pcie
};

struct SpotdnnWorker {
  int gpus = 1;
  double batch = 0;      // of all its GPUs
  Seconds step_alone{};  // A: of this worker with the server
};

struct AsynchronousSpeed {
  double updates_per_s = 0, samples_per_s = 0;
  double weighted_batch = 0;   // b_w
  std::vector<Seconds> steps;  // [workers]
};

/// P of `workers` workers, a share: slope sqrt(n) + intercept, limited to [0, 1].
double contention_probability(const Contention& contention, int workers);

/// B: the bandwidth that one of `workers` workers has while it exchanges parameters.
BytesPerSecond shared_bandwidth(const SpotdnnWorkload& workload, const SpotdnnServer& server, int workers);

/// T_i: time of a step of one of `workers` workers, whatever the others are.
Seconds predict_step(const SpotdnnWorker& worker, const SpotdnnWorkload& workload, const SpotdnnServer& server,
                     int workers, SpotdnnVariant variant);

/// Speed of a `cluster` of at least one worker. Throws InputError if a worker's exchange alone takes as long as
/// its step alone.
AsynchronousSpeed predict_speed(const std::vector<SpotdnnWorker>& cluster, const SpotdnnWorkload& workload,
                                const SpotdnnServer& server, SpotdnnVariant variant);

}  // namespace rehearse
