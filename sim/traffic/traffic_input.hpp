#pragma once
// What traffic is read from: a simulated run, captures, tables of packets.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/budget.hpp"
#include "sim/base/units.hpp"
#include "sim/traffic/messages.hpp"
#include "sim/traffic/step_log.hpp"
#include "sim/traffic/traffic.hpp"

namespace rehearse {

struct TrafficOptions {
  Seconds bin{1e-3};
  double log_offset_s = 0;                   // added to the dates of a training log
  std::optional<std::filesystem::path> log;  // otherwise train_history.log of the folder
};

/// The traffic of one run, measured or simulated, and what is known besides.
struct RunTraffic {
  std::string name;  // of the folder or file
  bool is_simulated = false;
  std::vector<std::string> files;  // that were read
  ObservedTraffic traffic;
  StepLog log;
  std::optional<BytesPerSecond> link_rate;  // of a machine, if known
  std::optional<std::int64_t>
      run_payload_bytes;  // of the whole simulated run; messages may be recorded of a part alone
};

/// Reads `input`:
///   - an output folder of `simulate -o`: its messages.csv.gz, as packets (messages.hpp);
///   - a capture, a table of packets (packet_table.hpp) or those of tshark -T json (packet_json.hpp), packed or not;
///   - a folder with captures, or else with tables, or else with a folder parsed-files of them: all of them are one run,
///     with train_history.log beside them. Other files there are left alone.
/// Captures of several machines may have each packet twice, where it left and where it arrived. The address that all IP
/// packets of a capture share is its machine's; a packet that two captures must have counts where it left.
/// Throws InputError; once the budget is over its stop() ends the call.
RunTraffic read_traffic(const std::filesystem::path& input, const TrafficOptions& options, const Budget& budget);

/// The traffic of messages between machines (messages.hpp), as packets; without files and a log.
RunTraffic traffic_of_messages(const std::vector<Message>& messages, const std::vector<std::string>& machines,
                               const TrafficOptions& options, const Budget& budget);

/// Whether `input` is something for read_traffic() and no simulated run.
bool is_measured_traffic(const std::filesystem::path& input);

}  // namespace rehearse
