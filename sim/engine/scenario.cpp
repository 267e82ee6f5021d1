#include "sim/engine/scenario.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "platforms/pool_origin.hpp"
#include "platforms/profile_choice.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/utc_time.hpp"
#include "sim/engine/collective.hpp"
#include "sim/engine/compile.hpp"
#include "sim/engine/gradient_units.hpp"
#include "sim/engine/pipeline_stages.hpp"
#include "sim/engine/refusals.hpp"
#include "sim/engine/site.hpp"
#include "sim/engine/substitutes.hpp"
#include "sim/engine/work.hpp"

namespace rehearse {

namespace {

constexpr int kMaxMachines = 20'000;
constexpr std::int64_t kMaxSteps = 10'000'000;
constexpr std::int64_t kMaxSamples = 1'000'000'000'000'000;  // a double holds each number of them
constexpr int kMaxBatch = 65536;
constexpr int kMaxPasses = 10'000;

/// The value of a closed set of words; the error lists or suggests the known ones.
template <class Value>
Value read_word(const JsonReader& json, std::string_view key, const std::vector<std::pair<std::string, Value>>& words) {
  const auto word = json.required<std::string>(key);
  for (const auto& [known, value] : words)
    if (known == word) return value;
  std::vector<std::string> names;
  for (const auto& [known, value] : words) names.push_back(known);
  json.fail(key, unknown_name_message(std::string{key}, word, names));
}

/// Reads the parts of a scenario, and fills in `effective` as it goes: defaults, and catalog entries in place of their
/// names.
class ScenarioReader {
 public:
  ScenarioReader(const Json& json, const std::string& file_name, const Catalog& catalog, const JsonOrigins& origins)
      : root_{json, file_name, "", &origins}, catalog_{catalog}, effective_(json) {
    root_.use_schema(scenario_schema);
    scenario_.file_name = file_name;
    scenario_.set_by = origins.with();
  }

  Scenario read() {
    root_.expect(root_.required<int>("format") == 1, "format", "1");
    scenario_.name = root_.optional<std::string>("name", "unnamed");
    scenario_.seed = root_.optional<std::uint64_t>("seed", 1);
    effective_["name"] = scenario_.name;
    effective_["seed"] = scenario_.seed;
    read_workload(root_.child("workload"));
    read_cluster(root_.child("cluster"));
    read_training(root_.child("training"));
    check_combinations(scenario_, root_);
    read_calibration();
    read_output();
    root_.reject_unknown_keys();
    check_pipeline();
    check_topology();
    check_memory();
    check_shares();
    warn_about_spot();
    warn_about_pools();
    warn_about_steady_state();
    warn_about_range();
    warn_about_convergence();
    scenario_.effective = to_json_text(effective_);
    return std::move(scenario_);
  }

 private:
  /// The object behind `key`: there inline, or a name that `find` looks up. Sets `name` and makes it inline in
  /// `effective`.
  template <class Find>
  JsonReader resolve(const JsonReader& json, std::string_view key, Json& effective, std::string& name, Find find) {
    const JsonReader value = json.child(key);
    if (!value.is_string()) {
      name = name_of_inline(value);
      return value;
    }
    name = value.as<std::string>();
    const JsonReader found = find(name, value);
    Json copy;
    copy["name"] = name;
    for (const auto& [entry_key, entry] : found.value().items()) copy[entry_key] = entry;
    effective = std::move(copy);
    return found;
  }

  void read_workload(const JsonReader& json) {
    json.expect(json.is_object(), "an object");
    Json& effective = effective_["workload"];
    std::string name;
    const JsonReader model =
        resolve(json, "model", effective["model"], name,
                [this](const std::string& n, const JsonReader& by) { return catalog_.model(n, by); });
    scenario_.model = read_model(name, model);
    scenario_.batch = json.required<int>("batch_per_worker");
    json.expect(scenario_.batch >= 1 && scenario_.batch <= kMaxBatch, "batch_per_worker", "1 to 65536 samples");
    const auto word = [&](const char* key, const char* fallback, const auto& words) {
      if (!json.has(key)) {
        effective[key] = fallback;
        return words[0].second;
      }
      return read_word(json, key, words);
    };
    scenario_.optimizer =
        word("optimizer", "momentum",
             std::vector<std::pair<std::string, Optimizer>>{
                 {"momentum", Optimizer::kMomentum}, {"sgd", Optimizer::kSgd}, {"adam", Optimizer::kAdam}});
    scenario_.precision =
        word("precision", "fp32",
             std::vector<std::pair<std::string, Precision>>{{"fp32", Precision::kFp32}, {"fp16", Precision::kFp16}});
    scenario_.framework = json.optional<std::string>("framework", "");
    if (json.has("copies_input")) scenario_.copies_input = json.required<bool>("copies_input");
    if (json.has("samples_per_epoch")) {
      samples_per_epoch_ = json.required<std::int64_t>("samples_per_epoch");
      json.expect(*samples_per_epoch_ >= 1 && *samples_per_epoch_ <= kMaxSamples, "samples_per_epoch",
                  "1 to 1000000000000000 samples");
    }
    if (json.has("convergence")) scenario_.convergence = read_convergence(json.child("convergence"));
    json.reject_unknown_keys();
    scenario_.workload =
        build_workload(scenario_.model, scenario_.batch, scenario_.precision,
                       model.file_name() + ": " + (model.pointer().empty() ? "/structure" : model.pointer()));
  }

  void read_cluster(const JsonReader& json) {
    const std::vector<JsonReader> groups = json.children("groups");
    json.expect(!groups.empty() && groups.size() <= 1000, "groups", "1 to 1000 groups");
    std::set<std::string> names;
    int machines = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      scenario_.groups.push_back(read_group(groups[i], effective_["cluster"]["groups"][i]));
      const Group& group = scenario_.groups.back();
      if (!names.insert(group.name).second)
        groups[i].fail("name", "another group has this name already: \"" + group.name + "\"");
      machines += group.count;
      if (machines > kMaxMachines)
        groups[i].fail("count", "expected at most 20000 machines in all; found " + std::to_string(machines));
    }
    if (scenario_.count(Role::kWorker) == 0)
      json.fail("groups", "expected at least one group with role \"worker\"; found none");
    if (scenario_.count(Role::kWorker) > kMaxMachines)
      json.fail("groups",
                "expected at most 20000 workers in all; found " + std::to_string(scenario_.count(Role::kWorker)));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      find_host(groups[i], scenario_.groups[i]);
      if (!groups[i].has("colocated_with")) read_replacement(groups[i], scenario_.groups[i]);
    }
    read_start(json);
    read_links(json);
    json.reject_unknown_keys();
  }

  /// A fabric may be unable to hold the machines; one switch holds all.
  void check_topology() const {
    if (std::holds_alternative<Star>(scenario_.fabric)) return;
    try {
      (void)Site{scenario_};
    } catch (const std::invalid_argument& error) {
      root_.child("cluster").child("network").fail("topology", error.what());
    }
  }

  Group read_group(const JsonReader& json, Json& effective) {
    Group group{.name = json.required<std::string>("name"),
                .place = json.place(),
                .role = read_word<Role>(json, "role",
                                        {{"worker", Role::kWorker}, {"parameter_server", Role::kParameterServer}}),
                .count = json.optional<int>("count", 1)};
    json.expect(!group.name.empty() && group.name.size() <= 100, "name", "1 to 100 characters");
    if (json.has("count")) json.expect(group.count >= 1 && group.count <= kMaxMachines, "count", "1 to 20000 machines");
    effective["count"] = group.count;
    if (group.role == Role::kParameterServer && json.has("colocated_with")) {
      (void)json.required<std::string>("colocated_with");  // find_host() looks it up when all groups are known
      know_keys(json, {"instance", "region", "market", "zone", "spot_pool", "disk", "standby", "replacement",
                       "joins_at", "leaves_at", "workers_per_machine", "batch_per_worker"});
      json.reject_unknown_keys();
      return group;
    }
    group.region = json.required<std::string>("region");
    json.expect(!group.region.empty() && group.region.size() <= 100, "region", "1 to 100 characters");
    group.market = json.has("market")
                       ? read_word<Market>(json, "market", {{"on-demand", Market::kOnDemand}, {"spot", Market::kSpot}})
                       : Market::kOnDemand;
    effective["market"] = group.market == Market::kSpot ? "spot" : "on-demand";

    if (group.role == Role::kWorker) read_membership(json, group);
    read_revocations(json, group, effective);
    if (json.has("disk")) read_disk(json.child("disk"), group, effective["disk"]);

    std::string name;
    const JsonReader instance =
        resolve(json, "instance", effective["instance"], name,
                [this](const std::string& n, const JsonReader& by) { return catalog_.instance(n, by); });
    group.instance = read_instance(name, without_name(instance));
    if (!group.instance.accelerator.empty()) {
      std::string accelerator_name;
      const JsonReader accelerator =
          resolve(instance, "accelerator", effective["instance"]["accelerator"], accelerator_name,
                  [this](const std::string& n, const JsonReader& by) { return catalog_.accelerator(n, by); });
      group.accelerator = read_accelerator(accelerator_name, without_name(accelerator));
    }
    if (group.role == Role::kWorker && !group.accelerator)
      json.fail("instance",
                "expected an instance with an accelerator for workers; found \"" + name + "\", which has none");
    if (group.role == Role::kWorker) read_workers(json, group);
    if (group.accelerator) {
      group.interconnect.pcie = group.accelerator->host_link;
      if (instance.has("interconnect")) {
        std::string interconnect_name;
        const JsonReader interconnect =
            resolve(instance, "interconnect", effective["instance"]["interconnect"], interconnect_name,
                    [this](const std::string& n, const JsonReader& by) { return catalog_.interconnect(n, by); });
        group.interconnect = read_interconnect(interconnect, group.accelerator->host_link);
        group.interconnect.name = interconnect_name;
      }
    }
    if (json.has("replacement")) (void)json.child("replacement");  // read when all groups are known
    if (group.role != Role::kWorker)
      know_keys(json, {"joins_at", "leaves_at", "workers_per_machine", "batch_per_worker"});
    json.reject_unknown_keys();
    return group;
  }

  /// Whose machines may be revoked, and how.
  void read_revocations(const JsonReader& json, Group& group, Json& effective) {
    group.zone = json.optional<std::string>("zone", group.region);
    json.expect(!group.zone.empty() && group.zone.size() <= 100, "zone", "1 to 100 characters");
    group.is_standby = json.optional<bool>("standby", false);
    if (!json.has("spot_pool")) return;
    if (const JsonReader pool = json.child("spot_pool"); pool.is_object() && pool.has("replay"))
      return read_replay(pool, group, effective["spot_pool"]);
    std::string name;
    const JsonReader pool =
        resolve(json, "spot_pool", effective["spot_pool"], name,
                [this](const std::string& n, const JsonReader& by) { return catalog_.spot_pool(n, by); });
    group.pool = read_spot_pool(name, without_name(pool));
    pool_origins_.emplace_back(scenario_.groups.size(), read_pool_origin(pool));
  }

  /// { "size": "100GiB", "storage": NAME or object }
  void read_disk(const JsonReader& json, Group& group, Json& effective) {
    group.disk = json.required<Bytes>("size");
    json.expect(group.disk > Bytes{}, "size", "more than 0B");
    const JsonReader storage = json.child("storage");
    const std::string name = storage.is_string() ? storage.as<std::string>() : name_of_inline(storage);
    group.disk_price =
        storage.is_string() ? catalog_.storage(name, storage) : read_storage_price(name, without_name(storage));
    effective["storage"] = {{"name", name},
                            {"usd_per_gib_month", group.disk_price->usd_per_gib_month},
                            {"date", group.disk_price->date},
                            {"source", group.disk_price->source}};
    json.reject_unknown_keys();
  }

  /// { "replay": FILE or [[seconds, "add" or "remove", node], ...], "notice": "30s" }
  static void read_replay(const JsonReader& json, Group& group, Json& effective) {
    group.replay_notice = json.optional<Seconds>("notice", Seconds{});
    if (json.child("replay").is_string()) {
      const FleetTrace trace = load_fleet_trace(json.resolve(json.required<std::string>("replay")));
      effective["replay"] = Json::array();
      for (const TraceEvent& event : trace.events)
        effective["replay"].push_back({event.at.value(), event.is_added ? "add" : "remove", event.node});
      group.replay = std::make_shared<const FleetTrace>(trace);
    } else {
      CsvWriter csv{{"time_s", "event", "node"}};
      for (const JsonReader& entry : json.children("replay")) {
        const std::vector<JsonReader> values = entry.elements();
        if (values.size() != 3) entry.fail("expected [seconds, \"add\" or \"remove\", node]");
        csv.row({values[0].as<double>(), values[1].as<std::string>(), values[2].as<std::string>()});
      }
      group.replay = std::make_shared<const FleetTrace>(
          read_fleet_trace(parse_csv(csv.text(), json.file_name() + ": " + json.pointer() + "/replay")));
    }
    json.reject_unknown_keys();
  }

  /// By default a machine of a pool is replaced by another of its own group, at once.
  void read_replacement(const JsonReader& json, Group& group) const {
    const auto own = static_cast<int>(&group - scenario_.groups.data());
    if (group.pool && !group.replay) group.replaced_by = own;
    if (!json.has("replacement")) return;
    const JsonReader replacement = json.child("replacement");
    group.replacement_delay = replacement.optional<Seconds>("delay", Seconds{});
    if (replacement.has("with") || group.replay) {
      const auto name = replacement.required<std::string>("with");
      std::vector<std::string> known{"none"};
      group.replaced_by.reset();
      for (std::size_t g = 0; g < scenario_.groups.size(); ++g) {
        const Group& other = scenario_.groups[g];
        if (other.colocated_with >= 0 || other.replay || other.role != group.role) continue;
        known.push_back(scenario_.groups[g].name);
        if (known.back() == name) group.replaced_by = static_cast<int>(g);
      }
      if (name != "none" && !group.replaced_by)
        replacement.fail("with", unknown_name_message("group of the same role", name, known));
    }
    if (replacement.has("at"))
      group.requests_at_notice = read_word<bool>(replacement, "at", {{"notice", true}, {"revocation", false}});
    replacement.reject_unknown_keys();
  }

  void read_start(const JsonReader& json) {
    if (json.has("start")) try {
        scenario_.start_utc = Seconds{parse_utc(json.required<std::string>("start"))};
      } catch (const std::invalid_argument& error) { json.fail("start", error.what()); }
    if (!json.has("prices")) return;
    std::vector<std::pair<std::string, std::string>> wanted;
    for (const Group& group : scenario_.groups) wanted.emplace_back(group.zone, group.instance.name);
    const JsonReader prices = json.child("prices");
    const auto history = std::make_shared<const PriceHistory>(
        prices.is_string() ? catalog_.price_history(prices.as<std::string>(), prices) : read_price_history(prices));
    effective_["cluster"]["prices"] = to_json(*history, wanted);
    for (const Group& group : scenario_.groups)
      if (group.market == Market::kSpot && group.colocated_with < 0 &&
          history->find(group.zone, group.instance.name) == nullptr)
        scenario_.warnings.push_back("the price history has no prices of " + group.instance.name + " in zone " +
                                     in_quotes(group.zone) + ": the list price applies");
    scenario_.costs = CostModel{history, scenario_.start_utc.value()};
  }

  void read_workers(const JsonReader& json, Group& group) const {
    const int gpus = group.instance.accelerators;
    const int workers = json.optional<int>("workers_per_machine", gpus);
    if (json.has("workers_per_machine"))
      json.expect(workers >= 1 && gpus % workers == 0, "workers_per_machine",
                  "a divisor of the " + std::to_string(gpus) + " GPUs of a machine");
    group.gpus_per_worker = gpus / workers;
    group.batch = json.optional<int>("batch_per_worker", scenario_.batch);
    if (json.has("batch_per_worker"))
      json.expect(group.batch >= 1 && group.batch <= kMaxBatch, "batch_per_worker", "1 to 65536 samples");
    if (group.batch % group.gpus_per_worker != 0)
      json.fail(json.has("batch_per_worker") ? "batch_per_worker" : "workers_per_machine",
                "expected a batch that the " + std::to_string(group.gpus_per_worker) +
                    " GPUs of a worker share equally; found " + std::to_string(group.batch) + " samples");
    const int of_gpu = group.batch / group.gpus_per_worker;
    if (of_gpu != scenario_.batch)
      group.workload = std::make_shared<const Workload>(
          build_workload(scenario_.model, of_gpu, scenario_.precision, json.file_name() + ": " + json.pointer()));
  }

  static void read_membership(const JsonReader& json, Group& group) {
    group.joins_at = json.optional<Seconds>("joins_at", Seconds{});
    if (!json.has("leaves_at")) return;
    group.leaves_at = json.required<Seconds>("leaves_at");
    json.expect(*group.leaves_at > group.joins_at, "leaves_at", "a time after \"joins_at\"");
  }

  /// The group on whose machines a colocated one runs.
  void find_host(const JsonReader& json, Group& group) {
    if (group.role != Role::kParameterServer || !json.has("colocated_with")) return;
    const auto name = json.required<std::string>("colocated_with");
    std::vector<std::string> known;
    for (std::size_t g = 0; g < scenario_.groups.size(); ++g) {
      if (scenario_.groups[g].role != Role::kWorker) continue;
      known.push_back(scenario_.groups[g].name);
      if (known.back() == name) group.colocated_with = static_cast<int>(g);
    }
    if (group.colocated_with < 0) json.fail("colocated_with", unknown_name_message("group of workers", name, known));
    const Group& host = scenario_.groups[static_cast<std::size_t>(group.colocated_with)];
    group.region = host.region;
  }

  /// Inline objects may carry a "name", which the entries of a catalog do not.
  static JsonReader without_name(const JsonReader& json) {
    (void)json.optional<std::string>("name", "");
    return json;
  }

  void read_links(const JsonReader& json) {
    std::map<std::pair<std::string, std::string>, RegionLink> inline_links;
    if (json.has("network")) {
      const JsonReader network = json.child("network");
      scenario_.fabric = read_fabric(network);
      if (network.has("hop_latency")) scenario_.hop_latency = network.required<Seconds>("hop_latency");
      if (network.has("links"))
        for (const JsonReader& entry : network.children("links")) {
          const RegionLink link = read_region_link(entry);
          inline_links[std::minmax(link.from, link.to)] = link;
        }
      network.reject_unknown_keys();
    }
    std::set<std::string> regions;
    for (const Group& group : scenario_.groups) regions.insert(group.region);
    Json effective_links = Json::array();
    for (auto from = regions.begin(); from != regions.end(); ++from) {
      for (auto to = from; to != regions.end(); ++to) {
        const auto found = inline_links.find(std::minmax(*from, *to));
        const RegionLink* link = found != inline_links.end() ? &found->second : catalog_.region_link(*from, *to);
        if (link == nullptr) fail_link(*from, *to);
        scenario_.links.push_back(*link);
        Json entry{{"from", link->from}, {"to", link->to}, {"latency", to_text(link->latency)}};
        if (link->per_flow_rate) entry["per_flow_rate"] = to_text(*link->per_flow_rate);
        entry["source"] = link->source;
        effective_links.push_back(std::move(entry));
      }
    }
    effective_["cluster"]["network"] = to_json(scenario_.fabric);
    effective_["cluster"]["network"]["links"] = std::move(effective_links);
    if (scenario_.hop_latency) effective_["cluster"]["network"]["hop_latency"] = to_text(*scenario_.hop_latency);
  }

  [[noreturn]] void fail_link(const std::string& from, const std::string& to) const {
    const std::vector<std::string> known = catalog_.region_names();
    const auto fail_in = [&](const std::string& region, const std::string& message) {
      for (std::size_t g = 0; g < scenario_.groups.size(); ++g)
        if (scenario_.groups[g].region == region && scenario_.groups[g].colocated_with < 0)
          reader_of(g).fail("region", message + ", or describe it in /cluster/network/links with its latency");
    };
    for (const std::string& region : {from, to})
      if (std::find(known.begin(), known.end(), region) == known.end())
        fail_in(region, unknown_name_message("region", region, known));
    const bool is_inside = from == to;
    fail_in(to, "the catalogs have no link " +
                    (is_inside ? "inside " + in_quotes(to) : "between " + in_quotes(from) + " and " + in_quotes(to)) +
                    ": choose other regions");
    throw std::logic_error{"a region of no group"};
  }

  JsonReader reader_of(std::size_t group) const { return root_.child("cluster").children("groups")[group]; }

  void read_training(const JsonReader& json) {
    json.expect(json.is_object(), "an object");
    Json& effective = effective_["training"];
    Training& training = scenario_.training;
    read_strategy(json.child("strategy"), effective["strategy"]);
    read_size(json, effective);
    training.warmup_steps = json.optional<int>("warmup_steps", 5);
    if (json.has("warmup_steps"))
      json.expect(training.warmup_steps >= 0 && training.warmup_steps <= 1'000'000, "warmup_steps",
                  "0 to 1000000 steps");
    training.start_interval = json.optional<Seconds>("start_interval", Seconds{0});
    read_recovery(json);
    read_smaller_cluster(json, effective);
    training.step_time_variation = json.optional<double>("step_time_variation", 0);
    if (json.has("step_time_variation"))
      json.expect(training.step_time_variation >= 0 && training.step_time_variation <= 10, "step_time_variation",
                  "0 to 10");
    effective["warmup_steps"] = training.warmup_steps;
    effective["start_interval"] = to_text(training.start_interval);
    effective["step_time_variation"] = training.step_time_variation;
    if (json.has("checkpoint")) {
      const JsonReader checkpoint = json.child("checkpoint");
      training.checkpoint = read_checkpoint_rule(checkpoint);
      if (checkpoint.has("fixed_time") || checkpoint.has("rate")) {
        training.checkpoint->stage = CheckpointStage{.fixed_time = checkpoint.required<Seconds>("fixed_time"),
                                                     .time_per_tensor = {},
                                                     .rate = checkpoint.required<BytesPerSecond>("rate")};
        checkpoint.expect(training.checkpoint->stage->rate > BytesPerSecond{0}, "rate", "a rate above 0Bps");
      }
      checkpoint.reject_unknown_keys();
    }
    if (json.has("target")) read_target(json.child("target"));
    json.reject_unknown_keys();
  }

  static Checkpointing read_checkpoint_rule(const JsonReader& json) {
    Checkpointing rule;
    int rules = 0;
    if (json.has("every_steps")) {
      rule.every_steps = json.required<std::int64_t>("every_steps");
      json.expect(rule.every_steps >= 1, "every_steps", "at least 1 step");
      ++rules;
    }
    if (json.has("every")) {
      rule.every = json.required<Seconds>("every");
      json.expect(*rule.every >= Seconds{1e-3}, "every", "at least 1ms");
      ++rules;
    }
    if (json.has("interval")) {
      rule.is_young_daly = read_word<bool>(json, "interval", {{"young_daly", true}});
      ++rules;
    }
    if (rules != 1) json.fail("expected one of \"every_steps\", \"every\" and \"interval\": \"young_daly\"");
    if (json.has("pauses")) rule.pauses_all = read_word<bool>(json, "pauses", {{"chief", false}, {"all", true}});
    if (json.has("to")) rule.is_on_disk = read_word<bool>(json, "to", {{"bucket", false}, {"disk", true}});
    return rule;
  }

  /// Defaults depend on the strategy: asynchronous workers go on, synchronous ones without the lost one.
  void read_recovery(const JsonReader& json) {
    using LostWorker = Recovery::LostWorker;
    using LostChief = Recovery::LostChief;
    Recovery& recovery = scenario_.training.recovery;
    recovery.lost_worker = scenario_.training.strategy.is_synchronous() ? LostWorker::kShrink : LostWorker::kContinue;
    if (!json.has("recovery")) return;
    const JsonReader reader = json.child("recovery");
    if (reader.has("lost_worker")) {
      recovery.lost_worker = read_word<LostWorker>(reader, "lost_worker",
                                                   {{"continue", LostWorker::kContinue},
                                                    {"shrink", LostWorker::kShrink},
                                                    {"wait", LostWorker::kWait},
                                                    {"restart", LostWorker::kRestart}});
    }
    if (reader.has("lost_chief"))
      recovery.lost_chief = read_word<LostChief>(
          reader, "lost_chief", {{"hand_over", LostChief::kHandOver}, {"restart", LostChief::kRestart}});
    const auto time = [&](const char* key, Seconds fallback) {
      const auto value = reader.optional<Seconds>(key, fallback);
      if (reader.has(key)) reader.expect(value <= Seconds{1e9}, key, "at most 1e9s");
      return value;
    };
    recovery.timeout = time("timeout", recovery.timeout);
    recovery.restart_time = time("restart_time", recovery.restart_time);
    recovery.uses_notice = reader.optional<bool>("uses_notice", false);
    if (reader.has("minimum_workers")) {
      recovery.minimum_workers = reader.required<int>("minimum_workers");
      reader.expect(*recovery.minimum_workers >= 1, "minimum_workers", "at least 1 worker");
    }
    if (reader.has("give_up_after")) {
      recovery.give_up_after = time("give_up_after", Seconds{});
      reader.expect(*recovery.give_up_after > Seconds{}, "give_up_after", "a time above 0s");
    }
    reader.reject_unknown_keys();
  }

  void read_target(const JsonReader& json) {
    const TrainingTarget target{.loss = json.maybe<double>("loss"), .samples = json.maybe<double>("samples")};
    if (target.loss.has_value() == target.samples.has_value())
      json.fail("expected \"loss\" or \"samples\"; found " + std::string{target.loss ? "both" : "neither"});
    if (target.samples) json.expect(*target.samples >= 1 && *target.samples <= 1e18, "samples", "1 to 1e18 samples");
    if (target.loss) {
      if (!scenario_.convergence) json.fail("loss", "expected \"convergence\" in the workload; found none");
      json.expect(*target.loss > scenario_.convergence->floor && *target.loss <= 1e12, "loss",
                  "a loss above the convergence model's floor of " + to_text(scenario_.convergence->floor));
    }
    json.reject_unknown_keys();
    scenario_.training.target = target;
  }

  void read_strategy(const JsonReader& json, Json& effective) {
    Strategy& strategy = scenario_.training.strategy;
    enum class Kind { kParameterServer, kAllReduce, kPairwiseAveraging };
    std::vector<std::pair<std::string, Kind>> kinds{{"parameter_server", Kind::kParameterServer},
                                                    {"all_reduce", Kind::kAllReduce},
                                                    {"pairwise_averaging", Kind::kPairwiseAveraging}};
    for (const auto& [word, registered] : registered_strategies()) kinds.emplace_back(word, Kind::kAllReduce);
    switch (read_word<Kind>(json, "kind", kinds)) {
      case Kind::kParameterServer:
        strategy.kind = read_parameter_server(json, effective);
        break;
      case Kind::kAllReduce:
        strategy.kind = read_all_reduce(json, effective);
        break;
      case Kind::kPairwiseAveraging:
        strategy.kind = PairwiseAveragingStrategy{};
        break;
    }
    read_exchange(json, effective);
    know_keys(json, {"synchronization", "staleness_bound", "backup_workers", "pushes_back_each_variable", "placement",
                     "aggregation", "variables", "algorithm", "sharding", "prefetched_units", "pipeline",
                     "accumulation_steps", "bucket_size", "first_bucket_size", "partition_size", "cycle_time", "order",
                     "overlap", "gradient_precision"});
    json.reject_unknown_keys();
  }

  /// Keys that have a meaning elsewhere: refusals.cpp says why not here.
  static void know_keys(const JsonReader& json, std::initializer_list<const char*> keys) {
    for (const char* key : keys) (void)json.has(key);
  }

  ParameterServerStrategy read_parameter_server(const JsonReader& json, Json& effective) {
    ParameterServerStrategy strategy;
    strategy.synchronization = read_word<Synchronization>(json, "synchronization",
                                                          {{"asynchronous", Synchronization::kAsynchronous},
                                                           {"synchronous", Synchronization::kSynchronous},
                                                           {"stale_synchronous", Synchronization::kStaleSynchronous}});
    if (json.has("placement"))
      strategy.placement = read_word<Placement>(json, "placement",
                                                {{"round_robin", Placement::kRoundRobin},
                                                 {"greedy_by_bytes", Placement::kGreedyByBytes},
                                                 {"sharded", Placement::kSharded}});
    else
      effective["placement"] = "round_robin";
    if (json.has("variables"))
      strategy.variables = read_word<VariableHome>(json, "variables",
                                                   {{"server_process", VariableHome::kServerProcess},
                                                    {"worker_process", VariableHome::kWorkerProcess},
                                                    {"gpus", VariableHome::kGpus}});
    const int workers = scenario_.count(Role::kWorker);
    strategy.backup_workers = json.optional<int>("backup_workers", 0);
    if (json.has("backup_workers"))
      json.expect(strategy.backup_workers >= 0 && strategy.backup_workers < workers, "backup_workers",
                  "0 or more, and fewer than the " + std::to_string(workers) + " workers");
    strategy.pushes_back_each_variable = json.optional<bool>("pushes_back_each_variable", false);
    if (json.has("aggregation"))
      strategy.aggregation = read_word<Aggregation>(
          json, "aggregation",
          {{"none", Aggregation::kNone}, {"host", Aggregation::kHost}, {"gpu", Aggregation::kGpu}});
    switch (strategy.synchronization) {
      case Synchronization::kAsynchronous:
        break;
      case Synchronization::kSynchronous:
        strategy.staleness_bound = 0;
        effective["backup_workers"] = strategy.backup_workers;
        effective["pushes_back_each_variable"] = strategy.pushes_back_each_variable;
        if (!json.has("aggregation")) effective["aggregation"] = "none";
        break;
      case Synchronization::kStaleSynchronous:
        strategy.staleness_bound = json.required<std::int64_t>("staleness_bound");
        json.expect(*strategy.staleness_bound >= 0, "staleness_bound", "0 steps or more");
        break;
    }
    return strategy;
  }

  AllReduceStrategy read_all_reduce(const JsonReader& json, Json& effective) {
    AllReduceStrategy strategy;
    if (const auto kind = json.required<std::string>("kind"); kind != "all_reduce") strategy.registered_as = kind;
    if (json.has("algorithm"))
      strategy.algorithm = read_word<CollectiveAlgorithm>(json, "algorithm", collective_algorithms());
    else
      effective["algorithm"] = "ring";
    read_sharding(json, strategy);
    if (json.has("pipeline")) read_pipeline(json, strategy, effective["pipeline"]);
    constexpr int kMaxClique = 1024;
    if (strategy.algorithm == CollectiveAlgorithm::kClique && scenario_.count(Role::kWorker) > kMaxClique)
      json.fail("algorithm",
                "expected at most 1024 workers for a clique, which sends between every two of them; found " +
                    std::to_string(scenario_.count(Role::kWorker)));
    return strategy;
  }

  static void read_sharding(const JsonReader& json, AllReduceStrategy& strategy) {
    if (!json.has("sharding")) return;
    strategy.sharding = read_word<Sharding>(json, "sharding",
                                            {{"none", Sharding::kNone},
                                             {"optimizer", Sharding::kOptimizer},
                                             {"gradients", Sharding::kGradients},
                                             {"parameters", Sharding::kParameters}});
    strategy.prefetched_units = json.optional<int>("prefetched_units", strategy.prefetched_units);
    if (json.has("prefetched_units"))
      json.expect(strategy.prefetched_units >= 0 && strategy.prefetched_units <= 1000, "prefetched_units", "0 to 1000");
  }

  /// Its micro-batches are the batches that a step accumulates.
  void read_pipeline(const JsonReader& strategy_json, AllReduceStrategy& strategy, Json& effective) {
    const JsonReader json = strategy_json.child("pipeline");
    Pipeline pipeline{.stages = json.required<int>("stages")};
    const int workers = scenario_.count(Role::kWorker);
    json.expect(pipeline.stages >= 1 && workers % pipeline.stages == 0, "stages",
                "a divisor of the " + std::to_string(workers) + " workers, of which each is a stage");
    int& microbatches = scenario_.training.strategy.exchange.accumulation_steps;
    microbatches = json.required<int>("microbatches");
    json.expect(microbatches >= 1 && microbatches <= kMaxPasses, "microbatches", "1 to 10000 micro-batches");
    if (json.has("schedule"))
      pipeline.schedule = read_word<PipelineSchedule>(
          json, "schedule", {{"gpipe", PipelineSchedule::kGpipe}, {"1f1b", PipelineSchedule::kOneForwardOneBackward}});
    else
      effective["schedule"] = "1f1b";
    json.reject_unknown_keys();
    strategy.pipeline = pipeline;
  }

  /// Once kernel times are known.
  void check_pipeline() const {
    if (scenario_.training.strategy.pipeline() == nullptr) return;
    try {
      (void)cut_into_stages(scenario_);
    } catch (const std::invalid_argument& error) {
      root_.child("training").child("strategy").child("pipeline").fail("stages", error.what());
    }
  }

  void read_exchange(const JsonReader& json, Json& effective) {
    Strategy& strategy = scenario_.training.strategy;
    GradientExchange& exchange = strategy.exchange;
    const bool is_pairwise = std::holds_alternative<PairwiseAveragingStrategy>(strategy.kind);
    if (strategy.pipeline() == nullptr) {
      exchange.accumulation_steps = json.optional<int>("accumulation_steps", 1);
      if (json.has("accumulation_steps"))
        json.expect(exchange.accumulation_steps >= 1 && exchange.accumulation_steps <= kMaxPasses, "accumulation_steps",
                    "1 to 10000 batches");
      effective["accumulation_steps"] = exchange.accumulation_steps;
    }
    if (is_pairwise) return;  // whole models are exchanged
    const auto size = [&](const char* key) -> std::optional<Bytes> {
      if (!json.has(key)) return {};
      const auto value = json.required<Bytes>(key);
      json.expect(value >= Bytes{1024}, key, "at least 1KiB");
      return value;
    };
    exchange.bucket_size = size("bucket_size");
    exchange.first_bucket_size = size("first_bucket_size");
    exchange.partition_size = size("partition_size");
    if (json.has("cycle_time")) {
      exchange.cycle_time = json.required<Seconds>("cycle_time");
      json.expect(*exchange.cycle_time >= Seconds{1e-6}, "cycle_time", "at least 1us");
    }
    if (json.has("order"))
      exchange.order = read_word<Order>(json, "order", {{"fifo", Order::kFifo}, {"priority", Order::kPriority}});
    else
      effective["order"] = "fifo";
    if (json.has("overlap"))
      exchange.overlap = read_word<Overlap>(
          json, "overlap",
          {{"none", Overlap::kNone}, {"backward", Overlap::kBackward}, {"forward", Overlap::kForward}});
    else
      effective["overlap"] = "backward";
    if (json.has("gradient_precision"))
      exchange.gradient_precision =
          read_word<Precision>(json, "gradient_precision", {{"fp32", Precision::kFp32}, {"fp16", Precision::kFp16}});
    check_units(json);
  }

  /// Bounds the number of messages of a step and what has to be kept for them.
  void check_units(const JsonReader& json) {
    constexpr double kMostUnits = 200'000, kMostMessages = 1e8, kMostConnections = 1e6;
    const GradientExchange& exchange = scenario_.training.strategy.exchange;
    const auto* servers = std::get_if<ParameterServerStrategy>(&scenario_.training.strategy.kind);
    double units = static_cast<double>(scenario_.workload.variables.size());
    if (exchange.partition_size)
      units += as_double(scenario_.workload.variable_bytes()) / as_double(*exchange.partition_size);
    if (servers != nullptr && servers->placement == Placement::kSharded)
      units *= scenario_.count(Role::kParameterServer);
    if (units > kMostUnits)
      json.fail("expected a step of at most 200000 messages of each worker; found about " +
                std::to_string(static_cast<long long>(units)) +
                ": choose a larger partition_size or another placement");
    const double workers = scenario_.count(Role::kWorker);
    if (units * workers > kMostMessages)
      json.fail("expected a step of at most 100000000 messages of all workers; found about " +
                std::to_string(static_cast<long long>(units * workers)) +
                ": choose fewer workers, a larger partition_size or another placement");
    if (servers != nullptr && workers * scenario_.count(Role::kParameterServer) > kMostConnections)
      json.fail("expected at most 1000000 connections between workers and parameter servers; found " +
                std::to_string(static_cast<long long>(workers) * scenario_.count(Role::kParameterServer)));
  }

  /// The size of the job, by one of kJobSizes.
  void read_size(const JsonReader& json, Json& effective) {
    std::vector<const char*> stated;
    for (const char* key : kJobSizes)
      if (json.has(key)) stated.push_back(key);
    if (stated.size() > 1)
      json.fail(stated[1], "expected one of \"steps\", \"steps_per_worker\", \"samples\" and \"epochs\"; found " +
                               in_quotes(stated[0]) + " as well");
    if (json.has("samples")) {
      const auto samples = json.required<std::int64_t>("samples");
      json.expect(samples >= 1 && samples <= kMaxSamples, "samples", "1 to 1000000000000000 samples");
      set_samples(scenario_, samples);
    } else if (json.has("epochs")) {
      const auto epochs = json.required<double>("epochs");
      if (!samples_per_epoch_)
        json.fail("epochs", "expected \"samples_per_epoch\" in the workload beside it; found none");
      const double samples = epochs * static_cast<double>(*samples_per_epoch_);
      json.expect(samples >= 0.5 && samples <= static_cast<double>(kMaxSamples), "epochs",
                  "epochs of 1 to 1000000000000000 samples");
      set_samples(scenario_, std::max<std::int64_t>(1, std::llround(samples)));
    } else {
      set_steps(scenario_, read_steps(json, effective));
    }
    if (stated.empty()) return;
    json.expect(scenario_.training.samples <= kMaxSamples, stated[0], "at most 1000000000000000 samples");
    if (scenario_.training.steps > kMaxSteps)
      json.fail(stated[0], "expected at most 10000000 steps of the full cluster; found " +
                               std::to_string(scenario_.training.steps) + " of " +
                               to_text(samples_per_update(scenario_)) + " samples");
  }

  void read_smaller_cluster(const JsonReader& json, Json& effective) {
    if (!json.has("smaller_cluster")) {
      effective["smaller_cluster"] = "keeps_batch_per_worker";
      return;
    }
    SmallerCluster& way = scenario_.training.smaller_cluster;
    way = read_word<SmallerCluster>(json, "smaller_cluster",
                                    {{"keeps_batch_per_worker", SmallerCluster::kKeepsBatchPerWorker},
                                     {"larger_shares", SmallerCluster::kLargerShares},
                                     {"accumulates", SmallerCluster::kAccumulates}});
  }

  /// Larger shares need a model of other batches, and memory.
  void check_shares() {
    if (scenario_.training.smaller_cluster != SmallerCluster::kLargerShares || !may_leave_full_cluster(scenario_))
      return;
    try {
      (void)build_workload(scenario_.model, 2 * scenario_.batch, scenario_.precision, "a batch twice as large");
    } catch (const InputError& error) { root_.child("training").fail("smaller_cluster", error.what()); }
    if (const std::int64_t fewest = fewest_workers_for_shares(scenario_); fewest > 1)
      scenario_.warnings.push_back("larger shares fit the GPUs' memory with " + std::to_string(fewest) +
                                   " workers and more: the job has no result if it trains with fewer; "
                                   "\"minimum_workers\" in \"recovery\" makes it wait");
  }

  /// "steps" as Training says, or "steps_per_worker".
  std::int64_t read_steps(const JsonReader& json, Json& effective) const {
    if (json.has("steps_per_worker")) {
      const auto per_worker = json.required<std::int64_t>("steps_per_worker");
      const std::int64_t workers = scenario_.training.strategy.is_synchronous() ? 1 : scenario_.count(Role::kWorker);
      json.expect(per_worker >= 1 && per_worker <= kMaxSteps / workers, "steps_per_worker",
                  "at least 1 step, and at most 10000000 of all workers together");
      effective.erase("steps_per_worker");
      effective["steps"] = per_worker * workers;
      return per_worker * workers;
    }
    const auto steps = json.required<std::int64_t>("steps");
    json.expect(steps >= 1 && steps <= kMaxSteps, "steps", "1 to 10000000 steps");
    return steps;
  }

  void read_calibration() {
    std::string name;
    const JsonReader profile = resolve(root_, "calibration", effective_["calibration"], name,
                                       [this](const std::string& n, const JsonReader& by) {
                                         return n == "auto" ? find_profile(by) : catalog_.profile(n, by);
                                       });
    set_profile(scenario_, profile, effective_["calibration"], catalog_);
    for (const Substitute& substitute : scenario_.profile.substitutes) scenario_.warnings.push_back(substitute.text);
    if (scenario_.training.checkpoint && !checkpoint_time(scenario_))
      root_.child("training")
          .fail("checkpoint", "expected \"fixed_time\" and \"rate\", since profile " +
                                  in_quotes(scenario_.profile.name) + " has no times of checkpoints");
  }

  /// The one that covers this training best; says which, and why.
  JsonReader find_profile(const JsonReader& asked_by) {
    CalibrationNeeds needs{
        .gpus = {}, .model = scenario_.model.name, .has_servers = scenario_.count(Role::kParameterServer) > 0};
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker) needs.gpus.push_back(*group.accelerator);
    const ProfileChoice choice = choose_profile(needs, catalog_, asked_by);
    scenario_.warnings.push_back("calibration \"auto\" takes profile " + in_quotes(choice.name) + ": " + choice.reason);
    return catalog_.profile(choice.name, asked_by);
  }

  void read_output() {
    Json& effective = effective_["output"];
    if (root_.has("output")) {
      const JsonReader json = root_.child("output");
      OutputOptions& output = scenario_.output;
      output.sampling_period = json.optional<Seconds>("sampling_period", output.sampling_period);
      if (json.has("sampling_period"))
        json.expect(output.sampling_period >= Seconds{1e-4}, "sampling_period", "at least 0.1ms");
      output.timeline_start = json.optional<Seconds>("timeline_start", output.timeline_start);
      output.timeline_length = json.optional<Seconds>("timeline_length", output.timeline_length);
      json.reject_unknown_keys();
    }
    effective = Json{{"sampling_period", to_text(scenario_.output.sampling_period)},
                     {"timeline_start", to_text(scenario_.output.timeline_start)},
                     {"timeline_length", to_text(scenario_.output.timeline_length)}};
  }

  void check_memory() {
    for (const Group& group : scenario_.groups) {
      if (group.role != Role::kWorker) continue;
      const Accelerator& gpu = *group.accelerator;
      const Bytes needed = gpu_memory_needed(scenario_, group);
      if (needed > gpu.memory)
        throw NoResultError{group.place + ": GPU memory exceeded: group " + in_quotes(group.name) + " needs " +
                            gibibytes(needed) + " on a " + gpu.name + ", which has " + gibibytes(gpu.memory) + ": " +
                            gibibytes(needed - gpu.memory) + " too much" + scenario_.set_by};
      if (as_double(needed) > 0.9 * as_double(gpu.memory))
        scenario_.warnings.push_back("GPU memory: group " + in_quotes(group.name) + " needs " + gibibytes(needed) +
                                     " of the " + gibibytes(gpu.memory) + " that a " + gpu.name +
                                     " has, which is within 10 % of the limit");
    }
  }

  void warn_about_spot() {
    for (const Group& group : scenario_.groups)
      if (group.market == Market::kSpot && group.colocated_with < 0 && !group.pool && !group.replay)
        scenario_.warnings.push_back("group " + in_quotes(group.name) +
                                     " is on the spot market without a \"spot_pool\": its price applies, but none of "
                                     "its machines is revoked");
  }

  void warn_about_pools() {
    const bool has_start = root_.child("cluster").has("start");
    for (const auto& [g, origin] : pool_origins_) {
      const Group& group = scenario_.groups[g];
      const std::string difference = describe_difference(
          origin, group.accelerator ? group.accelerator->name : "", group.zone,
          has_start ? std::optional{utc_text(scenario_.start_utc.value()).substr(0, 10)} : std::nullopt);
      if (!difference.empty())
        scenario_.warnings.push_back("spot pool " + in_quotes(group.pool->name) + " of group " + in_quotes(group.name) +
                                     " was fitted elsewhere: used for " + difference +
                                     "; Kolmogorov-Smirnov distances between lifetimes of zones are 0.1 to 0.7");
    }
  }

  void warn_about_steady_state() {
    if (has_steady_state(scenario_)) return;
    const Training& training = scenario_.training;
    scenario_.warnings.push_back(std::to_string(training.steps) + " steps are too few for a steady state of " +
                                 std::to_string(scenario_.count(Role::kWorker)) + " workers with " +
                                 std::to_string(training.warmup_steps) +
                                 " warm-up steps each: speeds are means over the whole run");
  }

  /// Those of standby groups come only for others.
  int workers_without_standby() const {
    int sum = 0;
    for (const Group& group : scenario_.groups)
      if (!group.is_standby) sum += group.workers();
    return sum;
  }

  void warn_about_range() {
    const Profile& profile = scenario_.profile;
    if (profile.fitted_models.empty()) return;
    const auto warn = [&](const std::string& what) {
      scenario_.warnings.push_back("outside of what profile " + in_quotes(profile.name) + " was fitted on: " + what);
    };
    const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    std::set<std::string> named;
    for (const Group& group : scenario_.groups)
      if (group.accelerator && !contains(profile.fitted_accelerators, group.accelerator->name) &&
          named.insert(group.accelerator->name).second)
        warn("GPU " + group.accelerator->name + " (fitted: " + joined(profile.fitted_accelerators) + ")");
    if (!contains(profile.fitted_models, scenario_.model.name)) warn("model " + in_quotes(scenario_.model.name));
    std::set<int> batches;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker) batches.insert(group.batch);
    for (const int batch : batches)
      if (batch < profile.fitted_batch_min || batch > profile.fitted_batch_max)
        warn("batch " + std::to_string(batch) + " (fitted: " + std::to_string(profile.fitted_batch_min) + " to " +
             std::to_string(profile.fitted_batch_max) + ")");
    if (const int workers = workers_without_standby(); workers > profile.fitted_workers_max)
      warn(std::to_string(workers) + " workers (fitted: up to " + std::to_string(profile.fitted_workers_max) + ")");
    if (scenario_.count(Role::kParameterServer) > profile.fitted_servers_max)
      warn(std::to_string(scenario_.count(Role::kParameterServer)) + " parameter servers (fitted: up to " +
           std::to_string(profile.fitted_servers_max) + ")");
  }

  /// b_w is a mean of the groups' batches.
  void warn_about_convergence() {
    if (!scenario_.training.target || !scenario_.training.target->loss) return;
    const Convergence& model = *scenario_.convergence;
    const auto warn = [&](const std::string& what) {
      scenario_.warnings.push_back("outside of what the convergence model was fitted on: " + what);
    };
    std::set<int> named;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker &&
          (group.batch < model.weighted_batch.first || group.batch > model.weighted_batch.second) &&
          named.insert(group.batch).second)
        warn("batch " + std::to_string(group.batch) + " (fitted: " + to_text(model.weighted_batch.first) + " to " +
             to_text(model.weighted_batch.second) + ")");
    const int workers = workers_without_standby();
    if (workers < model.workers.first || workers > model.workers.second)
      warn(std::to_string(workers) + " workers (fitted: " + std::to_string(model.workers.first) + " to " +
           std::to_string(model.workers.second) + ")");
  }

  static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  JsonReader root_;
  const Catalog& catalog_;
  std::optional<std::int64_t> samples_per_epoch_;
  std::vector<std::pair<std::size_t, PoolOrigin>> pool_origins_;  // of groups
  Json effective_;
  Scenario scenario_;
};

}  // namespace

int optimizer_slots(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kMomentum:
      return 1;
    case Optimizer::kAdam:
      return 2;
  }
  return 0;
}

std::string to_text(Precision precision) { return precision == Precision::kFp16 ? "fp16" : "fp32"; }

std::string to_text(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return "sgd";
    case Optimizer::kMomentum:
      return "momentum";
    case Optimizer::kAdam:
      return "adam";
  }
  return {};
}

bool Strategy::is_synchronous() const {
  const auto* servers = std::get_if<ParameterServerStrategy>(&kind);
  return servers != nullptr ? servers->synchronization == Synchronization::kSynchronous
                            : std::holds_alternative<AllReduceStrategy>(kind);
}

const Pipeline* Strategy::pipeline() const {
  const auto* all_reduce = std::get_if<AllReduceStrategy>(&kind);
  return all_reduce != nullptr && all_reduce->pipeline ? &*all_reduce->pipeline : nullptr;
}

std::string describe_strategy(const Strategy& strategy) {
  struct Describe {
    std::string operator()(const ParameterServerStrategy& servers) const {
      switch (servers.synchronization) {
        case Synchronization::kAsynchronous:
          return "asynchronous parameter servers";
        case Synchronization::kSynchronous:
          return "synchronous parameter servers" +
                 (servers.backup_workers > 0 ? " with " + std::to_string(servers.backup_workers) + " backup workers"
                                             : std::string{});
        case Synchronization::kStaleSynchronous:
          return "parameter servers with staleness up to " + std::to_string(*servers.staleness_bound);
      }
      return {};
    }
    std::string operator()(const AllReduceStrategy& all_reduce) const {
      if (const auto& pipeline = all_reduce.pipeline) {
        AllReduceStrategy outside = all_reduce;
        outside.pipeline.reset();
        return "pipelines of " + std::to_string(pipeline->stages) +
               (pipeline->schedule == PipelineSchedule::kGpipe ? " stages (GPipe), " : " stages (1F1B), ") +
               (*this)(outside);
      }
      switch (all_reduce.sharding) {
        case Sharding::kNone:
          break;
        case Sharding::kOptimizer:
          return "data parallel with a sharded optimizer";
        case Sharding::kGradients:
          return "data parallel with sharded gradients";
        case Sharding::kParameters:
          return "data parallel with sharded parameters";
      }
      if (!all_reduce.registered_as.empty()) return registered_strategies().at(all_reduce.registered_as).title;
      return all_reduce_algorithm(all_reduce.algorithm).title;
    }
    std::string operator()(const PairwiseAveragingStrategy&) const { return "pairwise averaging"; }
  };
  return std::visit(Describe{}, strategy.kind);
}

int Scenario::count(Role role) const {
  int sum = 0;
  for (const Group& group : groups)
    if (group.role == role) sum += role == Role::kWorker ? group.workers() : group.count;
  return sum;
}

const Group& Scenario::first_workers() const {
  return *std::find_if(groups.begin(), groups.end(), [](const Group& group) { return group.role == Role::kWorker; });
}

FlopsPerSecond Scenario::peak_of(const Accelerator& gpu) const {
  return precision == Precision::kFp16 ? gpu.peak_fp16 : gpu.peak_fp32;
}

bool Scenario::has_changing_membership() const {
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.joins_at > Seconds{} || group.leaves_at; });
}

bool Scenario::has_revocations() const {
  return std::any_of(groups.begin(), groups.end(), [](const Group& group) { return group.pool || group.replay; });
}

NoResultError Scenario::no_result(const RunError& error) const {
  return NoResultError{file_name + ": " + error.what() + set_by};
}

Seconds young_daly_interval(Seconds checkpoint, Seconds between_failures) {
  return Seconds{std::sqrt(2 * checkpoint.value() * between_failures.value())};
}

Seconds mean_time_to_loss(const Scenario& scenario) {
  // Trapezoids over the product of survivals, whose steps grow with age.
  constexpr double kHorizon = 60 * 86400.0, kFirst = 60, kGrowth = 1.02;
  const bool restarts = scenario.training.recovery.lost_worker == Recovery::LostWorker::kRestart;
  const auto survival = [&](Seconds age) {
    double all = 1;
    for (const Group& group : scenario.groups) {
      if (!group.pool || group.is_standby || (group.role == Role::kWorker && !restarts)) continue;
      const double factor = group.pool->churn ? group.pool->churn->mean_factor() : 1;
      all *= std::pow(group.pool->lifetime.survival(age * factor), group.count);
    }
    return all;
  };
  double sum = 0, last = 1;
  for (double age = 0, step = kFirst; age < kHorizon; age += step, step *= kGrowth) {
    const double next = survival(Seconds{age + step});
    sum += (last + next) / 2 * step;
    last = next;
  }
  return last > 0.5 ? Seconds{std::numeric_limits<double>::infinity()} : Seconds{sum};
}

std::optional<Seconds> checkpoint_interval(const Scenario& scenario) {
  const auto& rule = scenario.training.checkpoint;
  if (!rule || !rule->is_young_daly) return rule ? rule->every : std::nullopt;
  return young_daly_interval(*checkpoint_time(scenario), mean_time_to_loss(scenario));
}

bool has_steady_state(const Scenario& scenario) {
  const Training& training = scenario.training;
  const std::int64_t workers = training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  return training.steps >= workers * (training.warmup_steps + 2);
}

namespace {

/// Of the optimizer's slots, the gradients and the values of variables of so many bytes: what sharding leaves a GPU.
Bytes kept_of_variables(const Scenario& scenario, Bytes variables, int slots,
                        const std::function<GradientUnits()>& plan_units) {
  const auto* all_reduce = std::get_if<AllReduceStrategy>(&scenario.training.strategy.kind);
  const Sharding sharding = all_reduce != nullptr ? all_reduce->sharding : Sharding::kNone;
  const Bytes whole = (2 + slots) * variables;
  if (sharding == Sharding::kNone) return whole;
  const int gpus = sharing_gpus(scenario);
  const auto of_others = [&](int copies) { return Bytes{copies * variables.value() / gpus * (gpus - 1)}; };
  if (sharding == Sharding::kOptimizer) return whole - of_others(slots);
  if (sharding == Sharding::kGradients) return whole - of_others(slots + 1);
  Bytes largest{};
  for (const GradientUnit& unit : plan_units().units) largest = std::max(largest, unit.value_bytes);
  return whole - of_others(slots + 2) + largest * (all_reduce->prefetched_units + 1);
}

/// Of the stage with the most among those of the group's workers.
Bytes stage_memory_needed(const Scenario& scenario, const Group& group, int slots) {
  const Workload& workload = scenario.workload_of(group);
  const Pipeline& pipeline = *scenario.training.strategy.pipeline();
  const PipelineStages stages = cut_into_stages(scenario);
  int first = 0;  // of its workers
  for (const Group* other = scenario.groups.data(); other != &group && other->place != group.place; ++other)
    first += other->workers();
  Bytes most{};
  for (int i = 0; i < std::min(group.workers(), pipeline.stages); ++i) {
    const int stage = (first + i) % pipeline.stages;
    const auto s = static_cast<std::size_t>(stage);
    const int in_flight =
        microbatches_in_flight(pipeline, scenario.training.strategy.exchange.accumulation_steps, stage);
    const auto plan_units = [&] { return plan_stage_units(scenario, stages, stage); };
    most = std::max(most, kept_of_variables(scenario, stages.variables[s], slots, plan_units) +
                              in_flight * stages.kept[s] + (stage == 0 ? workload.input_bytes : Bytes{}));
  }
  return group.accelerator->memory_reserved + most;
}

}  // namespace

Bytes gpu_memory_needed(const Scenario& scenario, const Group& group) {
  const Workload& workload = scenario.workload_of(group);
  const int slots = scenario.count(Role::kParameterServer) > 0 ? 0 : optimizer_slots(scenario.optimizer);
  if (scenario.training.strategy.pipeline() != nullptr) return stage_memory_needed(scenario, group, slots);
  const Bytes variables = workload.parameter_bytes();
  return gpu_memory_needed(workload, *group.accelerator, slots) - (2 + slots) * variables +
         kept_of_variables(scenario, variables, slots, [&] { return plan_gradient_units(scenario, 0); });
}

Bytes gpu_memory_needed(const Workload& workload, const Accelerator& gpu, int slots) {
  return gpu.memory_reserved + (2 + slots) * workload.parameter_bytes() + workload.activation_bytes +
         workload.input_bytes;
}

Bytes checkpoint_bytes(const Scenario& scenario) {
  return scenario.workload.variable_bytes() + optimizer_slots(scenario.optimizer) * scenario.workload.parameter_bytes();
}

std::int64_t checkpoint_tensors(const Scenario& scenario) {
  const Workload& workload = scenario.workload;
  return static_cast<std::int64_t>(workload.variables.size()) +
         optimizer_slots(scenario.optimizer) * std::int64_t{workload.trainable_tensors()};
}

std::optional<Seconds> checkpoint_time(const Scenario& scenario) {
  const auto& own = scenario.training.checkpoint;
  const std::int64_t tensors = checkpoint_tensors(scenario);
  const Bytes bytes = checkpoint_bytes(scenario);
  if (own && own->stage) return own->stage->time(tensors, bytes);
  if (scenario.profile.checkpoint) return scenario.profile.checkpoint->time(tensors, bytes);
  return {};
}

std::optional<Startup> startup_of(const Scenario& scenario, const Group& group) {
  if (!scenario.profile.startup) return {};
  return scenario.profile.startup->find({.market = group.market == Market::kSpot ? "spot" : "on-demand",
                                         .region = group.region,
                                         .accelerator = group.accelerator ? group.accelerator->name : ""});
}

Scenario read_scenario(const Json& json, const std::string& file_name, const Catalog& catalog,
                       const JsonOrigins& origins) {
  return ScenarioReader{json, file_name, catalog, origins}.read();
}

}  // namespace rehearse
