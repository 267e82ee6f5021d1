#include "sim/training/strategies/tensor.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/base/names.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

// Named by their axes, or by who has them so.
constexpr std::array kRankOrders{Named{"tensor_data_pipeline", false},
                                 Named{"tensor_pipeline_data", true},
                                 Named{"megatron", false},
                                 Named{"deepspeed", false},
                                 Named{"nanotron", false},
                                 Named{"torchtitan", false}};

/// Whether workers compute layers together, with parts of products, of positions or of experts.
bool is_split(const Refusal::Subject& subject) {
  const ModelDescription& model = subject.scenario->model;
  return workers_of_layer(model) > 1 || model.expert_split.degree > 0;
}

const char* key_of_split(const ModelDescription& model) {
  return model.split.degree > 1 ? "tensor" : model.context.degree() > 1 ? "context" : "experts";
}

/// The first group whose workers hold a layer together with those of the group before, which have other GPUs; null: none.
const Group* first_with_a_shared_layer(const Scenario& scenario) {
  const Group* before = nullptr;
  int workers = 0;  // of the groups before
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const bool begins_within = workers % workers_of_layer(scenario.model) != 0;
    if (before != nullptr && begins_within && *before->accelerator != *group.accelerator) return &group;
    before = &group;
    workers += group.workers();
  }
  return nullptr;
}

bool has_workers_of_gpus(const Refusal::Subject& subject) {
  return std::ranges::any_of(subject.scenario->groups, [](const Group& group) {
    return group.role == Role::kWorker && group.gpus_per_worker > 1;
  });
}

std::vector<Refusal> refusals_of_split() {
  return {
      {"layers that are split over unlike GPUs",
       [](const Refusal::Subject& s) {
         if (!is_split(s)) return RefusedPlace{};
         const Group* wrong = first_with_a_shared_layer(*s.scenario);
         return stated_of_group(s, {"accelerator", "instance", "machine", "workers_per_machine", "count"},
                                [wrong](const Group& group) { return &group == wrong; });
       },
       "the same GPUs as in the group before it, or a number of workers there that the degrees of \"tensor\" and "
       "\"context\" divide",
       "each worker of such a group computes an equal part"},
      {"layers that are split over workers of several GPUs",
       [](const Refusal::Subject& s) {
         return strategy_place_if(is_split(s) && has_workers_of_gpus(s), key_of_split(s.scenario->model));
       },
       "a worker for each GPU (\"workers_per_machine\" as many as it has)",
       "each GPU that computes layers together with others is a rank"},
      {"split layers of unequal micro-batches",
       [](const Refusal::Subject& s) { return is_split(s) ? batch_of_others(s) : RefusedPlace{}; },
       "the same batch in all groups with \"tensor\", \"context\" or \"experts\"",
       "all workers of such a group compute the same samples"},
      {"all-reduces of machines among the parts of layers",
       [](const Refusal::Subject& s) { return is_split(s) ? algorithm_of_machines(s) : RefusedPlace{}; },
       "an all-reduce among any GPUs with \"tensor\", \"context\" or \"experts\", not \"hierarchical\" or \"nvls\"",
       "a group of ranks may have some of a machine's GPUs"},
      {"fused cycles of the sums of split layers",
       [](const Refusal::Subject& s) { return is_split(s) ? stated_of_strategy(s, {"cycle_time"}) : RefusedPlace{}; },
       "none with \"tensor\", \"context\" or \"experts\"",
       "kernels wait for what split layers exchange, which no cycle may hold back"},
      {"forward overlap of split layers",
       [](const Refusal::Subject& s) { return is_split(s) ? forward_overlap(s) : RefusedPlace{}; },
       "\"none\" or \"backward\" with \"tensor\", \"context\" or \"experts\"",
       "workers that compute layers together end a step together"},
  };
}

std::string schema_of_split() {
  return R"json({ "properties": {
    "tensor": {
      "type": "object",
      "description": "all_reduce: consecutive workers hold each layer of a transformer together (tensor parallelism); all of them have the same samples, batch_per_worker of them",
      "required": ["degree"],
      "additionalProperties": false,
      "properties": {
        "degree": { "type": "integer", "minimum": 1, "description": "workers that hold each layer together; divides the workers, the heads, the key-value heads and the inner features of the model" },
        "sequence_parallel": { "type": "boolean", "default": false, "description": "between split products each worker has its part of the positions, too; the degree divides them" },
        "asynchronous": { "type": "boolean", "default": false, "description": "with sequence_parallel: products run in as many parts as workers hold them together, beside the exchange of the next part (asynchronous tensor parallelism; tp_comm_overlap, async_tp)" },
        "vocabulary_multiple": { "type": "integer", "minimum": 1, "maximum": 65536, "default": 128, "description": "the table of words is padded so that each worker has a multiple of so many of its rows (Megatron-LM: make-vocab-size-divisible-by)" } } },
    "rank_order": { "enum": ["tensor_data_pipeline", "tensor_pipeline_data", "megatron", "deepspeed", "nanotron", "torchtitan"], "description": "all_reduce: axes along which consecutive workers stand, the fastest first, or who has them so; default: tensor_data_pipeline with \"tensor\" (Megatron-LM, DeepSpeed, nanotron, torchtitan), else tensor_pipeline_data" }
  } })json";
}

/// Why the model cannot be split into so many; empty: it can.
std::string why_not(const Transformer& net, const TensorSplit& split, int workers) {
  const auto undivided = [&](std::int64_t count, const std::string& what) {
    return count % split.degree == 0 ? "" : std::to_string(count) + " " + what;
  };
  for (const std::string& reason :
       {undivided(workers, "workers"), undivided(net.heads, "attention heads"),
        undivided(net.kv_heads, "key-value heads"), undivided(net.feed_forward, "inner features"),
        split.has_sequence_parts ? undivided(net.sequence_length, "positions") : "",
        split.has_sequence_parts ? undivided(net.decoder_sequence_length, "positions of the decoder") : ""})
    if (!reason.empty()) return reason;
  return {};
}

int nearest(const Transformer& net, TensorSplit split, int workers) {
  return nearest_by_ratio(split.degree, 1, std::min(net.heads, workers), [&](int degree) {
    split.degree = degree;
    return why_not(net, split, workers).empty();
  });
}

/// Why no layer of the model can be split; empty: they can. `spreads_experts`: as the strategy says.
std::string why_never(const Transformer& net, bool spreads_experts) {
  using Head = Transformer::Head;
  if (net.vocabulary == 0 || (net.head != Head::kLanguageModel && net.head != Head::kMaskedLanguageModel))
    return ", which has no logits over words: how others are split is not modelled";
  if (net.experts.count > 0 && !net.experts.is_grouped)
    return ", a mixture whose experts are computed one by one: how these are split is not modelled, as it is with "
           "\"grouped_experts\": true";
  if (net.experts.count > 0 && !spreads_experts)
    return ", or \"experts\": { \"degree\": 1 } beside \"tensor\" to say how its experts are split";
  if (net.disentangled_positions > 0) return ": how disentangled positions are split is not modelled";
  return {};
}

const Transformer& splittable(const JsonReader& json, const Scenario& scenario, bool spreads_experts) {
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  const std::string reason = net == nullptr ? ", which is no transformer: how its layers are split is not modelled"
                                            : why_never(*net, spreads_experts);
  if (!reason.empty()) json.fail("degree", "expected 1 for model " + in_quotes(scenario.model.name) + reason);
  return *net;
}

/// The words of a model that is not split are as many as it states.
void expect_whole_vocabulary(const JsonReader& json, const Scenario& scenario, int multiple) {
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  if (net == nullptr || !json.has("vocabulary_multiple") || net->vocabulary % multiple == 0) return;
  json.fail("vocabulary_multiple", "expected a divisor of the " + std::to_string(net->vocabulary) +
                                       " words with a degree of 1, which pads none; " + "with a \"vocabulary\" of " +
                                       std::to_string((net->vocabulary + multiple - 1) / multiple * multiple) +
                                       " the model has the rows that are added");
}

}  // namespace

StrategyKeys tensor_keys() { return {schema_of_split, refusals_of_split}; }

TensorSplit read_tensor(const JsonReader& json, Scenario& scenario, bool spreads_experts, Json& effective) {
  TensorSplit split{.degree = json.required<int>("degree")};
  json.expect(split.degree >= 1, "degree", "at least 1");
  split.has_sequence_parts = json.optional<bool>("sequence_parallel", false) && split.degree > 1;
  effective["sequence_parallel"] = split.has_sequence_parts;
  split.is_asynchronous = json.optional<bool>("asynchronous", false) && split.degree > 1;
  json.expect(!split.is_asynchronous || split.has_sequence_parts, "asynchronous",
              "false without \"sequence_parallel\": an all-reduce is not cut into parts");
  split.vocabulary_multiple = json.optional<int>("vocabulary_multiple", split.vocabulary_multiple);
  json.expect(split.vocabulary_multiple >= 1 && split.vocabulary_multiple <= 65536, "vocabulary_multiple",
              "1 to 65536 rows");
  json.reject_unknown_keys();
  if (split.degree == 1) {
    expect_whole_vocabulary(json, scenario, split.vocabulary_multiple);
    return split;
  }
  const Transformer& net = splittable(json, scenario, spreads_experts);
  const int workers = scenario.count(Role::kWorker);
  if (const std::string reason = why_not(net, split, workers); !reason.empty())
    json.fail("degree", "expected a degree that divides the " + reason + "; found " + std::to_string(split.degree) +
                            ", and the nearest that does is " + std::to_string(nearest(net, split, workers)));
  scenario.model.split = split;
  rebuild_workloads(scenario, json.file_name() + ": " + json.pointer());
  return split;
}

std::vector<Axis> read_rank_order(const JsonReader& json, bool is_split, Json& effective) {
  bool has_stages_first = !is_split;
  if (json.has("rank_order"))
    has_stages_first = read_word(json, "rank_order", kRankOrders);
  else if (is_split)
    effective["rank_order"] = name_in(kRankOrders, has_stages_first);
  using enum Axis;
  return has_stages_first ? std::vector{kTensor, kHeads, kPositions, kPipeline, kData, kReplica}
                          : std::vector{kTensor, kHeads, kPositions, kData, kReplica, kPipeline};
}

std::vector<TensorSplit> more_split(const Scenario& scenario) {
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  const int workers = scenario.count(Role::kWorker), of_machine = scenario.first_workers().workers_per_machine();
  std::vector<TensorSplit> more;
  if (net == nullptr || !why_never(*net, false).empty() || scenario.model.context.degree() > 1) return more;
  for (int degree = 2; degree <= of_machine; ++degree) {
    TensorSplit split = scenario.model.split;
    if (split.degree == 1) split.has_sequence_parts = true;
    split.degree = degree;
    if (degree > scenario.model.split.degree && of_machine % degree == 0 && why_not(*net, split, workers).empty())
      more.push_back(split);
  }
  return more;
}

std::string title_of(const TensorSplit& split) {
  return "tensor parallel over " + std::to_string(split.degree) + " workers" +
         (split.has_sequence_parts ? " with sequence parallelism" : "") +
         (split.is_asynchronous ? ", exchanges beside products" : "");
}

std::string split_text(const Scenario& scenario) {
  double bytes = 0;
  int count = 0;
  for (const OperatorAt op : scenario.workload.graph)
    if (op->exchange) {
      bytes += as_double(op->exchange->bytes);
      ++count;
    }
  std::array<char, 200> text{};
  std::snprintf(
      text.data(), text.size(),
      "each worker of those that compute layers together exchanges %s%.4g GB in %d collectives for each batch; ",
      scenario.model.expert_split.has_own_loads() ? "up to " : "", bytes / 1e9, count);
  return text.data();
}

}  // namespace rehearse
