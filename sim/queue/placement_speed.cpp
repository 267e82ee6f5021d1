#include "sim/queue/placement_speed.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

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

double PlacementSpeeds::of_table(const JobKind& kind, const Shape& shape) {
  const QueueGroup& group = setup_.groups[shape.first];
  const int machines = static_cast<int>(shape.second.size());
  return speeds_->speed(kind.type, group.gpu, kind.gpus, machines).value_or(0);
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

/// The scenario with its groups replaced by workers on the machines of the shape, as many GPUs of each as the job has.
Json PlacementSpeeds::placed_scenario(std::size_t kind, const Shape& shape) const {
  const std::string& file = setup_.kinds[kind].scenario;
  Json scenario = scenarios_.at(file);
  const JsonReader asked{scenario, file};
  const Json instance = catalog_.instance(setup_.groups[shape.first].instance, asked).value();
  Json placed = Json::array();
  for (auto first = shape.second.begin(); first != shape.second.end();) {
    const auto next = std::find_if(first, shape.second.end(), [&](int gpus) { return gpus != *first; });
    Json group = scenario["cluster"]["groups"].front();
    group["name"] = "gpus-" + std::to_string(*first);
    group["count"] = next - first;
    Json part = instance;
    part["name"] = setup_.groups[shape.first].instance + " with " + std::to_string(*first);
    part["accelerators"] = *first;
    group["instance"] = std::move(part);
    placed.push_back(std::move(group));
    first = next;
  }
  scenario["cluster"]["groups"] = std::move(placed);
  return scenario;
}

void PlacementSpeeds::simulate(const std::vector<std::pair<std::size_t, Shape>>& wanted,
                               const std::function<void(std::size_t, std::size_t)>& on_done) {
  std::vector<std::string> texts(wanted.size());
  std::vector<std::string> errors(wanted.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [kind, shape] = wanted[i];
    try {
      const Json scenario = placed_scenario(kind, shape);
      texts[i] = kSimulate.job(read_scenario(scenario, setup_.kinds[kind].scenario, catalog_)).text();
    } catch (const InputError& error) {
      errors[i] = error.what();  // its strategy asks of machines what is not true of this placement
      continue;
    }
    if (!store_.is_finished(run_key(texts[i], program_))) missing.push_back(i);
  }
  const auto keep = [&](std::size_t index, const PooledRun& run) {
    const std::size_t i = missing[index];
    store_.put(run_key(texts[i], program_), {.name = setup_.kinds[wanted[i].first].scenario,
                                             .parameters = "{}",
                                             .summary = run.has_succeeded ? run.text : "",
                                             .error = run.has_succeeded ? "" : run.text,
                                             .has_died = run.has_died,
                                             .wall_s = run.wall_s});
  };
  std::size_t done = 0;
  const bool is_complete = pool_.run(
      missing.size(), [&](std::size_t index) { return texts[missing[index]]; },
      [&](std::size_t index, const PooledRun& run) {
        keep(index, run);
        if (on_done) on_done(++done, missing.size());
      },
      {.is_stopped = budget_.asked(), .job_wall_s = {}});
  if (!is_complete) budget_.stop();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [kind, shape] = wanted[i];
    const auto stored = texts[i].empty() ? std::nullopt : store_.find(run_key(texts[i], program_));
    double speed = 0;
    if (stored && !stored->summary.empty()) {
      const Json summary = parse_json(stored->summary, "summary");
      speed = summary["steps_per_s"].is_number() ? summary["steps_per_s"].get<double>() : 0;
      if (const Json power = summary.value("gpu_power_w", Json{}); power.is_number())
        gpu_power_w_[wanted[i]] = power.get<double>();
      for (const Json& warning : summary.value("warnings", Json::array()))
        warnings_.insert(setup_.kinds[kind].scenario + ": " + warning.get<std::string>());
    } else {
      const std::string file = setup_.kinds[kind].scenario + ": ";
      const std::string why = stored ? stored->error : errors[i].empty() ? "no result" : errors[i];
      why_not_[wanted[i]] = shortened(why.starts_with(file) ? why.substr(file.size()) : why, 300);
    }
    known_[wanted[i]] = speed;
  }
}

void PlacementSpeeds::prepare(const std::function<void(std::size_t, std::size_t)>& on_done) {
  read_scenarios();
  std::vector<std::pair<std::size_t, Shape>> wanted;
  for (std::size_t kind = 0; kind < setup_.kinds.size(); ++kind)
    for (std::size_t g = 0; g < setup_.groups.size(); ++g)
      if (const auto shape = packed_shape(kind, g)) wanted.emplace_back(kind, *shape);
  if (!wanted.empty()) simulate(wanted, on_done);
  for (const auto& placed : wanted)
    if (std::ranges::none_of(wanted,
                             [&](const auto& other) { return other.first == placed.first && known_.at(other) > 0; }))
      throw NoResultError{does_not_run(placed.first, placed.second) + ": " + why_not_.at(placed)};
}

std::optional<PlacementSpeeds::Shape> PlacementSpeeds::packed_shape(std::size_t kind, std::size_t group) const {
  const QueueGroup& of = setup_.groups[group];
  int left = setup_.kinds[kind].gpus;
  if (setup_.kinds[kind].scenario.empty() || of.instance.empty() || left > of.gpus()) return {};
  Shape shape{group, {}};
  for (; left > 0; left -= shape.second.back()) shape.second.push_back(std::min(left, of.gpus_per_machine));
  return shape;
}

std::string PlacementSpeeds::does_not_run(std::size_t kind, const Shape& shape) const {
  std::string gpus;
  for (auto first = shape.second.begin(); first != shape.second.end();) {
    const auto next = std::find_if(first, shape.second.end(), [&](int other) { return other != *first; });
    if (!gpus.empty()) gpus += " and ";
    const auto machines = next - first;
    gpus += std::to_string(*first) + (*first == 1 ? " GPU" : " GPUs");
    if (shape.second.size() > 1)
      gpus += " of " + (machines == 1 ? "one machine" : "each of " + std::to_string(machines) + " machines");
    first = next;
  }
  return setup_.kinds[kind].scenario + " does not run on " + gpus + " of group " +
         in_quotes(setup_.groups[shape.first].name);
}

std::vector<std::string> PlacementSpeeds::warnings() const {
  std::map<std::vector<std::string>, std::pair<std::string, int>> alike;  // the first placement, and how many others
  for (const auto& [placed, why] : why_not_) {
    const auto& [kind, shape] = placed;
    const auto packed = packed_shape(kind, shape.first);
    const auto speed = packed && *packed != shape ? known_.find({kind, *packed}) : known_.end();
    const bool is_replaced = speed != known_.end() && speed->second > 0;
    const std::string reason = (is_replaced ? ", and is taken to be as fast there as packed: " : ": ") + why;
    auto& [first, others] = alike[{std::to_string(kind), setup_.groups[shape.first].name, reason}];
    if (first.empty())
      first = does_not_run(kind, shape);
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

PlacementSpeeds::Shape PlacementSpeeds::shape_of(const GpuPlacement& placement) {
  Shape shape{placement.group, {}};
  for (const GpuPlacement::Part& part : placement.parts) shape.second.push_back(part.gpus);
  std::ranges::sort(shape.second, std::greater{});
  return shape;
}

std::optional<double> PlacementSpeeds::gpu_power_w(std::size_t kind, const GpuPlacement& placement) {
  if (const auto& stated = setup_.kinds[kind].gpu_power_w) return stated;
  if (setup_.kinds[kind].scenario.empty() || steps_per_s(kind, placement) <= 0) return {};
  const auto found = gpu_power_w_.find({kind, shape_of(placement)});
  return found == gpu_power_w_.end() ? std::nullopt : std::optional{found->second};
}

double PlacementSpeeds::steps_per_s(std::size_t kind, const GpuPlacement& placement) {
  const JobKind& of = setup_.kinds[kind];
  if (of.type.empty() && of.scenario.empty()) return static_cast<double>(kQueueSecond);  // a step is a microsecond
  const Shape shape = shape_of(placement);
  const auto found = known_.find({kind, shape});
  if (found != known_.end()) return found->second;
  if (!of.type.empty()) return known_[{kind, shape}] = of_table(of, shape);
  if (setup_.groups[placement.group].instance.empty()) return known_[{kind, shape}] = 0;
  simulate({{kind, shape}}, {});
  return known_.at({kind, shape});
}

}  // namespace rehearse
