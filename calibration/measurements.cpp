#include "calibration/measurements.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "calibration/gpu_log.hpp"
#include "calibration/job_log.hpp"
#include "calibration/trace_measurements.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxSize = 256 * kMiB;
constexpr std::size_t kLongestName = 200;

[[noreturn]] void fail_at(const std::string& file_name, std::size_t line, const std::string& message) {
  throw InputError{file_name + ":" + std::to_string(line) + ": " + message};
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return words;
}

bool is_whole_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<double> number_of(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc{} && end == word.data() + word.size() && std::isfinite(value);
  return is_number ? std::optional{value} : std::nullopt;
}

/// Reads a listing of nccl-tests line by line.
class NcclTests {
 public:
  explicit NcclTests(const std::string& file_name) : file_name_{file_name} {}

  CsvTable read(std::string_view text) {
    for (std::size_t begin = 0; begin < text.size(); ++line_) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      read_line(text.substr(begin, end - begin));
      begin = end + 1;
    }
    const std::string_view what = emptiness(text);
    if (rows_ == 0)
      throw InputError{file_name_ + ": expected the listing of an nccl-tests program; found " +
                       (what.empty() ? "no row of it" : std::string{what})};
    return parse_csv(csv_.text(), file_name_);
  }

 private:
  void read_line(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) return;
    if (words[0] == "#") {
      read_comment(words, line);
    } else if (is_whole_number(words[0])) {
      read_row(words);
    }
  }

  void read_comment(const std::vector<std::string_view>& words, std::string_view line) {
    if (words.size() < 2) return;
    if (words[1] == "Collective" && words.size() >= 5) {  // Collective test starting: all_reduce_perf
      collective_ = words[4].substr(0, words[4].find("_perf"));
      check_name(collective_);
    } else if (words[1] == "nThread" || words[1] == "Using") {  // a run begins
      ranks_ = 0;
      machines_.clear();
      devices_.clear();
    } else if (words[1] == "Rank") {
      read_rank(words, line);
    } else if (words[1] == "size") {
      read_header(words);
    }
  }

  /// #  Rank  0 Group  0 Pid  8261 on node-1 device  0 [0x10] NVIDIA A100-SXM4-80GB
  void read_rank(const std::vector<std::string_view>& words, std::string_view line) {
    ++ranks_;
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on != words.end() && on + 1 != words.end()) machines_.insert(std::string{*(on + 1)});
    const std::size_t bracket = line.find("] ");
    if (bracket == std::string_view::npos) return;
    const std::vector<std::string_view> name = words_of(line.substr(bracket + 2));
    std::string device;
    for (const std::string_view word : name) device += (device.empty() ? "" : " ") + std::string{word};
    check_name(device);
    devices_.insert(device);
  }

  /// Names are repeated in every row.
  void check_name(const std::string& name) const {
    if (name.size() > kLongestName)
      fail_at(file_name_, line_, "expected a name of at most 200 bytes; found " + std::to_string(name.size()));
  }

  /// #  size  count  type  [redop]  [root]  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong
  void read_header(const std::vector<std::string_view>& words) {
    positions_.clear();
    fields_ = words.size() - 1;
    std::string in_place;
    for (std::size_t i = 1; i < words.size(); ++i) {
      std::string name{words[i]};
      if (name == "error") name = "#wrong";  // as older versions called it
      if (name == "time" && positions_.contains(name)) in_place = "_in_place";
      if (!positions_.try_emplace(name + in_place, i - 1).second)
        fail_at(file_name_, line_, "expected distinct columns; found " + in_quotes(words[i]) + " too often");
    }
    for (const char* name :
         {"size", "count", "type", "time", "algbw", "busbw", "time_in_place", "algbw_in_place", "busbw_in_place"})
      if (!positions_.contains(name))
        fail_at(file_name_, line_, "expected the columns of an nccl-tests program; found none for " + in_quotes(name));
  }

  void read_row(const std::vector<std::string_view>& words) {
    if (positions_.empty()) fail_at(file_name_, line_, "expected the line with the column names above the first row");
    if (words.size() != fields_)
      fail_at(
          file_name_, line_,
          "expected " + std::to_string(fields_) + " fields as in the header; found " + std::to_string(words.size()));
    words_ = &words;
    for (const char* wrong : {"#wrong", "#wrong_in_place"})
      if (value(wrong).value_or(0) > 0)
        fail_at(file_name_, line_,
                "expected a run with right results; found " + in_quotes(text(wrong)) + " wrong ones");
    const std::string device = devices_.size() == 1 ? *devices_.begin() : "";
    csv_.skip_to_line(line_);
    csv_.row({collective_, ranks_ > 0 ? std::to_string(ranks_) : "",
              machines_.empty() ? "" : std::to_string(machines_.size()), device, number("size"), number("count"),
              std::string{text("type")}, std::string{text("redop")}, std::string{text("root")}, seconds("time"),
              number("time"), number("algbw"), number("busbw"), seconds("time_in_place"), number("time_in_place"),
              number("algbw_in_place"), number("busbw_in_place")});
    if (csv_.text().size() > kMaxSize) throw InputError{file_name_ + ": expected a listing of fewer rows"};
    ++rows_;
  }

  /// Empty where the program has no such column or no value in it.
  std::string_view text(const std::string& column) const {
    const auto position = positions_.find(column);
    if (position == positions_.end()) return {};
    const std::string_view word = (*words_)[position->second];
    return word == "N/A" ? std::string_view{} : word;
  }

  std::optional<double> value(const std::string& column) const {
    const std::string_view word = text(column);
    if (word.empty()) return {};
    const auto value = number_of(word);
    if (!value || *value < 0)
      fail_at(file_name_, line_, "column " + in_quotes(column) + ": expected a number; found " + in_quotes(word));
    return value;
  }

  std::string number(const std::string& column) const {
    (void)value(column);
    return std::string{text(column)};
  }

  std::string seconds(const std::string& column) const {
    const auto microseconds = value(column);
    return microseconds ? CsvField{*microseconds / 1e6}.text() : "";
  }

  const std::string& file_name_;
  std::size_t line_ = 1;
  std::size_t rows_ = 0;
  std::string collective_;
  int ranks_ = 0;
  std::set<std::string> machines_, devices_;
  std::map<std::string, std::size_t> positions_;  // of the columns of the current header
  std::size_t fields_ = 0;
  const std::vector<std::string_view>* words_ = nullptr;  // of the current row
  CsvWriter csv_{{"collective", "ranks", "machines", "device", "bytes", "count", "type", "redop", "root", "time_s",
                  "time_us", "algbw_GBps", "busbw_GBps", "time_s_in_place", "time_us_in_place", "algbw_GBps_in_place",
                  "busbw_GBps_in_place"}};
};

/// One sum over streams: of an interval, or of all of them.
struct IperfSum {
  double seconds = 0, bytes = 0, bits_per_second = 0;
  std::string retransmits;
  bool is_omitted = false;
};

IperfSum read_iperf_sum(const JsonReader& json) {
  const auto number = [&](const char* key) {
    const auto value = json.required<double>(key);
    json.expect(value >= 0, key, "a number of at least 0");
    return value;
  };
  IperfSum sum{.seconds = number("seconds"),
               .bytes = number("bytes"),
               .bits_per_second = number("bits_per_second"),
               .retransmits = {},
               .is_omitted = json.optional<bool>("omitted", false)};
  if (json.has("retransmits")) sum.retransmits = CsvField{number("retransmits")}.text();
  return sum;
}

/// Mean of `key` over the streams that have it, at `part` of each stream if that is not empty; empty if none has.
std::string mean_of_streams(const JsonReader& json, const char* part, const char* key) {
  if (!json.has("streams")) return {};
  double total = 0;
  int count = 0;
  for (const JsonReader& stream : json.children("streams")) {
    if (part[0] != '\0' && !stream.has(part)) continue;
    const JsonReader values = part[0] == '\0' ? stream : stream.child(part);
    if (!values.has(key)) continue;
    total += values.required<double>(key);
    ++count;
  }
  return count > 0 ? CsvField{total / count}.text() : "";
}

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
  std::string text = read_file(path, kMaxSize);
  if (path.extension() == ".gz") text = gunzip(text, kMaxSize, path.string());
  switch (format) {
    case MeasurementFormat::kNcclTests:
      return {.table = parse_nccl_tests(text, path.string())};
    case MeasurementFormat::kIperf3:
      return {.table = parse_iperf3(text, path.string())};
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

CsvTable parse_nccl_tests(std::string_view text, const std::string& file_name) {
  return NcclTests{file_name}.read(text);
}

CsvTable parse_iperf3(std::string_view text, const std::string& file_name) {
  const Json file = parse_json(text, file_name);
  const JsonReader json{file, file_name};
  if (json.has("error"))
    json.fail("error", "expected a run without error; iperf3 says " + in_quotes(json.required<std::string>("error")));
  const JsonReader test = json.child("start").child("test_start");
  const auto protocol = test.required<std::string>("protocol");
  test.expect(protocol.size() <= kLongestName, "protocol", "at most 200 bytes");
  const int streams = test.required<int>("num_streams");
  const bool is_reverse = test.optional<int>("reverse", 0) != 0;

  CsvWriter csv{{"interval", "is_omitted", "protocol", "streams", "is_reverse", "seconds", "bytes", "bits_per_second",
                 "bytes_per_second", "retransmits", "rtt_us"}};
  const auto add = [&](const std::string& interval, const IperfSum& sum, const std::string& rtt) {
    csv.row({interval, sum.is_omitted ? "true" : "false", protocol, streams, is_reverse ? "true" : "false", sum.seconds,
             sum.bytes, sum.bits_per_second, sum.bits_per_second / 8, sum.retransmits, rtt});
  };
  int number = 0;
  for (const JsonReader& interval : json.children("intervals"))
    add(std::to_string(number++), read_iperf_sum(interval.child("sum")), mean_of_streams(interval, "", "rtt"));
  const JsonReader end = json.child("end");
  for (const char* side : {"sum_sent", "sum_received"})
    if (end.has(side)) add(side, read_iperf_sum(end.child(side)), mean_of_streams(end, "sender", "mean_rtt"));
  return parse_csv(csv.text(), file_name);
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
