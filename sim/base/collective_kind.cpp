#include "sim/base/collective_kind.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

CollectiveKind read_collective_kind(const JsonReader& json, std::string_view key) {
  const auto word = json.required<std::string>(key);
  const auto found = std::ranges::find(kCollectiveKindWords, word);
  if (found == kCollectiveKindWords.end())
    json.fail(key,
              unknown_name_message("operation", word,
                                   std::vector<std::string>{kCollectiveKindWords.begin(), kCollectiveKindWords.end()}));
  return static_cast<CollectiveKind>(found - kCollectiveKindWords.begin());
}

}  // namespace rehearse
