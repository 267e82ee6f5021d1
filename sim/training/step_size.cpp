#include "sim/training/step_size.hpp"

#include <map>
#include <utility>

#include "sim/program/collective_methods.hpp"
#include "sim/resources/paths_only.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse {

namespace {

class StepCounter {
 public:
  explicit StepCounter(const Scenario& scenario)
      : site_{scenario}, network_{site_.topology}, compiler_{site_}, step_{compiler_.step()} {}

  StepSize count() {
    std::map<const Program*, double> workers;  // that run each
    std::map<const Program*, const WorkerStep*> first;
    for (const WorkerStep& worker : step_.workers) {
      const Program& program = compiler_.program(worker);
      ++workers[&program];
      first.emplace(&program, &worker);
    }
    for (const auto& [program, count] : workers) add(*program, *first.at(program), count);
    for (const auto& [group, size] : sizes_) size_.edges += size.edges;
    return size_;
  }

  double messages_per_all_reduce() {
    return step_.groups.empty() ? 0 : size_of(0, CollectiveKind::kAllReduce).messages;
  }

 private:
  /// So many workers run the program.
  void add(const Program& program, const WorkerStep& worker, double workers) {
    for (const std::vector<Stretch>& stream : program.streams)
      for (const Stretch& stretch : stream)
        size_.kernels +=
            workers * static_cast<double>(stretch.end - stretch.begin) * static_cast<double>(stretch.repeat);
    for (const Node& node : program.nodes) {
      if (std::holds_alternative<Send>(node.operation)) size_.messages += workers;
      if (std::holds_alternative<Fetch>(node.operation) && step_.workers.size() > 1) size_.messages += workers;
      const auto* collective = std::get_if<Collective>(&node.operation);
      if (collective == nullptr) continue;
      const int group = worker.groups[at(collective->group)];
      size_.collectives += workers;
      size_.messages += size_of(group, collective->kind).messages * workers /
                        static_cast<double>(step_.groups[at(group)].workers.size());
    }
  }

  const CollectiveSize& size_of(int group, CollectiveKind kind) {
    const auto [entry, is_new] = sizes_.try_emplace({group, kind});
    if (!is_new) return entry->second;
    const std::vector<Endpoint> gpus = site_.gpus_of(step_.groups[at(group)].workers);
    if (gpus.size() > 1) entry->second = plan_size(collective_methods(site_, gpus, network_, kind).front().plan);
    return entry->second;
  }

  Site site_;
  PathsOnly network_;
  StepCompiler compiler_;
  ClusterStep step_;
  std::map<std::pair<int, CollectiveKind>, CollectiveSize> sizes_;  // by group
  StepSize size_;
};

}  // namespace

StepSize step_size(const Scenario& scenario) { return StepCounter{scenario}.count(); }

double messages_per_all_reduce(const Scenario& scenario) { return StepCounter{scenario}.messages_per_all_reduce(); }

}  // namespace rehearse
