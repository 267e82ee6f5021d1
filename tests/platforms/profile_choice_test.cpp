#include "platforms/profile_choice.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "platforms/gpu_distance.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {
namespace {

Catalog shipped_profiles() {
  const std::filesystem::path root = source_folder();
  return Catalog{{{root / "platforms/catalog", root / "workloads/models", root / "calibration/profiles"}}};
}

/// One training step in fp32 on GPUs of that name, each worker a machine, over 10 Gbit/s.
TrainingFacts training_of(const std::string& gpu, const std::string& model, int workers = 4) {
  const Json nobody;
  TrainingFacts facts;
  facts.gpus = {read_accelerator(gpu, shipped_profiles().accelerator(gpu, JsonReader{nobody, "test"}))};
  facts.model = model;
  facts.precision = "fp32";
  facts.batch = 64;
  facts.workers = workers;
  facts.strategy = "all_reduce";
  if (workers > 1) facts.nic = BytesPerSecond{1.25e9};
  return facts;
}

ProfileChoice choice_for(const TrainingFacts& facts) {
  const Json nobody;
  return choose_profile(facts, shipped_profiles(), JsonReader{nobody, "test"});
}

}  // namespace

TEST_CASE("the profile with step times of the very workload is taken, and the reason said") {
  TrainingFacts bert = training_of("V100", "hkbu/bert_large", 32);
  bert.links = "PCIe";
  CHECK(choice_for(bert).name == "hkbu-ddl-benchmarks");
  CHECK(choice_for(bert).reason.starts_with("computation from step time; cluster: fitted"));
  bert.strategy = "parameter_server";
  bert.servers = 8;
  CHECK(choice_for(bert).name == "hkbu-ddl-benchmarks");
  CHECK(choice_for(training_of("T4", "pollux/yolov3", 1)).name == "pollux-t4-traces");
}

TEST_CASE("steps that nobody measured are computed from the data sheet") {
  for (const auto& [gpu, model] : {std::pair{"H100", "resnet50"}, {"V100", "nobody's"}, {"H100", "nobody's"}})
    CHECK(choice_for(training_of(gpu, model, 1)).name == "kernels");
  TrainingFacts other_precision = training_of("T4", "resnet50", 1);  // pollux-t4-traces has it in fp16
  CHECK(choice_for(other_precision).name == "kernels");
}

TEST_CASE("of steps from the data sheet the profile with a recipe for the framework is taken, if any has one") {
  TrainingFacts facts = training_of("H100", "nobody's");
  facts.precision = "bf16";
  facts.framework = "nanotron";
  CHECK(choice_for(facts).name == "large-models");
  CHECK(choice_for(facts).others.empty());  // none that is for all other frameworks
  facts.framework = "Megatron-DeepSpeed";   // "kernels" has Megatron
  CHECK(choice_for(facts).name == "large-models");
  for (const char* framework : {"", "NGC PyTorch", "nobody's framework"}) {
    CAPTURE(framework);
    facts.framework = framework;
    CHECK(choice_for(facts).name == "kernels");
  }
}

TEST_CASE("the model's own kernels tell more than a step of another precision, GPU or model, whatever the exchange") {
  TrainingFacts facts = training_of("K80", "mobilenet_v2", 4);
  CHECK(choice_for(facts).name == "kernels");
  facts.strategy = "parameter_server";
  facts.servers = 1;
  CHECK(choice_for(facts).name == "kernels");
}

TEST_CASE("without a data sheet, or anything to compute, another profile is taken") {
  TrainingFacts facts = training_of("H100", "nobody's", 1);
  facts.gpus.front().l2 = Bytes{};
  CHECK(choice_for(facts).name != "kernels");
  facts = training_of("H100", "nobody's");
  facts.computes = false;
  CHECK(choice_for(facts).name != "kernels");
}

TEST_CASE("processors of a network testbed stand for GPUs nowhere, and for their own framework everywhere") {
  TrainingFacts facts = training_of("V100", "nobody's", 128);
  facts.computes = false;
  facts.links = "NVLinks, NVLink 2";
  CHECK(!choice_for(facts).name.starts_with("testbed"));
  facts = training_of("V100", "tensor", 4);
  facts.computes = false;
  facts.nic = BytesPerSecond{12.5e6};
  CHECK(!choice_for(facts).name.starts_with("testbed"));
  facts.framework = "Gloo";
  CHECK(choice_for(facts).name == "testbed");
  facts.framework = "OpenMPI";
  CHECK(choice_for(facts).name == "testbed-mpi-eager");
}

TEST_CASE("a profile that is withheld is neither known nor chosen") {
  const Json nobody;
  const JsonReader asked_by{nobody, "test"};
  Catalog catalog = shipped_profiles();
  const TrainingFacts facts = training_of("T4", "pollux/yolov3", 1);
  CHECK(choose_profile(facts, catalog, asked_by).name == "pollux-t4-traces");
  catalog.withhold_profiles({"pollux-t4-traces"});
  CHECK(choose_profile(facts, catalog, asked_by).name != "pollux-t4-traces");
  CHECK_THROWS_AS((void)catalog.profile("pollux-t4-traces", asked_by), InputError);
}

TEST_CASE("GPUs are as far apart as the logarithms of their peaks and memory bandwidths") {
  const std::filesystem::path root = source_folder();
  const Catalog catalog{{{root / "platforms/catalog", root / "workloads/models", root / "calibration/profiles"}}};
  const Json nobody;
  Accelerator gpu = read_accelerator("V100", catalog.accelerator("V100", JsonReader{nobody, "test"}));
  Accelerator other = gpu;
  other.peak_fp32 = gpu.peak_fp32 * 2;
  other.memory_bandwidth = gpu.memory_bandwidth * 2;
  CHECK(distance(gpu, other) == doctest::Approx(std::sqrt(2) * std::log(2)));
  CHECK(nearest_gpu(gpu, {"K80", "V100"}, catalog).distance == 0);
  CHECK(nearest_gpu(gpu, {"no such GPU"}, catalog).distance == kFarAway);
  gpu.name = "faster";
  gpu.peak_fp32 = gpu.peak_fp32 * 1.1;
  CHECK(nearest_gpu(gpu, {"K80", "V100", "no such GPU"}, catalog).name == "V100");
  CHECK(nearest_gpu(gpu, {}, catalog).name.empty());
}

}  // namespace rehearse
