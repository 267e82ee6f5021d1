#include "sim/scenario/pipeline_stages.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "sim/base/names.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "workloads/model_blocks.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

/// Between a forward operator and the one before it.
struct Cut {
  int values = 0, unknown = 0;  // that pass; of which the size is not known
  Bytes bytes{};
};

std::size_t count_forward(const OperatorGraph& graph) {
  std::size_t count = 0;
  while (count < graph.size() && graph[count]->is_of_forward_pass()) ++count;
  return count;
}

/// [forward operators] before each; the first is none.
std::vector<Cut> list_cuts(const OperatorGraph& graph, std::size_t forward) {
  std::vector<std::size_t> last_use(forward);
  for (const OperatorEdge& edge : graph.edges())
    if (edge.to < forward) last_use[edge.from] = std::max(last_use[edge.from], edge.to);
  std::vector<Cut> cuts(forward + 1);
  const auto add = [&](std::size_t at, const Operator& value, int sign) {
    cuts[at].values += sign;
    cuts[at].unknown += value.output == Bytes{} ? sign : 0;
    cuts[at].bytes += value.output * sign;
  };
  for (std::size_t v = 0; v < forward; ++v) {
    if (last_use[v] == 0) continue;
    add(v + 1, graph[v], 1);
    add(last_use[v] + 1, graph[v], -1);
  }
  for (std::size_t c = 1; c < cuts.size(); ++c) {
    cuts[c].values += cuts[c - 1].values;
    cuts[c].unknown += cuts[c - 1].unknown;
    cuts[c].bytes += cuts[c - 1].bytes;
  }
  return cuts;
}

/// Where `stages` may begin, besides 0.
std::vector<std::size_t> list_places(const std::vector<Cut>& cuts, std::size_t forward, std::size_t stages) {
  std::vector<std::size_t> known, narrow;
  for (std::size_t begin = 1, end = 1; begin < forward; begin = end) {
    while (end < forward && cuts[end].values == cuts[begin].values) ++end;
    const bool is_narrow = (begin == 1 || cuts[begin - 1].values > cuts[begin].values) &&
                           (end == forward || cuts[end].values > cuts[begin].values);
    for (std::size_t c = begin; c < end; ++c) {
      if (cuts[c].values == 0 || cuts[c].unknown > 0) continue;
      known.push_back(c);
      if (is_narrow) narrow.push_back(c);
    }
  }
  return narrow.size() + 1 >= stages ? narrow : known;
}

/// [stages] the part with which each begins, of parts that end at the times `until`.
std::vector<std::size_t> balance(const std::vector<double>& until, std::size_t stages) {
  const std::size_t parts = until.size() - 1;
  std::vector<std::size_t> earliest(stages + 1);  // [k] part with which the last k stages may begin
  const auto fits = [&](double longest) {
    std::size_t end = earliest[0] = parts;
    for (std::size_t k = 1; k <= stages; ++k) {
      std::size_t begin = end;
      while (begin > 0 && until[end] - until[begin - 1] <= longest) --begin;
      end = earliest[k] = begin;
    }
    return end == 0;
  };
  double too_short = 0, longest = until.back();
  for (int i = 0; i < 64; ++i) (fits((too_short + longest) / 2) ? longest : too_short) = (too_short + longest) / 2;
  (void)fits(longest);
  std::vector<std::size_t> begins{0};
  for (std::size_t left = stages - 1; left > 0; --left) {
    const std::size_t begin = begins.back();
    const double share = until[begin] + (until.back() - until[begin]) / static_cast<double>(left + 1);
    std::size_t best = std::max(begin + 1, earliest[left]);
    for (std::size_t end = best; end <= parts - left && until[end] - until[begin] <= longest; ++end)
      if (std::abs(until[end] - share) < std::abs(until[best] - share)) best = end;
    begins.push_back(best);
  }
  return begins;
}

/// [parts] the operator with which each begins, 0 or one of `places`, so that the longest takes as short as can be, forward
/// and backward.
std::vector<std::size_t> balanced_begins(const Scenario& scenario, std::vector<std::size_t> places, std::size_t forward,
                                         std::size_t parts) {
  const OperatorGraph& graph = scenario.workload_of(scenario.first_workers()).graph;
  std::vector<double> time(forward);
  for (const PlannedKernel& kernel : plan_step(scenario, scenario.first_workers()).kernels) {
    const int layer = graph[static_cast<std::size_t>(kernel.vertex)].backward_of();
    time[static_cast<std::size_t>(layer < 0 ? kernel.vertex : layer)] += kernel.time.total.value();
  }
  places.insert(places.begin(), 0);
  places.push_back(forward);
  std::vector<double> until(places.size());
  for (std::size_t i = 1; i < places.size(); ++i) {
    until[i] = until[i - 1];
    for (std::size_t v = places[i - 1]; v < places[i]; ++v) until[i] += time[v];
  }
  std::vector<std::size_t> begins;
  for (const std::size_t part : balance(until, parts)) begins.push_back(places[part]);
  return begins;
}

/// [parts] the operator with which each begins, by time.
std::vector<std::size_t> cut_by_time(const Scenario& scenario, const std::vector<Cut>& cuts, std::size_t forward) {
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  const auto parts = static_cast<std::size_t>(pipeline.parts());
  std::vector<std::size_t> places = list_places(cuts, forward, parts);
  if (const int most = static_cast<int>(places.size()) + 1; most < pipeline.parts()) {
    const bool is_of_chunks = pipeline.chunks > 1 && !pipeline.is_folded() && most >= pipeline.stages;
    throw UncutModel{
        is_of_chunks ? "chunks" : "stages",
        "expected at most " +
            std::to_string(is_of_chunks           ? most / pipeline.stages
                           : pipeline.is_folded() ? most / pipeline.chunks
                                                  : most) +
            (is_of_chunks ? " in each of " + std::to_string(pipeline.stages) + " stages" : "") + " for model " +
            in_quotes(scenario.model.name) +
            ", which can be cut after layers with an output of known size (\"output\" of timed layers) that a later "
            "one "
            "reads; found " +
            std::to_string(is_of_chunks ? pipeline.chunks : pipeline.stages)};
  }
  return balanced_begins(scenario, std::move(places), forward, parts);
}

}  // namespace

ModelLayers list_layers(const Workload& workload) {
  const std::size_t forward = count_forward(workload.graph);
  const OperatorGraph& graph = workload.graph;
  ModelLayers layers{.begins = {}, .end = forward};
  const ModelBlocks blocks = model_blocks(workload);
  if (blocks.names.empty()) {
    for (std::size_t v = 0; v < forward && graph[v]->measured_time; ++v) layers.begins.push_back(v);
    if (layers.begins.size() < forward) layers.begins.clear();
    return layers;
  }
  std::vector<bool> is_known(blocks.names.size());
  for (std::size_t v = 0; v < forward; ++v) {
    bool is_of_layer = false;
    for (const int variable : graph[v].reads_variables()) {
      const int block = blocks.of_variable[static_cast<std::size_t>(variable)];
      is_of_layer = is_of_layer || block >= 0;
      if (block < 0 || is_known[static_cast<std::size_t>(block)]) continue;
      is_known[static_cast<std::size_t>(block)] = true;
      if (layers.begins.empty() || layers.begins.back() != v) layers.begins.push_back(v);
    }
    if (is_of_layer)
      layers.end = forward;
    else if (layers.end == forward && !layers.begins.empty() &&
             (!graph[v].reads_variables().empty() || graph[v]->kind == OperatorKind::kSoftmaxLoss))
      layers.end = v;
  }
  return layers;
}

namespace {

/// The one of `from` to `to` nearest to `asked` of which that is true; `asked` if there is none.
template <class Condition>
int nearest(int asked, int from, int to, const Condition& is_valid) {
  int best = -1;
  for (int value = from; value <= to; ++value)
    if (is_valid(value) && (best < 0 || std::abs(value - asked) < std::abs(best - asked))) best = value;
  return best < 0 ? asked : best;
}

/// ", such as 4": the number of stages nearest to the pipeline's with which that is true of (stages, chunks), and into which the
/// workers can be divided; ", such as 4 with 2 chunks" where none goes with its chunks. Empty: there is none.
template <class Condition>
std::string nearest_stages(const Scenario& scenario, const Condition& is_valid) {
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  const int places = scenario.count(Role::kWorker) / workers_of_layer(scenario.model);
  const auto stages_with = [&](int chunks) {
    return nearest(pipeline.stages, 2, places,
                   [&](int stages) { return places % stages == 0 && is_valid(stages, chunks); });
  };
  const auto is_found = [&](int chunks) {
    const int stages = stages_with(chunks);
    return stages >= 2 && places % stages == 0 && is_valid(stages, chunks);
  };
  const int chunks = is_found(pipeline.chunks) || pipeline.is_folded()
                         ? pipeline.chunks
                         : nearest(pipeline.chunks, 1, pipeline.chunks, is_found);
  if (!is_found(chunks)) return "";
  return ", such as " + std::to_string(stages_with(chunks)) +
         (chunks == pipeline.chunks ? "" : " with " + std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks"));
}

/// What a cut counts as a layer besides those of the model.
int counted_besides(const LayerCut& cut) { return (cut.counts_embedding ? 1 : 0) + (cut.counts_loss ? 1 : 0); }

/// [parts] layers of each.
std::vector<int> layers_of_parts(const Scenario& scenario, int layers) {
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  const LayerCut& cut = *pipeline.layers;
  const int parts = pipeline.parts();
  const std::string model = std::to_string(layers) + " layers of model " + in_quotes(scenario.model.name);
  const int extra = counted_besides(cut), counted = layers + extra;
  const std::string all =
      "the " + model + (extra == 0 ? "" : " and " + std::to_string(extra) + " more that are counted");
  std::vector<int> per_part = cut.per_part;
  if (!per_part.empty()) {
    const int sum = std::accumulate(per_part.begin(), per_part.end(), 0);
    if (sum != counted)
      throw UncutModel{"layers_per_stage", "expected " + all + " in all; found " + std::to_string(sum)};
    if ((cut.counts_embedding && per_part.front() == 0) || (cut.counts_loss && per_part.back() == 0))
      throw UncutModel{"layers_per_stage",
                       "expected 1 or more in the parts with the embedding and the loss, which count"};
  } else if (counted % parts == 0) {
    per_part.assign(static_cast<std::size_t>(parts), counted / parts);
  }
  if (!per_part.empty()) {
    per_part.front() -= cut.counts_embedding ? 1 : 0;
    per_part.back() -= cut.counts_loss ? 1 : 0;
    return per_part;
  }
  if (const int of_stage = counted / pipeline.stages;
      pipeline.chunks > 1 && !pipeline.is_folded() && counted % pipeline.stages == 0)
    throw UncutModel{"chunks", "expected a divisor of the " + std::to_string(of_stage) + " that each stage has of " +
                                   all + ", such as " +
                                   std::to_string(nearest(pipeline.chunks, std::min(2, of_stage), of_stage,
                                                          [&](int chunks) { return of_stage % chunks == 0; })) +
                                   ", or \"layers_per_stage\"; found " + std::to_string(pipeline.chunks)};
  const auto divides = [&](int stages, int chunks) { return counted % (stages * chunks) == 0; };
  throw UncutModel{"stages", "expected a divisor of " + all + (pipeline.chunks > 1 ? ", also times the chunks" : "") +
                                 nearest_stages(scenario, divides) + ", or \"layers_per_stage\"; found " +
                                 std::to_string(pipeline.stages)};
}

/// [parts] the operator with which each begins, one of `places` or 0, by LayerRule::kWeights. The last of `places` begins what
/// comes behind the layers.
std::vector<std::size_t> begins_by_weights(const Workload& workload, std::vector<std::size_t> places,
                                           std::size_t forward, std::size_t parts) {
  const std::size_t scores = places.back();
  places.insert(places.begin(), 0);
  places.push_back(forward);
  std::vector<std::int64_t> until(places.size());
  for (std::size_t i = 1; i < places.size(); ++i) {
    until[i] = until[i - 1];
    for (std::size_t v = places[i - 1]; v < places[i]; ++v)
      if (workload.graph[v]->kind != OperatorKind::kEmbedding)
        for (const int variable : workload.graph[v].reads_variables())
          until[i] += workload.variables[static_cast<std::size_t>(variable)].scalars();
  }
  const std::int64_t of_layers = until[until.size() - 2], of_scores = until.back() - of_layers;
  const bool are_scores_alone = of_scores * static_cast<std::int64_t>(parts) > until.back();
  const auto sharing = static_cast<std::int64_t>(are_scores_alone ? parts - 1 : parts);
  const std::int64_t shared = are_scores_alone ? of_layers : until.back();
  std::vector<std::size_t> begins{0};
  for (std::size_t i = 1; i + 1 < places.size(); ++i)
    if (until[i] * sharing > shared * static_cast<std::int64_t>(begins.size())) begins.push_back(places[i]);
  if (are_scores_alone && begins.back() != scores) begins.push_back(scores);
  return begins;
}

/// [parts] the operator with which each begins, in whole layers.
std::vector<std::size_t> cut_by_layers(const Scenario& scenario, const std::vector<Cut>& cuts, std::size_t forward) {
  const ModelLayers layers = list_layers(scenario.workload_of(scenario.first_workers()));
  const std::string model = " for model " + in_quotes(scenario.model.name);
  if (layers.begins.empty())
    throw UncutModel{"cut", "expected \"time\"" + model + ", which has no layers that repeat; found \"layers\""};
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  if (pipeline.layers->rule != LayerRule::kCount && pipeline.layers->per_part.empty()) {
    std::vector<std::size_t> places(layers.begins.begin() + 1, layers.begins.end());
    if (layers.end < forward) places.push_back(layers.end);
    const bool is_by_weights = pipeline.layers->rule == LayerRule::kWeights;
    std::erase_if(places, [&](std::size_t place) { return cuts[place].unknown > 0; });
    const int most = static_cast<int>(places.size()) + 1;
    if (!pipeline.is_folded() && pipeline.stages <= most && most < pipeline.parts())
      throw UncutModel{"chunks", "expected at most " + std::to_string(most / pipeline.stages) +
                                     " of whole layers in each of " + std::to_string(pipeline.stages) + " stages" +
                                     model + "; found " + std::to_string(pipeline.chunks)};
    if (most < pipeline.parts()) {
      const auto are_few = [most](int stages, int chunks) { return stages * chunks <= most; };
      throw UncutModel{"stages", "expected at most " + std::to_string(most) + " of whole layers" + model +
                                     nearest_stages(scenario, are_few) + "; found " + std::to_string(pipeline.stages)};
    }
    const auto parts = static_cast<std::size_t>(pipeline.parts());
    if (!is_by_weights) return balanced_begins(scenario, std::move(places), forward, parts);
    std::vector<std::size_t> begins =
        begins_by_weights(scenario.workload_of(scenario.first_workers()), std::move(places), forward, parts);
    if (begins.size() == parts) return begins;
    throw UncutModel{"cut", "expected \"balanced_layers\"" + model + ", of which " + std::to_string(begins.size()) +
                                " of " + std::to_string(parts) +
                                " parts get layers by their weights; found \"layers_by_weights\""};
  }
  const std::vector<int> per_part = layers_of_parts(scenario, static_cast<int>(layers.begins.size()));
  const bool is_listed = !pipeline.layers->per_part.empty();
  std::vector<std::size_t> begins;
  std::size_t layer = 0;
  for (std::size_t part = 0; part < per_part.size(); ++part) {
    begins.push_back(part == 0 ? 0 : layer < layers.begins.size() ? layers.begins[layer] : layers.end);
    layer += static_cast<std::size_t>(per_part[part]);
    const std::size_t end = part + 1 == per_part.size()    ? forward
                            : layer < layers.begins.size() ? layers.begins[layer]
                                                           : layers.end;
    if (end <= begins.back())
      throw UncutModel{is_listed   ? "layers_per_stage"
                       : part == 0 ? "counts_embedding"
                                   : "counts_loss",
                       "expected layers in part " + std::to_string(part + 1) + model + ", which has no others there"};
    if (part > 0 && cuts[begins.back()].unknown > 0)
      throw UncutModel{"cut",
                       "expected \"time\"" + model + ", whose layers have outputs of unknown size; found \"layers\""};
  }
  return begins;
}

}  // namespace

int layers_to_cut(const Workload& workload, const LayerCut& cut) {
  const auto layers = static_cast<int>(list_layers(workload).begins.size());
  return layers == 0 ? 0 : layers + counted_besides(cut);
}

PipelineStages cut_into_stages(const Scenario& scenario) {
  const Workload& workload = scenario.workload_of(scenario.first_workers());
  const OperatorGraph& graph = workload.graph;
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  const TensorSplit& split = scenario.model.split;
  const auto count = static_cast<std::size_t>(pipeline.stages), parts = static_cast<std::size_t>(pipeline.parts()),
             all_parts = static_cast<std::size_t>(pipeline.parts_of_copies());
  const std::size_t forward = count_forward(graph);
  const std::vector<Cut> cuts = list_cuts(graph, forward);
  const std::vector<std::size_t> begins =
      pipeline.layers ? cut_by_layers(scenario, cuts, forward) : cut_by_time(scenario, cuts, forward);

  PipelineStages stages{.of_operator = std::vector<int>(graph.size(), -1),
                        .of_variable = std::vector<std::vector<int>>(workload.variables.size()),
                        .parts_of_variable = std::vector<std::vector<int>>(workload.variables.size()),
                        .variables = std::vector<Bytes>(count),
                        .parameters = std::vector<HeldParameters>(count),
                        .updated = std::vector<double>(count),
                        .passed = std::vector<Bytes>(all_parts - 1),
                        .copies = pipeline.copies(),
                        .gathers_passed = pipeline.scatters && split.degree > 1 && !split.has_sequence_parts,
                        .of_part = {},
                        .kept = std::vector<Bytes>(all_parts)};
  const int senders = stages.gathers_passed ? split.degree : 1;
  for (int part = 0; part < pipeline.parts_of_copies(); ++part) stages.of_part.push_back(pipeline.stage_of(part));
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = begins[part], end = part + 1 < parts ? begins[part + 1] : forward;
    if (part > 0) stages.passed[part - 1] = Bytes{(cuts[begin].bytes.value() + senders - 1) / senders};
    for (std::size_t v = begin; v < end; ++v) {
      stages.of_operator[v] = static_cast<int>(part);
      stages.kept[part] += graph[v]->kept;
    }
  }
  for (std::size_t part = parts; part < all_parts; ++part) {
    stages.kept[part] = stages.kept[part - parts];
    if (part > parts) stages.passed[part - 1] = stages.passed[part - 1 - parts];
  }
  for (std::size_t v = forward; v < graph.size(); ++v)
    if (graph[v].backward_of() >= 0)
      stages.of_operator[v] = stages.of_operator[static_cast<std::size_t>(graph[v].backward_of())];
  const auto insert = [](std::vector<int>& sorted, int value) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), value);
    const bool is_new = place == sorted.end() || *place != value;
    if (is_new) sorted.insert(place, value);
    return is_new;
  };
  const auto hold = [&](std::size_t variable, int part) {
    const int stage = stages.stage_of(part);
    (void)insert(stages.parts_of_variable[variable], part);
    const Variable& held = workload.variables[variable];
    if (!insert(stages.of_variable[variable], stage)) return;
    stages.parameters[static_cast<std::size_t>(stage)].add(held);
    if (!held.is_trainable) return;
    stages.variables[static_cast<std::size_t>(stage)] += held.bytes;
    stages.updated[static_cast<std::size_t>(stage)] += as_double(held.bytes) * update_weight(scenario, held);
  };
  for (std::size_t v = 0; v < graph.size(); ++v) {
    if (graph[v]->phase == Phase::kUpdate) continue;
    for (int part = stages.of_operator[v]; part < stages.parts(); part += pipeline.parts())
      for (const std::vector<int>& used : {graph[v].reads_variables(), graph[v].produces_gradients()})
        for (const int variable : used) hold(static_cast<std::size_t>(variable), part);
  }
  const double all = updated_bytes(scenario, workload.variables);
  for (double& updated : stages.updated) updated /= all;
  return stages;
}

namespace {

/// A gradient to which several parts add is complete, in the graph, with the first of them. What a stage without that one adds to
/// it is complete with the last of its kernels that do.
void complete_shares(ComputePlan& plan, const PipelineStages& stages, int stage, const Workload& workload) {
  const OperatorGraph& graph = workload.graph;
  for (std::size_t v = 0; v < workload.variables.size(); ++v) {
    const std::vector<int>& holders = stages.of_variable[v];
    if (holders.size() < 2 || !workload.variables[v].is_trainable || !std::ranges::binary_search(holders, stage))
      continue;
    const int variable = static_cast<int>(v);
    PlannedKernel* last = nullptr;
    for (PlannedKernel& kernel : plan.kernels) {
      const OperatorAt op = graph[static_cast<std::size_t>(kernel.vertex)];
      if (std::ranges::find(kernel.completes, variable) != kernel.completes.end()) {
        last = nullptr;
        break;
      }
      if (op.backward_of() < 0) continue;
      const std::vector<int> reads = graph[static_cast<std::size_t>(op.backward_of())].reads_variables();
      if (std::ranges::find(reads, variable) != reads.end()) last = &kernel;
    }
    if (last != nullptr) last->completes.push_back(variable);
  }
}

}  // namespace

ComputePlan plan_stage(const ComputePlan& whole, const PipelineStages& stages, int stage, const Workload& workload) {
  ComputePlan plan{.kernels = {},
                   .step_overhead = whole.step_overhead,
                   .host_copies = whole.host_copies,
                   .input = stages.has_samples(stage) ? whole.input / stages.copies : Bytes{}};
  for (const PlannedKernel& kernel : whole.kernels) {
    if (stages.part_on(stage, static_cast<std::size_t>(kernel.vertex)) < 0) continue;
    plan.kernels.push_back(kernel);
    plan.gpu_time += kernel.time.total;
    plan.memory_time += kernel.time.memory;
    plan.launch_time += kernel.time.launch;
  }
  complete_shares(plan, stages, stage, workload);
  const double share = stages.updated[static_cast<std::size_t>(stage)];
  plan.update = whole.update * share;
  for (const PlannedKernel& kernel : plan.kernels) plan.update += kernel.once;
  plan.host_update = whole.host_update;
  plan.host_update.time = whole.host_update.time * share;
  plan.update_dispatch = whole.update_dispatch * share;
  plan.update_loop = whole.update_loop * share;
  plan.gather_copies = whole.gather_copies * share;
  plan.update_power = whole.update_power;
  return plan;
}

GradientUnits plan_stage_units(const Scenario& scenario, const PipelineStages& stages, int stage) {
  const auto none = [&stages] {
    return GradientUnits{
        .units = {}, .of_variable = std::vector<std::vector<int>>(stages.of_variable.size()), .gathered = {}};
  };
  const auto add = [](GradientUnits& all, const GradientUnits& units) {
    const int before = static_cast<int>(all.units.size());
    all.units.insert(all.units.end(), units.units.begin(), units.units.end());
    for (std::size_t v = 0; v < units.of_variable.size(); ++v)
      for (const int unit : units.of_variable[v]) all.of_variable[v].push_back(before + unit);
  };
  GradientUnits all = none(), gathered = none();
  for (int part = 0; part < stages.parts(); ++part) {
    if (stages.stage_of(part) != stage) continue;
    const auto is_first_of_stage = [&](const std::vector<int>& parts) {
      const auto first = std::ranges::find(parts, stage, [&](int of) { return stages.stage_of(of); });
      return first != parts.end() && *first == part;
    };
    std::vector<bool> chosen;
    for (const std::vector<int>& parts : stages.parts_of_variable) chosen.push_back(is_first_of_stage(parts));
    const GradientUnits units = plan_gradient_units(scenario, chosen);
    add(all, units);
    if (units.gathered) add(gathered, *units.gathered);
  }
  if (!gathered.units.empty()) all.gathered = std::make_shared<const GradientUnits>(std::move(gathered));
  return all;
}

}  // namespace rehearse
