#pragma once
// Lists of jobs in the forms in which clusters and schedulers publish them. A form is a function and a row of the table
// in job_trace.cpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

struct TracedJob {
  std::string name, type;
  Seconds arrival{};  // after that of the first job, unless the form counts from its own beginning
  int gpus = 1;
  std::optional<std::int64_t> steps;  // none: as the table of speeds says of the type
  std::optional<Seconds> duration;    // on any GPU; none: by steps and speed
  double weight = 1;
  bool is_elastic = false;  // runs on any number of GPUs of which the table of speeds has a row for its type
  std::string place;        // "file:line", for messages
};

struct JobTrace {
  std::vector<TracedJob> jobs;  // by arrival
  std::size_t left_out = 0;     // rows of the file that are no job which has run on GPUs
};

/// "csv", "gavel", "pollux", "pollux_elastic", "philly" and "alibaba".
std::vector<std::string> job_trace_forms();
std::string job_trace_form_text(const std::string& form);

/// The jobs in `text`, in the form; `file_name` is for messages. Throws InputError in one line for what is not of the
/// form, or without a job.
JobTrace read_job_trace(const std::string& form, std::string text, const std::string& file_name);
/// The same of a file of at most 1 GiB; "*.gz" is read through gunzip.
JobTrace load_job_trace(const std::string& form, const std::filesystem::path& file);

}  // namespace rehearse
