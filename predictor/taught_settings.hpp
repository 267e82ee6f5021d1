#pragma once
// The clusters that a published network was taught. It sees a graph and nothing of a cluster: what it predicts holds in
// these alone, and of several of them it predicts a mean.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

struct TaughtSettings {
  std::vector<DatasetSetting> settings;  // the first kMostTaught
  std::size_t count = 0;                 // of all; 0: not known, as of weights that Driple's program wrote
};
inline constexpr std::size_t kMostTaught = 64;

/// Those that the samples are of.
TaughtSettings taught_settings(const Dataset& dataset, std::span<const std::size_t> samples);

/// As a dict of a predictor's file, and back. InputError, "<where>: ...".
TorchDict to_torch(const TaughtSettings& taught);
TaughtSettings taught_settings(const TorchValue& value, const std::string& where);

/// What is to be said of a prediction for a setting.
struct SettingCaution {
  bool is_other = false;  // certainly none of those taught
  std::string text;       // why the prediction may not hold there; empty: it is the one that was taught
};

/// Compares what a setting and those taught say of cluster, strategy and sampling period (DatasetSetting::provenance), but for names.
/// The profile is left out, which has step times of the model.
SettingCaution caution_of(const TaughtSettings& taught, const DatasetSetting& setting);

}  // namespace rehearse
