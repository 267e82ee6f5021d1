#pragma once
// The program with the verbs that need LibTorch, as this one starts it.

#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

inline constexpr std::string_view kPredictorProgram = "rehearse-predictor";

/// Becomes the program that loads LibTorch, which stands beside this one if it was built. `arguments` begin with the
/// name of the program and the verb. Throws InputError.
[[noreturn]] void start_predictor(std::vector<std::string> arguments);

}  // namespace rehearse
