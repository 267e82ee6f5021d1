#include "calibration/lifetime_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "calibration/detail/nelder_mead.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Values of a law as numbers without bounds, in the order in which it takes them.
class Values {
 public:
  Values(const std::vector<double>& x, Seconds shortest) : x_{x}, shortest_{shortest.value()} {}
  Seconds time() { return Seconds{std::clamp(std::exp(next()), shortest_, kLongest.value())}; }
  double share() { return std::clamp(logistic(next()), 1e-4, 1 - 1e-4); }
  /// The spike that one hour's batch makes is no law: widths are bounded.
  double shape() { return std::clamp(std::exp(next()), 0.3, 20.0); }
  double sigma() { return std::clamp(std::exp(next()), 0.05, 10.0); }

 private:
  double next() { return x_[used_++]; }
  const std::vector<double>& x_;
  double shortest_;
  std::size_t used_ = 0;
};

enum class Kind { kTime, kShare, kShape, kSigma };

struct Candidate {
  std::string name;
  std::vector<Kind> values;
  std::function<Lifetime(Values)> build;
};

Distribution exponential(Values& values) { return {.law = Exponential{values.time()}}; }
Distribution weibull(Values& values) {
  const Seconds scale = values.time();
  return {.law = Weibull{scale, values.shape()}};
}
Distribution lognormal(Values& values) {
  const Seconds median = values.time();
  return {.law = Lognormal{median, values.sigma()}};
}

struct Family {
  const char* name;
  std::vector<Kind> values;
  Distribution (*read)(Values&);
};

std::vector<Candidate> candidates(const LifetimeFitOptions& options, int most_values) {
  const std::vector<Family> families{{"exponential", {Kind::kTime}, exponential},
                                     {"Weibull", {Kind::kTime, Kind::kShape}, weibull},
                                     {"lognormal", {Kind::kTime, Kind::kSigma}, lognormal}};
  std::vector<Candidate> all;
  for (const Family& family : families) {
    const auto read = family.read;
    all.push_back({family.name, family.values, [read](Values v) { return Lifetime{.law = {read(v)}}; }});
    std::vector<Kind> with_share{Kind::kShare};
    with_share.insert(with_share.end(), family.values.begin(), family.values.end());
    all.push_back({std::string{family.name} + " of a share, the others never", with_share, [read](Values v) {
                     const double share = v.share();
                     return Lifetime{.law = {Mixture{{{share, read(v)}}}}};
                   }});
  }
  for (std::size_t i = 0; i < families.size(); ++i) {
    for (std::size_t j = i; j < families.size(); ++j) {
      for (const bool has_rest : {false, true}) {
        std::vector<Kind> kinds(has_rest ? 2U : 1U, Kind::kShare);
        kinds.insert(kinds.end(), families[i].values.begin(), families[i].values.end());
        kinds.insert(kinds.end(), families[j].values.begin(), families[j].values.end());
        const auto first = families[i].read, second = families[j].read;
        all.push_back(
            {std::string{"mixture of "} + families[i].name + " and " + families[j].name +
                 (has_rest ? ", the others never" : ""),
             kinds, [first, second, has_rest](Values v) {
               const double all_shares = has_rest ? v.share() : 1;
               const double share = v.share();
               const Distribution a = first(v);
               return Lifetime{.law = {Mixture{{{all_shares * share, a}, {all_shares * (1 - share), second(v)}}}}};
             }});
      }
    }
  }
  if (options.deadline) {
    const Seconds deadline = *options.deadline;
    all.push_back({"bathtub", {Kind::kShare, Kind::kShare, Kind::kTime, Kind::kTime}, [deadline](Values v) {
                     const double total = v.share(), early = v.share();
                     const Seconds mean = v.time(), rise = std::min(v.time(), deadline);
                     return Lifetime{.law = {Bathtub{total * early, mean, total * (1 - early), rise, deadline}}};
                   }});
  }
  if (options.start_within) {
    const Seconds within = *options.start_within;
    const std::size_t without = all.size();
    for (std::size_t i = 0; i < without; ++i) {
      Candidate with = all[i];
      with.name = "mass at the start and " + with.name;
      with.values.insert(with.values.begin(), Kind::kShare);
      with.build = [within, law = all[i].build](Values v) {
        const double share = v.share();
        Lifetime lifetime = law(v);
        lifetime.start_share = share;
        lifetime.start_within = within;
        return lifetime;
      };
      all.push_back(std::move(with));
    }
    all.push_back({"mass at the start, the others never", {Kind::kShare}, [within](Values v) {
                     return Lifetime{.law = {Distribution{Exponential{kLongest}}},
                                     .start_share = v.share(),
                                     .start_within = within};
                   }});
  }
  std::erase_if(all, [&](const Candidate& candidate) {
    const bool lasts_for_ever = candidate.name.find("the others never") != std::string::npos;
    return static_cast<int>(candidate.values.size()) > most_values || (options.always_ends && lasts_for_ever);
  });
  return all;
}

Lifetime with_minimum(Lifetime lifetime, Seconds minimum) {
  if (auto* law = std::get_if<Distribution>(&lifetime.law.law)) law->minimum = minimum;
  if (auto* mixture = std::get_if<Mixture>(&lifetime.law.law))
    for (Mixture::Part& part : mixture->parts) part.law.minimum = minimum;
  return lifetime;
}

std::vector<LifetimeObservation> merged(const std::vector<LifetimeObservation>& observations) {
  std::map<std::pair<double, double>, double> counts;
  for (const LifetimeObservation& seen : observations) counts[{seen.low.value(), seen.high.value()}] += seen.count;
  std::vector<LifetimeObservation> result;
  for (const auto& [interval, count] : counts)
    if (count > 0) result.push_back({Seconds{interval.first}, Seconds{interval.second}, count});
  return result;
}

/// Share of the machines that live longer than `age`, among those that are seen at all.
class SeenSurvival {
 public:
  SeenSurvival(const Lifetime& lifetime, std::optional<Seconds> every)
      : lifetime_{lifetime}, every_{every}, seen_{every ? mean_until(*every) : 1} {}
  double operator()(Seconds age) const {
    return every_ ? mean_until(age + *every_) / std::max(seen_, 1e-300) : lifetime_.survival(age);
  }

 private:
  /// Mean of the survival over [end - every, end] by Gauss and Legendre's five points.
  double mean_until(Seconds end) const {
    constexpr std::array<std::pair<double, double>, 5> kPoints{{{0.5, 0.2844444444444444},
                                                                {0.2307653449471585, 0.2393143352496832},
                                                                {0.7692346550528415, 0.2393143352496832},
                                                                {0.0469100770306680, 0.1184634425280945},
                                                                {0.9530899229693320, 0.1184634425280945}}};
    double mean = 0;
    for (const auto& [place, weight] : kPoints) mean += weight * lifetime_.survival(end - *every_ * place);
    return mean;
  }
  const Lifetime& lifetime_;
  std::optional<Seconds> every_;
  double seen_;
};

double log_likelihood(const Lifetime& lifetime, const std::vector<LifetimeObservation>& observations,
                      std::optional<Seconds> every) {
  double sum = 0;
  const SeenSurvival survival{lifetime, every};
  for (const LifetimeObservation& seen : observations) {
    const double after = std::isinf(seen.high.value()) ? 0 : survival(seen.high);
    sum += seen.count * std::log(std::max(survival(seen.low) - after, 1e-300));
  }
  return sum;
}

/// Where to begin: times at quantiles of the observed ages, two shares, one shape; every combination, thinned.
std::vector<std::vector<double>> starts(const Candidate& candidate, const std::vector<double>& ages) {
  const auto quantile = [&](double q) {
    return std::log(std::max(1.0, ages[static_cast<std::size_t>(q * static_cast<double>(ages.size() - 1))]));
  };
  std::vector<std::vector<double>> all{{}};
  for (const Kind kind : candidate.values) {
    std::vector<double> choices;
    switch (kind) {
      case Kind::kTime:
        choices = {quantile(0.15), quantile(0.5), quantile(0.9)};
        break;
      case Kind::kShare:
        choices = {-0.7, 1};
        break;
      case Kind::kShape:
        choices = {0.0, 1.2};
        break;
      case Kind::kSigma:
        choices = {0.0};
        break;
    }
    std::vector<std::vector<double>> longer;
    for (const auto& begin : all)
      for (const double choice : choices) {
        longer.push_back(begin);
        longer.back().push_back(choice);
      }
    all = std::move(longer);
  }
  constexpr std::size_t kMost = 12;
  if (all.size() <= kMost) return all;
  std::vector<std::vector<double>> thinned;
  for (std::size_t i = 0; i < kMost; ++i) thinned.push_back(all[i * all.size() / kMost]);
  return thinned;
}

}  // namespace

double SurvivalCurve::at(Seconds age) const {
  const auto above = std::upper_bound(ages.begin(), ages.end(), age);
  return above == ages.begin() ? 1 : survival[static_cast<std::size_t>(above - ages.begin()) - 1];
}

SurvivalCurve kaplan_meier(const std::vector<LifetimeObservation>& observations) {
  std::map<Seconds, std::pair<double, double>> changes;  // gone and no longer watched at each age
  double at_risk = 0;
  for (const LifetimeObservation& seen : observations) {
    at_risk += seen.count;
    if (std::isinf(seen.high.value()))
      changes[seen.low].second += seen.count;
    else
      changes[seen.high].first += seen.count;
  }
  SurvivalCurve curve;
  double survival = 1;
  for (const auto& [age, change] : changes) {
    const auto [gone, left] = change;
    if (gone > 0) {
      survival *= 1 - gone / at_risk;
      curve.ages.push_back(age);
      curve.survival.push_back(survival);
    }
    at_risk -= gone + left;
  }
  return curve;
}

double survival_distance(const Lifetime& lifetime, const SurvivalCurve& observed, const std::vector<Seconds>& edges) {
  double distance = 0;
  for (const Seconds edge : edges) distance = std::max(distance, std::abs(lifetime.survival(edge) - observed.at(edge)));
  return distance;
}

std::vector<LifetimeFit> fit_lifetime(const std::vector<LifetimeObservation>& all_observations,
                                      const LifetimeFitOptions& options) {
  const std::vector<LifetimeObservation> observations = merged(all_observations);
  const SurvivalCurve observed = kaplan_meier(observations);
  std::vector<double> ages;
  for (const LifetimeObservation& seen : observations)
    if (!std::isinf(seen.high.value()))
      ages.insert(ages.end(), static_cast<std::size_t>(std::ceil(seen.count)),
                  std::max(0.0, ((seen.low + seen.high) * 0.5 - options.minimum).value()));
  std::sort(ages.begin(), ages.end());
  std::vector<LifetimeFit> fits;
  if (ages.empty()) {
    LifetimeFit never{.law = "never revoked", .lifetime = {.law = {Distribution{Exponential{kLongest}}}}};
    never.distance = survival_distance(never.lifetime, observed, options.edges);
    return {never};
  }
  double lost = 0;
  for (const LifetimeObservation& seen : observations)
    if (!std::isinf(seen.high.value())) lost += seen.count;
  const int losses = static_cast<int>(std::min(lost, 1e6));
  const int most_values = std::min(options.most_values, std::max(1, losses));
  const std::vector<Candidate> all = candidates(options, most_values);
  const Seconds shortest = options.looked_at_every.value_or(Seconds{2}) * (options.minimum > Seconds{} ? 0.05 : 0.5);
  const auto fit_of = [&](const Candidate& candidate, const std::vector<double>& x) {
    LifetimeFit fit{.law = candidate.name,
                    .values = static_cast<int>(candidate.values.size()),
                    .lifetime = with_minimum(candidate.build(Values{x, shortest}), options.minimum)};
    fit.log_likelihood = log_likelihood(fit.lifetime, observations, options.looked_at_every);
    fit.aic = 2 * fit.values - 2 * fit.log_likelihood;
    const SeenSurvival survival{fit.lifetime, options.looked_at_every};
    for (const Seconds edge : options.edges)
      fit.distance = std::max(fit.distance, std::abs(survival(edge) - observed.at(edge)));
    return fit;
  };
  std::vector<std::pair<std::size_t, Minimum>> likeliest;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto badness = [&](const std::vector<double>& x) {
      if (options.on_step) options.on_step();
      const Lifetime lifetime = with_minimum(all[i].build(Values{x, shortest}), options.minimum);
      return -log_likelihood(lifetime, observations, options.looked_at_every);
    };
    Minimum best{{}, kInfinity};
    for (const std::vector<double>& start : starts(all[i], ages)) {
      Minimum found = nelder_mead(badness, start, 0.5, 1e-4, 400);
      if (best.at.empty() || found.value < best.value) best = std::move(found);
    }
    likeliest.emplace_back(i, nelder_mead(badness, best.at, 0.2, 1e-9, 2000));
    fits.push_back(fit_of(all[i], likeliest.back().second.at));
  }
  const bool is_near = std::any_of(fits.begin(), fits.end(),
                                   [&](const LifetimeFit& fit) { return fit.distance <= options.most_distance; });
  if (!is_near) {
    std::stable_sort(likeliest.begin(), likeliest.end(),
                     [&](const auto& a, const auto& b) { return fits[a.first].distance < fits[b.first].distance; });
    likeliest.resize(std::min<std::size_t>(likeliest.size(), 6));
    for (const auto& [i, minimum] : likeliest) {
      const Candidate& candidate = all[i];
      const auto distance = [&](const std::vector<double>& x) {
        if (options.on_step) options.on_step();
        return fit_of(candidate, x).distance;
      };
      fits.push_back(fit_of(candidate, nelder_mead(distance, minimum.at, 0.3, 1e-6, 1000).at));
      fits.back().law += ", least distance";
    }
  }
  std::stable_sort(fits.begin(), fits.end(), [&](const LifetimeFit& a, const LifetimeFit& b) { return a.aic < b.aic; });
  auto chosen = std::find_if(fits.begin(), fits.end(),
                             [&](const LifetimeFit& fit) { return fit.distance <= options.most_distance; });
  if (chosen == fits.end())
    chosen = std::min_element(fits.begin(), fits.end(),
                              [](const LifetimeFit& a, const LifetimeFit& b) { return a.distance < b.distance; });
  std::rotate(fits.begin(), chosen, chosen + 1);
  if (most_values < options.most_values)
    fits.front().law += " (no law of more values: " + std::to_string(losses) + (losses == 1 ? " loss)" : " losses)");
  return fits;
}

HourFit fit_hours(const std::array<double, 24>& counts) {
  double total = 0;
  for (const double count : counts) total += count;
  const auto factors_of = [](const std::vector<double>& x) {
    std::array<double, 24> factors{};
    double sum = 0;
    for (std::size_t h = 0; h < 24; ++h) {
      const double angle = 2 * std::numbers::pi * (static_cast<double>(h) + 0.5) / 24;
      double exponent = 0;
      for (std::size_t k = 0; 2 * k < x.size(); ++k) {
        const double wave = angle * static_cast<double>(k + 1);
        exponent += x[2 * k] * std::cos(wave) + x[2 * k + 1] * std::sin(wave);
      }
      sum += factors[h] = std::exp(exponent);
    }
    for (double& factor : factors) factor *= 24 / sum;
    return factors;
  };
  const auto badness = [&](const std::vector<double>& x) {
    double value = 0;
    const std::array<double, 24> factors = factors_of(x);
    for (std::size_t h = 0; h < 24; ++h) value -= counts[h] * std::log(factors[h]);
    return value;
  };
  std::vector<Minimum> fits;
  for (const std::size_t waves : {0U, 1U, 2U})
    fits.push_back(nelder_mead(badness, std::vector<double>(2 * waves, 0.0), 0.3, 1e-9, 2000));
  double chi_square = 0;
  const std::array<double, 24> richest = factors_of(fits.back().at);
  for (std::size_t h = 0; h < 24; ++h) {
    const double expected = richest[h] * total / 24;
    chi_square += (counts[h] - expected) * (counts[h] - expected) / std::max(expected, 1e-9);
  }
  const double overdispersion = std::max(1.0, chi_square / (24 - 5));
  const auto criterion = [&](const Minimum& fit) {
    return 2 * fit.value / overdispersion + 2 * static_cast<double>(fit.at.size());
  };
  const Minimum& best = *std::min_element(
      fits.begin(), fits.end(), [&](const Minimum& a, const Minimum& b) { return criterion(a) < criterion(b); });
  return {factors_of(best.at), static_cast<int>(best.at.size())};
}

}  // namespace rehearse
