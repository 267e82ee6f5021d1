#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kMaxSteps = 10'000'000;

/// "steps" as Training says, or "steps_per_worker".
std::int64_t read_steps(const JsonReader& json, const Scenario& scenario, Json& effective) {
  if (json.has("steps_per_worker")) {
    const auto per_worker = json.required<std::int64_t>("steps_per_worker");
    const std::int64_t workers = scenario.training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
    json.expect(per_worker >= 1 && per_worker <= kMaxSteps / workers, "steps_per_worker",
                "at least 1 step, and at most 10000000 of all workers together");
    effective.erase("steps_per_worker");
    effective["steps"] = per_worker * workers;
    return per_worker * workers;
  }
  const auto steps = json.required<std::int64_t>("steps");
  json.expect(steps >= 1 && steps <= kMaxSteps, "steps", "1 to 10000000 steps");
  return steps;
}

/// The size of the job, by one of kJobSizes.
void read_size(const JsonReader& json, std::optional<std::int64_t> samples_per_epoch, Scenario& scenario,
               Json& effective) {
  std::vector<const char*> stated;
  for (const char* key : kJobSizes)
    if (json.has(key)) stated.push_back(key);
  if (stated.size() > 1)
    json.fail(stated[1], "expected one of \"steps\", \"steps_per_worker\", \"samples\" and \"epochs\"; found " +
                             in_quotes(stated[0]) + " as well");
  if (json.has("samples")) {
    const auto samples = json.required<std::int64_t>("samples");
    json.expect(samples >= 1 && samples <= kMaxSamples, "samples", "1 to 1000000000000000 samples");
    set_samples(scenario, samples);
  } else if (json.has("epochs")) {
    const auto epochs = json.required<double>("epochs");
    if (!samples_per_epoch) json.fail("epochs", "expected \"samples_per_epoch\" in the workload beside it; found none");
    const double samples = epochs * static_cast<double>(*samples_per_epoch);
    json.expect(samples >= 0.5 && samples <= static_cast<double>(kMaxSamples), "epochs",
                "epochs of 1 to 1000000000000000 samples");
    set_samples(scenario, std::max<std::int64_t>(1, std::llround(samples)));
  } else {
    set_steps(scenario, read_steps(json, scenario, effective));
  }
  if (stated.empty()) return;
  json.expect(scenario.training.samples <= kMaxSamples, stated[0], "at most 1000000000000000 samples");
  if (scenario.training.steps > kMaxSteps)
    json.fail(stated[0], "expected at most 10000000 steps of the full cluster; found " +
                             std::to_string(scenario.training.steps) + " of " + to_text(samples_per_update(scenario)) +
                             " samples");
}

constexpr const char* kYoungDaly = "young_daly";

MemoryCheckpointing read_memory_checkpoint(const JsonReader& json) {
  MemoryCheckpointing rule;
  if (json.has("every_steps") == json.has("every")) json.fail("expected one of \"every_steps\" and \"every\"");
  if (json.has("every_steps")) {
    rule.every_steps = json.required<std::int64_t>("every_steps");
    json.expect(rule.every_steps >= 1, "every_steps", "at least 1 step");
  } else {
    rule.every = json.required<Seconds>("every");
    json.expect(*rule.every >= Seconds{1e-3}, "every", "at least 1ms");
  }
  json.reject_unknown_keys();
  return rule;
}

Checkpointing read_checkpoint_rule(const JsonReader& json) {
  Checkpointing rule;
  int rules = 0;
  if (json.has("every_steps")) {
    rule.every_steps = json.required<std::int64_t>("every_steps");
    json.expect(rule.every_steps >= 1, "every_steps", "at least 1 step");
    ++rules;
  }
  if (json.has("every")) {
    if (json.child("every").is_string() && json.required<std::string>("every") == kYoungDaly)
      json.fail("every", "expected a time; " + in_quotes(kYoungDaly) + " is one of \"interval\"");
    rule.every = json.required<Seconds>("every");
    json.expect(*rule.every >= Seconds{1e-3}, "every", "at least 1ms");
    ++rules;
  }
  if (json.has("interval")) {
    if (json.required<std::string>("interval") != kYoungDaly)
      json.fail("interval", "expected " + in_quotes(kYoungDaly) +
                                "; a time goes to \"every\", a number of steps to \"every_steps\"");
    rule.is_young_daly = true;
    ++rules;
  }
  if (rules != 1) json.fail("expected one of \"every_steps\", \"every\" and \"interval\": \"young_daly\"");
  if (json.has("pauses")) rule.pauses_all = read_word<bool>(json, "pauses", {{"chief", false}, {"all", true}});
  if (json.has("writers"))
    rule.is_by_machines = read_word<bool>(json, "writers", {{"chief", false}, {"machines", true}});
  if (json.has("mode"))
    rule.is_asynchronous = read_word<bool>(json, "mode", {{"synchronous", false}, {"asynchronous", true}});
  for (const auto& [key, rate] : {std::pair{"storage_rate", &rule.storage_rate}, {"copy_rate", &rule.copy_rate}}) {
    *rate = json.maybe<BytesPerSecond>(key);
    if (*rate) json.expect(**rate > BytesPerSecond{0}, key, "a rate above 0Bps");
  }
  if (json.has("in_memory")) rule.in_memory = read_memory_checkpoint(json.child("in_memory"));
  if (json.has("to")) rule.is_on_disk = read_word<bool>(json, "to", {{"bucket", false}, {"disk", true}});
  return rule;
}

Checkpointing read_checkpoint(const JsonReader& json) {
  Checkpointing checkpoint = read_checkpoint_rule(json);
  if (json.has("fixed_time") || json.has("rate")) {
    checkpoint.stage = CheckpointStage{.fixed_time = json.required<Seconds>("fixed_time"),
                                       .time_per_tensor = {},
                                       .rate = json.required<BytesPerSecond>("rate")};
    json.expect(checkpoint.stage->rate > BytesPerSecond{0}, "rate", "a rate above 0Bps");
  }
  json.reject_unknown_keys();
  return checkpoint;
}

/// Defaults depend on the strategy: asynchronous workers go on, synchronous ones without the lost one.
void read_recovery(const JsonReader& json, int workers, Training& training) {
  using LostWorker = Recovery::LostWorker;
  using LostChief = Recovery::LostChief;
  using Change = Recovery::Change;
  Recovery& recovery = training.recovery;
  recovery.lost_worker = training.strategy.is_synchronous() ? LostWorker::kShrink : LostWorker::kContinue;
  const auto default_change = [&] {
    if (!training.strategy.kind->is_in_lockstep()) return Change::kAtOnce;
    return recovery.lost_worker == LostWorker::kRestart ? Change::kRestart : Change::kRendezvous;
  };
  recovery.change = default_change();
  if (!json.has("recovery")) return;
  const JsonReader reader = json.child("recovery");
  if (reader.has("lost_worker")) {
    recovery.lost_worker = read_word<LostWorker>(reader, "lost_worker",
                                                 {{"continue", LostWorker::kContinue},
                                                  {"shrink", LostWorker::kShrink},
                                                  {"wait", LostWorker::kWait},
                                                  {"restart", LostWorker::kRestart}});
  }
  recovery.change = default_change();
  recovery.changes_on_loss = reader.has("membership_change");
  if (recovery.changes_on_loss)
    recovery.change = read_word<Change>(
        reader, "membership_change",
        {{"at_once", Change::kAtOnce}, {"rendezvous", Change::kRendezvous}, {"restart", Change::kRestart}});
  if (reader.has("lost_chief"))
    recovery.lost_chief = read_word<LostChief>(reader, "lost_chief",
                                               {{"hand_over", LostChief::kHandOver}, {"restart", LostChief::kRestart}});
  const auto time = [&](const char* key, Seconds fallback) {
    const auto value = reader.optional<Seconds>(key, fallback);
    if (reader.has(key)) reader.expect(value <= Seconds{1e9}, key, "at most 1e9s");
    return value;
  };
  recovery.timeout = time("timeout", recovery.timeout);
  recovery.restart_time = time("restart_time", recovery.restart_time);
  recovery.uses_notice = reader.optional<bool>("uses_notice", false);
  if (reader.has("minimum_workers")) {
    recovery.minimum_workers = reader.required<int>("minimum_workers");
    reader.expect(*recovery.minimum_workers >= 1 && *recovery.minimum_workers <= workers, "minimum_workers",
                  "1 to the " + std::to_string(workers) + " workers that there are");
  }
  if (reader.has("give_up_after")) {
    recovery.give_up_after = time("give_up_after", Seconds{});
    reader.expect(*recovery.give_up_after > Seconds{}, "give_up_after", "a time above 0s");
  }
  reader.reject_unknown_keys();
}

Replanning read_replanning(const JsonReader& json) {
  Replanning rule;
  rule.deadline = json.required<Seconds>("deadline");
  json.expect(rule.deadline > Seconds{} && rule.deadline <= Seconds{1e9}, "deadline", "a time above 0s, at most 1e9s");
  rule.takeover = json.optional<Seconds>("takeover", rule.takeover);
  rule.planning_time = json.optional<Seconds>("planning_time", rule.planning_time);
  for (const char* key : {"takeover", "planning_time"})
    if (json.has(key)) json.expect(json.required<Seconds>(key) <= Seconds{1e6}, key, "at most 1e6s");
  rule.margin = json.optional<double>("margin", rule.margin);
  if (json.has("margin")) json.expect(rule.margin >= 0 && rule.margin < 1, "margin", "a share from 0, below 1");
  rule.releases = json.optional<bool>("releases", rule.releases);
  json.reject_unknown_keys();
  return rule;
}

ServerAddition read_server_addition(const JsonReader& json, const Scenario& scenario) {
  ServerAddition rule;
  const auto name = json.required<std::string>("group");
  std::vector<std::string> known;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    if (group.role != Role::kParameterServer || !group.is_standby) continue;
    known.push_back(group.name);
    if (name == group.name) rule.group = static_cast<int>(g);
  }
  if (std::find(known.begin(), known.end(), name) == known.end())
    json.fail("group", known.empty() ? "expected a group of parameter servers with \"standby\": true; there is none"
                                     : unknown_name_message("group of standby servers", name, known));
  rule.warmup = json.optional<Seconds>("warmup", rule.warmup);
  rule.window = json.optional<Seconds>("window", rule.window);
  if (json.has("warmup")) json.expect(rule.warmup <= Seconds{1e6}, "warmup", "at most 1e6s");
  if (json.has("window")) json.expect(rule.window >= Seconds{1} && rule.window <= Seconds{1e6}, "window", "1s to 1e6s");
  rule.threshold = json.optional<double>("threshold", rule.threshold);
  if (json.has("threshold"))
    json.expect(rule.threshold > 0 && rule.threshold < 1, "threshold", "a share above 0, below 1");
  json.reject_unknown_keys();
  return rule;
}

/// A number, or [[share of the samples, noise scale], ..].
std::vector<ElasticBatch::Phase> read_noise_scale(const JsonReader& json) {
  constexpr std::size_t kMostPhases = 1000;
  constexpr double kLargest = 1e12;
  if (json.value().is_number()) {
    const auto scale = json.value().get<double>();
    if (!(scale > 0 && scale <= kLargest))
      json.fail("expected samples, above 0, at most 1e12; found " + to_text(scale));
    return {{.from = 0, .noise_scale = scale}};
  }
  std::vector<ElasticBatch::Phase> phases;
  const auto is_phase = [&](const Json& pair) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) return false;
    const auto from = pair[0].get<double>(), scale = pair[1].get<double>();
    const bool follows = phases.empty() ? from == 0 : from > phases.back().from && from < 1;
    return follows && scale > 0 && scale <= kLargest;
  };
  const Json& list = json.value();
  const bool is_list = list.is_array() && !list.empty() && list.size() <= kMostPhases;
  for (std::size_t i = 0; is_list && i < list.size() && is_phase(list[i]); ++i)
    phases.push_back({.from = list[i][0].get<double>(), .noise_scale = list[i][1].get<double>()});
  if (!is_list || phases.size() < list.size())
    json.fail(
        "expected a number of samples, or at most 1000 pairs [share of the job's samples, noise scale], the first "
        "share 0, the "
        "others rising below 1, scales above 0, at most 1e12");
  return phases;
}

ElasticBatch read_elastic_batch(const JsonReader& json, const Scenario& scenario) {
  ElasticBatch rule;
  rule.largest = json.required<int>("largest_batch_per_worker");
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker)
      json.expect(rule.largest >= group.batch && rule.largest <= kMaxBatch, "largest_batch_per_worker",
                  "the " + std::to_string(group.batch) + " samples of group " + in_quotes(group.name) + " to " +
                      std::to_string(kMaxBatch));
  rule.phases = read_noise_scale(json.child("noise_scale"));
  json.reject_unknown_keys();
  return rule;
}

Control read_control(const JsonReader& json, const Scenario& scenario) {
  Control control;
  if (json.has("replan")) control.replan = read_replanning(json.child("replan"));
  if (json.has("add_servers")) control.add_servers = read_server_addition(json.child("add_servers"), scenario);
  if (json.has("elastic_batch")) control.elastic_batch = read_elastic_batch(json.child("elastic_batch"), scenario);
  json.reject_unknown_keys();
  if (!control.changes_machines() && !control.elastic_batch)
    json.fail("expected \"replan\", \"add_servers\" or \"elastic_batch\"; found none of them");
  return control;
}

void read_smaller_cluster(const JsonReader& json, Training& training, Json& effective) {
  if (!json.has("smaller_cluster")) {
    effective["smaller_cluster"] = "keeps_batch_per_worker";
    return;
  }
  training.smaller_cluster =
      read_word<SmallerCluster>(json, "smaller_cluster",
                                {{"keeps_batch_per_worker", SmallerCluster::kKeepsBatchPerWorker},
                                 {"larger_shares", SmallerCluster::kLargerShares},
                                 {"accumulates", SmallerCluster::kAccumulates}});
}

void read_memory_check(const JsonReader& json, Training& training) {
  if (json.has("memory_check"))
    training.memory_check =
        read_word<MemoryCheck>(json, "memory_check", {{"refuse", MemoryCheck::kRefuse}, {"warn", MemoryCheck::kWarn}});
}

void read_target(const JsonReader& json, Scenario& scenario) {
  const TrainingTarget target{.loss = json.maybe<double>("loss"), .samples = json.maybe<double>("samples")};
  if (target.loss.has_value() == target.samples.has_value())
    json.fail("expected \"loss\" or \"samples\"; found " + std::string{target.loss ? "both" : "neither"});
  if (target.samples) json.expect(*target.samples >= 1 && *target.samples <= 1e18, "samples", "1 to 1e18 samples");
  if (target.loss) {
    if (!scenario.convergence) json.fail("loss", no_convergence_message(scenario.model));
    json.expect(*target.loss > scenario.convergence->floor && *target.loss <= 1e12, "loss",
                "a loss above the convergence model's floor of " + to_text(scenario.convergence->floor));
  }
  json.reject_unknown_keys();
  scenario.training.target = target;
}

/// A time, or a word for dates within a step, which workers need that go on by themselves. Returns what counts.
std::string read_starts(const JsonReader& json, Training& training) {
  const bool go_on_alone = !training.strategy.is_synchronous();
  constexpr std::array kWords{Named{"random", Starts::kInAStep}, Named{"even", Starts::kEvenly}};
  if (!json.has("start_interval")) {
    if (go_on_alone) training.starts = Starts::kInAStep;
    return go_on_alone ? kWords.front().name : to_text(training.start_interval);
  }
  const auto stated = read_word_or<Seconds>(json, "start_interval", kWords);
  if (const auto* interval = std::get_if<Seconds>(&stated)) {
    training.start_interval = *interval;
    return to_text(*interval);
  }
  if (!go_on_alone)
    json.fail("start_interval", "expected a time: workers that wait for one another in each step begin together");
  training.starts = std::get<Starts>(stated);
  return name_in(kWords, training.starts);
}

void read_share_variation(const JsonReader& json, Training& training, Json& effective) {
  const bool has_servers = training.strategy.kind->servers() != nullptr;
  if (json.has("share_variation")) {
    training.share_variation = json.required<double>("share_variation");
    json.expect(training.share_variation >= 0 && training.share_variation <= 2, "share_variation", "0 to 2");
    json.expect(has_servers || training.share_variation == 0, "share_variation",
                "0 without parameter servers: nothing else has connections whose shares vary");
  } else if (has_servers && training.starts == Starts::kInAStep) {
    training.share_variation = kShareVariation;
  }
  if (has_servers) effective["share_variation"] = training.share_variation;
}

}  // namespace

void read_training(const JsonReader& json, std::optional<std::int64_t> samples_per_epoch, Scenario& scenario,
                   Json& effective) {
  json.expect(json.is_object(), "an object");
  Training& training = scenario.training;
  read_strategy(json.child("strategy"), scenario, effective["strategy"]);
  read_size(json, samples_per_epoch, scenario, effective);
  training.warmup_steps = json.optional<int>("warmup_steps", 5);
  if (json.has("warmup_steps"))
    json.expect(training.warmup_steps >= 0 && training.warmup_steps <= 1'000'000, "warmup_steps", "0 to 1000000 steps");
  effective["start_interval"] = read_starts(json, training);
  read_recovery(json, scenario.count(Role::kWorker), training);
  read_smaller_cluster(json, training, effective);
  read_memory_check(json, training);
  training.step_time_variation = json.optional<double>("step_time_variation", 0);
  if (json.has("step_time_variation"))
    json.expect(training.step_time_variation >= 0 && training.step_time_variation <= 10, "step_time_variation",
                "0 to 10");
  read_share_variation(json, training, effective);
  effective["warmup_steps"] = training.warmup_steps;
  effective["step_time_variation"] = training.step_time_variation;
  if (json.has("checkpoint")) training.checkpoint = read_checkpoint(json.child("checkpoint"));
  if (json.has("control")) training.control = read_control(json.child("control"), scenario);
  if (json.has("target")) read_target(json.child("target"), scenario);
  json.reject_unknown_keys();
}

}  // namespace rehearse
