#pragma once
// The collective operations that there are.

#include <cstdint>

namespace rehearse {

/// What ranks do with a payload of n bytes: add up all of it everywhere; add it up, each rank keeping a part; gather
/// the parts everywhere.
enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };

}  // namespace rehearse
