#include "predictor/baselines/baselines.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "predictor/baselines/boosted_trees.hpp"
#include "predictor/features.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

using Rows = std::vector<std::vector<double>>;
constexpr std::size_t kNearest = 5;
constexpr double kRidge = 1e-3;
constexpr double kFloor = 0.01;  // of the median label: less is taken for as much

/// What is known of a label among the samples.
std::vector<double> known_labels(const Dataset& dataset, std::span<const std::size_t> samples, std::size_t label) {
  std::vector<double> known;
  for (const std::size_t s : samples)
    if (!std::isnan(dataset.samples[s].labels[label])) known.push_back(dataset.samples[s].labels[label]);
  return known;
}

std::vector<double> middle_labels(const Dataset& dataset, std::span<const std::size_t> samples,
                                  double (*middle)(std::span<const double>)) {
  std::vector<double> labels;
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
    const std::vector<double> known = known_labels(dataset, samples, l);
    labels.push_back(known.empty() ? kUnknown : middle(known));
  }
  return labels;
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
    features.bases.push_back(std::move(of_sample.bases));
  }
  return features;
}

Rows Baselines::predict(Baseline baseline) {
  if (samples_.empty()) return {};
  if (baseline != Baseline::kMedian && !train_features_) {
    train_features_ = read(train_);
    sample_features_ = read(samples_);
  }
  if (baseline == Baseline::kLinear) return by_regression();
  if (baseline == Baseline::kTrees) return by_trees();
  if (baseline == Baseline::kNeighbours) return by_neighbours();
  if (baseline == Baseline::kClosedForm) return sample_features_->bases;
  Rows predictions;
  for (const std::size_t s : samples_)
    predictions.push_back(middle_labels(dataset_, of_setting(dataset_, train_, dataset_.samples[s].setting), &median));
  return predictions;
}

Rows Baselines::by(const Regression& regression) {
  Rows predictions(samples_.size(), std::vector<double>(dataset_.labels.size(), kUnknown));
  for (std::size_t l = 0; l < dataset_.labels.size(); ++l) {
    std::vector<std::size_t> known;
    std::vector<double> logs, labels = known_labels(dataset_, train_, l);
    if (labels.empty()) continue;
    const double floor = std::max(kFloor * median(labels), 1e-12);
    for (std::size_t i = 0; i < train_.size(); ++i) {
      const double label = dataset_.samples[train_[i]].labels[l];
      const double base = train_features_->bases[i][l];
      if (std::isnan(label) || std::isnan(base)) continue;
      known.push_back(i);
      logs.push_back(std::log(std::max(label, floor) / base));
    }
    if (known.empty()) continue;
    const std::vector<double> found = regression(known, logs);
    for (std::size_t i = 0; i < samples_.size(); ++i)
      predictions[i][l] = std::exp(std::clamp(found[i], -50.0, 50.0)) * sample_features_->bases[i][l];
  }
  return predictions;
}

Rows Baselines::by_regression() {
  const Scaling scaling{train_features_->totals};
  const Eigen::MatrixXd x = scaling.of(train_features_->totals), asked = scaling.of(sample_features_->totals);
  return by([&](const std::vector<std::size_t>& known, const std::vector<double>& logs) {
    const Eigen::MatrixXd rows = x(std::vector<Eigen::Index>{known.begin(), known.end()}, Eigen::all);
    const Eigen::VectorXd y = Eigen::Map<const Eigen::VectorXd>(logs.data(), static_cast<Eigen::Index>(logs.size()));
    const double middle = y.mean();
    Eigen::MatrixXd normal = rows.transpose() * rows;
    normal.diagonal().array() += kRidge * static_cast<double>(known.size());
    const Eigen::VectorXd weights = normal.ldlt().solve(rows.transpose() * (y.array() - middle).matrix());
    const Eigen::VectorXd found = (asked * weights).array() + middle;
    return std::vector<double>{found.begin(), found.end()};
  });
}

Rows Baselines::by_trees() {
  return by([&](const std::vector<std::size_t>& known, const std::vector<double>& logs) {
    Rows rows;
    for (const std::size_t i : known) rows.push_back(train_features_->totals[i]);
    return boosted_trees(rows, logs, sample_features_->totals);
  });
}

Rows Baselines::by_neighbours() {
  const Scaling scaling{train_features_->totals};
  const Eigen::MatrixXd known = scaling.of(train_features_->totals), asked = scaling.of(sample_features_->totals);
  const auto is_readable = [](const Features& features, std::size_t i) {
    return !std::isnan(features.bases[i].front());
  };
  Rows predictions;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (!is_readable(*sample_features_, i)) {
      predictions.emplace_back(dataset_.labels.size(), kUnknown);
      continue;
    }
    const std::int32_t setting = dataset_.samples[samples_[i]].setting;
    const bool is_known = std::any_of(train_.begin(), train_.end(),
                                      [&](std::size_t s) { return dataset_.samples[s].setting == setting; });
    std::vector<std::pair<double, std::size_t>> near;  // squared distance, sample
    for (std::size_t k = 0; k < train_.size(); ++k)
      if (is_readable(*train_features_, k) && (!is_known || dataset_.samples[train_[k]].setting == setting))
        near.emplace_back(
            (known.row(static_cast<Eigen::Index>(k)) - asked.row(static_cast<Eigen::Index>(i))).squaredNorm(),
            train_[k]);
    const std::size_t count = std::min(kNearest, near.size());
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
    std::vector<std::size_t> nearest;
    for (std::size_t k = 0; k < count; ++k) nearest.push_back(near[k].second);
    predictions.push_back(middle_labels(dataset_, nearest, &mean));
  }
  return predictions;
}

}  // namespace rehearse
