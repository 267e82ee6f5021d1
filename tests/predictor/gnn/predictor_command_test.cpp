// train, predict and compare as their user meets them, from random workloads to predictions.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "predictor/dataset.hpp"
#include "predictor/driple_dataset.hpp"
#include "sim/base/json.hpp"
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
    const Json& predictors = comparison["predictors"];
    for (const char* name : {"model", "mean", "linear", "neighbours"}) CHECK(predictors.contains(name));
    const double ours = predictors["model"]["median_ape"], mean = predictors["mean"]["median_ape"];
    CAPTURE(ours);
    CAPTURE(mean);
    CHECK(ours < 0.6 * mean);
    CHECK(predictors["model"]["labels"].size() == label_names().size());
    CHECK(comparison["by_family"].size() >= 2);
    CHECK(comparison["by_setting"].size() == 4);
    const std::string csv = bytes(folder / "comparison" / "predictions.csv");
    CHECK(std::count(csv.begin(), csv.end(), '\n') > 15);
    const Outcome text = rehearse_with("compare " + model + " " + data + " --split validation --quiet");
    CHECK(text.exit_code == 0);
    CHECK(text.out.find("samples of split validation") != std::string::npos);
  }
  {  // interrupted and resumed it is the same, byte for byte; done, it is not done again
    const std::string parts = (folder / "parts").string();
    // Interrupted as soon as an epoch is kept, which it takes up.
    const std::string program = REHEARSE_BINARY_DIR "/rehearse ", err = (folder / "err").string();
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
  const std::string text = folder.write("text", "no dataset").string();
  require_success("train " + data + " --epochs 1 --quiet -o " + model);

  check_refused("train " + data, 2, "--output is required");
  check_refused("train -o " + none, 2, "DATASET is required");
  check_refused("train " + none + " -o " + none, 2, none);
  check_refused("train " + text + " -o " + none, 2, text);
  check_refused("train " + strange + " --quiet -o " + none, 2, "node features");
  check_refused("train " + others + " --quiet --network gcn -o " + none, 2, "labels");
  check_refused("train " + data + " --network resnet -o " + none, 2, "--network");
  check_refused("train " + data + " --setting x -o " + none, 2, "unknown setting \"x\"");
  check_refused("train " + data + " --leave-out-family x -o " + none, 2, "unknown family \"x\"");
  check_refused("train " + data + " --share 0 -o " + none, 2, "no samples to train on");
  check_refused("train " + data + " --origin measured -o " + none, 2, "no samples to train on");
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
  check_refused("predict " + model + " " + others, 2, "columns");
  check_refused("predict " + model + " " + strange, 2, "columns");

  check_refused("compare " + model, 2, "expected a model and a dataset");
  check_refused("compare " + model + " " + text, 2, text);
  check_refused("compare " + none + " " + data, 2, "none/model.pt");
  check_refused("compare " + model + " " + others, 2, "columns");
  check_refused("compare " + model + " " + data + " --origin measured", 2, "no sample of that kind");

  write_file(folder / "model" / "model.pt", "PK damaged");
  check_refused("predict " + model + " " + data, 2, "model.pt");
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
  check_refused(few + (folder / "few").string() + " --count 8", 2, "the train part has ");
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
