#pragma once
// What a sweep should run, as its user wrote it: a sweep file (`rehearse schema sweep`), options, or both.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

inline constexpr std::size_t kMaxCombinations = 1'000'000;
inline constexpr std::size_t kMaxConstraints = 1'000;

/// One place of a scenario and what it is set to.
struct Setting {
  std::string pointer;
  std::string value;       // JSON text
  std::string place = {};  // who asks for it, for error messages: "--set /seed", "sweep.json: /list/0/~1seed"
};

/// Choices of which each combination takes one; a choice sets one place or several.
struct SweepAxis {
  std::string origin;  // for error messages: "--grid /training/steps", "sweep.json: /grid/~1training~1steps"
  std::vector<std::vector<Setting>> choices;
};

struct SweepRequest {
  std::filesystem::path scenario;
  std::vector<Setting> set;
  std::vector<SweepAxis> axes;                                   // the last one varies fastest
  std::vector<std::pair<std::string, std::string>> constraints;  // origin, expression
  std::optional<int> seeds;              // that many of them: the scenario's own, and the next ones
  std::string seeds_origin = "--seeds";  // for error messages
  /// Each combination is simulated so often, as simulate --runs does, and its row is a Monte Carlo's; none: once.
  std::optional<std::size_t> runs;
};

/// Reads `path`: a sweep file, or a scenario, which then is the whole request. Throws InputError.
SweepRequest load_sweep_request(const std::filesystem::path& path);
/// The same of a sweep file's content; `file_name` is where it came from.
SweepRequest read_sweep_request(const Json& json, const std::string& file_name);

/// Adds choices to a request. Throws InputError if that gives more than kMaxCombinations, or the axis has no choice.
void add_axis(SweepRequest& request, SweepAxis axis);

/// The product of the axes' choices.
std::size_t count_combinations(const SweepRequest& request);

/// The values of "a,b,c": each JSON if it is JSON, otherwise a string; commas in brackets and double quotes do not
/// separate. "1..8" stands for 1, 2, .. 8; "0..10+2.5" for 0, 2.5, .. 10; "1..64*2" for 1, 2, 4, .. 64. As JSON texts.
/// Throws InputError.
std::vector<std::string> read_sweep_values(std::string_view text);

// Options, whose places may be typed as in place_names.hpp. They throw InputError.
/// The axis of the option --grid "/pointer=a,b,c".
SweepAxis read_grid_option(std::string_view text, const Json& scenario);
/// The axis of the options --list "/pointer=a;/other=b", one for each choice.
SweepAxis read_list_options(const std::vector<std::string>& texts, const Json& scenario);
/// The setting of the option --set "/pointer=value".
Setting read_set_option(std::string_view text, const Json& scenario);

/// JSON Schema (draft 2020-12) of a sweep file.
std::string sweep_schema();

}  // namespace rehearse
