#include "predictor/gnn/published_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

constexpr int kHeads = 4;
constexpr int kLargest = 4096;

template <class T, std::size_t N>
using Names = std::array<std::pair<const char*, T>, N>;

constexpr Names<Convolution, 5> kConvolutions{{{"gcn", Convolution::kGcn},
                                               {"gin", Convolution::kGin},
                                               {"gat", Convolution::kGat},
                                               {"gat-textbook", Convolution::kGatTextbook},
                                               {"mpnn", Convolution::kMpnn}}};
constexpr Names<Transfer, 3> kTransfers{
    {{"none", Transfer::kNone}, {"as-published", Transfer::kAsPublished}, {"as-intended", Transfer::kAsIntended}}};

using Rule = double (*)(double);
constexpr Names<Rule, 9> kRules{{{"Nover2", [](double n) { return n / 2; }},
                                 {"N", [](double n) { return n; }},
                                 {"Nover3", [](double n) { return n / 3; }},
                                 {"log2N", [](double n) { return std::log2(n); }},
                                 {"2log2N", [](double n) { return 2 * std::log2(n); }},
                                 {"3log2N", [](double n) { return 3 * std::log2(n); }},
                                 {"4log2N", [](double n) { return 4 * std::log2(n); }},
                                 {"3sqrtN", [](double n) { return 3 * std::sqrt(n); }},
                                 {"log10N", [](double n) { return std::log10(n); }}}};

template <class T, std::size_t N>
T value_of(const Names<T, N>& names, const char* kind, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [text, value] : names) {
    if (name == text) return value;
    known.emplace_back(text);
  }
  throw InputError{unknown_name_message(kind, name, known)};
}

template <class T, std::size_t N>
std::string name_of(const Names<T, N>& names, T value) {
  return std::ranges::find(names, value, &std::pair<const char*, T>::second)->first;
}

void require_range(const char* what, int value, int low, int high) {
  if (value < low || value > high)
    throw InputError{std::string{what} + ": expected " + std::to_string(low) + " to " + std::to_string(high) +
                     "; found " + std::to_string(value)};
}

void require_names(const char* kind, const std::vector<std::string>& names, std::span<const std::string> known) {
  if (names.empty()) throw InputError{std::string{"expected at least one "} + kind};
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end()) throw InputError{unknown_name_message(kind, name, known)};
}

TorchList texts(const std::vector<std::string>& names) { return {TorchItems(names.begin(), names.end())}; }

/// Reads options by name.
struct Reader {
  const TorchValue& value;
  std::string where;

  int small(const char* key) const {
    const std::int64_t found = value.at(key, where).integer(where + ": " + key);
    return static_cast<int>(std::clamp<std::int64_t>(found, -1, kLargest + 1));  // check_options() refuses the ends
  }
  double number(const char* key) const { return value.at(key, where).number(where + ": " + key); }
  std::string text(const char* key) const { return value.at(key, where).text(where + ": " + key); }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> names;
    for (const TorchValue& name : value.at(key, where).list(where + ": " + key))
      names.push_back(name.text(where + ": " + key));
    return names;
  }
};

}  // namespace

TorchDict to_torch(const PublishedOptions& options) {
  TorchDict dict;
  const auto add = [&](const char* key, TorchValue value) { dict.items.emplace_back(key, std::move(value)); };
  add("convolution", to_text(options.convolution));
  add("features", options.features);
  add("outputs", options.outputs);
  add("hidden", options.hidden);
  add("mlp_layers", options.mlp_layers);
  add("iterations", options.iterations);
  add("set2set_steps", options.set2set_steps);
  add("dropout", options.dropout);
  add("gin_mlp_layers", options.gin_mlp_layers);
  add("mpnn_aggregators", texts(options.mpnn_aggregators));
  add("mpnn_scalers", texts(options.mpnn_scalers));
  add("mpnn_pre_layers", options.mpnn_pre_layers);
  add("mpnn_post_layers", options.mpnn_post_layers);
  add("mpnn_self_loop", options.mpnn_self_loop);
  add("average_degree", options.average_degree);
  add("average_log_degree", options.average_log_degree);
  add("transfer", to_text(options.transfer));
  return dict;
}

PublishedOptions published_options(const TorchValue& value, const std::string& where) {
  const Reader read{value, where};
  try {
    const PublishedOptions options{.convolution = parse_convolution(read.text("convolution")),
                                   .features = read.small("features"),
                                   .outputs = read.small("outputs"),
                                   .hidden = read.small("hidden"),
                                   .mlp_layers = read.small("mlp_layers"),
                                   .iterations = read.text("iterations"),
                                   .set2set_steps = read.small("set2set_steps"),
                                   .dropout = read.number("dropout"),
                                   .gin_mlp_layers = read.small("gin_mlp_layers"),
                                   .mpnn_aggregators = read.texts("mpnn_aggregators"),
                                   .mpnn_scalers = read.texts("mpnn_scalers"),
                                   .mpnn_pre_layers = read.small("mpnn_pre_layers"),
                                   .mpnn_post_layers = read.small("mpnn_post_layers"),
                                   .mpnn_self_loop = value.at("mpnn_self_loop", where).boolean(where),
                                   .average_degree = read.number("average_degree"),
                                   .average_log_degree = read.number("average_log_degree"),
                                   .transfer = parse_transfer(read.text("transfer"))};
    check_options(options);
    return options;
  } catch (const InputError& error) {
    const std::string message = error.what();
    throw InputError{message.starts_with(where) ? message : where + ": " + message};
  }
}

Convolution parse_convolution(const std::string& name) { return value_of(kConvolutions, "network", name); }
std::string to_text(Convolution convolution) { return name_of(kConvolutions, convolution); }
Transfer parse_transfer(const std::string& name) { return value_of(kTransfers, "kind of transfer", name); }
std::string to_text(Transfer transfer) { return name_of(kTransfers, transfer); }

std::int64_t iteration_count(const std::string& rule, std::int64_t nodes) {
  int fixed = 0;
  const auto [end, error] = std::from_chars(rule.data(), rule.data() + rule.size(), fixed);
  if (error == std::errc{} && end == rule.data() + rule.size()) {
    require_range("iterations", fixed, 1, kLargest);
    return fixed;
  }
  const auto count = static_cast<std::int64_t>(value_of(kRules, "iteration rule", rule)(static_cast<double>(nodes)));
  return std::max<std::int64_t>(count, 1);
}

void check_options(const PublishedOptions& options) {
  require_range("hidden", options.hidden, 1, kLargest);
  require_range("features", options.features, 1, options.hidden);
  require_range("outputs", options.outputs, 1, kLargest);
  require_range("mlp layers", options.mlp_layers, 1, 64);
  require_range("set2set steps", options.set2set_steps, 0, kLargest);
  require_range("gin mlp layers", options.gin_mlp_layers, 1, 64);
  require_range("mpnn pre layers", options.mpnn_pre_layers, 1, 64);
  require_range("mpnn post layers", options.mpnn_post_layers, 1, 64);
  iteration_count(options.iterations, 1);
  if (!(options.dropout >= 0.0 && options.dropout < 1.0)) throw InputError{"dropout: expected at least 0, less than 1"};
  const bool is_split = options.convolution != Convolution::kGcn && options.convolution != Convolution::kGin;
  if (is_split && options.hidden % kHeads != 0)
    throw InputError{"hidden: expected a multiple of 4 for " + to_text(options.convolution) + "; found " +
                     std::to_string(options.hidden)};
  const std::array<std::string, 13> aggregators{
      "sum",     "mean",    "max",     "min",     "std",     "var",     "normalised_mean",
      "softmax", "softmin", "moment3", "moment4", "moment5", "identity"};
  const std::array<std::string, 5> scalers{"identity", "amplification", "attenuation", "linear", "inverse_linear"};
  require_names("aggregator", options.mpnn_aggregators, aggregators);
  require_names("scaler", options.mpnn_scalers, scalers);
  for (const double average : {options.average_degree, options.average_log_degree})
    if (!(average > 0.0 && std::isfinite(average))) throw InputError{"average degree: expected a number above 0"};
}

}  // namespace rehearse
