#pragma once
// Files of measurements in the formats of the programs that write them, as tables, so that everything else is an
// ordinary study. A row stands on the line of the file that it comes from, so messages about it name that line;
// iperf3's JSON has no such lines. Every mistake is an InputError of one line.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

enum class MeasurementFormat { kCsv, kNcclTests, kIperf3, kKernelTable, kTrace, kTrainingLog, kGpuLog };

/// The format of the word "csv", "nccl-tests", "iperf3", "kernel-table", "trace", "training-log" (job_log.hpp) or "gpu-log"
/// (gpu_log.hpp). Throws InputError for another one.
MeasurementFormat read_measurement_format(const JsonReader& json);

/// A file of measurements as a table.
struct Measurements {
  CsvTable table;
  std::vector<std::string> remarks{};  // what was left out, and what the numbers are not, a line each
  /// Columns that are empty in some row since the file does not say what they hold: the line about the first such row,
  /// for whoever needs that column.
  std::map<std::string, std::string> missing{};
  std::string gpu_column{};        // with the names that drivers give GPUs; empty: none
  bool is_of_collectives = false;  // columns "collective", "redop" and "ranks" say what was measured
};

/// Those of a file, or of a folder of traces (trace_measurements.hpp): at most 256 MiB of text, 64 MiB of JSON; gzip and a
/// tar archive of one file are unpacked (unpacked_file.hpp).
Measurements load_measurements(const std::filesystem::path& path, MeasurementFormat format);

/// The listing of a program of nccl-tests or rccl-tests of any version, several runs one after another included. What
/// mpirun, Slurm or Kubernetes write before each line is passed over; listings that several processes print at the same
/// time are told apart by it. Lines of other programs, which are no rows, are skipped. Columns:
///   collective                            "all_reduce", if the listing says so, or its columns and bandwidths tell
///   ranks, machines, device               of the comments above the rows; empty without these
///   bytes, count, type, redop, root       redop and root are empty where the program has none
///   time_s, time_us, algbw_GBps, busbw_GBps, and the same with _in_place
/// Rows of 0 B are left out, with a remark, and so are rows that another program's line cuts in two; if these are more than
/// the others, the listing is refused. A row that nccl-tests found wrong results in is refused, and so are times of
/// the host's calls (-C 1).
Measurements parse_nccl_tests(std::string_view text, const std::string& file_name);

/// The output of `iperf3 --json`, or of `--json-stream`. One row for each interval and one each for the sums of the sender
/// and the receiver; with `--bidir` as many again for the other direction:
///   interval                              0, 1, ..., "sum_sent", "sum_received"; of UDP that lost more than 1 % "received",
///                                         what the receiver got, in the place of the intervals of the sender
///   is_omitted                            whether iperf3 itself leaves the interval out (-O)
///   protocol, streams, is_reverse         is_reverse: from the server to the client
///   seconds, bytes, bits_per_second, bytes_per_second      of all `streams` of the direction together
///   retransmits, rtt_us                   empty where iperf3 does not know; rtt is the mean of the streams
/// An output with an "error" is refused with what it says. Remarks: several streams, a rate that iperf3 itself limited (-b,
/// and UDP always), both directions at once, a test that is too short, or in which the receiver got nothing.
Measurements parse_iperf3(std::string_view text, const std::string& file_name);

/// A CSV of GPU kernels, with at least these columns:
///   kind                                  "gemm": m x n results, each a sum of k products; "elementwise": n x k values
///                                         are read and written, m is 1
///   m, n, k                               n is what a training step has as its batch, at most 65536
///   precision                             "fp32" or "fp16"
///   time_ms
/// The table has time_s besides.
CsvTable parse_kernel_table(std::string text, const std::string& file_name);

}  // namespace rehearse
