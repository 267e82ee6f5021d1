#include "sim/job/steady_window.hpp"

#include <algorithm>

namespace rehearse {

Use& Use::operator-=(const Use& earlier) {
  for (std::size_t m = 0; m < machines.size(); ++m) {
    machines[m].cpu_busy -= earlier.machines[m].cpu_busy;
    machines[m].sent -= earlier.machines[m].sent;
    machines[m].received -= earlier.machines[m].received;
  }
  for (std::size_t p = 0; p < earlier.paths.size(); ++p) paths[p] -= earlier.paths[p];
  return *this;
}

SteadyWindow::SteadyWindow(const Cluster& cluster) : cluster_{cluster} {
  skipped_.machines.resize(cluster.site.machines.size());
  if (cluster.site.scenario.training.warmup_steps == 0) open();
}

void SteadyWindow::open() {
  if (is_closed_) return;
  span_.start = cluster_.clock.now();
  at_start_ = use_so_far();
}

void SteadyWindow::close() {
  if (is_closed_) return;
  is_closed_ = true;
  span_.end = cluster_.clock.now();
  at_end_ = use_so_far();
}

Use SteadyWindow::use_so_far() const {
  Use use = skipped_;
  for (std::size_t m = 0; m < use.machines.size(); ++m) {
    use.machines[m].cpu_busy += cluster_.cores[m].work();
    use.machines[m].sent += cluster_.traffic.of(m).sent;
    use.machines[m].received += cluster_.traffic.of(m).received;
  }
  for (std::size_t s = 0; s < cluster_.serving.size(); ++s)
    use.machines[static_cast<std::size_t>(cluster_.site.servers[s])].cpu_busy += cluster_.serving[s].threads.work();
  const std::vector<Bytes>& carried = cluster_.network.carried();
  use.paths.resize(carried.size());
  for (std::size_t p = 0; p < carried.size(); ++p) use.paths[p] += carried[p];
  return use;
}

Seconds SteadyWindow::next_change(Seconds change) const {
  const Recorder& recorder = cluster_.recorder;
  const Seconds recording = recorder.scope.window.start;
  return recorder.keeps_activity && recording > cluster_.clock.now() ? std::min(change, recording) : change;
}

void SteadyWindow::skip(std::int64_t count, const Use& each) {
  for (std::size_t m = 0; m < each.machines.size(); ++m) {
    MachineUse& skipped = skipped_.machines[m];
    skipped.cpu_busy += each.machines[m].cpu_busy * static_cast<double>(count);
    skipped.sent += each.machines[m].sent * count;
    skipped.received += each.machines[m].received * count;
  }
  if (skipped_.paths.size() < each.paths.size()) skipped_.paths.resize(each.paths.size());
  for (std::size_t p = 0; p < each.paths.size(); ++p) skipped_.paths[p] += each.paths[p] * count;
}

std::vector<MachineUse> SteadyWindow::unfolded(std::vector<MachineUse> machines) const {
  const MachineFold& fold = cluster_.network.fold();
  if (!fold) return machines;
  const auto standing_for = [&](std::size_t m) {
    return static_cast<std::size_t>(fold.standing_for(static_cast<MachineIndex>(m)));
  };
  for (std::size_t m = 0; m < machines.size(); ++m) {
    if (standing_for(m) == m) continue;
    MachineUse& first = machines[standing_for(m)];
    first.cpu_busy += machines[m].cpu_busy;
    first.sent += machines[m].sent;
    first.received += machines[m].received;
  }
  for (std::size_t m = 0; m < machines.size(); ++m) {
    machines[m] = machines[standing_for(m)];
    if (standing_for(m) != m) continue;
    machines[m].sent = machines[m].sent * fold.alike;
    machines[m].received = machines[m].received * fold.alike;
  }
  return machines;
}

LinkUse SteadyWindow::busiest_link(const std::vector<Bytes>& carried, Seconds time) const {
  const Network& network = cluster_.network;
  const std::vector<TopologyLink>& links = network.topology().links();
  LinkUse busiest;
  std::vector<Bytes> of_link(links.size());
  for (std::size_t p = 0; p < carried.size(); ++p) {
    const auto index = static_cast<PathIndex>(p);
    const Path& path = network.path(index);
    for (const int link : path.links) of_link[static_cast<std::size_t>(link)] += carried[p];
    if (!path.per_flow_rate) continue;
    const double utilization = as_double(carried[p]) / (path.per_flow_rate->value() * time.value());
    if (utilization <= busiest.utilization) continue;
    const auto name = [&](Endpoint end) { return cluster_.site.machine(end.machine).name; };
    busiest = {name(network.source(index)) + " to " + name(network.destination(index)), true, utilization};
  }
  for (std::size_t m = 0; m < cluster_.site.machines.size(); ++m)
    for (const int nic : network.topology().nic_links(static_cast<int>(m))) of_link[static_cast<std::size_t>(nic)] = {};
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].never_binds) continue;
    const double utilization = as_double(of_link[i]) / (network.rate(static_cast<int>(i)).value() * time.value());
    if (utilization > busiest.utilization) busiest = {links[i].name, false, utilization};
  }
  busiest.utilization = std::min(1.0, busiest.utilization);  // messages count as a whole when they start
  return busiest;
}

void SteadyWindow::describe(RunRecord& record, Seconds end) const {
  Use use = use_so_far();
  record.total = record.in_window = unfolded(use.machines);
  const Network& network = cluster_.network;
  const MachineFold& fold = network.fold();
  for (std::size_t p = 0; p < use.paths.size(); ++p) {
    const auto path = static_cast<PathIndex>(p);
    const MachineIndex from = network.source(path).machine, to = network.destination(path).machine;
    if (from == to || use.paths[p] == Bytes{}) continue;
    const Bytes carried = use.paths[p] * fold.alike;
    if (fold.block == 0)
      record.carried[{from, to}] += carried;
    else
      for (int m = 0; m < fold.span; m += fold.block)
        record.carried[{fold.shifted(from, m), fold.shifted(to, m)}] += carried;
  }
  record.window = {Seconds{}, end};
  if (at_start_ && at_end_ && span_.end > span_.start && has_steady_state(cluster_.site.scenario)) {
    record.window = span_;
    use = *at_end_;
    use -= *at_start_;
    record.in_window = unfolded(use.machines);
  }
  record.busiest_link = busiest_link(use.paths, record.window.end - record.window.start);
}

}  // namespace rehearse
