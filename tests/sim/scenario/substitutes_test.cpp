// What a profile leaves out comes from the nearest that is known, and is said.

#include "sim/scenario/substitutes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/training/collective_time.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// ResNet-50 by ring all-reduce on machines of eight GPUs.
Json on_machine(const std::string& accelerator, const std::string& interconnect, const Json& calibration,
                int machines = 1) {
  Json scenario = load_json_file(source_folder() + "/scenarios/dgx.json");
  scenario["cluster"]["groups"][0]["instance"] = {
      {"vcpus", 96},      {"memory", "1TiB"}, {"accelerator", accelerator},   {"accelerators", 8},
      {"nic", "400Gbps"}, {"nics", 8},        {"interconnect", interconnect}, {"source", "test"}};
  scenario["cluster"]["groups"][0]["count"] = machines;
  scenario["calibration"] = calibration;
  return scenario;
}

double width(const Profile& profile) {
  const auto [low, high] = profile.uncertainty.interval(0);
  return high / low;
}

}  // namespace

TEST_CASE("a framework's errors on rows that it was not fitted to make the interval, on such machines") {
  Json profile = load_json_file(source_folder() + "/calibration/profiles/kernels.json");
  for (const char* part : {"fit", "frameworks"}) profile.erase(part);
  profile["frameworks"] = {{"otherwise", Json::object()},
                           {"ours",
                            {{"errors",
                              {{"rows", 40},
                               {"accelerators", {"H100"}},
                               {"nic_min", "1600Gbps"},
                               {"nic_max", "3200Gbps"},
                               {"low", -0.2},
                               {"high", 0.1}}}}}};
  const auto run = [&](const std::string& framework, const std::string& gpu, int machines) {
    Json scenario = on_machine(gpu, gpu == "H100" ? "hgx-h100" : "dgx-a100", profile, machines);
    scenario["workload"]["framework"] = framework;
    return test::resolved(scenario);
  };
  for (const int machines : {1, 2}) {
    const Scenario ours = run("ours 2.1", "H100", machines);
    REQUIRE(ours.profile.prediction);
    CHECK(ours.profile.prediction->kind == "steps by ours 2.1");
    const auto [low, high] = ours.profile.uncertainty.interval(0);  // of speeds: those that are too fast are slower
    CHECK(low == doctest::Approx(std::exp(-0.1)));
    CHECK(high == doctest::Approx(std::exp(0.2)));
    CHECK(!test::warns_of(ours, "computes kernels from the GPU's data sheet; predictions may be off"));
  }
  CHECK(!run("theirs", "H100", 1).profile.prediction);
  CHECK(!run("ours", "A100", 1).profile.prediction);
  CHECK(test::warns_of(run("ours", "A100", 1), "computes kernels from the GPU's data sheet; predictions may be off"));
  profile["frameworks"]["ours"]["errors"]["nic_max"] = "1600Gbps";
  CHECK(run("ours", "H100", 2).profile.prediction);  // twice as much
  profile["frameworks"]["ours"]["errors"]["nic_min"] = "800Gbps";
  profile["frameworks"]["ours"]["errors"]["nic_max"] = "800Gbps";
  CHECK(!run("ours", "H100", 2).profile.prediction);
  profile["frameworks"]["ours"]["errors"]["rows"] = 19;
  CHECK_THROWS_WITH_AS(run("ours", "H100", 1), doctest::Contains("/rows: expected at least 20"), InputError);
}

TEST_CASE("8 bytes among eight H100 take launch and steps of the nearest known machine, not less than a nanosecond") {
  for (const char* profile : {"collective-microbenchmarks", "vtrain-a100-megatron", "nvidia-deeplearningexamples"}) {
    CAPTURE(profile);
    const Scenario scenario = test::resolved(on_machine("H100", "hgx-h100", profile));
    const double time = collective_time(scenario, Bytes{8}).value();
    CHECK(time > 14e-6);  // measured: 15.6 us, calibration/data/aiconfigurator-kernels
    CHECK(time < 18e-6);
    CHECK(test::warns_of(
        scenario,
        "has no all-reduce over an NVSwitch of \"hgx-h100\": as in profile \"nccl\" on \"NVLink 4\", the "
        "nearest that has; the interval includes how far that may be off"));
  }
  // Links of a generation that no library knows: as on the nearest machine.
  const Scenario scenario = test::resolved(on_machine("V100", "dgx-2", "collective-microbenchmarks"));
  const Scenario like = test::resolved(on_machine("V100", "dgx-2", "nvidia-deeplearningexamples"));
  CHECK(collective_time(scenario, Bytes{8}).value() ==
        doctest::Approx(collective_time(like, Bytes{8}).value()).epsilon(0.01));
  CHECK(test::warns_of(scenario,
                       "profile \"collective-microbenchmarks\" has no all-reduce over an NVSwitch of \"dgx-2\": as in "
                       "profile \"nvidia-deeplearningexamples\" on \"dgx-2\", the nearest that has; the interval "
                       "includes"));
}

TEST_CASE(
    "machines of the catalog with NVSwitch take NCCL's law where no profile covers them, and say what it was measured "
    "on") {
  struct Machine {
    const char *instance, *generation;
    int gpus;
  };
  for (const Machine& machine : {Machine{"a2-highgpu-2g", "NVLink 3", 2}, Machine{"a2-ultragpu-4g", "NVLink 3", 4},
                                 Machine{"dgx-a100", "NVLink 3", 8}, Machine{"a2-megagpu-16g", "NVLink 3", 16},
                                 Machine{"dgx-h100", "NVLink 4", 8}, Machine{"p5en.48xlarge", "NVLink 4", 8},
                                 Machine{"hgx-b200", "NVLink 5", 8}, Machine{"p6e-gb200.36xlarge", "NVLink 5", 4}}) {
    CAPTURE(std::string{machine.instance});
    Json json = on_machine("H100", "hgx-h100", "auto");
    json["workload"]["model"] = "gpt2";
    json["workload"]["batch_per_worker"] = 4;
    json["training"]["strategy"]["algorithm"] = "fastest";
    json["cluster"]["groups"][0]["instance"] = machine.instance;
    const Scenario one = test::resolved(json);
    CHECK(one.groups[0].workers() == machine.gpus);
    CHECK(test::warns_of(one, "as in profile \"nccl\" on \"" + std::string{machine.generation} +
                                  "\", the nearest that has" +
                                  (machine.gpus > 8 ? ", continued to 16 GPUs from at most 8" : "")));
    // What a collective alone takes on that machine by the profile itself.
    json["calibration"] = "nccl";
    json["workload"]["batch_per_worker"] = 1;
    json["workload"]["model"] = load_json_file(source_folder() + "/scenarios/collective.json")["workload"]["model"];
    const double alone = collective_time(test::resolved(json), Bytes{1'000'000}).value();
    CHECK(collective_time(one, Bytes{1'000'000}).value() == doctest::Approx(alone).epsilon(1e-6));
    // Two of them: the same inside, NICs between; no faster than the bytes of the NICs.
    json["calibration"] = "auto";
    json["workload"]["model"] = "gpt2";
    json["cluster"]["groups"][0]["count"] = 2;
    const Scenario two = test::resolved(json);
    const Group& group = two.groups[0];
    const auto& library = two.profile.collectives.on(group.interconnect.name, group.interconnect.generation);
    const auto& inside = one.profile.collectives.on(group.interconnect.name, group.interconnect.generation);
    CHECK(library.protocols.at("ring_LL").nvlink_step == inside.protocols.at("ring_LL").nvlink_step);
    const bool is_of_rack = std::string{machine.generation} == "NVLink 5" && machine.gpus == 4;  // without NICs between
    CHECK((library.protocols.at("ring_LL").network_step > Seconds{}) == !is_of_rack);
    // What a tree's steps take is taken from trees, not from rings.
    if (!is_of_rack) CHECK(library.protocols.at("tree_LL128").network_step == Seconds{8.5e-6});
    CHECK(collective_time(two, Bytes{1'000'000}).value() > alone);
  }
}

TEST_CASE("a machine that the profile knows takes nothing from elsewhere") {
  const Scenario scenario = test::resolved(test::shipped_scenario());
  CHECK(scenario.profile.substitutes.empty());
}

TEST_CASE("several machines take the network's step from a library that states it") {
  const Scenario scenario = test::resolved(on_machine("V100", "dgx-1-v100", "vtrain-a100-megatron", 2));
  CHECK(test::warns_of(scenario, "network_step as in profile \"oneflow-dlperf\" on \"dgx-1-v100\""));
  CHECK(scenario.profile.collectives.on("dgx-1-v100").protocols.at("Simple").network_step == Seconds{15e-6});
  CHECK(test::warns_of(scenario, "does not state the NICs' efficiency"));
  CHECK(scenario.profile.network.nic_efficiency < 1);
}

TEST_CASE(
    "what a profile knows of its trees between machines is not asked of the rings that one machine takes instead") {
  const Scenario one = test::resolved(on_machine("A100 80GB", "dgx-a100", "collective-microbenchmarks", 1));
  CHECK(test::warns_of(one, "no all-reduce over"));
  CHECK(std::ranges::none_of(one.profile.uncertainty.components, [](const auto& component) {
    return component.contains("/collectives/by_interconnect/dgx-a100/protocols/tree_LL/launch");
  }));
}

TEST_CASE("an algorithm that no protocol carries out costs what those of the nearest machine do") {
  Json json = on_machine("A100", "dgx-a100", "vtrain-a100-megatron");
  json["training"]["strategy"]["algorithm"] = "flat_double_binary_tree";
  CHECK(collective_time(test::resolved(json), Bytes{8}) > Seconds{30e-6});
}

TEST_CASE("a GPU without an efficiency has that of the nearest GPU, never the whole peak") {
  Json json = test::shipped_scenario();
  json["cluster"]["groups"][1]["instance"] = {{"vcpus", 8},        {"memory", "32GiB"}, {"accelerator", "A100"},
                                              {"accelerators", 1}, {"nic", "10Gbps"},   {"source", "test"}};
  const Scenario scenario = test::resolved(json);
  CHECK(scenario.profile.gpu.efficiency_for("A100") == scenario.profile.gpu.efficiency_for("V100"));
  CHECK(test::warns_of(scenario,
                       "profile \"cm-dare\" does not state the efficiency of GPU A100: that of V100, 0.5881; "
                       "predictions may be off by 13 %, as efficiencies of GPUs differ there"));
  CHECK(width(scenario.profile) > width(test::resolved(test::shipped_scenario()).profile));
}

TEST_CASE("without a step time of the framework the median of the other frameworks' counts") {
  const Scenario scenario =
      test::resolved(load_json_file(source_folder() + "/scenarios/dgx.json"));  // names no framework
  CHECK(test::warns_of(scenario, "has no step time of resnet50 on V100 in fp32: 0.96 times the modelled one, "));
  CHECK(test::warns_of(scenario, "as near; the interval includes"));
  const StepTime& step = scenario.profile.step_times.back();
  CHECK(step.model == "resnet50");
  CHECK(step.time > Seconds{0.3});  // 128 images: a V100 trains 330 to 420 images/s in fp32
  CHECK(step.time < Seconds{0.4});
  CHECK(width(scenario.profile) > 1.2);
}

TEST_CASE(
    "without a step time of the GPU those of the nearest are scaled, as far as memory and matrix units are faster") {
  const auto in_tf32 = [](const char* gpu, const char* machine) {
    Json json = on_machine(gpu, machine, "nvidia-deeplearningexamples");
    json["workload"]["precision"] = "tf32";  // as the rows of A100 are
    return json;
  };
  const Json json = in_tf32("H100", "hgx-h100");
  const Scenario scenario = test::resolved(json);
  CHECK(scenario.profile.step_times.back().accelerator == "H100");
  CHECK(test::warns_of(scenario, "as that of resnet50 on A100 80GB in tf32"));
  const double faster = test::simulated(json)["steps_per_s"].get<double>() /
                        test::simulated(in_tf32("A100 80GB", "dgx-a100"))["steps_per_s"].get<double>();
  CHECK(faster > 3350.0 / 2039);  // memory bandwidths
  CHECK(faster < 494.7 / 156);    // peaks in tf32
}

TEST_CASE("without a step time of the model those of others on the GPU stretch the modelled step") {
  Json json = on_machine("H100", "hgx-h100", "nvidia-deeplearningexamples");
  json["workload"]["model"] = "vgg16";
  Json ideal = json;
  ideal["calibration"] = "ideal";
  CHECK(test::warns_of(test::resolved(json), "has no step time of vgg16 on H100 in fp32"));
  CHECK(test::simulated(json)["steps_per_s"].get<double>() < test::simulated(ideal)["steps_per_s"].get<double>());
}

TEST_CASE("a profile that states nothing about kernels or servers is not ideal") {
  Json profile{{"format", 1}, {"name", "empty"}, {"source", "test"}};
  Json json = test::shipped_scenario();
  json["calibration"] = profile;
  const Scenario scenario = test::resolved(json);
  CHECK(test::warns_of(scenario, "profile \"empty\" does not state how fast kernels are: as in profile \""));
  CHECK(test::warns_of(scenario, "profile \"empty\" does not state what parameter servers cost: as in profile"));
  CHECK(scenario.profile.servers.time_per_byte > Seconds{});
  CHECK(scenario.profile.host.dispatch > Seconds{});
  CHECK(width(scenario.profile) > 1.5);
  // What the effective scenario says is all there is to know: it runs alike without a catalog.
  const Json again = *scenario.effective;
  const Scenario repeated = test::resolved(again);
  CHECK(repeated.warnings == scenario.warnings);
  CHECK(*repeated.effective == *scenario.effective);
}

TEST_CASE("an ideal profile warns of nothing, and a stated zero is a zero") {
  CHECK(test::resolved(on_machine("H100", "hgx-h100", "ideal")).warnings.empty());
  CHECK(collective_time(test::resolved(on_machine("H100", "hgx-h100", "ideal")), Bytes{8}) < Seconds{1e-6});
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile.erase("unstated");
  profile["collectives"]["protocols"]["free"] = {{"launch", "0us"}, {"nvlink_step", "0us"}, {"efficiency", 1}};
  const Scenario stated = test::resolved(on_machine("H100", "hgx-h100", profile));
  CHECK(stated.warnings.empty());
  CHECK(collective_time(stated, Bytes{8}) < Seconds{1e-6});
  profile.erase("collectives");
  CHECK(collective_time(test::resolved(on_machine("H100", "hgx-h100", profile)), Bytes{8}) > Seconds{14e-6});
  profile["unstated"] = "free";
  CHECK(test::problem_of(on_machine("H100", "hgx-h100", profile)).find("expected \"nearest\" or \"ideal\"") !=
        std::string::npos);
}

TEST_CASE("a substitute widens the interval of a prediction") {
  const Scenario with = test::resolved(on_machine("H100", "hgx-h100", "nvidia-deeplearningexamples"));
  const Scenario without = test::resolved(load_json_file(source_folder() + "/scenarios/dgx.json"));  // as measured
  CHECK(width(with.profile) > width(without.profile));
}

}  // namespace rehearse
