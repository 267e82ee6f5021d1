#include "calibration/job_log.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "calibration/detail/logged_steps.hpp"
#include "calibration/gpu_log.hpp"
#include "calibration/trace_measurements.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/statistics.hpp"
#include "sim/base/unpacked_file.hpp"

namespace rehearse {

namespace {

using enum LogMeaning;

constexpr std::size_t kLargestLog = 256 * kMiB;
constexpr double kLeastLogged = 1e-9, kMostLogged = 1e15;  // of seconds and rates; others are no speeds

/// The one whole number that a / b may be by the digits of both; none if there is another one, or none.
std::optional<double> whole_ratio(const LoggedValue& a, const LoggedValue& b) {
  if (!a.is_known() || !b.is_known() || !(b.value > 0)) return {};
  constexpr double kRounding = 1e-9;
  const double ratio = a.value / b.value, error = a.resolution + b.resolution + kRounding;
  const double low = std::ceil(ratio * (1 - error)), high = std::floor(ratio * (1 + error));
  return low == high && low >= 1 ? std::optional{low} : std::nullopt;
}

/// What is known of the whole job.
struct JobFacts {
  std::optional<double> batch, gpus, sequence;
};

/// One entry, in the units of the table.
struct Speed {
  const JobLogEntry* logged = nullptr;
  double begin = 0;  // number of the step after which it begins
  double batch = 0;  // 0: not known
  LoggedValue seconds, samples_per_s, tokens_per_s;
  bool is_known() const { return seconds.is_known() || samples_per_s.is_known() || tokens_per_s.is_known(); }
};

LoggedValue over(const LoggedValue& value, double dividend) {
  return value.is_known() && value.value > 0 ? LoggedValue{dividend / value.value, value.resolution} : LoggedValue{};
}

/// Makes speeds of what was logged.
class SpeedReader {
 public:
  SpeedReader(const LoggedSteps& log, const JobLogOptions& options) : log_{log} {
    facts_.batch = agreed("batch", options.batch, log.fact(kBatch));
    facts_.gpus = agreed("gpus", options.gpus, log.fact(kGpus));
    facts_.sequence = agreed("sequence_length", options.sequence_length, log.fact(kSequence));
    if (!facts_.gpus) facts_.gpus = gpus_of_rates();
    if (options.batch)
      for (const JobLogEntry& step : log.steps)
        if (const LoggedValue& batch = step[kBatch]; batch.is_known() && batch.resolution < 0.05)
          (void)agreed("batch", options.batch, std::optional{batch.value});
  }

  const JobFacts& facts() const { return facts_; }

  std::vector<Speed> speeds() const {
    std::vector<Speed> speeds;
    for (std::size_t i = 0; i < log_.steps.size(); ++i) {
      const Speed speed = speed_of(i);
      if (speed.is_known()) speeds.push_back(speed);
    }
    return speeds;
  }

 private:
  std::optional<double> agreed(const std::string& key, const std::optional<std::int64_t>& stated,
                               const std::optional<double>& logged) const {
    if (!stated) return logged;
    const auto number = static_cast<double>(*stated);
    if (logged && *logged != number)
      throw InputError{log_.file_name() + ": logs " + to_text(*logged) + " as " + key + "; stated are " +
                       to_text(number)};
    return number;
  }

  std::optional<double> gpus_of_rates() const {
    for (const JobLogEntry& step : log_.steps) {
      if (const auto gpus = whole_ratio(step[kSamplesPerSecond], step[kSamplesPerSecondPerGpu])) return gpus;
      if (const auto gpus = whole_ratio(step[kTokensPerSecond], step[kTokensPerSecondPerGpu])) return gpus;
    }
    return {};
  }

  /// Steps from the entry before, which the first one has as the second.
  double interval_of(std::size_t i) const {
    const auto& steps = log_.steps;
    if (steps.size() == 1) return 1;
    const std::size_t later = std::max<std::size_t>(i, 1);
    return static_cast<double>(steps[later].step - steps[later - 1].step);
  }

  /// Change of a running total per step since the entry before.
  LoggedValue change_of(std::size_t i, LogMeaning total) const {
    if (i == 0) return {};
    const LoggedValue &now = log_.steps[i][total], &before = log_.steps[i - 1][total];
    if (!now.is_known() || !before.is_known() || !(now.value > before.value)) return {};
    const double change = now.value - before.value;
    return {change / interval_of(i), (now.value * now.resolution + before.value * before.resolution) / change};
  }

  double batch_of(std::size_t i) const {
    const JobLogEntry& step = log_.steps[i];
    if (step[kBatch].is_known() && step[kBatch].value >= 1) return step[kBatch].value;
    if (log_.counts_samples) return facts_.batch.value_or(0);
    if (const double grown = growth_of_samples(i); grown > 0) return grown;
    if (facts_.batch) return *facts_.batch;
    if (facts_.sequence)
      if (const auto samples = whole_ratio(step[kBatchTokens], {*facts_.sequence, 0})) return *samples;
    if (const auto samples = whole_ratio(step[kSamplesPerSecond], step[kStepsPerSecond])) return *samples;
    return whole_ratio(step[kSamplesPerSecond], over(step[kStepTime], 1)).value_or(0);
  }

  /// Samples of a step, by the total so far. The first entry has those of the second if all before had as many. 0: not known.
  double growth_of_samples(std::size_t i) const {
    const auto& steps = log_.steps;
    if (i == 0) {
      const double next = steps.size() > 1 ? growth_of_samples(1) : 0;
      const double total = steps[0][kSamples].value, step = static_cast<double>(steps[0].step);
      const bool is_alike = total == next * step || total == next * (step + 1);  // numbers begin at 1 or 0
      return steps[0][kSamples].is_known() && is_alike ? next : 0;
    }
    const LoggedValue grown = change_of(i, kSamples);
    return grown.is_known() && grown.resolution < 1e-3 && grown.value == std::floor(grown.value) ? grown.value : 0;
  }

  /// Tokens of a step; 0 if that is not known.
  double tokens_of(std::size_t i, double batch) const {
    if (batch > 0 && facts_.sequence) return batch * *facts_.sequence;
    const LoggedValue& logged = log_.steps[i][kBatchTokens];
    if (logged.is_known() && logged.value > 0) return logged.value;
    const LoggedValue grown = change_of(i, kTokens);
    return grown.is_known() && grown.resolution < 1e-3 ? grown.value : 0;
  }

  Speed speed_of(std::size_t i) const {
    const JobLogEntry& step = log_.steps[i];
    Speed speed{.logged = &step, .batch = batch_of(i), .seconds = {}, .samples_per_s = {}, .tokens_per_s = {}};
    speed.begin = static_cast<double>(step.step) - (step.span == LogSpan::kOne ? 1 : interval_of(i));
    const double tokens = tokens_of(i, speed.batch);
    speed.samples_per_s = step[kSamplesPerSecond];
    if (!speed.samples_per_s.is_known() && facts_.gpus)
      speed.samples_per_s = step[kSamplesPerSecondPerGpu].times(*facts_.gpus);
    speed.tokens_per_s = step[kTokensPerSecond];
    const LoggedValue& of_gpu = step[kTokensPerSecondPerGpu];
    if (facts_.gpus && of_gpu.is_known() && !(speed.tokens_per_s.resolution <= of_gpu.resolution))
      speed.tokens_per_s = of_gpu.times(*facts_.gpus);
    if (facts_.gpus && !speed.tokens_per_s.is_known()) speed.tokens_per_s = of_gpu.times(*facts_.gpus);

    // That with the most digits says how long a step takes.
    std::vector<LoggedValue> ways{step[kStepTime], over(step[kStepsPerSecond], 1)};
    if (speed.batch > 0) ways.push_back(over(speed.samples_per_s, speed.batch));
    if (tokens > 0) ways.push_back(over(speed.tokens_per_s, tokens));
    for (const LoggedValue& way : ways)
      if (way.is_known() && way.value > 0 && (!speed.seconds.is_known() || way.resolution < speed.seconds.resolution))
        speed.seconds = way;
    if (!speed.is_known()) speed = by_dates(i, speed);
    if (step.span == LogSpan::kAllSoFar && log_.run_time > log_.pauses && log_.pauses > 0) without_pauses(speed);
    complete(speed, tokens);
    for (LoggedValue* value : {&speed.seconds, &speed.samples_per_s, &speed.tokens_per_s})
      if (!(value->value >= kLeastLogged && value->value <= kMostLogged)) *value = {};
    return speed;
  }

  Speed by_dates(std::size_t i, Speed speed) const {
    const LoggedValue elapsed = change_of(i, kElapsed);
    if (!elapsed.is_known()) return speed;
    if (!log_.counts_samples) {
      speed.seconds = elapsed;
      return speed;
    }
    speed.samples_per_s = over(elapsed, 1);
    if (speed.batch > 0) speed.seconds = elapsed.times(speed.batch);
    return speed;
  }

  void without_pauses(Speed& speed) const {
    const double share = 1 - log_.pauses / log_.run_time;
    speed.seconds = speed.seconds.times(share);
    speed.samples_per_s = speed.samples_per_s.times(1 / share);
    speed.tokens_per_s = speed.tokens_per_s.times(1 / share);
  }

  void complete(Speed& speed, double tokens) const {
    if (!speed.samples_per_s.is_known() && speed.batch > 0) speed.samples_per_s = over(speed.seconds, speed.batch);
    if (!speed.tokens_per_s.is_known() && tokens > 0) speed.tokens_per_s = over(speed.seconds, tokens);
    if (!facts_.sequence) return;
    if (!speed.samples_per_s.is_known()) speed.samples_per_s = speed.tokens_per_s.times(1 / *facts_.sequence);
    if (!speed.tokens_per_s.is_known()) speed.tokens_per_s = speed.samples_per_s.times(*facts_.sequence);
  }

  const LoggedSteps& log_;
  JobFacts facts_;
};

/// Whether some entry has the value.
bool has(const LoggedSteps& log, LogMeaning meaning) {
  return std::ranges::any_of(log.steps, [&](const JobLogEntry& step) { return step[meaning].is_known(); });
}

/// What to state so that tokens or samples per second become the time of a step, and times of steps the others.
std::string lacking_text(const LoggedSteps& log, const JobFacts& facts, bool has_batch) {
  std::vector<std::string> lacking;
  std::string found = "no speed";
  const bool has_samples = has(log, kSamplesPerSecond) || has(log, kSamplesPerSecondPerGpu) || log.counts_samples;
  if (has_samples) found = "samples per second";
  if (!has_samples && has(log, kTokensPerSecond)) found = "tokens per second";
  const bool is_of_gpu = !has(log, kSamplesPerSecond) && !has(log, kTokensPerSecond) &&
                         (has(log, kSamplesPerSecondPerGpu) || has(log, kTokensPerSecondPerGpu));
  if (is_of_gpu) found = has_samples ? "samples per second of each GPU" : "tokens per second of each GPU";
  if (has(log, kStepTime) || has(log, kStepsPerSecond) || (!log.counts_samples && has(log, kElapsed)))
    found = "times of steps";
  if (!facts.batch && !has_batch) lacking.emplace_back("\"batch\"");
  if (!has_samples && !facts.sequence) lacking.emplace_back("\"sequence_length\"");
  if (is_of_gpu && !facts.gpus) lacking.emplace_back("\"gpus\"");
  if (lacking.empty()) return "it logs " + found + ", of which no line tells one";
  return "it logs " + found + " and not " + joined(lacking) + "; state " + (lacking.size() == 1 ? "it" : "them") +
         " beside \"format\" in the study's measurements";
}

/// Rows of a table and what is to be said of them.
class JobLogRows {
 public:
  JobLogRows(const LoggedSteps& log, const JobLogOptions& options)
      : log_{log},
        options_{options},
        reader_{log, options},
        speeds_{reader_.speeds()},
        lacking_{lacking_text(log, reader_.facts(), has_batches())} {}

  Measurements read() {
    if (speeds_.empty()) fail_without_speed();
    leave_out_first();
    std::map<double, std::vector<const Speed*>> by_batch;
    std::vector<double> order;
    for (const Speed& speed : speeds_) {
      if (!by_batch.contains(speed.batch)) order.push_back(speed.batch);
      by_batch[speed.batch].push_back(&speed);
    }
    constexpr std::size_t kMostBatches = 1000;
    if (order.size() > kMostBatches)
      throw InputError{log_.file_name() + ": expected at most 1000 different batches; found " +
                       std::to_string(order.size())};
    for (const double batch : order) add_row(batch, by_batch[batch]);
    Measurements result{
        .table = parse_csv(csv_.text(), log_.file_name()), .remarks = {}, .missing = std::move(missing_)};
    result.remarks = remarks();
    return result;
  }

 private:
  [[noreturn]] void fail_without_speed() const {
    throw InputError{log_.file_name() + ": expected the speed of steps; " +
                     (log_.steps.size() == 1 && has(log_, kElapsed) ? "found one date, which tells none" : lacking_)};
  }

  /// Whether each speed has the samples of its step.
  bool has_batches() const {
    return speeds_.empty() ? has(log_, kBatch)
                           : std::ranges::all_of(speeds_, [](const Speed& speed) { return speed.batch > 0; });
  }

  /// Means over all steps so far have only a last value.
  void leave_out_first() {
    if (speeds_.front().logged->span == LogSpan::kAllSoFar) {
      speeds_.erase(speeds_.begin(), speeds_.end() - 1);
      return;
    }
    const double first = std::max(-1.0, speeds_.front().begin);  // numbers begin at 0 or 1
    double skipped = static_cast<double>(options_.skip_steps);
    if (log_.counts_samples && speeds_.front().batch > 0) skipped *= speeds_.front().batch;
    const std::size_t before = speeds_.size();
    const std::int64_t first_step = speeds_.front().logged->step, last_step = speeds_.back().logged->step;
    std::erase_if(speeds_, [&](const Speed& speed) { return speed.begin < first + skipped; });
    left_out_ = before - speeds_.size();
    if (speeds_.empty())
      throw InputError{
          log_.file_name() + ": expected more than the first " + std::to_string(options_.skip_steps) +
          " steps of the log, which are left out (\"skip_steps\" of the study's measurements, --skip-steps); "
          "found " +
          std::to_string(before) + (before == 1 ? " line, of step " : " lines, of steps ") +
          std::to_string(first_step) + (before == 1 ? "" : " to " + std::to_string(last_step))};
  }

  void add_row(double batch, const std::vector<const Speed*>& speeds) {
    const auto values_of = [&](LoggedValue Speed::*member) {
      std::vector<double> values;
      for (const Speed* speed : speeds)
        if ((speed->*member).is_known()) values.push_back((speed->*member).value);
      return values;
    };
    const std::vector<double> seconds = values_of(&Speed::seconds), samples = values_of(&Speed::samples_per_s),
                              tokens = values_of(&Speed::tokens_per_s);
    const auto text = [](const std::vector<double>& values, const std::function<double(std::span<const double>)>& of) {
      return values.empty() ? std::string{} : CsvField{of(values)}.text();
    };
    const auto number = [](const std::optional<double>& value) {
      return value ? CsvField{*value}.text() : std::string{};
    };
    const auto rate = [](std::span<const double> values) { return 1 / median(values); };
    const JobFacts& facts = reader_.facts();
    const bool is_mean_of_all = speeds.front()->logged->span == LogSpan::kAllSoFar;
    csv_.skip_to_line(speeds.front()->logged->line);
    csv_.row({log_.framework, number(batch > 0 ? std::optional{batch} : std::nullopt), number(facts.gpus),
              number(facts.sequence),
              std::to_string(is_mean_of_all ? 1 : static_cast<std::int64_t>(speeds.front()->begin) + 1),
              std::to_string(speeds.back()->logged->step), std::to_string(speeds.size()), text(seconds, median),
              text(seconds, mean), text(seconds, sample_standard_deviation), text(seconds, rate), text(samples, median),
              text(tokens, median)});
    if (batch == 0) missing_["batch"] = log_.file_name() + ": the log does not say the samples of a step";
    if (!facts.gpus) missing_["gpus"] = log_.file_name() + ": the log does not say the number of GPUs";
    if (!facts.sequence)
      missing_["sequence_length"] = log_.file_name() + ": the log does not say the tokens of a sample";
    if (seconds.empty())
      for (const char* column : {"step_time_s", "step_time_mean_s", "step_time_std_s", "steps_per_s"})
        missing_[column] = log_.file_name() + ": " + lacking_;
    if (samples.empty()) missing_["samples_per_s"] = log_.file_name() + ": " + lacking_;
    if (tokens.empty()) missing_["tokens_per_s"] = log_.file_name() + ": " + lacking_;
    for (const Speed* speed : speeds)
      if (speed->seconds.is_known()) resolutions_.push_back(speed->seconds.resolution);
  }

  std::vector<std::string> remarks() const {
    std::vector<std::string> notes = log_.notes;
    const std::string file = log_.file_name() + ": ";
    const bool is_mean_of_all = speeds_.front().logged->span == LogSpan::kAllSoFar;
    if (is_mean_of_all)
      notes.push_back(file + log_.framework + " logs a mean over all steps, the first ones included" +
                      (log_.run_time == 0 ? ""
                       : log_.pauses > 0  ? "; evaluations are taken off, checkpoints are in it"
                                          : ", and checkpoints"));
    else
      notes.push_back(file + "log of " + log_.framework + "; the first " + std::to_string(options_.skip_steps) +
                      " steps (" + std::to_string(left_out_) + (left_out_ == 1 ? " line" : " lines") +
                      ") are left out, steps " + to_text(speeds_.front().begin + 1) + " to " +
                      std::to_string(speeds_.back().logged->step) + " count");
    if (log_.repeated > 0)
      notes.push_back(file + std::to_string(log_.repeated) +
                      " lines of steps that were logged before are not counted again");
    constexpr double kCoarse = 0.01;
    if (!resolutions_.empty())
      if (const double coarse = median(resolutions_); coarse > kCoarse)
        notes.push_back(file + "times are logged to " + percent_text(coarse));
    return notes;
  }

  const LoggedSteps& log_;
  const JobLogOptions& options_;
  SpeedReader reader_;
  std::vector<Speed> speeds_;
  std::string lacking_;
  std::size_t left_out_ = 0;
  std::vector<double> resolutions_;
  std::map<std::string, std::string> missing_;
  CsvWriter csv_{{"framework", "batch", "gpus", "sequence_length", "first_step", "last_step", "entries", "step_time_s",
                  "step_time_mean_s", "step_time_std_s", "steps_per_s", "samples_per_s", "tokens_per_s"}};
};

LoggedSteps read_logged_steps(std::string_view content, const std::string& file_name) {
  if (is_event_file(content)) return read_event_file(content, file_name);
  if (is_trainer_state(content)) return read_trainer_state(content, file_name);
  if (is_log_csv(content)) return read_log_csv(std::string{content}, file_name);
  return read_log_text(content, file_name);
}

}  // namespace

JobLogOptions read_job_log_options(const JsonReader& json) {
  JobLogOptions options;
  constexpr std::int64_t kMostOfOption = 1'000'000'000;
  options.skip_steps = json.optional<std::int64_t>("skip_steps", options.skip_steps);
  json.expect(options.skip_steps >= 0 && options.skip_steps <= kMostOfOption, "skip_steps", "0 to 1000000000 steps");
  for (const auto& [key, value] : {std::pair{"batch", &options.batch}, std::pair{"gpus", &options.gpus},
                                   std::pair{"sequence_length", &options.sequence_length}}) {
    *value = json.maybe<std::int64_t>(key);
    json.expect(!*value || (**value >= 1 && **value <= kMostOfOption), key, "1 to 1000000000");
  }
  return options;
}

Measurements parse_job_log(std::string_view content, const std::string& file_name, const JobLogOptions& options) {
  const LoggedSteps log = read_logged_steps(content, file_name);
  if (log.steps.empty()) {
    std::string found{emptiness(content)};
    if (found.empty() && (content.starts_with("\xff\xfe") || content.starts_with("\xfe\xff")))
      found = "text in UTF-16, which iconv -f UTF-16 -t UTF-8 converts";
    if (found.empty() && content.find("wandb: Run summary") != std::string_view::npos)
      found = "the summary of a run by Weights & Biases: give its history, exported as CSV";
    if (const std::string tool = gpu_log_kind(content); found.empty() && !tool.empty())
      found = "the output of " + tool + ", whose \"format\" is \"gpu-log\"";
    throw InputError{
        file_name + ": expected the log of a training by " + job_log_frameworks() +
        ", a CSV of metrics with a column of steps, trainer_state.json or an event file of TensorBoard; found " +
        (found.empty() ? "no line of one" : found)};
  }
  return JobLogRows{log, options}.read();
}

std::string job_log_frameworks() {
  std::vector<std::string> names;
  for (const LogForm& form : log_forms())
    if (std::ranges::find(names, form.framework) == names.end()) names.emplace_back(form.framework);
  return joined(names);
}

std::string job_log_kind(std::string_view start) {
  if (is_event_file(start)) return "TensorBoard";
  if (is_trainer_state(start)) return "Hugging Face Trainer";
  if (is_log_csv(start)) return kMetricsByColumn;
  return read_log_text(start, "").framework;
}

Measurements load_job_logs(const std::filesystem::path& path, const JobLogOptions& options) {
  const auto load = [&](const std::filesystem::path& file) {
    return parse_job_log(read_unpacked_file(file, kLargestLog), file.string(), options);
  };
  if (!std::filesystem::is_directory(path)) return load(path);
  Measurements all;
  std::optional<CsvWriter> csv;
  for (const std::filesystem::path& file : measurement_files(path)) {
    const Measurements one = load(file);
    if (!csv) {
      std::vector<std::string> columns = one.table.columns();
      columns.emplace_back("file");
      csv.emplace(columns);
    }
    for (const CsvRow& row : one.table.rows()) {
      std::vector<CsvField> fields;
      for (std::size_t c = 0; c < one.table.columns().size(); ++c) fields.emplace_back(row.text_at(c));
      fields.emplace_back(file.filename().string());
      csv->row(fields);
    }
    all.remarks.insert(all.remarks.end(), one.remarks.begin(), one.remarks.end());
    for (const auto& [column, why] : one.missing) all.missing.try_emplace(column, why);
  }
  all.table = parse_csv(csv->text(), path.string());
  return all;
}

LoggedSpeed logged_speed(const Measurements& log, const CsvRow& row) {
  if (row.text("samples_per_s").empty()) throw InputError{log.missing.at("samples_per_s")};
  return {.samples_per_s = row.number("samples_per_s"),
          .batch = row.text("batch").empty() ? std::nullopt : std::optional{row.number("batch")}};
}

}  // namespace rehearse
