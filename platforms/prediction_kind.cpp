#include "platforms/prediction_kind.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/json.hpp"
#include "sim/base/named.hpp"

namespace rehearse {

namespace {

constexpr std::array kComputations{Named{"nothing", ComputationFrom::kNothing},
                                   Named{"step time", ComputationFrom::kStepTime},
                                   Named{"fitted", ComputationFrom::kFitted},
                                   Named{"other model", ComputationFrom::kOtherModel},
                                   Named{"data sheet", ComputationFrom::kDataSheet},
                                   Named{"step time of another framework", ComputationFrom::kOtherFramework},
                                   Named{"other step time", ComputationFrom::kOtherStep},
                                   Named{"other GPU", ComputationFrom::kOtherGpu},
                                   Named{"other profile", ComputationFrom::kOtherProfile}};
constexpr std::array kExchanges{Named{"nothing", ExchangeFrom::kNothing}, Named{"fitted", ExchangeFrom::kFitted},
                                Named{"fitted to fewer", ExchangeFrom::kLarger},
                                Named{"other links", ExchangeFrom::kOtherLinks},
                                Named{"other profile", ExchangeFrom::kOtherProfile}};
constexpr std::array kPlaces{
    Named{"none", ExchangePlace::kNone},       Named{"machine", ExchangePlace::kMachine},
    Named{"cluster", ExchangePlace::kCluster}, Named{"cluster over TCP", ExchangePlace::kSockets},
    Named{"servers", ExchangePlace::kServers}, Named{"collective", ExchangePlace::kCollective}};

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The same for every GPU of the workers: the farthest of theirs.
ComputationFrom computation_of(const TrainingFacts& facts, const Profile& profile, const Accelerator& gpu) {
  if (profile.kernels) return ComputationFrom::kDataSheet;
  bool has_step = false, has_framework = false;
  for (const StepTime& step : profile.step_times) {
    const bool is_same = step.model == facts.model && step.accelerator == gpu.name && step.precision == facts.precision;
    has_step = has_step || (is_same && step.framework == facts.framework);
    has_framework = has_framework || is_same;
  }
  if (has_step) return ComputationFrom::kStepTime;
  if (has_framework) return ComputationFrom::kOtherFramework;
  if (profile.gpu.covers(gpu.name))
    return is_among(profile.fitted_models, facts.model) ? ComputationFrom::kFitted : ComputationFrom::kOtherModel;
  if (!profile.step_times.empty()) return ComputationFrom::kOtherStep;
  return profile.gpu.peak_efficiency.empty() ? ComputationFrom::kOtherProfile : ComputationFrom::kOtherGpu;
}

/// Latencies, not rates, are what a small collective takes. What trainings exchange says nothing of single ones.
bool has_payload(const SeenExchange& seen, const TrainingFacts& facts) {
  constexpr int kSameSize = 2;  // as a factor
  if (facts.collective.empty()) return true;
  return seen.collective == facts.collective && seen.payload_min <= facts.payload * kSameSize &&
         facts.payload <= seen.payload_max * kSameSize;
}

ExchangeFrom exchange_of(const TrainingFacts& facts, const Profile& profile) {
  constexpr double kSameRate = 1.5;  // NICs, as a factor
  ExchangeFrom nearest = ExchangeFrom::kOtherProfile;
  const bool has_gpus = std::ranges::all_of(
      facts.gpus, [&](const Accelerator& gpu) { return is_among(profile.fitted_accelerators, gpu.name); });
  for (const SeenExchange& seen : profile.fitted_exchanges) {
    const bool spans_machines = facts.nic > BytesPerSecond{};
    if (seen.strategy != facts.strategy || (spans_machines && seen.nic == BytesPerSecond{})) continue;
    const bool has_nic = seen.nic <= facts.nic * kSameRate && facts.nic <= seen.nic * kSameRate;
    const bool is_there = has_gpus && seen.links == facts.links && has_nic && has_payload(seen, facts);
    const ExchangeFrom from = !is_there                              ? ExchangeFrom::kOtherLinks
                              : facts.workers > 2 * seen.workers_max ? ExchangeFrom::kLarger
                                                                     : ExchangeFrom::kFitted;
    nearest = std::min(nearest, from);
  }
  return nearest;
}

KindErrors together(const KindErrors& a, const KindErrors& b) {
  return {.rows = std::min(a.rows, b.rows),
          .sources = std::min(a.sources, b.sources),
          .median = std::hypot(a.median, b.median),
          .low = -std::hypot(std::min(a.low, 0.0), std::min(b.low, 0.0)),
          .high = std::hypot(std::max(a.high, 0.0), std::max(b.high, 0.0))};
}

std::string exchange_text(const PredictionKind& kind) {
  return kind.exchange == ExchangeFrom::kNothing ? "no exchange" : to_text(kind.place) + ": " + to_text(kind.exchange);
}

}  // namespace

std::string to_text(ComputationFrom computation) { return name_in(kComputations, computation); }
std::string to_text(ExchangeFrom exchange) { return name_in(kExchanges, exchange); }
std::string to_text(ExchangePlace place) { return name_in(kPlaces, place); }
std::string to_text(const PredictionKind& kind) { return to_text(kind.computation) + "; " + exchange_text(kind); }

PredictionKind kind_of(const TrainingFacts& facts, const Profile& profile) {
  PredictionKind kind;
  if (facts.computes)
    for (const Accelerator& gpu : facts.gpus)
      kind.computation = std::max(kind.computation, computation_of(facts, profile, gpu));
  if (facts.workers < 2 && facts.servers == 0) return kind;
  kind.exchange = exchange_of(facts, profile);
  kind.place = !facts.collective.empty()                         ? ExchangePlace::kCollective
               : facts.servers > 0                               ? ExchangePlace::kServers
               : facts.is_over_tcp && facts.nic > kOneSocketRate ? ExchangePlace::kSockets
               : facts.nic > BytesPerSecond{}                    ? ExchangePlace::kCluster
                                                                 : ExchangePlace::kMachine;
  return kind;
}

std::optional<KindErrors> PredictionErrors::of(const PredictionKind& kind) const {
  constexpr std::size_t kFewest = 40, kFewestForMedian = 10;  // rows
  const auto find = [&](const std::string& text) {
    const auto found = errors_.find(text);
    return found == errors_.end() ? std::optional<KindErrors>{} : found->second;
  };
  if (kind.is_of_fit()) return {};
  const auto whole = find(to_text(kind));
  if (whole && whole->rows >= kFewest && whole->sources > 1) return whole;
  const auto computation =
      kind.computation <= ComputationFrom::kFitted ? KindErrors{} : find(to_text(kind.computation));
  const auto exchange = kind.exchange <= ExchangeFrom::kFitted ? KindErrors{} : find(exchange_text(kind));
  if (!computation || !exchange) return {};
  KindErrors parts = together(*computation, *exchange);
  if (whole && whole->rows >= kFewestForMedian)  // an exchange makes no computation more certain
    parts.median = std::max(whole->median, computation->median);
  return parts;
}

PredictionErrors read_prediction_errors(const JsonReader& json) {
  std::map<std::string, KindErrors> errors;
  for (const auto& [kind, entry] : json.items()) {
    KindErrors& of_kind = errors[kind];
    of_kind = {.rows = entry.required<std::size_t>("rows"),
               .sources = entry.required<std::size_t>("sources"),
               .median = entry.required<double>("median"),
               .low = entry.required<double>("low"),
               .high = entry.required<double>("high")};
    entry.reject_unknown_keys();
    entry.expect(of_kind.median >= 0 && of_kind.median <= 10, "median", "0 to 10");
    entry.expect(of_kind.low >= -10 && of_kind.low <= of_kind.high && of_kind.high <= 10, "low", "-10 to high");
  }
  return PredictionErrors{std::move(errors)};
}

}  // namespace rehearse
