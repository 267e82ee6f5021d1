#include "workloads/convergence.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

/// A; throws NoResultError unless above 0.
double numerator(const Convergence& model, const ConvergenceCluster& cluster) {
  if (const auto a = loss_numerator(model, cluster)) return *a;
  throw NoResultError{"the convergence model does not hold for " + std::to_string(cluster.workers) + " workers with " +
                      to_text(cluster.weighted_batch) + " samples per update: it was fitted for " +
                      to_text(model.weighted_batch.first) + " to " + to_text(model.weighted_batch.second)};
}

double offset_of(const Convergence& model, double numerator) {
  return model.offset ? *model.offset : numerator / (*model.initial_loss - model.floor);
}

}  // namespace

double speed_spread(std::vector<double> speeds) {
  std::sort(speeds.rbegin(), speeds.rend());
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  double squares = 0;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double distance = speeds[i] / sum - (i == 0 ? 1 : 0);
    squares += distance * distance;
  }
  return std::sqrt(squares);
}

std::optional<double> loss_numerator(const Convergence& model, const ConvergenceCluster& cluster) {
  const double spread = model.spread_offset ? cluster.spread + *model.spread_offset : 1;
  const double of_batch = model.batch_slope * cluster.weighted_batch + model.batch_intercept;
  if (!(of_batch > 0 && spread > 0)) return {};
  return of_batch * std::sqrt(spread * cluster.workers);
}

double loss_after(const Convergence& model, const ConvergenceCluster& cluster, double updates) {
  const double a = numerator(model, cluster);
  return a / (updates + offset_of(model, a)) + model.floor;
}

double updates_to_loss(const Convergence& model, const ConvergenceCluster& cluster, double loss) {
  if (!(loss > model.floor))
    throw NoResultError{"a loss of " + to_text(loss) + " is not reached: the convergence model's floor is " +
                        to_text(model.floor)};
  return updates_to_loss(model, numerator(model, cluster), loss);
}

double updates_to_loss(const Convergence& model, double numerator, double loss) {
  return std::max(0.0, numerator / (loss - model.floor) - offset_of(model, numerator));
}

Convergence read_convergence(const JsonReader& json) {
  constexpr double kLargest = 1e12;
  Convergence model{.offset = json.maybe<double>("offset"),
                    .initial_loss = json.maybe<double>("initial_loss"),
                    .batch_slope = json.required<double>("batch_slope"),
                    .batch_intercept = json.required<double>("batch_intercept"),
                    .spread_offset = json.maybe<double>("spread_offset"),
                    .floor = json.required<double>("floor"),
                    .source = json.required<std::string>("source")};
  if (model.offset.has_value() == model.initial_loss.has_value())
    json.fail("expected \"offset\" or \"initial_loss\"; found " + std::string{model.offset ? "both" : "neither"});
  json.expect(model.floor >= 0 && model.floor <= kLargest, "floor", "0 to 1e12");
  if (model.offset) json.expect(*model.offset >= 0 && *model.offset <= kLargest, "offset", "0 to 1e12 updates");
  if (model.initial_loss)
    json.expect(*model.initial_loss > model.floor && *model.initial_loss <= kLargest, "initial_loss",
                "a loss above the floor, at most 1e12");
  json.expect(std::abs(model.batch_slope) <= kLargest, "batch_slope", "-1e12 to 1e12");
  json.expect(std::abs(model.batch_intercept) <= kLargest, "batch_intercept", "-1e12 to 1e12");
  if (model.spread_offset) json.expect(std::abs(*model.spread_offset) <= kLargest, "spread_offset", "-1e12 to 1e12");
  const auto batches = json.required<std::vector<double>>("weighted_batch");
  json.expect(batches.size() == 2 && batches[0] > 0 && batches[0] <= batches[1] && batches[1] <= 1e9, "weighted_batch",
              "the smallest and the largest that the fit has seen");
  model.weighted_batch = {batches[0], batches[1]};
  const auto workers = json.required<std::vector<int>>("workers");
  json.expect(workers.size() == 2 && workers[0] >= 1 && workers[0] <= workers[1], "workers",
              "the smallest and the largest number that the fit has seen");
  model.workers = {workers[0], workers[1]};
  json.reject_unknown_keys();
  return model;
}

std::string convergence_schema() {
  return R"json({
  "type": "object",
  "description": "loss after j updates by n asynchronous workers: (batch_slope b + batch_intercept) sqrt((R + spread_offset) n) / (j + offset) + floor; b: samples per update, R: 0 for one worker, sqrt(1 - 1/n) for equal ones; without spread_offset R + spread_offset is 1; with initial_loss the offset is such that all start from it",
  "required": ["batch_slope", "batch_intercept", "floor", "weighted_batch", "workers", "source"],
  "oneOf": [{ "required": ["offset"] }, { "required": ["initial_loss"] }],
  "additionalProperties": false,
  "properties": {
    "offset": { "type": "number", "minimum": 0 },
    "initial_loss": { "type": "number" },
    "batch_slope": { "type": "number" },
    "batch_intercept": { "type": "number" },
    "spread_offset": { "type": "number" },
    "floor": { "type": "number", "minimum": 0 },
    "weighted_batch": { "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2, "description": "smallest and largest b that the fit has seen" },
    "workers": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2, "description": "the same of n" },
    "source": { "type": "string" }
  }
})json";
}

}  // namespace rehearse
