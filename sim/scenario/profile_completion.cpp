#include "sim/scenario/profile_completion.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

const Json& nothing() {
  static const Json null;
  return null;
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

ProfileCompletion::ProfileCompletion(Scenario& scenario, const Catalog& catalog)
    : scenario_{scenario}, catalog_{catalog}, asked_by_{nothing(), own()} {}

std::string ProfileCompletion::own() const { return "profile " + in_quotes(scenario_.profile.name); }

const std::vector<ProfileDonor>& ProfileCompletion::donors() {
  if (!donors_.empty()) return donors_;
  for (const std::string& name : catalog_.profile_names()) {
    const Profile* profile = name == scenario_.profile.name ? nullptr : catalog_.readable_profile(name);
    if (profile == nullptr || profile->is_ideal) continue;  // who asks for a wrong one is told
    donors_.push_back({name, profile, known_gpus(*profile)});
  }
  return donors_;
}

double ProfileCompletion::nearest_of(const std::set<std::string>& gpus, const Accelerator& from) const {
  return nearest_gpu(from, gpus, catalog_).distance;
}

bool ProfileCompletion::is_noted(const std::string& text) const {
  return std::ranges::any_of(scenario_.profile.substitutes,
                             [&](const Substitute& known) { return known.text == text; });
}

void ProfileCompletion::note(const std::string& text, double spread, std::map<std::string, double> components,
                             bool is_of_kind) {
  set_changed();
  if (is_noted(text)) return;
  profile().substitutes.push_back({.text = text,
                                   .uncertainty = std::round(spread * 1e4) / 1e4,
                                   .is_of_kind = is_of_kind,
                                   .components = std::move(components)});
}

std::string ProfileCompletion::off_by(double spread, const std::string& why) const {
  return knows_errors() ? "; the interval includes how far that may be off"
                        : "; predictions may be off by " + percent_of_spread(spread) + why;
}

void ProfileCompletion::forget_fit_of(const std::string& pointer) {
  auto& components = profile().fit_spread.components;
  for (auto& component : components)
    std::erase_if(component, [&](const auto& change) {
      return change.first == pointer || change.first.starts_with(pointer + "/");
    });
  std::erase_if(components, [](const auto& component) { return component.empty(); });
}

void ProfileCompletion::take(const ProfilePart& part) {
  const bool has_collectives = scenario_.training.strategy.kind->collectives() != nullptr;
  const ProfileDonor* nearest = nullptr;
  std::tuple<bool, double, bool> best;
  for (const ProfileDonor& donor : donors()) {
    if (!part.is_stated(*donor.profile)) continue;
    const std::string& software = donor.profile->servers.software;
    const bool is_named =
        part.has_software && !software.empty() && scenario_.framework.find(software) != std::string::npos;
    const std::tuple rank{!is_named, nearest_of(donor.gpus, first_gpu()),
                          donor.profile->stated_collectives.empty() == has_collectives};
    if (nearest != nullptr && rank >= best) continue;
    nearest = &donor;
    best = rank;
  }
  if (nearest == nullptr) return;
  part.take(profile(), *nearest->profile);
  note(own() + " does not state " + part.what + ": as in profile " + in_quotes(nearest->name) + " (" +
           joined(nearest->gpus) + "), the nearest that does" + off_by(kSpreadOfOne),
       kSpreadOfOne);
}

}  // namespace rehearse
