#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "platforms/fleet_trace.hpp"
#include "platforms/price.hpp"
#include "platforms/profile.hpp"
#include "platforms/topology.hpp"
#include "sim/base/base.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::fuzz {
namespace {

void run_profile(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const Profile profile = read_profile(JsonReader{json, "input"});
    require(profile.network.nic_efficiency > 0 && profile.gpu.efficiency_for("any") > 0, "shares are above 0");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A catalog file, read as from a folder of the user's.
void run_catalog(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const JsonReader reader{json, "input"};
    for (const auto& [name, entry] : reader.child("accelerators").items()) (void)read_accelerator(name, entry);
    for (const auto& [name, entry] : reader.child("instances").items()) (void)read_instance(name, entry);
    if (reader.has("interconnects"))
      for (const auto& [name, entry] : reader.child("interconnects").items())
        (void)read_interconnect(entry, BytesPerSecond{1e9});
    for (const JsonReader& entry : reader.children("region_links")) (void)read_region_link(entry);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void require_sound_paths(const Topology& topology, int machines, int gpus) {
  for (int a = 0; a < machines; ++a) {
    for (int b = 0; b < machines; ++b) {
      for (const int gpu : {Endpoint::kHost, 0, gpus - 1}) {
        if (a == b && gpu <= 0) continue;
        const Path path = topology.path({a, gpu}, {b, 0});
        require(!path.links.empty() && path.latency >= Seconds{}, "messages cross links and take no negative time");
        require(std::set<int>(path.links.begin(), path.links.end()).size() == path.links.size(),
                "a path crosses no link twice");
        require(topology.path({b, 0}, {a, gpu}).links.size() == path.links.size(), "back is as far as forth");
        for (const int link : path.links)
          require(topology.links().at(static_cast<std::size_t>(link)).rate > BytesPerSecond{}, "links have a rate");
      }
    }
  }
}

void require_sound_rings(const Interconnect& interconnect, const std::vector<int>& gpus) {
  std::map<std::pair<int, int>, int> left;
  for (const NvlinkPair& pair : interconnect.nvlinks) left[{pair.a, pair.b}] = left[{pair.b, pair.a}] = pair.count;
  for (const std::vector<int>& ring : find_rings(interconnect, gpus)) {
    require(std::set<int>(ring.begin(), ring.end()) == std::set<int>(gpus.begin(), gpus.end()),
            "a ring visits all GPUs");
    require(ring.size() == gpus.size(), "a ring visits no GPU twice");
    for (std::size_t i = 0; i < ring.size(); ++i)
      require(--left[{ring[i], ring[(i + 1) % ring.size()]}] >= 0, "no NVLink is used twice in one direction");
  }
}

/// A "network" of twelve machines whose GPUs have an "interconnect".
void run_topology(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const JsonReader reader{json, "input"};
    const Fabric fabric = read_fabric(reader.child("network"));
    const Json written = to_json(fabric);
    require(read_fabric(JsonReader{written, "output"}) == fabric, "a written fabric is read back the same");
    const Interconnect interconnect = read_interconnect(reader.child("interconnect"), BytesPerSecond{1e9});
    constexpr int kMachines = 12, kGpus = 5;
    const TopologyMachine machine{
        .region = "r", .nic = BytesPerSecond{1e9}, .nics = 2, .gpus = kGpus, .interconnect = interconnect};
    for (const int gpus : {2, 3, 5, 8}) {
      std::vector<int> some;
      for (int gpu = 0; gpu < gpus; ++gpu) some.push_back(gpu);
      require_sound_rings(interconnect, some);
    }
    try {
      const Topology topology{
          std::vector<TopologyMachine>(kMachines, machine), fabric, {{"r", "r", Seconds{1e-6}, {}, ""}}, Seconds{1e-6}};
      require_sound_paths(topology, kMachines, kGpus);
    } catch (const std::invalid_argument& error) { require_one_line(error.what()); }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Events come in order of date, and a slot's machine runs before it goes.
template <class Events>
void require_sound_events(Events& events, int most) {
  std::vector<bool> runs;
  for (int slot = 0; slot < events.slots(); ++slot) runs.push_back(events.runs_at_start(slot));
  Seconds last{};
  for (int i = 0; i < most; ++i) {
    const std::optional<FleetEvent> event = events.next();
    if (!event) return;
    require(event->at >= last && event->at < Seconds{1e300}, "dates do not fall");
    last = event->at;
    const auto slot = static_cast<std::size_t>(event->slot);
    require(slot < runs.size(), "a slot is one of the fleet's");
    if (event->kind == FleetEvent::Kind::kRequested) continue;
    require(runs[slot] == (event->kind != FleetEvent::Kind::kRunning),
            "only who runs can go, only who is not there come");
    if (event->kind != FleetEvent::Kind::kNotice) runs[slot] = event->kind == FleetEvent::Kind::kRunning;
  }
}

void run_spot_pool(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const SpotPool pool = read_spot_pool("pool", JsonReader{json, "input"});
    double last = 1;
    for (double age = 0; age < 2e6; age += 7e3) {
      const double survival = pool.lifetime.survival(Seconds{age});
      require(survival >= -1e-9 && survival <= last + 1e-9, "survival is a share and does not rise");
      last = survival;
    }
    Fleet fleet{{{.slots = 3, .pool = pool, .replaced_by = 0}}, 1e4, 1};
    require_sound_events(fleet, 60);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_fleet_trace(std::string_view input) {
  try {
    const FleetTrace trace = read_fleet_trace(parse_csv(std::string{input}, "input"));
    for (const int slots : {1, 3}) {
      FleetReplay replay{trace, slots, trace.end * 0.25, Seconds{30}};
      require_sound_events(replay, 1'000'000);
    }
    const FleetTrace rest = cut(trace, trace.end * 0.5);
    require(rest.events.size() <= trace.events.size(), "a part has no more events than the whole");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A file of spot prices: of series, or with a table beside it.
void run_prices(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    const PriceHistory history = read_price_history(JsonReader{json, "input"});
    for (const auto& [key, series] : history.series)
      require(series.usd_per_hour(0) >= 0 && series.usd(1e9, 2e9) >= 0, "prices are not negative");
  } catch (const InputError& error) { require_one_line(error.what()); }
  const test::TemporaryFolder folder;
  folder.write("prices.csv", std::string{input});
  const Json json{{"format", 1}, {"source", "test"}, {"file", "prices.csv"}};
  try {
    (void)read_price_history(JsonReader{json, (folder / "prices.json").string()});
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_platforms() {
  static constexpr std::array kTargets{Target{"profile", run_profile},         Target{"catalog", run_catalog},
                                       Target{"topology", run_topology},       Target{"spot_pool", run_spot_pool},
                                       Target{"fleet_trace", run_fleet_trace}, Target{"prices", run_prices}};
  return kTargets;
}

}  // namespace rehearse::fuzz
