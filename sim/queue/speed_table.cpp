#include "sim/queue/speed_table.hpp"

#include <algorithm>
#include <cstdlib>

#include "sim/queue/queue.hpp"

namespace rehearse {

namespace {

std::int64_t positive(const CsvRow& row, const char* column, std::int64_t most) {
  const std::int64_t value = row.integer(column);
  if (value < 1 || value > most) row.fail(column, "expected 1 to " + std::to_string(most));
  return value;
}

}  // namespace

SpeedTable::SpeedTable(const CsvTable& csv) {
  const bool has_machines = csv.has_column("machines"), has_steps = csv.has_column("steps"),
             has_samples = csv.has_column("samples_per_step");
  for (const CsvRow& row : csv.rows()) {
    const std::string type{row.text("type")}, gpu{row.text("gpu")};
    if (type.empty()) row.fail("type", "expected a name");
    const int gpus = static_cast<int>(positive(row, "gpus", kMostQueueGpus));
    const double speed = row.number("steps_per_s");
    if (speed < 0 || speed > 1e12) row.fail("steps_per_s", "expected a speed from 0 to 1e12");
    const int machines =
        has_machines && !row.text("machines").empty() ? static_cast<int>(positive(row, "machines", kMostQueueGpus)) : 0;
    if (!speeds_[{type, gpu, gpus}].emplace(machines, speed).second)
      row.fail("type", "expected each type, gpu, gpus and machines once; found it in an earlier row, too");
    Type& known = types_[type];
    if (has_steps && !row.text("steps").empty()) {
      const std::int64_t steps = positive(row, "steps", kMostQueueSteps);
      if (known.steps.value_or(steps) != steps) row.fail("steps", "expected the same number in all rows of the type");
      known.steps = steps;
    }
    if (has_samples && !row.text("samples_per_step").empty()) {
      const std::int64_t samples = positive(row, "samples_per_step", std::int64_t{1000} * kMostQueueGpus);
      if (!known.samples_per_step.emplace(gpus, samples).second && known.samples_per_step[gpus] != samples)
        row.fail("samples_per_step", "expected the same number in all rows of the type and these GPUs");
    }
  }
}

std::optional<double> SpeedTable::speed(const std::string& type, const std::string& gpu, int gpus, int machines) const {
  const auto found = speeds_.find({type, gpu, gpus});
  if (found == speeds_.end()) return std::nullopt;
  const auto best = [&] {
    auto nearest = found->second.begin();
    for (auto row = found->second.begin(); row != found->second.end(); ++row)
      if (row->first > 0 &&
          (nearest->first == 0 || std::abs(row->first - machines) <= std::abs(nearest->first - machines)))
        nearest = row;
    return nearest;
  }();
  if (best->first != machines)
    if (const auto any = found->second.find(0); any != found->second.end()) return any->second;
  return best->second;
}

bool SpeedTable::states(const std::string& type, const std::string& gpu, int gpus, int machines) const {
  const auto found = speeds_.find({type, gpu, gpus});
  return found != speeds_.end() && (found->second.contains(machines) || found->second.contains(0));
}

std::vector<std::string> SpeedTable::types() const {
  std::vector<std::string> names;
  for (const auto& [name, type] : types_) names.push_back(name);
  return names;
}

std::optional<std::int64_t> SpeedTable::steps(const std::string& type) const {
  const auto found = types_.find(type);
  return found == types_.end() ? std::nullopt : found->second.steps;
}

int SpeedTable::most_gpus(const std::string& type) const {
  int most = 0;
  for (const auto& [row, speeds] : speeds_)
    if (std::get<0>(row) == type) most = std::max(most, std::get<2>(row));
  return most;
}

std::int64_t SpeedTable::samples_per_step(const std::string& type, int gpus) const {
  const auto found = types_.find(type);
  if (found == types_.end()) return 0;
  const auto samples = found->second.samples_per_step.find(gpus);
  return samples == found->second.samples_per_step.end() ? 0 : samples->second;
}

SpeedTable load_speed_table(const std::filesystem::path& file) { return SpeedTable{load_csv_file(file)}; }

}  // namespace rehearse
