// Pairs of random scenarios whose results must agree, whatever they are: what a change of units, names or places, of
// the way in which a scenario is run, or of all times and rates at once may do, and nothing else. With and without spot
// machines, on every topology. A few hundred pairs here; REHEARSE_PAIRS=20000 and REHEARSE_FIRST_SEED=1 run more.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/plan/sweep.hpp"
#include "tests/support/from_environment.hpp"
#include "tests/support/random_revocations.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// What both runs of a pair must agree on.
struct Pair {
  Json first;                                         // null: the scenario itself
  Json other;                                         // the changed scenario
  double times = 1;                                   // time of the first run over that of the other
  double tolerance = 0;                               // relative; 0: to the last bit
  std::function<std::string(const Json&)> run_first;  // instead of one simulation; texts that must be equal
  std::function<std::string(const Json&)> run_other;
};

struct Relation {
  std::string name;
  /// None if the theorem says nothing about this scenario.
  std::function<std::optional<Pair>(const Json& scenario, Rng& random)> change;
};

bool is_all_reduce(const Json& scenario) { return scenario["training"]["strategy"]["kind"] == "all_reduce"; }
bool is_spot(const Json& scenario) {
  return std::any_of(scenario["cluster"]["groups"].begin(), scenario["cluster"]["groups"].end(),
                     [](const Json& group) { return group.contains("spot_pool"); });
}

Json effective(const Json& scenario) { return *test::resolved(scenario).effective; }

/// What simulate() gives, without names: time, work, bytes, and what the summary makes of them.
std::string outcome_of(const Json& json, bool is_exact = false) {
  const Scenario scenario = test::resolved(json);
  const RunRecord record = simulate(scenario, {.is_exact = is_exact, .on_update = {}});
  const Interruptions& interruptions = record.interruptions;
  const Summary summary = summarize(scenario, record);
  return Json{record.end.value(),        record.updates,         record.sent.value(),        record.received.value(),
              interruptions.revocations, interruptions.restarts, interruptions.lost_updates, summary.gpu_utilization}
      .dump();
}

std::string summary_of(const Json& json) {
  const Scenario scenario = test::resolved(json);
  return to_json(scenario, summarize(scenario, simulate(scenario))).dump();
}

/// Every string below `node` becomes change(string), except those that are names or prose.
void for_each_quantity(Json& node, const std::function<std::string(const std::string&)>& change) {
  if (node.is_string()) {
    node = change(node.get<std::string>());
  } else if (node.is_structured()) {
    for (auto& [key, value] : node.items())
      if (key != "name" && key != "source" && key != "from" && key != "to" && key != "region")
        for_each_quantity(value, change);
  }
}

/// "12.5us" as 12.5 and "us"; nothing for what is no quantity.
std::optional<std::pair<double, std::string>> split_quantity(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  if (end == text.c_str() || unit.empty()) return std::nullopt;
  return std::pair{number, unit};
}

std::string quantity(double number, const std::string& unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text + unit;
}

bool is_time(const std::string& unit) {
  const std::vector<std::string> units{"ns", "us", "ms", "s", "min", "h", "d"};
  return std::find(units.begin(), units.end(), unit) != units.end();
}

bool is_rate(const std::string& unit) { return unit.ends_with("ps") || unit.ends_with("flops"); }

/// Whoever waits for nobody's message may be overtaken by another at the last bit of a date: with servers and pairwise
/// averaging only changes that keep every bit are theorems.
std::optional<Pair> only_to_rounding(const Json& scenario, Pair pair) {
  if (!is_all_reduce(scenario)) return std::nullopt;
  pair.tolerance = 1e-9;
  return pair;
}

/// The effective scenario, which states every default, with all times `factor` times as long and all rates as much
/// lower.
Json slowed_down(const Json& scenario, double factor) {
  Json slower = effective(scenario);
  for_each_quantity(slower, [&](const std::string& text) {
    const auto split = split_quantity(text);
    if (split && is_time(split->second)) return quantity(split->first * factor, split->second);
    if (split && is_rate(split->second)) return quantity(split->first / factor, split->second);
    return text;
  });
  for (Json& group : slower["cluster"]["groups"]) {
    if (!group.contains("spot_pool")) continue;
    Json& pool = group["spot_pool"];
    if (pool.contains("replay"))
      for (Json& event : pool["replay"]) event[0] = event[0].get<double>() * factor;
    else
      pool["notice"] = quantity(0.01 * factor, "s");  // at most a day, whatever the factor
  }
  return slower;
}

/// Powers of two change no digit. Machines live for at least a second and SimGrid's clock has a grain of a nanosecond:
/// beside lives and messages that are a million times as long as those of the random scenarios both are nothing. Where
/// a time is beyond what a scenario may state then, nothing is said.
std::optional<Pair> twice_as_fast(const Json& scenario, Rng&) {
  constexpr double kMillion = 1 << 20;
  Pair pair{.first = slowed_down(scenario, 2 * kMillion),
            .other = slowed_down(scenario, kMillion),
            .times = 2,
            .tolerance = 1e-9};
  try {
    (void)test::resolved(pair.first);
  } catch (const InputError&) { return std::nullopt; }
  return pair;
}

std::optional<Pair> other_names(const Json& scenario, Rng&) {
  Json renamed = scenario;
  const auto rename = [](Json& name) {
    if (name != "none") name = "renamed " + name.get<std::string>();
  };
  for (Json& group : renamed["cluster"]["groups"]) {
    rename(group["name"]);
    if (group.contains("colocated_with")) rename(group["colocated_with"]);
    if (group.contains("replacement") && group["replacement"].contains("with")) rename(group["replacement"]["with"]);
  }
  return Pair{.first = {}, .other = renamed};
}

/// The order of groups numbers machines: it places them in topologies, names the streams of workers and of spot
/// machines, chooses the chief, and says who is first among equals. Servers of their own may stand before or after the
/// workers on a star, where all places are alike and machines stay; only sums over machines are in another order then.
std::optional<Pair> servers_first(const Json& scenario, Rng&) {
  Json permuted = scenario;
  Json& groups = permuted["cluster"]["groups"];
  if (is_spot(scenario) || groups.size() < 2 || permuted["cluster"]["network"].value("topology", "star") != "star")
    return std::nullopt;
  const auto is_server = [](const Json& group) { return group["role"] == "parameter_server"; };
  if (std::none_of(groups.begin(), groups.end(), is_server)) return std::nullopt;
  std::stable_partition(groups.begin(), groups.end(), is_server);
  return Pair{.first = {}, .other = permuted, .tolerance = 1e-12};
}

/// A group of n machines as two of n1 and n2 beside each other. Lives of spot machines are drawn from streams that are
/// named by the number of the group, so none may stand there or after it; a replay is of a whole group.
std::optional<Pair> split_group(const Json& scenario, Rng& random) {
  Json split = scenario;
  Json& groups = split["cluster"]["groups"];
  const std::size_t chosen = random.below(groups.size());
  const Json group = groups[chosen];
  const int count = group.value("count", 1);
  if (count < 2 || group.contains("colocated_with")) return std::nullopt;
  for (const Json& other : groups)
    if (other.value("colocated_with", "") == group["name"].get<std::string>()) return std::nullopt;
  if (group.contains("spot_pool")) return std::nullopt;
  for (std::size_t i = chosen; i < groups.size(); ++i)
    if (groups[i].contains("spot_pool") && !groups[i]["spot_pool"].contains("replay")) return std::nullopt;
  Json rest = group;
  const int first = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(count - 1)));
  groups[chosen]["count"] = first;
  rest["count"] = count - first;
  rest["name"] = group["name"].get<std::string>() + " too";
  groups.insert(groups.begin() + static_cast<std::ptrdiff_t>(chosen) + 1, rest);
  return Pair{.first = {}, .other = split, .tolerance = 1e-12};
}

/// 1GBps is 8Gbps, to the last bit; 1ms is 1000us up to rounding.
std::optional<Pair> rates_in_bits(const Json& scenario, Rng&) {
  Json rewritten = scenario;
  for_each_quantity(rewritten, [](const std::string& text) {
    const auto split = split_quantity(text);
    if (!split || !split->second.ends_with("Bps")) return text;
    return quantity(split->first * 8, split->second.substr(0, split->second.size() - 3) + "bps");
  });
  return Pair{.first = {}, .other = rewritten};
}

std::optional<Pair> times_in_other_units(const Json& scenario, Rng&) {
  Json rewritten = scenario;
  for_each_quantity(rewritten, [](const std::string& text) {
    const auto split = split_quantity(text);
    if (split && split->second == "ms") return quantity(split->first * 1000, "us");
    if (split && split->second == "us") return quantity(split->first * 1000, "ns");
    if (split && split->second == "s") return quantity(split->first * 1000, "ms");
    return text;
  });
  return only_to_rounding(scenario, {.first = {}, .other = rewritten});
}

std::optional<Pair> effective_again(const Json& scenario, Rng&) {
  return Pair{.first = {}, .other = effective(scenario), .run_first = summary_of, .run_other = summary_of};
}

std::optional<Pair> same_seed_again(const Json& scenario, Rng&) {
  return Pair{.first = {}, .other = scenario, .run_first = summary_of, .run_other = summary_of};
}

/// On SimGrid's own network every date is rounded to its nanosecond: of the others, who is served first may change.
std::optional<Pair> exactly(const Json& scenario, Rng&) {
  if (!is_all_reduce(scenario) || is_spot(scenario)) return std::nullopt;
  return Pair{
      .other = scenario, .tolerance = 1e-6, .run_other = [](const Json& json) { return outcome_of(json, true); }};
}

/// Rows of a sweep over one place; throws if none has a result.
std::string swept(const Json& scenario, const std::string& values, int parallel, bool is_table) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "scenario.json";
  write_file(path, to_json_text(scenario));
  SweepRequest request = load_sweep_request(path);
  add_axis(request, read_grid_option("/seed=" + values, Json::object()));
  const Catalog& catalog = test::shipped_catalog();
  Sweep sweep{std::move(request), catalog, "test"};
  sweep.check();
  ResultStore store = ResultStore::temporary();
  sweep.run(store, parallel, [](std::size_t, std::size_t) {}, {});
  std::string text, problem;
  sweep.for_each_row(store, [&](const SweepRow& row) {
    if (row.error.empty())
      text += row.summary.dump();
    else
      problem = row.error;
  });
  if (text.empty()) throw std::runtime_error{problem};
  if (!is_table) return text;
  text = sweep.csv(store);
  const std::string place = folder.path.string();  // of this process alone
  for (std::size_t at = 0; (at = text.find(place, at)) != std::string::npos;) text.erase(at, place.size());
  return text;
}

std::optional<Pair> one_cell_sweep(const Json& scenario, Rng&) {
  const std::string seed = std::to_string(scenario.value("seed", 1));
  return Pair{.first = {}, .other = scenario, .run_first = summary_of, .run_other = [seed](const Json& json) {
                return swept(json, seed, 1, false);
              }};
}

std::optional<Pair> sweep_by_several(const Json& scenario, Rng&) {
  return Pair{.first = {},
              .other = scenario,
              .run_first = [](const Json& json) { return swept(json, "1,2,3", 1, true); },
              .run_other = [](const Json& json) { return swept(json, "1,2,3", 3, true); }};
}

std::string runs_of(const Json& scenario, std::size_t runs, int parallel) {
  return runs_csv(run_monte_carlo(test::resolved(scenario), {.runs = runs, .pool = parallel}));
}

std::optional<Pair> runs_by_several(const Json& scenario, Rng&) {
  if (!is_spot(scenario)) return std::nullopt;
  return Pair{.first = {},
              .other = scenario,
              .run_first = [](const Json& json) { return runs_of(json, 4, 1); },
              .run_other = [](const Json& json) { return runs_of(json, 4, 3); }};
}

std::optional<Pair> fewer_runs(const Json& scenario, Rng&) {
  if (!is_spot(scenario)) return std::nullopt;
  return Pair{.first = {},
              .other = scenario,
              .run_first = [](const Json& json) { return runs_of(json, 3, 1); },
              .run_other =
                  [](const Json& json) {
                    const std::string text = runs_of(json, 6, 1);
                    std::size_t end = 0;
                    for (int line = 0; line < 4; ++line) end = text.find('\n', end) + 1;
                    return text.substr(0, end);
                  }};
}

const std::vector<Relation>& relations() {
  static const std::vector<Relation> all{{"all rates doubled and all times halved", twice_as_fast},
                                         {"groups renamed", other_names},
                                         {"servers before workers", servers_first},
                                         {"a group split in two", split_group},
                                         {"rates in bits instead of bytes", rates_in_bits},
                                         {"times in other units", times_in_other_units},
                                         {"the effective scenario again", effective_again},
                                         {"the same again", same_seed_again},
                                         {"exactly", exactly},
                                         {"a sweep of one", one_cell_sweep},
                                         {"a sweep by several processes", sweep_by_several},
                                         {"many runs by several processes", runs_by_several},
                                         {"fewer of many runs", fewer_runs}};
  return all;
}

/// Scenario `seed`; every other one on spot machines.
Json random_case(std::uint64_t seed) {
  if (seed % 2 == 0) return test::ScenarioGenerator{seed}.generate();
  const Json plain = test::random_job(seed);
  const auto length =
      run_isolated(1, 1, [&](std::size_t) { return std::to_string(simulate(test::resolved(plain)).end.value()); });
  return test::with_random_revocations(plain, std::atof(length.front().text.c_str()), seed);
}

/// What differs; empty if nothing does.
std::string difference(const Pair& pair, const std::string& first, const std::string& other) {
  if (first == other) return {};
  if (pair.run_first || (pair.tolerance == 0 && pair.times == 1)) return "not the same bytes";
  const Json a = Json::parse(first), b = Json::parse(other);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double expected = b[i].get<double>() * (i == 0 ? pair.times : 1), value = a[i].get<double>();
    if (std::abs(value - expected) > pair.tolerance * std::abs(value))
      return "value " + std::to_string(i) + ": " + a[i].dump() + " and " + b[i].dump();
  }
  return {};
}

}  // namespace

/// REHEARSE_PRINT_SEED=n prints scenario n: what to run a failure with.
TEST_CASE("a random case can be printed") {
  if (const std::uint64_t seed = test::from_environment("REHEARSE_PRINT_SEED", 0); seed != 0)
    std::printf("%s", to_json_text(random_case(seed)).c_str());
}

namespace {

/// What a pair was made of, and what differs between its runs.
struct PairResult {
  std::uint64_t seed = 0;
  bool is_spot = false;
  bool has_fabric = false;  // a network that is no star
  std::string what;
};

/// Both runs of a pair, each in its own child; nothing if neither has a result, as in jobs that are given up.
std::optional<std::string> compared(const Json& scenario, const Pair& pair) {
  const auto run = [](const std::function<std::string(const Json&)>& how, const Json& json) {
    return run_isolated(1, 1, [&](std::size_t) { return how ? how(json) : outcome_of(json); }).front();
  };
  const PooledRun a = run(pair.run_first, pair.first.is_null() ? scenario : pair.first),
                  b = run(pair.run_other, pair.other);
  if (a.has_died || b.has_died) return "a process ended: " + a.text + b.text;
  if (a.has_succeeded != b.has_succeeded)
    return "one has a result, the other not: " + (a.has_succeeded ? b.text : a.text);
  if (!a.has_succeeded) return std::nullopt;
  return difference(pair, a.text, b.text);
}

/// The first of scenarios `seed`, `seed` + kStride, ... of which the relation says something and which has a result.
PairResult first_pair(const Relation& relation, std::uint64_t seed) {
  constexpr int kMostTries = 300;
  constexpr std::uint64_t kStride = 1'000'003;  // odd, as only odd seeds have spot machines
  for (int i = 0; i < kMostTries; ++i, seed += kStride) {
    Rng random{seed, "relation"};
    const Json scenario = random_case(seed);
    const std::optional<Pair> pair = relation.change(scenario, random);
    if (!pair) continue;
    if (const std::optional<std::string> what = compared(scenario, *pair))
      return {.seed = seed,
              .is_spot = is_spot(scenario),
              .has_fabric = scenario["cluster"]["network"].value("topology", "star") != "star",
              .what = *what};
  }
  throw std::runtime_error{"no scenario for " + relation.name};
}

}  // namespace

TEST_CASE("pairs of scenarios agree as the theorems say") {
  const std::uint64_t first = test::from_environment("REHEARSE_FIRST_SEED", 1);
  const std::uint64_t count = test::from_environment("REHEARSE_PAIRS", 260);
  // Each child does a whole pair; relations take turns, each in the first of its scenarios to which it applies.
  const auto relation_of = [](std::size_t i) -> const Relation& { return relations()[i % relations().size()]; };
  const auto results = run_isolated(count, 2, [&](std::size_t i) {
    const PairResult pair = first_pair(relation_of(i), first + i);
    return Json{pair.seed, pair.is_spot, pair.has_fabric, pair.what}.dump();
  });
  struct Count {
    int all = 0, spot = 0, fabric = 0;
  };
  std::map<std::string, Count> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(first + i);
    CAPTURE(relation_of(i).name);
    REQUIRE_MESSAGE(results[i].has_succeeded, results[i].text);
    const Json result = Json::parse(results[i].text);
    CAPTURE(result[0].get<std::uint64_t>());
    CHECK_MESSAGE(result[3] == "", result[3].get<std::string>());
    Count& counted = pairs[relation_of(i).name];
    ++counted.all;
    counted.spot += result[1].get<bool>() ? 1 : 0;
    counted.fabric += result[2].get<bool>() ? 1 : 0;
  }
  for (const auto& [name, counted] : pairs)
    MESSAGE(counted.all << " pairs (" << counted.spot << " on spot machines, " << counted.fabric
                        << " on networks that are no star): " << name);
}

namespace {

/// NICs and links of the network twice as fast, or its latencies half as long.
Json with_better_network(Json scenario, bool is_bandwidth) {
  const std::vector<std::string> keys =
      is_bandwidth ? std::vector<std::string>{"nic", "per_flow_rate", "link_rate", "local_rate", "global_rate"}
                   : std::vector<std::string>{"hop_latency", "latency"};
  const std::function<void(Json&)> improve = [&](Json& node) {
    if (!node.is_structured()) return;
    for (auto& [key, value] : node.items()) {
      if (value.is_string() && std::find(keys.begin(), keys.end(), key) != keys.end()) {
        const auto split = split_quantity(value.get<std::string>());
        value = quantity(split->first * (is_bandwidth ? 2 : 0.5), split->second);
      } else if (key != "interconnect") {
        improve(value);
      }
    }
  };
  improve(scenario["cluster"]);
  return scenario;
}

/// One message round at a time: synchronous all-reduce of a single tensor after the backward pass.
Json without_contention(Json scenario) {
  Json& layers = scenario["workload"]["model"]["structure"]["layers"];
  layers = Json::array({layers[0]});
  Json& strategy = scenario["training"]["strategy"];
  strategy["overlap"] = "none";
  for (const char* key : {"cycle_time", "partition_size", "bucket_size", "first_bucket_size"}) strategy.erase(key);
  return scenario;
}

double time_of(const Json& scenario) {
  const PooledRun result = run_isolated(1, 1, [&](std::size_t) {
                             return Json{simulate(test::resolved(scenario)).end.value()}.dump();
                           }).front();
  return result.has_succeeded ? Json::parse(result.text)[0].get<double>() : -1;
}

/// By how much a better network makes a run longer; 0 if it does not.
double anomaly(const Json& scenario, bool is_bandwidth) {
  const double before = time_of(scenario), after = time_of(with_better_network(scenario, is_bandwidth));
  return before > 0 && after > before * (1 + 1e-9) ? after / before - 1 : 0;
}

/// What has to go for the anomaly to go.
std::string explanation(const Json& scenario, bool is_bandwidth) {
  std::string text;
  const auto without = [&](const char* what, const std::function<void(Json&)>& change) {
    Json changed = scenario;
    change(changed);
    if (changed == scenario) return;
    try {
      (void)test::resolved(changed);
    } catch (const std::exception&) { return; }
    if (anomaly(changed, is_bandwidth) == 0) text += (text.empty() ? "" : ", ") + std::string{what};
  };
  without("overlap", [](Json& json) { json["training"]["strategy"]["overlap"] = "none"; });
  without("several messages at a time", [](Json& json) {
    Json& layers = json["workload"]["model"]["structure"]["layers"];
    layers = Json::array({layers[0]});
    for (const char* key : {"cycle_time", "partition_size", "bucket_size", "first_bucket_size"})
      json["training"]["strategy"].erase(key);
  });
  without("asynchrony", [](Json& json) {
    Json& strategy = json["training"]["strategy"];
    if (!strategy.contains("synchronization")) return;
    strategy["synchronization"] = "synchronous";
    strategy.erase("staleness_bound");
  });
  without("variation of steps", [](Json& json) { json["training"]["step_time_variation"] = 0; });
  without("checkpoints", [](Json& json) { json["training"].erase("checkpoint"); });
  without("revocations, joins and leaves", [](Json& json) {
    for (Json& group : json["cluster"]["groups"])
      for (const char* key : {"spot_pool", "market", "replacement", "joins_at", "leaves_at"}) group.erase(key);
  });
  return text.empty() ? "more than one of them" : text;
}

}  // namespace

TEST_CASE("a faster network never makes a run longer where messages neither contend nor overlap; elsewhere it may") {
  const std::uint64_t first = test::from_environment("REHEARSE_FIRST_SEED", 1);
  const std::uint64_t count = test::from_environment("REHEARSE_PAIRS", 260) / 4;
  const auto results = run_isolated(count, 2, [first](std::size_t i) {
    const std::uint64_t seed = first + i;
    const bool is_bandwidth = seed / 2 % 2 == 0;
    const Json scenario = random_case(seed);
    double of_theorem = 0;
    if (Json plain = test::ScenarioGenerator{seed}.generate(); is_all_reduce(plain)) {
      for (Json& group : plain["cluster"]["groups"]) group.erase("joins_at"), group.erase("leaves_at");
      of_theorem = anomaly(without_contention(plain), is_bandwidth);
    }
    return Json{of_theorem, anomaly(scenario, is_bandwidth)}.dump();
  });
  std::vector<std::pair<double, std::uint64_t>> exceptions;
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(first + i);
    REQUIRE_MESSAGE(results[i].has_succeeded, results[i].text);
    const Json result = Json::parse(results[i].text);
    CHECK(result[0] == 0);
    if (result[1] > 0) exceptions.emplace_back(result[1].get<double>(), first + i);
  }
  std::sort(exceptions.rbegin(), exceptions.rend());
  MESSAGE(exceptions.size() << " of " << count << " runs are longer with a faster network");
  for (std::size_t i = 0; i < std::min<std::size_t>(3, exceptions.size()); ++i) {
    const auto& [share, seed] = exceptions[i];
    const bool is_bandwidth = seed / 2 % 2 == 0;
    const std::string why = explanation(random_case(seed), is_bandwidth);
    MESSAGE("seed " << seed << ": " << 100 * share << " % longer with "
                    << std::string{is_bandwidth ? "twice the bandwidth" : "half the latency"}
                    << "; not without: " << why);
  }
}

}  // namespace rehearse
