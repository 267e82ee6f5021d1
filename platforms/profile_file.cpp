// Profile files: reader and writer, both by the same tables and parts.

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "platforms/kernels/kernels.hpp"
#include "platforms/profile_parts.hpp"
#include "platforms/schemas.hpp"

namespace rehearse {

namespace {

// Reading

void check(const JsonReader&, const auto&) {}

void check(const JsonReader& json, const FrameworkErrors& errors) {
  json.expect(!errors.accelerators.empty(), "accelerators", "at least one");
  json.expect(errors.nic_min <= errors.nic_max, "nic_min", "at most nic_max");
  json.expect(errors.low >= -10 && errors.low <= errors.high && errors.high <= 10, "low", "-10 to high");
}

void check(const JsonReader& json, const StepTime& step) {
  json.expect(std::ranges::find(kStepPrecisions, step.precision) != kStepPrecisions.end(), "precision",
              "\"fp32\", \"tf32\", \"fp16\" or \"bf16\"");
  json.expect(step.batch % step.gpus == 0, "batch", "as many samples for each of the GPUs");
}

class Reader {
 public:
  explicit Reader(const JsonReader& json) : json_{json} {}

  template <class T>
  void object(const char* key, T& value, bool is_required = false) {
    if (!is_required && !json_.has(key)) return;
    value = T{};
    read(json_.child(key), value);
  }
  template <class T>
  void object(const char* key, std::optional<T>& value) {
    if (json_.has(key)) read(json_.child(key), value.emplace());
  }
  template <class T>
  void objects(const char* key, OrderedMap<T>& values) {
    if (!json_.has(key)) return;
    for (const auto& [name, entry] : json_.child(key).items()) read(entry, values[name]);
  }
  template <class T>
  void list(const char* key, std::vector<T>& values) {
    if (!json_.has(key)) return;
    for (const JsonReader& entry : json_.children(key)) read(entry, values.emplace_back());
  }
  void numbers(const char* key, std::map<std::string, double>& values, const Bounds& bounds, bool is_required = false,
               bool has_source = false) {
    if (!is_required && !json_.has(key)) return;
    for (const auto& [name, entry] : json_.child(key).items()) {
      if (has_source && name == "source") continue;
      const auto number = entry.as<double>();
      entry.expect(number >= bounds.least && number <= bounds.most, bounds.text);
      values[name] = number;
    }
  }
  /// Fields and parts that stand beside the object's own.
  template <class T>
  void same(T& value) {
    read_fields(json_, value);
    visit_parts(*this, value);
  }
  bool enters(const char* key, bool& is_stated) { return is_stated = json_.has(key); }

  template <class T>
  static void read(const JsonReader& json, T& value) {
    Reader reader{json};
    reader.same(value);
    check(json, value);
    json.reject_unknown_keys();
  }
  static void read(const JsonReader& json, BoardPowerValues& power) { power = read_board_power(json); }
  static void read(const JsonReader& json, StartupParameters& startup) { startup = read_startup(json); }

 private:
  const JsonReader& json_;
};

/// What a profile's "otherwise" leaves out.
Framework usual_framework() { return {.dispatch = 6.0_us, .step_overhead = 1.0_ms, .kernel_overhead = 2.0_us}; }

/// What it leaves out is as in `otherwise`, but for errors; null: as usual.
Framework read_framework(const JsonReader& json, const Framework* otherwise) {
  Framework framework = otherwise != nullptr ? *otherwise : usual_framework();
  framework.stated = 0;
  framework.errors.reset();
  if (json.has("source")) (void)json.required<std::string>("source");
  Reader::read(json, framework);
  if (otherwise == nullptr) {
    if (!json.has("update_dispatch")) framework.update_dispatch = framework.dispatch;
    if (!json.has("collective_dispatch")) framework.collective_dispatch = framework.dispatch;
  }
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

std::vector<SeenExchange> read_seen_exchanges(const JsonReader& json) {
  std::vector<SeenExchange> exchanges;
  if (!json.has("exchanges")) return exchanges;
  for (const JsonReader& entry : json.children("exchanges")) {
    SeenExchange& exchange = exchanges.emplace_back();
    read_fields(entry, exchange);
    if (entry.has("collective")) {
      const JsonReader alone = entry.child("collective");
      exchange.collective = alone.required<std::string>("operation");
      exchange.payload_min = alone.required<Bytes>("payload_min");
      exchange.payload_max = alone.required<Bytes>("payload_max");
      alone.reject_unknown_keys();
    }
    entry.reject_unknown_keys();
  }
  return exchanges;
}

/// None where no exchange with servers went over a NIC.
std::optional<FittedServers> read_fitted_servers(const JsonReader& json, const std::string& profile) {
  FittedServers fitted{.profile = profile,
                       .exchanges = read_seen_exchanges(json),
                       .traffic_max = json.required<Bytes>("server_traffic_max"),
                       .workers_max = json.required<int>("workers_max"),
                       .servers_max = json.required<int>("servers_max")};
  for (const SeenExchange& seen : fitted.exchanges) {
    if (seen.strategy != "parameter_server" || seen.nic == BytesPerSecond{}) continue;
    fitted.nic_min = fitted.nic_max == BytesPerSecond{} ? seen.nic : std::min(fitted.nic_min, seen.nic);
    fitted.nic_max = std::max(fitted.nic_max, seen.nic);
  }
  return fitted.nic_max > BytesPerSecond{} ? std::optional{fitted} : std::nullopt;
}

constexpr std::array kNotOfFrameworks{"by_framework", "fitted", "software"};

/// What entries of /servers/by_framework state instead; what they leave out is as in the section.
std::map<std::string, ServersOfFramework> read_servers_of_frameworks(const JsonReader& servers) {
  std::map<std::string, ServersOfFramework> all;
  if (!servers.has("by_framework")) return all;
  Json without = servers.value();
  for (const char* key : kNotOfFrameworks) without.erase(key);
  for (const auto& [name, entry] : servers.child("by_framework").items()) {
    for (const char* key : kNotOfFrameworks)
      if (entry.has(key)) entry.fail(key, "expected values of servers alone");
    ServersOfFramework& of_framework = all[name];
    of_framework.source = entry.required<std::string>("source");
    Json stated = entry.value(), whole = without;
    stated.erase("source");
    for (const auto& [key, value] : stated.items()) of_framework.keys.push_back(key);
    whole.merge_patch(stated);
    Reader::read(JsonReader{whole, entry.file_name(), entry.pointer()}, of_framework.servers);
  }
  return all;
}

void read_servers(const JsonReader& json, Profile& profile) {
  profile.servers_of_frameworks = read_servers_of_frameworks(json);
  if (json.has("fitted")) {
    const JsonReader fitted = json.child("fitted");
    profile.servers.fitted = read_fitted_servers(fitted, fitted.required<std::string>("profile"));
    for (const char* earlier : {"nic_min", "nic_max"})
      (void)fitted.has(earlier);  // what `exchanges` say, in older files
    fitted.reject_unknown_keys();
  }
  Reader::read(json, profile.servers);
}

std::map<std::string, double> read_component(Profile& profile, const JsonReader& json) {
  std::map<std::string, double> component;
  for (const auto& [pointer, change] : json.items()) {
    component[pointer] = change.as<double>();
    change.expect(std::abs(change.as<double>()) <= 10, "-10 to 10");
    if (!find_number(profile, pointer).is_found())
      change.fail("expected a pointer to a number, time or rate above 0 of this profile");
  }
  return component;
}

PredictionUncertainty read_uncertainty(Profile& profile, const JsonReader& json) {
  PredictionUncertainty uncertainty{.residual = json.required<double>("residual"),
                                    .low = json.required<double>("low"),
                                    .high = json.required<double>("high"),
                                    .components = {}};
  json.expect(uncertainty.residual >= 0 && uncertainty.residual <= 10, "residual", "0 to 10");
  json.expect(std::abs(uncertainty.low) <= 100, "low", "-100 to 100");
  json.expect(uncertainty.high >= uncertainty.low && uncertainty.high <= 100, "high", "low to 100");
  // Frameworks' values are too many to vary in each run, and what they change is small beside the errors of rows.
  for (const JsonReader& component : json.children("components"))
    if (!profile.kernels) uncertainty.components.push_back(read_component(profile, component));
  return uncertainty;
}

void read_fit(const JsonReader& fit, Profile& profile) {
  profile.is_fitted = true;
  for (const JsonReader& value : fit.children("values"))
    profile.free_parameters.push_back(value.required<std::string>("pointer"));
  if (fit.has("spread")) profile.fit_spread = read_uncertainty(profile, fit.child("spread"));
  const JsonReader seen = fit.child("seen");
  read_fields(seen, profile);
  if (!profile.servers.fitted && profile.fitted_servers_max > 0 && seen.has("server_traffic_max"))
    profile.servers.fitted = read_fitted_servers(seen, profile.name);
  profile.fitted_exchanges = read_seen_exchanges(seen);
  if (!seen.has("devices")) return;
  const auto devices = seen.required<std::string>("devices");
  seen.expect(devices == "GPUs" || devices == "processors", "devices", "\"GPUs\" or \"processors\"");
  profile.is_of_processors = devices == "processors";
}

Substitute read_substitute(const JsonReader& json, Profile& profile) {
  Substitute substitute{.text = json.required<std::string>("text"),
                        .uncertainty = json.required<double>("spread"),
                        .is_of_kind = json.optional<bool>("of_kind", false),
                        .components = {}};
  json.expect(substitute.uncertainty >= 0 && substitute.uncertainty <= 10, "spread", "0 to 10");
  if (json.has("components")) substitute.components = read_component(profile, json.child("components"));
  json.reject_unknown_keys();
  return substitute;
}

StatedPrediction read_prediction(const JsonReader& json) {
  StatedPrediction prediction{.kind = json.required<std::string>("kind"),
                              .low = json.required<double>("low"),
                              .high = json.required<double>("high"),
                              .others = {}};
  if (json.has("others"))
    for (const auto& [name, other] : json.child("others").items()) prediction.others.push_back(name);
  json.expect(prediction.low >= -10 && prediction.low <= prediction.high && prediction.high <= 10, "low",
              "-10 to high");
  json.reject_unknown_keys();
  return prediction;
}

}  // namespace

Profile read_profile(JsonReader json) {
  json.begin_file(profile_schema);
  Profile profile{.name = json.required<std::string>("name"), .source = json.required<std::string>("source")};
  if (json.has("unstated")) {
    const auto word = json.required<std::string>("unstated");
    json.expect(word == "nearest" || word == "ideal", "unstated", "\"nearest\" or \"ideal\"");
    profile.is_ideal = word == "ideal";
  }
  Reader reader{json};
  if (json.has("servers")) read_servers(json.child("servers"), profile);
  reader.object("host", profile.host);
  reader.object("gpu", profile.gpu);
  reader.object("network", profile.network);
  reader.object("collectives", profile.stated_collectives);
  reader.list("step_times", profile.step_times);
  visit_more_sections(reader, profile);
  if (json.has("kernels"))
    profile.kernels = std::make_shared<const kernels::Model>(kernels::read_model(json.child("kernels")));
  if (json.has("frameworks")) profile.frameworks = read_frameworks(json.child("frameworks"));
  if (json.has("fit")) read_fit(json.child("fit"), profile);
  if (json.has("substitutes"))
    for (const JsonReader& substitute : json.children("substitutes"))
      profile.substitutes.push_back(read_substitute(substitute, profile));
  if (json.has("prediction")) profile.prediction = read_prediction(json.child("prediction"));
  json.reject_unknown_keys();
  set_consequences(profile);
  return profile;
}

namespace {

// Writing

/// Whether a section says anything.
template <class T>
bool is_stated(const T& value) {
  if constexpr (std::is_same_v<T, CollectiveLibrary>)
    return !value.empty();
  else
    return has_fields(value);
}

class Writer {
 public:
  explicit Writer(Json& json) : json_{json} {}

  template <class T>
  void object(const char* key, const T& value, bool is_required = false) {
    if (is_required || is_stated(value)) json_[key] = written(value);
  }
  template <class T>
  void object(const char* key, const std::optional<T>& value) {
    if (value) json_[key] = written(*value);
  }
  void objects(const char* key, const auto& values) {
    for (const auto& [name, value] : values) json_[key][name] = written(value);
  }
  template <class T>
  void list(const char* key, const std::vector<T>& values, bool is_required = std::is_same_v<T, StartupTime>) {
    if (is_required) json_[key] = Json::array();
    for (const T& value : values) json_[key].push_back(written(value));
  }
  void numbers(const char* key, const std::map<std::string, double>& values, const Bounds&, bool is_required = false,
               bool = false) {
    if (is_required) json_[key] = Json::object();
    for (const auto& [name, value] : values) detail::write_value(json_[key][name], value);
  }
  template <class T>
  void same(const T& value) {
    write_fields(json_, value);
    visit_parts(*this, value);
  }
  bool enters(const char* key, bool is_stated) {
    if (is_stated) json_[key] = Json::object();
    return true;
  }

  template <class T>
  static Json written(const T& value) {
    Json json = Json::object();
    if constexpr (std::is_same_v<T, Distribution>) json["law"] = kTimeLaws.at(value.law.index());
    Writer writer{json};
    writer.same(value);
    return json;
  }

 private:
  Json& json_;
};

Json written(const std::vector<SeenExchange>& exchanges) {
  Json list = Json::array();
  for (const SeenExchange& exchange : exchanges) {
    Json& entry = list.emplace_back(Writer::written(exchange));
    if (!exchange.collective.empty())
      entry["collective"] = {{"operation", exchange.collective},
                             {"payload_min", to_text(exchange.payload_min)},
                             {"payload_max", to_text(exchange.payload_max)}};
  }
  return list;
}

/// What the profile says of servers besides the table of their keys.
void write_servers(Json& json, const Profile& profile) {
  for (const auto& [name, of_framework] : profile.servers_of_frameworks) {
    const Json whole = Writer::written(of_framework.servers);
    Json& entry = json["by_framework"][name] = Json::object();
    for (const std::string& key : of_framework.keys) entry[key] = whole.at(key);
    entry["source"] = of_framework.source;
  }
  if (const auto& fitted = profile.servers.fitted; fitted && fitted->profile != profile.name)
    json["fitted"] = {{"profile", fitted->profile},
                      {"exchanges", written(fitted->exchanges)},
                      {"server_traffic_max", to_text(fitted->traffic_max)},
                      {"workers_max", fitted->workers_max},
                      {"servers_max", fitted->servers_max}};
}

Json written(const Substitute& substitute) {
  Json json{{"text", substitute.text}, {"spread", substitute.uncertainty}};
  if (substitute.is_of_kind) json["of_kind"] = true;
  if (!substitute.components.empty()) json["components"] = substitute.components;
  return json;
}

Json written(const PredictionUncertainty& spread) {
  Json components = Json::array();
  for (const auto& component : spread.components) components.push_back(component);
  return {{"residual", spread.residual}, {"low", spread.low}, {"high", spread.high}, {"components", components}};
}

/// What is filled in for a scenario, and what that changes.
Json completed_parts(const Profile& profile) {
  Json json = Json::object();
  Writer writer{json};
  visit_sections(writer, profile);
  if (json.contains("servers")) write_servers(json["servers"], profile);
  if (profile.is_fitted) json["fit"]["spread"] = written(profile.fit_spread);
  for (const Substitute& substitute : profile.substitutes) json["substitutes"].push_back(written(substitute));
  return json;
}

Json written_fit(const Profile& profile) {
  Json fit{{"values", Json::array()}}, seen = Json::object();
  for (const std::string& pointer : profile.free_parameters) fit["values"].push_back({{"pointer", pointer}});
  write_fields(seen, profile);
  if (const auto& fitted = profile.servers.fitted; fitted && fitted->profile == profile.name)
    seen["server_traffic_max"] = to_text(fitted->traffic_max);
  if (!profile.fitted_exchanges.empty()) seen["exchanges"] = written(profile.fitted_exchanges);
  if (profile.is_of_processors) seen["devices"] = "processors";
  fit["seen"] = std::move(seen);
  return fit;
}

/// Puts into `document` what differs between two others.
void put_differences(Json& document, const Json& before, const Json& after) {
  if (before.is_array() && after.is_array() && document.is_array() && document.size() == before.size() &&
      after.size() >= before.size() && std::equal(before.begin(), before.end(), after.begin())) {
    for (std::size_t i = before.size(); i < after.size(); ++i) document.push_back(after[i]);
  } else if (before.is_object() && after.is_object() && document.is_object()) {
    for (const auto& [key, value] : before.items())
      if (!after.contains(key)) document.erase(key);
    for (const auto& [key, value] : after.items())
      if (!before.contains(key))
        document[key] = value;
      else if (before[key] != value)
        put_differences(document[key], before[key], value);
  } else {
    document = after;
  }
}

}  // namespace

Json to_json(const Profile& profile) {
  Json json{{"format", 1}, {"name", profile.name}, {"source", profile.source}};
  if (profile.is_ideal) json["unstated"] = "ideal";
  Writer writer{json};
  visit_more_sections(writer, profile);
  if (profile.kernels) json["kernels"] = kernels::to_json(*profile.kernels);
  writer.objects("frameworks", profile.frameworks);
  if (profile.is_fitted) json["fit"] = written_fit(profile);
  json.update(completed_parts(profile), true);
  if (const auto& prediction = profile.prediction)
    json["prediction"] = {{"kind", prediction->kind}, {"low", prediction->low}, {"high", prediction->high}};
  return json;
}

void put_changes(Json& document, const Profile& before, const Profile& after) {
  put_differences(document, completed_parts(before), completed_parts(after));
}

}  // namespace rehearse
