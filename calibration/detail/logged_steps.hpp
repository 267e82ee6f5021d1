#pragma once
// What a training job wrote of its steps, as its lines, rows or events say it, before it is made into rows of measurements
// (job_log.hpp): names with values. log_names.cpp has the table of names, units and meanings; log_text.cpp, log_metrics.cpp
// and event_file.cpp find them.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// What a value of a log says. A step is one update of the parameters.
enum class LogMeaning : std::uint8_t {
  // of a step:
  kStepTime,                // seconds, a mean over the steps that LogSpan says
  kStepsPerSecond,          // their inverse
  kSamplesPerSecond,        // of all GPUs
  kSamplesPerSecondPerGpu,  //
  kTokensPerSecond,         // of all GPUs
  kTokensPerSecondPerGpu,   //
  kBatch,                   // samples of a step, of all GPUs
  kBatchTokens,             // tokens of a step, of all GPUs
  kSamples,                 // since the training began
  kTokens,                  // since the training began
  kElapsed,                 // seconds since some date, pauses included
  kOfStep,                  // as many are above
  // of the job:
  kGpus,         // all of them
  kGpusFactor,   // the GPUs are all of these multiplied that are on the line
  kNodes,        // machines
  kGpusPerNode,  //
  kSequence,     // tokens of a sample
  // others:
  kStep,     // number of the step
  kRunTime,  // seconds of the whole training
  kPause,    // seconds of an evaluation within kRunTime
};

/// A name and what its value means, times `unit` in the unit of the meaning.
struct LogName {
  std::string_view name;
  LogMeaning meaning;
  double unit = 1;
};

/// Which steps a speed is the mean of.
enum class LogSpan : std::uint8_t {
  kSinceLast,  // those since the line before
  kOne,        // the step of the line alone
  kAllSoFar,   // all from the beginning on
};

/// Lines of a framework's console: those with `marker`, and `also` if it is not empty.
struct LogForm {
  std::string_view framework;
  std::string_view marker, also;
  std::span<const LogName> names;
  LogSpan span = LogSpan::kSinceLast;
  bool has_step_before = false;  // the number right before the marker is the step's
  bool is_block = false;         // the number right behind the marker is the step's, and names stand on the lines below
};

/// In the order in which they are preferred where a log has lines of several.
std::span<const LogForm> log_forms();

/// Names that say something of the whole job, on lines with the marker if there is one.
std::span<const LogForm> log_facts();

/// The meaning of a metric in a file that keeps metrics by name, as column, key or tag; a leading "train/", "train|" or
/// "Train " is not compared. Null for others.
const LogName* find_metric(std::string_view name);

/// Whether a metric, or a line, is of an evaluation: "val", "valid", "validation", "eval" or "test" is a word of it.
bool is_of_evaluation(std::string_view name);

/// A logged number; half a unit of its last digit is `resolution` times it.
struct LoggedValue {
  double value = std::numeric_limits<double>::quiet_NaN();
  double resolution = 0;

  bool is_known() const { return value == value; }
  LoggedValue times(double factor) const { return {value * factor, resolution}; }
};

/// The number at the front of `text`, behind blanks, quotes and :, = or dots: `: 7,380`, `=8.79K`, ` ..... 16`. None of what
/// is negative, above 1e18, not finite or goes on as a word. Sets `end` behind it if that is not null.
LoggedValue read_logged_number(std::string_view text, std::size_t* end = nullptr);

inline constexpr double kMostStepNumber = 1e15;

/// What one line, row or event says.
struct JobLogEntry {
  std::size_t line = 0;  // of the file
  std::int64_t step = 0;
  LogSpan span = LogSpan::kSinceLast;
  std::array<LoggedValue, static_cast<std::size_t>(LogMeaning::kOfStep)> values{};

  LoggedValue& operator[](LogMeaning meaning) { return values[static_cast<std::size_t>(meaning)]; }
  const LoggedValue& operator[](LogMeaning meaning) const { return values[static_cast<std::size_t>(meaning)]; }
};

/// Collects what a log says: each step once, since all ranks may log it and a job that begins again repeats steps.
class LoggedSteps {
 public:
  explicit LoggedSteps(std::string file_name) : file_name_{std::move(file_name)} {}

  /// Null if a step of this number or a later one is there already. The pointer is valid until the next call.
  JobLogEntry* add(std::size_t line, std::int64_t step, LogSpan span);
  /// A value of the whole job. The name says it in messages.
  void add_fact(LogMeaning meaning, std::string_view name, double value);

  std::string framework;
  std::vector<JobLogEntry> steps;   // by number
  std::size_t repeated = 0;         // lines of steps that were there
  double run_time = 0, pauses = 0;  // seconds of the whole training, and of evaluations in it; 0: not logged
  bool counts_samples = false;      // the numbers of steps are samples since the beginning
  std::vector<std::string> notes;

  /// Of what the log says once, or always the same; other values contradict each other, and there is a note.
  std::optional<double> fact(LogMeaning meaning) const;

  const std::string& file_name() const { return file_name_; }

 private:
  std::string file_name_;
  std::array<std::set<double>, 32> facts_;  // by meaning, the first few
};

/// The console of a job. Null framework and no steps if no line has one of the forms.
LoggedSteps read_log_text(std::string_view text, const std::string& file_name);

inline constexpr const char* kMetricsByColumn = "metrics by column";  // as the framework of such a file

/// Metrics of a CSV, a column each, with a column of steps: PyTorch Lightning's CSVLogger, Weights & Biases' exports. Throws
/// InputError if no column tells a time.
LoggedSteps read_log_csv(std::string text, const std::string& file_name);
bool is_log_csv(std::string_view start);

/// trainer_state.json of Hugging Face's Trainer, from its "log_history". Throws InputError.
LoggedSteps read_trainer_state(std::string_view text, const std::string& file_name);
bool is_trainer_state(std::string_view start);

/// An event file of TensorBoard: records of TFRecord with scalars. Throws InputError if a record is damaged; one that is cut
/// short at the end, as of a training that still runs, is left out with a note.
LoggedSteps read_event_file(std::string_view content, const std::string& file_name);
bool is_event_file(std::string_view start);
/// The checksum of TFRecord: CRC32C rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace rehearse
