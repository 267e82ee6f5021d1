#include "sim/scenario/unmodelled.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

namespace rehearse {

namespace {

struct Unmodelled {
  std::string_view words;  // separated by spaces
  std::string_view what;   // "is not modelled" follows
  std::string_view instead;
  bool is_said_otherwise = false;  // it is modelled, under another name: "has another name here" follows
};

constexpr std::string_view kContext = R"("context": { "degree": 8 } in an "all_reduce" strategy says it)";
constexpr std::string_view kUlysses =
    R"("context": { "degree": 8, "method": "all_to_all" } in an "all_reduce" strategy says it)";
constexpr std::string_view kTensor = R"("tensor": { "degree": 8 } in an "all_reduce" strategy says it)";
constexpr std::string_view kFp8 = R"("fp8": "delayed" beside "precision": "bf16" in the workload says it)";
constexpr std::string_view kFp4 = R"("fp8": "nvfp4" beside "precision": "bf16" in the workload says it)";
constexpr std::string_view kSequenceParallel =
    R"("tensor": { "degree": 8, "sequence_parallel": true } in an "all_reduce" strategy says it)";

constexpr std::string_view kOffload = R"("offload": { "optimizer": 1 } in an "all_reduce" strategy says it)";

constexpr auto kKeys = std::to_array<Unmodelled>({
    {"tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size tensor_parallelism "
     "model_parallel tp "
     "tp_size tp_degree",
     "tensor parallelism", kTensor, true},
    {"sequence_parallel sequence_parallelism sp", "sequence parallelism", kSequenceParallel, true},
    {"ulysses", "sequence parallelism by exchanges of heads", kUlysses, true},
    {"context_parallel context_parallel_size context_parallel_degree context_parallelism ring_attention cp cp_size",
     "context parallelism", kContext, true},
    {"expert_parallel expert_parallel_size expert_model_parallel_size expert_parallelism ep ep_size",
     "expert parallelism", R"("experts": { "degree": 8 } in an "all_reduce" strategy says it)", true},
    {"recompute recomputation activation_recomputation activation_checkpointing gradient_checkpointing "
     "recompute_granularity "
     "checkpoint_activations remat",
     "activation recomputation", R"("recompute": "full", or a list of parts, in the workload says it)", true},
    {"offload_optimizer optimizer_cpu_offload optimizer_offload optimizer_offload_fraction zero_offload",
     "keeping the optimizer's states on the host", kOffload, true},
    {"offload_activations activation_offload activation_offloading cpu_offloading cpu_offloading_num_layers "
     "save_on_cpu",
     "keeping activations on the host", R"("offload": { "activations": 1 } in an "all_reduce" strategy says it)", true},
    {"cpu_offload offload_param offload_parameters nvme_offload", "offloading of weights, or to disks,",
     R"("offload": { "optimizer": 1 } in an "all_reduce" strategy keeps the optimizer's states on the host)"},
    {"lora lora_rank lora_r peft peft_config adapters adapter", "low-rank adapters",
     R"("lora": { "rank": 16 } in the workload says it)", true},
    {"qlora frozen frozen_parameters trainable_parameters freeze freezes",
     "training of a part of the parameters but by low-rank adapters",
     R"("lora": { "rank": 16 } in the workload has those)"},
    {"virtual_stages virtual_pipeline_stages virtual_pipeline_model_parallel_size "
     "num_layers_per_virtual_pipeline_stage",
     "an interleaved pipeline",
     R"("pipeline": { "schedule": "interleaved", "chunks": 2, ... } in an "all_reduce" strategy says it)", true},
    {"hybrid_shard hsdp shard_group_size sharding_group_size replicas shard_degree partition_group_size",
     "hybrid sharding, among the GPUs of a group with replicas of it,",
     R"("shard_group": 8 beside "sharding" in an "all_reduce" strategy says it)", true},
    {"zero_hpz_partition_size hpz", "a second partition of the parameters, inside of machines (ZeRO++)",
     "what is sharded is gathered from all that share it"},
    {"fp8 fp8_recipe fp8_format float8 mxfp8 transformer_engine", "training in fp8", kFp8, true},
    {"fp4 nvfp4 fp4_recipe", "training in fp4", kFp4, true},
    {"int8 quantization", "training in integers", "precisions are fp32, tf32, fp16, bf16, fp8 and fp4"},
    {"num_layers_at_end_in_bf16", "layers at the end whose products stay in 16 bits",
     R"("wide_layers": 4 beside "fp8" in the workload says it)", true},
    {"num_layers_at_start_in_bf16 first_last_layers_bf16", "layers at the beginning whose products stay in 16 bits",
     R"("wide_layers" are the last ones)"},
    {"gradient_compression compression sparsification top_k powersgd",
     "compression of gradients but by their precision", "gradient_precision says in how many bits they are sent"},
    {"num_workers dataloader_num_workers num_parallel_calls data_loader dataloader prefetch_factor num_loaders",
     "what loads samples", R"("input": { "decode_time": "8ms", "loaders": 8 } in the workload says it)", true},
    {"sequence_length seq_len seq_length max_seq_len max_seq_length context_length n_ctx", "the length of sequences",
     R"("sequence_length" in the structure of "/workload/model" says it)", true},
    {"micro_batch_size mbs per_device_train_batch_size train_micro_batch_size_per_gpu", "the batch of each worker",
     R"("batch_per_worker" in the workload says it)", true},
    {"global_batch_size gbs train_batch_size", "the samples of a step of all workers",
     R"("global_batch" in an "all_reduce" strategy says it)", true},
    {"gradient_accumulation_steps grad_accumulation gradient_accumulation",
     "batches that are added up before an update",
     R"("accumulation_steps" in the strategy says it, or "microbatches" in its pipeline)", true},
    {"local_sgd local_steps diloco", "synchronization after several local steps",
     "accumulation_steps adds gradients up before an update"},
});

/// Of the keys whose words they are.
struct UnmodelledWord {
  std::string_view keys;
  Unmodelled words;
};

constexpr std::string_view kPrecisionKeys = "precision gradient_precision weights gradients master_weights moments";
constexpr std::string_view kFp8Words = "fp8 float8 fp8_e4m3 fp8_e5m2 mxfp8 e4m3 e5m2 amp_fp8 fp8_hybrid";
constexpr std::string_view kPrecisionAndFp8 =
    "precision fp8 gradient_precision weights gradients master_weights moments";
constexpr std::string_view kProducts = "products are in fp32, tf32, fp16, bf16, fp8 or NVFP4";
constexpr std::string_view kAllReduce = "sharded states and all-reduces are those of \"kind\": \"all_reduce\"";

constexpr auto kWords = std::to_array<UnmodelledWord>({
    {"precision", {kFp8Words, "training in fp8", kFp8, true}},
    {"precision", {"fp4 nvfp4", "training in fp4", kFp4, true}},
    {"fp8", {"fp4", "training in fp4", kFp4, true}},
    {kPrecisionAndFp8, {"fp4 nvfp4 mxfp4 float4", "training in this form of fp4", kProducts}},
    {kPrecisionKeys, {"int8 int4 uint8", "training in integers", kProducts}},
    {kPrecisionKeys, {"fp64 float64 double", "training in fp64", kProducts}},
    {"sharding",
     {"hybrid hybrid_shard hsdp mics", "hybrid sharding, among the GPUs of a group with replicas of it,",
      R"("shard_group": 8 beside "sharding": "parameters" says it)", true}},
    {"sharding",
     {"zero++ zeropp hpz", "a second partition of the parameters, inside of machines (ZeRO++)",
      "what is sharded is gathered from all that share it"}},
    {"sharding",
     {"offload zero_offload", "keeping the optimizer's states on the host",
      R"("offload": { "optimizer": 1 } beside "sharding" says it)", true}},
    {"sharding",
     {"zero_infinity infinity", "offloading of weights, or to disks,",
      R"("offload": { "optimizer": 1 } beside "sharding" keeps the optimizer's states on the host)"}},
    {"schedule",
     {"looped looped_bfs looping",
      "a pipeline that takes the micro-batches of a step through one chunk after the other",
      "\"interleaved\" takes them in groups, one forward and one backward pass in turns"}},
    {"schedule",
     {"zb_h1 zbh1", "a pipeline that puts gradients of weights off", R"("schedule": "zb1p" in the pipeline says it)",
      true}},
    {"schedule",
     {"zb_v zero_bubble_v zbvzerobubble", "a folded pipeline that puts gradients of weights off",
      R"("schedule": "zbv" in the pipeline says it)", true}},
    {"schedule",
     {"dualpipe_v dual_pipe_v", "DualPipe with one copy of the model, folded",
      R"("schedule": "dualpipev" in the pipeline says it)", true}},
    {"schedule",
     {"dual_pipe", "DualPipe with two copies of the model", R"("schedule": "dualpipe" in the pipeline says it)", true}},
    {"schedule",
     {"zb_h2 zbh2", "a pipeline that puts gradients of weights off twice as far",
      R"("schedule": "zb2p" in the pipeline says it)", true}},
    {"schedule",
     {"zb zero_bubble", "a pipeline that splits the backward pass",
      R"("zb1p" (ZB-H1), "zb2p" (ZB-H2) and "zbv" (ZB-V) are simulated)"}},
    {"schedule",
     {"chimera", "a pipeline in both directions that does not split the backward pass",
      R"("dualpipe", which does, is simulated)"}},
    {"schedule",
     {"pipedream pipedream_2bw async asynchronous", "an asynchronous pipeline, with several versions of the weights,",
      "a step ends with one update of all stages"}},
    {"kind", {"tensor_parallel tensor_parallelism tp megatron", "tensor parallelism", kTensor, true}},
    {"kind",
     {"expert_parallel moe ep", "expert parallelism",
      R"("experts": { "degree": 8 } in an "all_reduce" strategy says it)", true}},
    {"kind", {"local_sgd diloco fedavg", "synchronization after several local steps", kAllReduce}},
    {"optimizer",
     {"adamw lamb lars adafactor lion muon shampoo sophia adagrad rmsprop adam8bit adam_8bit sgd_momentum nesterov",
      "an optimizer of this name",
      "memory and updates depend on the values that it keeps of each parameter: adam has two, as AdamW and LAMB; "
      "momentum one, as "
      "LARS, Lion, Adagrad and RMSprop; sgd none"}},
});

bool is_among(std::string_view words, std::string_view asked) {
  std::string word;
  for (const char c : asked) word += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::string refusal(const Unmodelled& of) {
  return std::string{of.what} + (of.is_said_otherwise ? " has another name here: " : " is not modelled: ") +
         std::string{of.instead};
}

}  // namespace

std::optional<std::string> unmodelled_key(std::string_view key) {
  for (const Unmodelled& known : kKeys)
    if (is_among(known.words, key)) return refusal(known);
  return {};
}

std::optional<std::string> unmodelled_word(std::string_view key, std::string_view word) {
  for (const UnmodelledWord& known : kWords)
    if (is_among(known.keys, key) && is_among(known.words.words, word)) return refusal(known.words);
  return {};
}

void refuse_unmodelled_keys(const JsonReader& json, const std::vector<std::string>& modelled) {
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.value().items())
    if (std::find(modelled.begin(), modelled.end(), key) != modelled.end())
      continue;
    else if (const auto what = unmodelled_key(key))
      json.fail(key, *what);
}

}  // namespace rehearse
