#include "calibration/gpu_log.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "calibration/detail/logged_steps.hpp"
#include "calibration/job_log.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

enum class GpuValue : std::uint8_t {
  kUtilization,  // share
  kEngineBusy,   // share: DCGM's graphics engine, where utilization is not recorded
  kMemoryUtilization,
  kMemoryUsed,  // bytes
  kPower,       // watts
  kClock,       // hertz
  kSmActive,
  kDramActive,
  kCount,
  // who it is:
  kIndex,
  kBus,
  kName
};

/// A column of a tool; value * unit is in the unit of GpuValue. `needs_unit`: the unit that has to stand below it, or beside
/// it, in a table whose columns of the same name differ by it.
struct GpuColumn {
  std::string_view name;
  GpuValue value;
  double unit = 1;
};

constexpr double kPercent = 0.01, kMega = 1e6;
constexpr double kMebi = 1024.0 * 1024.0;

/// nvidia-smi dmon: -s p power, u utilization, c clocks, m memory. Its "mem" is utilization, "fb" memory in use.
constexpr std::array kDmonColumns{GpuColumn{"gpu", GpuValue::kIndex},
                                  GpuColumn{"pwr", GpuValue::kPower},
                                  GpuColumn{"sm", GpuValue::kUtilization, kPercent},
                                  GpuColumn{"mem", GpuValue::kMemoryUtilization, kPercent},
                                  GpuColumn{"pclk", GpuValue::kClock, kMega},
                                  GpuColumn{"fb", GpuValue::kMemoryUsed, kMebi}};

/// nvidia-smi --query-gpu: names with their unit in brackets unless "nounits" was asked for.
constexpr std::array kQueryColumns{GpuColumn{"index", GpuValue::kIndex},
                                   GpuColumn{"uuid", GpuValue::kBus},
                                   GpuColumn{"gpu_uuid", GpuValue::kBus},
                                   GpuColumn{"pci.bus_id", GpuValue::kBus},
                                   GpuColumn{"gpu_bus_id", GpuValue::kBus},
                                   GpuColumn{"name", GpuValue::kName},
                                   GpuColumn{"gpu_name", GpuValue::kName},
                                   GpuColumn{"utilization.gpu", GpuValue::kUtilization, kPercent},
                                   GpuColumn{"utilization.memory", GpuValue::kMemoryUtilization, kPercent},
                                   GpuColumn{"memory.used", GpuValue::kMemoryUsed, kMebi},
                                   GpuColumn{"power.draw", GpuValue::kPower},
                                   GpuColumn{"power.draw.average", GpuValue::kPower},
                                   GpuColumn{"power.draw.instant", GpuValue::kPower},
                                   GpuColumn{"clocks.sm", GpuValue::kClock, kMega},
                                   GpuColumn{"clocks.current.sm", GpuValue::kClock, kMega}};

/// dcgmi dmon -e 203,204,252,155,100,1001,1002,1005. Fields 1001 and above are shares of 0 to 1.
/// Source: DCGM, dcgmlib/src/dcgm_fields.cpp, short names.
constexpr std::array kDcgmColumns{GpuColumn{"GPUTL", GpuValue::kUtilization, kPercent},
                                  GpuColumn{"MCUTL", GpuValue::kMemoryUtilization, kPercent},
                                  GpuColumn{"FBUSD", GpuValue::kMemoryUsed, kMebi},
                                  GpuColumn{"POWER", GpuValue::kPower},
                                  GpuColumn{"POWR", GpuValue::kPower},
                                  GpuColumn{"SMCLK", GpuValue::kClock, kMega},
                                  GpuColumn{"GRACT", GpuValue::kEngineBusy},
                                  GpuColumn{"SMACT", GpuValue::kSmActive},
                                  GpuColumn{"DRAMA", GpuValue::kDramActive}};

enum class GpuTool { kNone, kDmon, kQuery, kDcgm, kPmon };

constexpr std::array<std::string_view, 5> kToolNames{"", "nvidia-smi dmon", "nvidia-smi --query-gpu", "dcgmi dmon",
                                                     "nvidia-smi pmon"};

std::span<const GpuColumn> columns_of(GpuTool tool) {
  if (tool == GpuTool::kDmon) return kDmonColumns;
  if (tool == GpuTool::kDcgm) return kDcgmColumns;
  return kQueryColumns;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\"");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\"") - begin + 1);
}

std::vector<std::string_view> fields_of(std::string_view line, GpuTool tool) {
  std::vector<std::string_view> fields;
  if (tool == GpuTool::kQuery) {
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      fields.push_back(trimmed(line.substr(begin, end - begin)));
      begin = end + 1;
    }
    return fields;
  }
  for (std::size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return fields;
}

/// The tool of a header line.
GpuTool tool_of(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with("#Entity") || line.starts_with("# Entity")) return GpuTool::kDcgm;
  if (line.starts_with("#")) {
    const auto fields = fields_of(line.substr(1), GpuTool::kDmon);
    const auto has = [&](std::string_view name) { return std::ranges::find(fields, name) != fields.end(); };
    if (!has("gpu") || fields.size() < 2) return GpuTool::kNone;
    return has("pid") ? GpuTool::kPmon : GpuTool::kDmon;
  }
  for (const std::string_view name : {"utilization.gpu", "memory.used", "power.draw", "utilization.memory"})
    if (line.find(name) != std::string_view::npos && line.find(',') != std::string_view::npos) return GpuTool::kQuery;
  return GpuTool::kNone;
}

struct GpuSample {
  std::array<std::optional<double>, static_cast<std::size_t>(GpuValue::kCount)> values{};
  std::optional<double> operator[](GpuValue value) const { return values[static_cast<std::size_t>(value)]; }
  /// Share of time in which a kernel ran, by what says it.
  std::optional<double> busy() const {
    const auto utilization = (*this)[GpuValue::kUtilization];
    return utilization ? utilization : (*this)[GpuValue::kEngineBusy];
  }
};

/// Samples added up.
struct GpuSums {
  struct Sum {
    double sum = 0, largest = 0;
    std::size_t count = 0;
  };
  std::array<Sum, static_cast<std::size_t>(GpuValue::kCount)> values{};
  std::size_t samples = 0;

  void add(const GpuSample& sample) {
    ++samples;
    for (std::size_t v = 0; v < values.size(); ++v)
      if (const auto& value = sample.values[v]) {
        values[v].sum += *value;
        values[v].largest = std::max(values[v].largest, *value);
        ++values[v].count;
      }
  }
  void add(const GpuSums& other) {
    samples += other.samples;
    for (std::size_t v = 0; v < values.size(); ++v) {
      values[v].sum += other.values[v].sum;
      values[v].largest = std::max(values[v].largest, other.values[v].largest);
      values[v].count += other.values[v].count;
    }
  }
  const Sum& operator[](GpuValue value) const { return values[static_cast<std::size_t>(value)]; }
  bool has(GpuValue value) const { return (*this)[value].count > 0; }
  /// Empty if there is none.
  std::string mean(GpuValue value) const {
    const Sum& sum = (*this)[value];
    return sum.count == 0 ? std::string{} : CsvField{sum.sum / static_cast<double>(sum.count)}.text();
  }
  std::string largest(GpuValue value) const { return has(value) ? CsvField{(*this)[value].largest}.text() : ""; }
};

struct GpuRecord {
  std::string key, name;
  std::size_t line = 0;
  GpuSums busy;            // from the first to the last sample in which it worked
  GpuSums since;           // since then
  std::size_t before = 0;  // samples before

  void add(const GpuSample& sample) {
    const bool works = sample.busy().value_or(1) > 0;
    if (!works && busy.samples == 0) {
      ++before;
      return;
    }
    since.add(sample);
    if (!works) return;
    busy.add(since);
    since = {};
  }
};

class GpuLog {
 public:
  explicit GpuLog(const std::string& file_name) : file_name_{file_name} {}

  Measurements read(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    for (std::size_t begin = 0; begin < text.size(); ++line_) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      read_line(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (tool_ == GpuTool::kNone) fail_kind(text);
    return rows();
  }

 private:
  [[noreturn]] void fail_kind(std::string_view text) const {
    std::string what{emptiness(text)};
    if (const std::string framework = job_log_kind(text.substr(0, 64UL * 1024)); what.empty() && !framework.empty())
      what = "a log of " + framework + ", whose \"format\" is \"training-log\"";
    throw InputError{
        file_name_ +
        ": expected the output of nvidia-smi dmon, nvidia-smi --query-gpu=index,utilization.gpu,memory.used "
        "--format=csv, with its line of names, or dcgmi dmon; found " +
        (what.empty() ? std::string{"no line of names of one"} : what)};
  }

  void read_line(std::string_view line) {
    constexpr std::size_t kLongestRow = std::size_t{64} * 1024;
    if (line.size() > kLongestRow) return;
    if (const GpuTool tool = tool_of(line); tool != GpuTool::kNone) {
      read_header(line, tool);
      return;
    }
    if (tool_ == GpuTool::kNone || trimmed(line).empty() || trimmed(line).starts_with('#')) return;
    std::vector<std::string_view> fields = fields_of(line, tool_);
    if (tool_ == GpuTool::kDcgm) {  // "GPU 0", or "GPU-I 3" and "CI 1" of parts
      if (fields.size() < 2 || fields.front() != "GPU") return;
      fields.erase(fields.begin());
    }
    if (fields.size() != positions_.size()) {
      ++broken_;
      return;
    }
    add(fields);
  }

  void read_header(std::string_view line, GpuTool tool) {
    if (tool == GpuTool::kPmon)
      throw InputError{file_name_ + ":" + std::to_string(line_) +
                       ": expected shares of whole GPUs; found those of processes (nvidia-smi pmon): record nvidia-smi "
                       "dmon instead"};
    if (tool_ != GpuTool::kNone && tool_ != tool)
      throw InputError{file_name_ + ":" + std::to_string(line_) + ": expected one tool's output; found " +
                       std::string{kToolNames[static_cast<std::size_t>(tool)]} + " after " +
                       std::string{kToolNames[static_cast<std::size_t>(tool_)]}};
    tool_ = tool;
    positions_.clear();
    std::string_view names = trimmed(line);
    if (tool != GpuTool::kQuery) names.remove_prefix(1);
    const std::vector<std::string_view> fields = fields_of(names, tool);
    for (std::size_t f = 0; f < fields.size(); ++f) {
      std::string_view name = fields[f];
      if (tool == GpuTool::kQuery) name = trimmed(name.substr(0, name.find('[')));
      const auto known = std::ranges::find(columns_of(tool), name, &GpuColumn::name);
      if (known != columns_of(tool).end()) has_column_.insert(known->value);
      const bool is_entity = tool == GpuTool::kDcgm && f == 0;
      static constexpr GpuColumn kEntity{"Entity", GpuValue::kIndex};
      positions_.push_back(is_entity ? &kEntity : known == columns_of(tool).end() ? nullptr : &*known);
    }
  }

  void add(const std::vector<std::string_view>& fields) {
    std::string index, bus, name;
    GpuSample sample;
    bool is_sample = false;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const GpuColumn* column = positions_[f];
      if (column == nullptr) continue;
      constexpr std::size_t kLongestName = 100;
      const std::string_view text = fields[f].substr(0, kLongestName);
      if (column->value == GpuValue::kIndex) {
        index = text;
      } else if (column->value == GpuValue::kBus) {
        if (bus.empty()) bus = text;
      } else if (column->value == GpuValue::kName) {
        name = text;
      } else if (const auto value = number_of(text, *column)) {
        auto& known = sample.values[static_cast<std::size_t>(column->value)];
        if (!known) known = *value;
        is_sample = true;
      }
    }
    if (!is_sample) return;
    const std::string key = !index.empty() ? index : !bus.empty() ? bus : name;
    is_told_by_name_ = is_told_by_name_ || (index.empty() && bus.empty());
    const auto [entry, is_new] = numbers_.try_emplace(key, gpus_.size());
    constexpr std::size_t kMostGpus = 10'000;
    if (gpus_.size() == kMostGpus && is_new) throw InputError{file_name_ + ": expected at most 10000 GPUs"};
    if (is_new) gpus_.push_back({.key = key, .name = name, .line = line_, .busy = {}, .since = {}});
    gpus_[entry->second].add(sample);
  }

  /// 97 or "97 %" or "40536 MiB"; none of "-", "N/A" and "[Not Supported]".
  std::optional<double> number_of(std::string_view text, const GpuColumn& column) const {
    std::size_t end = 0;
    const LoggedValue number = read_logged_number(text.substr(0, text.find_first_of(" %")), &end);
    if (!number.is_known()) return {};
    const double value = number.value * column.unit;
    const bool is_share = column.value <= GpuValue::kMemoryUtilization || column.value >= GpuValue::kSmActive;
    if (is_share && value > 1.0000001)
      throw InputError{file_name_ + ":" + std::to_string(line_) + ": column " + in_quotes(column.name) +
                       ": expected a share of at most 100 %; found " + in_quotes(text)};
    return value;
  }

  Measurements rows() const {
    CsvWriter csv{{"tool", "gpu", "name", "samples", "idle_samples", "gpu_utilization", "memory_utilization",
                   "memory_used_B", "power_W", "sm_clock_Hz", "sm_active", "dram_active"}};
    const std::string tool{kToolNames[static_cast<std::size_t>(tool_)]};
    Measurements result;
    std::size_t idle = 0, idle_gpus = 0;
    for (const GpuRecord& gpu : gpus_) {
      const GpuSums& sums = gpu.busy;
      if (sums.samples == 0) {
        ++idle_gpus;
        continue;
      }
      const std::size_t idle_samples = gpu.before + gpu.since.samples;
      idle += idle_samples;
      const bool has_utilization = sums.has(GpuValue::kUtilization);
      csv.skip_to_line(gpu.line);
      csv.row({tool, gpu.key, gpu.name, std::to_string(sums.samples), std::to_string(idle_samples),
               sums.mean(has_utilization ? GpuValue::kUtilization : GpuValue::kEngineBusy),
               sums.mean(GpuValue::kMemoryUtilization), sums.largest(GpuValue::kMemoryUsed),
               sums.mean(GpuValue::kPower), sums.mean(GpuValue::kClock), sums.mean(GpuValue::kSmActive),
               sums.mean(GpuValue::kDramActive)});
      add_missing(sums, result);
    }
    if (idle_gpus == gpus_.size())
      throw InputError{file_name_ + ": expected samples of a GPU that works; found " +
                       (gpus_.empty() ? "no sample" : "idle GPUs alone")};
    result.table = parse_csv(csv.text(), file_name_);
    result.gpu_column = "name";
    const auto say = [&](std::size_t count, const char* one, const char* many) {
      if (count > 0) result.remarks.push_back(file_name_ + ": " + std::to_string(count) + (count == 1 ? one : many));
    };
    if (is_told_by_name_)
      result.remarks.push_back(file_name_ +
                               ": neither the index nor the address of GPUs is recorded: all of one name are one row");
    say(idle, " sample before the GPUs' first or after their last work is left out",
        " samples before the GPUs' first or after their last work are left out");
    say(idle_gpus, " idle GPU is left out", " idle GPUs are left out");
    say(broken_, " line that is not whole is left out", " lines that are not whole are left out");
    return result;
  }

  void add_missing(const GpuSums& sums, Measurements& result) const {
    const std::string of{kToolNames[static_cast<std::size_t>(tool_)]};
    const bool is_dmon = tool_ == GpuTool::kDmon, is_query = tool_ == GpuTool::kQuery;
    const auto add = [&](const char* column, GpuValue value, const char* dmon, const char* query, const char* dcgm) {
      const std::string asked = is_dmon ? dmon : is_query ? query : dcgm;
      result.missing.try_emplace(
          column, file_name_ + ": " + of +
                      (has_column_.contains(value) ? " was asked for it, but this GPU or its driver tells none"
                                                   : " did not record it; ask for it with " + asked));
    };
    if (!sums.has(GpuValue::kUtilization) && !sums.has(GpuValue::kEngineBusy))
      add("gpu_utilization", GpuValue::kUtilization, "-s u", "utilization.gpu", "-e 203");
    if (!sums.has(GpuValue::kMemoryUtilization))
      add("memory_utilization", GpuValue::kMemoryUtilization, "-s u", "utilization.memory", "-e 204");
    if (!sums.has(GpuValue::kMemoryUsed)) add("memory_used_B", GpuValue::kMemoryUsed, "-s m", "memory.used", "-e 252");
  }

  const std::string& file_name_;
  std::size_t line_ = 1, broken_ = 0;
  GpuTool tool_ = GpuTool::kNone;
  std::vector<const GpuColumn*> positions_;  // of the columns of the current header
  std::set<GpuValue> has_column_;            // of all headers
  bool is_told_by_name_ = false;             // some sample names its GPU neither by index nor by address
  std::vector<GpuRecord> gpus_;
  std::map<std::string, std::size_t> numbers_;  // of GPUs
};

}  // namespace

Measurements parse_gpu_log(std::string_view text, const std::string& file_name) { return GpuLog{file_name}.read(text); }

std::string gpu_log_kind(std::string_view start) {
  constexpr int kLines = 20;
  for (int line = 0; line < kLines && !start.empty(); ++line) {
    const std::size_t end = std::min(start.find('\n'), start.size());
    if (const GpuTool tool = tool_of(start.substr(0, end)); tool != GpuTool::kNone)
      return std::string{kToolNames[static_cast<std::size_t>(tool)]};
    start.remove_prefix(std::min(end + 1, start.size()));
  }
  return {};
}

}  // namespace rehearse
