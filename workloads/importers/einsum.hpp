#pragma once
// Sums of products in Einstein's notation, such as "abc,cd->abd".

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rehearse {

/// The shape of what an equation of two tensors gives; "..." stands for the axes that are left, which are broadcast, and
/// -1 for a size that is not known. None if it is not such an equation. Throws InputError, without a place, if it does
/// not fit.
std::optional<std::vector<std::int64_t>> einsum_shape(std::string equation, const std::vector<std::int64_t>& a,
                                                      const std::vector<std::int64_t>& b);

}  // namespace rehearse
