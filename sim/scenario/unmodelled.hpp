#pragma once
// What training systems have and Rehearse does not: asked for by its usual words, it is refused by its name, instead of as a
// misspelling of something else.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

/// "tensor parallelism is not modelled: a worker computes with whole matrices", of a key of workload or strategy; none of
/// others. '-' counts as '_', capital letters as small ones.
std::optional<std::string> unmodelled_key(std::string_view key);
/// The same of the value of a key, such as "fp8" of "precision".
std::optional<std::string> unmodelled_word(std::string_view key, std::string_view word);

/// Throws InputError at the first key of the object that is unmodelled_key(), but for those of `modelled`, which a strategy
/// that is registered may have.
void refuse_unmodelled_keys(const JsonReader& json, const std::vector<std::string>& modelled = {});

/// What would fit a model into memory that Rehearse does not know.
inline constexpr std::string_view kUnmodelledRemedies =
    "weights on the host, and losses in parts of the positions, which training systems have against it, are not "
    "modelled (with \"memory_check\": \"warn\" in training this is a warning)";

}  // namespace rehearse
