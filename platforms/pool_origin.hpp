#pragma once
// The machines, place and time of the revocations that a spot pool was fitted to.

#include <optional>
#include <string>

#include "sim/base/json.hpp"

namespace rehearse {

struct PoolOrigin {
  std::string accelerator;  // name, in any case; empty: not known, or none
  std::string place;        // zone or region; empty: not known
  std::string from, to;     // UTC dates, "2023-02-15", "2023-02" or "2023"; empty: not known
};

/// "fitted_on": { "accelerator": "V100", "place": "us-east-1a", "from": "2023-02", "to": "2023-02" } of a spot pool,
/// each optional; nothing if the pool has none. Throws InputError.
PoolOrigin read_pool_origin(const JsonReader& pool);

/// How machines differ from those: "P100 in us-west1, not V100 in us-east-1a"; empty if they are the same as far as is
/// known. `date`: UTC, "2024-05-01"; none: not known.
std::string describe_difference(const PoolOrigin& origin, const std::string& accelerator, const std::string& place,
                                const std::optional<std::string>& date);

}  // namespace rehearse
