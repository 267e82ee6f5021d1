#pragma once
// Visitors of a closed set of alternatives (std::variant): one that is forgotten does not compile.

#include <concepts>

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

}  // namespace rehearse
