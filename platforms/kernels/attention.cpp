#include "platforms/kernels/attention.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::kernels {

namespace {

/// Of what products reach.
struct Shares {
  double forward, backward;
};
constexpr Shares kShares{0.75, 0.65};
constexpr Shares kSharesBesideCopies{0.35,
                                     0.30};    // where products overlap their tiles, which FlashAttention-2 does not
constexpr Shares kSharesOnHopper{0.70, 0.59};  // of the peak, by kernels made for the architecture
constexpr Shares kSharesOnBlackwell{0.62, 0.48};
constexpr double kBlock = 128;  // queries of a block

/// Share of the multiprocessors that blocks of queries keep busy.
double filled_share(const Attention& a, const Gpu& gpu) {
  const double blocks = number(a.batch) * number(a.heads) * std::ceil(number(a.queries) / kBlock);
  return blocks / (std::ceil(blocks / gpu.multiprocessors) * gpu.multiprocessors);
}

Seconds unfused_time(const Attention& a, const Gpu& gpu, const Values& values) {
  const std::int64_t heads = a.batch * a.heads, rows = heads * a.queries;
  const Product scores{.batch = heads, .m = a.queries, .n = a.keys, .k = a.head_size, .precision = a.precision};
  const Product output{.batch = heads, .m = a.queries, .n = a.size_of_values(), .k = a.keys, .precision = a.precision};
  const Streaming scale{.kind = StreamingKind::kUnary, .rows = rows, .columns = a.keys, .precision = a.precision};
  Streaming softmax{.kind = StreamingKind::kSoftmax, .rows = rows, .columns = a.keys, .precision = a.precision};
  if (a.is_backward) softmax.kind = StreamingKind::kSoftmaxBackward;
  const double products = a.is_backward ? 2 : 1;
  return products * (time(scores, gpu, values) + time(output, gpu, values)) + time(scale, gpu, values) +
         time(softmax, gpu, values);
}

}  // namespace

double Attention::flops() const {
  const double scores = number(head_size), values = number(size_of_values()), mean = (scores + values) / 2;
  const double forward =
      4 * number(batch) * number(heads) * number(queries) * number(keys) * mean * (is_causal ? 0.5 : 1);
  return forward * (!is_backward ? 1 : is_fused ? (3 * scores + 2 * values) / (scores + values) : 2);
}

double Attention::bytes() const {
  const double query = number(heads) * number(queries), key = number(key_heads) * number(keys);
  return (is_backward ? 2 : 1) * bytes_of(precision) * number(batch) * number(head_size + size_of_values()) *
         (query + key);
}

Seconds roofline(const Attention& attention, const Gpu& gpu) {
  return Seconds{std::max(attention.flops() / gpu.peak(attention.precision), attention.bytes() / gpu.bandwidth)};
}

Seconds attention_time(const Attention& attention, const Gpu& gpu, const Values& values) {
  const Seconds bound = roofline(attention, gpu);
  if (!attention.is_fused) return std::max(bound, unfused_time(attention, gpu, values));
  const ProductValues& products = is_reduced(attention.precision) ? values.products_reduced : values.products_fp32;
  const Shares& shares = gpu.overlaps_tiles ? kSharesBesideCopies : kShares;
  const double share = filled_share(attention, gpu) * (attention.is_backward ? shares.backward : shares.forward);
  const double compute = attention.flops() * products.arithmetic / (gpu.peak(attention.precision) * share);
  const double memory = products.memory * attention.bytes() / (gpu.bandwidth * gpu.delivered);
  const auto at = [&](double clock) { return beside_memory(compute / clock, memory, products.sharpness, gpu); };
  const double clock = clock_at_limit(gpu, attention.precision, attention.flops(), attention.bytes(), at);
  return std::max(bound, Seconds{products.launch / gpu.clock + at(clock)});
}

Seconds least_attention_time(const Attention& attention, const Gpu& gpu) {
  if (!attention.is_fused || !gpu.overlaps_tiles) return Seconds{};
  const Shares& shares = gpu.architecture == "Blackwell" ? kSharesOnBlackwell : kSharesOnHopper;
  const double share = filled_share(attention, gpu) * (attention.is_backward ? shares.backward : shares.forward);
  return Seconds{attention.flops() / (gpu.peak(attention.precision) * share)};
}

}  // namespace rehearse::kernels
