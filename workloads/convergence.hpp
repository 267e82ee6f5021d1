#pragma once
// How the training loss falls with the updates of an asynchronous cluster.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rehearse {

class JsonReader;

/// spotDNN's loss model, fitted to logs of one workload by `rehearse calibrate` or taken from a publication:
///   loss(j) = A / (j + o) + floor,  A = (batch_slope b_w + batch_intercept) sqrt((R + spread_offset) n)
///   o = offset, or A / (initial_loss - floor): then every cluster starts from the same loss, as it does in reality
/// j: updates by all workers, n: workers, b_w and R as in ConvergenceCluster. Without `spread_offset` R is left out,
/// and R + spread_offset is 1, as in the code that its authors released. Source: Shang et al., spotDNN, IWQoS 2023,
/// equations 3 to 5; repository icloud-ecnu/spotDNN.
struct Convergence {
  std::optional<double> offset;        // updates; this one or initial_loss
  std::optional<double> initial_loss;  // above the floor
  double batch_slope = 0;              // loss x updates for each sample, below 0: larger batches need fewer updates
  double batch_intercept = 0;          // loss x updates
  std::optional<double> spread_offset;
  double floor = 0;                                // the loss that no training goes below
  std::pair<double, double> weighted_batch{0, 0};  // that the fit has seen, smallest and largest
  std::pair<int, int> workers{0, 0};               // the same
  std::string source;
};

/// What of a cluster the loss depends on.
struct ConvergenceCluster {
  int workers = 1;
  double weighted_batch = 0;  // b_w = samples_per_s / updates_per_s
  double spread = 0;          // R of the workers' speeds
};

/// R = |(w_1, ..., w_n) - (1, 0, ..., 0)|, w_i the share of worker i in the cluster's speed in samples per second, the
/// fastest first. Equal workers: sqrt(1 - 1/n); one alone: 0. `speeds`: at least one, above 0.
double speed_spread(std::vector<double> speeds);

/// A; none where the model does not hold: b_w so far outside of the fitted range that A is not above 0.
std::optional<double> loss_numerator(const Convergence& model, const ConvergenceCluster& cluster);

double loss_after(const Convergence& model, const ConvergenceCluster& cluster, double updates);

/// The j at which the loss is `loss`; 0 if it is that low from the start. Throws NoResultError if the loss lies at or
/// below the floor, or if b_w is so far outside of the fitted range that A is not above 0.
double updates_to_loss(const Convergence& model, const ConvergenceCluster& cluster, double loss);
/// The same for a cluster whose A is known; `loss` above the floor. It does not fall as A grows.
double updates_to_loss(const Convergence& model, double numerator, double loss);

/// Throws InputError.
Convergence read_convergence(const JsonReader& json);
/// JSON Schema of what it reads.
std::string convergence_schema();

}  // namespace rehearse
