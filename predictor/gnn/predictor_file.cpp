#include "predictor/gnn/predictor_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "predictor/driple_export.hpp"
#include "predictor/gnn/published_weights.hpp"
#include "predictor/taught_settings.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

bool is_grouped(const Dataset& dataset) { return dataset.node_features == group_feature_names(); }

void check_columns(const Dataset& dataset) {
  if ((dataset.node_features != node_feature_names() && !is_grouped(dataset)) || dataset.labels != label_names())
    throw InputError{"the dataset's node features or labels are not those of this program"};
}

/// A published network on the samples of our datasets: graphs grouped as published, the twelve burst metrics.
class PublishedPredictor : public Predictor {
 public:
  PublishedPredictor(PublishedNetwork network, const AdamOptions& adam, TypeFrequencies frequencies,
                     TaughtSettings taught)
      : network_{std::move(network)}, adam_{adam}, frequencies_{std::move(frequencies)}, taught_{std::move(taught)} {}

  double learn(const Dataset& dataset, std::span<const std::size_t> samples, double learning_rate) override {
    AdamOptions adam = adam_;
    adam.learning_rate = learning_rate;
    return network_.train(batch(dataset, samples, true), adam);
  }
  double loss(const Dataset& dataset, std::span<const std::size_t> samples) override {
    return network_.loss(batch(dataset, samples, true));
  }
  std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples) override {
    std::vector<PredictedMetrics> predictions(samples.size());
    for (std::size_t first = 0; first < samples.size(); first += kMostAtOnce) {
      const auto some = samples.subspan(first, std::min(kMostAtOnce, samples.size() - first));
      const std::vector<double> outputs = network_.outputs(batch(dataset, some, false));
      for (std::size_t g = 0; g < some.size(); ++g)
        describe(predictions[first + g], std::span{outputs}.subspan(g * kBurstLabels, kBurstLabels), dataset,
                 dataset.samples[some[g]]);
    }
    return predictions;
  }
  bool has_units() const override { return network_.has_label_scales(); }
  const TypeFrequencies* type_frequencies() const override { return &frequencies_; }
  std::int64_t parameters() const override {
    std::int64_t count = 0;
    for (const ParameterInfo& parameter : network_.parameters()) {
      std::int64_t size = 1;
      for (const std::int64_t n : parameter.shape) size *= n;
      if (parameter.learns) count += size;
    }
    return count;
  }
  TorchValue state() const override {
    TorchDict frequencies;
    for (const auto& [type, frequency] : frequencies_) frequencies.items.emplace_back(type, frequency);
    return TorchDict{{{"network", "published"},
                      {"weight_decay", adam_.weight_decay},
                      {"frequencies", std::move(frequencies)},
                      {"taught", to_torch(taught_)},
                      {"published", network_.state()}}};
  }

 private:
  static constexpr std::size_t kMostAtOnce = 256;  // graphs

  /// Labels without interval; a network's small negative outputs are 0, as no duration and no rate is below.
  void describe(PredictedMetrics& prediction, std::span<const double> outputs, const Dataset& dataset,
                const Sample& sample) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    prediction.outputs.assign(outputs.begin(), outputs.end());
    for (const double output : outputs)
      if (!std::isfinite(output))
        throw InputError{"graph " + in_quotes(dataset.graphs[static_cast<std::size_t>(sample.graph)].name) +
                         ": its features are too large for this network"};
    const std::vector<double> values = network_.labels_of(outputs);
    for (std::size_t l = 0; l < dataset.labels.size(); ++l)
      prediction.labels.push_back({l < kBurstLabels && has_units() ? std::max(0.0, values[l]) : kNone, kNone, kNone});
    const auto [at, is_new] = cautions_.try_emplace({&dataset, sample.setting});
    if (is_new) at->second = caution_of(taught_, dataset.settings[static_cast<std::size_t>(sample.setting)]);
    prediction.caution = at->second.text;
    prediction.is_other_setting = at->second.is_other;
  }

  const GroupedGraph& grouped(const Dataset& dataset, std::int32_t graph) {
    const auto found = grouped_.find({&dataset, graph});
    if (found != grouped_.end()) return found->second;
    const DatasetGraph& whole = dataset.graphs[static_cast<std::size_t>(graph)];
    GroupedGraph made = is_grouped(dataset) ? to_grouped_graph(whole) : group_graph(whole, frequencies_);
    return grouped_.emplace(std::pair{&dataset, graph}, std::move(made)).first->second;
  }

  GraphBatch batch(const Dataset& dataset, std::span<const std::size_t> samples, bool has_labels) {
    check_columns(dataset);
    GraphBatch batch;
    for (const std::size_t s : samples) {
      const Sample& sample = dataset.samples[s];
      const GroupedGraph& graph = grouped(dataset, sample.graph);
      const auto first = batch.offsets.back();
      for (const auto& features : graph.features)
        batch.node_features.insert(batch.node_features.end(), features.begin(), features.end());
      for (const auto& [a, b] : graph.edges) batch.edges.emplace_back(first + a, first + b);
      batch.offsets.push_back(first + static_cast<std::uint32_t>(graph.features.size()));
      for (std::size_t l = 0; has_labels && l < kBurstLabels; ++l) {
        const bool is_known = !std::isnan(sample.labels[l]);
        batch.labels.push_back(is_known ? sample.labels[l] : 0);
        batch.label_weights.push_back(is_known ? sample.weight : 0);
      }
    }
    return batch;
  }

  PublishedNetwork network_;
  AdamOptions adam_;
  TypeFrequencies frequencies_;
  TaughtSettings taught_;
  std::map<std::pair<const Dataset*, std::int32_t>, SettingCaution> cautions_;  // by setting
  std::map<std::pair<const Dataset*, std::int32_t>, GroupedGraph> grouped_;     // by graph
};

/// Largest known value of each burst metric; 1 where it is 0.
std::vector<double> maxima_of(const Dataset& dataset, std::span<const std::size_t> samples) {
  std::vector<double> maxima(kBurstLabels);
  for (const std::size_t s : samples)
    for (std::size_t l = 0; l < kBurstLabels; ++l)
      if (!std::isnan(dataset.samples[s].labels[l])) maxima[l] = std::max(maxima[l], dataset.samples[s].labels[l]);
  for (double& maximum : maxima)
    if (maximum <= 0) maximum = 1;
  return maxima;
}

/// Of the known values of each burst metric, those of 0 as the smallest above it; all as they are where none is.
LabelLogs logs_of(const Dataset& dataset, std::span<const std::size_t> samples) {
  LabelLogs logs;
  for (std::size_t l = 0; l < kBurstLabels; ++l) {
    std::vector<double> known;
    double smallest = std::numeric_limits<double>::infinity();
    for (const std::size_t s : samples) {
      const double label = dataset.samples[s].labels[l];
      if (!std::isnan(label)) known.push_back(label);
      if (label > 0) smallest = std::min(smallest, label);
    }
    if (std::isinf(smallest)) {
      known.clear();
      smallest = 1;
    }
    double mean = 0, variance = 0;
    for (double& value : known) {
      value = std::log(std::max(value, smallest));
      mean += value / static_cast<double>(known.size());
    }
    for (const double value : known) variance += (value - mean) * (value - mean) / static_cast<double>(known.size());
    logs.smallest.push_back(smallest);
    logs.mean.push_back(mean);
    logs.deviation.push_back(variance > 1e-12 ? std::sqrt(variance) : 1);
  }
  return logs;
}

void set_label_scales(PublishedNetwork& network, const Dataset& dataset, std::span<const std::size_t> samples) {
  if (network.options().labels == LabelScaling::kStandardisedLogs)
    network.set_label_logs(logs_of(dataset, samples));
  else
    network.set_label_maxima(maxima_of(dataset, samples));
}

/// Over the nodes of the grouped graphs of the samples, each graph once, for the scalers of MPNN.
void set_average_degrees(PublishedOptions& options, const Dataset& dataset, std::span<const std::size_t> samples,
                         const TypeFrequencies& frequencies) {
  std::set<std::int32_t> graphs;
  for (const std::size_t s : samples) graphs.insert(dataset.samples[s].graph);
  double nodes = 0, degrees = 0, logarithms = 0;
  for (const std::int32_t graph : graphs) {
    const DatasetGraph& whole = dataset.graphs[static_cast<std::size_t>(graph)];
    const GroupedGraph grouped = is_grouped(dataset) ? to_grouped_graph(whole) : group_graph(whole, frequencies);
    std::vector<int> neighbours(grouped.features.size());
    for (const auto& [a, b] : grouped.edges) {
      ++neighbours[a];
      ++neighbours[b];
    }
    for (const int degree : neighbours) {
      nodes += 1;
      degrees += degree;
      logarithms += std::log(degree + 1.0);
    }
  }
  if (degrees == 0) return;  // no edge to scale by
  options.average_degree = degrees / nodes;
  options.average_log_degree = logarithms / nodes;
}

}  // namespace

std::unique_ptr<Predictor> make_predictor(const PredictorChoice& choice, const Dataset& dataset,
                                          std::span<const std::size_t> train) {
  if (train.empty()) throw InputError{"the dataset has no samples to train on"};
  if (choice.network == "learnt") return std::make_unique<MetricsNetwork>(dataset, train, choice.metrics);
  check_columns(dataset);
  PublishedOptions options = choice.published;
  options.convolution = parse_convolution(choice.network);
  if (options.mpnn_scalers != PublishedOptions{}.mpnn_scalers)
    set_average_degrees(options, dataset, train, choice.frequencies);
  PublishedNetwork network{options, choice.seed};
  set_label_scales(network, dataset, train);
  return std::make_unique<PublishedPredictor>(std::move(network), choice.adam, choice.frequencies,
                                              taught_settings(dataset, train));
}

std::unique_ptr<Predictor> carry_over(const TorchValue& state, const std::string& where, const std::string& transfer,
                                      const PredictorChoice& choice, const Dataset& dataset,
                                      std::span<const std::size_t> train) {
  if (state.at("network", where).text(where) == "learnt") {
    auto network = std::make_unique<MetricsNetwork>(state, where);
    if (transfer == "readout" || transfer == "as-published")
      network->freeze_operators();
    else if (transfer != "fine-tune")
      throw InputError{"--transfer: expected fine-tune or readout for a learnt network; found " + transfer};
    network->forget_optimizer();
    return network;
  }
  const PublishedNetwork trained = PublishedNetwork::from_state(state.at("published", where), where);
  PublishedOptions options = trained.options();
  options.transfer = transfer == "fine-tune" ? Transfer::kNone : parse_transfer(transfer);
  PublishedNetwork network{options, choice.seed};
  network.take_weights(state.at("published", where), where);
  check_columns(dataset);
  set_label_scales(network, dataset, train);
  return std::make_unique<PublishedPredictor>(std::move(network), choice.adam, choice.frequencies,
                                              taught_settings(dataset, train));
}

std::unique_ptr<Predictor> predictor_of_weights(const TorchValue& weights, const std::string& where,
                                                const TypeFrequencies& frequencies) {
  const PublishedOptions options = options_of_weights(weights, where);
  const auto features = static_cast<int>(group_feature_names().size());
  if (options.features != features || options.outputs != static_cast<int>(kBurstLabels))
    throw InputError{where + ": expected a network of " + std::to_string(features) + " features and " +
                     std::to_string(kBurstLabels) + " outputs; found " + std::to_string(options.features) + " and " +
                     std::to_string(options.outputs)};
  PublishedNetwork network{options, PredictorChoice{}.seed};
  network.take_weights(weights, where);
  return std::make_unique<PublishedPredictor>(std::move(network), AdamOptions{}, frequencies, TaughtSettings{});
}

std::unique_ptr<Predictor> load_predictor(const TorchValue& state, const std::string& where) {
  const std::string& network = state.at("network", where).text(where + ": network");
  if (network == "learnt") return std::make_unique<MetricsNetwork>(state, where);
  if (network != "published") throw InputError{where + ": network: expected \"learnt\" or \"published\""};
  TypeFrequencies frequencies;
  for (const auto& [type, frequency] : state.at("frequencies", where).dict(where + ": frequencies").items)
    frequencies[type.text(where + ": frequencies")] = frequency.number(where + ": frequencies");
  AdamOptions adam;
  adam.weight_decay = state.at("weight_decay", where).number(where + ": weight_decay");
  TaughtSettings taught = taught_settings(state.at("taught", where), where + ": taught");
  return std::make_unique<PublishedPredictor>(PublishedNetwork::from_state(state.at("published", where), where), adam,
                                              std::move(frequencies), std::move(taught));
}

std::unique_ptr<Predictor> load_predictor(const std::filesystem::path& file) {
  return load_predictor(load_torch_file(file), file.string());
}

}  // namespace rehearse
