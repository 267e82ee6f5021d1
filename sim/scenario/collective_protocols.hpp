#pragma once
// What the section "collectives" of a profile file states for one kind of interconnect, for substitutes.cpp.

#include <string>

#include "platforms/accelerator.hpp"
#include "platforms/interconnect.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// How the GPUs of a machine are joined.
enum class LinkKind { kSwitch, kNvlinks, kPcie };

LinkKind kind_of(const Interconnect& inside);

/// Bytes per second of one GPU to the others of its machine.
double rate_of(const Interconnect& inside);

/// "an NVSwitch", "NVLinks", "PCIe".
std::string name_of(LinkKind kind);

/// What the library says of the interconnect: its own entry, or that of its links' generation, over that of any. Times are
/// whole: without hops of a generation, and cycles at the GPU's `clock`.
Json library_on(const Json& library, const std::string& interconnect, const std::string& generation,
                const Accelerator& gpu);

/// What the protocol of that label states, otherwise what the first does that states it; null: none does.
const Json* stated_by(const Json& protocols, const std::string& label, const std::string& key);

/// The shortest of times, in s, or the largest of shares; 0 if none is stated.
double best_of(const Json& protocols, const std::string& key);

/// Whether a protocol of the library, on any interconnect, has the time of a step over PCIe.
bool states_pcie(const Json& library);

}  // namespace rehearse
