// rehearse traffic: what a run, simulated or captured, sends over its network.

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/traffic_document.hpp"
#include "sim/app/output/traffic_tables.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/traffic_runs.hpp"
#include "sim/app/traffic_sweep.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

struct TrafficCommand {
  CommonOptions common;
  std::vector<std::filesystem::path> inputs;
  std::string bin = "1ms", link_rate, shortest_gap = "5ms", log, log_offset;  // as typed
  double threshold = 1;                                                       // percent of the link rate
};

void add_options(Options options, TrafficCommand& command) {
  options
      .add_option("INPUT", command.inputs,
                  "A run of simulate -o; a capture (pcap, pcapng), a table of packets (tshark -T fields -E header=y) "
                  "or what tshark "
                  "-T json writes, each also packed (.gz, .tar.gz); or a folder of them, of one run. Several runs: a "
                  "regression of their data per step, and figures by setting. A "
                  "scenario or sweep file stands for all of its combinations, which are simulated")
      .required();
  options.add_option("--bin", command.bin, "T", "Width of the bins of time").shows_default();
  options.add_option(
      "--link-rate", command.link_rate, "RATE",
      "Rate of a machine's link, such as 10Gbps (default: the run's, or the highest of a pair in a bin)");
  options
      .add_option("--threshold", command.threshold, "PERCENT", "Traffic is ON in bins above so much of the link rate")
      .range(0.0, 100.0)
      .shows_default();
  options.add_option("--shortest-gap", command.shortest_gap, "T", "Shorter gaps are part of the burst around them")
      .shows_default();
  options.add_option("--log", command.log, "FILE",
                     "Log of the training's steps, with columns Type, ID, Timestamp, Loss, Accuracy (default: "
                     "train_history.log of the folder)");
  options.add_option("--log-offset", command.log_offset, "T",
                     "Added to the log's times, which are taken as UTC, such as 2h or -2h");
  options.add_flag("--json", command.common.prints_json, "Print traffic.json instead of text");
  add_catalogs(options, command.common);
  add_parallel(options, command.common);
  add_output(options, command.common, "Write traffic.json, traffic.html and tables here (default: write nothing)");
  add_wall_time(options, command.common);
}

Seconds read_time(const std::string& option, const std::string& text, Seconds least) {
  const Seconds time = read_seconds(option, text).value_or(Seconds{});
  if (time < least || time > kLongest)
    throw InputError{option + ": expected a time of at least " + to_text(least) + "; found " + in_quotes(text)};
  return time;
}

TrafficOptions read_options(const TrafficCommand& command) {
  constexpr Seconds kLeastBin{1e-6};
  TrafficOptions options{.bin = read_time("--bin", command.bin, kLeastBin)};
  if (!command.log.empty()) options.log = command.log;
  const bool is_earlier = command.log_offset.starts_with("-");
  if (const auto offset = read_seconds("--log-offset", command.log_offset.substr(is_earlier ? 1 : 0)))
    options.log_offset_s = (is_earlier ? -1 : 1) * offset->value();
  return options;
}

BurstOptions read_burst_options(const TrafficCommand& command) {
  BurstOptions options{.threshold_share = command.threshold / 100,
                       .shortest_gap = read_time("--shortest-gap", command.shortest_gap, Seconds{})};
  if (command.link_rate.empty()) return options;
  try {
    options.link_rate = parse_bytes_per_second(command.link_rate);
  } catch (const QuantityError& error) { throw InputError{std::string{"--link-rate: "} + error.what()}; }
  if (!(*options.link_rate > BytesPerSecond{0})) throw InputError{"--link-rate: expected a rate above 0Bps"};
  return options;
}

Answer answer_of(const RunTraffic& run, const TrafficStatistics& statistics) {
  constexpr std::size_t kMostPairLines = 24;
  const ObservedTraffic& traffic = run.traffic;
  Answer answer;
  const auto line = [&](const char* what, const std::string& text) { answer.row("%-18s %s", {what, text}); };
  const auto megabytes = [](double bytes) { return display(bytes / 1e6) + " MB"; };
  line("traffic", printable(run.name) + ", " + (run.is_simulated ? "simulated" : "measured") + ", " +
                      display(statistics.duration_s) + " s");
  line("packets",
       std::to_string(traffic.total.packets) + ", " + std::to_string(traffic.total.wire_bytes) + " bytes on the wire" +
           (traffic.has_sequences ? ", of them " + std::to_string(traffic.total.payload_bytes) + " payload of TCP, " +
                                        std::to_string(traffic.total.retransmitted_bytes) + " of it again"
                                  : ""));
  line("flows", std::to_string(traffic.flows.size()) + " between " + std::to_string(traffic.hosts.size()) +
                    " hosts in " + std::to_string(traffic.pairs.size()) + " pairs");
  line("mean rate", display(statistics.all.mean_rate * 8 / 1e9) + " Gbit/s");
  const BurstSummary& bursts = statistics.all.summary;
  line("bursts", std::to_string(bursts.bursts) + ", of " + megabytes(bursts.bytes) + " and " +
                     display(bursts.duration_s * 1e3) + " ms, gaps of " + display(bursts.gap_s * 1e3) +
                     " ms; ON above " + display(statistics.threshold.value() * 8 / 1e9) + " Gbit/s");
  const auto& period = statistics.all.period;
  line("period",
       (period ? display(period->seconds * 1e3) + " ms, autocorrelation " + display(period->correlation)
               : std::string{"none"}) +
           (statistics.step_time_s > 0 ? "; steps take " + display(statistics.step_time_s * 1e3) + " ms" : ""));
  if (const auto data = statistics.data_per_step ? statistics.data_per_step : statistics.data_per_period)
    line(statistics.data_per_step ? "data per step" : "data per period", megabytes(*data));
  std::vector<std::string> scales;
  for (std::size_t i = 0; i < statistics.scales_bins.size(); ++i)
    if (const double window = statistics.bin_s * static_cast<double>(statistics.scales_bins[i]); window < 0.11)
      scales.push_back(display(statistics.all.peak_to_mean[i]) + " in " + display(window * 1e3) + " ms");
  std::string peaks;
  for (const std::string& scale : scales) peaks += (peaks.empty() ? "" : ", ") + scale;
  line("peak to mean", peaks);
  Table table{.header = {"from", "to", "packets", "bytes", "Gbit/s"}, .rows = {}};
  for (std::size_t p = 0; p < std::min(kMostPairLines, traffic.pairs.size()); ++p) {
    const TrafficPair& pair = traffic.pairs[p];
    table.rows.push_back({printable(label_of(traffic.hosts[static_cast<std::size_t>(pair.from)])),
                          printable(label_of(traffic.hosts[static_cast<std::size_t>(pair.to)])),
                          std::to_string(pair.counts.packets), std::to_string(pair.counts.wire_bytes),
                          display(statistics.mean_rates[p] * 8 / 1e9)});
  }
  answer.line();
  answer.table(std::move(table));
  if (traffic.pairs.size() > kMostPairLines)
    answer.line("... and " + std::to_string(traffic.pairs.size() - kMostPairLines) +
                " more pairs, which matrix.csv of -o has");
  return answer;
}

Answer run_one(const TrafficCommand& command) {
  const TrafficOptions options = read_options(command);
  const BurstOptions burst_options = read_burst_options(command);
  const auto made = make_folder(command.common.output);
  RunTraffic run = read_traffic(command.inputs.front(), options, command.common.budget);
  if (run.is_simulated)
    if (std::string warning = rdma_warning(scenario_of_run(command.inputs.front())); !warning.empty())
      run.traffic.warnings.push_back(std::move(warning));
  print_warnings(run.traffic.warnings, command.common.is_quiet);
  const TrafficStatistics statistics = traffic_statistics(run, burst_options);
  const Json json = to_json(run, statistics);
  std::vector<std::string> written;
  if (command.common.output) {
    OutputFolder folder{*command.common.output};
    for (const auto& [name, content] : traffic_tables(run, statistics)) folder.write(name, content);
    folder.write("traffic.html", render_html(traffic_document(run, statistics)));
    folder.write("traffic.json", to_json_text(json));
    command.common.budget.check();
    folder.commit();
    written = folder.names();
  }
  Answer answer = answer_of(run, statistics);
  answer.json = to_json_text(json);
  if (command.common.output) add_written(answer, command.common, *command.common.output, written);
  return answer;
}

Answer run_several(const TrafficCommand& command) {
  const TrafficOptions options = read_options(command);
  const BurstOptions burst_options = read_burst_options(command);
  const auto made = make_folder(command.common.output);
  std::vector<TrafficOfRun> runs;
  std::vector<std::filesystem::path> sweeps;
  for (const std::filesystem::path& input : command.inputs) {
    if (is_sweep(input)) {
      if (options.log || !command.log_offset.empty())
        throw InputError{input.string() + ": expected runs or captures beside " +
                         (options.log ? "--log" : "--log-offset") +
                         "; found a scenario or sweep, whose steps are simulated"};
      sweeps.push_back(input);
      continue;
    }
    const RunTraffic run = read_traffic(input, options, command.common.budget);
    print_warnings(run.traffic.warnings, command.common.is_quiet);
    runs.push_back(traffic_of_run(input, run, traffic_statistics(run, burst_options)));
  }
  if (!sweeps.empty()) {
    Progress progress{"simulations", command.common.is_quiet};
    std::ranges::move(traffic_of_sweeps(sweeps, load_catalog(command.common),
                                        {pool_of(command.common), options, progress.counter()}, command.common.budget),
                      std::back_inserter(runs));
  }
  std::set<std::string> warnings;
  for (const TrafficOfRun& run : runs)
    if (!run.warning.empty()) warnings.insert(run.warning);
  print_warnings(warnings, command.common.is_quiet);
  const TrafficRegressions regressions = regress_traffic(runs);
  const Json json = to_json(runs, regressions);
  std::vector<std::string> written;
  if (command.common.output) {
    OutputFolder folder{*command.common.output};
    folder.write("runs.csv", runs_csv(runs));
    if (!regressions.fits.empty()) folder.write("regression.csv", regression_csv(regressions));
    folder.write("traffic.html", render_html(runs_document(runs, regressions)));
    folder.write("traffic.json", to_json_text(json));
    command.common.budget.check();
    folder.commit();
    written = folder.names();
  }
  Answer answer{.json = to_json_text(json), .parts = {runs_text(runs, regressions)}};
  if (command.common.output) add_written(answer, command.common, *command.common.output, written);
  return answer;
}

Answer run(const TrafficCommand& command) {
  return command.inputs.size() == 1 && !is_sweep(command.inputs.front()) ? run_one(command) : run_several(command);
}

}  // namespace

CommandVerb traffic_verb() {
  return make_verb<TrafficCommand>(
      "traffic",
      "Traffic of a run, simulated or captured: matrix, flows, bursts, period, data per step\n\n"
      "Example: rehearse traffic results/my-run -o results/traffic\n"
      "         rehearse traffic captures/ --link-rate 10Gbps\n"
      "         rehearse traffic scenarios/sweeps/tum.json scenarios/sweeps/tum-loss.json -o results/tum",
      add_options, run);
}

}  // namespace rehearse
