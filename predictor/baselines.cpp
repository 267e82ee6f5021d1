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

Eigen::MatrixXd matrix_of(const Rows& rows) {
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(rows.front().size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    matrix.row(static_cast<Eigen::Index>(i)) =
        Eigen::Map<const Eigen::RowVectorXd>(rows[i].data(), static_cast<Eigen::Index>(rows[i].size()));
  return matrix;
}

/// Scales totals to mean 0 and deviation 1 over the training samples: [samples, totals].
class Scaling {
 public:
  explicit Scaling(const Rows& train) {
    const Eigen::MatrixXd rows = matrix_of(train);
    mean_ = rows.colwise().mean();
    scale_ = ((rows.rowwise() - mean_).array().square().colwise().mean().sqrt()).matrix();
  }
  Eigen::MatrixXd of(const Rows& totals) const {
    Eigen::MatrixXd rows = matrix_of(totals).rowwise() - mean_;
    for (Eigen::Index column = 0; column < rows.cols(); ++column) {
      const bool varies = scale_(column) > 1e-6 * (1 + std::abs(mean_(column)));
      rows.col(column) *= varies ? 1 / scale_(column) : 0;
    }
    return rows;
  }

 private:
  Eigen::RowVectorXd mean_, scale_;
};

}  // namespace

Baselines::Baselines(const Dataset& dataset, std::span<const std::size_t> train, std::span<const std::size_t> samples)
    : dataset_{dataset}, train_{train.begin(), train.end()}, samples_{samples.begin(), samples.end()} {
  if (train.empty()) throw InputError{"the dataset has no samples to train on"};
}

Baselines::Features Baselines::read(const std::vector<std::size_t>& samples) const {
  const FeatureReader reader{dataset_};
  Features features;
  for (const std::size_t s : samples) {
    SampleFeatures of_sample = reader.read(dataset_, dataset_.samples[s]);
    features.totals.emplace_back(of_sample.totals.begin(), of_sample.totals.end());
    std::vector<double>& plain = features.plain.emplace_back();
    for (std::size_t i = 0; i < of_sample.totals.size(); ++i)
      if (!is_of_sketch(reader.total_names()[i])) plain.push_back(of_sample.totals[i]);
    features.guesses.push_back(std::move(of_sample.guess));
  }
  return features;
}

const Baselines::Features& Baselines::of_train() {
  if (!train_features_) train_features_ = read(train_);
  return *train_features_;
}

const Baselines::Features& Baselines::of_samples() {
  if (!sample_features_) sample_features_ = read(samples_);
  return *sample_features_;
}

Rows Baselines::predict(Baseline baseline) {
  if (samples_.empty()) return {};
  if (baseline == Baseline::kLinear) return by_regression(false);
  if (baseline == Baseline::kLinearWithSketch) return by_regression(true);
  if (baseline == Baseline::kNeighbours) return by_neighbours();
  if (baseline == Baseline::kSketch) return of_samples().guesses;
  Rows predictions;
  for (const std::size_t s : samples_)
    predictions.push_back(mean_labels(dataset_, of_setting(dataset_, train_, dataset_.samples[s].setting)));
  return predictions;
}

Rows Baselines::by_regression(bool has_sketch) {
  const auto inputs = has_sketch ? &Features::totals : &Features::plain;
  const Scaling scaling{of_train().*inputs};
  const Eigen::MatrixXd x = scaling.of(of_train().*inputs), asked = scaling.of(of_samples().*inputs);
  Rows predictions(samples_.size(), std::vector<double>(dataset_.labels.size(), kUnknown));
  for (std::size_t l = 0; l < dataset_.labels.size(); ++l) {
    const double typical = mean_label(dataset_, train_, l);
    if (std::isnan(typical)) continue;
    const double floor = std::max(0.01 * std::abs(typical), 1e-12);
    std::vector<Eigen::Index> known;
    for (std::size_t i = 0; i < train_.size(); ++i)
      if (!std::isnan(dataset_.samples[train_[i]].labels[l])) known.push_back(static_cast<Eigen::Index>(i));
    const Eigen::MatrixXd rows = x(known, Eigen::all);
    Eigen::VectorXd y(static_cast<Eigen::Index>(known.size()));
    for (std::size_t i = 0; i < known.size(); ++i)
      y(static_cast<Eigen::Index>(i)) =
          std::log(std::max(dataset_.samples[train_[static_cast<std::size_t>(known[i])]].labels[l], 0.0) + floor);
    const double middle = y.mean();
    Eigen::MatrixXd normal = rows.transpose() * rows;
    normal.diagonal().array() += kRidge * static_cast<double>(known.size());
    const Eigen::VectorXd weights = normal.ldlt().solve(rows.transpose() * (y.array() - middle).matrix());
    const Eigen::VectorXd logs = (asked * weights).array() + middle;
    for (std::size_t i = 0; i < samples_.size(); ++i)
      predictions[i][l] = std::max(std::exp(logs(static_cast<Eigen::Index>(i))) - floor, 0.0);
  }
  return predictions;
}

Rows Baselines::by_neighbours() {
  const Scaling scaling{of_train().plain};
  const Eigen::MatrixXd known = scaling.of(of_train().plain), asked = scaling.of(of_samples().plain);
  Rows predictions;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const std::int32_t setting = dataset_.samples[samples_[i]].setting;
    const bool is_known = std::any_of(train_.begin(), train_.end(),
                                      [&](std::size_t s) { return dataset_.samples[s].setting == setting; });
    std::vector<std::pair<double, std::size_t>> near;  // squared distance, sample
    for (std::size_t k = 0; k < train_.size(); ++k)
      if (!is_known || dataset_.samples[train_[k]].setting == setting)
        near.emplace_back(
            (known.row(static_cast<Eigen::Index>(k)) - asked.row(static_cast<Eigen::Index>(i))).squaredNorm(),
            train_[k]);
    const std::size_t count = std::min(kNearest, near.size());
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
    std::vector<std::size_t> nearest;
    for (std::size_t k = 0; k < count; ++k) nearest.push_back(near[k].second);
    predictions.push_back(mean_labels(dataset_, nearest));
  }
  return predictions;
}

}  // namespace rehearse
