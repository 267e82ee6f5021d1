#pragma once
// Predictors by name, and as files.

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "predictor/gnn/metrics_network.hpp"
#include "predictor/gnn/predictor.hpp"
#include "predictor/gnn/published_network.hpp"
#include "predictor/operator_types.hpp"

namespace rehearse {

/// "learnt", or a convolution of the published networks (parse_convolution()).
struct PredictorChoice {
  std::string network = "learnt";
  MetricsNetworkOptions metrics;
  PublishedOptions published;
  AdamOptions adam;             // of the published networks
  TypeFrequencies frequencies;  // of TensorFlow's operator types, for the published networks
  std::uint64_t seed = 42;
};

/// A predictor that has learnt nothing; scales are those of the samples `train`. Throws InputError.
std::unique_ptr<Predictor> make_predictor(const PredictorChoice& choice, const Dataset& dataset,
                                          std::span<const std::size_t> train);

/// A trained predictor, from its state(), that goes on with other samples. `transfer`: "fine-tune" (all of it learns),
/// "readout" of a learnt network (what follows the timeline), "as-published" and "as-intended" of a
/// published one (published_options.hpp). Throws InputError.
std::unique_ptr<Predictor> carry_over(const TorchValue& state, const std::string& where, const std::string& transfer,
                                      const PredictorChoice& choice, const Dataset& dataset,
                                      std::span<const std::size_t> train);

/// A published network with the weights of a state_dict, such as Driple's pre-train.pkl (published_weights.hpp). As the
/// file has no scales of the labels, it predicts shares of the largest label of whatever it learned from. InputError,
/// "<where>: ...", also for a network of other node features or labels than ours.
std::unique_ptr<Predictor> predictor_of_weights(const TorchValue& weights, const std::string& where,
                                                const TypeFrequencies& frequencies);

/// The predictor of a Predictor::state(), or of a file of it. Throws InputError that names the file.
std::unique_ptr<Predictor> load_predictor(const TorchValue& state, const std::string& where);
std::unique_ptr<Predictor> load_predictor(const std::filesystem::path& file);

}  // namespace rehearse
