#include "sim/record/recorder.hpp"

#include <cmath>

namespace rehearse {

namespace {
constexpr double kRateRounding = 1e-12;  // of a link's rate: sums that differ by less are the same
}

void Recorder::watch(Network& network, bool records_gpu_links) {
  const Topology& topology = network.topology();
  std::vector<int> watched;
  index_of_.assign(topology.links().size(), -1);
  const auto add = [&](MachineIndex machine, bool is_of_gpus, const Topology::Ports& ports) {
    for (const std::vector<int>* some : {&ports.in, &ports.out})
      for (const int link : *some) {
        int& index = index_of_[static_cast<std::size_t>(link)];
        if (index < 0) {
          index = static_cast<int>(links.size());
          const TopologyLink& known = topology.links()[static_cast<std::size_t>(link)];
          links.push_back({.machine = machine,
                           .is_of_gpus = is_of_gpus,
                           .name = known.name,
                           .rate = known.rate,
                           .burst = known.burst});
          watched.push_back(link);
        }
        RecordedLink& recorded = links[static_cast<std::size_t>(index)];
        (some == &ports.in ? recorded.receives : recorded.sends) = true;
      }
  };
  for (std::size_t m = 0; m < topology.machines().size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    if (!scope.covers(machine)) continue;
    add(machine, false, topology.nic_ports(machine));
    if (records_gpu_links) add(machine, true, topology.gpu_ports(machine));
  }
  current_.resize(links.size());
  network.on_burst([this, &network](int link, Bytes size) {
    const auto recorded = find_link(link);
    if (!recorded) return;
    constexpr double kBurstRate = 1e3;  // of the link's rate: in no time, as samples see it
    const double rate = kBurstRate * links[*recorded].rate.value();
    add_rate(*recorded, {.start = network.now().value(), .length = as_double(size) / rate, .rate = rate});
  });
  network.watch(watched, [this](int link, Seconds now, double rate) {
    change_rate(static_cast<std::size_t>(index_of_[static_cast<std::size_t>(link)]), now, rate);
  });
}

std::optional<std::size_t> Recorder::find_link(int link) const {
  if (index_of_.empty() || index_of_[static_cast<std::size_t>(link)] < 0) return {};
  return static_cast<std::size_t>(index_of_[static_cast<std::size_t>(link)]);
}

std::vector<int> Recorder::recorded_links() const {
  std::vector<int> recorded;
  for (std::size_t link = 0; link < index_of_.size(); ++link)
    if (index_of_[link] >= 0) recorded.push_back(static_cast<int>(link));
  return recorded;
}

void Recorder::change_rate(std::size_t link, Seconds now, double rate) {
  CurrentRate& current = current_[link];
  if (rate != 0 && std::abs(rate - current.rate) <= kRateRounding * links[link].rate.value()) return;
  if (current.rate > 0)
    add_rate(link, {.start = current.since, .length = now.value() - current.since, .rate = current.rate});
  current = {now.value(), rate};
}

void Recorder::add_rate(std::size_t link, const RatePulses& pulses) {
  if (!(pulses.length > 0) || !keeps_activity) return;
  const double from = scope.window.start.value(), to = scope.window.end.value();
  if (pulses.start >= from && pulses.end() <= to) return keep(rates, LinkRate{link, pulses});
  std::vector<RatePulses> parts;
  append_within(pulses, from, to, parts);
  for (const RatePulses& part : parts) keep(rates, LinkRate{link, part});
}

void Recorder::cut_rates(Seconds now, std::optional<MachineIndex> machine) {
  std::vector<LinkRate> left;
  std::vector<RatePulses> parts;
  bool is_cut = false;
  for (const LinkRate& rate : rates) {
    const bool is_meant = !machine || links[rate.link].machine == *machine;
    if (!is_meant || rate.pulses.end() <= now.value()) {
      left.push_back(rate);
      continue;
    }
    is_cut = true;
    parts.clear();
    append_within(rate.pulses, 0, now.value(), parts);
    for (const RatePulses& part : parts) left.push_back({rate.link, part});
  }
  if (is_cut) rates = std::move(left);
}

}  // namespace rehearse
