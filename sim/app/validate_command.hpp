#pragma once
// Studies of other kinds than measured runs are compared in files of their own.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/verb.hpp"

namespace rehearse {

struct ValidateCommand {
  CommonOptions common;
  std::filesystem::path study;
  std::optional<std::filesystem::path> measurements;
  bool has_all_baselines = false;
  std::vector<std::string> baselines;  // names of single ones
  std::string computation = "measured";
  std::optional<std::string> calibration;
  std::string exchange = "fitted";
  bool withholds_own_profiles = false;
};

Answer validate_kernels(const ValidateCommand& command);  // of kind "kernels"

}  // namespace rehearse
