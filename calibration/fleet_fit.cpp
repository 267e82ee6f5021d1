#include "calibration/fleet_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "calibration/detail/nelder_mead.hpp"

namespace rehearse {

namespace {

constexpr double kFirstShape = -0.7;  // ln: losses come in clusters
constexpr int kFleetsOfFit = 20, kFleetsOfChurn = 40, kFleetsOfCheck = 100, kPolishes = 2, kFleetsOfMean = 1000;
constexpr double kLikeEnough = 0.10;  // distance of up-times with which a pool without churn is kept
constexpr double kClearEvidence = 4;  // of AIC
constexpr std::size_t kBulkValues = 4, kChurnValues = 6;       // of bulk revocations alone, and with churn
constexpr double kMostDistance = 0.12, kMostSizeError = 0.05;  // of a pool that is like its fleet

/// Scales what the times have above their minimum.
Distribution stretched(Distribution law, double factor) {
  struct Stretch {
    double factor;
    void operator()(Exponential& part) const { part.mean = part.mean * factor; }
    void operator()(Weibull& part) const { part.scale = part.scale * factor; }
    void operator()(Lognormal& part) const { part.median = part.median * factor; }
  };
  std::visit(Stretch{factor}, law.law);
  return law;
}
TimeLaw stretched(TimeLaw law, double factor) {
  if (auto* simple = std::get_if<Distribution>(&law.law)) *simple = stretched(*simple, factor);
  if (auto* mixture = std::get_if<Mixture>(&law.law))
    for (Mixture::Part& part : mixture->parts) part.law = stretched(part.law, factor);
  return law;
}

/// ln C(n, k)
double log_choose(int n, int k) { return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0); }

/// Chances of losing k of n machines when the share follows Kumaraswamy's law, by the midpoints of its quantiles.
class LossSizes {
 public:
  LossSizes(double a, double b) {
    constexpr int kPoints = 200;
    for (int i = 0; i < kPoints; ++i) {
      const double u = (i + 0.5) / kPoints;
      const double share = std::clamp(std::pow(-std::expm1(std::log1p(-u) / b), 1 / a), 1e-12, 1 - 1e-12);
      log_hit_.push_back(std::log(share));
      log_missed_.push_back(std::log1p(-share));
    }
  }
  double operator()(int k, int n) const {
    double sum = 0;
    for (std::size_t i = 0; i < log_hit_.size(); ++i) sum += std::exp(k * log_hit_[i] + (n - k) * log_missed_[i]);
    return std::exp(log_choose(n, k)) * sum / static_cast<double>(log_hit_.size());
  }

 private:
  std::vector<double> log_hit_, log_missed_;
};

/// Ages at which looks found a machine, as intervals between looks.
std::vector<LifetimeObservation> as_intervals(const std::vector<LifetimeObservation>& seen, Seconds resolution) {
  std::vector<LifetimeObservation> intervals;
  for (const LifetimeObservation& one : seen)
    intervals.push_back(one.high == kNever
                            ? one
                            : LifetimeObservation{std::max(one.high - resolution, Seconds{}), one.high, one.count});
  return intervals;
}

std::vector<Seconds> look_dates(const std::vector<LifetimeObservation>& seen, Seconds resolution) {
  Seconds longest = resolution;
  for (const LifetimeObservation& one : seen) longest = std::max(longest, one.low);
  std::vector<Seconds> dates;
  const double factor = std::max(1.0, longest / resolution / 2000);  // at most 2000 of them
  for (double k = 1; resolution * k <= longest; k = std::max(k + 1, std::floor(k * (1 + 0.005 * (factor - 1)))))
    dates.push_back(resolution * k);
  return dates;
}

/// What a pool with bulk revocations is made of, as numbers without bounds.
struct BulkShape {
  double interval = 0, shape = 0;  // ln of the mean interval and of its Weibull shape
  double a = 0, b = 0;             // ln of the share's two values
  double stretch = 0;              // ln of the factor of waits and outages
  std::optional<double> life;      // ln of the mean life without bulk revocations; none: never
  std::optional<Churn> churn;      // interval and life are then those in churn, and shape is 0
};
/// Nothing is faster than the looks.
bool is_within_bounds(const BulkShape& bulk, Seconds resolution) {
  const auto within = [](double value, double low, double high) {
    return value >= std::log(low) && value <= std::log(high);
  };
  if (bulk.churn && !(bulk.churn->factor >= 1 && bulk.churn->factor <= 1e4 &&
                      std::min(bulk.churn->calm_mean, bulk.churn->churn_mean) >= std::max(resolution, Seconds{60}) &&
                      std::max(bulk.churn->calm_mean, bulk.churn->churn_mean) <= Seconds{1e8}))
    return false;
  return within(bulk.a, 0.05, 100) && within(bulk.b, 0.05, 100) && within(bulk.shape, 0.2, 5) &&
         within(bulk.interval, resolution.value(), 1e8) && within(bulk.stretch, 0.01, 100) &&
         (!bulk.life || within(*bulk.life, resolution.value(), 1e9));
}
SpotPool with_bulk(const BulkShape& bulk, SpotPool pool) {
  const double factor_of_calm = bulk.churn ? bulk.churn->factor : 1;
  const Seconds life = bulk.life ? std::min(Seconds{std::exp(*bulk.life) * factor_of_calm}, kLongest) : kLongest;
  pool.lifetime.law = {Distribution{Exponential{life}}};
  pool.churn = bulk.churn;
  if (!pool.bulk) pool.bulk.emplace();
  const double shape = std::exp(bulk.shape), mean = std::exp(bulk.interval) * factor_of_calm;
  pool.bulk->share_a = std::exp(bulk.a);
  pool.bulk->share_b = std::exp(bulk.b);
  if (bulk.shape == 0)
    pool.bulk->interval.law = Exponential{Seconds{mean}};
  else
    pool.bulk->interval.law = Weibull{Seconds{mean / std::tgamma(1 + 1 / shape)}, shape};
  const double factor = std::exp(bulk.stretch);
  if (pool.wait) pool.wait = stretched(*pool.wait, factor);
  if (pool.bulk->outage) pool.bulk->outage = stretched(*pool.bulk->outage, factor);
  return pool;
}

/// Bulk revocations and single ones.
BulkShape fit_bulk(const FleetRecord& record) {
  const auto badness = [&](const std::vector<double>& x) {
    for (const double value : x)
      if (std::abs(value) > 20) return std::numeric_limits<double>::infinity();
    const double interval = std::exp(x[0]), life = x.size() > 3 ? std::exp(x[3]) : kLongest.value();
    const double a = std::exp(x[1]), b = std::exp(x[2]);
    if (a < 0.05 || a > 100 || b < 0.05 || b > 100) return std::numeric_limits<double>::infinity();
    const LossSizes sizes{a, b};
    double value = 0;
    for (int n = 1; n <= record.slots; ++n) {
      const Seconds time = record.time_with[static_cast<std::size_t>(n)];
      if (time > Seconds{}) value += time.value() * ((1 - sizes(0, n)) / interval + n / life);
    }
    std::map<std::pair<int, int>, double> rates;
    for (const FleetLoss& loss : record.losses) {
      auto [rate, is_new] = rates.try_emplace({loss.size, loss.before});
      if (is_new) rate->second = sizes(loss.size, loss.before) / interval + (loss.size == 1 ? loss.before / life : 0);
      value -= std::log(rate->second);
    }
    return value;
  };
  const double interval = std::log(record.duration.value() / static_cast<double>(record.losses.size()));
  double lost = 0;
  for (const FleetLoss& loss : record.losses) lost += loss.size;
  const double life = std::log(2 * record.duration.value() * record.mean_size / lost);
  std::vector<std::pair<Minimum, double>> fits;
  for (const bool has_singles : {false, true}) {
    Minimum best{{}, std::numeric_limits<double>::infinity()};
    for (const auto& [a, b] : {std::pair{0.0, 1.5}, std::pair{-1.0, -0.5}}) {
      std::vector<double> start{interval, a, b};
      if (has_singles) start.push_back(life);
      Minimum found = nelder_mead(badness, start, 0.5, 1e-6, 600);
      if (found.value < best.value) best = std::move(found);
    }
    fits.emplace_back(best, 2 * best.value + 2 * static_cast<double>(best.at.size()));
  }
  const Minimum& best = fits[1].second < fits[0].second ? fits[1].first : fits[0].first;
  BulkShape bulk{.interval = best.at[0], .a = best.at[1], .b = best.at[2]};
  if (best.at.size() > 3) bulk.life = best.at[3];
  return bulk;
}

double mean_size_of(const SpotPool& pool, const FleetRecord& record, bool has_names, int fleets,
                    const std::function<void()>& on_step) {
  double sum = 0;
  for (int i = 0; i < fleets; ++i) {
    if (on_step) on_step();
    sum += observe(simulate_fleet(pool, record.slots, record.duration, has_names, static_cast<std::uint64_t>(i)),
                   record.resolution, record.slots)
               .mean_size;
  }
  return sum / fleets;
}

/// Stretches waits and outages until the mean size comes out.
void match_mean_size(SpotPool& pool, const FleetRecord& record, bool has_names, const std::function<void()>& on_step) {
  if (!pool.wait && !(pool.bulk && pool.bulk->outage)) return;
  const auto with_factor = [&](double factor) {
    SpotPool changed = pool;
    if (changed.wait) changed.wait = stretched(*changed.wait, factor);
    if (changed.bulk && changed.bulk->outage) changed.bulk->outage = stretched(*changed.bulk->outage, factor);
    return changed;
  };
  double low = std::log(0.02), high = std::log(50);
  for (int i = 0; i < 14; ++i) {
    const double middle = (low + high) / 2;
    (mean_size_of(with_factor(std::exp(middle)), record, has_names, kFleetsOfMean, on_step) > record.mean_size ? low
                                                                                                               : high) =
        middle;
  }
  pool = with_factor(std::exp((low + high) / 2));
}

}  // namespace

FleetTrace simulate_fleet(const SpotPool& pool, int slots, Seconds duration, bool has_names, std::uint64_t seed) {
  Fleet fleet{{{.slots = slots, .pool = pool, .replaced_by = 0}}, 0, seed};
  FleetTrace trace{.end = duration, .has_names = has_names};
  std::vector<std::string> names(static_cast<std::size_t>(slots));
  int machines = 0;
  const auto name_next = [&](int slot) {
    if (has_names) names[static_cast<std::size_t>(slot)] = std::to_string(machines++);
    return names[static_cast<std::size_t>(slot)];
  };
  for (int slot = 0; slot < slots; ++slot) trace.events.push_back({Seconds{}, true, name_next(slot)});
  while (const auto event = fleet.next(duration)) {
    if (event->at > duration) break;
    if (event->kind == FleetEvent::Kind::kRevoked)
      trace.events.push_back({event->at, false, names[static_cast<std::size_t>(event->slot)]});
    else if (event->kind == FleetEvent::Kind::kRunning)
      trace.events.push_back({event->at, true, name_next(event->slot)});
  }
  return trace;
}

double loss_size_distance(const std::vector<FleetLoss>& a, const std::vector<FleetLoss>& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty() ? 0 : 1;
  std::map<int, std::pair<double, double>> shares;
  for (const FleetLoss& loss : a) shares[loss.size].first += 1 / static_cast<double>(a.size());
  for (const FleetLoss& loss : b) shares[loss.size].second += 1 / static_cast<double>(b.size());
  double distance = 0, first = 0, second = 0;
  for (const auto& [size, share] : shares) {
    first += share.first;
    second += share.second;
    distance = std::max(distance, std::abs(first - second));
  }
  return distance;
}

FleetComparison compare(const FleetRecord& record, const SpotPool& pool, bool has_names, int fleets, std::uint64_t seed,
                        const std::function<void()>& on_step) {
  FleetComparison result{.mean_size = record.mean_size, .losses = static_cast<int>(record.losses.size())};
  std::vector<LifetimeObservation> lives;
  std::vector<FleetLoss> losses;
  for (int i = 0; i < fleets; ++i) {
    if (on_step) on_step();
    const FleetRecord simulated =
        observe(simulate_fleet(pool, record.slots, record.duration, has_names, seed + static_cast<std::uint64_t>(i)),
                record.resolution, record.slots);
    lives.insert(lives.end(), simulated.lives.begin(), simulated.lives.end());
    losses.insert(losses.end(), simulated.losses.begin(), simulated.losses.end());
    result.simulated_mean_size += simulated.mean_size / fleets;
  }
  result.observed = kaplan_meier(record.lives);
  result.simulated = kaplan_meier(lives);
  for (const Seconds date : look_dates(record.lives, record.resolution))
    result.life_distance =
        std::max(result.life_distance, std::abs(result.observed.at(date) - result.simulated.at(date)));
  if (record.slots > 1) result.loss_size_distance = loss_size_distance(record.losses, losses);
  return result;
}

ChurnEvidence churn_evidence(const FleetRecord& record) {
  std::vector<double> intervals;
  double last = 0, end = 0;
  for (const FleetLoss& loss : record.losses) {
    intervals.push_back(std::max(loss.watched.value() - last, record.resolution.value()));
    last = loss.watched.value();
  }
  for (std::size_t n = 1; n < record.time_with.size(); ++n) end += record.time_with[n].value();
  const double rest = std::max(end - last, 0.0);
  const auto renewal = [&](const std::vector<double>& x) {
    const double scale = std::exp(x[0]), shape = std::exp(x[1]);
    double value = std::pow(rest / scale, shape);
    for (const double t : intervals)
      value += std::pow(t / scale, shape) - std::log(shape / scale) - (shape - 1) * std::log(t / scale);
    return value;
  };
  const auto modulated = [&](const std::vector<double>& x) {
    // calm to churn and back; losses in calm and in churn
    const double up = std::exp(-x[2]), down = std::exp(-x[3]), calm = std::exp(-x[0]), churn = std::exp(x[1] - x[0]);
    if (x[1] < 0 || calm > 1 || churn > 1 || up > 1.0 / 60 || down > 1.0 / 60 || x[2] > 20 || x[3] > 20)
      return std::numeric_limits<double>::infinity();
    double in_calm = down / (up + down), in_churn = up / (up + down), log_sum = 0;
    const auto pass = [&](double t, bool ends_with_loss) {
      // exp(M t) = e^(m t) (cosh(d t) 1 + sinh(d t) / d (M - m 1)), with the half trace m and d^2 = m^2 - det M
      const double a = -up - calm, b = -down - churn, m = (a + b) / 2;
      const double d = std::sqrt((a - b) * (a - b) / 4 + up * down);
      const double fast = std::exp(-2 * d * t), c = (1 + fast) / 2, s = (1 - fast) / (2 * d);
      const double next_calm = in_calm * (c + s * (a - m)) + in_churn * s * down;
      const double next_churn = in_calm * s * up + in_churn * (c + s * (b - m));
      in_calm = next_calm * (ends_with_loss ? calm : 1);
      in_churn = next_churn * (ends_with_loss ? churn : 1);
      const double sum = in_calm + in_churn;
      log_sum += std::log(std::max(sum, 1e-300)) + (m + d) * t;
      in_calm /= sum;
      in_churn /= sum;
    };
    for (const double t : intervals) pass(t, true);
    pass(rest, false);
    return -log_sum;
  };
  const double mean = std::log(end / static_cast<double>(std::max<std::size_t>(intervals.size(), 1)));
  const Minimum weibull = nelder_mead(renewal, {mean, -0.5}, 0.5, 1e-6, 600);
  Minimum best{{}, std::numeric_limits<double>::infinity()};
  for (const double spell : {end / 10, end / 40}) {
    for (const double factor : {5.0, 30.0}) {
      const double length = std::log(std::max(spell, 120.0));
      Minimum found = nelder_mead(modulated, {mean + std::log(factor) / 2, std::log(factor), length, length - 0.5}, 0.5,
                                  1e-6, 1000);
      if (found.value < best.value) best = std::move(found);
    }
  }
  return {.churn = {std::exp(best.at[1]), Seconds{std::exp(best.at[2])}, Seconds{std::exp(best.at[3])}},
          .calm_interval = Seconds{std::exp(best.at[0])},
          .renewal_aic = 2 * 2 + 2 * weibull.value,
          .churn_aic = 2 * 4 + 2 * best.value};
}

namespace {

Seconds mean_wait(const FleetRecord& record) {
  Seconds sum{};
  double count = 0;
  for (const LifetimeObservation& wait : record.waits) {
    sum += wait.low;
    count += wait.high == kNever ? 0 : 1;
  }
  return sum / std::max(count, 1.0);
}
Seconds mean_gap(const FleetRecord& record) {
  Seconds sum{};
  for (const Seconds gap : record.gaps) sum += gap;
  return sum / std::max(static_cast<double>(record.gaps.size()), 1.0);
}

/// What nelder_mead() gives where nothing is finite.
constexpr double kNoFit = std::numeric_limits<double>::max();

/// A law of losses whose values are looked for, and with what machines come back.
struct Structure {
  FleetFit fit;                        // its wait or outage; `pool` without bulk revocations
  bool has_life = false;               // machines are also lost one by one
  std::optional<ChurnEvidence> churn;  // calm and churn take turns

  bool has_both() const { return fit.pool.wait && fit.pool.bulk; }
  /// Of the values that all structures have, which come before life and wait.
  std::size_t common_values() const { return churn ? 7 : 5; }
};

class FleetFitter {
 public:
  FleetFitter(const FleetRecord& record, bool has_names, const std::function<void()>& on_step)
      : record_{record}, has_names_{has_names}, on_step_{on_step} {}

  FleetFit fit() {
    if (record_.slots == 1 || record_.losses.empty()) return fit_lives("");
    if (record_.losses.size() < kBulkValues)
      return fit_lives(" (no bulk revocations: fewer losses than their " + std::to_string(kBulkValues) + " values)");
    if (record_.waits.empty() && record_.gaps.empty()) return fit_lives(" (no bulk revocations: no machine came back)");
    likeliest_ = fit_bulk(record_);
    const std::vector<FleetFit> returns = list_returns();
    for (const FleetFit& one : returns)
      for (const bool has_life : {false, true})
        if (!has_life || record_.losses.size() > kBulkValues) try_structure({.fit = one, .has_life = has_life});
    if (best_.second == kNoFit) return fit_lives(" (no law of bulk revocations fits)");
    if (compare(record_, best_.first.pool, has_names_, kFleetsOfCheck, 1000).life_distance <= kLikeEnough)
      return best_.first;
    const ChurnEvidence churn = churn_evidence(record_);
    if (record_.losses.size() < kChurnValues || churn.churn_aic > churn.renewal_aic - kClearEvidence)
      return best_.first;
    for (const FleetFit& one : returns)
      if (!one.pool.wait || !one.pool.bulk) try_structure({.fit = with_one_value(one), .churn = churn});
    return best_.first;
  }

 private:
  LifetimeFit fit_times(const std::vector<LifetimeObservation>& seen, int most_values, Seconds minimum) const {
    return fit_lifetime(as_intervals(seen, record_.resolution), {.edges = look_dates(seen, record_.resolution),
                                                                 .most_values = most_values,
                                                                 .minimum = minimum,
                                                                 .always_ends = minimum > Seconds{},
                                                                 .looked_at_every = record_.resolution,
                                                                 .on_step = on_step_})
        .front();
  }

  /// Each machine is lost by itself.
  FleetFit fit_lives(const std::string& reason) const {
    const LifetimeFit lives = fit_times(record_.lives, 5, Seconds{});
    FleetFit fit{.life_law = lives.law + reason, .life_values = lives.values};
    fit.pool.lifetime = lives.lifetime;
    if (!record_.waits.empty()) {
      const LifetimeFit waits = fit_times(record_.waits, 5, record_.resolution);
      fit.pool.wait = waits.lifetime.law;
      fit.wait_law = waits.law;
      fit.wait_values = waits.values;
    }
    match_mean_size(fit.pool, record_, has_names_, on_step_);
    return fit;
  }

  /// Ways in which machines come back: after waits, after outages, and if there are both, after both.
  std::vector<FleetFit> list_returns() const {
    std::vector<FleetFit> returns;
    if (!record_.waits.empty()) {
      const LifetimeFit waits = fit_times(record_.waits, 3, record_.resolution);
      returns.push_back({.wait_law = "waits: " + waits.law, .wait_values = waits.values});
      returns.back().pool.wait = waits.lifetime.law;
    }
    if (!record_.gaps.empty()) {
      std::vector<LifetimeObservation> gaps;
      for (const Seconds gap : record_.gaps) gaps.push_back({gap, gap});
      const LifetimeFit outages = fit_times(gaps, 3, record_.resolution);
      returns.push_back({.wait_law = "outages: " + outages.law, .wait_values = outages.values});
      returns.back().pool.bulk.emplace().outage = outages.lifetime.law;
    }
    if (returns.size() == 2) {
      returns.push_back(returns.back());
      returns.back().wait_law += "; waits: exponential";
      returns.back().wait_values += 1;
      returns.back().pool.wait = {Distribution{Exponential{record_.resolution}, record_.resolution}};
    }
    return returns;
  }

  /// The same with the exponential law of the mean wait or gap.
  FleetFit with_one_value(FleetFit fit) const {
    const bool waits = fit.pool.wait.has_value();
    const Seconds mean = waits ? mean_wait(record_) : mean_gap(record_);
    const TimeLaw once{
        Distribution{Exponential{std::max(mean - record_.resolution, record_.resolution * 0.1)}, record_.resolution}};
    fit.wait_law = waits ? "waits: exponential" : "outages: exponential";
    fit.wait_values = 1;
    if (waits)
      fit.pool.wait = once;
    else
      fit.pool.bulk->outage = once;
    return fit;
  }

  /// Values: interval, share (2), stretch; without churn the interval's shape, with it factor and means (3); life; wait.
  std::optional<SpotPool> pool_of(const Structure& structure, const std::vector<double>& x) const {
    BulkShape bulk{.interval = x[0], .shape = x[1], .a = x[2], .b = x[3], .stretch = x[4], .life = {}};
    if (structure.churn)
      bulk = {.interval = x[0],
              .shape = 0,
              .a = x[1],
              .b = x[2],
              .stretch = x[3],
              .churn = Churn{std::exp(x[4]), Seconds{std::exp(x[5])}, Seconds{std::exp(x[6])}}};
    if (structure.has_life) bulk.life = x[structure.common_values()];
    if (!is_within_bounds(bulk, record_.resolution) || std::abs(x.back()) > 25) return {};
    SpotPool pool = with_bulk(bulk, structure.fit.pool);
    if (pool.bulk->mean_share() < 0.002) return {};
    if (structure.has_both()) pool.wait = {Distribution{Exponential{Seconds{std::exp(x.back())}}, record_.resolution}};
    return pool;
  }

  /// How unlike the fleet a pool is, by its up-times, the sizes of its losses and its mean size.
  double badness(const Structure& structure, const std::vector<double>& x) const {
    const std::optional<SpotPool> pool = pool_of(structure, x);
    if (!pool) return std::numeric_limits<double>::infinity();
    const FleetComparison likeness =
        compare(record_, *pool, has_names_, structure.churn ? kFleetsOfChurn : kFleetsOfFit, 1, on_step_);
    const double size = (likeness.simulated_mean_size / likeness.mean_size - 1) / kMostSizeError;
    const double life = likeness.life_distance / kMostDistance;
    const double loss = likeness.loss_size_distance / kMostDistance;
    return life * life + loss * loss + size * size;
  }

  std::vector<double> start_of(const Structure& structure) const {
    std::vector<double> start{likeliest_.interval, kFirstShape, likeliest_.a, likeliest_.b, 0};
    if (const auto& churn = structure.churn)
      start = {std::log(churn->calm_interval.value() / churn->churn.factor),
               likeliest_.a,
               likeliest_.b,
               0,
               std::log(std::min(churn->churn.factor, 1000.0)),
               std::log(churn->churn.calm_mean.value()),
               std::log(churn->churn.churn_mean.value())};
    if (structure.has_life) start.push_back(likeliest_.life.value_or(std::log(4 * record_.duration.value())));
    if (structure.has_both()) start.push_back(std::log(record_.resolution.value()));
    return start;
  }

  /// Keeps it if it is the best so far.
  void try_structure(const Structure& structure) {
    const bool has_churn = structure.churn.has_value();
    const auto badness_of = [&](const std::vector<double>& x) { return badness(structure, x); };
    Minimum found = nelder_mead(badness_of, start_of(structure), 0.4, 1e-3, has_churn ? 240 : 120);
    found = nelder_mead(badness_of, found.at, 0.2, 1e-3, has_churn ? 120 : 80);
    for (int i = 0; has_churn && i < kPolishes && found.value < 2 * best_.second; ++i)
      found = nelder_mead(badness_of, found.at, 0.3, 1e-3, 160);
    if (found.value >= best_.second) return;
    best_ = {structure.fit, found.value};
    best_.first.pool = *pool_of(structure, found.at);
    best_.first.life_law = std::string{structure.has_life ? "bulk and single revocations" : "bulk revocations"} +
                           (has_churn ? ", calm and churn" : "");
    best_.first.life_values = (has_churn ? 6 : 4) + (structure.has_life ? 1 : 0);
  }

  const FleetRecord& record_;
  const bool has_names_;
  const std::function<void()>& on_step_;
  BulkShape likeliest_;                           // of bulk revocations without churn
  std::pair<FleetFit, double> best_{{}, kNoFit};  // and how bad it is
};

}  // namespace

FleetFit fit_fleet(const FleetRecord& record, bool has_names, const std::function<void()>& on_step) {
  return FleetFitter{record, has_names, on_step}.fit();
}

}  // namespace rehearse
