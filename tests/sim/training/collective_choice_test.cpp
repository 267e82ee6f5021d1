// Which algorithm a word asks for, which one is the fastest, and NVLinks that join machines.

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/training/collective_time.hpp"
#include "tests/support/from_environment.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::collective_choice_test {

namespace {

using test::exactly;
using test::kAlpha;
using test::kBeta;

/// One collective of `bytes` among machines of a catalog's type, as nccl-tests time it.
Json on_machines(const Json& instance, int count, double bytes, const std::string& algorithm) {
  return {
      {"format", 1},
      {"workload",
       {{"model",
         {{"format", 1},
          {"name", "collective"},
          {"source", "none"},
          {"structure", {{"family", "collective"}, {"bytes", static_cast<std::int64_t>(bytes)}}}}},
        {"batch_per_worker", 1},
        {"optimizer", "sgd"}}},
      {"cluster",
       {{"groups", {{{"name", "m"}, {"role", "worker"}, {"instance", instance}, {"count", count}, {"region", "room"}}}},
        {"network", {{"links", {{{"from", "room"}, {"to", "room"}, {"latency", "3us"}, {"source", "assumption"}}}}}}}},
      {"training",
       {{"strategy", {{"kind", "all_reduce"}, {"algorithm", algorithm}}}, {"steps", 3}, {"warmup_steps", 1}}}};
}

double time_of(const Json& scenario) { return collective_time(test::resolved(scenario)).value(); }

std::string refusal(const Json& scenario) {
  try {
    (void)test::resolved(scenario);
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

/// GB/s, as nccl-tests print it for all-reduces.
double bus_bandwidth(const Json& scenario, int gpus) {
  const auto bytes = scenario["workload"]["model"]["structure"]["bytes"].get<double>();
  return 2.0 * (gpus - 1) / gpus * bytes / time_of(scenario) / 1e9;
}

Json instance_of(const std::string& name, const Json& changes = Json::object()) {
  Json instance;
  for (const char* file : {"instances", "azure", "ec2", "gce"}) {
    const Json catalog = load_json_file(source_folder() + "/platforms/catalog/" + file + ".json");
    if (catalog["instances"].contains(name)) instance = catalog["instances"][name];
  }
  instance.update(changes);
  return instance;
}

constexpr double kGi = 1 << 30;

}  // namespace

TEST_CASE("the fastest is never slower than an algorithm that is asked for by name") {
  const std::uint64_t first = test::from_environment("REHEARSE_FIRST_SEED", 1);
  const std::vector<std::string> interconnects{"dgx-a100",   "hgx-h100",   "hgx-h200",  "hgx-b200", "gb200-tray",
                                               "dgx-1-v100", "hgx-a100-4", "pcie3-own", "pcie4-own"};
  const std::vector<std::string> gpus{"A100 80GB", "H100", "H200", "B200", "GB200", "V100", "A100", "T4", "A10"};
  const std::vector<std::string> profiles{"ideal",
                                          "nccl",
                                          "collective-microbenchmarks",
                                          "vtrain-a100-megatron",
                                          "oneflow-dlperf",
                                          "nvidia-deeplearningexamples",
                                          "hkbu-ddl-benchmarks",
                                          "auto"};
  int compared = 0;
  for (std::uint64_t seed = first; seed < first + 24; ++seed) {
    CAPTURE(seed);
    Rng rng{seed, "fastest"};
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(rng.below(n)); };
    const std::size_t kind = pick(interconnects.size());
    const Json instance{{"vcpus", 64},
                        {"memory", "1TiB"},
                        {"accelerator", gpus[kind]},
                        {"accelerators", 1 << pick(kind == 6 || kind == 4 ? 3 : 4)},
                        {"nic", std::to_string(10 << pick(6)) + "Gbps"},
                        {"nics", 1 << pick(3)},
                        {"interconnect", interconnects[kind]},
                        {"source", "drawn"}};
    const double bytes = std::exp2(rng.uniform() * 32);
    Json scenario = on_machines(instance, 1 + static_cast<int>(pick(5)), bytes, "fastest");
    scenario["calibration"] = profiles[pick(profiles.size())];
    const std::vector<std::string> operations{"all_reduce",     "all_reduce", "all_reduce", "all_gather",
                                              "reduce_scatter", "all_to_all", "broadcast"};
    scenario["workload"]["model"]["structure"]["operation"] = operations[pick(operations.size())];
    if (instance["accelerators"] == 1 && scenario["cluster"]["groups"][0]["count"] == 1) continue;
    const double fastest = time_of(scenario);
    for (const auto& [word, algorithm] : collective_algorithms()) {
      scenario["training"]["strategy"]["algorithm"] = word;
      try {
        const double named = time_of(scenario);
        CAPTURE(word);
        CAPTURE(scenario.dump());
        CHECK(fastest <= named * (1 + 1e-9));
        ++compared;
      } catch (const InputError&) { continue; }  // it does not work there
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("four machines of eight A100 take the ring, as NCCL does there: NVIDIA/nccl-tests#169") {
  const Json instance = instance_of("dgx-a100-80gb", {{"nic", "100Gbps"}});
  const double ring = time_of(on_machines(instance, 4, 8 * kGi, "ring"));
  CHECK(ring == doctest::Approx(0.1707).epsilon(0.01));
  CHECK(time_of(on_machines(instance, 4, 8 * kGi, "fastest")) <= ring * (1 + 1e-9));
}

TEST_CASE("NCCL's Tree is found by its names, its other words by theirs, whatever their case: NVIDIA/nccl#1368") {
  // Five machines of eight H100 with four NICs of 400 Gbit/s: Ring 190 GB/s, Tree 150.
  const Json instance = instance_of("dgx-h100", {{"nics", 4}});
  for (const char* word : {"tree", "Tree", "TREE", "nccl_tree", "double_binary_tree", "chain_tree"}) {
    CAPTURE(word);
    CHECK(bus_bandwidth(on_machines(instance, 5, kGi, word), 40) == doctest::Approx(150).epsilon(0.1));
  }
  CHECK(bus_bandwidth(on_machines(instance, 5, kGi, "Ring"), 40) == doctest::Approx(190).epsilon(0.1));
  CHECK(bus_bandwidth(on_machines(instance, 5, kGi, "flat_double_binary_tree"), 40) < 60);
  CHECK(bus_bandwidth(on_machines(instance, 5, kGi, "binary_tree"), 40) < 20);
  CHECK(time_of(on_machines(instance, 1, kGi, "NVLS")) == time_of(on_machines(instance, 1, kGi, "nvls")));
}

TEST_CASE(
    "the library takes trees between many machines, as long as the rings' latency is longer than their bytes, and none "
    "inside") {
  const auto time = [](int machines, const char* algorithm, double bytes) {
    Json scenario = on_machines("p5.48xlarge", machines, bytes, algorithm);
    scenario["calibration"] = "nccl";
    return time_of(scenario);
  };
  CHECK(time(32, "library", 1 << 20) == time(32, "tree", 1 << 20));
  CHECK(time(32, "library", 1 << 20) < 0.3 * time(32, "ring", 1 << 20));
  CHECK(time(2, "library", 8 * kGi) == time(2, "ring", 8 * kGi));
  for (const double bytes : {1e3, 1e6}) CHECK(time(1, "library", bytes) == time(1, "ring", bytes));
}

TEST_CASE("algorithms of libraries that are not modelled are refused by their names, never taken for a neighbour") {
  for (const char* word : {"CollnetDirect", "CollNetChain", "NVLSTree", "nvls_tree", "PAT", "halving_doubling",
                           "rabenseifner", "bruck", "bcube", "Recursive Halving Doubling", "ring_chunked", "MSCCL"}) {
    CAPTURE(word);
    const std::string text = refusal(on_machines("dgx-h100", 2, kGi, word));
    CHECK(text.find("/training/strategy/algorithm: \"" + std::string{word} + "\" (") != std::string::npos);
    CHECK(text.find("is not modelled; known: ring, ") != std::string::npos);
    CHECK(text.find("did you mean") == std::string::npos);
  }
  for (const char* word : {"Ring,Tree", "^NVLS"})
    CHECK(refusal(on_machines("dgx-h100", 2, kGi, word)).find("expected one algorithm; found the list") !=
          std::string::npos);
}

TEST_CASE("a rack of 18 machines is one NVLink domain of 72 GPUs: coreweave/nccl-tests PR#43") {
  // 839 GB/s measured, by NVLink SHARP, of which the law was fitted to eight GPUs at most; partitions of four GPUs 197 GB/s in a ring
  // and 234 in a tree, of eight 394 and 486 (NVIDIA/nccl#1801).
  for (const char* instance : {"ND128isr_GB200_v6", "p6e-gb200.36xlarge"}) {
    CHECK(bus_bandwidth(on_machines(instance, 18, 8 * kGi, "nvls"), 72) == doctest::Approx(839).epsilon(0.16));
    CHECK(bus_bandwidth(on_machines(instance, 18, 8 * kGi, "fastest"), 72) == doctest::Approx(839).epsilon(0.16));
  }
  const auto partitions = [](int machines, int gpus, const char* algorithm) {
    Json scenario = on_machines("ND128isr_GB200_v6", machines, 16 * kGi, algorithm);
    scenario["cluster"]["groups"][0]["nvlink_domain"] = gpus;
    return bus_bandwidth(scenario, 4 * machines);
  };
  CHECK(partitions(3, 4, "ring") == doctest::Approx(197).epsilon(0.1));
  CHECK(partitions(6, 8, "ring") == doctest::Approx(394).epsilon(0.12));
  CHECK(partitions(3, 4, "tree") == doctest::Approx(234).epsilon(0.1));
  CHECK(partitions(6, 8, "tree") == doctest::Approx(486).epsilon(0.1));
}

TEST_CASE("closed forms of NVLink domains: ports inside, all NICs of a domain between, as message by message") {
  // Machines of two GPUs with ports of 100 GB/s and NICs of 1 GB/s; software costs nothing.
  const auto domains = [](int machines, int gpus, const std::string& algorithm) {
    Json scenario = test::timed_scenario(machines, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", algorithm}}, 2);
    scenario["workload"]["model"]["structure"] = {{"family", "collective"}, {"bytes", 24'000'000}};
    Json& group = scenario["cluster"]["groups"][0];
    group["instance"]["interconnect"] = {
        {"pcie", "10GBps"}, {"nvswitch", "100GBps"}, {"reduces_in_switch", true}, {"nvlink_domain", gpus}};
    group["instance"]["nics"] = 2;
    return scenario;
  };
  const auto check = [](const Json& scenario, double expected) {
    CHECK(time_of(scenario) == exactly(expected));
    test::check_time(scenario, expected);
  };
  constexpr double kSize = 24e6, kPort = 100e9;
  check(domains(3, 6, "ring"), 2 * 5.0 / 6 * kSize / kPort);
  check(domains(3, 6, "nvls"), (1 + 1.0 / 6) * kSize / kPort);
  check(domains(3, 8, "nvls"), (1 + 1.0 / 6) * kSize / kPort);  // a domain that is not full
  // Two domains of two machines each: the ring leaves a domain through its four NICs.
  check(domains(4, 4, "ring"), 2 * 7 * (kAlpha * 2 / 8 + kSize / (8 * 4 * kBeta)));
  check(domains(4, 4, "tree"), 2 * kAlpha + kSize / (4 * kBeta));
  CHECK(refusal(domains(4, 4, "nvls")).find("in one such \"nvlink_domain\"") != std::string::npos);
  CHECK(refusal(domains(5, 4, "hierarchical")).find("or in every NVLink domain") != std::string::npos);
  // By itself each machine is an island, as without the key.
  Json alone = domains(4, 4, "ring");
  alone["cluster"]["groups"][0]["nvlink_domain"] = 2;
  Json without = domains(4, 4, "ring");
  without["cluster"]["groups"][0]["instance"]["interconnect"].erase("nvlink_domain");
  CHECK(time_of(alone) == time_of(without));
  alone["cluster"]["groups"][0]["nvlink_domain"] = 3;
  CHECK(refusal(alone).find("/nvlink_domain: expected a multiple of the 2 GPUs of a machine, at most 576; found 3") !=
        std::string::npos);
}

TEST_CASE("one machine may have 72 GPUs on a switch, and up to 576") {
  Json instance{{"vcpus", 64},      {"memory", "1TiB"}, {"accelerator", "GB200"},       {"accelerators", 72},
                {"nic", "400Gbps"}, {"nics", 64},       {"interconnect", "gb200-tray"}, {"source", "test"}};
  const double one = time_of(on_machines(instance, 1, 8 * kGi, "nvls"));
  CHECK(one == doctest::Approx(time_of(on_machines("ND128isr_GB200_v6", 18, 8 * kGi, "nvls"))).epsilon(1e-9));
  instance["accelerators"] = 577;
  CHECK(refusal(on_machines(instance, 1, kGi, "ring")).find("/accelerators: expected 1 to 576 with") !=
        std::string::npos);
}

TEST_CASE("machines whose GPUs have PCIe alone and nobody has measured: a warning, and a wide interval") {
  const auto is_warned = [](const Json& scenario) {
    for (const std::string& warning : test::resolved(scenario).warnings)
      if (warning.find("are joined by PCIe alone: whether they copy to one another directly is not known") !=
          std::string::npos)
        return true;
    return false;
  };
  const auto machine = [](const char* gpu, const Json& interconnect, int gpus = 4) {
    return on_machines({{"vcpus", 64},
                        {"memory", "1TiB"},
                        {"accelerator", gpu},
                        {"accelerators", gpus},
                        {"nic", "100Gbps"},
                        {"interconnect", interconnect},
                        {"source", "test"}},
                       1, 1e9, "ring");
  };
  CHECK(is_warned(machine("RTX 3090", "pcie4-own")));
  CHECK(is_warned(machine("RTX 4090", "pcie4-own")));
  CHECK(is_warned(machine("L40S", {{"pcie", "24GBps"}, {"pcie_root", "48GBps"}, {"gpus_per_root", 2}})));
  CHECK(!is_warned(machine("RTX 3090", "pcie4-own", 1)));
  CHECK(!is_warned(machine("H100", "hgx-h100")));
  CHECK(!is_warned(machine("GTX 1080 Ti", "pcie3-shared-4")));
  // A fifth of the rate is the lower end: five times as long.
  const Scenario scenario = test::resolved(machine("RTX 3090", "pcie4-own"));
  double largest = 0;
  for (const auto& component : scenario.profile.uncertainty.components)
    for (const auto& [place, change] : component)
      if (place.ends_with("/pcie_efficiency")) largest = std::max(largest, std::exp(1.645 * std::abs(change)));
  CHECK(largest == doctest::Approx(5).epsilon(1e-3));
}

}  // namespace rehearse::collective_choice_test
