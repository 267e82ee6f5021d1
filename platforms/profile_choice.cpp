#include "platforms/profile_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "platforms/gpu_distance.hpp"
#include "platforms/kernels/gpu.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

using nlohmann::literals::operator""_json_pointer;

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// How much of the framework's name the profile has a recipe for, of kernels' times; 0: it is one of all others.
int named_framework(const Profile& profile, const TrainingFacts& facts) {
  if (!profile.kernels || facts.framework.empty()) return 0;
  const std::string name = framework_name(profile.frameworks, facts.framework);
  return profile.frameworks.contains(name) && facts.framework.find(name) != std::string::npos
             ? static_cast<int>(name.size())
             : 0;
}

/// Whether the profile can stand for this training at all.
bool is_candidate(const Profile& profile, const TrainingFacts& facts) {
  if (profile.fitted_models.empty() && named_framework(profile, facts) == 0) return false;
  if (facts.takes_checkpoint && !profile.checkpoint) return false;
  if (profile.is_of_processors && !contains(profile.fitted_frameworks, facts.framework)) return false;
  return !profile.kernels || (facts.computes && std::ranges::all_of(facts.gpus, kernels::has_data_sheet));
}

/// Of a profile that was fitted; the smallest is the best.
struct Candidate {
  bool is_of_gpus = true;     // not of the processors whose framework the workload names
  double expected_error = 0;  // of its kind
  PredictionKind kind;        // of which the nearest is the best where errors are not known
  int unnamed_framework = 0;  // minus named_framework()
  double gpu_distance = 0;
  int fewer_rows = 0;  // of a collective, whose sizes and operations are many: minus the rows of the fit
  double residual = 0;
  std::string name;

  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

Candidate candidate_of(const std::string& name, const Profile& profile, const TrainingFacts& facts,
                       const PredictionErrors& errors, const Catalog& catalog) {
  constexpr double kUnknown = 10, kAsGood = 0.05;  // medians of so few sources tell no smaller differences
  Candidate candidate{.is_of_gpus = !profile.is_of_processors,
                      .kind = kind_of(facts, profile),
                      .unnamed_framework = -named_framework(profile, facts),
                      .name = name};
  const auto known = errors.of(candidate.kind);
  candidate.expected_error = known ? known->median : candidate.kind.is_of_fit() ? 0 : kUnknown;
  if (candidate.kind.computation == ComputationFrom::kOtherModel ||
      candidate.kind.computation > ComputationFrom::kDataSheet) {
    // The kinds' errors are not of the same rows. Values and steps of others tell less than the model's own kernels.
    const auto by_kernels = errors.of({ComputationFrom::kDataSheet, ExchangeFrom::kOtherProfile, candidate.kind.place});
    if (by_kernels) candidate.expected_error = std::max(candidate.expected_error, by_kernels->median + kAsGood);
  }
  candidate.expected_error = std::round(candidate.expected_error / kAsGood) * kAsGood;
  if (!profile.kernels)
    for (const Accelerator& gpu : facts.gpus)
      candidate.gpu_distance =
          std::max(candidate.gpu_distance, nearest_gpu(gpu, known_gpus(profile), catalog).distance);
  candidate.residual =
      profile.uncertainty.residual > 0 ? profile.uncertainty.residual : std::numeric_limits<double>::infinity();
  return candidate;
}

std::string reason_of(const Candidate& best, const PredictionErrors& errors) {
  std::string text = "computation from " + to_text(best.kind);
  if (const auto known = errors.of(best.kind)) {
    std::array<char, 64> off{};
    std::snprintf(off.data(), off.size(), "; half of such predictions were off by %.2g %% or more",
                  100 * known->median);
    text += off.data();
  }
  return text;
}

}  // namespace

std::vector<std::string> fitted_strategies(const Profile& profile) {
  std::vector<std::string> names;
  if (profile.fitted_models.empty()) return names;
  if (profile.fitted_servers_max > 0) names.emplace_back("parameter_server");
  const bool has_library =
      !profile.collectives.otherwise.protocols.empty() || !profile.collectives.by_interconnect.empty();
  if (has_library || (profile.fitted_servers_max == 0 && profile.fitted_workers_max > 1))
    names.emplace_back("all_reduce");
  return names;
}

ProfileChoice choose_profile(const TrainingFacts& facts, const Catalog& catalog, const JsonReader& asked_by) {
  constexpr double kNearlyAsGood = 1.25;
  const Json known = catalog.prediction_errors();
  const PredictionErrors errors = read_prediction_errors(JsonReader{known, "prediction_errors"});
  std::vector<Candidate> candidates;
  for (const std::string& name : catalog.profile_names()) {
    const JsonReader file = catalog.profile(name, asked_by);
    const Profile* profile = catalog.readable_profile(name);
    if (profile == nullptr) (void)read_profile(file);  // throws
    if (!is_candidate(*profile, facts)) continue;
    candidates.push_back(candidate_of(name, *profile, facts, errors, catalog));
    if (!facts.collective.empty()) candidates.back().fewer_rows = -file.value().value("/fit/rows"_json_pointer, 0);
  }
  // Of a collective alone a profile without any has nothing to say, but overheads of steps that are none of it.
  const auto states_it = [](const Candidate& candidate) {
    return candidate.kind.exchange < ExchangeFrom::kOtherProfile;
  };
  if (!facts.collective.empty() && std::ranges::any_of(candidates, states_it))
    std::erase_if(candidates, [&](const Candidate& candidate) { return !states_it(candidate); });
  if (candidates.empty())
    asked_by.fail(
        "expected a profile's name, since the catalogs have none that was fitted to such trainings; found \"auto\"");
  std::ranges::sort(candidates);
  const Candidate& best = candidates.front();
  ProfileChoice choice{.name = best.name, .reason = reason_of(best, errors), .others = {}};
  for (std::size_t i = 1; i < candidates.size(); ++i)
    if (candidates[i].expected_error <= kNearlyAsGood * best.expected_error &&
        candidates[i].unnamed_framework <= best.unnamed_framework)
      choice.others.push_back(candidates[i].name);
  return choice;
}

}  // namespace rehearse
