#include "predictor/measured_studies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <variant>

#include "predictor/described_step.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/labels.hpp"
#include "predictor/merge.hpp"
#include "predictor/run_labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/collective_time.hpp"

namespace rehearse {

namespace {

bool gives_step_time(const std::string& metric) {
  return metric == "iteration_time_s" || metric == "steps_per_s" || metric == "samples_per_s" ||
         metric == "training_time_s";
}

bool has_equal_workers(const Scenario& scenario) {
  const Group& first = scenario.first_workers();
  return std::all_of(scenario.groups.begin(), scenario.groups.end(), [&](const Group& group) {
    return group.role != Role::kWorker || group.instance.name == first.instance.name;
  });
}

bool has_sparse_tables(const Workload& workload) {
  return std::any_of(workload.variables.begin(), workload.variables.end(),
                     [](const Variable& variable) { return variable.rows_used.has_value(); });
}

/// Whether server number `server` of the only group of servers is on the chief's machine, the first of its group.
bool is_on_chief(const Scenario& scenario, int server) {
  const auto servers = std::find_if(scenario.groups.begin(), scenario.groups.end(),
                                    [](const Group& g) { return g.role == Role::kParameterServer; });
  if (servers->colocated_with < 0) return false;
  const Group& shared = scenario.groups[static_cast<std::size_t>(servers->colocated_with)];
  return &shared == &scenario.first_workers() && server % shared.count == 0;
}

std::optional<StepTraffic> server_traffic(const Scenario& scenario, const ServerRules& strategy,
                                          const std::vector<Machine>& machines) {
  const auto groups = std::count_if(scenario.groups.begin(), scenario.groups.end(),
                                    [](const Group& g) { return g.role == Role::kParameterServer; });
  if (groups != 1 || strategy.backup_workers > 0 || has_sparse_tables(scenario.workload)) return {};
  const bool is_added_up = strategy.aggregation != Aggregation::kNone;
  const auto senders = [&](const Machine& m) { return is_added_up ? std::min(1, m.workers) : m.workers; };
  double here = 0, others = 0;
  for (const Machine& machine : machines) {
    if (here == 0)
      here = senders(machine);
    else
      others += senders(machine);
  }
  StepTraffic traffic;
  for (const GradientUnit& unit : plan_gradient_units(scenario, scenario.count(Role::kParameterServer)).units) {
    const double value = as_double(unit.value_bytes), gradient = as_double(unit.gradient_bytes);
    const bool is_own = is_on_chief(scenario, unit.server);
    traffic.received += is_own ? gradient * others : value * here;
    traffic.sent += is_own ? value * others : gradient * here;
  }
  return traffic;
}

std::optional<StepTraffic> ring_traffic(const Scenario& scenario, const CollectiveRules& rules) {
  if (rules.algorithm != CollectiveAlgorithm::kRing) return {};
  const double bytes = as_double(bytes_leaving_first_machine(scenario));
  return StepTraffic{bytes, bytes};
}

/// "4 x gce-custom-4-k80, 1 server, asynchronous parameter servers"
std::string name_of_cluster(const Scenario& scenario) {
  std::string name;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker)
      name += (name.empty() ? "" : " + ") + std::to_string(group.count) + " x " +
              (group.instance.name.empty()
                   ? std::to_string(group.instance.accelerators) + " " + group.accelerator->name
                   : group.instance.name + " (" + std::to_string(group.instance.accelerators) + ")");
  if (const int servers = scenario.count(Role::kParameterServer); servers > 0)
    name += ", " + std::to_string(servers) + (servers == 1 ? " server" : " servers");
  return name + ", " + describe_strategy(scenario.training.strategy);
}

/// Half a unit of the fourth digit: two tables that print the same measurement differ by less.
constexpr double kSameStep = 5e-4;

/// Puts the dataset together.
class Collector {
 public:
  Collector() {
    Dataset& data = result.dataset;
    data.node_features = node_feature_names();
    data.labels = label_names();
  }

  void add(const Study& study, const StudyRow& row, const Catalog& catalog) {
    const std::string reason = add_row(study, row, catalog);
    const auto same = [&](const MeasuredStudies::Count& c) { return c.study == study.name && c.reason == reason; };
    const auto found = std::find_if(result.counts.begin(), result.counts.end(), same);
    if (found == result.counts.end())
      result.counts.push_back({study.name, reason, 1});
    else
      ++found->rows;
  }

  MeasuredStudies finish(const std::vector<Study>& studies) {
    if (result.dataset.samples.empty())
      throw InputError{studies.front().file_name + ": expected a row that is a sample of a step time; found " +
                       (result.counts.empty() ? "no rows" : "none: " + result.counts.front().reason)};
    deal_splits(result.dataset, models_);
    result.dataset.provenance = Json{{"source", "measured rows of studies"}, {"rows", rows_}}.dump();
    return std::move(result);
  }

  MeasuredStudies result;

 private:
  /// What a scenario's text becomes.
  struct Described {
    std::string problem;
    std::string note;  // of a sample that networks cannot take
    Scenario scenario;
    std::int32_t graph = 0, setting = 0;
    std::vector<float> step;  // Sample::step
    std::optional<StepTraffic> traffic;
  };

  /// Where a row stands, and its seconds of a step.
  struct MeasuredRow {
    std::string study;
    std::filesystem::path file;
    std::size_t line = 0;
    double step = 0;
  };

  std::string add_row(const Study& study, const StudyRow& row, const Catalog& catalog) {
    if (!gives_step_time(study.metric)) return study.metric + " gives no step time";
    if (!row.problem.empty()) return row.problem;
    const auto [entry, is_new] = described_.try_emplace({study.scenario_file, row.scenario});
    Described& described = entry->second;
    if (is_new) describe(study, row, catalog, described);
    if (!described.problem.empty()) {
      described.scenario = {};
      return described.problem;
    }
    const auto step = measured_step_time(described.scenario, study.metric, row.measured);
    if (!step) return "its workers' step times differ, or it ends at a loss";
    const std::string twin = study_of_same_row(study, row, described.scenario, step->value());
    if (!twin.empty()) return "repeats a row of " + twin;
    if (described.graph < 0) add_graph_and_setting(study, row, described);
    RunLabels labels{.step_time_s = step->value()};
    if (described.traffic) {
      labels.receive_mean_bytes_per_s = described.traffic->received / step->value();
      labels.transmit_mean_bytes_per_s = described.traffic->sent / step->value();
    }
    result.dataset.samples.push_back({.graph = described.graph,
                                      .setting = described.setting,
                                      .origin = Origin::kMeasured,
                                      .weight = 1,
                                      .labels = values_of(labels),
                                      .step = described.step});
    const std::filesystem::path file = study.measurements_file;
    rows_.push_back(study.name + ": " + (file.parent_path().filename() / file.filename()).string() + ":" +
                    std::to_string(row.row.line()));
    return described.note;
  }

  /// The other study that has this row; empty: none. It is the same line of the same table, or, of another table of the
  /// same folder, one of the same model, samples of a step, workers and time of a step in the digits that tables print.
  std::string study_of_same_row(const Study& study, const StudyRow& row, const Scenario& scenario, double step) {
    auto& known = rows_like_[{scenario.model.name, samples_per_step(scenario), scenario.count(Role::kWorker)}];
    const std::filesystem::path file = study.measurements_file;
    for (const MeasuredRow& other : known)
      if (other.study != study.name && (other.file == file ? other.line == row.row.line()
                                                           : other.file.parent_path() == file.parent_path() &&
                                                                 std::abs(step / other.step - 1) < kSameStep))
        return other.study;
    known.push_back({study.name, file, row.row.line(), step});
    return {};
  }

  static void describe(const Study& study, const StudyRow& row, const Catalog& catalog, Described& described) {
    try {
      described.scenario =
          read_scenario(parse_json(row.scenario, study.scenario_file), study.scenario_file, catalog, row.origins);
    } catch (const NoResultError& error) { described.problem = error.what(); }
    described.graph = -1;
  }

  void add_graph_and_setting(const Study& study, const StudyRow& row, Described& described) {
    Dataset& data = result.dataset;
    const Scenario& scenario = described.scenario;
    described.traffic = step_traffic(scenario);
    if (const std::string chance = changes_by_chance(scenario); chance.empty())
      described.step = numbers_of(describe_step(scenario));
    else
      described.note = "for corrections alone: " + chance + ": machines that come and go by chance";
    const Json workload = parse_json(row.scenario, study.scenario_file)["workload"];
    DatasetGraph graph{
        .family = scenario.model.name,
        .name = scenario.model.name + " batch " + std::to_string(scenario.workload_of(scenario.first_workers()).batch),
        .provenance = graph_provenance(scenario, workload["model"]).dump(),
        .features = node_features_of(scenario),
        .edges = edges_of(scenario.workload)};
    const auto [at, is_new_graph] =
        graphs_.try_emplace({graph.provenance, graph.features}, static_cast<std::int32_t>(data.graphs.size()));
    if (is_new_graph) {
      data.graphs.push_back(std::move(graph));
      models_.push_back(scenario.model.name);
    }
    described.graph = at->second;

    Json cluster = *scenario.effective;
    cluster["workload"] = rest_of_workload(cluster["workload"]);
    const auto [found, is_new_setting] =
        settings_.try_emplace(cluster.dump(), static_cast<std::int32_t>(data.settings.size()));
    if (is_new_setting) {
      const std::string plain = study.name + ": " + name_of_cluster(scenario);
      std::string name = plain;
      for (int i = 2; !names_.insert(name).second; ++i) name = plain + " (" + std::to_string(i) + ")";
      data.settings.push_back({.name = name, .group = study.name, .provenance = cluster.dump()});
    }
    described.setting = found->second;
    described.scenario.workload = {};  // the graph has it
  }

  std::map<std::pair<std::string, std::string>, Described> described_;         // by file and text of the scenario
  std::map<std::pair<std::string, std::vector<float>>, std::int32_t> graphs_;  // by provenance and node features
  std::vector<std::string> models_;                                            // [graphs]
  std::map<std::string, std::int32_t> settings_;                               // by scenario
  std::set<std::string> names_;                                                // of settings
  /// By model, samples of a step and workers.
  std::map<std::tuple<std::string, double, int>, std::vector<MeasuredRow>> rows_like_;
  std::vector<std::string> rows_;  // [samples]
};

}  // namespace

double samples_per_step(const Scenario& scenario) {
  double samples = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker)
      samples +=
          static_cast<double>(group.workers()) * group.batch * scenario.training.strategy.exchange.accumulation_steps;
  const double workers = scenario.count(Role::kWorker);
  if (const int late = backup_workers(scenario); late > 0) samples *= std::max(1.0, workers - late) / workers;
  return samples;
}

std::optional<Seconds> measured_step_time(const Scenario& scenario, const std::string& metric, double measured) {
  const bool is_synchronous = scenario.training.strategy.is_synchronous();
  if (!is_synchronous && !has_equal_workers(scenario)) return {};
  const double workers = scenario.count(Role::kWorker);
  const double samples = samples_per_step(scenario);
  if (metric == "iteration_time_s") return Seconds{measured};
  if (metric == "steps_per_s") return Seconds{(is_synchronous ? 1 : workers) / measured};
  if (metric == "samples_per_s") return Seconds{samples / measured};
  const auto& target = scenario.training.target;
  if (metric == "training_time_s" && target && target->samples) return Seconds{measured * samples / *target->samples};
  return {};
}

std::optional<StepTraffic> step_traffic(const Scenario& scenario) {
  const Site site{scenario};
  if (site.machines.size() == 1) return {};
  const StrategyKind& kind = *scenario.training.strategy.kind;
  if (kind.servers() != nullptr) return server_traffic(scenario, *kind.servers(), site.machines);
  if (kind.collectives() != nullptr) return ring_traffic(scenario, *kind.collectives());
  return {};
}

MeasuredStudies read_measured_studies(const std::vector<Study>& studies,
                                      const std::function<const Catalog&(const Study&)>& catalog_of,
                                      const std::function<void(std::size_t, std::size_t)>& on_row,
                                      const Budget& budget) {
  Collector collector;
  std::size_t done = 0, total = 0;
  for (const Study& study : studies) total += study.rows.size();
  for (const Study& study : studies) {
    const Catalog& catalog = catalog_of(study);
    for (const StudyRow& row : study.rows) {
      budget.check();
      collector.add(study, row, catalog);
      if (on_row) on_row(++done, total);
    }
  }
  return collector.finish(studies);
}

MeasuredStudies read_measured_studies(const std::vector<Study>& studies, const Catalog& catalog) {
  return read_measured_studies(studies, [&catalog](const Study&) -> const Catalog& { return catalog; });
}

}  // namespace rehearse
