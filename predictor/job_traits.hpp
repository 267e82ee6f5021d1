#pragma once
// What tells measured jobs apart, for corrections of the engine.

#include <string>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

struct JobTraits {
  std::string study;  // that the job was measured in; empty: none
  std::string gpu;    // names of the workers' GPUs
  std::string model;
  std::string strategy;  // and precision
  double workers = 1, machines = 1, batch = 1;
};

JobTraits traits_of(const Scenario& scenario, std::string study);

}  // namespace rehearse
