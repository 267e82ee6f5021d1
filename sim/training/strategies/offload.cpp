#include "sim/training/strategies/offload.hpp"

#include <utility>

#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

std::string schema_of_offload() {
  return R"json({ "properties": {
    "offload": {
      "type": "object",
      "description": "all_reduce: what hosts keep instead of GPUs",
      "additionalProperties": false,
      "properties": {
        "optimizer": { "type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "share of the optimizer's states (master weights and moments) that the host keeps and updates, while the GPU updates the rest (ZeRO-Offload): gradients go to the host as they have been added up, and stay there if they are sharded; new values come back" },
        "activations": { "type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "share of the layers, from the first, whose activations go to the host behind their forward pass and come back before their backward pass, while other layers run; the last layer's stay (Megatron-LM, cpu_offloading_num_layers)" },
        "host_memory_bandwidth": { "$ref": "#/$defs/rate", "description": "of a machine, which its GPUs share, for updates; default: 1.5GBps for each of its vCPUs" } } }
  } })json";
}

bool offloads_optimizer(const Refusal::Subject& subject) {
  return subject.scenario->training.strategy.kind->offload().optimizer > 0;
}

bool offloads_activations(const Refusal::Subject& subject) {
  return subject.scenario->training.strategy.kind->offload().activations > 0;
}

std::vector<Refusal> refusals_of_offload() {
  return {
      {"hosts of which each updates everything",
       [](const Refusal::Subject& s) {
         return strategy_place_if(offloads_optimizer(s) && collective_rules_of(s).sharding == Sharding::kNone &&
                                      sharing_gpus(*s.scenario) > 1,
                                  "offload");
       },
       "\"sharding\" beside it", "without it the host of each GPU keeps, and updates, what all the others do"},
      {"forward overlap of updates on hosts",
       [](const Refusal::Subject& s) { return offloads_optimizer(s) ? forward_overlap(s) : RefusedPlace{}; },
       "\"none\" or \"backward\" with \"offload\"", "new values come back from the hosts before the next step"},
      {"activations on hosts in a pipeline",
       [](const Refusal::Subject& s) {
         return strategy_place_if(offloads_activations(s) && s.scenario->training.strategy.kind->pipeline() != nullptr,
                                  "offload");
       },
       "no \"activations\" in it with a pipeline",
       "a stage has other micro-batches between the passes of one, and Megatron-LM does not offload there either"},
      {"activations on hosts of what has no layers",
       [](const Refusal::Subject& s) {
         return strategy_place_if(offloads_activations(s) &&
                                      s.scenario->training.strategy.kind->pipeline() == nullptr &&
                                      offloaded_layers(*s.scenario, s.scenario->workload).empty(),
                                  "offload");
       },
       "no \"activations\" in it, of a model without at least two layers alike that keep any",
       "a layer's are copied while the next one runs"},
      {"states of the optimizer that no host can keep",
       [](const Refusal::Subject& s) {
         const Scenario& scenario = *s.scenario;
         return strategy_place_if(
             offloads_optimizer(s) && optimizer_bytes(scenario.states, optimizer_slots(scenario.optimizer)) == 0,
             "offload");
       },
       "an \"optimizer\" with states, or master weights", "plain SGD keeps nothing of a parameter"},
  };
}

}  // namespace

StrategyKeys offload_keys() { return {schema_of_offload, refusals_of_offload}; }

Offload read_offload(const JsonReader& json) {
  Offload offload;
  if (!json.has("optimizer") && !json.has("activations"))
    json.fail("expected the key \"optimizer\" or \"activations\"; found none");
  for (const auto& [key, share] : {std::pair{"optimizer", &offload.optimizer}, {"activations", &offload.activations}}) {
    if (!json.has(key)) continue;
    *share = json.required<double>(key);
    json.expect(*share > 0 && *share <= 1, key, "above 0, and at most 1");
  }
  if (json.has("host_memory_bandwidth")) {
    offload.host_memory_bandwidth = json.required<BytesPerSecond>("host_memory_bandwidth");
    json.expect(*offload.host_memory_bandwidth > BytesPerSecond{}, "host_memory_bandwidth", "more than 0");
    json.expect(offload.optimizer > 0, "host_memory_bandwidth", "\"optimizer\" beside it: it is the rate of updates");
  }
  json.reject_unknown_keys();
  return offload;
}

std::string title_of(const Offload& offload) {
  const auto of = [](double share, const std::string& all) {
    return share == 0 ? "" : (share < 1 ? to_text(share * 100) + " % of " : "") + all;
  };
  const std::string optimizer = of(offload.optimizer, "the optimizer"),
                    activations = of(offload.activations, "the layers' activations");
  return optimizer + (optimizer.empty() || activations.empty() ? "" : " and ") + activations + " on the hosts";
}

}  // namespace rehearse
