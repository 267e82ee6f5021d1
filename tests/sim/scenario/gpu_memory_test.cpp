#include "sim/scenario/gpu_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/scenario/gradient_units.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

const Json kT5{{"family", "transformer"},
               {"layers", 24},
               {"width", 1024},
               {"heads", 32},
               {"vocabulary", 32128},
               {"decoder_layers", 24},
               {"head_features", 128},
               {"feed_forward", 16384},
               {"relative_positions", 32},
               {"sequence_length", 512},
               {"normalisation", "pre"},
               {"rms_norm", true},
               {"feed_forward_biases", false},
               {"dropout", true},
               {"attention_biases", false},
               {"head", "language_model"},
               {"tied_embedding", true}};
const Json kLlama3{{"family", "transformer"},
                   {"layers", 32},
                   {"width", 4096},
                   {"heads", 32},
                   {"vocabulary", 128256},
                   {"feed_forward", 14336},
                   {"kv_heads", 8},
                   {"sequence_length", 1024},
                   {"normalisation", "pre"},
                   {"rms_norm", true},
                   {"attention_biases", false},
                   {"feed_forward_biases", false},
                   {"gated_feed_forward", true},
                   {"rotary_positions", true},
                   {"dropout", false},
                   {"fused_attention", true},
                   {"head", "language_model"},
                   {"tied_embedding", false}};
constexpr std::int64_t kT5Parameters = 2'851'598'336, kLlama2Parameters = 6'738'415'616,
                       kLlama3Parameters = 8'030'261'248;

Json llama2() {
  Json structure = kLlama3;
  structure["vocabulary"] = 32000;
  structure["feed_forward"] = 11008;
  structure["kv_heads"] = 32;
  return structure;
}

/// On machines with 8 GPUs of 4 TiB, all precisions.
Json on_gpus(const Json& structure, int gpus, const std::string& sharding, const std::string& precision = "bf16",
             const std::string& optimizer = "adam") {
  Json scenario = test::timed_scenario(gpus / 8, {{"4B"}}, {{"kind", "all_reduce"}, {"sharding", sharding}}, 8);
  scenario["training"]["strategy"].erase("bucket_size");
  scenario["workload"]["model"]["structure"] = structure;
  scenario["workload"]["optimizer"] = optimizer;
  scenario["workload"]["precision"] = precision;
  Json& gpu = scenario["cluster"]["groups"][0]["instance"]["accelerator"];
  gpu["memory"] = "4TiB";
  gpu["memory_reserved"] = "500MiB";
  gpu["peak_tf32"] = gpu["peak_bf16"] = "1Tflops";
  return scenario;
}

GpuMemory memory_of(const Json& json) {
  const Scenario scenario = test::resolved(json);
  return gpu_memory(scenario, scenario.groups.front());
}

std::int64_t states_of(const GpuMemory& memory) {
  return (memory.weights + memory.gradients + memory.optimizer).value();
}

}  // namespace

TEST_CASE("ZeRO 0 to 3 keep 16, 4 + 12/d, 2 + 14/d and 16/d bytes of a parameter with Adam in 16 bits, exactly") {
  const std::vector<std::pair<Json, std::int64_t>> models{
      {kT5, kT5Parameters}, {llama2(), kLlama2Parameters}, {kLlama3, kLlama3Parameters}};
  const std::vector<std::pair<std::string, int>> optimizers{{"adam", 8}, {"momentum", 4}, {"sgd", 0}};
  constexpr int kMaster = 4;
  for (const auto& [structure, p] : models)
    for (const auto& [optimizer, moments] : optimizers)
      for (const int d : {8, 24, 64}) {
        CAPTURE(d);
        const std::string& its_optimizer = optimizer;
        CAPTURE(its_optimizer);
        const auto rounded_up = [&, parameters = p](std::int64_t bytes) { return (parameters * bytes + d - 1) / d; };
        for (const char* precision : {"fp16", "bf16"}) {
          const auto states = [&, &name = optimizer, &model = structure](const char* sharding) {
            return states_of(memory_of(on_gpus(model, d, sharding, precision, name)));
          };
          const int own = kMaster + moments;
          CHECK(states("none") == p * (4 + own));
          CHECK(states("optimizer") == p * 4 + rounded_up(own));
          CHECK(states("gradients") == p * 2 + rounded_up(2 + own));
          CHECK(states("parameters") == rounded_up(4 + own));
        }
        const GpuMemory single = memory_of(on_gpus(structure, d, "none", "tf32", optimizer));
        CHECK(states_of(single) == p * (8 + moments));
        CHECK(states_of(memory_of(on_gpus(structure, d, "optimizer", "fp32", optimizer))) ==
              p * 8 + rounded_up(moments));
      }
}

TEST_CASE("states as stated: Megatron's fp32 gradients, FSDP's fp32 shards, 16-bit moments, no master weights") {
  const auto states = [](const Json& stated, const char* sharding, const char* sent = nullptr) {
    Json scenario = on_gpus(kLlama3, 8, sharding);
    if (!stated.is_null()) scenario["workload"]["states"] = stated;
    if (sent != nullptr) scenario["training"]["strategy"]["gradient_precision"] = sent;
    return states_of(memory_of(scenario));
  };
  constexpr std::int64_t p = kLlama3Parameters;
  CHECK(states({{"gradients", "fp32"}}, "none") == 18 * p);
  CHECK(states(nullptr, "none", "fp32") == 18 * p);  // what is sent in fp32 was added up in it
  CHECK(states({{"gradients", "bf16"}}, "none", "fp32") == 16 * p);
  CHECK(states({{"gradients", "fp32"}}, "optimizer") == 6 * p + 12 * p / 8);
  CHECK(states({{"weights", "fp32"}, {"gradients", "fp32"}}, "none") == 18 * p);  // with what kernels read
  CHECK(states({{"weights", "fp32"}}, "parameters") == 16 * p / 8);  // the weights are those that the optimizer updates
  CHECK(states({{"master_weights", "bf16"}, {"moments", "bf16"}}, "none") == 10 * p);
  CHECK(states({{"master_weights", "none"}}, "none") == 12 * p);
}

TEST_CASE("weights in fp8 are 1 byte beside the others, 2 where units want transposed copies, none of sharded ones") {
  constexpr std::int64_t p = kLlama3Parameters,
                         products = p - 2 * std::int64_t{128256} * 4096 - 65 * std::int64_t{4096};
  const auto states = [](const char* recipe, const char* sharding, const char* architecture) {
    Json scenario = on_gpus(kLlama3, 8, sharding);
    scenario["workload"]["fp8"] = recipe;
    for (const char* peak : {"peak_fp8", "peak_fp4"})
      scenario["cluster"]["groups"][0]["instance"]["accelerator"][peak] = "2Tflops";
    scenario["cluster"]["groups"][0]["instance"]["accelerator"]["architecture"] = architecture;
    if (std::string_view{recipe} == "nvfp4") scenario["workload"]["wide_layers"] = 0;
    return states_of(memory_of(scenario));
  };
  CHECK(states("nvfp4", "none", "Blackwell") == 16 * p + products);  // half a byte in either layout
  for (const char* recipe : {"delayed", "current"}) {
    CHECK(states(recipe, "none", "Hopper") == 16 * p + 2 * products);
    CHECK(states(recipe, "none", "Blackwell") == 16 * p + products);
    CHECK(states(recipe, "optimizer", "Hopper") == 4 * p + 12 * p / 8 + 2 * products);
    CHECK(states(recipe, "parameters", "Hopper") == 16 * p / 8);
  }
  CHECK(states("mxfp8", "none", "Blackwell") == 16 * p + 2 * products);
  for (const char* recipe : {"tensorwise", "rowwise", "none"}) CHECK(states(recipe, "none", "Hopper") == 16 * p);
}

TEST_CASE("parts add up; gathered units are the root and two blocks, a gradient of one block is sent") {
  const GpuMemory memory = memory_of(on_gpus(kLlama3, 64, "parameters"));
  Bytes sum{};
  for (const auto& [name, part] : kGpuMemoryParts) sum += memory.*part.bytes;
  CHECK(memory.total() == sum);
  constexpr std::int64_t root = 2 * 128'256LL * 4096 + 4096, block = (kLlama3Parameters - root) / 32;
  CHECK(memory.gathered_units == Bytes{2 * (root + 2 * block)});
  CHECK(memory.communication_buffers == Bytes{2 * root});  // the largest unit
  CHECK(memory.logits == Bytes{8LL * 1024 * 128'256});     // bf16, fp32 and the gradient
  CHECK(memory.input == Bytes{8LL * 1024});
  CHECK(memory.context == Bytes{500LL << 20});
  CHECK(memory_of(on_gpus(kLlama3, 64, "none", "fp32")).logits == Bytes{8LL * 1024 * 128'256});

  const Scenario scenario = test::resolved(on_gpus(kLlama3, 64, "parameters"));
  Json json;
  add_gpu_memory(scenario, json);
  std::int64_t of_json = 0;
  for (const auto& [key, bytes] : json["gpu_memory_parts_B"].items()) of_json += bytes.get<std::int64_t>();
  CHECK(json["gpu_memory_needed_B"] == of_json);
  CHECK(json["gpu_memory_available_B"] == 4LL << 40);
}

TEST_CASE("buckets that repeat gradients and NCCL's buffers are no part, and told where they would not fit") {
  // 24 channels x (4 MiB + 4,915,200 B + 524,288 B), as src/init.cc has it.
  constexpr Bytes nccl{24 * (4'194'304LL + 4'915'200 + 524'288)};
  const auto uncounted = [](const Json& json) { return memory_of(json).uncounted; };
  CHECK(uncounted(on_gpus(kLlama3, 64, "none")) == UncountedMemory{Bytes{2 * kLlama3Parameters}, nccl});
  CHECK(uncounted(on_gpus(kLlama3, 64, "none", "fp32")) == UncountedMemory{Bytes{4 * kLlama3Parameters}, nccl});
  for (const char* sharding : {"gradients", "parameters"})
    CHECK(uncounted(on_gpus(kLlama3, 64, sharding)) == UncountedMemory{{}, nccl});
  Json scenario = on_gpus(kLlama3, 64, "none");
  scenario["training"]["strategy"]["cycle_time"] = "5ms";  // copied to one buffer, which is a part
  CHECK(uncounted(scenario) == UncountedMemory{{}, nccl});
  scenario["training"]["strategy"].erase("cycle_time");
  scenario["training"]["strategy"]["bucket_size"] = "0B";  // each by itself, where it is
  CHECK(uncounted(scenario) == UncountedMemory{{}, nccl});

  // One byte too few for them, and as many as they take.
  scenario["training"]["strategy"].erase("bucket_size");
  const GpuMemory memory = memory_of(scenario);
  Json& has = scenario["cluster"]["groups"][0]["instance"]["accelerator"]["memory"];
  const auto warns = [&](Bytes bytes) {
    has = std::to_string(bytes.value()) + "B";
    for (const std::string& warning : test::resolved(scenario).warnings)
      if (warning.find("14.96 GiB of gradients again in the buckets of PyTorch's DistributedDataParallel, unless "
                       "gradient_as_bucket_view, and up to 0.22 GiB of NCCL's buffers") != std::string::npos)
        return true;
    return false;
  };
  const Bytes all = memory.total() + memory.uncounted.total();
  CHECK_FALSE(warns(all));
  CHECK(warns(all - Bytes{1}));
  CHECK(warns(memory.total()));
}

TEST_CASE("what exceeds the memory is told by parts, with what was found to fit and what is not modelled") {
  Json scenario = on_gpus(kLlama3, 8, "none");
  scenario["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] = "80GiB";
  const auto message = [&] {
    try {
      (void)test::resolved(scenario);
    } catch (const NoResultError& error) { return std::string{error.what()}; }
    return std::string{};
  };
  const auto says = [&](const std::string& text) { return message().find(text) != std::string::npos; };
  CHECK(says("89.75 GiB master weights and moments of the optimizer, "));
  CHECK(says(
      "; in the forward pass, as loss begins); would fit: \"sharding\": \"optimizer\" in the strategy, or "
      "\"tensor\": { "
      "\"degree\": 2, \"sequence_parallel\": true } in the strategy (4 samples a step instead of 8); weights on the "
      "host"));
  scenario["training"]["strategy"]["global_batch"] = 64;  // then it has as many
  CHECK(says("\"sequence_parallel\": true } in the strategy; weights on the host"));
  scenario["training"]["strategy"].erase("global_batch");
  Json split = scenario;
  split["training"]["strategy"]["tensor"] = {{"degree", 2}, {"sequence_parallel", true}};
  (void)test::resolved(split);  // as it says
  Json warned = scenario;
  warned["training"]["memory_check"] = "warn";
  const std::vector<std::string> warnings = test::resolved(warned).warnings;
  CHECK(
      std::ranges::any_of(warnings, [](const std::string& w) { return w.starts_with("GPU memory exceeded: group"); }));
  // As it says.
  scenario["training"]["strategy"]["sharding"] = "optimizer";
  CHECK(message().empty());
  scenario["workload"]["batch_per_worker"] = 64;
  CHECK(says("activations"));
  const std::string told = message();
  const std::string::size_type at = told.find("batch_per_worker ");
  REQUIRE(at != std::string::npos);
  const int batch = std::stoi(told.substr(at + 17));
  scenario["workload"]["batch_per_worker"] = batch;
  CHECK(message().empty());
  scenario["workload"]["batch_per_worker"] = batch + 1;
  CHECK(says("GPU memory exceeded"));
}

TEST_CASE("what would fit names no sharding that does not go with a split backward pass") {
  for (const char* schedule : {"zb1p", "zb2p", "zbv", "dualpipev", "dualpipe"})
    for (const auto& [sharding, memory] : {std::pair{"none", "40GiB"}, {"optimizer", "30GiB"}}) {
      CAPTURE(schedule);
      CAPTURE(sharding);
      Json json = on_gpus(kLlama3, 8, sharding);
      json["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] = memory;
      json["training"]["strategy"]["pipeline"] = {{"stages", 2}, {"microbatches", 4}, {"schedule", schedule}};
      std::string told;
      try {
        (void)test::resolved(json);
      } catch (const NoResultError& error) { told = error.what(); }
      CHECK(told.find("would fit") != std::string::npos);
      CHECK(told.find("\"gradients\"") == std::string::npos);
      CHECK(told.find("\"parameters\"") == std::string::npos);
    }
}

TEST_CASE("a stated global batch holds for what would fit: smaller micro-batches are more, machines divide it") {
  Json json = on_gpus(kLlama3, 8, "optimizer");
  json["workload"]["batch_per_worker"] = 2;
  Json& strategy = json["training"]["strategy"];
  strategy["pipeline"] = {{"stages", 2}, {"schedule", "gpipe"}, {"microbatches", 8}};
  const Scenario whole = test::resolved(json);
  const double needed = as_double(gpu_memory_needed(whole, whole.first_workers()));
  const auto told = [&](double share) {
    Json scenario = json;
    scenario["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] =
        std::to_string(static_cast<std::int64_t>(share * needed)) + "B";
    try {
      (void)test::resolved(scenario);
    } catch (const NoResultError& error) { return std::string{error.what()}; }
    return std::string{};
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(says(told(0.75), "batch_per_worker 1 instead of 2 (32 samples a step instead of 64)"));
  strategy["pipeline"].erase("microbatches");
  strategy["global_batch"] = 64;  // with GPipe 16 micro-batches of one sample keep as much as 8 of two
  CHECK(says(told(0.75), "GPU memory exceeded"));
  CHECK_FALSE(says(told(0.75), "batch_per_worker"));
  strategy["pipeline"]["schedule"] = "1f1b";  // keeps two of them
  const Scenario alternating = test::resolved(json);
  CHECK(says(told(0.99 * as_double(gpu_memory_needed(alternating, alternating.first_workers())) / needed),
             "batch_per_worker 1 instead of 2"));
  strategy["global_batch"] = 8;  // of four pipelines with two samples each: no more machines have whole micro-batches
  const Scenario one = test::resolved(json);
  const std::string few = told(0.99 * as_double(gpu_memory_needed(one, one.first_workers())) / needed);
  CHECK(says(few, "GPU memory exceeded"));
  CHECK_FALSE(says(few, "machines of"));
}

TEST_CASE("no more GPUs are tried for each layer than stages and groups of shards leave") {
  Json json = load_json_file(source_folder() + "/scenarios/nanotron-ultrascale.json");
  json["cluster"]["groups"][0]["count"] = 1;
  json["workload"]["batch_per_worker"] = 64;  // far too large
  json["training"]["strategy"]["sharding"] = "none";
  json["training"]["strategy"].erase("reduce_scatter");
  for (const auto& [stages, degree] : {std::pair{4, 2}, std::pair{2, 4}, std::pair{8, 1}, std::pair{2, 1}}) {
    CAPTURE(stages);
    json["training"]["strategy"]["tensor"]["degree"] = degree;
    json["training"]["strategy"]["pipeline"]["stages"] = stages;
    const Scenario scenario = test::resolved(json);
    CHECK(gpu_memory_needed(scenario, scenario.first_workers()) > scenario.first_workers().accelerator->memory);
  }
  json["training"]["strategy"]["sharding"] = "optimizer";
  json["training"]["strategy"]["shard_group"] = 4;  // of four groups of two GPUs: more GPUs a layer would leave fewer
  json["training"]["strategy"]["pipeline"]["stages"] = 1;
  json["training"]["strategy"]["tensor"]["degree"] = 2;
  CHECK(gpu_memory_needed(test::resolved(json), test::resolved(json).first_workers()) > Bytes{});
}

TEST_CASE("what would fit leaves whole models, and whole groups that share states") {
  const auto told = [](Json scenario, const char* memory) {
    scenario["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] = memory;
    try {
      (void)test::resolved(scenario);
    } catch (const NoResultError& error) { return std::string{error.what()}; }
    return std::string{};
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  // Split as well, layers in as many stages as there are GPUs would be of more workers than there are.
  Json stages = on_gpus(kLlama3, 8, "none");
  stages["training"]["strategy"]["pipeline"] = {{"stages", 8}, {"microbatches", 8}};
  const std::string of_stages = told(stages, "12GiB");
  CHECK(says(of_stages, "GPU memory exceeded"));
  CHECK_FALSE(says(of_stages, "\"tensor\""));
  // Of 16 GPUs of which 4 or 8 hold layers together, no 8 share anything.
  Json shards = on_gpus(kLlama3, 16, "optimizer");
  shards["training"]["strategy"]["shard_group"] = 8;
  const std::string of_shards = told(shards, "6GiB");
  CHECK(says(of_shards, "GPU memory exceeded"));
  CHECK_FALSE(says(of_shards, "\"degree\": 4"));
  CHECK_FALSE(says(of_shards, "\"degree\": 8"));
  // With a second machine of the first group 4 pipelines of 6 stages would be 5 and a third, with a fourth they are 8.
  Json machines = on_gpus(kLlama3, 8, "parameters");
  machines["training"]["strategy"]["pipeline"] = {{"stages", 6}, {"microbatches", 6}};
  Json& groups = machines["cluster"]["groups"];
  groups.push_back(groups[0]);
  groups[1]["name"] = "others";
  groups[1]["count"] = 2;
  const std::string of_machines = told(machines, "14GiB");
  CHECK(says(of_machines, "count 4 instead of 1 machines of \"workers\""));
  groups[0]["count"] = 4;
  CHECK(told(machines, "14GiB").empty());  // as it says
}

TEST_CASE("a checkpoint has weights, master weights and moments; an update reads and writes 28 bytes with Adam") {
  CHECK(checkpoint_bytes(test::resolved(on_gpus(kLlama3, 8, "none"))) == Bytes{14 * kLlama3Parameters});
  CHECK(checkpoint_bytes(test::resolved(on_gpus(kLlama3, 8, "none", "fp32"))) == Bytes{12 * kLlama3Parameters});
  CHECK(checkpoint_bytes(test::resolved(on_gpus(kLlama3, 8, "none", "fp16", "sgd"))) == Bytes{6 * kLlama3Parameters});
  CHECK(update_bytes(default_states(Precision::kFp32), 2) == 28);
  CHECK(update_bytes(default_states(Precision::kBf16), 2) == 28);
  CHECK(update_bytes(default_states(Precision::kFp16), 1) == 20);
  States megatron = default_states(Precision::kBf16);
  megatron.gradients = Precision::kFp32;
  CHECK(update_bytes(megatron, 2) == 30);
}

TEST_CASE("sharded states go in units of blocks by default, gradients of whole models in buckets of 25 MiB") {
  const auto units = [](const Json& json) { return plan_gradient_units(test::resolved(json), 0).units; };
  const std::vector<GradientUnit> blocks = units(on_gpus(kLlama3, 8, "parameters"));
  CHECK(blocks.size() == 33);
  CHECK(blocks.front().name == "encoder/layer32");
  CHECK(blocks.back().is_root);
  Json stated = on_gpus(kT5, 8, "none", "fp32");
  const auto buckets = units(stated).size();
  stated["training"]["strategy"]["bucket_size"] = "25MiB";
  stated["training"]["strategy"]["first_bucket_size"] = "1MiB";
  CHECK(units(stated).size() == buckets);
  CHECK(units(stated).size() > 100);
  stated["training"]["strategy"].erase("first_bucket_size");
  stated["training"]["strategy"]["bucket_size"] = "0B";
  CHECK(units(stated).size() == static_cast<std::size_t>(test::resolved(stated).workload.trainable_tensors()));
}

}  // namespace rehearse
