#pragma once
// A profile that gets what a scenario needs and it does not state, for substitutes.cpp: from which other profiles, and
// what is noted of it. substitutes.hpp says what the rules are.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/base/pinned.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// How uncertain a value is of which one measurement alone is known: a standard deviation of its logarithm.
inline constexpr double kSpreadOfOne = 0.3;
/// The least that a value from elsewhere is uncertain by.
inline constexpr double kLeastSpread = 0.1;

/// Standard deviation of the values' logarithms, at least kLeastSpread; kSpreadOfOne of a single one.
double spread_of(const std::vector<double>& values);

/// "22 %": one standard error as a factor.
std::string percent_of_spread(double spread);

/// Another profile, from which values may be taken.
struct ProfileDonor {
  std::string name;
  const Profile* profile;
  std::set<std::string> gpus;  // that it knows
};

/// A part of a profile that is taken as a whole.
struct ProfilePart {
  const char* what;  // it says
  bool (*is_stated)(const Profile& profile);
  void (*take)(Profile& own, const Profile& from);
  bool has_software = true;  // that is named
};

class ProfileCompletion : private Pinned {
 public:
  /// Refers to both, and changes the scenario's profile.
  ProfileCompletion(Scenario& scenario, const Catalog& catalog);

  const Scenario& scenario() const { return scenario_; }
  Profile& profile() { return scenario_.profile; }
  const Catalog& catalog() const { return catalog_; }
  /// Who asks the catalog, for its errors.
  const JsonReader& asked_by() const { return asked_by_; }
  /// "profile "name"".
  std::string own() const;
  bool has_changed() const { return has_changed_; }
  void set_changed() { has_changed_ = true; }

  /// All profiles of the catalog but this one and those that leave nothing to others.
  const std::vector<ProfileDonor>& donors();
  /// Distance of the nearest of these GPUs (platforms/gpu_distance.hpp).
  double nearest_of(const std::set<std::string>& gpus, const Accelerator& from) const;
  double distance_to(const std::string& gpu, const Accelerator& from) const { return nearest_of({gpu}, from); }
  const Accelerator& first_gpu() const { return *scenario_.first_workers().accelerator; }

  /// Also by an earlier run, whose completed scenario is run again.
  bool is_noted(const std::string& text) const;
  /// `components` of Substitute; `is_of_kind`: whether the errors of predictions of this kind include it.
  void note(const std::string& text, double spread, std::map<std::string, double> components = {},
            bool is_of_kind = true);
  /// Whether it is known how far predictions of this kind have been off, all that they take from elsewhere included.
  bool knows_errors() const { return scenario_.profile.prediction.has_value(); }
  std::string off_by(double spread, const std::string& why = "") const;
  /// What is replaced is no longer what was fitted: how uncertain it is says the substitute.
  void forget_fit_of(const std::string& pointer);

  /// The part of the donor whose GPUs are nearest, if any has it; of equals, one that knows the kind of strategy.
  void take(const ProfilePart& part);

 private:
  Scenario& scenario_;
  const Catalog& catalog_;
  JsonReader asked_by_;
  std::vector<ProfileDonor> donors_;
  bool has_changed_ = false;
};

/// Host, kernels and step times of the workers' GPUs.
void complete_computation(ProfileCompletion& target);

/// Protocols of collectives that carry out the scenario's algorithms on its interconnects.
void complete_collectives(ProfileCompletion& target);

}  // namespace rehearse
