#pragma once
// Places of a scenario as people type them: "workers.count" of a group, "training.steps" of a part.

#include <string>
#include <string_view>

#include "sim/base/json.hpp"

namespace rehearse {

/// The JSON pointer of a place in the file: a pointer is itself; "workers.count" is /cluster/groups/1/count, if the second group is
/// called workers; else the first of the names between dots is a key of the file. Throws InputError, which begins with `option`: no
/// such name, or one of both.
std::string pointer_of_place(std::string_view place, const Json& file, const std::string& option);

/// The text of an option, "workers.count=8", with the pointer of its place: "/cluster/groups/1/count=8". Throws InputError.
std::string with_pointer(std::string_view text, const Json& file, const std::string& option);

}  // namespace rehearse
