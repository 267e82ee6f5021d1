#pragma once
// What training jobs write about themselves: seconds per batch, and loss against step.
//
// As a table, one row for each step of each worker:
//   cluster            jobs with the same name trained together
//   worker             within the cluster
//   instance, gpus     machine type, and how many of its GPUs the worker uses
//   batch              samples of one step, of all these GPUs together
//   step               updates of all workers of the cluster so far, this one included
//   seconds_per_batch  of this worker, or empty
//   loss               or empty; the column may be missing, as the next two
//   exchanged_B        bytes that the worker sent to and received from its servers in the step
//   exchange_s         part of the step in which it did so
//
// Or as any text, where a line that matches a pattern is an entry of one worker.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

struct LogEntry {
  std::int64_t step = 0;
  std::optional<double> seconds_per_batch;
  std::optional<double> loss;
  std::optional<double> exchanged_bytes, exchange_seconds;
};

/// The entries of one worker, in the order of its log.
struct WorkerLog {
  std::string cluster, worker, instance;
  int gpus = 1;
  int batch = 0;
  std::vector<LogEntry> entries;
};

/// What to look for in a line: text that must be there, with
///   {step} {loss}                         a number
///   {seconds_per_batch} {ms_per_batch}    a number: duration of one step of this worker
///   {batches_per_s}                       or its inverse
///   {elapsed_s}                           or the time since the entry before, over the steps since then
///   {*}                                   any text, the shortest that lets the rest match
/// Blanks stand for any number of blanks. The pattern may begin anywhere in the line. Examples:
///   TensorFlow  loss = {loss}, step = {step} ({elapsed_s} sec)
///   Keras       - {ms_per_batch}ms/step - loss: {loss}
///   PyTorch     [{step}/{*}] Time {seconds_per_batch} {*} Loss {loss}
class LinePattern {
 public:
  /// Throws InputError, starting with `place`, if a field is unknown or there twice, or if there is neither a time nor
  /// a loss.
  LinePattern(std::string_view pattern, const std::string& place);

  /// Numbers in the order of fields(); nothing if the line does not match.
  std::optional<std::vector<double>> match(std::string_view line) const;
  const std::vector<std::string>& fields() const { return fields_; }

 private:
  struct Part {
    enum class Kind { kText, kNumber, kAnything } kind;
    std::string text;
  };
  std::optional<std::size_t> match_from(std::string_view line, std::size_t at, std::size_t first, std::size_t last,
                                        std::vector<double>& numbers) const;

  std::vector<Part> parts_;
  std::vector<std::string> fields_;
};

/// Throws InputError for a table that cannot be read, a column missing, a value out of range, or a worker whose instance,
/// gpus or batch changes.
std::vector<WorkerLog> parse_log_table(std::string text, const std::string& file_name);

/// Entries of a text into `worker`; without {step} the entries are counted, `steps_per_entry` each. Throws InputError
/// if no line matches, or a number is out of range.
void parse_log_text(std::string_view text, const std::string& file_name, const LinePattern& pattern,
                    int steps_per_entry, WorkerLog& worker);

}  // namespace rehearse
