// Pipelines of stages of the model, with data parallel workers outside, against closed forms.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/pipeline_schedule.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/kept_microbatches.hpp"
#include "tests/support/makespan.hpp"
#include "tests/support/random_scenario.hpp"
#include "tests/support/timed_cluster.hpp"
#include "workloads/model_blocks.hpp"

namespace rehearse {

namespace {

using test::exactly;
using test::kAlpha;
using test::kBeta;
using test::timed_scenario;
using test::TimedTensor;

/// `machines` with `gpus` each; every layer passes on `output`.
Json pipelined(int machines, const std::vector<TimedTensor>& layers, int stages, int microbatches,
               const std::string& schedule, const std::string& output, int gpus = 1) {
  Json scenario =
      timed_scenario(machines, layers,
                     {{"kind", "all_reduce"},
                      {"pipeline", {{"stages", stages}, {"microbatches", microbatches}, {"schedule", schedule}}}},
                     gpus);
  for (Json& layer : scenario["workload"]["model"]["structure"]["layers"]) layer["output"] = output;
  return scenario;
}

/// One layer for each stage, of 1 ms forward and 2 ms backward.
Json equal_stages(int stages, int microbatches, const std::string& schedule) {
  Json scenario = pipelined(stages, std::vector<TimedTensor>(static_cast<std::size_t>(stages), {"4B"}), stages,
                            microbatches, schedule, "4B");
  scenario["cluster"]["network"]["links"][0]["latency"] = "0s";
  scenario["cluster"]["groups"][0]["instance"]["nic"] = "1000000GBps";
  return scenario;
}

/// The same with several chunks of the model on each stage, of a layer each.
Json equal_chunks(int stages, int chunks, int microbatches) {
  Json scenario = equal_stages(stages * chunks, microbatches, "interleaved");
  scenario["training"]["strategy"]["pipeline"].update({{"stages", stages}, {"chunks", chunks}});
  scenario["cluster"]["groups"][0]["count"] = stages;
  return scenario;
}

/// With times of seconds instead of milliseconds, which are rounded less.
Json slow(Json scenario) {
  for (Json& layer : scenario["workload"]["model"]["structure"]["layers"])
    layer.update({{"forward", "1s"}, {"backward", "2s"}});
  return scenario;
}

double seconds(const Json& scenario) {
  const test::Times times = test::times_of(scenario);
  CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-9));
  return times.by_default;
}

Program program_of_stage(const Scenario& scenario, int stage) {
  const PipelineStages stages = cut_into_stages(scenario);
  const ComputePlan plan = plan_stage(plan_step(scenario, scenario.first_workers()), stages, stage, scenario.workload);
  return compile_pipeline(scenario, plan, stages, plan_pipeline_exchange(scenario, stages), stage);
}

/// The most micro-batches of which a stage has run the forward pass and not the backward one. Each pass is a kernel.
int most_in_flight(const Scenario& scenario, const Program& program) {
  int in_flight = 0, most = 0;
  for (const Stretch& stretch : program.streams.front())
    for (OperationIndex i = stretch.begin; i < stretch.end; ++i) {
      const auto vertex = static_cast<std::size_t>(std::get<Compute>(program.operation(i)).label);
      in_flight += scenario.workload.graph[vertex]->phase == Phase::kForward ? 1 : -1;
      most = std::max(most, in_flight);
    }
  CHECK(in_flight == 0);
  return most;
}

double sent(const Json& scenario) {
  const Json summary = test::simulated(scenario);
  REQUIRE_FALSE(summary.contains("error"));
  CHECK(summary["sent_B"] == summary["received_B"]);
  return summary["sent_B"].get<double>();
}

}  // namespace

TEST_CASE("a pipeline of one stage is a worker that accumulates its micro-batches") {
  for (const char* algorithm : {"ring", "hierarchical"}) {
    for (const char* overlap : {"backward", "forward"}) {
      Json one = pipelined(4, {{"4MB"}, {"8MB"}}, 1, 3, "gpipe", "4B");
      one["training"]["strategy"]["algorithm"] = algorithm;
      one["training"]["strategy"]["overlap"] = overlap;
      Json without = one;
      without["training"]["strategy"].erase("pipeline");
      without["training"]["strategy"]["accumulation_steps"] = 3;
      CHECK(seconds(one) == seconds(without));
    }
  }
}

TEST_CASE("equal stages and a free network: a step takes m + p - 1 micro-batches, of which p - 1 are the bubble") {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const int p : {1, 2, 4, 7})
      for (const int m : {1, 2, 4, 9}) {
        CAPTURE(schedule);
        CAPTURE(p);
        CAPTURE(m);
        const Json scenario = equal_stages(p, m, schedule);
        CHECK(seconds(scenario) == doctest::Approx((m + p - 1) * 3e-3).epsilon(1e-6));
        double bubble = 0;
        const Json summary = test::simulated(scenario);
        for (const Json& part : summary["step_parts"])
          if (part["part"] == "bubble") bubble = part["share"].get<double>();
        CHECK(bubble == doctest::Approx((p - 1.0) / (m + p - 1)).epsilon(1e-6));
        CHECK(summary["samples_done"] == m);
        CHECK(summary["samples_per_s"].get<double>() == doctest::Approx(m / ((m + p - 1) * 3e-3)).epsilon(1e-6));
        CHECK(summary["gpu_utilization"].get<double>() == doctest::Approx(m / (m + p - 1.0)).epsilon(1e-6));
      }
}

TEST_CASE("unequal stages: the slowest sets the pace of GPipe's two phases, or the messages between them") {
  // Forward: all stages once and the slowest m - 1 times more, as in a flow shop of equal jobs; backward the same.
  const std::vector<TimedTensor> layers{{"4B", "1ms", "2ms"}, {"4B", "4ms", "3ms"}, {"4B", "2ms", "7ms"}};
  constexpr int p = 3, m = 5;
  const auto time = [&](double message, double on_wire) {
    return 7e-3 + (p - 1) * message + (m - 1) * std::max(4e-3, on_wire) + 12e-3 + (p - 1) * message +
           (m - 1) * std::max(7e-3, on_wire);
  };
  CHECK(seconds(pipelined(p, layers, p, m, "gpipe", "1000000B")) == exactly(time(kAlpha + 1e6 / kBeta, 1e-3)));
  CHECK(seconds(pipelined(p, layers, p, m, "gpipe", "20000000B")) == exactly(time(kAlpha + 20e6 / kBeta, 20e-3)));
}

TEST_CASE("the GPUs of a worker share its micro-batches, and each passes its part on") {
  // g parts of 1 MB on a NIC at a time; the gradients of a stage's GPUs, and of those of other pipelines, are added up.
  const std::vector<TimedTensor> layers{{"4B"}, {"4B"}};
  constexpr int m = 3;
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const int g : {1, 2, 4}) {
      CAPTURE(schedule);
      CAPTURE(g);
      const auto on = [&](int machines, const std::vector<TimedTensor>& of) {
        Json scenario = pipelined(machines, of, 2, m, schedule, "1000000B", g);
        scenario["cluster"]["groups"][0]["workers_per_machine"] = 1;
        scenario["cluster"]["groups"][0]["batch_per_worker"] = g;
        return scenario;
      };
      const double message = kAlpha + g * 1e6 / kBeta;
      if (std::string{schedule} == "gpipe")  // messages of 4 ms hold up the passes of 1 and 2 ms
        CHECK(seconds(on(2, layers)) ==
              exactly(6e-3 + 2 * message + (m - 1) * (std::max(1e-3, g * 1e-3) + std::max(2e-3, g * 1e-3))));
      CHECK(test::simulated(on(2, layers))["samples_done"] == m * g);
      CHECK(sent(on(2, layers)) == exactly(2.0 * m * g * 1e6));
      // Two pipelines: a ring of 2 g GPUs for each stage, of 24 and 12 MB, has two of its edges between machines.
      CHECK(sent(on(4, {{"24000000B"}, {"12000000B"}})) ==
            exactly(2 * 2.0 * m * g * 1e6 + 2 * 2.0 * (2 * g - 1) / (2 * g) * 36e6));
    }
}

TEST_CASE("a stage keeps m micro-batches with GPipe and min(m, p - s) with 1F1B") {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const int p : {2, 4, 8})
      for (const int m : {1, 3, 4, 16}) {
        CAPTURE(schedule);
        CAPTURE(p);
        CAPTURE(m);
        const Scenario scenario = test::resolved(equal_stages(p, m, schedule));
        for (int stage = 0; stage < p; ++stage) {
          const int expected = std::string{schedule} == "gpipe" ? m : std::min(m, p - stage);
          CHECK(most_in_flight(scenario, program_of_stage(scenario, stage)) == expected);
          CHECK(test::kept_at_peak(pipeline_slots(*scenario.training.strategy.kind->pipeline(), m, stage),
                                   {Bytes{1}}) == std::vector{expected});
        }
      }
}

TEST_CASE("clip_norm: the stages wait for one another before the update, with and without copies of a variable") {
  for (const char* sharding : {"none", "optimizer"}) {
    Json scenario = pipelined(4, {{"4B"}, {"4B"}, {"4B"}, {"4B"}}, 4, 6, "1f1b", "4B");
    scenario["training"]["strategy"]["sharding"] = sharding;
    const double without = test::times_of(scenario).exact;
    scenario["training"]["strategy"]["clip_norm"] = true;
    test::check_time(scenario, without + 2 * 3 * (kAlpha + 1 / kBeta));
  }
}

TEST_CASE("interleaved: a step takes m + (p - 1) / v micro-batches, if p divides m") {
  for (const int p : {2, 3, 4})
    for (const int v : {2, 3})
      for (const int m : {p, 2 * p, 4 * p}) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        const Json scenario = slow(equal_chunks(p, v, m));
        CHECK(seconds(scenario) == exactly((m * v + p - 1) * 3.0));
        double bubble = 0;
        const Json summary = test::simulated(scenario);
        for (const Json& part : summary["step_parts"])
          if (part["part"] == "bubble") bubble = part["share"].get<double>();
        CHECK(bubble == doctest::Approx((p - 1.0) / (m * v + p - 1)).epsilon(1e-6));
      }
  for (const int p : {2, 4})  // the others, to 1e-9 as well
    for (const int m : {1, 3, 8})
      for (const char* schedule : {"gpipe", "1f1b"})
        CHECK(seconds(slow(equal_stages(p, m, schedule))) == exactly((m + p - 1) * 3.0));
}

TEST_CASE("folded: a step takes what the lists of its stages do, and sends over all cuts but the one at the fold") {
  for (const auto& [word, schedule] :
       {std::pair{"zbv", PipelineSchedule::kZeroBubbleV}, std::pair{"dualpipev", PipelineSchedule::kDualPipeV}})
    for (const int p : {2, 3, 4})
      for (const int m : {2 * p, 2 * p + 3, 6 * p}) {
        CAPTURE(word);
        CAPTURE(p);
        CAPTURE(m);
        Json scenario = slow(equal_chunks(p, 2, m));
        scenario["training"]["strategy"]["pipeline"]["schedule"] = word;
        const Pipeline pipeline{.stages = p, .schedule = schedule, .chunks = 2};
        CHECK(seconds(scenario) == doctest::Approx(test::makespan(pipeline, m, 1, 2, 0)).epsilon(1e-9));
        const Json interleaved = equal_chunks(p, 2, 2 * p);
        Json folded = interleaved;
        folded["training"]["strategy"]["pipeline"]["schedule"] = word;
        CHECK(sent(folded) / (2 * p - 2) == doctest::Approx(sent(interleaved) / (2 * p - 1)).epsilon(1e-12));
      }
}

TEST_CASE("updates validated afterwards: a stage goes on when it is done, and passes the norm of its gradients on") {
  for (const auto& [word, schedule] :
       {std::pair{"1f1b", PipelineSchedule::kOneForwardOneBackward}, std::pair{"zb1p", PipelineSchedule::kZeroBubble},
        std::pair{"zb2p", PipelineSchedule::kZeroBubble2}})
    for (const int p : {2, 3, 4})
      for (const int m : {1, p, 2 * p, 5 * p}) {
        CAPTURE(word);
        CAPTURE(p);
        CAPTURE(m);
        constexpr int kSteps = 7;
        const Pipeline pipeline{.stages = p, .schedule = schedule};
        Json together = slow(equal_stages(p, m, word));
        together["training"]["steps"] = kSteps;
        Json each = together;
        each["training"]["strategy"]["pipeline"]["post_validation"] = true;
        CHECK(seconds(together) == doctest::Approx(kSteps * test::makespan(pipeline, m, 1, 2, 0)).epsilon(1e-9));
        CHECK(seconds(each) == doctest::Approx(test::makespan(pipeline, m, 1, 2, 0, kSteps)).epsilon(1e-9));
        Json clipped = each;
        for (Json* scenario : {&clipped, &together}) (*scenario)["training"]["strategy"]["clip_norm"] = true;
        CHECK(seconds(clipped) >= seconds(each) * (1 - 1e-12));
        CHECK(seconds(clipped) <= seconds(together) * (1 + 1e-12));
        CHECK(sent(clipped) == exactly(sent(each) + kSteps * (p - 1) * 4.0));
      }
}

TEST_CASE(
    "updates validated afterwards: without a bubble steps of alike passes are shorter by the passes of other stages") {
  // Products that take F = B = W, but for the first one, whose input needs no gradient.
  const int p = 4, m = 12;
  Json json = equal_stages(p, m, "zb2p");
  json["training"]["steps"] = 10;
  json["training"]["memory_check"] = "warn";
  json["workload"]["batch_per_worker"] = 8192;
  json["workload"]["model"] = {
      {"format", 1},
      {"name", "products"},
      {"source", "test"},
      {"input", {1, 1, 4096}},
      {"structure",
       {{"family", "layers"},
        {"layers", Json::array({{{"layer", "repeat"},
                                 {"times", 4 * p},
                                 {"layers", Json::array({{{"layer", "dense"}, {"features", 4096}}})}}})}}}};
  const double together = seconds(json);
  json["training"]["strategy"]["pipeline"]["post_validation"] = true;
  const double pass = together / 10 / (3 * m + p - 1);
  CHECK((together - seconds(json)) / 10 / pass == doctest::Approx(p - 1).epsilon(0.2));
}

TEST_CASE("two copies: a step takes what the lists of its stages do, and both copies are added up") {
  for (const int p : {2, 4, 6})
    for (const int m : {2 * p, 2 * p + 4, 6 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const Json once = slow(equal_stages(p, m, "1f1b"));
      Json twice = once;
      twice["training"]["strategy"]["pipeline"]["schedule"] = "dualpipe";
      const Pipeline pipeline{.stages = p, .schedule = PipelineSchedule::kDualPipe};
      CHECK(seconds(twice) == doctest::Approx(test::makespan(pipeline, m, 1, 2, 0)).epsilon(1e-9));
      const Json both = test::simulated(twice), one = test::simulated(once);
      for (const char* key : {"samples_done", "gpu_memory_available_B"}) CHECK(both[key] == one[key]);
      const auto works = [](const Json& summary) {
        return summary["gpu_utilization"].get<double>() / summary["steps_per_s"].get<double>();
      };
      CHECK(works(both) == doctest::Approx(works(one)).epsilon(1e-9));
      // As many messages of a micro-batch; the gradients of each part go both ways between the two stages that have it.
      const double of_gradients = p * 4.0 * 2;
      CHECK(sent(twice) == exactly(sent(once) + of_gradients));
    }
  Json gpt = pipelined(4, {{"4B"}}, 4, 8, "dualpipe", "4B");
  gpt["workload"]["model"] = "gpt2";
  gpt["training"]["strategy"]["pipeline"]["cut"] = "layers";
  const Scenario scenario = test::resolved(gpt);
  const PipelineStages stages = cut_into_stages(scenario);
  CHECK(stages.of_part == std::vector{0, 1, 2, 3, 3, 2, 1, 0});
  for (std::size_t v = 0; v < scenario.workload.variables.size(); ++v) {
    CHECK(stages.of_variable[v].size() == 2);
    CHECK(stages.of_variable[v].front() + stages.of_variable[v].back() == 3);
  }
  Bytes held{}, all{};
  for (const Bytes its : stages.variables) held += its;
  for (const Variable& variable : scenario.workload.variables) all += variable.bytes;
  CHECK(held == all * 2);
  CHECK(seconds(gpt) > 0);
}

TEST_CASE("folded: the first stage has the embedding and the scores, which nobody else adds up") {
  Json gpt = pipelined(2, {{"4B"}}, 2, 4, "zbv", "4B");
  gpt["workload"]["model"] = "gpt2";
  gpt["training"]["strategy"]["pipeline"]["cut"] = "layers";
  const Scenario scenario = test::resolved(gpt);
  const PipelineStages stages = cut_into_stages(scenario);
  CHECK(stages.of_part == std::vector{0, 1, 1, 0});
  const auto table = std::ranges::max_element(scenario.workload.variables, {}, &Variable::bytes);
  const auto t = static_cast<std::size_t>(table - scenario.workload.variables.begin());
  CHECK(stages.of_variable[t] == std::vector{0});
  CHECK(stages.parts_of_variable[t] == std::vector{0, 3});
  CHECK(sent(gpt) == exactly(2 * 4 * 2.0 * 1024 * 768 * 4));
  CHECK(seconds(gpt) > 0);
}

TEST_CASE("interleaved: stages keep min(m v, w + 1) chunks, and each program runs") {
  struct Case {
    int p, v, m, group;
  };
  for (const Case& of :
       {Case{2, 2, 2, 2}, {2, 3, 6, 2}, {4, 2, 8, 4}, {2, 2, 5, 3}, {3, 2, 8, 5}, {3, 3, 7, 4}, {4, 2, 4, 4}}) {
    const int p = of.p, v = of.v, m = of.m, group = of.group;
    CAPTURE(p);
    CAPTURE(v);
    CAPTURE(m);
    CAPTURE(group);
    Json json = equal_chunks(p, v, m);
    json["training"]["strategy"]["pipeline"]["microbatch_group"] = group;
    const Scenario scenario = test::resolved(json);
    for (int stage = 0; stage < p; ++stage)
      CHECK(most_in_flight(scenario, program_of_stage(scenario, stage)) ==
            std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * group + 1));
    for (const char* messages : {"overlapped", "blocking"}) {
      json["training"]["strategy"]["pipeline"]["messages"] = messages;
      CHECK(seconds(json) >= (m * v + p - 1) * 3e-3 * (1 - 1e-6));
    }
  }
}

TEST_CASE("one chunk is 1F1B, to the bit") {
  Json plain = pipelined(8, std::vector<TimedTensor>(4, {"4000000B"}), 4, 6, "1f1b", "3000000B"), one = plain;
  one["training"]["strategy"]["pipeline"].update({{"schedule", "interleaved"}, {"chunks", 1}});
  for (const char* messages : {"overlapped", "blocking"}) {
    for (Json* scenario : {&plain, &one}) (*scenario)["training"]["strategy"]["pipeline"]["messages"] = messages;
    const Scenario scenario = test::resolved(plain), with_chunk = test::resolved(one);
    CHECK(describe_strategy(scenario.training.strategy) == describe_strategy(with_chunk.training.strategy));
    const std::vector<std::string> names(scenario.workload.graph.size());
    for (int stage = 0; stage < 4; ++stage)
      CHECK(to_text(program_of_stage(scenario, stage), names) == to_text(program_of_stage(with_chunk, stage), names));
    CHECK(seconds(plain) == seconds(one));
  }
}

TEST_CASE(
    "messages that block add two transfers to each micro-batch of a stage between others, and hold up no deadlock") {
  // x: a message of 1 MB. Between two stages there is one exchange for each micro-batch, in both directions at once.
  constexpr double x = kAlpha + 1e6 / kBeta, forward_and_backward = 3e-3;
  const auto time = [](int p, int m, const char* schedule, const char* messages) {
    Json scenario =
        pipelined(p, std::vector<TimedTensor>(static_cast<std::size_t>(p), {"4B"}), p, m, schedule, "1000000B");
    scenario["training"]["strategy"]["pipeline"]["messages"] = messages;
    return seconds(scenario);
  };
  const auto of_microbatch = [&](int p, const char* schedule, const char* messages) {
    return (time(p, 40, schedule, messages) - time(p, 20, schedule, messages)) / 20;
  };
  CHECK(of_microbatch(4, "1f1b", "blocking") == doctest::Approx(forward_and_backward + 2 * x).epsilon(1e-6));
  CHECK(of_microbatch(2, "1f1b", "blocking") == doctest::Approx(forward_and_backward + x).epsilon(1e-6));
  // Overlapped, p micro-batches go round together, over p - 1 messages each way.
  for (const int p : {2, 4})
    CHECK(of_microbatch(p, "1f1b", "overlapped") ==
          doctest::Approx(forward_and_backward + 2 * (p - 1) * x / p).epsilon(1e-6));
  CHECK(of_microbatch(4, "gpipe", "blocking") == doctest::Approx(forward_and_backward + 2 * x).epsilon(1e-6));
  CHECK(of_microbatch(4, "gpipe", "overlapped") == doctest::Approx(forward_and_backward).epsilon(1e-6));
  // A micro-batch alone crosses p - 1 of them each way; of several the last forward and the first backward pass exchange at once.
  for (const int p : {3, 4, 6})
    for (const int m : {1, 2, 5, 12}) {
      CAPTURE(p);
      CAPTURE(m);
      const int exposed = m == 1 ? 2 * (p - 1) : 2 * (m + p - 2) - 1;
      CHECK(time(p, m, "1f1b", "blocking") == exactly((m + p - 1) * forward_and_backward + exposed * x));
    }
}

TEST_CASE("interleaved messages that block: one exchange for each pair of a forward and a backward pass") {
  // Only latency, 1 ms: what both send goes at once, as in send_forward_backward_recv_forward_backward.
  const auto time = [](int m) {
    Json scenario = equal_chunks(4, 2, m);
    scenario["cluster"]["network"]["links"][0]["latency"] = "1ms";
    scenario["training"]["strategy"]["pipeline"]["messages"] = "blocking";
    return seconds(scenario);
  };
  CHECK((time(80) - time(40)) / 40 == doctest::Approx(2 * (3e-3 + 1e-3)).epsilon(1e-6));
}

TEST_CASE("interleaved stages send from each part to the next, and from the last stage to the first") {
  const std::vector<TimedTensor> layers{{"24000000B"}, {"12000000B"}, {"0B"}, {"48000000B"}, {"8B"}, {"4000000B"}};
  struct Case {
    int workers, p, v;
  };
  for (const Case& of : {Case{2, 2, 2}, {2, 2, 3}, {3, 3, 2}, {6, 3, 2}, {4, 2, 3}}) {
    const int workers = of.workers, p = of.p, v = of.v;
    CAPTURE(workers);
    CAPTURE(p);
    CAPTURE(v);
    const int m = 6, pipelines = workers / p;
    Json scenario = pipelined(workers, layers, p, m, "interleaved", "1000000B");
    scenario["training"]["strategy"]["pipeline"]["chunks"] = v;
    const double passed = pipelines * 2.0 * (p * v - 1) * m * 1e6, once = (pipelines - 1) * 88000008.0;
    CHECK(sent(scenario) == exactly(passed + 2 * once));
    for (const auto& [what, times] : {std::pair{"optimizer", 2}, {"gradients", m + 1}, {"parameters", 3 * m}}) {
      scenario["training"]["strategy"]["sharding"] = what;
      CHECK(sent(scenario) == exactly(passed + times * once));
      CHECK(seconds(scenario) > 0);
    }
  }
}

TEST_CASE("a step sends 2 (p - 1) m activations in each pipeline, and the rings of its stages") {
  const std::vector<TimedTensor> layers{{"24000000B"}, {"12000000B"}, {"0B"}, {"48000000B"}};
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const auto& [workers, p] : {std::pair{4, 4}, std::pair{4, 2}, std::pair{8, 4}, std::pair{12, 2}}) {
      CAPTURE(workers);
      CAPTURE(p);
      const int m = 3, pipelines = workers / p;
      CHECK(sent(pipelined(workers, layers, p, m, schedule, "1000000B")) ==
            exactly(pipelines * 2.0 * (p - 1) * m * 1e6 + 2.0 * (pipelines - 1) * 84e6));
    }
}

TEST_CASE("pipelines of one stage are workers that accumulate as many batches") {
  const std::vector<TimedTensor> layers{{"24000000B"}, {"12000000B"}, {"48000000B"}};
  Json accumulating = timed_scenario(4, layers, {{"kind", "all_reduce"}, {"accumulation_steps", 3}});
  Json pipeline = pipelined(4, layers, 1, 3, "1f1b", "4B");
  for (Json* scenario : {&accumulating, &pipeline}) {
    (*scenario)["calibration"] = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
    (*scenario)["calibration"]["host"] = {{"dispatch", "20us"}, {"step_overhead", "1ms"}};
    (*scenario)["workload"]["model"]["structure"]["optimizer_time"] = "2ms";
    (*scenario)["training"]["steps"] = 3;
  }
  CHECK(seconds(pipeline) == exactly(seconds(accumulating)));
  CHECK(test::simulated(pipeline)["samples_per_s"].get<double>() ==
        exactly(test::simulated(accumulating)["samples_per_s"].get<double>()));
  for (const char* model : {"resnet50", "gpt2"}) {  // kernels that hosts dispatch
    for (Json* scenario : {&accumulating, &pipeline}) (*scenario)["workload"]["model"] = model;
    CHECK(seconds(pipeline) == exactly(seconds(accumulating)));
  }
}

TEST_CASE("stages keep parts of what they train: reduced and gathered as in workers without stages") {
  const std::vector<TimedTensor> layers{{"24000000B"}, {"12000000B"}, {"0B"}, {"48000000B"}};
  const auto sharded = [](Json scenario, const char* what) {
    scenario["training"]["strategy"]["sharding"] = what;
    return scenario;
  };
  constexpr int m = 3;
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const auto& [workers, p] : {std::pair{4, 4}, std::pair{4, 2}, std::pair{8, 2}}) {
      CAPTURE(workers);
      CAPTURE(p);
      const int pipelines = workers / p;
      const double passed = pipelines * 2.0 * (p - 1) * m * 1e6, once = (pipelines - 1) * 84e6;
      const auto sent_with = [&](const char* what) {
        return sent(sharded(pipelined(workers, layers, p, m, schedule, "1000000B"), what));
      };
      CHECK(sent_with("optimizer") == exactly(passed + 2 * once));
      CHECK(sent_with("gradients") == exactly(passed + (m + 1) * once));
      CHECK(sent_with("parameters") == exactly(passed + 3 * m * once));
    }
  for (const char* what : {"optimizer", "gradients"}) {
    Json accumulating = timed_scenario(4, layers, {{"kind", "all_reduce"}, {"accumulation_steps", m}});
    Json pipeline = pipelined(4, layers, 1, m, "1f1b", "4B");
    for (Json* scenario : {&accumulating, &pipeline})
      (*scenario)["workload"]["model"]["structure"]["optimizer_time"] = "40ms";
    CHECK(seconds(sharded(pipeline, what)) == exactly(seconds(sharded(accumulating, what))));
  }
  for (const char* overlap : {"none", "backward"})  // default and exact agree
    for (const char* what : {"optimizer", "gradients", "parameters"}) {
      Json scenario = sharded(pipelined(8, layers, 2, m, "1f1b", "1000000B"), what);
      scenario["training"]["strategy"]["overlap"] = overlap;
      scenario["training"]["steps"] = 5;
      CHECK(seconds(scenario) > 0);
    }
}

TEST_CASE("a stage's copies divide its update and what it keeps; copies in two stages add up what they keep") {
  const auto with = [](const std::string& what) {
    Json json = pipelined(8, {{"24000000B"}, {"12000000B"}}, 2, 2, "gpipe", "1000000B");
    json["workload"]["optimizer"] = "adam";
    json["workload"]["model"]["structure"]["optimizer_time"] = "60ms";
    json["training"]["strategy"]["sharding"] = what;
    return json;
  };
  const auto needed = [&](const std::string& what) {
    const Scenario scenario = test::resolved(with(what));
    return as_double(gpu_memory_needed(scenario, scenario.groups.front()));
  };
  CHECK(needed("none") == exactly(4 * 24e6));
  CHECK(needed("optimizer") == exactly(2.5 * 24e6));
  CHECK(needed("gradients") == exactly(1.75 * 24e6 + 24e6));   // whole until they are reduced
  CHECK(needed("parameters") == exactly(24e6 + 24e6 + 24e6));  // gathered, and a whole gradient
  // The first stage has two thirds of the variables, and with its likes in 4 pipelines updates a quarter of them each.
  CHECK(seconds(with("none")) - seconds(with("optimizer")) == doctest::Approx(0.75 * 40e-3).epsilon(1e-6));
  Json gpt = pipelined(4, {{"4B"}}, 2, 2, "1f1b", "4B");
  gpt["workload"]["model"] = "gpt2";
  const Scenario scenario = test::resolved(gpt);
  const auto copies = [](const Scenario& of) {
    return plan_pipeline_exchange(of, cut_into_stages(of)).copies.front().gradient_bytes;
  };
  // Gradients are whole with ZeRO 1, whose optimizer alone is divided, and parts of them with ZeRO 2 and 3.
  for (const auto& [what, kept] : {std::pair{"optimizer", 1}, {"gradients", 2}, {"parameters", 2}}) {
    CAPTURE(what);
    gpt["training"]["strategy"]["sharding"] = what;
    CHECK(copies(test::resolved(gpt)) == Bytes{copies(scenario).value() / kept});
    CHECK(seconds(gpt) > 0);
    if (kept == 1) continue;
    gpt["training"]["strategy"]["no_sync"] = true;  // whole while batches are accumulated, not behind the reduction
    CHECK(copies(test::resolved(gpt)) == Bytes{copies(scenario).value() / kept});
    gpt["training"]["strategy"].erase("no_sync");
  }
}

TEST_CASE("of alike pipelines those of a block of machines run, for all") {
  struct Case {
    int machines, gpus, stages, workers_that_run;
    std::string algorithm = "ring", topology = "star";
    double oversubscription = 1;
  };
  for (const auto& [machines, gpus, stages, workers_that_run, algorithm, topology, oversubscription] :
       {Case{8, 1, 4, 4}, Case{4, 2, 4, 4}, Case{6, 4, 2, 4}, Case{6, 2, 3, 6}, Case{4, 1, 2, 2, "clique"},
        Case{4, 2, 8, 8}, Case{4, 1, 2, 4, "binary_tree"}, Case{4, 1, 2, 2, "ring", "fat_tree"},
        Case{4, 1, 2, 2, "ring", "fat_tree", 2}}) {
    CAPTURE(machines);
    CAPTURE(stages);
    Json scenario = pipelined(
        machines, {{"24000000B"}, {"12000000B"}, {"0B"}, {"48000000B"}, {"4000000B"}, {"8B"}, {"2000B"}, {"6000000B"}},
        stages, 3, "1f1b", "1000000B", gpus);
    scenario["training"]["strategy"]["algorithm"] = algorithm;
    if (topology == "fat_tree")
      scenario["cluster"]["network"].update(
          {{"topology", topology}, {"machines_per_leaf", 2}, {"oversubscription", oversubscription}});
    scenario["training"]["steps"] = 3;
    scenario["training"]["warmup_steps"] = 1;
    const auto traffic = [&](bool is_exact) {
      return test::in_child([&] {
        const Scenario resolved = test::resolved(scenario);
        const RunRecord record = simulate(resolved, {.is_exact = is_exact});
        const Summary summary = summarize(resolved, record);
        Json numbers = {
            record.recorder.steps.size(),    record.end.value(),    record.sent.value(),     record.received.value(),
            record.busiest_link.utilization, summary.samples_per_s, summary.gpu_utilization, record.samples.computed};
        for (const auto& uses : {record.total, record.in_window})
          for (const MachineUse& use : uses) numbers.insert(numbers.end(), {use.sent.value(), use.received.value()});
        for (const auto& [pair, bytes] : record.carried)
          numbers.insert(numbers.end(), {pair.first, pair.second, bytes.value()});
        for (const MachineSummary& machine : summary.machines) numbers.push_back(machine.samples_per_s);
        return numbers;
      });
    };
    const Json by_default = traffic(false), exact = traffic(true);
    CHECK(by_default[0] == 3 * workers_that_run);
    REQUIRE(by_default.size() == exact.size());
    for (std::size_t i = 1; i < exact.size(); ++i)
      CHECK(by_default[i].get<double>() == exactly(exact[i].get<double>()));
  }
}

TEST_CASE("steps that repeat are skipped, and random pipelines take as long as exact") {
  Json scenario = pipelined(8, std::vector<TimedTensor>(8, {"12000000B"}), 4, 6, "1f1b", "3000000B");
  scenario["training"]["steps"] = 200;
  const Json simulated_steps =
      test::in_child([&] { return Json{simulate(test::resolved(scenario), {}).recorder.steps.size()}; });
  CHECK(simulated_steps[0] == 4 * 3);  // of one pipeline
  CHECK(seconds(scenario) == exactly(200 * seconds([&] {
                                       Json one = scenario;
                                       one["training"]["steps"] = 1;
                                       return one;
                                     }())));
  std::vector<Json> scenarios;
  for (std::uint64_t seed = 1; scenarios.size() < 40; ++seed)
    if (const Json random = test::ScenarioGenerator{seed}.generate();
        random["training"]["strategy"].contains("pipeline") && random["training"]["strategy"]["pipeline"]["stages"] > 1)
      scenarios.push_back(random);
  for (const Json& random : scenarios) {
    CAPTURE(random.dump());
    const test::Times times = test::times_of(random);
    CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
    CHECK(test::simulated(random).dump() == test::simulated(random).dump());
  }
}

TEST_CASE("collectives of stages that have the links that they cross for themselves are one event each") {
  // Of 4 GPUs stages 0 and 1 pass activations on over the NVLinks 0-1 and 2-3, and add up over 0-2 and 1-3.
  const auto outcome = [](bool has_nvlinks, bool is_exact) {
    Json scenario =
        pipelined(1, {{"24000000B"}, {"12000000B"}, {"48000000B"}, {"4000000B"}}, 2, 3, "1f1b", "1000000B", 4);
    Json& instance = scenario["cluster"]["groups"][0]["instance"];
    instance["interconnect"] = {{"pcie", "1GBps"}, {"latency", "1us"}, {"source", "test"}};
    Json links = Json::array();
    for (const auto& [a, b] : {std::pair{0, 1}, {2, 3}, {0, 2}, {1, 3}})
      links.push_back({{"a", a}, {"b", b}, {"count", 1}});
    if (has_nvlinks) instance["interconnect"].update({{"nvlink_rate", "1GBps"}, {"nvlinks", links}});
    return test::in_child([&] {
      const RunRecord record = simulate(test::resolved(scenario), {.is_exact = is_exact});
      return Json{record.end.value(), record.events};
    });
  };
  CAPTURE(outcome(true, false).dump());
  CHECK(outcome(true, false)[0].get<double>() == exactly(outcome(true, true)[0].get<double>()));
  CHECK(outcome(false, false)[0].get<double>() == exactly(outcome(false, true)[0].get<double>()));
  CHECK(outcome(true, false)[1].get<int>() < outcome(false, false)[1].get<int>());
}

TEST_CASE("memory: a stage's variables, and activations of the micro-batches on their way") {
  const auto needed = [](int p, int m, const char* schedule) {
    Json json = pipelined(4, {{"24000000B"}, {"12000000B"}, {"12000000B"}, {"12000000B"}}, p, m, schedule, "1000000B");
    json["workload"]["optimizer"] = "adam";
    const Scenario scenario = test::resolved(json);
    return as_double(gpu_memory_needed(scenario, scenario.groups.front()));
  };
  // The first stage: variables, gradients and two slots. A layer keeps what it reads, but for the input.
  CHECK(needed(1, 8, "gpipe") == exactly(4 * 60e6 + 3e6));  // one stage accumulates
  CHECK(needed(1, 8, "1f1b") == exactly(4 * 60e6 + 3e6));
  CHECK(needed(2, 8, "gpipe") == exactly(4 * 36e6 + 8 * 1e6));
  CHECK(needed(2, 8, "1f1b") == exactly(4 * 36e6 + 2 * 1e6));
  CHECK(needed(2, 1, "1f1b") == exactly(4 * 36e6 + 1e6));
  Json large = pipelined(4, std::vector<TimedTensor>(4, {"12000000B"}), 4, 100, "gpipe", "1000000000B");
  CHECK_THROWS_WITH_AS((void)test::resolved(large), doctest::Contains("GPU memory exceeded: group \"workers\" needs"),
                       NoResultError);
  large["training"]["strategy"]["pipeline"]["schedule"] = "1f1b";
  CHECK(test::problem_of(large).empty());
}

TEST_CASE("stages are balanced by time, cut where the fewest values pass, and hold what they use") {
  const auto stages_of = [](const std::vector<const char*>& times, int p) {
    std::vector<TimedTensor> layers;
    for (const char* time : times) layers.push_back({"4B", "1ms", time});
    const Scenario scenario = test::resolved(pipelined(p, layers, p, 1, "1f1b", "4B"));
    std::vector<int> of = cut_into_stages(scenario).of_operator;
    for (std::size_t i = 0; i < times.size(); ++i) CHECK(of[i] == of[of.size() - 1 - i]);
    of.resize(times.size());
    return of;
  };
  CHECK(stages_of({"1ms", "1ms", "1ms", "1ms", "1ms", "1ms"}, 3) == std::vector{0, 0, 1, 1, 2, 2});
  CHECK(stages_of({"9ms", "1ms", "1ms", "1ms", "1ms", "1ms"}, 3) == std::vector{0, 1, 1, 1, 2, 2});
  CHECK(stages_of({"1ms", "1ms", "1ms", "1ms", "1ms", "9ms"}, 2) == std::vector{0, 0, 0, 0, 0, 1});
  Json gpt = pipelined(4, {{"4B"}}, 4, 2, "1f1b", "4B");
  gpt["workload"]["model"] = "gpt2";
  const Scenario scenario = test::resolved(gpt);
  const PipelineStages stages = cut_into_stages(scenario);
  CHECK(stages.passed == std::vector<Bytes>(3, Bytes{1024 * 768 * 4}));  // one sample's residual stream
  Bytes held{}, kept{};
  for (const Bytes bytes : stages.variables) held += bytes;
  for (const Bytes bytes : stages.kept) kept += bytes;
  const auto table = std::max_element(scenario.workload.variables.begin(), scenario.workload.variables.end(),
                                      [](const Variable& a, const Variable& b) { return a.bytes < b.bytes; });
  CHECK(stages.of_variable[static_cast<std::size_t>(table - scenario.workload.variables.begin())] == std::vector{0, 3});
  CHECK(held == scenario.workload.parameter_bytes() + table->bytes);
  CHECK(kept == scenario.workload.activation_bytes);
  // Messages of both directions, and an all-reduce of the tied table between the first and the last stage.
  CHECK(sent(gpt) == exactly(2 * 3 * 2 * 1024 * 768 * 4 + 2 * as_double(table->bytes)));
}

TEST_CASE("memory of interleaved stages: the activations of the chunks on their way") {
  // Layers of 1, 2, .. 6 MB of activations behind the first; part j p + r of p = 2, v = 3 is layer j p + r.
  Json json = pipelined(2, std::vector<TimedTensor>(6, {"12000000B"}), 2, 4, "interleaved", "1000000B");
  json["training"]["strategy"]["pipeline"]["chunks"] = 3;
  const auto activations = [&] {
    const Scenario scenario = test::resolved(json);
    return as_double(gpu_memory(scenario, scenario.groups.front()).activations);
  };
  // Stage 0 keeps 2 (p - 1) + (v - 1) p + 1 = 7 chunks, of layers 0, 2 and 4: of the last one 2, of the others 2 or 3. The first
  // layer reads samples, of which it keeps none; stage 1 keeps 5 chunks of a megabyte each.
  CHECK(activations() == exactly(5e6));
  for (int i = 0; i < 6; ++i)
    json["workload"]["model"]["structure"]["layers"][static_cast<std::size_t>(i)]["kept"] =
        std::to_string((i + 1) * 1'000'000) + "B";
  // Stage 0: F 0 0 2 2 4 4 | 0: 2 (1 + 3 + 5) + 1 MB, more than stage 1: 2 (2 + 4) + 6 MB, and than with another chunk.
  CHECK(activations() == exactly(19e6));
  json["workload"]["model"]["structure"]["layers"][0]["kept"] = "0B";
  json["workload"]["model"]["structure"]["layers"][2]["kept"] = "0B";
  json["workload"]["model"]["structure"]["layers"][4]["kept"] = "0B";
  CHECK(activations() == exactly(18e6));  // stage 1
}

TEST_CASE("parts of whole layers: as many in each, with the embedding and the loss counted, or as listed") {
  const auto parts_of = [](const Json& keys = Json::object(), const char* model = "gpt2") {
    Json json = pipelined(4, {{"4B"}}, 4, 8, "1f1b", "4B");
    json["workload"]["model"] = model;
    json["training"]["strategy"]["pipeline"].update({{"cut", "layers"}});
    json["training"]["strategy"]["pipeline"].update(keys);
    const Scenario scenario = test::resolved(json);
    const PipelineStages stages = cut_into_stages(scenario);
    const ModelBlocks blocks = model_blocks(scenario.workload);
    std::vector<int> layers(static_cast<std::size_t>(stages.parts()));
    for (std::size_t block = 0; block < blocks.names.size(); ++block) {
      std::set<int> parts;  // that have something of it
      for (std::size_t v = 0; v < blocks.of_variable.size(); ++v)
        if (blocks.of_variable[v] == static_cast<int>(block))
          parts.insert(stages.parts_of_variable[v].begin(), stages.parts_of_variable[v].end());
      REQUIRE(parts.size() == 1);
      ++layers[static_cast<std::size_t>(*parts.begin())];
    }
    for (const Bytes passed : stages.passed) CHECK(passed == stages.passed.front());  // the residual stream
    CHECK(stages.of_operator[0] == 0);
    Bytes kept{};
    for (const Bytes of_part : stages.kept) kept += of_part;
    CHECK(kept == scenario.workload.activation_bytes);
    return layers;
  };
  const Json two_chunks{{"schedule", "interleaved"}, {"chunks", 2}},
      three_chunks{{"schedule", "interleaved"}, {"chunks", 3}};
  CHECK(parts_of() == std::vector{3, 3, 3, 3});
  CHECK(parts_of({{"layers_per_stage", {4, 3, 3, 2}}}) == std::vector{4, 3, 3, 2});
  CHECK(parts_of({{"layers_per_stage", {0, 6, 6, 0}}}) == std::vector{0, 6, 6, 0});
  CHECK(parts_of({{"layers_per_stage", {4, 3, 3, 4}}, {"counts_embedding", true}, {"counts_loss", true}}) ==
        std::vector{3, 3, 3, 3});
  // The words' logits take as long as some layers.
  const std::vector<int> balanced = parts_of({{"cut", "balanced_layers"}});
  CHECK(std::accumulate(balanced.begin(), balanced.end(), 0) == 12);
  CHECK(balanced.back() < balanced.front());
  CHECK(*std::ranges::max_element(balanced) <= 4);
  CHECK(parts_of(three_chunks) == std::vector(12, 1));
  Json listed = two_chunks;
  listed["layers_per_stage"] = {0, 2, 2, 2, 2, 2, 2, 0};
  CHECK(parts_of(listed) == std::vector{0, 2, 2, 2, 2, 2, 2, 0});
  CHECK(parts_of({{"stages", 2}, {"counts_embedding", true}, {"counts_loss", true}}) == std::vector{6, 6});
  CHECK(parts_of({{"stages", 2},
                  {"schedule", "interleaved"},
                  {"chunks", 7},
                  {"counts_embedding", true},
                  {"counts_loss", true}}) == std::vector{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
  CHECK(parts_of(Json::object(), "bert_large_pretraining") == std::vector{6, 6, 6, 6});
  CHECK(parts_of(Json::object(), "gpt2_medium") == std::vector{6, 6, 6, 6});
  // Measured layers are layers.
  Json timed = pipelined(4, std::vector<TimedTensor>(8, {"4B", "1ms", "2ms"}), 4, 4, "1f1b", "4B");
  timed["workload"]["model"]["structure"]["layers"][0]["forward"] = "100ms";
  timed["training"]["strategy"]["pipeline"]["cut"] = "layers";
  std::vector<int> of = cut_into_stages(test::resolved(timed)).of_operator;
  of.resize(8);
  CHECK(of == std::vector{0, 0, 1, 1, 2, 2, 3, 3});
}

TEST_CASE("parts of layers by their weights: until each has its share, and scores that are more than that alone") {
  Json json = load_json_file(source_folder() + "/scenarios/nanotron-ultrascale.json");
  json["training"]["strategy"]["tensor"]["degree"] = 1;
  json["cluster"]["groups"][0]["count"] = 16;
  const auto layers_of = [&](int layers, int width, int stages) {
    json["workload"]["model"]["structure"]["layers"] = layers;
    json["workload"]["model"]["structure"]["width"] = width;
    json["training"]["strategy"]["pipeline"]["stages"] = stages;
    const Scenario scenario = test::resolved(json);
    const PipelineStages cut = cut_into_stages(scenario);
    const ModelBlocks blocks = model_blocks(scenario.workload);
    std::vector<std::set<int>> found(static_cast<std::size_t>(stages));
    for (std::size_t v = 0; v < blocks.of_variable.size(); ++v)
      if (blocks.of_variable[v] >= 0)
        for (const int part : cut.parts_of_variable[v])
          found[static_cast<std::size_t>(part)].insert(blocks.of_variable[v]);
    std::vector<int> counts;
    for (const auto& of_stage : found) counts.push_back(static_cast<int>(of_stage.size()));
    return counts;
  };
  // The scores of 131072 words weigh as much as four layers of 2048 with 8192, less their norms: 20 layers in all.
  CHECK(layers_of(16, 2048, 2) == std::vector{10, 6});
  CHECK(layers_of(16, 2048, 4) == std::vector{5, 5, 5, 1});
  CHECK(layers_of(16, 2048, 8) == std::vector{3, 2, 2, 3, 2, 2, 2, 0});
  // 3.6 layers of 3072: 31.6.
  CHECK(layers_of(28, 3072, 8) == std::vector{4, 4, 4, 4, 4, 4, 4, 0});
  CHECK(layers_of(28, 3072, 16) == std::vector{2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1, 0});
  // As many stages as layers, but for the scores: some get none.
  json["workload"]["model"]["structure"]["layers"] = 5;
  json["training"]["strategy"]["pipeline"]["stages"] = 8;
  CHECK(test::problem_of(json).find("/training/strategy/pipeline/stages: expected at most 6 of whole layers") !=
        std::string::npos);
}

TEST_CASE("every stage that holds tied embeddings adds up their gradients with those of the other pipelines") {
  for (const char* bucket : {"0B", "25MiB"})
    for (const int chunks : {1, 2}) {
      CAPTURE(bucket);
      CAPTURE(chunks);
      Json gpt = pipelined(4, {{"4B"}}, 2, 2, chunks > 1 ? "interleaved" : "1f1b", "4B");
      gpt["workload"]["model"] = "gpt2";
      gpt["training"]["strategy"]["pipeline"]["chunks"] = chunks;
      gpt["training"]["strategy"]["bucket_size"] = bucket;
      const Workload workload = test::resolved(gpt).workload;
      const auto table =
          std::ranges::max_element(workload.variables, {}, [](const Variable& variable) { return variable.bytes; });
      const double passed = 2 * (2.0 * chunks - 1) * 2 * 2 * 1024 * 768 * 4;
      // Two pipelines, and two stages: each worker sends as much as it holds, and then the table.
      CHECK(sent(gpt) ==
            exactly(passed + 2 * as_double(workload.parameter_bytes() + table->bytes) + 4 * as_double(table->bytes)));
    }
}

TEST_CASE("gradients of weights are computed while messages that block are on their way") {
  const auto blocked = [](const char* schedule) {  // what messages that block add to a step
    Json gpt = pipelined(2, {{"4B"}}, 2, 8, schedule, "4B");
    gpt["workload"]["model"] = "gpt2";
    gpt["cluster"]["groups"][0]["instance"]["nic"] = "10Gbps";
    const double overlapped = seconds(gpt);
    gpt["training"]["strategy"]["pipeline"]["messages"] = "blocking";
    return seconds(gpt) - overlapped;
  };
  CHECK(blocked("zb1p") < 0.5 * blocked("1f1b"));
}

TEST_CASE("tied embeddings of interleaved stages are added up by the first stage and the last one") {
  Json gpt = pipelined(2, {{"4B"}}, 2, 4, "interleaved", "4B");
  gpt["workload"]["model"] = "gpt2";
  gpt["training"]["strategy"]["pipeline"].update({{"chunks", 3}, {"cut", "layers"}});
  const Scenario scenario = test::resolved(gpt);
  const PipelineStages stages = cut_into_stages(scenario);
  const auto table = std::max_element(scenario.workload.variables.begin(), scenario.workload.variables.end(),
                                      [](const Variable& a, const Variable& b) { return a.bytes < b.bytes; });
  const auto t = static_cast<std::size_t>(table - scenario.workload.variables.begin());
  CHECK(stages.of_variable[t] == std::vector{0, 1});
  CHECK(stages.parts_of_variable[t] == std::vector{0, 5});
  CHECK(sent(gpt) == exactly(5 * 4 * 2 * 1024 * 768 * 4 + 2 * as_double(table->bytes)));
  CHECK(seconds(gpt) > 0);
}

TEST_CASE("models of every kind are cut into stages that have all of them once") {
  for (const char* model : {"resnet50", "vgg16", "densenet121", "inception_v3", "mobilenet_v2", "yolov3", "gpt2",
                            "bert_large_pretraining", "transformer_base", "gnmt", "lstm_language_model"}) {
    CAPTURE(model);
    Json json = pipelined(4, {{"4B"}}, 4, 2, "1f1b", "4B");
    json["workload"]["model"] = model;
    const Scenario scenario = test::resolved(json);
    const PipelineStages stages = cut_into_stages(scenario);
    const OperatorGraph& graph = scenario.workload.graph;
    std::vector<int> kernels(4);
    for (std::size_t v = 0; v < graph.size(); ++v) {
      if (graph[v]->phase == Phase::kUpdate) continue;
      REQUIRE(stages.of_operator[v] >= 0);
      ++kernels[static_cast<std::size_t>(stages.of_operator[v])];
    }
    for (const OperatorEdge& edge : graph.edges()) {  // forward to later stages, backward to earlier ones
      const Phase to = graph[edge.to]->phase, from = graph[edge.from]->phase;
      if (to == Phase::kForward) CHECK(stages.of_operator[edge.from] <= stages.of_operator[edge.to]);
      if (from != Phase::kForward && to != Phase::kUpdate)
        CHECK(stages.of_operator[edge.from] >= stages.of_operator[edge.to]);
    }
    Bytes kept{};
    for (std::size_t s = 0; s < 4; ++s) {
      CHECK(kernels[s] > 0);
      if (s < 3) CHECK(stages.passed[s] > Bytes{});
      kept += stages.kept[s];
    }
    CHECK(kept == scenario.workload.activation_bytes);
    const ComputePlan whole = plan_step(scenario, scenario.first_workers());
    for (int s = 0; s < 4; ++s) CHECK(plan_stage(whole, stages, s, scenario.workload).gpu_time / whole.gpu_time < 0.5);
  }
}

TEST_CASE("a program can be read") {
  const Scenario scenario = test::resolved(equal_stages(2, 2, "1f1b"));
  CHECK(program_text(scenario) ==
        "0 delay: 0s\n"
        "1 copy samples to GPU: 0B after 0\n"
        "2 begin after 1\n"
        "3 compute layer0/forward on stream 0: 0s host, 1ms after 2\n"
        "4 send activations after stage 1 over connection 0: 4B, advances the team's counter 0 after 3\n"
        "5 compute layer0/forward on stream 0: 0s host, 1ms\n"
        "6 send activations after stage 1 over connection 0: 4B, advances the team's counter 1 after 5\n"
        "7 gate of the team's counter 2 at step after 2\n"
        "8 compute layer0/backward on stream 0: 0s host, 2ms after 7\n"
        "9 gate of the team's counter 3 at step after 2\n"
        "10 compute layer0/backward on stream 0: 0s host, 2ms after 9\n"
        "11 all-reduce layer0 in group 0: 4B after 10\n"
        "12 update after 10, 11\n"
        "13 delay: 0s after 12\n"
        "14 fence after 13\n");
}

TEST_CASE("the effective scenario reads the same") {
  Json json = pipelined(4, std::vector<TimedTensor>(4, {"4B"}), 2, 4, "1f1b", "4B");
  json["training"]["strategy"]["pipeline"].erase("schedule");
  Json interleaved = json;
  interleaved["training"]["strategy"]["pipeline"].update({{"schedule", "interleaved"},
                                                          {"chunks", 2},
                                                          {"microbatch_group", 4},
                                                          {"messages", "blocking"},
                                                          {"cut", "layers"},
                                                          {"layers_per_stage", {1, 1, 1, 1}}});
  for (const Json& any : {json, interleaved}) {
    const Scenario scenario = test::resolved(any);
    CHECK(*test::resolved(*scenario.effective).effective == *scenario.effective);
  }
  CHECK(describe_strategy(test::resolved(interleaved).training.strategy) ==
        "pipelines of 2 stages (interleaved 1F1B, 2 chunks, blocking messages), ring all-reduce");
}

TEST_CASE("a step of too many collectives is refused before they are named") {
  Json scenario = pipelined(4, {{"24000000B"}, {"24000000B"}}, 2, 10000, "1f1b", "4B");
  scenario["training"]["strategy"]["partition_size"] = "1KiB";
  for (const char* what : {"gradients", "parameters"}) {
    scenario["training"]["strategy"]["sharding"] = what;
    CHECK(test::simulated(scenario)["error"].get<std::string>().find(
              "/training/strategy/pipeline/microbatches: a step of more than 20000000 kernels") != std::string::npos);
    Json data_parallel = scenario;
    data_parallel["training"]["strategy"].erase("pipeline");
    data_parallel["training"]["strategy"]["accumulation_steps"] = 10000;
    CHECK(test::simulated(data_parallel)["error"].get<std::string>().find(
              "/training/strategy/accumulation_steps: a step of more than 20000000 operations") != std::string::npos);
  }
}

TEST_CASE("cuts by time say what they take no account of: other GPUs, and messages that are much larger than others") {
  const auto warns = [](const Json& scenario, const std::string& of) {
    return std::ranges::any_of(test::resolved(scenario).warnings,
                               [&](const std::string& text) { return text.find(of) != std::string::npos; });
  };
  const std::string other_gpus = "though others have other GPUs", messages = "takes no account of what stages pass on";
  Json scenario = test::timed_scenario(2, {{"4B"}, {"4B"}, {"4B"}, {"4B"}},
                                       {{"kind", "all_reduce"}, {"pipeline", {{"stages", 4}, {"microbatches", 4}}}}, 2);
  Json& layers = scenario["workload"]["model"]["structure"]["layers"];
  for (Json& layer : layers) layer["output"] = "1000B";
  CHECK_FALSE(warns(scenario, other_gpus));
  CHECK_FALSE(warns(scenario, messages));
  layers[1]["output"] = "5000B";
  CHECK(warns(scenario, messages));
  Json& groups = scenario["cluster"]["groups"];
  groups[0]["count"] = 1;
  groups.push_back(groups[0]);
  groups[1]["name"] = "others";
  groups[1]["instance"]["accelerator"]["memory"] = "81GiB";
  CHECK(warns(scenario, other_gpus));
  scenario["training"]["strategy"]["pipeline"]["cut"] = "layers";
  CHECK_FALSE(warns(scenario, other_gpus));
  CHECK_FALSE(warns(scenario, messages));
}

TEST_CASE("a pipeline that cannot be cut is refused") {
  const std::vector<TimedTensor> layers(4, {"4B"});
  const auto problem = [&](const std::string& pointer, const std::string& value) {
    Json scenario = pipelined(4, layers, 2, 3, "1f1b", "4B");
    set_json_pointer(scenario, pointer, value);
    return test::problem_of(scenario);
  };
  const std::string at = "/training/strategy/";
  CHECK(problem(at + "pipeline/stages", "3") ==
        at + "pipeline/stages: expected a divisor of the 4 workers, of which each is a stage, such as 4; found 3");
  CHECK(problem(at + "pipeline/stages", "0").starts_with(at + "pipeline/stages: expected a divisor"));
  CHECK(problem(at + "pipeline/microbatches", "0") ==
        at + "pipeline/microbatches: expected 1 to 10000 micro-batches; found 0");
  CHECK(problem(at + "pipeline/schedule", "zigzag").starts_with(at + "pipeline/schedule: unknown schedule \"zigzag\""));
  CHECK(problem(at + "pipeline/chunks", "0") ==
        at + "pipeline/chunks: expected 1 to 1000 chunks of each stage; found 0");
  CHECK(
      problem(at + "pipeline/messages", "waiting").starts_with(at + "pipeline/messages: unknown messages \"waiting\""));
  const auto with = [&](const Json& keys, int stages = 2, const std::string& model = {}) {
    Json scenario = pipelined(4, layers, stages, 8, "1f1b", "4B");
    if (!model.empty()) scenario["workload"]["model"] = model;
    scenario["training"]["strategy"]["pipeline"].update(keys);
    return test::problem_of(scenario).substr(std::min(at.size() + 9, test::problem_of(scenario).size()));
  };
  const auto interleaved = [](Json keys) {
    keys["schedule"] = "interleaved";
    if (!keys.contains("chunks")) keys["chunks"] = 2;
    return keys;
  };
  CHECK(with(interleaved({})).empty());
  CHECK(with({{"chunks", 2}}) ==
        "chunks: expected \"schedule\": \"interleaved\" beside it: with other schedules a stage has one "
        "part of the model, or two where it is folded");
  CHECK(with({{"schedule", "zbv"}, {"chunks", 3}}) == "chunks: expected 2 of a folded pipeline; found 3");
  CHECK(with({{"schedule", "dualpipev"}, {"microbatches", 3}}) ==
        "microbatches: expected at least 4 with half as many stages and \"dualpipev\", such as 4; found 3");
  CHECK(with({{"schedule", "dualpipe"}, {"microbatches", 5}}) ==
        "microbatches: expected an even number with \"dualpipe\", half of them from each end, such as 6; found 5");
  CHECK(with({{"schedule", "dualpipe"}, {"stages", 3}}) ==
        "stages: expected an even divisor of the 4 workers, of which each is a stage, such as 4; found 3");
  CHECK(with({{"schedule", "zbv"}}, 4).starts_with("stages: expected at most 2 for model"));
  CHECK(with(interleaved({{"chunks", 3}})).starts_with("chunks: expected at most 2 in each of 2 stages for model"));
  CHECK(with(interleaved({{"microbatches", 1}})) ==
        "microbatches: expected at least 2 with as many stages and \"interleaved\", such as 2; found 1");
  CHECK(with(interleaved({{"microbatches", 5}})) ==
        "microbatches: expected a multiple of 2 with as many stages and \"interleaved\", such as 4; found 5");
  CHECK(with(interleaved({{"microbatches", 5}, {"microbatch_group", 3}})).empty());
  CHECK(with(interleaved({{"microbatches", 7}, {"microbatch_group", 3}})).find("such as 6; found 7") !=
        std::string::npos);
  CHECK(with(interleaved({{"microbatch_group", 1}})) ==
        "microbatch_group: expected at least 2 with as many stages, and at most the 8 micro-batches; found 1");
  CHECK(with(interleaved({{"microbatch_group", 9}})).ends_with("at most the 8 micro-batches; found 9"));
  const Json in_layers{{"cut", "layers"}};
  const auto of_layers = [&](Json keys) {
    keys["cut"] = "layers";
    return keys;
  };
  CHECK(with(in_layers, 4, "gpt2").empty());
  CHECK(with(of_layers({{"counts_loss", true}}), 4, "gpt2") ==
        "stages: expected a divisor of the 12 layers of model \"gpt2\" and 1 more that are counted, or "
        "\"layers_per_stage\"; "
        "found 4");
  CHECK(with(of_layers({{"counts_loss", true}, {"counts_embedding", true}}), 4, "gpt2") ==
        "stages: expected a divisor of the 12 layers of model \"gpt2\" and 2 more that are counted, such as 2, or "
        "\"layers_per_stage\"; found 4");
  // A number of stages that is named divides the workers, too; where none goes with the chunks, others of these are named.
  CHECK(with(of_layers(interleaved({{"counts_loss", true}, {"counts_embedding", true}})), 4, "gpt2") ==
        "stages: expected a divisor of the 12 layers of model \"gpt2\" and 2 more that are counted, also times the "
        "chunks, "
        "such as 2 with 1 chunk, or \"layers_per_stage\"; found 4");
  CHECK(with(interleaved({{"cut", "balanced_layers"}, {"chunks", 9}}), 4, "gpt2") ==
        "chunks: expected at most 3 of whole layers in each of 4 stages for model \"gpt2\"; found 9");
  Json many = pipelined(16, layers, 16, 8, "1f1b", "4B");
  many["workload"]["model"] = "gpt2";
  many["training"]["strategy"]["pipeline"]["cut"] = "balanced_layers";
  CHECK(test::problem_of(many) ==
        at + "pipeline/stages: expected at most 13 of whole layers for model \"gpt2\", such as 8; found 16");
  CHECK(with(of_layers(interleaved({{"chunks", 5}})), 4, "gpt2") ==
        "chunks: expected a divisor of the 3 that each stage has of the 12 layers of model \"gpt2\", such as 3, or "
        "\"layers_per_stage\"; found 5");
  CHECK(with(of_layers({{"layers_per_stage", {3, 3, 3}}}), 4, "gpt2") ==
        "layers_per_stage: expected 4 numbers of layers for 4 stages; found 3");
  CHECK(with(of_layers({{"layers_per_stage", {3, 3, 3, 2}}}), 4, "gpt2") ==
        "layers_per_stage: expected the 12 layers of model \"gpt2\" in all; found 11");
  CHECK(with(of_layers({{"layers_per_stage", {6, 0, 3, 3}}}), 4, "gpt2") ==
        "layers_per_stage: expected layers in part 2 for model \"gpt2\", which has no others there");
  CHECK(with(of_layers({{"layers_per_stage", {6, -3, 6, 3}}}), 4, "gpt2") ==
        "layers_per_stage/1: expected 0 or more layers; found -3");
  CHECK(with(in_layers, 2, "alexnet") ==
        "cut: expected \"time\" for model \"alexnet\", which has no layers that repeat; found \"layers\"");
  Json short_model = pipelined(8, layers, 8, 3, "1f1b", "4B");
  CHECK(test::problem_of(short_model).starts_with(at + "pipeline/stages: expected at most 4 for model"));
  Json unstated = pipelined(4, layers, 4, 3, "1f1b", "4B");
  for (Json& layer : unstated["workload"]["model"]["structure"]["layers"]) layer.erase("output");
  CHECK(test::problem_of(unstated).starts_with(at + "pipeline/stages: expected at most 1 for model"));
  Json uneven = pipelined(2, layers, 4, 3, "1f1b", "4B");
  uneven["workload"]["model"]["structure"]["scales_with_batch"] = true;
  uneven["cluster"]["groups"].push_back(uneven["cluster"]["groups"][0]);
  uneven["cluster"]["groups"][1]["name"] = "others";
  CHECK(test::problem_of(uneven).empty());
  uneven["cluster"]["groups"][1]["batch_per_worker"] = 2;
  CHECK(test::problem_of(uneven).starts_with("/cluster/groups/1/batch_per_worker: expected the same batch"));
}

}  // namespace rehearse
