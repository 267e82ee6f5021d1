#pragma once
// Of the verbs of the second program, rehearse-predictor, which alone loads LibTorch: what several of their files
// share.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "predictor/gnn/training.hpp"
#include "sim/app/verb.hpp"

namespace rehearse {

struct CompareCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> predictors;
  std::filesystem::path input;
  SampleChoice choice;
  std::string origin;  // of the choice, as typed
  std::string split = "test";
  bool skips_baselines = false;
  bool is_unseen = false;  // what choice.settings holds, to the models
  // Of a scenario:
  std::vector<std::string> overrides;
  std::optional<std::filesystem::path> measured;  // time series
  std::string step_time;                          // measured, as typed
  std::optional<std::string> study;               // for corrections
};

/// Runs `compare` with a scenario.
Answer compare_scenario(const CompareCommand& command, std::optional<Seconds> step_time);

/// The options that choose samples of a dataset; --origin is read into `origin`, for set_origin().
void add_choice(Options options, SampleChoice& choice, std::string& origin);
void set_origin(SampleChoice& choice, const std::string& origin);

/// Names of predictors for tables and files: those of their folders, and the paths of folders whose names are not distinct
/// or among `taken`. Throws InputError if that does not help.
std::vector<std::string> names_of_predictors(const std::vector<std::filesystem::path>& predictors,
                                             const std::vector<std::string>& taken);

}  // namespace rehearse
