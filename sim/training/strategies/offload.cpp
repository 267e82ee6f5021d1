#include "sim/training/strategies/offload.hpp"

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
      "description": "all_reduce: what hosts keep instead of GPUs (ZeRO-Offload). Gradients of it go to the host as they have been added up, or stay there if they are sharded; the host updates its share, and new values come back",
      "required": ["optimizer"],
      "additionalProperties": false,
      "properties": {
        "optimizer": { "type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "share of the optimizer's states (master weights and moments) that the host keeps and updates; the GPU updates the rest meanwhile" },
        "host_memory_bandwidth": { "$ref": "#/$defs/rate", "description": "of a machine, which its GPUs share, for updates; default: 1.5GBps for each of its vCPUs" } } }
  } })json";
}

bool has_offload(const Refusal::Subject& subject) {
  return subject.scenario->training.strategy.kind->offload().optimizer > 0;
}

std::vector<Refusal> refusals_of_offload() {
  return {
      {"hosts of which each updates everything",
       [](const Refusal::Subject& s) {
         return strategy_place_if(
             has_offload(s) && collective_rules_of(s).sharding == Sharding::kNone && sharing_gpus(*s.scenario) > 1,
             "offload");
       },
       "\"sharding\" beside it", "without it the host of each GPU keeps, and updates, what all the others do"},
      {"forward overlap of updates on hosts",
       [](const Refusal::Subject& s) { return has_offload(s) ? forward_overlap(s) : RefusedPlace{}; },
       "\"none\" or \"backward\" with \"offload\"", "new values come back from the hosts before the next step"},
      {"states of the optimizer that no host can keep",
       [](const Refusal::Subject& s) {
         const Scenario& scenario = *s.scenario;
         return strategy_place_if(
             has_offload(s) && optimizer_bytes(scenario.states, optimizer_slots(scenario.optimizer)) == 0, "offload");
       },
       "an \"optimizer\" with states, or master weights", "plain SGD keeps nothing of a parameter"},
  };
}

}  // namespace

StrategyKeys offload_keys() { return {schema_of_offload, refusals_of_offload}; }

Offload read_offload(const JsonReader& json) {
  Offload offload{.optimizer = json.required<double>("optimizer")};
  json.expect(offload.optimizer > 0 && offload.optimizer <= 1, "optimizer", "above 0, and at most 1");
  if (json.has("host_memory_bandwidth")) {
    offload.host_memory_bandwidth = json.required<BytesPerSecond>("host_memory_bandwidth");
    json.expect(*offload.host_memory_bandwidth > BytesPerSecond{}, "host_memory_bandwidth", "more than 0");
  }
  json.reject_unknown_keys();
  return offload;
}

std::string title_of(const Offload& offload) {
  return (offload.optimizer < 1 ? to_text(offload.optimizer * 100) + " % of the optimizer" : "the optimizer") +
         " on the hosts";
}

}  // namespace rehearse
