// Dataset files: what is written is read back the same, the same content gives the same bytes, and a file that is not
// sound is refused with one line.

#include "predictor/dataset.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Two graphs of 2 and 1 nodes, two settings, three samples.
Dataset small_dataset() {
  Dataset data{
      .provenance = R"({"seed":1})", .node_features = {"flops", "kind"}, .labels = {"gpu_peak", "step_time_s"}};
  data.settings = {{"a synchronous", "a", "{}"}, {"a asynchronous", "a", R"({"name":"x"})"}};
  data.graphs = {{"resnet", "resnet of 2", "{}", {1, 2, 3, 4}, {{0, 1}}}, {"vgg", "vgg", "{}", {5, 6}, {}}};
  data.samples = {{0, 0, Split::kTrain, Origin::kSimulated, 1, {0.5, 0.25}},
                  {0, 1, Split::kTrain, Origin::kMeasured, 2.5, {kUnknown, 0.125}},
                  {1, 1, Split::kTest, Origin::kSimulated, 1, {1, 2}}};
  return data;
}

bool are_equal(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

std::string refusal(const std::filesystem::path& file) {
  try {
    (void)load_dataset(file);
  } catch (const InputError& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    return line.substr(std::min(line.size(), file.string().size()));
  }
  return "accepted";
}

/// What load_dataset() says of the small dataset after `sql` has changed the file.
std::string refusal_after(const char* sql) {
  const test::TemporaryFolder folder;
  const auto file = folder.path / "data";
  write_dataset(file, small_dataset());
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  char* message = nullptr;
  const int result = sqlite3_exec(database, sql, nullptr, nullptr, &message);
  INFO(std::string{message ? message : ""});
  REQUIRE(result == SQLITE_OK);
  sqlite3_close(database);
  return refusal(file);
}

}  // namespace

TEST_CASE("a dataset is read back as it was written, and the same content gives the same bytes") {
  const test::TemporaryFolder folder;
  const Dataset data = small_dataset();
  write_dataset(folder.path / "one", data);
  write_dataset(folder.path / "two", data);
  CHECK(read_file(folder.path / "one", kMiB) == read_file(folder.path / "two", kMiB));
  const Dataset read = load_dataset(folder.path / "one");
  CHECK(read.provenance == data.provenance);
  CHECK(read.node_features == data.node_features);
  CHECK(read.labels == data.labels);
  REQUIRE(read.settings.size() == 2);
  CHECK(read.settings[1].name == "a asynchronous");
  CHECK(read.settings[1].group == "a");
  CHECK(read.settings[1].provenance == R"({"name":"x"})");
  REQUIRE(read.graphs.size() == 2);
  CHECK(read.graphs[0].family == "resnet");
  CHECK(read.graphs[0].features == data.graphs[0].features);
  CHECK(read.graphs[0].edges == data.graphs[0].edges);
  CHECK(read.nodes(read.graphs[0]) == 2);
  REQUIRE(read.samples.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(read.samples[i].graph == data.samples[i].graph);
    CHECK(read.samples[i].setting == data.samples[i].setting);
    CHECK(read.samples[i].split == data.samples[i].split);
    CHECK(read.samples[i].origin == data.samples[i].origin);
    CHECK(read.samples[i].weight == data.samples[i].weight);
    CHECK(are_equal(read.samples[i].labels, data.samples[i].labels));
  }
}

TEST_CASE("a dataset that is not finished leaves what was there") {
  const test::TemporaryFolder folder;
  write_file(folder.path / "data", "before");
  { const DatasetWriter writer{folder.path / "data", small_dataset()}; }
  CHECK(read_file(folder.path / "data", kMiB) == "before");
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path}, {}) == 1);
}

TEST_CASE("a dataset of an older version is refused with the command that makes it anew") {
  const std::string old =
      ": expected a dataset of version 3; found version 1, whose steps are not those of this program: ";
  const std::string version = "PRAGMA user_version = 1; UPDATE meta SET value = ";
  CHECK(refusal_after((version + R"('{"space":"small","seed":7}')").c_str())
            .starts_with(old + "make it anew: rehearse generate scenarios/spaces/small.json --count 3 --seed 7 -o "));
  CHECK(refusal_after((version + R"('{"source":"measured rows of studies"}')").c_str())
            .starts_with(old + "make it anew: rehearse generate scenarios/studies/measured.json -o "));
  CHECK(
      refusal_after((version + R"('{"source":"measured rows of studies","options":"--without-own-profiles"}')").c_str())
          .starts_with(old +
                       "make it anew: rehearse generate scenarios/studies/measured.json --without-own-profiles -o "));
  CHECK(refusal_after((version + "'{}'").c_str()).starts_with(old + "import again what it is made of: "));
  CHECK(refusal_after((version + "'[1]'").c_str()).starts_with(old + "import again what it is made of: "));
  CHECK(refusal_after("PRAGMA user_version = 2").find("found version 2, whose bursts are not those") !=
        std::string::npos);
}

TEST_CASE("a dataset that is not sound is refused with the row that is wrong") {
  CHECK(refusal_after("SELECT 1") == "accepted");
  CHECK(refusal_after("PRAGMA application_id = 7") ==
        ": expected a dataset of rehearse; found another SQLite database");
  CHECK(refusal_after("PRAGMA user_version = 4") == ": expected a dataset of version 3; found version 4");
  CHECK(refusal_after("DROP TABLE meta") == ": a table of this dataset is missing");
  CHECK(refusal_after("DROP TABLE graphs; CREATE VIEW graphs AS SELECT 1 AS id") ==
        ": expected the tables of a dataset; found \"graphs\"");
  CHECK(refusal_after("DELETE FROM meta") == ": expected a provenance");
  CHECK(refusal_after("UPDATE meta SET value = '[1]'") == ": provenance: expected a JSON object");
  CHECK(refusal_after("UPDATE names SET kind = 'x' WHERE name = 'step_time_s'") == ": names: unknown kind \"x\"");
  CHECK(refusal_after("UPDATE names SET position = 3 WHERE name = 'kind'") ==
        ": names: expected the positions of each kind to count from 0");
  CHECK(refusal_after("UPDATE names SET name = 'flops' WHERE name = 'kind'") ==
        ": names: expected at most 1000 distinct names of 1 to 200 bytes; found \"flops\"");
  CHECK(refusal_after("UPDATE settings SET name = 'a synchronous'") ==
        ": settings row 1: another one has this name already");
  CHECK(refusal_after("UPDATE samples SET step = x'00'") ==
        ": column step: expected a whole number of values in every row");
  CHECK(refusal_after("UPDATE samples SET step = x'0000803f' WHERE id = 1") ==
        ": samples row 1: expected the numbers of a step");
  CHECK(refusal_after("UPDATE graphs SET nodes = 3 WHERE id = 0") ==
        ": graphs row 0: expected 2 features of each of 3 nodes; found 4");
  CHECK(refusal_after("UPDATE graphs SET edges = x'0000000002000000' WHERE id = 0") ==
        ": graphs row 0: expected edges between nodes 0 to 1; found 0 to 2");
  CHECK(refusal_after("UPDATE graphs SET features = 'abc'") == ": column features: expected a blob in every row");
  CHECK(refusal_after("UPDATE graphs SET family = CAST(x'ff' AS TEXT)") ==
        ": column family: expected UTF-8 in every row");
  CHECK(refusal_after("UPDATE samples SET graph = 2") == ": samples row 0: there is no graph 2");
  CHECK(refusal_after("UPDATE samples SET setting = -1") == ": samples row 0: there is no setting -1");
  CHECK(refusal_after("UPDATE samples SET split = 'test' WHERE id = 1") ==
        "accepted");  // simulated and measured by a study
  CHECK(refusal_after("UPDATE samples SET split = 'test', origin = 'simulated' WHERE id = 1") ==
        ": samples row 1: graph 0 is in two splits");
  CHECK(refusal_after("UPDATE samples SET origin = 'measured', setting = 1 WHERE id = 0; "
                      "UPDATE samples SET split = 'test' WHERE id = 1") ==
        ": samples row 1: graph 0 of study \"a\" is in two splits");
  CHECK(refusal_after("UPDATE samples SET split = 'trian'") ==
        ": samples row 0: unknown split or origin \"trian\"; did you mean \"train\"?");
  CHECK(refusal_after("UPDATE samples SET weight = -1") == ": samples row 0: expected a weight of at least 0");
  CHECK(refusal_after("UPDATE samples SET labels = x''") == ": samples row 0: expected 2 labels; found 0");
  CHECK(refusal_after("UPDATE samples SET id = 7 WHERE id = 2") ==
        ": samples row 2: expected identifiers from 0 without gaps");
}

TEST_CASE("files that are no database are refused") {
  const test::TemporaryFolder folder;
  CHECK(refusal(folder.path / "none") == ": cannot read: No such file or directory");
  write_file(folder.path / "text", "some text that is long enough to be no header of anything at all");
  CHECK(refusal(folder.path / "text") == ": cannot use this dataset: file is not a database");
  write_file(folder.path / "empty", "");
  CHECK(refusal(folder.path / "empty") == ": expected a dataset of rehearse; the file is empty");
}

TEST_CASE("node features are the operator's sizes, edges those of the graph") {
  // A dense layer of 3 outputs on 2 inputs, batch 4: forward 2 x 4 x 2 x 3 = 48 FLOPs on 6 weights; the bias is another
  // kernel.
  GraphBuilder builder{"here", "model", Layout::kNchw, 4, Precision::kFp32};
  const auto output = builder.dense("dense", builder.input(1, 1, 2), 3);
  const Workload workload = builder.finish(std::vector{output});
  const std::vector<float> features = node_features_of(workload, Optimizer::kAdam);
  const std::size_t width = node_feature_names().size();
  REQUIRE(features.size() == workload.graph.size() * width);
  CHECK(edges_of(workload).size() == workload.graph.edges().size());
  CHECK(features[0] == static_cast<float>(OperatorKind::kDense));
  CHECK(features[1] == static_cast<float>(Phase::kForward));
  CHECK(features[2] == 48);
  CHECK(features[5] == 24);
  CHECK(features[6] == 12);
  for (const GraphEdge& edge : edges_of(workload)) CHECK(edge.from < edge.to);
  // The last kernel updates 3 biases: Adam reads them, their gradients and two slots, and writes all but the gradients.
  const float* update = &features[features.size() - width];
  CHECK(update[0] == static_cast<float>(OperatorKind::kUpdate));
  CHECK(update[3] == 4 * 12);
  CHECK(update[4] == 3 * 12);
  CHECK(update[5] == 12);
}

TEST_CASE("moving averages belong to the kernel that updates them, the samples to the first one") {
  GraphBuilder builder{"here", "model", Layout::kNchw, 4, Precision::kFp32};
  const auto output = builder.dense("dense", builder.batch_norm("norm", builder.input(8, 8, 2)), 3);
  const Workload workload = builder.finish(std::vector{output});
  const std::vector<float> features = node_features_of(workload, Optimizer::kSgd);
  const std::size_t width = node_feature_names().size();
  CHECK(features[width - 1] == as_double(workload.input_bytes));
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < features.size(); i += width) {
    if (i > 0) CHECK(features[i + width - 1] == 0);
    if (features[i + 14] == 0) {
      CHECK(features[i + 15] == -1);
      continue;
    }
    ++kernels;
    CHECK(features[i] == static_cast<float>(OperatorKind::kBatchNorm));
    CHECK(features[i + 14] == 2);
    CHECK(features[i + 15] == features[i + 13] + features[i + 12]);  // created after scale and offset
    CHECK(features[i + 16] == 2 * 2 * 4);                            // means and variances of two channels
  }
  CHECK(kernels == 1);
}

}  // namespace rehearse
