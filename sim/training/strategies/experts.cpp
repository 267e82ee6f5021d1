#include "sim/training/strategies/experts.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

constexpr double kMostLoad = 1024, kMostZipf = 4;
constexpr std::array kDispatches{Named{"all_to_all", false}, Named{"once_per_machine", true}};

std::string schema_of_experts() {
  return R"json({ "properties": {
    "experts": {
      "type": "object",
      "description": "all_reduce: consecutive workers of a stage have other experts each of a mixture (expert parallelism); tokens are sent to them and back. Gradients of experts are added up over those that have the same",
      "required": ["degree"],
      "additionalProperties": false,
      "properties": {
        "degree": { "type": "integer", "minimum": 1, "description": "workers with other experts each; divides the experts, and the workers of a stage" },
        "tensor_degree": { "type": "integer", "minimum": 1, "default": 1, "description": "workers that hold each expert together: 1, or the degree of tensor (Megatron-LM: expert-tensor-parallel-size)" },
        "dispatch": { "enum": ["all_to_all", "once_per_machine"], "default": "all_to_all", "description": "all_to_all: a token goes to each of its experts by itself; once_per_machine: it goes once to each other machine that has some of them, and is forwarded there, while others are on their way (DeepEP)" },
        "machines_per_token": { "type": "integer", "minimum": 1, "description": "with once_per_machine: to how many machines a token goes at most, as its router limits them (DeepSeek-V3: 4); default: as many as its experts are on" },
        "imbalance": { "type": "number", "minimum": 1, "maximum": 1024, "default": 1, "description": "tokens of the fullest worker by the mean; all take as long as it does" },
        "zipf": { "type": "number", "minimum": 0, "maximum": 4, "default": 0, "description": "experts are wanted as Zipf's law says: the i-th most wanted of a layer has i^-zipf of the tokens of the first, but no more than all tokens. Each worker has the tokens of its experts, and all wait for the fullest; which experts are wanted most is drawn for each layer, the same in every run. Instead of imbalance" },
        "capacity_factor": { "type": "number", "exclusiveMinimum": 0, "maximum": 1024, "description": "places of an expert by the tokens that it has if all have as many; what is above is dropped. Default: nothing is" },
        "pad_to_capacity": { "type": "boolean", "default": false, "description": "each expert has as many rows as places, whether they are filled or not" } } }
  } })json";
}

bool has_experts(const Refusal::Subject& subject) { return subject.scenario->model.expert_split.degree > 0; }

std::vector<Refusal> refusals_of_experts() {
  return {
      {"groups of workers that share the states of experts",
       [](const Refusal::Subject& s) {
         return has_experts(s) ? stated_of_strategy(s, {"shard_group"}) : RefusedPlace{};
       },
       "none with \"experts\"", "those that have the same experts are other groups than those that share states"},
      {"experts whose workers stand apart",
       [](const Refusal::Subject& s) {
         const ModelDescription& model = s.scenario->model;
         const StrategyKind& kind = *s.scenario->training.strategy.kind;
         const bool is_apart = kind.rank_order().back() != Axis::kPipeline && kind.pipeline() != nullptr &&
                               (model.context.degree() > 1 || model.expert_split.tensor != model.split.degree);
         return strategy_place_if(has_experts(s) && is_apart, "rank_order");
       },
       "\"tensor_data_pipeline\" with \"experts\" and a pipeline",
       "workers that have other experts of a stage stand next to one another"},
  };
}

/// Why the experts cannot be spread so; empty: they can.
std::string why_not(const Transformer& net, const ExpertSplit& split, int workers) {
  if (net.experts.count % split.degree != 0) return std::to_string(net.experts.count) + " experts";
  if (workers % (split.degree * split.tensor) != 0)
    return std::to_string(workers) + " workers of a stage" +
           (split.tensor > 1 ? ", in groups of " + std::to_string(split.tensor) + " that hold each expert" : "");
  return {};
}

/// Over which the experts are spread, as many on each.
int machines_of(const JsonReader& json, const Scenario& scenario, const ExpertSplit& split) {
  const int on_machine = scenario.first_workers().workers_per_machine(), workers = split.degree * split.tensor;
  const bool are_alike = std::ranges::all_of(scenario.groups, [&](const Group& group) {
    return group.role != Role::kWorker || group.workers_per_machine() == on_machine;
  });
  if (!are_alike || (workers % on_machine != 0 && on_machine % workers != 0) || on_machine % split.tensor != 0)
    json.fail("dispatch", "expected \"all_to_all\": experts over " + std::to_string(workers) +
                              " workers do not have whole machines of as many workers each");
  return std::max(1, workers / on_machine);
}

}  // namespace

StrategyKeys expert_keys() {
  return {schema_of_experts, refusals_of_experts};
}  // tensor_keys() has what goes with no split

ExpertSplit read_experts(const JsonReader& json, Scenario& scenario, int stages, Json& effective) {
  ExpertSplit split{.degree = json.required<int>("degree")};
  json.expect(split.degree >= 1, "degree", "at least 1");
  const TensorSplit& tensor = scenario.model.split;
  effective["tensor_degree"] = split.tensor = json.optional<int>("tensor_degree", 1);
  json.expect(split.tensor == 1 || split.tensor == tensor.degree, "tensor_degree",
              "1" + (tensor.degree > 1 ? " or the degree of \"tensor\", " + std::to_string(tensor.degree) : ""));
  const bool goes_once = json.has("dispatch") && read_word(json, "dispatch", kDispatches);
  effective["dispatch"] = name_in(kDispatches, goes_once);
  if (json.has("machines_per_token")) {
    if (!goes_once) json.fail("machines_per_token", "expected none but with \"dispatch\": \"once_per_machine\"");
    split.machines_per_token = json.required<int>("machines_per_token");
    json.expect(split.machines_per_token >= 1, "machines_per_token", "at least 1");
  }
  effective["zipf"] = split.zipf = json.optional<double>("zipf", 0);
  json.expect(split.zipf >= 0 && split.zipf <= kMostZipf, "zipf", "0 to 4");
  effective["imbalance"] = split.imbalance = json.optional<double>("imbalance", 1);
  json.expect(split.imbalance >= 1 && split.imbalance <= kMostLoad, "imbalance", "1 to 1024");
  if (json.has("capacity_factor")) {
    split.capacity = json.required<double>("capacity_factor");
    json.expect(*split.capacity > 0 && *split.capacity <= kMostLoad, "capacity_factor", "above 0, up to 1024");
  }
  split.pads = json.optional<bool>("pad_to_capacity", false);
  if (split.pads && !split.capacity)
    json.fail("pad_to_capacity", "expected \"capacity_factor\" beside it, which says how many places an expert has");
  json.reject_unknown_keys();
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  const std::string model = in_quotes(scenario.model.name);
  if (net == nullptr || net->experts.count == 0)
    json.fail("degree", "expected a mixture of experts; model " + model + " has none");
  if (!net->experts.is_grouped)
    json.fail("degree", "expected a model with \"grouped_experts\": true; model " + model +
                            " computes its experts one by one, and how these are spread is not modelled");
  const bool holds_apart = tensor.degree > 1 && split.tensor == 1;
  if (holds_apart && !tensor.has_sequence_parts)
    json.fail("tensor_degree", "expected " + std::to_string(tensor.degree) +
                                   ", or \"sequence_parallel\": true in \"tensor\": without it all workers of a "
                                   "tensor group would send the same tokens");
  if (net->experts.feed_forward % split.tensor != 0)
    json.fail("tensor_degree", "expected a divisor of the " + std::to_string(net->experts.feed_forward) +
                                   " inner features of an expert; found " + std::to_string(split.tensor));
  if (split.degree == 1 && split.imbalance > 1)
    json.fail("imbalance", "expected 1 with a degree of 1: a worker that has all experts has all of its tokens");
  if (split.zipf > 0) {
    if (split.degree == 1)
      json.fail("zipf", "expected 0 with a degree of 1: a worker that has all experts has all of its tokens");
    if (split.imbalance > 1)
      json.fail("zipf",
                "expected 0 with \"imbalance\": that states the load of the fullest worker, of which zipf makes "
                "one of its own for each");
    if (split.pads)
      json.fail("zipf", "expected 0 with \"pad_to_capacity\": all experts then have as many rows, whatever is wanted");
  }
  const int workers = scenario.count(Role::kWorker) / stages;
  if (const std::string reason = why_not(*net, split, workers); !reason.empty()) {
    ExpertSplit other = split;
    const int nearest = nearest_by_ratio(split.degree, 1, net->experts.count, [&](int degree) {
      other.degree = degree;
      return why_not(*net, other, workers).empty();
    });
    json.fail("degree", "expected a degree that divides the " + reason + "; found " + std::to_string(split.degree) +
                            ", and the nearest that does is " + std::to_string(nearest));
  }
  if (goes_once) split.machines = machines_of(json, scenario, split);
  if (split.degree == 1 && split.tensor == tensor.degree) split.degree = 0;  // they are as all else is
  scenario.model.expert_split = split;
  rebuild_workloads(scenario, json.file_name() + ": " + json.pointer());
  return split;
}

std::vector<ExpertSplit> more_experts(const Scenario& scenario, int stages) {
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  const ModelDescription& model = scenario.model;
  const bool may_spread = net != nullptr && net->experts.count > 0 && net->experts.is_grouped &&
                          model.expert_split.machines == 1 && model.split.degree == 1;
  std::vector<ExpertSplit> more;
  for (int degree = 2; may_spread && degree <= net->experts.count; ++degree) {
    ExpertSplit split = model.expert_split;
    split.degree = degree;
    if (degree > model.expert_split.degree && why_not(*net, split, scenario.count(Role::kWorker) / stages).empty())
      more.push_back(split);
  }
  return more;
}

std::string title_of(const ExpertSplit& split) {
  return "experts over " + std::to_string(split.degree) + " workers" +
         (split.tensor > 1 ? ", each held by " + std::to_string(split.tensor) : "") +
         (split.zipf > 0 ? ", wanted by Zipf's law with exponent " + to_text(split.zipf) : "");
}

}  // namespace rehearse
