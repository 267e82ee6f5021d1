#pragma once
// The collective operations that there are.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rehearse {

class JsonReader;

/// What ranks do with a payload of n bytes: add up all of it everywhere; add it up, each rank keeping a part; gather
/// the parts everywhere; send a part of one's n bytes to each rank; send the first rank's n bytes to all; send one's n
/// bytes to the next rank of a ring.
enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kShift };

/// Which payload a rank of an all-to-all states, where not all state the same: of what it receives, or sends, in all, its own part
/// included; the others' shares of that are alike.
enum class PayloadOf : std::uint8_t { kAll, kReceiver, kSender };

inline constexpr std::array<std::string_view, 6> kCollectiveKindNames{"all-reduce", "reduce-scatter", "all-gather",
                                                                      "all-to-all", "broadcast",      "shift"};
/// The words that files have for them.
inline constexpr std::array<std::string_view, 6> kCollectiveKindWords{"all_reduce", "reduce_scatter", "all_gather",
                                                                      "all_to_all", "broadcast",      "shift"};
inline std::string_view to_text(CollectiveKind kind) { return kCollectiveKindNames[static_cast<std::size_t>(kind)]; }

/// The kind of the word that `key` has. Throws InputError for another word.
CollectiveKind read_collective_kind(const JsonReader& json, std::string_view key);

}  // namespace rehearse
