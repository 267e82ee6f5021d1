#include "sim/training/cluster_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

const WorkerStep& ClusterStep::of(int worker) const {
  return *std::ranges::lower_bound(workers, worker, {}, &WorkerStep::worker);
}

StepCompiler::StepCompiler(const Site& site, std::vector<bool> fused)
    : site_{site},
      fused_{fused.empty() ? std::vector<bool>(site.workers.size()) : std::move(fused)},
      strategy_{scenario().training.strategy.kind->compiler(site)},
      groups_{strategy_->groups()} {
  for (const Group& group : scenario().groups)
    plans_.push_back(group.role == Role::kWorker ? plan_step(scenario(), group) : ComputePlan{});
}

const ComputePlan& StepCompiler::plan_with(int worker, int batch, std::int64_t sharing) {
  const int g = group_of(worker);
  const auto [entry, is_new] = shared_plans_.try_emplace({g, batch, strategy_->alike(worker)});
  if (!is_new) return entry->second;
  entry->second = strategy_->share(whole_plan(worker, batch, sharing), worker);
  return entry->second;
}

const ComputePlan& StepCompiler::whole_plan(int worker, int batch, std::int64_t sharing) {
  const int g = group_of(worker), gpu = strategy_->expert_gpu(worker);
  Group group = scenario().groups[at(g)];
  if (batch == group.batch && gpu < 0) return plans_[at(g)];
  const auto [entry, is_new] = whole_plans_.try_emplace({g, batch, gpu});
  if (!is_new) return entry->second;
  if (batch != group.batch) group = with_batch(scenario(), group, batch, sharing);
  if (gpu >= 0) group = with_expert_gpu(scenario(), group, gpu);
  return entry->second = plan_step(scenario(), group);
}

const std::vector<std::string>& StepCompiler::kernels(int worker) {
  const auto [entry, is_new] = kernels_.try_emplace(group_of(worker));
  if (is_new)
    for (const OperatorAt kernel : scenario().workload_of(scenario().groups[at(group_of(worker))]).graph)
      entry->second.push_back(kernel.name());
  return entry->second;
}

ClusterStep StepCompiler::step() {
  std::vector<int> all(site_.workers.size());
  std::iota(all.begin(), all.end(), 0);
  return own_step(all);
}

ClusterStep StepCompiler::step(const std::vector<int>& workers) {
  ClusterStep step = own_step(workers);
  if (scenario().training.strategy.is_synchronous()) share_samples(step);
  return step;
}

ClusterStep StepCompiler::own_step(const std::vector<int>& workers) {
  ClusterStep step;
  std::vector<int> place(site_.workers.size(), -1);  // [all workers] in the step; -1: it takes no part
  for (const int worker : workers) {
    place[at(worker)] = static_cast<int>(step.workers.size());
    step.workers.push_back({.worker = worker,
                            .plan = &own_plan(worker),
                            .passes = passes_of_part(scenario()),
                            .samples = samples_per_step(scenario(), scenario().groups[at(group_of(worker))])});
  }
  for (const WorkerGroup& all : groups_) {
    WorkerGroup group{all.name, {}};
    for (const int worker : all.workers) {
      if (place[at(worker)] < 0) continue;
      group.workers.push_back(worker);
      step.workers[at(place[at(worker)])].groups.push_back(static_cast<int>(step.groups.size()));
    }
    if (!group.workers.empty()) step.groups.push_back(std::move(group));
  }
  return step;
}

void StepCompiler::share_samples(ClusterStep& step) {
  WorkerCounts counts(scenario().groups.size());
  std::vector<std::int64_t> weights;
  for (const WorkerStep& worker : step.workers) {
    ++counts[at(group_of(worker.worker))];
    weights.push_back(worker.samples);
  }
  const std::vector<StepShare> shares = step_shares(scenario(), counts);
  step.samples = static_cast<std::int64_t>(samples_per_update(scenario(), counts));
  const std::int64_t all =
      backup_workers(scenario()) > 0 ? std::accumulate(weights.begin(), weights.end(), std::int64_t{}) : step.samples;
  const std::vector<std::int64_t> samples = split_samples(all, weights);
  for (std::size_t i = 0; i < step.workers.size(); ++i) {
    WorkerStep& worker = step.workers[i];
    const StepShare& share = shares[at(group_of(worker.worker))];
    worker.passes = passes_of_part(scenario(), share.passes);
    worker.samples = samples[i];
    worker.plan = &plan_with(worker.worker, share.batch, static_cast<std::int64_t>(step.workers.size()));
  }
}

const Program& StepCompiler::program(const WorkerStep& step, FirstVariables first) {
  return compiled(step, first).program;
}

const StepCompiler::Compiled& StepCompiler::compiled(const WorkerStep& step, FirstVariables first) {
  const bool is_fused = fused_[at(step.worker)];
  const Class same{step.plan, step.passes, strategy_->alike(step.worker), first, is_fused};
  if (const auto known = programs_.find(same); known != programs_.end()) return known->second;
  Compiled its{strategy_->compile(step, first), {}};
  if (is_fused) its.program = fuse_chains(its.program);
  if (strategy_->expert_gpu(step.worker) >= 0) count_operations(its.program);
  for (const Node& node : its.program.nodes)
    if (const auto* collective = std::get_if<Collective>(&node.operation))
      its.kinds[collective->group].insert(collective->kind);
  return programs_.emplace(same, std::move(its)).first->second;
}

void StepCompiler::count_operations(const Program& program) {
  constexpr std::size_t kMostOfAll = 20'000'000;  // about 2 GB
  operations_ += program.nodes.size();
  if (operations_ <= kMostOfAll) return;
  throw RunError{
      "/training/strategy/experts/zipf",
      "more than 20000000 operations in a step, as each of " + std::to_string(scenario().model.expert_split.degree) +
          " workers has other loads; \"imbalance\": " + to_text(std::round(mean_fullest_load(scenario()) * 100) / 100) +
          " instead, the mean of these layers' fullest, computes all as the fullest"};
}

const std::vector<std::string>& StepCompiler::labels() const {
  static const std::vector<std::string> none;
  return programs_.empty() ? none : programs_.begin()->second.program.labels;
}

std::vector<PathIndex> StepCompiler::paths(int worker, Network& network) const {
  std::vector<PathIndex> paths;
  for (const Wire& wire : strategy_->wires(worker)) paths.push_back(network.path(wire.sender, wire.receiver));
  return paths;
}

const std::set<CollectiveKind>& StepCompiler::kinds_of(const ClusterStep& step, std::size_t group) {
  static const std::set<CollectiveKind> none;
  const WorkerStep& first = step.of(step.groups[group].workers.front());
  const auto own = std::ranges::find(first.groups, static_cast<int>(group)) - first.groups.begin();
  const auto& kinds = compiled(first, FirstVariables::kPushed).kinds;
  const auto known = kinds.find(static_cast<int>(own));
  return known == kinds.end() ? none : known->second;
}

namespace {

/// What crosses links, as numbers of ways that are alike.
class Crossings {
 public:
  /// `first_like`: [links] of the machine's first GPU.
  Crossings(const Network& network, const std::map<int, int>& first_like)
      : network_{network}, first_like_{first_like} {}

  void add(PathIndex path) {
    std::vector<int> way;
    for (const int link : network_.path(path).links) {
      if (network_.topology().links()[static_cast<std::size_t>(link)].never_binds) continue;
      const auto first = first_like_.find(link);
      shares_links_ = shares_links_ || first == first_like_.end();
      if (!shares_links_) way.push_back(first->second);
    }
    const int number = ways_.try_emplace(std::move(way), static_cast<int>(ways_.size())).first->second;
    for (const int link : network_.path(path).links) by_link_[link].push_back(number);
  }

  /// Whether the links of each kind are crossed by the same.
  bool are_alike(const std::vector<std::vector<int>>& kinds) {
    if (shares_links_) return false;
    for (const std::vector<int>& kind : kinds) {
      for (const int link : kind) std::ranges::sort(by_link_[link]);
      for (const int link : kind)
        if (by_link_[link] != by_link_[kind.front()]) return false;
    }
    return true;
  }

 private:
  const Network& network_;
  const std::map<int, int>& first_like_;
  std::map<std::vector<int>, int> ways_;
  std::map<int, std::vector<int>> by_link_;
  bool shares_links_ = false;  // that are no GPU's own
};

}  // namespace

bool StepCompiler::gpus_are_alike(const ClusterStep& step, Network& network) {
  std::map<int, int> first_like;
  std::vector<std::vector<int>> kinds;  // of links of GPUs of the machines that stand for others
  for (int machine = 0; machine < static_cast<int>(network.topology().machines().size()); ++machine) {
    if (!network.fold().stands(machine)) continue;
    const std::vector<std::vector<int>> own = network.topology().links_by_gpu(machine);
    if (own.empty()) return false;
    for (const std::vector<int>& kind : own) {
      for (const int link : kind) first_like.emplace(link, kind.front());
      kinds.push_back(kind);
    }
  }
  std::map<std::size_t, Crossings> by_connection;
  std::map<std::array<std::size_t, 4>, Crossings> by_phase;  // the group's number in programs, kind, method, phase
  const auto stands = [&](Endpoint end) { return network.fold().stands(end.machine); };
  for (const WorkerStep& worker : step.workers) {
    if (!stands(site_.workers[at(worker.worker)].front())) continue;
    const std::vector<PathIndex> its = paths(worker.worker, network);
    for (std::size_t i = 0; i < its.size(); ++i)
      by_connection.try_emplace(i, network, first_like).first->second.add(its[i]);
  }
  for (std::size_t g = 0; g < step.groups.size(); ++g) {
    const std::vector<int>& workers = step.groups[g].workers;
    if (std::ranges::none_of(workers, [&](int one) { return stands(site_.workers[at(one)].front()); })) continue;
    const std::vector<int>& groups = step.of(workers.front()).groups;
    const auto number = static_cast<std::size_t>(std::ranges::find(groups, static_cast<int>(g)) - groups.begin());
    for (const CollectiveKind kind : kinds_of(step, g)) {
      const std::vector<CollectiveMethod> methods = collective_methods(site_, site_.gpus_of(workers), network, kind);
      for (std::size_t m = 0; m < methods.size(); ++m)
        for (std::size_t p = 0; p < methods[m].plan.size(); ++p)
          for (const PathIndex edge : methods[m].plan[p].edges)
            if (stands(network.source(edge))) {
              const std::array place{number, static_cast<std::size_t>(kind), m, p};
              by_phase.try_emplace(place, network, first_like).first->second.add(edge);
            }
    }
  }
  const auto are_alike = [&](auto& one) { return one.second.are_alike(kinds); };
  return std::ranges::all_of(by_connection, are_alike) && std::ranges::all_of(by_phase, are_alike);
}

std::vector<PathIndex> StepCompiler::offloading_copies(int worker, Network& network) const {
  std::vector<PathIndex> copies;
  if (scenario().training.strategy.kind->offload() == Offload{}) return copies;
  for (const Endpoint gpu : site_.workers[at(worker)]) {
    const Endpoint host{gpu.machine, Endpoint::kHost};
    for (const PathIndex path : {network.path(host, gpu), network.path(gpu, host)}) copies.push_back(path);
  }
  return copies;
}

std::vector<bool> StepCompiler::groups_with_own_links(const ClusterStep& step, Network& network) {
  std::map<int, int> users;  // by link that may bind: groups, connections of workers, and copies
  const auto may_bind = [&](int link) { return !network.topology().links()[at(link)].never_binds; };
  // Those for which others stand have links of their own, as these have, or a share of them.
  const RankGrid grid = rank_grid(scenario());
  const MachineFold& fold = network.fold();
  const auto stands = [&](int worker) {
    return network.stands(site_.workers[at(worker)].front()) &&
           (fold.alike == 1 || fold.joins_gpus || grid.coordinate(worker, Axis::kTensor) == 0);
  };
  for (const WorkerStep& worker : step.workers)
    if (stands(worker.worker))
      for (const auto& messages : {paths(worker.worker, network), offloading_copies(worker.worker, network)})
        for (const PathIndex path : messages)
          for (const int link : network.path(path).links)
            if (may_bind(link)) ++users[link];
  if (step.groups.size() == 1 && users.empty()) return {true};
  std::vector<std::set<int>> crossed(step.groups.size());  // links
  for (std::size_t g = 0; g < step.groups.size(); ++g) {
    const WorkerGroup& group = step.groups[g];
    if (std::ranges::none_of(group.workers, stands)) continue;
    for (const CollectiveKind kind : kinds_of(step, g))
      for (const CollectiveMethod& method : collective_methods(site_, site_.gpus_of(group.workers), network, kind))
        for (const CollectivePhase& phase : method.plan)
          for (const PathIndex edge : phase.edges)
            if (network.stands(network.source(edge)))
              std::ranges::copy_if(network.path(edge).links, std::inserter(crossed[g], crossed[g].end()), may_bind);
    for (const int link : crossed[g]) ++users[link];
  }
  std::vector<bool> have_own;
  for (const std::set<int>& links : crossed)
    have_own.push_back(std::ranges::all_of(links, [&](int link) { return users.at(link) == 1; }));
  return have_own;
}

}  // namespace rehearse
