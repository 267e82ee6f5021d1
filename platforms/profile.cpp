#include "platforms/profile.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "platforms/profile_fields.hpp"

namespace rehearse {

double GpuParameters::efficiency_for(const std::string& accelerator) const {
  const auto found = peak_efficiency.find(accelerator);
  return found == peak_efficiency.end() ? default_peak_efficiency : found->second;
}

double NetworkParameters::nic_efficiency_for(const std::string& instance) const {
  const auto found = nic_efficiency_of.find(instance);
  return found == nic_efficiency_of.end() ? nic_efficiency : found->second;
}

std::pair<double, double> PredictionUncertainty::interval(double by_parameters) const {
  const double deviation = std::hypot(residual, by_parameters);
  return {std::exp(-high * deviation), std::exp(-low * deviation)};
}

double PredictionUncertainty::probability_of(double factor, double by_parameters) const {
  const double too_fast = -std::log(factor);  // at most, of ln(predicted / true)
  const double spread = std::hypot(residual, by_parameters) / kNormal95 * (too_fast >= 0 ? high : -low);
  if (!(spread > 0)) return too_fast >= 0 ? 1 : 0;
  return std::erfc(-too_fast / (spread * std::numbers::sqrt2)) / 2;
}

void PredictionUncertainty::widen(const std::vector<Substitute>& substitutes) {
  double added = 0;
  for (const Substitute& substitute : substitutes) {
    added = std::hypot(added, substitute.uncertainty);
    if (!substitute.components.empty()) components.push_back(substitute.components);
  }
  if (added == 0) return;
  low = std::min(low, -kNormal95);
  high = std::max(high, kNormal95);
  residual = std::hypot(residual, added);
}

bool CollectiveLibrary::asks_receivers() const {
  const auto any_asks = [](const CollectiveParameters& parameters) {
    return std::any_of(parameters.protocols.begin(), parameters.protocols.end(),
                       [](const auto& protocol) { return protocol.second.eager_limit.has_value(); });
  };
  const auto any_of_these_asks = [&](const OrderedMap<CollectiveParameters>& named) {
    return std::any_of(named.begin(), named.end(), [&](const auto& entry) { return any_asks(entry.second); });
  };
  return any_asks(otherwise) || any_of_these_asks(by_generation) || any_of_these_asks(by_interconnect);
}

const CollectiveParameters& CollectiveLibrary::on(const std::string& interconnect,
                                                  const std::string& generation) const {
  if (const CollectiveParameters* named = by_interconnect.find(interconnect)) return *named;
  const CollectiveParameters* found = by_generation.find(generation);
  return found != nullptr ? *found : otherwise;
}

namespace {

CollectiveProtocol over(const CollectiveProtocol& own, const CollectiveProtocol& otherwise) {
  CollectiveProtocol protocol = inherited(own, otherwise);
  if (own.tuner) protocol.tuner = inherited(*own.tuner, otherwise.tuner.value_or(TunerCosts{}));
  return protocol;
}

/// Puts what the links' generation costs into the protocols.
CollectiveParameters with_hops(CollectiveParameters parameters) {
  for (auto& [name, protocol] : parameters.protocols) {
    protocol.launch += parameters.launch + parameters.hop * protocol.launch_hops;
    protocol.nvlink_step += parameters.hop * protocol.step_hops;
    protocol.kept_step += parameters.hop * protocol.kept_hops;
  }
  parameters.protocols.sort_by_name();
  return parameters;
}

CollectiveLibrary whole(const CollectiveLibrary& stated) {
  CollectiveLibrary library{.otherwise = with_hops(stated.otherwise), .by_generation = {}, .by_interconnect = {}};
  for (const auto& [name, own] : stated.by_generation)
    library.by_generation[name] = with_hops(over(own, stated.otherwise));
  for (const auto& [name, own] : stated.by_interconnect)
    library.by_interconnect[name] = with_hops(over(own, stated.otherwise));
  return library;
}

/// Errors of the kind of prediction replace those of the fit, and of what was substituted that they include.
PredictionUncertainty uncertainty_of(const Profile& profile) {
  PredictionUncertainty uncertainty = profile.fit_spread;
  std::vector<Substitute> counted = profile.substitutes;
  if (const auto& prediction = profile.prediction) {
    const double deviation = std::max({std::abs(prediction->low), std::abs(prediction->high), 1e-3}) / kNormal95;
    uncertainty = {.residual = deviation,
                   .low = prediction->low / deviation,
                   .high = prediction->high / deviation,
                   .components = {}};
    std::erase_if(counted, [](const Substitute& substitute) { return substitute.is_of_kind; });
  }
  uncertainty.widen(counted);
  return uncertainty;
}

}  // namespace

CollectiveParameters over(const CollectiveParameters& own, const CollectiveParameters& otherwise) {
  CollectiveParameters parameters = inherited(own, otherwise);
  if (!own.states_protocols) return parameters;
  parameters.states_protocols = true;
  parameters.protocols = own.protocols;
  for (auto& [name, protocol] : parameters.protocols)
    if (const CollectiveProtocol* known = otherwise.protocols.find(name)) protocol = over(protocol, *known);
  return parameters;
}

void set_consequences(Profile& profile) {
  profile.collectives = whole(profile.stated_collectives);
  profile.uncertainty = uncertainty_of(profile);
}

bool FrameworkErrors::are_of(const std::vector<std::string>& gpus, BytesPerSecond nic_of_machine) const {
  const auto is_known = [&](const std::string& gpu) {
    return std::ranges::find(accelerators, gpu) != accelerators.end();
  };
  if (!std::ranges::all_of(gpus, is_known)) return false;
  return nic_of_machine == BytesPerSecond{} || (nic_min <= nic_of_machine * 2 && nic_of_machine <= nic_max * 2);
}

BoardPowerValues Profile::power_of(const Accelerator& accelerator) const {
  const std::string& architecture = accelerator.architecture;
  for (const std::string& name :
       {accelerator.name, architecture + (has_stacked_memory(accelerator) ? " HBM" : " GDDR"), architecture})
    if (const auto factor = sustained_draw.find(name); factor != sustained_draw.end())
      return power.times(factor->second);
  return power;
}

Framework Profile::framework(const std::string& label) const {
  const auto found = frameworks.find(framework_name(frameworks, label));
  return found != frameworks.end() ? found->second : Framework{};
}

std::string framework_name(const std::vector<std::string>& names, const std::string& label) {
  const std::string* longest = nullptr;
  for (const std::string& name : names)
    if (label.find(name) != std::string::npos && (longest == nullptr || name.size() > longest->size())) longest = &name;
  return longest != nullptr ? *longest : "otherwise";
}

}  // namespace rehearse
