#pragma once
// Errors of those who do not know where their input came from.

#include <string>

#include "sim/base/errors.hpp"

namespace rehearse {

/// Returns what `work` gives; its InputErrors get "place: " before them, the option or file that it works on.
template <class Work>
auto about(const std::string& place, Work work) {
  try {
    return work();
  } catch (const InputError& error) { throw InputError{place + ": " + error.what()}; }
}

}  // namespace rehearse
