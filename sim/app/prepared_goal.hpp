#pragma once
// A question about a goal, read: which trainings on which machines are compared.

#include <cstdint>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/output/goal_document.hpp"
#include "sim/app/provision_goals.hpp"
#include "sim/plan/goal.hpp"

namespace rehearse {

/// That may be rented where neither --gpus nor --max-gpus says how many.
inline constexpr int kMostGpus = 64;

/// How many samples the scenario's own steps have.
struct OwnStep {
  double samples = 0;  // of a step of all workers, or of each where they do not wait for one another; 0: nobody says
  bool is_of_each = false;  // the latter
  int workers = 1;
};

/// A question with all that it takes, once it is read.
struct PreparedGoal {
  std::vector<GoalCandidate> candidates;
  AskedGoal asked;
  OwnStep own_step;
  std::int64_t odd_gpus = 1;  // what a step's samples are divided by besides powers of two
  std::int64_t global_batch = 0;
  bool has_assumed_batch = false, has_assumed_gpus = false, has_assumed_restarts = false;
  bool has_servers = false;        // on machines of their own, anywhere
  bool has_other_updates = false;  // trainings whose samples may not lead to the same loss are compared
};

/// Throws InputError.
PreparedGoal prepare_goal(const GoalCommand& goal, const GoalQuestion& question, const Catalog& catalog);

/// Whether the machines are chosen from the catalog.
bool names_machines(const GoalCommand& goal);

/// What options say of a scenario's values, "/pointer=value".
std::vector<std::string> overrides_of(const GoalCommand& goal, const GoalQuestion& question);

}  // namespace rehearse
