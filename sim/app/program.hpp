#pragma once
// What the main functions of our programs have in common.

#include <functional>
#include <string>
#include <vector>

namespace rehearse {

/// Runs `command_line` and returns the program's exit code: its own, or that of the error that it threw, which is
/// printed as one line on stderr after `name`.
int run_program(const char* name, int (*command_line)(int argc, char** argv), int argc, char** argv);

// Checks of an option's value: empty, or what is wrong. CLI11's own checks of numbers print their limits to 309 digits.
std::string is_not_empty(const std::string& text);
std::string is_positive(const std::string& text);
std::string is_not_negative(const std::string& text);
/// A check whether a text is one of `known`; for another one it suggests the nearest.
std::function<std::string(const std::string&)> is_one_of(std::vector<std::string> known);
/// A check of our own, as CLI11 would take the largest seed for one that is too large.
std::string is_seed(const std::string& text);

}  // namespace rehearse
