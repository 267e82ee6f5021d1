#include "sim/scenario/scenario.hpp"

#include <algorithm>

namespace rehearse {

int optimizer_slots(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kMomentum:
      return 1;
    case Optimizer::kAdam:
      return 2;
  }
  return 0;
}

Precision precision_named(std::string_view word) {
  for (const auto& [name, precision] : kPrecisions)
    if (name == word) return precision;
  return Precision::kFp32;
}

int Scenario::count(Role role) const {
  int sum = 0;
  for (const Group& group : groups)
    if (group.role == role) sum += role == Role::kWorker ? group.workers() : group.count;
  return sum;
}

int Scenario::worker_machines() const {
  int sum = 0;
  for (const Group& group : groups) sum += group.role == Role::kWorker ? group.count : 0;
  return sum;
}

std::vector<int> Scenario::islands() const {
  std::vector<int> gpus;
  for (const Group& group : groups)
    for (int left = group.role == Role::kWorker ? group.count : 0; left > 0; left -= group.machines_per_domain)
      gpus.push_back(std::min(left, group.machines_per_domain) * group.instance.accelerators);
  return gpus;
}

const Group& Scenario::first_workers() const {
  return *std::find_if(groups.begin(), groups.end(), [](const Group& group) { return group.role == Role::kWorker; });
}

std::string computed_in(const Scenario& scenario) {
  const int bits = bits_of(scenario.model.fp8);
  return bits == 0 ? to_text(scenario.precision) : "fp" + std::to_string(bits);
}

FlopsPerSecond Scenario::peak_of(const Accelerator& gpu) const {
  switch (precision) {
    case Precision::kFp32:
      break;
    case Precision::kTf32:
      return gpu.peak_tf32;
    case Precision::kFp16:
      return gpu.peak_fp16;
    case Precision::kBf16:
      return gpu.peak_bf16;
  }
  return gpu.peak_fp32;
}

bool Scenario::has_changing_membership() const {
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.joins_at > Seconds{} || group.leaves_at; });
}

bool Scenario::has_revocations() const {
  return std::any_of(groups.begin(), groups.end(), [](const Group& group) { return group.is_lost_by_chance(); });
}

bool Scenario::loses_packets() const {
  return packet_loss > 0 ||
         std::any_of(links.begin(), links.end(), [](const RegionLink& link) { return link.packet_loss > 0; });
}

bool Scenario::has_links_with_memory() const {
  return loses_packets() || tcp.turn > Bytes{} || profile.collectives.asks_receivers() ||
         std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.instance.nic_burst > Bytes{}; });
}

NoResultError Scenario::no_result(const RunError& error) const {
  return NoResultError{file_name + ": " + error.what() + set_by};
}

bool has_steady_state(const Scenario& scenario) {
  const Training& training = scenario.training;
  const std::int64_t workers = training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  return training.steps >= workers * (training.warmup_steps + (workers > 1 ? 4 : 2));
}

std::optional<Startup> startup_of(const Scenario& scenario, const Group& group) {
  if (!scenario.profile.startup) return {};
  return scenario.profile.startup->find({.market = group.market == Market::kSpot ? "spot" : "on-demand",
                                         .region = group.region,
                                         .accelerator = group.accelerator ? group.accelerator->name : ""});
}

}  // namespace rehearse
