#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "calibration/detail/logged_steps.hpp"
#include "calibration/gpu_log.hpp"
#include "calibration/job_log.hpp"
#include "calibration/kernel_study.hpp"
#include "calibration/lifetime_study.hpp"
#include "calibration/measurements.hpp"
#include "calibration/microbench/measured_tables.hpp"
#include "calibration/microbench/study_files.hpp"
#include "calibration/own_runs.hpp"
#include "calibration/study.hpp"
#include "calibration/training_fit.hpp"
#include "calibration/training_log.hpp"
#include "sim/base/base.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::fuzz {
namespace {

/// A table that `read` makes of a file of measurements.
template <class Read>
void read_measurements(Read read) {
  try {
    const CsvTable table = read();
    require(table.row_count() >= 1, "a table has a row");
    for (const CsvRow& row : table.rows()) {
      require(row.line() >= 2, "rows are below the column names");
      for (const std::string& column : table.columns())
        if (column == "time_s" && !row.text(column).empty()) require(row.number(column) >= 0, "times are not negative");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_nccl_tests(std::string_view input) {
  read_measurements([&] { return parse_nccl_tests(input, "input").table; });
}

void run_iperf3(std::string_view input) {
  read_measurements([&] { return parse_iperf3(input, "input").table; });
}

void run_kernel_table(std::string_view input) {
  read_measurements([&] { return parse_kernel_table(std::string{input}, "input"); });
}

/// A log as it is, without the first steps and with all, its batch known or not.
void run_job_log(std::string_view input) {
  for (const JobLogOptions& options :
       {JobLogOptions{}, JobLogOptions{.skip_steps = 0, .batch = 64, .gpus = 8, .sequence_length = 128}})
    read_measurements([&] {
      const Measurements log = parse_job_log(input, "input", options);
      for (const CsvRow& row : log.table.rows())
        for (const char* column : {"step_time_s", "steps_per_s", "samples_per_s", "tokens_per_s"}) {
          if (row.text(column).empty())
            require(log.missing.contains(column), "what is missing has a reason");
          else
            require(row.number(column) >= 0, "speeds are not negative");
        }
      return log.table;
    });
}

/// Records of events behind their length (a byte), which get the checksums that they need.
void run_event_file(std::string_view input) {
  const auto little_endian = [](std::uint64_t number, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xffU);
    return text;
  };
  std::string file;
  while (!input.empty()) {
    const std::size_t size = std::min<std::size_t>(static_cast<unsigned char>(input.front()), input.size() - 1);
    const std::string_view data = input.substr(1, size);
    const std::string length = little_endian(size, 8);
    file +=
        length + little_endian(masked_crc32c(length), 4) + std::string{data} + little_endian(masked_crc32c(data), 4);
    input.remove_prefix(1 + size);
  }
  run_job_log(file);
}

void run_own_runs(std::string_view input) {
  try {
    const OwnRuns runs = own_runs_of(parse_csv(std::string{input}, "input"));
    require(!runs.runs.empty(), "a table has a run");
    for (const OwnRun& run : runs.runs) require(run.gpus >= 1 && run.value > 0, "a run has GPUs and a value");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_gpu_log(std::string_view input) {
  read_measurements([&] { return parse_gpu_log(input, "input").table; });
}

/// A table of training logs; and a pattern, in the first line, with the text to search.
void run_training_log(std::string_view input) {
  try {
    for (const WorkerLog& log : parse_log_table(std::string{input}, "input"))
      require(log.gpus >= 1 && log.batch >= 1 && !log.entries.empty(), "a worker has a batch and entries");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const LinePattern pattern{input.substr(0, end), "pattern"};
    WorkerLog log;
    parse_log_text(input.substr(end), "input", pattern, 1, log);
    for (const LogEntry& entry : log.entries)
      require(entry.step >= 0 && (!entry.seconds_per_batch ||
                                  (*entry.seconds_per_batch > 0 && std::isfinite(*entry.seconds_per_batch))),
              "steps are not negative and last some time");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A study of each kind beside a table and a scenario.
void run_study(std::string_view input) {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", "workers,gpu,speed,age,censored\n1,K80,10,3600,0\n4,P100,32,7200,1\n");
  folder.write("scenario.json", read_file(source_folder() + "/scenarios/cm-dare.json", kMiB));
  const std::filesystem::path file = folder.write("study.json", std::string{input});
  try {
    const std::string kind = study_kind(load_json_file(file));
    if (kind == "lifetimes") {
      for (const LifetimeSeries& series : load_lifetime_study(file).series)
        require(!series.name.empty(), "a series has a name");
    } else if (kind == "kernels") {
      static const std::string root = source_folder();
      static const Catalog catalog{
          {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
      for (const KernelRow& row : load_kernel_study(file, catalog).rows)
        require(row.measured > 0, "a kernel takes some time");
    } else if (kind == "training_logs") {
      (void)load_training_study(file);
    } else {
      for (const Study& study : load_studies(file)) require(!study.metric.empty(), "a study has a metric");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// What an earlier run of microbench left in its folder, which the next one goes on from.
void run_measured_kernels(std::string_view input) {
  const test::TemporaryFolder folder;
  folder.write("streaming.csv", std::string{input});
  try {
    const microbench::MeasuredTables tables{folder.path};
    tables.save();
    require(microbench::MeasuredTables{folder.path}.rows() == tables.rows(), "what is written is read again");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    (void)microbench::read_catalog_entry(folder.write("accelerators.json", std::string{input}));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_measurements() {
  static constexpr std::array kTargets{
      Target{"nccl_tests", run_nccl_tests},     Target{"iperf3", run_iperf3},
      Target{"kernel_table", run_kernel_table}, Target{"measured_kernels", run_measured_kernels},
      Target{"training_log", run_training_log}, Target{"job_log", run_job_log},
      Target{"event_file", run_event_file},     Target{"gpu_log", run_gpu_log},
      Target{"own_runs", run_own_runs},         Target{"study", run_study}};
  return kTargets;
}

}  // namespace rehearse::fuzz
