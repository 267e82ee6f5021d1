#include "predictor/gnn/published_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

constexpr int kHeads = 4;
constexpr int kLargest = 4096;

constexpr std::array kConvolutions{Named{"gcn", Convolution::kGcn}, Named{"gin", Convolution::kGin},
                                   Named{"gat", Convolution::kGat}, Named{"gat-textbook", Convolution::kGatTextbook},
                                   Named{"mpnn", Convolution::kMpnn}};
constexpr std::array kTransfers{Named{"none", Transfer::kNone}, Named{"as-published", Transfer::kAsPublished},
                                Named{"as-intended", Transfer::kAsIntended}};
constexpr std::array kLabelScalings{Named{"maxima", LabelScaling::kMaxima},
                                    Named{"standardised-logs", LabelScaling::kStandardisedLogs}};

using Rule = double (*)(double);
constexpr std::array<Named<Rule>, 9> kRules{{{"Nover2", [](double n) { return n / 2; }},
                                             {"N", [](double n) { return n; }},
                                             {"Nover3", [](double n) { return n / 3; }},
                                             {"log2N", [](double n) { return std::log2(n); }},
                                             {"2log2N", [](double n) { return 2 * std::log2(n); }},
                                             {"3log2N", [](double n) { return 3 * std::log2(n); }},
                                             {"4log2N", [](double n) { return 4 * std::log2(n); }},
                                             {"3sqrtN", [](double n) { return 3 * std::sqrt(n); }},
                                             {"log10N", [](double n) { return std::log10(n); }}}};

template <class Value, std::size_t n>
Value value_of(const std::array<Named<Value>, n>& names, const char* kind, const std::string& name) {
  for (const Named<Value>& known : names)
    if (name == known.name) return known.value;
  throw InputError{unknown_name_message(kind, name, names_in(names))};
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

/// An option and its name in a predictor's file.
template <class Value>
struct Field {
  const char* name;
  Value PublishedOptions::*value;
  bool may_be_missing = false;
};
template <class Value>
Field(const char*, Value PublishedOptions::*) -> Field<Value>;
template <class Value>
Field(const char*, Value PublishedOptions::*, bool) -> Field<Value>;

constexpr std::tuple kFields{Field{"convolution", &PublishedOptions::convolution},
                             Field{"features", &PublishedOptions::features},
                             Field{"outputs", &PublishedOptions::outputs},
                             Field{"hidden", &PublishedOptions::hidden},
                             Field{"mlp_layers", &PublishedOptions::mlp_layers},
                             Field{"iterations", &PublishedOptions::iterations},
                             Field{"set2set_steps", &PublishedOptions::set2set_steps},
                             Field{"dropout", &PublishedOptions::dropout},
                             Field{"gin_mlp_layers", &PublishedOptions::gin_mlp_layers},
                             Field{"mpnn_aggregators", &PublishedOptions::mpnn_aggregators},
                             Field{"mpnn_scalers", &PublishedOptions::mpnn_scalers},
                             Field{"mpnn_pre_layers", &PublishedOptions::mpnn_pre_layers},
                             Field{"mpnn_post_layers", &PublishedOptions::mpnn_post_layers},
                             Field{"mpnn_self_loop", &PublishedOptions::mpnn_self_loop},
                             Field{"average_degree", &PublishedOptions::average_degree},
                             Field{"average_log_degree", &PublishedOptions::average_log_degree},
                             Field{"transfer", &PublishedOptions::transfer},
                             Field{"labels", &PublishedOptions::labels, true},
                             Field{"mlp_gain", &PublishedOptions::mlp_gain, true}};

TorchValue stored(int value) { return value; }
TorchValue stored(double value) { return value; }
TorchValue stored(bool value) { return value; }
TorchValue stored(const std::string& value) { return value; }
TorchValue stored(Convolution value) { return to_text(value); }
TorchValue stored(Transfer value) { return to_text(value); }
TorchValue stored(LabelScaling value) { return to_text(value); }
TorchValue stored(const std::vector<std::string>& names) { return TorchList{TorchItems(names.begin(), names.end())}; }

void read(const TorchValue& stored, const std::string& where, int& value) {
  const std::int64_t found = stored.integer(where);
  value = static_cast<int>(std::clamp<std::int64_t>(found, -1, kLargest + 1));  // check_options() refuses the ends
}
void read(const TorchValue& stored, const std::string& where, double& value) { value = stored.number(where); }
void read(const TorchValue& stored, const std::string& where, bool& value) { value = stored.boolean(where); }
void read(const TorchValue& stored, const std::string& where, std::string& value) { value = stored.text(where); }
void read(const TorchValue& stored, const std::string& where, Convolution& value) {
  value = parse_convolution(stored.text(where));
}
void read(const TorchValue& stored, const std::string& where, Transfer& value) {
  value = parse_transfer(stored.text(where));
}
void read(const TorchValue& stored, const std::string& where, LabelScaling& value) {
  value = parse_label_scaling(stored.text(where));
}
void read(const TorchValue& stored, const std::string& where, std::vector<std::string>& names) {
  names.clear();
  for (const TorchValue& name : stored.list(where)) names.push_back(name.text(where));
}

}  // namespace

TorchDict to_torch(const PublishedOptions& options) {
  TorchDict dict;
  const auto add = [&](const auto& field) { dict.items.emplace_back(field.name, stored(options.*field.value)); };
  std::apply([&](const auto&... fields) { (add(fields), ...); }, kFields);
  return dict;
}

PublishedOptions published_options(const TorchValue& value, const std::string& where) {
  PublishedOptions options;
  const auto take = [&](const auto& field) {
    if (field.may_be_missing && value.find(field.name) == nullptr) return;
    read(value.at(field.name, where), where + ": " + field.name, options.*field.value);
  };
  try {
    std::apply([&](const auto&... fields) { (take(fields), ...); }, kFields);
    check_options(options);
    return options;
  } catch (const InputError& error) {
    const std::string message = error.what();
    throw InputError{message.starts_with(where) ? message : where + ": " + message};
  }
}

Convolution parse_convolution(const std::string& name) { return value_of(kConvolutions, "network", name); }
std::string to_text(Convolution convolution) { return name_in(kConvolutions, convolution); }
Transfer parse_transfer(const std::string& name) { return value_of(kTransfers, "kind of transfer", name); }
std::string to_text(Transfer transfer) { return name_in(kTransfers, transfer); }
LabelScaling parse_label_scaling(const std::string& name) {
  return value_of(kLabelScalings, "scaling of labels", name);
}
std::string to_text(LabelScaling scaling) { return name_in(kLabelScalings, scaling); }

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
  if (!(options.mlp_gain >= 0.0 && std::isfinite(options.mlp_gain)))
    throw InputError{"mlp gain: expected a number of at least 0"};
  for (const double average : {options.average_degree, options.average_log_degree})
    if (!(average > 0.0 && std::isfinite(average))) throw InputError{"average degree: expected a number above 0"};
}

}  // namespace rehearse
