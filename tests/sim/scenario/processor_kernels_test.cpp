#include "sim/scenario/processor_kernels.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>

#include "sim/scenario/kernel_plan.hpp"
#include "workloads/graph_builder.hpp"

namespace rehearse {

namespace {

using kernels::StreamingKind;

/// 4 images of 8 x 8 x 3: a convolution to 16 channels with bias, normalised, activated, pooled, added to itself, summed
/// over the image, and classified.
Workload small_network() {
  GraphBuilder graph{"test", "small", Layout::kNchw, 4, Precision::kFp32};
  GraphBuilder::Tensor x = graph.convolution("conv", graph.input(8, 8, 3), 16, 3, 1, true);
  x = graph.activation("relu", graph.batch_norm("bn", x));
  x = graph.max_pool("pool", x, {2, 2, 2});
  x = graph.add("sum", std::array{x, graph.activation("gelu", x, true)});
  return graph.finish(std::array{graph.dense("last", graph.global_average_pool("average", x), 10)});
}

std::map<std::string, std::optional<kernels::Kernel>> kernels_of(const Workload& workload) {
  std::map<std::string, std::optional<kernels::Kernel>> all;
  for (const Operator& op : workload.graph)
    if (op.phase != Phase::kUpdate && op.matrix.reduction <= 0 && !op.convolution)
      all[op.name] = streaming_on_processor(op);
  return all;
}

KernelSetting processor() {
  return {.gpu = {.name = "P",
                  .architecture = kernels::kProcessorArchitecture,
                  .multiprocessors = 1,
                  .cores = 32,
                  .clock = 1e9,
                  .bandwidth = 10e9,
                  .l2 = 1e6,
                  .vector_peak = 64e9,
                  .peaks = {64e9, 64e9, 64e9, 64e9, 64e9}},
          .values = {},
          .framework = {.dispatch = 5.0_us, .step_overhead = 1.0_ms}};
}

}  // namespace

TEST_CASE("operators that are no products become kernels of an eager framework on a processor") {
  const auto all = kernels_of(small_network());
  const auto has = [&](const std::string& name, StreamingKind kind, std::int64_t numbers) {
    CAPTURE(name);
    REQUIRE(all.contains(name));
    REQUIRE(all.at(name).has_value());
    const auto kernel = std::get<kernels::Streaming>(all.at(name).value());
    CHECK(kernel.kind == kind);
    CHECK(kernel.rows * kernel.columns == numbers);
  };
  has("bn", StreamingKind::kBatchNorm, 4096);
  CHECK(std::get<kernels::Streaming>(all.at("bn").value()).rows == 16);  // channels
  has("bn/gradient", StreamingKind::kBatchNormBackward, 4096);
  has("relu", StreamingKind::kUnary, 4096);
  has("relu/gradient", StreamingKind::kBinary, 4096);
  has("gelu", StreamingKind::kGelu, 1024);
  has("gelu/gradient", StreamingKind::kGeluBackward, 1024);
  has("pool", StreamingKind::kPooling, 4096);
  has("pool/gradient", StreamingKind::kPoolingBackward, 4096);
  has("sum", StreamingKind::kBinary, 1024);
  has("average", StreamingKind::kReduction, 1024);
  has("average/gradient", StreamingKind::kUnary, 1024);
  has("conv/bias_gradient", StreamingKind::kReduction, 4096);
  has("loss", StreamingKind::kCrossEntropy, 40);
  CHECK_FALSE(all.at("sum/gradient").has_value());  // both terms have the same gradient
}

TEST_CASE("one thread dispatches an operator and computes it") {
  const Workload workload = small_network();
  const KernelSetting setting = processor();
  const ComputePlan plan = plan_kernels(workload, setting);
  Seconds sum{};
  for (const PlannedKernel& planned : plan.kernels) {
    const Operator& op = workload.graph[static_cast<std::size_t>(planned.vertex)];
    const auto kernel = kernel_of(op, setting);
    const Seconds work = kernel ? kernels::time(*kernel, setting.gpu, setting.values) : 0.0_s;
    CHECK(planned.dispatch == 0.0_s);
    CHECK(planned.time.total.value() == doctest::Approx((5.0_us + work).value()));
    sum += planned.time.total;
  }
  CHECK(end_of_kernels(plan).value() == doctest::Approx(sum.value()));
  // Six variables: weights and biases of two layers, gamma and beta.
  const Seconds update = update_time(workload, Optimizer::kSgd, default_states(Precision::kFp32), setting).total;
  KernelSetting slower = setting;
  slower.framework.dispatch = 6.0_us;
  CHECK((update_time(workload, Optimizer::kSgd, default_states(Precision::kFp32), slower).total - update).value() ==
        doctest::Approx(6e-6).epsilon(1e-6));
}

}  // namespace rehearse
