#include "tests/fuzz/targets.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "platforms/catalog.hpp"
#include "platforms/profile.hpp"
#include "sim/base/base.hpp"
#include "sim/engine/scenario.hpp"
#include "sim/plan/expression.hpp"
#include "sim/plan/sweep_request.hpp"
#include "workloads/model_zoo.hpp"

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
  for (std::size_t v = 0; v < num_vertices(workload.graph); ++v) {
    const Operator& op = workload.graph[v];
    require(op.flops >= Flops{} && op.flops < Flops{1e30}, "FLOPs are finite and not negative");
    require(op.bytes_read > Bytes{} && op.bytes_written > Bytes{}, "every kernel reads and writes");
    const bool is_matrix = op.kind == OperatorKind::kConvolution || op.kind == OperatorKind::kDense;
    for (const double size : {op.matrix.rows, op.matrix.columns, op.matrix.reduction})
      require(is_matrix ? size >= 1 : size == 0, "matrix-like kernels, and no others, have a matrix shape");
    for (const std::int64_t size : op.output_shape) require(size >= 1, "shapes are positive");
    for (const int variable : op.produces_gradients) ++produced.at(static_cast<std::size_t>(variable));
  }
  for (const int count : produced) require(count == 1, "every gradient or moving average is produced once");
  for (auto [edge, end] = edges(workload.graph); edge != end; ++edge)
    require(source(*edge, workload.graph) < target(*edge, workload.graph), "creation order is a topological order");
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
    for (const JsonReader& entry : reader.children("region_links")) (void)read_region_link(entry);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_scenario(std::string_view input) {
  static const std::string root = REHEARSE_SOURCE_DIR;
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

constexpr std::array kTargets{Target{"scenario", run_scenario},
                              Target{"profile", run_profile},
                              Target{"catalog", run_catalog},
                              Target{"parse_quantity", run_parse_quantity},
                              Target{"json", run_json},
                              Target{"csv", run_csv},
                              Target{"gunzip", run_gunzip},
                              Target{"model", run_model},
                              Target{"expression", run_expression},
                              Target{"sweep", run_sweep}};

}  // namespace

std::span<const Target> all_targets() { return kTargets; }

}  // namespace rehearse::fuzz
