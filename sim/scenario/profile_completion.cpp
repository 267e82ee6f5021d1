#include "sim/scenario/profile_completion.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

using nlohmann::literals::operator""_json_pointer;

/// That of servers with what its fit has seen of them.
Json section_of(const Json& profile, const std::string& name, const std::string& section) {
  Json taken = profile[section];
  if (section == "network") taken.erase("tcp_rate");  // of another library's sockets, on other processors
  const auto seen = "/fit/seen"_json_pointer;
  if (section != "servers" || !profile.contains(seen) || !profile[seen].contains("server_traffic_max")) return taken;
  taken["fitted"] = {{"profile", name}};
  for (const char* key : {"exchanges", "server_traffic_max", "workers_max", "servers_max"})
    if (profile[seen].contains(key)) taken["fitted"][key] = profile[seen][key];
  return taken;
}

}  // namespace

double spread_of(const std::vector<double>& values) {
  if (values.size() < 2) return kSpreadOfOne;
  double mean = 0, variance = 0;
  for (const double value : values) mean += std::log(value) / static_cast<double>(values.size());
  for (const double value : values)
    variance += (std::log(value) - mean) * (std::log(value) - mean) / static_cast<double>(values.size() - 1);
  return std::max(kLeastSpread, std::sqrt(variance));
}

std::string percent_of_spread(double spread) {
  return std::to_string(static_cast<int>(std::lround(100 * std::expm1(spread)))) + " %";
}

ProfileCompletion::ProfileCompletion(const Scenario& scenario, Json& profile, const Catalog& catalog)
    : scenario_{scenario},
      profile_{profile},
      catalog_{catalog},
      name_{profile.value("name", std::string{})},
      asked_by_{profile, "profile " + in_quotes(name_)} {}

std::string ProfileCompletion::own() const { return "profile " + in_quotes(name_); }

const std::vector<ProfileDonor>& ProfileCompletion::donors() {
  if (!donors_.empty()) return donors_;
  for (const std::string& name : catalog_.profile_names()) {
    const Profile* profile = name == name_ ? nullptr : catalog_.readable_profile(name);
    if (profile == nullptr) continue;  // who asks for a wrong one is told
    const Json& json = catalog_.profile(name, asked_by_).value();
    if (json.value("unstated", "") != "ideal") donors_.push_back({name, &json, known_gpus(*profile)});
  }
  return donors_;
}

double ProfileCompletion::nearest_of(const std::set<std::string>& gpus, const Accelerator& from) const {
  return nearest_gpu(from, gpus, catalog_).distance;
}

bool ProfileCompletion::is_noted(const std::string& text) const {
  return profile_.contains("substitutes") &&
         std::ranges::any_of(profile_["substitutes"], [&](const Json& known) { return known["text"] == text; });
}

void ProfileCompletion::note(const std::string& text, double spread) { note(text, spread, Json::object()); }

void ProfileCompletion::note(const std::string& text, double spread, Json components, bool is_of_kind) {
  if (is_noted(text)) return;
  Json entry{{"text", text}, {"spread", std::round(spread * 1e4) / 1e4}};
  if (is_of_kind) entry["of_kind"] = true;
  if (!components.empty()) entry["components"] = std::move(components);
  profile_["substitutes"].push_back(std::move(entry));
}

bool ProfileCompletion::knows_errors() const { return profile_.contains("prediction"); }

std::string ProfileCompletion::off_by(double spread, const std::string& why) const {
  return knows_errors() ? "; the interval includes how far that may be off"
                        : "; predictions may be off by " + percent_of_spread(spread) + why;
}

void ProfileCompletion::forget_fit_of(const std::string& pointer) {
  if (!profile_.contains("/fit/spread/components"_json_pointer)) return;
  Json& components = profile_["fit"]["spread"]["components"];
  Json kept = Json::array();
  for (const Json& component : components) {
    Json others = Json::object();
    for (const auto& [place, change] : component.items())
      if (place != pointer && !place.starts_with(pointer + "/")) others[place] = change;
    if (!others.empty()) kept.push_back(std::move(others));
  }
  components = std::move(kept);
}

bool ProfileCompletion::take_section(const std::string& section, const std::string& what, const std::string& key) {
  const bool has_collectives = scenario_.training.strategy.kind->collectives() != nullptr;
  const ProfileDonor* nearest = nullptr;
  std::tuple<bool, double, bool> best;
  for (const ProfileDonor& donor : donors()) {
    if (!donor.profile->contains(section) || (!key.empty() && !(*donor.profile)[section].contains(key))) continue;
    const std::string software = (*donor.profile)[section].value("software", "");
    const bool is_named = !software.empty() && scenario_.framework.find(software) != std::string::npos;
    const std::tuple rank{!is_named, nearest_of(donor.gpus, first_gpu()),
                          donor.profile->contains("collectives") != has_collectives};
    if (nearest != nullptr && rank >= best) continue;
    nearest = &donor;
    best = rank;
  }
  if (nearest == nullptr) return false;
  if (key.empty())
    profile_[section] = section_of(*nearest->profile, nearest->name, section);
  else
    profile_[section][key] = (*nearest->profile)[section][key];
  note(own() + " does not state " + what + ": as in profile " + in_quotes(nearest->name) + " (" +
           joined(nearest->gpus) + "), the nearest that does" + off_by(kSpreadOfOne),
       kSpreadOfOne);
  return true;
}

}  // namespace rehearse
