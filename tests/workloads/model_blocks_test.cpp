#include "workloads/model_blocks.hpp"

#include <doctest/doctest.h>

namespace rehearse {

namespace {

Workload with(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& variables) {
  Workload workload;
  for (const auto& [name, shape] : variables) workload.variables.push_back({.name = name, .shape = shape});
  return workload;
}

}  // namespace

TEST_CASE("a block is what repeats under another number, whatever ends the number; the rest is outside") {
  for (const char* mark : {"/", ".", "_"}) {
    const std::string m = mark, layer = "model" + m + "layers" + m;
    const ModelBlocks blocks = model_blocks(with({{"embedding", {100, 8}},
                                                  {layer + "0" + m + "weight", {8, 8}},
                                                  {layer + "0" + m + "norm", {8}},
                                                  {layer + "11" + m + "weight", {8, 8}},
                                                  {layer + "11" + m + "norm", {8}},
                                                  {"head", {8, 100}}}));
    CHECK(blocks.names == std::vector<std::string>{layer + "0", layer + "11"});
    CHECK(blocks.of_variable == std::vector<int>{-1, 0, 0, 1, 1, -1});
  }
}

TEST_CASE("a first layer that differs is a block like the others; the layer is one, not its experts") {
  const ModelBlocks blocks = model_blocks(with({{"layer1/dense/kernel", {8, 32}},
                                                {"layer2/expert1/kernel", {8, 4}},
                                                {"layer2/expert2/kernel", {8, 4}},
                                                {"layer3/expert1/kernel", {8, 4}},
                                                {"layer3/expert2/kernel", {8, 4}}}));
  CHECK(blocks.names == std::vector<std::string>{"layer1", "layer2", "layer3"});
  CHECK(blocks.of_variable == std::vector<int>{0, 1, 1, 2, 2});
}

TEST_CASE("stages of other sizes do not repeat, their residual blocks do") {
  const ModelBlocks blocks = model_blocks(with({{"stage1/block1/conv1/kernel", {3, 3, 8, 8}},
                                                {"stage1/block2/conv1/kernel", {3, 3, 8, 8}},
                                                {"stage2/block1/conv1/kernel", {3, 3, 8, 16}},
                                                {"stage2/block2/conv1/kernel", {3, 3, 16, 16}},
                                                {"stage2/block3/conv1/kernel", {3, 3, 16, 16}}}));
  CHECK(blocks.names ==
        std::vector<std::string>{"stage1/block1", "stage1/block2", "stage2/block1", "stage2/block2", "stage2/block3"});
}

TEST_CASE("numbers that only count, scalars that repeat, and numbers within words are no blocks") {
  CHECK(model_blocks(with({{"conv1/kernel", {3, 3, 8, 8}}, {"conv2/kernel", {3, 3, 8, 16}}})).names.empty());
  CHECK(model_blocks(with({{"bn1/scale", {8}}, {"bn2/scale", {8}}})).names.empty());
  CHECK(model_blocks(with({{"conv2d/kernel", {8, 8}}, {"conv3d/kernel", {8, 8}}})).names.empty());
  CHECK(model_blocks(with({{"layer1", {8, 8}}, {"layer2", {8, 8}}})).names.empty());
}

}  // namespace rehearse
