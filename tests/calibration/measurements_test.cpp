#include "calibration/measurements.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "calibration/measured_gpus.hpp"
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
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 16\n"
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

TEST_CASE("rows that another program's line cuts in two are left out and counted, unless most rows are") {
  const std::string whole = "8 2 float sum -1 10 1 1 0 11 1 1 0\n";
  const std::string cut = "16 4 float sum -1 10 1 1 0 a:1:9 [0] NCCL INFO ";
  const std::string log = whole + cut + "Connected\n 11 1 1 0\n" + whole + cut + "\n 11 1 1 0\n";  // 14 and 13 fields
  const Measurements read = parse_nccl_tests(kHeader + log, "x.log");
  CHECK(read.table.row_count() == 2);
  REQUIRE(read.remarks.size() == 1);
  CHECK(
      read.remarks[0] ==
      "x.log:9: expected 13 fields as in the header; found 14; such rows, into which another program may have written, "
      "are left out: 2");
  CHECK(nccl_refusal(whole + cut + "\n" + cut) ==
        "x.log:9: column \"time_in_place\": expected a number; found \"a:1:9\"");
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
  CHECK(nccl_refusal("\xff\n") ==
        "x.log: expected the listing of an nccl-tests program; found its column names, but no row below them");
  CHECK(refusal([] { (void)parse_nccl_tests("\xff\n", "x.log"); }) ==
        "x.log: expected the listing of an nccl-tests program; found no row of it");
  CHECK(refusal([] { (void)parse_nccl_tests("8 2 float sum -1 10 1 1 0\n", "x.log"); }) ==
        "x.log:1: expected the line with the column names, \"#  size  count  type ...\", above the first row");
  CHECK(refusal([] {
          (void)parse_nccl_tests("# Rank 0 on a device 0 [0] " + std::string(300, 'x') + "\n", "x.log");
        }) == "x.log:1: expected a name of at most 200 bytes; found 300");
  CHECK(refusal([] { (void)parse_nccl_tests("# size count type redop\n", "x.log"); }) ==
        "x.log:1: expected the columns of an nccl-tests program; found none for \"time\"");
}

namespace {

const std::string kRow = "1048576 262144 float sum -1 309.4 3.39 6.35 0 301.5 3.48 6.52 0";

/// Each line of the listing behind what `prefix` gives for its number.
std::string with_prefix(const std::string& listing, const std::function<std::string(int)>& prefix) {
  std::string text;
  int number = 0;
  for (std::size_t begin = 0; begin < listing.size(); ++number) {
    const std::size_t end = std::min(listing.find('\n', begin), listing.size());
    text += prefix(number) + listing.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string says(const Measurements& measurements) {
  std::string text;
  for (const std::string& remark : measurements.remarks) text += remark + "\n";
  return text;
}

}  // namespace

TEST_CASE("a listing is the same behind what starts its program writes before each line") {
  const std::string listing = kHeader + "     " + kRow + "\n";
  const auto second = [](int n) { return std::to_string(10 + n); };
  for (const auto& prefix : std::vector<std::function<std::string(int)>>{
           [](int) { return "[1,0]<stdout>:"; },                                            // Open MPI
           [](int) { return "[prterun-node1-123@1,0]<stdout>: "; },                         // of version 5
           [&](int n) { return "Thu Aug 25 10:05:" + second(n) + " 2022[1,0]<stdout>:"; },  // with the date
           [&](int n) { return "Thu Aug 25 10:05:" + second(n) + " 2022<stdout>:"; },       // without the rank
           [](int) { return "0: "; },                                                       // srun -l
           [](int) { return " 3:  "; },                                                     //
           [](int) { return "[0] "; },                                                      // MPICH
           [](int) { return "[pod/nccl-launcher-abc/nccl] "; },                             // kubectl logs --prefix
           [&](int n) { return "2026-11-25T12:03:" + second(n) + ".123456789Z "; },         // --timestamps
           [&](int n) { return "[pod/l-0/nccl] 2026-11-25T12:03:" + second(n) + ".5Z [1,0]<stdout>:"; },
           [](int) { return "nccl-launcher-abc nccl | "; }, [](int) { return "build #12: "; },
           [](int) { return "nccl-launcher-abc \u203a nccl "; }}) {
    const std::string text = "Authorization required, but no authorization protocol specified\n[1,1]<stderr>:x\n" +
                             with_prefix(listing, prefix);
    CAPTURE(text);
    const Measurements measurements = parse_nccl_tests(text, "x.log");
    REQUIRE(measurements.table.row_count() == 1);
    const CsvRow row = measurements.table.row(0);
    CHECK(row.text("bytes") == "1048576");
    CHECK(row.integer("machines") == 2);
    CHECK(row.text("device") == "NVIDIA A100-SXM4-80GB");
    CHECK(row.number("busbw_GBps_in_place") == 6.52);
    CHECK(row.line() == 10);
    CHECK(says(measurements) == "");
  }
  // Sizes of twelve digits touch the tag, and it stands again where the program had flushed a part of the line.
  const std::string tag = "[1,0]<stdout>:";
  const CsvTable parts =
      parse_nccl_tests(with_prefix(kHeader, [&](int) { return tag; }) + tag + "137438953472 34359738368 float sum -1" +
                           tag + "  2.5e+06  54.98  54.98 0" + tag + "  2.5e+06  54.98  54.98 0\n" + tag + "\n",
                       "x.log")
          .table;
  CHECK(parts.row(0).text("bytes") == "137438953472");
  CHECK(parts.row(0).number("time_s") == 2.5);
}

TEST_CASE("listings that several processes print at the same time are told apart") {
  const auto of = [](int rank, const std::string& listing) {
    return with_prefix(listing, [&](int) { return std::to_string(rank) + ": "; });
  };
  const std::string other = "# Using devices\n#  Rank  0 Group  0 Pid   9 on c device  0 [0x10] Tesla V100-SXM2-16GB\n";
  const std::string columns = kHeader.substr(kHeader.find("#       size"));
  const Measurements measurements = parse_nccl_tests(
      of(0, kHeader) + of(1, other) + of(1, columns) + of(0, kRow + "\n") + of(1, kRow + "\n"), "x.log");
  REQUIRE(measurements.table.row_count() == 2);
  CHECK(measurements.table.row(0).integer("ranks") == 2);
  CHECK(measurements.table.row(1).integer("ranks") == 1);
  CHECK(measurements.table.row(1).text("device") == "Tesla V100-SXM2-16GB");
  CHECK(says(measurements) == "x.log: listings of 2 processes, which may have run at the same time\n");
}

TEST_CASE("columns of every version of nccl-tests") {
  const std::string devices = kHeader.substr(0, kHeader.find("#       size"));
  const auto row_of = [&](const std::string& header, const std::string& row) {
    return parse_nccl_tests(devices + "#  " + header + "\n  " + row + "\n", "x.log").table;
  };
  // Before 2.13: the largest difference, which floats have.
  const std::string errors = "size count type redop time algbw busbw error time algbw busbw error";
  CHECK(row_of(errors, "1048576 262144 float sum 47.18 22.23 22.23 2e-07 47.2 22.2 22.2 2e-07").row_count() == 1);
  CHECK(refusal([&] { (void)row_of(errors, "8 2 float sum 47.18 1 1 2e-07 47.2 1 1 0.5"); }) ==
        "x.log:7: expected a run with right results; found a difference of 0.5");
  CHECK(refusal([&] { (void)row_of(errors, "8 2 int32 sum 47.18 1 1 1 47.2 1 1 0"); }) ==
        "x.log:7: expected a run with right results; found a difference of 1");
  // Before 2.0: other names, milliseconds.
  const CsvTable oldest = row_of("bytes N type op time algbw busbw res time algbw busbw res",
                                 "10000000 2500000 float sum 0.288 34.78 34.78 0e+00 0.269 37.19 37.19 0e+00");
  CHECK(oldest.row(0).number("time_s") == doctest::Approx(0.288e-3));
  CHECK(oldest.row(0).number("time_us_in_place") == doctest::Approx(269));
  CHECK(oldest.row(0).text("redop") == "sum");
  // From 2.17: the date of each row, statistics of its iterations.
  const std::string now = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong";
  CHECK(row_of(now + " timestamp", kRow + " 2026-11-25 12:03:05").row(0).number("time_us_in_place") == 301.5);
  const CsvTable statistics = row_of(
      "size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min "
      "i_max i_p99 i_cv%",
      "8 2 float sum -1 10 1 1 0 9 11 11 5 12 1 1 N/A 10 13 13 6");
  CHECK(statistics.row(0).number("time_us_in_place") == 12);
  CHECK(refusal([&] {
          (void)row_of("size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong", kRow);
        }) == "x.log:6: expected times of the collective; found those that the host's calls take (nccl-tests -C 1)");
  CHECK(refusal([&] { (void)parse_nccl_tests(kHeader + kRow + "\n# Out of bounds values : 3 FAILED\n", "x.log"); }) ==
        "x.log:9: expected a run with right results; nccl-tests found 3 out of bounds");
  CHECK(refusal([&] { (void)parse_nccl_tests(R"({"version": 2, "results": [{"out_of_place": null}]})", "x.log"); }) ==
        "x.log: expected the listing that nccl-tests and rccl-tests print; found their JSON: give what they print to "
        "the terminal");
}

TEST_CASE("a listing that tells of some of its ranks alone tells no number of them") {
  // As texts show them: eight GPUs of one process, two of them listed; the last of eight ranks, three listed.
  const std::string begin = "# nThread 1 nGpus ", lines = " minBytes 8 maxBytes 16\n# Using devices\n";
  const std::string header =
      "...\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
      "busbw #wrong\n";
  const std::string row =
      "  8589934592    2147483648     float     sum      -1   41644  206.27  360.97       0   40903  "
      "210.01  367.51       0\n";
  const auto rank = [](int number, int process) {
    return "#  Rank  " + std::to_string(number) + " Group  0 Pid   " + std::to_string(process) +
           " on a device  0 [0x10] AMD Instinct MI350X\n";
  };
  const Measurements two = parse_nccl_tests(begin + "8" + lines + rank(0, 5) + rank(1, 5) + header + row, "x.log");
  REQUIRE(two.table.row_count() == 1);
  CHECK(two.table.row(0).text("ranks") == "");
  CHECK(two.table.row(0).text("machines") == "");
  CHECK(two.table.row(0).text("device") == "AMD Instinct MI350X");
  CHECK(
      two.missing.at("ranks") ==
      "x.log:7: expected above the row lines about all ranks; nThread and nGpus say 8 of each process, and found are 2 "
      "of one");
  const Measurements last =
      parse_nccl_tests(begin + "1" + lines + rank(0, 5) + rank(1, 6) + rank(7, 7) + header + row, "x.log");
  CHECK(last.table.row(0).text("ranks") == "");
  CHECK(last.missing.at("machines") ==
        "x.log:8: expected above the row lines about all ranks; found rank 7 and 3 lines");
  // 360.97 is 2 x 7/8 of 206.27: eight ranks took part.
  CHECK(
      refusal([&] { (void)parse_nccl_tests(begin + "1" + lines + rank(0, 5) + rank(1, 6) + header + row, "x.log"); }) ==
      "x.log:7: expected a bus bandwidth of 2 ranks, of which lines tell above; found 360.97 GB/s beside the "
      "algorithm's 206.27 GB/s, which is that of another number of ranks");
  std::string all;
  for (int i = 0; i < 8; ++i) all += rank(i, 5);
  CHECK(parse_nccl_tests(begin + "8" + lines + all + header + row, "x.log").table.row(0).integer("ranks") == 8);
  CHECK(parse_nccl_tests("# nThread: 2 nGpus: 4 minBytes: 8\n" + all + header + row, "x.log")
            .table.row(0)
            .integer("ranks") == 8);
}

TEST_CASE("a run that does not say which collective it is has not that of the one before") {
  const std::string run =
      kHeader + "16 4 float sum -1 10.0 0.00 0.00 0 9.0 0.00 0.00 0\n# Out of bounds values : 0 OK\n";
  const CsvTable table = parse_nccl_tests("# Collective test starting: all_reduce_perf\n" + run + run, "x.log").table;
  REQUIRE(table.row_count() == 2);
  CHECK(table.row(0).text("collective") == "all_reduce");
  CHECK(table.row(1).text("collective") == "");
}

TEST_CASE("a run that does not say which collective it is is known by its bandwidths, the rows before them, too") {
  const auto collectives = [](const std::string& rows) {
    const CsvTable table = parse_nccl_tests(kHeader + rows, "x.log").table;
    std::string text;
    for (const CsvRow row : table.rows()) text += std::string{row.text("collective")} + ";";
    return text;
  };
  const std::string small = "16 4 float sum -1 10.0 0.00 0.00 0 9.0 0.00 0.00 0\n";
  const auto large = [](const std::string& bus, const std::string& op) {
    return "1024 256 float " + op + " 10.0 20.00 " + bus + " 0 9.0 20.00 " + bus + " 0\n";
  };
  CHECK(collectives(small) == ";");
  CHECK(collectives(small + large("20.00", "sum -1")) == "all_reduce;all_reduce;");  // n = 2: 2 (n - 1) / n = 1
  CHECK(collectives(small + large("10.00", "sum -1") + small) == "reduce_scatter;reduce_scatter;reduce_scatter;");
  CHECK(collectives(large("20.00", "sum 0")) == "reduce;");
  CHECK(collectives(large("10.00", "none -1")) == ";");  // an all-gather or an all-to-all
  CHECK(collectives(small + large("10.00", "sum -1") + kHeader + small) == "reduce_scatter;reduce_scatter;;");
}

namespace {

/// What a study says of a listing of `ranks` ranks on two machines.
std::string said_of_listing(const std::string& study_name, int ranks, const std::string& rows,
                            const std::string& collective = "", std::size_t* left = nullptr) {
  std::string header = collective.empty() ? "" : "# Collective test starting: " + collective + "_perf\n";
  header += "# nThread 1 nGpus 1 minBytes 8 maxBytes 16\n# Using devices\n";
  for (int i = 0; i < ranks; ++i)
    header += "#  Rank " + std::to_string(i) + " Group  0 Pid   " + std::to_string(i) + " on " +
              (i < ranks / 2 ? "a" : "b") + " device  0 [0x10] NVIDIA A100-SXM4-80GB\n";
  const test::TemporaryFolder folder;
  const std::filesystem::path log = folder.write("x.log", header + kHeader.substr(kHeader.find("#       size")) + rows);
  std::string said = refusal([&] {
    Study study = load_studies(source_folder() + "/scenarios/studies/" + study_name, log).front();
    leave_out_other_collectives(study, test::shipped_catalog());
    if (left != nullptr) *left = study.rows.size();
    for (const std::string& remark : study.remarks) throw InputError{remark};
  });
  for (std::size_t at = said.find(log.string()); at != std::string::npos; at = said.find(log.string()))
    said.replace(at, log.string().size(), "x.log");
  return said;
}

}  // namespace

TEST_CASE("rows of another collective or number of ranks than the study simulates are not compared") {
  const std::string own = "own/collectives.json";
  const std::string row = "1048576 262144 float sum -1 309.4 3.39 6.35 0 301.5 3.48 6.52 0\n";
  const std::string moved = "1048576 262144 float none -1 309.4 3.39 6.35 0 301.5 3.48 6.52 0\n";
  const std::string end = "; no row is left to compare: copy the study and state your machines in it";
  CHECK(said_of_listing(own, 16, row) == "accepted");
  CHECK(said_of_listing(own, 16, row, "all_reduce") == "accepted");
  for (const char* other : {"all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv", "hypercube"})
    CHECK(said_of_listing(own, 16, row, other) ==
          "x.log:22: is of " + std::string{other} + ", the study's scenario simulates all_reduce" + end);
  CHECK(said_of_listing(own, 16, moved) ==
        "x.log:21: is of a collective that sums nothing (redop), the study's scenario simulates all_reduce" + end);
  for (const int ranks : {2, 4, 32})
    CHECK(said_of_listing(own, ranks, row) == "x.log:" + std::to_string(ranks + 5) + ": is of " +
                                                  std::to_string(ranks) + " ranks, the study's scenario has 16 GPUs" +
                                                  end);
  CHECK(said_of_listing(own, 1, row)
            .ends_with(end + ", one machine with profile \"nccl\" and the free values of scenarios/studies/nccl.json"));
  std::size_t left = 0;
  CHECK(said_of_listing(own, 16, row + "# Collective test starting: all_gather_perf\n" + moved + moved, "all_reduce",
                        &left) ==
        "x.log: rows of all_gather, the study's scenario simulates all_reduce, are left out: 2");
  CHECK(left == 1);
}

TEST_CASE("rows of 0 B are left out, and that is said") {
  const std::string nothing = "0 0 float sum -1 6.36 0.00 0.00 0 6.40 0.00 0.00 0\n";
  const Measurements measurements = parse_nccl_tests(kHeader + nothing + nothing + kRow + "\n", "x.log");
  CHECK(measurements.table.row_count() == 1);
  CHECK(says(measurements) == "x.log: rows of 0 B, which move nothing, are left out: 2\n");
  CHECK(nccl_refusal(nothing) == "x.log: expected the listing of an nccl-tests program; found rows of 0 B alone");
  CHECK(nccl_refusal("") ==
        "x.log: expected the listing of an nccl-tests program; found its column names, but no row below them");
}

TEST_CASE("lines of other programs are no rows") {
  CHECK(parse_nccl_tests("128 16 nodes are there\n" + kHeader +
                             "128 16 nodes are there\nw-0:21:27 [0] NCCL INFO Ring 00 : 0 1 2\n" + kRow + "\n",
                         "x.log")
            .table.row_count() == 1);
}

TEST_CASE("groups that run at the same time: ranks are those of the first") {
  std::string listing = kHeader;
  listing.insert(listing.find("a:1:1"), "#  Rank  2 Group  1 Pid   3 on c device  0 [0x10] NVIDIA A100-SXM4-80GB\n");
  const Measurements measurements = parse_nccl_tests(listing + kRow + "\n", "x.log");
  CHECK(measurements.table.row(0).integer("ranks") == 2);
  CHECK(measurements.table.row(0).integer("machines") == 2);
  CHECK(says(measurements).find("several groups") != std::string::npos);
}

TEST_CASE("a study that needs what a listing does not say names the lines that are missing") {
  const test::TemporaryFolder folder;
  const std::string columns = kHeader.substr(kHeader.find("#       size"));
  const std::filesystem::path log = folder.write("x.log", columns + kRow + "\n");
  const std::string study = source_folder() + "/scenarios/studies/own/collectives.json";
  CHECK(refusal([&] { (void)load_studies(study, log); }) ==
        log.string() +
            ":3: expected above the row the lines \"# Using devices\" and \"#  Rank  0 ... on HOST device  0 "
            "...\", which say how many GPUs and machines took part; found none; column \"machines\" is needed");
}

TEST_CASE("another GPU than the study's is said") {
  for (const auto& [device, accelerator] :
       {std::pair{"NVIDIA A100-SXM4-80GB", "A100 80GB"}, std::pair{"NVIDIA A100-PCIE-40GB", "A100"},
        std::pair{"Tesla V100-SXM2-16GB", "V100"}, std::pair{"NVIDIA H100 80GB HBM3", "H100"},
        std::pair{"NVIDIA GeForce RTX 4090", "RTX 4090"}, std::pair{"AMD Instinct MI250X / MI250", "MI250X"},
        std::pair{"NVIDIA TITAN RTX", "Titan RTX"}, std::pair{"GeForce GTX 1080 Ti", "GTX 1080 Ti"}})
    CHECK(is_same_gpu_model(device, accelerator));
  for (const auto& [device, accelerator] :
       {std::pair{"NVIDIA GeForce RTX 5090", "A100 80GB"}, std::pair{"NVIDIA GB200", "B200"},
        std::pair{"NVIDIA L40S", "L40"}, std::pair{"NVIDIA H200", "H100"},
        std::pair{"NVIDIA H100 80GB HBM3", "A100 80GB"}, std::pair{"NVIDIA A10G", "A10"},
        std::pair{"NVIDIA TITAN RTX", "Titan X Pascal 12"}})
    CHECK_FALSE(is_same_gpu_model(device, accelerator));
  const test::TemporaryFolder folder;
  std::string text = kHeader + kRow + "\n";
  const std::string study = source_folder() + "/scenarios/studies/own/collectives.json";
  const Catalog& catalog = test::shipped_catalog();
  CHECK(other_gpu_remarks(load_studies(study, folder.write("x.log", text)).front(), catalog).empty());
  for (std::size_t at = text.find("A100"); at != std::string::npos; at = text.find("A100", at))
    text.replace(at, 4, "H100");
  const std::filesystem::path other = folder.write("y.log", text);
  CHECK(other_gpu_remarks(load_studies(study, other).front(), catalog) ==
        std::vector<std::string>{other.string() +
                                 ": was measured on \"NVIDIA H100-SXM4-80GB\"; the study's scenario has A100 80GB"});
}

TEST_CASE("a table whose column of GPUs has others than the study's scenario says so") {
  const test::TemporaryFolder folder;
  const std::string study = source_folder() + "/scenarios/studies/own/step-times.json";  // of K80
  const auto said = [&](const std::string& gpu) {
    const auto file = folder.write(gpu + ".csv", "workers,batch,step_time_s,gpu\n1,128,0.2219," + gpu + "\n");
    return other_gpu_remarks(load_studies(study, file).front(), test::shipped_catalog());
  };
  CHECK(said("Tesla K80").empty());
  CHECK(said("first").empty());  // no GPU
  REQUIRE(said("P100").size() == 1);
  CHECK(said("P100").front().ends_with("was measured on \"P100\"; the study's scenario has K80"));
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

TEST_CASE("an output of iperf3: a round trip of 0 is none") {
  Json run = iperf3_run();
  run["intervals"][0]["streams"][0]["rtt"] = 0;
  run["end"]["streams"] = {{{"sender", {{"mean_rtt", 0}}}}, {{"sender", {{"mean_rtt", 0}}}}};
  const CsvTable table = parse_iperf3(run.dump(), "x.json").table;
  REQUIRE(table.row_count() == 3);
  CHECK(table.row(0).number("rtt_us") == 300);
  CHECK(table.row(1).text("rtt_us").empty());
  CHECK(table.row(2).text("rtt_us").empty());
}

TEST_CASE("several streams write keys several times, and their sums are rows") {
  std::string text = iperf3_run().dump();
  text.insert(text.find("\"test_start\""),
              R"("sock_bufsize": 0, "sndbuf_actual": 1, "sock_bufsize": 0, "sndbuf_actual": 1, )");
  const Measurements measurements = parse_iperf3(text, "x.json");
  CHECK(measurements.table.row_count() == 3);
  CHECK(says(measurements) == "x.json: rates are those of 2 streams together (-P)\n");
  text.insert(text.find("\"test_start\""), R"("test_start": {}, )");
  CHECK(refusal([&] { (void)parse_iperf3(text, "x.json"); }) ==
        "x.json: /start: expected distinct keys; found \"test_start\" twice");
}

TEST_CASE("both directions at the same time are rows of both, whatever their sums are called") {
  Json run = iperf3_run();
  run["start"]["test_start"]["reverse"] = 0;
  run["start"]["test_start"]["bidir"] = 1;
  run["intervals"][0]["streams"][0]["sender"] = true;
  run["intervals"][0]["streams"][1]["sender"] = false;
  const Json sum = run["intervals"][0]["sum"];
  Json other = sum;
  other["bits_per_second"] = 4e9;
  Json named = run;
  named["intervals"][0]["sum_bidir_reverse"] = other;
  for (const char* side : {"sum_sent", "sum_received"}) named["end"][std::string{side} + "_bidir_reverse"] = other;
  std::string repeated = named.dump();
  for (const std::string key : {"\"sum", "\"sum_sent", "\"sum_received"})
    repeated.replace(repeated.find(key + "_bidir_reverse\""), key.size() + 15, key + "\"");
  for (const std::string& text : {named.dump(), repeated}) {
    const Measurements measurements = parse_iperf3(text, "x.json");
    const CsvTable& table = measurements.table;
    REQUIRE(table.row_count() == 6);
    CHECK(table.row(0).text("is_reverse") == "false");
    CHECK(table.row(1).text("is_reverse") == "true");
    CHECK(table.row(1).text("interval") == "0");
    CHECK(table.row(0).number("bytes_per_second") == 1.25e9);
    CHECK(table.row(1).number("bytes_per_second") == 0.5e9);
    CHECK(table.row(0).number("rtt_us") == 100);
    CHECK(table.row(1).number("rtt_us") == 300);
    CHECK(table.row(5).text("interval") == "sum_received");
    CHECK(says(measurements).find("both directions at the same time (--bidir)") != std::string::npos);
  }
}

TEST_CASE("a rate that iperf3 limited itself is no limit of the network, and that is said") {
  Json run = iperf3_run();
  Json& test = run["start"]["test_start"];
  test["num_streams"] = 1;
  CHECK(says(parse_iperf3(run.dump(), "x.json")) == "");
  test["protocol"] = "UDP";
  CHECK(says(parse_iperf3(run.dump(), "x.json")) ==
        "x.json: UDP sends what -b asks for, 1 Mbit/s without it: rates are no limit of the network\n");
  test["target_bitrate"] = 1e8;
  CHECK(says(parse_iperf3(run.dump(), "x.json")) ==
        "x.json: iperf3 was told to send no more than 100 Mbit/s in a stream (-b): rates are what was asked for where "
        "the "
        "network gives more\n");
  test["target_bitrate"] = 0;
  CHECK(says(parse_iperf3(run.dump(), "x.json")) == "");
}

TEST_CASE("UDP that was lost on its way is what the receiver got, not what the sender sent") {
  Json run = iperf3_run();
  run["start"]["test_start"] = {{"protocol", "UDP"}, {"num_streams", 1}, {"reverse", 0}, {"target_bitrate", 0}};
  Json& got = run["end"]["sum_received"];
  got["bits_per_second"] = 1e9;
  got["lost_percent"] = 90;
  Measurements measurements = parse_iperf3(run.dump(), "x.json");
  REQUIRE(measurements.table.row_count() == 3);
  CHECK(measurements.table.row(0).text("interval") == "received");
  CHECK(measurements.table.row(0).number("bits_per_second") == 1e9);
  CHECK(says(measurements) ==
        "x.json: of UDP 90 % was lost: in the place of the sender's intervals is what the receiver got, row "
        "\"received\"\n");
  got["lost_percent"] = 0.5;
  CHECK(parse_iperf3(run.dump(), "x.json").table.row(0).text("interval") == "0");
  got["lost_percent"] = 90;
  run["start"]["test_start"]["reverse"] = 1;  // the client's intervals are the receiver's
  CHECK(parse_iperf3(run.dump(), "x.json").table.row(0).text("interval") == "0");
  run["start"]["test_start"]["reverse"] = 0;
  run["intervals"][0]["sum"]["sender"] = false;  // the server's output
  CHECK(parse_iperf3(run.dump(), "x.json").table.row(0).text("interval") == "0");
  run["intervals"][0]["sum"].erase("sender");
  got["bytes"] = 0;
  CHECK(iperf3_refusal(run) ==
        "x.json: /end/sum_received: expected a test in which the receiver got something; found 0 B");
  run["end"].erase("sum_received");
  CHECK(iperf3_refusal(run) == "accepted");
  run["end"]["sum"] = {{"lost_percent", 50}};
  CHECK(iperf3_refusal(run) ==
        "x.json: /end: expected what the receiver got, \"sum_received\"; found that 50 % of the packets were lost, and "
        "only what was sent");
}

TEST_CASE("a test that ends before anything has crossed the network is said to be none") {
  Json run = iperf3_run();
  run["start"]["test_start"]["num_streams"] = 1;
  run["end"]["sum_sent"]["seconds"] = 0.03;
  CHECK(says(parse_iperf3(run.dump(), "x.json")) ==
        "x.json: the test took 0.03 s: rates are those at which the sender filled its own buffers\n");
  run["end"]["sum_received"]["bytes"] = 0;
  CHECK(says(parse_iperf3(run.dump(), "x.json")) ==
        "x.json: the receiver says that it got 0 B: rates are those at which the sender filled its own buffers\n");
}

TEST_CASE("what stands above and below an output of iperf3 is skipped or named") {
  const std::string run = iperf3_run().dump();
  CHECK(parse_iperf3("Warning: --bidir is experimental.\nwarning: {UDP block size}\n" + run + "\n", "x.json")
            .table.row_count() == 3);
  CHECK(refusal([&] { (void)parse_iperf3("warning: x\n" + run + "\n" + run, "x.json"); }) ==
        "x.json:3: expected the output of one run of iperf3 --json; found another one behind it: give each run a file");
  CHECK(refusal([&] { (void)parse_iperf3("warning: x\n" + run + "}", "x.json"); }).starts_with("x.json:2:"));
  CHECK(refusal([&] { (void)parse_iperf3("Accepted\n[ ID][Role] Interval  Transfer\n", "x.json"); }) ==
        "x.json: expected the output of iperf3 --json; found what iperf prints without it");
}

TEST_CASE("a stream of events is what one output would be, and text is refused by name") {
  const Json run = iperf3_run();
  const auto event = [](const char* name, const Json& data) {
    return Json{{"event", name}, {"data", data}}.dump() + "\n";
  };
  const std::string stream =
      event("start", run["start"]) + event("interval", run["intervals"][0]) + event("end", run["end"]);
  CHECK(parse_iperf3(stream, "x.json").table.row_count() == 3);
  CHECK(refusal([&] { (void)parse_iperf3(event("start", run["start"]) + event("error", "broken pipe"), "x.json"); }) ==
        "x.json: /error: expected a run without error; iperf3 says \"broken pipe\"");
  CHECK(refusal([&] {
          (void)parse_iperf3("Connecting to host a, port 5201\n[ ID] Interval           Transfer     Bitrate\n",
                             "x.txt");
        }) == "x.txt: expected the output of iperf3 --json; found what iperf prints without it");
  CHECK(refusal([] {
          (void)parse_iperf3("20240502101112,10.0.0.1,50000,10.0.0.2,5001,3,0.0-1.0,1175000000\n", "x.csv");
        }) == "x.csv: expected the output of iperf3 --json; found other text");
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
        "k.csv: expected a column \"precision\"; found \"kind\" and \"m\"");
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
