#include "calibration/measurements.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "calibration/study.hpp"
#include "sim/base/files.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const std::string kExamples = source_folder() + "/calibration/data/own-examples/";

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

const std::string kHeader =
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 16\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1 on a device  0 [0x10] NVIDIA A100-SXM4-80GB\n"
    "#  Rank  1 Group  0 Pid   2 on b device  0 [0x10] NVIDIA A100-SXM4-80GB\n"
    "a:1:1 [0] NCCL INFO cudaDriverVersion 12020\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";

std::string nccl_refusal(const std::string& rows) {
  return refusal([&] { (void)parse_nccl_tests(kHeader + rows, "x.log"); });
}

}  // namespace

TEST_CASE("a listing of nccl-tests: sizes, times in and out of place, who took part") {
  const CsvTable table = parse_nccl_tests("# Collective test starting: all_reduce_perf\n" + kHeader +
                                              "\n   1048576        262144     float     sum      -1    309.4    3.39   "
                                              " 6.35      0    301.5    3.48    6.52      0\r\n"
                                              "# Out of bounds values : 0 OK\n",
                                          "x.log")
                             .table;
  REQUIRE(table.row_count() == 1);
  const CsvRow row = table.row(0);
  CHECK(row.text("collective") == "all_reduce");
  CHECK(row.integer("ranks") == 2);
  CHECK(row.integer("machines") == 2);
  CHECK(row.text("device") == "NVIDIA A100-SXM4-80GB");
  CHECK(row.text("bytes") == "1048576");
  CHECK(row.text("redop") == "sum");
  CHECK(row.number("time_s") == doctest::Approx(309.4e-6));
  CHECK(row.number("time_us_in_place") == 301.5);
  CHECK(row.number("busbw_GBps_in_place") == 6.52);
  CHECK(row.line() == 10);  // of the listing
}

TEST_CASE("listings of other programs and versions: no redop, no check, several runs") {
  const CsvTable table = parse_nccl_tests(
                             "#   size  count  type  root  time  algbw  busbw  error  time  algbw  busbw  error\n"
                             "8 2 float 0 10 1 1 N/A 11 1 1 N/A\n" +
                                 kHeader + "16 4 float sum -1 12 1 1 0 13 1 1 0\n",
                             "x.log")
                             .table;
  REQUIRE(table.row_count() == 2);
  CHECK(table.row(0).text("redop").empty());
  CHECK(table.row(0).text("root") == "0");
  CHECK(table.row(0).text("ranks").empty());
  CHECK(table.row(1).text("root") == "-1");
  CHECK(table.row(1).text("ranks") == "2");
}

TEST_CASE("mistakes in a listing are named with their line") {
  CHECK(nccl_refusal("8 2 float sum -1 10 1 1 0 11 1 1 0\n") == "accepted");
  CHECK(nccl_refusal("8 2 float sum -1 10 1 1 0 11 1") == "x.log:8: expected 13 fields as in the header; found 11");
  CHECK(nccl_refusal("8 2 float sum -1 10 1 1 3 11 1 1 0\n") ==
        "x.log:8: expected a run with right results; found \"3\" wrong ones");
  CHECK(nccl_refusal("8 2 float sum -1 fast 1 1 0 11 1 1 0\n") ==
        "x.log:8: column \"time\": expected a number; found \"fast\"");
  CHECK(nccl_refusal("8 2 float sum -1 1e999 1 1 0 11 1 1 0\n") ==
        "x.log:8: column \"time\": expected a number; found \"1e999\"");
  CHECK(nccl_refusal("\xff\n") == "x.log: expected the listing of an nccl-tests program; found no row of it");
  CHECK(refusal([] { (void)parse_nccl_tests("8 2 float sum -1 10 1 1 0\n", "x.log"); }) ==
        "x.log:1: expected the line with the column names, \"#  size  count  type ...\", above the first row");
  CHECK(refusal([] {
          (void)parse_nccl_tests("# Rank 0 on a device 0 [0] " + std::string(300, 'x') + "\n", "x.log");
        }) == "x.log:1: expected a name of at most 200 bytes; found 300");
  CHECK(refusal([] { (void)parse_nccl_tests("# size count type redop\n", "x.log"); }) ==
        "x.log:1: expected the columns of an nccl-tests program; found none for \"time\"");
}

namespace {

Json iperf3_run() {
  const Json sum{
      {"seconds", 1.0}, {"bytes", 1.25e9}, {"bits_per_second", 1e10}, {"retransmits", 3}, {"omitted", false}};
  return {{"start", {{"test_start", {{"protocol", "TCP"}, {"num_streams", 2}, {"reverse", 1}}}}},
          {"intervals", {{{"streams", {{{"rtt", 100}}, {{"rtt", 300}}}}, {"sum", sum}}}},
          {"end", {{"sum_sent", sum}, {"sum_received", sum}}}};
}

std::string iperf3_refusal(const Json& run) {
  return refusal([&] { (void)parse_iperf3(run.dump(), "x.json"); });
}

}  // namespace

TEST_CASE("an output of iperf3: intervals and sums, streams, direction") {
  const CsvTable table = parse_iperf3(iperf3_run().dump(), "x.json").table;
  REQUIRE(table.row_count() == 3);
  const CsvRow row = table.row(0);
  CHECK(row.text("interval") == "0");
  CHECK(row.text("is_reverse") == "true");
  CHECK(row.text("is_omitted") == "false");
  CHECK(row.integer("streams") == 2);
  CHECK(row.number("bytes_per_second") == 1.25e9);
  CHECK(row.number("retransmits") == 3);
  CHECK(row.number("rtt_us") == 200);
  CHECK(table.row(2).text("interval") == "sum_received");
}

TEST_CASE("mistakes in an output of iperf3 are named with their place") {
  CHECK(iperf3_refusal(iperf3_run()) == "accepted");
  Json run = iperf3_run();
  run["error"] = "interrupt - the client has terminated";
  CHECK(iperf3_refusal(run) ==
        "x.json: /error: expected a run without error; iperf3 says \"interrupt - the client has terminated\"");
  run = iperf3_run();
  run["intervals"][0]["sum"]["bytes"] = "many";
  CHECK(iperf3_refusal(run).starts_with("x.json: /intervals/0/sum/bytes: expected a number"));
  run = iperf3_run();
  run["intervals"][0]["sum"]["seconds"] = -1;
  CHECK(iperf3_refusal(run) == "x.json: /intervals/0/sum/seconds: expected a number of at least 0; found -1");
  run = iperf3_run();
  run.erase("end");
  CHECK(iperf3_refusal(run).find("\"end\"") != std::string::npos);
  const std::string text = iperf3_run().dump();
  CHECK(refusal([&] { (void)parse_iperf3(text.substr(0, text.size() / 2), "x.json"); }).starts_with("x.json:1:"));
}

TEST_CASE("a table of kernel times") {
  const std::string header = "kind,m,n,k,precision,time_ms,comment\n";
  const CsvTable table = parse_kernel_table(header + "\ngemm,1760,128,1760,fp32,0.088,\"a, b\"\n", "k.csv");
  CHECK(table.row(0).number("time_s") == 0.088e-3);
  CHECK(table.row(0).text("comment") == "a, b");
  CHECK(table.row(0).line() == 3);
  const auto kernel_refusal = [&](const char* row) {
    return refusal([&] { (void)parse_kernel_table(header + row, "k.csv"); });
  };
  CHECK(kernel_refusal("elementwise,1,128,1760,fp16,0.088,\n") == "accepted");
  CHECK(kernel_refusal("gem,1,1,1,fp32,1,\n") ==
        "k.csv:2: column \"kind\": unknown kind \"gem\"; did you mean \"gemm\"?");
  CHECK(kernel_refusal("gemm,0,1,1,fp32,1,\n") == "k.csv:2: column \"m\": expected 1 to 16777216; found 0");
  CHECK(kernel_refusal("gemm,1,65537,1,fp32,1,\n") == "k.csv:2: column \"n\": expected 1 to 65536; found 65537");
  CHECK(kernel_refusal("gemm,1,1,1,fp32,0,\n") == "k.csv:2: column \"time_ms\": expected a time above 0; found 0");
  CHECK(kernel_refusal("elementwise,2,1,1,fp32,1,\n") ==
        "k.csv:2: column \"m\": expected 1 for an elementwise kernel; found 2");
  CHECK(refusal([] { (void)parse_kernel_table("kind,m\ngemm,1\n", "k.csv"); }) ==
        "k.csv: unknown column \"precision\"; known: \"kind\", \"m\"");
}

TEST_CASE("the examples of own measurements are read, by their studies too") {
  CHECK(load_measurements(kExamples + "all_reduce_perf.log", MeasurementFormat::kNcclTests)
            .table.row(0)
            .integer("ranks") == 16);
  CHECK(load_measurements(kExamples + "iperf3.json", MeasurementFormat::kIperf3).table.row_count() == 12);
  const test::TemporaryFolder folder;
  folder.write("kernels.csv.gz", gzip(read_file(kExamples + "kernels.csv", kMiB)));
  const CsvTable unpacked = load_measurements(folder / "kernels.csv.gz", MeasurementFormat::kKernelTable).table;
  CHECK(unpacked.row_count() == 77);
  const std::string studies = source_folder() + "/scenarios/studies/own/";
  CHECK(load_studies(studies + "link.json").front().rows.size() == 10);
  CHECK(load_studies(studies + "kernels.json").front().rows.size() == 45);
  CHECK(load_studies(studies + "step-times.json").front().rows.size() == 8);
  // Another file of the same format takes the place of the study's own.
  CHECK(load_studies(studies + "kernels.json", folder / "kernels.csv.gz").front().rows.size() == 45);
}

TEST_CASE("a study names a format that exists") {
  const test::TemporaryFolder folder;
  const std::filesystem::path study = folder.write(
      "study.json", R"({"format": 1, "scenario": ")" + source_folder() +
                        R"(/scenarios/cm-dare.json", "measurements": {"file": "x", "format": "nccl-test"}})");
  CHECK(refusal([&] {
          (void)load_studies(study);
        }).ends_with("/measurements/format: unknown format \"nccl-test\"; did you mean \"nccl-tests\"?"));
}

TEST_CASE("what plans say of their groups are objects") {
  const std::string studies = source_folder() + "/scenarios/studies/";
  const Json study = load_json_file(studies + "spotdnn-resnet110-speed.json");
  REQUIRE(study["columns"]["plan"].contains("instances"));
  const test::TemporaryFolder folder;
  const auto with = [&](const std::string& pointer) {
    Json changed = study;
    set_json_pointer(changed, pointer, "\"spot\"");
    for (const char* key : {"scenario", "measurements"}) changed[key] = studies + study[key].get<std::string>();
    return refusal([&] { (void)load_studies(folder.write("study.json", changed.dump())); });
  };
  CHECK(with("/columns/plan/group").ends_with("/columns/plan/group: expected an object; found \"spot\""));
  CHECK(with("/columns/plan/instances/g3.16xlarge")
            .ends_with("/columns/plan/instances/g3.16xlarge: expected an object; found \"spot\""));
}

}  // namespace rehearse
