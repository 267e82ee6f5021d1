#pragma once
// Studies of other kinds than measured runs are compared in files of their own.

#include <filesystem>
#include <optional>

#include "sim/app/verb.hpp"

namespace rehearse {

struct ValidateCommand {
  CommonOptions common;
  std::filesystem::path study;
  std::optional<std::filesystem::path> measurements;
};

int validate_kernels(const ValidateCommand& command);  // of kind "kernels"; returns the exit code

}  // namespace rehearse
