#include "predictor/taught_settings.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

#include <nlohmann/json.hpp>

namespace rehearse {
namespace {

/// What a setting says of its cluster and its strategy, by its place in the scenario.
using Facts = std::map<std::string, std::string>;

Facts facts_of(const DatasetSetting& setting) {
  Facts facts;
  const Json scenario = parse_json(setting.provenance.empty() ? "{}" : setting.provenance, "setting");
  if (!scenario.is_object() || !scenario.contains("cluster")) return facts;
  constexpr std::array<std::string_view, 3> kParts{"/cluster/", "/training/strategy/", "/output/sampling_period"};
  const Json places = scenario.flatten();
  for (const auto& [place, value] : places.items()) {
    const std::string_view key = std::string_view{place}.substr(place.rfind('/') + 1);
    if (key != "name" && key != "source" && key != "note" &&
        std::ranges::any_of(kParts, [&](std::string_view part) { return place.starts_with(part); }))
      facts[place] = value.dump();
  }
  return facts;
}

/// "/cluster/groups/0/count is 2 there and 4 here".
std::vector<std::string> differences(const Facts& taught, const Facts& asked) {
  std::vector<std::string> found;
  const auto value = [](const Facts& facts, const std::string& place) {
    const auto at = facts.find(place);
    return at == facts.end() ? std::string{"nothing"} : at->second;
  };
  Facts all = taught;
  all.insert(asked.begin(), asked.end());
  for (const auto& [place, ignored] : all)
    if (value(taught, place) != value(asked, place))
      found.push_back(place + " is " + value(taught, place) + " there and " + value(asked, place) + " here");
  return found;
}

std::string joined(const std::vector<std::string>& texts) {
  constexpr std::size_t kMostShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(texts.size(), kMostShown); ++i) text += (i > 0 ? ", " : "") + texts[i];
  if (texts.size() > kMostShown) text += ", and " + std::to_string(texts.size() - kMostShown) + " more";
  return text;
}

std::string names_of(const TaughtSettings& taught) {
  std::vector<std::string> names;
  for (const DatasetSetting& setting : taught.settings) names.push_back(in_quotes(setting.name));
  std::string text = joined(names);
  if (taught.count > taught.settings.size()) text = std::to_string(taught.count) + " settings, such as " + text;
  return text;
}

}  // namespace

TaughtSettings taught_settings(const Dataset& dataset, std::span<const std::size_t> samples) {
  TaughtSettings taught;
  std::set<std::int32_t> known;
  for (const std::size_t s : samples)
    if (const std::int32_t setting = dataset.samples[s].setting; known.insert(setting).second) {
      if (known.size() > kMostTaught) continue;
      taught.settings.push_back(dataset.settings[static_cast<std::size_t>(setting)]);
    }
  taught.count = known.size();
  return taught;
}

TorchDict to_torch(const TaughtSettings& taught) {
  TorchList settings;
  for (const DatasetSetting& setting : taught.settings)
    settings.items.emplace_back(
        TorchDict{{{"name", setting.name}, {"group", setting.group}, {"scenario", setting.provenance}}});
  return {{{"settings", std::move(settings)}, {"count", static_cast<std::int64_t>(taught.count)}}};
}

TaughtSettings taught_settings(const TorchValue& value, const std::string& where) {
  TaughtSettings taught;
  for (const TorchValue& entry : value.at("settings", where).list(where + ": settings")) {
    const std::string here = where + ": settings";
    taught.settings.push_back({.name = entry.at("name", here).text(here),
                               .group = entry.at("group", here).text(here),
                               .provenance = entry.at("scenario", here).text(here)});
    (void)parse_json(taught.settings.back().provenance, here);
  }
  const std::int64_t count = value.at("count", where).integer(where + ": count");
  if (count < static_cast<std::int64_t>(taught.settings.size()) || (count > 0 && taught.settings.empty()))
    throw InputError{where + ": count: expected at least the settings that are there"};
  taught.count = static_cast<std::size_t>(count);
  return taught;
}

SettingCaution caution_of(const TaughtSettings& taught, const DatasetSetting& setting) {
  if (taught.count == 0)
    return {.text =
                "the network's file does not say which GPU, links and workers it was taught: it sees none, and "
                "predicts as there in any cluster"};
  const std::string names = names_of(taught);
  SettingCaution mean{.text = taught.count == 1 ? ""
                                                : "it was taught " + names +
                                                      ", which it cannot tell apart: it predicts a mean of them"};
  const Facts asked = facts_of(setting);
  std::vector<std::string> nearest;
  bool are_known = true, has_name = false;
  for (std::size_t i = 0; i < taught.settings.size(); ++i) {
    const DatasetSetting& one = taught.settings[i];
    const Facts facts = facts_of(one);
    std::vector<std::string> found = differences(facts, asked);
    if (found.empty() && (!asked.empty() || one.name == setting.name)) return mean;
    has_name = has_name || one.name == setting.name;
    are_known = are_known && !facts.empty();
    if (i == 0 || found.size() < nearest.size()) nearest = std::move(found);
  }
  if (asked.empty() && has_name) return mean;
  if (asked.empty())
    return {.text = "nothing says in which cluster: predicted is as in " + names + ", which it was taught"};
  if (!are_known)
    return {.text = "nothing says which GPU, links and workers it was taught in " + names + ": predicted is as there"};
  if (taught.count > taught.settings.size())
    return {.text = "it was taught " + names + ", and sees nothing of a cluster: it predicts a mean of them"};
  return {.is_other = true, .text = "it was taught " + names + " and sees nothing of a cluster: " + joined(nearest)};
}

}  // namespace rehearse
