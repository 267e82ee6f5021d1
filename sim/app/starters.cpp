#include "sim/app/starters.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace {

/// A text with PATH, the path without .json, NAME, its last part, and TITLE, the same as a JSON string, in their places.
struct StarterText {
  const char* kind;
  const char* text;
  bool needs_scenario = false;     // beside it: NAME-scenario.json
  const char* table = nullptr;     // beside it: NAME.csv
  const char* scenario = nullptr;  // that text instead of that of kind "scenario"
};

constexpr const char* kModelStarter =
    R"(// Run it:  rehearse import PATH.json -o PATH-read.json      What may stand here:  rehearse schema model
// In a scenario: "model": "NAME.json", a path relative to the scenario's folder.
{
  "format": 1,
  "source": "where the structure comes from: a paper, a file, your own idea",
  "input": [32, 32, 3],                     // height, width and channels of an image
  "structure": {
    "family": "layers",                     // others: resnet, transformer, graph, ...
    "layers": [
      { "layer": "repeat", "times": 2, "layers": [
        { "layer": "convolution", "channels": 64, "kernel": 3, "bias": true },
        { "layer": "relu" } ] },
      { "layer": "max_pool", "kernel": 2 },
      { "layer": "dense", "features": 128 },
      { "layer": "dense", "features": 10 }
    ]
  }
}
)";

constexpr const char* kCatalogStarter =
    R"(// Run it:  rehearse list instances --catalog PATH      What may stand here:  rehearse schema catalog
// A folder of such files is a catalog of one's own: --catalog PATH adds it to what the program knows.
{
  "format": 1,
  "instances": {
    "my-machine": {                         // in a scenario: "instance": "my-machine"
      "vcpus": 64,
      "memory": "256GiB",
      "accelerator": "RTX 4090",            // rehearse list gpus; one that is missing goes under "accelerators"
      "accelerators": 4,
      "interconnect": "pcie4-own",          // rehearse list interconnects
      "nic": "25Gbps",                      // bits; 3.125GBps are bytes
      "usd_per_hour_on_demand": 2.4,        // may be left out: then runs have no cost
      "source": "our machine room; price: purchase and power over three years"
    }
  }
}
)";

constexpr const char* kStudyStarter =
    R"(// Run it:  rehearse validate PATH.json      What may stand here:  rehearse schema study
// rehearse calibrate PATH.json -o my-profile.json fits what "free" names to the rows of "where"; all others are predicted.
{
  "format": 1,
  "scenario": "NAME-scenario.json",
  "measurements": "NAME.csv",               // your own numbers go there
  "set": { "/training/steps": 200 },        // the same in every row
  "columns": {                              // what a column's value changes in the scenario
    "workers": "/cluster/groups/1/count",
    "batch": "/workload/batch_per_worker"
  },
  "target": { "column": "step_time_s", "metric": "iteration_time_s" },
  "fit": { "where": { "workers": [1, 2] }, "free": ["/gpu/peak_efficiency/P100"] }
}
)";

constexpr const char* kStarterTable = R"(workers,batch,step_time_s
1,128,0.0912
2,128,0.0915
4,128,0.0968
8,128,0.1860
)";

constexpr const char* kSweepStarter =
    R"(// Run it:  rehearse sweep PATH.json      What may stand here:  rehearse schema sweep
{
  "format": 1,
  "scenario": "NAME-scenario.json",
  "set": { "/training/steps": 400 },        // the same in every combination
  "grid": {                                 // every value with every other
    "/cluster/groups/0/count": [1, 2],
    "/cluster/groups/1/count": "1..8"
  },
  "list": [                                 // one of these entries at a time
    { "/cluster/groups/1/instance": "gce-custom-4-k80" },
    { "/cluster/groups/1/instance": "gce-custom-8-p100" }
  ],
  "constraints": ["/cluster/groups/0/count <= /cluster/groups/1/count"]
}
)";

constexpr const char* kProvisionStarter =
    R"(// Run it:  rehearse provision PATH.json --deadline 45min --target-loss 0.8      What may stand here:  rehearse schema provision
// For a model of your own without a measured loss: rehearse provision --model NAME --samples 1M --max-gpus 64
{
  "format": 1,
  "scenario": "NAME-scenario.json",         // asynchronous servers, and a model whose loss is known
  "candidates": [                           // at most so many machines of each
    { "instance": "p3.2xlarge", "quota": 2, "group": { "batch_per_worker": 1024 } },
    { "instance": "g3.8xlarge", "quota": 5, "group": { "batch_per_worker": 1024 } },
    { "instance": "g3.16xlarge", "quota": 4, "group": { "batch_per_worker": 2048 } }
  ],
  "confidence": 0.95,                       // least probability of being in time
  "price": "spot"
}
)";

constexpr const char* kProvisionStarterScenario =
    R"(// Run it:  rehearse simulate PATH-scenario.json      What may stand here:  rehearse schema scenario
{
  "format": 1,
  "name": TITLE,
  "workload": { "model": "spotdnn/resnet110", "batch_per_worker": 1024, "optimizer": "momentum", "precision": "fp32" },
  "cluster": {
    "groups": [
      { "name": "ps", "role": "parameter_server", "instance": "m5.xlarge", "count": 1, "region": "us-east-1" },
      { "name": "workers", "role": "worker", "instance": "g3.8xlarge", "count": 2, "region": "us-east-1",
        "workers_per_machine": 1 }          // the pattern of every candidate
    ],
    "network": { "topology": "star" }
  },
  "training": {
    "strategy": { "kind": "parameter_server", "synchronization": "asynchronous", "overlap": "none" },
    "target": { "loss": 0.8 },
    "steps": 400
  },
  "calibration": "spotdnn"
}
)";

constexpr const char* kSpaceStarter =
    R"(// Run it:  rehearse generate PATH.json --count 20 -o PATH.db      What may stand here:  rehearse schema space
{
  "format": 1,
  "name": TITLE,
  "workloads": [
    { "family": "small images",
      "let": { "width": { "integer": [8, 32], "multiple_of": 8 } },   // drawn once for each model
      "model": { "format": 1, "source": "random sizes", "input": [32, 32, 3],
        "structure": { "family": "layers", "layers": [
          { "layer": "repeat", "times": { "integer": [1, 3] }, "layers": [
            { "layer": "convolution", "channels": { "value": "width" }, "kernel": 3, "bias": true },
            { "layer": "relu" } ] },
          { "layer": "dense", "features": 10 } ] } },
      "batch": { "integer": [16, 256], "logarithmic": true } }
  ],
  "clusters": [ { "name": "mine", "scenario": "NAME-scenario.json" } ]
}
)";

constexpr const char* kQueueStarter =
    R"(// Run it:  rehearse queue PATH.json      What may stand here:  rehearse schema queue
{
  "format": 1,
  "name": TITLE,
  "cluster": { "groups": [ { "name": "p3", "instance": "p3.16xlarge", "machines": 2 } ] },
  "jobs": [
    { "name": "large", "gpus": 16, "duration": "8h", "count": 2, "every": "6h" },
    { "name": "small", "gpus": 4, "duration": "50min", "arrival": "1h", "count": 12, "every": "30min" }
  ],
  "policy": ["fifo", "srtf", "tiresias"],   // all of them, to compare
  "restart": "60s"                          // in which a job that starts or moves does not train
}
)";

constexpr std::array kStarters{StarterText{"scenario", nullptr},
                               StarterText{"model", kModelStarter},
                               StarterText{"catalog", kCatalogStarter},
                               StarterText{"study", kStudyStarter, true, kStarterTable},
                               StarterText{"sweep", kSweepStarter, true},
                               StarterText{"provision", kProvisionStarter, true, nullptr, kProvisionStarterScenario},
                               StarterText{"space", kSpaceStarter, true},
                               StarterText{"queue", kQueueStarter}};

constexpr std::array kStarterKinds = [] {
  std::array<const char*, kStarters.size()> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = kStarters[i].kind;
  return kinds;
}();

std::string replaced_all(std::string text, std::string_view word, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += value.size())
    text.replace(at, word.size(), value);
  return text;
}

}  // namespace

std::span<const char* const> starter_kinds() { return kStarterKinds; }

std::vector<StarterFile> starter_files(const std::string& kind, const std::string& name) {
  const auto* const found =
      std::ranges::find(kStarters, kind, [](const StarterText& one) { return std::string{one.kind}; });
  if (found == kStarters.end())
    throw InputError{
        unknown_name_message("kind", kind, std::vector<std::string>{kStarterKinds.begin(), kStarterKinds.end()})};
  const std::string file = std::filesystem::path{name}.filename().string();
  const auto filled = [&](const char* text) {
    return replaced_all(replaced_all(replaced_all(text, "PATH", name), "NAME", file), "TITLE", Json(file).dump());
  };
  if (found->text == nullptr) return {{name + ".json", starter_scenario(file)}};
  std::vector<StarterFile> files{{kind == "catalog" ? name + "/machines.json" : name + ".json", filled(found->text)}};
  if (found->needs_scenario)
    files.push_back(
        {name + "-scenario.json", found->scenario != nullptr ? filled(found->scenario) : starter_scenario(file)});
  if (found->table != nullptr) files.push_back({name + ".csv", found->table});
  return files;
}

}  // namespace rehearse
