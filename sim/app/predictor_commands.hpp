#pragma once
// The verbs of the second program, rehearse-predictor, which alone loads LibTorch: train, predict, compare.

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
  std::vector<std::string> overrides;
};

struct CompareCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> models;
  std::filesystem::path input;
  SampleChoice choice;
  std::string split = "test";
};

int run(const TrainCommand& command);
int run(const PredictCommand& command);
int run(const CompareCommand& command);

}  // namespace rehearse
