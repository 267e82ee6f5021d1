#include "platforms/kernels/transformer.hpp"

#include <algorithm>
#include <vector>

#include "platforms/kernels/kernels.hpp"

namespace rehearse::kernels {

namespace {

/// A kernel, and how many of it there are.
struct Repeated {
  Kernel kernel;
  double count;
};

void add_product(std::vector<Repeated>& all, const Transformer& t, Product product, double count) {
  product.precision = t.precision;
  all.push_back({product, count});
  if (!t.is_training) return;
  all.push_back({Product{product.batch, product.m, product.k, product.n, t.precision}, count});  // of the data
  all.push_back({Product{product.batch, product.k, product.n, product.m, t.precision}, count});  // of the weights
}

/// Kernels of each layer that are bound by memory; backwards as many, but for sums and masks.
void add_streaming(std::vector<Repeated>& all, const Transformer& t) {
  const std::int64_t tokens = t.batch * t.sequence, rows = t.batch * t.heads * t.sequence;
  const auto layers = number(t.layers);
  const auto add = [&](StreamingKind kind, std::int64_t of_rows, std::int64_t columns, double count) {
    all.push_back({Streaming{kind, of_rows, columns, t.precision}, count * layers});
  };
  add(StreamingKind::kUnary, rows, t.sequence, 2);  // scale, mask
  add(StreamingKind::kSoftmax, rows, t.sequence, 1);
  add(StreamingKind::kLayerNorm, tokens, t.hidden, 2);
  add(StreamingKind::kUnary, tokens, t.hidden, 2);   // copies
  add(StreamingKind::kBinary, tokens, t.hidden, 2);  // residual sums
  add(StreamingKind::kUnary, tokens, t.feed_forward, 0.5 * number(t.activation_passes));
  if (!t.is_training) return;
  add(StreamingKind::kUnary, rows, t.sequence, 1);  // dropouts, which only training has
  add(StreamingKind::kUnary, tokens, t.hidden, 2);
  add(StreamingKind::kUnary, rows, t.sequence, t.is_causal != 0 ? 2 : 1);
  add(StreamingKind::kBinary, rows, t.sequence, 1);  // dropout, with its mask
  add(StreamingKind::kBinary, rows, t.sequence, 1);  // gradient times softmax, of which the next kernel takes the sums
  add(StreamingKind::kSoftmaxBackward, rows, t.sequence, 1);
  add(StreamingKind::kLayerNormBackward, tokens, t.hidden, 2);
  add(StreamingKind::kUnary, tokens, t.hidden, 4);
  add(StreamingKind::kBinary, tokens, t.hidden, 2);  // gradients that meet
  add(StreamingKind::kBinary, tokens, t.feed_forward, 0.5 * number(t.activation_passes));
}

/// The loss's gradient by the logits; and each variable's gradient is added to that of the last step, which is still there
/// without an optimizer.
void add_loss_and_sums(std::vector<Repeated>& all, const Transformer& t) {
  const auto add = [&](std::int64_t rows, std::int64_t columns, double count) {
    all.push_back({Streaming{StreamingKind::kBinary, rows, columns, t.precision}, count});
  };
  const double layers = number(t.layers);
  add(t.hidden, t.hidden, 4 * layers);
  add(t.hidden, t.feed_forward, 2 * layers);
  add(t.vocabulary, t.hidden, 1);
  all.push_back({Streaming{StreamingKind::kSoftmaxBackward, t.batch * t.sequence, t.vocabulary, t.precision}, 1});
}

std::vector<Repeated> kernels_of(const Transformer& t) {
  std::vector<Repeated> all;
  const std::int64_t tokens = t.batch * t.sequence, batches = t.batch * t.heads;
  const std::int64_t head = std::max<std::int64_t>(1, t.hidden / t.heads);
  const double layers = number(t.layers);
  add_product(all, t, {.m = tokens, .n = t.hidden, .k = t.hidden}, 4 * layers);
  add_product(all, t, {.m = tokens, .n = t.feed_forward, .k = t.hidden}, layers);
  add_product(all, t, {.m = tokens, .n = t.hidden, .k = t.feed_forward}, layers);
  add_product(all, t, {.batch = batches, .m = t.sequence, .n = t.sequence, .k = head}, layers);
  add_product(all, t, {.batch = batches, .m = t.sequence, .n = head, .k = t.sequence}, layers);
  add_product(all, t, {.m = tokens, .n = t.vocabulary, .k = t.hidden}, 1);
  add_streaming(all, t);
  if (t.is_training) add_loss_and_sums(all, t);
  return all;
}

}  // namespace

double Transformer::flops() const {
  double sum = 0;
  for (const Repeated& part : kernels_of(*this)) sum += part.count * kernels::flops(part.kernel);
  return sum;
}

Seconds roofline(const Transformer& transformer, const Gpu& gpu) {
  Seconds sum{};
  for (const Repeated& part : kernels_of(transformer)) sum += part.count * roofline(part.kernel, gpu);
  return sum;
}

Seconds transformer_time(const Transformer& transformer, const Gpu& gpu, const Values& values) {
  Seconds sum{};
  for (const Repeated& part : kernels_of(transformer)) sum += part.count * time(part.kernel, gpu, values);
  return sum;
}

}  // namespace rehearse::kernels
