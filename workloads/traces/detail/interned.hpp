#pragma once
// Texts that come often, kept once.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace rehearse {

/// Texts and their numbers.
class Interned {
 public:
  explicit Interned(std::vector<std::string>& texts) : texts_{texts} {
    for (const std::string& text : texts) numbers_.try_emplace(text, static_cast<std::int32_t>(numbers_.size()));
  }
  std::int32_t operator()(const std::string& text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, static_cast<std::int32_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return entry->second;
  }

 private:
  std::vector<std::string>& texts_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

}  // namespace rehearse
