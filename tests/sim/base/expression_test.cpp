// Conditions and formulas: values by hand, refusals by their whole line.

#include "sim/base/expression.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "sim/base/errors.hpp"
#include "tests/support/error_of.hpp"

namespace rehearse {

namespace {

ExpressionValue look_up(const std::string& name) {
  if (name == "x") return 6.0;
  if (name == "steps_per_s") return 12.5;
  if (name == "gpu") return std::string{"K80"};
  if (name == "/cluster/groups/0/count") return 2.0;
  if (name == "/cluster/groups/1/count") return 4.0;
  if (name == "yes") return true;
  return {};  // "none"
}

bool holds(const std::string& text) { return Expression::parse(text).holds(look_up); }
double number(const std::string& text) { return Expression::parse(text).number(look_up); }

std::string error_in(const std::string& text) {
  return test::error_of([&] { (void)Expression::parse(text).evaluate(look_up); });
}

}  // namespace

TEST_CASE("arithmetic follows the usual precedence") {
  CHECK(number("1 + 2 * 3") == 7);
  CHECK(number("(1 + 2) * 3") == 9);
  CHECK(number("7 - 2 - 1") == 4);
  CHECK(number("12 / 2 / 3") == 2);
  CHECK(number("-x + 1") == -5);
  CHECK(number("2*-3") == -6);
  CHECK(number("- - 3") == 3);
  CHECK(number("1.5e3") == 1500);
  CHECK(number(".5") == 0.5);
  CHECK(number("steps_per_s / x") == 12.5 / 6);
}

TEST_CASE("comparisons bind closer than not, that closer than and, that closer than or") {
  CHECK(holds("x > 5"));
  CHECK(holds("x = 6"));
  CHECK(holds("x == 6 and steps_per_s >= 12.5"));
  CHECK(holds("x < 5 or x > 5 and x != 7"));
  CHECK_FALSE(holds("(x < 5 or x > 5) and x == 7"));
  CHECK(holds("not x < 5"));
  CHECK(holds("not (x < 5 and yes) and yes"));
  CHECK(holds("gpu == 'K80'"));
  CHECK(holds("gpu != \"P100\" and gpu < 'L'"));
  CHECK(holds("yes == true"));
  CHECK(holds("1 + 1 == 2"));
}

TEST_CASE("a slash is a pointer where a value is expected, and divides elsewhere") {
  CHECK(holds("/cluster/groups/0/count <= /cluster/groups/1/count"));
  CHECK(holds("/cluster/groups/0/count<=/cluster/groups/1/count"));
  CHECK(number("/cluster/groups/1/count / /cluster/groups/0/count") == 2);
  CHECK(number("x/2") == 3);
  CHECK(number("(/cluster/groups/1/count)/2") == 2);
  CHECK(Expression::parse("/a/b-c < x or x > /d and y").names() == std::vector<std::string>{"/a/b-c", "x", "/d", "y"});
}

TEST_CASE("without value there is no comparison, unless the other side decides") {
  CHECK_FALSE(holds("none > 1"));
  CHECK_FALSE(holds("not none > 1"));
  CHECK_FALSE(holds("none == none"));
  CHECK(holds("none > 1 or x == 6"));
  CHECK_FALSE(holds("none > 1 and x == 6"));
  CHECK(holds("not (none > 1 and x == 5)"));
  CHECK(std::isnan(number("none + 1")));
  CHECK(std::isnan(number("1 / 0")));
  CHECK(std::isnan(number("1e308 * 10")));
  CHECK(std::isnan(number("-none")));
}

TEST_CASE("a condition chooses between two values, and binds last") {
  CHECK(number("x == 6 ? 1 : 2") == 1);
  CHECK(number("x < 6 or gpu == 'V100' ? 1 : 2 + 3") == 5);
  CHECK(number("x > 7 ? 1 : x > 5 ? 2 : 3") == 2);
  CHECK(number("x / (gpu == 'K80' ? 2 : 3) + 1") == 4);
  CHECK(holds("(yes ? gpu : 'none') == 'K80'"));
  CHECK(std::isnan(number("none > 1 ? 1 : 2")));
  CHECK(number("yes ? x : x / 0") == 6);
  CHECK(error_in("x ? 1 : 2").find("expected a condition before \"?\"; found a number") != std::string::npos);
  CHECK(error_in("yes ? 1").find("expected \":\" and what it is otherwise; found the end") != std::string::npos);
  CHECK(error_in("yes : 1").find("expected an operator or the end") != std::string::npos);
  CHECK(error_in(std::string(200, '(') + "yes ? 1 : 2").find("at most 100 nested levels") != std::string::npos);
}

TEST_CASE("what makes no sense is refused with its place") {
  CHECK(error_in("") == "\"\": character 1: expected a number, a name, a pointer or \"(\"; found the end");
  CHECK(error_in("x >") == "\"x >\": character 4: expected a number, a name, a pointer or \"(\"; found the end");
  CHECK(error_in("x > 1 y") == "\"x > 1 y\": character 7: expected an operator or the end; found \"y\"");
  CHECK(error_in("(x > 1") == "\"(x > 1\": character 7: expected \")\"; found the end");
  CHECK(error_in("1 < x < 3") == "\"1 < x < 3\": character 7: expected \"and\" between two comparisons; found \"< 3\"");
  CHECK(error_in("x & 1") == "\"x & 1\": character 3: expected an operator; found \"& 1\"");
  CHECK(error_in("5x > 1") ==
        "\"5x > 1\": character 1: expected a number, or a name that starts with a letter; found \"5x > 1\"");
  CHECK(error_in("1e999 > x").find("character 1: expected a number") != std::string::npos);
  CHECK(error_in("gpu == 'K80").find("character 8: expected a text with a quote at its end") != std::string::npos);
  CHECK(error_in("gpu > 1") == "\"gpu > 1\": expected two numbers or two texts to compare; found a text and a number");
  CHECK(error_in("gpu == 1") == "\"gpu == 1\": expected two values of one kind to compare; found a text and a number");
  CHECK(error_in("gpu + 1") == "\"gpu + 1\": expected numbers to calculate with; found a text and a number");
  CHECK(error_in("x and yes") ==
        "\"x and yes\": expected conditions on both sides of \"and\" and \"or\"; found a number and a condition");
  CHECK(error_in("not x") == "\"not x\": expected a condition after \"not\"; found a number");
  CHECK(error_in(std::string(5000, '1')) == "expected an expression of at most 4096 characters");
  CHECK(error_in(std::string(4000, '(')).find("expected at most 100 nested levels") != std::string::npos);
  CHECK(error_in(std::string(4000, '-')).find("expected at most 100 nested levels") != std::string::npos);
  CHECK_THROWS_WITH_AS(holds("x + 1"), "\"x + 1\": expected a condition, such as steps_per_s > 10; found a number",
                       InputError);
  CHECK_THROWS_WITH_AS(number("x > 1"), "\"x > 1\": expected a number, such as steps_per_s; found a condition",
                       InputError);
}

TEST_CASE("random formulas of numbers give what C++ gives") {
  // Seed 1. A formula is built together with its value, every inner one in parentheses.
  std::uint64_t state = 1;
  const auto draw = [&](std::uint64_t range) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33U) % range;
  };
  for (int round = 0; round < 200; ++round) {
    std::string text = std::to_string(draw(100));
    double value = std::stod(text);
    for (int depth = 0; depth < 20; ++depth) {
      const double other = static_cast<double>(draw(9) + 1);
      const std::string operand = std::to_string(static_cast<int>(other));
      const char operation = "+-*/"[draw(4)];
      const bool is_left = draw(2) == 0;
      const double a = is_left ? value : other, b = is_left ? other : value;
      if (operation == '/' && b == 0) continue;
      text = is_left ? "(" + text + ") " + operation + operand : operand + operation + " (" + text + ")";
      value = operation == '+' ? a + b : operation == '-' ? a - b : operation == '*' ? a * b : a / b;
    }
    CAPTURE(text);
    CHECK(number(text) == value);
  }
}

}  // namespace rehearse
