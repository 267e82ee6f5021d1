#pragma once
// Sizes in model files: integers from 1 to 2^20; numbers of layers, and their names; the largest tensor.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

constexpr int kMaxModelSize = 1 << 20;  // of one dimension in a model file
/// Of one tensor: far beyond any GPU, far below overflow.
constexpr std::int64_t kMostScalars = std::int64_t{1} << 40;

constexpr std::int64_t kMostExperts = 16'384;  // of all layers of a model, each with kernels of its own

/// `fallback` 0: the key is required.
inline int read_size(const JsonReader& json, std::string_view key, int fallback = 0) {
  const int size = fallback > 0 ? json.optional<int>(key, fallback) : json.required<int>(key);
  if (json.has(key)) json.expect(size >= 1 && size <= kMaxModelSize, key, "an integer from 1 to 1048576");
  return size;
}

inline std::vector<int> read_sizes(const JsonReader& json, std::string_view key) {
  std::vector<int> sizes = json.required<std::vector<int>>(key);
  json.expect(!sizes.empty() && sizes.size() <= 100, key, "1 to 100 integers");
  for (const int size : sizes) json.expect(size >= 1 && size <= kMaxModelSize, key, "integers from 1 to 1048576");
  return sizes;
}

/// One size for each stage of "blocks_per_stage".
inline std::vector<int> read_sizes_of_stages(const JsonReader& json, std::string_view key, std::size_t stages) {
  std::vector<int> sizes = read_sizes(json, key);
  json.expect(sizes.size() == stages, key, "as many integers as \"blocks_per_stage\" has");
  return sizes;
}

/// From `least` to 1000; 0 may be left out.
inline int read_layers(const JsonReader& json, std::string_view key, int least) {
  constexpr int kMaxLayers = 1000;
  const int layers = least > 0 ? json.required<int>(key) : json.optional<int>(key, 0);
  json.expect(layers >= least && layers <= kMaxLayers, key,
              "an integer from " + std::to_string(least) + " to " + std::to_string(kMaxLayers));
  return layers;
}

/// "layer1" of layer 0.
inline std::string numbered(const char* name, int i) { return name + std::to_string(i + 1); }

}  // namespace rehearse
