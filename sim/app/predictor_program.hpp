#pragma once
// The programs with the verbs that need LibTorch, CUDA or an HTTP library, as this one starts them.

#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

inline constexpr std::string_view kPredictorProgram = "rehearse-predictor";
inline constexpr std::string_view kMicrobenchProgram = "rehearse-microbench";
inline constexpr std::string_view kViewProgram = "rehearse-view";

/// Becomes the program of that name, which stands beside this one if it was built. `arguments` begin with the
/// name of the program and the verb. Throws InputError.
[[noreturn]] void start_program(std::string_view program, std::vector<std::string> arguments);

/// The same with the command line of this process, of which nothing may have been printed yet.
[[noreturn]] void continue_in(std::string_view program);

}  // namespace rehearse
