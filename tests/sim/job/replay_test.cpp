// Replays of recorded jobs: those that ship, and a few events whose dates can be worked out.

#include "sim/job/replay.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/training/chakra_program.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/timed_cluster.hpp"
#include "workloads/traces/chakra_run.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse::replay_test {

namespace {

RecordedJob shipped(const std::vector<std::string>& files) {
  std::vector<RecordedRun> ranks;
  for (const std::string& file : files)
    ranks.push_back(recorded_run(
        read_kineto_trace(source_folder() + "/calibration/data/pytorch-kineto-traces/" + file + ".json.gz")));
  return recorded_job(std::move(ranks));
}

/// A rank that computes from 0 to `computes` us and then comes to an all-reduce, in whose kernel it is until `ends`.
std::string rank_trace(int rank, int computes, int ends) {
  const auto event = [](const std::string& category, const std::string& name, int start, int duration, int correlation,
                        int stream) {
    const std::string lane = stream > 0 ? R"("pid":0,"tid":7)" : R"("pid":1,"tid":1)";
    return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + "\"," + lane + R"(,"ts":)" +
           std::to_string(start) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{"device":0,"correlation":)" +
           std::to_string(correlation) + (stream > 0 ? R"(,"stream":)" + std::to_string(stream) : "") +
           (name == "ncclAllReduce" ? R"(,"In msg nelems":250000,"dtype":"Float")" : "") + "}}";
  };
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":2},"traceEvents":[)" +
         event("cuda_runtime", "cudaLaunchKernel", 0, 5, 1, 0) + "," +
         event("cuda_runtime", "cudaLaunchKernel", 10, 5, 2, 0) + "," +
         event("cuda_runtime", "cudaDeviceSynchronize", 20, ends - 20 + 10, 3, 0) + "," +
         event("kernel", "gemm", 8, computes - 8, 1, 7) + "," +
         event("kernel", "ncclAllReduce", computes + 2, ends - computes - 2, 2, 7) + "]}";
}

RecordedJob two_ranks(int first_computes, int second_computes, int ends) {
  return recorded_job({recorded_run(parse_kineto_trace(rank_trace(0, first_computes, ends), "0.json")),
                       recorded_run(parse_kineto_trace(rank_trace(1, second_computes, ends), "1.json"))});
}

double microseconds(Seconds time) { return time.value() * 1e6; }

}  // namespace

TEST_CASE("a collective starts when the last rank has come, and takes its time") {
  const RecordedJob job = two_ranks(100, 400, 500);
  REQUIRE(job.meetings.size() == 1);
  CHECK(job.meetings[0].transfer == 98'000);
  const double recorded_end = microseconds(replay(job).end);
  CHECK(recorded_end == doctest::Approx(510));
  RecordedChange faster;  // the last rank computes for half of its 392 us: it comes 196 us earlier
  faster.kernels[static_cast<std::size_t>(KernelClass::kMatrixProduct)] = 0.5;
  CHECK(microseconds(replay(job, faster).end) == doctest::Approx(510 - 196));
  RecordedChange slower;  // the transfer, not the waiting
  slower.kernels[static_cast<std::size_t>(KernelClass::kCollective)] = 2;
  CHECK(microseconds(replay(job, slower).end) == doctest::Approx(510 + 98));
}

TEST_CASE("one rank alone waits as long as it did") {
  const RecordedJob job = recorded_job({recorded_run(parse_kineto_trace(rank_trace(0, 100, 500), "0.json"))});
  CHECK(job.meetings.empty());
  CHECK(microseconds(replay(job).end) == doctest::Approx(510));
  CHECK_THROWS_WITH_AS(recorded_job({recorded_run(parse_kineto_trace(rank_trace(1, 100, 500), "0.json")),
                                     recorded_run(parse_kineto_trace(rank_trace(1, 100, 500), "1.json"))}),
                       "1.json: is of rank 1, as is 0.json", InputError);
}

TEST_CASE("on other machines all-reduces take what their network makes of them") {
  // A ring of n workers: 2 (n - 1) / n of 1 MB at 1 GB/s, and 2 (n - 1) times 10 us, in place of 398 us.
  const RecordedJob job = recorded_job({recorded_run(parse_kineto_trace(rank_trace(0, 100, 500), "0.json"))});
  for (const int n : {2, 4}) {
    const Scenario scenario =
        test::resolved(test::timed_scenario(n, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
    const double ring = 2.0 * (n - 1) / n * 1000 + 2 * (n - 1) * 10;
    CHECK(microseconds(replay_on(scenario, job).end) == doctest::Approx(510 - 398 + ring).epsilon(1e-3));
  }
  const Scenario alone =
      test::resolved(test::timed_scenario(1, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
  CHECK(microseconds(replay_on(alone, job).end) == doctest::Approx(510 - 398));  // nobody to add anything to
  const Scenario three =
      test::resolved(test::timed_scenario(3, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
  CHECK_THROWS_WITH_AS(replay_on(three, two_ranks(100, 400, 500)),
                       doctest::Contains("has 3 workers; there are traces of 2 ranks"), InputError);
  const Scenario two =
      test::resolved(test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
  CHECK(microseconds(replay_on(two, two_ranks(100, 400, 500)).end) == doctest::Approx(412 + 1020).epsilon(1e-3));
}

TEST_CASE("on other machines each kind of collective takes what its closed form says") {
  // Rank 0 of 2 puts 1 MB in, in place of 398 us. Kernels that send and receive are told by the annotation around them.
  const auto trace = [](const std::string& annotation, const std::string& more = "") {
    std::string text = rank_trace(0, 100, 500);
    const std::string kernel = R"("name":"ncclAllReduce")", sizes = R"(,"In msg nelems":250000,"dtype":"Float")";
    text.replace(text.find(kernel), kernel.size(), R"("name":"ncclKernel_SendRecv")");
    text.erase(text.find(sizes), sizes.size());
    text.insert(text.rfind("]}"), R"(,{"ph":"X","cat":"user_annotation","name":")" + annotation +
                                      R"(","pid":1,"tid":1,"ts":9,"dur":7,"args":{"Input Dims":[[250000]],)" +
                                      R"("Input type":["float"])" + more + "}}");
    return recorded_job({recorded_run(parse_kineto_trace(text, "0.json"))});
  };
  for (const int n : {2, 4}) {
    const Scenario machines =
        test::resolved(test::timed_scenario(n, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
    const auto check = [&](const std::string& annotation, double expected) {
      CAPTURE(annotation);
      const RecordedJob job = trace(annotation);
      const Replay replayed = replay_on(machines, job);
      CHECK(microseconds(replayed.end) == doctest::Approx(510 - 398 + expected).epsilon(1e-3));
      const RecordedRun& run = job.ranks.front();
      const std::int32_t kernel = run.collectives.front().operation;
      const Span& span = replayed.ranks[0].operations[static_cast<std::size_t>(kernel)];
      CHECK(microseconds(span.end - span.start) == doctest::Approx(expected).epsilon(1e-2));
    };
    check("nccl:all_to_all", 10 + (n - 1) * 1000.0 / n);
    check("nccl:broadcast", (n - 1) * 10 + 1000.0);
    check("nccl:_reduce_scatter_base", (n - 1) * (10 + 1000.0 / n));
    check("nccl:_all_gather_base", (n - 1) * (10 + 2 * 1000.0 / n));  // its part is half of what all have in the end
    check("nccl:all_reduce", 2 * (n - 1) * (10 + 1000.0 / n));
    check("nccl:gather", 398);  // lasts as recorded
  }
  // Of a group of fewer ranks than all it is not known where they would be.
  const Scenario two =
      test::resolved(test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
  CHECK(microseconds(replay_on(two, trace("nccl:all_to_all", R"(,"Group size":1)")).end) == doctest::Approx(510));
  CHECK(microseconds(replay_on(two, trace("comms", R"(,"Group size":2,"Collective name":"all_to_allv")")).end) ==
        doctest::Approx(510 - 398 + 10 + 500).epsilon(1e-3));
}

TEST_CASE("where ranks put in different amounts the largest counts") {
  std::vector<RecordedRun> ranks;
  for (const int rank : {0, 1}) {
    std::string text = rank_trace(rank, 100, 500);
    if (rank == 1) text.replace(text.find("250000"), 6, "500000");
    ranks.push_back(recorded_run(parse_kineto_trace(text, std::to_string(rank) + ".json")));
  }
  const RecordedJob job = recorded_job(std::move(ranks));
  const Scenario two =
      test::resolved(test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
  CHECK(microseconds(replay_on(two, job).end) == doctest::Approx(112 + 2 * (10 + 1000)).epsilon(1e-3));
}

TEST_CASE("the first work on a stream can be delayed, and host work scaled") {
  const RecordedJob job = recorded_job({recorded_run(parse_kineto_trace(rank_trace(0, 100, 500), "0.json"))});
  RecordedChange delayed;
  delayed.delays.push_back({"0/7", Seconds{1e-3}});
  CHECK(microseconds(replay(job, delayed).end) == doctest::Approx(510 + 1000).epsilon(1e-6));
  RecordedChange slow_host;
  slow_host.host = 3;  // what is left of the synchronization: 10 us
  CHECK(microseconds(replay(job, slow_host).end) == doctest::Approx(510 + 20).epsilon(0.01));
}

TEST_CASE("each step of the shipped traces is replayed within 1 %, from durations and dependencies alone") {
  for (const char* file : {"resnet50_v100_1gpu_loader0_a", "train_v100_1gpu_ns", "train_v100_2gpu_rank1",
                           "ddp_a100_2gpu_rank0", "ddp_a100_8gpu_rank3", "resnet_2080ti_1gpu_kineto"}) {
    CAPTURE(file);
    const RecordedJob job = shipped({file});
    const RecordedRun& run = job.ranks.front();
    REQUIRE(run.steps.size() >= 3);
    const std::vector<Seconds> dates = replay(job).ranks.front().steps;
    for (std::size_t s = 0; s < run.steps.size(); ++s) {
      const double measured = static_cast<double>(run.steps[s].recorded_end - run.steps[s].recorded_start) * 1e-9;
      CHECK((dates[s + 1] - dates[s]).value() == doctest::Approx(measured).epsilon(0.01));
    }
    CHECK(unexplained_time(run).share() < 0.10);
  }
  CHECK(unexplained_time(shipped({"sampled_128gpu_rank0"}).ranks.front()).share() > 0.10);
}

TEST_CASE("all ranks of DLRM's step: each within 1 %, and waits at its collectives within 3 %") {
  std::vector<std::string> files;
  for (int rank = 0; rank < 8; ++rank) files.push_back("dlrm_v100_8gpu/kineto_rank" + std::to_string(rank));
  const RecordedJob job = shipped(files);
  REQUIRE(job.meetings.size() == 8);
  const Replay replayed = replay(job);
  double measured = 0, simulated = 0;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RecordedRun& run = job.ranks[r];
    const std::vector<Seconds>& dates = replayed.ranks[r].steps;
    const double step = static_cast<double>(run.steps[0].recorded_end - run.steps[0].recorded_start) * 1e-9;
    CHECK((dates[1] - dates[0]).value() == doctest::Approx(step).epsilon(0.01));
    for (const RecordedCollective& collective : run.collectives) {
      const auto i = static_cast<std::size_t>(collective.operation);
      simulated +=
          (replayed.ranks[r].operations[i].end - ready_date(run, replayed.ranks[r], collective.operation)).value();
      measured += static_cast<double>(run.operations[i].duration) * 1e-9;
    }
  }
  CHECK(simulated == doctest::Approx(measured).epsilon(0.03));
}

TEST_CASE("a recording that became a trace of Chakra is replayed as before") {
  for (const char* file : {"ddp_a100_8gpu_rank3", "train_v100_2gpu_rank1"}) {
    CAPTURE(file);
    const RecordedJob job = shipped({file});
    const RecordedJob again =
        recorded_job({recorded_run(parse_chakra_et(chakra_et_bytes(chakra_trace(job.ranks[0])), "t.et"))});
    const Replay before = replay(job), after = replay(again);
    CHECK(after.end == before.end);
    CHECK(after.ranks[0].steps == before.ranks[0].steps);
  }
}

TEST_CASE("Chakra's own trace: what its durations and dependencies come to") {
  const std::vector<std::filesystem::path> files{
      source_folder() + "/calibration/data/pytorch-kineto-traces/chakra/small_chakra.0.json.gz"};
  const RecordedJob job = recorded_job(read_recorded_runs(files));
  CHECK(!job.ranks[0].has_dates);
  // The host does one thing after the other, 318 + 28 + 85 + 79 + 153 us; the kernels of 4 and 28 us end before.
  CHECK(microseconds(replay(job).end) == doctest::Approx(663));
  CHECK(unexplained_time(job.ranks[0]).of == 0);
}

TEST_CASE("an exported pipeline takes (m + p - 1) times a micro-batch, as messages and collectives have no duration") {
  // m = 4 micro-batches on p = 3 equal stages, 1 + 2 ms each: 6 x 3 ms.
  Json json = test::timed_scenario(3, {{"4B"}, {"4B"}, {"4B"}},
                                   {{"kind", "all_reduce"}, {"pipeline", {{"stages", 3}, {"microbatches", 4}}}});
  for (Json& layer : json["workload"]["model"]["structure"]["layers"]) layer["output"] = "4B";
  const Scenario scenario = test::resolved(json);
  ExportedStep programs{scenario};
  std::vector<RecordedRun> ranks;
  for (int rank = 0; rank < programs.compiler.ranks(); ++rank)
    ranks.push_back(recorded_run(chakra_trace(programs, rank)));
  const RecordedJob job = recorded_job(std::move(ranks));
  CHECK(job.remarks.empty());
  CHECK(microseconds(replay(job).end) == doctest::Approx(18'000));
}

TEST_CASE("exported programs of servers and workers end") {
  const Scenario scenario = test::resolved(test::timed_scenario(3, {{"4MB"}, {"2MB"}}, {{"kind", "all_reduce"}}));
  ExportedStep programs{scenario};
  // 2 x (1 + 2) ms.
  const RecordedJob job =
      recorded_job({recorded_run(chakra_trace(programs, 0)), recorded_run(chakra_trace(programs, 1)),
                    recorded_run(chakra_trace(programs, 2))});
  CHECK(microseconds(replay(job).end) == doctest::Approx(6000));

  const std::string file = source_folder() + "/scenarios/cm-dare.json";
  const Scenario served = read_scenario(load_json_file(file), file, test::shipped_catalog());
  ExportedStep of_servers{served};
  std::vector<RecordedRun> ranks;
  for (int rank = 0; rank < of_servers.compiler.ranks(); ++rank)
    ranks.push_back(recorded_run(chakra_trace(of_servers, rank)));
  CHECK(replay(recorded_job(std::move(ranks))).end > Seconds{});
}

TEST_CASE("a message begins when both of its ranks have come") {
  // Rank 0 computes for 300 us and sends for 50; rank 1 waits for it from 100 us on, which its kernel's 250 us include.
  const auto rank = [](int number, int computes, ChakraType type, int lasts) {
    ChakraTrace trace{.file_name = "t.et", .names = {"gemm", "ncclDevKernel_SendRecv"}};
    trace.nodes.push_back({.id = 1, .type = ChakraType::kCompute, .duration = computes * 1000, .stream = 7});
    trace.nodes.push_back({.id = 2,
                           .name = 1,
                           .type = type,
                           .data_deps = {1},
                           .duration = lasts * 1000,
                           .stream = 20,
                           .bytes = 4096,
                           .source = 0,
                           .destination = 1,
                           .tag = 5});
    RecordedRun run = recorded_run(trace);
    run.rank = number;
    run.world_size = 2;
    return run;
  };
  const RecordedJob job = recorded_job({rank(0, 300, ChakraType::kSend, 50), rank(1, 100, ChakraType::kReceive, 250)});
  REQUIRE(job.meetings.size() == 1);
  CHECK(microseconds(replay(job).end) == doctest::Approx(350));
}

}  // namespace rehearse::replay_test
