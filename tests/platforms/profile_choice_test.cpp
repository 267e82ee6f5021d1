#include "platforms/profile_choice.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "platforms/gpu_distance.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {
namespace {

ProfileChoice choice_for(const std::string& gpu, const std::string& model, bool has_servers, bool computes = true,
                         bool has_data_sheet = true) {
  const std::filesystem::path root = source_folder();
  const Catalog catalog{{{root / "platforms/catalog", root / "workloads/models", root / "calibration/profiles"}}};
  const Json nobody;
  const JsonReader asked_by{nobody, "test"};
  Accelerator accelerator = read_accelerator(gpu, catalog.accelerator(gpu, asked_by));
  if (!has_data_sheet) accelerator.l2 = Bytes{};
  return choose_profile({.gpus = {accelerator}, .model = model, .has_servers = has_servers, .computes = computes},
                        catalog, asked_by);
}

}  // namespace

TEST_CASE("the profile that covers GPU, strategy and model is taken, and the reason said") {
  const ProfileChoice bert = choice_for("V100", "hkbu/bert_large", true);
  CHECK(bert.name == "hkbu-ddl-benchmarks");
  CHECK(bert.reason == "fitted on GPU V100, parameter_server, model \"hkbu/bert_large\"");
  CHECK(choice_for("T4", "pollux/yolov3", false).name == "pollux-t4-traces");
}

TEST_CASE("steps are computed from the data sheet where no profile was fitted on the GPU with the model") {
  for (const auto& [gpu, model] : {std::pair{"H100", "resnet50"}, {"V100", "nobody's"}, {"H100", "nobody's"}}) {
    const ProfileChoice choice = choice_for(gpu, model, false);
    CHECK(choice.name == "kernels");
    CHECK(choice.reason == std::string{"no profile was fitted with model \""} + model + "\" on GPU " + gpu);
  }
  CHECK(choice_for("V100", "resnet50", false).name != "kernels");
}

TEST_CASE(
    "without a data sheet, or anything to compute, the profile of the nearest GPU is taken, and what it lacks said") {
  CHECK(choice_for("H100", "nobody's", false, true, false).name != "kernels");
  const ProfileChoice choice = choice_for("H100", "nobody's", false, false);
  CHECK(choice.name != "kernels");
  CHECK(choice.reason.find("not on GPU H100, model \"nobody's\"") != std::string::npos);
  CHECK(choice.reason.find("; the nearest that it knows: GPU ") != std::string::npos);
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
