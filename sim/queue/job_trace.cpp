#include "sim/queue/job_trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/base/utc_time.hpp"
#include "sim/queue/queue.hpp"

namespace rehearse {

namespace {

std::string place_of(const CsvRow& row, const std::string& file_name) {
  return file_name + ":" + std::to_string(row.line());
}

int gpus_in(const CsvRow& row, const char* column) {
  const std::int64_t gpus = row.integer(column);
  if (gpus < 1 || gpus > kMostQueueGpus) row.fail(column, "expected 1 to 1000000 GPUs");
  return static_cast<int>(gpus);
}

Seconds time_in(const CsvRow& row, const char* column) {
  const double time = row.number(column);
  if (time < 0 || time > kLongest.value()) row.fail(column, "expected 0 to 1e9 seconds");
  return Seconds{time};
}

Seconds duration_in(const CsvRow& row, const char* column) {
  const Seconds time = time_in(row, column);
  if (time < 1.0_us) row.fail(column, "expected a duration above 0");
  return time;
}

std::string name_in_row(const CsvRow& row, const char* column) {
  std::string name{row.text(column)};
  if (name.empty()) row.fail(column, "expected a name");
  return name;
}

/// Columns name, arrival_s, gpus, and duration_s or type and steps.
JobTrace read_csv(std::string text, const std::string& file_name) {
  const CsvTable csv = parse_csv(std::move(text), file_name);
  const bool has_duration = csv.has_column("duration_s"), has_steps = csv.has_column("steps");
  JobTrace trace;
  for (const CsvRow& row : csv.rows()) {
    TracedJob job{.name = name_in_row(row, "name"), .type = {}, .place = place_of(row, file_name)};
    job.arrival = time_in(row, "arrival_s");
    job.gpus = gpus_in(row, "gpus");
    if (has_duration && !row.text("duration_s").empty()) {
      job.duration = duration_in(row, "duration_s");
    } else {
      job.type = name_in_row(row, "type");
      if (has_steps && !row.text("steps").empty()) {
        job.steps = row.integer("steps");
        if (*job.steps < 1 || *job.steps > kMostQueueSteps) row.fail("steps", "expected 1 to 1e15 steps");
      }
    }
    trace.jobs.push_back(std::move(job));
  }
  return trace;
}

/// Pollux's workloads: name, time, application, num_replicas, batch_size. The type is "APPLICATION BATCH"; of jobs that
/// choose their GPUs and batch themselves "APPLICATION".
/// Source: github.com/petuum/adaptdl, branch osdi21-artifact, simulator/workloads.
template <bool is_elastic>
JobTrace read_pollux(std::string text, const std::string& file_name) {
  const CsvTable csv = parse_csv(std::move(text), file_name);
  JobTrace trace;
  for (const CsvRow& row : csv.rows()) {
    const std::int64_t batch = row.integer("batch_size");
    if (batch < 1 || batch > kMostQueueSteps) row.fail("batch_size", "expected a batch of 1 or more");
    trace.jobs.push_back({.name = name_in_row(row, "name"),
                          .type = name_in_row(row, "application") + (is_elastic ? "" : " " + std::to_string(batch)),
                          .arrival = time_in(row, "time"),
                          .gpus = gpus_in(row, "num_replicas"),
                          .steps = {},
                          .duration = {},
                          .is_elastic = is_elastic,
                          .place = place_of(row, file_name)});
  }
  return trace;
}

/// A line of Gavel's traces.
class GavelLine {
 public:
  GavelLine(std::string_view line, std::string place) : place_{std::move(place)} {
    for (std::size_t begin = 0;;) {
      const std::size_t tab = line.find('\t', begin);
      fields_.push_back(line.substr(begin, tab - begin));
      if (tab == std::string_view::npos) break;
      begin = tab + 1;
    }
    // With the working directory or without; later columns count from the end.
    if (fields_.size() != 9 && fields_.size() != 10)
      throw InputError{place_ +
                       ": expected 9 or 10 columns between tabs: job type, command, (working directory,) steps "
                       "argument, needs data, steps, GPUs, weight, SLO, arrival; found " +
                       std::to_string(fields_.size())};
  }
  std::string_view type() const {
    if (fields_[0].empty()) fail("a job type", fields_[0]);
    return fields_[0];
  }
  double number(std::size_t from_end, double least, double most, const char* expected) const {
    const std::string_view field = fields_[fields_.size() - from_end];
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc{} || end != field.data() + field.size() || !(value >= least && value <= most))
      fail(expected, field);
    return value;
  }
  std::int64_t integer(std::size_t from_end, std::int64_t most, const char* expected) const {
    const double value = number(from_end, 1, static_cast<double>(most), expected);
    if (std::floor(value) != value) fail(expected, fields_[fields_.size() - from_end]);
    return static_cast<std::int64_t>(value);
  }

 private:
  [[noreturn]] void fail(const char* expected, std::string_view found) const {
    throw InputError{place_ + ": expected " + expected + "; found " + in_quotes(found)};
  }
  std::string place_;
  std::vector<std::string_view> fields_;
};

/// Source: github.com/stanford-futuredata/gavel, scheduler/traces.
// NOLINTNEXTLINE(performance-unnecessary-value-param): other forms of the table take it
JobTrace read_gavel(std::string text, const std::string& file_name) {
  JobTrace trace;
  if (const auto bad = find_invalid_utf8(text))
    throw InputError{file_name + ": expected text in UTF-8; found another byte at " + std::to_string(*bad)};
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view{text}.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const std::string place = file_name + ":" + std::to_string(number);
    const GavelLine fields{line, place};
    TracedJob job{.name = std::to_string(trace.jobs.size()), .type = std::string{fields.type()}, .place = place};
    job.arrival = Seconds{fields.number(1, 0, kLongest.value(), "an arrival from 0 to 1e9 seconds")};
    job.weight = fields.number(3, 1e-6, 1e6, "a weight from 1e-6 to 1e6");
    job.gpus = static_cast<int>(fields.integer(4, kMostQueueGpus, "1 to 1000000 GPUs"));
    job.steps = fields.integer(5, kMostQueueSteps, "1 to 1e15 steps");
    if (find_deceptive_character(job.type))
      throw InputError{place + ": expected a job type without control characters"};
    trace.jobs.push_back(std::move(job));
  }
  return trace;
}

/// The GPUs that an attempt had.
int gpus_of_attempt(const JsonReader& attempt) {
  std::size_t gpus = 0;
  for (const JsonReader& machine : attempt.children("detail")) gpus += machine.children("gpus").size();
  attempt.expect(gpus <= kMostQueueGpus, "at most 1000000 GPUs");
  return static_cast<int>(gpus);
}

/// "2017-10-09 07:01:45"; none where the log has none.
std::optional<double> philly_time(const JsonReader& json, const char* key) {
  if (!json.has(key) || json.child(key).is_null()) return std::nullopt;
  const auto text = json.required<std::string>(key);
  if (text == "None" || text.empty()) return std::nullopt;
  std::string stamp = text;
  if (stamp.size() > 10 && stamp[10] == ' ') stamp[10] = 'T';
  try {
    return parse_utc(stamp);
  } catch (const std::invalid_argument& error) { json.fail(key, error.what()); }
}

/// Microsoft's Philly: a job has the GPUs of its last attempt, and takes what all its attempts took together.
/// Source: github.com/msr-fiddle/philly-traces, cluster_job_log (Jeon et al., USENIX ATC 2019).
// NOLINTNEXTLINE(performance-unnecessary-value-param): likewise
JobTrace read_philly(std::string text, const std::string& file_name) {
  const Json file = parse_json(text, file_name);
  const JsonReader json{file, file_name};
  json.expect(json.is_array(), "an array of jobs");
  JobTrace trace;
  for (const JsonReader& entry : json.elements()) {
    entry.expect(entry.is_object(), "an object of a job");
    TracedJob job{.name = entry.required<std::string>("jobid"), .type = {}, .place = entry.place()};
    const auto submitted = philly_time(entry, "submitted_time");
    int gpus = 0;
    double taken = 0;
    for (const JsonReader& attempt : entry.children("attempts")) {
      const auto start = philly_time(attempt, "start_time"), end = philly_time(attempt, "end_time");
      if (!start || !end) continue;
      attempt.expect(*end >= *start, "end_time", "a time after start_time");
      taken += *end - *start;
      gpus = gpus_of_attempt(attempt);
    }
    if (!submitted || gpus == 0 || taken <= 0) {
      ++trace.left_out;
      continue;
    }
    entry.expect(taken <= kLongest.value(), "attempts of at most 1e9 seconds");
    job.arrival = Seconds{*submitted};
    job.gpus = gpus;
    job.duration = Seconds{taken};
    trace.jobs.push_back(std::move(job));
  }
  return trace;
}

/// Alibaba's PAI: a task of a job is a job of ours, with inst_num * plan_gpu % of GPUs, rounded up, from start to end. The
/// published table has no header.
/// Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2020, pai_task_table (Weng et al., NSDI 2022).
JobTrace read_alibaba(std::string text, const std::string& file_name) {
  constexpr std::string_view kHeader =
      "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n";
  if (!text.starts_with("job_name,")) text.insert(0, kHeader);
  const CsvTable csv = parse_csv(std::move(text), file_name);
  JobTrace trace;
  for (const CsvRow& row : csv.rows()) {
    const bool has_run = !row.text("start_time").empty() && !row.text("end_time").empty() &&
                         !row.text("plan_gpu").empty() && !row.text("inst_num").empty();
    if (!has_run) {
      ++trace.left_out;
      continue;
    }
    const double start = row.number("start_time"), end = row.number("end_time");
    const double gpus = std::ceil(row.number("inst_num") * row.number("plan_gpu") / 100 - 1e-9);
    if (!(start >= 0 && start <= 1e11)) row.fail("start_time", "expected seconds from 0");
    if (!(end <= start + kLongest.value())) row.fail("end_time", "expected at most 1e9 seconds after start_time");
    if (!(gpus <= static_cast<double>(kMostQueueGpus))) row.fail("plan_gpu", "expected at most 1000000 GPUs");
    if (end <= start || start == 0 || gpus < 1) {  // the table has 0 for what has not started
      ++trace.left_out;
      continue;
    }
    TracedJob job{.name = name_in_row(row, "job_name") + "/" + std::string{row.text("task_name")},
                  .type = {},
                  .place = place_of(row, file_name)};
    job.arrival = Seconds{start};
    job.gpus = static_cast<int>(gpus);
    job.duration = Seconds{end - start};
    trace.jobs.push_back(std::move(job));
  }
  return trace;
}

struct Form {
  const char *name, *text;
  JobTrace (*read)(std::string text, const std::string& file_name);
  bool is_dated;  // its times count from 1970 or the like: they are taken from the first arrival
};

constexpr std::array kForms{
    Form{"csv", "name,arrival_s,gpus and duration_s, or type and steps", read_csv, false},
    Form{"gavel", "a line for each job between tabs, as in scheduler/traces of Gavel", read_gavel, false},
    Form{"pollux", "name,time,application,num_replicas,batch_size, as in simulator/workloads of Pollux",
         read_pollux<false>, false},
    Form{"pollux_elastic", "the same of jobs whose GPUs and batch a policy chooses: the type is the application alone",
         read_pollux<true>, false},
    Form{"philly", "cluster_job_log of Microsoft's Philly traces", read_philly, true},
    Form{"alibaba", "pai_task_table of Alibaba's GPU trace of 2020", read_alibaba, true},
};

const Form* find_form(const std::string& name) {
  const auto* const found = std::ranges::find_if(kForms, [&](const Form& form) { return form.name == name; });
  return found == kForms.end() ? nullptr : found;
}

}  // namespace

std::vector<std::string> job_trace_forms() {
  std::vector<std::string> names;
  for (const Form& form : kForms) names.emplace_back(form.name);
  return names;
}

std::string job_trace_form_text(const std::string& form) { return find_form(form)->text; }

JobTrace read_job_trace(const std::string& form, std::string text, const std::string& file_name) {
  const Form* const found = find_form(form);
  if (!found) throw InputError{unknown_name_message("form of a trace", form, job_trace_forms())};
  JobTrace trace = found->read(std::move(text), file_name);
  if (trace.jobs.empty())
    throw InputError{file_name + ": expected a job that has run on GPUs; found none" +
                     (trace.left_out > 0 ? " among " + std::to_string(trace.left_out) : "")};
  if (trace.jobs.size() > static_cast<std::size_t>(kMostQueuedJobs))
    throw InputError{file_name + ": expected at most 10000000 jobs"};
  std::ranges::stable_sort(trace.jobs, {}, &TracedJob::arrival);
  if (found->is_dated) {
    const Seconds first = trace.jobs.front().arrival;
    for (TracedJob& job : trace.jobs) job.arrival -= first;
    if (trace.jobs.back().arrival > kLongest) throw InputError{file_name + ": expected arrivals within 1e9 seconds"};
  }
  return trace;
}

JobTrace load_job_trace(const std::string& form, const std::filesystem::path& file) {
  return read_job_trace(form, read_unpacked_file(file, std::size_t{1} << 30U), file.string());
}

}  // namespace rehearse
