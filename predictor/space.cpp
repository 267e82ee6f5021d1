#include "predictor/space.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr int kMostListed = 1000;
constexpr int kMostDepth = 50;
constexpr std::size_t kMostFamilies = 200, kMostSettings = 1000;
constexpr std::int64_t kLargestInteger = std::int64_t{1} << 40U;

/// Replaces what is to be drawn in a JSON value.
class Drawing {
 public:
  Drawing(Rng& random, const std::string& place) : random_{random}, place_{place} {}

  void let(const std::string& name, const Json& value) { values_[name] = drawn(value, "let/" + name, 0); }

  Json drawn(const Json& value, const std::string& at, int depth) {
    if (depth > kMostDepth) fail(at, "expected at most 50 levels");
    if (++size_ > 100'000) fail(at, "what is drawn has more than 100000 values");
    if (value.is_array()) {
      Json list = Json::array();
      for (const Json& element : value) list.push_back(drawn(element, at, depth + 1));
      return list;
    }
    if (!value.is_object()) return value;
    if (value.contains("choose")) return choose(value, at, depth);
    if (value.contains("integer")) return integer(value, at);
    if (value.contains("list")) return list(value, at, depth);
    if (value.contains("value")) return named(value, at);
    Json object = Json::object();
    // Members are appended: to look for each key among the others first takes quadratic time.
    std::vector<Json::object_t::value_type>& members = object.get_ref<Json::object_t&>();
    for (const auto& [key, element] : value.items())
      members.emplace_back(key, drawn(element, at + "/" + key, depth + 1));
    return object;
  }

 private:
  [[noreturn]] void fail(const std::string& at, const std::string& what) const {
    throw InputError{place_ + "/" + shortened(at, 200) + ": " + what};
  }

  void allow(const Json& value, std::initializer_list<std::string_view> keys, const std::string& at) const {
    for (const auto& [key, unused] : value.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) fail(at, "unknown key " + in_quotes(key));
  }

  Json choose(const Json& value, const std::string& at, int depth) {
    allow(value, {"choose"}, at);
    const Json& from = value["choose"];
    if (!from.is_array() || from.empty()) fail(at, "expected a list of values to choose from");
    return drawn(from[random_.below(from.size())], at, depth + 1);
  }

  static bool is_whole(const Json& number) {
    return number.is_number_integer() && number <= Json(kLargestInteger) && number >= Json(-kLargestInteger);
  }

  Json integer(const Json& value, const std::string& at) {
    allow(value, {"integer", "multiple_of", "logarithmic", "unit"}, at);
    const Json& range = value["integer"];
    const Json multiple = value.value("multiple_of", Json(1)), logarithmic = value.value("logarithmic", Json(false));
    if (!range.is_array() || range.size() != 2 || !is_whole(range[0]) || !is_whole(range[1]) || range[0] < Json(0) ||
        range[1] < range[0])
      fail(at, "expected \"integer\": [low, high], whole numbers from 0, the second not below the first");
    if (!is_whole(multiple) || multiple < Json(1) || multiple > range[1])
      fail(at, "expected \"multiple_of\" from 1 to the higher end of the range");
    if (!logarithmic.is_boolean() || (logarithmic.get<bool>() && range[0] < Json(1)))
      fail(at, "expected \"logarithmic\": true or false, and a range from 1 with it");
    const auto low = range[0].get<std::int64_t>(), high = range[1].get<std::int64_t>(),
               step = multiple.get<std::int64_t>();
    std::int64_t number = 0;
    if (logarithmic.get<bool>()) {
      const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high) + 1);
      number = std::clamp(static_cast<std::int64_t>(std::exp(random_.uniform(from, to))), low, high);
    } else {
      number = low + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(high - low) + 1));
    }
    number = std::max(number / step * step, std::min(step, high));
    if (!value.contains("unit")) return Json(number);
    if (!value["unit"].is_string()) fail(at, "expected \"unit\": a text such as \"Mbps\"");
    return Json(std::to_string(number) + value["unit"].get<std::string>());
  }

  Json list(const Json& value, const std::string& at, int depth) {
    allow(value, {"list", "of"}, at);
    const Json count = drawn(value["list"], at, depth + 1);
    if (!is_whole(count) || count < Json(0) || count > Json(kMostListed) || !value.contains("of"))
      fail(at, "expected \"list\": a number from 0 to 1000, and \"of\"");
    Json all = Json::array();
    for (int i = count.get<int>(); i > 0; --i) all.push_back(drawn(value["of"], at, depth + 1));
    return all;
  }

  Json named(const Json& value, const std::string& at) const {
    allow(value, {"value", "times"}, at);
    std::vector<std::string> known;
    for (const auto& [name, unused] : values_) known.push_back(name);
    if (!value["value"].is_string()) fail(at, "expected \"value\": a name");
    const auto found = values_.find(value["value"].get<std::string>());
    if (found == values_.end()) fail(at, unknown_name_message("value", value["value"].get<std::string>(), known));
    if (!value.contains("times")) return found->second;
    const Json &number = found->second, &times = value["times"];
    if (!is_whole(number) || !is_whole(times) || std::abs(times.get<std::int64_t>()) > 1'000'000 ||
        std::abs(number.get<std::int64_t>()) > 1'000'000'000)
      fail(at, "expected \"times\": a whole number, of a value that is one");
    return Json(number.get<std::int64_t>() * times.get<std::int64_t>());
  }

  Rng& random_;
  const std::string& place_;
  std::map<std::string, Json> values_;
  std::size_t size_ = 0;
};

using Lets = std::vector<std::pair<std::string, Json>>;

Lets read_lets(const JsonReader& json) {
  Lets lets;
  if (json.has("let"))
    for (const auto& [name, value] : json.child("let").items()) lets.emplace_back(name, value.value());
  return lets;
}

WorkloadFamily read_family(const JsonReader& json) {
  WorkloadFamily family{.place = json.place(),
                        .family = json.required<std::string>("family"),
                        .weight = json.optional<double>("weight", 1.0),
                        .let = read_lets(json),
                        .model = json.child("model").value(),
                        .batch = json.child("batch").value(),
                        .optimizer = json.has("optimizer") ? json.child("optimizer").value() : Json("momentum")};
  json.expect(!family.family.empty() && family.family.size() <= 100, "family", "1 to 100 characters");
  json.expect(family.weight > 0 && family.weight <= 1e6, "weight", "a number above 0, up to 1000000");
  json.reject_unknown_keys();
  return family;
}

struct Change {
  std::string pointer;
  Json value;
  std::string place;
};
using Changes = std::vector<Change>;

/// What random workloads have of their own, or the space says: set here it would change nothing.
std::string_view who_says(const std::string& pointer) {
  const bool is_kept = pointer == "/workload/framework" || pointer == "/workload/copies_input";
  if (pointer == "/workload" || (pointer.starts_with("/workload/") && !is_kept))
    return "a space's own \"workloads\", in fp32";
  for (const char* key : kJobSizes)
    if (pointer == std::string{"/training/"} + key) return "\"iterations\" of the space";
  if (pointer == "/training/warmup_steps") return "\"warmup_steps\" of the space";
  return {};
}

Changes read_changes(const JsonReader& json) {
  Changes changes;
  if (!json.has("set")) return changes;
  for (const auto& [pointer, value] : json.child("set").items()) {
    if (pointer.empty() || pointer.front() != '/')
      json.fail("set",
                "expected JSON pointers such as \"/training/strategy/synchronization\"; found " + in_quotes(pointer));
    if (const std::string_view says = who_says(pointer); !says.empty())
      json.fail("set", "expected no " + in_quotes(pointer) + ", which is said by " + std::string{says});
    changes.push_back({pointer, value.value(), value.place()});
  }
  return changes;
}

void apply_changes(SpaceSetting& setting, const Changes& changes, Drawing* drawing = nullptr) {
  for (const Change& change : changes) {
    const Json value = drawing == nullptr ? change.value : drawing->drawn(change.value, "set" + change.pointer, 0);
    setting.origins.set(setting.scenario, change.pointer, value.is_string() ? value.get<std::string>() : value.dump(),
                        change.place);
  }
}

std::string compact(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::vector<WorkloadFamily> read_families(const JsonReader& space) {
  const std::vector<JsonReader> workloads = space.children("workloads");
  space.expect(!workloads.empty() && workloads.size() <= kMostFamilies, "workloads", "1 to 200 families");
  std::vector<WorkloadFamily> families;
  for (const JsonReader& family : workloads) families.push_back(read_family(family));
  return families;
}

/// A cluster of the space, of which there are `count` settings with what is drawn.
struct SpaceCluster {
  explicit SpaceCluster(const JsonReader& json)
      : name{json.required<std::string>("name")},
        file{json.resolve(json.required<std::string>("scenario")).string()},
        place{json.place()},
        count{json.optional<int>("count", 0)},
        let{read_lets(json)},
        changes{read_changes(json)} {
    json.expect(!name.empty() && name.size() <= 100, "name", "1 to 100 characters");
    json.expect(!json.has("count") || count >= 1, "count", "1 to 1000 settings");
    json.expect(count > 0 || let.empty(), "let", "a count beside it: how many settings are drawn");
    json.reject_unknown_keys();
    scenario = load_json_file(file);
    if (!scenario.is_object()) json.fail("scenario", "expected a scenario file");
  }

  /// Number `index` of its settings, from 1; 0 of a cluster without count.
  SpaceSetting setting(int index, const Space& space) const {
    SpaceSetting made{.name = index > 0 ? name + " " + std::to_string(index) : name,
                      .group = name,
                      .file = file,
                      .scenario = scenario,
                      .origins = {}};
    Json& own = made.scenario;
    if (own.contains("output") && !own["output"].is_object()) own.erase("output");
    own["output"]["sampling_period"] = std::to_string(std::llround(space.sampling_period.value() * 1e6)) + "us";
    Rng random{1, "setting " + made.name};
    Drawing drawing{random, place};
    for (const auto& [what, value] : let) drawing.let(what, value);
    apply_changes(made, changes, index > 0 ? &drawing : nullptr);
    return made;
  }

  std::string name, file, place;
  int count = 0;  // 0: it is one setting, and nothing is drawn
  Lets let;
  Changes changes;
  Json scenario;
};

void read_settings(const JsonReader& root, Space& space) {
  struct Variant {
    std::string name;
    Changes changes;
  };
  std::vector<Variant> variants;
  if (root.has("variants"))
    for (const JsonReader& json : root.children("variants")) {
      variants.push_back({json.required<std::string>("name"), read_changes(json)});
      json.reject_unknown_keys();
    }
  std::vector<SpaceCluster> clusters;
  const std::vector<JsonReader> stated = root.children("clusters");
  root.expect(stated.size() <= kMostSettings, "clusters", "1 to 1000 of them");
  for (const JsonReader& json : stated) clusters.emplace_back(json);
  std::size_t count = 0;
  for (const SpaceCluster& cluster : clusters) count += static_cast<std::size_t>(std::max(1, cluster.count));
  root.expect(!clusters.empty() && count * std::max<std::size_t>(1, variants.size()) <= kMostSettings, "clusters",
              "1 to 1000 settings: clusters, each as often as its count, times variants");
  std::set<std::string> names;
  const auto add = [&](SpaceSetting added) {
    if (!names.insert(added.name).second) root.fail("clusters", "two settings have the name " + in_quotes(added.name));
    Json& own = added.scenario;
    if (own.contains("training") && own["training"].is_object()) {
      for (const char* key : kJobSizes) own["training"].erase(key);
      own["training"]["steps_per_worker"] = space.warmup_steps + space.iterations + 1;
      own["training"]["warmup_steps"] = space.warmup_steps;
      added.origins.add("/training/steps_per_worker", space.file_name + ": /iterations");
      added.origins.add("/training/warmup_steps", space.file_name + ": /warmup_steps");
    }
    space.settings.push_back(std::move(added));
  };
  for (const SpaceCluster& cluster : clusters)
    for (int i = std::min(1, cluster.count); i <= cluster.count; ++i) {
      const SpaceSetting setting = cluster.setting(i, space);
      if (variants.empty()) add(setting);
      for (const Variant& variant : variants) {
        SpaceSetting own = setting;
        own.name += " " + variant.name;
        apply_changes(own, variant.changes);
        add(std::move(own));
      }
    }
}

}  // namespace

Space read_space(const Json& json, const std::string& file_name) {
  const JsonReader root{json, file_name};
  root.begin_file(space_schema);
  Space space{.name = root.optional<std::string>("name", "unnamed"), .file_name = file_name};
  space.iterations = root.optional<std::int64_t>("iterations", space.iterations);
  root.expect(space.iterations >= 1 && space.iterations <= 10'000, "iterations", "1 to 10000");
  space.warmup_steps = root.optional<std::int64_t>("warmup_steps", space.warmup_steps);
  root.expect(space.warmup_steps >= 0 && space.warmup_steps <= 1000, "warmup_steps", "0 to 1000");
  space.sampling_period = root.optional<Seconds>("sampling_period", space.sampling_period);
  root.expect(space.sampling_period >= Seconds{1e-4} && space.sampling_period <= Seconds{100}, "sampling_period",
              "0.1ms to 100s");
  if (root.has("operators")) {
    const auto range = root.required<std::vector<int>>("operators");
    root.expect(range.size() == 2 && range[0] >= 1 && range[1] >= range[0] && range[1] <= 100'000, "operators",
                "[least, most], from 1 to 100000");
    space.least_operators = range[0];
    space.most_operators = range[1];
  }
  if (root.has("split")) {
    const JsonReader split = root.child("split");
    space.validation_share = split.required<double>("validation");
    space.test_share = split.required<double>("test");
    split.expect(space.validation_share >= 0 && space.test_share >= 0 && space.validation_share + space.test_share < 1,
                 "shares of at least 0, below 1 together");
    split.reject_unknown_keys();
  }
  if (root.has("workloads") && root.child("workloads").is_string()) {
    const std::string file = root.resolve(root.required<std::string>("workloads")).string();
    const Json other = load_json_file(file);
    space.families = read_families(JsonReader{other, file});
    space.text = compact(other);
  } else {
    space.families = read_families(root);
  }
  read_settings(root, space);
  const auto all = static_cast<int>(space.settings.size());
  space.settings_per_graph = root.optional<int>("settings_per_graph", all);
  root.expect(space.settings_per_graph >= 1 && space.settings_per_graph <= all, "settings_per_graph",
              "1 to the number of settings, " + std::to_string(all));
  root.reject_unknown_keys();
  space.text = compact(json) + space.text;
  for (const SpaceSetting& setting : space.settings) space.text += "\n" + setting.name + compact(setting.scenario);
  for (std::size_t f = 0; f < space.families.size(); ++f) (void)draw_workload(space, 1, f);  // errors before any work
  return space;
}

Space load_space(const std::filesystem::path& file) { return read_space(load_json_file(file), file.string()); }

void keep_settings(Space& space, const std::vector<std::string>& names) {
  std::set<std::string> known;
  std::vector<bool> is_kept(space.settings.size());
  for (const SpaceSetting& setting : space.settings) known.insert({setting.name, setting.group});
  for (const std::string& name : names) {
    bool is_known = false;
    for (std::size_t i = 0; i < space.settings.size(); ++i)
      if (space.settings[i].name == name || space.settings[i].group == name) is_kept[i] = is_known = true;
    if (!is_known)
      throw InputError{
          "--setting: " + unknown_name_message("setting", name, std::vector<std::string>{known.begin(), known.end()}) +
          " (" + space.file_name + ")"};
    space.text += "\nsetting " + name;
  }
  std::vector<SpaceSetting> kept;
  for (std::size_t i = 0; i < space.settings.size(); ++i)
    if (is_kept[i]) kept.push_back(std::move(space.settings[i]));
  space.settings = std::move(kept);
  space.settings_per_graph = std::min(space.settings_per_graph, static_cast<int>(space.settings.size()));
}

DrawnWorkload draw_workload(const Space& space, std::uint64_t seed, std::uint64_t index) {
  Rng random{seed, "workload " + std::to_string(index)};
  double sum = 0;
  for (const WorkloadFamily& family : space.families) sum += family.weight;
  double at = random.uniform() * sum;
  std::size_t chosen = 0;
  while (chosen + 1 < space.families.size() && at >= space.families[chosen].weight)
    at -= space.families[chosen++].weight;
  const WorkloadFamily& family = space.families[chosen];
  const std::string& place = family.place;
  Drawing drawing{random, place};
  for (const auto& [name, value] : family.let) drawing.let(name, value);
  DrawnWorkload drawn{.index = chosen, .family = family.family, .model = drawing.drawn(family.model, "model", 0)};
  const Json batch = drawing.drawn(family.batch, "batch", 0),
             optimizer = drawing.drawn(family.optimizer, "optimizer", 0);
  if (!drawn.model.is_string() && !drawn.model.is_object())
    throw InputError{place + "/model: expected a model's name or object"};
  if (!batch.is_number_integer() || batch < Json(1) || batch > Json(65536))
    throw InputError{place + "/batch: expected 1 to 65536 samples; found " + shortened(batch.dump(), 60)};
  if (optimizer != "sgd" && optimizer != "momentum" && optimizer != "adam")
    throw InputError{place + R"(/optimizer: expected "sgd", "momentum" or "adam"; found )" +
                     shortened(optimizer.dump(), 60)};
  drawn.batch = batch.get<int>();
  drawn.optimizer = optimizer.get<std::string>();
  return drawn;
}

std::string space_schema() {
  return file_schema({.title = "Rehearse space: random workloads on given clusters",
                      .required = {"workloads", "clusters"},
                      .definitions = R"json({
    "set": { "type": "object", "description": "JSON pointers into the scenario and their values" },
    "drawn": { "description": "any value, or one drawn: { 'choose': [a, b] }, { 'integer': [low, high], 'multiple_of': 8, 'logarithmic': true, 'unit': 'Mbps' }, { 'list': n, 'of': x }, { 'value': 'name', 'times': 2 }" }
  })json"},
                     R"json({
    "name": { "type": "string" },
    "workloads": { "type": ["array", "string"], "minItems": 1, "maxItems": 200, "description": "families of them, or another space's file, relative to this one, that has them", "items": {
      "type": "object",
      "required": ["family", "model", "batch"],
      "additionalProperties": false,
      "properties": {
        "family": { "type": "string", "description": "label of the graphs" },
        "weight": { "type": "number", "exclusiveMinimum": 0, "default": 1 },
        "let": { "type": "object", "description": "values that are drawn first, by name", "additionalProperties": { "$ref": "#/$defs/drawn" } },
        "model": { "$ref": "#/$defs/drawn", "description": "a model's name, its file (rehearse import --help), or the object of a model file: rehearse schema model" },
        "batch": { "$ref": "#/$defs/drawn", "description": "samples per worker and step" },
        "optimizer": { "$ref": "#/$defs/drawn", "default": "momentum" } } } },
    "clusters": { "type": "array", "minItems": 1, "items": {
      "type": "object",
      "required": ["name", "scenario"],
      "additionalProperties": false,
      "properties": {
        "name": { "type": "string" },
        "scenario": { "type": "string", "description": "scenario file, relative to this one, in fp32; of its workload the model and the batch do not matter, to which groups with a batch of their own keep their ratio, nor does its number of steps" },
        "count": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "as often it is there, named NAME 1, NAME 2, ...; then values of 'set' may be drawn, each time anew" },
        "let": { "type": "object", "description": "values for 'set' that are drawn first, by name", "additionalProperties": { "$ref": "#/$defs/drawn" } },
        "set": { "$ref": "#/$defs/set" } } } },
    "variants": { "type": "array", "description": "each cluster is there with each of them", "items": {
      "type": "object",
      "required": ["name"],
      "additionalProperties": false,
      "properties": { "name": { "type": "string" }, "set": { "$ref": "#/$defs/set" } } } },
    "settings_per_graph": { "type": "integer", "minimum": 1, "description": "clusters times variants in which a graph is simulated, all equally often; by default all" },
    "operators": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2, "description": "[least, most] of a graph; others are drawn again" },
    "iterations": { "type": "integer", "minimum": 1, "maximum": 10000, "default": 20, "description": "of each worker, that the labels are taken over" },
    "warmup_steps": { "type": "integer", "minimum": 0, "maximum": 1000, "default": 1 },
    "sampling_period": { "type": "string", "default": "100ms" },
    "split": { "type": "object", "required": ["validation", "test"], "additionalProperties": false,
               "properties": { "validation": { "type": "number", "default": 0.2 }, "test": { "type": "number", "default": 0.2 } },
               "description": "shares of the models; the rest is for training" }
  })json");
}

}  // namespace rehearse
