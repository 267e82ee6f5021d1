#include "predictor/metrics_model.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "predictor/detail/column_scale.hpp"
#include "predictor/detail/metrics_forward.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

using detail::list_of;
using detail::numbers_of;
using detail::Scale;
using detail::scale_of;
using detail::ScaleSum;
using detail::stored;
using detail::texts_of;

constexpr float kFarthest = 4;                // deviations that a total is taken to be from its mean at most
constexpr float kNewlyMoved = 10;             // deviations of a total that never varied in training
constexpr double kNoLimit = 1e9;              // ln
constexpr double kRidge = 0.01;               // added to the variances of deviations
constexpr std::size_t kLeastCalibrated = 20;  // samples
constexpr double kMostFarther = 2;            // times as wide as inside of what was learned

/// [labels] of an active time the label of the same resource's idle time; labels.size() of others.
std::vector<std::size_t> idle_labels(const std::vector<std::string>& labels) {
  std::vector<std::size_t> found;
  for (const std::string& label : labels) {
    const std::string idle = label.substr(0, label.find('_')) + "_idle_s";
    const auto at = std::find(labels.begin(), labels.end(), label.ends_with("_active_s") ? idle : "");
    found.push_back(static_cast<std::size_t>(at - labels.begin()));
  }
  return found;
}

bool is_of_state(const std::string& label) { return label.ends_with("_active_s") || label.ends_with("_idle_s"); }

/// Step times and mean rates: [labels].
std::vector<bool> fine_labels(const std::vector<std::string>& labels) {
  std::vector<bool> found;
  for (const std::string& label : labels) found.push_back(label == "step_time_s" || label.ends_with("_mean_Bps"));
  return found;
}

double log_sigmoid(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

Dataset columns_of(const TorchValue& state, const std::string& where) {
  Dataset columns;
  columns.labels = texts_of(state.at("labels", where), where + ": labels");
  return columns;
}

MetricsNetworkOptions options_of(const TorchValue& state, const std::string& where) {
  const auto size = [&](const char* key, std::int64_t most, std::int64_t least = 1) {
    const std::int64_t value = state.at(key, where).integer(where + ": " + key);
    if (value < least || value > most)
      throw InputError{where + ": " + key + ": expected " + std::to_string(least) + " to " + std::to_string(most)};
    return static_cast<int>(value);
  };
  return {.hidden = size("hidden", 1024),
          .message_rounds = size("message_rounds", 16, 0),
          .channels = size("channels", 1024),
          .readout = size("readout", 4096),
          .ablation = static_cast<Ablation>(size("ablation", 3, 0)),
          .seed = static_cast<std::uint64_t>(state.at("seed", where).integer(where + ": seed"))};
}

}  // namespace

struct MetricsModel::Parts {
  MetricsNetworkOptions options;
  std::vector<std::string> labels;       // names
  std::vector<std::size_t> idle_beside;  // idle_labels()
  std::vector<bool> is_fine;             // fine_labels()
  FeatureReader reader;
  Scale total_scale;
  detail::Rows whitening;             // [total inputs, total inputs]
  std::vector<bool> has_learnt_kind;  // [kinds] a training sample has such an operator
  double edge = 1;                    // distance that 99 % of the training samples do not exceed
  /// Of |ln label - ln prediction| / width over samples that were not trained on: [labels, kCoverages].
  std::vector<double> quantiles;
  std::optional<detail::MetricsForward> layers;

  Parts(const MetricsNetworkOptions& chosen, const Dataset& dataset)
      : options{chosen},
        labels{dataset.labels},
        idle_beside{idle_labels(labels)},
        is_fine{fine_labels(labels)},
        reader{dataset, chosen.ablation} {
    has_learnt_kind.assign(kStepKinds, false);
    for (std::size_t l = 0; l < labels.size(); ++l)  // of a Laplace distribution
      for (const double coverage : kCoverages) quantiles.push_back(-std::log(1 - coverage));
  }

  /// Totals in units of their deviation.
  std::vector<float> deviations(const std::vector<float>& totals) const {
    std::vector<float> found;
    for (std::size_t i = 0; i < totals.size(); ++i) {
      const float mean = total_scale.mean[i], inverse = total_scale.inverse[i];
      const bool has_moved = std::abs(totals[i] - mean) > 1e-4F * (1 + std::abs(mean));
      found.push_back(inverse > 0 ? (totals[i] - mean) * inverse : has_moved ? kNewlyMoved : 0.0F);
    }
    return found;
  }

  /// Name of the first mechanism that a sample has and no training sample had; empty: none.
  std::string unlearned(const std::vector<float>& deviations) const {
    for (std::size_t i = 0; i < deviations.size(); ++i)
      if (reader.is_mechanism(i) && total_scale.inverse[i] == 0 && std::abs(total_scale.mean[i]) < 1e-4F &&
          deviations[i] != 0)
        return reader.total_names()[i];
    return {};
  }

  /// Name of the one of `deviations` that is largest.
  std::string farthest(const std::vector<float>& deviations) const {
    const auto most = std::max_element(deviations.begin(), deviations.end(),
                                       [](float a, float b) { return std::abs(a) < std::abs(b); });
    return reader.total_names()[static_cast<std::size_t>(most - deviations.begin())];
  }

  /// Mahalanobis distance from the mean of the training samples.
  double distance(const std::vector<float>& deviations) const {
    const Eigen::Map<const detail::Row> row{deviations.data(), static_cast<Eigen::Index>(deviations.size())};
    return (row * whitening).norm();
  }

  void learn_distances(const std::vector<std::vector<float>>& totals) {
    const auto columns = static_cast<Eigen::Index>(reader.total_inputs());
    Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(columns, columns);
    std::vector<std::vector<float>> all;
    for (const std::vector<float>& of : totals) {
      all.push_back(deviations(of));
      const Eigen::VectorXd row = Eigen::Map<const detail::Row>{all.back().data(), columns}.cast<double>();
      covariance.selfadjointView<Eigen::Lower>().rankUpdate(row, 1 / static_cast<double>(totals.size()));
    }
    covariance = Eigen::MatrixXd{covariance.selfadjointView<Eigen::Lower>()};
    covariance.diagonal().array() += kRidge;
    // x . inverse . x = |x L|^2 with inverse = L L'
    const Eigen::MatrixXd inverse = covariance.llt().solve(Eigen::MatrixXd::Identity(columns, columns));
    whitening = Eigen::MatrixXd{inverse.llt().matrixL()}.cast<float>();
    std::vector<double> distances;
    for (const std::vector<float>& of : all) distances.push_back(distance(of));
    edge = std::max(1e-6, percentile(distances, 99));
  }

  PredictedMetrics told(const MetricsInputs& in, const MetricsOutputs& out) const {
    PredictedMetrics prediction{.unlearned = unlearned(in.deviations)};
    prediction.farthest = farthest(in.deviations);
    prediction.distance = distance(in.deviations) / edge;
    std::vector<double> log;  // of the prediction where the state occurs
    for (std::size_t l = 0; l < labels.size(); ++l) {
      const float value = out.value[l], fine = std::clamp(value, -detail::kMostFine, detail::kMostFine);
      const double corrected = double{in.bases[l]} + (is_fine[l] ? detail::kFineCorrection * std::sinh(fine) : value);
      log.push_back(in.is_limited[l] > 0 ? log_sigmoid(corrected) + in.limits[l] : corrected);
    }
    const auto step = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), "step_time_s") - labels.begin());
    const double window = step < labels.size() ? log[step] + in.window : kNoLimit;
    const double farther = std::clamp(prediction.distance, 1.0, kMostFarther);
    for (std::size_t l = 0; l < labels.size(); ++l) {
      const double most = in.is_limited[l] > 0 ? in.limits[l] : is_of_state(labels[l]) ? window : kNoLimit;
      const bool never_rests = idle_beside[l] < labels.size() && out.presence[idle_beside[l]] < 0;
      const double middle = never_rests ? window + std::log1p(-std::exp(-double{in.window}))  // its steps
                                        : std::min(log[l], most);
      prediction.reaches.push_back(
          reaches_of(out.width[l] * farther, std::span{quantiles}.subspan(l * kCoverages.size(), kCoverages.size())));
      const double reach = prediction.reaches.back()[kShown];
      prediction.widths.push_back(out.width[l]);
      prediction.labels.push_back({});
      if (out.presence[l] >= 0)
        prediction.labels.back() = {std::exp(middle), std::exp(middle - reach),
                                    std::exp(std::min(middle + reach, most))};
    }
    return prediction;
  }
};

MetricsModel::MetricsModel(const Dataset& dataset, std::span<const std::size_t> train,
                           const MetricsNetworkOptions& options)
    : parts_{std::make_unique<Parts>(options, dataset)} {
  if (train.empty()) throw InputError{"the dataset has no samples to train on"};
  ScaleSum sums{parts_->reader.total_inputs()};
  std::vector<std::vector<float>> totals;
  for (const std::size_t s : train) {
    const SampleFeatures features = parts_->reader.read(dataset, dataset.samples[s]);
    for (const std::int32_t kind : features.kinds) parts_->has_learnt_kind[static_cast<std::size_t>(kind)] = true;
    totals.push_back(features.totals);
    sums.add(totals.back());
  }
  parts_->total_scale = sums.finish();
  parts_->learn_distances(totals);
}

MetricsModel::MetricsModel(const TorchValue& state, const std::string& where)
    : parts_{std::make_unique<Parts>(options_of(state, where), columns_of(state, where))} {
  const TorchValue* fine = state.find("fine_correction");
  if (fine == nullptr || fine->number(where + ": fine_correction") != detail::kFineCorrection)
    throw InputError{
        where + ": it was trained by another version of Rehearse, whose numbers mean something else: train it again"};
  Parts& parts = *parts_;
  const std::size_t totals = parts.reader.total_inputs();
  parts.total_scale = scale_of(state.at("total_scale", where), totals, where + ": total_scale");
  parts.quantiles =
      numbers_of(state.at("quantiles", where), parts.labels.size() * kCoverages.size(), where + ": quantiles");
  if (!std::all_of(parts.quantiles.begin(), parts.quantiles.end(), [](double x) { return x >= 0; }))
    throw InputError{where + ": quantiles: expected numbers of at least 0"};
  const std::vector<double> whitening =
      numbers_of(state.at("whitening", where), totals * totals, where + ": whitening");
  const auto columns = static_cast<Eigen::Index>(totals);
  parts.whitening =
      Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>{whitening.data(),
                                                                                               columns, columns}
          .cast<float>();
  const std::vector<double> kinds = numbers_of(state.at("kinds", where), kStepKinds, where + ": kinds");
  std::transform(kinds.begin(), kinds.end(), parts.has_learnt_kind.begin(), [](double is) { return is > 0; });
  parts.edge = state.at("edge", where).number(where + ": edge");
  if (!(parts.edge > 0)) throw InputError{where + ": edge: expected a distance above 0"};
  take_weights(state.at("state", where), where + ": state");
}

MetricsModel::MetricsModel(MetricsModel&&) noexcept = default;
MetricsModel::~MetricsModel() = default;

const MetricsNetworkOptions& MetricsModel::options() const { return parts_->options; }
std::size_t MetricsModel::labels() const { return parts_->labels.size(); }
const std::vector<bool>& MetricsModel::has_fine_corrections() const { return parts_->is_fine; }
std::size_t MetricsModel::total_inputs() const { return parts_->reader.total_inputs(); }

void MetricsModel::take_weights(const TorchValue& weights, const std::string& where) {
  parts_->layers.emplace(parts_->options, total_inputs(), labels(), weights, where);
}

MetricsInputs MetricsModel::inputs(const Dataset& dataset, std::size_t sample) const {
  if (dataset.labels != parts_->labels)
    throw InputError{"the dataset's labels are not those that the predictor was trained with"};
  SampleFeatures features = parts_->reader.read(dataset, dataset.samples[sample]);
  for (std::int32_t& kind : features.kinds)
    if (!parts_->has_learnt_kind[static_cast<std::size_t>(kind)]) kind = static_cast<std::int32_t>(kStepKinds);
  MetricsInputs in{.kinds = std::move(features.kinds),
                   .part = std::move(features.part),
                   .resource = std::move(features.resource),
                   .nodes = std::move(features.nodes),
                   .resources = std::move(features.resources),
                   .flow = std::move(features.flow),
                   .timeline = std::move(features.timeline),
                   .totals = features.totals,
                   .deviations = parts_->deviations(features.totals),
                   .window = static_cast<float>(std::log(features.window_steps + 1))};
  parts_->total_scale.apply(in.totals);
  for (float& total : in.totals) total = std::clamp(total, -kFarthest, kFarthest);
  for (std::size_t l = 0; l < labels(); ++l) {
    const double base = features.bases[l], limit = features.limits[l];
    in.bases.push_back(static_cast<float>(limit > 0 ? std::log(base / (limit - base)) : std::log(base)));
    in.limits.push_back(limit > 0 ? static_cast<float>(std::log(limit)) : 0.0F);
    in.is_limited.push_back(limit > 0 ? 1.0F : 0.0F);
  }
  return in;
}

MetricsOutputs MetricsModel::outputs(const MetricsInputs& in) const { return parts_->layers->outputs(in); }

std::vector<PredictedMetrics> MetricsModel::predict(const Dataset& dataset, std::span<const std::size_t> samples) {
  std::vector<PredictedMetrics> predictions;
  for (const std::size_t s : samples) {
    const MetricsInputs in = inputs(dataset, s);
    predictions.push_back(parts_->told(in, outputs(in)));
  }
  return predictions;
}

void MetricsModel::calibrate(const Dataset& dataset, std::span<const std::size_t> samples) {
  const std::vector<PredictedMetrics> predictions = predict(dataset, samples);
  for (std::size_t l = 0; l < labels(); ++l) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double label = dataset.samples[samples[i]].labels[l], predicted = predictions[i].labels[l].value;
      if (label > 0 && predicted > 0)
        scores.push_back(std::abs(std::log(label / predicted)) / predictions[i].widths[l]);
    }
    if (scores.size() < kLeastCalibrated) continue;
    const auto quantiles = conformal_quantiles(std::move(scores));
    std::copy(quantiles.begin(), quantiles.end(),
              parts_->quantiles.begin() + static_cast<std::ptrdiff_t>(l * kCoverages.size()));
  }
}

TorchDict MetricsModel::state() const {
  const Parts& parts = *parts_;
  const auto totals = static_cast<std::int64_t>(total_inputs());
  const std::vector<double> kinds{parts.has_learnt_kind.begin(), parts.has_learnt_kind.end()};
  return {{{"network", "learnt"},
           {"hidden", parts.options.hidden},
           {"message_rounds", parts.options.message_rounds},
           {"readout", parts.options.readout},
           {"channels", parts.options.channels},
           {"ablation", static_cast<std::int64_t>(parts.options.ablation)},
           {"seed", static_cast<std::int64_t>(parts.options.seed)},
           {"labels", list_of(parts.labels)},
           {"fine_correction", double{detail::kFineCorrection}},
           {"total_scale", stored(parts.total_scale)},
           {"whitening", TorchTensor::of_floats({totals, totals},
                                                {parts.whitening.data(), static_cast<std::size_t>(totals * totals)})},
           {"edge", parts.edge},
           {"kinds", TorchTensor::of_doubles({static_cast<std::int64_t>(kinds.size())}, kinds)},
           {"quantiles",
            TorchTensor::of_doubles({static_cast<std::int64_t>(labels()), static_cast<std::int64_t>(kCoverages.size())},
                                    parts.quantiles)}}};
}

}  // namespace rehearse
