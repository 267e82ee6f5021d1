#include "sim/plan/sweep_request.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/json_origins.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/place_names.hpp"

namespace rehearse {

namespace {

constexpr double kLargestInteger = 9007199254740992;  // 2^53: integers up to it are exact as doubles

/// `text` as JSON text: itself if it is JSON, otherwise as a string. Throws InputError if it is not UTF-8.
std::string value_text(std::string_view text) {
  Json holder = Json::object();
  set_json_pointer(holder, "/value", text);
  return holder["value"].dump();
}

std::string number_text(double value) {
  const bool is_integer = std::floor(value) == value && std::abs(value) <= kLargestInteger;
  return is_integer ? Json(static_cast<std::int64_t>(value)).dump() : Json(value).dump();
}

/// Pieces between `separator`s that stand outside of brackets and double quotes.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted && c == '\\')
      ++i;
    else if (c == '"')
      is_quoted = !is_quoted;
    else if (!is_quoted && (c == '[' || c == '{'))
      ++depth;
    else if (!is_quoted && (c == ']' || c == '}'))
      --depth;
    else if (!is_quoted && depth <= 0 && c == separator) {
      pieces.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

/// A finite number at the beginning of `text`, which loses it.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  std::string_view used = text.substr(0, static_cast<std::size_t>(end - text.data()));
  if (used.ends_with('.')) used.remove_suffix(1);  // "1..8": the dots are the range's
  text.remove_prefix(used.size());
  return value;
}

/// Appends the values of "A..B", "A..B+S" or "A..B*F"; false if `text` has not that form.
bool append_range(std::string_view text, std::vector<std::string>& values) {
  const std::string shown = in_quotes(text);
  const std::optional<double> first = take_number(text);
  if (!first || !text.starts_with("..")) return false;
  text.remove_prefix(2);
  const std::optional<double> last = take_number(text);
  if (!last) return false;
  std::optional<double> step;
  const char kind = text.empty() ? '+' : text.front();
  if (!text.empty()) {
    if (kind != '+' && kind != '*') return false;
    text.remove_prefix(1);
    step = take_number(text);
    if (!step || !text.empty()) return false;
  } else if (std::floor(*first) != *first || std::floor(*last) != *last) {
    throw InputError{shown + ": expected a step for a range that is not of whole numbers, such as 0..1+0.25"};
  }
  if (*first > *last) throw InputError{shown + ": expected a range that ends above its begin"};
  if (kind == '+' && step.value_or(1) <= 0) throw InputError{shown + ": expected a step above 0"};
  if (kind == '*' && (*step <= 1 || *first <= 0))
    throw InputError{shown + ": expected a factor above 1 and a begin above 0"};
  if ((kind == '+' ? *first + step.value_or(1) : *first * *step) == *first)
    throw InputError{shown + ": expected a step that moves on from the begin"};
  const auto refuse_many = [&] {
    throw InputError{shown + ": expected at most " + std::to_string(kMaxCombinations) + " values"};
  };
  const double steps =
      kind == '+' ? (*last - *first) / step.value_or(1) : (std::log(*last) - std::log(*first)) / std::log(*step);
  if (steps > 2.0 * kMaxCombinations) refuse_many();  // before any is written; the loop knows exactly
  constexpr double kTolerance = 1e-9;                 // of a step: 0..1+0.1 ends at 1
  double value = *first;
  for (std::size_t i = 0;; ++i) {
    if (kind == '+') value = *first + static_cast<double>(i) * step.value_or(1);
    const double room = kTolerance * (kind == '+' ? step.value_or(1) : *last);
    if (value > *last + room) return true;
    if (values.size() >= kMaxCombinations) refuse_many();
    values.push_back(number_text(value));
    if (kind == '*') value *= *step;
  }
}

Setting read_setting(std::string_view typed, const Json& scenario, const std::string& what) {
  const std::string text = with_pointer(typed, scenario, what);
  const std::size_t equals = text.find('=');
  const std::string pointer = text.substr(0, equals);
  return {pointer, value_text(std::string_view{text}.substr(equals + 1)), what + " " + shortened(pointer, 200)};
}

void expect_pointer(const JsonReader& json, const std::string& key) {
  if (!key.starts_with('/')) json.fail(key, "expected a JSON pointer, such as /training/steps, as the key");
}

SweepAxis read_grid_axis(const JsonReader& values, const std::string& pointer) {
  SweepAxis axis{.origin = values.place(), .choices = {}};
  if (values.is_string()) {
    std::vector<std::string> texts;
    try {
      texts = read_sweep_values(values.as<std::string>());
    } catch (const InputError& error) { values.fail(error.what()); }
    for (std::string& text : texts) axis.choices.push_back({{pointer, std::move(text), axis.origin}});
    return axis;
  }
  values.expect(values.is_array() && !values.value().empty(),
                "an array of at least one value, or a text such as \"1..8\" or \"1..64*2\"");
  values.expect(values.value().size() <= kMaxCombinations, "at most " + std::to_string(kMaxCombinations) + " values");
  for (const JsonReader& value : values.elements())
    axis.choices.push_back({{pointer, value.value().dump(), value.place()}});
  return axis;
}

}  // namespace

std::size_t count_combinations(const SweepRequest& request) {
  std::size_t count = 1;
  for (const SweepAxis& axis : request.axes) count *= axis.choices.size();
  return count;
}

void add_axis(SweepRequest& request, SweepAxis axis) {
  if (axis.choices.empty()) throw InputError{axis.origin + ": expected at least one value"};
  expect_few_places(request.axes.size() + 1, axis.origin);
  const std::size_t count = count_combinations(request);
  if (axis.choices.size() > kMaxCombinations / count)
    throw InputError{axis.origin + ": expected at most " + std::to_string(kMaxCombinations) +
                     " combinations; found at least " + std::to_string(count * axis.choices.size())};
  request.axes.push_back(std::move(axis));
}

std::vector<std::string> read_sweep_values(std::string_view text) {
  std::vector<std::string> values;
  for (const std::string_view piece : split(text, ',')) {
    if (piece.empty()) throw InputError{in_quotes(text) + ": expected values between commas; found an empty one"};
    if (!append_range(piece, values)) values.push_back(value_text(piece));
    if (values.size() > kMaxCombinations)
      throw InputError{in_quotes(text) + ": expected at most " + std::to_string(kMaxCombinations) + " values"};
  }
  return values;
}

SweepAxis read_grid_option(std::string_view typed, const Json& scenario) {
  const std::string text = with_pointer(typed, scenario, "--grid");
  const std::size_t equals = text.find('=');
  const std::string pointer = text.substr(0, equals);
  SweepAxis axis{.origin = "--grid " + shortened(pointer, 200), .choices = {}};
  try {
    for (std::string& value : read_sweep_values(std::string_view{text}.substr(equals + 1)))
      axis.choices.push_back({{pointer, std::move(value), axis.origin}});
  } catch (const InputError& error) { throw InputError{axis.origin + ": " + error.what()}; }
  return axis;
}

SweepAxis read_list_options(const std::vector<std::string>& texts, const Json& scenario) {
  SweepAxis axis{.origin = "--list", .choices = {}};
  for (const std::string& text : texts) {
    std::vector<Setting> choice;
    for (const std::string_view piece : split(text, ';')) {
      Setting setting = read_setting(piece, scenario, "--list");
      for (const Setting& other : choice)
        if (other.pointer == setting.pointer)
          throw InputError{"--list " + in_quotes(text) + ": expected each place once; found " +
                           shortened(setting.pointer, 200) + " twice"};
      choice.push_back(std::move(setting));
    }
    axis.choices.push_back(std::move(choice));
  }
  return axis;
}

Setting read_set_option(std::string_view text, const Json& scenario) { return read_setting(text, scenario, "--set"); }

SweepRequest read_sweep_request(const Json& file, const std::string& file_name) {
  const JsonReader json{file, file_name};
  json.begin_file(sweep_schema);
  SweepRequest request;
  request.scenario = json.resolve(json.required<std::string>("scenario"));
  if (json.has("set"))
    for (const auto& [pointer, value] : json.child("set").items()) {
      expect_pointer(json.child("set"), pointer);
      request.set.push_back({pointer, value.value().dump(), value.place()});
    }
  if (json.has("grid"))
    for (const auto& [pointer, values] : json.child("grid").items()) {
      expect_pointer(json.child("grid"), pointer);
      add_axis(request, read_grid_axis(values, pointer));
    }
  if (json.has("list")) {
    SweepAxis axis{.origin = json.child("list").place(), .choices = {}};
    json.expect(json.child("list").value().size() <= kMaxCombinations, "list",
                "at most " + std::to_string(kMaxCombinations) + " entries");
    for (const JsonReader& entry : json.children("list")) {
      entry.expect(entry.is_object() && !entry.value().empty(), "an object of JSON pointers and their values");
      std::vector<Setting> choice;
      for (const auto& [pointer, value] : entry.items()) {
        expect_pointer(entry, pointer);
        choice.push_back({pointer, value.value().dump(), value.place()});
      }
      axis.choices.push_back(std::move(choice));
    }
    json.expect(!axis.choices.empty(), "list", "at least one entry");
    add_axis(request, std::move(axis));
  }
  if (json.has("constraints")) {
    json.expect(json.child("constraints").value().size() <= kMaxConstraints, "constraints",
                "at most " + std::to_string(kMaxConstraints) + " conditions");
    for (const JsonReader& entry : json.children("constraints"))
      request.constraints.emplace_back(entry.place(), entry.as<std::string>());
  }
  if (json.has("seeds")) {
    request.seeds = json.required<int>("seeds");
    request.seeds_origin = json.child("seeds").place();
    json.expect(*request.seeds >= 1 && *request.seeds <= static_cast<int>(kMaxCombinations), "seeds",
                "1 to 1000000 seeds");
  }
  json.reject_unknown_keys();
  return request;
}

SweepRequest load_sweep_request(const std::filesystem::path& path) {
  const Json file = load_json_file(path);
  const bool is_sweep =
      file.is_object() && (file.contains("scenario") || file.contains("grid") || file.contains("list"));
  if (is_sweep) return read_sweep_request(file, path.string());
  SweepRequest request;
  request.scenario = path;
  return request;
}

std::string sweep_schema() {
  return file_schema({.title = "Rehearse sweep",
                      .description = "every combination of the values of grid, the entries of list and the seeds",
                      .required = {"scenario"}},
                     R"json({
    "scenario": { "type": "string", "description": "scenario file, relative to this file" },
    "set": { "type": "object", "description": "values by JSON pointer, the same in every combination",
             "propertyNames": { "pattern": "^/" } },
    "grid": {
      "type": "object",
      "description": "by JSON pointer: the values that this place of the scenario takes in turn; the last pointer varies fastest",
      "propertyNames": { "pattern": "^/" },
      "additionalProperties": {
        "anyOf": [
          { "type": "array", "minItems": 1 },
          { "type": "string", "minLength": 1, "examples": ["1..8", "0..1+0.25", "1..64*2", "1,2,4..8"] }
        ]
      }
    },
    "list": {
      "type": "array", "minItems": 1,
      "description": "entries that set one or several places together",
      "items": { "type": "object", "minProperties": 1, "propertyNames": { "pattern": "^/" } }
    },
    "constraints": {
      "type": "array",
      "description": "conditions on JSON pointers; combinations that break one are left out",
      "items": { "type": "string", "examples": ["/cluster/groups/0/count <= /cluster/groups/1/count"] }
    },
    "seeds": { "type": "integer", "minimum": 1, "maximum": 1000000,
               "description": "run each combination with the scenario's seed and the next ones, this many in all" }
  })json");
}

}  // namespace rehearse
