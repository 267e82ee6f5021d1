#include "sim/queue/placement_speed.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/queue/run_queue.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

/// Machines that have so many of a job's GPUs, the most first.
std::map<int, int, std::greater<>> machines_by_gpus(const std::vector<int>& gpus) {
  std::map<int, int, std::greater<>> machines;
  for (const int of_machine : gpus) ++machines[of_machine];
  return machines;
}

}  // namespace

PlacementSpeeds::PlacementSpeeds(const QueueSetup& setup, const std::optional<SpeedTable>& speeds,
                                 const Catalog& catalog, const Pool& pool, ResultStore& store, std::string program,
                                 const Budget& budget)
    : setup_{setup},
      speeds_{speeds},
      catalog_{catalog},
      pool_{pool},
      store_{store},
      program_{std::move(program)},
      budget_{budget} {}

double PlacementSpeeds::of_table(const Placed& placed) const {
  const JobKind& kind = setup_.kinds[placed.kind];
  const std::string& gpu = setup_.groups[placed.group].gpu;
  const int gpus = std::accumulate(placed.gpus.begin(), placed.gpus.end(), 0);
  return speeds_->speed(kind.type, gpu, gpus, static_cast<int>(placed.gpus.size())).value_or(0);
}

void PlacementSpeeds::read_scenarios() {
  for (const JobKind& kind : setup_.kinds) {
    if (kind.scenario.empty() || scenarios_.contains(kind.scenario)) continue;
    const std::string& file = kind.scenario;
    Json scenario = load_json_file(file);
    const Json* const groups = json_pointer_find(scenario, "/cluster/groups");
    if (!groups || !groups->is_array() || groups->empty() || !groups->front().is_object())
      throw InputError{file + ": /cluster/groups: expected groups, of whose machines the queue's take the place"};
    for (const Json& group : *groups)
      if (!group.is_object() || group.value("role", Json{}) != "worker")
        throw InputError{file +
                         ": /cluster/groups: expected workers alone, whose machines the queue's take the place of"};
    read_scenario(scenario, file, catalog_);  // what is wrong with it on its own machines is no matter of a placement
    scenarios_.emplace(file, std::move(scenario));
  }
}

/// A machine of the group with as many GPUs as the job has, and the NICs that are theirs.
Json PlacementSpeeds::placed_instance(const Placed& placed, int gpus) const {
  const std::string& name = setup_.groups[placed.group].instance;
  const JsonReader asked{scenarios_.at(setup_.kinds[placed.kind].scenario), setup_.kinds[placed.kind].scenario};
  const JsonReader whole = catalog_.instance(name, asked);
  const int nics = whole.optional<int>("nics", 1);
  const int nics_for_a_gpu = nics / whole.required<int>("accelerators");
  Json instance = whole.value();
  instance["name"] = name + " with " + std::to_string(gpus);
  instance["accelerators"] = gpus;
  instance["nics"] = nics_for_a_gpu > 0 ? gpus * nics_for_a_gpu : std::min(gpus, nics);
  if (placed.halvings > 0)
    instance["nic"] = to_text(whole.required<BytesPerSecond>("nic") * std::exp2(-placed.halvings));
  return instance;
}

/// The scenario with its groups replaced by workers on the placement's machines.
Json PlacementSpeeds::placed_scenario(const Placed& placed) const {
  Json scenario = scenarios_.at(setup_.kinds[placed.kind].scenario);
  Json groups = Json::array();
  for (const auto& [gpus, machines] : machines_by_gpus(placed.gpus)) {
    Json group = scenario["cluster"]["groups"].front();
    group["name"] = "gpus-" + std::to_string(gpus);
    group["count"] = machines;
    group["instance"] = placed_instance(placed, gpus);
    groups.push_back(std::move(group));
  }
  scenario["cluster"]["groups"] = std::move(groups);
  return scenario;
}

void PlacementSpeeds::simulate(const Placements& wanted, const std::function<void(std::size_t, std::size_t)>& on_done) {
  std::vector<std::string> texts(wanted.size());
  std::vector<std::string> errors(wanted.size());
  std::vector<std::size_t> simulated;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string& file = setup_.kinds[wanted[i].kind].scenario;
    try {
      texts[i] = kSimulate.job(read_scenario(placed_scenario(wanted[i]), file, catalog_)).text();
    } catch (const InputError& error) {
      errors[i] = error.what();  // its strategy asks of machines what is not true of this placement
      continue;
    }
    simulated.push_back(i);
  }
  const Experiment experiment{.count = simulated.size(),
                              .job = [&](std::size_t i) { return texts[simulated[i]]; },
                              .key = [&](std::size_t i) { return run_key(texts[simulated[i]], program_); },
                              .row =
                                  [&](std::size_t i) {
                                    return StoredRun{.name = setup_.kinds[wanted[simulated[i]].kind].scenario,
                                                     .parameters = "{}"};
                                  }};
  const JobLimits limits{.is_stopped = budget_.asked(), .job_wall_s = {}};
  if (!experiment.run(store_, {.pool = pool_, .on_done = on_done, .limits = limits})) budget_.stop();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    note_result(wanted[i], texts[i].empty() ? std::nullopt : store_.find(run_key(texts[i], program_)), errors[i]);
}

void PlacementSpeeds::note_result(const Placed& placed, const std::optional<StoredRun>& stored,
                                  const std::string& error) {
  const std::string file = setup_.kinds[placed.kind].scenario + ": ";
  Known& known = known_[placed];
  if (!stored || stored->summary.empty()) {
    const std::string why = stored ? stored->error : error.empty() ? "no result" : error;
    known.why_not = shortened(why.starts_with(file) ? why.substr(file.size()) : why, 300);
    return;
  }
  const Json summary = parse_json(stored->summary, "summary");
  if (const Json& speed = summary["steps_per_s"]; speed.is_number()) known.steps_per_s = speed.get<double>();
  if (const Json power = summary.value("gpu_power_w", Json{}); power.is_number())
    known.gpu_power_w = power.get<double>();
  const Json& machines = summary["machines"];  // in the order of their groups
  for (std::size_t i = 0; i < machines.size() && machines.size() == placed.gpus.size(); ++i) {
    double& use = known.nic_use[placed.gpus[i]];
    for (const char* key : {"nic_send_utilization", "nic_receive_utilization"})
      use = std::max(use, machines[i][key].get<double>());
  }
  for (const Json& warning : summary.value("warnings", Json::array()))
    warnings_.insert(file + warning.get<std::string>());
}

void PlacementSpeeds::prepare(const std::function<void(std::size_t, std::size_t)>& on_done) {
  read_scenarios();
  Placements wanted;
  for (std::size_t kind = 0; kind < setup_.kinds.size(); ++kind)
    for (std::size_t g = 0; g < setup_.groups.size(); ++g)
      if (auto on_group = packed(kind, g, setup_.kinds[kind].gpus)) wanted.push_back(std::move(*on_group));
  if (!wanted.empty()) simulate(wanted, on_done);
  for (const Placed& placed : wanted) {
    const auto runs = [&](const Placed& other) {
      return other.kind == placed.kind && known_.at(other).steps_per_s > 0;
    };
    if (std::ranges::none_of(wanted, runs))
      throw NoResultError{does_not_run(placed) + ": " + known_.at(placed).why_not};
  }
}

std::optional<PlacementSpeeds::Placed> PlacementSpeeds::packed(std::size_t kind, std::size_t group, int gpus) const {
  const QueueGroup& of = setup_.groups[group];
  if (setup_.kinds[kind].scenario.empty() || of.instance.empty() || gpus > of.gpus()) return {};
  return placed(kind, packed_placement(setup_, group, gpus));
}

std::string PlacementSpeeds::does_not_run(const Placed& placed) const {
  std::string text;
  for (const auto& [gpus, machines] : machines_by_gpus(placed.gpus)) {
    if (!text.empty()) text += " and ";
    text += std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
    if (placed.gpus.size() > 1)
      text += " of " + (machines == 1 ? "one machine" : "each of " + std::to_string(machines) + " machines");
  }
  return setup_.kinds[placed.kind].scenario + " does not run on " + text + " of group " +
         in_quotes(setup_.groups[placed.group].name);
}

std::vector<std::string> PlacementSpeeds::warnings() const {
  std::map<std::vector<std::string>, std::pair<std::string, int>> alike;  // the first placement, and how many others
  for (const auto& [placed, known] : known_) {
    if (known.why_not.empty() || placed.halvings > 0) continue;
    const auto on_group = packed(placed.kind, placed.group, std::accumulate(placed.gpus.begin(), placed.gpus.end(), 0));
    const auto replaces = on_group && *on_group != placed ? known_.find(*on_group) : known_.end();
    const bool is_replaced = replaces != known_.end() && replaces->second.steps_per_s > 0;
    const std::string reason = (is_replaced ? ", and is taken to be as fast there as packed: " : ": ") + known.why_not;
    auto& [first, others] = alike[{std::to_string(placed.kind), setup_.groups[placed.group].name, reason}];
    if (first.empty())
      first = does_not_run(placed);
    else
      ++others;
  }
  std::set<std::string> all = warnings_;
  for (const auto& [key, told] : alike) {
    const auto& [first, others] = told;
    const std::string more =
        others == 0 ? "" : " nor on " + std::to_string(others) + (others == 1 ? " other placement" : " others");
    all.insert(first + more + key.back());
  }
  return {all.begin(), all.end()};
}

PlacementSpeeds::Placed PlacementSpeeds::placed(std::size_t kind, const GpuPlacement& placement) {
  Placed placed{.kind = kind, .group = placement.group, .gpus = {}};
  for (const GpuPlacement::Part& part : placement.parts) placed.gpus.push_back(part.gpus);
  std::ranges::sort(placed.gpus, std::greater{});
  return placed;
}

const PlacementSpeeds::Known& PlacementSpeeds::known(const Placed& placed) {
  const JobKind& kind = setup_.kinds[placed.kind];
  const auto found = known_.find(placed);
  if (found != known_.end()) return found->second;
  if (!kind.type.empty()) return known_[placed] = {.steps_per_s = of_table(placed)};
  if (setup_.groups[placed.group].instance.empty()) return known_[placed] = {};
  simulate({placed}, {});
  return known_.at(placed);
}

double PlacementSpeeds::steps_per_s(std::size_t kind, const GpuPlacement& placement) {
  const JobKind& of = setup_.kinds[kind];
  if (of.type.empty() && of.scenario.empty()) return static_cast<double>(kQueueSecond);  // a step is a microsecond
  return known(placed(kind, placement)).steps_per_s * of.worth_of_step(placement.gpus());
}

std::optional<double> PlacementSpeeds::gpu_power_w(std::size_t kind, const GpuPlacement& placement) {
  if (const auto& stated = setup_.kinds[kind].gpu_power_w) return stated;
  if (setup_.kinds[kind].scenario.empty()) return {};
  const Known& there = known(placed(kind, placement));
  if (there.steps_per_s > 0) return there.gpu_power_w;
  const auto on_group = packed(kind, placement.group, placement.gpus());  // as fast as which it is taken to be
  return on_group ? known(*on_group).gpu_power_w : std::nullopt;
}

std::optional<std::vector<double>> PlacementSpeeds::nic_use(std::size_t kind, const GpuPlacement& placement) {
  if (setup_.kinds[kind].scenario.empty()) return {};
  const Known& there = known(placed(kind, placement));
  if (there.steps_per_s <= 0 || there.nic_use.empty()) return {};
  std::vector<double> use;
  for (const GpuPlacement::Part& part : placement.parts) use.push_back(there.nic_use.at(part.gpus));
  return use;
}

double PlacementSpeeds::step_s(std::size_t kind, const GpuPlacement& placement, double slowdown) {
  Placed asked = placed(kind, placement);
  const double alone_s = 1 / known(asked).steps_per_s, worth = setup_.kinds[kind].worth_of_step(placement.gpus());
  double low = 1, low_s = alone_s;
  while (slowdown > low) {
    ++asked.halvings;
    const double speed = known(asked).steps_per_s;
    const double high = 2 * low;
    const double high_s =
        speed > 0 ? std::max(low_s, 1 / speed) : low_s * 2;  // that do not run: all of it is prolonged
    if (slowdown <= high) return (low_s + (high_s - low_s) * (slowdown - low) / (high - low)) / worth;
    low = high;
    low_s = high_s;
  }
  return low_s / worth;
}

}  // namespace rehearse
