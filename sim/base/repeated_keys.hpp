#pragma once
// JSON of programs that write a key several times, which load_json_file() and parse_json() refuse.

#include <string>
#include <string_view>

#include "sim/base/json.hpp"

namespace rehearse {

/// Under which name a key is kept that an object has had already: itself if nobody reads it, another one that is read
/// instead, or nothing, which refuses the text.
using RepeatedKey = std::string (*)(const std::string& key);

/// As parse_json() (json.hpp) but for keys that repeat.
Json parse_json_with_repeated_keys(std::string_view text, const std::string& file_name, RepeatedKey name_of);

}  // namespace rehearse
