#pragma once
// What a profile says of a library of collectives.

#include "platforms/profile.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// Parameters by generation and interconnect begin with what the section itself states; what the links' generation costs is in
/// the protocols. Throws InputError.
CollectiveLibrary read_collectives(const JsonReader& json);

}  // namespace rehearse
