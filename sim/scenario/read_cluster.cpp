#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "platforms/board_power.hpp"
#include "platforms/pool_origin.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/names.hpp"
#include "sim/base/utc_time.hpp"
#include "sim/scenario/scenario_readers.hpp"

namespace rehearse {

namespace {

constexpr int kMaxWorkers = 131'072;

/// Reads groups one after another, then what refers from one to another or depends on all.
class ClusterReader {
 public:
  ClusterReader(const JsonReader& json, const Catalog& catalog, Scenario& scenario, Json& effective)
      : json_{json}, catalog_{catalog}, scenario_{scenario}, effective_{effective} {}

  PoolOrigins read() {
    const std::vector<JsonReader> groups = json_.children("groups");
    json_.expect(!groups.empty() && groups.size() <= 1000, "groups", "1 to 1000 groups");
    std::set<std::string> names;
    int machines = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      scenario_.groups.push_back(read_group(groups[i], effective_["groups"][i]));
      const Group& group = scenario_.groups.back();
      if (!names.insert(group.name).second)
        groups[i].fail("name", "another group has this name already: \"" + group.name + "\"");
      machines += group.count;
      if (machines > kMostMachinesOfScenario)
        groups[i].fail("count", "expected at most 20000 machines in all; found " + std::to_string(machines));
    }
    if (scenario_.count(Role::kWorker) == 0)
      json_.fail("groups", "expected at least one group with role \"worker\"; found none");
    if (scenario_.count(Role::kWorker) > kMaxWorkers)
      json_.fail("groups",
                 "expected at most 131072 workers in all; found " + std::to_string(scenario_.count(Role::kWorker)));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      find_host(groups[i], scenario_.groups[i]);
      if (!groups[i].has("colocated_with")) read_replacement(groups[i], scenario_.groups[i]);
    }
    read_start(json_);
    if (json_.has("electricity")) scenario_.electricity = read_electricity(json_.child("electricity"));
    read_network(json_, catalog_, scenario_, effective_);
    json_.reject_unknown_keys();
    return std::move(pool_origins_);
  }

 private:
  Group read_group(const JsonReader& json, Json& effective) {
    Group group{.name = json.required<std::string>("name"),
                .place = json.place(),
                .role = read_word<Role>(json, "role",
                                        {{"worker", Role::kWorker}, {"parameter_server", Role::kParameterServer}}),
                .count = json.optional<int>("count", 1)};
    json.expect(!group.name.empty() && group.name.size() <= 100, "name", "1 to 100 characters");
    if (json.has("count"))
      json.expect(group.count >= 1 && group.count <= kMostMachinesOfScenario, "count", "1 to 20000 machines");
    effective["count"] = group.count;
    if (group.role == Role::kParameterServer && json.has("colocated_with")) {
      (void)json.required<std::string>("colocated_with");  // find_host() looks it up when all groups are known
      know_keys(json, {"instance", "region", "market", "zone", "spot_pool", "faults", "disk", "standby", "replacement",
                       "joins_at", "leaves_at", "workers_per_machine", "batch_per_worker", "power_limit", "step_time"});
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
    read_domain(json, group, effective);
    read_power(json, group);
    if (json.has("faults"))
      group.faults = read_machine_faults(json.child("faults"), group.accelerator ? group.instance.accelerators : 0);
    if (json.has("replacement")) (void)json.child("replacement");  // read when all groups are known
    if (group.role != Role::kWorker)
      know_keys(json, {"joins_at", "leaves_at", "workers_per_machine", "batch_per_worker", "step_time"});
    json.reject_unknown_keys();
    return group;
  }

  /// By default as many machines share an NVSwitch as hold the GPUs of the interconnect's domain.
  static void read_domain(const JsonReader& json, Group& group, Json& effective) {
    const int gpus = group.instance.accelerators;
    int domain = group.interconnect.nvlink_domain;
    if (json.has("nvlink_domain")) {
      domain = json.required<int>("nvlink_domain");
      json.expect(group.role == Role::kWorker && group.interconnect.nvswitch && group.interconnect.nvlinks.empty(),
                  "nvlink_domain",
                  "none but for workers whose \"interconnect\" has an \"nvswitch\" and no \"nvlinks\"");
      json.expect(domain >= gpus && domain <= kMostNvlinkGpus && domain % gpus == 0, "nvlink_domain",
                  "a multiple of the " + std::to_string(gpus) + " GPUs of a machine, at most 576");
    }
    if (group.role != Role::kWorker || domain <= gpus) return;
    group.machines_per_domain = domain / gpus;
    effective["nvlink_domain"] = group.machines_per_domain * gpus;
  }

  /// What its GPUs may draw, and how long their step was measured to take then.
  static void read_power(const JsonReader& json, Group& group) {
    if (json.has("power_limit")) {
      json.expect(group.role == Role::kWorker, "power_limit", "none but for workers");
      group.power_limit_w = read_limit(json, *group.accelerator);
    }
    if (group.role != Role::kWorker || !json.has("step_time")) return;
    const JsonReader step = json.child("step_time");
    group.step_time = {.time = step.required<Seconds>("time"), .power_limit_w = group.accelerator->power_w};
    step.expect(group.step_time->time > Seconds{}, "time", "a time above 0s");
    if (step.has("power_limit")) group.step_time->power_limit_w = read_limit(step, *group.accelerator);
    step.reject_unknown_keys();
  }

  static double read_limit(const JsonReader& json, const Accelerator& gpu) {
    json.expect(has_board_power(gpu), "power_limit",
                "none for " + gpu.name + ", whose entry does not state \"power\", \"process_nm\" and \"memory_kind\"");
    std::array<char, 64> range{};
    std::snprintf(range.data(), range.size(), "%.4gW to %.4gW, as the board of ", least_power_limit(gpu), gpu.power_w);
    const double watts = read_watts(json, "power_limit");
    json.expect(watts >= least_power_limit(gpu) && watts <= gpu.power_w, "power_limit", range.data() + gpu.name);
    return watts;
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
      json.expect(json.child("replay").is_array(), "replay", "the name of a file or an array of events");
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
    prices.expect(prices.is_string() || prices.is_object(), "a name or an object");
    const auto history = std::make_shared<const PriceHistory>(
        prices.is_string() ? catalog_.price_history(prices.as<std::string>(), prices) : read_price_history(prices));
    effective_["prices"] = to_json(*history, wanted);
    for (std::size_t g = 0; g < scenario_.groups.size(); ++g) {
      const Group& group = scenario_.groups[g];
      if (group.market != Market::kSpot || group.colocated_with >= 0) continue;
      if (const std::string nearest = nearest_zone(*history, group); !nearest.empty())
        json.children("groups")[g].fail("zone", "expected a zone with prices of " + group.instance.name +
                                                    " in the price history; the nearest is " + in_quotes(nearest) +
                                                    "; found " + in_quotes(group.zone));
      warn_about_prices(*history, group);
    }
    scenario_.costs = CostModel{history, scenario_.start_utc.value()};
  }

  /// Of a stated zone without prices of the machine: the one with most of its letters that has some. Empty: it has, or none has.
  static std::string nearest_zone(const PriceHistory& history, const Group& group) {
    if (group.zone.empty() || history.find(group.zone, group.instance.name) != nullptr) return {};
    std::string nearest;
    std::ptrdiff_t most = -1;
    for (const auto& [place, prices] : history.series) {
      const auto& [zone, instance] = place;
      if (instance != group.instance.name) continue;
      const std::ptrdiff_t same = std::ranges::mismatch(zone, group.zone).in1 - zone.begin();
      if (std::exchange(most, std::max(most, same)) < same) nearest = zone;
    }
    return nearest;
  }

  void warn_about_prices(const PriceHistory& history, const Group& group) {
    const std::string what = " of " + group.instance.name + " in zone " + in_quotes(group.zone);
    const PriceSeries* series = history.find(group.zone, group.instance.name);
    if (series == nullptr)
      scenario_.warnings.push_back("the price history has no prices" + what + ": the list price applies");
    else if (const std::string doubt = series->doubt_at(scenario_.start_utc.value()); !doubt.empty())
      scenario_.warnings.push_back("the price history" + what + " " + doubt + ": its nearest price applies");
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

  const JsonReader& json_;
  const Catalog& catalog_;
  Scenario& scenario_;
  Json& effective_;
  PoolOrigins pool_origins_;
};

}  // namespace

PoolOrigins read_cluster(const JsonReader& json, const Catalog& catalog, Scenario& scenario, Json& effective) {
  return ClusterReader{json, catalog, scenario, effective}.read();
}

}  // namespace rehearse
