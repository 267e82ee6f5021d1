#include "sim/plan/goal_machines.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/pool_origin.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/degrees.hpp"
#include "sim/scenario/cluster_variants.hpp"
#include "sim/scenario/find_model.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/strategy.hpp"

namespace rehearse {

bool is_board(const std::vector<std::string>& asked, const std::string& gpu) {
  return asked.empty() || std::ranges::any_of(asked, [&](const std::string& name) {
           return gpu == name || gpu.starts_with(name + " ");
         });
}

namespace {

JsonReader asked_by_option(const std::string& option) {
  static const Json nothing = Json::object();
  return JsonReader{nothing, option};
}

/// The price that holds anywhere, or else that of the first region that has one.
std::pair<std::optional<double>, std::string> price_of(const Instance& instance, bool is_spot) {
  if (const auto any = is_spot ? instance.usd_per_hour_spot : instance.usd_per_hour_on_demand) return {any, {}};
  for (const RegionalPrice& price : instance.prices)
    if (price.is_spot == is_spot) return {price.usd_per_hour, price.regions.front()};
  return {};
}

/// A region of the provider's, for links between its machines.
std::string home_of(const std::string& provider) {
  if (provider == "aws") return "us-east-1";
  if (provider == "gce") return "us-central1";
  if (provider == "azure") return "eastus";
  return "room";
}

std::vector<int> counts_of(const MachineFilter& filter, const std::string& instance, int gpus_each) {
  if (const auto stated = filter.numbers.find(instance); stated != filter.numbers.end()) return stated->second;
  if (filter.gpu_count) {
    const int count = *filter.gpu_count / gpus_each;
    const bool is_possible = *filter.gpu_count % gpus_each == 0 && count <= kMostMachinesOfScenario;
    return is_possible ? std::vector{count} : std::vector<int>{};
  }
  std::vector<int> counts;
  const int most = std::min(*filter.most_gpus / gpus_each, kMostMachinesOfScenario);
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  if (most > 0) counts.push_back(most);
  return counts;
}

bool is_named(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

void check_names(const Catalog& catalog, const MachineFilter& filter) {
  const std::vector<std::string> gpus = catalog.accelerator_names();
  for (const std::string& name : filter.gpus)
    if (std::ranges::none_of(gpus, [&](const std::string& gpu) { return is_board({name}, gpu); }))
      throw InputError{"--gpu: " + unknown_name_message("GPU", name, gpus)};
  for (const std::string& name : filter.instances)
    if (read_instance(name, catalog.instance(name, asked_by_option("--instance"))).accelerators == 0)
      throw InputError{"--instance: expected machines with GPUs; found " + in_quotes(name) + ", which has none"};
}

}  // namespace

std::string MachineChoice::text() const {
  return std::to_string(count) + " x " + instance + (is_spot ? ", spot" : "") + " (" + std::to_string(gpus) + " " +
         gpu + ")";
}

namespace {

/// What was asked for by name and is none of the machines in question.
std::vector<std::string> unmatched_names(const MachineFilter& filter, const std::vector<MachineChoice>& choices) {
  std::vector<std::string> unmatched;
  for (const std::string& gpu : filter.gpus)
    if (std::ranges::none_of(choices, [&](const MachineChoice& choice) { return is_board({gpu}, choice.gpu); }))
      unmatched.push_back(
          "GPU " + in_quotes(gpu) +
          ": no machine of the catalogs with it is of these instances, providers, markets and numbers and has a price");
  for (const std::string& instance : filter.instances)
    if (std::ranges::find(choices, instance, &MachineChoice::instance) == choices.end())
      unmatched.push_back("instance " + in_quotes(instance) + ": it is not of these GPUs, providers and numbers");
  return unmatched;
}

}  // namespace

std::vector<MachineChoice> machine_choices(const Catalog& catalog, const MachineFilter& filter,
                                           std::vector<std::string>* unmatched) {
  check_names(catalog, filter);
  std::vector<MachineChoice> choices;
  std::set<std::string> providers, sizes;
  for (const std::string& name : catalog.instance_names()) {
    const Instance instance = read_instance(name, catalog.instance(name, asked_by_option("--instance")));
    if (!instance.provider.empty()) providers.insert(instance.provider);
    if (instance.accelerators == 0 || !is_named(filter.instances, name) || !is_board(filter.gpus, instance.accelerator))
      continue;
    if (!filter.providers.empty() && !is_named(filter.providers, instance.provider)) continue;
    for (const bool is_spot : filter.are_spot) {
      const auto [usd, region] = price_of(instance, is_spot);
      if (!usd && filter.instances.empty()) continue;
      sizes.insert(std::to_string(instance.accelerators));
      for (const int count : counts_of(filter, name, instance.accelerators))
        choices.push_back({.instance = name,
                           .count = count,
                           .is_spot = is_spot,
                           .gpus = count * instance.accelerators,
                           .gpu = instance.accelerator,
                           .usd_per_hour = usd,
                           .region = region.empty() ? home_of(instance.provider) : region});
    }
  }
  for (const std::string& name : filter.providers)
    if (!providers.contains(name))
      throw InputError{
          "--provider: " +
          unknown_name_message("provider", name, std::vector<std::string>{providers.begin(), providers.end()})};
  if (unmatched != nullptr) *unmatched = unmatched_names(filter, choices);
  if (!choices.empty()) return choices;
  if (sizes.empty())
    throw InputError{
        "no machine of the catalogs is of these GPUs, instances, providers and markets and has a price: see "
        "rehearse list instances"};
  const int asked = filter.gpu_count.value_or(filter.most_gpus.value_or(0));
  throw InputError{(filter.gpu_count ? "--gpus: expected those of 1 to 20000 machines, a multiple of "
                                     : "--max-gpus: expected at least the GPUs of a machine, ") +
                   joined(sizes, " or ") + "; found " + std::to_string(asked)};
}

Json& only_workers(Json& scenario, const std::string& file_name) {
  Json* found = nullptr;
  int workers = 0;
  for (Json& group : scenario["cluster"]["groups"])
    if (group.value("role", "") == "worker" && ++workers == 1) found = &group;
  if (workers != 1)
    throw InputError{file_name + ": /cluster/groups: expected one group of workers; found " + std::to_string(workers) +
                     ": plans are searched for alike machines"};
  return *found;
}

namespace {

bool is_server(const Json& group) { return group.value("role", "") == "parameter_server"; }

/// The machine without GPUs of the provider whose NICs cost least.
std::string cheapest_server(const Catalog& catalog, const std::string& provider) {
  std::string best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& name : catalog.instance_names()) {
    const Instance instance = read_instance(name, catalog.instance(name, asked_by_option("--server")));
    if (instance.accelerators > 0 || instance.provider != provider) continue;
    const auto usd = price_of(instance, false).first;
    if (!usd || *usd / instance.all_nics().value() >= least) continue;
    least = *usd / instance.all_nics().value();
    best = name;
  }
  if (best.empty())
    throw InputError{"--server: expected the machine of parameter servers: the catalogs have none without GPUs " +
                     (provider.empty() ? std::string{"whose provider is unknown"} : "of " + provider) +
                     " that has a price"};
  return best;
}

/// Where the catalog does not know what joins machines of the region, or it is RDMA.
void link_machines(Json& network, const std::string& region, bool is_rdma, const Catalog& catalog) {
  if (is_rdma || catalog.region_link(region, region) == nullptr)
    network["links"].push_back({{"from", region},
                                {"to", region},
                                {"latency", is_rdma ? "15us" : "50us"},
                                {"source", "assumption for machines in one placement group"}});
}

/// Of the machines of a group; empty: nobody says.
std::string provider_of(const Json& group, const Catalog& catalog) {
  const Json none = Json::object();
  const Json& instance = group.contains("instance") ? group["instance"] : none;
  if (instance.is_object()) return instance.value("provider", "");
  const std::string name = instance.get<std::string>();
  return read_instance(name, catalog.instance(name, asked_by_option("--instance"))).provider;
}

}  // namespace

void set_machines(Json& scenario, const MachineChoice& machines, const Catalog& catalog, const std::string& file_name) {
  Json& group = only_workers(scenario, file_name);
  const int before = group.value("count", 1);
  const std::string old_provider = provider_of(group, catalog);
  Json& groups = scenario["cluster"]["groups"];
  keep_servers_of_each(groups, before, machines.count);
  group["instance"] = machines.instance;
  group["count"] = machines.count;
  if (!group.contains("region")) group["region"] = machines.region;
  if (machines.is_spot)
    group["market"] = "spot";
  else
    group.erase("market");
  const std::string provider = provider_of(group, catalog);
  if (provider == old_provider || old_provider.empty() || provider.empty()) return;
  const std::string region = home_of(provider);
  for (Json& each : groups) {
    if (!each.contains("region")) continue;
    each["region"] = region;
    each.erase("zone");
  }
  Json& network = scenario["cluster"]["network"];
  if (network.is_null()) network = Json::object();
  link_machines(network, region, false, catalog);
}

namespace {

struct StrategyWord {
  const char *word, *kind, *synchronization;  // the latter of servers
  bool sends_gradients = true;
};
constexpr StrategyWord kStrategyWords[] = {{"all_reduce", "all_reduce", ""},
                                           {"synchronous_servers", "parameter_server", "synchronous"},
                                           {"asynchronous_servers", "parameter_server", "asynchronous"},
                                           {"pairwise_averaging", "pairwise_averaging", "", false}};

/// What strategies other than this one state of a training.
constexpr const char* kKeysOfOthers[] = {"recovery", "smaller_cluster", "start_interval", "share_variation", "control"};

}  // namespace

std::vector<std::string> strategy_words() {
  std::vector<std::string> words;
  for (const StrategyWord& each : kStrategyWords) words.emplace_back(each.word);
  return words;
}

void set_strategy(Json& scenario, const std::string& word, const Catalog& catalog, const std::string& file_name) {
  const auto* asked = std::ranges::find(kStrategyWords, word, &StrategyWord::word);
  if (asked == std::end(kStrategyWords))
    throw InputError{"--strategy: " + unknown_name_message("strategy", word, strategy_words())};
  const std::string synchronization = asked->synchronization;
  Json& training = scenario["training"];
  Json& before = training["strategy"];
  if (before.value("kind", "") == asked->kind && before.value("synchronization", "") == synchronization) return;
  const bool had_servers = before.contains("synchronization"), has_servers = !synchronization.empty();
  Json strategy{{"kind", asked->kind}};
  if (asked->sends_gradients && before.contains("gradient_precision"))
    strategy["gradient_precision"] = before["gradient_precision"];
  if (has_servers) strategy["synchronization"] = synchronization;
  if (has_degrees(Json{{"training", {{"strategy", strategy}}}})) strategy["algorithm"] = "library";
  before = std::move(strategy);
  for (const char* key : kKeysOfOthers) training.erase(key);
  Json& groups = scenario["cluster"]["groups"];
  const Json workers = only_workers(scenario, file_name);
  if (had_servers && !has_servers) groups = Json::array({workers});
  if (had_servers || !has_servers) return;
  groups.push_back({{"name", "servers"}, {"role", "parameter_server"}, {"count", 1}, {"region", workers["region"]}});
  Json& network = scenario["cluster"]["network"];
  if (network.is_null()) network = Json::object();
  if (!network.contains("links")) link_machines(network, workers["region"].get<std::string>(), false, catalog);
}

void choose_server(Json& scenario, const std::string& server, const Catalog& catalog, const std::string& file_name) {
  if (!server.empty()) (void)catalog.instance(server, asked_by_option("--server"));
  const std::string provider = provider_of(only_workers(scenario, file_name), catalog);
  for (Json& group : scenario["cluster"]["groups"]) {
    if (!is_server(group) || group.contains("colocated_with")) continue;
    const bool is_elsewhere =
        !group.contains("instance") || (!provider.empty() && provider_of(group, catalog) != provider);
    if (!server.empty())
      group["instance"] = server;
    else if (is_elsewhere)
      group["instance"] = cheapest_server(catalog, provider);
  }
}

std::vector<int> server_counts(const Json& scenario, int workers) {
  const Json& groups = scenario["cluster"]["groups"];
  const Json* servers = nullptr;
  for (const Json& group : groups) {
    if (!is_server(group)) continue;
    if (servers != nullptr || group.contains("colocated_with")) return {};
    servers = &group;
  }
  if (servers == nullptr) return {};
  std::set<int> counts{servers->value("count", 1)};
  for (int count = 1; count <= std::max(1, workers / 2); count *= 2) counts.insert(count);
  return {counts.begin(), counts.end()};
}

void set_servers(Json& scenario, int machines) {
  for (Json& group : scenario["cluster"]["groups"])
    if (is_server(group)) group["count"] = machines;
}

void set_revocations(Json& scenario, const std::string& pool) {
  for (Json& group : scenario["cluster"]["groups"])
    if (group.value("market", "") == "spot") group["spot_pool"] = pool;
  if (!has_degrees(scenario)) return;
  Json& training = scenario["training"];
  if (!training.contains("checkpoint"))
    training["checkpoint"] = {{"interval", "young_daly"}, {"fixed_time", "5s"}, {"rate", "500MBps"}};
  if (!training.contains("recovery"))
    training["recovery"] = {{"lost_worker", "restart"}, {"timeout", "30s"}, {"restart_time", "60s"}};
}

void check_spot_pool(const Catalog& catalog, const std::string& pool) {
  (void)catalog.spot_pool(pool, asked_by_option("--spot-pool"));
}

std::vector<std::string> pools_of_gpu(const Catalog& catalog, const std::string& gpu) {
  std::vector<std::string> pools;
  for (const std::string& name : catalog.spot_pool_names()) {
    std::string of = read_pool_origin(catalog.spot_pool(name, asked_by_option("--spot-pool"))).accelerator;
    std::ranges::transform(of, of.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (!of.empty() && is_board({of}, gpu)) pools.push_back(name);
  }
  return pools;
}

Json scenario_of_model(const std::string& model, const MachineChoice& machines, const Catalog& catalog) {
  const JsonReader by = asked_by_option("--model");
  const Instance instance = read_instance(machines.instance, catalog.instance(machines.instance, by));
  const Accelerator gpu = read_accelerator(machines.gpu, catalog.accelerator(machines.gpu, by));
  const char* precision = gpu.peak_bf16 > FlopsPerSecond{} ? "bf16" : gpu.peak_fp16 > gpu.peak_fp32 ? "fp16" : "fp32";
  const FoundModel found = find_model(model, by, catalog);
  const Json* family = json_pointer_find(found.json.value(), "/structure/family");
  Json strategy{{"kind", "all_reduce"}, {"algorithm", "library"}};
  if (family != nullptr && *family == "transformer" && std::string_view{precision} != "fp32")
    strategy["gradient_precision"] = "fp32";
  Json group{{"name", "machines"},
             {"role", "worker"},
             {"instance", machines.instance},
             {"count", machines.count},
             {"region", machines.region}};
  if (machines.is_spot) group["market"] = "spot";
  Json network = Json::object();
  if (machines.count > 1)
    link_machines(network, machines.region, instance.transport == NetworkTransport::kRdma, catalog);
  return Json{
      {"format", 1},
      {"name", model},
      {"workload", {{"model", model}, {"batch_per_worker", 1}, {"optimizer", "adam"}, {"precision", precision}}},
      {"cluster", {{"groups", Json::array({group})}, {"network", network}}},
      {"training", {{"strategy", std::move(strategy)}, {"steps", 2}}},
      {"calibration", "auto"}};
}

}  // namespace rehearse
