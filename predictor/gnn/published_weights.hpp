#pragma once
// Weights that Driple's program wrote, such as its pre-train.pkl: a state_dict, and nothing of the network around it.

#include <string>

#include "predictor/gnn/published_options.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

/// The network that has these weights, by their names and shapes. What they do not tell is as published: half as many
/// convolutions as nodes, messages that are added up, the attention of Driple's program. InputError, "<where>: ...", if
/// `weights` are no state_dict of gcn, gin, gat or mpnn, or have parts that these do not have. A third convolution,
/// which nothing passes through as published, is left out.
PublishedOptions options_of_weights(const TorchValue& weights, const std::string& where);

/// Whether they have such a third convolution.
bool has_third_convolution(const TorchValue& weights);

}  // namespace rehearse
