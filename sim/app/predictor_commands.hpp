#pragma once
// The verbs of the second program, rehearse-predictor, which alone loads LibTorch: import, train,
// predict, compare.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "predictor/gnn/published_options.hpp"
#include "predictor/gnn/training.hpp"
#include "sim/app/commands.hpp"

namespace rehearse {

struct TrainCommand {
  CommonOptions common;  // output: the model's folder
  std::filesystem::path dataset;
  std::string network = "profile";
  TrainingPlan plan;
  SampleChoice choice;
  PublishedOptions published;
  std::optional<int> hidden;
  std::optional<double> weight_decay;
  std::optional<double> simulated_weight;
  std::optional<std::filesystem::path> transfer_from;
  std::string transfer = "fine-tune";
};

struct PredictCommand {
  CommonOptions common;
  std::filesystem::path model, input;
  std::optional<std::filesystem::path> scenario;  // of the cluster, for an input that is none
  std::vector<std::string> overrides;
};

struct CompareCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> models;
  std::filesystem::path input;
  SampleChoice choice;
  std::string split = "test";
  bool skips_baselines = false;
  // Of a scenario:
  std::vector<std::string> overrides;
  std::optional<std::filesystem::path> measured;  // time series
  std::optional<Seconds> step_time;               // measured
};

struct ImportCommand {
  CommonOptions common;  // output: the dataset's file
  std::vector<std::filesystem::path> sources;
  bool is_grouped = false;
};

int run(const ImportCommand& command);
int run(const TrainCommand& command);
int run(const PredictCommand& command);
int run(const CompareCommand& command);  // with a dataset
int compare_scenario(const CompareCommand& command);

/// Names of models for tables and files: those of their folders, and the paths of folders whose names are not distinct
/// or among `taken`. Throws InputError if that does not help.
std::vector<std::string> names_of_models(const std::vector<std::filesystem::path>& models,
                                         const std::vector<std::string>& taken);

}  // namespace rehearse
