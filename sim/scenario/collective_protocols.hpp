#pragma once
// What the section "collectives" of a profile file states for one kind of interconnect, for substitutes.cpp.

#include <string>

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

/// What the library says of the interconnect: its own entry over that of any.
Json library_on(const Json& library, const std::string& interconnect);

/// Whether a protocol of the library, on any interconnect, has the time of a step over PCIe.
bool states_pcie(const Json& library);

}  // namespace rehearse
