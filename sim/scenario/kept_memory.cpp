#include "sim/scenario/kept_memory.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace rehearse {

namespace {

std::size_t at(int vertex) { return static_cast<std::size_t>(vertex); }

/// Of the operators of a chunk.
class ChunkChanges {
 public:
  ChunkChanges(const Workload& workload, const std::array<std::vector<int>, kPassPhases>& operators,
               KeptChanges& changes)
      : graph_{workload.graph},
        forward_{operators[0]},
        backward_{operators[1]},
        of_weights_{operators[2]},
        changes_{changes} {
    const auto find_last = [this](std::map<int, int>& last) {
      for (const int v : backward_)
        if (graph_[at(v)].backward_of() >= 0 && !graph_[at(v)]->is_again) last[graph_[at(v)].backward_of()] = v;
    };
    find_last(last_before_weights_);
    backward_.insert(backward_.end(), of_weights_.begin(), of_weights_.end());
    find_last(last_);
    end_ = backward_.empty() ? (forward_.empty() ? -1 : forward_.back()) : backward_.back();
  }

  void add_activations(const FrameworkMemory& framework, int split) {
    const double factor =
        split > 1 ? framework.kept_split_activations.value_or(framework.kept_activations) : framework.kept_activations;
    const auto scaled = [](Bytes bytes, double by) {
      return by == 1 ? bytes : Bytes{std::llround(as_double(bytes) * by)};
    };
    int last =
        end_;  // of an operator without backward pass it is that of the one before, which comes after all that follow it
    for (const int v : forward_) {
      if (const auto own = last_.find(v); own != last_.end()) last = own->second;
      const OperatorAt op = graph_[at(v)];
      add(v, last, {.activations = scaled(op->kept, factor)});
      if (op->kind == OperatorKind::kLayerNorm && op->kept > Bytes{} && op->reads_variables.size() == 1)
        add(v, last, {.activations = scaled(op->bytes_written, framework.norm_copies)});
      const auto& exchange = op->exchange;
      if (framework.kept_gathered > 0 && exchange && exchange->kind == CollectiveKind::kAllGather &&
          exchange->among == SplitGroup::kTensor)
        add(v, last, {.activations = scaled(exchange->bytes - exchange->bytes / split, framework.kept_gathered)});
    }
  }

  /// What gradients of weights read besides, once the backward pass has given it.
  void add_output_gradients() {
    for (const int v : of_weights_) {
      const int of = graph_[at(v)].backward_of();
      if (of < 0 || graph_[at(v)]->matrix.reduction == 0) continue;
      const Bytes given = graph_[at(of)]->output;  // 0 where the layer goes on behind its product, such as by a bias
      add(backward_[backward_.size() - of_weights_.size() - 1], v,
          {.activations = given > Bytes{} ? given : graph_[at(of)]->bytes_written});
    }
  }

  void add_gradient_temporaries(const Workload& workload, double bytes) {
    for (const int v : backward_) {
      const OperatorAt op = graph_[at(v)];
      if (op->phase != Phase::kBackwardWeights || op->matrix.reduction == 0) continue;
      add(v, v,
          {.activations = Bytes{std::llround(static_cast<double>(workload.gradient_scalars(op.stored())) * bytes)}});
    }
  }

  void add_parts() {
    std::vector<int> parts;
    std::map<int, Bytes> kept;
    for (const int v : forward_)
      if (graph_[at(v)]->kept_again > Bytes{}) {
        parts.push_back(v);
        kept[v] = graph_[at(v)]->kept_again;
      }
    std::map<int, std::pair<int, int>> ran;  // by part: its first and its last operator
    for (const int v : backward_) {
      const int of = graph_[at(v)].backward_of();
      if (!graph_[at(v)]->is_again) continue;
      const auto behind = std::ranges::upper_bound(parts, of);
      if (behind == parts.begin()) continue;
      const auto own = last_before_weights_.find(of);
      int& last = ran.try_emplace(*std::prev(behind), v, v).first->second.second;
      last = std::max({last, v, own == last_before_weights_.end() ? v : own->second});
    }
    for (const int v : of_weights_) {
      const auto behind = std::ranges::upper_bound(parts, graph_[at(v)].backward_of());
      const auto part = behind == parts.begin() ? ran.end() : ran.find(*std::prev(behind));
      if (part == ran.end()) continue;
      const Bytes bytes = std::min(graph_[at(v)]->kept_again, kept[part->first]);
      kept[part->first] -= bytes;
      add(part->second.first, v, {.activations = bytes});
    }
    for (const auto& [part, span] : ran) add(span.first, span.second, {.activations = kept[part]});
  }

  void add_logits(Bytes bytes, bool is_in_place, const std::vector<int>& readers_of_loss) {
    const auto is_loss = [&](int v) { return graph_[at(v)]->kind == OperatorKind::kSoftmaxLoss; };
    const auto first = std::ranges::find_if(forward_, is_loss);
    if (first == forward_.end()) return;
    if (is_in_place)
      for (const int v : forward_)
        if (is_loss(v)) bytes -= graph_[at(v)]->bytes_written;
    int last = forward_.back();
    for (const int reader : readers_of_loss) {  // a weight's gradient reads what add_output_gradients() counts
      const bool is_before_weights = !std::ranges::binary_search(of_weights_, reader);
      if (is_before_weights && std::ranges::find(backward_, reader) != backward_.end()) last = later(last, reader);
    }
    add(*first, last, {.logits = bytes});
  }

 private:
  /// Gradients of weights come behind all else.
  int later(int a, int b) const {
    const auto place = [this](int v) { return std::pair{std::ranges::binary_search(of_weights_, v), v}; };
    return std::max(place(a), place(b)).second;
  }

  void add(int from, int until, const KeptBytes& bytes) {
    changes_.taken[at(from)] += bytes;
    changes_.given_back[at(until)] += bytes;
  }

  const OperatorGraph& graph_;
  const std::vector<int>& forward_;
  std::vector<int> backward_;           // in the order in which it runs
  const std::vector<int>& of_weights_;  // at its end
  KeptChanges& changes_;
  std::map<int, int> last_, last_before_weights_;  // by forward operator, of its backward pass
  int end_ = -1;                                   // of both passes
};

}  // namespace

std::vector<Bytes> kept_activations(const Workload& workload, const FrameworkMemory& framework, int split) {
  const std::size_t vertices = workload.graph.size();
  KeptChanges changes{std::vector<KeptBytes>(vertices), std::vector<KeptBytes>(vertices)};
  const PassOperators operators = pass_operators(workload.graph);
  ChunkChanges{workload, operators.front(), changes}.add_activations(framework, split);
  std::vector<Bytes> kept;
  for (const KeptBytes& taken : changes.taken) kept.push_back(taken.activations);
  return kept;
}

KeptChanges kept_changes(const Workload& workload, const PassOperators& operators, const FrameworkMemory& framework,
                         int split, const std::vector<OffloadedLayer>& offloaded) {
  const OperatorGraph& graph = workload.graph;
  KeptChanges changes{std::vector<KeptBytes>(graph.size()), std::vector<KeptBytes>(graph.size())};
  std::vector<int> readers_of_loss;
  for (const OperatorEdge& edge : graph.edges())
    if (graph[edge.from]->kind == OperatorKind::kSoftmaxLoss) readers_of_loss.push_back(static_cast<int>(edge.to));
  for (const auto& of_chunk : operators) {
    ChunkChanges chunk{workload, of_chunk, changes};
    chunk.add_activations(framework, split);
    if (framework.gradient_temporaries > 0) chunk.add_gradient_temporaries(workload, framework.gradient_temporaries);
    chunk.add_output_gradients();
    chunk.add_parts();
    chunk.add_logits(workload.logits_bytes, framework.loss_in_place, readers_of_loss);
  }
  for (const OffloadedLayer& layer : offloaded) {
    changes.given_back[at(layer.gone_after)] += {.activations = layer.bytes};
    changes.taken[at(layer.back_at)] += {.activations = layer.bytes};
  }
  return changes;
}

Bytes gradient_buffers(const Workload& workload, const PassOperators& operators, double bytes_of_parameter) {
  std::set<std::pair<double, double>> shapes;
  double scalars = 0;
  for (const auto& of_chunk : operators)
    for (const auto& of_pass : of_chunk)
      for (const int v : of_pass) {
        const OperatorAt op = workload.graph[at(v)];
        if (op->phase != Phase::kBackwardWeights || op->matrix.reduction == 0) continue;
        if (shapes.emplace(op->matrix.rows, op->matrix.columns).second) scalars += op->matrix.rows * op->matrix.columns;
      }
  return Bytes{std::llround(scalars * bytes_of_parameter)};
}

PassOperators pass_operators(const OperatorGraph& graph) {
  PassOperators operators(1);
  for (std::size_t v = 0; v < graph.size(); ++v)
    if (graph[v]->phase != Phase::kUpdate)
      operators[0][graph[v]->is_of_forward_pass() ? 0 : 1].push_back(static_cast<int>(v));
  return operators;
}

std::vector<bool> are_of_weights(const OperatorGraph& graph) {
  std::vector<bool> are(graph.size());
  for (std::size_t v = 0; v < graph.size(); ++v) are[v] = graph[v]->phase == Phase::kBackwardWeights;
  std::vector<int> readers(graph.size()), others(graph.size());
  for (const OperatorEdge& edge : graph.edges()) {
    if (!graph[edge.from]->exchange || graph[edge.from]->is_of_forward_pass()) continue;
    ++readers[edge.from];
    if (!are[edge.to]) ++others[edge.from];
  }
  for (std::size_t v = 0; v < graph.size(); ++v) are[v] = are[v] || (readers[v] > 0 && others[v] == 0);
  return are;
}

FullestMoment fullest_moment(const KeptChanges& changes, const std::vector<PipelineSlot>& slots,
                             const PassOperators& operators) {
  struct Pass {
    KeptBytes most{}, change{};  // at the moment of it with the most, and when it has ended
    int vertex = -1;
  };
  const auto walk = [&](const std::vector<int>& vertices) {
    Pass pass;
    for (const int vertex : vertices) {
      pass.change += changes.taken[at(vertex)];
      if (pass.vertex < 0 || pass.change.total() > pass.most.total()) {
        pass.most = pass.change;
        pass.vertex = vertex;
      }
      pass.change -= changes.given_back[at(vertex)];
    }
    return pass;
  };
  std::vector<std::array<Pass, kPassPhases>> passes;
  for (const auto& of_chunk : operators) passes.push_back({walk(of_chunk[0]), walk(of_chunk[1]), walk(of_chunk[2])});
  FullestMoment fullest;
  KeptBytes kept;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const Pass& pass = passes[at(slots[slot].chunk)][static_cast<std::size_t>(slots[slot].phase)];
    if (pass.vertex >= 0 && kept.total() + pass.most.total() > fullest.kept.total()) {
      fullest = {.kept = kept, .slot = slot, .vertex = pass.vertex};
      fullest.kept += pass.most;
    }
    kept += pass.change;
  }
  return fullest;
}

}  // namespace rehearse
