#pragma once
// Conditions and formulas as users type them: `steps_per_s > 10 and cost_usd < 5`,
// `/cluster/groups/0/count <= /cluster/groups/1/count`, `steps_per_s / cost_usd`.
//
//   or, and, not          of conditions
//   == != < <= > >=       numbers with numbers, texts with texts; = is ==
//   + - * /  ( )          numbers
//   pp == 1 ? 1 : vp      one of two values by a condition, which binds last
//   12, 1.5e3, 'text', "text", true, false
//   steps_per_s           letters, digits, _ and . : looked up by whoever evaluates
//   /training/steps       a JSON pointer, up to a blank or one of ( ) < > = ! + * ; a / after a value divides
//
// What has no value (a run without price, division by zero) makes what depends on it have none, except where `and` and
// `or` are decided by their other side.

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

/// monostate: no value.
using ExpressionValue = std::variant<std::monostate, bool, double, std::string>;

/// null has no value; an object stands for its "name". Throws InputError, which begins with `name`, of other objects and arrays.
ExpressionValue to_expression_value(const Json& value, const std::string& name);

class Expression {
 public:
  /// Throws InputError, which names the character where the text stops making sense. At most 4096 characters.
  static Expression parse(std::string_view text);

  /// Names and pointers that it looks up, without duplicates, in order of appearance.
  std::vector<std::string> names() const;

  /// Throws InputError if an operator gets what it cannot work on, such as 'a' + 1.
  ExpressionValue evaluate(const std::function<ExpressionValue(const std::string& name)>& look_up) const;
  /// Whether a condition holds: false without value. Throws InputError also if it gives a number or a text.
  bool holds(const std::function<ExpressionValue(const std::string& name)>& look_up) const;
  /// The number that a formula gives; NaN without value. Throws InputError also if it gives no number.
  double number(const std::function<ExpressionValue(const std::string& name)>& look_up) const;

  const std::string& text() const { return text_; }

 private:
  friend class ExpressionParser;
  enum class Operation {
    kConstant,
    kName,
    kOr,
    kAnd,
    kNot,
    kEqual,
    kUnequal,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kNegate,
    kChoose  // of three operands
  };
  struct Instruction {
    Operation operation = Operation::kConstant;
    ExpressionValue constant;
    std::string name;
  };

  ExpressionValue combine(Operation operation, const ExpressionValue& left, const ExpressionValue& right) const;

  std::string text_;
  std::vector<Instruction> instructions_;  // postfix: operands before their operator
};

}  // namespace rehearse
