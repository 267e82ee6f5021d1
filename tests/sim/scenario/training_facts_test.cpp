#include "sim/scenario/training_facts.hpp"

#include <doctest/doctest.h>

#include "sim/scenario/site.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {
namespace {

/// ResNet-50 on 128 V100 in 16 machines, one GPU's step of 872 images/s taken from a measurement. Horovod's issue 779
/// measured 89783 images/s.
Json own_step() {
  return Json::parse(R"({
  "format": 1, "name": "own step",
  "workload": { "model": { "format": 1, "name": "resnet50-872", "source": "872 images/s on one GPU", "structure": {
      "family": "timed_layers", "batch": 256, "whole_step": true, "optimizer_time": "2ms",
      "layers": [ { "name": "a", "gradient": "1MB", "forward": "24ms", "backward": "48.4ms" },
                  { "name": "b", "gradient": "33MB", "forward": "48ms", "backward": "96.8ms" },
                  { "name": "c", "gradient": "68.2MB", "forward": "25ms", "backward": "49.4ms" } ] } },
    "batch_per_worker": 256, "optimizer": "momentum" },
  "cluster": {
    "groups": [ { "name": "m", "role": "worker", "count": 16, "region": "us-east-1", "instance": "p3.16xlarge" } ],
    "network": { "links": [ { "from": "us-east-1", "to": "us-east-1", "latency": "30us", "source": "assumption" } ] } },
  "training": { "strategy": { "kind": "all_reduce", "algorithm": "ring", "bucket_size": "64MiB", "cycle_time": "3.5ms" },
                "steps": 30 },
  "calibration": "auto" })");
}

}  // namespace

TEST_CASE("facts of a training are those of its workload, machines and links") {
  const TrainingFacts facts = facts_of(test::resolved(own_step()));
  CHECK(facts.workers == 128);
  CHECK(facts.servers == 0);
  CHECK(facts.strategy == "all_reduce");
  CHECK(facts.links == "NVLinks, NVLink 2");
  CHECK(facts.nic == BytesPerSecond{25e9 / 8});
  CHECK(!facts.computes);
  CHECK(facts.collective.empty());
  const TrainingFacts servers = facts_of(test::resolved(test::shipped_scenario()));
  CHECK(servers.strategy == "parameter_server");
  CHECK(servers.links.empty());
  CHECK(servers.computes);
}

TEST_CASE("a measured step does not narrow the interval of the exchange, nor take a testbed's for NCCL's") {
  const Scenario scenario = test::resolved(own_step());
  CHECK(!scenario.profile.name.starts_with("testbed"));
  REQUIRE(scenario.profile.prediction);
  CHECK(scenario.profile.prediction->kind == "nothing; cluster: other links");
  CHECK(scenario.profile.uncertainty.interval(0).first < 89783.0 / 107612);
}

TEST_CASE("sockets carry what the profile states of a NIC, or what is known of NCCL's, and RDMA all of it") {
  Json json = own_step();
  json["workload"]["model"]["structure"]["gpu"] = "V100";
  json["calibration"] = "kernels";
  Json& instance = json["cluster"]["groups"][0]["instance"];
  instance = Json::parse(
      R"({"vcpus": 64, "memory": "488GiB", "accelerator": "V100", "accelerators": 8, "nic": "50Gbps", "nics": 2,
                             "interconnect": "dgx-1-v100", "transport": "rdma", "source": "test"})");
  const auto rate = [&] {
    const Scenario scenario = test::resolved(json);
    return Site{scenario}.machines.front().nic.value();
  };
  const double all = rate();
  CHECK(all > 5.5e9);
  instance["transport"] = "tcp";
  CHECK(rate() == 2.5e9);
  CHECK(test::warns_of(test::resolved(json),
                       "does not state what sockets carry of a collective: 5GBps of NICs of 12.5GBps"));
  instance.erase("transport");
  CHECK(rate() == all);
  CHECK(test::warns_of(test::resolved(json), "carry RDMA, which is simulated, or TCP"));
  instance["transport"] = "ethernet";
  CHECK(test::problem_of(json).find("unknown transport \"ethernet\"; known: \"tcp\", \"rdma\"") != std::string::npos);
}

TEST_CASE("a scenario that is run again as it was completed has the same interval") {
  const Scenario first = test::resolved(own_step());
  const Scenario again = test::resolved(*first.effective);
  CHECK(again.profile.uncertainty.interval(0) == first.profile.uncertainty.interval(0));
  CHECK(again.profile.prediction->others == first.profile.prediction->others);
}

TEST_CASE("neither the scenario's name nor that of its machines decides which profile is taken") {
  Json json = own_step();
  const std::string taken = test::resolved(json).profile.name;
  json["name"] = "a test of testbed, mpi, hkbu, pollux";
  json["cluster"]["groups"][0]["name"] = "hkbu-4xv100-10gbe";
  CHECK(test::resolved(json).profile.name == taken);
}

}  // namespace rehearse
