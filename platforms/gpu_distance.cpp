#include "platforms/gpu_distance.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace rehearse {

double distance(const Accelerator& a, const Accelerator& b) {
  return std::hypot(std::log(a.peak_fp32 / b.peak_fp32), std::log(a.peak_fp16 / b.peak_fp16),
                    std::log(a.memory_bandwidth / b.memory_bandwidth));
}

NearestGpu nearest_gpu(const Accelerator& gpu, const std::set<std::string>& names, const Catalog& catalog) {
  NearestGpu nearest;
  for (const std::string& name : names) {
    double far = 0;
    if (name != gpu.name) {
      const Accelerator* known = catalog.known_accelerator(name);
      far = known == nullptr ? kFarAway : distance(*known, gpu);
    }
    if (far < nearest.distance) nearest = {name, far};
  }
  return nearest;
}

std::set<std::string> known_gpus(const Profile& profile) {
  std::set<std::string> gpus{profile.fitted_accelerators.begin(), profile.fitted_accelerators.end()};
  for (const StepTime& step : profile.step_times) gpus.insert(step.accelerator);
  for (const auto& [gpu, efficiency] : profile.gpu.peak_efficiency) gpus.insert(gpu);
  return gpus;
}

}  // namespace rehearse
