#pragma once
// What an action says that must fail.

#include <string>

#include "sim/base/errors.hpp"

namespace rehearse::test {

/// The message of the InputError that `action` throws, "no error" if it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

}  // namespace rehearse::test
