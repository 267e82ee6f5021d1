#include "platforms/kernels/transformer.hpp"

#include <doctest/doctest.h>

#include "platforms/kernels/kernels.hpp"
#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

namespace {

const Transformer kBertLarge{.batch = 8,
                             .sequence = 512,
                             .layers = 24,
                             .hidden = 1024,
                             .heads = 16,
                             .feed_forward = 4096,
                             .vocabulary = 2,
                             .is_causal = 0};

}  // namespace

TEST_CASE("a transformer's FLOPs are twice its weights for each token, and those of attention") {
  // 24 (4 + 8) 1024^2 weights and a head of two classes, 4096 tokens; 2 * 2 * 512^2 * 1024 of attention for each of 8
  // samples and 24 layers.
  const double weights = 24.0 * 12 * 1024 * 1024 + 2 * 1024;
  CHECK(kBertLarge.flops() == doctest::Approx(2 * weights * 4096 + 24.0 * 8 * 4 * 512 * 512 * 1024).epsilon(1e-12));
  Transformer trained = kBertLarge;
  trained.is_training = true;
  CHECK(trained.flops() == doctest::Approx(3 * kBertLarge.flops()).epsilon(1e-12));
}

TEST_CASE("a transformer takes no less than its kernels' bounds, and training two to four times a pass forward") {
  const Gpu gpu = test::gpu_of_hundred();
  const Seconds forward = transformer_time(kBertLarge, gpu, {});
  CHECK(forward >= roofline(kBertLarge, gpu));
  Transformer trained = kBertLarge;
  trained.is_training = true;
  CHECK(transformer_time(trained, gpu, {}) / forward > 2);
  CHECK(transformer_time(trained, gpu, {}) / forward < 4);
  Transformer twice = kBertLarge;
  twice.layers *= 2;
  CHECK(transformer_time(twice, gpu, {}) / forward == doctest::Approx(2).epsilon(1e-3));  // but for the head
  CHECK(is_composite(Kernel{kBertLarge}));
}

TEST_CASE(
    "training pays for dropouts, the softmax's and the loss's gradients, and sums of gradients, as bytes of memory") {
  const Gpu gpu = test::gpu_of_hundred();
  Transformer trained = kBertLarge;
  trained.is_training = true;
  trained.layers = 1;
  Transformer wider = trained;
  wider.vocabulary = 2 + 30'000;
  // Three products of 4096 x 30000 x 1024 (of 2 they are bound by memory); 3 passes over logits, 3 over the variable.
  const double products = 3.0 * 2 * 4096 * 30'000 * 1024 / gpu.peak(Precision::kFp32);
  const double memory = 4.0 * 30'000 * 3 * (4096 + 1024) / gpu.bandwidth;
  CHECK((roofline(wider, gpu) - roofline(trained, gpu)).value() - products == doctest::Approx(memory).epsilon(0.05));
}

}  // namespace rehearse::kernels
