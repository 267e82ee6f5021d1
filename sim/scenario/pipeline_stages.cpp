#include "sim/scenario/pipeline_stages.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/names.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

/// Between a forward operator and the one before it.
struct Cut {
  int values = 0, unknown = 0;  // that pass; of which the size is not known
  Bytes bytes{};
};

std::size_t count_forward(const OperatorGraph& graph) {
  std::size_t count = 0;
  while (count < graph.size() && graph[count].is_of_forward_pass()) ++count;
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

}  // namespace

PipelineStages cut_into_stages(const Scenario& scenario) {
  const Workload& workload = scenario.workload_of(scenario.first_workers());
  const OperatorGraph& graph = workload.graph;
  const auto count = static_cast<std::size_t>(scenario.training.strategy.kind->pipeline()->stages);
  const std::size_t forward = count_forward(graph);
  const std::vector<Cut> cuts = list_cuts(graph, forward);
  std::vector<std::size_t> places = list_places(cuts, forward, count);
  if (places.size() + 1 < count)
    throw std::invalid_argument{"expected at most " + std::to_string(places.size() + 1) + " for model " +
                                in_quotes(scenario.model.name) +
                                ", which can be cut after layers with an output of known size (\"output\" of timed "
                                "layers) that a later one reads; found " +
                                std::to_string(count)};
  std::vector<double> time(forward);
  for (const PlannedKernel& kernel : plan_step(scenario, scenario.first_workers()).kernels) {
    const int layer = graph[static_cast<std::size_t>(kernel.vertex)].backward_of;
    time[static_cast<std::size_t>(layer < 0 ? kernel.vertex : layer)] += kernel.time.total.value();
  }
  places.insert(places.begin(), 0);
  places.push_back(forward);
  std::vector<double> until(places.size());
  for (std::size_t i = 1; i < places.size(); ++i) {
    until[i] = until[i - 1];
    for (std::size_t v = places[i - 1]; v < places[i]; ++v) until[i] += time[v];
  }

  PipelineStages stages{.of_operator = std::vector<int>(graph.size(), -1),
                        .of_variable = std::vector<std::vector<int>>(workload.variables.size()),
                        .variables = std::vector<Bytes>(count),
                        .parameters = std::vector<std::int64_t>(count),
                        .passed = {},
                        .kept = std::vector<Bytes>(count),
                        .kept_again = std::vector<Bytes>(count)};
  const std::vector<std::size_t> begins = balance(until, count);
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t begin = places[begins[s]], end = s + 1 < count ? places[begins[s + 1]] : forward;
    if (s > 0) stages.passed.push_back(cuts[begin].bytes);
    for (std::size_t v = begin; v < end; ++v) {
      stages.of_operator[v] = static_cast<int>(s);
      stages.kept[s] += graph[v].kept;
      stages.kept_again[s] = std::max(stages.kept_again[s], graph[v].kept_again);
    }
  }
  for (std::size_t v = forward; v < graph.size(); ++v)
    if (graph[v].backward_of >= 0)
      stages.of_operator[v] = stages.of_operator[static_cast<std::size_t>(graph[v].backward_of)];
  for (std::size_t v = 0; v < graph.size(); ++v) {
    if (graph[v].phase == Phase::kUpdate) continue;
    const int stage = stages.of_operator[v];
    for (const std::vector<int>* used : {&graph[v].reads_variables, &graph[v].produces_gradients})
      for (const int variable : *used) {
        std::vector<int>& holders = stages.of_variable[static_cast<std::size_t>(variable)];
        const auto place = std::lower_bound(holders.begin(), holders.end(), stage);
        if (place != holders.end() && *place == stage) continue;
        holders.insert(place, stage);
        const Variable& held = workload.variables[static_cast<std::size_t>(variable)];
        if (!held.is_trainable) continue;
        stages.variables[static_cast<std::size_t>(stage)] += held.bytes;
        stages.parameters[static_cast<std::size_t>(stage)] += held.scalars();
      }
  }
  return stages;
}

ComputePlan plan_stage(const ComputePlan& whole, const PipelineStages& stages, int stage, const Workload& workload) {
  ComputePlan plan{.kernels = {},
                   .step_overhead = whole.step_overhead,
                   .host_copies = whole.host_copies,
                   .input = stage == 0 ? whole.input : Bytes{}};
  for (const PlannedKernel& kernel : whole.kernels) {
    if (stages.of_operator[static_cast<std::size_t>(kernel.vertex)] != stage) continue;
    plan.kernels.push_back(kernel);
    plan.gpu_time += kernel.time.total;
    plan.memory_time += kernel.time.memory;
    plan.launch_time += kernel.time.launch;
  }
  const double share =
      as_double(stages.variables[static_cast<std::size_t>(stage)]) / as_double(workload.parameter_bytes());
  plan.update = whole.update * share;
  plan.update_dispatch = whole.update_dispatch * share;
  return plan;
}

GradientUnits plan_stage_units(const Scenario& scenario, const PipelineStages& stages, int stage) {
  std::vector<bool> chosen;
  for (const std::vector<int>& holders : stages.of_variable)
    chosen.push_back(std::binary_search(holders.begin(), holders.end(), stage));
  return plan_gradient_units(scenario, chosen);
}

int microbatches_in_flight(const Pipeline& pipeline, int microbatches, int stage) {
  return pipeline.schedule == PipelineSchedule::kGpipe ? microbatches : std::min(microbatches, pipeline.stages - stage);
}

}  // namespace rehearse
