#include "sim/scenario/strategy.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "sim/base/names.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// With both "properties" and "allOf".
Json schema_of(const StrategyKeys& part) {
  Json schema = parse_json(part.schema(), "schema of a strategy");
  if (!schema.contains("properties")) schema["properties"] = Json::object();
  if (!schema.contains("allOf")) schema["allOf"] = Json::array();
  return schema;
}

void add(std::vector<StrategyEntry>& all, const StrategyEntry& entry) {
  StrategyEntry added = entry;
  for (const StrategyEntry& known : all)
    if (known.word == entry.word)
      throw std::invalid_argument{"there is a strategy " + in_quotes(entry.word) + " already"};
  for (const StrategyKeys& part : entry.parts) {
    const Json schema = schema_of(part);
    for (const auto& [key, rule] : schema["properties"].items()) added.keys.push_back(key);
  }
  all.push_back(std::move(added));
}

std::vector<StrategyEntry>& registry() {
  static std::vector<StrategyEntry> all = [] {
    std::vector<StrategyEntry> shipped;
    for (const StrategyEntry& entry : shipped_strategies()) add(shipped, entry);
    return shipped;
  }();
  return all;
}

}  // namespace

const CollectiveRules* StrategyKind::collectives() const {
  static constexpr CollectiveRules kRules{.only_reduces = false};
  return &kRules;
}

int StrategyKind::parts_of(const Scenario&, std::size_t) const { return 1; }

/// The optimizer updates its part of the variables.
void StrategyKind::divide(ComputePlan& plan, const Scenario& scenario) const {
  if (!divided_states().optimizer) return;
  const double updated = updated_bytes(scenario, scenario.workload.variables);
  const double share = updated / as_double(scenario.workload.parameter_bytes()) / sharing_gpus(scenario);
  for (Seconds* part : {&plan.update, &plan.update_dispatch}) *part = *part * share;
}

void StrategyKind::choose_units(GradientExchange&) const {}

std::vector<SmallerStrategy> StrategyKind::smaller(const Scenario&) const { return {}; }

void StrategyKind::check(const Scenario&, const JsonReader&) const {}

std::vector<std::string> StrategyKind::warnings(const Scenario&) const { return {}; }

std::string StrategyKind::explain(const Scenario& scenario) const {
  return "in each step all workers exchange " +
         units_text(plan_gradient_units(scenario, 0).units, &GradientUnit::gradient_bytes);
}

std::map<std::string, std::string> StrategyKind::verdict_remedies() const { return {}; }

std::vector<StrategyRemedy> StrategyKind::remedies(const Scenario&, const Json&) const { return {}; }

const ServerRules& Strategy::server_rules() const {
  static const ServerRules none;
  const ServerRules* servers = kind->servers();
  return servers != nullptr ? *servers : none;
}

const std::vector<StrategyEntry>& strategies() { return registry(); }

void register_strategy(const StrategyEntry& entry) {
  const Json schema = parse_json(scenario_schema(), "schema of scenarios");
  const Json& known = schema["properties"]["training"]["properties"]["strategy"];
  for (const StrategyKeys& part : entry.parts) {
    const Json of_part = schema_of(part);
    for (const auto& [key, rule] : of_part["properties"].items())
      if (known["properties"].contains(key) && known["properties"][key] != rule)
        throw std::invalid_argument{"there is a key " + in_quotes(key) + " of strategies already"};
  }
  add(registry(), entry);
}

const StrategyEntry& strategy_entry(const std::string& word) {
  for (const StrategyEntry& entry : registry())
    if (entry.word == word) return entry;
  throw std::out_of_range{"no strategy " + in_quotes(word)};
}

Json strategy_schema() {
  Json keys = {{"kind", {{"enum", Json::array()}}}}, conditions = Json::array();
  for (const StrategyEntry& entry : registry()) {
    keys["kind"]["enum"].push_back(entry.word);
    for (const StrategyKeys& part : entry.parts) {
      const Json of_part = schema_of(part);
      for (const Json& rule : of_part["allOf"]) conditions.push_back(rule);
      for (const auto& [key, rule] : of_part["properties"].items()) keys[key] = rule;
    }
  }
  return {{"properties", std::move(keys)}, {"allOf", std::move(conditions)}};
}

}  // namespace rehearse
