#pragma once
// Readers of the sections of a scenario file, for read_scenario.cpp, which calls them in the order of this file: each
// relies on what the earlier ones have put into the scenario. `effective` is the section's place in what reruns the
// scenario without any catalog: a copy of what is written, into which a reader puts defaults, and catalog entries in
// place of their names.

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "platforms/catalog.hpp"
#include "platforms/pool_origin.hpp"
#include "sim/base/json.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/unmodelled.hpp"

namespace rehearse {

constexpr int kMaxBatch = 65536;                             // samples of a worker in a step
constexpr int kMaxPasses = 10'000;                           // of a step: batches, or micro-batches
constexpr std::int64_t kMaxSamples = 1'000'000'000'000'000;  // of a training: a double holds each number of them

/// Reads model, batch, optimizer and precision, and builds the workload. Returns "samples_per_epoch" if it is stated.
std::optional<std::int64_t> read_workload(const JsonReader& json, const Catalog& catalog, Scenario& scenario,
                                          Json& effective);

/// Where the spot pools of groups, by their indices, were fitted.
using PoolOrigins = std::vector<std::pair<std::size_t, PoolOrigin>>;

/// Reads groups, start, prices and network.
PoolOrigins read_cluster(const JsonReader& json, const Catalog& catalog, Scenario& scenario, Json& effective);

/// Reads fabric and links of a cluster whose groups are known. `json` and `effective` are those of the cluster. Every
/// link between regions in use that the scenario does not describe is taken from the catalog.
void read_network(const JsonReader& json, const Catalog& catalog, Scenario& scenario, Json& effective);

/// Reads strategy, size, checkpoints, recovery and target.
void read_training(const JsonReader& json, std::optional<std::int64_t> samples_per_epoch, Scenario& scenario,
                   Json& effective);

/// Reads "strategy" of the training: who exchanges gradients with whom, and how.
void read_strategy(const JsonReader& json, Scenario& scenario, Json& effective);

/// The value of a closed set of words; the error lists or suggests the known ones, or says that the word is not modelled.
template <class Value>
Value read_word(const JsonReader& json, std::string_view key, const std::vector<std::pair<std::string, Value>>& words) {
  const auto word = json.required<std::string>(key);
  for (const auto& [known, value] : words)
    if (known == word) return value;
  if (const auto what = unmodelled_word(key, word)) json.fail(key, *what);
  std::vector<std::string> names;
  for (const auto& [known, value] : words) names.push_back(known);
  json.fail(key, unknown_name_message(std::string{key}, word, names));
}

/// The same of a table of words.
template <class Value, std::size_t n>
Value read_word(const JsonReader& json, std::string_view key, const std::array<Named<Value>, n>& words) {
  std::vector<std::pair<std::string, Value>> pairs;
  for (const Named<Value>& known : words) pairs.emplace_back(known.name, known.value);
  return read_word(json, key, pairs);
}

/// A quantity, or one of a table of words: `expected "random", "even" or a time with a unit, such as "5s"; found "evn";
/// did you mean "even"?`.
template <class Quantity, class Value, std::size_t n>
std::variant<Quantity, Value> read_word_or(const JsonReader& json, std::string_view key,
                                           const std::array<Named<Value>, n>& words) {
  const JsonReader value = json.child(key);
  std::string text = value.is_number() ? to_text(value.as<double>()) : "", found = text, expected, near;
  if (value.is_string()) {
    text = value.as<std::string>();
    found = in_quotes(text);
    for (const Named<Value>& known : words)
      if (known.name == text) return known.value;
    try {
      return parse_quantity<Quantity>(text);
    } catch (const QuantityError&) {}
    if (const auto name = nearest_name(text, names_in(words))) near = "; did you mean " + in_quotes(*name) + "?";
  }
  for (const Named<Value>& known : words) expected += (expected.empty() ? "" : ", ") + in_quotes(known.name);
  expected += " or " + expected_quantity<Quantity>(text);
  if (found.empty()) json.expect(false, key, expected);
  json.fail(key, "expected " + expected + "; found " + found + near);
}

/// A precision of one of the tables of scenario.hpp; no other is suggested for one that is not known, as it would compute
/// something else.
template <std::size_t n>
Precision read_precision(const JsonReader& json, std::string_view key, const std::array<Named<Precision>, n>& words) {
  const auto word = json.required<std::string>(key);
  for (const Named<Precision>& known : words)
    if (known.name == word) return known.value;
  if (word == "tf32")
    json.fail(key, "expected a precision in which numbers are stored, " + list_in_quotes(names_in(words)) +
                       ": tf32 is one of products, of numbers that are stored in fp32");
  if (const auto what = unmodelled_word("precision", word)) json.fail(key, *what);
  json.fail(key, "unknown precision " + in_quotes(word) + "; known: " + list_in_quotes(names_in(words)));
}

/// Finds the entry of a catalog with a name that `asked_by` states.
using FindEntry = std::function<JsonReader(const std::string& name, const JsonReader& asked_by)>;

/// The object behind `key`: there inline, or a name that `find` looks up. Sets `name` and makes it inline in
/// `effective`.
JsonReader resolve(const JsonReader& json, std::string_view key, Json& effective, std::string& name,
                   const FindEntry& find);
/// The same of the value itself.
JsonReader resolve(const JsonReader& value, Json& effective, std::string& name, const FindEntry& find);

/// Inline objects may carry a "name", which the entries of a catalog do not.
inline JsonReader without_name(const JsonReader& json) {
  (void)json.optional<std::string>("name", "");
  return json;
}

/// Keys that have a meaning elsewhere: refusals.cpp says why not here.
inline void know_keys(const JsonReader& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) (void)json.has(key);
}

}  // namespace rehearse
