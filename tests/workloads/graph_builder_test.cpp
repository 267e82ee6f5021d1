#include "workloads/graph_builder.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include <vector>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

Workload small_network(int batch) {
  GraphBuilder graph{"test", "small", Layout::kNchw, batch, Precision::kFp32};
  const auto images = graph.input(8, 8, 3);
  const auto x = graph.activation("relu", graph.batch_norm("bn", graph.convolution("conv", images, 16, 3, 2, true)));
  const auto left = graph.convolution("left", x, 16, 3, 1, false);
  const auto sum = graph.add("sum", std::vector{left, x});
  return graph.finish(std::vector{graph.dense("dense", graph.global_average_pool("pool", sum), 10)});
}

Operator find(const Workload& workload, const std::string& name) {
  for (std::size_t v = 0; v < workload.graph.size(); ++v)
    if (workload.graph[v].name() == name) return workload.graph[v];
  FAIL("no operator " << name);
  return workload.graph[0];
}

bool has_operator(const Workload& workload, const std::string& name) {
  for (std::size_t v = 0; v < workload.graph.size(); ++v)
    if (workload.graph[v].name() == name) return true;
  return false;
}

}  // namespace

TEST_CASE("padding \"same\" gives ceil(input / stride) outputs") {
  GraphBuilder graph{"test", "shapes", Layout::kNchw, 1, Precision::kFp32};
  const auto images = graph.input(7, 8, 3);
  const auto x = graph.convolution("conv", images, 4, 3, 2, false);
  CHECK(x.height == 4);
  CHECK(x.width == 4);
  CHECK(x.channels == 4);
  const auto y = graph.max_pool("pool", x, {2, 2, 2, std::nullopt});
  CHECK(y.height == 2);
  const auto z = graph.concatenate("concat", std::vector{y, y});
  CHECK(z.channels == 8);
}

TEST_CASE("a convolution's kernels have the shapes of its three matrix products") {
  const Workload workload = small_network(2);
  // 8x8x3 -> 4x4x16 with a 3x3 kernel: 2 * 4 * 4 rows, 16 columns, 27 terms; 2 FLOPs each.
  const Operator& conv = workload.graph[0];
  CHECK(conv.matrix.rows == 32);
  CHECK(conv.matrix.columns == 16);
  CHECK(conv.matrix.reduction == 27);
  CHECK(conv.flops == Flops{2.0 * 32 * 16 * 27});
  CHECK_FALSE(conv.is_3x3_stride_1);
  // "left": 4x4x16 -> 4x4x16, 3x3: 2 * 4 * 4 rows of positions, 16 channels in and out, 16 * 3 * 3 = 144 weights per
  // output.
  const Operator& data = find(workload, "left/data_gradient");
  CHECK(data.matrix.rows == 32);
  CHECK(data.matrix.columns == 16);
  CHECK(data.matrix.reduction == 144);
  CHECK(data.phase == Phase::kBackwardData);
  const Operator& weights = find(workload, "left/weight_gradient");
  CHECK(weights.matrix.rows == 144);
  CHECK(weights.matrix.columns == 16);
  CHECK(weights.matrix.reduction == 32);
  CHECK(weights.phase == Phase::kBackwardWeights);
  CHECK(weights.is_3x3_stride_1);
}

TEST_CASE("device memory is read and written once per tensor, the input of a batch normalisation twice") {
  const Workload workload = small_network(2);
  // The output of "conv" is 2 * 4 * 4 * 16 floats = 2048 B, the images 2 * 8 * 8 * 3 floats = 1536 B, the kernel 3 * 3
  // * 3 * 16 floats = 1728 B.
  CHECK(find(workload, "conv").bytes_read == 1536_B + 1728_B);
  CHECK(find(workload, "conv").bytes_written == 2048_B);
  CHECK(find(workload, "bn").bytes_read == 2 * 2048_B);
  CHECK(find(workload, "sum").bytes_read == 2 * 2048_B);
  CHECK(find(workload, "conv/kernel/update").bytes_read == 3 * 1728_B);  // parameter, gradient, momentum
  CHECK(workload.input_bytes == 1536_B);
}

TEST_CASE("activations kept: inputs of convolutions, dense layers and batch normalisations, outputs of ReLUs") {
  // Kept: input of "bn" (2048 B), output of "relu", which is also the input of "left" (2048 B), input of "dense" (2 *
  // 16 floats = 128 B). Not kept: the images (input_bytes), the output of "bn", the sum.
  CHECK(small_network(2).activation_bytes == 2 * 2048_B + 128_B);
}

TEST_CASE("half precision halves every byte count and no FLOP") {
  const auto build = [](Precision precision) {
    GraphBuilder graph{"test", "dense", Layout::kNchw, 2, precision};
    return graph.finish(
        std::vector{graph.dense("dense", graph.activation("relu", graph.dense("first", graph.input(2, 2, 3), 8)), 10)});
  };
  const Workload full = build(Precision::kFp32), half = build(Precision::kFp16);
  CHECK(full.variable_bytes() == 2 * half.variable_bytes());
  CHECK(full.activation_bytes == 2 * half.activation_bytes);
  CHECK(full.input_bytes == 2 * half.input_bytes);
  CHECK(full.training_flops() == half.training_flops());
  for (std::size_t v = 0; v < full.graph.size(); ++v) {
    CHECK(full.graph[v]->bytes_read == 2 * half.graph[v]->bytes_read);
    CHECK(full.graph[v]->bytes_written == 2 * half.graph[v]->bytes_written);
  }
}

TEST_CASE("an edge leads from whatever wrote what a backward kernel reads") {
  const Workload workload = small_network(1);
  const auto reads = [&](const std::string& reader, const std::string& writer) {
    return std::any_of(workload.graph.edges().begin(), workload.graph.edges().end(), [&](const OperatorEdge& edge) {
      return workload.graph[edge.from].name() == writer && workload.graph[edge.to].name() == reader;
    });
  };
  CHECK(reads("bn/gradient", "relu/gradient"));
  CHECK(reads("bn/gradient", "bn"));             // the batch's mean and variance
  CHECK(reads("bn/gradient", "conv/bias_add"));  // the input that was normalised
  CHECK(reads("relu/gradient", "relu"));
  CHECK(reads("left/weight_gradient", "relu"));
  CHECK(reads("pool/gradient", "sum"));
  CHECK(reads("conv/weight_gradient", "bn/gradient"));
}

TEST_CASE("no gradient is computed that no variable needs") {
  CHECK_FALSE(has_operator(small_network(1), "conv/data_gradient"));
  GraphBuilder graph{"test", "images first", Layout::kNchw, 1, Precision::kFp32};
  const auto x = graph.max_pool("pool", graph.activation("relu", graph.input(8, 8, 3)), {2, 2, 2, std::nullopt});
  const Workload workload = graph.finish(std::vector{graph.dense("dense", x, 10)});
  CHECK_FALSE(has_operator(workload, "relu/gradient"));
  CHECK_FALSE(has_operator(workload, "pool/gradient"));
  CHECK_FALSE(has_operator(workload, "dense/data_gradient"));
  CHECK(has_operator(workload, "dense/weight_gradient"));
}

TEST_CASE(
    "every variable's gradient or moving average is produced exactly once, and every trainable one updated once") {
  const Workload workload = small_network(4);
  std::vector<int> produced(workload.variables.size()), updates(1);
  for (std::size_t v = 0; v < workload.graph.size(); ++v) {
    for (const int variable : workload.graph[v].produces_gradients()) ++produced[static_cast<std::size_t>(variable)];
    if (workload.graph[v]->phase == Phase::kUpdate) ++updates[0];
  }
  for (const int count : produced) CHECK(count == 1);
  CHECK(updates[0] == workload.trainable_tensors());
}

TEST_CASE("creation order is a topological order") {
  const Workload workload = small_network(4);
  for (const OperatorEdge& edge : workload.graph.edges()) CHECK(edge.from < edge.to);
}

TEST_CASE("doubling the batch doubles FLOPs and activations and leaves the variables") {
  const Workload one = small_network(4), two = small_network(8);
  CHECK(two.training_flops() == 2.0 * one.training_flops());
  CHECK(two.activation_bytes == 2 * one.activation_bytes);
  CHECK(two.variable_bytes() == one.variable_bytes());
}

TEST_CASE("training takes three times the forward FLOPs, less the gradient of the images") {
  const Workload workload = small_network(4);
  const Flops stem = workload.graph[0]->flops;
  CHECK(workload.training_flops() == 3.0 * workload.forward_flops() - stem);
}

TEST_CASE("a tensor with two consumers gets the sum of two gradients") {
  const Workload workload = small_network(1);
  int sums = 0;
  for (std::size_t v = 0; v < workload.graph.size(); ++v)
    if (workload.graph[v].name() == "gradient sum") ++sums;
  CHECK(sums == 1);
}

TEST_CASE("a layer that takes one tensor twice gives it one gradient") {
  GraphBuilder graph{"test", "twice", Layout::kNchw, 1, Precision::kFp32};
  const auto x = graph.convolution("conv", graph.input(8, 8, 3), 4, 3, 1, false);
  const Workload workload = graph.finish(std::vector{graph.dense("dense", graph.add("sum", std::vector{x, x}), 10)});
  CHECK_FALSE(has_operator(workload, "gradient sum"));
}

TEST_CASE("a kernel may be larger than its input, as long as its rim meets it") {
  GraphBuilder graph{"test", "narrow", Layout::kNchw, 1, Precision::kFp32};
  const auto pooled = graph.global_average_pool("pool", graph.input(8, 8, 3));
  const auto x = graph.convolution("conv", pooled, 4, 3, 1, false);
  CHECK(x.height == 1);
  CHECK_THROWS_WITH_AS((void)graph.convolution("wide", pooled, 4, 4, 1, false),
                       "test: layer wide has a kernel larger than its padded input", InputError);
}

TEST_CASE("impossible layers are refused with the place that asked for them") {
  GraphBuilder graph{"model.json: /structure", "bad", Layout::kNchw, 1, Precision::kFp32};
  const auto images = graph.input(8, 8, 3);
  CHECK_THROWS_WITH_AS((void)graph.convolution("conv", images, 4, 18, 1, false),
                       "model.json: /structure: layer conv has a kernel larger than its padded input", InputError);
  const auto a = graph.convolution("a", images, 4, 3, 1, false);
  CHECK_THROWS_WITH_AS((void)graph.add("sum", std::vector{a, images}),
                       "model.json: /structure: layer sum adds tensors of different shapes", InputError);
  CHECK_THROWS_WITH_AS((GraphBuilder{"s.json: /workload", "bad", Layout::kNchw, 0, Precision::kFp32}),
                       "s.json: /workload: expected a batch of 1 to 65536 samples; found 0", InputError);
  CHECK_THROWS_WITH_AS((GraphBuilder{"s.json: /workload", "bad", Layout::kNchw, 65537, Precision::kFp32}),
                       "s.json: /workload: expected a batch of 1 to 65536 samples; found 65537", InputError);
}

TEST_CASE("a table that scores what it embedded has one gradient, ready with the last of its two parts") {
  GraphBuilder graph{"test", "tied", Layout::kNchw, 2, Precision::kFp32};
  const auto words = graph.table("words", 100, 8);
  const auto x = graph.lookup("lookup", graph.identifiers(5), words);
  const Workload workload = graph.finish(std::vector{graph.score("logits", graph.linear("dense", x, 8), words, true)});
  CHECK(workload.parameters() == 100 * 8 + 8 * 8 + 8 + 100);
  CHECK(workload.input_bytes == Bytes{2 * 5 * 8});
  CHECK(find(workload, "logits").flops == Flops{2.0 * 2 * 5 * 8 * 100});
  CHECK(find(workload, "logits/weight_gradient").produces_gradients.empty());
  CHECK(find(workload, "lookup/gradient").produces_gradients == std::vector{0});
  CHECK(find(workload, "lookup/gradient").bytes_written == Bytes{(2 * 5 * 8 + 100 * 8) * 4});  // cleared, then added to
}

TEST_CASE("the gradient of a sparse table touches the rows of the batch, the table's size at most") {
  const auto rows_used = [](int batch) {
    GraphBuilder graph{"test", "sparse", Layout::kNchw, batch, Precision::kFp32};
    const auto x = graph.lookup("lookup", graph.identifiers(3), graph.table("words", 100, 8, true));
    const Workload workload = graph.finish(std::vector{graph.dense("dense", x, 2)});
    CHECK(find(workload, "lookup/gradient").bytes_written == Bytes{batch * 3 * 8 * 4});
    CHECK(find(workload, "words/update").bytes_written == 2 * *workload.variables[0].rows_used);
    return *workload.variables[0].rows_used;
  };
  CHECK(rows_used(2) == Bytes{2 * 3 * 8 * 4});
  CHECK(rows_used(64) == Bytes{100 * 8 * 4});
}

TEST_CASE("a product of two values has two gradients; views of one value put theirs together") {
  GraphBuilder graph{"test", "product", Layout::kNchw, 2, Precision::kFp32};
  const auto x = graph.lookup("lookup", graph.identifiers(5), graph.table("words", 10, 8));
  const auto joint = graph.linear("joint", x, 24, false);
  const auto part = graph.view("part", joint, 5, 8);
  const auto scores = graph.product("scores", part, part, {5, 5, 4, 2}, {.height = 5, .width = 5, .channels = 2});
  const auto context = graph.product("context", scores, part, {5, 4, 5, 2}, {.height = 5, .width = 1, .channels = 8});
  const Workload workload = graph.finish(std::vector{graph.linear("logits", context, 3)});
  const Operator& forward = find(workload, "scores");
  CHECK(forward.flops == Flops{2.0 * 2 * 2 * 5 * 5 * 4});
  CHECK(forward.matrix.products == 4);
  const Operator& first = find(workload, "context/first_gradient");  // [5, 4] x [4, 5]
  CHECK(first.matrix.rows == 5);
  CHECK(first.matrix.columns == 5);
  CHECK(first.matrix.reduction == 4);
  const Operator& second = find(workload, "context/second_gradient");  // [5, 5] x [5, 4]
  CHECK(second.matrix.reduction == 5);
  CHECK(second.matrix.columns == 4);
  const Operator& sum = find(workload, "gradient sum");
  const std::int64_t part_bytes = 2 * 5 * 8 * 4;
  CHECK(sum.bytes_read == Bytes{3 * part_bytes});
  CHECK(sum.bytes_written == Bytes{3 * part_bytes});
}

TEST_CASE("an LSTM is a product for all positions, and two kernels for each, one after the other") {
  const auto build = [](bool is_split) {
    GraphBuilder graph{"test", "lstm", Layout::kNchw, 2, Precision::kFp32};
    const auto x = graph.lookup("lookup", graph.identifiers(7), graph.table("words", 10, 8));
    return graph.finish(std::vector{graph.linear("logits", graph.lstm("lstm", x, 16, is_split), 3)});
  };
  const Workload joined = build(false), split = build(true);
  CHECK(joined.parameters() == 10 * 8 + (8 + 16) * 64 + 64 + 16 * 3 + 3);
  CHECK(split.parameters() == joined.parameters() + 64);
  CHECK(split.trainable_tensors() == joined.trainable_tensors() + 2);
  CHECK(split.training_flops() == joined.training_flops());
  CHECK(joined.forward_flops() == Flops{2.0 * 2 * 7 * (8 + 16) * 64 + 2.0 * 2 * 7 * 16 * 3});
  CHECK(joined.training_flops().value() == doctest::Approx(3 * joined.forward_flops().value()));
  for (int position = 2; position <= 7; ++position) {
    const std::string before = "lstm/" + std::to_string(position - 1) + "/cell";
    const std::string after = "lstm/" + std::to_string(position) + "/recurrent";
    const auto position_of = [&](const std::string& name) {
      std::size_t v = 0;
      while (joined.graph[v].name() != name) ++v;
      return v;
    };
    CHECK(std::count(joined.graph.edges().begin(), joined.graph.edges().end(),
                     OperatorEdge{position_of(before), position_of(after)}) > 0);
  }
}

TEST_CASE("dropout keeps and reads a mask of one byte per value; a layer normalisation has two variables") {
  const auto build = [](bool has_dropout) {
    GraphBuilder graph{"test", "dropout", Layout::kNchw, 2, Precision::kFp32};
    auto x = graph.lookup("lookup", graph.identifiers(7), graph.table("words", 10, 8));
    if (has_dropout) x = graph.dropout("dropout", x);
    return graph.finish(std::vector{graph.linear("logits", graph.layer_norm("norm", x), 3)});
  };
  const Workload with = build(true), without = build(false);
  CHECK(with.activation_bytes - without.activation_bytes == Bytes{2 * 7 * 8});
  CHECK(find(with, "dropout/gradient").bytes_read == Bytes{2 * 7 * 8 * 5});
  CHECK(with.variables.size() == 5);
}

TEST_CASE("what does not fit a sequence is named") {
  GraphBuilder graph{"test", "bad", Layout::kNchw, 2, Precision::kFp32};
  const auto words = graph.table("words", 10, 8);
  const auto x = graph.lookup("lookup", graph.identifiers(7), words);
  CHECK_THROWS_WITH_AS((void)graph.view("part", x, 8, 8), "test: layer part takes more than there is", InputError);
  CHECK_THROWS_WITH_AS((void)graph.score("logits", graph.linear("dense", x, 4), words, false),
                       "test: layer logits scores features that its table does not have", InputError);
}

TEST_CASE("fused attention is a kernel in each pass, and keeps no scores") {
  // 3 samples, 4 heads of 16 features, which read 2 heads of keys and values; 10 queries, 20 keys.
  const auto built = [](bool is_fused, bool is_causal) {
    GraphBuilder graph{"test", "attention", Layout::kNchw, 3, Precision::kFp32};
    const auto queries = graph.linear("queries", graph.input(10, 1, 5), 64, false);
    const auto memory = graph.input(20, 1, 5);
    const auto keys = graph.linear("keys", memory, 32, false), values = graph.linear("values", memory, 32, false);
    if (is_fused)
      return graph.finish(std::vector{graph.fused_attention(
          "attention", queries, keys, values,
          {.heads = 4, .key_heads = 2, .queries = 10, .keys = 20, .head_features = 16, .is_causal = is_causal})});
    const auto scores =
        graph.activation("softmax", graph.product("scores", queries, keys, {10, 20, 16, 4}, {10, 20, 4}));
    return graph.finish(std::vector{graph.product("attention", scores, values, {10, 16, 20, 4}, {10, 1, 64})});
  };
  const Workload fused = built(true, false), plain = built(false, false);
  const Operator &forward = find(fused, "attention"), &backward = find(fused, "attention/gradient");
  CHECK(forward.flops == find(plain, "scores").flops + find(plain, "attention").flops);
  CHECK(forward.flops == Flops{4.0 * 3 * 4 * 10 * 20 * 16});
  CHECK(backward.flops == 2.5 * forward.flops);
  CHECK(find(built(true, true), "attention").flops == 0.5 * forward.flops);
  CHECK(forward.bytes_read == Bytes{4 * 3 * (10 * 64 + 2 * 20 * 32)});
  CHECK(forward.bytes_written == Bytes{4 * 3 * 10 * 64});
  CHECK(backward.bytes_read == forward.bytes_read + 2 * forward.bytes_written);
  CHECK(backward.bytes_written == forward.bytes_read);
  CHECK(backward.attention->batch == 3);
  // Queries, keys, values, output, and two numbers of each query instead of the scores.
  CHECK(fused.activation_bytes == forward.bytes_read + forward.bytes_written + Bytes{8 * 3 * 4 * 10});
  CHECK(plain.activation_bytes == forward.bytes_read + Bytes{4 * 3 * 4 * 10 * 20});
}

}  // namespace rehearse
