#include "sim/scenario/gradient_units.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>

#include "sim/scenario/placement.hpp"
#include "workloads/model_blocks.hpp"

namespace rehearse {

namespace {

/// [variables] position of the first kernel that waits for it, among all kernels.
std::vector<int> first_uses(const Workload& workload) {
  std::vector<int> first(workload.variables.size(), std::numeric_limits<int>::max());
  for (std::size_t vertex = 0; vertex < workload.graph.size(); ++vertex)
    for (const int variable : workload.graph[vertex].reads_variables()) {
      int& use = first[static_cast<std::size_t>(variable)];
      use = std::min(use, static_cast<int>(vertex));
    }
  return first;
}

std::vector<int> in_order_of_readiness(const Workload& workload) {
  std::vector<int> order;
  for (std::size_t vertex = 0; vertex < workload.graph.size(); ++vertex)
    for (const int variable : workload.graph[vertex].produces_gradients()) order.push_back(variable);
  return order;
}

class Planner {
 public:
  Planner(const Scenario& scenario, int servers, const std::vector<bool>& chosen)
      : scenario_{scenario},
        chosen_{chosen},
        variables_{scenario.workload.variables},
        exchange_{scenario.training.strategy.exchange},
        servers_{servers},
        scalar_bytes_{bytes_per_scalar(scenario.precision)},
        sent_bytes_{bytes_per_scalar(sent_gradients(scenario))},
        first_use_{first_uses(scenario.workload)} {}

  std::vector<GradientUnit> one_per_variable() const {
    std::vector<GradientUnit> units;
    for (int v = 0; v < static_cast<int>(variables_.size()); ++v)
      if (is_exchanged(v) || is_gathered_frozen(v)) units.push_back(unit_of({v}));
    return units;
  }

  std::vector<GradientUnit> buckets(const Workload& workload, Bytes first_limit, Bytes limit) const {
    const std::vector<int> ready = with_frozen(exchanged_in_order(workload));
    std::vector<double> bytes;
    for (const int variable : ready) bytes.push_back(as_double(exchanged_bytes(variable)));
    std::vector<GradientUnit> units;
    auto begin = ready.begin();
    for (const std::size_t behind : bucket_ends(bytes, as_double(first_limit), as_double(limit))) {
      const auto end = ready.begin() + static_cast<std::ptrdiff_t>(behind);
      units.push_back(unit_of({begin, end}));
      begin = end;
    }
    return units;
  }

  std::vector<GradientUnit> blocks(const Workload& workload) const {
    const ModelBlocks model = model_blocks(workload);
    if (model.names.empty()) return buckets(workload, kUsualBucket, kUsualBucket);
    std::vector<std::vector<int>> members(model.names.size() + 1);  // the last: of the root
    std::vector<std::size_t> order;                                 // by their last gradients
    for (const int variable : exchanged_in_order(workload)) {
      const int of = model.of_variable[static_cast<std::size_t>(variable)];
      const std::size_t block = of < 0 ? model.names.size() : static_cast<std::size_t>(of);
      std::erase(order, block);
      order.push_back(block);
      members[block].push_back(variable);
    }
    for (int v = 0; v < static_cast<int>(variables_.size()); ++v) {
      if (!is_gathered_frozen(v)) continue;
      const int of = model.of_variable[static_cast<std::size_t>(v)];
      const std::size_t block = of < 0 ? model.names.size() : static_cast<std::size_t>(of);
      if (members[block].empty()) order.push_back(block);
      members[block].push_back(v);
    }
    std::vector<GradientUnit> units;
    for (const std::size_t block : order) {
      units.push_back(unit_of(members[block]));
      units.back().is_root = block == model.names.size();
      units.back().name = units.back().is_root ? "what is outside of blocks" : model.names[block];
    }
    return units;
  }

  static std::vector<GradientUnit> cut(const GradientUnit& unit, std::int64_t pieces) {
    std::vector<GradientUnit> cut_units;
    for (std::int64_t i = 0; i < pieces; ++i) {
      GradientUnit piece = unit;
      const auto part = [&](Bytes whole) {  // the pieces add up exactly
        return Bytes{whole.value() * (i + 1) / pieces - whole.value() * i / pieces};
      };
      piece.gradient_bytes = part(unit.gradient_bytes);
      piece.value_bytes = part(unit.value_bytes);
      piece.stored_bytes = part(unit.stored_bytes);
      if (pieces > 1) piece.name += " [" + std::to_string(i + 1) + "/" + std::to_string(pieces) + "]";
      cut_units.push_back(std::move(piece));
    }
    return cut_units;
  }

 private:
  bool is_exchanged(int variable) const {
    const auto index = static_cast<std::size_t>(variable);
    return chosen_[index] && !variables_[index].is_frozen && (servers_ > 0 || variables_[index].is_trainable);
  }

  std::vector<int> exchanged_in_order(const Workload& workload) const {
    std::vector<int> ready = in_order_of_readiness(workload);
    std::erase_if(ready, [&](int variable) { return !is_exchanged(variable); });
    return ready;
  }

  /// Parameters that are sharded are gathered, trained or not.
  bool is_gathered_frozen(int variable) const {
    const auto index = static_cast<std::size_t>(variable);
    return chosen_[index] && variables_[index].is_frozen && scenario_.training.strategy.kind->divided_states().weights;
  }

  /// With the frozen variables that are gathered, each behind those of the trained ones that were created with it or just
  /// before; those before all of them are last, as their gradients would be.
  std::vector<int> with_frozen(const std::vector<int>& ready) const {
    std::map<int, std::size_t> place;  // by variable
    for (std::size_t i = 0; i < ready.size(); ++i) place[ready[i]] = i;
    std::vector<std::vector<int>> behind(ready.size() + 1);
    for (int v = 0; v < static_cast<int>(variables_.size()); ++v) {
      if (!is_gathered_frozen(v)) continue;
      const auto after = place.upper_bound(v);
      behind[after == place.begin() ? ready.size() : std::prev(after)->second].push_back(v);
    }
    std::vector<int> all;
    for (std::size_t i = 0; i <= ready.size(); ++i) {
      if (i < ready.size()) all.push_back(ready[i]);
      all.insert(all.end(), behind[i].begin(), behind[i].end());
    }
    return all;
  }

  int parts_of(int variable) const {
    return scenario_.training.strategy.kind->parts_of(scenario_, static_cast<std::size_t>(variable));
  }

  /// Of a variable, what one step exchanges.
  Bytes exchanged_bytes(int variable) const {
    const Variable& of = variables_[static_cast<std::size_t>(variable)];
    return Bytes{(servers_ > 0 ? of.rows_used.value_or(of.bytes) : of.bytes).value() / parts_of(variable)};
  }

  Bytes gradient_bytes(int variable) const {
    const Bytes bytes = exchanged_bytes(variable);
    return Bytes{bytes.value() * sent_bytes_ / scalar_bytes_};
  }

  /// As kernels read them; but what workers have updated and keep as a whole they have as they store it.
  Bytes value_bytes(int variable) const {
    const DividedStates divided = scenario_.training.strategy.kind->divided_states();
    const bool is_as_stored = divided.optimizer && !divided.weights;
    return exchanged_bytes(variable) * (is_as_stored ? weight_bytes(scenario_.states) : scalar_bytes_) / scalar_bytes_;
  }

  GradientUnit unit_of(const std::vector<int>& members) const {
    GradientUnit unit{.name = variables_[static_cast<std::size_t>(members.front())].name, .variables = members};
    if (members.size() > 1) unit.name += " and " + std::to_string(members.size() - 1) + " more";
    unit.first_use = std::numeric_limits<int>::max();
    for (const int variable : members) {
      const auto index = static_cast<std::size_t>(variable);
      const bool is_frozen = variables_[index].is_frozen;
      unit.gradient_bytes += is_frozen ? Bytes{} : gradient_bytes(variable);
      unit.frozen += is_frozen ? 1 : 0;
      if (is_frozen || variables_[index].is_trainable) {
        unit.value_bytes += value_bytes(variable);
        unit.stored_bytes += Bytes{variables_[index].bytes.value() / parts_of(variable)};
      }
      unit.first_use = std::min(unit.first_use, first_use_[index]);
    }
    return unit;
  }

  const Scenario& scenario_;
  const std::vector<bool>& chosen_;
  const std::vector<Variable>& variables_;
  const GradientExchange& exchange_;
  int servers_;
  std::int64_t scalar_bytes_, sent_bytes_;
  std::vector<int> first_use_;
};

GradientUnits with_places(std::vector<GradientUnit> units, std::size_t variables) {
  GradientUnits plan{
      .units = std::move(units), .of_variable = std::vector<std::vector<int>>(variables), .gathered = {}};
  for (std::size_t u = 0; u < plan.units.size(); ++u)
    for (const int variable : plan.units[u].variables)
      plan.of_variable[static_cast<std::size_t>(variable)].push_back(static_cast<int>(u));
  return plan;
}

GradientUnits plan_units(const Scenario& scenario, int servers, const std::vector<bool>& chosen) {
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  // Those that `plan` gives of what is not of experts, and then of what is.
  const auto units_by = [&](const auto& plan) {
    std::vector<GradientUnit> units;
    for (const bool is_of_experts : {false, true}) {
      std::vector<bool> its = chosen;
      for (std::size_t v = 0; v < its.size(); ++v)
        its[v] = its[v] && (scenario.workload.variables[v].parts_of_experts > 0) == is_of_experts;
      if (is_of_experts && std::ranges::find(its, true) == its.end()) break;
      for (GradientUnit& unit : plan(Planner{scenario, servers, its})) {
        unit.is_of_experts = is_of_experts;
        units.push_back(std::move(unit));
      }
    }
    return units;
  };
  const std::vector<GradientUnit> whole = units_by([&](const Planner& planner) {
    if (exchange.by_blocks) return planner.blocks(scenario.workload);
    if (!exchange.bucket_size || exchange.cycle_time) return planner.one_per_variable();
    return planner.buckets(scenario.workload, exchange.first_bucket_size.value_or(*exchange.bucket_size),
                           *exchange.bucket_size);
  });
  GradientUnits plan;
  const Placement placement = scenario.training.strategy.server_rules().placement;
  for (const GradientUnit& unit : whole) {
    std::int64_t pieces = placement == Placement::kSharded ? servers : 1;
    if (exchange.partition_size)
      pieces = std::max(pieces, (unit.gradient_bytes.value() - 1) / exchange.partition_size->value() + 1);
    pieces = std::clamp<std::int64_t>(pieces, 1, std::max<std::int64_t>(1, unit.gradient_bytes.value() / 2));
    for (GradientUnit& piece : Planner::cut(unit, pieces)) plan.units.push_back(std::move(piece));
  }
  plan = with_places(std::move(plan.units), scenario.workload.variables.size());
  const CollectiveRules* rules = scenario.training.strategy.kind->collectives();
  if (rules != nullptr && rules->gather_bucket_size)
    plan.gathered = std::make_shared<const GradientUnits>(with_places(
        units_by([&](const Planner& planner) {
          return *rules->gather_bucket_size == Bytes{}
                     ? planner.one_per_variable()
                     : planner.buckets(scenario.workload, *rules->gather_bucket_size, *rules->gather_bucket_size);
        }),
        scenario.workload.variables.size()));
  if (servers > 0) {
    std::vector<Bytes> sizes;
    for (const GradientUnit& unit : plan.units) sizes.push_back(unit.gradient_bytes);
    const std::vector<int> server_of = place_on_servers(sizes, servers, placement);
    for (std::size_t u = 0; u < plan.units.size(); ++u) plan.units[u].server = server_of[u];
  }
  return plan;
}

}  // namespace

std::vector<std::size_t> bucket_ends(std::span<const double> bytes, double first_limit, double limit) {
  std::vector<std::size_t> ends;
  double size = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    size += bytes[i];
    if (size < (ends.empty() ? first_limit : limit) && i + 1 < bytes.size()) continue;
    ends.push_back(i + 1);
    size = 0;
  }
  return ends;
}

std::string units_text(const std::vector<GradientUnit>& units, Bytes GradientUnit::*size) {
  Bytes sum{}, largest{};
  int count = 0;
  for (const GradientUnit& unit : units) {
    if (unit.*size == Bytes{}) continue;
    ++count;
    sum += unit.*size;
    largest = std::max(largest, unit.*size);
  }
  std::array<char, 100> text{};
  std::snprintf(text.data(), text.size(), "%.4g MB in %d units, the largest of %.4g MB", as_double(sum) / 1e6, count,
                as_double(largest) / 1e6);
  return text.data();
}

Precision sent_gradients(const Scenario& scenario) {
  return scenario.training.strategy.exchange.gradient_precision.value_or(scenario.states.gradients);
}

GradientUnits plan_gradient_units(const Scenario& scenario, int servers) {
  return plan_units(scenario, servers, std::vector<bool>(scenario.workload.variables.size(), true));
}

GradientUnits plan_gradient_units(const Scenario& scenario, const std::vector<bool>& chosen) {
  return plan_units(scenario, 0, chosen);
}

}  // namespace rehearse
