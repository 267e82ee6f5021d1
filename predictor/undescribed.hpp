#pragma once
// What a dataset cannot say of a scenario.

#include <optional>
#include <string>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// A part of a scenario that changes its labels although neither the descriptor of its setting (labels.hpp) nor the
/// operators of its graph hold it.
struct Undescribed {
  std::string pointer;  // into the scenario: "/training/strategy/aggregation"
  std::string what;     // "gradients that are added up inside of a machine"
};

/// The first such part; none if the scenario can be a sample, or be asked a predictor about: of workers on machines of
/// at most two kinds, in one region, that train without pauses and exchange gradients by servers, each step of a worker
/// using all of its own, or by all-reduces. Machines of the second kind may differ in the number of their GPUs. Others
/// than the first workers may have one other batch, and join at one time or leave at one.
std::optional<Undescribed> undescribed(const Scenario& scenario);

/// Whether machines of both groups are alike in GPUs, processors, links and workers.
bool are_alike(const Group& a, const Group& b);

/// Throws InputError, "file: pointer: ...", if there is one.
void require_described(const Scenario& scenario, const std::string& file);

}  // namespace rehearse
