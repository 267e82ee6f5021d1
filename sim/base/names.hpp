#pragma once
// Names that a user typed: how near are they to the names that exist, and how do we say so?

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rehearse {

/// Fewest insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, ignoring case; none if more than a third of the letters differ, or digits: V1000 and
/// V100, or 3 and 2 behind the name of a model, are different things. First wins ties.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

/// `unknown model "resnt15"; did you mean "resnet15"?`, or, if nothing is near, `unknown model "x"; known: "a", "b"`.
std::string unknown_name_message(std::string_view kind, std::string_view name, std::span<const std::string> candidates);

/// The same of networks, whose names with a letter or two more are other networks, as ResNeXt is no ResNet: a name is
/// suggested only where letters are missing or exchanged, at most two.
std::string unknown_network_message(std::string_view kind, std::string_view name,
                                    std::span<const std::string> candidates);

/// `text` in double quotes for one line of an error message: control characters and invalid UTF-8 as \xNN, invisible
/// characters and those that change the direction of writing as \uNNNN, at most about `max_size` bytes.
std::string in_quotes(std::string_view text, std::size_t max_size = 60);

/// `"a", "b" and "c"`.
std::string list_in_quotes(std::span<const std::string> names);

/// `a, b, c`, of a vector or a set of texts.
template <class Names>
std::string joined(const Names& names, std::string_view between = ", ") {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += between;
    text += name;
  }
  return text;
}

/// `text` as in_quotes() shows it, without the quotes.
std::string shortened(std::string_view text, std::size_t max_size = 60);

/// "a V100", "an H100", "an A100 PCIe", "a Titan RTX": a name that begins with letters that are spelled has the article
/// of the first one's name.
std::string with_article(std::string_view name);

/// All of `text` as in_quotes() shows it, for a terminal or a page.
std::string printable(std::string_view text);

/// The position of the first control character, but for tab and line feed, or character that reverses the direction of
/// writing or that nobody sees; of joiners, which some scripts need, only where nothing stands before; none in plain
/// text. `text` is UTF-8.
std::optional<std::size_t> find_deceptive_character(std::string_view text);

/// The position of the first byte of `text` that is not UTF-8; none if all of it is.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

}  // namespace rehearse
