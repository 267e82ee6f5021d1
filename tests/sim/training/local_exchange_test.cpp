// Parameter servers that share a machine with workers: between processes, in the workers' process, on the GPUs.

#include <doctest/doctest.h>

#include <string>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::check_time;
using test::kAlpha;

Json profile() { return load_json_file(source_folder() + "/calibration/profiles/ideal.json"); }

/// Machines whose GPUs have PCIe of 10 GB/s, a server on each, and one tensor of 10 MB: forward 1 ms, backward 2 ms.
Json on_machines(int machines, int gpus, const std::string& variables, const std::string& aggregation) {
  Json scenario = test::timed_scenario(machines, {{"10000000B"}},
                                       {{"kind", "parameter_server"},
                                        {"synchronization", "synchronous"},
                                        {"aggregation", aggregation},
                                        {"variables", variables}},
                                       gpus);
  scenario["cluster"]["groups"].push_back(
      {{"name", "ps"}, {"role", "parameter_server"}, {"colocated_with", "workers"}, {"count", 1}});
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie", "10GBps"}};
  scenario["calibration"] = profile();
  return scenario;
}

}  // namespace

TEST_CASE("a remote call costs what it says, one between processes of a machine its own, one in the process neither") {
  // Pull and push over PCIe take 1 ms each; the tensor passes the server twice.
  for (const bool is_remote : {false, true}) {
    Json scenario = on_machines(is_remote ? 2 : 1, 1, "server_process", "none");
    scenario["calibration"]["servers"]["time_per_byte"] = "1ns";
    if (is_remote) {  // the other worker's messages are served by another core
      check_time(scenario, 4 * kAlpha + 2 * (10e-3 + 10e-3 + 1e-3) + 3e-3);
      continue;
    }
    check_time(scenario, 2 * (10e-3 + 1e-3) + 3e-3);
    scenario["calibration"]["servers"]["between_processes"] = {{"time_per_variable", "100us"},
                                                               {"time_per_byte", "0.2ns"}};
    check_time(scenario, 2 * (2.1e-3 + 1e-3) + 3e-3);
    scenario["training"]["strategy"]["variables"] = "worker_process";
    check_time(scenario, 2 * 1e-3 + 3e-3);
  }
}

TEST_CASE(
    "workers of several GPUs that are one towards the servers exchange each tensor once, however many there are") {
  // Without overlap: all pulled, all computed, all pushed, whether or not other GPUs of a worker copy with its first one.
  for (const char* aggregation : {"host", "gpu"})
    for (const int tensors : {1, 2, 5}) {
      CAPTURE(aggregation);
      CAPTURE(tensors);
      const std::vector<test::TimedTensor> all(static_cast<std::size_t>(tensors), {"10000000B"});
      Json scenario = test::timed_scenario(1, all,
                                           {{"kind", "parameter_server"},
                                            {"synchronization", "synchronous"},
                                            {"overlap", "none"},
                                            {"aggregation", aggregation}},
                                           4);
      scenario["cluster"]["groups"][0].update({{"workers_per_machine", 2}, {"batch_per_worker", 2}});
      scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie", "1000000TBps"}};
      check_time(test::with_servers(scenario, 1), 4 * kAlpha + tensors * (2 * 10e-3 + 3e-3));
    }
}

TEST_CASE("the cost between processes is not that between machines") {
  Json scenario = on_machines(2, 1, "server_process", "none");
  scenario["calibration"]["servers"]["between_processes"] = {{"time_per_variable", "0s"}, {"time_per_byte", "5ns"}};
  // The worker beside the server is the later one: 50 ms of a core, 1 ms of PCIe, both ways.
  check_time(scenario, 2 * (50e-3 + 1e-3) + 3e-3);
}

TEST_CASE("in the workers' process all cores share the arithmetic, once for each gradient and once for the update") {
  Json scenario = on_machines(1, 1, "worker_process", "host");
  scenario["calibration"]["servers"]["in_process"] = {{"time_per_variable", "0s"}, {"time_per_byte", "0.4ns"}};
  // Below the threshold one core: 4 ms.
  check_time(scenario, 2 * 1e-3 + 3e-3 + 4e-3);
  scenario["calibration"]["servers"]["split_update_threshold"] = "1MiB";
  check_time(scenario, 2 * 1e-3 + 3e-3 + 1e-3);
  // Four GPUs: as many gradients, then the update.
  Json four = on_machines(1, 4, "worker_process", "host");
  four["calibration"] = scenario["calibration"];
  check_time(four, 2 * 1e-3 + 3e-3 + 5e-3);
  // Dearer arithmetic takes longer, a dearer remote call does not.
  four["calibration"]["servers"]["time_per_byte"] = "1us";
  check_time(four, 2 * 1e-3 + 3e-3 + 5e-3);
  four["calibration"]["servers"]["in_process"]["time_per_byte"] = "0.8ns";
  check_time(four, 2 * 1e-3 + 3e-3 + 10e-3);
}

TEST_CASE("variables on the GPUs pass between GPUs alone, and are updated at the rate of their memory") {
  // From the GPU that has the tensor to three others and back: 3 ms each; 10 accesses of three additions of gradients
  // and an update with momentum, 9 + 5, to 10 MB at 1 TB/s.
  Json scenario = on_machines(1, 4, "gpus", "gpu");
  scenario["calibration"]["servers"]["time_per_byte"] = "1us";
  check_time(scenario, 2 * 3e-3 + 3e-3 + 14 * 10e-6);
  scenario["training"]["steps"] = 3;
  check_time(scenario, 3 * (2 * 3e-3 + 3e-3 + 14 * 10e-6));
  scenario["training"]["steps"] = 1;
  scenario["calibration"]["gpu"]["memory_efficiency"] = 0.5;
  check_time(scenario, 2 * 3e-3 + 3e-3 + 28 * 10e-6);
  scenario["calibration"]["gpu"]["update_accesses"] = {{"momentum", 10}};
  check_time(scenario, 2 * 3e-3 + 3e-3 + 38 * 10e-6);
  // One GPU has all of its variables.
  scenario["cluster"]["groups"][0]["instance"]["accelerators"] = 1;
  check_time(scenario, 3e-3 + 20 * 10e-6);
  CHECK(test::simulated(scenario)["sent_B"] == 0);
}

}  // namespace rehearse
