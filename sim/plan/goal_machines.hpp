#pragma once
// Machines that may be rented, and the scenario of a model that is trained on them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// Which machines may be rented. Lists that are empty allow all.
struct MachineFilter {
  std::vector<std::string> gpus;                    // "A100" is also "A100 80GB" and other boards whose names begin so
  std::vector<std::string> instances;               // these need no price
  std::map<std::string, std::vector<int>> numbers;  // by instance: so many machines, whatever the GPUs below
  std::vector<std::string> providers;               // "aws", "gce", "azure"
  std::vector<bool> are_spot{false};                // markets
  std::optional<int> gpu_count;                     // of a cluster: so many,
  std::optional<int> most_gpus;                     // or powers of two of machines, and as many as there may be
};

/// Whether the GPU is one of those that are asked for, as MachineFilter::gpus means it.
bool is_board(const std::vector<std::string>& asked, const std::string& gpu);

/// So many machines of a type.
struct MachineChoice {
  std::string instance;
  int count = 1;
  bool is_spot = false;
  int gpus = 0;
  std::string gpu;                     // its name
  std::optional<double> usd_per_hour;  // of a machine
  std::string region;                  // where it costs that

  /// "64 x p5.48xlarge (512 H100)", "8 x p3.2xlarge, spot (8 V100)".
  std::string text() const;
};

/// Those of the catalog, in the order of its names. Machines without a price are left out unless they are named. Throws InputError, which
/// names the option: an unknown name, no machine. `unmatched`: is told of each GPU and instance asked for that gave none.
std::vector<MachineChoice> machine_choices(const Catalog& catalog, const MachineFilter& filter,
                                           std::vector<std::string>* unmatched = nullptr);

/// The only group of workers of a scenario (JSON), beside whatever servers it has; InputError if there are others.
Json& only_workers(Json& scenario, const std::string& file_name);

/// The workers of a scenario (JSON) are on these machines from now on, and as many servers on each of them as before; where they are another
/// provider's, all machines are in its region.
void set_machines(Json& scenario, const MachineChoice& machines, const Catalog& catalog, const std::string& file_name);

/// What --strategy may say.
std::vector<std::string> strategy_words();
/// The scenario (JSON) trains so from now on; where it did before it is kept as it is, with its servers. Throws InputError: another word.
void set_strategy(Json& scenario, const std::string& word, const Catalog& catalog, const std::string& file_name);
/// Servers with machines of their own have these; `server` empty: those that they had, or, if none or another provider's than the workers', the
/// machine without GPUs of that provider whose NICs cost least. Throws InputError: no such machine.
void choose_server(Json& scenario, const std::string& server, const Catalog& catalog, const std::string& file_name);

/// Machines for servers that are worth a look beside so many workers: 1, 2, 4, ... up to half as many, and what the scenario (JSON) has.
/// None where it has no servers with machines of their own, or several groups of them, which are kept as they are.
std::vector<int> server_counts(const Json& scenario, int workers);
/// The servers of server_counts() are so many from now on.
void set_servers(Json& scenario, int machines);

/// A scenario (JSON) that trains the model of this name, or file, on the machines: Adam and 16 bits where GPUs have matrix units for it,
/// gradients of transformers added up in fp32, the library's all-reduces; machines are in one placement group.
Json scenario_of_model(const std::string& model, const MachineChoice& machines, const Catalog& catalog);

/// Spot machines of a scenario (JSON) are revoked as those of the pool of this name. A strategy whose workers may divide the model
/// (has_degrees()) goes back to a checkpoint when it loses a machine, unless the scenario states otherwise, and writes one at the interval of Young and Daly: 5 s and 500 MB/s each, the loss is
/// noticed after 30 s, and a restart takes 60 s besides: assumptions. Others go on with those that stay.
void set_revocations(Json& scenario, const std::string& pool);
/// Throws InputError, which names --spot-pool, if the catalog does not have it.
void check_spot_pool(const Catalog& catalog, const std::string& pool);

/// Pools of the catalog that were fitted to revocations of machines with this GPU.
std::vector<std::string> pools_of_gpu(const Catalog& catalog, const std::string& gpu);

}  // namespace rehearse
