#include "platforms/catalog.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "platforms/profile.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const std::string kRoot = source_folder();

Catalog shipped() {
  return Catalog{{{kRoot + "/platforms/catalog", kRoot + "/workloads/models", kRoot + "/calibration/profiles"}}};
}

template <class Read>
std::string refusal(const std::string& text, Read read) {
  const Json json = parse_json(text, "c.json");
  try {
    read(JsonReader{json, "c.json"});
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("every shipped entry can be read and has a source") {
  const Catalog catalog = shipped();
  const Json nobody;
  const JsonReader asked_by{nobody, "test"};
  for (const char* gpu : {"K80", "P100", "V100", "T4", "A100", "H100", "H200"}) {
    const Accelerator accelerator = read_accelerator(gpu, catalog.accelerator(gpu, asked_by));
    CHECK(accelerator.source.size() > 20);
    CHECK(accelerator.peak_fp16 >= accelerator.peak_fp32);
  }
  for (const std::string& name : catalog.instance_names()) {
    const Instance instance = read_instance(name, catalog.instance(name, asked_by));
    CHECK(instance.source.size() > 20);
    if (!instance.accelerator.empty()) CHECK_NOTHROW((void)catalog.accelerator(instance.accelerator, asked_by));
  }
  const std::set<std::string> linked{"us-west1", "us-central1", "us-east1", "europe-west1"};  // with each other
  for (const std::string& from : catalog.region_names())
    for (const std::string& to : catalog.region_names()) {
      const RegionLink* link = catalog.region_link(from, to);
      REQUIRE((link != nullptr) == (from == to || (linked.contains(from) && linked.contains(to))));
      if (link == nullptr) continue;
      CHECK(link->source.size() > 20);
      CHECK(link->latency > Seconds{0});
      CHECK((from == to) == !link->per_flow_rate.has_value());
    }
  for (const std::string& name : catalog.profile_names())
    CHECK(read_profile(catalog.profile(name, asked_by)).source.size() > 20);
}

TEST_CASE("large models run on the kernels of the profile of kernels") {
  const auto kernels_of = [](const std::string& name) {
    return load_json_file(kRoot + "/calibration/profiles/" + name + ".json")["kernels"];
  };
  CHECK(kernels_of("large-models") == kernels_of("kernels"));
}

TEST_CASE("an unknown name suggests the nearest, and names cannot leave the catalog") {
  const Catalog catalog = shipped();
  const Json nobody;
  const JsonReader asked_by{nobody, "s.json", "/x"};
  CHECK_THROWS_WITH_AS((void)catalog.accelerator("VV100", asked_by),
                       "s.json: /x: unknown accelerator \"VV100\"; did you mean \"V100\"?", InputError);
  CHECK_THROWS_AS((void)catalog.model("../../calibration/profiles/cm-dare", asked_by), InputError);
  CHECK_THROWS_AS((void)catalog.model("/etc/passwd", asked_by), InputError);
  CHECK_THROWS_AS((void)catalog.profile("", asked_by), InputError);
}

TEST_CASE("mistakes in catalog entries are named with their place") {
  const auto instance = [](JsonReader json) { (void)read_instance("i", json); };
  CHECK(refusal(R"({"vcpus": 4, "memory": "1GB", "nic": "8Gbps", "source": "s"})", instance) == "accepted");
  CHECK(refusal(R"({"vcpus": 0, "memory": "1GB", "nic": "8Gbps", "source": "s"})", instance) ==
        "c.json: /vcpus: expected 1 to 4096; found 0");
  CHECK(refusal(R"({"vcpus": 4, "memory": "1GB", "nic": 8, "source": "s"})", instance)
            .starts_with("c.json: /nic: expected a rate with a unit"));
  CHECK(refusal(R"({"vcpus": 4, "memory": "1GB", "nic": "8Gbps"})", instance).find("source") != std::string::npos);
  CHECK(refusal(R"({"vcpus": 4, "memory": "1GB", "nic": "8Gbps", "nic_burst": "7EiB", "source": "s"})", instance) ==
        "c.json: /nic_burst: expected at most 1PiB; found \"7EiB\"");
  const auto accelerator = [](JsonReader json) { (void)read_accelerator("a", json); };
  CHECK(refusal(R"({"peak_fp32": "1Tflops", "peak_fp16": "1Tflops", "memory_bandwidth": "1TBps", "memory": "80GiB",
                    "memory_reserved": "7EiB", "multiprocessors": 108, "host_link": "25GBps", "source": "s"})",
                accelerator) == "c.json: /memory_reserved: expected at most 1PiB; found \"7EiB\"");
  const auto link = [](JsonReader json) { (void)read_region_link(json); };
  CHECK(refusal(R"({"from": "a", "to": "b", "latency": "2h", "source": "s"})", link) ==
        "c.json: /latency: expected at most 60s; found \"2h\"");
}

TEST_CASE("a profile is read once for all who look through the catalog, and a wrong one is none") {
  const test::TemporaryFolder folder;
  const CatalogFolders shipped_folders{kRoot + "/platforms/catalog", kRoot + "/workloads/models",
                                       kRoot + "/calibration/profiles"};
  std::filesystem::create_directory(folder / "profiles");
  folder.write("profiles/wrong.json", R"({"format": 1, "name": "wrong", "source": "test", "host": 3})");
  const Catalog catalog{{shipped_folders, {folder.path, folder.path, folder.path / "profiles"}}};
  const Profile* profile = catalog.readable_profile("cm-dare");
  REQUIRE(profile != nullptr);
  CHECK(profile->name == "cm-dare");
  CHECK(catalog.readable_profile("cm-dare") == profile);
  CHECK(catalog.readable_profile("wrong") == nullptr);
  CHECK(catalog.readable_profile("no such profile") == nullptr);
}

TEST_CASE("a profile's shares are shares") {
  Json profile = load_json_file(kRoot + "/calibration/profiles/cm-dare.json");
  profile["network"]["nic_efficiency"] = 1.5;
  CHECK_THROWS_WITH_AS((void)read_profile(JsonReader{profile, "p.json"}),
                       "p.json: /network/nic_efficiency: expected a share above 0, at most 1; found 1.5", InputError);
}

TEST_CASE("an instance may have a payload share of its NIC of its own") {
  Json profile = load_json_file(kRoot + "/calibration/profiles/cm-dare.json");
  profile["network"] = {{"nic_efficiency", 0.5}, {"nic_efficiency_of", {{"p2.xlarge", 0.8}}}};
  const NetworkParameters network = read_profile(JsonReader{profile, "p.json"}).network;
  CHECK(network.nic_efficiency_for("p2.xlarge") == 0.8);
  CHECK(network.nic_efficiency_for("p2.8xlarge") == 0.5);
  profile["network"]["nic_efficiency_of"]["p2.xlarge"] = 0;
  CHECK_THROWS_WITH_AS((void)read_profile(JsonReader{profile, "p.json"}),
                       "p.json: /network/nic_efficiency_of/p2.xlarge: expected a share above 0, at most 1; found 0",
                       InputError);
}

TEST_CASE("of more NICs than GPUs each GPU has as many as all, as one of the sum of their rates") {
  const auto instance = [](int nics, int gpus) {
    return read_instance("i", JsonReader{{{"source", "test"},
                                          {"vcpus", 8},
                                          {"memory", "1GiB"},
                                          {"nic", "100Gbps"},
                                          {"nics", nics},
                                          {"accelerator", "H100"},
                                          {"accelerators", gpus}},
                                         "i.json"});
  };
  // As p5.48xlarge: 32 adapters of 100 Gbit/s, four of each GPU. One that is left over carries nothing.
  for (const auto& [nics, used, rate] :
       {std::tuple{32, 8, 50e9}, {8, 8, 12.5e9}, {4, 4, 12.5e9}, {9, 8, 12.5e9}, {17, 8, 25e9}}) {
    CHECK(instance(nics, 8).nics == used);
    CHECK(instance(nics, 8).nic == BytesPerSecond{rate});
  }
}

TEST_CASE("accesses of an update and the share of PCIe have limits") {
  Json profile = load_json_file(kRoot + "/calibration/profiles/cm-dare.json");
  profile["gpu"]["update_accesses"] = {{"adam", 19}};
  profile["collectives"] = {{"pcie_efficiency", 0.75}};
  const Profile read = read_profile(JsonReader{profile, "p.json"});
  CHECK(read.gpu.update_accesses.at("adam") == 19);
  CHECK(read.collectives.on("pcie3-own").pcie_efficiency == 0.75);
  profile["gpu"]["update_accesses"]["adam"] = -1;
  CHECK_THROWS_WITH_AS((void)read_profile(JsonReader{profile, "p.json"}),
                       "p.json: /gpu/update_accesses/adam: expected 0 to 1000 accesses for each scalar; found -1",
                       InputError);
  profile["gpu"].erase("update_accesses");
  profile["collectives"]["pcie_efficiency"] = 2;
  CHECK_THROWS_WITH_AS((void)read_profile(JsonReader{profile, "p.json"}),
                       "p.json: /collectives/pcie_efficiency: expected a share above 0, at most 1; found 2",
                       InputError);
}

TEST_CASE("an accelerator that the profile does not name gets the default efficiency") {
  const GpuParameters gpu{.default_peak_efficiency = 0.5, .peak_efficiency = {{"A", 0.7}}};
  CHECK(gpu.efficiency_for("A") == 0.7);
  CHECK(gpu.efficiency_for("B") == 0.5);
}

}  // namespace rehearse
