#include "sim/scenario/input_pipeline.hpp"

#include <algorithm>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

Seconds load_time_of_sample(const Scenario& scenario, const Group& group) {
  if (!scenario.input) return {};
  const InputPipeline& input = *scenario.input;
  const double vcpus = std::max(1.0, static_cast<double>(group.instance.vcpus) / group.workers_per_machine());
  const auto read = [&](const std::optional<BytesPerSecond>& rate, int workers) {
    return rate ? input.sample_size / (*rate / workers) : Seconds{};
  };
  return std::max(
      {(input.decode_time + read(input.read_rate, 1)) / input.loaders.value_or(input.prefetches ? vcpus : 1),
       input.decode_time / vcpus, read(input.read_rate, group.workers_per_machine()),
       read(input.shared_read_rate, scenario.count(Role::kWorker))});
}

}  // namespace rehearse
