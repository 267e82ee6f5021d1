// Synchronous data-parallel training in which each of n workers keeps only its part of the optimizer's slots, of the
// gradients, or of the variables (scenario.hpp, Sharding). A worker's step, by units of variables:
//
//   gather          with sharded variables, before the forward kernels that read a unit and again before its backward
//                   kernels, some units ahead; the last one of the forward pass is kept for the backward pass
//   reduce-scatter  of a unit, once its gradients are there; with sharded gradients in each pass
//   update          of the worker's part, 1 / n of the time
//   gather          of each unit, where variables are not sharded
//
// Collectives run one at a time, in the order in which all workers come to them. Each worker sends and receives, of S
// bytes of variables, (n - 1) / n S in each gathering and each reduction: in all 2 of them, or 3 with sharded
// variables. Source: Rajbhandari et al., ZeRO, SC 2020, section 7; Zhao et al., PyTorch FSDP, VLDB 2023.

#include <algorithm>
#include <cstddef>

#include "sim/base/errors.hpp"
#include "sim/engine/compile.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostOperations = 20'000'000;

/// Kernels of a pass, from `begin` on, in which a unit is used.
struct Use {
  std::size_t unit = 0;
  std::size_t begin = 0;
};

class ShardedCompiler {
 public:
  ShardedCompiler(const ComputePlan& plan, const GradientUnits& units, const GradientExchange& exchange,
                  const AllReduceStrategy& strategy)
      : plan_{plan}, units_{units}, exchange_{exchange}, strategy_{strategy} {
    find_uses();
  }

  Program compile(int passes) {
    const OperationIndex host = builder_.add({.kind = OperationKind::kDelay, .time = plan_.step_overhead});
    const OperationIndex input = builder_.add({.kind = OperationKind::kCopy, .bytes = plan_.input});
    const OperationIndex begin = builder_.add({.kind = OperationKind::kBegin});
    builder_.order(host, input);
    builder_.order(input, begin);
    std::vector<OperationIndex> reduced;
    OperationIndex last = begin;
    if (strategy_.sharding == Sharding::kOptimizer) {
      const CompiledKernels kernels = compile_kernels(builder_, plan_, passes, 0);
      if (!kernels.first.empty()) builder_.order(begin, kernels.first.front());
      if (!kernels.last.empty()) last = kernels.last.back();
      reduced = reduce(kernels.last, last, 0);
    } else {
      if (static_cast<std::size_t>(passes) * (plan_.kernels.size() + 3 * units_.units.size()) > kMostOperations)
        throw RunError{"/training/strategy/accumulation_steps",
                       "a step of more than 20000000 operations, as every pass exchanges what is sharded"};
      for (int pass = 0; pass < passes; ++pass) {
        const std::vector<OperationIndex> kernels = compile_kernels(builder_, plan_, 1, 0).first;
        if (!kernels.empty()) builder_.order(last, kernels.front());
        if (strategy_.sharding == Sharding::kParameters) gather_for_kernels(kernels, last, pass);
        if (!kernels.empty()) last = kernels.back();
        const std::vector<OperationIndex> of_pass = reduce(kernels, last, pass);
        reduced.insert(reduced.end(), of_pass.begin(), of_pass.end());
      }
    }
    finish(reduced, last);
    return builder_.finish();
  }

 private:
  /// Forward kernels read units in the order of their first use. Backward, those between the kernels that complete one
  /// unit and the next are taken as the next one's.
  void find_uses() {
    std::vector<bool> is_read(units_.units.size());
    std::vector<std::size_t> gradients_left;
    for (const GradientUnit& unit : units_.units) gradients_left.push_back(unit.variables.size());
    std::size_t backward = 0;
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k)
      for_units(plan_.kernels[k].waits_for, [&](std::size_t u) {
        if (is_read[u]) return;
        is_read[u] = true;
        forward_.push_back({u, k});
        backward = k + 1;
      });
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k)
      for_units(plan_.kernels[k].completes, [&](std::size_t u) {
        if (--gradients_left[u] > 0) return;
        completed_.push_back({u, k});
        backward_.push_back({u, std::min(backward, k)});
        backward = std::max(backward, k + 1);
      });
  }

  template <class Function>
  void for_units(const std::vector<int>& variables, const Function& call) const {
    for (const int variable : variables)
      for (const int unit : units_.of_variable[static_cast<std::size_t>(variable)])
        call(static_cast<std::size_t>(unit));
  }

  OperationIndex add(CollectiveKind kind, std::size_t u, const char* what, int pass) {
    const GradientUnit& unit = units_.units[u];
    const bool is_of_gradients = kind == CollectiveKind::kReduceScatter;
    std::vector<std::string>& labels = builder_.program().labels;
    labels.push_back(unit.name + what + (pass > 0 ? ", pass " + std::to_string(pass + 1) : ""));
    return builder_.add({.kind = OperationKind::kCollective,
                         .collective = kind,
                         .label = static_cast<int>(labels.size()) - 1,
                         .priority = exchange_.order == Order::kPriority ? unit.first_use : 0,
                         .bytes = is_of_gradients ? unit.gradient_bytes : unit.value_bytes});
  }

  /// `kernels` of one pass, which follows `before`.
  void gather_for_kernels(const std::vector<OperationIndex>& kernels, OperationIndex before, int pass) {
    std::vector<Use> uses = forward_;
    for (const Use& use : backward_)
      if (forward_.empty() || use.unit != forward_.back().unit || &use != &backward_.front()) uses.push_back(use);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const bool is_forward = i < forward_.size();
      const OperationIndex gather =
          add(CollectiveKind::kAllGather, uses[i].unit, is_forward ? ", gathered" : ", gathered for backward", pass);
      const auto ahead = static_cast<std::size_t>(strategy_.prefetched_units);
      const std::size_t from = i < ahead ? 0 : uses[i - ahead].begin;
      builder_.order(from == 0 ? before : kernels[from - 1], gather);
      builder_.order(gather, kernels[uses[i].begin]);
    }
  }

  std::vector<OperationIndex> reduce(const std::vector<OperationIndex>& kernels, OperationIndex last, int pass) {
    std::vector<OperationIndex> reduced;
    for (const Use& unit : completed_) {
      reduced.push_back(add(CollectiveKind::kReduceScatter, unit.unit, ", reduced", pass));
      builder_.order(exchange_.overlap == Overlap::kNone ? last : kernels[unit.begin], reduced.back());
    }
    return reduced;
  }

  void finish(const std::vector<OperationIndex>& reduced, OperationIndex last) {
    const OperationIndex optimizer = builder_.add({.kind = OperationKind::kDelay, .time = plan_.update});
    const OperationIndex update = builder_.add({.kind = OperationKind::kUpdate});
    const OperationIndex fence = builder_.add({.kind = OperationKind::kFence});
    const bool gathers = strategy_.sharding != Sharding::kParameters && !completed_.empty();
    const OperationIndex next = gathers ? optimizer : update;
    builder_.order(last, next);
    for (const OperationIndex unit : reduced) builder_.order(unit, next);
    if (gathers) {
      for (const Use& unit : completed_) {
        const OperationIndex gather = add(CollectiveKind::kAllGather, unit.unit, ", gathered", 0);
        builder_.order(optimizer, gather);
        builder_.order(gather, update);
      }
      builder_.order(update, fence);
    } else {
      builder_.order(update, optimizer);
      builder_.order(optimizer, fence);
    }
  }

  const ComputePlan& plan_;
  const GradientUnits& units_;
  const GradientExchange& exchange_;
  const AllReduceStrategy& strategy_;
  std::vector<Use> forward_, backward_;  // in the order of the kernels
  std::vector<Use> completed_;           // units, and the kernels that complete their gradients
  ProgramBuilder builder_;
};

}  // namespace

Program compile_sharded(const ComputePlan& plan, int passes, const GradientUnits& units,
                        const GradientExchange& exchange, const AllReduceStrategy& strategy) {
  return ShardedCompiler{plan, units, exchange, strategy}.compile(passes);
}

}  // namespace rehearse
