#include "predictor/taught_settings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

#include <nlohmann/json.hpp>

namespace rehearse {
namespace {

/// Columns that move with the model; see caution_of().
constexpr std::array<std::string_view, 11> kOfModel{"gpu_peak_flops",          "gpu_memory_bandwidth_Bps",
                                                    "kernel_overhead_s",       "dispatch_s",
                                                    "step_overhead_s",         "window_steps",
                                                    "other_gpu_peak_flops",    "other_gpu_memory_bandwidth_Bps",
                                                    "other_kernel_overhead_s", "other_dispatch_s",
                                                    "other_step_overhead_s"};

struct Fact {
  std::string name;
  double value = 0;
};

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

/// What tells a setting from others.
std::vector<Fact> facts_of(const std::vector<std::string>& names, const std::vector<double>& descriptor) {
  std::vector<Fact> facts;
  const auto value_of = [&](std::string_view name) {
    const auto at = std::ranges::find(names, name);
    return at == names.end() ? 0.0 : descriptor[static_cast<std::size_t>(at - names.begin())];
  };
  for (std::size_t d = 0; d < names.size(); ++d)
    if (std::ranges::find(kOfModel, names[d]) == kOfModel.end()) facts.push_back({names[d], descriptor[d]});
  for (const std::string of : {"", "other_"})
    facts.push_back({of + "gpu_peak_flops / " + of + "gpu_memory_bandwidth_Bps",
                     ratio(value_of(of + "gpu_peak_flops"), value_of(of + "gpu_memory_bandwidth_Bps"))});
  return facts;
}

/// Whether the descriptor says a cluster at all: a dataset of Driple's files may not.
bool is_known(const std::vector<Fact>& facts) {
  return std::ranges::any_of(facts, [](const Fact& fact) { return fact.name == "workers" && fact.value > 0; });
}

bool are_same(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

std::string number(double value) { return Json(value).dump(); }

/// "nic_Bps is 1250000000 there and 125000000.0 here", of those that both have.
std::vector<std::string> differences(const std::vector<Fact>& taught, const std::vector<Fact>& asked) {
  std::vector<std::string> found;
  for (const Fact& fact : asked) {
    const auto other = std::ranges::find(taught, fact.name, &Fact::name);
    if (other != taught.end() && !are_same(other->value, fact.value))
      found.push_back(fact.name + " is " + number(other->value) + " there and " + number(fact.value) + " here");
  }
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
  TaughtSettings taught{.descriptors = dataset.descriptors};
  std::set<std::int32_t> known;
  for (const std::size_t s : samples)
    if (const std::int32_t setting = dataset.samples[s].setting; known.insert(setting).second) {
      if (known.size() > kMostTaught) continue;
      taught.settings.push_back(dataset.settings[static_cast<std::size_t>(setting)]);
      taught.settings.back().provenance.clear();
    }
  taught.count = known.size();
  return taught;
}

TorchDict to_torch(const TaughtSettings& taught) {
  TorchList descriptors, settings;
  for (const std::string& name : taught.descriptors) descriptors.items.emplace_back(name);
  for (const DatasetSetting& setting : taught.settings)
    settings.items.emplace_back(
        TorchDict{{{"name", setting.name},
                   {"group", setting.group},
                   {"descriptor", TorchTensor::of_doubles({static_cast<std::int64_t>(setting.descriptor.size())},
                                                          setting.descriptor)}}});
  return {{{"descriptors", std::move(descriptors)},
           {"settings", std::move(settings)},
           {"count", static_cast<std::int64_t>(taught.count)}}};
}

TaughtSettings taught_settings(const TorchValue& value, const std::string& where) {
  TaughtSettings taught;
  for (const TorchValue& name : value.at("descriptors", where).list(where + ": descriptors"))
    taught.descriptors.push_back(name.text(where + ": descriptors"));
  for (const TorchValue& entry : value.at("settings", where).list(where + ": settings")) {
    const std::string here = where + ": settings";
    DatasetSetting setting{.name = entry.at("name", here).text(here),
                           .group = entry.at("group", here).text(here),
                           .provenance = "",
                           .descriptor = entry.at("descriptor", here).tensor(here).values()};
    if (setting.descriptor.size() != taught.descriptors.size() ||
        !std::ranges::all_of(setting.descriptor, [](double v) { return std::isfinite(v); }))
      throw InputError{here + ": expected " + std::to_string(taught.descriptors.size()) + " finite numbers of each"};
    taught.settings.push_back(std::move(setting));
  }
  const std::int64_t count = value.at("count", where).integer(where + ": count");
  if (count < static_cast<std::int64_t>(taught.settings.size()) || (count > 0 && taught.settings.empty()))
    throw InputError{where + ": count: expected at least the settings that are there"};
  taught.count = static_cast<std::size_t>(count);
  return taught;
}

SettingCaution caution_of(const TaughtSettings& taught, const Dataset& dataset, const DatasetSetting& setting) {
  if (taught.count == 0)
    return {.text =
                "the network's file does not say which GPU, links and workers it was taught: it sees none, and "
                "predicts as there in any cluster"};
  const std::string names = names_of(taught);
  SettingCaution mean{.text = taught.count == 1 ? ""
                                                : "it was taught " + names +
                                                      ", which it cannot tell apart: it predicts a mean of them"};
  const std::vector<Fact> asked = facts_of(dataset.descriptors, setting.descriptor);
  std::vector<std::string> nearest;
  bool are_known = true, has_name = false;
  for (std::size_t i = 0; i < taught.settings.size(); ++i) {
    const DatasetSetting& one = taught.settings[i];
    const std::vector<Fact> facts = facts_of(taught.descriptors, one.descriptor);
    std::vector<std::string> found = differences(facts, asked);
    if (found.empty() && (is_known(asked) || one.name == setting.name)) return mean;
    has_name = has_name || one.name == setting.name;
    are_known = are_known && is_known(facts);
    if (i == 0 || found.size() < nearest.size()) nearest = std::move(found);
  }
  if (!is_known(asked) && has_name) return mean;
  if (!is_known(asked))
    return {.text = "nothing says in which cluster: predicted is as in " + names + ", which it was taught"};
  if (!are_known)
    return {.text = "nothing says which GPU, links and workers it was taught in " + names + ": predicted is as there"};
  if (taught.count > taught.settings.size())
    return {.text = "it was taught " + names + ", and sees nothing of a cluster: it predicts a mean of them"};
  return {.is_other = true, .text = "it was taught " + names + " and sees nothing of a cluster: " + joined(nearest)};
}

}  // namespace rehearse
