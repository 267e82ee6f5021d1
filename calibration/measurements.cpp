#include "calibration/measurements.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "calibration/gpu_log.hpp"
#include "calibration/job_log.hpp"
#include "calibration/trace_measurements.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxSize = 256 * kMiB;

}  // namespace

MeasurementFormat read_measurement_format(const JsonReader& json) {
  const std::vector<std::pair<std::string, MeasurementFormat>> formats{
      {"csv", MeasurementFormat::kCsv},       {"nccl-tests", MeasurementFormat::kNcclTests},
      {"iperf3", MeasurementFormat::kIperf3}, {"kernel-table", MeasurementFormat::kKernelTable},
      {"trace", MeasurementFormat::kTrace},   {"training-log", MeasurementFormat::kTrainingLog},
      {"gpu-log", MeasurementFormat::kGpuLog}};
  const auto word = json.as<std::string>();
  std::vector<std::string> names;
  for (const auto& [name, format] : formats) {
    if (name == word) return format;
    names.push_back(name);
  }
  json.fail(unknown_name_message("format", word, names));
}

Measurements load_measurements(const std::filesystem::path& path, MeasurementFormat format) {
  if (format == MeasurementFormat::kCsv) return {.table = load_csv_file(path)};
  if (format == MeasurementFormat::kTrace) return {.table = load_trace_measurements(path)};
  if (format == MeasurementFormat::kTrainingLog) return load_job_logs(path, {});
  std::string text = read_unpacked_file(path, kMaxSize);
  switch (format) {
    case MeasurementFormat::kNcclTests:
      return parse_nccl_tests(text, path.string());
    case MeasurementFormat::kIperf3:
      return parse_iperf3(text, path.string());
    case MeasurementFormat::kGpuLog:
      return parse_gpu_log(text, path.string());
    case MeasurementFormat::kCsv:
    case MeasurementFormat::kTrace:
    case MeasurementFormat::kTrainingLog:
    case MeasurementFormat::kKernelTable:
      break;
  }
  return {.table = parse_kernel_table(std::move(text), path.string())};
}

CsvTable parse_kernel_table(std::string text, const std::string& file_name) {
  const CsvTable table = parse_csv(std::move(text), file_name);
  std::vector<std::string> columns = table.columns();
  if (table.has_column("time_s"))
    throw InputError{file_name + ": expected times in column \"time_ms\"; found a column \"time_s\""};
  columns.emplace_back("time_s");
  CsvWriter csv{columns};
  for (const CsvRow row : table.rows()) {
    const auto check_word = [&](const char* column, const std::vector<std::string>& known) {
      const std::string word{row.text(column)};
      if (std::ranges::find(known, word) == known.end()) row.fail(column, unknown_name_message(column, word, known));
    };
    check_word("kind", {"gemm", "elementwise"});
    check_word("precision", {"fp32", "fp16"});
    for (const auto& [column, most] : {std::pair{"m", 1 << 24}, std::pair{"n", 65536}, std::pair{"k", 1 << 24}}) {
      const std::int64_t size = row.integer(column);
      if (size < 1 || size > most)
        row.fail(column, "expected 1 to " + std::to_string(most) + "; found " + std::to_string(size));
    }
    if (row.text("kind") == "elementwise" && row.integer("m") != 1)
      row.fail("m", "expected 1 for an elementwise kernel; found " + std::string{row.text("m")});
    const double milliseconds = row.number("time_ms");
    if (milliseconds <= 0) row.fail("time_ms", "expected a time above 0; found " + std::string{row.text("time_ms")});
    std::vector<CsvField> fields;
    for (std::size_t i = 0; i < table.columns().size(); ++i) fields.emplace_back(row.text_at(i));
    fields.emplace_back(milliseconds / 1e3);
    csv.skip_to_line(row.line());
    csv.row(fields);
  }
  return parse_csv(csv.text(), file_name);
}

}  // namespace rehearse
