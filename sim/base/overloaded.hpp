#pragma once
// Visitors of a closed set of alternatives (std::variant): one that is forgotten does not compile.

#include <concepts>
#include <variant>

namespace rehearse {

/// std::visit(Overloaded{[](const Delay&) {}, [](const OneOf<Copy, Send> auto&) {}}, operation)
template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

/// For a visitor of several alternatives.
template <class Alternative, class... Alternatives>
concept OneOf = (std::same_as<Alternative, Alternatives> || ...);

/// What std::visit() does without a result, by comparisons that compilers see through: for what is done very often.
template <class... Alternatives, class... Visitors>
void match(const std::variant<Alternatives...>& variant, Visitors... visitors) {
  const Overloaded visitor{visitors...};
  (void)((std::holds_alternative<Alternatives>(variant) && (visitor(*std::get_if<Alternatives>(&variant)), true)) ||
         ...);
}

}  // namespace rehearse
