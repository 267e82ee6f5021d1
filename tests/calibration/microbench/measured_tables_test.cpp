#include "calibration/microbench/measured_tables.hpp"

#include <doctest/doctest.h>

#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::microbench {

namespace {

const Case kProduct{kernels::Product{.m = 3, .n = 4, .k = 5}, Layout::kFirstTransposed};
const Case kConvolution{kernels::Convolution{.batch = 2, .in_channels = 3, .pass = kernels::Pass::kWeights}};
const Case kStreaming{kernels::Streaming{.kind = kernels::StreamingKind::kSoftmax, .rows = 6, .columns = 7}};

}  // namespace

TEST_CASE("measured rows are there again in another run, those of another device, too") {
  const test::TemporaryFolder folder;
  {
    MeasuredTables tables{folder.path};
    CHECK(tables.rows() == 0);
    for (const Case& of : {kProduct, kConvolution, kStreaming})
      tables.add(of, "one, \"quoted\"", {.time = 0.25, .least = 0.125, .samples = 9});
    tables.add(kProduct, "two", {.time = 1, .least = 1, .samples = 1});
    tables.save();
  }
  MeasuredTables tables{folder.path};
  CHECK(tables.rows() == 4);
  CHECK(tables.has(kProduct, "one, \"quoted\""));
  CHECK(tables.has(kConvolution, "one, \"quoted\""));
  CHECK(tables.has(kStreaming, "one, \"quoted\""));
  CHECK(tables.has(kProduct, "two"));
  CHECK_FALSE(tables.has(kStreaming, "two"));
  CHECK_FALSE(tables.has({kProduct.kernel, Layout::kPlain}, "two"));
  CHECK(tables.values("convolutions", "one, \"quoted\"", "pass") == std::set<std::string>{"weights"});
  CHECK(tables.values("streaming", "two", "kernel").empty());
  const std::string before = read_file(folder / "products.csv", kMiB);
  tables.save();
  CHECK(read_file(folder / "products.csv", kMiB) == before);
  CHECK(read_file(folder / "streaming.csv", kMiB) ==
        "device,kernel,precision,rows,columns,time_s,least_s,samples\n\"one, "
        "\"\"quoted\"\"\",softmax,fp32,6,7,0.25,0.125,9\n");
}

TEST_CASE("tables that microbench did not write are refused") {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "streaming.csv").string();
  const auto error = [&](const std::string& text) {
    write_file(file, text);
    return test::error_of([&] { MeasuredTables{folder.path}; });
  };
  CHECK(error("a,b\n1,2\n") == file + ":1: its columns are not those that microbench writes; name another folder");
  const std::string head = "device,kernel,precision,rows,columns,time_s,least_s,samples\n";
  CHECK(error(head + "d,softmax,fp32,6,7,0,0,9\n") == file + ":2: column \"time_s\": expected a time above 0");
  CHECK(error(head + "d,softmax,fp32,6,7,1,1,9\nd,softmax,fp32,6,7,1,1,9\n") ==
        file + ":3: column \"kernel\": this kernel is there twice");
}

}  // namespace rehearse::microbench
