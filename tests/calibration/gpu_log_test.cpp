#include "calibration/gpu_log.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

const std::string kLogs = source_folder() + "/calibration/data/own-examples/logs/";

std::string refusal(const std::string& text) {
  return test::error_of([&] { (void)parse_gpu_log(text, "x.log"); });
}

}  // namespace

TEST_CASE("the example of each monitor says the same: two GPUs, 95 % busy for 30 of 40 seconds") {
  for (const auto& [file, tool] :
       {std::pair{"dmon.log", "nvidia-smi dmon"}, std::pair{"query-gpu.csv", "nvidia-smi --query-gpu"},
        std::pair{"dcgmi.log", "dcgmi dmon"}}) {
    CAPTURE(file);
    const Measurements log = parse_gpu_log(read_file(kLogs + file, kMiB), file);
    REQUIRE(log.table.row_count() == 2);
    for (const CsvRow& row : log.table.rows()) {
      CHECK(row.text("tool") == tool);
      CHECK(row.integer("samples") == 30);
      CHECK(row.integer("idle_samples") == 10);
      CHECK(row.number("gpu_utilization") == doctest::Approx((20 * 0.97 + 10 * 0.94) / 30));
      CHECK(row.number("memory_utilization") == doctest::Approx(0.58));
      CHECK(row.number("memory_used_B") == doctest::Approx(64021.0 * 1024 * 1024));
      CHECK(row.number("power_W") == doctest::Approx(652.4).epsilon(1e-3));
    }
    CHECK(log.remarks.at(0).ends_with(": 20 samples before the GPUs' first or after their last work are left out"));
  }
}

TEST_CASE("nvidia-smi dmon with dates, repeated headers, columns that a GPU has not") {
  const Measurements log = parse_gpu_log(
      "#Time        gpu   pwr gtemp mtemp    sm   mem\r\n#HH:MM:SS    Idx     W     C     C     %     %\r\n"
      " 12:00:00      0   145    72     -    87    91\r\n"
      "#Time        gpu   pwr gtemp mtemp    sm   mem\n#HH:MM:SS    Idx     W     C     C     %     %\n"
      " 12:00:01      0     -    72     -    89    91\n 12:00:02      0   1",
      "x.log");
  const CsvRow row = log.table.row(0);
  CHECK(row.number("gpu_utilization") == doctest::Approx(0.88));
  CHECK(row.number("power_W") == doctest::Approx(145));
  CHECK(row.text("memory_used_B").empty());
  CHECK(log.missing.at("memory_used_B") == "x.log: nvidia-smi dmon did not record it; ask for it with -s m");
  CHECK(log.remarks.back() == "x.log: 1 line that is not whole is left out");
}

TEST_CASE("nvidia-smi --query-gpu: with and without units, GPUs by bus address, what is not supported") {
  const Measurements log = parse_gpu_log(
      "timestamp, pci.bus_id, name, utilization.gpu, memory.used, power.draw\n"
      "2024/05/20 12:00:00.123, 00000000:17:00.0, NVIDIA A100-SXM4-80GB, 50, 1024, [N/A]\n"
      "2024/05/20 12:00:00.124, 00000000:65:00.0, NVIDIA A100-SXM4-80GB, 70, 2048, [Not Supported]\n",
      "x.csv");
  REQUIRE(log.table.row_count() == 2);
  CHECK(log.table.row(1).text("gpu") == "00000000:65:00.0");
  CHECK(log.table.row(1).text("name") == "NVIDIA A100-SXM4-80GB");
  CHECK(log.table.row(1).number("gpu_utilization") == doctest::Approx(0.7));
  CHECK(log.table.row(1).number("memory_used_B") == 2048.0 * 1024 * 1024);
  CHECK(log.table.row(1).text("power_W").empty());
  CHECK(log.gpu_column == "name");
}

TEST_CASE("dcgmi dmon: the busy share of the graphics engine where utilization was not asked for") {
  const Measurements log =
      parse_gpu_log("# Entity   GRACT   SMACT\n      Id\n    GPU 0   0.900   N/A\nGPU 0 0.800 0.5\n", "x.log");
  CHECK(log.table.row(0).number("gpu_utilization") == doctest::Approx(0.85));
  CHECK(log.table.row(0).number("sm_active") == doctest::Approx(0.5));
}

TEST_CASE("shares of processes are none of a GPU, and what a GPU cannot tell was asked for") {
  CHECK(test::error_of([] {
          (void)parse_gpu_log(
              "# gpu        pid  type    sm   mem   enc   dec   command\n"
              "# Idx          #   C/G     %     %     %     %   name\n"
              "    0      14835     C    45    15     0     0   python\n",
              "p.log");
        }) ==
        "p.log:1: expected shares of whole GPUs; found those of processes (nvidia-smi pmon): record nvidia-smi dmon "
        "instead");
  const Measurements none = parse_gpu_log(
      "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n"
      "    0    29    69     -     -     -     0     0  4996  1845\n",
      "d.log");
  CHECK(none.missing.at("gpu_utilization") ==
        "d.log: nvidia-smi dmon was asked for it, but this GPU or its driver tells none");
  CHECK(none.missing.at("memory_used_B") == "d.log: nvidia-smi dmon did not record it; ask for it with -s m");
  const Measurements named =
      parse_gpu_log("timestamp, name, utilization.gpu [%]\n2022/08/29 10:00:00, NVIDIA A100, 98 %\n", "q.csv");
  CHECK(named.remarks.at(0) ==
        "q.csv: neither the index nor the address of GPUs is recorded: all of one name are one row");
}

TEST_CASE("what is no log of a monitor") {
  CHECK(refusal("").ends_with("found an empty file"));
  CHECK(refusal("hello\n").ends_with("or dcgmi dmon; found no line of names of one"));
  CHECK(refusal(read_file(kLogs + "megatron.log", kMiB))
            .ends_with("found a log of Megatron-LM, whose \"format\" is \"training-log\""));
  CHECK(refusal("# gpu sm\n0 0\n0 0\n") == "x.log: expected samples of a GPU that works; found idle GPUs alone");
  CHECK(refusal("# gpu sm\n") == "x.log: expected samples of a GPU that works; found no sample");
  CHECK(refusal("# gpu sm\n0 170\n") == "x.log:2: column \"sm\": expected a share of at most 100 %; found \"170\"");
  CHECK(refusal("# gpu sm\n0 5\n#Entity GPUTL\nGPU 0 5\n") ==
        "x.log:3: expected one tool's output; found dcgmi dmon after nvidia-smi dmon");
}

}  // namespace rehearse
