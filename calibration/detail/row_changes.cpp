#include "calibration/detail/row_changes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "calibration/detail/row_formula.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

/// A column of plans, "5*g3.8xlarge;3*g3.16xlarge": each part adds a group to the array at `pointer`, named after its
/// instance, with what `group` and the instance's entry of `instances` say besides.
struct PlanMapping {
  std::string pointer;
  Json group;
  std::map<std::string, Json> instances;  // if there are any, no others are known
};

/// How a column's value changes the scenario: the value goes to each of `pointers`, unless it is empty, a known value stands
/// for several changes, or it is a plan.
struct ColumnMapping {
  std::string column;
  std::string place;  // "study.json: /columns/gpu", for messages
  std::vector<std::string> pointers;
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> changes;  // value -> (pointer, JSON text)
  std::optional<PlanMapping> plan;
  bool is_list = false;  // numbers that blanks separate, as an array
};

/// A value that is computed for the place at a pointer, from the row's columns and from what is at pointers by then.
struct Derivation {
  std::string pointer;
  RowFormula formula;
};

ColumnMapping read_mapping(const std::string& column, const JsonReader& json) {
  ColumnMapping mapping{.column = column, .place = json.place(), .pointers = {}, .changes = {}, .plan = {}};
  if (json.is_string()) {
    mapping.pointers = {json.as<std::string>()};
    return mapping;
  }
  if (json.is_array()) {
    mapping.pointers = json.as<std::vector<std::string>>();
    json.expect(!mapping.pointers.empty(), "at least one JSON pointer");
    return mapping;
  }
  if (json.has("plan") && json.child("plan").is_string()) {
    const auto object_in = [](const JsonReader& reader) {
      (void)reader.items();  // or it is refused
      return reader.value();
    };
    mapping.plan = PlanMapping{json.required<std::string>("plan"), object_in(json.child("group")), {}};
    if (json.has("instances"))
      for (const auto& [instance, entry] : json.child("instances").items())
        mapping.plan->instances[instance] = object_in(entry);
    json.reject_unknown_keys();
    return mapping;
  }
  if (json.has("list") && json.child("list").is_string()) {
    mapping.pointers = {json.required<std::string>("list")};
    mapping.is_list = true;
    json.reject_unknown_keys();
    return mapping;
  }
  for (const auto& [value, changes] : json.items()) {
    auto& list = mapping.changes[value];  // may stay empty: a value that changes nothing
    for (const auto& [pointer, replacement] : changes.items()) list.emplace_back(pointer, replacement.value().dump());
  }
  return mapping;
}

/// Appends the groups of a plan; returns what is wrong with it, or nothing.
std::string add_plan(Json& scenario, JsonOrigins& origins, const PlanMapping& mapping, const std::string& plan,
                     const std::string& place) {
  const Json* found = json_pointer_find(scenario, mapping.pointer);
  if (found == nullptr || !found->is_array()) return "the scenario has no array at " + mapping.pointer;
  Json& groups = scenario[Json::json_pointer{mapping.pointer}];
  for (std::size_t begin = 0; begin <= plan.size();) {
    const std::size_t end = std::min(plan.find(';', begin), plan.size());
    const std::string part = plan.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t star = part.find('*');
    int count = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + std::min(star, part.size()), count);
    if (star == std::string::npos || error != std::errc{} || rest != part.data() + star)
      return "expected a plan such as \"5*g3.8xlarge;3*g3.16xlarge\"; found " + in_quotes(plan);
    const std::string instance = part.substr(star + 1);
    Json group{{"name", instance}, {"instance", instance}, {"count", count}};
    group.update(mapping.group);
    if (const auto own = mapping.instances.find(instance); own != mapping.instances.end()) {
      group.update(own->second);
    } else if (!mapping.instances.empty()) {
      std::vector<std::string> known;
      for (const auto& [name, entry] : mapping.instances) known.push_back(name);
      return unknown_name_message("instance", instance, known);
    }
    origins.add(mapping.pointer + "/" + std::to_string(groups.size()), place);
    groups.push_back(std::move(group));
  }
  return {};
}

/// Sets what is derived, in the study's order; returns what has no value, or nothing.
std::string derive(Json& scenario, const std::vector<Derivation>& derivations, const std::string& row_place,
                   StudyRow& row) {
  for (const auto& [pointer, formula] : derivations) {
    const auto look_up = [&](const std::string& name) -> ExpressionValue {
      if (!name.starts_with('/')) return value_of(row.row, name);
      const Json* found = json_pointer_find(scenario, name);
      return found == nullptr ? ExpressionValue{} : to_expression_value(*found, name);
    };
    const ExpressionValue value =
        asked(formula, row.row, [&](const Expression& expression) { return expression.evaluate(look_up); });
    if (std::holds_alternative<std::monostate>(value))
      return in_quotes(formula.expression.text(), 200) + " has no value";
    std::string text;
    if (const auto* number = std::get_if<double>(&value))
      text = *number == std::floor(*number) && std::abs(*number) < 1e15
                 ? std::to_string(static_cast<std::int64_t>(*number))
                 : to_text(*number);
    else if (const auto* truth = std::get_if<bool>(&value))
      text = *truth ? "true" : "false";
    else
      text = std::get<std::string>(value);
    row.origins.set(scenario, pointer, text, formula.place + " (" + row_place + ")");
  }
  return {};
}

std::vector<ColumnMapping> read_mappings(const JsonReader& columns, const CsvTable& table) {
  std::vector<ColumnMapping> mappings;
  for (const auto& [column, mapping] : columns.items()) {
    expect_column(mapping, column, table);
    mappings.push_back(read_mapping(column, mapping));
  }
  return mappings;
}

std::vector<Derivation> read_derivations(const JsonReader& json, const CsvTable& table) {
  std::vector<Derivation> derivations;
  if (json.has("derive"))
    for (const auto& [pointer, formula] : json.child("derive").items())
      derivations.push_back({.pointer = pointer, .formula = read_formula(formula, table, true)});
  return derivations;
}

}  // namespace

struct RowChanges::Rules {
  std::vector<ColumnMapping> mappings;
  std::vector<Derivation> derivations;
};

RowChanges::RowChanges(const JsonReader& study, const CsvTable& table)
    : rules_{std::make_unique<const Rules>(
          Rules{read_mappings(study.child("columns"), table), read_derivations(study, table)})} {}

RowChanges::~RowChanges() = default;

std::string RowChanges::scenario(const Json& base, const std::string& row_place, StudyRow& row) const {
  Json scenario = base;
  for (const ColumnMapping& mapping : rules_->mappings) {
    std::string value{row.row.text(mapping.column)};
    if (mapping.is_list) {
      std::ranges::replace(value, ' ', ',');
      value = "[" + value + "]";
    }
    const std::string place = mapping.place + " (" + row_place + ")";
    if (!mapping.pointers.empty()) {
      if (!value.empty())  // or the measurement does not state it
        for (const std::string& pointer : mapping.pointers) row.origins.set(scenario, pointer, value, place);
      continue;
    }
    if (mapping.plan) {
      row.problem = add_plan(scenario, row.origins, *mapping.plan, value, place);
      if (!row.problem.empty()) return {};
      continue;
    }
    const auto changes = mapping.changes.find(value);
    if (changes == mapping.changes.end()) {
      std::vector<std::string> known;
      for (const auto& [name, change] : mapping.changes) known.push_back(name);
      row.problem = unknown_name_message(mapping.column, value, known);
      return {};
    }
    for (const auto& [pointer, text] : changes->second)
      row.origins.set(
          scenario, pointer, text,
          mapping.place + extend_json_pointer(extend_json_pointer("", value), pointer) + " (" + row_place + ")");
  }
  row.problem = derive(scenario, rules_->derivations, row_place, row);
  return row.problem.empty() ? to_json_text(scenario) : std::string{};
}

std::vector<std::string> RowChanges::remarks(const std::vector<StudyRow>& rows) const {
  std::vector<std::string> said;
  for (const ColumnMapping& mapping : rules_->mappings) {
    if (mapping.pointers.empty()) continue;
    const auto empty =
        std::ranges::count_if(rows, [&](const StudyRow& row) { return row.row.text(mapping.column).empty(); });
    if (empty > 0 && empty < std::ssize(rows))
      said.push_back("column " + in_quotes(mapping.column) + " is empty in " + std::to_string(empty) + " of " +
                     std::to_string(rows.size()) + " rows, which keep the scenario's " + joined(mapping.pointers));
  }
  return said;
}

}  // namespace rehearse
