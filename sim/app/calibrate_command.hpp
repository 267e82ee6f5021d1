#pragma once
// Studies of other kinds than measured runs are fitted in files of their own.

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

/// The answer of a fit, whose JSON is what was fitted and whose text is about it: if --json asks for what was fitted, or -o has not
/// taken it, that alone is printed, and the text becomes a remark.
Answer of_fit(const CommonOptions& common, Answer answer);

// Studies of kind "kernels".
Answer calibrate_kernels(const CalibrateCommand& command);

// One study of another kind.
Answer calibrate_training_logs(const CalibrateCommand& command);  // of kind "training_logs"
Answer calibrate_lifetimes(const CalibrateCommand& command);      // of kind "lifetimes"

}  // namespace rehearse
