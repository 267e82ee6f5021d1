#include "sim/plan/recorded_model.hpp"

#include <doctest/doctest.h>

#include <cstdio>

#include "sim/base/errors.hpp"

namespace rehearse {

TEST_CASE("explore") {
  for (const char* name : {"resnet50_v100_1gpu_loader0_a", "ddp_a100_8gpu_rank3", "ddp_a100_2gpu_rank0", "train_v100_1gpu_ns", "train_v100_2gpu_rank1", "resnet_2080ti_1gpu_kineto", "alexnet_a100_1gpu", "dlrm_v100_8gpu/kineto_rank2"}) {
    try {
      const RecordedJob job = recorded_job({recorded_run(read_kineto_trace(std::string{"/work/shared/data/pytorch-kineto-traces/"} + name + ".json.gz"))});
      const RecordedModel model = recorded_model(job, {.batch = 32});
      Seconds forward{}, backward{};
      Bytes bytes{};
      for (const TimedLayer& layer : model.layers.layers) { forward += layer.forward; backward += layer.backward; bytes += layer.gradient; }
      std::printf("%s: %s measured %g compute %g; %zu layers fw %g bw %g opt %g bytes %lld\n", name, model.step.c_str(), model.measured.value() * 1e3, model.compute.value() * 1e3, model.layers.layers.size(), forward.value() * 1e3, backward.value() * 1e3, model.layers.optimizer_time.value() * 1e3, (long long)bytes.value());
      for (const std::string& r : model.remarks) std::printf("   %s\n", r.c_str());
    } catch (const InputError& e) { std::printf("%s\n", e.what()); }
  }
}

}  // namespace rehearse
