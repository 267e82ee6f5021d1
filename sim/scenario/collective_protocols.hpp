#pragma once
// What a profile states of collectives for one kind of interconnect, for substitutes.cpp.

#include <string>

#include "platforms/accelerator.hpp"
#include "platforms/interconnect.hpp"
#include "platforms/profile.hpp"

namespace rehearse {

/// How the GPUs of a machine are joined.
enum class LinkKind { kSwitch, kNvlinks, kPcie };

LinkKind kind_of(const Interconnect& inside);

/// Bytes per second of one GPU to the others of its machine.
double rate_of(const Interconnect& inside);

/// "an NVSwitch", "NVLinks", "PCIe".
std::string name_of(LinkKind kind);

/// What the library, as a profile states it, says of the interconnect: its own entry, or that of its links' generation, over
/// that of any. Times are whole: without hops of a generation, and cycles at the GPU's `clock`.
CollectiveParameters library_on(const CollectiveLibrary& stated, const std::string& interconnect,
                                const std::string& generation, const Accelerator& gpu);

using Protocols = OrderedMap<CollectiveProtocol>;

/// The protocol of that label if it states the key, otherwise the first that does; null: none does.
const CollectiveProtocol* stated_by(const Protocols& protocols, const std::string& label, const std::string& key);

/// The shortest of times, in s, or the largest of shares; 0 if none is stated.
double best_of(const Protocols& protocols, const std::string& key);

/// Whether one of the protocols has the time of a step over PCIe.
bool states_pcie(const Protocols& protocols);

}  // namespace rehearse
