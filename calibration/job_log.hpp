#pragma once
// What a training job of any strategy logged of its steps, as a table: what a framework prints, or the metrics that it
// keeps. detail/log_names.cpp lists the frameworks, and what they call their numbers.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "calibration/measurements.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// What a log is read with.
struct JobLogOptions {
  /// Steps at the beginning that are left out: compilation, allocation, input that is not there yet. Of a line that is the
  /// mean over several steps all have to lie behind them.
  std::int64_t skip_steps = 10;
  /// What the log does not say: samples of a step and GPUs of the whole job, tokens of a sample. What it says must agree.
  std::optional<std::int64_t> batch, gpus, sequence_length;
};

/// "skip_steps", "batch", "gpus" and "sequence_length" of a study's "measurements". Throws InputError.
JobLogOptions read_job_log_options(const JsonReader& json);

/// The speed of a job, a row for each global batch that it had, in the order in which they come. Columns:
///   framework                           "Megatron-LM", ...
///   batch, gpus, sequence_length        samples of a step, GPUs of the job, tokens of a sample
///   first_step, last_step, entries      which steps count, and how many lines told them
///   step_time_s                         median over the entries: pauses, which a few contain, do not move it
///   step_time_mean_s, step_time_std_s   mean and sample standard deviation of the same
///   steps_per_s                         1 / step_time_s
///   samples_per_s, tokens_per_s         medians, of all GPUs
/// A field is empty if neither log nor options tell it; Measurements::missing says why. Each step counts once, whatever
/// ranks logged it. Throws InputError if there is no speed, or the log contradicts the options.
Measurements parse_job_log(std::string_view content, const std::string& file_name, const JobLogOptions& options);

/// Of a file, plain or gzip, or of all files of a folder, whose rows are told apart by a column `file`.
Measurements load_job_logs(const std::filesystem::path& path, const JobLogOptions& options);

/// What a row of a log says of the whole job.
struct LoggedSpeed {
  double samples_per_s = 0;
  std::optional<double> batch;  // samples of a step, if the log says so
};

/// Throws InputError if the log does not tell samples per second.
LoggedSpeed logged_speed(const Measurements& log, const CsvRow& row);

/// The frameworks whose consoles are read, for messages: "Megatron-LM, nanotron, ...".
std::string job_log_frameworks();

/// The framework whose log begins so; empty if it is none.
std::string job_log_kind(std::string_view start);

}  // namespace rehearse
