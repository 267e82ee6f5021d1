#pragma once
// Networks that are trained in no time.

#include <string>

#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/torch_threads.hpp"

namespace rehearse::test {

inline PredictorChoice small_predictor(const std::string& network) {
  use_torch_threads(1);
  PredictorChoice choice{.network = network};
  choice.metrics = {.hidden = 8, .message_rounds = 1, .channels = 16, .readout = 32};
  choice.published.hidden = 8;
  choice.published.iterations = "2";
  choice.published.set2set_steps = 2;
  choice.frequencies = {{"Conv2D", 0.01}, {"Relu", 0.02}, {"ApplyMomentum", 0.001}};
  return choice;
}

}  // namespace rehearse::test
