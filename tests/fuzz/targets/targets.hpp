#pragma once
// What is fuzzed. Each target takes any bytes and may throw InputError or QuantityError; anything else is a bug.

#include <span>
#include <string_view>
#include <vector>

namespace rehearse::fuzz {

struct Target {
  std::string_view name;  // also the folder of its corpus
  void (*run)(std::string_view input);
};

// Those of one folder are in the file of its name.
std::span<const Target> targets_of_text();
std::span<const Target> targets_of_platforms();
std::span<const Target> targets_of_workloads();
std::span<const Target> targets_of_scenarios();
std::span<const Target> targets_of_queue();
std::span<const Target> targets_of_measurements();
std::span<const Target> targets_of_predictor();
std::span<const Target> targets_of_traffic();
std::span<const Target> targets_of_corrected();
std::span<const Target> targets_of_view();
std::span<const Target> targets_of_networks();

/// Without the networks.
std::vector<Target> all_targets();

}  // namespace rehearse::fuzz
