#pragma once
// How long a machine takes from the request until it runs: the provider finds one (provisioning), prepares it
// (staging), and it boots. Then the framework starts: it loads, reads its data and builds the model's graph.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platforms/distribution.hpp"

namespace rehearse {

/// What the times depend on. Market is "on-demand" or "spot", as in a scenario; accelerator is empty without one.
struct StartupCondition {
  std::string market;
  std::string region;
  std::string accelerator;
};

/// From a running machine to a worker's first step: fixed_time + tensors * time_per_tensor, and cold_time besides on a
/// machine where the framework has not run before, whose disk has to bring program and data first. All 0: neglected.
struct FrameworkStart {
  Seconds fixed_time{};
  Seconds time_per_tensor{};  // of the model's trained tensors: building and placing the graph
  Seconds cold_time{};

  Seconds time(int trainable_tensors, bool is_cold) const {
    return fixed_time + time_per_tensor * static_cast<double>(trainable_tensors) + (is_cold ? cold_time : Seconds{});
  }
};

/// One machine's start.
struct StartupStages {
  Seconds provisioning{}, staging{}, booting{}, framework{};

  Seconds until_running() const { return provisioning + staging + booting; }
  Seconds total() const { return until_running() + framework; }
  /// From the request until the provider has started the machine: before its system has booted.
  Seconds until_charged() const { return provisioning + staging; }
};

/// Start-up of machines in one condition. The stages are independent of each other.
struct Startup {
  Distribution provisioning, staging, booting;
  FrameworkStart framework;

  /// Mean time until the machine runs, without the framework.
  Seconds mean() const { return provisioning.mean() + staging.mean() + booting.mean(); }
  /// Time until the machine runs: one draw for each stage, in their order.
  Seconds draw(Rng& rng) const;
  /// The same draws stage by stage, and the framework's start.
  StartupStages draw(Rng& rng, int trainable_tensors, bool is_cold) const;
  /// Quantile of the time until the machine runs, `probability` in [0, 1), from 10001 draws of a stream of its own:
  /// always the same value.
  Seconds quantile(double probability) const;
};

/// Times of one stage; an empty part of the condition stands for any.
struct StartupTime {
  StartupCondition condition;
  Distribution time;
};

/// A profile's "startup": for each stage a list, of which the first entry that fits a condition counts.
struct StartupParameters {
  std::string source;
  std::vector<StartupTime> provisioning, staging, booting;
  FrameworkStart framework;  // "framework", optional

  /// None if a stage has no entry for the condition.
  std::optional<Startup> find(const StartupCondition& condition) const;
};

/// Reads a profile's "startup". Throws InputError.
StartupParameters read_startup(const JsonReader& json);

}  // namespace rehearse
