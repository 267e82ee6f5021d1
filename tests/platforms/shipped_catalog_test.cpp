// Every entry of the shipped catalog against what data sheets have in common.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "platforms/catalog.hpp"
#include "platforms/interconnect.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

const Json kNoFile;

JsonReader the_test() { return {kNoFile, "test"}; }

const Catalog& whole_catalog() {
  static const std::string root = source_folder();
  static const Catalog catalog{
      {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  return catalog;
}

std::string refusal_of_gpu(const Json& gpu) {
  try {
    (void)read_accelerator("X", JsonReader{gpu, "c.json"});
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

/// Of one GPU to all others of its machine.
double gpu_rate(const Interconnect& interconnect) {
  if (interconnect.nvswitch) return interconnect.nvswitch->value();
  int links = 0;
  for (const NvlinkPair& pair : interconnect.nvlinks) links += pair.a == 0 || pair.b == 0 ? pair.count : 0;
  return links > 0 ? interconnect.nvlink_rate.value() * links : interconnect.pcie.value();
}

}  // namespace

TEST_CASE("peaks of every GPU follow from its multiprocessors and clock, and rise as precision falls") {
  for (const std::string& name : whole_catalog().accelerator_names()) {
    CAPTURE(name);
    const JsonReader entry = whole_catalog().accelerator(name, the_test());
    const Accelerator gpu = read_accelerator(name, entry);  // refuses rates that are not dense ones at boost clock
    CHECK(gpu.source.size() > 60);
    CHECK(gpu.boost_clock_hz > 0.5e9);
    CHECK(gpu.boost_clock_hz < 3e9);
    CHECK(gpu.l2 > Bytes{1'000'000});
    CHECK(gpu.process_nm > 0);
    // FLOPs of a multiprocessor in a cycle are a power of two with vector units times 1 or 2, or with matrix units, whose clock
    // may be up to 15 % below the other.
    const double per_cycle = gpu.peak_fp16.value() / gpu.multiprocessors / gpu.boost_clock_hz;
    const double step = std::log2(gpu.architecture == "Kepler" ? per_cycle / 1.5 : per_cycle);
    CHECK(std::exp2(step - std::ceil(step - 0.05)) > 0.85);
    CHECK(per_cycle < 9000);
    const bool is_reduced = entry.has("peak_bf16");
    const bool is_nvidia_from_ampere = gpu.architecture == "Ampere" || gpu.architecture == "Ada" ||
                                       gpu.architecture == "Hopper" || gpu.architecture == "Blackwell";
    CHECK(is_reduced == (is_nvidia_from_ampere || gpu.architecture.starts_with("CDNA")));
    CHECK((gpu.peak_tf32 > FlopsPerSecond{}) == (is_nvidia_from_ampere || gpu.architecture == "CDNA 3"));
    CHECK((gpu.peak_fp8 > FlopsPerSecond{}) ==
          (is_nvidia_from_ampere ? gpu.architecture != "Ampere" : gpu.architecture == "CDNA 3"));
    CHECK((gpu.peak_fp4 > FlopsPerSecond{}) == (gpu.architecture == "Blackwell"));
    if (gpu.peak_fp4 > FlopsPerSecond{}) CHECK(gpu.peak_fp4.value() >= 2 * gpu.peak_fp8.value());
    CHECK(entry.has("peak_bf16_sparse") == (is_nvidia_from_ampere || gpu.architecture == "CDNA 3"));
    double before = gpu.peak_fp32.value();
    for (const FlopsPerSecond peak : {gpu.peak_tf32, gpu.peak_bf16, gpu.peak_fp8}) {
      if (peak == FlopsPerSecond{}) continue;
      CHECK(peak.value() >= 0.999 * before);
      before = peak.value();
    }
    if (is_reduced && gpu.name != "MI100") CHECK(gpu.peak_bf16 == gpu.peak_fp16);
    if (gpu.peak_fp32_matrix > FlopsPerSecond{})
      CHECK(gpu.peak_fp32_matrix.value() == doctest::Approx(2 * gpu.peak_fp32.value()).epsilon(0.003));
  }
}

TEST_CASE("memory, power and host link of every GPU are plausible") {
  for (const std::string& name : whole_catalog().accelerator_names()) {
    CAPTURE(name);
    const Accelerator gpu = read_accelerator(name, whole_catalog().accelerator(name, the_test()));
    const double pass = (gpu.memory / gpu.memory_bandwidth).value();  // once over all of the memory
    CHECK(pass > 0.015);
    CHECK(pass < 0.085);
    CHECK(gpu.peak_fp32.value() / gpu.memory_bandwidth.value() > 9);
    CHECK(gpu.peak_fp32.value() / gpu.memory_bandwidth.value() < 150);
    CHECK(as_double(gpu.memory_reserved) < 0.05 * as_double(gpu.memory));
    if (gpu.power_w > 0) {
      CHECK(gpu.power_w >= 70);
      CHECK(gpu.power_w <= 1400);
    }
    CHECK(gpu.host_link >= BytesPerSecond{8e9});
    CHECK(gpu.host_link.value() < 0.15 * gpu.memory_bandwidth.value());
  }
}

TEST_CASE("links of every interconnect have the rate of their generation") {
  // GB/s of one GPU to the others, one direction.
  const std::map<std::string, std::set<double>> rates{{"PCIe 3", {8, 12}},
                                                      {"PCIe 4", {24}},
                                                      {"PCIe 5", {50}},
                                                      {"NVLink 1", {80}},
                                                      {"NVLink 2", {150}},
                                                      {"NVLink 3", {300}},
                                                      {"NVLink 4", {450}},
                                                      {"NVLink 5", {900}},
                                                      {"NVLink-C2C", {450}},
                                                      {"Infinity Fabric 3", {350}},
                                                      {"Infinity Fabric 4", {448}}};
  for (const std::string& name : whole_catalog().interconnect_names()) {
    CAPTURE(name);
    const JsonReader entry = whole_catalog().interconnect(name, the_test());
    const Interconnect interconnect = read_interconnect(entry, BytesPerSecond{1e9});
    CHECK(entry.required<std::string>("source").size() > 60);
    REQUIRE(rates.contains(interconnect.generation));
    CHECK(rates.at(interconnect.generation).contains(gpu_rate(interconnect) / 1e9));
    const bool has_sharp = interconnect.generation == "NVLink 4" || interconnect.generation == "NVLink 5";
    CHECK(interconnect.reduces_in_switch == has_sharp);
  }
}

TEST_CASE("every instance has a GPU and an interconnect that there are, and nothing is there for no instance") {
  const std::vector<std::string> gpus = whole_catalog().accelerator_names(),
                                 links = whole_catalog().interconnect_names();
  std::set<std::string> used_gpus, used_links;
  for (const std::string& name : whole_catalog().instance_names()) {
    CAPTURE(name);
    const JsonReader entry = whole_catalog().instance(name, the_test());
    const Instance instance = read_instance(name, entry);
    CHECK(instance.source.size() > 60);
    const double nic_per_gpu = instance.nic.value() * instance.nics / std::max(instance.accelerators, 1);
    CHECK(nic_per_gpu > 0.5e8);
    CHECK(nic_per_gpu <= 100e9);
    if (instance.accelerator.empty()) continue;
    REQUIRE(std::ranges::binary_search(gpus, instance.accelerator));
    used_gpus.insert(instance.accelerator);
    if (entry.has("interconnect")) {
      const auto link = entry.required<std::string>("interconnect");
      REQUIRE(std::ranges::binary_search(links, link));
      used_links.insert(link);
      for (const NvlinkPair& pair : read_interconnect(whole_catalog().interconnect(link, the_test()), {}).nvlinks)
        if (instance.accelerators >= 8) CHECK(std::max(pair.a, pair.b) < instance.accelerators);
    }
  }
  for (const std::string& link : links) CHECK_MESSAGE(used_links.contains(link), link);
  // Boards of workstations and of machines that nobody rents out.
  const std::set<std::string> boards{
      "A100 PCIe", "GTX 1080 Ti",  "GTX Titan X",     "M40",       "MI100",         "MI210",
      "MI250",     "P100 SXM2",    "Quadro RTX 8000", "P4",        "RTX 2080 Ti",   "RTX 3090",
      "RTX 4090",  "RTX 6000 Ada", "RTX A6000",       "Titan RTX", "Titan X Pascal"};
  for (const std::string& gpu : gpus) CHECK_MESSAGE(used_gpus.contains(gpu) != boards.contains(gpu), gpu);
}

TEST_CASE("prices of one family are in proportion to its GPUs") {
  const auto price = [](const char* name, const char* region) {
    return read_instance(name, whole_catalog().instance(name, the_test())).usd_per_hour(false, region).value();
  };
  CHECK(price("p5.48xlarge", "us-east-1") == doctest::Approx(8 * price("p5.4xlarge", "us-east-1")).epsilon(1e-3));
  CHECK(price("a2-highgpu-8g", "us-central1") ==
        doctest::Approx(8 * price("a2-highgpu-1g", "us-central1")).epsilon(1e-3));
  CHECK(price("g2-standard-96", "us-central1") ==
        doctest::Approx(2 * price("g2-standard-48", "us-central1")).epsilon(1e-3));
  CHECK(price("NC80adis_H100_v5", "eastus") == doctest::Approx(2 * price("NC40ads_H100_v5", "eastus")).epsilon(1e-3));
}

TEST_CASE("rates that are not dense ones at boost clock are refused") {
  Json gpu = whole_catalog().accelerator("A100", the_test()).value();
  CHECK(refusal_of_gpu(gpu) == "accepted");
  Json wrong = gpu;
  wrong["peak_bf16"] = "624Tflops";
  CHECK(refusal_of_gpu(wrong) ==
        "c.json: /peak_bf16: expected the dense rate, half of \"peak_bf16_sparse\"; found \"624Tflops\"");
  wrong = gpu;
  wrong["multiprocessors"] = 128;
  CHECK(
      refusal_of_gpu(wrong).starts_with("c.json: /peak_fp32: expected 2 * multiprocessors * cores_per_multiprocessor"));
  wrong = gpu;
  wrong["boost_clock"] = "1.41GHz";
  CHECK(refusal_of_gpu(wrong) ==
        "c.json: /boost_clock: expected a clock in megahertz, such as \"1410MHz\"; found \"1.41GHz\"");
  wrong = gpu;
  wrong.erase("cores_per_multiprocessor");
  CHECK(refusal_of_gpu(wrong).starts_with("c.json: /boost_clock: expected \"cores_per_multiprocessor\" beside it"));
  const Json bare{{"pcie", "12GBps"}, {"reduces_in_switch", true}};
  CHECK_THROWS_WITH_AS((void)read_interconnect(JsonReader{bare, "c.json"}, {}),
                       "c.json: /reduces_in_switch: expected a rate \"nvswitch\" beside it; found true", InputError);
}

}  // namespace rehearse
