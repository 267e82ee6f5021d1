#include "predictor/gnn/published_weights.hpp"

#include <algorithm>
#include <set>

#include "predictor/gnn/detail/published_layers.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

constexpr std::string_view kThirdConvolution = "conv_layers.2.";
constexpr std::int64_t kLongest = 1'000'000;  // check_options() refuses less

/// A state_dict, asked for its shapes.
class Weights {
 public:
  Weights(const TorchValue& weights, std::string where) : weights_{weights}, where_{std::move(where)} {}

  bool has(const std::string& name) const { return weights_.find(name) != nullptr; }
  /// Length of a dimension of a matrix.
  int length(const std::string& name, std::size_t dimension) const {
    const std::vector<std::int64_t>& shape = weights_.at(name, where_).tensor(where_ + ": " + name).shape;
    if (shape.size() != 2) throw InputError{where_ + ": " + name + ": expected a matrix"};
    return static_cast<int>(std::min(shape[dimension], kLongest));
  }
  int linear_layers(const std::string& prefix) const {
    int layers = 0;
    while (has(layer(prefix, layers))) ++layers;
    return layers;
  }
  static std::string layer(const std::string& prefix, int index) {
    return prefix + ".fully_connected." + std::to_string(index) + ".linear.weight";
  }

 private:
  const TorchValue& weights_;
  std::string where_;
};

/// What the first convolution tells.
void read_convolution(const Weights& weights, const std::string& where, PublishedOptions& options) {
  const std::string first = "conv_layers.0.";
  if (weights.has(first + "W")) {
    options.convolution = Convolution::kGcn;
    options.features = weights.length(first + "W", 0);
  } else if (weights.has(first + "epsilon")) {
    options.convolution = Convolution::kGin;
    options.features = weights.length(Weights::layer(first + "post_transformation", 0), 1);
    options.gin_mlp_layers = weights.linear_layers(first + "post_transformation");
  } else if (weights.has(first + "heads.0.W")) {
    options.convolution = Convolution::kGat;
    options.features = weights.length(first + "heads.0.W", 0);
  } else if (weights.has(Weights::layer(first + "towers.0.pretrans", 0))) {
    options.convolution = Convolution::kMpnn;
    options.features = weights.length(Weights::layer(first + "towers.0.pretrans", 0), 1) / 2;
    options.mpnn_pre_layers = weights.linear_layers(first + "towers.0.pretrans");
    options.mpnn_post_layers = weights.linear_layers(first + "towers.0.posttrans");
    if (weights.length(Weights::layer(first + "towers.0.posttrans", 0), 1) > 2 * options.features)
      throw InputError{where +
                       ": expected an mpnn that adds up its messages: weights do not tell which aggregators and "
                       "scalers there are"};
  } else {
    throw InputError{where + ": expected a state_dict of gcn, gin, gat or mpnn, with a first convolution such as " +
                     in_quotes(first + "W")};
  }
}

}  // namespace

PublishedOptions options_of_weights(const TorchValue& value, const std::string& where) {
  const Weights weights{value, where};
  PublishedOptions options;
  read_convolution(weights, where, options);
  options.hidden = weights.length("gru.gru.weight_hh_l0", 1);
  options.mlp_layers = weights.linear_layers("graph_read_out.mlp");
  if (options.mlp_layers > 0)
    options.outputs = weights.length(Weights::layer("graph_read_out.mlp", options.mlp_layers - 1), 0);
  try {
    check_options(options);
  } catch (const InputError& error) { throw InputError{where + ": " + error.what()}; }
  std::set<std::string> known;
  for (const detail::ParameterShape& parameter : detail::parameter_shapes(options)) {
    value.at(parameter.name, where);
    known.insert(parameter.name);
  }
  for (const auto& [key, tensor] : value.dict(where).items) {
    const std::string& name = key.text(where);
    if (!known.contains(name) && !name.starts_with(kThirdConvolution))
      throw InputError{where + ": " + in_quotes(name) + " is no weight of " + to_text(options.convolution)};
  }
  return options;
}

bool has_third_convolution(const TorchValue& weights) {
  const auto* dict = std::get_if<TorchDict>(&weights.value);
  return dict != nullptr && std::ranges::any_of(dict->items, [](const auto& item) {
           const auto* name = std::get_if<std::string>(&item.first.value);
           return name != nullptr && name->starts_with(kThirdConvolution);
         });
}

}  // namespace rehearse
