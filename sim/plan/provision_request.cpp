#include "sim/plan/provision_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/json_schema.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/sweep_request.hpp"

namespace rehearse {

namespace {

constexpr std::array kPriceSources{std::pair{"catalog", PriceSource::kCatalog},
                                   std::pair{"on-demand", PriceSource::kOnDemand},
                                   std::pair{"spot", PriceSource::kSpot}};
constexpr std::array kPlanners{std::pair{"ours", Planner::kOurs},
                               std::pair{"spotdnn-paper", Planner::kSpotdnnPaper},
                               std::pair{"spotdnn-released", Planner::kSpotdnnReleased},
                               std::pair{"cm-dare+", Planner::kCmDarePlus},
                               std::pair{"exhaustive", Planner::kExhaustive},
                               std::pair{"homogeneous", Planner::kHomogeneous}};

template <class Words>
auto value_of(const Words& words, const std::string& kind, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) {
    if (word == name) return value;
    names.emplace_back(name);
  }
  throw InputError{unknown_name_message(kind, word, names)};
}

template <class Words, class Value>
std::string word_of(const Words& words, Value wanted) {
  for (const auto& [name, value] : words)
    if (value == wanted) return name;
  return {};
}

ProvisionCandidate read_candidate(const JsonReader& json) {
  const auto instance = json.required<std::string>("instance");
  ProvisionCandidate candidate{.name = json.optional<std::string>("name", instance),
                               .quota = json.optional<int>("quota", kDefaultQuota),
                               .existing = json.optional<int>("existing", 0),
                               .usd_per_hour = json.maybe<double>("usd_per_hour"),
                               .place = json.place()};
  if (json.has("quota"))
    json.expect(candidate.quota >= 0 && candidate.quota <= kMostQuota, "quota", "0 to 10000 machines");
  if (json.has("existing"))
    json.expect(candidate.existing >= 0 && candidate.existing <= candidate.quota, "existing",
                "0 machines or more, and no more than the quota of " + std::to_string(candidate.quota));
  if (candidate.usd_per_hour)
    json.expect(*candidate.usd_per_hour >= 0 && *candidate.usd_per_hour <= 1e6, "usd_per_hour", "0 to 1e6 USD");
  json.expect(!candidate.name.empty() && candidate.name.size() <= 100, json.has("name") ? "name" : "instance",
              "1 to 100 characters");
  Json own = Json::object();
  if (json.has("group")) {
    const JsonReader group = json.child("group");
    group.expect(group.is_object(), "an object: fields of a scenario's group of workers");
    for (const char* key : {"name", "role", "instance", "count", "standby"})
      if (group.has(key)) group.fail(key, "this is what provision sets; found a value");
    own = group.value();
  }
  own["instance"] = instance;
  candidate.group = share(std::move(own));
  json.reject_unknown_keys();
  return candidate;
}

}  // namespace

PriceSource read_price_source(const std::string& word) { return value_of(kPriceSources, "price source", word); }

void take_prices_of(ProvisionRequest& request, PriceSource source) {
  for (ProvisionCandidate& candidate : request.candidates) {
    const bool states_spot = candidate.group->value("market", Json{}) == "spot";
    const auto is_spot = [&](PriceSource of) {
      return of == PriceSource::kCatalog ? states_spot : of == PriceSource::kSpot;
    };
    if (is_spot(source) != is_spot(request.price)) candidate.usd_per_hour.reset();
  }
  request.price = source;
}
std::string to_text(PriceSource source) { return word_of(kPriceSources, source); }
Planner read_planner(const std::string& word) { return value_of(kPlanners, "planner", word); }
std::string to_text(Planner planner) { return word_of(kPlanners, planner); }

std::pair<std::string, int> read_machine_number(const std::string& option, std::string_view text) {
  const std::size_t equals = text.rfind('=');
  int number = -1;
  if (equals != std::string_view::npos && equals > 0) {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + equals + 1, end, number);
    if (error != std::errc{} || last != end) number = -1;
  }
  if (number < 0 || number > kMostQuota)
    throw InputError{option + ": expected an instance and 0 to 10000 machines, such as g3.8xlarge=5; found " +
                     in_quotes(text)};
  return {std::string{text.substr(0, equals)}, number};
}

ProvisionRequest read_provision_request(const Json& file, const std::string& file_name) {
  const JsonReader json{file, file_name};
  json.begin_file(provision_schema);
  ProvisionRequest request;
  request.scenario_file = json.resolve(json.required<std::string>("scenario")).string();
  if (json.has("candidates")) {
    for (const JsonReader& entry : json.children("candidates")) {
      request.candidates.push_back(read_candidate(entry));
      for (std::size_t i = 0; i + 1 < request.candidates.size(); ++i)
        if (request.candidates[i].name == request.candidates.back().name)
          entry.fail(entry.has("name") ? "name" : "instance",
                     "another candidate has this name already: " + in_quotes(request.candidates[i].name));
    }
    json.expect(!request.candidates.empty(), "candidates", "at least one candidate");
  }
  if (json.has("closed_form")) {
    const JsonReader model = json.child("closed_form");
    const auto rate = [&](const char* key) {
      const auto value = model.maybe<BytesPerSecond>(key);
      if (value) model.expect(*value >= BytesPerSecond{1}, key, "at least 1Bps");
      return value;
    };
    request.required_bandwidth = rate("required_bandwidth");
    request.server_bandwidth = rate("server_bandwidth");
    request.pcie = rate("pcie");
    if (model.has("contention")) {
      const JsonReader contention = model.child("contention");
      request.contention = Contention{.slope = contention.required<double>("slope"),
                                      .intercept = contention.required<double>("intercept")};
      contention.expect(request.contention->slope >= 0 && request.contention->slope <= 1e6, "slope", "0 to 1e6");
      contention.expect(std::abs(request.contention->intercept) <= 1e6, "intercept", "-1e6 to 1e6");
      contention.reject_unknown_keys();
    }
    model.reject_unknown_keys();
  }
  if (json.has("progress")) {
    const JsonReader progress = json.child("progress");
    request.loss_so_far = progress.maybe<double>("loss");
    const auto updates = progress.maybe<double>("updates");
    if (request.loss_so_far.has_value() == updates.has_value())
      progress.fail("expected \"loss\" or \"updates\"; found " + std::string{updates ? "both" : "neither"});
    if (updates) progress.expect(*updates >= 0 && *updates <= 1e15, "updates", "0 to 1e15 updates");
    request.updates_so_far = updates.value_or(0);
    progress.reject_unknown_keys();
  }
  request.server_usd_per_hour = json.maybe<double>("server_usd_per_hour");
  if (request.server_usd_per_hour)
    json.expect(*request.server_usd_per_hour >= 0 && *request.server_usd_per_hour <= 1e6, "server_usd_per_hour",
                "0 to 1e6 USD");
  request.takeover = json.optional<Seconds>("takeover", request.takeover);
  request.confidence = json.optional<double>("confidence", request.confidence);
  if (json.has("confidence"))
    json.expect(request.confidence >= 0 && request.confidence <= 1, "confidence", "a probability from 0 to 1");
  if (json.has("price")) {
    const auto word = json.required<std::string>("price");
    try {
      request.price = read_price_source(word);
    } catch (const InputError& error) { json.fail("price", error.what()); }
  }
  json.reject_unknown_keys();
  return request;
}

namespace {

/// Each group of workers of the scenario, with all of its fields.
std::vector<ProvisionCandidate> candidates_of(const Json& scenario) {
  std::vector<ProvisionCandidate> candidates;
  const Json* groups = json_pointer_find(scenario, "/cluster/groups");
  if (groups == nullptr || !groups->is_array()) return candidates;
  for (const Json& group : *groups) {
    if (!group.is_object() || group.value("role", Json{}) != "worker" || !group.value("name", Json{}).is_string())
      continue;
    candidates.push_back(
        {.name = group["name"].get<std::string>(), .group = share(group), .usd_per_hour = {}, .place = {}});
  }
  return candidates;
}

}  // namespace

ProvisionRequest load_provision_request(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const Json file = load_json_file(path);
  const bool is_scenario = !file.is_object() || !(file.contains("scenario") || file.contains("candidates"));
  ProvisionRequest request;
  if (!is_scenario) request = read_provision_request(file, path.string());
  if (is_scenario) request.scenario_file = path.string();
  Json scenario = is_scenario ? file : load_json_file(request.scenario_file);
  for (const std::string& text : overrides) {
    const Setting setting = read_set_option(text, scenario);
    request.origins.set(scenario, setting.pointer, setting.value, setting.place);
  }
  if (request.candidates.empty()) request.candidates = candidates_of(scenario);
  request.scenario = share(std::move(scenario));
  return request;
}

ProvisionCandidate& find_candidate(ProvisionRequest& request, const std::string& name, const std::string& option) {
  std::vector<std::string> names;
  for (ProvisionCandidate& candidate : request.candidates) {
    if (candidate.name == name) return candidate;
    names.push_back(candidate.name);
  }
  throw InputError{option + ": " + unknown_name_message("candidate", name, names)};
}

std::string provision_schema() {
  return file_schema({.title = "Rehearse provision",
                      .description = "which machines may be rented for a scenario's training; deadline and loss are "
                                     "options of rehearse provision",
                      .required = {"scenario"}},
                     R"json({
    "scenario": { "type": "string", "description": "scenario file, relative to this file: asynchronous parameter servers, a workload with a convergence model, and at least one group of workers, which is the pattern of every candidate" },
    "candidates": {
      "type": "array", "minItems": 1,
      "description": "machine types (default: those of the scenario's groups of workers, 10 of each)",
      "items": {
        "type": "object",
        "required": ["instance"],
        "additionalProperties": false,
        "properties": {
          "instance": { "type": "string", "description": "name in the catalog" },
          "name": { "type": "string", "description": "in plans (default: the instance's)" },
          "quota": { "type": "integer", "minimum": 0, "maximum": 10000, "default": 10, "description": "most machines, with the existing ones" },
          "existing": { "type": "integer", "minimum": 0, "default": 0, "description": "machines that train already: part of every plan" },
          "usd_per_hour": { "type": "number", "minimum": 0, "description": "price in place of the catalog's" },
          "group": { "type": "object", "description": "fields of a scenario's group that differ from the first group of workers, such as batch_per_worker, or where they come from: market, spot_pool, zone, replacement. Plans with machines of a spot_pool are simulated many times, with revocations" }
        }
      }
    },
    "closed_form": {
      "type": "object",
      "description": "the analytic model that looks for plans; what is not given follows from the scenario",
      "additionalProperties": false,
      "properties": {
        "required_bandwidth": { "type": "string", "description": "of a lone worker while it exchanges parameters (default: of its connections to the servers)", "examples": ["142MBps"] },
        "server_bandwidth": { "type": "string", "description": "of all servers (default: of their NICs, or the threads that serve messages over the profile's time_per_byte, whichever is less)", "examples": ["1.2GBps"] },
        "pcie": { "type": "string", "default": "10GBps" },
        "contention": {
          "type": "object",
          "description": "P = slope sqrt(workers) + intercept: share of the time in which a worker shares the servers' bandwidth (default: fitted to simulations of three clusters)",
          "required": ["slope", "intercept"],
          "additionalProperties": false,
          "properties": { "slope": { "type": "number", "minimum": 0 }, "intercept": { "type": "number" } }
        }
      }
    },
    "progress": {
      "type": "object",
      "description": "of a run under way: the loss, or the updates, that it has reached",
      "additionalProperties": false,
      "properties": { "loss": { "type": "number" }, "updates": { "type": "number", "minimum": 0 } }
    },
    "server_usd_per_hour": { "type": "number", "minimum": 0, "description": "price of each server machine in place of the catalog's" },
    "takeover": { "type": "string", "default": "30s", "description": "added to the time of plans that join new machines to existing ones" },
    "confidence": { "type": "number", "minimum": 0, "maximum": 1, "default": 0.95, "description": "least probability of being in time" },
    "price": { "enum": ["catalog", "on-demand", "spot"], "default": "catalog", "description": "catalog: of the market that each group states" }
  })json");
}

}  // namespace rehearse
