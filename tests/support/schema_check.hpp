#pragma once
// Whether a JSON value is as a JSON Schema says, by the keywords that our schemas use; any other keyword is an error.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse::test {

class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& schema) : schema_(parse_json(schema, "schema")) {}

  /// "/pointer: what is wrong", such as "/a: missing \"b\"" and "/a: unknown \"c\""; none if all is right.
  std::vector<std::string> errors(const Json& value) const { return check(schema_, value, ""); }

  /// The names of all properties, of whichever object.
  std::set<std::string> names() const {
    std::set<std::string> names;
    add_names(schema_, names);
    return names;
  }

 private:
  using Errors = std::vector<std::string>;

  static void add_names(const Json& rule, std::set<std::string>& names) {
    if (rule.is_structured())
      for (const auto& [key, below] : rule.items()) {
        add_names(below, names);
        if (key == "properties")
          for (const auto& [name, property] : below.items()) names.insert(name);
      }
  }

  static bool is_of_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "number") return value.is_number();
    if (type == "integer")
      return value.is_number_integer() || (value.is_number() && value == std::floor(double{value}));
    throw std::runtime_error{"schema: unknown type " + type};
  }

  /// Files repeat their texts, and a search costs more than all else.
  static bool matches(const std::string& text, const std::string& pattern) {
    static std::map<std::string, std::regex> patterns;
    static std::map<std::pair<std::string, std::string>, bool> known;
    const auto [place, is_new] = known.try_emplace({pattern, text}, false);
    if (is_new) place->second = std::regex_search(text, patterns.try_emplace(pattern, pattern).first->second);
    return place->second;
  }

  Errors check(const Json& rule, const Json& value, const std::string& at) const {
    Errors errors;
    const auto fail = [&](const std::string& what) { errors.push_back(at + ": " + what); };
    const auto add = [&](const Errors& more) { errors.insert(errors.end(), more.begin(), more.end()); };
    const auto has = [&](const char* key) { return value.is_object() && value.contains(key); };
    for (const auto& [word, rest] : rule.items()) {
      const Json& said = rest;
      if (word == "$ref") {
        const Json* target = json_pointer_find(schema_, said.get<std::string>().substr(1));
        if (target == nullptr) throw std::runtime_error{"schema: no " + said.dump()};
        add(check(*target, value, at));
      } else if (word == "type") {
        const Json types = said.is_array() ? said : Json::array({said});
        if (std::none_of(types.begin(), types.end(), [&](const Json& type) { return is_of_type(value, type); }))
          fail("expected " + said.dump());
      } else if (word == "const") {
        if (value != said) fail("expected " + said.dump());
      } else if (word == "enum") {
        if (std::find(said.begin(), said.end(), value) == said.end()) fail("expected one of " + said.dump());
      } else if (word == "required") {
        if (value.is_object())
          for (const Json& key : said)
            if (!value.contains(key.get<std::string>())) fail("missing " + key.dump());
      } else if (word == "dependentRequired") {
        for (const auto& [key, needed] : said.items())
          if (has(key.c_str())) add(check({{"required", needed}}, value, at));
      } else if (word == "properties") {
        for (const auto& [key, property] : said.items())
          if (has(key.c_str()) && property == false)
            fail("unknown " + Json(key).dump());
          else if (has(key.c_str()))
            add(check(property, value[key], extend_json_pointer(at, key)));
      } else if (word == "additionalProperties") {
        if (value.is_object())
          for (const auto& [key, member] : value.items()) {
            if (rule.contains("properties") && rule["properties"].contains(key)) continue;
            if (said == false)
              fail("unknown " + Json(key).dump());
            else
              add(check(said, member, extend_json_pointer(at, key)));
          }
      } else if (word == "propertyNames") {
        if (value.is_object())
          for (const auto& [key, member] : value.items()) add(check(said, Json(key), at));
      } else if (word == "items") {
        if (value.is_array())
          for (std::size_t i = 0; i < value.size(); ++i)
            add(check(said, value[i], extend_json_pointer(at, std::to_string(i))));
      } else if (word == "minItems" || word == "maxItems") {
        if (value.is_array() && (word == "minItems" ? value.size() < said : value.size() > said))
          fail("another number of elements");
      } else if (word == "minProperties") {
        if (value.is_object() && value.size() < said) fail("too few keys");
      } else if (word == "minLength" || word == "maxLength") {
        if (value.is_string())
          if (const auto size = value.get<std::string>().size(); word == "minLength" ? size < said : size > said)
            fail("another length");
      } else if (word == "pattern") {
        if (value.is_string() && !matches(value.get<std::string>(), said.get<std::string>()))
          fail("expected " + said.dump());
      } else if (word == "minimum" || word == "maximum" || word == "exclusiveMinimum") {
        if (value.is_number() && (word == "minimum" ? value < said : word == "maximum" ? value > said : value <= said))
          fail("outside of its limits");
      } else if (word == "uniqueItems") {
        if (value.is_array() && said == true)
          for (std::size_t i = 0; i < value.size(); ++i)
            if (std::find(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(i), value[i]) !=
                value.begin() + static_cast<std::ptrdiff_t>(i))
              fail("the same twice");
      } else if (word == "allOf") {
        for (const Json& part : said) add(check(part, value, at));
      } else if (word == "anyOf" || word == "oneOf") {
        std::vector<Errors> all;
        for (const Json& part : said) all.push_back(check(part, value, at));
        const auto fitting = std::count_if(all.begin(), all.end(), [](const Errors& e) { return e.empty(); });
        if (fitting > 1 && word == "oneOf") fail("fits several alternatives");
        // The nearest is one for values of this type, with the fewest errors.
        const auto far = [&](const Json& part, const Errors& e) {
          return std::pair{part.contains("type") && part["type"].is_string() && !is_of_type(value, part["type"]),
                           e.size()};
        };
        std::size_t nearest = 0;
        for (std::size_t i = 1; i < all.size(); ++i)
          if (far(said[i], all[i]) < far(said[nearest], all[nearest])) nearest = i;
        if (fitting == 0) add(all[nearest]);
      } else if (word == "if") {
        const char* branch = check(said, value, at).empty() ? "then" : "else";
        if (rule.contains(branch)) add(check(rule[branch], value, at));
      } else if (!kSilent.contains(word)) {
        throw std::runtime_error{"schema: unknown keyword " + word};
      }
    }
    return errors;
  }

  static inline const std::set<std::string> kSilent{"$schema", "$defs",    "title", "description",
                                                    "default", "examples", "then",  "else"};
  Json schema_;
};

}  // namespace rehearse::test
