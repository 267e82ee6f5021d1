#include "sim/base/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxSize = 4096;
constexpr int kMostNested = 100;  // of parentheses, not and minus

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || is_decimal(c);
}
bool ends_pointer(char c) { return is_blank(c) || std::string_view{"()<>=!+*\"'"}.find(c) != std::string_view::npos; }

enum class TokenKind { kEnd, kNumber, kText, kName, kOperator };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // of a kText: without its quotes
  double number = 0;
  std::size_t position = 0;
};

bool is_word(const Token& token, std::string_view word) { return token.kind == TokenKind::kName && token.text == word; }
bool is_operator(const Token& token, std::string_view text) {
  return token.kind == TokenKind::kOperator && token.text == text;
}

const char* kind_of(const ExpressionValue& value) {
  constexpr const char* kNames[] = {"nothing", "a condition", "a number", "a text"};
  return kNames[value.index()];
}

}  // namespace

/// Recursive descent; each rule appends the instructions of what it has read.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_{text} {
    result_.text_ = text;
    if (text.size() > kMaxSize)
      throw InputError{"expected an expression of at most " + std::to_string(kMaxSize) + " characters"};
    advance(true);
  }

  Expression parse() {
    parse_choice();
    if (token_.kind != TokenKind::kEnd) fail("an operator or the end");
    return std::move(result_);
  }

 private:
  using Operation = Expression::Operation;

  [[noreturn]] void fail(const std::string& expected) const { fail_at(token_.position, expected); }

  [[noreturn]] void fail_at(std::size_t position, const std::string& expected) const {
    const std::string_view rest = text_.substr(std::min(position, text_.size()));
    throw InputError{in_quotes(text_, 200) + ": character " + std::to_string(position + 1) + ": expected " + expected +
                     "; found " + (rest.empty() ? "the end" : in_quotes(rest, 20))};
  }

  /// Reads the next token. A slash starts a pointer where a value is expected, and divides elsewhere.
  void advance(bool expects_value) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    token_ = {.position = at_};
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (is_decimal(c) || (c == '.' && at_ + 1 < text_.size() && is_decimal(text_[at_ + 1]))) return read_number();
    if (c == '\'' || c == '"') return read_text(c);
    const bool is_pointer = c == '/' && expects_value;
    if (is_pointer || is_name(c)) {
      std::size_t end = at_ + 1;
      while (end < text_.size() && (is_pointer ? !ends_pointer(text_[end]) : is_name(text_[end]))) ++end;
      return take(TokenKind::kName, end);
    }
    for (const std::string_view known : {"==", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "(", ")", "?", ":"})
      if (text_.substr(at_).starts_with(known)) return take(TokenKind::kOperator, at_ + known.size());
    fail_at(at_, expects_value ? "a value" : "an operator");
  }

  void take(TokenKind kind, std::size_t end) {
    token_.kind = kind;
    token_.text = text_.substr(at_, end - at_);
    at_ = end;
  }

  void read_number() {
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), token_.number);
    const auto size = static_cast<std::size_t>(end - begin);
    const bool runs_on = at_ + size < text_.size() && is_name(text_[at_ + size]);
    if (error != std::errc{} || runs_on) fail_at(at_, "a number, or a name that starts with a letter");
    take(TokenKind::kNumber, at_ + size);
  }

  void read_text(char quote) {
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail_at(at_, "a text with a quote at its end");
    take(TokenKind::kText, end + 1);
    token_.text = token_.text.substr(1, token_.text.size() - 2);
  }

  void emit(Operation operation) { result_.instructions_.push_back({.operation = operation}); }
  void emit(ExpressionValue constant) { result_.instructions_.push_back({.constant = std::move(constant)}); }

  void parse_choice() {
    if (++depth_ > kMostNested) fail("at most " + std::to_string(kMostNested) + " nested levels");
    parse_or();
    if (is_operator(token_, "?")) {
      advance(true);
      parse_choice();
      if (!is_operator(token_, ":")) fail("\":\" and what it is otherwise");
      advance(true);
      parse_choice();
      emit(Operation::kChoose);
    }
    --depth_;
  }

  void parse_or() {
    parse_and();
    while (is_word(token_, "or")) {
      advance(true);
      parse_and();
      emit(Operation::kOr);
    }
  }

  void parse_and() {
    parse_not();
    while (is_word(token_, "and")) {
      advance(true);
      parse_not();
      emit(Operation::kAnd);
    }
  }

  void parse_not() {
    if (!is_word(token_, "not")) return parse_comparison();
    if (++depth_ > kMostNested) fail("at most " + std::to_string(kMostNested) + " nested levels");
    advance(true);
    parse_not();
    emit(Operation::kNot);
    --depth_;
  }

  std::optional<Operation> comparison() const {
    constexpr std::pair<std::string_view, Operation> kKnown[] = {
        {"==", Operation::kEqual},       {"=", Operation::kEqual},      {"!=", Operation::kUnequal},
        {"<", Operation::kLess},         {"<=", Operation::kLessEqual}, {">", Operation::kGreater},
        {">=", Operation::kGreaterEqual}};
    for (const auto& [text, operation] : kKnown)
      if (is_operator(token_, text)) return operation;
    return std::nullopt;
  }

  void parse_comparison() {
    parse_sum();
    const std::optional<Operation> operation = comparison();
    if (!operation) return;
    advance(true);
    parse_sum();
    emit(*operation);
    if (comparison()) fail("\"and\" between two comparisons");
  }

  void parse_sum() {
    parse_chain(&ExpressionParser::parse_product, {{{"+", Operation::kAdd}, {"-", Operation::kSubtract}}});
  }

  void parse_product() {
    parse_chain(&ExpressionParser::parse_factor, {{{"*", Operation::kMultiply}, {"/", Operation::kDivide}}});
  }

  /// Terms with one of two operators between each and the next, from the left.
  void parse_chain(void (ExpressionParser::*parse_term)(), const std::array<Named<Operation>, 2>& operators) {
    (this->*parse_term)();
    while (is_operator(token_, operators[0].name) || is_operator(token_, operators[1].name)) {
      const Operation operation = token_.text == operators[0].name ? operators[0].value : operators[1].value;
      advance(true);
      (this->*parse_term)();
      emit(operation);
    }
  }

  void parse_factor() {
    if (is_operator(token_, "-")) {
      if (++depth_ > kMostNested) fail("at most " + std::to_string(kMostNested) + " nested levels");
      advance(true);
      parse_factor();
      --depth_;
      return emit(Operation::kNegate);
    }
    if (is_operator(token_, "(")) {
      advance(true);
      parse_choice();
      if (!is_operator(token_, ")")) fail("\")\"");
      return advance(false);
    }
    const bool is_reserved = is_word(token_, "and") || is_word(token_, "or") || is_word(token_, "not");
    if (token_.kind == TokenKind::kEnd || token_.kind == TokenKind::kOperator || is_reserved)
      fail("a number, a name, a pointer or \"(\"");
    if (token_.kind == TokenKind::kNumber)
      emit(ExpressionValue{token_.number});
    else if (token_.kind == TokenKind::kText)
      emit(ExpressionValue{std::string{token_.text}});
    else if (token_.text == "true" || token_.text == "false")
      emit(ExpressionValue{token_.text == "true"});
    else
      result_.instructions_.push_back({.operation = Operation::kName, .name = std::string{token_.text}});
    advance(false);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_;
  int depth_ = 0;
  Expression result_;
};

Expression Expression::parse(std::string_view text) { return ExpressionParser{text}.parse(); }

std::vector<std::string> Expression::names() const {
  std::vector<std::string> names;
  for (const Instruction& instruction : instructions_)
    if (instruction.operation == Operation::kName &&
        std::find(names.begin(), names.end(), instruction.name) == names.end())
      names.push_back(instruction.name);
  return names;
}

ExpressionValue Expression::combine(Operation operation, const ExpressionValue& left,
                                    const ExpressionValue& right) const {
  const auto refuse = [&](const char* expected) {
    throw InputError{in_quotes(text_, 200) + ": expected " + expected + "; found " + kind_of(left) + " and " +
                     kind_of(right)};
  };
  const bool has_both = left.index() != 0 && right.index() != 0;
  const auto are = [&]<class T>(const T*) {
    return (left.index() == 0 || std::holds_alternative<T>(left)) &&
           (right.index() == 0 || std::holds_alternative<T>(right));
  };
  constexpr const bool* kConditions = nullptr;
  constexpr const double* kNumbers = nullptr;
  constexpr const std::string* kTexts = nullptr;

  if (operation == Operation::kAnd || operation == Operation::kOr) {
    if (!are(kConditions)) refuse("conditions on both sides of \"and\" and \"or\"");
    const bool decides = operation == Operation::kOr;  // this value on one side settles it
    if (left == ExpressionValue{decides} || right == ExpressionValue{decides}) return decides;
    return has_both ? ExpressionValue{!decides} : ExpressionValue{};
  }
  if (operation >= Operation::kEqual && operation <= Operation::kGreaterEqual) {
    const bool is_ordering = operation != Operation::kEqual && operation != Operation::kUnequal;
    if (is_ordering && !are(kNumbers) && !are(kTexts)) refuse("two numbers or two texts to compare");
    if (!are(kNumbers) && !are(kTexts) && !are(kConditions)) refuse("two values of one kind to compare");
    if (!has_both) return {};
    switch (operation) {
      case Operation::kEqual:
        return left == right;
      case Operation::kUnequal:
        return left != right;
      case Operation::kLess:
        return left < right;
      case Operation::kLessEqual:
        return left <= right;
      case Operation::kGreater:
        return left > right;
      default:
        return left >= right;
    }
  }
  if (!are(kNumbers)) refuse("numbers to calculate with");
  if (!has_both) return {};
  const double a = std::get<double>(left), b = std::get<double>(right);
  const double value = operation == Operation::kAdd        ? a + b
                       : operation == Operation::kSubtract ? a - b
                       : operation == Operation::kMultiply ? a * b
                                                           : a / b;
  return std::isfinite(value) ? ExpressionValue{value} : ExpressionValue{};
}

ExpressionValue to_expression_value(const Json& value, const std::string& name) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("name") && value["name"].is_string()) return value["name"].get<std::string>();
  throw InputError{name + ": expected a number, a text, true or false to compare; found " +
                   (value.is_object() ? "an object" : "an array")};
}

ExpressionValue Expression::evaluate(const std::function<ExpressionValue(const std::string&)>& look_up) const {
  std::vector<ExpressionValue> stack;
  for (const Instruction& instruction : instructions_) {
    if (instruction.operation == Operation::kConstant) {
      stack.push_back(instruction.constant);
    } else if (instruction.operation == Operation::kName) {
      stack.push_back(look_up(instruction.name));
    } else if (instruction.operation == Operation::kNot) {
      const auto* condition = std::get_if<bool>(&stack.back());
      if (!condition && stack.back().index() != 0)
        throw InputError{in_quotes(text_, 200) + ": expected a condition after \"not\"; found " +
                         kind_of(stack.back())};
      if (condition) stack.back() = !*condition;
    } else if (instruction.operation == Operation::kNegate) {
      stack.back() = combine(Operation::kSubtract, 0.0, stack.back());  // -x is 0 - x
    } else if (instruction.operation == Operation::kChoose) {
      ExpressionValue otherwise = std::move(stack.back());
      stack.pop_back();
      ExpressionValue chosen = std::move(stack.back());
      stack.pop_back();
      const auto* condition = std::get_if<bool>(&stack.back());
      if (!condition && stack.back().index() != 0)
        throw InputError{in_quotes(text_, 200) + ": expected a condition before \"?\"; found " + kind_of(stack.back())};
      if (condition) stack.back() = *condition ? std::move(chosen) : std::move(otherwise);
    } else {
      const ExpressionValue right = std::move(stack.back());
      stack.pop_back();
      stack.back() = combine(instruction.operation, stack.back(), right);
    }
  }
  return std::move(stack.back());
}

bool Expression::holds(const std::function<ExpressionValue(const std::string&)>& look_up) const {
  const ExpressionValue value = evaluate(look_up);
  if (value.index() == 0) return false;
  if (const auto* condition = std::get_if<bool>(&value)) return *condition;
  throw InputError{in_quotes(text_, 200) + ": expected a condition, such as steps_per_s > 10; found " + kind_of(value)};
}

double Expression::number(const std::function<ExpressionValue(const std::string&)>& look_up) const {
  const ExpressionValue value = evaluate(look_up);
  if (value.index() == 0) return std::numeric_limits<double>::quiet_NaN();
  if (const auto* number = std::get_if<double>(&value)) return *number;
  throw InputError{in_quotes(text_, 200) + ": expected a number, such as steps_per_s; found " + kind_of(value)};
}

}  // namespace rehearse
