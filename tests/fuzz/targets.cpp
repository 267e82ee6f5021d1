#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

#include "calibration/lifetime_study.hpp"
#include "calibration/measurements.hpp"
#include "calibration/study.hpp"
#include "calibration/trace_measurements.hpp"
#include "calibration/training_fit.hpp"
#include "calibration/training_log.hpp"
#include "platforms/catalog.hpp"
#include "platforms/fleet_trace.hpp"
#include "platforms/price.hpp"
#include "platforms/profile.hpp"
#include "platforms/topology.hpp"
#include "predictor/dataset.hpp"
#include "predictor/driple/graph_def_operators.hpp"
#include "predictor/driple_dataset.hpp"
#include "predictor/features.hpp"
#include "predictor/labels.hpp"
#include "predictor/measured_series.hpp"
#include "predictor/measurement_list.hpp"
#include "predictor/space.hpp"
#include "predictor/torch_file.hpp"
#include "sim/base/base.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/plan/expression.hpp"
#include "sim/plan/provision_request.hpp"
#include "sim/plan/recorded_model.hpp"
#include "sim/plan/remaining_time.hpp"
#include "sim/plan/replay_report.hpp"
#include "sim/plan/sweep_request.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/traffic/capture.hpp"
#include "sim/traffic/frame.hpp"
#include "sim/traffic/messages.hpp"
#include "sim/traffic/packet_table.hpp"
#include "sim/traffic/step_log.hpp"
#include "sim/traffic/traffic_statistics.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/importers/importer.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/traces/chakra_run.hpp"
#include "workloads/traces/pytorch_et.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse::fuzz {
namespace {

void require(bool condition, const char* law) {
  if (!condition) throw std::logic_error{law};
}

void require_one_line(std::string_view message) {
  require(!find_invalid_utf8(message) && message.find_first_of(std::string_view{"\n\0", 2}) == std::string_view::npos,
          "an error message is one line of UTF-8");
  require(message.size() < 2000, "an error message stays short");
}

template <class Q>
void parse_and_print(std::string_view input) {
  Q value;
  try {
    value = parse_quantity<Q>(input);
  } catch (const QuantityError& error) { return require_one_line(error.what()); }
  require(value >= Q{}, "quantities are not negative");
  require(parse_quantity<Q>(to_text(value)) == value, "text of a quantity parses back to it");
}

void run_parse_quantity(std::string_view input) {
  parse_and_print<Seconds>(input);
  parse_and_print<Bytes>(input);
  parse_and_print<BytesPerSecond>(input);
  parse_and_print<Flops>(input);
  parse_and_print<FlopsPerSecond>(input);
}

void run_json(std::string_view input) {
  try {
    Json value = parse_json(input, "input");
    const std::string text = to_json_text(value);
    require(to_json_text(parse_json(text, "output")) == text, "written JSON is read back the same");
    const JsonReader reader{value, "input"};
    if (reader.is_object()) {
      for (const auto& [key, member] : reader.items()) {
        require(json_pointer_find(value, member.pointer()) == &member.value(), "a reader's pointer leads to its value");
      }
      reader.expect(!reader.has("fail"), "fail", "no such key");
    }
    (void)reader.as<std::vector<int>>();
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    Json target = parse_json(R"({"a": {"b": [1, {"c": 2}]}})", "target");
    const auto equals = input.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view pointer = input.substr(0, equals);
    set_json_pointer(target, pointer, input.substr(equals + 1));
    require(json_pointer_find(target, pointer) != nullptr, "what was set is found");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_csv(std::string_view input) {
  try {
    const CsvTable table = parse_csv(std::string{input}, "input");
    CsvWriter writer{table.columns()};
    for (const CsvRow& row : table.rows()) {
      std::vector<CsvField> fields;
      for (const std::string& column : table.columns()) fields.emplace_back(row.text(column));
      writer.row(fields);
    }
    const CsvTable again = parse_csv(writer.text(), "output");
    require(again.columns() == table.columns(), "written columns are read back the same");
    require(again.row_count() == table.row_count(), "written rows are read back");
    for (std::size_t row = 0; row < table.row_count(); ++row) {
      for (std::size_t column = 0; column < table.columns().size(); ++column) {
        require(again.row(row).text_at(column) == table.row(row).text_at(column),
                "written fields are read back the same");
      }
    }
    (void)table.row(0).number(table.columns()[0]);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_gunzip(std::string_view input) {
  constexpr std::size_t kMost = 1 << 20;
  require(gunzip(gzip(input), input.size(), "own") == input, "what gzip packs, gunzip unpacks");
  try {
    (void)gunzip(input, kMost, "input");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void require_sound(const Workload& workload) {
  std::vector<int> produced(workload.variables.size());
  for (std::size_t v = 0; v < workload.graph.size(); ++v) {
    const Operator& op = workload.graph[v];
    require(op.flops >= Flops{} && op.flops < Flops{1e30}, "FLOPs are finite and not negative");
    require(op.bytes_read > Bytes{} && op.bytes_written > Bytes{}, "every kernel reads and writes");
    const bool is_matrix = op.matrix.reduction > 0;
    for (const double size : {op.matrix.rows, op.matrix.columns, op.matrix.reduction})
      require(is_matrix ? size >= 1 : size == 0, "a matrix shape is whole or not there");
    require(op.matrix.products >= 1, "there is at least one product");
    require(!is_matrix || op.flops > Flops{}, "matrix products have FLOPs");
    require(op.kind != OperatorKind::kDense || is_matrix, "dense layers are matrix products");
    for (const std::int64_t size : op.output_shape) require(size >= 1, "shapes are positive");
    for (const int variable : op.produces_gradients) ++produced.at(static_cast<std::size_t>(variable));
  }
  for (const int count : produced) require(count == 1, "every gradient or moving average is produced once");
  for (const OperatorEdge& edge : workload.graph.edges())
    require(edge.from < edge.to, "creation order is a topological order");
  require(workload.input_bytes > Bytes{} && workload.activation_bytes >= Bytes{}, "byte counts do not overflow");
  require(workload.parameter_bytes() > Bytes{} && workload.variable_bytes() >= workload.parameter_bytes(),
          "parameters are among the variables");
}

void run_model(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const ModelDescription model = read_model("model", JsonReader{json, "input"});
    for (const int batch : {1, 65536}) require_sound(build_workload(model, batch, Precision::kFp32, "input"));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_profile(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const Profile profile = read_profile(JsonReader{json, "input"});
    require(profile.network.nic_efficiency > 0 && profile.gpu.efficiency_for("any") > 0, "shares are above 0");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A catalog file, read as from a folder of the user's.
void run_catalog(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const JsonReader reader{json, "input"};
    for (const auto& [name, entry] : reader.child("accelerators").items()) (void)read_accelerator(name, entry);
    for (const auto& [name, entry] : reader.child("instances").items()) (void)read_instance(name, entry);
    if (reader.has("interconnects"))
      for (const auto& [name, entry] : reader.child("interconnects").items())
        (void)read_interconnect(entry, BytesPerSecond{1e9});
    for (const JsonReader& entry : reader.children("region_links")) (void)read_region_link(entry);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void require_sound_paths(const Topology& topology, int machines, int gpus) {
  for (int a = 0; a < machines; ++a) {
    for (int b = 0; b < machines; ++b) {
      for (const int gpu : {Endpoint::kHost, 0, gpus - 1}) {
        if (a == b && gpu <= 0) continue;
        const Path path = topology.path({a, gpu}, {b, 0});
        require(!path.links.empty() && path.latency >= Seconds{}, "messages cross links and take no negative time");
        require(std::set<int>(path.links.begin(), path.links.end()).size() == path.links.size(),
                "a path crosses no link twice");
        require(topology.path({b, 0}, {a, gpu}).links.size() == path.links.size(), "back is as far as forth");
        for (const int link : path.links)
          require(topology.links().at(static_cast<std::size_t>(link)).rate > BytesPerSecond{}, "links have a rate");
      }
    }
  }
}

void require_sound_rings(const Interconnect& interconnect, const std::vector<int>& gpus) {
  std::map<std::pair<int, int>, int> left;
  for (const NvlinkPair& pair : interconnect.nvlinks) left[{pair.a, pair.b}] = left[{pair.b, pair.a}] = pair.count;
  for (const std::vector<int>& ring : find_rings(interconnect, gpus)) {
    require(std::set<int>(ring.begin(), ring.end()) == std::set<int>(gpus.begin(), gpus.end()),
            "a ring visits all GPUs");
    require(ring.size() == gpus.size(), "a ring visits no GPU twice");
    for (std::size_t i = 0; i < ring.size(); ++i)
      require(--left[{ring[i], ring[(i + 1) % ring.size()]}] >= 0, "no NVLink is used twice in one direction");
  }
}

/// A "network" of twelve machines whose GPUs have an "interconnect".
void run_topology(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const JsonReader reader{json, "input"};
    const Fabric fabric = read_fabric(reader.child("network"));
    const Json written = to_json(fabric);
    require(read_fabric(JsonReader{written, "output"}) == fabric, "a written fabric is read back the same");
    const Interconnect interconnect = read_interconnect(reader.child("interconnect"), BytesPerSecond{1e9});
    constexpr int kMachines = 12, kGpus = 5;
    const TopologyMachine machine{
        .region = "r", .nic = BytesPerSecond{1e9}, .nics = 2, .gpus = kGpus, .interconnect = interconnect};
    for (const int gpus : {2, 3, 5, 8}) {
      std::vector<int> some;
      for (int gpu = 0; gpu < gpus; ++gpu) some.push_back(gpu);
      require_sound_rings(interconnect, some);
    }
    try {
      const Topology topology{
          std::vector<TopologyMachine>(kMachines, machine), fabric, {{"r", "r", Seconds{1e-6}, {}, ""}}, Seconds{1e-6}};
      require_sound_paths(topology, kMachines, kGpus);
    } catch (const std::invalid_argument& error) { require_one_line(error.what()); }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_scenario(std::string_view input) {
  static const std::string root = source_folder();
  static const Catalog catalog{
      {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  std::string effective;
  try {
    effective = read_scenario(parse_json(input, "input"), "input", catalog).effective;
  } catch (const InputError& error) { return require_one_line(error.what()); } catch (const NoResultError& error) {
    return require_one_line(error.what());
  }
  const Json json = parse_json(effective, "effective");
  require(read_scenario(json, "effective", catalog).effective == effective,
          "an effective scenario is its own effective scenario");
}

void run_expression(std::string_view input) {
  try {
    const Expression expression = Expression::parse(input);
    const auto look_up = [](const std::string& name) -> ExpressionValue {
      if (name.size() % 4 == 1) return 1.5;
      if (name.size() % 4 == 2) return std::string{"text"};
      if (name.size() % 4 == 3) return true;
      return {};
    };
    const ExpressionValue value = expression.evaluate(look_up);
    require(expression.evaluate(look_up) == value, "an expression has one value");
    require(Expression::parse("(" + expression.text() + ")").evaluate(look_up) == value,
            "parentheses around all of it change nothing");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A table that `read` makes of a file of measurements.
template <class Read>
void read_measurements(Read read) {
  try {
    const CsvTable table = read();
    require(table.row_count() >= 1, "a table has a row");
    for (const CsvRow& row : table.rows()) {
      require(row.line() >= 2, "rows are below the column names");
      for (const std::string& column : table.columns())
        if (column == "time_s" && !row.text(column).empty()) require(row.number(column) >= 0, "times are not negative");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_nccl_tests(std::string_view input) {
  read_measurements([&] { return parse_nccl_tests(input, "input"); });
}

void run_iperf3(std::string_view input) {
  read_measurements([&] { return parse_iperf3(input, "input"); });
}

void run_kernel_table(std::string_view input) {
  read_measurements([&] { return parse_kernel_table(std::string{input}, "input"); });
}

/// What a trace says of dependencies, and their replay.
template <class Read>
void replay_recording(Read read) {
  try {
    RecordedRun run = read();
    for (const Dependency& dependency : run.dependencies)
      require(dependency.earlier < dependency.later, "nothing waits for what comes later");
    for (const RecordedOperation& operation : run.operations) require(operation.duration >= 0, "everything takes time");
    require(unexplained_time(run).share() <= 1, "no more is unexplained than there is");
    const RecordedJob job = recorded_job({std::move(run)});
    const ReplayReport report = replay_report(job, replay(job));
    require(report.whole.replayed >= Seconds{}, "something was replayed");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// As a whole; and some of its steps, from a temporary file, as measurements and as a model.
void run_kineto(std::string_view input) {
  replay_recording([&] { return recorded_run(parse_kineto_trace(input, "input")); });
  try {
    const RecordedJob job =
        recorded_job({recorded_run(parse_kineto_trace(input, "input", {.steps = {}, .most_events = 8}))});
    const CsvTable measured = measurements_of(job, "input");
    for (const CsvRow& row : measured.rows()) require(row.number("time_s") >= 0, "measurements are not negative");
    const RecordedModel model = recorded_model(job, {.batch = 8, .variables = {}});
    for (const TimedLayer& layer : model.layers.layers)
      require(layer.forward >= Seconds{} && layer.backward >= Seconds{}, "layers take time");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_chakra_json(std::string_view input) {
  replay_recording([&] { return recorded_run(parse_chakra_json(input, "input")); });
}

void run_pytorch_et(std::string_view input) {
  try {
    const PytorchTrace trace = parse_pytorch_trace(input, "input");
    KinetoTrace kineto{.file_name = "kineto", .names = trace.names, .threads = {"1"}};
    for (const PytorchOperator& found : trace.operators) {
      require(found.inputs.empty() || found.inputs.front().bytes() >= 0, "a tensor has a size");
      kineto.events.push_back({.duration = 1, .name = found.name, .lane = 0});
    }
    for (const std::int32_t found : linked_operators(kineto, trace))
      require(found < static_cast<std::int32_t>(trace.operators.size()), "events are linked to operators");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// What is read is the same after it was written.
void run_chakra_et(std::string_view input) {
  (void)begins_as_chakra_et(input);
  replay_recording([&] {
    const ChakraTrace trace = parse_chakra_et(input, "input");
    const std::string bytes = chakra_et_bytes(trace);
    require(chakra_et_bytes(parse_chakra_et(bytes, "input")) == bytes, "what is written is read back");
    const RecordedRun run = recorded_run(trace);
    const RecordedRun again = recorded_run(chakra_trace(run));
    require(again.dependencies == run.dependencies && again.collectives == run.collectives,
            "a recording is the same after it was a trace of Chakra");
    return run;
  });
}

/// Options of a sweep, and a sweep file.
void run_sweep(std::string_view input) {
  try {
    for (const std::string& value : read_sweep_values(input)) (void)parse_json(value, "value");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const SweepAxis axis = read_list_options({std::string{input}});
    require(!axis.choices.at(0).empty(), "a choice sets something");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const SweepRequest request = read_sweep_request(parse_json(input, "input"), "input");
    require(count_combinations(request) >= 1 && count_combinations(request) <= kMaxCombinations,
            "the number of combinations has a limit");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Events come in order of date, and a slot's machine runs before it goes.
template <class Events>
void require_sound_events(Events& events, int most) {
  std::vector<bool> runs;
  for (int slot = 0; slot < events.slots(); ++slot) runs.push_back(events.runs_at_start(slot));
  Seconds last{};
  for (int i = 0; i < most; ++i) {
    const std::optional<FleetEvent> event = events.next();
    if (!event) return;
    require(event->at >= last && event->at < Seconds{1e300}, "dates do not fall");
    last = event->at;
    const auto slot = static_cast<std::size_t>(event->slot);
    require(slot < runs.size(), "a slot is one of the fleet's");
    if (event->kind == FleetEvent::Kind::kRequested) continue;
    require(runs[slot] == (event->kind != FleetEvent::Kind::kRunning),
            "only who runs can go, only who is not there come");
    if (event->kind != FleetEvent::Kind::kNotice) runs[slot] = event->kind == FleetEvent::Kind::kRunning;
  }
}

void run_spot_pool(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const SpotPool pool = read_spot_pool("pool", JsonReader{json, "input"});
    double last = 1;
    for (double age = 0; age < 2e6; age += 7e3) {
      const double survival = pool.lifetime.survival(Seconds{age});
      require(survival >= -1e-9 && survival <= last + 1e-9, "survival is a share and does not rise");
      last = survival;
    }
    Fleet fleet{{{.slots = 3, .pool = pool, .replaced_by = 0}}, 1e4, 1};
    require_sound_events(fleet, 60);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_fleet_trace(std::string_view input) {
  try {
    const FleetTrace trace = read_fleet_trace(parse_csv(std::string{input}, "input"));
    for (const int slots : {1, 3}) {
      FleetReplay replay{trace, slots, trace.end * 0.25, Seconds{30}};
      require_sound_events(replay, 1'000'000);
    }
    const FleetTrace rest = cut(trace, trace.end * 0.5);
    require(rest.events.size() <= trace.events.size(), "a part has no more events than the whole");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Options of provision, and a provision file.
void run_provision(std::string_view input) {
  try {
    const auto [name, machines] = read_machine_number("--quota", input);
    require(!name.empty() && machines >= 0 && machines <= kMostQuota, "a number of machines has limits");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const ProvisionRequest request = read_provision_request(parse_json(input, "input"), "input");
    for (const ProvisionCandidate& candidate : request.candidates) {
      require(candidate.existing >= 0 && candidate.existing <= candidate.quota, "what exists is within the quota");
      require(parse_json(candidate.group, "group").is_object(), "a candidate's group is an object");
    }
    require(request.confidence >= 0 && request.confidence <= 1, "a probability is from 0 to 1");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A table of training logs; and a pattern, in the first line, with the text to search.
void run_training_log(std::string_view input) {
  try {
    for (const WorkerLog& log : parse_log_table(std::string{input}, "input"))
      require(log.gpus >= 1 && log.batch >= 1 && !log.entries.empty(), "a worker has a batch and entries");
  } catch (const InputError& error) { require_one_line(error.what()); }
  try {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const LinePattern pattern{input.substr(0, end), "pattern"};
    WorkerLog log;
    parse_log_text(input.substr(end), "input", pattern, 1, log);
    for (const LogEntry& entry : log.entries)
      require(entry.step >= 0 && (!entry.seconds_per_batch || *entry.seconds_per_batch > 0),
              "steps are not negative and last some time");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A space file beside the shipped ones, and some draws from it.
void run_space(std::string_view input) {
  try {
    const Space space = read_space(parse_json(input, "input"), source_folder() + "/scenarios/spaces/input.json");
    require(!space.settings.empty() && space.settings_per_graph >= 1, "a space has settings");
    for (std::uint64_t i = 0; i < 5; ++i) {
      const DrawnWorkload drawn = draw_workload(space, 1, i);
      require(drawn.batch >= 1 && drawn.batch <= 65536, "a batch has limits");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A study of each kind beside a table and a scenario.
void run_study(std::string_view input) {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", "workers,gpu,speed,age,censored\n1,K80,10,3600,0\n4,P100,32,7200,1\n");
  folder.write("scenario.json", read_file(source_folder() + "/scenarios/cm-dare.json", kMiB));
  const std::filesystem::path file = folder.write("study.json", std::string{input});
  try {
    const std::string kind = study_kind(load_json_file(file));
    if (kind == "lifetimes") {
      for (const LifetimeSeries& series : load_lifetime_study(file).series)
        require(!series.name.empty(), "a series has a name");
    } else if (kind == "training_logs") {
      (void)load_training_study(file);
    } else {
      for (const Study& study : load_studies(file)) require(!study.metric.empty(), "a study has a metric");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Past revocations, as `remaining --history` takes them.
void run_remaining_history(std::string_view input) {
  const test::TemporaryFolder folder;
  try {
    const std::vector<RemainingCase> cases = load_remaining_cases(folder.write("history.csv", std::string{input}));
    for (const RemainingCase& one : cases)
      require(one.steps_left > 0 && one.measured > Seconds{}, "something is left, and takes some time");
    const RemainingFit fit = fit_remaining_time(cases, 3, 4);
    require(fit.speed_factor > 0 && fit.until_replaced >= Seconds{}, "fitted values are positive");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A file of spot prices: of series, or with a table beside it.
void run_prices(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const PriceHistory history = read_price_history(JsonReader{json, "input"});
    for (const auto& [key, series] : history.series)
      require(series.usd_per_hour(0) >= 0 && series.usd(1e9, 2e9) >= 0, "prices are not negative");
  } catch (const InputError& error) { require_one_line(error.what()); }
  const test::TemporaryFolder folder;
  folder.write("prices.csv", std::string{input});
  const Json json{{"format", 1}, {"source", "test"}, {"file", "prices.csv"}};
  try {
    (void)read_price_history(JsonReader{json, (folder / "prices.json").string()});
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// What an earlier run's list of files says may be anything: outside of the folder nothing changes, and inside the run
/// that is written is whole.
void run_output_folder(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::filesystem::path results = folder.path / "results";
  std::filesystem::create_directories(results / "mine");
  folder.write("precious.txt", "mine");
  folder.write("results/.rehearse-files", std::string{input});
  try {
    OutputFolder output{results};
    output.write("summary.json", "new");
    output.write("parts/one.csv", "new");
    output.commit();
    require_complete(results);
    require(read_file(results / "summary.json", kMiB) == "new" && read_file(results / "parts/one.csv", kMiB) == "new",
            "a run's files are there");
  } catch (const InputError& error) { require_one_line(error.what()); }
  require(read_file(folder / "precious.txt", kMiB) == "mine" && folder.entry_count() == 2,
          "outside of the folder nothing changes");
}

/// The results of a sweep.
void run_result_store(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("results.sqlite", std::string{input});
  const RunKey known = run_key("scenario", "program"), other = run_key("other", "program");
  try {
    (void)ResultStore::open_to_read(file).find(known);
    require(read_file(file, 64 * kMiB) == input, "who only reads changes nothing");
    ResultStore store = ResultStore::open(file);
    (void)store.find(known);
    store.put(other, {.name = "a", .parameters = "{}", .summary = "{}", .error = {}, .wall_s = 1});
    const auto found = store.find(other);
    require(found && found->summary == "{}" && found->name == "a", "what was put is found");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A dataset file.
void run_dataset(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("data.sqlite", std::string{input});
  try {
    const Dataset data = load_dataset(file);
    for (const Sample& sample : data.samples) {
      require(static_cast<std::size_t>(sample.graph) < data.graphs.size() &&
                  static_cast<std::size_t>(sample.setting) < data.settings.size(),
              "a sample has a graph and a setting");
      require(sample.labels.size() == data.labels.size(), "a sample has all labels");
    }
    for (const DatasetGraph& graph : data.graphs)
      for (const GraphEdge& edge : graph.edges)
        require(static_cast<std::size_t>(std::max(edge.from, edge.to)) < data.nodes(graph), "edges join nodes");
    const FeatureReader reader{data};
    for (const Sample& sample : data.samples)
      require(reader.read(data, sample).totals.size() == reader.total_inputs(), "features have their size");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_torch_file(std::string_view input) {
  try {
    const TorchValue value = parse_torch_file(input, "input");
    const std::string text = to_torch_file(value);
    require(to_torch_file(parse_torch_file(text, "output")) == text, "a written torch file is read back the same");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Our own features can be made of it, in a setting of zeros.
void require_sound(const DatasetGraph& graph, const GraphDefGaps& gaps) {
  Dataset data{.node_features = node_feature_names(), .descriptors = descriptor_names(), .labels = label_names()};
  const std::size_t nodes = data.nodes(graph);
  require(nodes == gaps.kernels + gaps.updates && gaps.updates <= gaps.variables, "kernels and updates are the nodes");
  for (const GraphEdge& edge : graph.edges)
    require(static_cast<std::size_t>(std::max(edge.from, edge.to)) < nodes, "edges join nodes");
  data.settings.push_back({.name = "", .descriptor = std::vector<double>(data.descriptors.size())});
  data.graphs.push_back(graph);
  const FeatureReader reader{data};
  require(reader.read(data, {}).totals.size() == reader.total_inputs(), "features have their size");
}

void run_graph_def(std::string_view input) {
  for (const bool is_text : {true, false}) {
    try {
      const std::vector<GraphDefNode> nodes = parse_graph_def(input, is_text, "input");
      require(!nodes.empty(), "a GraphDef has a node");
      GraphDefGaps gaps;
      require_sound(operators_of(nodes, 3, "input", gaps), gaps);
    } catch (const InputError& error) { require_one_line(error.what()); }
  }
}

/// A file of another tool, told by its content, and the model that it becomes.
void run_import(std::string_view input) {
  try {
    const ImportedModel imported = import_model(Source{"input", std::string{input}});
    for (const std::string& remark : imported.remarks) require_one_line(remark);
    const ModelDescription model = read_model("model", JsonReader{imported.model_file, "imported"});
    const auto* timed = std::get_if<TimedLayers>(&model.structure);
    const Workload workload = build_workload(model, timed != nullptr ? timed->batch : 3, Precision::kFp32, "imported");
    if (timed == nullptr) require_sound(workload);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_measurement_list(std::string_view input) {
  try {
    const MeasurementList list = read_measurement_list(parse_json(input, "input"), "input");
    require(!list.runs.empty() || !list.jobs.empty(), "a list has entries");
    for (const MeasuredRun& profile : list.runs) {
      require(profile.series || profile.step_time, "a profile has a label");
      for (const std::string& text : profile.where.overrides)
        require(text.starts_with('/') && text.find('=') != std::string::npos, "overrides are pointer=value");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_measured_series(std::string_view input) {
  try {
    const MeasuredSeries series = read_measured_series(parse_csv(std::string{input}, "input"));
    require(series.period > Seconds{}, "a period is above 0");
    for (const double label : labels_of(series, std::nullopt)) require(!(label < 0), "labels are not negative");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_driple_dataset(std::string_view input) {
  try {
    const DripleDataset dataset = parse_driple_dataset(input, "input");
    for (const auto* part : {&dataset.train, &dataset.val, &dataset.test})
      for (const DripleSample& sample : *part)
        for (const auto& [from, to] : sample.edges)
          require(from < to && to < sample.features.size(), "edges join nodes of their graph");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Packets of any source add up, and their statistics can be made.
void require_traffic(PacketSource& source) {
  constexpr std::int64_t kMost = 2000;
  TrafficCounter counter{1'600'000'000'000'000'000, 1'000'000};
  Packet packet;
  std::int64_t bytes = 0, packets = 0;
  while (packets < kMost && source.next(packet)) {
    require(packet.payload_bytes >= 0 && packet.wire_bytes >= 0, "sizes are not negative");
    if (packet.time_ns / kNanosecondsPerSecond / 1000 == 1'600'000) counter.add(packet);  // an interval of 1000 s
    if (packet.time_ns / kNanosecondsPerSecond / 1000 == 1'600'000) bytes += packet.wire_bytes;
    ++packets;
  }
  RunTraffic run{.traffic = counter.finish()};
  require(run.traffic.total.wire_bytes == bytes, "all bytes count");
  std::int64_t sent = run.traffic.other.wire_bytes;
  for (const TrafficHost& host : run.traffic.hosts) sent += host.sent.wire_bytes;
  require(sent == bytes, "what counts was sent by somebody");
  if (packets > 0 && run.traffic.bins.end() < 5000) (void)traffic_statistics(run, {});
}

void run_capture(std::string_view input) {
  for (const LinkHeader header :
       {LinkHeader::kEthernet, LinkHeader::kCooked, LinkHeader::kCooked2, LinkHeader::kNone}) {
    Packet packet{.wire_bytes = 1514};
    read_frame(header, {reinterpret_cast<const std::uint8_t*>(input.data()), input.size()}, packet);
    require(packet.payload_bytes >= 0, "a payload is not negative");
  }
  try {
    require_traffic(*open_capture_text(input, "input"));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_packet_table(std::string_view input) {
  try {
    require_traffic(*open_packet_table_text(input, "input"));
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_messages(std::string_view input) {
  constexpr std::int64_t kMostPackets = 100'000;
  try {
    const std::vector<Message> messages = parse_messages(std::string{input}, "input", {"a", "b", "c"});
    if (count_packets(messages) > kMostPackets) return;
    std::int64_t payload = 0;
    for_each_packet(connections_of(messages), [&](const Packet& packet) { payload += packet.payload_bytes; });
    for (const Message& message : messages) payload -= message.payload_bytes;
    require(payload == 0, "packets have the messages' bytes");
  } catch (const InputError& error) { require_one_line(error.what()); } catch (const NoResultError& error) {
    require_one_line(error.what());
  }
}

void run_step_log(std::string_view input) {
  try {
    const StepLog log = parse_step_log(std::string{input}, "input", -7200);
    require(!(log.step_time_s() < 0), "steps take time");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

constexpr std::array kTargets{Target{"space", run_space},
                              Target{"dataset", run_dataset},
                              Target{"scenario", run_scenario},
                              Target{"profile", run_profile},
                              Target{"catalog", run_catalog},
                              Target{"parse_quantity", run_parse_quantity},
                              Target{"json", run_json},
                              Target{"csv", run_csv},
                              Target{"gunzip", run_gunzip},
                              Target{"model", run_model},
                              Target{"expression", run_expression},
                              Target{"provision", run_provision},
                              Target{"sweep", run_sweep},
                              Target{"topology", run_topology},
                              Target{"nccl_tests", run_nccl_tests},
                              Target{"iperf3", run_iperf3},
                              Target{"kernel_table", run_kernel_table},
                              Target{"kineto", run_kineto},
                              Target{"chakra_json", run_chakra_json},
                              Target{"chakra_et", run_chakra_et},
                              Target{"pytorch_et", run_pytorch_et},
                              Target{"training_log", run_training_log},
                              Target{"spot_pool", run_spot_pool},
                              Target{"fleet_trace", run_fleet_trace},
                              Target{"torch_file", run_torch_file},
                              Target{"driple_dataset", run_driple_dataset},
                              Target{"graph_def", run_graph_def},
                              Target{"import", run_import},
                              Target{"measurement_list", run_measurement_list},
                              Target{"measured_series", run_measured_series},
                              Target{"study", run_study},
                              Target{"remaining_history", run_remaining_history},
                              Target{"prices", run_prices},
                              Target{"output_folder", run_output_folder},
                              Target{"result_store", run_result_store},
                              Target{"capture", run_capture},
                              Target{"packet_table", run_packet_table},
                              Target{"messages", run_messages},
                              Target{"step_log", run_step_log}};

}  // namespace

std::span<const Target> all_targets() { return kTargets; }

}  // namespace rehearse::fuzz
