// train, predict and compare as their user meets them, from random workloads to predictions.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "predictor/dataset.hpp"
#include "predictor/driple_dataset.hpp"
#include "predictor/torch_file.hpp"
#include "sim/base/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/program.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

using namespace test;

namespace {

const std::string kSmall = kRoot + "/scenarios/spaces/small.json";
const std::string kDriple = kRoot + "/scenarios/driple/01-v100-ps1-w2.json";

std::string bytes(const std::filesystem::path& file) { return read_file(file, 64 * kMiB); }

void require_success(const std::string& arguments, const std::string& before = "") {
  const Outcome outcome = rehearse_with(arguments, before);
  CAPTURE(arguments);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
}

/// A data file of Driple, of eight graphs for training and four for each other split.
std::string driple_file(const TemporaryFolder& folder, const std::string& name, float scale = 1) {
  DripleDataset dataset;
  for (int i = 0; i < 16; ++i) {
    DripleSample& sample = (i < 8 ? dataset.train : i < 12 ? dataset.val : dataset.test).emplace_back();
    for (int n = 0; n < 5; ++n) sample.features.push_back({10.0F * static_cast<float>(i + n), 1, 0.1F});
    sample.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
    for (std::size_t l = 0; l < kDripleLabels; ++l) sample.labels[l] = scale * static_cast<float>(i + 1) / 20;
  }
  return folder.write(name, to_driple_file(dataset, 4)).string();
}

}  // namespace

TEST_CASE("from random workloads to predictions: better than the mean, and an interruption changes nothing") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string(), model = (folder / "model").string();
  require_success("generate " + kSmall + " --count 200 -j 2 --quiet -o " + data);
  const std::string train = "train " + data + " --epochs 20 --batch-size 16 --quiet -o ";
  require_success(train + model);
  for (const char* file : {"model.pt", "checkpoint.pt", "curves.csv", "report.html"})
    CHECK(std::filesystem::exists(folder / "model" / file));
  const std::string curves = bytes(folder / "model" / "curves.csv");
  CHECK(std::count(curves.begin(), curves.end(), '\n') == 21);

  {  // the median error is clearly below that of the mean
    const Outcome outcome =
        rehearse_with("compare " + model + " " + data + " --json --quiet -o " + (folder / "comparison").string());
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    CHECK(outcome.out == bytes(folder / "comparison" / "comparison.json"));
    const Json comparison = parse_json(outcome.out, "comparison");
    CHECK(!comparison["origins"].contains("measured"));
    const Json& predictors = comparison["origins"]["simulated"]["predictors"];
    for (const char* name : {"model", "median", "closed form", "linear", "trees", "neighbours"})
      CHECK(predictors.contains(name));
    const double ours = predictors["model"]["median_ape"], mean = predictors["median"]["median_ape"];
    CAPTURE(ours);
    CAPTURE(mean);
    CHECK(ours < 0.6 * mean);
    CHECK(predictors["model"]["labels"].size() == label_names().size());
    CHECK(predictors["model"]["by_family"].size() >= 2);
    CHECK(predictors["model"]["by_setting"].size() == 4);
    const std::string csv = bytes(folder / "comparison" / "predictions.csv");
    CHECK(std::count(csv.begin(), csv.end(), '\n') > 15);
    const Outcome text = rehearse_with("compare " + model + " " + data + " --split validation --quiet");
    CHECK(text.exit_code == 0);
    CHECK(text.out.find("Split validation, ") != std::string::npos);
  }
  {  // interrupted and resumed it is the same, byte for byte; done, it is not done again
    const std::string parts = (folder / "parts").string();
    // Interrupted as soon as an epoch is kept, which it takes up.
    const std::string program = build_folder() + "/rehearse ", err = (folder / "err").string();
    const std::string script = program + train + parts + " 2>" + err + " & pid=$!; while kill -0 $pid && [ ! -e " +
                               parts + "/checkpoint.pt ]; do sleep 0.02; done; kill -TERM $pid; wait $pid";
    const int status = std::system(("(" + script + ") >/dev/null 2>&1").c_str());
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 130);
    CHECK(bytes(err).find("the same command goes on in ") != std::string::npos);
    (void)rehearse_with(train + parts, "timeout --signal INT 1");  // wherever it then is
    require_success(train + parts);
    CHECK(bytes(folder / "parts" / "model.pt") == bytes(folder / "model" / "model.pt"));
    CHECK(bytes(folder / "parts" / "checkpoint.pt") == bytes(folder / "model" / "checkpoint.pt"));
    CHECK(bytes(folder / "parts" / "curves.csv") == bytes(folder / "model" / "curves.csv"));
    const auto written = std::filesystem::last_write_time(folder / "model" / "checkpoint.pt");
    require_success(train + model);
    CHECK(std::filesystem::last_write_time(folder / "model" / "checkpoint.pt") == written);
    for (const char* other : {" --lr 0.004", " --seed 7", " --constant-lr", " --family vgg", " --share 0.5"})
      check_refused(train + model + other, 2, "holds another training, of other data or options: choose another -o");
  }
  {  // a scenario, and a whole dataset, are predicted
    const Outcome one =
        rehearse_with("predict " + model + " " + kDriple +
                      " --set /workload/model=cm-dare/resnet15 --json --quiet -o " + (folder / "prediction").string());
    CAPTURE(one.err);
    REQUIRE(one.exit_code == 0);
    const Json prediction = parse_json(one.out, "prediction");
    CHECK(prediction["metrics"].size() == label_names().size());
    for (const auto& [metric, values] : prediction["metrics"].items()) {
      CHECK(values["low"] <= values["value"]);
      CHECK(values["value"] <= values["high"]);
    }
    CHECK(prediction["metrics"]["gpu_peak"]["value"] <= 1);
    CHECK(bytes(folder / "prediction" / "prediction.json") == one.out);
    const std::string page = bytes(folder / "prediction" / "prediction.html");
    CHECK(page.find("1 graph is predicted") != std::string::npos);
    CHECK(page.find("which simulations gave as a rule") != std::string::npos);
    const Outcome all = rehearse_with("predict " + model + " " + data + " --quiet");
    CHECK(all.exit_code == 0);
    CHECK(all.out.starts_with("graph,setting,metric,predicted,low,high,distance\n"));
    CHECK(std::count(all.out.begin(), all.out.end(), '\n') == 1 + 200 * 15);
  }
  {  // a model goes on in another setting
    const std::string other = (folder / "other").string();
    const std::string transfer = "train " + data +
                                 " --epochs 2 --quiet --setting driple/07-2080ti-ps2-w2 --share 0.5 "
                                 "--transfer-from " +
                                 model + " --transfer ";
    require_success(transfer + "readout -o " + other);
    require_success("compare " + other + " " + model + " " + data + " --setting driple/07-2080ti-ps2-w2 --quiet");
    check_refused(transfer + "fine-tune -o " + other, 2, "holds another training");
    check_refused(transfer + "as-intended -o " + (folder / "none").string(), 2, "--transfer");
  }
}

TEST_CASE("a model file and a GraphDef are predicted in the cluster of a scenario") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string();
  write_dataset(data, test::synthetic_dataset(10));
  const std::string model = (folder / "model").string(), published = (folder / "gcn").string();
  require_success("train " + data + " --epochs 1 --quiet -o " + model);
  const std::string measured = (folder / "measured.db").string();
  require_success("import " + driple_file(folder, "v100.pkl") + " --scenario " + kDriple + " --quiet -o " + measured);
  require_success("train " + measured + " --epochs 1 --quiet --network gcn --iterations 2 --hidden 8 -o " + published);
  const std::string in_cluster = " --scenario " + kDriple + " --quiet --json";
  {  // the same as the scenario with that model
    const std::string net = kRoot + "/workloads/models/resnet18.json";
    const Outcome file = rehearse_with("predict " + model + " " + net + in_cluster);
    const Outcome scenario =
        rehearse_with("predict " + model + " " + kDriple + " --quiet --json --set /workload/model=resnet18");
    CAPTURE(file.err);
    CHECK(file.exit_code == 0);
    CHECK(parse_json(file.out, "file")["metrics"] == parse_json(scenario.out, "scenario")["metrics"]);
    CHECK(parse_json(file.out, "file")["graph"] == "resnet18");
  }
  {  // our own network without the program that has LibTorch, which a published one needs
    namespace fs = std::filesystem;
    fs::create_directories(folder / "alone/bin");
    fs::create_directories(folder / "alone/share");
    fs::copy(build_folder() + "/rehearse", folder / "alone/bin/rehearse");
    fs::create_directory_symlink(kRoot, folder / "alone/share/rehearse");
    const auto alone = [&](const std::string& predictor) {
      const std::string command = (folder / "alone/bin/rehearse").string() + " predict " + predictor + " " + kDriple +
                                  " --quiet --json >" + (folder / "out").string() + " 2>" + (folder / "err").string();
      return std::system(command.c_str());
    };
    CHECK(alone(model) == 0);
    CHECK(bytes(folder / "out") == rehearse_with("predict " + model + " " + kDriple + " --quiet --json").out);
    CHECK(alone(published) == 2 << 8);
    CHECK(bytes(folder / "err")
              .ends_with("rehearse-predictor: cannot be started: it was not built: ./run.sh train builds it\n"));
  }
  std::string chain;
  for (int i = 0; i < 120; ++i)
    chain += "node { name: \"n" + std::to_string(i) + "\" op: \"Relu\" device: \"/device:GPU:0\" input: \"n" +
             std::to_string(std::max(0, i - 1)) +
             "\" attr { key: \"_output_shapes\" value { list { shape { dim { size: 99999 } } } } } }\n";
  const std::string graph = folder.write("net.pbtxt", chain).string();
  const Outcome outcome = rehearse_with("predict " + published + " " + graph + in_cluster);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(parse_json(outcome.out, "net")["metrics"].size() == kBurstLabels);
  check_refused("predict " + model + " " + graph + in_cluster, 2, "net.pbtxt: a GraphDef does not say what");
  check_refused(
      "predict " + published + " " + graph + " --scenario " + kRoot + "/scenarios/driple/07-2080ti-ps2-w2.json", 2,
      "net.pbtxt: the network does not know this cluster: it was taught \"Driple 1: V100");
  const Outcome as_taught = rehearse_with("predict " + published + " " + graph + in_cluster);
  for (const auto& [metric, values] : parse_json(as_taught.out, "net")["metrics"].items()) {
    CHECK(!values.contains("low"));  // no interval where none is known
    CHECK(values["value"] >= 0);
  }
  const Outcome table = rehearse_with("predict " + published + " " + graph + " --scenario " + kDriple);
  CHECK(table.out.find("%") == std::string::npos);
  check_refused("predict " + model + " " + graph, 2, "a GraphDef tells of no cluster: expected --scenario beside it");
  check_refused("predict " + model + " " + kRoot + "/workloads/models/resnet18.json", 2,
                "a model file tells of no cluster: expected --scenario beside it");
  check_refused("predict " + model + " " + data + in_cluster, 2, "--scenario: expected a model file or a GraphDef");
  check_refused("predict " + model + " " + kDriple + in_cluster, 2, kDriple);
  const std::string few = folder.write("few.pbtxt", chain.substr(0, chain.find('\n'))).string();
  check_refused("predict " + published + " " + few + in_cluster, 2, "too few for 100 groups");
}

TEST_CASE("a model of the catalog and files of other programs are predicted in the cluster of a scenario") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string(), model = (folder / "model").string();
  write_dataset(data, test::synthetic_dataset(10));
  require_success("train " + data + " --epochs 1 --quiet -o " + model);
  const std::string on = " --scenario " + kDriple, files = kRoot + "/tests/workloads/importers/data/";
  const std::string config = folder
                                 .write("config.json", R"({"model_type": "gpt2", "n_layer": 2, "n_head": 4,
      "n_embd": 256, "n_positions": 64, "vocab_size": 1000})")
                                 .string();
  for (const std::string& input : {std::string{"resnet50"}, files + "resnet50.torch.json", config}) {
    CAPTURE(input);
    const Outcome outcome = rehearse_with("predict " + model + " " + input + on + " --json --quiet");
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(parse_json(outcome.out, "prediction")["metrics"]["step_time_s"]["value"] > 0);
  }
  check_refused("predict " + model + " resnet51" + on, 2, "expected a name, a model file, GraphDef, ONNX model");
  check_refused("predict " + model + " " + kRoot + "/README.md" + on, 2, "HuggingFace config.json");
}

TEST_CASE("simulated and measured: put together, trained on each and on both, compared side by side") {
  const TemporaryFolder folder;
  Dataset simulated = test::synthetic_dataset(15), measured = test::synthetic_dataset(15);
  for (Sample& sample : measured.samples) {
    sample.origin = Origin::kMeasured;
    for (double& label : sample.labels) label *= 1.5;
  }
  const std::string first = (folder / "simulated.db").string(), second = (folder / "measured.db").string();
  write_dataset(first, simulated);
  write_dataset(second, measured);
  folder.write("list.json", R"({ "format": 1, "source": "us", "profiles": [ { "scenario": ")" + kDriple +
                                R"(", "model": "resnet18", "step_time": "70ms" } ] })");
  const std::string data = (folder / "mixed.db").string(), list = (folder / "list.json").string();
  const Outcome imported = rehearse_with("import " + first + " " + second + " " + list + " -o " + data);
  CAPTURE(imported.err);
  REQUIRE(imported.exit_code == 0);
  CHECK(imported.out.starts_with("121 samples of 16 graphs in 5 settings\n"));
  const Dataset mixed = load_dataset(data);
  CHECK(mixed.settings[4].name == "Driple 1: V100, 1 server, 2 workers, one machine");

  std::string models;
  for (const std::string origin : {"simulated", "measured", "both"}) {
    std::filesystem::create_directories(folder / origin.c_str());
    const std::string model = (folder / origin.c_str()).string() + "/model";
    require_success("train " + data + " --epochs 3 --simulated-weight 0.5 --quiet --origin " + origin + " -o " + model);
    models += " " + model + (origin == "both" ? "/" : "");
  }
  const Outcome outcome = rehearse_with("compare" + models + " " + data + " --origin measured --json --quiet -o " +
                                        (folder / "comparison").string());
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json predictors = parse_json(outcome.out, "comparison")["origins"]["measured"]["predictors"];
  CHECK(predictors.contains("simulated"));
  CHECK(predictors["simulated"]["by_study"].size() >= 1);
  const std::string csv = bytes(folder / "comparison" / "predictions.csv");
  const std::string report = bytes(folder / "comparison" / "report.html");
  for (const char* origin : {"simulated", "measured", "both"}) {  // three folders called "model"
    const std::string name = (folder / origin).string() + "/model";
    CAPTURE(name);
    REQUIRE(predictors.contains(name));
    CHECK(predictors[name]["by_family"].size() == 2);
    CHECK(predictors[name]["by_setting"].size() == 4);
    CHECK(csv.find("\n" + name + ",") != std::string::npos);
    CHECK(report.find("Predictions of " + name) != std::string::npos);
  }
  const std::string jobs = bytes(folder / "comparison" / "jobs-measured.csv");
  CHECK(jobs.starts_with("graph,setting,metric,simulated,"));
  CHECK(jobs.find(",measured,\"simulated, error %\",") != std::string::npos);
  check_refused("compare" + models + models + " " + data, 2, "expected predictors in different folders");

  const std::string grouped = (folder / "grouped.db").string(), gcn = (folder / "gcn").string();
  require_success("import " + data + " --grouped -o " + grouped);
  require_success("train " + grouped + " --epochs 1 --network gcn --iterations 2 --hidden 8 --quiet -o " + gcn);
  require_success("compare " + gcn + " " + grouped + " --quiet");
  require_success("compare" + models + " " + grouped + " --quiet");  // groups have the steps of their operators
  check_refused("import " + data + " " + grouped + " -o " + data, 2, grouped + ": the datasets cannot be put together");
  check_refused("import " + list, 2, "--output is required");
  check_refused("import " + (folder / "none").string() + " -o " + data, 2, "none");
  check_refused("train " + folder.write("empty", "").string() + " -o " + gcn, 2, "the file is empty");
}

TEST_CASE("a scenario is predicted, simulated and measured side by side") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string(), model = (folder / "model").string();
  write_dataset(data, test::synthetic_dataset(10));
  require_success("train " + data + " --epochs 1 --quiet -o " + model);
  std::string series = "time_s,gpu_utilization,receive_Bps\n";
  for (int i = 0; i < 40; ++i) series += std::to_string(i * 0.05) + (i % 4 < 3 ? ",0.5,1e6\n" : ",0,0\n");
  const std::string measured = folder.write("series.csv", series).string();
  const std::string out = (folder / "out").string();
  const std::string scenario = " " + kDriple + " --set /workload/model=resnet18";
  const Outcome outcome = rehearse_with("compare " + model + scenario + " --measured " + measured +
                                        " --step-time 100ms --json --quiet -o " + out);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out == bytes(folder / "out" / "comparison.json"));
  const Json metrics = parse_json(outcome.out, "comparison")["metrics"];
  REQUIRE(metrics.size() == label_names().size());
  const Json& step = metrics["step_time_s"];
  CHECK(step["measured"] == 0.1);
  const double simulated = step["simulated"], predicted = step["model"];
  CHECK(step["error_pct"]["measured"]["simulated"] == doctest::Approx(100 * (simulated / 0.1 - 1)));
  CHECK(step["error_pct"]["simulated"]["model"] == doctest::Approx(100 * (predicted / simulated - 1)));
  CHECK(step["interval"]["model"][0] <= predicted);
  CHECK(metrics["gpu_active_s"]["measured"] == doctest::Approx(0.15));
  const Outcome sampled =  // as often as what was measured
      rehearse_with("compare " + model + scenario + " --set /output/sampling_period=50ms --json --quiet");
  const double active = metrics["receive_active_s"]["simulated"];
  CHECK(parse_json(sampled.out, "sampled")["metrics"]["receive_active_s"]["simulated"] == doctest::Approx(active));
  CHECK_FALSE(metrics["memory_peak"].contains("measured"));
  CHECK(bytes(folder / "out" / "comparison.csv").starts_with("metric,source,value,low,high\nmemory_idle_s,simulated,"));
  CHECK(bytes(folder / "out" / "report.html").find("simulated / measured") != std::string::npos);
  const Outcome text = rehearse_with("compare " + model + " " + model + "/../model" + scenario);
  CHECK(text.exit_code == 2);  // the same model twice
  const Outcome two = rehearse_with("compare " + model + scenario + " --quiet");
  CHECK(two.exit_code == 0);
  CHECK(two.out.find("model / simulated, %") != std::string::npos);
  CHECK(two.out.find("measured") == std::string::npos);

  check_refused("compare " + model + scenario + " --origin measured", 2, "--origin: expected a dataset to choose from");
  check_refused("compare " + model + " " + data + " --step-time 1s", 2, "expected a scenario beside them");
  check_refused("compare " + model + scenario + " --step-time 1", 2, "--step-time");
  const Outcome spot = rehearse_with("compare " + model + " " + kRoot + "/scenarios/cm-dare-spot.json");
  CHECK(spot.exit_code == 0);
  CHECK(spot.err.find("model: says nothing of /cluster/groups/1/") != std::string::npos);
  CHECK(spot.err.find("machines that come and go") != std::string::npos);
  check_refused("predict " + model + " " + kRoot + "/scenarios/cm-dare-spot.json", 2, "machines that come and go");
  check_refused(
      "predict " + model + " " + kRoot + "/scenarios/cm-dare.json --set /training/strategy/partition_size=16KiB", 2,
      "cm-dare.json: nothing that the predictor was trained on had a \"");
  check_refused("compare " + model + scenario + " --measured " + folder.write("x.csv", "a\n1\n").string(), 2, "x.csv");
}

TEST_CASE("train, predict and compare refuse with one line") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string(), model = (folder / "model").string();
  const std::string none = (folder / "none").string();
  write_dataset(data, test::synthetic_dataset(10));
  Dataset other = test::synthetic_dataset(10);
  other.labels[3] = "something";
  const std::string others = (folder / "others.db").string();
  write_dataset(others, other);
  other = test::synthetic_dataset(10);
  other.node_features[3] = "something";
  const std::string strange = (folder / "strange.db").string();
  write_dataset(strange, other);
  other = test::synthetic_dataset(10);
  other.graphs.front().features[0] = 1e9F;
  const std::string no_operator = (folder / "no-operator.db").string();
  write_dataset(no_operator, other);
  const std::string text = folder.write("text", "no dataset").string();
  require_success("train " + data + " --epochs 1 --quiet -o " + model);

  check_refused("train " + data, 2, "--output is required");
  check_refused("train -o " + none, 2, "DATASET is required");
  check_refused("train " + none + " -o " + none, 2, none);
  check_refused("train " + text + " -o " + none, 2, text);
  check_refused("train " + strange + " --quiet --network gcn -o " + none, 2, "node features");
  check_refused("train " + others + " --quiet --network gcn -o " + none, 2, "labels");
  check_refused("train " + no_operator + " --quiet --network mpnn -o " + none, 2,
                "the graph \"graph 0\" has a node that is no operator");
  CHECK(!std::filesystem::exists(none));
  check_refused("train " + data + " --network resnet -o " + none, 2, "--network");
  check_refused("train " + data + " --setting x -o " + none, 2, "unknown setting \"x\"");
  check_refused("train " + data + " --leave-out-family x -o " + none, 2, "--leave-out-family: unknown family \"x\"");
  check_refused("train " + data + " --share 0 -o " + none, 2,
                "/data.db: expected at least 1 sample to train on; found 0");
  check_refused("train " + data + " --origin measured -o " + none, 2,
                "/data.db: expected at least 1 sample to train on; found 0");
  check_refused("train " + data + " --epochs 0 -o " + none, 2, "--epochs");
  check_refused("train " + data + " --lr 0 -o " + none, 2, "--lr");
  check_refused("train " + data + " --network mpnn --aggregation mean,medium -o " + none, 2,
                "unknown aggregator \"medium\"");
  check_refused("train " + data + " --network mpnn --scalers log -o " + none, 2, "unknown scaler \"log\"");
  check_refused("train " + data + " --transfer-from " + none + " -o " + none, 2, none);
  check_refused("train " + data + " -o /proc/nowhere", 2, "/proc/nowhere: cannot create this folder");

  check_refused("predict " + model, 2, "INPUT is required");
  check_refused("predict " + none + " " + data, 2, "none/model.pt");
  check_refused("predict " + model + " " + none, 2, none);
  check_refused("predict " + model + " " + text, 2, text);
  check_refused("predict " + model + " " + others, 2, "labels are not those");

  check_refused("compare " + model, 2, "expected a predictor and a dataset");
  check_refused("compare " + model + " " + text, 2, text);
  check_refused("compare " + none + " " + data, 2, "none/model.pt");
  check_refused("compare " + model + " " + others, 2, "labels are not those");
  check_refused("compare " + model + " " + data + " --origin measured", 2, "no sample of that kind");

  write_file(folder / "model" / "model.pt", "PK damaged");
  check_refused("predict " + model + " " + data, 2, "model.pt");
}

TEST_CASE("one option gives the published budget, and what contradicts it is refused") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string(), model = (folder / "model").string();
  write_dataset(data, test::synthetic_dataset(20));
  const std::string train = "train " + data + " --iterations 2 --hidden 8 --quiet -o " + model;
  const std::string gcn = train + " --network gcn", published = gcn + " --budget published";
  // Stopped after a while, the same training goes on however it is typed.
  const std::string typed =
      " --epochs 100000 --patience 1000 --batch-size 32 --fixed-batches --constant-lr --lr 0.003 --weight-decay 1e-6";
  const std::string shortly = " --max-wall-time 1s";
  CHECK(rehearse_with(published + shortly).exit_code != 2);
  REQUIRE(std::filesystem::exists(folder / "model" / "checkpoint.pt"));
  check_refused(gcn + " --epochs 99999", 2, "holds another training");
  CHECK(rehearse_with(gcn + typed + shortly).exit_code != 2);
  CHECK(rehearse_with(published + typed + shortly).exit_code != 2);
  check_refused(published + " --mlp-gain 1", 2, "holds another training");
  check_refused(published + " --labels standardised-logs", 2, "holds another training");

  const std::string refused = "--budget published: expected ";
  check_refused(train + " --budget published", 2, refused + "--network gcn, gin, gat, gat-textbook or mpnn beside it");
  check_refused(published + " --epochs 60", 2, refused + "--epochs 100000 or none beside it");
  check_refused(published + " --patience 30", 2, refused + "--patience 1000 or none beside it");
  check_refused(published + " --batch-size 16", 2, refused + "--batch-size 32 or none beside it");
  check_refused(published + " --lr 0.001", 2, refused + "--lr 0.003 or none beside it");
  check_refused(published + " --weight-decay 0", 2, refused + "--weight-decay 1e-6 or none beside it");
  check_refused(gcn + " --budget own", 2, "--budget");
  check_refused(train + " --mlp-gain 1", 2, "--mlp-gain: of a published network that starts anew");
  check_refused(gcn + " --labels standardised-logs --transfer-from " + model, 2,
                "--labels: of a published network that starts anew");
  check_refused(gcn + " --mlp-gain 0", 2, "--mlp-gain");

  const std::string other = (folder / "other").string();
  require_success("train " + data +
                  " --network gin --iterations 2 --hidden 8 --epochs 2 --labels standardised-logs "
                  "--mlp-gain 1 --quiet -o " +
                  other);
  const Outcome predicted = rehearse_with("predict " + other + " " + data + " --quiet");
  CHECK(predicted.exit_code == 0);
  CHECK(predicted.out.find(",-") == std::string::npos);  // no value below 0
}

TEST_CASE("published weights are imported, predicted with and carried over") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.db").string(), weights = (folder / "pre-train.pkl").string();
  write_dataset(data, test::synthetic_dataset(10));
  require_success("train " + data + " --network gcn --hidden 8 --epochs 2 --quiet -o " + (folder / "gcn").string());
  const TorchValue trained = load_torch_file(folder / "gcn" / "model.pt").at("published", "model");
  write_torch_file(weights, trained.at("state", "model"));

  const std::string model = (folder / "model").string();
  const Outcome imported = rehearse_with("import " + weights + " -o " + model);
  CAPTURE(imported.err);
  REQUIRE(imported.exit_code == 0);
  // Convolutions 32 + 72, GRU 432, LSTM 832, readout 136 + 72 + 108.
  CHECK(imported.out == "gcn of 8 features a node and 3 readout layers, 1684 parameters\n");
  CHECK(imported.err ==
        "rehearse: warning: " + weights +
            ": the largest labels, by which Driple divides, are not in the file: predictions are shares "
            "of them, without unit; train --transfer-from learns with units\n");
  const auto predicted = [&](const std::string& by) {
    const Outcome outcome = rehearse_with("predict " + by + " " + data + " --json --quiet");
    REQUIRE(outcome.exit_code == 0);
    return parse_json(outcome.out, "predictions");
  };
  const Json shares = predicted(model), values = predicted((folder / "gcn").string());
  const std::vector<double> maxima = trained.at("label_maxima", "model").tensor("model").values();
  REQUIRE(shares.size() == 40);
  for (std::size_t s = 0; s < 40; ++s)
    for (std::size_t l = 0; l < kBurstLabels; ++l) {
      const double share =
          std::next(shares[s]["outputs"].begin(), static_cast<std::ptrdiff_t>(l)).value().get<double>();
      CHECK(std::max(0.0, share * maxima[l]) ==
            doctest::Approx(values[s]["metrics"][label_names()[l]]["value"].get<double>()).epsilon(1e-9));
      CHECK(values[s]["outputs"] == shares[s]["outputs"]);
    }
  CHECK(shares[0]["outputs"].begin().key() == "memory_idle");
  CHECK(shares[0]["metrics"].empty());
  CHECK(!shares[0].contains("distance"));
  check_refused("compare " + model + " " + data, 2, "/model: predicts shares of the largest labels");
  check_refused("compare " + model + " " + kDriple, 2, "/model: predicts shares of the largest labels");

  // The readout learns on, with the maxima of its own samples.
  const std::string carried = (folder / "carried").string();
  require_success("train " + data + " --network gcn --epochs 1 --transfer-from " + model +
                  " --transfer as-published --quiet -o " + carried);
  CHECK(load_torch_file(folder / "carried" / "model.pt")
            .at("published", "model")
            .at("label_maxima", "model")
            .tensor("model")
            .values() == maxima);
  const Outcome third = rehearse_with(
      "import --json " +
      folder
          .write("third.pkl",
                 to_torch_file(
                     load_torch_file(folder / "carried" / "model.pt").at("published", "model").at("state", "model")))
          .string() +
      " -o " + model);
  CHECK(third.exit_code == 0);
  CHECK(third.err.find("third.pkl: the third convolution is left out") != std::string::npos);
  CHECK(parse_json(third.out, "import") ==
        Json{{"network", "gcn"}, {"hidden", 8}, {"mlp_layers", 3}, {"iterations", "Nover2"}, {"parameters", 1684}});

  const Outcome dry = rehearse_with("import " + weights + " --dry-run -o " + model);
  CHECK(dry.out == weights + ": file of torch.save, which rehearse-predictor reads\n");
  const std::string none = (folder / "none").string();
  check_refused("import " + weights + " " + data + " -o " + none, 2, "weights are imported alone");
  check_refused("import " + data + " " + weights + " -o " + none, 2, "weights are imported alone");
  check_refused("import " + weights + " --grouped -o " + none, 2, "--grouped: expected datasets");
  check_refused("import " + carried + "/model.pt -o " + none, 2, "/model.pt: expected a state_dict of gcn, gin, gat");
  check_refused("import " + weights + " -o " + carried, 2, "holds a training: choose another -o");
  CHECK(!std::filesystem::exists(none));
}

TEST_CASE("data files of Driple are put together, learnt from, and told of where they do not fit") {
  const TemporaryFolder folder;
  const std::string first = driple_file(folder, "v100.pkl"), second = driple_file(folder, "2080ti.dat", 3);
  const std::string both = (folder / "both.db").string(), model = (folder / "gcn").string();
  const Outcome imported = rehearse_with("import " + first + " " + second + " -o " + both);
  CAPTURE(imported.err);
  REQUIRE(imported.exit_code == 0);
  CHECK(imported.out.starts_with("32 samples of 32 graphs in 2 settings\n"));
  const std::string train = "train " + both + " --network gcn --iterations 2 --hidden 8 --epochs 2 --batch-size 4 -o ";
  const Outcome trained = rehearse_with(train + model);
  CHECK(trained.err.find("gcn sees nothing of a cluster, and learns a mean of 2 settings: choose one by --setting") !=
        std::string::npos);
  const Outcome mean = rehearse_with("compare " + model + " " + both);
  CHECK(mean.err.find("it was taught \"v100\", \"2080ti\", which it cannot tell apart") != std::string::npos);
  const std::string one = (folder / "one").string();
  CHECK(rehearse_with(train + one + " --setting v100").err.find("a mean of") == std::string::npos);
  const Outcome same = rehearse_with("compare " + one + " " + both + " --setting v100");
  CHECK(same.exit_code == 0);
  CHECK(same.err.find("may not hold") == std::string::npos);
  const Outcome other = rehearse_with("compare " + one + " " + both + " --setting 2080ti");
  CHECK(other.err.find("one: 4 predictions may not hold: nothing says in which cluster") != std::string::npos);
  const Outcome scenario = rehearse_with("compare " + one + " " + kDriple + " --set /workload/model=cm-dare/resnet15");
  CHECK(scenario.exit_code == 0);
  CHECK(scenario.err.find("nothing says which GPU, links and workers it was taught in \"v100\"") != std::string::npos);
  const Outcome predicted = rehearse_with("predict " + one + " " + first);
  CHECK(predicted.exit_code == 0);
  CHECK(std::count(predicted.out.begin(), predicted.out.end(), '\n') == 1 + 16 * 12);
  CHECK(predicted.out.find(",-") == std::string::npos);

  const std::string data = (folder / "data.db").string(), learnt = (folder / "learnt").string();
  const std::string none = (folder / "none").string();
  write_dataset(data, test::synthetic_dataset(10));
  require_success("train " + data + " --epochs 1 --quiet -o " + learnt);
  check_refused("predict " + learnt + " " + first, 2, "v100.pkl: has groups of operators, which the predictor");
  check_refused("predict " + one + " " + first + " --set /workload/model=resnet50", 2, "--set: expected a scenario");
  check_refused("import " + first + " " + data + " --quiet -o " + none, 2, "--grouped makes groups of all");
  check_refused("import " + data + " --scenario " + kDriple + " -o " + none, 2, "--scenario: expected data files");
  require_success("import " + first + " " + data + " --grouped --quiet -o " + none);
  const std::string weights =
      folder
          .write("weights.pkl",
                 to_torch_file(load_torch_file(folder / "one" / "model.pt").at("published", "f").at("state", "f")))
          .string();
  check_refused("import " + first + " " + weights + " -o " + none, 2, "weights.pkl: weights are imported alone");
}

TEST_CASE("generate writes Driple's files, one for each setting") {
  const TemporaryFolder folder;
  Json space = load_json_file(kSmall);
  space["operators"] = {100, 2000};
  for (Json& cluster : space["clusters"])
    cluster["scenario"] = kRoot + "/scenarios/driple/" + cluster["name"].get<std::string>().substr(7) + ".json";
  const std::string file = folder.write("space.json", to_json_text(space)).string();
  const std::string out = (folder / "out").string();
  const std::string few = "generate " + file + " --format driple -j 2 --quiet -o ";
  check_refused(few + (folder / "few").string() + " --count 8", 2, "less than a batch of 32");
  require_success(few + out + " --count 800");
  const Dataset data = load_dataset(folder / "out" / "dataset.db");
  CHECK(data.settings.size() == 4);
  for (const char* name : {"driple-01-v100-ps1-w2-synchronous", "driple-01-v100-ps1-w2-asynchronous",
                           "driple-07-2080ti-ps2-w2-synchronous", "driple-07-2080ti-ps2-w2-asynchronous"}) {
    CAPTURE(name);
    const DripleDataset driple = load_driple_dataset(folder / "out" / (std::string{name} + ".dat").c_str());
    CHECK(driple.train.size() == 96);
    CHECK(driple.val.size() == 32);
    CHECK(driple.test.size() == 32);
    CHECK(driple.train[0].features.size() == 100);
  }
}

}  // namespace rehearse
