#include "sim/view/run_index.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

/// How results of a verb are known, and where their JSON file says what the list shows: pointers, "" where nothing does.
struct Kind {
  const char* name;
  const char* file;
  const char* mark;                     // pointer that is there; "": any
  std::array<const char*, 2> titles{};  // the second may be missing
  const char* samples_per_s = "";
  const char* time_s = "";
  const char* cost_usd = "";
  const char* says = "";
};

/// The first that fits. A new verb with results is a row.
constexpr std::array<Kind, 15> kRunKinds{{
    {"replay", "summary.json", "/kind", {"/gpu"}, "/samples_per_s", "/time_s"},
    {"simulate --runs", "summary.json", "/memberships", {"/name"}, "", "/time_s", "/cost_usd"},
    {"simulate", "summary.json", "/steps_per_s", {"/name"}, "/samples_per_s", "/time_s", "/cost_usd", "/bottleneck"},
    {"validate", "summary.json", "/study", {"/study"}, "", "", "", "/mape"},
    {"queue", "summary.json", "/policies", {"/name"}},
    {"fit", "summary.json", "/mean_error_fitted", {}, "", "", "", "/mean_error_fitted"},
    {"provision",
     "summary.json",
     "/planner",
     {},
     "/answer/closed_form/samples_per_s",
     "/answer/time_s/p50",
     "/answer/cost_usd/p50",
     "/answer/plan"},
    {"provision",
     "summary.json",
     "/answer",
     {"/answer/machines"},
     "/answer/samples_per_s",
     "/answer/time_s",
     "/answer/cost_usd",
     "/answer/plan"},
    {"results", "summary.json", "", {"/name"}},
    {"diff", "diff.json", "", {"/a/run", "/b/run"}},
    {"diagnose", "diagnosis.json", "", {}, "/measured_samples_per_s", "", "", "/simulated/bottleneck"},
    {"remaining", "remaining.json", "", {"/group"}, "", "/remaining_time_s"},
    {"traffic", "traffic.json", "", {"/name"}, "", "/duration_s"},
    {"predict", "prediction.json", "", {}},
    {"compare", "comparison.json", "", {}},
}};

constexpr std::uintmax_t kLargest = 4 * kMiB;  // of a file that is read for the list
constexpr std::size_t kMostEntries = 20'000;   // files and folders that a scan looks at
constexpr int kDeepest = 8;

Json number_at(const Json& json, const char* pointer) {
  const Json* found = *pointer ? json_pointer_find(json, pointer) : nullptr;
  return found && found->is_number() ? *found : Json{};
}

/// A text, shortened, or a number with its key.
std::string text_at(const Json& json, const char* pointer) {
  const Json* found = *pointer ? json_pointer_find(json, pointer) : nullptr;
  if (found && found->is_number()) {
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), " %.3g", found->get<double>());
    return std::string{pointer}.substr(1) + number.data();
  }
  return found && found->is_string() ? shortened(found->get<std::string>(), 300) : "";
}

/// What the list shows of a result, but for what its folder tells.
std::optional<Json> describe_run(const Json& json, const std::string& file) {
  if (!json.is_object() || !json.contains("format")) return {};
  const auto found = std::ranges::find_if(kRunKinds, [&](const Kind& kind) {
    return file == kind.file && (!*kind.mark || json_pointer_find(json, kind.mark));
  });
  if (found == kRunKinds.end()) return {};
  std::vector<std::string> titles;
  for (const char* pointer : found->titles)
    if (pointer != nullptr) titles.push_back(text_at(json, pointer));
  std::erase(titles, "");
  return Json{{"kind", found->name},
              {"name", joined(titles, " and ")},
              {"samples_per_s", number_at(json, found->samples_per_s)},
              {"time_s", number_at(json, found->time_s)},
              {"cost_usd", number_at(json, found->cost_usd)},
              {"says", text_at(json, found->says)}};
}

std::optional<Json> describe_scenario(const Json& json) {
  if (!json.is_object()) return {};
  const bool is_sweep =
      json.contains("scenario") && (json.contains("grid") || json.contains("list") || json.contains("seeds"));
  if (!is_sweep && !(json.contains("workload") && json.contains("cluster"))) return {};
  return Json{{"kind", is_sweep ? "sweep" : "scenario"}, {"name", text_at(json, "/name")}};
}

/// Results of a sweep are tables alone.
Json describe_sweep() {
  return Json{{"kind", "sweep"},  {"name", ""},         {"samples_per_s", Json{}},
              {"time_s", Json{}}, {"cost_usd", Json{}}, {"says", ""}};
}

std::int64_t unix_seconds(fs::file_time_type time) {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

const RunIndex::Read& RunIndex::read(const fs::path& file) {
  Read& known = read_[file];
  known.seen = scans_;
  std::error_code error;
  const auto changed = fs::last_write_time(file, error);
  const auto size = fs::file_size(file, error);
  if (error || (known.changed == changed && known.size == size && changed != fs::file_time_type{})) return known;
  known = {.changed = changed, .size = size, .entry = {}, .seen = scans_};
  if (size > kLargest) return known;
  try {
    const Json json = load_json_file(file);
    std::optional<Json> entry = describe_run(json, file.filename().string());
    known.is_run = entry.has_value();
    if (!entry) entry = describe_scenario(json);
    if (entry) known.entry = entry->dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const InputError&) {}  // of another program, or half of a file that somebody writes in place
  return known;
}

void RunIndex::scan_folder(const std::string& relative, int depth) {
  std::error_code error;
  std::set<std::string> files, folders;
  for (fs::directory_iterator it{folder_.root() / relative, error}, end; !error && it != end; it.increment(error)) {
    if (++entries_ > kMostEntries) return;
    const std::string name = it->path().filename().string();
    std::error_code unreadable;
    if (!ServedFolder::is_plain(name) || it->is_symlink(unreadable)) continue;
    if (it->is_directory(unreadable)) folders.insert(name);
    if (it->is_regular_file(unreadable)) files.insert(name);
  }
  std::optional<Json> run;
  std::int64_t changed = 0;
  const auto take = [&](const std::string& name) {
    const Read& about = read(folder_.root() / relative / name);
    if (run || !about.is_run) return;
    run = Json::parse(about.entry);
    changed = unix_seconds(about.changed);
  };
  for (const Kind& kind : kRunKinds)
    if (files.contains(kind.file)) take(kind.file);
  if (!run && files.contains("results.sqlite") && files.contains("sweep.csv")) {
    run = describe_sweep();
    std::error_code gone;
    changed = unix_seconds(fs::last_write_time(folder_.root() / relative / "sweep.csv", gone));
  }
  if (run) {
    const auto page = std::ranges::find_if(files, [](const std::string& name) { return name.ends_with(".html"); });
    const std::string report = files.contains("report.html") ? "report.html" : page == files.end() ? "" : *page;
    (*run)["path"] = relative;
    (*run)["changed_s"] = changed;
    (*run)["page"] = report.empty() ? "" : below(relative, report);
    (*run)["files"] = files;
    (*run)["scenario"] = files.contains("scenario.json") ? below(relative, "scenario.json") : "";
    runs_ += (runs_.empty() ? "" : ",") + run->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  for (const std::string& name : files) {
    if (!name.ends_with(".json") || (run && name == "scenario.json")) continue;
    const Read& about = read(folder_.root() / relative / name);
    if (about.is_run || about.entry.empty()) continue;
    Json scenario = Json::parse(about.entry);
    scenario["path"] = below(relative, name);
    scenario["changed_s"] = unix_seconds(about.changed);
    scenarios_ += (scenarios_.empty() ? "" : ",") + scenario.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (depth < kDeepest)
    for (const std::string& name : folders) scan_folder(below(relative, name), depth + 1);
}

void RunIndex::scan() {
  ++scans_;
  runs_.clear();
  scenarios_.clear();
  entries_ = 0;
  scan_folder("", 0);
  std::erase_if(read_, [&](const auto& known) { return known.second.seen != scans_; });
  const std::string content = std::string{"\"is_cut\":"} + (entries_ > kMostEntries ? "true" : "false") +
                              ",\"runs\":[" + runs_ + "],\"scenarios\":[" + scenarios_ + "]}";
  text_ = "{\"version\":\"" + std::to_string(std::hash<std::string>{}(content)) + "\"," + content;
}

std::string RunIndex::text() {
  const std::lock_guard lock{mutex_};
  const auto now = std::chrono::steady_clock::now();
  if (text_.empty() || now >= next_scan_) {
    scan();
    const auto end = std::chrono::steady_clock::now();
    next_scan_ = end + std::max<std::chrono::steady_clock::duration>(std::chrono::seconds{1}, 10 * (end - now));
  }
  return text_;
}

}  // namespace rehearse
