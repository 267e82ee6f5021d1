#pragma once
// What a profile does not state, from the nearest that is known: no cost is zero by default.

#include "platforms/catalog.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Gives the profile of `scenario`, which is complete but for that, besides what the scenario needs and the profile does not
/// state, and lists it under its substitutes with how far it may be off, which widens the intervals of predictions:
/// - host and GPU: a section that is missing is that of the profile with a step time of this model, or else of the
///   nearest GPU. A GPU without efficiency, step times or default gets the efficiency of the nearest one.
/// - step times: where the profile has some but none of this model, GPU, precision and framework, and no efficiency of
///   the GPU, the nearest of them in this order; the median of how many times longer than modelled they are.
/// - servers, network: the section of the profile whose GPUs are nearest.
/// - collectives: protocols that carry out the scenario's algorithm on its interconnect, and what they do not state,
///   from the nearest interconnect: of the same kind (NVSwitch, NVLinks, PCIe), then of the nearest rate, then GPU.
/// The nearest GPU is that of platforms/gpu_distance.hpp. Uncertain by the standard deviation of what the candidates'
/// logarithms are, at least 0.1; by 0.3 where there is only one.
/// Which values are filled in depends on which are stated, not on how large these are.
///
/// A profile with "unstated": "ideal" is left as it is. Returns whether the profile has changed. Throws InputError.
bool complete_profile(Scenario& scenario, const Catalog& catalog);

}  // namespace rehearse
