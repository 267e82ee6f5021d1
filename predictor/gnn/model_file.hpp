#pragma once
// Models by name, and as files.

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "predictor/gnn/model.hpp"
#include "predictor/gnn/profile_network.hpp"
#include "predictor/gnn/published_network.hpp"
#include "predictor/operator_types.hpp"

namespace rehearse {

/// "profile", or a convolution of the published networks (parse_convolution()).
struct ModelChoice {
  std::string network = "profile";
  ProfileNetworkOptions profile;
  PublishedOptions published;
  AdamOptions adam;             // of the published networks
  TypeFrequencies frequencies;  // of TensorFlow's operator types, for the published networks
  std::uint64_t seed = 42;
};

/// A model that has learnt nothing; scales are those of the samples `train`. Throws InputError.
std::unique_ptr<Model> make_model(const ModelChoice& choice, const Dataset& dataset,
                                  std::span<const std::size_t> train);

/// A trained model, from its state(), that goes on with other samples. `transfer`: "fine-tune" (all of it learns),
/// "readout" of a profile network (what follows the sum over operators), "as-published" and "as-intended" of a
/// published one (published_options.hpp). Throws InputError.
std::unique_ptr<Model> carry_over(const TorchValue& state, const std::string& where, const std::string& transfer,
                                  const ModelChoice& choice, const Dataset& dataset,
                                  std::span<const std::size_t> train);

/// From Model::state(), or from a file of it. Throws InputError that names the file.
std::unique_ptr<Model> load_model(const TorchValue& state, const std::string& where);
std::unique_ptr<Model> load_model(const std::filesystem::path& file);

}  // namespace rehearse
