#pragma once
// When a training's steps ended, beside its traffic.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

struct LoggedStep {
  std::int64_t time_ns = 0;  // since 1970
  double loss = 0, accuracy = 0;
  bool has_metrics = false;
};

/// Steps in the order of their time.
struct StepLog {
  std::vector<LoggedStep> steps;

  /// Mean difference of successive steps; 0 of fewer than two.
  double step_time_s() const;
  /// From the first to the last step: what came before the first is no part of it.
  double duration_s() const;
};

/// The steps of a training log, `Type,ID,Timestamp,Loss,Accuracy`: those of type Batch; times are seconds since 1970 in
/// UTC, later by `offset_s`. Throws InputError.
StepLog load_step_log(const std::filesystem::path& file, double offset_s);
StepLog parse_step_log(std::string text, const std::string& file_name, double offset_s);

/// The steps of a run's first worker, as far as each was recorded (iterations.csv). Throws InputError.
StepLog load_run_steps(const std::filesystem::path& file);

}  // namespace rehearse
