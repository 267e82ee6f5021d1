#include "sim/app/output/schema_keys.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLineLength = 120, kIndentation = 2;

struct KeyLine {
  std::string name;  // indented
  std::string text;
};

class KeyLister {
 public:
  KeyLister(const Json& schema, const std::function<bool(const std::string&)>& is_kind)
      : schema_{schema}, is_kind_{is_kind} {}

  /// The keys of the objects that `rule` describes; those of a definition once, where it comes first.
  void add_keys(const Json& unresolved, std::size_t depth) {
    if (is_named(unresolved) || is_known(unresolved)) return;
    const Json& rule = resolved(unresolved);
    const std::size_t before = lines_.size();
    if (&rule != &unresolved) known_.push_back(&rule);
    if (rule.contains("properties")) {
      for (const auto& [key, property] : rule["properties"].items())
        if (property.is_object()) add_key(key, property, is_required(rule, key), depth);
    } else {  // beside properties, alternatives only say which of them go together
      for (const char* alternatives : {"anyOf", "oneOf"})
        if (rule.contains(alternatives))
          for (const Json& part : rule[alternatives]) add_keys(part, depth);
    }
    if (rule.contains("additionalProperties") && rule["additionalProperties"].is_object() &&
        !rule["additionalProperties"].empty())
      add_key("<name>", rule["additionalProperties"], false, depth);
    if (rule.contains("items")) add_keys(rule["items"], depth);
    if (&rule != &unresolved && lines_.size() == before) std::erase(known_, &rule);  // it has no keys
  }

  /// Names in one column, what they mean in another.
  std::string text() const {
    std::size_t column = 0;
    for (const KeyLine& line : lines_) column = std::max(column, line.name.size() + kIndentation);
    std::string text;
    for (const KeyLine& line : lines_) {
      std::string row = line.name;
      bool is_first = true;
      std::istringstream words{line.text};
      for (std::string word; words >> word;) {
        if (!is_first && row.size() + 1 + word.size() > kLineLength) {
          text += row + "\n";
          row.clear();
          is_first = true;
        }
        row += is_first ? std::string(column - row.size(), ' ') + word : " " + word;
        is_first = false;
      }
      text += row + "\n";
    }
    return text;
  }

 private:
  static bool is_required(const Json& rule, const std::string& key) {
    const Json required = rule.value("required", Json::array());
    return std::find(required.begin(), required.end(), key) != required.end();
  }

  static std::string reference(const Json& rule) {
    const std::string target = rule.value("$ref", "");
    return target.substr(target.rfind('/') + 1);
  }

  static bool is_quantity(const std::string& name) {
    return name == "time" || name == "rate" || name == "size" || name == "speed";
  }

  /// Whether the rule is told by the name of its definition.
  bool is_named(const Json& rule) const {
    const std::string name = reference(rule);
    return is_quantity(name) || is_kind_(name);
  }

  /// Whether the rule's keys, or those of its elements, are those of definitions that are told already.
  bool is_known(const Json& unresolved) const {
    const Json& rule = resolved(unresolved);
    if (std::find(known_.begin(), known_.end(), &rule) != known_.end()) return true;
    if (rule.contains("properties")) return false;
    if (rule.contains("items")) return is_known(rule["items"]);
    for (const char* alternatives : {"anyOf", "oneOf"})
      if (rule.contains(alternatives))
        return std::ranges::all_of(rule[alternatives], [&](const Json& part) { return is_known(part); });
    return false;
  }

  const Json& resolved(const Json& rule) const {
    return rule.contains("$ref") ? schema_.at(Json::json_pointer{rule["$ref"].get<std::string>().substr(1)}) : rule;
  }

  /// " from 1 to 65536", of a number.
  static std::string limits(const Json& rule) {
    const auto number = [&](const char* key) {
      const std::string digits = rule[key].dump();
      return digits.ends_with(".0") ? digits.substr(0, digits.size() - 2) : digits;
    };
    std::string text;
    if (rule.contains("exclusiveMinimum")) text += " above " + number("exclusiveMinimum");
    if (rule.contains("minimum")) text += " from " + number("minimum");
    if (rule.contains("maximum")) text += (rule.contains("minimum") ? " to " : " up to ") + number("maximum");
    return text;
  }

  /// What a value of this type is called.
  std::string of_type(const std::string& type, const Json& rule) const {
    if (type == "string") return "text";
    if (type == "boolean") return "true or false";
    if (type == "integer") return "integer" + limits(rule);
    if (type == "number") return "number" + limits(rule);
    if (type == "array") return rule.contains("items") ? "list of " + kind_of(rule["items"]) : "list";
    return type;
  }

  /// What the rule's values are: "integer from 1 to 65536", "fp32 | fp16", "text or model".
  std::string kind_of(const Json& unresolved) const {
    if (is_named(unresolved)) return reference(unresolved);
    const Json& rule = resolved(unresolved);
    std::vector<std::string> parts;
    if (rule.contains("const")) return rule["const"].dump();
    if (rule.contains("enum")) {
      for (const Json& value : rule["enum"])
        parts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
      return joined(parts, " | ");
    }
    if (rule.contains("type") && rule["type"].is_string()) return of_type(rule["type"], rule);
    for (const Json& type : rule.value("type", Json::array())) parts.push_back(of_type(type, rule));
    for (const char* alternatives : {"anyOf", "oneOf"})
      for (const Json& part : rule.value(alternatives, Json::array())) {
        const std::string kind = kind_of(part);
        if (std::find(parts.begin(), parts.end(), kind) == parts.end()) parts.push_back(kind);
      }
    return parts.empty() ? "any value" : joined(parts, " or ");
  }

  void add_key(const std::string& key, const Json& property, bool required, std::size_t depth) {
    const Json& rule = resolved(property);
    std::string text = kind_of(property);
    if (required) text += ", required";
    const Json& stated = property.contains("default") ? property : rule;
    if (stated.contains("default")) {
      const Json& value = stated["default"];
      text += ", default " + (value.is_string() ? value.get<std::string>() : value.dump());
    }
    const std::string meaning = property.value("description", is_named(property) ? "" : rule.value("description", ""));
    if (is_known(property)) text += ", with keys as above";
    if (!meaning.empty()) text += ": " + meaning;
    const std::size_t at = lines_.size();
    lines_.push_back({std::string(kIndentation * depth, ' ') + key, text});
    add_keys(property, depth + 1);
    if (rule.contains("items") && lines_.size() > at + 1) lines_[at].name += "[]";
  }

  const Json& schema_;
  const std::function<bool(const std::string&)>& is_kind_;
  std::vector<KeyLine> lines_;
  std::vector<const Json*> known_;  // definitions whose keys are told
};

}  // namespace

std::string schema_keys(const Json& schema, const std::function<bool(const std::string&)>& is_kind) {
  KeyLister lister{schema, is_kind};
  lister.add_keys(schema, 0);
  return lister.text();
}

}  // namespace rehearse
