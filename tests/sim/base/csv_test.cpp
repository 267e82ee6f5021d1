#include "sim/base/csv.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/random.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::csv_test {
namespace {

using test::error_of;

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_csv(text, "t.csv"); });
}

}  // namespace

TEST_CASE("fields are read by column name, numbers with their sign and exponent") {
  const CsvTable table = parse_csv("gpu,time_s,count\nK80,1.5e-3,4\nV100, -2 ,0\n", "t.csv");
  REQUIRE(table.row_count() == 2);
  CHECK(table.columns() == std::vector<std::string>{"gpu", "time_s", "count"});
  CHECK(table.row(0).text("gpu") == "K80");
  CHECK(table.row(0).number("time_s") == 1.5e-3);
  CHECK(table.row(1).number("time_s") == -2);
  CHECK(table.row(0).integer("count") == 4);
  CHECK(table.row(1).line() == 3);
}

TEST_CASE("quotes protect commas, quotes and line ends; lines count as in the file") {
  const CsvTable table =
      parse_csv("\xEF\xBB\xBF\"a,1\",b\r\n\"say \"\"hi\"\"\",\"two\r\nlines\"\r\n\r\n\"\",last", "t.csv");
  REQUIRE(table.row_count() == 2);
  CHECK(table.columns()[0] == "a,1");
  CHECK(table.row(0).text("a,1") == "say \"hi\"");
  CHECK(table.row(0).text("b") == "two\r\nlines");
  CHECK(table.row(1).text("a,1") == "");
  CHECK(table.row(1).text("b") == "last");
  CHECK(table.row(1).line() == 5);
}

TEST_CASE("a malformed table is refused with the place") {
  CHECK(parse_error("") == "t.csv: expected a line of column names; found an empty file");
  CHECK(parse_error("\n\r\n") == "t.csv: expected a line of column names; found a file of white space alone");
  CHECK(parse_error("a,b\n") == "t.csv: expected at least one row below the column names; found none");
  CHECK(parse_error("a,b\n1,2\n3\n") == "t.csv:3: expected 2 fields as in the header; found 1");
  CHECK(parse_error("a\n1,2\n") == "t.csv:2: expected 1 field as in the header; found 2");
  CHECK(parse_error("a,b,a\n1,2,3\n") == R"(t.csv:1: expected distinct columns; found "a" twice)");
  CHECK(parse_error("a,,b\n1,2,3\n") == "t.csv:1: expected a name for every column; found an empty one");
  CHECK(parse_error("a\n\n\"open\n\n") == "t.csv:3: expected a closing quote for the field that starts here");
  CHECK(parse_error("a\nx\"y\n") == "t.csv:2: expected no quote inside a field that does not start with one");
  CHECK(parse_error("a\n\"x\"y\n") == "t.csv:2: expected a comma or the end of the line after a closing quote");
  CHECK(parse_error("a\ncaf\xe9\n") == R"(t.csv:2: expected UTF-8 text; found byte "\xe9")");
  CHECK(parse_error(std::string{"a\n\0\n", 4}) == R"(t.csv:2: expected UTF-8 text; found byte "\x00")");
}

TEST_CASE("a wrong field is refused with line and column") {
  const CsvTable table = parse_csv("x,steps_per_s\nabc,\nnan,1e999\n1.5,0x10\n", "t.csv");
  CHECK(error_of([&] { table.row(0).number("x"); }) == R"(t.csv:2: column "x": expected a number; found "abc")");
  CHECK(error_of([&] { table.row(0).number("steps_per_s"); }) ==
        R"(t.csv:2: column "steps_per_s": expected a number; found "")");
  CHECK(error_of([&] { table.row(1).number("x"); }) == R"(t.csv:3: column "x": expected a number; found "nan")");
  CHECK(error_of([&] { table.row(1).number("steps_per_s"); }) ==
        R"(t.csv:3: column "steps_per_s": expected a number; found "1e999")");
  CHECK(error_of([&] { table.row(2).number("steps_per_s"); }) ==
        R"(t.csv:4: column "steps_per_s": expected a number; found "0x10")");
  CHECK(error_of([&] { table.row(2).integer("x"); }) == R"(t.csv:4: column "x": expected a whole number; found "1.5")");
  CHECK(error_of([&] { table.row(0).text("step_per_s"); }) ==
        R"(t.csv: expected a column "step_per_s"; found "x" and "steps_per_s")");
}

TEST_CASE("files are read plain and compressed") {
  const std::filesystem::path folder = std::filesystem::path{build_folder()} / "csv_test";
  std::filesystem::create_directories(folder);
  write_file(folder / "t.csv", "a\n1\n");
  write_file(folder / "t.csv.gz", gzip("a\n2\n"));
  CHECK(load_csv_file(folder / "t.csv").row(0).number("a") == 1);
  CHECK(load_csv_file(folder / "t.csv.gz").row(0).number("a") == 2);
  write_file(folder / "bad.csv.gz", "a\n2\n");
  CHECK(error_of([&] { load_csv_file(folder / "bad.csv.gz"); }) ==
        (folder / "bad.csv.gz").string() + ": cannot decompress: it is damaged or not in gzip format");
  CHECK(error_of([&] { load_csv_file(folder / "none.csv"); }) ==
        (folder / "none.csv").string() + ": cannot read: No such file or directory");
  std::filesystem::remove_all(folder);
}

TEST_CASE("ten megabytes of garbage are refused with one short line") {
  Rng rng{1, "garbage"};
  std::string garbage(10'000'000, '\0');
  for (char& byte : garbage) byte = static_cast<char>(rng.bits());
  CHECK(parse_error(garbage).size() < 200);
  CHECK(parse_error(std::string(10'000'000, '"')).size() < 200);
  CHECK(parse_error(std::string(10'000'000, ',')) == "t.csv:1: expected a name for every column; found an empty one");
  CHECK(parse_error(std::string(10'000'000, 'a')) ==
        "t.csv: expected at least one row below the column names; found none");
}

TEST_CASE("a number is written as the shortest text that reads back the same, and as nothing if it is not finite") {
  CsvWriter csv{{"name", "value", "count"}};
  csv.row({"plain", 0.1, 3});
  csv.row({"a,b", std::nan(""), -1});
  csv.row({"say \"hi\"", 1e300, 0});
  CHECK(csv.text() == "name,value,count\nplain,0.1,3\n\"a,b\",,-1\n\"say \"\"hi\"\"\",1e+300,0\n");
  CHECK_THROWS_AS(csv.row({"too few"}), std::logic_error);
}

TEST_CASE("text that a spreadsheet would run stands behind an apostrophe; numbers stay as they are") {
  CsvWriter csv{{"name", "x"}};
  csv.row({"=cmd|' /C calc'!A0", -1.5});
  csv.row({"@SUM(A1)", "-2e-3"});
  csv.row({"'=1", "+5ms"});
  csv.row({"'tis", "a=b"});
  CHECK(csv.text() == "name,x\n'=cmd|' /C calc'!A0,-1.5\n'@SUM(A1),-2e-3\n''=1,'+5ms\n'tis,a=b\n");
  const CsvTable table = parse_csv(csv.text(), "t.csv");
  CHECK(table.row(0).text("name") == "=cmd|' /C calc'!A0");
  CHECK(table.row(0).number("x") == -1.5);
  CHECK(table.row(2).text("name") == "'=1");
  CHECK(table.row(3).text("name") == "'tis");
}

TEST_CASE("control characters and those that deceive a reader are refused, and never written") {
  CHECK(parse_error("a,b\n1,\x1b[31m\n") ==
        "t.csv:2: expected text without control characters and invisible ones; found \"\\x1b[31m\"");
  CHECK(parse_error("a,b\n1,x\xe2\x80\xaey\n") ==
        "t.csv:2: expected text without control characters and invisible ones; found \"\\u202ey\"");
  CsvWriter csv{{"name"}};
  csv.row({"\x1b[31m"});
  CHECK(csv.text() == "name\n\\x1b[31m\n");
}

TEST_CASE("random tables are read back as they were written") {
  Rng rng{2, "tables"};
  constexpr std::string_view kLetters = "a,\"\n x=-'";
  for (int repetition = 0; repetition < 500; ++repetition) {
    const std::size_t columns = 1 + rng.below(3);
    std::vector<std::string> names, written;
    for (std::size_t i = 0; i < columns; ++i) names.push_back("c" + std::to_string(i));
    CsvWriter csv{names};
    for (int row = 0; row < 3; ++row) {
      std::vector<CsvField> fields;
      for (std::size_t i = 0; i < columns; ++i) {
        std::string field;
        for (auto n = rng.below(5); n > 0; --n) field += kLetters[rng.below(kLetters.size())];
        written.push_back(field);
        fields.emplace_back(field);
      }
      csv.row(fields);
    }
    CAPTURE(csv.text());
    const CsvTable table = parse_csv(csv.text(), "t.csv");
    REQUIRE(table.row_count() == 3);
    for (std::size_t i = 0; i < written.size(); ++i) {
      CHECK(table.row(i / columns).text_at(i % columns) == written[i]);
    }
  }
}

TEST_CASE("a row can be put on a line of its own choice, below those before it") {
  CsvWriter csv{{"a", "b"}};
  csv.skip_to_line(4);
  csv.row({"two\nlines", 1});
  csv.skip_to_line(3);  // is above: nothing to skip
  csv.row({"x", 2});
  csv.skip_to_line(9);
  csv.row({"y", 3});
  const CsvTable table = parse_csv(csv.text(), "t.csv");
  REQUIRE(table.row_count() == 3);
  CHECK(table.row(0).line() == 4);
  CHECK(table.row(1).line() == 6);
  CHECK(table.row(2).line() == 9);
}

}  // namespace rehearse::csv_test
