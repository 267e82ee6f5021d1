#include "workloads/timed_layers.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

constexpr Bytes kLargest{std::int64_t{1} << 40};

}  // namespace

TimedLayers read_collective(const JsonReader& json) {
  const auto bytes = json.required<std::int64_t>("bytes");
  json.expect(bytes >= 1 && bytes <= kLargest.value(), "bytes", "1 to 1099511627776 bytes");
  // No training: there is neither a host's work nor an update.
  TimedLayers timed{.batch = 1, .layers = {{.name = "tensor", .gradient = Bytes{bytes}}}, .is_whole_step = true};
  if (json.has("operation")) timed.operation = read_collective_kind(json, "operation");
  return timed;
}

TimedLayers read_timed_layers(const JsonReader& json) {
  constexpr std::size_t kMostLayers = 100'000;
  TimedLayers timed{.batch = json.required<int>("batch"),
                    .scales_with_batch = json.optional<bool>("scales_with_batch", false),
                    .layers = {},
                    .optimizer_time = json.optional<Seconds>("optimizer_time", Seconds{0}),
                    .is_whole_step = json.optional<bool>("whole_step", false),
                    .gpu = json.optional<std::string>("gpu", "")};
  json.expect(timed.batch >= 1 && timed.batch <= 65536, "batch", "1 to 65536 samples");
  const std::vector<JsonReader> layers = json.children("layers");
  json.expect(!layers.empty() && layers.size() <= kMostLayers, "layers", "1 to 100000 layers");
  for (const JsonReader& layer : layers) {
    timed.layers.push_back({.name = layer.required<std::string>("name"),
                            .gradient = layer.required<Bytes>("gradient"),
                            .forward = layer.required<Seconds>("forward"),
                            .backward = layer.required<Seconds>("backward"),
                            .output = layer.optional<Bytes>("output", Bytes{}),
                            .kept = layer.maybe<Bytes>("kept")});
    if (layer.has("kept")) layer.expect(*timed.layers.back().kept <= kLargest, "kept", "at most 1TiB");
    layer.expect(timed.layers.back().gradient <= kLargest, "gradient", "at most 1TiB");
    if (layer.has("output"))
      layer.expect(timed.layers.back().output >= Bytes{1} && timed.layers.back().output <= kLargest, "output",
                   "1B to 1TiB");
    layer.reject_unknown_keys();
  }
  return timed;
}

Json timed_layers_json(const TimedLayers& timed) {
  const auto text = [](Seconds time) { return to_text(Seconds{std::round(time.value() * 1e9) / 1e9}); };
  Json structure{{"family", "timed_layers"}, {"batch", timed.batch}};
  if (timed.scales_with_batch) structure["scales_with_batch"] = true;
  if (timed.is_whole_step) structure["whole_step"] = true;
  if (!timed.gpu.empty()) structure["gpu"] = timed.gpu;
  structure["optimizer_time"] = text(timed.optimizer_time);
  for (const TimedLayer& layer : timed.layers) {
    structure["layers"].push_back({{"name", layer.name},
                                   {"gradient", to_text(layer.gradient)},
                                   {"forward", text(layer.forward)},
                                   {"backward", text(layer.backward)}});
    if (layer.output > Bytes{}) structure["layers"].back()["output"] = to_text(layer.output);
    if (layer.kept) structure["layers"].back()["kept"] = to_text(*layer.kept);
  }
  return structure;
}

Workload build_workload(const TimedLayers& timed, const std::string& name, int batch, Precision precision,
                        const std::string& place) {
  if (batch != timed.batch && !timed.scales_with_batch)
    throw InputError{place + ": its times were measured with a batch of " + std::to_string(timed.batch) +
                     "; found batch_per_worker " + std::to_string(batch)};
  Workload workload{.name = name,
                    .batch = batch,
                    .variables = {},
                    .graph = {},
                    .optimizer_time = timed.optimizer_time,
                    .is_whole_step = timed.is_whole_step};
  const double scale = static_cast<double>(batch) / timed.batch;
  const std::int64_t scalar = bytes_per_scalar(precision);
  std::vector<int> variable_of;  // [layers], -1 without parameters
  for (const TimedLayer& layer : timed.layers) {
    if (layer.gradient == Bytes{}) {
      variable_of.push_back(-1);
      continue;
    }
    variable_of.push_back(static_cast<int>(workload.variables.size()));
    const std::int64_t scalars = (layer.gradient.value() + 3) / 4;
    workload.variables.push_back(
        {.name = layer.name, .shape = {scalars}, .bytes = Bytes{layer.gradient.value() * scalar / 4}});
  }
  if (workload.variables.empty()) throw InputError{place + ": the model has no variable to train"};
  const auto append = [&](const std::string& op, Phase phase, Seconds time) -> Operator& {
    Operator kernel;
    kernel.name = op;
    kernel.phase = phase;
    kernel.measured_time = time;
    const std::size_t vertex = workload.graph.add(kernel);
    if (vertex > 0) workload.graph.connect(vertex - 1, vertex);
    return workload.graph.stored(vertex);
  };
  for (std::size_t i = 0; i < timed.layers.size(); ++i) {
    Operator& kernel = append(timed.layers[i].name + "/forward", Phase::kForward, timed.layers[i].forward * scale);
    if (variable_of[i] >= 0) kernel.reads_variables = {variable_of[i]};
    const auto scaled = [&](Bytes bytes) {
      const double all = as_double(bytes * scalar) / 4 * scale;
      if (all > 4 * as_double(kLargest))  // as 2^40 scalars of any other model: sums of all layers stay below 2^63
        throw InputError{place + ": layer " + in_quotes(timed.layers[i].name) + " has more than 4TiB with a batch of " +
                         std::to_string(batch)};
      return Bytes{std::lround(all)};
    };
    if (timed.layers[i].output > Bytes{}) kernel.output = std::max(Bytes{1}, scaled(timed.layers[i].output));
    if (timed.layers[i].kept)
      kernel.kept = scaled(*timed.layers[i].kept);
    else if (i > 0)
      kernel.kept = workload.graph[i - 1]->output;
    workload.activation_bytes += kernel.kept;
  }
  for (std::size_t i = timed.layers.size(); i-- > 0;) {
    Operator& kernel = append(timed.layers[i].name + "/backward", Phase::kBackward, timed.layers[i].backward * scale);
    kernel.backward_of = static_cast<int>(i);
    if (variable_of[i] >= 0) kernel.produces_gradients = {variable_of[i]};
  }
  return workload;
}

}  // namespace rehearse
