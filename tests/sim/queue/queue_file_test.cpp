// Files of queues, and what is refused of them.

#include "sim/queue/queue_file.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

const Catalog& catalog() {
  static const Catalog known{{{.platforms = source_folder() + "/platforms/catalog",
                               .models = source_folder() + "/workloads/models",
                               .profiles = source_folder() + "/calibration/profiles"}}};
  return known;
}

QueueInput read(const std::string& text) { return read_queue(parse_json(text, "q"), "q", catalog()); }
std::string refusal(const std::string& text) {
  return test::error_of([&] { read(text); });
}

std::string file(const std::string& jobs, const std::string& more = R"("policy":"fifo")",
                 const std::string& group = R"({"name":"g","gpu":"V100","machines":2,"gpus_per_machine":4})") {
  return R"({"format":1,"cluster":{"groups":[)" + group + R"(]},"jobs":[)" + jobs + "]," + more + "}";
}
const std::string kJob = R"({"name":"a","gpus":4,"duration":"1h"})";

}  // namespace

TEST_CASE("a queue of the smallest file, and one of all keys") {
  const QueueSetup setup = read(file(kJob)).setup;
  CHECK(setup.gpus() == 8);
  CHECK(setup.jobs[0].steps == 3600 * kQueueSecond);
  CHECK(!setup.round);
  const QueueSetup all =
      read(file(R"({"name":"a","gpus":4,"duration":"1h","arrival":"2min","count":3,"every":"1min","weight":2},)" + kJob,
                R"("name":"n","policy":["las","fifo"],"round":"60s","restart":"30s","reallocation":"10min",
                   "service_threshold":"1h","placing":"most_free","interference":0.25,"measure":{"after":1,"jobs":2},"seed":7)"))
          .setup;
  CHECK(all.jobs.size() == 4);
  CHECK(all.jobs[0].name == "a");  // arrives first
  CHECK(all.jobs[3].name == "a-3");
  CHECK(all.jobs[3].arrival == 240 * kQueueSecond);
  CHECK(all.kinds.size() == 1);
  CHECK(all.policies == std::vector<std::string>{"las", "fifo"});
  CHECK(all.placing == Placing::kMostFree);
  CHECK(all.first_measured == 1);
  CHECK(all.last_measured == 3);
}

TEST_CASE("an instance of the catalogs says which GPUs and how many") {
  const QueueSetup setup =
      read(file(kJob, R"("policy":"fifo")", R"({"name":"g","instance":"p3.16xlarge","machines":2})")).setup;
  CHECK(setup.groups[0].gpus_per_machine == 8);
  CHECK(setup.groups[0].gpu == "V100");
}

TEST_CASE("elastic jobs: what they need, what resizes them, and where nothing does") {
  const std::string scenario = source_folder() + "/scenarios/resnet50-ec2.json";
  const auto job = [&](const std::string& more) {
    return R"({"name":"a","gpus":4,"scenario":")" + scenario + R"(","steps":5)" + more + "}";
  };
  const std::string group = R"({"name":"g","instance":"p3.16xlarge","machines":2})";
  const std::string elastic = job(R"(,"max_gpus":16,"noise_scale":5120)");
  const QueueSetup setup = read(file(elastic, R"("policy":"pollux")", group)).setup;
  CHECK(setup.kinds[0].max_gpus == 16);
  const double batch = static_cast<double>(setup.jobs[0].samples_per_step);
  CHECK(setup.kinds[0].noise_in_batches == doctest::Approx(5120 / batch));
  CHECK(setup.kinds[0].worth_of_step(4) == doctest::Approx(1));
  // A sample of batch B is worth 1 / (noise scale + B).
  CHECK(setup.kinds[0].worth_of_step(16) == doctest::Approx(4 * (5120 + batch) / (5120 + 4 * batch)));
  CHECK(setup.warnings.empty());
  CHECK(read(file(elastic, R"("policy":"fifo")", group)).setup.warnings ==
        std::vector<std::string>{"elastic jobs have the GPUs that they state under fifo: \"pollux\" resizes them"});
  CHECK(read(file(kJob, R"("policy":"pollux")")).setup.warnings ==
        std::vector<std::string>{"no job is elastic (\"max_gpus\"): \"pollux\" can but start and stop them"});

  CHECK(refusal(file(R"({"name":"a","gpus":4,"duration":"1h","max_gpus":8})")) ==
        "q: /jobs/0/max_gpus: expected none of a job of stated duration, which is that on its GPUs; found 8");
  CHECK(refusal(file(job(R"(,"max_gpus":16)"), R"("policy":"pollux")", group)) ==
        "q: /jobs/0: expected noise_scale of a job with a scenario and max_gpus: what a sample of a larger batch is "
        "worth");
  CHECK(refusal(file(job(R"(,"max_gpus":3,"noise_scale":5)"), R"("policy":"pollux")", group)) ==
        "q: /jobs/0/max_gpus: expected 4 to 1000000; found 3");
  CHECK(refusal(file(job(R"(,"noise_scale":5)"), R"("policy":"pollux")", group)) ==
        "q: /jobs/0/noise_scale: expected it together with scenario and max_gpus; found 5");
  CHECK(refusal(file(job(R"(,"max_gpus":16,"noise_scale":0)"), R"("policy":"pollux")", group)) ==
        "q: /jobs/0/noise_scale: expected 1 to 1e15 samples; found 0");
  CHECK(
      refusal(file(elastic, R"("policy":"pollux")", group + R"(,{"name":"h","instance":"p3.8xlarge","machines":2})")) ==
      "q: /policy: expected one group of machines for \"pollux\"; found 2");
  CHECK(refusal(file(kJob, R"("policy":"pollux","round":"0s")")) ==
        "q: /round: expected a round above 0s for policy \"pollux\", which decides in rounds");
}

TEST_CASE("what a file may not say") {
  CHECK(
      refusal(
          R"({"format":1,"cluster":{"groups":[{"name":"g","gpu":"V","machines":1,"gpus_per_machine":1}]},"policy":"fifo"})") ==
      "q: expected jobs, or a trace of them");
  CHECK(refusal(file(R"({"name":"a","gpus":4})")) ==
        "q: /jobs/0: expected one of duration, type and scenario, by which its speed is known");
  CHECK(refusal(file(R"({"name":"a","gpus":0,"duration":"1h"})")) == "q: /jobs/0/gpus: expected 1 to 1000000; found 0");
  CHECK(refusal(file(R"({"name":"a","gpus":1,"duration":"0s"})")) ==
        "q: /jobs/0/duration: expected 1us to 1e9 s; found \"0s\"");
  CHECK(refusal(file(R"({"name":"a","gpus":1,"type":"x","steps":5})")) ==
        "q: /jobs/0/type: expected \"speeds\", the file with the speed of type \"x\"");
  CHECK(refusal(file(R"({"name":"a","gpus":1,"scenario":"x.json"})")) ==
        "q: /jobs/0: expected steps of the job, as its scenario is run for its speed alone");
  CHECK(refusal(file(kJob, R"("policy":"fiifo")")) == "q: /policy: unknown policy \"fiifo\"; did you mean \"fifo\"?");
  CHECK(refusal(file(kJob, R"("policy":[])")) ==
        "q: /policy: expected a policy, or a list of them; found an empty array");
  CHECK(refusal(file(kJob, R"("policy":"las","round":"0s")")) ==
        "q: /round: expected a round above 0s for policy \"las\", which decides in rounds");
  CHECK(refusal(file(kJob, R"("policy":"fifo","round":"1ms")")) ==
        "q: /round: expected 0s, or 1s and more; found \"1ms\"");
  CHECK(refusal(file(kJob, R"("policy":"fifo","placing":"pack")")) ==
        "q: /placing: unknown placing \"pack\"; known: \"packed\", \"most_free\"");
  CHECK(refusal(file(kJob, R"("policy":"fifo","interference":1)")) ==
        "q: /interference: expected a share from 0 to below 1; found 1");
  CHECK(refusal(file(kJob, R"("policy":"fifo","measure":{"after":1,"jobs":1})")) ==
        "q: /measure/after: expected 0 to 0; found 1");
  CHECK(refusal(file(kJob, R"("policy":"fifo","polcy":1)")) == "q: unknown key \"polcy\"; did you mean \"policy\"?");
  CHECK(refusal(file(kJob, R"("policy":"fifo")", R"({"name":"g","machines":2})")) ==
        "q: /cluster/groups/0: expected an instance of the catalogs, or gpu and gpus_per_machine");
  // Groups are counted before any is read: the name of each is looked for among those before it.
  std::string groups = R"({"name":"g","machines":2})";
  for (int more = 0; more < 16; ++more) groups += R"(,{"name":"g","machines":2})";
  CHECK(refusal(file(kJob, R"("policy":"fifo")", groups)) ==
        "q: /cluster/groups: expected 1 to 16 groups; found an array of 17");
  CHECK(refusal(file(kJob, R"("policy":"fifo","trace":{"form":"csw","file":"x"})")) ==
        "q: /trace/form: unknown form \"csw\"; did you mean \"csv\"?");
}

TEST_CASE("jobs that no group can run are refused before anything runs") {
  CHECK(refusal(file(R"({"name":"a","gpus":9,"duration":"1h"})")) ==
        "q: job \"a\" asks for 9 GPUs of one group; the largest group, \"g\", has 8");
  CHECK(refusal(file(R"({"name":"a","gpus":8,"scenario":")" + source_folder() +
                     R"(/scenarios/resnet50-ec2.json","steps":5})")) ==
        "q: job \"a\": expected a group of 8 GPUs with an instance, on which its scenario is simulated");
  const std::string speeds = source_folder() + "/calibration/data/gavel-traces/speeds.csv";
  CHECK(refusal(file(R"({"name":"a","gpus":1,"type":"CycleGAN","steps":5})",
                     R"("policy":"fifo","speeds":")" + speeds + "\"")) ==
        "q: job \"a\": " + speeds + " has no speed above 0 of type \"CycleGAN\" on 1 GPUs of a group's");
}

TEST_CASE("shipped queues are read") {
  for (const char* name : {"gavel-physical", "pollux-tiresias", "two-teams"}) {
    const std::string path = source_folder() + "/scenarios/queue/" + name + ".json";
    const Json json = load_json_file(path);
    CHECK_NOTHROW(read_queue(json, path, catalog()));
  }
}

}  // namespace rehearse
