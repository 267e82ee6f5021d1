#pragma once
// What a dataset cannot say of a scenario.

#include <optional>
#include <string>

#include "sim/engine/scenario.hpp"

namespace rehearse {

/// A part of a scenario that changes its labels although neither the descriptor of its setting (labels.hpp) nor the
/// operators of its graph hold it.
struct Undescribed {
  std::string pointer;  // into the scenario: "/training/strategy/partition_size"
  std::string what;     // "tensors are cut into pieces"
};

/// The first such part; none if the scenario can be a sample, or be asked a predictor about: of equal workers with one
/// GPU each, in one region with one switch, that train from beginning to end without pauses, exchange whole gradients
/// by servers, each step of a worker using all of its own, or by rings, and are all as fast as one another.
std::optional<Undescribed> undescribed(const Scenario& scenario);

/// Throws InputError, "file: pointer: ...", if there is one.
void require_described(const Scenario& scenario, const std::string& file);

}  // namespace rehearse
