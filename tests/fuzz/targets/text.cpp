#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/base.hpp"
#include "sim/base/expression.hpp"
#include "sim/base/unpacked_file.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace rehearse::fuzz {
namespace {

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

/// What is in a packed file or an archive, all at once and byte by byte.
void run_unpacked(std::string_view input) {
  constexpr std::size_t kMost = 1 << 20;
  try {
    const std::string content = unpacked_text(input, kMost, "input");
    UnpackedFile file{std::string{input}, "input"};
    std::string again;
    char byte = 0;
    while (file.read(&byte, 1) == 1) again += byte;
    require(again == content, "the size of what is read at once does not matter");
  } catch (const InputError& error) { require_one_line(error.what()); }
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

}  // namespace

std::span<const Target> targets_of_text() {
  static constexpr std::array kTargets{Target{"parse_quantity", run_parse_quantity},
                                       Target{"json", run_json},
                                       Target{"csv", run_csv},
                                       Target{"gunzip", run_gunzip},
                                       Target{"unpacked", run_unpacked},
                                       Target{"expression", run_expression}};
  return kTargets;
}

}  // namespace rehearse::fuzz
