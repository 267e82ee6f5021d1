#pragma once
// Windows of convolutions and pooling in model files.

#include <string>
#include <vector>

#include "workloads/graph_builder.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

/// A size, or [height, width].
inline void read_kernel(const JsonReader& json, GraphBuilder::Window& window) {
  if (json.child("kernel").is_array()) {
    const std::vector<int> sizes = read_sizes(json, "kernel");
    json.expect(sizes.size() == 2, "kernel", "an integer or [height, width]");
    window.height = sizes[0];
    window.width = sizes[1];
  } else {
    window.height = window.width = read_size(json, "kernel");
  }
}

/// The window of a convolution or pooling: "kernel", "stride" and "padding". `stride` 0: the kernel's height.
inline GraphBuilder::Window read_window(const JsonReader& json, int stride) {
  GraphBuilder::Window window;
  read_kernel(json, window);
  window.stride = read_size(json, "stride", stride > 0 ? stride : static_cast<int>(window.height));
  if (!json.has("padding")) return window;
  const JsonReader padding = json.child("padding");
  if (padding.is_number()) {
    window.padding = padding.as<int>();
    json.expect(*window.padding >= 0 && *window.padding <= kMaxModelSize, "padding", "an integer from 0 to 1048576");
  } else {
    const auto name = padding.as<std::string>();
    json.expect(name == "same" || name == "valid", "padding", "\"same\", \"valid\" or a number of positions");
    if (name == "valid") window.padding = 0;
  }
  return window;
}

}  // namespace rehearse
