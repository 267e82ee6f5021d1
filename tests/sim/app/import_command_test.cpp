// rehearse import, and what the other verbs make of its files.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace fs = std::filesystem;

using namespace test;

namespace {

const std::string kProfiles = kRoot + "/calibration/data/pipedream-profiles/";

}  // namespace

TEST_CASE("a model of another tool becomes a model file, and its numbers are printed") {
  const TemporaryFolder folder;
  const std::string model = (folder / "new/alexnet.json").string();
  const Outcome outcome = rehearse_with("import " + kProfiles + "alexnet.nodes.csv -o " + model);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out ==
        "PipeDream profile\n\n"
        "operators    22 forward, 44 in a training step\n"
        "parameters   61,100,840 in 8 tensors\n"
        "measured     44.801 ms forward, 40.520 ms backward, of a batch of 256\n"
        "activations  1.124 GB, of a batch of 256 in fp32\n\n"
        "note: times are those of one GPU, layer by layer, with a batch of 256\n");
  const Outcome simulated = rehearse_with(
      "simulate " + kScenario +
      " --quiet --set /training/steps=8 --set /workload/batch_per_worker=256 --set /workload/model=" + model);
  CAPTURE(simulated.err);
  CHECK(simulated.exit_code == 0);
}

TEST_CASE("imported models are simulated and swept, also without a model file between") {
  const TemporaryFolder folder;
  const std::string model = (folder / "resnet50.json").string();
  const std::string graph = kRoot + "/tests/workloads/importers/data/resnet50.torch.json";
  REQUIRE(rehearse_with("import " + graph + " -o " + model).exit_code == 0);
  const auto speed = [](const std::string& of) {
    const Outcome outcome = rehearse_with("simulate " + kRoot + "/scenarios/resnet50-ec2.json --quiet --json" +
                                          " --set /training/steps=4 --set /workload/model=" + of);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const Json summary = parse_json(outcome.out, "summary");
    return summary["samples_per_s"].get<double>();
  };
  CHECK(speed(model) == speed(graph));
  // The same operators as those of the shipped model, whose measured step times are not looked up for another name.
  CHECK(speed(model) == doctest::Approx(speed("resnet50")).epsilon(0.02));

  const Outcome swept = rehearse_with("sweep " + kRoot + "/scenarios/resnet50-ec2.json --quiet --json" +
                                      " --set /training/steps=4 --grid /workload/model=resnet50," + model);
  CAPTURE(swept.err);
  REQUIRE(swept.exit_code == 0);
  CHECK(parse_json(swept.out, "sweep")["combinations"] == 2);
}

TEST_CASE("graphs are generated from files of other tools, named as the space sees them") {
  const TemporaryFolder folder;
  fs::copy(kRoot + "/tests/workloads/importers/data/small_gpt.torch.json", folder / "net.json");
  const Json space{{"format", 1},
                   {"name", "imported"},
                   {"workloads", {{{"family", "gpt"}, {"model", "net.json"}, {"batch", 4}}}},
                   {"iterations", 10},
                   {"sampling_period", "5ms"},
                   {"clusters", {{{"name", "one"}, {"scenario", kRoot + "/scenarios/driple/01-v100-ps1-w2.json"}}}}};
  const std::string file = folder.write("space.json", to_json_text(space)).string();
  const Outcome outcome = rehearse_with("generate " + file + " --count 1 --quiet -o " + (folder / "g.db").string());
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("1 samples of 1 graphs"));
}

TEST_CASE("what is no model is refused, and nothing is written") {
  const TemporaryFolder folder;
  const std::string out = " -o " + (folder / "out.json").string();
  const std::string text = folder.write("some.txt", "hello").string();
  check_refused("import " + text + out, 2, text + ": unknown content; known: model file, ");
  check_refused("import " + kScenario + out, 2, kScenario + ": expected a model; found a scenario");
  const std::string profile = kProfiles + "alexnet.nodes.csv ";
  check_refused("import " + profile + kProfiles + "resnet18.nodes.csv" + out, 2,
                "resnet18.nodes.csv: one model at a time");
  check_refused("import " + profile + "--grouped" + out, 2, "--grouped: expected datasets");
  check_refused("import " + profile, 2, "--output is required");
  CHECK(folder.entry_count() == 1);
  const Outcome dry = rehearse_with("import " + profile + text + " --dry-run" + out);
  CHECK(dry.out == kProfiles + "alexnet.nodes.csv: PipeDream profile\n" + text + ": unknown content\n");
}

TEST_CASE("a recorded step is a model, whose simulation on one GPU takes as long") {
  const TemporaryFolder folder;
  const std::string traces = kRoot + "/calibration/data/pytorch-kineto-traces/";
  const std::string model = (folder / "step.json").string();
  const std::string import = "import " + traces + "ddp_a100_2gpu_rank0.json.gz -o " + model;
  const Outcome outcome = rehearse_with(import + " --batch 32 --variables resnet50");
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("parameters   25,557,032 in 161 tensors\n") != std::string::npos);
  CHECK(outcome.out.find("took 222.503 ms; the model takes 222.503 ms, without") != std::string::npos);
  const std::string on_one = "simulate " + kRoot +
                             "/scenarios/studies/own/two-machines.json --quiet --set /cluster/groups/0/count=1 "
                             "--set /workload/model=" +
                             model;
  const Outcome simulated = rehearse_with(on_one);
  CAPTURE(simulated.out);
  CHECK(simulated.out.find("step                     222.5 ms per worker") != std::string::npos);
  check_refused(on_one + " --set /workload/batch_per_worker=16", 2,
                "its times were measured with a batch of 32; found batch_per_worker 16");
  check_refused(import, 2, "a trace does not say how many samples a step has: --batch N");
  const std::string on = "replay " + traces + "alexnet_a100_1gpu.json.gz --on " + kRoot + "/scenarios/pollux.json ";
  check_refused(on + "--set /workload/batch_per_worker=8", 2, "a replay keeps what was recorded of it");
  check_refused(on + "--set /training/strategy/bucket_size=1MiB", 2, "rehearse import makes a model of the trace");
  check_refused(import + " --batch 32 --variables resnet51", 2, "--variables: unknown model \"resnet51\"");
  check_refused(import + " --batch 32 --variables resnet18", 2,
                "a step completes 161 gradients; resnet18 has 62 trainable variables");
  check_refused(import + " --batch 32 --steps 2-x", 2, "--steps: expected a number, or two such as 3-5");
  check_refused("import " + traces + "sampled_128gpu_rank0.json.gz --batch 8 -o " + model, 2, "no what-ifs; --force");
}

TEST_CASE(
    "in what a configuration's weights are stored is told by import, and where the workload states no precision") {
  const TemporaryFolder folder;
  const std::string config =
      folder
          .write("config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
                                    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                                    "vocab_size": 1000, "max_position_embeddings": 64, "torch_dtype": "bfloat16"})")
          .string();
  const std::string run = "simulate " + kScenario +
                          " --dry-run --set /workload/batch_per_worker=1 --set /workload/model=" + config +
                          " --set /workload/precision=";
  const std::string told = "its weights are stored in bfloat16, which is not taken over";
  CHECK(rehearse_with("import " + config + " -o " + (folder.path / "m.json").string()).out.find(told) !=
        std::string::npos);
  const Outcome unstated = rehearse_with(run + "null"), stated = rehearse_with(run + "fp32");
  CAPTURE(unstated.err);
  CHECK(unstated.err.find(told) != std::string::npos);
  CHECK(stated.exit_code == 0);
  CHECK(stated.err.find(told) == std::string::npos);
}

TEST_CASE("files of other profilers are refused by every verb that takes models or traces, and named by --dry-run") {
  const TemporaryFolder folder;
  const std::string table = folder.write("r.csv", "\"Index\",\"KernelName\",\"gpu-id\",\"queue-id\"\n").string();
  const std::string trace = kRoot + "/calibration/data/pytorch-kineto-traces/ddp_a100_8gpu_rank3.json.gz";
  const std::string named = "found a table of rocprof, which is not read: record some steps with torch.profiler";
  const std::string out = " -o " + (folder.path / "o").string();
  check_refused("import " + table + out, 2, named);
  check_refused("import --batch 8 " + trace + " " + table + out, 2, named);
  check_refused("replay " + table, 2, named);
  check_refused("replay " + trace + " " + table, 2, named);
  check_refused("export " + table + out, 2, named);
  CHECK(rehearse_with("import --dry-run " + table + out).out.find("r.csv: a table of rocprof, which is not read") !=
        std::string::npos);
}

TEST_CASE(
    "what a listing leaves out and on which GPU it was measured is said beside a study, unless that is silenced") {
  const TemporaryFolder folder;
  const auto listing_of = [&](const std::string& name, int ranks) {
    std::string text = "# Using devices\n";
    for (int i = 0; i < ranks; ++i)
      text += "#  Rank  " + std::to_string(i) + " Group  0 Pid   " + std::to_string(i) + " on " +
              (i < ranks / 2 ? "a" : "b") + " device  0 [0x10] NVIDIA A10G\n";
    return folder
        .write(name,
               text +
                   "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
                   "0 0 float sum -1 6.4 0 0 0 6.4 0 0 0\n1048576 262144 float sum -1 583 1.8 1.8 0 580 1.8 1.8 0\n"
                   "1048576 262144 float none -1 583 1.8 1.8 0 580 1.8 1.8 0\n")
        .string();
  };
  const std::string of_study = "validate " + kRoot + "/scenarios/studies/own/collectives.json --measurements ";
  const std::string study = of_study + listing_of("x.log", 16);
  check_refused(of_study + listing_of("y.log", 2), 2,
                "y.log:6: is of 2 ranks, the study's scenario has 16 GPUs; no row is left to compare");
  const Outcome said = rehearse_with(study), silenced = rehearse_with(study + " --quiet");
  CAPTURE(said.err);
  CHECK(said.exit_code == 0);
  CHECK(said.err.find("x.log: rows of 0 B, which move nothing, are left out: 1") != std::string::npos);
  CHECK(said.err.find("was measured on \"NVIDIA A10G\"; the study's scenario has A100 80GB") != std::string::npos);
  CHECK(
      said.err.find("x.log: rows of a collective that sums nothing (redop), the study's scenario simulates all_reduce, "
                    "are left out: 1") != std::string::npos);
  CHECK(silenced.err.empty());
}

}  // namespace rehearse
