#include "platforms/churn.hpp"

#include <algorithm>
#include <iterator>

#include "platforms/lifetime.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

Churn read_churn(const JsonReader& json) {
  const auto mean = [&](const char* key) {
    const auto time = json.required<Seconds>(key);
    json.expect(time >= Seconds{60} && time <= Seconds{1e9}, key, "a time of at least 1min, at most 1e9s");
    return time;
  };
  const Churn churn{
      .factor = json.required<double>("factor"), .calm_mean = mean("calm_mean"), .churn_mean = mean("churn_mean")};
  json.expect(churn.factor >= 1 && churn.factor <= 1e4, "factor", "1 to 10000");
  json.reject_unknown_keys();
  return churn;
}

ChurnClock::ChurnClock(const Churn& churn, Rng rng) : churn_{churn}, rng_{rng} {
  spells_.push_back({.is_churn = rng_.uniform() < churn_.share()});
}

void ChurnClock::extend(Seconds at) {
  while (spells_.back().from <= at) {
    const Spell& last = spells_.back();
    const Seconds mean = last.is_churn ? churn_.churn_mean : churn_.calm_mean;
    const Seconds length = std::max(Seconds{rng_.exponential(mean.value())}, kShortestPeriod);
    spells_.push_back({last.from + length, last.age + length * rate(last), !last.is_churn});
  }
}

const ChurnClock::Spell& ChurnClock::spell_at(Seconds at) {
  extend(at);
  return *std::prev(std::upper_bound(spells_.begin(), spells_.end(), at,
                                     [](Seconds date, const Spell& spell) { return date < spell.from; }));
}

bool ChurnClock::is_churn(Seconds at) { return spell_at(at).is_churn; }

Seconds ChurnClock::aged(Seconds at) {
  const Spell& spell = spell_at(at);
  return spell.age + (at - spell.from) * rate(spell);
}

std::optional<Seconds> ChurnClock::date(Seconds age, Seconds horizon) {
  if (age > aged(horizon)) return {};
  const Spell& spell = *std::prev(std::upper_bound(
      spells_.begin(), spells_.end(), age, [](Seconds value, const Spell& later) { return value < later.age; }));
  return spell.from + (age - spell.age) / rate(spell);
}

}  // namespace rehearse
