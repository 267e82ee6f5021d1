// What a collective library adds to the time of the links, in closed form, by default, and message by message.

#include "sim/training/collective_time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::collective_time_test {

namespace {

constexpr double kNic = 1e9, kNvlink = 25e9, kPort = 100e9;

using test::exactly;
using test::kAlpha;

/// `bytes` over machines of `gpus` GPUs with the interconnect `node`, and a library with these protocols on it.
Json all_reduce(int machines, int gpus, const Json& node, const Json& protocols, std::int64_t bytes = 24'000'000,
                const std::string& algorithm = "ring") {
  Json scenario = test::timed_scenario(machines, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", algorithm}}, gpus);
  scenario["workload"]["model"]["structure"] = {{"family", "collective"}, {"bytes", bytes}};
  Json& instance = scenario["cluster"]["groups"][0]["instance"];
  instance["interconnect"] = node;
  instance["interconnect"]["name"] = "node";
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile["collectives"]["by_interconnect"]["node"]["protocols"] = protocols;
  scenario["calibration"] = profile;
  return scenario;
}

Json nvswitch() { return {{"pcie", "10GBps"}, {"nvswitch", "100GBps"}, {"reduces_in_switch", true}}; }

double closed_form(const Json& scenario) { return collective_time(test::resolved(scenario)).value(); }

void check_time(const Json& scenario, double expected) {
  CHECK(closed_form(scenario) == exactly(expected));
  test::check_time(scenario, expected);
}

std::string refusal(const Json& scenario) {
  try {
    (void)test::resolved(scenario);
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("a worker's GPUs are ranks each") {
  const Json all = all_reduce(2, 4, nvswitch(), Json::object());
  Json by_workers = all;
  by_workers["cluster"]["groups"][0]["workers_per_machine"] = 2;
  by_workers["cluster"]["groups"][0]["batch_per_worker"] = 2;
  check_time(by_workers, closed_form(all));
}

TEST_CASE("a ring with a library: launch + 2 (p - 1) (step + n / (p e b)) + n / (p copy)") {
  const Json protocols{
      {"simple", {{"launch", "20us"}, {"nvlink_step", "3us"}, {"efficiency", 0.8}, {"copy", "200GBps"}}}};
  for (const int p : {2, 3, 4, 6, 8}) {
    CAPTURE(p);
    check_time(all_reduce(1, p, nvswitch(), protocols),
               20e-6 + 2 * (p - 1) * (3e-6 + 24e6 / (p * 0.8 * kPort)) + 24e6 / p / 200e9);
  }
  CHECK(closed_form(all_reduce(1, 1, nvswitch(), protocols)) == 0);
}

TEST_CASE("messages between machines have their library's headers: 2 (p - 1) (a + on_wire(n / p) / b)") {
  const Json grpc{{"chunk", "16KiB"}, {"chunk_header", "9B"}, {"message_header", "60B"}, {"source", "test"}};
  for (const int p : {2, 3, 4, 6}) {
    CAPTURE(p);
    Json ring = all_reduce(p, 1, nvswitch(), Json::object());
    const double part = 24e6 / p;
    check_time(ring, 2 * (p - 1) * (kAlpha + part / kNic));
    ring["cluster"]["network"]["messaging"] = grpc;
    check_time(ring, 2 * (p - 1) * (kAlpha + (part + 60 + 9 * std::ceil(part / 16384)) / kNic));
    CHECK(as_double(bytes_leaving_first_machine(test::resolved(ring))) ==
          2 * (p - 1) * (part + 60 + 9 * std::ceil(part / 16384)));
  }
  Json inside = all_reduce(1, 4, nvswitch(), Json::object());
  const double without = closed_form(inside);
  inside["cluster"]["network"]["messaging"] = grpc;
  check_time(inside, without);
}

TEST_CASE("what goes to a server and back has its library's headers, and answers to requests take no time") {
  Json scenario = test::with_servers(
      test::timed_scenario(1, {{"1000000B"}}, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}), 1);
  const test::Times without = test::times_of(scenario);
  scenario["cluster"]["network"]["messaging"] = {{"message_header", "100kB"}, {"source", "test"}};
  const test::Times with = test::times_of(scenario);
  CHECK(with.by_default - without.by_default == exactly(2 * 100e3 / test::kBeta));
  CHECK(with.exact - without.exact == exactly(2 * 100e3 / test::kBeta));
  scenario["cluster"]["network"]["messaging"] = {{"request", "100kB"}, {"coordination", "100kB"}, {"source", "test"}};
  CHECK(test::times_of(scenario).by_default == without.by_default);
}

TEST_CASE("what a library sends is found by its name, and mistakes are named") {
  Json ring = all_reduce(2, 1, nvswitch(), Json::object());
  ring["cluster"]["network"]["messaging"] = "gloo";
  const Scenario named = test::resolved(ring);
  CHECK(named.messaging.message_header == Bytes{192});
  ring["cluster"]["network"]["messaging"] = named.effective->at("cluster").at("network").at("messaging");
  CHECK(*test::resolved(ring).effective == *named.effective);
  ring["cluster"]["network"]["messaging"] = "glo";
  CHECK(refusal(ring).ends_with("/cluster/network/messaging: unknown messaging \"glo\"; did you mean \"gloo\"?"));
  ring["cluster"]["network"]["messaging"] = Json{{"header", "1B"}, {"source", "s"}};
  CHECK(refusal(ring).find("/cluster/network/messaging: unknown key \"header\"") != std::string::npos);
}

TEST_CASE("steps are those of the links that a part passes") {
  const Json protocols{{"simple", {{"nvlink_step", "3us"}, {"pcie_step", "5us"}, {"network_step", "14us"}}}};
  const double port = 24e6 / (4 * kPort), pcie = 24e6 / (4 * 10e9);
  check_time(all_reduce(1, 4, nvswitch(), protocols), 6 * (3e-6 + port));
  check_time(all_reduce(1, 4, {{"pcie", "10GBps"}}, protocols), 6 * (5e-6 + pcie));
  check_time(all_reduce(4, 1, nvswitch(), protocols), 6 * (14e-6 + kAlpha + 24e6 / (4 * kNic)));
  // Two machines of two GPUs: of the four edges of the ring two are inside and two outside.
  check_time(all_reduce(2, 2, nvswitch(), protocols), 6 * ((3e-6 + 14e-6 + kAlpha) / 2 + 24e6 / (4 * kNic)));
  // A tree of three: root and two leaves, up and down; two children share the root's NIC.
  check_time(all_reduce(3, 1, nvswitch(), protocols, 24'000'000, "binary_tree"),
             2 * (14e-6 + kAlpha + 2 * 24e6 / kNic));
}

TEST_CASE("of several protocols the one that ends first: the time is the least of theirs, and grows with the size") {
  const Json fast_start{{"launch", "5us"}, {"nvlink_step", "1us"}, {"efficiency", 0.5}};
  const Json full_rate{{"launch", "30us"}, {"nvlink_step", "4us"}};
  double before = 0;
  int switches = 0;
  bool starts_fast = true;
  for (std::int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 2) {
    const auto time = [&](const Json& protocols) {
      return closed_form(all_reduce(1, 4, nvswitch(), protocols, bytes));
    };
    const double a = time({{"LL", fast_start}}), b = time({{"Simple", full_rate}}),
                 both = time({{"LL", fast_start}, {"Simple", full_rate}});
    CHECK(both == std::min(a, b));
    CHECK(both > before);
    before = both;
    if ((a < b) != starts_fast) ++switches;
    starts_fast = a < b;
  }
  CHECK(switches == 1);
  CHECK(!starts_fast);
  for (const std::int64_t bytes : {1'000'000, 100'000'000})
    check_time(all_reduce(1, 4, nvswitch(), {{"LL", fast_start}, {"Simple", full_rate}}, bytes),
               bytes == 1'000'000 ? 5e-6 + 6 * (1e-6 + 2e6 / (4 * kPort)) : 30e-6 + 6 * (4e-6 + 1e8 / (4 * kPort)));
}

TEST_CASE("NVLink SHARP: a + (1 + 1 / p) n / b, where all GPUs are on one switch") {
  const Json protocols{{"ring", {{"algorithm", "ring"}}},
                       {"nvls", {{"algorithm", "nvls"}, {"launch", "25us"}, {"efficiency", 0.8}}}};
  for (const int p : {2, 4, 8})
    check_time(all_reduce(1, p, nvswitch(), protocols, 240'000'000, "nvls"),
               25e-6 + (1 + 1.0 / p) * 240e6 / (0.8 * kPort));
  // Eight GPUs: 1.125 n / 0.8 b + 25 us against 1.75 n / b; they meet at 7.3 MB.
  check_time(all_reduce(1, 8, nvswitch(), protocols, 240'000'000, "fastest"), 25e-6 + 1.125 * 240e6 / (0.8 * kPort));
  check_time(all_reduce(1, 8, nvswitch(), protocols, 2'400'000, "fastest"), 1.75 * 2.4e6 / kPort);
  // Without a switch that reduces the fastest is the ring.
  check_time(all_reduce(1, 8, {{"pcie", "10GBps"}, {"nvswitch", "100GBps"}}, protocols, 240'000'000, "fastest"),
             1.75 * 240e6 / kPort);
  check_time(all_reduce(1, 8, {{"pcie", "10GBps"}}, protocols, 240'000'000, "fastest"), 1.75 * 240e6 / 10e9);
  // Among three machines a clique, which differs from a ring in latencies alone.
  check_time(all_reduce(3, 1, nvswitch(), protocols, 24'000'000, "fastest"), 2 * (kAlpha + 16e6 / kNic));
  CHECK(refusal(all_reduce(2, 2, nvswitch(), protocols, 1000, "nvls")).find("one machine with an NVSwitch") !=
        std::string::npos);
  for (const Json& other : {Json{{"pcie", "10GBps"}}, Json{{"pcie", "10GBps"}, {"nvswitch", "100GBps"}}})
    CHECK(refusal(all_reduce(1, 2, other, protocols, 1000, "nvls")).find("with an NVSwitch that") != std::string::npos);
}

TEST_CASE("a library takes the protocol that its tuner expects to end first, which need not be the one that does") {
  const Json late{{"algorithm", "ring"},
                  {"launch", "5us"},
                  {"efficiency", 0.5},
                  {"tuner", {{"launch", "5us"}, {"efficiency", 0.5}}}};
  Json early{{"algorithm", "ring"}, {"launch", "30us"}, {"tuner", {{"launch", "6us"}}}};
  // Expected: 5 us + 2 w against 6 us + w, w = 1.5 n / 100 GB/s: they meet at w = 1 us; in fact at w = 25 us.
  const auto wire = [](std::int64_t bytes) { return 1.5 * static_cast<double>(bytes) / kPort; };
  for (const std::int64_t bytes : {40'000, 80'000, 1'000'000, 10'000'000})
    check_time(all_reduce(1, 4, nvswitch(), {{"late", late}, {"early", early}}, bytes),
               wire(bytes) < 1e-6 ? 5e-6 + 2 * wire(bytes) : 30e-6 + wire(bytes));
  // Of two that are expected to take as long, the one that ends first.
  early["tuner"] = late["tuner"];
  for (const std::int64_t bytes : {1'000'000, 10'000'000})
    check_time(all_reduce(1, 4, nvswitch(), {{"late", late}, {"early", early}}, bytes),
               std::min(5e-6 + 2 * wire(bytes), 30e-6 + wire(bytes)));
}

TEST_CASE("what belongs to a generation of links is added to its protocols, in hops and cycles") {
  Json scenario =
      all_reduce(1, 4, {{"pcie", "10GBps"}, {"nvswitch", "100GBps"}, {"generation", "X"}}, Json::object(), 1'000'000);
  Json& library = scenario["calibration"]["collectives"];
  library = {
      {"hop", "1us"},
      {"launch", "3us"},
      {"protocols", {{"ring", {{"algorithm", "ring"}, {"launch", "1us"}, {"launch_hops", 2}, {"step_hops", 0.5}}}}}};
  const double wire = 1.5e6 / kPort;
  check_time(scenario, 3e-6 + 1e-6 + 2e-6 + 6 * 0.5e-6 + wire);
  library["by_generation"]["X"] = {{"hop", "4us"}, {"protocols", {{"ring", {{"step_hops", 0.25}}}}}};
  check_time(scenario, 3e-6 + 1e-6 + 8e-6 + 6 * 1e-6 + wire);
  library["by_generation"]["Y"] = {{"hop", "1s"}};  // of other links
  check_time(scenario, 3e-6 + 1e-6 + 8e-6 + 6 * 1e-6 + wire);
  library["launch_cycles"] = 1e4;
  const Scenario read = test::resolved(scenario);
  CHECK(collective_time(read).value() == exactly(18e-6 + wire + 1e4 / read.groups[0].accelerator->clock()));
}

TEST_CASE("hops in cycles are those of the GPU's clock, and longer across its dies") {
  Json scenario = all_reduce(1, 4, nvswitch(), Json::object(), 1'000'000);
  Json& library = scenario["calibration"]["collectives"];
  library = {
      {"launch_cycles", 1e4},
      {"hop_cycles", 2e3},
      {"across_dies", 1.5},
      {"protocols", {{"ring", {{"algorithm", "ring"}, {"launch_hops", 2}, {"step_hops", 0.5}, {"kept_hops", 1}}}}}};
  const auto expected = [](double cycle) {
    return (1e4 + 2 * 2e3 + 6 * (0.5 + 0.5 * 1) * 2e3) * cycle + 1.5e6 / kPort;
  };
  Scenario read = test::resolved(scenario);
  CHECK(collective_time(read).value() == exactly(expected(1 / read.groups[0].accelerator->clock())));
  read.groups[0].accelerator->dies = 2;
  CHECK(collective_time(read).value() == exactly(expected(1.5 / read.groups[0].accelerator->clock())));
}

TEST_CASE("bytes hide their share of a step: r max(step, (1 - overlap) step + x)") {
  for (const double overlap : {0.25, 1.0}) {
    const Json protocols{
        {"ring", {{"algorithm", "ring"}, {"launch", "2us"}, {"nvlink_step", "4us"}, {"overlap", overlap}}}};
    // Six rounds on four GPUs, n / 4 in each; 1 and 4 us of transfer are at n = 400 kB and 1.6 MB.
    double before = 0;
    for (const std::int64_t bytes : {4, 100'000, 400'000, 800'000, 1'600'000, 64'000'000}) {
      const double x = static_cast<double>(bytes) / 4 / kPort;
      const double time = 2e-6 + 6 * std::max(4e-6, (1 - overlap) * 4e-6 + x);
      check_time(all_reduce(1, 4, nvswitch(), protocols, bytes), time);
      CHECK(time >= before);
      CHECK(time >= 6 * x);
      before = time;
    }
  }
}

TEST_CASE("steps whose data a GPU keeps take longer: all of an all-gather, half of an all-reduce") {
  const Json protocols{{"ring", {{"algorithm", "ring"}, {"nvlink_step", "1us"}, {"kept_step", "2us"}}}};
  Json scenario = all_reduce(1, 4, nvswitch(), protocols, 1'000'000);
  const double part = 0.75e6 / kPort;
  check_time(scenario, 6 * (1e-6 + 1e-6) + 2 * part);
  const std::vector<std::pair<std::string, double>> times{{"all_gather", 3 * 3e-6 + part},
                                                          {"reduce_scatter", 3 * 1e-6 + part}};
  for (const auto& entry : times) {
    CAPTURE(entry.first);
    scenario["workload"]["model"]["structure"]["operation"] = entry.first;
    CHECK(closed_form(scenario) == exactly(entry.second));
  }
}

TEST_CASE("shares, factors and cycles of a library are refused outside of their range") {
  Json scenario = all_reduce(1, 4, nvswitch(), {{"ring", {{"algorithm", "ring"}, {"overlap", 1.5}}}}, 1'000'000);
  CHECK(refusal(scenario).find("/overlap: expected a share from 0 to 1") != std::string::npos);
  Json& library = scenario["calibration"]["collectives"];
  library["protocols"]["ring"] = {{"algorithm", "ring"}};
  library["across_dies"] = 11;
  CHECK(refusal(scenario).find("/across_dies: expected a factor from 0.1 to 10") != std::string::npos);
  library.erase("across_dies");
  library["hop_cycles"] = -1;
  CHECK(refusal(scenario).find("/hop_cycles: expected 0 to 1000000 cycles") != std::string::npos);
}

TEST_CASE("NCCL's law: no faster than the links, and no faster with more bytes") {
  for (const auto& [interconnect, accelerator, rate] :
       {std::tuple{"dgx-a100", "A100 80GB", 300e9}, {"hgx-h100", "H100", 450e9}, {"hgx-b200", "B200", 900e9}})
    for (const int gpus : {2, 4, 8})
      for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}) {
        CAPTURE(interconnect);
        CAPTURE(gpus);
        CAPTURE(operation);
        double before = 0;
        for (double bytes = 512; bytes <= 512.0 * (1 << 20); bytes *= 4) {
          Json scenario = all_reduce(1, gpus, nvswitch(), Json::object(), static_cast<std::int64_t>(bytes), "fastest");
          scenario["calibration"] = "nccl";
          Json& instance = scenario["cluster"]["groups"][0]["instance"];
          instance["interconnect"] = interconnect;
          instance["accelerator"] = accelerator;
          scenario["workload"]["model"]["structure"]["operation"] = operation;
          const double time = closed_form(scenario);
          // A switch that adds up sends each GPU n and a part of n; a ring 2 (p - 1) / p n, or half of it.
          const double least = bytes * (gpus - 1) / gpus / rate;
          CHECK(time > least + 4e-6);
          // Where the tuner changes protocols a larger message may end sooner: not by a tenth.
          CHECK(time > 0.9 * before);
          before = time;
        }
      }
}

TEST_CASE("a single collective of another kind has its own time, by its own protocols, and no run") {
  const Json protocols{{"ring", {{"algorithm", "ring"}, {"launch", "2us"}, {"nvlink_step", "1us"}}},
                       {"all", {{"operation", "all_to_all"}, {"launch", "5us"}, {"nvlink_step", "3us"}}}};
  Json scenario = all_reduce(1, 4, nvswitch(), protocols, 1'000'000);
  const double part = 0.75e6 / kPort;
  const std::vector<std::pair<std::string, double>> times{{"all_gather", 2e-6 + 3e-6 + part},
                                                          {"reduce_scatter", 2e-6 + 3e-6 + part},
                                                          {"all_to_all", 5e-6 + 2 * 3e-6 + part},
                                                          {"all_reduce", 2e-6 + 6e-6 + 2 * part}};
  for (const auto& entry : times) {
    CAPTURE(entry.first);
    scenario["workload"]["model"]["structure"]["operation"] = entry.first;
    CHECK(closed_form(scenario) == exactly(entry.second));
  }
  scenario["workload"]["model"]["structure"]["operation"] = "all_gather";
  CHECK(test::simulated(scenario)
            .value("error", "")
            .find("/workload/model/structure/operation: expected \"all_reduce\"") != std::string::npos);
  scenario["workload"]["model"]["structure"]["operation"] = "allgather";
  CHECK(refusal(scenario).find("unknown operation \"allgather\"; did you mean \"all_gather\"?") != std::string::npos);
}

TEST_CASE("a library takes rings or trees between machines where a protocol states no algorithm, the sooner") {
  const auto time_of = [](int machines, Json protocol, std::int64_t bytes, const std::string& algorithm) {
    return closed_form(all_reduce(machines, 8, nvswitch(), {{"any", std::move(protocol)}}, bytes, algorithm));
  };
  const Json any{{"launch", "20us"}, {"nvlink_step", "4us"}, {"network_step", "14us"}};
  Json ring = any;
  ring["algorithm"] = "ring";
  for (const int machines : {1, 2, 64})
    for (const std::int64_t bytes : {1'000, 10'000'000, 1'000'000'000}) {
      CAPTURE(machines);
      CAPTURE(bytes);
      const double rings = time_of(machines, any, bytes, "ring");
      const double sooner = machines == 1 ? rings : std::min(rings, time_of(machines, any, bytes, "tree"));
      CHECK(time_of(machines, any, bytes, "library") == exactly(sooner));
      CHECK(time_of(machines, ring, bytes, "library") == exactly(rings));
    }
  CHECK(time_of(64, any, 1'000, "library") < time_of(64, any, 1'000, "ring") / 5);
}

TEST_CASE("tree, as NCCL has it: 2 ((g - 1) step + d (a + step)) + n / b between two machines") {
  const Json protocols{{"tree", {{"launch", "20us"}, {"nvlink_step", "4us"}, {"network_step", "14us"}}}};
  for (const int gpus : {1, 2, 8})
    check_time(all_reduce(2, gpus, nvswitch(), protocols, 24'000'000, "tree"),
               20e-6 + 2 * ((gpus - 1) * 4e-6 + 14e-6 + kAlpha) + 24e6 / kNic);
  // Four machines, depth 2: an inner node has two children in one of the trees, and sends each half of the bytes down
  // while it sends half up; it is a leaf of the other tree, or its root.
  const double four = closed_form(all_reduce(4, 1, nvswitch(), protocols, 24'000'000, "tree"));
  CHECK(four >= 20e-6 + 4 * (14e-6 + kAlpha) + 1.5 * 24e6 / kNic - 1e-12);
  CHECK(four <= 20e-6 + 4 * (14e-6 + kAlpha) + 2 * 24e6 / kNic + 1e-12);
  check_time(all_reduce(4, 1, nvswitch(), protocols, 24'000'000, "tree"), four);
  // Inside one machine a chain both ways at once: a GPU in the middle sends to both sides. Four NICs, four times the
  // rate.
  check_time(all_reduce(1, 4, nvswitch(), protocols, 24'000'000, "tree"), 20e-6 + 6 * 4e-6 + 2 * 24e6 / kPort);
  Json nics = all_reduce(2, 4, nvswitch(), protocols, 24'000'000, "tree");
  nics["cluster"]["groups"][0]["instance"]["nics"] = 4;
  check_time(nics, 20e-6 + 2 * (3 * 4e-6 + 14e-6 + kAlpha) + 24e6 / (4 * kNic));
}

TEST_CASE("pieces along a tree fill it: min(piece, n / parts) over the rates that its links have in one direction") {
  const double launch = 20e-6 + 2 * (4e-6 + 14e-6 + kAlpha);
  // Two trees with half of the bytes each: two messages a port and direction, and a NIC and direction one that goes up and, once the
  // pipeline is full, one that comes down.
  const double fill = 2 / (kPort / 2) + 2 / kNic - 1 / (kNic / 2);
  for (const std::int64_t bytes : {1'000, 2'000'000, 24'000'000})
    for (const char* piece : {"0B", "512KiB", "1GiB"}) {
      CAPTURE(bytes);
      CAPTURE(piece);
      const Json protocols{
          {"tree", {{"launch", "20us"}, {"nvlink_step", "4us"}, {"network_step", "14us"}, {"piece", piece}}}};
      const double size = std::min(parse_bytes(piece).value() * 1.0, static_cast<double>(bytes) / 2);
      check_time(all_reduce(2, 2, nvswitch(), protocols, bytes, "tree"),
                 launch + static_cast<double>(bytes) / kNic + size * fill);
    }
  // Rings pass on whole parts, round by round, whatever a piece is.
  Json ring{{"ring", {{"launch", "20us"}}}};
  const double without = closed_form(all_reduce(2, 2, nvswitch(), ring, 24'000'000));
  ring["ring"]["piece"] = "1MiB";
  CHECK(closed_form(all_reduce(2, 2, nvswitch(), ring, 24'000'000)) == without);
  ring["ring"]["piece"] = "2TiB";
  CHECK(refusal(all_reduce(2, 2, nvswitch(), ring)).find("at most 1TiB") != std::string::npos);
}

TEST_CASE("a GPU inside of a chain sends what goes up before what comes down") {
  const Json protocols{{"tree", {{"launch", "20us"}, {"nvlink_step", "4us"}, {"piece", "1GiB"}}}};
  // One piece goes through six ports, each of which it has to itself: 1 / kPort for a byte.
  check_time(all_reduce(1, 4, nvswitch(), protocols, 24'000'000, "tree"), 20e-6 + 6 * 4e-6 + 6 * 24e6 / kPort);
}

TEST_CASE("where adapters write out of order, receivers read messages that are too large for a packet") {
  Json protocols{{"ring", {{"network_step", "14us"}, {"fetched_above", "4KiB"}}}};
  const auto time_of = [&](std::int64_t bytes, bool is_in_order) {
    Json scenario = all_reduce(2, 1, nvswitch(), protocols, bytes);
    scenario["cluster"]["groups"][0]["instance"]["in_order"] = is_in_order;
    test::check_time(scenario, closed_form(scenario));
    return closed_form(scenario);
  };
  // Two rounds with half of the bytes.
  CHECK(time_of(8192, false) == time_of(8192, true));
  CHECK(time_of(8194, false) - time_of(8194, true) == exactly(28e-6));
}

TEST_CASE(
    "adapters that write out of order leave a library the protocols without flags in the data, within machines, too") {
  const Json protocols{{"flags", {{"algorithm", "ring"}, {"launch", "1us"}, {"needs_order", true}}},
                       {"whole", {{"algorithm", "ring"}, {"launch", "50us"}}}};
  Json scenario = all_reduce(2, 2, nvswitch(), protocols, 1'000, "library");
  const double in_order = closed_form(scenario);
  scenario["cluster"]["groups"][0]["instance"]["in_order"] = false;
  CHECK(closed_form(scenario) - in_order == exactly(49e-6));
  test::check_time(scenario, closed_form(scenario));
  scenario["cluster"]["groups"][0]["count"] = 1;  // no network, no plugin
  scenario["cluster"]["groups"][0]["instance"]["in_order"] = true;
  const double alone = closed_form(scenario);
  scenario["cluster"]["groups"][0]["instance"]["in_order"] = false;
  CHECK(closed_form(scenario) == alone);
}

TEST_CASE("an adapter's plugin says its latency to the tuner, which then prefers trees, and to nobody else") {
  const auto protocol = [](const char* algorithm, const char* launch) {
    return Json{
        {"algorithm", algorithm}, {"launch", launch}, {"tuner", {{"launch", launch}, {"network_step", "10us"}}}};
  };
  // Of three machines a ring has four steps between them, a tree of depth 1 two.
  Json scenario = all_reduce(3, 1, nvswitch(), {{"ring", protocol("ring", "10us")}, {"tree", protocol("tree", "60us")}},
                             1'000, "library");
  const double by_ring = closed_form(scenario);
  Json& instance = scenario["cluster"]["groups"][0]["instance"];
  instance["plugin_latency"] = "1us";
  CHECK(closed_form(scenario) == by_ring);
  instance["plugin_latency"] = "75us";
  CHECK(closed_form(scenario) > by_ring + 25e-6);
  scenario["training"]["strategy"]["algorithm"] = "ring";
  CHECK(closed_form(scenario) == by_ring);
  instance["plugin_latency"] = "2s";
  CHECK(refusal(scenario).find("at most 1s") != std::string::npos);
}

TEST_CASE("all-reduces over EFA: the protocols that its plugin leaves, as measured on two p4de.24xlarge") {
  // calibration/data/collective-microbenchmarks; nothing is fitted to these rows. With LL it took half as long.
  Json scenario = load_json_file(source_folder() + "/scenarios/collective.json");
  scenario["calibration"] = "nccl";
  scenario["cluster"]["groups"][0]["instance"] = "p4de.24xlarge";
  scenario["cluster"]["groups"][0]["count"] = 2;
  for (const auto& [bytes, measured] : std::map<std::int64_t, double>{
           {8, 164.3e-6}, {1024, 165e-6}, {268'435'456, 7201.7e-6}, {2'147'483'648, 51406e-6}}) {
    CAPTURE(bytes);
    scenario["workload"]["model"]["structure"]["bytes"] = bytes;
    CHECK(closed_form(scenario) == doctest::Approx(measured).epsilon(0.1));
  }
}

TEST_CASE("GPUs without NVLink in common: over PCIe, or through the memory of a third one") {
  // Three GPUs in a row, two NVLinks between neighbours: a ring has to come back from the last to the first.
  const Json row{{"pcie", "10GBps"},
                 {"nvlink_rate", "25GBps"},
                 {"nvlinks", {{{"a", 0}, {"b", 1}, {"count", 2}}, {{"a", 1}, {"b", 2}, {"count", 2}}}}};
  Json scenario = all_reduce(1, 3, row, Json::object());
  const double rounds = 4, part = 24e6 / 3;
  check_time(scenario, rounds * part / 10e9);
  // Each of the two rings, one each way round, takes one link of each neighbour and sends half of the bytes.
  const auto with = [&](const char* key, double value) {
    scenario["calibration"]["collectives"]["by_interconnect"]["node"][key] = value;
    return scenario;
  };
  check_time(with("nvlink_relay_efficiency", 1), rounds * part / 2 / kNvlink);
  check_time(with("nvlink_relay_efficiency", 0.8), rounds * part / 2 / (0.8 * kNvlink));
  check_time(with("nvlink_efficiency", 0.5), rounds * part / 2 / (0.8 * 0.5 * kNvlink));
  (void)with("nvlink_efficiency", 1);
  // Slower than PCIe would be: NCCL prefers NVLink all the same.
  check_time(with("nvlink_relay_efficiency", 0.2), rounds * part / 2 / (0.2 * kNvlink));
}

TEST_CASE("every cost of a collective makes it longer, every rate shorter") {
  const Json base{
      {"launch", "10us"}, {"nvlink_step", "2us"}, {"network_step", "5us"}, {"efficiency", 0.5}, {"copy", "50GBps"}};
  const auto time = [](const Json& protocol) { return closed_form(all_reduce(2, 4, nvswitch(), {{"p", protocol}})); };
  const auto changed = [&](const char* key, const Json& value) {
    Json protocol = base;
    protocol[key] = value;
    return time(protocol);
  };
  const double before = time(base);
  for (const char* key : {"launch", "nvlink_step", "network_step"}) CHECK(changed(key, "20us") > before);
  CHECK(changed("pcie_step", "20us") == before);  // no edge goes over PCIe alone
  CHECK(changed("efficiency", 0.9) < before);
  CHECK(changed("copy", "100GBps") < before);
}

TEST_CASE("an interconnect that the profile does not name has the library's other parameters") {
  Json scenario = all_reduce(1, 4, nvswitch(), {{"p", {{"launch", "1ms"}}}});
  const double with = closed_form(scenario);
  scenario["calibration"]["collectives"]["protocols"] = {{"p", {{"launch", "2ms"}}}};
  CHECK(closed_form(scenario) == with);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"]["name"] = "other";
  CHECK(closed_form(scenario) == exactly(with + 1e-3));
}

TEST_CASE("a named interconnect overrides single values, or which protocols there are") {
  Json scenario = all_reduce(1, 4, nvswitch(), {{"p", {{"efficiency", 0.5}}}});
  Json& library = scenario["calibration"]["collectives"];
  library["protocols"] = {{"p", {{"launch", "1ms"}, {"efficiency", 0.25}}}, {"q", {{"launch", "1us"}}}};
  const double wire = 6 * 24e6 / (4 * kPort);
  CHECK(closed_form(scenario) == exactly(1e-3 + 2 * wire));  // q is not for this interconnect
  library["by_interconnect"]["node"] = Json::object();
  CHECK(closed_form(scenario) == exactly(1e-6 + wire));
}

TEST_CASE("a steady state of collectives with a library repeats exactly") {
  Json scenario = all_reduce(2, 4, nvswitch(),
                             {{"LL", {{"launch", "5us"}, {"network_step", "3us"}, {"efficiency", 0.5}}},
                              {"Simple", {{"launch", "30us"}, {"copy", "50GBps"}, {"network_step", "14us"}}}});
  const double one = closed_form(scenario);
  scenario["training"]["steps"] = 50;
  check_time(all_reduce(2, 4, nvswitch(), Json::object()), 2 * 7 * (kAlpha * 2 / 8 + 24e6 / (8 * kNic)));
  const test::Times times = test::times_of(scenario);
  CHECK(times.by_default == exactly(50 * one));
  CHECK(times.exact == exactly(50 * one));
}

TEST_CASE("no collective of a strategy without any has a time") {
  const Scenario servers = test::resolved(test::with_servers(
      test::timed_scenario(2, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1));
  CHECK_THROWS_AS((void)collective_time(servers), InputError);
  CHECK_THROWS_AS((void)collective_time(servers, Bytes{8}), InputError);
}

TEST_CASE("mistakes in a profile's collectives are named") {
  const auto refused = [](const Json& protocol) { return refusal(all_reduce(1, 2, nvswitch(), {{"p", protocol}})); };
  const std::string place = "/calibration/collectives/by_interconnect/node/protocols/p";
  CHECK(refused({{"algorithm", "rings"}})
            .find(place + "/algorithm: unknown algorithm \"rings\"; did you mean \"ring\"?") != std::string::npos);
  CHECK(refused({{"algorithm", "fastest"}}).find("unknown algorithm \"fastest\"") != std::string::npos);
  CHECK(refused({{"launch", "2s"}}).find(place + "/launch: expected at most 1s") != std::string::npos);
  CHECK(refused({{"efficiency", 0}}).find(place + "/efficiency: expected a share from 0.001 to 1") !=
        std::string::npos);
  CHECK(refused({{"copy", "0Bps"}}).find(place + "/copy: expected a rate above 0Bps") != std::string::npos);
  CHECK(refused({{"lunch", "1us"}}).find("did you mean \"launch\"?") != std::string::npos);
  Json scenario = all_reduce(1, 2, nvswitch(), Json::object());
  scenario["calibration"]["collectives"]["nvlink_relay_efficiency"] = 1.5;
  CHECK(refusal(scenario).find("/nvlink_relay_efficiency: expected a share from 0 to 1") != std::string::npos);
  scenario = all_reduce(1, 2, nvswitch(), Json::object());
  scenario["workload"]["model"]["structure"]["bytes"] = 0;
  CHECK(refusal(scenario).find("/bytes: expected 1 to 1099511627776 bytes; found 0") != std::string::npos);
}

}  // namespace rehearse::collective_time_test
