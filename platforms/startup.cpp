#include "platforms/startup.hpp"

#include <algorithm>

#include "platforms/profile_fields.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

std::vector<StartupTime> read_stage(const JsonReader& json, const char* stage) {
  std::vector<StartupTime> times;
  for (const JsonReader& entry : json.children(stage)) {
    StartupTime& time = times.emplace_back();
    read_fields(entry, time.condition);
    time.time = read_distribution(entry.child("time"));
    if (entry.has("market"))
      entry.expect(time.condition.market == "on-demand" || time.condition.market == "spot", "market",
                   "\"on-demand\" or \"spot\"");
    entry.reject_unknown_keys();
  }
  return times;
}

const Distribution* find_time(const std::vector<StartupTime>& times, const StartupCondition& condition) {
  const auto fits = [](const std::string& wanted, const std::string& found) {
    return wanted.empty() || wanted == found;
  };
  const auto time = std::find_if(times.begin(), times.end(), [&](const StartupTime& entry) {
    return fits(entry.condition.market, condition.market) && fits(entry.condition.region, condition.region) &&
           fits(entry.condition.accelerator, condition.accelerator);
  });
  return time == times.end() ? nullptr : &time->time;
}

}  // namespace

Seconds Startup::draw(Rng& rng) const {
  Seconds total{};
  for (const Distribution* stage : {&provisioning, &staging, &booting}) total += stage->draw(rng);
  return total;
}

StartupStages Startup::draw(Rng& rng, int trainable_tensors, bool is_cold) const {
  StartupStages stages;
  stages.provisioning = provisioning.draw(rng);
  stages.staging = staging.draw(rng);
  stages.booting = booting.draw(rng);
  stages.framework = framework.time(trainable_tensors, is_cold);
  return stages;
}

Seconds Startup::quantile(double probability) const {
  constexpr int kDraws = 10'001;
  Rng rng{1, "quantiles of start-up times"};
  std::vector<double> totals;
  totals.reserve(kDraws);
  for (int i = 0; i < kDraws; ++i) totals.push_back(draw(rng).value());
  return Seconds{percentile(totals, 100 * probability)};
}

std::optional<Startup> StartupParameters::find(const StartupCondition& condition) const {
  const Distribution* first = find_time(provisioning, condition);
  const Distribution* second = find_time(staging, condition);
  const Distribution* third = find_time(booting, condition);
  if (first == nullptr || second == nullptr || third == nullptr) return {};
  return Startup{*first, *second, *third, framework};
}

StartupParameters read_startup(const JsonReader& json) {
  StartupParameters startup{.source = json.required<std::string>("source"),
                            .provisioning = read_stage(json, "provisioning"),
                            .staging = read_stage(json, "staging"),
                            .booting = read_stage(json, "booting"),
                            .framework = {}};
  if (json.has("framework")) {
    const JsonReader framework = json.child("framework");
    read_fields(framework, startup.framework);
    framework.reject_unknown_keys();
  }
  json.reject_unknown_keys();
  return startup;
}

}  // namespace rehearse
