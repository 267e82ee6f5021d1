#include "calibration/detail/free_values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

const double kFarthest = std::log(1e6);

template <class Q>
std::optional<double> quantity(const std::string& text) {
  try {
    return parse_quantity<Q>(text).value();
  } catch (const QuantityError&) { return {}; }
}

std::optional<double> plain_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
}

}  // namespace

FreeValues::FreeValues(const Json& profile, std::string file_name, const std::vector<FreeValue>& declared,
                       const std::function<bool(const Json& profile)>& accepts)
    : profile_{profile}, file_name_{std::move(file_name)} {
  std::vector<double> logs;
  for (const FreeValue& value : declared) {
    if (std::any_of(values_.begin(), values_.end(), [&](const Value& v) { return v.pointer == value.pointer; }))
      continue;
    const auto [known, log] = read(value);
    values_.push_back(known);
    logs.push_back(log);
  }
  start_ = bounds_.low = bounds_.high =
      Eigen::Map<const Eigen::VectorXd>(logs.data(), static_cast<Eigen::Index>(logs.size()));
  if (!accepts(profile_with(start_)))
    throw InputError{file_name_ + ": the fit cannot start from these values: the profile is not valid"};
  for (std::size_t i = 0; i < size(); ++i) {
    const auto p = static_cast<Eigen::Index>(i);
    bounds_.low[p] = farthest(i, -1, accepts);
    bounds_.high[p] = farthest(i, 1, accepts);
    for (const FreeValue& value : declared) {
      if (value.pointer != values_[i].pointer) continue;
      bounds_.low[p] = std::max(bounds_.low[p], limit(value, value.min, values_[i].unit, bounds_.low[p]));
      bounds_.high[p] = std::min(bounds_.high[p], limit(value, value.max, values_[i].unit, bounds_.high[p]));
      if (!(bounds_.low[p] < bounds_.high[p]))
        throw InputError{value.place + ": expected a min below the max, both within what a profile may hold; found " +
                         text(i, bounds_.low[p]) + " to " + text(i, bounds_.high[p])};
    }
  }
  start_ = start_.cwiseMax(bounds_.low).cwiseMin(bounds_.high);
  std::vector<bool> has_prior(size());  // of a value that several studies declare the first one's counts
  for (const FreeValue& value : declared)
    for (std::size_t i = 0; i < size(); ++i)
      if (value.pointer == values_[i].pointer && !value.prior.empty() && !has_prior[i]) {
        priors_.push_back(prior_of(i, value));
        has_prior[i] = true;
      }
}

FreeValues::Prior FreeValues::prior_of(std::size_t i, const FreeValue& declared) const {
  Prior prior{.value = static_cast<Eigen::Index>(i), .weight = kHuber / std::log(declared.prior_factor)};
  if (!declared.prior.starts_with("/")) {
    prior.log = limit(declared, declared.prior, values_[i].unit, 0);
    return prior;
  }
  for (std::size_t other = 0; other < size(); ++other)
    if (values_[other].pointer == declared.prior) prior.other = static_cast<Eigen::Index>(other);
  if (prior.other < 0) prior.log = read({.pointer = declared.prior, .place = declared.place}).second;
  return prior;
}

Eigen::VectorXd FreeValues::prior_residuals(const Eigen::VectorXd& logs) const {
  Eigen::VectorXd residuals(priors());
  for (Eigen::Index k = 0; k < priors(); ++k) {
    const Prior& prior = priors_[static_cast<std::size_t>(k)];
    residuals[k] = prior.weight * (logs[prior.value] - (prior.other < 0 ? prior.log : logs[prior.other]));
  }
  return residuals;
}

Json FreeValues::profile_with(const Eigen::VectorXd& logs) const {
  Json profile = profile_;
  for (std::size_t i = 0; i < size(); ++i)
    set_json_pointer(profile, values_[i].pointer, text(i, logs[static_cast<Eigen::Index>(i)], 8));
  return profile;
}

std::string FreeValues::text(std::size_t i, double log_value, int digits) const {
  std::array<char, 40> rounded{};
  std::snprintf(rounded.data(), rounded.size(), "%.*g", digits, std::exp(log_value));
  const double value = std::strtod(rounded.data(), nullptr);
  switch (values_[i].unit) {
    case Unit::kNone:
      return to_text(value);
    case Unit::kTime:
      return to_text(Seconds{value});
    case Unit::kRate:
      return to_text(BytesPerSecond{value});
    case Unit::kSpeed:
      return to_text(FlopsPerSecond{value});
  }
  return {};
}

std::pair<FreeValues::Value, double> FreeValues::read(const FreeValue& declared) const {
  const std::string& pointer = declared.pointer;
  const Json* found = json_pointer_find(profile_, pointer);
  if (found == nullptr)
    throw InputError{file_name_ + ": " + pointer + ": a study wants to fit this value, but the profile has none"};
  const std::string text = found->is_string() ? found->get<std::string>() : found->is_number() ? found->dump() : "";
  for (const Unit unit : {Unit::kNone, Unit::kTime, Unit::kRate, Unit::kSpeed}) {
    if (found->is_number() != (unit == Unit::kNone)) continue;
    const auto value = parse(text, unit);
    if (!value) continue;
    if (!(*value > 0))
      throw InputError{file_name_ + ": " + pointer + ": expected a value above 0 to start the fit from; found " +
                       found->dump()};
    return {{pointer, unit}, std::log(*value)};
  }
  throw InputError{file_name_ + ": " + pointer + ": only plain numbers, times and rates can be fitted; found " +
                   shortened(found->dump())};
}

std::optional<double> FreeValues::parse(const std::string& text, Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return plain_number(text);
    case Unit::kTime:
      return quantity<Seconds>(text);
    case Unit::kRate:
      return quantity<BytesPerSecond>(text);
    case Unit::kSpeed:
      return quantity<FlopsPerSecond>(text);
  }
  return {};
}

double FreeValues::limit(const FreeValue& declared, const std::string& text, Unit unit, double otherwise) const {
  if (text.empty()) return otherwise;
  const auto value = parse(text, unit);
  if (!value || !(*value > 0))
    throw InputError{declared.place + ": expected limits above 0 in the unit of " + declared.pointer + "; found " +
                     text};
  return std::log(*value);
}

double FreeValues::farthest(std::size_t i, double direction,
                            const std::function<bool(const Json& profile)>& accepts) const {
  Eigen::VectorXd logs = start_;
  const auto p = static_cast<Eigen::Index>(i);
  double accepted = start_[p], refused = accepted + direction * kFarthest;
  const auto is_accepted = [&](double log) {
    logs[p] = log;
    return accepts(profile_with(logs));
  };
  if (is_accepted(refused)) return refused;
  while (std::abs(refused - accepted) > 1e-9) {
    const double middle = (accepted + refused) / 2;
    (is_accepted(middle) ? accepted : refused) = middle;
  }
  return accepted;
}

}  // namespace rehearse
