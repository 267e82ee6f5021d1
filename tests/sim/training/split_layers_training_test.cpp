// Workers that hold each layer of a model together, with stages, sharding and data-parallel likes outside: what is sent, by closed
// forms; runs with all reductions against exact ones; what is refused.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::exactly;
using test::timed_scenario;

using test::small_training;

double bytes_sent(const Json& scenario) {
  const Json summary = test::simulated(scenario);
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  CHECK(summary["sent_B"] == summary["received_B"]);
  return summary["sent_B"].get<double>();
}

/// Bytes that leave a GPU by rings among t in a pass, and in a step for what is not split.
double sent_in_layers(const Scenario& scenario, int passes) {
  const double t = scenario.model.split.degree, part = (t - 1) / t;
  double bytes = 0;
  for (const Operator& op : scenario.workload.graph)
    if (op.exchange)
      bytes += as_double(op.exchange->bytes) * (op.exchange->kind == CollectiveKind::kShift       ? 1
                                                : op.exchange->kind == CollectiveKind::kAllReduce ? 2 * part
                                                                                                  : part);
  const std::vector<bool> all(scenario.workload.variables.size(), true);
  return passes * bytes + 2 * part * as_double(partial_gradients(scenario, all));
}

}  // namespace

TEST_CASE("what all send: the exchanges of layers in each pass, and shards of gradients once a step") {
  for (const int degree : {1, 2, 4})
    for (const auto& [in_parts, asynchronous] :
         {std::pair{false, false}, std::pair{true, false}, std::pair{true, true}})
      for (const int passes : {1, 3}) {
        CAPTURE(degree);
        const int workers = 8, data = workers / degree;
        const Json json = small_training(
            workers, 1,
            {{"tensor", {{"degree", degree}, {"sequence_parallel", in_parts}, {"asynchronous", asynchronous}}},
             {"accumulation_steps", passes}});
        const Scenario scenario = test::resolved(json);
        const double gradients = as_double(scenario.workload.parameter_bytes()) * 2 * (data - 1) / data;
        // Rings cut what their size does not divide into pieces of at most one byte more.
        CHECK(bytes_sent(json) ==
              doctest::Approx(workers * (sent_in_layers(scenario, passes) + gradients)).epsilon(2e-4));
        CHECK((partial_gradients(scenario, std::vector<bool>(scenario.workload.variables.size(), true)) > Bytes{}) ==
              (in_parts && degree > 1));
      }
}

TEST_CASE("a degree of one, and an order of axes of which one alone is longer than one, change nothing") {
  const Json plain = small_training(2, 2, Json::object());
  for (const Json& strategy :
       {Json{{"tensor", {{"degree", 1}, {"sequence_parallel", true}}}}, Json{{"rank_order", "tensor_data_pipeline"}},
        Json{{"rank_order", "tensor_pipeline_data"}}, Json{{"rank_order", "megatron"}}})
    CHECK(program_text(test::resolved(small_training(2, 2, strategy))) == program_text(test::resolved(plain)));
}

TEST_CASE("runs with folded workers and timed collectives are exact: degrees, orders, stages, sharding at random") {
  Rng rng{20, "split layers"}, of_messages{20, "messages between stages of split layers"},
      of_others{20, "adapters, unlike GPUs and groups over machines of split layers"},
      of_exchanges{20, "exchanges beside products of split layers"},
      of_fabrics{20, "fabrics that hold messages between stages up"};
  const auto one_of = [&]<class Value>(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(rng.uniform() * static_cast<double>(values.size()))];
  };
  int runs = 0;
  while (runs < 40) {
    const int machines = one_of(std::vector{1, 2, 4}), gpus = one_of(std::vector{2, 4}),
              degree = one_of(std::vector{1, 2, 4}), stages = one_of(std::vector{1, 2, 4});
    if (machines * gpus % (degree * stages) != 0) continue;
    Json strategy{{"tensor", {{"degree", degree}, {"sequence_parallel", one_of(std::vector<bool>{false, true})}}},
                  {"rank_order", one_of(std::vector<std::string>{"tensor_data_pipeline", "tensor_pipeline_data"})},
                  {"sharding", one_of(std::vector<std::string>{"none", "optimizer", "gradients", "parameters"})}};
    if (strategy["tensor"]["sequence_parallel"]) strategy["tensor"]["asynchronous"] = of_exchanges.below(2) == 0;
    const bool is_interleaved = stages > 1 && rng.uniform() < 0.3;
    const int microbatches = is_interleaved ? 2 * stages : one_of(std::vector{1, 3});
    if (stages > 1)
      strategy["pipeline"] = {
          {"stages", stages},
          {"microbatches", microbatches},
          {"schedule", is_interleaved ? "interleaved" : one_of(std::vector<std::string>{"gpipe", "1f1b"})}};
    if (is_interleaved) strategy["pipeline"]["chunks"] = 2;
    if (stages > 1)
      strategy["pipeline"].update({{"scatter_gather", of_messages.below(2) == 0},
                                   {"messages", of_messages.below(2) == 0 ? "blocking" : "overlapped"}});
    strategy["clip_norm"] = one_of(std::vector<bool>{false, true});
    const int likes = machines * gpus / degree / stages;
    if (strategy["sharding"] != "none" && likes % 2 == 0) strategy["shard_group"] = one_of(std::vector{2, likes});
    if (strategy.contains("shard_group") && likes % 4 == 0 && of_others.below(2) == 0) strategy["shard_group"] = 4;
    Json scenario = small_training(machines, gpus, strategy, 8);
    scenario["cluster"]["groups"][0]["instance"]["nics"] = one_of(std::vector{1, gpus});
    scenario["cluster"]["network"].update(
        one_of(std::vector<Json>{{{"topology", "star"}},
                                 {{"topology", "fat_tree"}, {"machines_per_leaf", 2}},
                                 {{"topology", "fat_tree"}, {"machines_per_leaf", 2}, {"oversubscription", 2}},
                                 {{"topology", "rail"}}}));
    if (of_fabrics.below(2) == 0) {
      const std::vector<Json> fabrics{
          {{"topology", "fat_tree"}, {"machines_per_leaf", 1}, {"oversubscription", 4}},
          {{"topology", "fat_tree"}, {"machines_per_leaf", 2}, {"oversubscription", 2}, {"uplinks", 2}},
          {{"topology", "fat_tree"}, {"machines_per_leaf", 3}, {"oversubscription", 3}},
          {{"topology", "fat_tree"}, {"machines_per_leaf", 4}, {"uplinks", 3}},
          {{"topology", "rail"}, {"oversubscription", 4}}};
      Json& network = scenario["cluster"]["network"];
      network.erase("oversubscription");
      network.update(fabrics[of_fabrics.below(fabrics.size())]);
      if (network["topology"] == "rail") network.erase("machines_per_leaf");
      scenario["cluster"]["groups"][0]["instance"]["nic"] = "0.2GBps";
    }
    scenario["workload"]["recompute"] =
        one_of(std::vector<Json>{"none", "full", "every_second_product", Json{"core_attention", "norms"}});
    scenario["training"]["steps"] = 3;
    if (of_others.below(3) == 0) scenario["workload"]["lora"] = {{"rank", 4}};
    if (machines > 1 && of_others.below(3) == 0) {  // half of the machines have slower GPUs
      Json& groups = scenario["cluster"]["groups"];
      groups[0]["count"] = machines / 2;
      groups.push_back(groups[0]);
      groups[1]["name"] = "others";
      groups[1]["instance"]["accelerator"]["memory_bandwidth"] = "0.5TBps";
    }
    CAPTURE(scenario["training"]["strategy"].dump());
    CAPTURE(scenario["workload"].dump());
    CAPTURE(scenario["cluster"].dump());
    CAPTURE(machines);
    CAPTURE(gpus);
    ++runs;
    const test::Times times = test::times_of(scenario);
    CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
  }
}

TEST_CASE("machines of leaf switches that hold all of them up alike run once, as do those that share one") {
  const auto run = [](int machines_per_leaf, bool is_exact) {
    Json scenario =
        small_training(32, 2, {{"tensor", {{"degree", 2}}}, {"pipeline", {{"stages", 2}, {"microbatches", 2}}}});
    scenario["cluster"]["network"].update(
        {{"topology", "fat_tree"}, {"machines_per_leaf", machines_per_leaf}, {"oversubscription", 4}});
    scenario["cluster"]["groups"][0]["instance"].update({{"nics", 2}, {"nic", "0.1GBps"}});
    return test::in_child([&] {
      const RunRecord record = simulate(test::resolved(scenario), {.is_exact = is_exact});
      return Json{
          {"time", record.end.value()}, {"events", record.events}, {"utilization", record.busiest_link.utilization}};
    });
  };
  const double unfolded = run(5, false)["events"];
  for (const int machines_per_leaf : {4, 16, 32}) {  // of a circle's 16 a quarter, all, all of two
    const Json folded = run(machines_per_leaf, false), exact = run(machines_per_leaf, true);
    CHECK(folded["events"].get<double>() < unfolded / 3);
    for (const char* key : {"time", "utilization"})
      CHECK(folded[key].get<double>() == doctest::Approx(exact[key].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("exchanges beside products are hidden as far as the products last, and cost what smaller products do") {
  const auto simulated = [](int degree, bool asynchronous, const std::string& nic) {
    Json scenario = small_training(
        4, 1, {{"tensor", {{"degree", degree}, {"sequence_parallel", true}, {"asynchronous", asynchronous}}}});
    scenario["cluster"]["groups"][0]["instance"]["nic"] = nic;
    scenario["cluster"]["network"]["links"][0]["latency"] = "0s";
    scenario["workload"]["batch_per_worker"] = 64;
    return test::simulated(scenario);
  };
  for (const int degree : {2, 4}) {
    const Json whole = simulated(degree, false, "20GBps"), parts = simulated(degree, true, "20GBps");
    REQUIRE_MESSAGE(!parts.contains("error"), parts.dump());
    CHECK(parts["iteration_time_s"].get<double>() < whole["iteration_time_s"].get<double>());
    CHECK(parts["exposed_communication_s"].get<double>() < 0.95 * whole["exposed_communication_s"].get<double>());
    // Where nothing is to be hidden, they only make kernels smaller.
    CHECK(simulated(degree, true, "100TBps")["iteration_time_s"].get<double>() >
          0.9999 * simulated(degree, false, "100TBps")["iteration_time_s"].get<double>());
  }
}

TEST_CASE("workers of a layer whose GPUs share the way to the host are not folded: their samples share it, too") {
  Json scenario = small_training(2, 8, {{"tensor", {{"degree", 4}}}});
  scenario["workload"]["copies_input"] = true;
  scenario["workload"]["batch_per_worker"] = 512;
  scenario["cluster"]["groups"][0]["instance"] = "dgx-a100";
  const test::Times times = test::times_of(scenario);
  CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
}

TEST_CASE("stages that are split pass on their parts of the positions") {
  for (const bool in_parts : {false, true}) {
    const Json json = small_training(2, 4,
                                     {{"tensor", {{"degree", 4}, {"sequence_parallel", in_parts}}},
                                      {"pipeline", {{"stages", 2}, {"microbatches", 3}}}});
    const Scenario scenario = test::resolved(json);
    const double token = 64 * 4, passed = 32 * token / (in_parts ? 4 : 1);
    CHECK(as_double(cut_into_stages(scenario).passed.front()) == exactly(passed));
  }
}

TEST_CASE("stages that scatter what they pass on send a part each, which the next ones gather") {
  const auto json = [](bool scatters, bool in_parts) {
    return small_training(2, 4,
                          {{"tensor", {{"degree", 4}, {"sequence_parallel", in_parts}}},
                           {"pipeline", {{"stages", 2}, {"microbatches", 3}, {"scatter_gather", scatters}}}});
  };
  const PipelineStages whole = cut_into_stages(test::resolved(json(false, false))),
                       scattered = cut_into_stages(test::resolved(json(true, false)));
  CHECK_FALSE(whole.gathers_passed);
  CHECK(scattered.gathers_passed);
  CHECK(scattered.passed.front() * 4 == whole.passed.front());
  CHECK_FALSE(cut_into_stages(test::resolved(json(true, true))).gathers_passed);  // parts are passed on anyway

  const auto collectives = [&](bool scatters, int stage) {
    const Scenario scenario = test::resolved(json(scatters, false));
    const PipelineStages stages = cut_into_stages(scenario);
    const ComputePlan plan =
        plan_stage(plan_step(scenario, scenario.first_workers()), stages, stage, scenario.workload);
    const Program program = compile_pipeline(scenario, plan, stages, plan_pipeline_exchange(scenario, stages), stage);
    Bytes gathered{};
    int count = 0;
    for (const Node& node : program.nodes)
      if (const auto* collective = std::get_if<Collective>(&node.operation);
          collective != nullptr && collective->kind == CollectiveKind::kAllGather) {
        gathered += collective->bytes;
        ++count;
      }
    return std::pair{count, gathered};
  };
  for (const int stage : {0, 1}) {  // gradients of three micro-batches, or activations
    CHECK(collectives(false, stage).first == 0);
    CHECK(collectives(true, stage) == std::pair{3, whole.passed.front() * 3});
  }
  const test::Times times = test::times_of(json(true, false));
  CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
}

TEST_CASE("a split backward pass computes and sends the same, and keeps more") {
  for (const int tensor : {1, 2})
    for (const char* sharding : {"none", "optimizer"}) {
      const auto json = [&](const char* schedule) {
        return small_training(
            2, 4,
            {{"tensor", {{"degree", tensor}, {"sequence_parallel", true}}},
             {"sharding", sharding},
             {"pipeline", {{"stages", 4}, {"microbatches", 6}, {"schedule", schedule}, {"cut", "layers"}}}},
            8);
      };
      const test::Times times = test::times_of(json("zb1p"));
      CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
      Json afterwards = json("zb2p");
      afterwards["training"]["strategy"]["clip_norm"] = true;
      const test::Times of_together = test::times_of(afterwards);
      afterwards["training"]["strategy"]["pipeline"]["post_validation"] = true;
      const test::Times of_afterwards = test::times_of(afterwards);
      CHECK(of_afterwards.by_default == doctest::Approx(of_afterwards.exact).epsilon(1e-6));
      CHECK(of_afterwards.by_default < of_together.by_default);
      CHECK(bytes_sent(json("zb1p")) == doctest::Approx(bytes_sent(json("1f1b"))).epsilon(1e-9));
      const auto kept = [&](const char* schedule) {
        const Scenario scenario = test::resolved(json(schedule));
        return gpu_memory(scenario, scenario.first_workers()).activations;
      };
      CHECK(kept("zb1p") >= kept("1f1b"));
      // Folded: half of the layers each way, over one cut less than four parts have.
      for (const char* schedule : {"zbv", "dualpipev"}) {
        Json folded = json(schedule), interleaved = json("interleaved");
        interleaved["training"]["strategy"]["pipeline"]["chunks"] = 2;
        for (Json* both : {&folded, &interleaved})
          (*both)["training"]["strategy"]["pipeline"].update({{"stages", 2}, {"microbatches", 8}});
        const test::Times of_folded = test::times_of(folded);
        CHECK(of_folded.by_default == doctest::Approx(of_folded.exact).epsilon(1e-6));
        CHECK(bytes_sent(folded) < bytes_sent(interleaved));
        CHECK(of_folded.by_default < test::times_of(interleaved).by_default);
      }
      const Json both_ways = [&] {
        Json twice = json("dualpipe");
        twice["training"]["strategy"]["pipeline"]["microbatches"] = 8;
        return twice;
      }();
      const test::Times of_both = test::times_of(both_ways);
      CHECK(of_both.by_default == doctest::Approx(of_both.exact).epsilon(1e-6));
    }
  CHECK(test::problem_of(small_training(2, 2,
                                        {{"sharding", "parameters"},
                                         {"pipeline", {{"stages", 2}, {"microbatches", 2}, {"schedule", "zb1p"}}}}))
            .starts_with("/training/strategy/sharding: expected \"none\" or \"optimizer\" with \"zb1p\""));
}

TEST_CASE(
    "in a pipeline what stages wait for of their own layers' exchange is communication, not waiting for other stages") {
  const int microbatches = 15;
  const Json json = small_training(4, 1,
                                   {{"tensor", {{"degree", 2}}},
                                    {"rank_order", "tensor_data_pipeline"},
                                    {"pipeline", {{"stages", 2}, {"microbatches", microbatches}, {"cut", "layers"}}}});
  const Json summary = test::simulated(json);
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  double bubble = 0, communication = 0;
  for (const Json& part : summary["step_parts"]) {
    if (part["part"] == "bubble") bubble = part["share"];
    if (part["what"].get<std::string>().starts_with("exposed communication"))
      communication += part["share"].get<double>();
  }
  CHECK(communication > 0.5);  // kernels of microseconds, messages of tens
  CHECK(bubble < 0.25);        // one of sixteen micro-batches, and the loss of the last stage
}

TEST_CASE("a GPU keeps its shards: states are those of 1 / t of what is split") {
  Json json = small_training(1, 4, {{"tensor", {{"degree", 1}}}});
  json["workload"]["model"]["structure"]["vocabulary"] = 1024;
  const auto weights = [&](int degree) {
    json["training"]["strategy"]["tensor"]["degree"] = degree;
    const Scenario scenario = test::resolved(json);
    std::int64_t whole = 0;
    for (const Variable& variable : scenario.workload.variables)
      if (!variable.is_shard && degree > 1) whole += variable.bytes.value();
    return std::pair{gpu_memory(scenario, scenario.first_workers()).weights.value(), whole};
  };
  const std::int64_t all = weights(1).first;
  for (const int degree : {2, 4}) {
    const auto [own, whole] = weights(degree);
    CHECK(own == whole + (all - whole) / degree);
  }
}

TEST_CASE("groups of unlike GPUs go at the slower one's pace, where each layer is on GPUs of one kind") {
  const auto machines = [](const std::vector<std::string>& rates) {
    Json json = small_training(1, 4, {{"tensor", {{"degree", 2}}}, {"overlap", "none"}});
    const Json group = json["cluster"]["groups"][0];
    json["cluster"]["groups"] = Json::array();
    for (const std::string& rate : rates) {
      json["cluster"]["groups"].push_back(group);
      json["cluster"]["groups"].back()["name"] = "workers " + std::to_string(json["cluster"]["groups"].size());
      json["cluster"]["groups"].back()["instance"]["accelerator"]["memory_bandwidth"] = rate;
    }
    return json;
  };
  const double slow = test::times_of(machines({"1GBps", "1GBps"})).exact;
  CHECK(test::times_of(machines({"2GBps", "2GBps"})).exact < 0.9 * slow);
  for (const auto& rates : {std::vector<std::string>{"2GBps", "1GBps"}, {"1GBps", "2GBps"}}) {
    const test::Times times = test::times_of(machines(rates));
    CHECK(times.exact == exactly(slow));
    CHECK(times.by_default == exactly(slow));
  }
}

TEST_CASE("a checkpoint has the parts of all workers that hold a layer together, and what all of them have once") {
  Json json = small_training(1, 4, {{"tensor", {{"degree", 1}}}});
  json["workload"]["model"]["structure"]["vocabulary"] = 1024;  // nothing is padded
  const Bytes whole = checkpoint_bytes(test::resolved(json));
  for (const int degree : {2, 4}) {
    json["training"]["strategy"]["tensor"]["degree"] = degree;
    CHECK(checkpoint_bytes(test::resolved(json)) == whole);
  }
}

TEST_CASE("what cannot be split is refused, with the nearest degree that can be") {
  const auto problem = [](const Json& strategy, const std::vector<std::pair<std::string, Json>>& changes = {}) {
    return test::problem_with(small_training(4, 4, strategy), changes);
  };
  const std::string degree = "/training/strategy/tensor/degree: expected ";
  CHECK(problem({{"tensor", {{"degree", 3}}}}) ==
        degree + "a degree that divides the 16 workers; found 3, and the nearest that does is 4");
  CHECK(problem({{"tensor", {{"degree", 8}}}}) ==
        degree + "a degree that divides the 4 key-value heads; found 8, and the nearest that does is 4");
  CHECK(problem({{"tensor", {{"degree", 2'000'000'000}}}}) ==
        degree + "a degree that divides the 16 workers; found 2000000000, and the nearest that does is 4");
  CHECK(problem({{"tensor", {{"degree", 0}}}}).starts_with(degree + "at least 1"));
  CHECK(problem({{"tensor", {{"degree", 4}, {"sequence_parallel", true}}}},
                {{"/workload/model/structure/sequence_length", 30}}) ==
        degree + "a degree that divides the 30 positions; found 4, and the nearest that does is 2");
  CHECK(problem({{"tensor", {{"degree", 2}}}}, {{"/workload/model", "resnet50"}})
            .starts_with(degree + "1 for model \"resnet50\", which is no transformer"));
  CHECK(problem({{"tensor", {{"degree", 4}}}, {"pipeline", {{"stages", 3}, {"microbatches", 2}}}}) ==
        "/training/strategy/pipeline/stages: expected a divisor of the 4 groups of 4 workers, of which each is a "
        "stage, such as 4; found 3");
  CHECK(problem({{"global_batch", 17}}) ==
        "/training/strategy/global_batch: expected a multiple of the 16 samples of one batch of all workers, such as "
        "16 or 32; "
        "found 17");
  // What is named is accepted: as many micro-batches as an interleaved pipeline goes with, a number of stages as its chunks do.
  const Json interleaved{{"stages", 4}, {"chunks", 2}, {"schedule", "interleaved"}};
  CHECK(
      problem({{"global_batch", 13}, {"pipeline", interleaved}}) ==
      "/training/strategy/global_batch: expected a multiple of the 4 samples of one batch of all workers, such as 16; "
      "found 13");
  CHECK(problem({{"global_batch", 25}, {"pipeline", interleaved}}) ==
        "/training/strategy/global_batch: expected a multiple of the 4 samples of one batch of all workers, such as 16 "
        "or 32; found 25");
  const auto stages = [&](Json pipeline) {
    pipeline["microbatches"] = 8;
    return problem({{"tensor", {{"degree", 4}}}, {"pipeline", pipeline}});
  };
  const std::string of_four =
      "/training/strategy/pipeline/stages: expected a divisor of the 4 groups of 4 workers, of which each is a stage, "
      "such as ";
  CHECK(stages({{"stages", 16}, {"cut", "layers"}}) == of_four + "4; found 16");
  CHECK(stages({{"stages", 3}, {"cut", "layers"}, {"chunks", 2}, {"schedule", "interleaved"}}) ==
        of_four + "2; found 3");
  CHECK(stages({{"stages", 3}, {"cut", "layers"}, {"chunks", 3}, {"schedule", "interleaved"}}) ==
        of_four + "2 with 2 chunks; found 3");
  CHECK(stages({{"stages", 3}, {"cut", "layers"}, {"counts_loss", true}}) == of_four + "1; found 3");
  CHECK(problem({{"tensor_parallel_size", 4}}).find("has another name here: \"tensor\"") != std::string::npos);
}

TEST_CASE("a global batch says how many batches a step has") {
  for (const auto& [strategy, passes] :
       {std::pair{Json{{"global_batch", 32}}, 2}, std::pair{Json{{"global_batch", 8}, {"tensor", {{"degree", 4}}}}, 2},
        std::pair{Json{{"global_batch", 12}, {"tensor", {{"degree", 2}}}, {"pipeline", {{"stages", 2}}}}, 3}}) {
    const Scenario scenario = test::resolved(small_training(4, 4, strategy));
    CHECK(scenario.training.strategy.exchange.accumulation_steps == passes);
    CHECK(samples_per_update(scenario) == strategy["global_batch"].get<double>());
    // It stays what is stated: with twice as many workers each has half as many batches.
    Json effective = *scenario.effective;
    CHECK(test::resolved(effective).training.strategy.exchange.accumulation_steps == passes);
    if (passes % 2 != 0) continue;
    effective["cluster"]["groups"][0]["count"] = 8;
    CHECK(test::resolved(effective).training.strategy.exchange.accumulation_steps == passes / 2);
    // Groups of the pipeline's micro-batches are asked for by samples, too.
  }
  const Json interleaved{{"global_batch", 20},
                         {"pipeline", {{"stages", 4}, {"chunks", 2}, {"schedule", "interleaved"}}}};
  CHECK(test::problem_of(small_training(4, 4, interleaved, 8)) ==
        "/training/strategy/global_batch: expected samples of a multiple of 4 with as many stages and \"interleaved\", "
        "such as 16 "
        "samples of 4 micro-batches; found 20");
}

TEST_CASE("exchanges are beside products only where positions are split") {
  CHECK(test::problem_of(small_training(1, 4, {{"tensor", {{"degree", 2}, {"asynchronous", true}}}}))
            .find("/training/strategy/tensor/asynchronous: expected false without \"sequence_parallel\"") !=
        std::string::npos);
}

TEST_CASE("words that are not split are not padded, and who asks for it is told") {
  Json json = small_training(1, 4, {{"tensor", {{"degree", 1}, {"vocabulary_multiple", 128}}}});
  CHECK(test::problem_of(json) ==
        "/training/strategy/tensor/vocabulary_multiple: expected a divisor of the 1000 words with a degree of 1, which "
        "pads "
        "none; with a \"vocabulary\" of 1024 the model has the rows that are added");
  json["workload"]["model"]["structure"]["vocabulary"] = 1024;
  CHECK(test::problem_of(json).empty());
}

}  // namespace rehearse
