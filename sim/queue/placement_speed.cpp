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

/// The scenario with its groups replaced by workers on the machines of the shape, as many GPUs of each as the job has.
std::string PlacementSpeeds::job_of(std::size_t kind, const Shape& shape) const {
  const std::string& file = setup_.kinds[kind].scenario;
  Json scenario = load_json_file(file);
  const Json* const groups = json_pointer_find(scenario, "/cluster/groups");
  if (!groups || !groups->is_array() || groups->empty() || !groups->front().is_object())
    throw InputError{file + ": /cluster/groups: expected groups, of whose machines the queue's take the place"};
  for (const Json& group : *groups)
    if (!group.is_object() || group.value("role", Json{}) != "worker")
      throw InputError{file +
                       ": /cluster/groups: expected workers alone, whose machines the queue's take the place of"};
  const JsonReader asked{scenario, file};
  const Json instance = catalog_.instance(setup_.groups[shape.first].instance, asked).value();
  Json placed = Json::array();
  for (auto first = shape.second.begin(); first != shape.second.end();) {
    const auto next = std::find_if(first, shape.second.end(), [&](int gpus) { return gpus != *first; });
    Json group = groups->front();
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
  return kSimulate.job(read_scenario(scenario, file, catalog_)).text();
}

void PlacementSpeeds::simulate(const std::vector<std::pair<std::size_t, Shape>>& wanted,
                               const std::function<void(std::size_t, std::size_t)>& on_done) {
  std::vector<std::string> texts;
  for (const auto& [kind, shape] : wanted) texts.push_back(job_of(kind, shape));
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!store_.is_finished(run_key(texts[i], program_))) missing.push_back(i);
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
    const auto stored = store_.find(run_key(texts[i], program_));
    double speed = 0;
    if (stored && !stored->summary.empty()) {
      const Json summary = parse_json(stored->summary, "summary");
      speed = summary["steps_per_s"].is_number() ? summary["steps_per_s"].get<double>() : 0;
      if (const Json power = summary.value("gpu_power_w", Json{}); power.is_number())
        gpu_power_w_[{kind, shape}] = power.get<double>();
      for (const Json& warning : summary.value("warnings", Json::array()))
        warnings_.insert(setup_.kinds[kind].scenario + ": " + warning.get<std::string>());
    } else {
      warnings_.insert(setup_.kinds[kind].scenario + " does not run on " + std::to_string(setup_.kinds[kind].gpus) +
                       " GPUs of group " + in_quotes(setup_.groups[shape.first].name) + ": " +
                       (stored ? shortened(stored->error, 300) : "no result"));
    }
    known_[{kind, shape}] = speed;
  }
}

void PlacementSpeeds::prepare(const std::function<void(std::size_t, std::size_t)>& on_done) {
  std::vector<std::pair<std::size_t, Shape>> wanted;
  for (std::size_t kind = 0; kind < setup_.kinds.size(); ++kind) {
    if (setup_.kinds[kind].scenario.empty()) continue;
    for (std::size_t g = 0; g < setup_.groups.size(); ++g) {
      const QueueGroup& group = setup_.groups[g];
      int left = setup_.kinds[kind].gpus;
      if (group.instance.empty() || left > group.gpus()) continue;
      Shape shape{g, {}};
      for (; left > 0; left -= shape.second.back()) shape.second.push_back(std::min(left, group.gpus_per_machine));
      wanted.emplace_back(kind, std::move(shape));
    }
  }
  if (!wanted.empty()) simulate(wanted, on_done);
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
