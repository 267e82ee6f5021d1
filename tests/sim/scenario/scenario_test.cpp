#include "sim/scenario/scenario.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/error_of.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// The message with which a changed scenario is refused.
std::string refusal(const std::vector<std::pair<std::string, std::string>>& changes) {
  try {
    Json json = test::shipped_scenario(changes);
    (void)read_scenario(json, "s.json", test::shipped_catalog());
  } catch (const InputError& error) { return error.what(); } catch (const NoResultError& error) {
    return std::string{"no result: "} + error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("mistakes in a scenario are one line with place, expectation and finding") {
  CHECK(refusal({}) == "accepted");
  CHECK(refusal({{"/workload/model", "cm-dare/resnt32"}}) ==
        "s.json: /workload/model: unknown model \"cm-dare/resnt32\"; did you mean \"cm-dare/resnet32\"?");
  CHECK(refusal({{"/workload/btach", "1"}}) ==
        "s.json: /workload: unknown key \"btach\"; known: \"model\", \"batch_per_worker\", \"optimizer\", "
        "\"optimizer_implementation\", \"precision\", \"states\", \"recompute\", \"fp8\", \"wide_layers\", \"lora\", "
        "\"fused_loss\", "
        "\"composed_loss\", \"framework\", "
        "\"copies_input\", \"input\", "
        "\"samples_per_epoch\", "
        "\"convergence\"");
  CHECK(refusal({{"/workload/batch_per_worker", "0"}}) ==
        "s.json: /workload/batch_per_worker: expected 1 to 65536 samples; found 0");
  for (const char* word : {"fp8", "float8", "mxfp8", "amp_fp8"})
    CHECK(refusal({{"/workload/precision", word}}) ==
          "s.json: /workload/precision: training in fp8 has another name here: \"fp8\": \"delayed\" beside "
          "\"precision\": \"bf16\" in the workload says it");
  CHECK(refusal({{"/training/strategy/fp8", "true"}})
            .find("/training/strategy/fp8: training in fp8 has another name here: ") != std::string::npos);
  CHECK(refusal({{"/workload/precision", "nvfp4"}}) ==
        "s.json: /workload/precision: training in fp4 has another name here: \"fp8\": \"nvfp4\" beside "
        "\"precision\": \"bf16\" in the workload says it");
  CHECK(refusal({{"/workload/precision", "\"fp12\""}}) ==
        "s.json: /workload/precision: unknown precision \"fp12\"; known: \"fp32\", \"tf32\", \"fp16\" and \"bf16\"");
  CHECK(refusal({{"/workload/states", R"({"moments": "tf32"})"}}).find("tf32 is one of products") != std::string::npos);
  CHECK(refusal({{"/training/strategy/tensor_parallel", "8"}}) ==
        "s.json: /training/strategy/tensor_parallel: tensor parallelism has another name here: \"tensor\": { "
        "\"degree\": 8 } in an \"all_reduce\" strategy says it");
  CHECK(refusal({{"/training/strategy/sequence_parallel", "true"}}).find("\"sequence_parallel\": true }") !=
        std::string::npos);
  CHECK(refusal({{"/training/strategy/recompute", "\"full\""}}) ==
        "s.json: /training/strategy/recompute: activation recomputation has another name here: \"recompute\": "
        "\"full\", or a "
        "list of parts, in the workload says it");
  CHECK(refusal({{"/workload/model", "gpt2"}, {"/workload/recompute", "\"half\""}})
            .find("/workload/recompute: expected \"none\", \"full\", \"every_second_product\", or a list of") !=
        std::string::npos);
  CHECK(refusal({{"/workload/model", "gpt2"}, {"/workload/recompute", "[\"norm\"]"}})
            .find("/workload/recompute/0: expected \"core_attention\", ") != std::string::npos);
  CHECK(refusal({{"/workload/recompute", "\"full\""}}).find("which is no transformer") != std::string::npos);
  CHECK(refusal({{"/workload/fp8", "true"}}) ==
        "s.json: /workload/fp8: expected \"none\", \"delayed\", \"current\", \"block\", \"mxfp8\", \"nvfp4\", "
        "\"tensorwise\" and \"rowwise\"; found true");
  CHECK(refusal({{"/workload/fp8", "hybrid"}}) ==
        "s.json: /workload/fp8: unknown fp8 \"hybrid\"; known: \"none\", \"delayed\", \"current\", \"block\", "
        "\"mxfp8\", \"nvfp4\", \"tensorwise\", \"rowwise\"");
  CHECK(refusal({{"/workload/fp8", "mxfp4"}}).find("/workload/fp8: training in this form of fp4 is not modelled") !=
        std::string::npos);
  CHECK(refusal({{"/workload/wide_layers", "2"}}) ==
        "s.json: /workload/wide_layers: expected none without \"fp8\"; found 2");
  CHECK(refusal({{"/workload/model", "gpt2"}, {"/workload/fp8", "delayed"}}) ==
        "s.json: /workload/fp8: expected \"precision\": \"bf16\" or \"fp16\" beside it; found \"delayed\"");
  CHECK(refusal({{"/workload/precision", "fp16"}, {"/workload/fp8", "delayed"}})
            .find("/workload/fp8: expected \"none\" for model ") != std::string::npos);
  CHECK(refusal({{"/workload/model", "gpt2"},
                 {"/workload/precision", "fp16"},
                 {"/workload/recompute", "\"every_second_product\""},
                 {"/workload/fp8", "delayed"}}) ==
        "s.json: /workload/fp8: expected \"tensorwise\" or \"rowwise\" beside \"recompute\": \"every_second_product\"; "
        "found \"delayed\"");
  CHECK(refusal({{"/workload/fused_loss", "true"}, {"/workload/composed_loss", "true"}}) ==
        "s.json: /workload/composed_loss: expected false beside \"fused_loss\": true; found true");
  for (const char* key : {"offload_param", "hpz", "qlora"})
    CHECK(refusal({{std::string{"/training/strategy/"} + key, "1"}}).find(" is not modelled: ") != std::string::npos);
  for (const auto& [key, name] :
       {std::pair{"expert_parallel", "experts"}, {"context-parallel", "context"}, {"cp_size", "context"}})
    CHECK(refusal({{std::string{"/training/strategy/"} + key, "1"}})
              .find(std::string{"has another name here: \""} + name + "\"") != std::string::npos);
  for (const auto& [key, said] : {std::pair{"seq_len", "\"sequence_length\" in the structure of \"/workload/model\""},
                                  {"micro_batch_size", "\"batch_per_worker\" in the workload"},
                                  {"gbs", "\"global_batch\" in an \"all_reduce\" strategy"},
                                  {"gradient_accumulation_steps", "\"accumulation_steps\" in the strategy"}})
    for (const char* place : {"/workload/", "/training/strategy/"})
      CHECK(refusal({{std::string{place} + key, "4"}}).find(said) != std::string::npos);
  for (const char* words : {"hybrid", "hybrid_shard"})
    CHECK(refusal({{"/training/strategy", Json{{"kind", "all_reduce"}, {"sharding", words}}.dump()}})
              .find("hybrid sharding, among the GPUs of a group with replicas of it, has another name here: "
                    "\"shard_group\"") != std::string::npos);
  for (const auto& [word, said] : {std::pair{"zb_h1", "has another name here: \"schedule\": \"zb1p\""},
                                   {"zb_v", "has another name here: \"schedule\": \"zbv\""},
                                   {"dualpipe_v", "has another name here: \"schedule\": \"dualpipev\""},
                                   {"dual_pipe", "has another name here: \"schedule\": \"dualpipe\""},
                                   {"zb_h2", "has another name here: \"schedule\": \"zb2p\""},
                                   {"chimera", "is not modelled: \"dualpipe\""}}) {
    const Json strategy{{"kind", "all_reduce"}, {"pipeline", {{"stages", 2}, {"microbatches", 2}, {"schedule", word}}}};
    CHECK(refusal({{"/training/strategy", strategy.dump()}}).find(said) != std::string::npos);
  }
  CHECK(refusal({{"/cluster/groups/1/count", "0"}}) ==
        "s.json: /cluster/groups/1/count: expected 1 to 20000 machines; found 0");
  CHECK(refusal({{"/cluster/groups/1/instance", "gce-custom-4"}}) ==
        "s.json: /cluster/groups/1/instance: expected an instance with an accelerator for workers; found "
        "\"gce-custom-4\", which has none");
  CHECK(refusal({{"/cluster/groups/1/role", "parameter_server"}}) ==
        "s.json: /cluster/groups: expected at least one group with role \"worker\"; found none");
  CHECK(refusal({{"/cluster/groups/1/name", "ps"}}) ==
        "s.json: /cluster/groups/1/name: another group has this name already: \"ps\"");
  CHECK(refusal({{"/output/sampling_period", "100"}}) ==
        "s.json: /output/sampling_period: expected a time with a unit, such as \"100s\" or \"100ms\"; found 100");
  CHECK(refusal({{"/training/steps", "1.5"}}) ==
        "s.json: /training/steps: expected a whole number below 2^63; found 1.5");
  CHECK(refusal({{"/training/strategy/synchronization", "bulk"}}).find("unknown synchronization \"bulk\"") !=
        std::string::npos);
  CHECK(refusal({{"/calibration", "nobody"}}).starts_with("s.json: /calibration: unknown profile \"nobody\"; known: "));
}

TEST_CASE("an unknown region says how to describe it") {
  const std::string message = refusal({{"/cluster/groups/0/region", "us-wets1"}});
  CHECK(message ==
        "s.json: /cluster/groups/0/region: unknown region \"us-wets1\"; did you mean \"us-west1\"?, or describe it in "
        "/cluster/network/links with its latency");
}

TEST_CASE("a batch beyond the GPU's memory has no result, and says by how much") {
  const std::string message = refusal({{"/workload/batch_per_worker", "8192"}});
  CHECK(message.starts_with("no result: s.json: /cluster/groups/1: GPU memory exceeded: group \"workers\" needs "));
  CHECK(message.find(" too much") != std::string::npos);
}

TEST_CASE("every configuration that CM-DARE measured fits into the GPU's memory") {
  const Catalog& catalog = test::shipped_catalog();
  for (const std::string& model : catalog.model_names())
    if (model.starts_with("cm-dare/")) CHECK(refusal({{"/workload/model", model}}) == "accepted");
}

TEST_CASE("catalog objects can stand inline") {
  CHECK(
      refusal(
          {{"/cluster/groups/1/instance",
            R"({"name": "mine", "vcpus": 2, "memory": "8GiB", "nic": "1Gbps", "source": "me", "accelerator": {"name": "G",
                      "peak_fp32": "1Tflops", "peak_fp16": "1Tflops", "memory_bandwidth": "100GBps", "memory": "8GiB", "memory_reserved": "0B",
                      "multiprocessors": 4, "host_link": "4GBps", "source": "me"}})"}}) == "accepted");
}

TEST_CASE("a scenario without a profile gets the one that auto takes") {
  Json json = test::shipped_scenario({{"/workload/model", "mobilenet_v2"}, {"/calibration", "auto"}});
  const Scenario automatic = test::resolved(json);
  json.erase("calibration");
  const Scenario without = test::resolved(json);
  CHECK(without.profile.name == automatic.profile.name);
  CHECK(without.warnings == automatic.warnings);
  CHECK(without.effective->at("calibration") == automatic.effective->at("calibration"));
}

TEST_CASE("a pointer into what a name stands for puts the object in its place") {
  Json json = test::shipped_scenario();
  REQUIRE(json["calibration"] == "cm-dare");
  make_inline(json, "/training/steps", "s.json", test::shipped_catalog());
  CHECK(json == test::shipped_scenario());
  make_inline(json, "/calibration/host/dispatch", "s.json", test::shipped_catalog());
  make_inline(json, "/cluster/groups/0/instance/nic", "s.json", test::shipped_catalog());
  CHECK(json["calibration"]["name"] == "cm-dare");
  REQUIRE(json["cluster"]["groups"][0]["instance"].is_object());
  CHECK(*test::resolved(json).effective == *test::resolved(test::shipped_scenario()).effective);
  set_json_pointer(json, "/calibration/host/dispatch", "1s");
  CHECK(test::resolved(json).profile.host.dispatch == 1.0_s);
}

TEST_CASE("a job cannot wait for more workers than there are") {
  const auto problem = [](const char* workers) {
    return test::problem_of(
        test::shipped_scenario({{"/training/recovery", std::string{"{\"minimum_workers\": "} + workers + "}"}}));
  };
  CHECK(problem("4").empty());
  CHECK(problem("5") == "/training/recovery/minimum_workers: expected 1 to the 4 workers that there are; found 5");
}

TEST_CASE("a scenario outside of what the profile was fitted on carries warnings that say in what") {
  const Scenario scenario = test::resolved(test::shipped_scenario(
      {{"/workload/batch_per_worker", "64"}, {"/cluster/groups/1/count", "64"}, {"/training/steps", "640"}}));
  REQUIRE(scenario.warnings.size() == 3);
  CHECK(scenario.warnings[2].starts_with("the servers of profile \"cm-dare\" were fitted on up to 8 workers; here 64"));
  CHECK(scenario.warnings[0] == "outside of what profile \"cm-dare\" was fitted on: batch 64 (fitted: 128 to 128)");
  CHECK(scenario.warnings[1] == "outside of what profile \"cm-dare\" was fitted on: 64 workers (fitted: up to 8)");
}

TEST_CASE("times that were measured on another GPU carry a warning, and those of whole steps none of profiles") {
  Json scenario = test::shipped_scenario({{"/workload/batch_per_worker", "64"}});
  scenario["workload"]["model"] = Json::parse(R"({"format": 1, "name": "step", "source": "test", "structure": {
    "family": "timed_layers", "batch": 64, "whole_step": true, "gpu": "V100",
    "layers": [{"name": "a", "gradient": "4B", "forward": "1ms", "backward": "1ms"}]}})");
  const std::vector<std::string> warnings = test::resolved(scenario).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "the times of model \"step\" are those of GPU V100: they count as they are on K80");
  scenario["workload"]["model"]["structure"]["gpu"] = "K80";
  CHECK(test::resolved(scenario).warnings.empty());
}

TEST_CASE("a spot group without a pool carries a warning, since none of its machines is revoked") {
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/cluster/groups/1/market", "spot"}}));
  REQUIRE(scenario.warnings.size() == 1);
  CHECK(scenario.warnings[0] ==
        "group \"workers\" is on the spot market without a \"spot_pool\": its price applies, but none of its machines "
        "is revoked");
}

TEST_CASE("a zone without prices in the price history is refused with the nearest that has some") {
  const auto read = [](const char* zone, const char* instance) {
    Json scenario = load_json_file(source_folder() + "/scenarios/resnet50-spot.json");
    scenario["cluster"]["groups"][0]["zone"] = zone;
    scenario["cluster"]["groups"][0]["instance"] = instance;
    return test::resolved(scenario);
  };
  CHECK(test::error_of([&] { (void)read("us-east-1z", "p3.2xlarge"); })
            .find("/cluster/groups/0/zone: expected a zone with prices of p3.2xlarge in the price history; the nearest "
                  "is \"us-east-1") != std::string::npos);
  // A machine that has prices in none: the list price applies, with a warning.
  const Scenario without = read("us-east-1c", "g5.12xlarge");
  CHECK(std::ranges::any_of(without.warnings, [](const std::string& warning) {
    return warning.find("the price history has no prices of g5.12xlarge") != std::string::npos;
  }));
}

TEST_CASE("steps can be given for each worker") {
  const Json training = Json::parse(
      R"({"strategy": {"kind": "parameter_server", "synchronization": "asynchronous"}, "steps_per_worker": 25})");
  Json json = test::shipped_scenario();
  json["training"] = training;
  CHECK(test::resolved(json).training.steps == 100);
  json["training"]["steps"] = 100;
  CHECK_THROWS_AS((void)test::resolved(json), InputError);
}

TEST_CASE("too few steps for a steady state carry a warning") {
  // Workers that do not wait for one another: 4 (5 + 4).
  CHECK(test::resolved(test::shipped_scenario({{"/training/steps", "36"}})).warnings.empty());
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/training/steps", "35"}}));
  REQUIRE(scenario.warnings.size() == 1);
  CHECK(scenario.warnings[0] ==
        "35 steps are too few for a steady state of 4 workers with 5 warm-up steps each: speeds are means over the "
        "whole run");
}

TEST_CASE("the starter scenario and the effective one are accepted, and the schema is JSON") {
  const Json starter = parse_json(starter_scenario("a \"name\""), "starter");
  CHECK(starter["name"] == "a \"name\"");
  const Scenario scenario = test::resolved(starter);
  CHECK_NOTHROW((void)test::resolved(*scenario.effective));
  CHECK_NOTHROW((void)parse_json(scenario_schema(), "schema"));
}

TEST_CASE("the schema names every key that the reader accepts") {
  const Json schema = parse_json(scenario_schema(), "schema");
  const Json effective =
      *test::resolved(test::shipped_scenario(
                          {{"/training/checkpoint", R"({"every_steps": 1, "fixed_time": "1s", "rate": "1MBps"})"}}))
           .effective;
  for (const char* part : {"workload", "training", "output"})
    for (const auto& entry : effective[part].items())
      CHECK_MESSAGE(schema["properties"][part]["properties"].contains(entry.key()), entry.key());
  for (const auto& entry : effective["cluster"]["groups"][0].items())
    CHECK_MESSAGE(schema["properties"]["cluster"]["properties"]["groups"]["items"]["properties"].contains(entry.key()),
                  entry.key());
  const Json& network = schema["properties"]["cluster"]["properties"]["network"]["properties"];
  for (const Fabric& fabric : {Fabric{FatTree{}}, Fabric{Dragonfly{}}, Fabric{Torus{}}, Fabric{Rail{}}}) {
    const Json keys = to_json(fabric);
    for (const auto& entry : keys.items()) CHECK_MESSAGE(network.contains(entry.key()), entry.key());
  }
  for (const auto& entry : effective["cluster"]["network"].items())
    CHECK_MESSAGE(network.contains(entry.key()), entry.key());
}

TEST_CASE("the schema has the all-reduce algorithms that there are, and what libraries call them") {
  const Json schema = parse_json(scenario_schema(), "schema");
  const Json& strategy = schema["properties"]["training"]["properties"]["strategy"]["properties"];
  std::vector<std::string> words;
  for (const auto& [word, algorithm] : collective_algorithms()) words.push_back(word);
  for (const auto& [word, algorithm] : collective_algorithm_aliases()) words.push_back(word);
  words.insert(words.end(), {"Ring", "Tree", "NVLS"});
  CHECK(strategy["algorithm"]["enum"] == Json(words));
  for (const std::string& word : words) CHECK_MESSAGE(find_collective_algorithm(word).has_value(), word);
}

TEST_CASE("packets that are lost, and how TCP sends them again") {
  const auto problem = [](const std::string& key, const std::string& value) {
    return test::problem_of(test::shipped_scenario({{"/cluster/network/" + key, value}}));
  };
  CHECK(problem("packet_loss", "0.6") == "/cluster/network/packet_loss: expected a share from 0 to 0.5; found 0.6");
  CHECK(problem("packet_loss", "-0.1") == "/cluster/network/packet_loss: expected a share from 0 to 0.5; found -0.1");
  CHECK(problem("tcp", R"({"segment": "1MB"})") ==
        "/cluster/network/tcp/segment: expected 1B to 65535B; found \"1MB\"");
  CHECK(problem("tcp", R"({"connections": 0})") == "/cluster/network/tcp/connections: expected 1 to 64; found 0");
  CHECK(problem("tcp", R"({"recovery": "sack"})") ==
        "/cluster/network/tcp/recovery: unknown recovery \"sack\"; did you mean \"rack\"?");
  const Scenario lossy = test::resolved(test::shipped_scenario(
      {{"/cluster/network/packet_loss", "0.01"},
       {"/cluster/network/tcp", R"({"segment": "9000B", "recovery": "duplicate_acks", "connections": 4})"}}));
  const Scenario again = test::resolved(*lossy.effective);
  CHECK(again.packet_loss == 0.01);
  CHECK(again.tcp.segment == 9000_B);
  CHECK(again.tcp.recovery == LossRecovery::kDuplicateAcks);
  CHECK(again.tcp.congestion == CongestionControl::kCubic);
  CHECK(again.tcp.connections == 4);
  CHECK(again.loses_packets());
  CHECK(!test::resolved(test::shipped_scenario()).loses_packets());
}

TEST_CASE("what of TCP counts only where packets are lost carries a warning without") {
  const auto warnings = [](const std::string& tcp, const std::string& loss) {
    return test::resolved(
               test::shipped_scenario({{"/cluster/network/packet_loss", loss}, {"/cluster/network/tcp", tcp}}))
        .warnings;
  };
  REQUIRE(warnings(R"({"connections": 4})", "0").size() == 1);
  CHECK(warnings(R"({"connections": 4})", "0")[0].starts_with("what /cluster/network/tcp states changes nothing"));
  CHECK(warnings(R"({"congestion": "reno"})", "0").size() == 1);
  CHECK(warnings(R"({"connections": 4})", "0.01").empty());
  CHECK(warnings(R"({"turn": "128KiB"})", "0").empty());
}

TEST_CASE("many buckets of which a cycle sends one carry a warning") {
  const auto is_said = [](const char* bucket) {
    Json json = load_json_file(source_folder() + "/scenarios/dgx.json");  // 102 MB of gradients
    json["training"]["strategy"].update({{"cycle_time", "5ms"}, {"bucket_size", bucket}});
    const std::vector<std::string> warnings = test::resolved(json).warnings;
    return std::ranges::any_of(warnings, [](const std::string& one) { return one.starts_with("gradients fill "); });
  };
  CHECK(!is_said("64MiB"));
  CHECK(is_said("1MiB"));
}

TEST_CASE("NICs of a server that no worker's GPU has the number of carry a warning") {
  const std::string server = R"({"source": "test", "vcpus": 4, "memory": "32GiB", "nic": "8Gbps", "nics": )";
  CHECK(test::resolved(test::shipped_scenario({{"/cluster/groups/0/instance", server + "1}"}})).warnings.empty());
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/cluster/groups/0/instance", server + "2}"}}));
  REQUIRE(scenario.warnings.size() == 1);
  CHECK(scenario.warnings[0].starts_with("of the 2 NICs of a server of group \"ps\" 1 are used"));
}

TEST_CASE("the schema ties the sizes of a fabric to its topology") {
  const Json schema = parse_json(scenario_schema(), "schema");
  const Json& network = schema["properties"]["cluster"]["properties"]["network"];
  REQUIRE(network.contains("allOf"));
  CHECK(network["allOf"] == parse_json(fabric_schema(), "schema")["allOf"]);
}

}  // namespace rehearse
