// A profile is written as it is read: of shipped ones and of random ones.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "platforms/profile.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

std::vector<std::string> profile_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator{source_folder() + "/calibration/profiles"})
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  return files;
}

Profile read_file(const Json& json) { return read_profile(JsonReader{json, "p.json"}); }

template <class Quantity>
std::optional<double> in(const std::string& text) {
  try {
    return static_cast<double>(parse_quantity<Quantity>(text).value());
  } catch (const QuantityError&) { return {}; }
}

/// A quantity in another unit, or another word for an algorithm.
bool is_same(const std::string& a, const std::string& b) {
  return (in<Seconds>(a) && in<Seconds>(a) == in<Seconds>(b)) || (in<Bytes>(a) && in<Bytes>(a) == in<Bytes>(b)) ||
         (in<BytesPerSecond>(a) && in<BytesPerSecond>(a) == in<BytesPerSecond>(b)) ||
         (find_collective_algorithm(a) && find_collective_algorithm(a) == find_collective_algorithm(b));
}

/// Whether it has no value anywhere.
bool is_empty(const Json& json) {
  return json.is_object() && std::ranges::all_of(json, [](const Json& value) { return is_empty(value); });
}

/// The place of the first value of `file` that `written` does not have, but for texts about where values are from; empty: there
/// is none.
std::string first_missing(const Json& file, const Json& written, const std::string& place = "") {
  if (file.is_object() || file.is_array()) {
    for (const auto& [key, value] : file.items()) {
      const std::string below = extend_json_pointer(place, key);
      if (key == "source" && !place.empty()) continue;
      if (key == "intervals" && place.starts_with("/kernels")) continue;
      const Json* found = json_pointer_find(written, extend_json_pointer("", key));
      if (found == nullptr && (is_empty(value) || (key == "gpus" && value == 1))) continue;  // as by default
      if (found == nullptr) return below + " is missing";
      if (const std::string missing = first_missing(value, *found, below); !missing.empty()) return missing;
    }
    return file.is_array() && file.size() != written.size() ? place + " has another size" : "";
  }
  if (file.is_string() && written.is_string() &&
      (file == written || is_same(file.get<std::string>(), written.get<std::string>())))
    return {};
  return file == written ? "" : place + ": " + file.dump() + " is written as " + written.dump();
}

/// What a profile's file says that runs depend on.
Json of_runs(Json file) {
  if (!file.contains("fit")) return file;
  Json& fit = file["fit"];
  Json values = Json::array(), spread;
  for (const Json& value : fit["values"]) values.push_back({{"pointer", value["pointer"]}});
  if (fit.contains("spread")) spread = fit["spread"];
  fit = Json{{"values", values}, {"seen", fit["seen"]}};
  if (fit["seen"].contains("frameworks") && fit["seen"]["frameworks"].empty()) fit["seen"].erase("frameworks");
  if (fit["seen"].value("exchanges", Json::array()).empty()) fit["seen"].erase("exchanges");
  if (file.contains("kernels") && !spread.is_null()) spread.erase("components");  // too many to vary
  if (!spread.is_null()) fit["spread"] = spread;
  return file;
}

/// Without what a profile may leave out here and there.
void leave_out(Json& json, Rng& rng, int depth = 0) {
  if (!json.is_object()) return;
  std::vector<std::string> gone;
  for (auto& [key, value] : json.items()) {
    if (depth > 0 && rng.below(8) == 0) gone.push_back(key);
    leave_out(value, rng, depth + 1);
  }
  for (const std::string& key : gone) json.erase(key);
}

/// Numbers and quantities times a random factor.
void change(Json& json, Rng& rng) {
  if (json.is_object() || json.is_array()) {
    for (Json& value : json) change(value, rng);
  } else if (json.is_number_float()) {
    json = json.get<double>() * (0.5 + rng.uniform());
  } else if (json.is_string()) {
    if (const auto time = in<Seconds>(json.get<std::string>())) json = to_text(Seconds{*time * (0.5 + rng.uniform())});
    if (const auto rate = in<BytesPerSecond>(json.get<std::string>()))
      json = to_text(BytesPerSecond{*rate * (0.5 + rng.uniform())});
  }
}

}  // namespace

TEST_CASE("what is written of a shipped profile has every value of its file that runs depend on") {
  REQUIRE(profile_files().size() > 20);
  for (const std::string& file : profile_files()) {
    CAPTURE(file);
    const Json json = load_json_file(file), written = to_json(read_file(json));
    CHECK(first_missing(of_runs(json), written) == "");
    CHECK(to_json(read_file(written)) == written);
  }
}

TEST_CASE("what is written of a random profile has every value of its file that runs depend on") {
  int accepted = 0;
  for (const std::string& file : profile_files())
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(file);
      CAPTURE(seed);
      Rng rng{seed, "random profile"};
      Json json = load_json_file(file);
      for (const char* part : {"fit", "kernels"}) json.erase(part);  // which leave nothing out
      leave_out(json, rng);
      change(json, rng);
      std::optional<Profile> profile;
      try {
        profile = read_file(json);
      } catch (const InputError&) { continue; }  // without what it needs, or beyond its bounds
      ++accepted;
      const Json written = to_json(*profile);
      CHECK(first_missing(json, written) == "");
      CHECK(to_json(read_file(written)) == written);
    }
  CHECK(accepted > 200);
}

TEST_CASE("what follows from a profile is the same of what is written of it") {
  for (const std::string& file : profile_files()) {
    CAPTURE(file);
    const Profile profile = read_file(load_json_file(file)), again = read_file(to_json(profile));
    CHECK(again.uncertainty.interval(0.1) == profile.uncertainty.interval(0.1));
    CHECK(again.uncertainty.components == profile.uncertainty.components);
    CHECK(again.servers.fitted.has_value() == profile.servers.fitted.has_value());
    for (const auto& [generation, whole] : profile.collectives.by_generation)
      for (const auto& [name, protocol] : whole.protocols) {
        const CollectiveProtocol& same = again.collectives.on("", generation).protocols.at(name);
        CHECK(same.launch == protocol.launch);
        CHECK(same.nvlink_step == protocol.nvlink_step);
        CHECK(same.efficiency == protocol.efficiency);
      }
    for (const auto& [name, framework] : profile.frameworks) {
      CHECK(again.frameworks.at(name).dispatch == framework.dispatch);
      CHECK(again.frameworks.at(name).memory.kept_activations == framework.memory.kept_activations);
    }
  }
}

TEST_CASE("a change is put into a file whose other texts stay as they are") {
  Json file = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  file["servers"]["time_per_variable"] = "0.055ms";
  const Profile before = read_file(file);
  Profile after = before;
  after.gpu.peak_efficiency["A100"] = 0.5;
  after.servers_of_frameworks.clear();
  after.substitutes.push_back({.text = "as here", .uncertainty = 0.1, .is_of_kind = true, .components = {}});
  Json changed = file;
  put_changes(changed, before, before);
  CHECK(changed == file);
  put_changes(changed, before, after);
  Json expected = file;
  expected["gpu"]["peak_efficiency"]["A100"] = 0.5;
  expected["servers"].erase("by_framework");
  expected["substitutes"] = Json::array();
  expected["substitutes"].push_back({{"text", "as here"}, {"spread", 0.1}, {"of_kind", true}});
  CHECK(changed == expected);
}

TEST_CASE("a value is moved as one of a file that has the product, within what a profile may hold") {
  const Json file = load_json_file(source_folder() + "/calibration/profiles/nccl.json");
  const std::string pointer = "/collectives/by_generation/NVLink 4/launch";
  Profile profile = read_file(file);
  REQUIRE(json_pointer_find(file, pointer) != nullptr);
  const Seconds launch = profile.collectives.on("", "NVLink 4").protocols.at("ring_LL").launch;
  CHECK(move_value(profile, pointer, 0.1));
  set_consequences(profile);
  CHECK(profile.collectives.on("", "NVLink 4").protocols.at("ring_LL").launch > launch);
  Json moved = file;
  set_json_pointer(moved, pointer, to_text(profile.stated_collectives.by_generation.at("NVLink 4").launch));
  CHECK(to_json(read_file(moved)) == to_json(profile));
  CHECK_FALSE(move_value(profile, "/collectives/protocols/ring_LL/efficiency", 5));
}

}  // namespace rehearse
