#include "platforms/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "platforms/kernels/kernels.hpp"
#include "platforms/read_collectives.hpp"
#include "platforms/read_rate.hpp"
#include "platforms/schemas.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

double GpuParameters::efficiency_for(const std::string& accelerator) const {
  const auto found = peak_efficiency.find(accelerator);
  return found == peak_efficiency.end() ? default_peak_efficiency : found->second;
}

double NetworkParameters::nic_efficiency_for(const std::string& instance) const {
  const auto found = nic_efficiency_of.find(instance);
  return found == nic_efficiency_of.end() ? nic_efficiency : found->second;
}

std::pair<double, double> PredictionUncertainty::interval(double by_parameters) const {
  const double deviation = std::hypot(residual, by_parameters);
  return {std::exp(-high * deviation), std::exp(-low * deviation)};
}

double PredictionUncertainty::probability_of(double factor, double by_parameters) const {
  const double too_fast = -std::log(factor);  // at most, of ln(predicted / true)
  const double spread = std::hypot(residual, by_parameters) / kNormal95 * (too_fast >= 0 ? high : -low);
  if (!(spread > 0)) return too_fast >= 0 ? 1 : 0;
  return std::erfc(-too_fast / (spread * std::numbers::sqrt2)) / 2;
}

void PredictionUncertainty::widen(const std::vector<Substitute>& substitutes) {
  double added = 0;
  for (const Substitute& substitute : substitutes) {
    added = std::hypot(added, substitute.uncertainty);
    if (!substitute.components.empty()) components.push_back(substitute.components);
  }
  if (added == 0) return;
  low = std::min(low, -kNormal95);
  high = std::max(high, kNormal95);
  residual = std::hypot(residual, added);
}

bool CollectiveLibrary::asks_receivers() const {
  const auto any_asks = [](const CollectiveParameters& parameters) {
    return std::any_of(parameters.protocols.begin(), parameters.protocols.end(),
                       [](const auto& protocol) { return protocol.second.eager_limit.has_value(); });
  };
  const auto any_of_these_asks = [&](const std::map<std::string, CollectiveParameters>& named) {
    return std::any_of(named.begin(), named.end(), [&](const auto& entry) { return any_asks(entry.second); });
  };
  return any_asks(otherwise) || any_of_these_asks(by_generation) || any_of_these_asks(by_interconnect);
}

const CollectiveParameters& CollectiveLibrary::on(const std::string& interconnect,
                                                  const std::string& generation) const {
  const auto named = by_interconnect.find(interconnect);
  if (named != by_interconnect.end()) return named->second;
  const auto found = by_generation.find(generation);
  return found == by_generation.end() ? otherwise : found->second;
}

bool FrameworkErrors::are_of(const std::vector<std::string>& gpus, BytesPerSecond nic_of_machine) const {
  const auto is_known = [&](const std::string& gpu) {
    return std::ranges::find(accelerators, gpu) != accelerators.end();
  };
  if (!std::ranges::all_of(gpus, is_known)) return false;
  return nic_of_machine == BytesPerSecond{} || (nic_min <= nic_of_machine * 2 && nic_of_machine <= nic_max * 2);
}

Framework Profile::framework(const std::string& label) const {
  std::vector<std::string> names;
  for (const auto& [name, framework] : frameworks) names.push_back(name);
  const auto found = frameworks.find(framework_name(names, label));
  return found != frameworks.end() ? found->second : Framework{};
}

std::string framework_name(const std::vector<std::string>& names, const std::string& label) {
  const std::string* longest = nullptr;
  for (const std::string& name : names)
    if (label.find(name) != std::string::npos && (longest == nullptr || name.size() > longest->size())) longest = &name;
  return longest != nullptr ? *longest : "otherwise";
}

namespace {

HostParameters read_host(JsonReader json) {
  HostParameters host{.dispatch = json.required<Seconds>("dispatch"),
                      .step_overhead = json.required<Seconds>("step_overhead")};
  json.reject_unknown_keys();
  return host;
}

/// What a profile's "otherwise" leaves out.
Framework usual_framework() { return {.dispatch = 6.0_us, .step_overhead = 1.0_ms, .kernel_overhead = 2.0_us}; }

FrameworkMemory read_framework_memory(const JsonReader& json) {
  FrameworkMemory memory{.kept_activations = json.optional<double>("kept_activations", 1),
                         .kept_split_activations = json.maybe<double>("kept_split_activations"),
                         .kept_gathered = json.optional<double>("kept_gathered", 0),
                         .norm_copies = json.optional<double>("norm_copies", 0),
                         .gradient_temporaries = json.optional<double>("gradient_temporaries", 0),
                         .gradient_buffers = json.optional<double>("gradient_buffers", 0),
                         .loss_in_place = json.optional<bool>("loss_in_place", false),
                         .held = json.optional<Bytes>("held", Bytes{})};
  json.expect(memory.kept_activations >= 0.1 && memory.kept_activations <= 10, "kept_activations",
              "a factor of 0.1 to 10");
  if (const auto kept = memory.kept_split_activations)
    json.expect(*kept >= 0.1 && *kept <= 10, "kept_split_activations", "a factor of 0.1 to 10");
  json.expect(memory.kept_gathered >= 0 && memory.kept_gathered <= 1, "kept_gathered", "a share from 0 to 1");
  json.expect(memory.norm_copies >= 0 && memory.norm_copies <= 10, "norm_copies", "0 to 10 tensors");
  json.expect(memory.gradient_temporaries >= 0 && memory.gradient_temporaries <= 100, "gradient_temporaries",
              "0 to 100 bytes of a parameter");
  json.expect(memory.gradient_buffers >= 0 && memory.gradient_buffers <= 100, "gradient_buffers",
              "0 to 100 bytes of a parameter");
  json.expect(memory.held >= Bytes{} && memory.held <= Bytes{std::int64_t{1} << 40}, "held", "at most 1TiB");
  json.reject_unknown_keys();
  return memory;
}

FrameworkErrors read_framework_errors(const JsonReader& json) {
  FrameworkErrors errors{.rows = json.required<std::size_t>("rows"),
                         .accelerators = json.required<std::vector<std::string>>("accelerators"),
                         .nic_min = json.optional<BytesPerSecond>("nic_min", BytesPerSecond{}),
                         .nic_max = json.optional<BytesPerSecond>("nic_max", BytesPerSecond{}),
                         .low = json.required<double>("low"),
                         .high = json.required<double>("high")};
  json.expect(errors.rows >= 20, "rows", "at least 20: fewer tell no percentile");
  json.expect(!errors.accelerators.empty(), "accelerators", "at least one");
  json.expect(errors.nic_min <= errors.nic_max, "nic_min", "at most nic_max");
  json.expect(errors.low >= -10 && errors.low <= errors.high && errors.high <= 10, "low", "-10 to high");
  json.reject_unknown_keys();
  return errors;
}

/// What it leaves out is as in `otherwise`, but for errors; null: as usual.
Framework read_framework(const JsonReader& json, const Framework* otherwise) {
  Framework framework = otherwise != nullptr ? *otherwise : usual_framework();
  framework.dispatch = json.optional<Seconds>("dispatch", framework.dispatch);
  framework.step_overhead = json.optional<Seconds>("step_overhead", framework.step_overhead);
  framework.waits_for_kernels = json.optional<bool>("waits_for_kernels", framework.waits_for_kernels);
  framework.kernel_overhead = json.optional<Seconds>("kernel_overhead", framework.kernel_overhead);
  framework.update_dispatch =
      json.optional<Seconds>("update_dispatch", otherwise != nullptr ? otherwise->update_dispatch : framework.dispatch);
  framework.update_loop = json.optional<Seconds>("update_loop", framework.update_loop);
  framework.gather_copy = json.optional<Seconds>("gather_copy", framework.gather_copy);
  framework.update_traffic = json.optional<double>("update_traffic", framework.update_traffic);
  framework.composition = json.optional<double>("composition", framework.composition);
  framework.uses_tf32 = json.optional<bool>("tf32", framework.uses_tf32);
  framework.needs_alignment = json.optional<bool>("needs_alignment", framework.needs_alignment);
  framework.copies = json.optional<double>("copies", framework.copies);
  framework.mixed_scalars = json.optional<double>("mixed_scalars", framework.mixed_scalars);
  framework.fusion = json.optional<double>("fusion", framework.fusion);
  framework.collective_dispatch = json.optional<Seconds>(
      "collective_dispatch", otherwise != nullptr ? otherwise->collective_dispatch : framework.dispatch);
  framework.accumulation = json.optional<double>("accumulation", framework.accumulation);
  framework.accumulates_in_product = json.optional<bool>("accumulates_in_product", framework.accumulates_in_product);
  framework.dispatch_beside_pipeline =
      json.optional<Seconds>("dispatch_beside_pipeline", framework.dispatch_beside_pipeline);
  framework.load_wait = json.optional<Seconds>("load_wait", framework.load_wait);
  framework.attention_rate = json.optional<double>("attention_rate", framework.attention_rate);
  framework.transposes_images = json.optional<bool>("transposes_images", framework.transposes_images);
  framework.convolution_workspace = json.optional<Bytes>("convolution_workspace", framework.convolution_workspace);
  framework.transforms_weight_gradients =
      json.optional<bool>("transforms_weight_gradients", framework.transforms_weight_gradients);
  framework.has_variables_on_host = json.optional<bool>("variables_on_host", framework.has_variables_on_host);
  if (json.has("memory")) framework.memory = read_framework_memory(json.child("memory"));
  framework.errors.reset();
  if (json.has("errors")) framework.errors = read_framework_errors(json.child("errors"));
  if (json.has("source")) (void)json.required<std::string>("source");
  json.expect(framework.dispatch <= Seconds{1}, "dispatch", "at most 1s");
  json.expect(framework.step_overhead <= Seconds{10}, "step_overhead", "at most 10s");
  json.expect(framework.kernel_overhead <= Seconds{1}, "kernel_overhead", "at most 1s");
  json.expect(framework.composition >= 1 && framework.composition <= 100, "composition", "1 to 100 kernels");
  json.expect(framework.update_dispatch <= Seconds{1}, "update_dispatch", "at most 1s");
  json.expect(framework.update_loop <= Seconds{1}, "update_loop", "at most 1s");
  json.expect(framework.gather_copy <= Seconds{1}, "gather_copy", "at most 1s");
  json.expect(framework.update_traffic >= 0 && framework.update_traffic <= 1000, "update_traffic",
              "0 to 1000 bytes of a parameter");
  json.expect(framework.collective_dispatch <= Seconds{1}, "collective_dispatch", "at most 1s");
  json.expect(framework.accumulation >= 0 && framework.accumulation <= 100, "accumulation",
              "0 to 100 bytes of a parameter");
  json.expect(framework.dispatch_beside_pipeline <= Seconds{1}, "dispatch_beside_pipeline", "at most 1s");
  json.expect(framework.load_wait <= Seconds{1}, "load_wait", "at most 1s");
  json.expect(framework.attention_rate >= 0.01 && framework.attention_rate <= 10, "attention_rate",
              "a rate of 0.01 to 10 times FlashAttention-2's");
  json.expect(framework.copies >= 0 && framework.copies <= 100, "copies", "0 to 100 kernels");
  json.expect(framework.mixed_scalars >= 1 && framework.mixed_scalars <= 100, "mixed_scalars", "a factor of 1 to 100");
  json.expect(framework.fusion >= 0 && framework.fusion <= 0.99, "fusion", "a share of 0 to 0.99");
  json.reject_unknown_keys();
  return framework;
}

std::map<std::string, Framework> read_frameworks(const JsonReader& json) {
  std::map<std::string, Framework> frameworks;
  const bool has_otherwise = json.has("otherwise");
  if (has_otherwise) frameworks["otherwise"] = read_framework(json.child("otherwise"), nullptr);
  for (const auto& [name, framework] : json.items())
    if (name != "otherwise")
      frameworks[name] = read_framework(framework, has_otherwise ? &frameworks["otherwise"] : nullptr);
  return frameworks;
}

GpuParameters read_gpu(JsonReader json) {
  GpuParameters gpu{
      .kernel_overhead = json.required<Seconds>("kernel_overhead"),
      .memory_efficiency = read_share(json, "memory_efficiency"),
      .reduction_half = json.required<double>("reduction_half"),
      .winograd_gain = json.required<double>("winograd_gain"),
      .default_peak_efficiency = json.has("default_peak_efficiency") ? read_share(json, "default_peak_efficiency") : 1,
      .peak_efficiency = {},
      .update_accesses = {},
  };
  json.expect(gpu.reduction_half >= 0 && gpu.reduction_half <= 1e9, "reduction_half", "0 to 1e9");
  json.expect(gpu.winograd_gain >= 1 && gpu.winograd_gain <= 16, "winograd_gain", "1 to 16");
  for (const auto& [name, value] : json.child("peak_efficiency").items()) {
    const double efficiency = value.as<double>();
    value.expect(efficiency > 0 && efficiency <= 1, "a share above 0, at most 1");
    gpu.peak_efficiency[name] = efficiency;
  }
  if (json.has("update_accesses"))
    for (const auto& [name, value] : json.child("update_accesses").items()) {
      const double accesses = value.as<double>();
      value.expect(accesses >= 0 && accesses <= 1000, "0 to 1000 accesses for each scalar");
      gpu.update_accesses[name] = accesses;
    }
  json.reject_unknown_keys();
  return gpu;
}

LocalExchange read_local_exchange(const JsonReader& json) {
  const LocalExchange local{.time_per_variable = json.required<Seconds>("time_per_variable"),
                            .time_per_byte = json.required<Seconds>("time_per_byte")};
  json.expect(local.time_per_variable <= Seconds{10}, "time_per_variable", "at most 10s");
  json.expect(local.time_per_byte <= Seconds{1e-3}, "time_per_byte", "at most 1ms");
  json.reject_unknown_keys();
  return local;
}

SeenExchange read_seen_exchange(const JsonReader& json) {
  SeenExchange exchange{.strategy = json.required<std::string>("strategy"),
                        .links = json.optional<std::string>("links", ""),
                        .nic = json.optional<BytesPerSecond>("nic", BytesPerSecond{}),
                        .workers_max = json.required<int>("workers_max")};
  if (json.has("collective")) {
    const JsonReader alone = json.child("collective");
    exchange.collective = alone.required<std::string>("operation");
    exchange.payload_min = alone.required<Bytes>("payload_min");
    exchange.payload_max = alone.required<Bytes>("payload_max");
    alone.reject_unknown_keys();
  }
  json.reject_unknown_keys();
  return exchange;
}

std::vector<SeenExchange> read_seen_exchanges(const JsonReader& json) {
  std::vector<SeenExchange> exchanges;
  if (json.has("exchanges"))
    for (const JsonReader& exchange : json.children("exchanges")) exchanges.push_back(read_seen_exchange(exchange));
  return exchanges;
}

/// None where no exchange with servers went over a NIC.
std::optional<FittedServers> read_fitted_servers(const JsonReader& json, const std::string& profile) {
  FittedServers fitted{.profile = profile,
                       .traffic_max = json.required<Bytes>("server_traffic_max"),
                       .workers_max = json.required<int>("workers_max"),
                       .servers_max = json.required<int>("servers_max")};
  for (const SeenExchange& seen : read_seen_exchanges(json)) {
    if (seen.strategy != "parameter_server" || seen.nic == BytesPerSecond{}) continue;
    fitted.nic_min = fitted.nic_max == BytesPerSecond{} ? seen.nic : std::min(fitted.nic_min, seen.nic);
    fitted.nic_max = std::max(fitted.nic_max, seen.nic);
  }
  return fitted.nic_max > BytesPerSecond{} ? std::optional{fitted} : std::nullopt;
}

/// What entries of /servers/by_framework state instead; what they leave out is as in the section.
void expect_servers_of_frameworks(const JsonReader& servers);

ServerParameters read_servers(JsonReader json) {
  ServerParameters servers{
      .time_per_variable = json.required<Seconds>("time_per_variable"),
      .time_per_byte = json.required<Seconds>("time_per_byte"),
      .threads = json.maybe<int>("threads"),
      .connection_rate = json.maybe<BytesPerSecond>("connection_rate"),
      .time_per_split_update = json.required<Seconds>("time_per_split_update"),
      .time_per_update = json.optional<Seconds>("time_per_update", Seconds{0}),
      .split_update_threshold = json.required<Bytes>("split_update_threshold"),
      .between_processes = {},
      .in_process = {},
  };
  if (json.has("between_processes")) servers.between_processes = read_local_exchange(json.child("between_processes"));
  if (json.has("in_process")) servers.in_process = read_local_exchange(json.child("in_process"));
  (void)json.optional<std::string>("software", "");
  if (json.has("by_framework")) expect_servers_of_frameworks(json);
  if (json.has("fitted")) {
    const JsonReader fitted = json.child("fitted");
    servers.fitted = read_fitted_servers(fitted, fitted.required<std::string>("profile"));
    for (const char* earlier : {"nic_min", "nic_max"})
      (void)fitted.has(earlier);  // what `exchanges` say, in older files
    fitted.reject_unknown_keys();
  }
  json.expect(servers.time_per_variable <= Seconds{10}, "time_per_variable", "at most 10s");
  json.expect(servers.time_per_update <= Seconds{10}, "time_per_update", "at most 10s");
  json.expect(servers.time_per_split_update <= Seconds{10}, "time_per_split_update", "at most 10s");
  json.expect(servers.time_per_byte <= Seconds{1e-3}, "time_per_byte", "at most 1ms");
  if (servers.threads) json.expect(*servers.threads >= 1 && *servers.threads <= 1024, "threads", "1 to 1024 threads");
  if (servers.connection_rate)
    json.expect(*servers.connection_rate >= BytesPerSecond{1e3}, "connection_rate", "at least 1kBps");
  json.reject_unknown_keys();
  return servers;
}

void expect_servers_of_frameworks(const JsonReader& servers) {
  constexpr std::array kOfSection{"by_framework", "fitted", "software"};
  Json without = servers.value();
  for (const char* key : kOfSection) without.erase(key);
  for (const auto& [name, entry] : servers.child("by_framework").items()) {
    for (const char* key : kOfSection)
      if (entry.has(key)) entry.fail(key, "expected values of servers alone");
    (void)entry.required<std::string>("source");
    Json stated = entry.value(), whole = without;
    stated.erase("source");
    whole.merge_patch(stated);
    (void)read_servers(JsonReader{whole, entry.file_name(), entry.pointer()});
  }
}

NetworkParameters read_network(JsonReader json) {
  NetworkParameters network{.nic_efficiency = read_share(json, "nic_efficiency"),
                            .nic_efficiency_of = {},
                            .connection_window = json.maybe<Bytes>("connection_window"),
                            .tcp_rate = json.maybe<BytesPerSecond>("tcp_rate")};
  if (network.tcp_rate) json.expect(*network.tcp_rate >= BytesPerSecond{1e6}, "tcp_rate", "at least 1MBps");
  if (network.connection_window)
    json.expect(*network.connection_window >= Bytes{1024}, "connection_window", "at least 1KiB");
  if (json.has("flow_efficiency")) network.flow_efficiency = read_share(json, "flow_efficiency");
  network.duplex = json.optional<double>("duplex", 2);
  json.expect(network.duplex > 0 && network.duplex <= 2, "duplex", "a number above 0, at most 2");
  if (json.has("nic_efficiency_of"))
    for (const auto& [name, value] : json.child("nic_efficiency_of").items()) {
      const double efficiency = value.as<double>();
      value.expect(efficiency > 0 && efficiency <= 1, "a share above 0, at most 1");
      network.nic_efficiency_of[name] = efficiency;
    }
  json.reject_unknown_keys();
  return network;
}

template <class Q>
bool is_positive_quantity(const std::string& text) {
  try {
    return parse_quantity<Q>(text) > Q{};
  } catch (const QuantityError&) { return false; }
}

/// Whether the value at a pointer has a logarithm: a number, time or rate above 0.
bool has_logarithm(const Json& profile, const std::string& pointer) {
  if (!pointer.starts_with('/')) return false;
  const Json* value = json_pointer_find(profile, pointer);
  if (value == nullptr) return false;
  if (value->is_number()) return value->get<double>() > 0;
  if (!value->is_string()) return false;
  const auto text = value->get<std::string>();
  return is_positive_quantity<Seconds>(text) || is_positive_quantity<BytesPerSecond>(text) ||
         is_positive_quantity<FlopsPerSecond>(text);
}

std::map<std::string, double> read_component(const Json& profile, const JsonReader& json) {
  std::map<std::string, double> component;
  for (const auto& [pointer, change] : json.items()) {
    component[pointer] = change.as<double>();
    change.expect(std::abs(change.as<double>()) <= 10, "-10 to 10");
    if (!has_logarithm(profile, pointer))
      change.fail("expected a pointer to a number, time or rate above 0 of this profile");
  }
  return component;
}

PredictionUncertainty read_uncertainty(const Json& profile, const JsonReader& json, bool has_components) {
  PredictionUncertainty uncertainty{.residual = json.required<double>("residual"),
                                    .low = json.required<double>("low"),
                                    .high = json.required<double>("high"),
                                    .components = {}};
  json.expect(uncertainty.residual >= 0 && uncertainty.residual <= 10, "residual", "0 to 10");
  json.expect(std::abs(uncertainty.low) <= 100, "low", "-100 to 100");
  json.expect(uncertainty.high >= uncertainty.low && uncertainty.high <= 100, "high", "low to 100");
  for (const JsonReader& component : json.children("components"))
    if (has_components) uncertainty.components.push_back(read_component(profile, component));
  return uncertainty;
}

StepTime read_step_time(const JsonReader& json) {
  StepTime step{.model = json.required<std::string>("model"),
                .accelerator = json.required<std::string>("accelerator"),
                .precision = json.required<std::string>("precision"),
                .framework = json.optional<std::string>("framework", ""),
                .gpus = json.optional<int>("gpus", 1),
                .batch = json.required<int>("batch"),
                .time = json.required<Seconds>("time"),
                .is_estimated = json.optional<bool>("is_estimated", false)};
  json.expect(std::ranges::find(kStepPrecisions, step.precision) != kStepPrecisions.end(), "precision",
              "\"fp32\", \"tf32\", \"fp16\" or \"bf16\"");
  if (json.has("gpus")) json.expect(step.gpus >= 1 && step.gpus <= 64, "gpus", "1 to 64 GPUs");
  json.expect(step.batch >= 1 && step.batch <= 65536, "batch", "1 to 65536 samples");
  json.expect(step.batch % step.gpus == 0, "batch", "as many samples for each of the GPUs");
  json.expect(step.time > Seconds{} && step.time <= Seconds{1e5}, "time", "above 0, at most 100000s");
  json.reject_unknown_keys();
  return step;
}

CheckpointStage read_checkpoint_stage(const JsonReader& json) {
  CheckpointStage stage{.fixed_time = json.required<Seconds>("fixed_time"),
                        .time_per_tensor = json.optional<Seconds>("time_per_tensor", Seconds{}),
                        .rate = read_rate(json, "rate")};
  json.expect(stage.fixed_time <= Seconds{1e6}, "fixed_time", "at most 1e6s");
  if (json.has("time_per_tensor")) json.expect(stage.time_per_tensor <= Seconds{10}, "time_per_tensor", "at most 10s");
  json.reject_unknown_keys();
  return stage;
}

CheckpointParameters read_checkpoint(const JsonReader& json) {
  CheckpointParameters checkpoint{.source = json.required<std::string>("source"),
                                  .write = read_checkpoint_stage(json.child("write")),
                                  .upload = {}};
  if (json.has("upload")) checkpoint.upload = read_checkpoint_stage(json.child("upload"));
  json.reject_unknown_keys();
  return checkpoint;
}

}  // namespace

namespace {

/// Errors of the kind replace those of the fit, and of what was substituted that they include.
void set_prediction(const JsonReader& json, Profile& profile) {
  StatedPrediction prediction{.kind = json.required<std::string>("kind"),
                              .low = json.required<double>("low"),
                              .high = json.required<double>("high"),
                              .others = {}};
  if (json.has("others"))
    for (const auto& [name, other] : json.child("others").items()) prediction.others.push_back(name);
  json.expect(prediction.low >= -10 && prediction.low <= prediction.high && prediction.high <= 10, "low",
              "-10 to high");
  json.reject_unknown_keys();
  const double deviation = std::max({std::abs(prediction.low), std::abs(prediction.high), 1e-3}) / kNormal95;
  profile.uncertainty = {
      .residual = deviation, .low = prediction.low / deviation, .high = prediction.high / deviation, .components = {}};
  for (Substitute& substitute : profile.substitutes)
    if (substitute.is_of_kind) {
      substitute.uncertainty = 0;
      substitute.components.clear();
    }
  profile.prediction = std::move(prediction);
}

}  // namespace

Profile read_profile(JsonReader json) {
  json.begin_file(profile_schema);
  if (json.has("unstated"))
    if (const auto word = json.required<std::string>("unstated"); word != "nearest" && word != "ideal")
      json.expect(false, "unstated", "\"nearest\" or \"ideal\"");
  Profile profile{
      .name = json.required<std::string>("name"),
      .source = json.required<std::string>("source"),
      .host = json.has("host") ? read_host(json.child("host")) : HostParameters{},
      .gpu = json.has("gpu") ? read_gpu(json.child("gpu")) : GpuParameters{},
      .servers = json.has("servers") ? read_servers(json.child("servers")) : ServerParameters{},
      .network = json.has("network") ? read_network(json.child("network")) : NetworkParameters{},
      .collectives = json.has("collectives") ? read_collectives(json.child("collectives")) : CollectiveLibrary{},
  };
  if (json.has("sustained_power"))
    for (const auto& [architecture, value] : json.child("sustained_power").items())
      if (architecture != "source")
        profile.sustained_power[architecture] = read_share(json.child("sustained_power"), architecture);
  if (json.has("power")) profile.power = read_board_power(json.child("power"));
  if (json.has("kernels"))
    profile.kernels = std::make_shared<const kernels::Model>(kernels::read_model(json.child("kernels")));
  if (json.has("frameworks")) profile.frameworks = read_frameworks(json.child("frameworks"));
  if (json.has("step_times"))
    for (const JsonReader& step : json.children("step_times")) profile.step_times.push_back(read_step_time(step));
  if (json.has("checkpoint")) profile.checkpoint = read_checkpoint(json.child("checkpoint"));
  if (json.has("startup")) profile.startup = read_startup(json.child("startup"));
  if (json.has("fit")) {
    const JsonReader fit = json.child("fit");
    for (const JsonReader& value : fit.children("values"))
      profile.free_parameters.push_back(value.required<std::string>("pointer"));
    // Frameworks' values are too many to vary in each run, and what they change is small beside the errors of rows.
    if (fit.has("spread")) profile.uncertainty = read_uncertainty(json.value(), fit.child("spread"), !profile.kernels);
    const JsonReader seen = fit.child("seen");
    profile.fitted_accelerators = seen.required<std::vector<std::string>>("accelerators");
    profile.fitted_models = seen.required<std::vector<std::string>>("models");
    profile.fitted_batch_min = seen.required<int>("batch_min");
    profile.fitted_batch_max = seen.required<int>("batch_max");
    profile.fitted_workers_max = seen.required<int>("workers_max");
    profile.fitted_servers_max = seen.required<int>("servers_max");
    if (!profile.servers.fitted && profile.fitted_servers_max > 0 && seen.has("server_traffic_max"))
      profile.servers.fitted = read_fitted_servers(seen, profile.name);
    if (seen.has("frameworks")) profile.fitted_frameworks = seen.required<std::vector<std::string>>("frameworks");
    profile.fitted_exchanges = read_seen_exchanges(seen);
    if (seen.has("devices")) {
      const auto devices = seen.required<std::string>("devices");
      seen.expect(devices == "GPUs" || devices == "processors", "devices", "\"GPUs\" or \"processors\"");
      profile.is_of_processors = devices == "processors";
    }
  }
  if (json.has("substitutes"))
    for (const JsonReader& substitute : json.children("substitutes")) {
      Substitute& known = profile.substitutes.emplace_back();
      known.text = substitute.required<std::string>("text");
      known.uncertainty = substitute.required<double>("spread");
      substitute.expect(known.uncertainty >= 0 && known.uncertainty <= 10, "spread", "0 to 10");
      if (substitute.has("components")) known.components = read_component(json.value(), substitute.child("components"));
      known.is_of_kind = substitute.optional<bool>("of_kind", false);
      substitute.reject_unknown_keys();
    }
  if (json.has("prediction")) set_prediction(json.child("prediction"), profile);
  json.reject_unknown_keys();
  profile.uncertainty.widen(profile.substitutes);
  return profile;
}

}  // namespace rehearse
