#include "workloads/importers/importer.hpp"

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

SourceFormat format_of(const std::string& content) {
  const FormatReader* reader = find_format(Source{"some.file", content});
  return reader == nullptr ? SourceFormat::kOther : reader->format;
}

const std::string kModel = R"({"format": 1, "source": "test", "structure": {"family": "collective", "bytes": 4}})";

}  // namespace

TEST_CASE("a file is what its content says, whatever it is called") {
  CHECK(format_of(std::string{"SQLite format 3\0", 16}) == SourceFormat::kDataset);
  CHECK(format_of(std::string{"PK\x03\x04\0\0 archive/data.pkl", 23}) == SourceFormat::kTorchFile);
  CHECK(format_of("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.more") == SourceFormat::kTorchFile);
  CHECK(format_of("PK\x03\x04 another archive") == SourceFormat::kOther);
  CHECK(format_of(R"({"schemaVersion": 1, "traceEvents": [)") == SourceFormat::kTrace);
  CHECK(format_of(R"([{"ph": "X", "ts": 1,)") == SourceFormat::kTrace);
  CHECK(format_of(kModel) == SourceFormat::kModel);
  CHECK(format_of("// of ours\n" + kModel) == SourceFormat::kModel);
  CHECK(format_of(R"({"workload": {}, "cluster": {}})") == SourceFormat::kScenario);
  CHECK(format_of(R"({"source": "x", "jobs": []})") == SourceFormat::kMeasurementList);
  CHECK(format_of("node1 -- Input -- forward_compute_time=0") == SourceFormat::kPipedreamProfile);
  CHECK(format_of(R"({"schema": "1", "workload_graph": [)") == SourceFormat::kTrace);
  CHECK(format_of(R"({"schema": "1.0.1", "pid": 1, "nodes": [{"name": "a", "id": 2, "rf_id": 0,)") ==
        SourceFormat::kTrace);
  CHECK(format_of(std::string{"\x04\x0a\x02v1\x04\x08\x01\x12\0", 9}) == SourceFormat::kTrace);
  CHECK(format_of("") == SourceFormat::kOther);
  CHECK(format_of("{}") == SourceFormat::kOther);
  CHECK(format_of("anything") == SourceFormat::kOther);
  const test::TemporaryFolder folder;
  for (const std::string& content : {kModel, gzip(kModel)})
    CHECK(recognized_format(folder.write("some.csv", content)) == SourceFormat::kModel);
}

TEST_CASE("a model file is imported as it is, what is no model is refused by its name") {
  CHECK(to_json_text(import_model(Source{"a.json", gzip(kModel)}).model_file) == to_json_text(Json::parse(kModel)));
  CHECK(test::error_of([] {
          import_model(Source{"a.db", std::string{"SQLite format 3\0", 16}});
        }) == "a.db: expected a model; found a dataset, which rehearse-predictor reads");
  CHECK(test::error_of([] {
          import_model(Source{"a.json", R"({"traceEvents": []})"});
        }) == "a.json: expected a model; found a trace, which rehearse import --batch N reads");
  CHECK(test::error_of([] {
          import_model(Source{"a.txt", "hello"});
        }).starts_with("a.txt: unknown content; known: model file, "));
  CHECK(test::error_of([] { import_model(Source{"a.json", "{\"a\" 1}"}); }).starts_with("a.json:1:6: "));
  CHECK(test::error_of([] { import_model(std::filesystem::path{"/nonexistent/x"}); }).starts_with("/nonexistent/x: "));
}

}  // namespace rehearse
