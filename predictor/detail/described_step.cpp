#include "predictor/detail/described_step.hpp"

#include <algorithm>

#include "predictor/node_features.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/random.hpp"
#include "sim/scenario/kernel_time.hpp"

namespace rehearse {

namespace {

constexpr double kMostVariables = 1e5;  // that a file may speak of
constexpr double kMostReads = 1e6;      // of variables by operators of a graph, and pieces of them

/// Shuffles one end of each edge among all edges, the same for the same graph.
void shuffle_ends(NodeLinks& links, Rng& random) {
  for (std::size_t i = links.size(); i > 1; --i) std::swap(links[i - 1].first, links[random.below(i)].first);
}

}  // namespace

void check_node(const NodeFeatures& x, const DatasetGraph& graph) {
  const auto is_within = [](double value, double low, double high) { return value >= low && value <= high; };
  bool fits = is_within(x.kind, 0, static_cast<double>(kOperatorKinds.size() - 1)) &&
              is_within(x.phase, 0, kPhases - 1.0) && is_within(x.variables, 0, kMostVariables) &&
              is_within(x.variable, -1, kMostVariables) && is_within(x.statistics, 0, kMostVariables) &&
              is_within(x.statistic, -1, kMostVariables) && is_within(x.is_3x3_stride_1, 0, kLargestValue);
  for (const auto size : kNodeSizes) fits = fits && is_within(x.*size, 0, kLargestValue);
  if (!fits || (x.variable < 0) != (x.variables == 0) || (x.statistic < 0) != (x.statistics == 0) ||
      (is_update(x) && x.variables != 1))
    throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has a node that is no operator"};
}

Step step_of(const DatasetGraph& graph, const DescribedCluster& cluster) {
  const std::size_t nodes = graph.nodes(kNodeFeatures.size());
  const auto node = [&](std::size_t i) { return read_node(graph.features.data() + i * kNodeFeatures.size()); };
  Step step;
  step.input_bytes = nodes > 0 ? node(0).input_bytes : 0;
  std::vector<int> kernel_of(nodes, -1), updated(nodes, -1);
  const auto variable = [&](double number) -> StepVariable& {
    const auto v = static_cast<std::size_t>(number);
    if (v >= step.variables.size()) step.variables.resize(v + 1);
    return step.variables[v];
  };
  KernelClock clock, other_clock;
  for (std::size_t i = 0; i < nodes; ++i) {
    const NodeFeatures x = node(i);
    check_node(x, graph);
    if (is_update(x)) {  // reads one copy more than it writes
      updated[i] = static_cast<int>(x.variable);
      StepVariable& of = variable(x.variable);
      // Sparse tables go to servers by the rows that are used; collectives reduce all of them.
      of.pulled = of.bytes = cluster.is_all_reduce() ? x.parameters : std::max(0.0F, x.read - x.written);
      continue;
    }
    const auto k = static_cast<std::int32_t>(step.kernels.size());
    kernel_of[i] = k;
    const KernelTime time = cluster.time_of(x);
    step.kernels.push_back(
        {static_cast<std::int32_t>(static_cast<std::size_t>(x.kind) * kPhases + static_cast<std::size_t>(x.phase)),
         time.total.value(), time.memory.value(), clock.add(Seconds{cluster.values().dispatch}, time.total).value()});
    step.end = clock.end().value();
    if (cluster.has_others())
      step.other_end =
          other_clock.add(Seconds{cluster.values().other_dispatch}, cluster.time_on_others(x).total).value();
    step.flops += x.flops;
    if (static_cast<double>(step.reads.size()) + x.variables > kMostReads)
      throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has operators that read too many variables"};
    for (int n = 0; n < static_cast<int>(x.variables); ++n) {
      StepVariable& of = variable(x.variable + static_cast<float>(n));
      if (of.reader < 0) of.reader = k;
      step.reads.emplace_back(static_cast<std::int32_t>(x.variable) + n, k);
    }
    for (int n = 0; n < static_cast<int>(x.statistics); ++n) {
      StepVariable& of = variable(x.statistic + static_cast<float>(n));
      of.bytes = x.statistic_bytes / x.statistics;
      of.gradient = k;
    }
  }
  if (cluster.values().other_batch_workers == cluster.values().other_workers && cluster.values().other_batch_ratio > 0)
    step.other_end *= cluster.values().other_batch_ratio;  // they are the same (undescribed.hpp)
  for (const GraphEdge& edge : graph.edges) {
    const int from = kernel_of[static_cast<std::size_t>(edge.from)], to = kernel_of[static_cast<std::size_t>(edge.to)];
    if (from >= 0 && to >= 0) step.flow.emplace_back(from, to);
    if (const int v = updated[static_cast<std::size_t>(edge.to)]; v >= 0 && from >= 0)
      step.variables[static_cast<std::size_t>(v)].gradient =
          std::max(step.variables[static_cast<std::size_t>(v)].gradient, from);
  }
  std::vector<Bytes> sizes;  // of pieces
  for (StepVariable& of : step.variables) {
    of.pushed = of.bytes * cluster.values().gradient_ratio;
    of.pieces = cluster.pieces_of(of.pushed);
    if (static_cast<double>(sizes.size()) + of.pieces > kMostReads)
      throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has variables in too many pieces"};
    sizes.insert(sizes.end(), static_cast<std::size_t>(of.pieces),
                 Bytes{static_cast<std::int64_t>(of.pushed / of.pieces)});
  }
  const std::vector<int> placed = cluster.place(sizes);
  std::size_t piece = 0;
  for (std::size_t v = 0; v < step.variables.size(); ++v) {
    StepVariable& of = step.variables[v];
    of.parts.assign(static_cast<std::size_t>(std::max(1, cluster.servers())), 0);
    for (int i = 0; i < of.pieces; ++i) of.parts[static_cast<std::size_t>(placed[piece++])] += 1.0 / of.pieces;
    if (of.gradient >= 0) step.writes.emplace_back(of.gradient, v);
  }
  return step;
}

void shuffle_edges(Step& step) {
  Rng random{step.kernels.size() * 1000003 + step.variables.size(), "edges"};
  for (NodeLinks* links : {&step.flow, &step.reads, &step.writes}) shuffle_ends(*links, random);
  std::vector<StepVariable>& variables = step.variables;
  for (auto& variable : variables) variable.gradient = variable.reader = -1;
  for (const auto& [kernel, v] : step.writes) variables[static_cast<std::size_t>(v)].gradient = kernel;
  for (const auto& [v, kernel] : step.reads) {
    int& reader = variables[static_cast<std::size_t>(v)].reader;
    reader = reader < 0 ? kernel : std::min(reader, kernel);
  }
  for (std::size_t i = variables.size(); i > 1; --i)
    std::swap(variables[i - 1].parts, variables[random.below(i)].parts);
}

}  // namespace rehearse
