#include "platforms/machine_faults.hpp"

#include <cmath>

#include "sim/base/json.hpp"

namespace rehearse {

MachineFaults read_machine_faults(const JsonReader& json, int gpus) {
  constexpr int kMostSpares = 20'000;
  double rate = 0;
  const auto add = [&](const char* key, int parts) {
    if (!json.has(key)) return;
    const auto mean = json.required<Seconds>(key);
    json.expect(mean >= Seconds{60} && mean <= Seconds{1e12}, key, "a time of at least 1min, at most 1e12s");
    rate += parts / mean.value();
  };
  if (json.has("gpu_mtbf") && gpus == 0) json.fail("gpu_mtbf", "expected \"machine_mtbf\" of machines without GPUs");
  add("gpu_mtbf", gpus);
  add("machine_mtbf", 1);
  if (rate == 0)
    json.fail("expected \"gpu_mtbf\" or \"machine_mtbf\", the mean time between two faults; found neither");
  MachineFaults faults;
  const auto shape = json.optional<double>("shape", 1);
  json.expect(shape >= 0.2 && shape <= 20, "shape", "0.2 to 20");
  if (shape == 1)
    faults.between.law = Exponential{Seconds{1 / rate}};
  else
    faults.between.law = Weibull{.scale = Seconds{1 / rate / std::tgamma(1 + 1 / shape)}, .shape = shape};
  faults.repair_share = json.optional<double>("repair_share", 0);
  json.expect(faults.repair_share >= 0 && faults.repair_share <= 1, "repair_share", "0 to 1");
  const auto time = [&](const char* key, Seconds fallback) {
    const auto value = json.optional<Seconds>(key, fallback);
    if (json.has(key)) json.expect(value <= Seconds{1e9}, key, "at most 1e9s");
    return value;
  };
  if (faults.repair_share > 0 && !json.has("repair_time"))
    json.fail("expected \"repair_time\" beside \"repair_share\": how long a broken machine is away");
  faults.repair = time("repair_time", Seconds{});
  faults.spares = json.optional<int>("spares", 0);
  if (json.has("spares"))
    json.expect(faults.spares >= 0 && faults.spares <= kMostSpares, "spares", "0 to 20000 machines");
  if (faults.spares > 0 && faults.repair_share == 0)
    json.fail("spares", "expected 0 without a \"repair_share\": machines that only start again need none");
  faults.spare_start = time("spare_start_time", Seconds{});
  json.reject_unknown_keys();
  return faults;
}

}  // namespace rehearse
