// Models of recorded steps: of a few events whose dates can be worked out, and of a trace that ships.

#include "sim/plan/recorded_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse::recorded_model_test {

namespace {

class TraceText {
 public:
  void add(const std::string& category, const std::string& name, int thread, int start, int duration,
           const std::string& arguments = "") {
    events_ += (events_.empty() ? "" : ",") + (R"({"ph":"X","cat":")" + category) + R"(","name":")" + name +
               R"(","pid":1,"tid":)" + std::to_string(thread) + R"(,"ts":)" + std::to_string(start) + R"(,"dur":)" +
               std::to_string(duration) + R"(,"args":{)" + arguments + "}}";
  }
  /// A kernel 10 us after its launch, which takes 4 us.
  void launch(const std::string& name, int thread, int when, int duration, const std::string& arguments = "") {
    const std::string correlation = R"("correlation":)" + std::to_string(++correlation_);
    add("cuda_runtime", "cudaLaunchKernel", thread, when, 4, correlation);
    const int stream = name.starts_with("nccl") ? 20 : 7;
    add("kernel", name, 0, when + 10, duration,
        correlation + R"(,"device":0,"stream":)" + std::to_string(stream) + arguments);
  }
  RecordedJob job() const {
    return recorded_job({recorded_run(
        parse_kineto_trace(R"({"distributedInfo":{"rank":0,"world_size":2},"traceEvents":[)" + events_ + "]}", "t"))});
  }

 private:
  std::string events_;
  int correlation_ = 0;
};

/// Forward for 200 us, backward for 100 and 150 us, each launched when the one before has ended; then an all-reduce of
/// 300 us, for whose end the host waits, and 50 us of the optimizer.
TraceText step(bool has_shapes, bool has_payload) {
  TraceText trace;
  trace.add("user_annotation", "ProfilerStep#1", 1, 0, 1000);
  trace.add("cpu_op", "forward", 1, 0, 215);
  trace.launch("forward_kernel", 1, 10, 200);
  trace.add("cpu_op", "backward", 2, 216, 280);
  const std::string shapes[] = {has_shapes ? R"("Input Dims":[[10,10]],"Input type":["float"])" : "",
                                has_shapes ? R"("Input Dims":[[300]],"Input type":["float"])" : ""};
  trace.launch("gemm", 2, 220, 100);
  trace.add("cpu_op", "torch::autograd::AccumulateGrad", 2, 230, 5, shapes[0]);
  trace.launch("gemm", 2, 330, 150);
  trace.add("cpu_op", "torch::autograd::AccumulateGrad", 2, 340, 5, shapes[1]);
  trace.launch("ncclKernel_AllReduce", 2, 490, 300, has_payload ? R"(,"In msg nelems":400,"dtype":"Float")" : "");
  trace.add("cpu_op", "step", 1, 500, 450);
  trace.add("cuda_runtime", "cudaDeviceSynchronize", 1, 501, 303);
  trace.launch("optimizer_kernel", 1, 810, 50);
  trace.add("cuda_runtime", "cudaDeviceSynchronize", 1, 820, 55);
  return trace;
}

double microseconds(Seconds time) { return time.value() * 1e6; }

Seconds sum_of(const TimedLayers& timed) {
  Seconds sum = timed.optimizer_time;
  for (const TimedLayer& layer : timed.layers) sum += layer.forward + layer.backward;
  return sum;
}

Workload two_variables() {
  Workload workload;
  workload.name = "two";
  workload.variables = {{.name = "first", .shape = {7}, .bytes = Bytes{28}},
                        {.name = "mean", .shape = {9}, .is_trainable = false, .bytes = Bytes{36}},
                        {.name = "second", .shape = {5}, .bytes = Bytes{20}}};
  return workload;
}

}  // namespace

TEST_CASE("layers are what the backward pass adds from one gradient to the next, the exchange left out") {
  const RecordedModel model = recorded_model(step(true, true).job(), {.batch = 8});
  CHECK(model.step == "ProfilerStep#1");
  CHECK(microseconds(model.measured) == doctest::Approx(1000));
  REQUIRE(model.layers.layers.size() == 2);
  const TimedLayer &first = model.layers.layers[0], &second = model.layers.layers[1];
  CHECK(model.layers.batch == 8);
  CHECK(first.gradient == Bytes{1200});  // the last gradient is that of the first layer
  CHECK(second.gradient == Bytes{400});
  CHECK(microseconds(second.backward) == doctest::Approx(100).epsilon(0.01));
  CHECK(microseconds(first.backward) == doctest::Approx(160).epsilon(0.01));  // 10 us of them until it is launched
  // 230 us to the backward pass, and 130 us of the host after the optimizer's kernel.
  CHECK(microseconds(first.forward + second.forward) == doctest::Approx(360).epsilon(0.01));
  CHECK(first.forward / second.forward == doctest::Approx(first.backward / second.backward));
  // 303 us in which the host waited for the all-reduce are gone but for what it needs by itself.
  CHECK(microseconds(model.compute) < 720);
  CHECK(microseconds(model.compute) > 690);
  CHECK(microseconds(sum_of(model.layers)) == doctest::Approx(microseconds(model.compute)));
}

TEST_CASE("sizes are those of a model's variables, the last first, or of what all-reduces exchange") {
  const RecordedJob job = step(false, true).job();
  const RecordedModel named = recorded_model(job, {.batch = 8, .variables = two_variables()});
  REQUIRE(named.layers.layers.size() == 2);
  CHECK(named.layers.layers[0].name == "first");
  CHECK(named.layers.layers[0].gradient == Bytes{28});
  CHECK(named.layers.layers[1].gradient == Bytes{20});
  const RecordedModel exchanged = recorded_model(job, {.batch = 8});
  REQUIRE(exchanged.layers.layers.size() == 1);
  CHECK(exchanged.layers.layers[0].gradient == Bytes{1600});
  CHECK(microseconds(exchanged.compute) == doctest::Approx(microseconds(named.compute)));
  CHECK(exchanged.remarks.size() == 1);
}

TEST_CASE("a step without a marked backward pass says that its exchange hides behind nothing") {
  TraceText trace;
  trace.add("user_annotation", "ProfilerStep#1", 1, 0, 1000);
  trace.launch("forward_kernel", 1, 10, 200);
  trace.launch("ncclKernel_AllReduce", 1, 220, 300, R"(,"In msg nelems":400,"dtype":"Float")");
  trace.launch("gemm", 1, 230, 200);
  trace.add("cuda_runtime", "cudaDeviceSynchronize", 1, 240, 300);
  const RecordedModel model = recorded_model(trace.job(), {.batch = 8});
  CHECK(std::ranges::any_of(
      model.remarks, [](const std::string& remark) { return remark.starts_with("no backward pass is marked"); }));
}

TEST_CASE("a step whose gradients have no size is refused, and so is another number of variables") {
  const RecordedJob job = step(false, false).job();
  CHECK_THROWS_WITH_AS(recorded_model(job, {.batch = 8}),
                       "t: does not say how large the 2 gradients of a step are: record shapes, or name the model with "
                       "--variables",
                       InputError);
  Workload three = two_variables();
  three.variables[1].is_trainable = true;
  CHECK_THROWS_WITH_AS(recorded_model(job, {.batch = 8, .variables = three}),
                       "t: a step completes 2 gradients; two has 3 trainable variables", InputError);
}

TEST_CASE("a what-if changes the work of which the layers are made, and not their gradients") {
  RecordedModelRequest request{.batch = 8};
  request.gpu = "A100";
  request.change.kernels[static_cast<std::size_t>(KernelClass::kMatrixProduct)] = 3;
  const RecordedModel model = recorded_model(step(true, true).job(), request);
  CHECK(model.layers.gpu == "A100");
  REQUIRE(model.layers.layers.size() == 2);
  const TimedLayer &first = model.layers.layers[0], &second = model.layers.layers[1];
  CHECK(first.gradient == Bytes{1200});
  // Both products are on one stream: 300 us, and 450 us behind them.
  CHECK(microseconds(second.backward) == doctest::Approx(300).epsilon(0.01));
  CHECK(microseconds(first.backward) == doctest::Approx(450).epsilon(0.01));
  CHECK(timed_layers_json(model.layers)["gpu"] == "A100");
}

TEST_CASE("of ResNet-50 every gradient has its size, and the layers take the step's time") {
  const RecordedJob job = recorded_job({recorded_run(read_kineto_trace(
      source_folder() + "/calibration/data/pytorch-kineto-traces/resnet50_v100_1gpu_loader0_a.json.gz"))});
  const RecordedModel model = recorded_model(job, {.batch = 32});
  CHECK(model.layers.layers.size() == 161);
  Bytes bytes{};
  for (const TimedLayer& layer : model.layers.layers) bytes += layer.gradient;
  CHECK(bytes == Bytes{std::int64_t{4} * 25'557'032});  // He et al., CVPR 2016, as torchvision counts
  CHECK(sum_of(model.layers) / model.compute == doctest::Approx(1));
  CHECK(model.compute / model.measured == doctest::Approx(1).epsilon(0.05));
}

}  // namespace rehearse::recorded_model_test
