#include "sim/training/unit_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

namespace rehearse {

namespace {

const CollectiveRules& rules_of(const Strategy& strategy) { return *strategy.kind->collectives(); }

template <class Function>
void for_units(const GradientUnits& units, const std::vector<int>& variables, const Function& call) {
  for (const int variable : variables)
    for (const int unit : units.of_variable[static_cast<std::size_t>(variable)]) call(static_cast<std::size_t>(unit));
}

}  // namespace

UnitExchange::UnitExchange(ProgramBuilder& builder, const std::vector<PlannedKernel>& kernels,
                           const GradientUnits& units, const Strategy& strategy, const Setting& setting)
    : builder_{builder},
      units_{units},
      fetched_{units.gathered ? *units.gathered : units},
      exchange_{strategy.exchange},
      sharding_{rules_of(strategy).sharding},
      scatters_gradients_{sharding_ != Sharding::kNone &&
                          (sharding_ != Sharding::kOptimizer || rules_of(strategy).scatters_gradients)},
      groups_{setting.groups},
      prefetched_units_{rules_of(strategy).prefetched_units},
      first_label_{setting.first_label},
      first_counter_{builder.program().counters},
      count_{count_of(units, strategy, setting.passes)} {
  find_uses(kernels);
  if (runs_ahead())
    for (std::size_t u = 0; u < fetched_.units.size(); ++u) (void)builder.new_counter();
}

UnitExchange::Count UnitExchange::count_of(const GradientUnits& units, const Strategy& strategy, int passes) {
  const CollectiveRules& rules = rules_of(strategy);
  Count count{.reduced = rules.sharding >= Sharding::kGradients && !rules.reduces_once ? passes : 1};
  if (rules.sharding != Sharding::kNone && !units.gathered) count.gathered = 1;
  if (rules.sharding == Sharding::kParameters) count.gathered = count.gathered_for_backward = passes;
  if (rules.shard_group > 0) count.among_replicas = count.reduced;
  return count;
}

std::size_t UnitExchange::count(const GradientUnits& units, const Strategy& strategy, int passes) {
  return units.units.size() * static_cast<std::size_t>(count_of(units, strategy, passes).all()) +
         (units.gathered ? units.gathered->units.size() : 0);
}

std::vector<std::string> UnitExchange::labels(const GradientUnits& units, const Strategy& strategy, int passes) {
  const Count count = count_of(units, strategy, passes);
  const bool is_sharded = rules_of(strategy).sharding != Sharding::kNone;
  std::vector<std::string> labels;
  for (const GradientUnit& unit : units.units)
    for (const auto& [what, times] :
         {std::pair{is_sharded ? ", reduced" : "", count.reduced}, std::pair{", gathered", count.gathered},
          std::pair{", gathered for backward", count.gathered_for_backward},
          std::pair{", added up among replicas", count.among_replicas}})
      for (int pass = 0; pass < times; ++pass)
        labels.push_back(unit.name + what + (pass > 0 ? ", pass " + std::to_string(pass + 1) : ""));
  if (units.gathered)
    for (const GradientUnit& unit : units.gathered->units) labels.push_back(unit.name + ", gathered");
  return labels;
}

/// Forward kernels read units in the order of their first use. Backward, those between the kernels that complete one
/// unit and the next are taken as the next one's.
void UnitExchange::find_uses(const std::vector<PlannedKernel>& kernels) {
  std::vector<bool> is_read(fetched_.units.size());
  std::size_t backward = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for_units(fetched_, kernels[k].waits_for, [&](std::size_t u) {
      if (is_read[u]) return;
      is_read[u] = true;
      forward_.push_back({u, k});
      backward = k + 1;
    });
  completed_ = completions(kernels, units_);
  updated_ = units_.gathered ? completions(kernels, fetched_) : completed_;
  for (const Use& use : completed_) {
    backward_.push_back({use.unit, std::min(backward, use.begin)});
    backward = std::max(backward, use.begin + 1);
  }
}

std::vector<UnitExchange::Use> UnitExchange::completions(const std::vector<PlannedKernel>& kernels,
                                                         const GradientUnits& units) {
  std::vector<std::size_t> gradients_left;
  for (const GradientUnit& unit : units.units)
    gradients_left.push_back(unit.variables.size() - static_cast<std::size_t>(unit.frozen));
  std::vector<Use> completed;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for_units(units, kernels[k].completes, [&](std::size_t u) {
      if (--gradients_left[u] == 0) completed.push_back({u, k});
    });
  return completed;
}

int UnitExchange::label(std::size_t u, int label_of_unit) const {
  return first_label_ + static_cast<int>(u) * count_.all() + label_of_unit;
}

int UnitExchange::priority(const GradientUnit& unit) const {
  return exchange_.order == Order::kPriority ? unit.first_use : 0;
}

OperationIndex UnitExchange::add(CollectiveKind kind, std::size_t u, int label_of_unit) {
  const GradientUnit& unit = units_.units[u];
  const OperationIndex added =
      builder_.add(Collective{.kind = kind,
                              .group = group_of(unit),
                              .label = label(u, label_of_unit),
                              .priority = priority(unit),
                              .bytes = kind == CollectiveKind::kAllGather ? unit.value_bytes : unit.gradient_bytes});
  if (sharding_ == Sharding::kNone) signal(added, u);
  return added;
}

int UnitExchange::label_of_values(std::size_t u) const {
  if (units_.gathered) return first_label_ + static_cast<int>(units_.units.size()) * count_.all() + static_cast<int>(u);
  return label(u, count_.gathered > 0 ? count_.reduced : 0);
}

OperationIndex UnitExchange::gather_updated(std::size_t u) {
  const GradientUnit& unit = fetched_.units[u];
  const OperationIndex added = builder_.add(Collective{.kind = CollectiveKind::kAllGather,
                                                       .group = group_of(unit),
                                                       .label = label_of_values(u),
                                                       .priority = priority(unit),
                                                       .bytes = unit.value_bytes});
  signal(added, u);
  return added;
}

void UnitExchange::signal(OperationIndex arrival, std::size_t u) {
  if (runs_ahead()) builder_.signal(arrival, {.counter = first_counter_ + static_cast<int>(u)});
}

void UnitExchange::wait_for_units(const std::vector<OperationIndex>& kernels, OperationIndex before, int pass) {
  if (sharding_ == Sharding::kParameters) gather(kernels, before, pass);
  if (!runs_ahead() || pass > 0) return;
  for (const Use& use : forward_) {
    const OperationIndex gate = builder_.add(Gate{.counter = first_counter_ + static_cast<int>(use.unit), .lag = 1});
    builder_.order(before, gate);
    builder_.order(gate, kernels[use.begin]);
  }
}

void UnitExchange::gather(const std::vector<OperationIndex>& kernels, OperationIndex before, int pass) {
  std::vector<Use> uses = forward_;
  for (const Use& use : backward_) {
    const bool is_kept = !forward_.empty() && use.unit == forward_.back().unit && &use == &backward_.front();
    if (!is_kept && !units_.units[use.unit].is_root) uses.push_back(use);
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const int label = count_.reduced + (i < forward_.size() ? 0 : count_.gathered) + pass;
    const OperationIndex gather = add(CollectiveKind::kAllGather, uses[i].unit, label);
    const auto ahead = static_cast<std::size_t>(prefetched_units_);
    const std::size_t from = i < ahead ? 0 : uses[i - ahead].begin;
    builder_.order(from == 0 ? before : kernels[from - 1], gather);
    builder_.order(gather, kernels[uses[i].begin]);
  }
}

std::vector<OperationIndex> UnitExchange::reduce(const std::vector<OperationIndex>& kernels, OperationIndex last,
                                                 int pass) {
  const CollectiveKind kind = scatters_gradients_ ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  std::vector<OperationIndex> reduced;
  for (const Use& unit : completed_) {
    const int of_pass = count_.reduced > 1 ? pass : 0;
    reduced.push_back(add(kind, unit.unit, of_pass));
    builder_.order(exchange_.overlap == Overlap::kNone ? last : kernels[unit.begin], reduced.back());
    if (count_.among_replicas == 0) continue;
    const OperationIndex part = std::exchange(
        reduced.back(),
        builder_.add(
            Collective{.group = groups_.replicas,
                       .label = label(unit.unit, count_.all() - count_.among_replicas + of_pass),
                       .priority = priority(units_.units[unit.unit]),
                       .bytes = Bytes{(units_.units[unit.unit].gradient_bytes.value() + groups_.sharing_workers - 1) /
                                      groups_.sharing_workers}}));
    builder_.order(part, reduced.back());
  }
  return reduced;
}

const GradientUnit& UnitExchange::unit_of(OperationIndex collective) const {
  const int label = std::get<Collective>(builder_.program().operation(collective)).label;
  return units_.units[static_cast<std::size_t>((label - first_label_) / count_.all())];
}

OperationIndex UnitExchange::add_copy(const HostUpdate& update, const GradientUnit& unit, CopyDirection direction,
                                      int label) {
  const int sharing = unit.is_of_experts ? update.sharing_of_experts : update.sharing_gpus;
  const double by = direction == CopyDirection::kFromGpu ? update.gradient_bytes : update.value_bytes;
  return builder_.add(Copy{.direction = direction,
                           .label = label,
                           .bytes = Bytes{std::llround(as_double(unit.gradient_bytes) * by * update.share / sharing)}});
}

std::vector<OperationIndex> UnitExchange::copy_to_host(const ComputePlan& plan,
                                                       const std::vector<OperationIndex>& reduced) {
  if (plan.host_update.share == 0) return {};
  std::vector<OperationIndex> down(units_.units.size(), -1), copies;
  for (const OperationIndex collective : reduced) {
    const int label = std::get<Collective>(builder_.program().operation(collective)).label;
    OperationIndex& latest = down[static_cast<std::size_t>((label - first_label_) / count_.all())];
    OperationIndex before = collective;
    if (latest >= 0) {
      before = add_copy(plan.host_update, unit_of(collective), CopyDirection::kToGpu, label);
      builder_.order(latest, before);
      builder_.order(collective, before);
    }
    latest = add_copy(plan.host_update, unit_of(collective), CopyDirection::kFromGpu, label);
    builder_.order(before, latest);
    copies.push_back(latest);
  }
  return copies;
}

std::vector<OperationIndex> UnitExchange::update_on_host(const HostUpdate& update,
                                                         const std::vector<OperationIndex>& earlier) {
  double all = 0;
  for (const Use& use : updated_) all += as_double(fetched_.units[use.unit].gradient_bytes);
  std::vector<OperationIndex> before = earlier, copies;
  for (const Use& use : updated_) {
    const GradientUnit& unit = fetched_.units[use.unit];
    const OperationIndex updated = builder_.add(Delay{.time = update.time * (as_double(unit.gradient_bytes) / all)});
    for (const OperationIndex one : std::exchange(before, {updated})) builder_.order(one, updated);
    copies.push_back(add_copy(update, unit, CopyDirection::kToGpu, label_of_values(use.unit)));
    builder_.order(updated, copies.back());
  }
  return copies;
}

void UnitExchange::end_step(const ComputePlan& plan, std::vector<OperationIndex> reduced, OperationIndex last) {
  if (const Seconds host = plan.update_loop; host > Seconds{}) {
    reduced.push_back(
        builder_.add(Chain{.is_dispatched_ahead = true, .first_host = host, .host = host, .critical = host}));
    builder_.add_stretch(0, reduced.back());
  }
  const auto add_after = [this](const std::vector<OperationIndex>& earlier, const Operation& operation) {
    const OperationIndex added = builder_.add(operation);
    for (const OperationIndex one : earlier) builder_.order(one, added);
    return added;
  };
  const Delay optimizer{.time = plan.update};
  const Update update;
  reduced.push_back(last);
  const bool has_host = plan.host_update.share > 0;
  std::vector<OperationIndex> ends{last};
  if (runs_ahead() && sharding_ == Sharding::kNone) {
    (void)add_after(reduced, update);
  } else if (runs_ahead()) {  // each unit is gathered when the next forward pass comes to need it, in this order
    const OperationIndex updated = add_after({add_after(reduced, optimizer)}, update);
    for (const Use& use : forward_) builder_.order(updated, gather_updated(use.unit));
  } else if ((sharding_ == Sharding::kOptimizer || sharding_ == Sharding::kGradients) && !updated_.empty()) {
    const OperationIndex updated = add_after(reduced, optimizer);
    const std::vector<OperationIndex> copies =
        has_host ? update_on_host(plan.host_update, reduced) : std::vector<OperationIndex>{};
    std::vector<OperationIndex> gathered;
    for (std::size_t i = 0; i < updated_.size(); ++i) {
      gathered.push_back(gather_updated(updated_[i].unit));
      builder_.order(updated, gathered.back());
      if (has_host) builder_.order(copies[i], gathered.back());
    }
    ends = {add_after(gathered, update)};
    if (plan.gather_copies > Seconds{}) ends = {add_after(ends, Delay{.time = plan.gather_copies})};
  } else if (has_host) {
    std::vector<OperationIndex> updated = update_on_host(plan.host_update, reduced);
    updated.push_back(add_after(reduced, optimizer));
    ends = {add_after(updated, update)};
  } else {
    ends = {add_after({add_after(reduced, update)}, optimizer)};
  }
  (void)add_after(ends, Fence{});
}

}  // namespace rehearse
