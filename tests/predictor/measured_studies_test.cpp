// What others measured becomes labels by the arithmetic of their units, and the traffic of a step is what simulate
// sends.

#include "predictor/measured_studies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::measured_studies_test {

namespace {

Json of_file(const std::string& name) { return load_json_file(source_folder() + "/scenarios/" + name + ".json"); }

Study shipped_study(const std::string& name) {
  return load_studies(source_folder() + "/scenarios/studies/" + name + ".json").front();
}

double step_time(const Json& scenario, const std::string& metric, double measured) {
  const auto step = measured_step_time(test::resolved(scenario), metric, measured);
  return step ? step->value() : -1;
}

std::string study_text(const std::string& metric) {
  const std::string scenario = source_folder() + "/scenarios/cm-dare.json";
  return R"({ "format": 1, "scenario": ")" + scenario + R"(", "measurements": "rows.csv",
    "columns": { "workers": "/cluster/groups/1/count",
                 "model": { "resnet15": { "/workload/model": "cm-dare/resnet15" },
                            "resnet32": { "/workload/model": "cm-dare/resnet32" } } },
    "target": { "column": "speed", "metric": ")" +
         metric + R"(" } })";
}

constexpr const char* kRows = "workers,model,speed\n1,resnet15,10\n4,resnet15,32\n4,resnet32,20\n4,unknown,3\n";

}  // namespace

TEST_CASE("four workers with 128 samples each: a step time follows from steps, samples, or the time of a training") {
  Json json = of_file("cm-dare");  // asynchronous
  CHECK(step_time(json, "iteration_time_s", 0.3) == 0.3);
  CHECK(step_time(json, "steps_per_s", 20) == doctest::Approx(4 / 20.0));
  CHECK(step_time(json, "samples_per_s", 2048) == doctest::Approx(4 * 128 / 2048.0));
  CHECK(step_time(json, "training_time_s", 100) == -1);  // of how many samples?
  CHECK(step_time(json, "checkpoint_time_s", 3) == -1);
  json["training"]["target"] = {{"samples", 51200}};
  CHECK(step_time(json, "training_time_s", 25) == doctest::Approx(25 / 100.0));  // 100 steps of each worker
  json["training"]["strategy"]["synchronization"] = "synchronous";
  CHECK(step_time(json, "steps_per_s", 20) == doctest::Approx(1 / 20.0));
  CHECK(step_time(json, "samples_per_s", 2048) == doctest::Approx(4 * 128 / 2048.0));
}

TEST_CASE("workers of several kinds have one step time only if they wait for one another") {
  Json json = of_file("cm-dare-heterogeneous");
  CHECK(step_time(json, "steps_per_s", 20) == -1);
  json["training"]["strategy"]["synchronization"] = "synchronous";
  CHECK(step_time(json, "steps_per_s", 20) == doctest::Approx(1 / 20.0));
}

TEST_CASE("a lone worker is sent the variables and sends gradients and moving averages") {
  const Scenario scenario = test::resolved(of_file("cm-dare"));
  const auto traffic = step_traffic(scenario);
  REQUIRE(traffic);
  CHECK(traffic->received == as_double(scenario.workload.parameter_bytes()));
  CHECK(traffic->sent == as_double(scenario.workload.variable_bytes()));
}

TEST_CASE("the traffic of a step is what crosses the chief's NICs in a simulation") {
  for (const std::string name :
       {"cm-dare", "hkbu-byteps", "cscs-tf-ps", "mxnet-ps", "tensorflow-ps", "tum/tensorflow-ring", "hkbu-bert-large",
        "pollux", "driple/07-2080ti-ps2-w2", "driple/13-v100-ps5-w10", "driple/12-2080ti-ps5-w5"}) {
    CAPTURE(name);
    Json json = of_file(name);
    json["training"].erase("steps");
    json["training"]["steps_per_worker"] = 52;
    json["training"]["warmup_steps"] = 2;
    json["workload"]["model"] = "cm-dare/resnet15";
    json["workload"]["batch_per_worker"] = 16;
    json["output"]["sampling_period"] = "1ms";
    const Scenario scenario = test::resolved(json);
    const auto traffic = step_traffic(scenario);
    REQUIRE(traffic);
    const std::vector<double> labels = simulate_labels(scenario);
    CHECK(labels[13] * labels[12] / traffic->received == doctest::Approx(1).epsilon(0.02));  // whole samples, not steps
    CHECK(labels[14] * labels[12] / traffic->sent == doctest::Approx(1).epsilon(0.02));
  }
}

TEST_CASE("no traffic is certain within one machine, in trees, with sparse tables, or with backup workers") {
  CHECK(!step_traffic(test::resolved(of_file("dgx"))));
  Json json = of_file("tum/tensorflow-ring");
  json["training"]["strategy"]["algorithm"] = "flat_double_binary_tree";
  CHECK(!step_traffic(test::resolved(json)));
  json = of_file("cm-dare");
  json["workload"]["model"] = "lstm_language_model";
  json["workload"]["batch_per_worker"] = 8;
  CHECK(!step_traffic(test::resolved(json)));
  json = of_file("cm-dare");
  json["training"]["strategy"]["synchronization"] = "synchronous";
  json["training"]["strategy"]["backup_workers"] = 1;
  CHECK(!step_traffic(test::resolved(json)));
}

TEST_CASE("the rows of a study become samples, and it is said which do not") {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", kRows);
  const auto studies = load_studies(folder.write("study.json", study_text("steps_per_s")));
  const MeasuredStudies measured = read_measured_studies(studies, test::shipped_catalog());
  const Dataset& data = measured.dataset;
  REQUIRE(data.samples.size() == 3);
  CHECK(data.graphs.size() == 2);    // two models
  CHECK(data.settings.size() == 2);  // one and four workers
  CHECK(data.samples[0].graph == data.samples[1].graph);
  CHECK(data.samples[1].setting == data.samples[2].setting);
  CHECK(data.samples[0].split == data.samples[1].split);
  const Workload workload = test::resolved(of_file("cm-dare")).workload;  // ResNet-32
  const std::vector<double>& labels = data.samples[2].labels;
  CHECK(labels[12] == doctest::Approx(4 / 20.0));
  CHECK(labels[13] == doctest::Approx(as_double(workload.parameter_bytes()) / 0.2));
  CHECK(labels[14] == doctest::Approx(as_double(workload.variable_bytes()) / 0.2));
  for (std::size_t i = 0; i < kBurstLabels; ++i) CHECK(std::isnan(labels[i]));
  for (const Sample& sample : data.samples) CHECK(sample.origin == Origin::kMeasured);
  CHECK(data.graphs[1].name == "cm-dare/resnet32 batch 128");
  CHECK(data.settings[1].name == "study: 4 x gce-custom-4-k80 (1), 1 server, asynchronous parameter servers");
  CHECK(!data.samples[0].step.empty());
  const Json rows = Json::parse(data.provenance)["rows"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[2] == "study: " + (folder.path.filename() / "rows.csv").string() + ":4");
  REQUIRE(measured.counts.size() == 2);
  CHECK(measured.counts[0].rows == 3);
  CHECK(measured.counts[1].rows == 1);
  CHECK(measured.counts[1].reason == R"(unknown model "unknown"; known: "resnet15", "resnet32")");

  write_dataset(folder / "measured.db", data);
  const Dataset read = load_dataset(folder / "measured.db");
  CHECK(read.samples[2].labels[12] == labels[12]);
  CHECK(std::isnan(read.samples[2].labels[0]));
}

TEST_CASE(
    "a row that an earlier study has, too, is no second sample: the same line, or the same four digits beside it") {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", kRows);
  // 32.003 is 32 in four digits, 32.1 is not; a line of its own in the same table may have the same speed.
  folder.write("others.csv", "workers,model,speed\n4,resnet15,32.003\n4,resnet15,32.1\n4,resnet32,32\n1,resnet15,32\n");
  std::string others = study_text("steps_per_s");
  others.replace(others.find("rows.csv"), 8, "others.csv");
  const std::vector<Study> studies{load_studies(folder.write("a.json", study_text("steps_per_s"))).front(),
                                   load_studies(folder.write("b.json", study_text("steps_per_s"))).front(),
                                   load_studies(folder.write("c.json", others)).front()};
  const MeasuredStudies measured = read_measured_studies(studies, test::shipped_catalog());
  CHECK(measured.dataset.samples.size() == 3 + 0 + 3);
  std::map<std::string, std::size_t> repeated;
  for (const auto& [study, reason, rows] : measured.counts)
    if (reason == "repeats a row of a") repeated[study] = rows;
  CHECK(repeated == std::map<std::string, std::size_t>{{"b", 3}, {"c", 1}});
}

TEST_CASE("the shipped set of measured rows has times of steps and rates alone, and every row of a table once") {
  std::set<std::pair<std::string, std::size_t>> rows;
  for (const Study& study : load_studies(source_folder() + "/scenarios/studies/measured.json")) {
    CAPTURE(study.name);
    CHECK((study.metric == "iteration_time_s" || study.metric == "steps_per_s" || study.metric == "samples_per_s" ||
           study.metric == "training_time_s"));
    std::size_t twice = 0, unmapped = 0;
    for (const StudyRow& row : study.rows) {
      if (!rows.insert({study.measurements_file, row.row.line()}).second) ++twice;
      if (!row.problem.empty()) ++unmapped;
    }
    CHECK(twice == 0);
    CHECK(unmapped == 0);
  }
}

TEST_CASE(
    "studies of Gavel, Zeus and Lambda are samples of seconds per step: sums over workers, epochs, rates of all GPUs") {
  const auto step_of = [](const std::string& study, std::size_t line) {
    const Study whole = shipped_study(study);
    const auto row = std::ranges::find_if(whole.rows, [&](const StudyRow& r) { return r.row.line() == line; });
    REQUIRE(row != whole.rows.end());
    Study one = whole;
    one.rows = {*row};
    return read_measured_studies({one}, test::shipped_catalog()).dataset.samples.at(0).labels[12];
  };
  // physical_cluster,k80,yes,ResNet-18,16,2: 8.755... steps/s of two workers together are half of it each
  const Study gavel = shipped_study("gavel-throughputs");
  const auto two = std::ranges::find_if(gavel.rows, [](const StudyRow& r) { return r.row.text("gpus") == "2"; });
  REQUIRE(two != gavel.rows.end());
  CHECK(step_of("gavel-throughputs", two->row.line()) ==
        doctest::Approx(2 / two->row.number("steps_per_s")).epsilon(1e-5));
  // A40, ImageNet, 128 images: an epoch of 1281167 / 128 steps in 3739.5 s
  const Study zeus = shipped_study("zeus-energy");
  const auto epoch = std::ranges::find_if(zeus.rows, [](const StudyRow& r) {
    return r.row.text("dataset") == "imagenet" && r.row.text("batch_size") == "128";
  });
  REQUIRE(epoch != zeus.rows.end());
  CHECK(step_of("zeus-energy", epoch->row.line()) ==
        doctest::Approx(epoch->row.number("time_per_epoch_s") * 128 / 1281167).epsilon(1e-5));
  // Two GPUs with 192 sequences each, 374 sequences/s together
  const Study lambda = shipped_study("lambda-gpu-benchmarks");
  const auto pair = std::ranges::find_if(lambda.rows, [](const StudyRow& r) {
    return r.row.text("system") == "2x RTX A6000" && r.row.text("workload") == "bert_base_squad";
  });
  REQUIRE(pair != lambda.rows.end());
  CHECK(pair->measured == 374);
  CHECK(step_of("lambda-gpu-benchmarks", pair->row.line()) == doctest::Approx(2 * 192 / 374.0));
}

TEST_CASE("studies of something else give no samples") {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", kRows);
  const auto studies = load_studies(folder.write("study.json", study_text("checkpoint_time_s")));
  const std::string expected = (folder / "study.json").string() +
                               ": expected a row that is a sample of a step time; found none: checkpoint_time_s gives "
                               "no step time";
  CHECK_THROWS_WITH_AS(read_measured_studies(studies, test::shipped_catalog()), expected.c_str(), InputError);
}

TEST_CASE("a model that is one measured time has a step, too") {
  Study study = shipped_study("spotdnn-others");
  std::erase_if(study.rows, [](const StudyRow& row) { return row.scenario.find("vgg19") == std::string::npos; });
  const MeasuredStudies measured = read_measured_studies({study}, test::shipped_catalog());
  for (const Sample& sample : measured.dataset.samples) CHECK(!sample.step.empty());
}

TEST_CASE("every row of CM-DARE's clusters is a sample, and spotDNN's boards with several GPUs are, too") {
  // K80, one worker: 9.8756 steps/s; two: 18.8183
  const MeasuredStudies measured = read_measured_studies(
      {shipped_study("cm-dare-cluster"), shipped_study("spotdnn-resnet110")}, test::shipped_catalog());
  const Dataset& data = measured.dataset;
  REQUIRE(data.samples.size() > 72);
  for (const Sample& sample : data.samples) CHECK(!sample.step.empty());
  CHECK(measured.dataset.samples[0].labels[12] == doctest::Approx(1 / 9.8756));
  CHECK(measured.dataset.samples[1].labels[12] == doctest::Approx(2 / 18.8183));
  CHECK(measured.counts.back().study == "spotdnn-resnet110");
}

}  // namespace rehearse::measured_studies_test
