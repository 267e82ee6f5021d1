#include "sim/queue/queue_file.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "platforms/board_power.hpp"
#include "platforms/node_power.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/queue/job_trace.hpp"
#include "sim/queue/max_min_allocation.hpp"
#include "sim/queue/policy.hpp"

namespace rehearse {

namespace {

constexpr std::array kPlacings{Named{"packed", Placing::kPacked}, Named{"most_free", Placing::kMostFree}};

std::int64_t integer_between(const JsonReader& json, const char* key, std::int64_t least, std::int64_t most) {
  const auto value = json.required<std::int64_t>(key);
  json.expect(value >= least && value <= most, key, std::to_string(least) + " to " + std::to_string(most));
  return value;
}

QueueTime time_up_to_longest(const JsonReader& json, const char* key, QueueTime fallback) {
  const auto time = json.maybe<Seconds>(key);
  if (!time) return fallback;
  json.expect(*time <= kLongest, key, "at most 1e9 s");
  return to_queue_time(*time);
}

/// Of machines whose GPUs' power is known.
std::optional<MachinePower> machine_power(const JsonReader& json, const std::string& name, const Catalog& catalog) {
  const Instance instance = read_instance(name, json);
  const Accelerator* const gpu = catalog.known_accelerator(instance.accelerator);
  if (gpu == nullptr || !has_board_power(*gpu)) return {};
  Interconnect interconnect{.pcie = gpu->host_link};
  if (json.has("interconnect")) {
    const JsonReader stated = json.child("interconnect");
    interconnect = read_interconnect(
        stated.is_string() ? catalog.interconnect(stated.as<std::string>(), stated) : stated, gpu->host_link);
  }
  const double gpu_rest = BoardPower{*gpu, {}, gpu->power_w, gpu->power_w}.rest_w();
  const auto watts = [&](double gpus_w, double busy) { return node_power(instance, interconnect, gpus_w, busy); };
  return MachinePower{.rest = watts(instance.accelerators * gpu_rest, 0),
                      .gpu_rest = gpu_rest,
                      .by_gpu_w = watts(1, 0) - watts(0, 0),
                      .busy_gpu = watts(0, NodePowerValues{}.busy_threads_of_gpu) - watts(0, 0)};
}

QueueGroup read_group(const JsonReader& json, const Catalog& catalog) {
  QueueGroup group{.name = json.required<std::string>("name"), .gpu = {}, .instance = {}};
  json.expect(!group.name.empty(), "name", "a name");
  constexpr int kMostMachines = 100'000, kMostGpusOfMachine = 100'000;
  group.machines = static_cast<int>(integer_between(json, "machines", 1, kMostMachines));
  if (json.has("instance")) {
    group.instance = json.required<std::string>("instance");
    const JsonReader instance = catalog.instance(group.instance, json.child("instance"));
    group.gpus_per_machine = instance.optional<int>("accelerators", 0);
    json.expect(group.gpus_per_machine >= 1, "instance", "an instance with GPUs");
    group.gpu = instance.required<std::string>("accelerator");
    group.nics = instance.optional<int>("nics", 1);
    group.power = machine_power(instance, group.instance, catalog);
  } else if (!json.has("gpus_per_machine") || !json.has("gpu")) {
    json.fail("expected an instance of the catalogs, or gpu and gpus_per_machine");
  }
  if (json.has("gpus_per_machine"))
    group.gpus_per_machine = static_cast<int>(integer_between(
        json, "gpus_per_machine", 1, group.instance.empty() ? kMostGpusOfMachine : group.gpus_per_machine));
  group.gpu = json.optional<std::string>("gpu", group.gpu);
  json.reject_unknown_keys();
  return group;
}

void read_groups(const JsonReader& json, const Catalog& catalog, QueueSetup& setup) {
  const JsonReader cluster = json.child("cluster");
  const auto entries = cluster.children("groups");
  cluster.expect(!entries.empty() && entries.size() <= static_cast<std::size_t>(kMostGroups), "groups",
                 "1 to " + std::to_string(kMostGroups) + " groups");
  for (const JsonReader& entry : entries) {
    QueueGroup group = read_group(entry, catalog);
    entry.expect(std::ranges::find(setup.groups, group.name, &QueueGroup::name) == setup.groups.end(), "name",
                 "a name that no other group has");
    setup.groups.push_back(std::move(group));
    cluster.expect(setup.gpus() <= kMostQueueGpus, "groups", "at most 1000000 GPUs");
  }
  if (cluster.has("electricity")) setup.electricity = read_electricity(cluster.child("electricity"));
  cluster.reject_unknown_keys();
}

/// Jobs on their way into a setup.
class Jobs {
 public:
  Jobs(QueueSetup& setup, const std::optional<SpeedTable>& speeds) : setup_{setup}, speeds_{speeds} {}

  void add(QueuedJob job, JobKind kind) {
    const auto [found, is_new] = kinds_.try_emplace(
        {kind.type, kind.scenario, kind.gpus, kind.gpu_power_w, kind.max_gpus, kind.noise_in_batches},
        setup_.kinds.size());
    if (is_new) setup_.kinds.push_back(std::move(kind));
    job.kind = found->second;
    setup_.jobs.push_back(std::move(job));
  }

  /// Steps of a job of a type, of its own or the table's; what is wrong goes to `fail`.
  std::int64_t steps_of(const std::string& type, std::optional<std::int64_t> own,
                        const std::function<void(const std::string& message)>& fail) const {
    if (!speeds_) fail("expected \"speeds\", the file with the speed of type " + in_quotes(type));
    if (!speeds_->has_type(type)) fail(unknown_name_message("type", type, speeds_->types()) + " in " + setup_.speeds);
    const auto steps = own ? own : speeds_->steps(type);
    if (!steps) fail("expected steps of type " + in_quotes(type) + ", here or in a column of " + setup_.speeds);
    return *steps;
  }

  int most_gpus_of(const std::string& type) const { return speeds_ ? speeds_->most_gpus(type) : 0; }

  std::int64_t samples_of(const std::string& type, int gpus) const {
    return speeds_ ? speeds_->samples_per_step(type, gpus) : 0;
  }

 private:
  QueueSetup& setup_;
  const std::optional<SpeedTable>& speeds_;
  std::map<std::tuple<std::string, std::string, int, std::optional<double>, int, double>, std::size_t> kinds_;
};

/// Samples of a global step of a scenario's workers; 0 if they differ.
std::int64_t samples_of_scenario(const std::string& file, int gpus) {
  const Json scenario = load_json_file(file);
  const Json* const batch = json_pointer_find(scenario, "/workload/batch_per_worker");
  return batch && batch->is_number_integer() ? batch->get<std::int64_t>() * gpus : 0;
}

/// max_gpus and noise_scale of a job whose other keys are read.
void read_elastic(const JsonReader& json, const QueuedJob& job, JobKind& kind) {
  const bool has_scenario = !kind.scenario.empty();
  if (json.has("max_gpus")) {
    json.expect(has_scenario || !kind.type.empty(), "max_gpus",
                "none of a job of stated duration, which is that on its GPUs");
    kind.max_gpus = static_cast<int>(integer_between(json, "max_gpus", kind.gpus, kMostQueueGpus));
    if (has_scenario && !json.has("noise_scale"))
      json.fail("expected noise_scale of a job with a scenario and max_gpus: what a sample of a larger batch is worth");
  }
  if (!json.has("noise_scale")) return;
  json.expect(has_scenario && kind.max_gpus > 0, "noise_scale", "it together with scenario and max_gpus");
  const auto noise_scale = json.required<double>("noise_scale");
  json.expect(noise_scale >= 1 && noise_scale <= 1e15, "noise_scale", "1 to 1e15 samples");
  json.expect(job.samples_per_step > 0, "noise_scale", "it with a scenario that states batch_per_worker");
  kind.noise_in_batches = noise_scale / static_cast<double>(job.samples_per_step);
}

void read_job(const JsonReader& json, Jobs& jobs) {
  QueuedJob job{.name = json.required<std::string>("name")};
  json.expect(!job.name.empty(), "name", "a name");
  JobKind kind;
  kind.gpus = static_cast<int>(integer_between(json, "gpus", 1, kMostQueueGpus));
  job.arrival = time_up_to_longest(json, "arrival", 0);
  job.weight = json.optional<double>("weight", 1);
  json.expect(job.weight >= 1e-6 && job.weight <= 1e6, "weight", "a number from 1e-6 to 1e6");
  const int count = json.has("count") ? static_cast<int>(integer_between(json, "count", 1, 1'000'000)) : 1;
  const QueueTime every = time_up_to_longest(json, "every", 0);
  const bool has_duration = json.has("duration"), has_type = json.has("type"), has_scenario = json.has("scenario");
  if (has_duration + has_type + has_scenario != 1)
    json.fail("expected one of duration, type and scenario, by which its speed is known");
  if (has_duration) {
    const auto duration = json.required<Seconds>("duration");
    json.expect(duration >= 1.0_us && duration <= kLongest, "duration", "1us to 1e9 s");
    job.steps = to_queue_time(duration);
  } else {
    std::optional<std::int64_t> steps;
    if (json.has("steps")) steps = integer_between(json, "steps", 1, kMostQueueSteps);
    if (has_type) {
      kind.type = json.required<std::string>("type");
      job.steps = jobs.steps_of(kind.type, steps, [&](const std::string& message) { json.fail("type", message); });
      job.samples_per_step = jobs.samples_of(kind.type, kind.gpus);
    } else {
      kind.scenario = json.resolve(json.required<std::string>("scenario")).string();
      if (!steps) json.fail("expected steps of the job, as its scenario is run for its speed alone");
      job.steps = *steps;
      job.samples_per_step = samples_of_scenario(kind.scenario, kind.gpus);
    }
  }
  read_elastic(json, job, kind);
  if (json.has("gpu_power")) {
    json.expect(!has_scenario, "gpu_power", "none of a job with a scenario, whose simulation says it");
    kind.gpu_power_w = read_watts(json, "gpu_power");
    json.expect(*kind.gpu_power_w <= 10'000, "gpu_power", "at most 10000W");
  }
  json.reject_unknown_keys();
  for (int i = 0; i < count; ++i) {
    QueuedJob one = job;
    if (count > 1) one.name += "-" + std::to_string(i + 1);
    one.arrival += every * i;
    json.expect(one.arrival <= to_queue_time(kLongest), "every", "arrivals within 1e9 s");
    jobs.add(std::move(one), kind);
  }
}

void read_trace(const JsonReader& json, QueueSetup& setup, Jobs& jobs) {
  const auto form = json.required<std::string>("form");
  const std::vector<std::string> forms = job_trace_forms();
  if (std::ranges::find(forms, form) == forms.end()) json.fail("form", unknown_name_message("form", form, forms));
  JobTrace trace = load_job_trace(form, json.resolve(json.required<std::string>("file")));
  if (json.has("jobs")) {
    const auto most = static_cast<std::size_t>(integer_between(json, "jobs", 1, kMostQueuedJobs));
    if (trace.jobs.size() > most) trace.jobs.resize(most);
  }
  const auto load = json.optional<double>("load", 1);
  json.expect(load >= 1e-3 && load <= 1e3, "load", "a factor from 0.001 to 1000");
  json.reject_unknown_keys();
  if (trace.left_out > 0)
    setup.warnings.push_back(std::to_string(trace.left_out) + " rows of " + json.required<std::string>("file") +
                             " are left out: they have not run on GPUs");
  for (TracedJob& traced : trace.jobs) {
    QueuedJob job{
        .name = std::move(traced.name), .arrival = to_queue_time(traced.arrival / load), .weight = traced.weight};
    JobKind kind{.type = std::move(traced.type), .scenario = {}, .gpus = traced.gpus};
    if (traced.is_elastic) kind.max_gpus = jobs.most_gpus_of(kind.type);
    if (traced.duration) {
      job.steps = std::max<QueueTime>(1, to_queue_time(*traced.duration));
    } else {
      job.steps = jobs.steps_of(kind.type, traced.steps,
                                [&](const std::string& message) { throw InputError{traced.place + ": " + message}; });
      job.samples_per_step = jobs.samples_of(kind.type, kind.gpus);
    }
    jobs.add(std::move(job), std::move(kind));
  }
}

void read_policies(const JsonReader& json, QueueSetup& setup) {
  const JsonReader policies = json.child("policy");
  setup.policies =
      policies.is_string() ? std::vector{policies.as<std::string>()} : policies.as<std::vector<std::string>>();
  policies.expect(!setup.policies.empty(), "a policy, or a list of them");
  const std::vector<std::string> known = policy_names();
  for (const std::string& name : setup.policies) {
    if (std::ranges::find(known, name) == known.end()) policies.fail(unknown_name_message("policy", name, known));
    policies.expect(std::ranges::count(setup.policies, name) == 1, "each policy once");
    if (setup.round == 0 && round_of(name, {}) > 0)
      json.fail("round", "expected a round above 0s for policy " + in_quotes(name) + ", which decides in rounds");
    if (resizes_jobs(name) && setup.groups.size() > 1)
      policies.fail("expected one group of machines for " + in_quotes(name) + "; found " +
                    std::to_string(setup.groups.size()));
  }
}

/// Keys that none of the policies reads.
void warn_about_idle_keys(const JsonReader& json, QueueSetup& setup) {
  const bool share = std::ranges::any_of(setup.policies, shares_time);
  const bool is_elastic = std::ranges::any_of(setup.kinds, [](const JobKind& kind) { return kind.max_gpus > 0; });
  if (const auto resizing = std::ranges::find_if(setup.policies, resizes_jobs);
      is_elastic != (resizing != setup.policies.end()))
    setup.warnings.push_back(is_elastic ? "elastic jobs have the GPUs that they state under " + joined(setup.policies) +
                                              ": " + in_quotes("pollux") + " resizes them"
                                        : "no job is elastic (\"max_gpus\"): " + in_quotes(*resizing) +
                                              " can but start and stop them");
  std::vector<std::string> idle;
  if (!share && std::ranges::any_of(setup.jobs, [](const QueuedJob& job) { return job.weight != 1; }))
    idle.emplace_back("weight");
  if (!share && json.has("reallocation")) idle.emplace_back("reallocation");
  if (json.has("service_threshold") && std::ranges::count(setup.policies, "tiresias") == 0)
    idle.emplace_back("service_threshold");
  if (!idle.empty())
    setup.warnings.push_back(
        list_in_quotes(idle) + " changes nothing under " + joined(setup.policies) +
        ": \"weight\" and \"reallocation\" are of policies that share time, \"service_threshold\" of tiresias");
}

/// Whether a group may run jobs of the kind: it has the GPUs, and what their speed is known by.
bool may_run(const QueueGroup& group, const JobKind& kind, const std::optional<SpeedTable>& speeds) {
  if (kind.gpus > group.gpus()) return false;
  if (!kind.scenario.empty()) return !group.instance.empty();
  if (kind.type.empty()) return true;
  const int machines = (kind.gpus + group.gpus_per_machine - 1) / group.gpus_per_machine;
  return speeds->speed(kind.type, group.gpu, kind.gpus, machines).value_or(0) > 0;
}

void refuse_what_cannot_run(const JsonReader& json, const QueueInput& input) {
  const QueueSetup& setup = input.setup;
  for (const QueuedJob& job : setup.jobs) {
    const JobKind& kind = setup.kinds[job.kind];
    if (std::ranges::any_of(setup.groups, [&](const QueueGroup& group) { return may_run(group, kind, input.speeds); }))
      continue;
    const auto largest = std::ranges::max_element(setup.groups, {}, &QueueGroup::gpus);
    const std::string which = "job " + in_quotes(job.name), gpus = std::to_string(kind.gpus) + " GPUs";
    if (kind.gpus > largest->gpus())
      json.fail(which + " asks for " + gpus + " of one group; the largest group, " + in_quotes(largest->name) +
                ", has " + std::to_string(largest->gpus()));
    if (!kind.scenario.empty())
      json.fail(which + ": expected a group of " + gpus + " with an instance, on which its scenario is simulated");
    json.fail(which + ": " + setup.speeds + " has no speed above 0 of type " + in_quotes(kind.type) + " on " + gpus +
              " of a group's");
  }
}

}  // namespace

QueueInput read_queue(const Json& file, const std::string& file_name, const Catalog& catalog,
                      const JsonOrigins* origins) {
  const JsonReader json{file, file_name, "", origins};
  json.begin_file(queue_schema);
  QueueInput input;
  QueueSetup& setup = input.setup;
  setup.file = file_name;
  setup.name = json.optional<std::string>("name", "");
  read_groups(json, catalog, setup);
  if (json.has("speeds")) {
    setup.speeds = json.resolve(json.required<std::string>("speeds")).string();
    input.speeds = load_speed_table(setup.speeds);
  }
  Jobs jobs{setup, input.speeds};
  if (json.has("jobs"))
    for (const JsonReader& entry : json.children("jobs")) {
      read_job(entry, jobs);
      json.expect(setup.jobs.size() <= static_cast<std::size_t>(kMostQueuedJobs), "jobs", "at most 10000000 jobs");
    }
  if (json.has("trace")) read_trace(json.child("trace"), setup, jobs);
  if (setup.jobs.empty()) json.fail("expected jobs, or a trace of them");
  std::ranges::stable_sort(setup.jobs, {}, &QueuedJob::arrival);
  refuse_what_cannot_run(json, input);
  if (json.has("round")) setup.round = time_up_to_longest(json, "round", 0);
  json.expect(!setup.round || *setup.round == 0 || *setup.round >= kQueueSecond, "round", "0s, or 1s and more");
  read_policies(json, setup);
  setup.restart = time_up_to_longest(json, "restart", setup.restart);
  setup.reallocation = time_up_to_longest(json, "reallocation", setup.reallocation);
  setup.service_threshold = time_up_to_longest(json, "service_threshold", setup.service_threshold);
  warn_about_idle_keys(json, setup);
  const auto placing = json.optional<std::string>("placing", kPlacings.front().name);
  const auto* const found = std::ranges::find_if(kPlacings, [&](const auto& entry) { return entry.name == placing; });
  if (found == kPlacings.end()) json.fail("placing", unknown_name_message("placing", placing, names_in(kPlacings)));
  setup.placing = found->value;
  if (json.has("interference")) {
    setup.interference = json.required<double>("interference");
    json.expect(*setup.interference >= 0 && *setup.interference < 1, "interference", "a share from 0 to below 1");
  }
  setup.seed = json.optional<std::uint64_t>("seed", 1);
  setup.last_measured = setup.jobs.size();
  if (json.has("measure")) {
    const JsonReader measure = json.child("measure");
    const auto all = static_cast<std::int64_t>(setup.jobs.size());
    setup.first_measured = static_cast<std::size_t>(integer_between(measure, "after", 0, all - 1));
    setup.last_measured =
        setup.first_measured + static_cast<std::size_t>(integer_between(
                                   measure, "jobs", 1, all - static_cast<std::int64_t>(setup.first_measured)));
    measure.reject_unknown_keys();
  }
  json.reject_unknown_keys();
  return input;
}

// NOLINTNEXTLINE(readability-function-size): a text
std::string queue_schema() {
  std::string policies, texts;
  for (const std::string& name : policy_names()) policies += (policies.empty() ? "\"" : ", \"") + name + "\"";
  for (const std::string& name : policy_names()) texts += (texts.empty() ? "" : "; ") + name + ": " + policy_text(name);
  std::string forms, form_texts;
  for (const std::string& name : job_trace_forms()) forms += (forms.empty() ? "\"" : ", \"") + name + "\"";
  for (const std::string& name : job_trace_forms())
    form_texts += (form_texts.empty() ? "" : "; ") + name + ": " + job_trace_form_text(name);
  return file_schema({.title = "Rehearse queue",
                      .description = "several jobs on one cluster, and who runs when",
                      .required = {"cluster", "policy"}},
                     R"json({
    "name": { "type": "string" },
    "cluster": {
      "type": "object", "required": ["groups"], "additionalProperties": false,
      "properties": {
        "groups": {
          "type": "array", "minItems": 1, "maxItems": 16,
          "description": "a job has GPUs of one group",
          "items": {
            "type": "object", "required": ["name", "machines"], "additionalProperties": false,
            "properties": {
              "name": { "type": "string", "minLength": 1 },
              "machines": { "type": "integer", "minimum": 1, "maximum": 100000 },
              "instance": { "type": "string", "description": "a name (rehearse list instances), from which gpu and gpus_per_machine follow; jobs whose scenario is simulated need one" },
              "gpu": { "type": "string", "description": "as speeds calls it" },
              "gpus_per_machine": { "type": "integer", "minimum": 1, "maximum": 100000 }
            }
          }
        },
        "electricity": )json" +
                         electricity_schema() + R"json(
      }
    },
    "jobs": {
      "type": "array",
      "description": "besides those of trace",
      "items": {
        "type": "object", "required": ["name", "gpus"], "additionalProperties": false,
        "properties": {
          "name": { "type": "string", "minLength": 1 },
          "arrival": { "$ref": "#/$defs/time", "description": "default 0s" },
          "gpus": { "type": "integer", "minimum": 1, "maximum": 1000000, "description": "all at once, of one group" },
          "duration": { "$ref": "#/$defs/time", "description": "on any GPUs; or" },
          "type": { "type": "string", "description": "a type of speeds; or" },
          "scenario": { "type": "string", "description": "a scenario, relative to this file, whose workers are put on the job's GPUs and simulated for the speed" },
          "max_gpus": { "type": "integer", "minimum": 1, "maximum": 1000000, "description": "the job is elastic: policy pollux gives it 1 to so many GPUs, of which speeds has rows; steps of a type are the same training on any number of them" },
          "noise_scale": { "type": "number", "minimum": 1, "maximum": 1e15, "description": "samples: with scenario and max_gpus; each GPU keeps its batch, and a sample of batch B is worth 1 / (noise_scale + B)" },
          "gpu_power": { "type": "string", "pattern": "^[0-9.]+(e[0-9]+)?W$", "examples": ["250W"], "description": "of each of its GPUs while it trains, of duration or type: for the energy of the queue" },
          "steps": { "type": "integer", "minimum": 1, "maximum": 1000000000000000, "description": "of type or scenario" },
          "weight": { "type": "number", "minimum": 1e-6, "maximum": 1e6, "description": "default 1: of its share, in policies that share" },
          "count": { "type": "integer", "minimum": 1, "maximum": 1000000, "description": "default 1: so many like this" },
          "every": { "$ref": "#/$defs/time", "description": "default 0s: between their arrivals" }
        }
      }
    },
    "trace": {
      "type": "object", "required": ["form", "file"], "additionalProperties": false,
      "properties": {
        "form": { "enum": [)json" +
                         forms + R"json(], "description": ")json" + form_texts + R"json(" },
        "file": { "type": "string", "description": "relative to this file; may be packed by gzip" },
        "jobs": { "type": "integer", "minimum": 1, "maximum": 10000000, "description": "the first so many alone" },
        "load": { "type": "number", "minimum": 0.001, "maximum": 1000, "description": "default 1: times between arrivals are divided by it" }
      }
    },
    "speeds": { "type": "string", "description": "CSV with type, gpu, gpus, steps_per_s, and if there machines, steps, samples_per_step; relative to this file" },
    "policy": {
      "description": ")json" +
                         texts + R"json(",
      "anyOf": [ { "enum": [)json" +
                         policies + R"json(] },
                 { "type": "array", "minItems": 1, "items": { "enum": [)json" +
                         policies + R"json(] } } ]
    },
    "round": { "$ref": "#/$defs/time", "description": "who runs is decided at multiples of it; 0s: whenever a job comes or ends; default: 360s of policies that share time, 60s of pollux, 0s of others" },
    "restart": { "$ref": "#/$defs/time", "description": "default 0s: in which a job that starts or moves does not train" },
    "reallocation": { "$ref": "#/$defs/time", "description": "default 1920s: least time between two shares of a policy that shares time" },
    "service_threshold": { "$ref": "#/$defs/time", "description": "default 57600s: GPU time after which tiresias puts a job into its second queue" },
    "placing": { "enum": ["packed", "most_free"], "description": "default packed: on as few machines as can be, the fullest that has room first; most_free: on the machine with most free GPUs first" },
    "interference": { "type": "number", "minimum": 0, "exclusiveMaximum": 1, "description": "share of its speed that a job on several machines loses while it shares NICs with another such job; default: by what both send, where they are simulated, otherwise 0" },
    "measure": {
      "type": "object", "required": ["after", "jobs"], "additionalProperties": false,
      "description": "jobs of which means are taken; default: all",
      "properties": {
        "after": { "type": "integer", "minimum": 0, "description": "so many arrivals" },
        "jobs": { "type": "integer", "minimum": 1 }
      }
    },
    "seed": { "type": "integer", "minimum": 0, "description": "default 1" }
  })json");
}

}  // namespace rehearse
