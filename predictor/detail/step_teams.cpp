#include "predictor/detail/step_teams.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/overloaded.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostClasses = 8;     // of teams
constexpr std::size_t kMostUnfused = 5000;  // operators

}  // namespace

std::size_t kind_of(const Operation& operation, bool is_received) {
  constexpr std::size_t kAlternatives = std::variant_size_v<Operation>;
  static_assert(kAlternatives + 7 <= kStepKinds);
  if (const auto* collective = std::get_if<Collective>(&operation))
    return kAlternatives + static_cast<std::size_t>(collective->kind);
  return is_received ? kAlternatives + 6 : operation.index();
}

StepTeams::StepTeams(const Scenario& scenario)
    : scenario_{scenario},
      site_{scenario},
      network_{site_.topology},
      compiler_{site_, std::vector<bool>(site_.workers.size(), scenario.workload.graph.size() > kMostUnfused ||
                                                                   scenario.training.strategy.kind->divides_model())},
      step_{compiler_.step()} {
  chief_ = site_.workers.front().front().machine;
  is_one_machine_ = site_.machines.size() == 1;
  const Topology::Ports ports = is_one_machine_ ? site_.topology.gpu_ports(chief_) : site_.topology.nic_ports(chief_);
  in_ = {ports.in.begin(), ports.in.end()};
  out_ = {ports.out.begin(), ports.out.end()};
  for (const int link : in_) port_rate_ += rate_of(link);
  port_rate_ = std::max(port_rate_, 1.0);
  wires_.resize(site_.workers.size());
  paths_.resize(site_.workers.size());
  for (const WorkerStep& worker : step_.workers) {
    wires_[at(worker.worker)] = compiler_.strategy().wires(worker.worker);
    paths_[at(worker.worker)] = compiler_.paths(worker.worker, network_);
  }
  find_teams();
  for (const WorkerStep& worker : step_.workers) ask(worker.worker, all_);
}

double StepTeams::longest_latency(int worker) const {
  double longest = 0;
  for (const PathIndex path : paths_[at(worker)]) longest = std::max(longest, network_.path(path).latency.value());
  return longest;
}

const Program& StepTeams::program(int worker) { return compiler_.program(step_.of(worker)); }

const ProgramSums& StepTeams::sums(int worker) {
  const Program& its = program(worker);
  const auto [entry, is_new] = sums_.try_emplace(&its);
  if (!is_new) return entry->second;
  ProgramSums& sums = entry->second;
  std::vector<double> repeats(its.nodes.size(), 1);
  for (const auto& stream : its.streams)
    for (const Stretch& stretch : stream)
      std::fill(repeats.begin() + stretch.begin, repeats.begin() + stretch.end, static_cast<double>(stretch.repeat));
  for (std::size_t i = 0; i < its.nodes.size(); ++i) {
    const Operation& operation = its.nodes[i].operation;
    match(
        operation,
        [&](const Copy& c) { sums.copies[c.direction == CopyDirection::kToGpu ? 0 : 1] += as_double(c.bytes); },
        [&](const Send& s) { sums.connections[s.connection] += as_double(wire_bytes(worker, s)); },
        [&](const ReadVariable& r) { sums.servers[r.server] += r.time.value(); },
        [&](const ApplyGradient& a) { sums.servers[a.server] += a.parts * a.time.value(); },
        [&](const AddGradient& a) { sums.additions += a.parts * a.time.value(); },
        [&](const Fetch& f) { sums.fetched += as_double(f.bytes); },
        [&](const Compute& c) {
          sums.kernels += repeats[i] * c.time.value();
          sums.memory += repeats[i] * c.memory.value();
          sums.host += repeats[i] * c.host.value();
        },
        [&](const Chain& c) {
          sums.kernels += repeats[i] * c.time.value();
          sums.host += repeats[i] * c.host.value();
        },
        [](const auto&) {});
    const auto* send = std::get_if<Send>(&operation);
    sums.count[kind_of(operation, send != nullptr && is_received(worker, send->connection))] += 1;
  }
  return sums;
}

bool StepTeams::is_received(int worker, int connection) const {
  const Wire& wire = wires_[at(worker)][at(connection)];
  return wire.to == worker && wire.from != worker;
}

Bytes StepTeams::wire_bytes(int worker, const Send& send) const {
  const Wire& wire = wires_[at(worker)][at(send.connection)];
  return site_.topology.crosses_network(wire.sender, wire.receiver) ? scenario_.messaging.on_wire(send.bytes)
                                                                    : send.bytes;
}

PathIndex StepTeams::copy_path(Endpoint gpu, CopyDirection direction) {
  const Endpoint host{gpu.machine, Endpoint::kHost};
  return direction == CopyDirection::kToGpu ? network_.path(host, gpu) : network_.path(gpu, host);
}

std::optional<Endpoint> StepTeams::partner(int worker) const {
  const int count = compiler_.workers();
  std::optional<Endpoint> near;
  for (int other = 1; other < count; ++other) {
    const Endpoint from = site_.workers[at((worker + other) % count)].front();
    if (from.machine != site_.workers[at(worker)].front().machine) return from;
    if (!near) near = from;
  }
  return near;
}

std::optional<PathIndex> StepTeams::fetch_path(int worker) {
  const auto from = partner(worker);
  return from ? std::optional{network_.path(*from, site_.workers[at(worker)].front())} : std::nullopt;
}

template <class Add>
void StepTeams::each_load(int worker, const Add& add) {
  const ProgramSums& its = sums(worker);
  for (const auto& [connection, bytes] : its.connections)
    add(paths_[at(worker)][at(connection)], is_received(worker, connection) ? Purpose::kReceive : Purpose::kSend,
        bytes);
  for (const Endpoint gpu : site_.workers[at(worker)])
    for (const CopyDirection direction : {CopyDirection::kToGpu, CopyDirection::kFromGpu}) {
      const double bytes = its.copies[at(direction)];
      if (bytes > 0)
        add(copy_path(gpu, direction), direction == CopyDirection::kToGpu ? Purpose::kCopyIn : Purpose::kCopyOut,
            bytes);
    }
  if (its.fetched > 0)
    if (const auto path = fetch_path(worker)) add(*path, Purpose::kReceive, its.fetched);
}

void StepTeams::ask(int worker, Asked& asked) {
  each_load(worker, [&](PathIndex path, Purpose purpose, double bytes) {
    for (const int link : network_.path(path).links)
      if (binds(link)) asked.links[link][at(purpose)] += bytes;
  });
  const ProgramSums& its = sums(worker);
  for (const auto& [server, seconds] : its.servers) asked.pools[pool_of(server)] += seconds;
  if (its.additions > 0) asked.pools[site_.workers[at(worker)].front().machine] += its.additions;
}

int StepTeams::pool_of(int server) const {
  return scenario_.profile.servers.threads ? static_cast<int>(site_.machines.size()) + server
                                           : site_.servers[at(server)];
}

double StepTeams::cores_of(int pool) const {
  const int machines = static_cast<int>(site_.machines.size());
  if (pool < machines) return std::max(1, site_.machine(pool).cores);
  return std::max(
      1, std::min(*scenario_.profile.servers.threads, site_.machine(site_.servers[at(pool - machines)]).cores));
}

std::array<double, 2> StepTeams::crossing(PathIndex path) const {
  std::array<double, 2> ways{};
  for (const int link : network_.path(path).links) {
    if (in_.contains(link)) ways[0] += 1;
    if (out_.contains(link)) ways[1] += 1;
  }
  return ways;
}

void StepTeams::add_crossings(Team& team, const std::vector<int>& members) {
  const auto add = [&](std::array<double, 2>& sum, PathIndex path) {
    const std::array<double, 2> ways = crossing(path);
    sum[0] += ways[0];
    sum[1] += ways[1];
  };
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::vector<PathIndex>& paths = paths_[at(members[m])];
    for (std::size_t c = 0; c < std::min(paths.size(), team.crossings[m].size()); ++c)
      add(team.crossings[m][c], paths[c]);
    for (const Endpoint gpu : site_.workers[at(members[m])])
      if (is_one_machine_) {
        add(team.own_crossings[m][0], copy_path(gpu, CopyDirection::kToGpu));
        add(team.own_crossings[m][1], copy_path(gpu, CopyDirection::kFromGpu));
      }
    if (sums(members[m]).fetched > 0)
      if (const auto path = fetch_path(members[m])) add(team.own_crossings[m][2], *path);
  }
}

void StepTeams::find_teams() {
  using Key = std::tuple<const Program*, std::vector<float>>;
  std::map<std::vector<Key>, std::size_t> known;
  std::set<int> seen;
  for (const WorkerStep& worker : step_.workers) {
    if (seen.contains(worker.worker)) continue;
    const std::vector<int> members = compiler_.strategy().team(worker.worker);
    seen.insert(members.begin(), members.end());
    std::vector<Key> key;
    for (const int member : members) {
      std::vector<float> ways;
      for (const PathIndex path : paths_[at(member)]) {
        const Path& way = network_.path(path);
        double slowest = way.links.empty() ? 0 : 1e30;
        for (const int link : way.links) slowest = std::min(slowest, rate_of(link));
        ways.insert(ways.end(), {static_cast<float>(slowest), static_cast<float>(way.latency.value())});
      }
      key.emplace_back(&program(member), std::move(ways));
    }
    if (!teams_.empty()) {
      const auto found = known.find(key);
      const std::size_t like = found != known.end() ? found->second : teams_.size();
      if (like < teams_.size() || teams_.size() == kMostClasses) {
        Team& team = teams_[std::min(like, teams_.size() - 1)];
        if (like < teams_.size() || team.workers().size() == members.size()) {
          team.like += 1;
          add_crossings(team, members);
          continue;
        }
        if (teams_.size() >= 2 * kMostClasses) continue;
      }
      known.emplace(std::move(key), teams_.size());
    }
    Team& team = teams_.emplace_back();
    team.scheduled.workers = members;
    team.crossings.resize(members.size());
    team.own_crossings.resize(members.size());
    for (std::size_t m = 0; m < members.size(); ++m) {
      team.programs.push_back(&program(members[m]));
      if (const auto from = partner(members[m])) team.scheduled.partners.push_back(*from);
      team.crossings[m].resize(paths_[at(members[m])].size());
      team.is_chiefs.push_back(site_.workers[at(members[m])].front().machine == chief_);
      ask(members[m], team.asked);
    }
    add_crossings(team, members);
  }
}

double StepTeams::bound() const {
  double longest = 0;
  for (const auto& [link, bytes] : all_.links) longest = std::max(longest, of_all(bytes) / rate_of(link));
  for (const auto& [pool, seconds] : all_.pools) longest = std::max(longest, seconds / cores_of(pool));
  return longest;
}

double StepTeams::slowdown(double own, double at_once, double all, Pace pace, double period) const {
  if (pace == Pace::kAlone || own <= 0 || at_once <= own) return 1;
  if (pace == Pace::kAtOnce) return at_once / own;
  const double others = (all - own) / std::max(period, kTiny);
  return others >= 1 ? at_once / own : std::min(at_once / own, 1 / (1 - others));
}

StepSchedule StepTeams::schedule(Team& team, Pace pace, double period, int steps) {
  Slowdowns& slowdowns = team.scheduled.slowdowns;
  for (const auto& [link, own] : team.asked.links) {
    const ByPurpose& all = all_.links.at(link);
    double at_once = 0;
    for (std::size_t p = 0; p < own.size(); ++p)
      if (own[p] > 0) at_once += all[p];
    const double rate = rate_of(link);
    slowdowns.links[link] = slowdown(of_all(own) / rate, at_once / rate, of_all(all) / rate, pace, period);
  }
  for (const auto& [pool, own] : team.asked.pools) {
    const double all = all_.pools.at(pool) / cores_of(pool);
    slowdowns.pools[pool] = slowdown(own / cores_of(pool), all, all, pace, period);
  }
  return schedule_steps(compiler_, step_, team.scheduled, steps, network_);
}

std::array<double, 2> StepTeams::crossing(int worker, const Collective& what) {
  const int group = step_.of(worker).groups[at(what.group)];
  const auto [known, is_new] =
      crossings_.try_emplace({group, static_cast<int>(what.kind), what.bytes}, std::array<double, 2>{});
  std::array<double, 2>& crossing = known->second;
  if (!is_new) return crossing;
  auto& collective = collectives_[{group, static_cast<int>(what.kind)}];
  const std::vector<Endpoint> gpus = site_.gpus_of(step_.groups[at(group)].workers);
  if (collective == nullptr)
    collective = std::make_unique<FastestCollective>(collective_methods(site_, gpus, network_, what.kind), network_);
  const CollectiveMethod& method = collective->methods()[collective->choose(what.bytes)];
  for (const CollectivePhase& phase : method.plan) {
    const double size = as_double(message_size(phase, method.on_wire(what.bytes))) * static_cast<double>(phase.repeat);
    for (std::size_t e = 0; e < phase.edges.size(); ++e) {
      const std::array<double, 2> ways = this->crossing(phase.edges[e]);
      crossing[0] += ways[0] * size * times_of(phase, e);
      crossing[1] += ways[1] * size * times_of(phase, e);
    }
  }
  return crossing;
}

}  // namespace rehearse
