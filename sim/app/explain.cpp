#include "sim/app/explain.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/app/estimate.hpp"
#include "sim/app/output/document.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/program/reductions.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/gpu_power.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// What a worker exchanges in a step, and when.
std::string exchange_text(const Scenario& scenario) {
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const StrategyKind& strategy = *scenario.training.strategy.kind;
  std::string text = strategy.explain(scenario);
  if (strategy.exchanges_models()) return text;
  switch (exchange.overlap) {
    case Overlap::kNone:
      text += "; after the backward pass";
      break;
    case Overlap::kBackward:
      text += "; during the backward pass";
      break;
    case Overlap::kForward:
      text += "; during the backward pass and the next forward pass";
      break;
  }
  if (exchange.order == Order::kPriority) text += ", what is needed first goes first";
  if (exchange.cycle_time)
    text += ", fused every " + to_text(*exchange.cycle_time) +
            (exchange.bucket_size ? " up to " + to_text(*exchange.bucket_size) : "");
  return text;
}

/// "8 GPUs per machine (dgx-1-v100): PCIe 12GBps, 48GBps for all of them; 16 pairs with NVLinks of 25GBps".
std::string interconnect_text(const Group& group) {
  const Interconnect& inside = group.interconnect;
  std::string text = std::to_string(group.instance.accelerators) + " GPUs per machine";
  if (!inside.name.empty()) text += " (" + inside.name + ")";
  text += ": PCIe " + to_text(inside.pcie) + " each";
  if (inside.pcie_root)
    text += ", " + to_text(*inside.pcie_root) + " for " +
            (inside.gpus_per_root > 0 ? "each " + std::to_string(inside.gpus_per_root) : "all") + " of them";
  if (inside.socket_link)
    text += ", " + to_text(*inside.socket_link) + " between each " + std::to_string(inside.gpus_per_socket) +
            " and the others";
  if (!inside.nvlinks.empty())
    text += "; " + std::to_string(inside.nvlinks.size()) + " pairs with NVLinks of " + to_text(inside.nvlink_rate);
  if (inside.nvswitch) text += "; NVSwitch, " + to_text(*inside.nvswitch) + " each";
  return text;
}

/// "fat_tree: leaf switches ...: machines_per_leaf 4, oversubscription 2, uplinks 1".
std::string fabric_text(const Scenario& scenario) {
  const Json fabric = to_json(scenario.fabric);
  const auto name = fabric["topology"].get<std::string>();
  std::string text = name;
  for (const auto& [known, description] : list_fabrics())
    if (known == name) text += ", " + description;
  const char* separator = ": ";
  for (const auto& [key, value] : fabric.items()) {
    if (key == "topology") continue;
    text += separator + key + " " + (value.is_string() ? value.get<std::string>() : value.dump());
    separator = ", ";
  }
  if (scenario.hop_latency) text += "; " + to_text(*scenario.hop_latency) + " one way on each link";
  if (scenario.loses_packets()) {
    const TcpParameters& tcp = scenario.tcp;
    text += "; " + to_text(100 * scenario.packet_loss) + " % of packets that leave a machine are lost: TCP with " +
            to_text(tcp.segment) + " in each, " + name_in(kCongestionControls, tcp.congestion) + ", " +
            name_in(kLossRecoveries, tcp.recovery) + ", time-outs from " + to_text(tcp.minimum_timeout) + ", " +
            std::to_string(tcp.connections) + (tcp.connections == 1 ? " connection" : " connections") + " a message";
  }
  return text;
}

/// Why so many messages take so little time.
std::string reductions_text(const Scenario& scenario, const SimulateOptions& options) {
  const Reductions reductions = plan_reductions(scenario, options.is_exact, options.keeps_activity);
  std::string text;
  const auto add = [&text](bool applies, const char* what) {
    if (applies) text += (text.empty() ? ", since " : ", ") + std::string{what};
  };
  add(reductions.times_collectives && workers_per_model(scenario) == 1, "an all-reduce is one event");
  add(reductions.folds_workers, "equal workers run once");
  add(reductions.folds_machines, "equal machines run once");
  add(!reductions.folds_machines && reductions.fold, "equal pipelines run once");
  add(reductions.skips_steady_state, "equal steps are not repeated");
  return text;
}

}  // namespace

namespace {

/// Mean of the first hour.
std::optional<double> hourly_price(const Scenario& scenario, const Group& group) {
  return scenario.costs.usd_per_hour(group.instance, group.market == Market::kSpot, group.zone, Seconds{},
                                     Seconds{3600});
}

/// Integral of the survival: steps that grow from a second to 60 days.
Seconds mean_lifetime(const Lifetime& lifetime) {
  constexpr double kFirst = 1, kGrowth = 1.05, kHorizon = 60 * 86400.0;
  double mean = 0;
  for (double age = 0, step = kFirst; age < kHorizon; age += step, step *= kGrowth)
    mean += step * lifetime.survival(Seconds{age + step / 2});
  return Seconds{mean};
}

/// How often machines go by themselves, and whether the job can keep up with it.
std::string revocations_text(const Scenario& scenario) {
  double per_second = 0;
  for (const Group& group : scenario.groups)
    if (group.faults)
      per_second += group.count * group.faults->rate();
    else if (group.pool && !group.is_standby)
      per_second += group.count / mean_lifetime(group.pool->lifetime).value();
  if (!(per_second > 0)) return {};
  const Recovery& recovery = scenario.training.recovery;
  const bool restarts = recovery.lost_worker == Recovery::LostWorker::kRestart;
  const bool continues = recovery.lost_worker == Recovery::LostWorker::kContinue;
  const Seconds interval{1 / per_second};
  const Seconds stands_still = continues ? Seconds{} : restarts ? recovery.restart_time : recovery.timeout;
  std::string text;
  const bool fail = std::ranges::any_of(scenario.groups, [](const Group& group) { return group.faults.has_value(); });
  text += formatted("about one %s every %.3g s; how often the job starts again is not in the estimate\n",
                    fail ? "fault or revocation" : "revocation", interval.value());
  if (interval <= stands_still)
    text += formatted(
        "after each the job stands still for %.3g s: it may never end, unless /training/recovery/give_up_after or "
        "--max-wall-time ends it\n",
        stands_still.value());
  return text;
}

/// How long machines live, what they cost, how long new ones take.
std::string market_text(const Scenario& scenario, const Group& group) {
  std::string text;
  if (const auto price = hourly_price(scenario, group))
    text += formatted("  %.4g USD per hour and machine, %s\n", *price,
                      group.market == Market::kSpot ? "spot" : "on demand");
  if (group.replay) text += formatted("  revoked as in a recorded fleet of %zu events\n", group.replay->events.size());
  if (const auto& faults = group.faults)
    text += formatted(
        "  a machine fails every %.4g h, all %d together every %.4g h; %.4g %% are repaired for %.4g h; %d spares\n",
        faults->between.mean() / kHour, group.count, 1 / (faults->rate() * group.count) / kHour.value(),
        100 * faults->repair_share, faults->repair / kHour, faults->spares);
  if (group.pool) {
    const Lifetime& lifetime = group.pool->lifetime;
    text +=
        formatted("  spot pool %s: revoked by themselves within 1 h %.1f %%, 6 h %.1f %%, 24 h %.1f %%; notice %s%s\n",
                  group.pool->name.c_str(), 100 * (1 - lifetime.survival(Seconds{3600})),
                  100 * (1 - lifetime.survival(Seconds{6 * 3600.0})), 100 * (1 - lifetime.survival(Seconds{86400})),
                  to_text(group.pool->notice).c_str(), group.pool->bulk ? "; bulk revocations besides" : "");
    if (const auto& churn = group.pool->churn)
      text += formatted(
          "  in churn, %.3g %% of the time, about %.3g h at a time, all revocations come %.3g times as fast\n",
          100 * churn->share(), churn->churn_mean / Seconds{3600}, churn->factor);
    text += "  source: " + group.pool->source + "\n";
    if (const auto startup = startup_of(scenario, group))
      text += formatted("  a new machine runs after %.3g s on average, its framework after another %.3g s\n",
                        startup->mean().value(),
                        startup->framework.time(scenario.workload.trainable_tensors(), true).value());
  }
  return text;
}

std::string gpu_text(const Scenario& scenario, const Group& group) {
  std::string text;
  const Accelerator& gpu = *group.accelerator;
  const ComputePlan plan = plan_step(scenario, group);
  const bool by_kernels = scenario.profile.kernels != nullptr;
  const Seconds dispatch =
      by_kernels ? scenario.profile.framework(scenario.framework).dispatch : scenario.profile.host.dispatch;
  const BoardPower board = board_power(scenario, group);
  std::string limit;
  if (group.power_limit_w) limit += formatted(", limited to %.4g W", *group.power_limit_w);
  text += formatted("GPU %s: peak %s, memory %s, ", gpu.name.c_str(), to_text(scenario.peak_of(gpu)).c_str(),
                    to_text(gpu.memory_bandwidth).c_str());
  if (by_kernels)
    text += "kernels by their shapes: ";
  else
    text += formatted("e_max %.3g: ", scenario.profile.gpu.efficiency_for(gpu.name));
  text += formatted("one step computes for %.2f ms in %zu kernels; dispatching them takes %.2f ms\n",
                    plan.gpu_time.value() * 1e3, plan.kernels.size(),
                    dispatch.value() * 1e3 * static_cast<double>(plan.kernels.size()));
  if (plan.load > Seconds{})
    text += formatted("  its loaders take %.2f ms for a batch, %s\n", plan.load.value() * 1e3,
                      plan.loads_ahead ? "while the one before computes" : "before it computes");
  if (has_board_power(gpu))
    text +=
        formatted("  board of %.4g W%s: %.3g W at rest; kernels and update of a step draw %.4g J besides (%s, %d nm)\n",
                  gpu.power_w, limit.c_str(), board.rest_w(),
                  step_energy(plan, scenario.training.strategy.exchange.accumulation_steps), gpu.memory_kind.c_str(),
                  gpu.process_nm);
  return text;
}

}  // namespace

namespace {

/// What adapters between machines mean for collectives of a library.
std::string adapter_text(const Scenario& scenario, const Group& group) {
  if (group.role != Role::kWorker || scenario.islands().size() == 1) return "";
  std::vector<std::string> facts;
  if (!group.instance.is_in_order)
    facts.emplace_back("written out of order, so of a library's protocols those without flags in the data");
  if (group.instance.plugin_latency > Seconds{})
    facts.push_back("the library expects " + to_text(group.instance.plugin_latency) +
                    " more for a message when it chooses");
  return facts.empty() ? "" : "  between machines: " + joined(facts, "; ") + "\n";
}

/// How much of the products is in 8 or 4 bits, and what casts read and write for it.
std::string explain_fp8(const Scenario& scenario) {
  Flops all{}, of_casts{};
  Bytes cast{}, of_weights{}, transposed{};
  for (const OperatorAt op : scenario.workload.graph) {
    all += op->flops;
    if (op->factor_bits > 0) of_casts += op->flops;
    if (!op->is_cast) continue;
    (op->serves_all_passes ? of_weights : cast) += op->bytes_read + op->bytes_written;
    if (!op->serves_all_passes) transposed += op->transposed;
  }
  const Fp8 recipe = scenario.model.fp8;
  std::string text;
  text += formatted("  %.1f %% of the FLOPs in %s, recipe \"%s\": casts read and write %s of each batch, and %s %s",
                    100 * (of_casts / all), computed_in(scenario).c_str(), name_in(kFp8Recipes, recipe).c_str(),
                    gibibytes(cast).c_str(), gibibytes(transposed).c_str(),
                    "more where units want transposed copies (all but Blackwell's)");
  if (of_weights > Bytes{})
    text += formatted("; those of weights %s, once in a step unless they are sharded", gibibytes(of_weights).c_str());
  return text + "\n";
}

}  // namespace

std::string explain(const Scenario& scenario) {
  std::string text;
  const Workload& workload = scenario.workload;
  text += formatted(
      "model %s: %lld parameters in %d tensors, %zu variables, %.4g GFLOP per sample (forward and backward)\n",
      scenario.model.name.c_str(), static_cast<long long>(workload.parameters()), workload.trainable_tensors(),
      workload.variables.size(), workload.training_flops().value() / workload.batch / 1e9);
  if (const LowRankAdapters& adapters = scenario.model.adapters; adapters.rank > 0) {
    std::int64_t frozen = 0;
    for (const Variable& variable : workload.variables) frozen += variable.is_frozen ? variable.scalars() : 0;
    text += formatted("  those of adapters of rank %d, which are trained; %lld more are frozen\n", adapters.rank,
                      static_cast<long long>(frozen));
  }
  if (scenario.model.fp8 != Fp8::kNone) text += explain_fp8(scenario);
  if (const int degree = scenario.model.split.degree; degree > 1 || scenario.model.expert_split.degree > 0)
    text +=
        formatted("  that is a part: the workers that compute layers together have %lld parameters%s\n",
                  static_cast<long long>(workload.parameters_of_all(degree)), degree > 1 ? ", with padded words" : "");
  text += "  source: " + scenario.model.source + "\n";
  std::set<std::string> explained;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) {
      text += formatted("group %s: %d servers on the machines of group %s\n", group.name.c_str(), group.count,
                        scenario.groups[static_cast<std::size_t>(group.colocated_with)].name.c_str());
      continue;
    }
    text += formatted("group %s: %d x %s in %s: %d vCPU, %d NIC of %s of which %.3g is delivered\n", group.name.c_str(),
                      group.count, group.instance.name.c_str(), group.region.c_str(), group.instance.vcpus,
                      group.instance.nics, to_text(group.instance.nic).c_str(),
                      nic_payload(scenario, group) / group.instance.nic);
    text += "  source: " + group.instance.source + "\n" + adapter_text(scenario, group) + market_text(scenario, group);
    if (group.role == Role::kWorker && group.instance.accelerators > 1) {
      text += "  " + interconnect_text(group) + "\n";
      if (!group.interconnect.source.empty()) text += "  source: " + group.interconnect.source + "\n";
    }
    if (!group.accelerator || !explained.insert(group.accelerator->name).second) continue;
    const Accelerator& gpu = *group.accelerator;
    text += gpu_text(scenario, group);
    text += "  source: " + gpu.source + "\n";
  }
  text += "strategy: " + describe_strategy(scenario.training.strategy) + "; " + exchange_text(scenario) + "\n";
  text += "network: " + fabric_text(scenario) + "\n";
  for (const RegionLink& link : scenario.links) {
    text +=
        formatted("link %s - %s: %s one way%s\n", link.from.c_str(), link.to.c_str(), to_text(link.latency).c_str(),
                  link.per_flow_rate ? (", at most " + to_text(*link.per_flow_rate) + " per connection").c_str() : "");
    text += "  source: " + link.source + "\n";
  }
  const Profile& profile = scenario.profile;
  text += formatted(
      "profile %s: dispatch %s, step overhead %s; server: %s per variable, %s per byte, %s per split update\n",
      profile.name.c_str(), to_text(profile.host.dispatch).c_str(), to_text(profile.host.step_overhead).c_str(),
      to_text(profile.servers.time_per_variable).c_str(), to_text(profile.servers.time_per_byte).c_str(),
      to_text(profile.servers.time_per_split_update).c_str());
  text += "  source: " + profile.source + "\n";
  return text;
}

namespace {

/// Of all machines that are rented from the start; none if a price is unknown.
std::optional<double> usd_per_hour(const Scenario& scenario) {
  double price = 0;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0 || group.is_standby)
      continue;  // on machines that are paid for already; not rented yet
    const auto own = hourly_price(scenario, group);
    if (!own) return {};
    price += *own * group.count;
    if (group.disk_price) price += storage_usd(*group.disk_price, group.disk, Seconds{3600}) * group.count;
  }
  return price;
}

}  // namespace

std::string describe_dry_run(const Scenario& scenario, const SimulateOptions& options, const ExpectedRun& run,
                             Seconds interval) {
  std::string text;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const GpuMemory memory = gpu_memory(scenario, group);
    text += formatted("GPU memory of %s: %.2f of %.2f GiB on %s\n", group.name.c_str(), gib(memory.total()),
                      gib(group.accelerator->memory), with_article(group.accelerator->name).c_str());
    text += "  " + describe_parts(memory) + "\n";
    if (const std::string moment = describe_moment(memory); !moment.empty())
      text += "  the most is held " + moment + "\n";
  }
  std::string memory;
  if (const Bytes needed = expected_memory(scenario, options); needed > Bytes{100'000'000})
    memory += formatted(" and at least %.2g GB of memory", as_double(needed) / 1e9);
  text += formatted("%lld steps of %d workers%s, %.3g messages; the simulation takes about %.2g s%s%s%s\n",
                    static_cast<long long>(scenario.training.steps), scenario.count(Role::kWorker),
                    scenario.training.strategy.is_synchronous() ? ", all in each" : "", run.messages,
                    (run.duration + interval).value(), memory.c_str(),
                    interval > Seconds{} ? ", its interval included" : "", reductions_text(scenario, options).c_str());
  text += revocations_text(scenario);
  if (const auto price = usd_per_hour(scenario))
    text += formatted("the cluster costs %.4g USD per hour\n", *price);
  else
    text += "the cluster's cost is unknown: an instance has no price\n";
  return text;
}

Json dry_run_json(const Scenario& scenario, const SimulateOptions& options, const ExpectedRun& run, Seconds interval) {
  Json json{{"format", 1}, {"name", scenario.name}, {"seed", scenario.seed}};
  add_gpu_memory(scenario, json);
  Json groups = Json::array();
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const GpuMemory memory = gpu_memory(scenario, group);
    Json of_group{{"name", group.name},
                  {"accelerator", group.accelerator->name},
                  {"gpu_memory_available_B", group.accelerator->memory.value()}};
    add_gpu_memory(memory, of_group);
    groups.push_back(std::move(of_group));
  }
  json["groups"] = std::move(groups);
  json["steps"] = scenario.training.steps;
  json["workers"] = scenario.count(Role::kWorker);
  json["messages"] = run.messages;
  json["simulation_time_s"] = (run.duration + interval).value();
  json["simulation_memory_B"] = expected_memory(scenario, options).value();
  const auto price = usd_per_hour(scenario);
  json["usd_per_hour"] = price ? Json(*price) : Json(nullptr);
  json["warnings"] = scenario.warnings;
  return json;
}

}  // namespace rehearse
