#include "sim/traffic/traffic_input.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/traffic/capture.hpp"
#include "sim/traffic/packet_json.hpp"
#include "sim/traffic/packet_table.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMessages = "messages.csv.gz";
constexpr const char* kLog = "train_history.log";
constexpr std::size_t kStart = 4096;              // bytes of a file that tell its kind
constexpr std::int64_t kPacketsPerCheck = 65536;  // of the budget

enum class Kind { kNone, kCapture, kTable, kJson };

Kind kind_of_start(std::string_view start) {
  if (is_capture(start)) return Kind::kCapture;
  if (is_packet_json(start)) return Kind::kJson;
  return is_packet_table(start) ? Kind::kTable : Kind::kNone;
}

Kind kind_of(const fs::path& file) { return kind_of_start(read_unpacked_start(file, kStart)); }

/// Of a folder's file, which may be anything: what cannot be unpacked is of no kind.
Kind kind_in_folder(const fs::path& file) {
  try {
    return kind_of(file);
  } catch (const InputError&) { return Kind::kNone; }
}

std::unique_ptr<PacketSource> open(const fs::path& file) {
  switch (kind_of(file)) {
    case Kind::kCapture:
      return open_capture(file);
    case Kind::kJson:
      return open_packet_json(file);
    default:
      return open_packet_table(file);
  }
}

/// What other forms of packets are called that are not read, and how those that are can be written.
std::string other_form(std::string_view start) {
  const auto has = [&](std::string_view text) { return start.find(text) != std::string_view::npos; };
  const std::string instead = "; tshark -r CAPTURE -T json writes what is read, or give the capture";
  if (has("<pdml") || has("<psml")) return "packets in XML" + instead;
  if (has("{\"index\"") && has("\"layers\"")) return "packets for Elasticsearch (tshark -T ek)" + instead;
  if (has("\"No.\"") && has("\"Source\"")) return "a list of packets without ports, as Wireshark exports it" + instead;
  if (start.starts_with("snoop")) return "a capture of snoop; editcap -F pcap makes one that is read";
  return "neither";
}

/// Those of the folder's files that are of a kind, by name.
std::vector<fs::path> files_of(const fs::path& folder, Kind kind) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator{folder})
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with(".") &&
        kind_in_folder(entry.path()) == kind)
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The captures of a folder, or else its tables: both have the same packets.
std::vector<fs::path> inputs_of(const fs::path& folder) {
  for (const Kind kind : {Kind::kCapture, Kind::kTable, Kind::kJson})
    for (const fs::path& place : {folder, folder / "parsed-files"}) {
      if (!fs::is_directory(place)) continue;
      if (std::vector<fs::path> files = files_of(place, kind); !files.empty()) return files;
    }
  return {};
}

/// Whose packets a capture has, as far as that can be told.
struct Owner {
  std::vector<Address> candidates;  // that all IP packets have; empty: there is no such address
  std::optional<Address> only_sender;
  bool has_ip = false;

  void see(const Packet& packet) {
    if (!packet.is_ip) return;
    if (!has_ip) {
      candidates = {packet.from};
      if (packet.to != packet.from) candidates.push_back(packet.to);
      only_sender = packet.from;
      has_ip = true;
    }
    std::erase_if(candidates, [&](const Address& a) { return a != packet.from && a != packet.to; });
    if (only_sender && *only_sender != packet.from) only_sender.reset();
  }
  bool is_decided() const { return has_ip && candidates.size() <= 1; }
};

struct SourceFile {
  fs::path path;
  std::optional<Address> owner;
  std::optional<std::int64_t> first_ns;
};

/// The first packet of each file and, of several files, their owners.
std::vector<SourceFile> look_into(const std::vector<fs::path>& paths, const Budget& budget) {
  std::vector<SourceFile> files;
  std::vector<Owner> owners;
  for (const fs::path& path : paths) {
    SourceFile file{.path = path, .owner = {}, .first_ns = {}};
    Owner owner;
    const std::unique_ptr<PacketSource> source = open(path);
    Packet packet;
    for (std::int64_t packets = 0; source->next(packet); ++packets) {
      if (packets % kPacketsPerCheck == 0) budget.check();
      if (!file.first_ns) file.first_ns = packet.time_ns;
      owner.see(packet);
      if (paths.size() == 1 || owner.is_decided()) break;
    }
    files.push_back(std::move(file));
    owners.push_back(std::move(owner));
  }
  std::set<Address> taken;
  const auto give = [&](std::size_t i, const Address& address) {
    files[i].owner = address;
    taken.insert(address);
  };
  for (std::size_t i = 0; i < files.size(); ++i)
    if (owners[i].candidates.size() == 1) give(i, owners[i].candidates.front());
  for (std::size_t i = 0; i < files.size(); ++i)  // two machines alone: its sender, or who has no capture yet
    if (owners[i].candidates.size() == 2) {
      const auto& [a, b] = std::pair{owners[i].candidates[0], owners[i].candidates[1]};
      give(i, owners[i].only_sender ? *owners[i].only_sender : taken.contains(a) ? b : a);
    }
  return files;
}

std::string name_of(const fs::path& file) {
  const bool is_packed = file.extension() == ".gz";
  std::string name = (is_packed ? file.stem() : file).stem().string();
  constexpr std::string_view kTool = "-tcpdump";
  if (name.ends_with(kTool)) name.resize(name.size() - kTool.size());
  return name;
}

void name_host(ObservedTraffic& traffic, const Address& address, const std::string& name) {
  for (TrafficHost& host : traffic.hosts)
    if (host.address == address) host.name = name;
}

ObservedTraffic count(const std::vector<SourceFile>& files, std::int64_t bin_ns, const Budget& budget) {
  std::optional<std::int64_t> origin;
  std::map<Address, int> captures;  // of each machine
  for (const SourceFile& file : files) {
    if (file.first_ns) origin = std::min(origin.value_or(*file.first_ns), *file.first_ns);
    if (file.owner) ++captures[*file.owner];
  }
  TrafficCounter counter{origin.value_or(0), bin_ns};
  std::vector<std::string> warnings;
  for (const SourceFile& file : files) {
    const std::unique_ptr<PacketSource> source = open(file.path);
    Packet packet;
    for (std::int64_t packets = 0; source->next(packet); ++packets) {
      if (packets % kPacketsPerCheck == 0) budget.check();
      const bool is_of_another = files.size() > 1 && packet.is_ip && file.owner && packet.from != *file.owner &&
                                 captures.contains(packet.from);
      if (!is_of_another) counter.add(packet);
    }
    if (!source->warning().empty()) warnings.push_back(source->warning());
  }
  ObservedTraffic traffic = counter.finish();
  for (const SourceFile& file : files)
    if (files.size() > 1 && file.owner && captures[*file.owner] == 1)
      name_host(traffic, *file.owner, name_of(file.path));
  traffic.warnings = std::move(warnings);
  return traffic;
}

std::int64_t bin_of(const TrafficOptions& options) {
  return std::max<std::int64_t>(1, std::llround(options.bin.value() * 1e9));
}

RunTraffic read_measured(const fs::path& input, const TrafficOptions& options, const Budget& budget) {
  const bool is_folder = fs::is_directory(input);
  const std::vector<fs::path> paths = is_folder ? inputs_of(input) : std::vector{input};
  if (paths.empty())
    throw InputError{input.string() +
                     ": expected a run of simulate -o, captures (pcap, pcapng) or tables of packets; "
                     "found " +
                     (fs::is_empty(input) ? "an empty folder" : "none of them")};
  if (!is_folder) {
    const std::string start = read_unpacked_start(input, kStart);
    if (const std::string_view what = emptiness(start); !what.empty())
      throw InputError{input.string() + ": expected a capture or a table of packets; found " + std::string{what}};
    const bool is_none = kind_of_start(start) == Kind::kNone;
    if (const std::string missing = lacking_columns(start); is_none && !missing.empty())
      throw InputError{input.string() + ":1: expected columns " + missing +
                       " in a table of packets, too (tshark -T fields -E header=y -e ...); found " +
                       in_quotes(start.substr(0, start.find_first_of("\r\n")), 200)};
    if (is_none)
      throw InputError{
          input.string() +
          ": expected a capture (pcap, pcapng), the packets of tshark -T json, or a table of packets whose "
          "first line names columns (tshark -T fields -E header=y): frame.time_epoch or frame.time, ip.src, "
          "ip.dst, tcp.srcport, tcp.dstport and frame.len; found " +
          other_form(start)};
  }
  RunTraffic run{.name = fs::absolute(input).lexically_normal().filename().string()};
  if (run.name.empty()) run.name = fs::absolute(input).lexically_normal().parent_path().filename().string();
  for (const fs::path& path : paths) run.files.push_back(path.string());
  run.traffic = count(look_into(paths, budget), bin_of(options), budget);
  if (run.traffic.total.packets == 0) throw InputError{input.string() + ": expected packets; found none"};
  const fs::path log = options.log.value_or(is_folder ? input / kLog : fs::path{});
  if (options.log || (!log.empty() && fs::exists(log))) run.log = load_step_log(log, options.log_offset_s);
  return run;
}

/// What links.csv says of a run's machines.
struct RunMachines {
  std::vector<std::string> names;
  std::int64_t sent_bytes = 0;
  double nic_rate = 0;
};

RunMachines load_machines(const fs::path& file) {
  const CsvTable table = load_csv_file(file);
  RunMachines machines;
  for (const CsvRow& row : table.rows()) {
    const std::string_view name = row.text("machine");
    if (std::ranges::find(machines.names, name) == machines.names.end()) machines.names.emplace_back(name);
    if (!row.text("peer").empty()) continue;
    if (row.text("direction") == "transmit" &&
        __builtin_add_overflow(machines.sent_bytes, row.integer("size_B"), &machines.sent_bytes))
      row.fail("size_B", "expected less than 2^63 bytes of all machines");
    if (const double utilization = row.number("nic_utilization"); utilization > 0)
      machines.nic_rate = std::max(machines.nic_rate, row.number("mean_rate_Bps") / utilization);
  }
  return machines;
}

RunTraffic read_simulated(const fs::path& folder, const TrafficOptions& options, const Budget& budget) {
  require_complete(folder);
  const RunMachines machines = load_machines(folder / "links.csv");
  const std::vector<Message> messages = load_messages(folder / kMessages, machines.names);
  RunTraffic run = traffic_of_messages(messages, machines.names, options, budget);
  if (run.traffic.total.packets == 0)
    throw InputError{(folder / kMessages).string() + ": expected messages with bytes; found none"};
  run.name = fs::absolute(folder).lexically_normal().filename().string();
  run.files = {(folder / kMessages).string()};
  run.log = options.log ? load_step_log(*options.log, options.log_offset_s) : load_run_steps(folder / "iterations.csv");
  if (machines.nic_rate > 0) run.link_rate = BytesPerSecond{machines.nic_rate};
  run.run_payload_bytes = machines.sent_bytes;
  return run;
}

bool is_run(const fs::path& input) { return fs::is_regular_file(input / kMessages); }

}  // namespace

RunTraffic traffic_of_messages(const std::vector<Message>& messages, const std::vector<std::string>& machines,
                               const TrafficOptions& options, const Budget& budget) {
  const std::vector<RunConnection> connections = connections_of(messages);
  TrafficCounter counter{first_packet_time(connections), bin_of(options)};
  std::int64_t packets = 0;
  for_each_packet(connections, [&](const Packet& packet) {
    if (packets++ % kPacketsPerCheck == 0) budget.check();
    counter.add(packet);
  });
  RunTraffic run{.name = {}, .is_simulated = true, .files = {}, .traffic = counter.finish()};
  for (std::size_t m = 0; m < machines.size(); ++m)
    name_host(run.traffic, machine_address(static_cast<MachineIndex>(m)), machines[m]);
  return run;
}

bool is_measured_traffic(const fs::path& input) {
  if (is_run(input)) return false;
  if (fs::is_directory(input)) return !inputs_of(input).empty();
  return fs::is_regular_file(input) && kind_in_folder(input) != Kind::kNone;
}

RunTraffic read_traffic(const fs::path& input, const TrafficOptions& options, const Budget& budget) {
  if (is_run(input)) return read_simulated(input, options, budget);
  if (!fs::exists(input)) throw InputError{input.string() + ": cannot read: no such file or folder"};
  return read_measured(input, options, budget);
}

}  // namespace rehearse
