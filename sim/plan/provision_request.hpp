#pragma once
// What `rehearse provision` is asked: a provision file (`rehearse schema provision`) or a scenario, options, or both.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibration/asynchronous_speed.hpp"
#include "sim/base/json.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

inline constexpr int kDefaultQuota = 10;  // machines of each type
inline constexpr int kMostQuota = 10'000;

/// A machine type that may be rented.
struct ProvisionCandidate {
  std::string name;           // in plans, and of its group of workers
  SharedJson group;           // what differs from the scenario's first group of workers, "instance" at least
  int quota = kDefaultQuota;  // with the existing ones
  int existing = 0;
  std::optional<double> usd_per_hour;  // in place of the catalog's
  std::string place;                   // "provision.json: /candidates/0", for messages; empty: of the scenario
};

/// The market whose prices count; kCatalog: the one that each group of machines states.
enum class PriceSource { kCatalog, kOnDemand, kSpot };

enum class Planner { kOurs, kSpotdnnPaper, kSpotdnnReleased, kCmDarePlus, kExhaustive, kHomogeneous };

struct ProvisionRequest {
  std::string scenario_file;
  SharedJson scenario;
  JsonOrigins origins;                         // what options have set in it
  std::vector<ProvisionCandidate> candidates;  // by default the scenario's groups of workers
  // The closed form; what is not given follows from the scenario.
  std::optional<BytesPerSecond> required_bandwidth, server_bandwidth, pcie;
  std::optional<Contention> contention;

  std::optional<double> server_usd_per_hour;  // of each server machine, in place of the catalog's

  double loss = 0;
  Seconds deadline{};
  std::optional<double> loss_so_far;
  double updates_so_far = 0;
  Seconds takeover{30};
  double confidence = 0.95;
  PriceSource price = PriceSource::kCatalog;
};

/// Reads `path`: a provision file and its scenario, or a scenario, which then is the whole request. `overrides`:
/// "/pointer=value", of the scenario. Throws InputError.
ProvisionRequest load_provision_request(const std::filesystem::path& path,
                                        const std::vector<std::string>& overrides = {});
/// A provision file's content without its scenario; `file_name` is where it came from. Candidates may be missing.
ProvisionRequest read_provision_request(const Json& json, const std::string& file_name);

/// The candidate of this name; InputError, which begins with `option`, with the known names.
ProvisionCandidate& find_candidate(ProvisionRequest& request, const std::string& name, const std::string& option);

/// The machine type and number of an option's "g3.8xlarge=5". Throws InputError, which names the option.
std::pair<std::string, int> read_machine_number(const std::string& option, std::string_view text);

/// The source of the word "catalog", "on-demand" or "spot". Throws InputError for another one.
PriceSource read_price_source(const std::string& word);
/// The request with prices of another market. The prices that it states are of the market of before: where that changes, the
/// catalog's take their place.
void take_prices_of(ProvisionRequest& request, PriceSource source);
std::string to_text(PriceSource source);
/// The planner of the word "ours", "spotdnn-paper", "spotdnn-released", "cm-dare+", "exhaustive" or "homogeneous".
/// Throws InputError for another one.
Planner read_planner(const std::string& word);
std::string to_text(Planner planner);

/// JSON Schema (draft 2020-12) of a provision file.
std::string provision_schema();

}  // namespace rehearse
