#include "workloads/importers/detail/tensorflow_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "sim/base/varint.hpp"

namespace rehearse::tensorflow {

namespace {

/// The first word of a text, behind comments.
std::string_view first_word(std::string_view text) {
  while (true) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return "";
    text.remove_prefix(first);
    if (text[0] != '#') break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  std::size_t end = 0;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
  const std::size_t next = text.find_first_not_of(" \t\r\n", end);
  const bool opens = next != std::string_view::npos && (text[next] == '{' || text[next] == ':');
  return opens ? text.substr(0, end) : "";
}

/// The content of the first field of a message, if it has this number and a length; as much as is there.
std::optional<std::string_view> first_field(std::string_view bytes, std::uint64_t number) {
  const auto tag = take_varint(bytes);
  if (tag != (number << 3U | 2U)) return std::nullopt;
  const auto length = take_varint(bytes);
  if (!length || *length == 0) return std::nullopt;
  return bytes.substr(0, *length);
}

/// A node begins with its name and its operator.
bool is_node(std::string_view bytes) {
  const auto name = first_field(bytes, 1);
  if (!name) return false;
  const std::size_t rest = static_cast<std::size_t>(name->data() - bytes.data()) + name->size();
  return rest >= bytes.size() || bytes[rest] == '\x12';
}

}  // namespace

std::optional<Form> form_of(const Source& source) {
  const std::string_view start = source.start();
  const std::string_view word = first_word(start);
  if (word == "node") return Form{GraphDefForm::kGraph, true};
  if (word == "meta_info_def" || word == "graph_def") return Form{GraphDefForm::kMetaGraph, true};
  if (word == "saved_model_schema_version" || word == "meta_graphs") return Form{GraphDefForm::kSavedModel, true};
  if ((word == "library" || word == "versions") && start.find("\nnode {") != std::string_view::npos)
    return Form{GraphDefForm::kGraph, true};
  if (source.is_json()) return std::nullopt;
  if (start.starts_with(std::string_view{"\x08\x01", 2}) && first_field(start.substr(2), 2))
    return Form{GraphDefForm::kSavedModel, false};
  const auto first = first_field(start, 1);
  if (!first) return std::nullopt;
  if (is_node(*first)) return Form{GraphDefForm::kGraph, false};
  // A checkpoint's .meta begins with a list of operators, stripped_op_list = 2 of meta_info_def, perhaps after a version.
  std::string_view info = *first;
  if (const auto version = first_field(info, 1))
    info.remove_prefix(static_cast<std::size_t>(version->data() - info.data()) + version->size());
  const auto operators = first_field(info, 2);
  const auto definition = operators ? first_field(*operators, 1) : std::nullopt;
  if (definition && first_field(*definition, 1)) return Form{GraphDefForm::kMetaGraph, false};
  return std::nullopt;
}

}  // namespace rehearse::tensorflow
