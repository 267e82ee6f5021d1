#pragma once
// How far a training is from what a profile was fitted on, and how far predictions of that kind have been from
// measurements. `rehearse validate SET --intervals` measures the table of errors, catalog/prediction_errors.json keeps it.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platforms/accelerator.hpp"
#include "platforms/profile.hpp"

namespace rehearse {

class Catalog;

/// What a training needs of a profile, without names of scenarios, files or machines.
struct TrainingFacts {
  std::vector<Accelerator> gpus;  // of the workers
  std::string model;
  std::string precision, framework;  // as step times have them; framework: empty if the workload names none
  int batch = 0;
  int workers = 1, servers = 0;
  std::string strategy;  // "all_reduce", "parameter_server" or another that is registered
  std::string links;  // between the GPUs of a machine with several workers, "NVLink 3", "PCIe"; empty: there are none
  BytesPerSecond nic{};           // of a machine; 0: all is in one machine
  bool is_over_tcp = false;       // Instance::transport of the workers
  bool computes = true;           // steps are computed from operators, not stated by the model or recorded
  bool takes_checkpoint = false;  // its times are to be the profile's
  std::string collective{};       // the operation, if there is nothing else: "all_gather"
  Bytes payload{};                // of that collective
};

/// Where the computation of a step comes from, the nearest first.
enum class ComputationFrom {
  kNothing,         // it is stated, or there is none
  kStepTime,        // measured with this model, GPU, precision and framework
  kFitted,          // values fitted on the GPU with this model
  kOtherModel,      // values fitted on the GPU with other models
  kOtherFramework,  // a step time of another framework
  kDataSheet,       // times of kernels from the GPU's data sheet
  kOtherStep,       // the nearest step time of another precision, GPU or model
  kOtherGpu,        // values fitted on other GPUs
  kOtherProfile,    // the profile does not state it
};

/// Where the costs of an exchange come from, the nearest first.
enum class ExchangeFrom {
  kNothing,       // there is one worker
  kFitted,        // fitted to this strategy over such links
  kLarger,        // the same, with fewer workers than a half
  kOtherLinks,    // fitted to this strategy over other links, or to collectives of other operations or sizes
  kOtherProfile,  // the profile does not state them
};

/// What a single socket may carry: 18 Gbit/s in calibration/data/hkbu-ddl-benchmarks, rounded up to a rate of NICs.
inline constexpr BytesPerSecond kOneSocketRate{25e9 / 8};

/// kSockets: between machines by TCP over NICs above that rate, which sockets do not always use.
enum class ExchangePlace { kNone, kMachine, kCluster, kSockets, kServers, kCollective };

struct PredictionKind {
  ComputationFrom computation = ComputationFrom::kNothing;
  ExchangeFrom exchange = ExchangeFrom::kNothing;
  ExchangePlace place = ExchangePlace::kNone;

  /// Whether it is what the errors of the profile's own fit tell.
  bool is_of_fit() const { return computation <= ComputationFrom::kFitted && exchange <= ExchangeFrom::kFitted; }
  friend auto operator<=>(const PredictionKind&, const PredictionKind&) = default;
};

std::string to_text(ComputationFrom computation);  // "step time", "data sheet"
std::string to_text(ExchangeFrom exchange);        // "fitted", "other links"
std::string to_text(ExchangePlace place);          // "machine", "cluster", "cluster over TCP"
/// "data sheet; cluster: fitted".
std::string to_text(const PredictionKind& kind);

PredictionKind kind_of(const TrainingFacts& facts, const Profile& profile);

/// Errors ln(simulated / measured) of predictions of one kind, none of which the profile was fitted on.
struct KindErrors {
  std::size_t rows = 0, sources = 0;
  double median = 0;         // of the absolute ones
  double low = 0, high = 0;  // 5th and 95th percentile
};

/// By parts of a kind's text: the whole, its computation, its exchange.
class PredictionErrors {
 public:
  PredictionErrors() = default;
  explicit PredictionErrors(std::map<std::string, KindErrors> errors) : errors_{std::move(errors)} {}

  /// Of the kind as a whole if it has rows enough; otherwise those of its two parts, as if these were independent:
  /// roots of the sums of squares. None if a part is not known.
  std::optional<KindErrors> of(const PredictionKind& kind) const;

 private:
  std::map<std::string, KindErrors> errors_;
};

PredictionErrors read_prediction_errors(const JsonReader& json);

}  // namespace rehearse
