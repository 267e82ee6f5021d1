#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "platforms/read_rate.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/find_model.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {

namespace {

/// As stated, or by convention.
void read_states(const JsonReader& json, Scenario& scenario) {
  States& states = scenario.states = default_states(scenario.precision);
  if (!json.has("states")) return;
  const JsonReader stated = json.child("states");
  const auto read = [&](const char* key, Precision& precision) {
    if (stated.has(key)) precision = read_precision(stated, key, kStoredPrecisions);
  };
  read("weights", states.weights);
  states.gradients = states.weights;
  read("gradients", states.gradients);
  read("moments", states.moments);
  // Weights that are stored in more than 16 bits are those that the optimizer updates.
  if (!is_half(states.weights)) states.master_weights.reset();
  if (stated.has("master_weights")) {
    if (stated.required<std::string>("master_weights") == "none")
      states.master_weights.reset();
    else
      states.master_weights = read_precision(stated, "master_weights", kStoredPrecisions);
  }
  stated.reject_unknown_keys();
}

constexpr std::array kParts{Named{"core_attention", &Recomputation::core_attention},
                            Named{"feed_forward", &Recomputation::feed_forward},
                            Named{"activations", &Recomputation::activations}, Named{"norms", &Recomputation::norms}};

/// "none", "full", "every_second_product", or the parts of layers.
void read_recomputation(const JsonReader& json, Scenario& scenario) {
  constexpr const char* kKey = "recompute";
  if (!json.has(kKey)) return;
  Recomputation& again = scenario.model.again;
  const JsonReader stated = json.child(kKey);
  const std::string expected =
      "\"none\", \"full\", \"every_second_product\", or a list of " + list_in_quotes(names_in(kParts));
  if (stated.is_string()) {
    const auto word = stated.as<std::string>();
    again.layers = word == "full";
    again.every_second_product = word == "every_second_product";
    json.expect(word == "none" || again != Recomputation{}, kKey, expected);
  } else {
    json.expect(stated.is_array(), kKey, expected);
    for (const JsonReader& part : stated.elements()) {
      part.expect(part.is_string(), expected);
      const auto word = part.as<std::string>();
      const auto known = std::ranges::find(kParts, word, [](const auto& of) { return std::string{of.name}; });
      part.expect(known != kParts.end(), list_in_quotes(names_in(kParts)));
      again.*(known->value) = true;
    }
  }
  if (again != Recomputation{} && !std::holds_alternative<Transformer>(scenario.model.structure))
    json.fail(kKey, "expected \"none\" for model " + in_quotes(scenario.model.name) +
                        ", which is no transformer: what of it is computed again is not modelled");
}

/// Of a transformer in 16 bits. Of nvfp4 the last 15 % of the layers stay so, unless it is stated: NVIDIA's arXiv 2509.25149 keeps about
/// as much of the linear layers in BF16, most of them at the end.
void read_fp8(const JsonReader& json, Scenario& scenario) {
  constexpr const char *kKey = "fp8", *kWide = "wide_layers";
  constexpr double kWideShare = 0.15;
  if (!json.has(kKey)) return json.expect(!json.has(kWide), kWide, "none without \"fp8\"");
  json.expect(json.child(kKey).is_string(), kKey, list_in_quotes(names_in(kFp8Recipes)));
  const Fp8 recipe = scenario.model.fp8 = read_word(json, kKey, kFp8Recipes);
  if (recipe == Fp8::kNone) return json.expect(!json.has(kWide), kWide, "none without \"fp8\"");
  json.expect(is_half(scenario.precision), kKey, "\"precision\": \"bf16\" or \"fp16\" beside it");
  json.expect(!scenario.model.again.every_second_product || !keeps_casts(recipe), kKey,
              "\"tensorwise\" or \"rowwise\" beside \"recompute\": \"every_second_product\"");
  if (!std::holds_alternative<Transformer>(scenario.model.structure))
    json.fail(kKey, "expected \"none\" for model " + in_quotes(scenario.model.name) +
                        ", which is no transformer: products of it in 8 bits are not modelled");
  const auto& net = std::get<Transformer>(scenario.model.structure);
  const int layers = net.decoder_layers > 0 ? net.decoder_layers : net.layers;
  const int usual = recipe == Fp8::kNvfp4 ? static_cast<int>(std::ceil(kWideShare * layers)) : 0;
  scenario.model.wide_layers = json.optional<int>(kWide, usual);
  json.expect(scenario.model.wide_layers >= 0 && scenario.model.wide_layers <= layers, kWide,
              "0 to the " + std::to_string(layers) + " layers of the model");
}

constexpr int kMostRank = 65536;

/// Of a transformer whose layers do not share variables.
void read_adapters(const JsonReader& json, Scenario& scenario) {
  constexpr const char* kKey = "lora";
  if (!json.has(kKey)) return;
  LowRankAdapters& adapters = scenario.model.adapters;
  const JsonReader stated = json.child(kKey);
  adapters.rank = stated.required<int>("rank");
  stated.expect(adapters.rank >= 1 && adapters.rank <= kMostRank, "rank", "1 to 65536");
  if (stated.has("modules")) {
    adapters.attention = adapters.feed_forward = false;
    for (const JsonReader& module : stated.children("modules")) {
      const auto word = module.as<std::string>();
      module.expect(word == "attention" || word == "feed_forward", "\"attention\" or \"feed_forward\"");
      (word == "attention" ? adapters.attention : adapters.feed_forward) = true;
    }
    stated.expect(adapters.attention || adapters.feed_forward, "modules", "\"attention\", \"feed_forward\" or both");
  }
  stated.reject_unknown_keys();
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  if (net == nullptr || net->has_shared_layers || net->disentangled_positions > 0)
    json.fail(kKey, "expected none for model " + in_quotes(scenario.model.name) +
                        (net == nullptr ? ", which is no transformer" : ", whose layers share variables") +
                        ": adapters of it are not modelled");
}

constexpr int kMostLoaders = 4096;

void read_input(const JsonReader& json, Scenario& scenario) {
  constexpr const char* kKey = "input";
  if (!json.has(kKey)) return;
  const JsonReader stated = json.child(kKey);
  InputPipeline& input = scenario.input.emplace();
  input.sample_size = stated.optional<Bytes>("sample_size", Bytes{});
  input.decode_time = stated.optional<Seconds>("decode_time", Seconds{});
  for (const auto& [key, rate] :
       {std::pair{"read_rate", &input.read_rate}, std::pair{"shared_read_rate", &input.shared_read_rate}}) {
    if (!stated.has(key)) continue;
    *rate = read_rate(stated, key);
    stated.expect(input.sample_size > Bytes{}, key, "\"sample_size\" beside it");
  }
  if (input.sample_size > Bytes{} && !input.read_rate && !input.shared_read_rate)
    stated.fail("sample_size", "expected \"read_rate\", \"shared_read_rate\" or both beside it");
  stated.expect(input.sample_size > Bytes{} || input.decode_time > Seconds{}, "decode_time",
                "a time above 0s, or \"sample_size\" and a rate at which samples are read");
  input.loaders = stated.maybe<int>("loaders");
  stated.expect(!input.loaders || (*input.loaders >= 1 && *input.loaders <= kMostLoaders), "loaders", "1 to 4096");
  input.prefetches = stated.optional<bool>("prefetch", true);
  stated.reject_unknown_keys();
}

}  // namespace

std::optional<std::int64_t> read_workload(const JsonReader& json, const Catalog& catalog, Scenario& scenario,
                                          Json& effective) {
  json.expect(json.is_object(), "an object");
  std::string name;
  std::optional<FoundModel> found;
  const JsonReader model =
      resolve(json, "model", effective["model"], name, [&](const std::string& n, const JsonReader& by) {
        found = find_model(n, by, catalog);
        return found->json;
      });
  if (found && found->is_file) {
    effective["model"]["name"] = name = found->name;
    for (const std::string& remark : found->remarks)
      scenario.warnings.push_back("model " + in_quotes(name) + ": " + remark);
  }
  scenario.model = read_model(name, model);
  scenario.batch = json.required<int>("batch_per_worker");
  json.expect(scenario.batch >= 1 && scenario.batch <= kMaxBatch, "batch_per_worker", "1 to 65536 samples");
  const auto word = [&](const char* key, const auto& words) {
    if (json.has(key)) return read_word(json, key, words);
    effective[key] = words.front().name;
    return words.front().value;
  };
  scenario.optimizer = word("optimizer", kOptimizers);
  if (json.has("optimizer_implementation"))
    scenario.optimizer_implementation = read_word(json, "optimizer_implementation", kOptimizerImplementations);
  if (json.has("precision"))
    scenario.precision = read_precision(json, "precision", kPrecisions);
  else
    effective["precision"] = kPrecisions.front().name;
  if (found && !found->stored_type.empty() && !json.has("precision"))
    scenario.warnings.push_back("model " + in_quotes(name) + ": " + precision_remark(found->stored_type));
  read_states(json, scenario);
  read_recomputation(json, scenario);
  read_fp8(json, scenario);
  read_adapters(json, scenario);
  scenario.model.has_fused_loss = json.optional<bool>("fused_loss", false);
  scenario.model.has_composed_loss = json.optional<bool>("composed_loss", false);
  json.expect(!scenario.model.has_fused_loss || !scenario.model.has_composed_loss, "composed_loss",
              "false beside \"fused_loss\": true");
  scenario.framework = json.optional<std::string>("framework", "");
  if (json.has("copies_input")) scenario.copies_input = json.required<bool>("copies_input");
  read_input(json, scenario);
  std::optional<std::int64_t> samples_per_epoch;
  if (json.has("samples_per_epoch")) {
    samples_per_epoch = json.required<std::int64_t>("samples_per_epoch");
    json.expect(*samples_per_epoch >= 1 && *samples_per_epoch <= kMaxSamples, "samples_per_epoch",
                "1 to 1000000000000000 samples");
  }
  scenario.convergence =
      json.has("convergence") ? read_convergence(json.child("convergence")) : scenario.model.convergence;
  refuse_unmodelled_keys(json, {"recompute", "lora", "fp8"});
  json.reject_unknown_keys();
  scenario.workload =
      build_workload(scenario.model, scenario.batch, scenario.precision,
                     model.file_name() + ": " + (model.pointer().empty() ? "/structure" : model.pointer()));
  return samples_per_epoch;
}

}  // namespace rehearse
