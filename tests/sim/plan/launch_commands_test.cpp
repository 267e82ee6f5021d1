#include "sim/plan/launch_commands.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/files.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

Scenario scenario_of(const Json& groups) {
  Json scenario = Json::parse(R"({
    "format": 1, "name": "launched",
    "workload": { "model": "resnet50", "batch_per_worker": 32, "precision": "fp16" },
    "cluster": { "network": { "topology": "star" } },
    "training": { "strategy": { "kind": "all_reduce" }, "steps": 10 } })");
  scenario["cluster"]["groups"] = groups;
  Json& links = scenario["cluster"]["network"]["links"] = Json::array();
  std::set<std::pair<Json, Json>> linked;
  for (const Json& a : groups)
    for (const Json& b : groups)
      if (linked.insert(std::minmax(a["region"], b["region"])).second)
        links.push_back({{"from", a["region"]}, {"to", b["region"]}, {"latency", "1ms"}, {"source", "test"}});
  for (const Json& group : groups)
    if (group["role"] == "parameter_server")
      scenario["training"]["strategy"] = {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}};
  return read_scenario(scenario, source_folder() + "/scenarios/test.json", test::shipped_catalog());
}

template <class... Groups>
Scenario machines_of(const Groups&... groups) {
  return scenario_of(Json::array({groups...}));
}

Json group_of(const char* name, const char* instance, int count, const char* region, const char* market = "on-demand",
              const char* role = "worker") {
  return {{"name", name},   {"role", role},     {"instance", instance},
          {"count", count}, {"region", region}, {"market", market}};
}

/// What the script calls, a line each, with tools that only write down how they are called.
std::string calls_of(const Scenario& scenario, const std::string& arguments = "",
                     const std::string& variables =
                         "IMAGE=ami-1 KEY=mine PLACEMENT_GROUP=pg ZONE=us-central1-a IMAGE_FAMILY=f IMAGE_PROJECT=p "
                         "RESOURCE_GROUP=rg SSH_KEY=k") {
  const test::TemporaryFolder folder;
  folder.write("launch.sh", launch_script(scenario));
  const std::string path = folder.path.string();
  for (const char* tool : {"aws", "gcloud", "az"})
    folder.write(tool, "#!/bin/sh\necho " + std::string{tool} + " \"$@\" >>" + path + "/calls\n");
  const std::string command = "cd " + path + " && chmod +x aws gcloud az && env PATH=" + path + ":$PATH " + variables +
                              " sh launch.sh " + arguments + " 2>>calls || echo failed >>calls";
  REQUIRE(std::system(command.c_str()) == 0);
  return read_file(folder.path / "calls", kMiB);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a launch script starts as many machines of each group as the plan has, where it has them") {
  const Scenario scenario = machines_of(group_of("amazon", "p4d.24xlarge", 3, "us-east-1", "spot"),
                                        group_of("Google's", "a2-highgpu-8g", 2, "us-central1"),
                                        group_of("azure", "ND96asr_v4", 1, "eastus", "spot"));
  const std::string calls = calls_of(scenario);
  CAPTURE(calls);
  CHECK(std::count(calls.begin(), calls.end(), '\n') == 3);
  CHECK(has(calls,
            "aws ec2 run-instances --region us-east-1 --instance-type p4d.24xlarge --count 3 --image-id ami-1 "
            "--key-name mine --placement GroupName=pg --instance-market-options MarketType=spot"));
  CHECK(has(calls,
            "gcloud compute instances bulk create --name-pattern google-s-#### --count 2 --zone us-central1-a "
            "--machine-type a2-highgpu-8g"));
  CHECK(!has(calls, "SPOT"));
  CHECK(has(calls,
            "--count 1 --location eastus --size Standard_ND96asr_v4 --image ami-1 --ssh-key-name k --priority "
            "Spot"));
  const std::string more = calls_of(scenario, "google-s 1");
  CHECK(std::count(more.begin(), more.end(), '\n') == 1);
  CHECK(has(more, "--count 1 --zone us-central1-a"));
  CHECK(has(calls_of(scenario, "other 1"), "launch.sh: unknown group other\nfailed"));
}

TEST_CASE("a launch script asks for what it does not know before it starts anything") {
  const Scenario scenario = machines_of(group_of("w", "p3.2xlarge", 2, "us-east-1"));
  const std::string calls = calls_of(scenario, "", "IMAGE=ami-1 KEY=mine");
  CHECK(has(calls, "expected a placement group"));
  CHECK(!has(calls, "run-instances"));
  CHECK(!has(launch_script(scenario), "ZONE"));
}

TEST_CASE("names that a user made up are words for the shell, and machines that nobody sells are named") {
  const Scenario scenario = machines_of(group_of("a'; touch pwned; '", "p3.2xlarge", 1, "$(touch pwned)"),
                                        group_of("a---touch-pwned---", "p3.2xlarge", 1, "us-east-1"));
  const std::string script = launch_script(scenario);
  CAPTURE(script);
  CHECK(has(script, "--region '$(touch pwned)'"));
  CHECK(has(calls_of(scenario), "--region $(touch pwned)"));
  CHECK(has(script, "a---touch-pwned----2) aws"));
  CHECK(launch_script(machines_of(group_of("k80", "gce-custom-4-k80", 2, "us-west1"))).empty());
  CHECK(has(launch_script(machines_of(group_of("k80", "gce-custom-4-k80", 2, "us-west1"),
                                      group_of("p3", "p3.2xlarge", 1, "us-east-1"))),
            "# Not started by this script: group k80, 2 x gce-custom-4-k80\n"));
}

TEST_CASE("a task of SkyPilot is of machines of one type alone") {
  const std::string task = skypilot_task(machines_of(group_of("w", "p4d.24xlarge", 4, "us-east-1", "spot")));
  CHECK(has(task, "infra: aws/us-east-1\n  instance_type: p4d.24xlarge\n  use_spot: true\nnum_nodes: 4\n"));
  CHECK(skypilot_task(machines_of(group_of("w", "p3.2xlarge", 1, "us-east-1"),
                                  group_of("ps", "m5.xlarge", 1, "us-east-1", "on-demand", "parameter_server")))
            .empty());
}

}  // namespace rehearse
