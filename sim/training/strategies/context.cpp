#include "sim/training/strategies/context.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/names.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

/// How GPUs read one another's keys and values.
enum class Way : std::uint8_t { kRing, kAllGather, kAllToAll, kAllToAllAndRing };

constexpr std::array kWays{Named{"ring", Way::kRing}, Named{"all_gather", Way::kAllGather},
                           Named{"all_to_all", Way::kAllToAll}, Named{"all_to_all_and_ring", Way::kAllToAllAndRing}};
constexpr std::array kBalances{Named{"zigzag", true}, Named{"none", false}};

std::string schema_of_context() {
  return R"json({ "properties": {
    "context": {
      "type": "object",
      "description": "all_reduce: consecutive workers (or groups of them that hold layers together) have the same samples, batch_per_worker of them, and each an equal part of the positions (context parallelism); gradients are added up over them, too",
      "required": ["degree"],
      "additionalProperties": false,
      "properties": {
        "degree": { "type": "integer", "minimum": 1, "description": "workers that share the positions of a sample; divides the workers and the positions" },
        "method": { "enum": ["ring", "all_gather", "all_to_all", "all_to_all_and_ring"], "default": "ring", "description": "how attention reads all positions: keys and values go round beside it (Ring Attention; p2p of Transformer Engine), are gathered before it (Llama 3), or positions are exchanged for heads (DeepSpeed-Ulysses; a2a), all of them or among all_to_all_degree workers, of which groups form a ring (a2a+p2p)" },
        "all_to_all_degree": { "type": "integer", "minimum": 2, "description": "of all_to_all_and_ring: consecutive workers that exchange positions for heads; divides the degree" },
        "balance": { "enum": ["zigzag", "none"], "default": "zigzag", "description": "which positions of a causal model a worker has with a ring or all_gather: a part from either end, so that all have as much to do; or consecutive ones, where all wait for the last one" } } }
  } })json";
}

/// Why no degree will do; empty: some do.
std::string why_whole_samples(const Transformer& net) {
  using Head = Transformer::Head;
  if (net.decoder_layers > 0 || net.images || net.spectrogram || net.waveform || net.vocabulary == 0 ||
      (net.head != Head::kLanguageModel && net.head != Head::kMaskedLanguageModel))
    return ", which is no stack over words with logits at every position: how others are split is not modelled";
  if (!net.has_fused_attention)
    return ", whose attention keeps all scores: it is split only where it is one kernel (\"fused_attention\": true in "
           "the model)";
  if (net.has_attention_sinks) return ", whose scores have learned ones besides: how these are split is not modelled";
  return {};
}

/// Why the model cannot be split so; empty: it can.
std::string why_not(const Scenario& scenario, const Transformer& net, const ContextSplit& split) {
  const TensorSplit& tensor = scenario.model.split;
  const auto undivided = [](std::int64_t count, std::int64_t by, const std::string& what) {
    return count % by == 0 ? "" : std::to_string(count) + " " + what;
  };
  const int parts = split.positions > 1 && split.is_balanced && net.is_causal ? 2 : 1;
  const int of_part = tensor.has_sequence_parts ? tensor.degree : 1;
  for (const std::string& reason :
       {undivided(scenario.count(Role::kWorker), std::int64_t{tensor.degree} * split.degree(),
                  "workers" + (tensor.degree > 1 ? ", in tensor groups of " + std::to_string(tensor.degree) : "")),
        undivided(net.sequence_length, std::int64_t{split.degree()} * std::lcm(parts, of_part),
                  std::string{"positions"} + (parts > 1 ? ", in two parts each" : "") +
                      (of_part > 1 ? ", in " + std::to_string(of_part) + " of sequence parallelism" : "")),
        undivided(net.heads / tensor.degree, split.heads,
                  std::string{"attention heads"} + (tensor.degree > 1 ? " of a worker" : ""))})
    if (!reason.empty()) return reason;
  const int key_heads = net.kv_heads / tensor.degree;
  if (key_heads % split.heads != 0 && split.heads % key_heads != 0)
    return std::to_string(key_heads) + " key-value heads, or is a multiple of them,";
  return {};
}

/// So many workers in all.
ContextSplit of_degree(ContextSplit split, Way way, int degree) {
  if (way == Way::kAllToAll) split.heads = degree;
  split.positions = degree / split.heads;
  return split;
}

}  // namespace

StrategyKeys context_keys() { return {schema_of_context, nullptr}; }  // tensor_keys() has what goes with no split

ContextSplit read_context(const JsonReader& json, Scenario& scenario, Json& effective) {
  const auto degree = json.required<int>("degree");
  json.expect(degree >= 1, "degree", "at least 1");
  const Way way = json.has("method") ? read_word(json, "method", kWays) : Way::kRing;
  ContextSplit split;
  if (way == Way::kAllGather) split.method = ContextSplit::Method::kAllGather;
  if (way != Way::kAllToAllAndRing) {
    if (json.has("all_to_all_degree"))
      json.fail("all_to_all_degree", "expected none but with \"method\": \"all_to_all_and_ring\"");
  } else {
    split.heads = json.required<int>("all_to_all_degree");
    json.expect(split.heads >= 2 && degree % split.heads == 0 && degree > split.heads, "all_to_all_degree",
                "2 or more workers, a divisor of the degree of " + std::to_string(degree) + " and less than it");
  }
  if (json.has("balance")) {
    split.is_balanced = read_word(json, "balance", kBalances);
    if (way == Way::kAllToAll)
      json.fail("balance", "expected none with \"all_to_all\", whose workers compute heads with all positions");
  }
  json.reject_unknown_keys();
  effective["method"] = name_in(kWays, way);
  split = of_degree(split, way, degree);
  if (degree == 1) return split;
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  const std::string never = net == nullptr ? ", which is no transformer: how its positions are split is not modelled"
                                           : why_whole_samples(*net);
  if (!never.empty()) json.fail("degree", "expected 1 for model " + in_quotes(scenario.model.name) + never);
  if (const std::string reason = why_not(scenario, *net, split); !reason.empty()) {
    const int nearest = nearest_by_ratio(degree, 1, scenario.count(Role::kWorker), [&](int other) {
      return other % (way == Way::kAllToAllAndRing ? split.heads : 1) == 0 &&
             why_not(scenario, *net, of_degree(split, way, other)).empty();
    });
    json.fail("degree", "expected a degree that divides the " + reason + "; found " + std::to_string(degree) +
                            ", and the nearest that does is " + std::to_string(nearest));
  }
  scenario.model.context = split;
  rebuild_workloads(scenario, json.file_name() + ": " + json.pointer());
  return split;
}

std::string title_of(const ContextSplit& split) {
  const std::string ring = split.method == ContextSplit::Method::kRing ? "a ring" : "all-gathers";
  const std::string how = split.heads == 1 ? ring : split.positions == 1 ? "all-to-alls" : "all-to-alls and " + ring;
  return "context parallel over " + std::to_string(split.degree()) + " workers by " + how;
}

}  // namespace rehearse
