#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/kernel_study.hpp"
#include "calibration/lifetime_study.hpp"
#include "calibration/study.hpp"
#include "calibration/training_fit.hpp"
#include "platforms/catalog.hpp"
#include "platforms/interconnect.hpp"
#include "platforms/profile.hpp"
#include "platforms/spot_pool.hpp"
#include "sim/app/schema_kinds.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/support/program.hpp"
#include "tests/support/schema_check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

const test::SchemaCheck& check_of(const std::string& kind) {
  static std::map<std::string, test::SchemaCheck> checks;
  if (checks.empty())
    for (const SchemaKind& known : schema_kinds()) checks.emplace(known.name, test::SchemaCheck{known.schema()});
  return checks.at(kind);
}

/// The kind of a shipped file, by its place and content; empty if it is none that users write.
std::string kind_of(const std::string& path, const Json& file) {
  static const std::vector<std::pair<std::string, std::string>> kPlaces{
      {"platforms/catalog/prices/", "prices"}, {"platforms/catalog/", "catalog"},
      {"calibration/profiles/", "profile"},    {"workloads/models/", "model"},
      {"scenarios/spaces/", "space"},          {"scenarios/sweeps/", "sweep"},
      {"scenarios/provision/", "provision"},   {"scenarios/queue/", "queue"},
      {"scenarios/studies/", "study"},         {"scenarios/", "scenario"}};
  for (const auto& [place, kind] : kPlaces) {
    if (!path.starts_with(place)) continue;
    if (kind == "study" && file.contains("kind")) return file["kind"].get<std::string>();
    if (kind == "study" && file.contains("studies")) return "study_set";
    const bool is_scenario = file.contains("cluster") && file.contains("training");  // that studies start from
    return is_scenario ? "scenario" : kind;
  }
  return {};
}

/// All JSON files of the repository's folders, relative to it, with their kinds.
const std::map<std::string, std::string>& shipped_files() {
  static const auto files = [] {
    std::map<std::string, std::string> found;
    for (const char* folder : {"calibration/profiles", "platforms", "scenarios", "workloads"})
      for (const auto& entry : fs::recursive_directory_iterator{fs::path{test::kRoot} / folder})
        if (entry.path().extension() == ".json") {
          const std::string path = entry.path().lexically_relative(test::kRoot).string();
          found[path] = kind_of(path, load_json_file(entry.path()));
        }
    return found;
  }();
  return files;
}

/// What a reader reads, and where it says that it has read it.
using Read = std::function<void(const Json& value, const std::string& place)>;

/// A value of a kind; entries of catalogs by themselves.
struct Shipped {
  std::string kind, place;
  Json value;
};

/// The smallest first: what several have is tried with the one that is read and checked soonest.

const std::vector<Shipped>& shipped_values() {
  static const std::map<std::string, std::string> kEntries{
      {"accelerators", "accelerator"}, {"instances", "instance"},   {"interconnects", "interconnect"},
      {"region_links", "region_link"}, {"spot_pools", "spot_pool"}, {"storage", "storage"},
      {"messaging", "messaging"}};
  static const auto values = [] {
    std::vector<Shipped> found;
    for (const auto& [path, kind] : shipped_files()) {
      const Json file = load_json_file(test::kRoot + "/" + path);
      if (kind != "catalog") {
        found.push_back({kind, path, file});
        continue;
      }
      for (const auto& [key, entries] : file.items())
        if (kEntries.contains(key))
          for (const auto& [name, entry] : entries.items()) found.push_back({kEntries.at(key), path, entry});
    }
    std::ranges::stable_sort(found, {}, [](const Shipped& one) { return one.value.dump().size(); });
    return found;
  }();
  return values;
}

/// As inside of scenarios.
JsonReader named(const Json& value, const std::string& place) {
  const JsonReader json{value, place};
  (void)json.optional<std::string>("name", "");
  return json;
}

/// `file` at another place, with its paths made absolute.
fs::path moved(Json file, const std::string& name, const test::TemporaryFolder& folder) {
  const fs::path home = (fs::path{test::kRoot} / name).parent_path();
  const std::function<void(Json&)> resolve = [&](Json& value) {
    if (!value.is_structured()) return;
    for (const auto& [key, member] : value.items()) {
      if (member.is_string() && (key == "scenario" || key == "measurements" || key == "file"))
        member = (home / member.get<std::string>()).string();
      else
        resolve(value.is_array() ? value[std::stoul(key)] : value[key]);
    }
  };
  resolve(file);
  return folder.write("moved.json", to_json_text(file));
}

const std::map<std::string, Read>& readers() {
  static const Catalog catalog{{{.platforms = test::kRoot + "/platforms/catalog",
                                 .models = test::kRoot + "/workloads/models",
                                 .profiles = test::kRoot + "/calibration/profiles"}}};
  static const std::map<std::string, Read> all{
      {"accelerator", [](const Json& v, const std::string& at) { (void)read_accelerator("name", named(v, at)); }},
      {"instance", [](const Json& v, const std::string& at) { (void)read_instance("name", named(v, at)); }},
      {"interconnect",
       [](const Json& v, const std::string& at) { (void)read_interconnect(named(v, at), BytesPerSecond{1e9}); }},
      {"region_link",
       [](const Json& v, const std::string& at) {
         (void)read_region_link(JsonReader{v, at});
       }},
      {"spot_pool", [](const Json& v, const std::string& at) { (void)read_spot_pool("name", named(v, at)); }},
      {"storage", [](const Json& v, const std::string& at) { (void)read_storage_price("name", named(v, at)); }},
      {"messaging", [](const Json& v, const std::string& at) { (void)read_messaging("name", named(v, at)); }},
      {"prices",
       [](const Json& file, const std::string& name) {
         (void)read_price_history(JsonReader{file, test::kRoot + "/" + name});
       }},
      {"profile",
       [](const Json& file, const std::string& name) {
         (void)read_profile(JsonReader{file, name});
       }},
      {"model",
       [](const Json& file, const std::string& name) {
         (void)read_model("model", JsonReader{file, name});
       }},
      {"scenario", [](const Json& file,
                      const std::string& name) { (void)read_scenario(file, test::kRoot + "/" + name, catalog, {}); }},
      {"study",
       [](const Json& file, const std::string& name) {
         const test::TemporaryFolder folder;
         (void)load_studies(moved(file, name, folder));
       }},
      {"lifetimes",
       [](const Json& file, const std::string& name) {
         const test::TemporaryFolder folder;
         (void)load_lifetime_study(moved(file, name, folder));
       }},
      {"kernels",
       [](const Json& file, const std::string& name) {
         const test::TemporaryFolder folder;
         (void)load_kernel_study(moved(file, name, folder), catalog);
       }},
      {"training_logs", [](const Json& file, const std::string& name) {
         const test::TemporaryFolder folder;
         (void)load_training_study(moved(file, name, folder));
       }}};
  return all;
}

/// Whether the reader is tried with many variants of a value. Readers of scenarios and studies read much more than it:
/// some are enough.
bool is_tried(const std::string& kind, const std::string& path) {
  static const std::set<std::string> kSome{"scenarios/cm-dare-spot.json", "scenarios/collective.json",
                                           "scenarios/studies/own/kernels.json",
                                           "scenarios/studies/cm-dare-startup.json"};
  const bool reads_more = kind == "scenario" || kind == "study" || kind == "lifetimes" || kind == "kernels";
  return readers().contains(kind) && (!reads_more || kSome.contains(path));
}

std::string told(const Read& read, const Json& file, const std::string& name) {
  try {
    read(file, name);
  } catch (const InputError& error) { return error.what(); }
  return {};
}

/// Calls `use` with the pointer of each object in `value`, once for objects of the same kind at like places; and, if it
/// goes `by_keys`, that have the same keys.
void for_each_shape(const Json& value, const std::string& at, const std::string& place, bool by_keys,
                    std::set<std::string>& seen, const std::function<void(const std::string&, const Json&)>& use) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      for_each_shape(value[i], extend_json_pointer(at, std::to_string(i)), place, by_keys, seen, use);
  } else if (value.is_object()) {
    std::string shape = place + ":";
    if (by_keys)
      for (const auto& [key, member] : value.items()) shape += key + (member.is_string() ? "," : "+,");
    for (const char* kind : {"family", "head", "law", "layer", "rows"})
      if (value.contains(kind)) shape += value[kind].dump();
    if (seen.insert(shape).second) use(at, value);
    for (const auto& [key, member] : value.items())
      for_each_shape(member, extend_json_pointer(at, key), key, by_keys, seen, use);
  }
}

Json changed(const Json& file, const std::string& pointer, const std::function<void(Json&)>& change) {
  Json copy = file;
  change(pointer.empty() ? copy : copy[Json::json_pointer{pointer}]);
  return copy;
}

/// `file` without what its reader does not miss beside the member that `at` is in: it is read thousands of times.
Json reduced(const Json& file, const std::string& at, const Read& read, const std::string& name) {
  Json less = file;
  for (const auto& [key, member] : file.items()) {
    if (at.starts_with(extend_json_pointer("", key))) continue;
    Json without = less;
    without.erase(key);
    if (told(read, without, name).empty()) less = std::move(without);
  }
  return less;
}

bool any_contains(const std::vector<std::string>& errors, const std::string& text) {
  return std::any_of(errors.begin(), errors.end(),
                     [&](const std::string& error) { return error.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("every shipped file is as the schema of its kind says") {
  std::map<std::string, int> files;
  for (const auto& [path, kind] : shipped_files()) {
    CAPTURE(path);
    CAPTURE(kind);
    REQUIRE(!kind.empty());
    const std::vector<std::string> errors = check_of(kind).errors(load_json_file(test::kRoot + "/" + path));
    CHECK_MESSAGE(errors.empty(), (errors.empty() ? "" : errors.front()));
    ++files[kind];
  }
  for (const char* kind : {"scenario", "model", "profile", "catalog", "prices", "study", "study_set", "kernels",
                           "lifetimes", "training_logs", "sweep", "provision", "queue", "space"})
    CHECK_MESSAGE(files[kind] > 0, kind);
}

TEST_CASE("a missing key, or an unknown one, is wrong to the reader if it is to the schema") {
  std::map<std::string, std::set<std::string>> seen;  // by kind
  std::size_t tried = 0;
  for (const auto& [kind, path, file] : shipped_values()) {
    if (!is_tried(kind, path)) continue;
    const Read& read = readers().at(kind);
    const test::SchemaCheck& check = check_of(kind);
    for_each_shape(
        file, "", "", true, seen[kind], [&, name = path, &file = file](const std::string& at, const Json& object) {
          for (const auto& [key, member] : object.items()) {
            const Json without = changed(file, at, [&, gone = key](Json& there) { there.erase(gone); });
            const std::vector<std::string> errors = check.errors(without);
            const std::string message = told(read, without, name);
            INFO(name << ": " << at << " without " << key << ": " << message << " | "
                      << (errors.empty() ? "" : errors.front()));
            if (!errors.empty()) CHECK(!message.empty());
            if (message.find("expected the key") != std::string::npos) CHECK(!errors.empty());
            ++tried;
          }
          const Json with = changed(file, at, [](Json& there) { there["no such key"] = nullptr; });
          const std::vector<std::string> errors = check.errors(with);
          const std::string message = told(read, with, name);
          INFO(name << ": " << at << " with an unknown key: " << message << " | "
                    << (errors.empty() ? "" : errors.front()));
          CHECK((message.find("unknown key") != std::string::npos) == any_contains(errors, "unknown \"no such key\""));
          ++tried;
        });
  }
  CHECK(tried > 500);
}

TEST_CASE("schemas and readers know the same keys") {
  std::map<std::string, std::set<std::string>> seen;
  for (const auto& [kind, path, file] : shipped_values()) {
    if (!is_tried(kind, path) || path.starts_with("scenarios/")) continue;
    const Read& read = readers().at(kind);
    const test::SchemaCheck& check = check_of(kind);
    for_each_shape(file, "", "", false, seen[kind],
                   [&, name = path, &file = file](const std::string& at, const Json& object) {
                     const Json less = reduced(file, at, read, name);
                     for (const std::string& key : check.names()) {
                       if (object.contains(key)) continue;
                       const Json with = changed(less, at, [&](Json& there) { there[key] = nullptr; });
                       const std::string unknown = "unknown key \"" + key + "\"";
                       const std::string message = told(read, with, name);
                       CHECK_MESSAGE((message.find(unknown) != std::string::npos) ==
                                         any_contains(check.errors(with), at + ": unknown \"" + key + "\""),
                                     name << ": " << at << " with " << key << ": " << message);
                     }
                   });
  }
}

TEST_CASE("schema prints every kind, and names the nearest of an unknown one") {
  const test::Outcome help = test::rehearse_with("schema --help");
  for (const SchemaKind& kind : schema_kinds()) {
    const test::Outcome outcome = test::rehearse_with(std::string{"schema "} + kind.name);
    CHECK(outcome.exit_code == 0);
    CHECK(parse_json(outcome.out, "schema").contains("title"));
    CHECK(help.out.find(kind.name) != std::string::npos);
  }
  test::check_refused("schema profil", 2, "did you mean \"profile\"");
}

}  // namespace rehearse
