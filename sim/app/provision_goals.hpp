#pragma once
// The part of `rehearse provision` that searches for the best way to train, on machines of the catalog.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/verb.hpp"

namespace rehearse {

/// What is trained, on what, by when: options as typed. None of them is given where servers and a loss are asked for.
struct GoalCommand {
  std::string model, tokens, samples, precision, optimizer, calibration, budget, spot_pool, server;
  std::optional<double> epochs;
  std::optional<int> sequence;
  std::vector<int> global_batches;
  std::vector<std::string> gpus_named, instances, providers, markets, strategies;
  std::optional<int> gpus, most_gpus;
  std::optional<int> most_simulated;
};

/// Options of goals, of the verb's help.
void add_goal_options(Options options, GoalCommand& goal);
/// Whether one of them is given.
bool has_goal(const GoalCommand& goal);

/// What both kinds of questions have.
struct GoalQuestion {
  const CommonOptions& common;
  std::filesystem::path file;  // a scenario; empty: --model
  std::vector<std::string> overrides;
  std::string deadline;
  double confidence = 0.95;
  int runs = 200;
  bool is_exhaustive = false;
  std::string max_run_time;
};

/// Runs it. Throws InputError; NoResultError if nothing meets the goal.
Answer run_goal(const GoalCommand& goal, const GoalQuestion& question);

}  // namespace rehearse
