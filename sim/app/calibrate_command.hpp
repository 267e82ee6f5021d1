#pragma once
// Studies of other kinds than measured runs are fitted in files of their own.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calibration/study.hpp"
#include "sim/app/verb.hpp"

namespace rehearse {

struct CalibrateCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> studies;
  int most_steps = 20;
  int bootstrap = 0;                            // draws
  std::optional<std::filesystem::path> report;  // HTML
};

/// Says on stderr, unless that is silenced, what is to be said of a study's measurements: rows left out, another GPU.
void say_remarks(const Study& study, const Catalog& catalog, const CommonOptions& common);

/// Prints what was fitted if --json asks for it or -o has not taken it; returns where what is said of the fit goes then.
std::FILE* print_fitted(const CommonOptions& common, const std::string& text);

// Studies of kind "kernels". All return the exit code.
int calibrate_kernels(const CalibrateCommand& command);

// One study of another kind.
int calibrate_training_logs(const CalibrateCommand& command);  // of kind "training_logs"
int calibrate_lifetimes(const CalibrateCommand& command);      // of kind "lifetimes"

}  // namespace rehearse
