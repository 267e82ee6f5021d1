#include "workloads/repeated_layers.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rehearse {

namespace {

/// Places one behind another: vertices or variables.
struct Range {
  int begin = 0, end = 0;

  int size() const { return end - begin; }
  bool has(int place) const { return place >= begin && place < end; }
  bool operator==(const Range&) const = default;
};

/// Those of so many places of which that is true; nothing if others lie between them.
template <class Condition>
std::optional<Range> range_of(int places, const Condition& is_in) {
  Range range;
  for (int place = 0; place < places; ++place) {
    if (!is_in(place)) continue;
    if (range.size() == 0)
      range = {place, place + 1};
    else if (range.end++ != place)
      return {};
  }
  return range;
}

/// What is built of a layer.
struct Built {
  std::string name;  // with which names begin: "encoder/layer3/"
  Range forward, backward, updates, variables;

  std::array<const Range*, 3> vertices() const { return {&forward, &backward, &updates}; }
  bool has(int vertex) const { return forward.has(vertex) || backward.has(vertex) || updates.has(vertex); }
};

/// Those of AlikeLayers.
struct Run {
  Built first, before, stored, last;
  int number = 0, copies = 0;  // of the stored layer, from 1 on, and how many are behind it
  int copies_before = 0;       // of the runs before
};

const Operator& op_at(const Workload& built, int vertex) {
  return built.graph[static_cast<std::size_t>(vertex)].stored();
}

std::optional<Built> find_layer(const Workload& built, std::string name) {
  const int vertices = static_cast<int>(built.graph.size());
  const auto forward = range_of(
      vertices, [&](int v) { return op_at(built, v).is_of_forward_pass() && op_at(built, v).name.starts_with(name); });
  if (!forward || forward->size() == 0) return {};
  const auto backward = range_of(vertices, [&](int v) { return forward->has(op_at(built, v).backward_of); });
  const auto updates = range_of(vertices, [&](int v) {
    return op_at(built, v).phase == Phase::kUpdate && op_at(built, v).name.starts_with(name);
  });
  const auto variables = range_of(static_cast<int>(built.variables.size()), [&](int v) {
    return built.variables[static_cast<std::size_t>(v)].name.starts_with(name);
  });
  if (!backward || !updates || !variables) return {};
  return Built{std::move(name), *forward, *backward, *updates, *variables};
}

class Repetition {
 public:
  Repetition(const Workload& built, const std::string& stem) : built_{built}, stem_{stem}, reads_(built.graph.size()) {
    for (const OperatorEdge& edge : built.graph.edges()) reads_[edge.to].push_back(static_cast<int>(edge.from));
  }

  /// Whether the layers are found, and alike.
  bool add(const AlikeLayers& alike) {
    const auto layer = [&](int number) { return find_layer(built_, stem_ + std::to_string(number + 1) + "/"); };
    const int stored = alike.first + AlikeLayers::kBuiltBefore - 1;
    const auto first = layer(alike.first), before = layer(stored - 1), third = layer(stored),
               last = layer(alike.first + alike.count - 1);
    if (!first || !before || !third || !last) return false;
    const int copies_before = runs_.empty() ? 0 : runs_.back().copies_before + runs_.back().copies;
    runs_.push_back({*first, *before, *third, *last, stored + 1, alike.copies(), copies_before});
    return are_alike(runs_.back()) && is_read_by_neighbours(runs_.back());
  }

  Workload workload() {
    Workload whole = built_;
    whole.variables.clear();
    list_variables(whole.variables);
    list_vertices();
    const std::vector<LayerCopy> copies = list_copies();
    std::vector<Operator> operators;
    for (int v = 0; v < static_cast<int>(reads_.size()); ++v) {
      Operator& op = operators.emplace_back(op_at(built_, v));
      for (std::vector<int>* variables : {&op.reads_variables, &op.produces_gradients})
        for (int& variable : *variables) variable = variable_[static_cast<std::size_t>(variable)];
      if (op.backward_of >= 0) op.backward_of = vertex(op.backward_of);
    }
    std::vector<OperatorGraph::Place> places;
    for (const auto& [stored, copy] : order_) places.push_back({stored, copy_number(stored, copy)});
    whole.graph = {std::move(operators), std::move(places), copies};
    for (std::size_t v = 0; v < order_.size(); ++v)
      for (const int read : reads_[static_cast<std::size_t>(order_[v].stored)])
        whole.graph.connect(static_cast<std::size_t>(read_by(order_[v], read)), v);
    for (const Run& run : runs_)
      for (int v = run.stored.forward.begin; v < run.stored.forward.end; ++v)
        whole.activation_bytes += run.copies * op_at(built_, v).kept;
    return whole;
  }

 private:
  /// A vertex of what is built, in the layer where it is, or in so many behind.
  struct Instance {
    int stored = 0, copy = 0;
  };

  /// What the second layer reads at `read`, as the third one does; -1: that has no such thing.
  static int moved(const Run& run, int read) {
    const auto next = [&run](const Range Built::*part, int at) {
      return (run.stored.*part).begin + at - (run.before.*part).begin;
    };
    for (const Range Built::*part : {&Built::forward, &Built::backward, &Built::updates})
      if ((run.before.*part).has(read)) return next(part, read);
    if (run.first.forward.has(read)) return run.before.forward.end - (run.first.forward.end - read);
    if (run.stored.backward.has(read)) return run.last.backward.end - (run.stored.backward.end - read);
    if (run.stored.forward.has(read) || run.last.backward.has(read)) return -1;
    return read;
  }

  bool are_alike(const Run& run) const {
    const Built &before = run.before, &stored = run.stored;
    if (before.variables.size() != stored.variables.size()) return false;
    const LayerCopy third{.stored_name = before.name,
                          .name = stored.name,
                          .first_variable = before.variables.begin,
                          .behind_variable = before.variables.end,
                          .variables = stored.variables.begin - before.variables.begin,
                          .first_vertex = before.forward.begin,
                          .behind_vertex = before.forward.end,
                          .vertices = stored.forward.begin - before.forward.begin};
    for (int v = before.variables.begin; v < before.variables.end; ++v) {
      Variable variable = built_.variables[static_cast<std::size_t>(v)];
      variable.name = third.named(variable.name);
      if (variable != built_.variables[static_cast<std::size_t>(third.variable(v))]) return false;
    }
    for (std::size_t part = 0; part < before.vertices().size(); ++part) {
      const Range &its = *before.vertices()[part], &other = *stored.vertices()[part];
      if (its.size() != other.size()) return false;
      for (int i = 0; i < its.size(); ++i) {
        if (OperatorAt{op_at(built_, its.begin + i), &third}.whole() != op_at(built_, other.begin + i)) return false;
        std::vector<int> reads = reads_[static_cast<std::size_t>(its.begin + i)];
        for (int& read : reads) read = moved(run, read);
        if (reads != reads_[static_cast<std::size_t>(other.begin + i)]) return false;
      }
    }
    return true;
  }

  /// Whether nothing reads the stored layer but itself, the next one and, backward, the one before.
  bool is_read_by_neighbours(const Run& run) const {
    const Built& stored = run.stored;
    for (int v = 0; v < static_cast<int>(reads_.size()); ++v) {
      for (const int read : reads_[static_cast<std::size_t>(v)]) {
        if (stored.has(v) || stored.updates.has(read)) continue;
        if (stored.forward.has(read) && !run.last.forward.has(v) && !run.last.backward.has(v)) return false;
        if (stored.backward.has(read) && !run.before.backward.has(v)) return false;
      }
    }
    return true;
  }

  void list_variables(std::vector<Variable>& variables) {
    for (int v = 0; v < static_cast<int>(built_.variables.size()); ++v) {
      variable_.push_back(static_cast<int>(variables.size()));
      variables.push_back(built_.variables[static_cast<std::size_t>(v)]);
      for (const Run& run : runs_) {
        const Range& its = run.stored.variables;
        if (v + 1 != its.end || its.size() == 0) continue;
        for (int copy = 1; copy <= run.copies; ++copy) {
          const LayerCopy own{.stored_name = run.stored.name, .name = name_of(run, copy)};
          for (int of = its.begin; of < its.end; ++of) {
            variables.push_back(built_.variables[static_cast<std::size_t>(of)]);
            variables.back().name = own.named(variables.back().name);
          }
        }
      }
    }
  }

  /// All vertices in their order: backward the last layers come first.
  void list_vertices() {
    first_.resize(reads_.size());
    for (int v = 0; v < static_cast<int>(reads_.size()); ++v) {
      for (const Run& run : runs_)
        if (v == run.stored.backward.begin && run.stored.backward.size() > 0)
          for (int copy = run.copies; copy >= 1; --copy) list(run.stored.backward, copy);
      first_[static_cast<std::size_t>(v)] = static_cast<int>(order_.size());
      order_.push_back({v, 0});
      for (const Run& run : runs_)
        for (const Range* part : {&run.stored.forward, &run.stored.updates})
          if (v + 1 == part->end && part->size() > 0)
            for (int copy = 1; copy <= run.copies; ++copy) list(*part, copy);
    }
  }

  void list(const Range& part, int copy) {
    for (int v = part.begin; v < part.end; ++v) order_.push_back({v, copy});
  }

  std::string name_of(const Run& run, int copy) const { return stem_ + std::to_string(run.number + copy) + "/"; }

  std::vector<LayerCopy> list_copies() const {
    std::vector<LayerCopy> copies;
    for (const Run& run : runs_)
      for (int copy = 1; copy <= run.copies; ++copy) {
        const Built& its = run.stored;
        const int variable = its.variables.size() == 0 ? 0 : variable_[static_cast<std::size_t>(its.variables.begin)];
        copies.push_back({.stored_name = its.name,
                          .name = name_of(run, copy),
                          .first_variable = variable,
                          .behind_variable = variable + its.variables.size(),
                          .variables = copy * its.variables.size(),
                          .first_vertex = vertex(its.forward.begin),
                          .behind_vertex = vertex(its.forward.begin) + its.forward.size(),
                          .vertices = copy * its.forward.size()});
      }
    return copies;
  }

  /// Where that is in the whole graph.
  int vertex(int stored, int copy = 0) const {
    const int first = first_[static_cast<std::size_t>(stored)];
    if (copy == 0) return first;
    const Built& its = run_of(stored)->stored;
    if (its.backward.has(stored)) return first - copy * its.backward.size();
    return first + copy * (its.forward.has(stored) ? its.forward : its.updates).size();
  }

  const Run* run_of(int stored) const {
    const auto run = std::ranges::find_if(runs_, [stored](const Run& of) { return of.stored.has(stored); });
    return run == runs_.end() ? nullptr : &*run;
  }

  int copy_number(int stored, int copy) const { return copy == 0 ? -1 : run_of(stored)->copies_before + copy - 1; }

  /// The vertex of the whole graph that the instance reads where the layer that is built reads `read`.
  int read_by(const Instance& reader, int read) const {
    for (const Run& run : runs_) {
      const Built& its = run.stored;
      if (its.forward.has(read) && (run.last.forward.has(reader.stored) || run.last.backward.has(reader.stored)))
        return vertex(read, run.copies);
    }
    const Run* run = run_of(reader.stored);
    if (run == nullptr) return vertex(read);
    const Built& its = run->stored;
    if (its.has(read)) return vertex(read, reader.copy);
    if (run->before.forward.has(read) && reader.copy > 0)
      return vertex(its.forward.end - (run->before.forward.end - read), reader.copy - 1);
    if (run->last.backward.has(read) && reader.copy < run->copies)
      return vertex(its.backward.end - (run->last.backward.end - read), reader.copy + 1);
    return vertex(read);
  }

  const Workload& built_;
  const std::string& stem_;
  std::vector<std::vector<int>> reads_;  // [vertices] that each reads
  std::vector<Run> runs_;
  std::vector<int> variable_, first_;  // [built] where they are in the whole workload
  std::vector<Instance> order_;        // [all vertices]
};

}  // namespace

std::optional<Workload> repeat_layers(const Workload& built, const std::string& stem,
                                      std::span<const AlikeLayers> runs) {
  Repetition repetition{built, stem};
  for (const AlikeLayers& run : runs)
    if (!repetition.add(run)) return {};
  return repetition.workload();
}

}  // namespace rehearse
