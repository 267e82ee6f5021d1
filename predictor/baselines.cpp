#include "predictor/baselines.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "predictor/features.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

using Rows = std::vector<std::vector<double>>;
constexpr std::size_t kNearest = 5;
constexpr double kRidge = 1e-3;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double mean_label(const Dataset& dataset, std::span<const std::size_t> samples, std::size_t label) {
  double sum = 0, count = 0;
  for (const std::size_t s : samples) {
    const double value = dataset.samples[s].labels[label];
    if (std::isnan(value)) continue;
    sum += value;
    count += 1;
  }
  return count > 0 ? sum / count : kUnknown;
}

std::vector<double> mean_labels(const Dataset& dataset, std::span<const std::size_t> samples) {
  std::vector<double> means;
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) means.push_back(mean_label(dataset, samples, l));
  return means;
}

/// Training samples by setting; all of them where a setting has none.
std::vector<std::size_t> of_setting(const Dataset& dataset, std::span<const std::size_t> train, std::int32_t setting) {
  std::vector<std::size_t> same;
  for (const std::size_t s : train)
    if (dataset.samples[s].setting == setting) same.push_back(s);
  return same.empty() ? std::vector<std::size_t>{train.begin(), train.end()} : same;
}

/// Totals of samples, scaled to mean 0 and deviation 1 over the training samples: [samples, totals].
class Totals {
 public:
  Totals(const Dataset& dataset, std::span<const std::size_t> train) : dataset_{dataset}, reader_{dataset} {
    const Eigen::MatrixXd rows = raw(train);
    mean_ = rows.colwise().mean();
    scale_ = ((rows.rowwise() - mean_).array().square().colwise().mean().sqrt()).matrix();
  }
  Eigen::MatrixXd of(std::span<const std::size_t> samples) const {
    Eigen::MatrixXd rows = raw(samples).rowwise() - mean_;
    for (Eigen::Index column = 0; column < rows.cols(); ++column) {
      const bool varies = scale_(column) > 1e-6 * (1 + std::abs(mean_(column)));
      rows.col(column) *= varies ? 1 / scale_(column) : 0;
    }
    return rows;
  }

 private:
  Eigen::MatrixXd raw(std::span<const std::size_t> samples) const {
    Eigen::MatrixXd rows(static_cast<Eigen::Index>(samples.size()), static_cast<Eigen::Index>(reader_.total_inputs()));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::vector<double> totals = reader_.read_totals(dataset_, dataset_.samples[samples[i]]);
      rows.row(static_cast<Eigen::Index>(i)) =
          Eigen::Map<const Eigen::RowVectorXd>(totals.data(), static_cast<Eigen::Index>(totals.size()));
    }
    return rows;
  }
  const Dataset& dataset_;
  FeatureReader reader_;
  Eigen::RowVectorXd mean_, scale_;
};

Rows by_regression(const Dataset& dataset, std::span<const std::size_t> train, std::span<const std::size_t> samples) {
  const Totals totals{dataset, train};
  const Eigen::MatrixXd x = totals.of(train), asked = totals.of(samples);
  Rows predictions(samples.size(), std::vector<double>(dataset.labels.size(), kUnknown));
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
    const double typical = mean_label(dataset, train, l);
    if (std::isnan(typical)) continue;
    const double floor = std::max(0.01 * std::abs(typical), 1e-12);
    std::vector<Eigen::Index> known;
    for (std::size_t i = 0; i < train.size(); ++i)
      if (!std::isnan(dataset.samples[train[i]].labels[l])) known.push_back(static_cast<Eigen::Index>(i));
    const Eigen::MatrixXd rows = x(known, Eigen::all);
    Eigen::VectorXd y(static_cast<Eigen::Index>(known.size()));
    for (std::size_t i = 0; i < known.size(); ++i)
      y(static_cast<Eigen::Index>(i)) =
          std::log(std::max(dataset.samples[train[static_cast<std::size_t>(known[i])]].labels[l], 0.0) + floor);
    const double middle = y.mean();
    Eigen::MatrixXd normal = rows.transpose() * rows;
    normal.diagonal().array() += kRidge * static_cast<double>(known.size());
    const Eigen::VectorXd weights = normal.ldlt().solve(rows.transpose() * (y.array() - middle).matrix());
    const Eigen::VectorXd logs = (asked * weights).array() + middle;
    for (std::size_t i = 0; i < samples.size(); ++i)
      predictions[i][l] = std::max(std::exp(logs(static_cast<Eigen::Index>(i))) - floor, 0.0);
  }
  return predictions;
}

Rows by_neighbours(const Dataset& dataset, std::span<const std::size_t> train, std::span<const std::size_t> samples) {
  const Totals totals{dataset, train};
  const Eigen::MatrixXd known = totals.of(train), asked = totals.of(samples);
  Rows predictions;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int32_t setting = dataset.samples[samples[i]].setting;
    const bool is_known =
        std::any_of(train.begin(), train.end(), [&](std::size_t s) { return dataset.samples[s].setting == setting; });
    std::vector<std::pair<double, std::size_t>> near;  // squared distance, sample
    for (std::size_t k = 0; k < train.size(); ++k)
      if (!is_known || dataset.samples[train[k]].setting == setting)
        near.emplace_back(
            (known.row(static_cast<Eigen::Index>(k)) - asked.row(static_cast<Eigen::Index>(i))).squaredNorm(),
            train[k]);
    const std::size_t count = std::min(kNearest, near.size());
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
    std::vector<std::size_t> nearest;
    for (std::size_t k = 0; k < count; ++k) nearest.push_back(near[k].second);
    predictions.push_back(mean_labels(dataset, nearest));
  }
  return predictions;
}

}  // namespace

std::string to_text(Baseline baseline) {
  switch (baseline) {
    case Baseline::kMean:
      return "mean";
    case Baseline::kLinear:
      return "linear";
    case Baseline::kNeighbours:
      return "neighbours";
    case Baseline::kSketch:
      return "sketch";
  }
  return {};
}

Rows predict_by(Baseline baseline, const Dataset& dataset, std::span<const std::size_t> train,
                std::span<const std::size_t> samples) {
  if (train.empty()) throw InputError{"the dataset has no samples to train on"};
  if (samples.empty()) return {};
  if (baseline == Baseline::kLinear) return by_regression(dataset, train, samples);
  if (baseline == Baseline::kNeighbours) return by_neighbours(dataset, train, samples);
  Rows predictions;
  if (baseline == Baseline::kSketch) {
    const FeatureReader reader{dataset};
    for (const std::size_t s : samples) predictions.push_back(reader.read(dataset, dataset.samples[s]).guess);
    return predictions;
  }
  for (const std::size_t s : samples)
    predictions.push_back(mean_labels(dataset, of_setting(dataset, train, dataset.samples[s].setting)));
  return predictions;
}

}  // namespace rehearse
