#include "sim/plan/degree_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/collective_time.hpp"

namespace rehearse {

namespace {

/// The only group of workers of a scenario's JSON.
Json& workers_of(Json& scenario) {
  for (Json& group : scenario["cluster"]["groups"])
    if (group.value("role", "") == "worker") return group;
  throw std::logic_error{"a scenario without workers"};
}

/// Puts what a name stands for in its place.
template <class Find>
Json& inlined(Json& place, const Find& find) {
  if (!place.is_string()) return place;
  const Json name = place;
  Json entry = Json::object();
  entry["name"] = name;
  entry.update(find(name.get<std::string>(), JsonReader{name, "search"}).value());
  return place = std::move(entry);
}

/// GPUs that hold whatever they have to: how long a pass takes does not depend on whether it fits. Returns what one really has.
Bytes give_ample_memory(Json& group, const Catalog& catalog) {
  Json& instance = inlined(group["instance"],
                           [&](const std::string& name, const JsonReader& by) { return catalog.instance(name, by); });
  Json& gpu = inlined(instance["accelerator"],
                      [&](const std::string& name, const JsonReader& by) { return catalog.accelerator(name, by); });
  const Bytes memory = JsonReader{gpu, "search"}.required<Bytes>("memory");
  gpu["memory"] = "1PiB";
  return memory;
}

/// A pass of what one worker of a plan has of the model, if there are no stages: plans that have it in common.
Degrees pass_of(Degrees degrees) {
  degrees.stages = degrees.chunks = 1;
  degrees.schedule = "none";
  degrees.merges_passes = degrees.has_stages_first = false;
  degrees.sharding = "none";
  return degrees;
}

/// What a pass takes, and how much of it the worker waits for what it exchanges.
struct PassTime {
  double time = std::numeric_limits<double>::infinity(), exposed = 0;
};

/// The pass of a scenario whose steps have one: two of them less one. {"time_s", "exposed_s"}.
const Verb kTimePass{
    "time_pass", [](Scenario scenario, const JsonReader& options) {
      options.reject_unknown_keys();
      const auto step_of = [&](int passes) {
        GradientExchange& exchange = scenario.training.strategy.exchange;
        exchange.global_batch = exchange.global_batch / exchange.accumulation_steps * passes;
        exchange.accumulation_steps = passes;
        set_steps(scenario, scenario.training.steps);
        return summarize(scenario, simulate(scenario));
      };
      const Summary one = step_of(1), two = step_of(2);
      const Seconds time = two.iteration_time - one.iteration_time,
                    exposed = two.exposed_communication - one.exposed_communication;
      return Json{{"time_s", time.value()}, {"exposed_s", std::clamp(exposed, Seconds{}, time).value()}}.dump();
    }};

double all_reduce_s_per_byte(Scenario scenario, int machines) {
  constexpr Bytes kPayload{std::int64_t{1} << 28};  // large enough for rates alone to count
  for (Group& group : scenario.groups)
    if (group.role == Role::kWorker) group.count = machines;
  return scenario.count(Role::kWorker) > 1 ? collective_time(scenario, kPayload).value() / as_double(kPayload) : 0;
}

/// Plans that need more memory than there is, and which others do for that reason.
class TooLarge {
 public:
  /// `factor`: what it needs by what there is.
  void add(const Degrees& degrees, double factor) {
    known_[but_for_batch(degrees)].push_back({degrees.microbatch, factor});
  }

  /// Empty: it may fit.
  std::string why(const Degrees& degrees) const {
    constexpr double kRounding = 1.02;  // of parts to whole bytes and tokens
    const auto known = known_.find(but_for_batch(degrees));
    if (known == known_.end()) return {};
    for (const auto& [microbatch, factor] : known->second) {
      if (degrees.microbatch >= microbatch) return "a smaller micro-batch does not fit either";
      if (factor * degrees.microbatch > kRounding * microbatch)
        return "with micro-batches of " + std::to_string(microbatch) + " samples " +
               to_text(std::floor(10 * factor) / 10) + " times the memory are needed";
    }
    return {};
  }

 private:
  static Degrees but_for_batch(Degrees degrees) {
    degrees.microbatch = 0;
    return degrees;
  }

  std::map<Degrees, std::vector<std::pair<int, double>>> known_;
};

class Search {
 public:
  Search(const Json& scenario, const std::string& file_name, std::int64_t global_batch, const Catalog& catalog,
         const DegreeOptions& options, const SearchMeans& means)
      : scenario_(scenario), file_name_{file_name}, catalog_{catalog}, options_{options}, means_{means} {
    scenario_["training"].erase("memory_check");
    result_.global_batch = global_batch;
  }

  DegreeSearch run() && {
    prepare(result_.global_batch);
    if (has_degrees_) time_passes();
    const double least = result_.plans.front().estimate_s;
    result_.is_cut = result_.has_time && std::isfinite(least) && least > options_.longest_s;
    if (result_.has_time && !result_.is_cut) go_through();
    if (!has_degrees_ && result_.is_complete)
      std::erase_if(result_.plans, [](const SearchedPlan& plan) { return plan.outcome == PlanOutcome::kNotTried; });
    sort_result();
    return std::move(result_);
  }

 private:
  Scenario read(const Json& scenario) const {
    return read_scenario(scenario, file_name_, catalog_, {}, {.seeks_remedies = false});
  }

  /// Reads the training in its plainest form, for what the space and the closed form depend on.
  void prepare(std::int64_t global_batch) {
    Json plain = scenario_;
    clear_degrees(plain);
    plain["workload"]["batch_per_worker"] = 1;
    memory_ = as_double(give_ample_memory(workers_of(plain), catalog_));
    const Scenario base = read(plain);
    context_ = run_key(to_json_text(*base.effective), means_.program).text();
    if (Json pass = plain; has_degrees(scenario_)) {
      keep_of_pass(pass, 1);
      context_of_passes_ = "pass" + run_key(to_json_text(*read(pass).effective), means_.program).text();
    }
    result_.gpus = base.count(Role::kWorker);
    has_degrees_ = has_degrees(scenario_);
    const Json& strategy = scenario_["training"]["strategy"];
    DegreeSpace space = has_degrees_ ? degree_space(base, global_batch, strategy.value("algorithm", "ring"),
                                                    strategy.value("rank_order", ""))
                                     : batch_space(base, global_batch);
    if (space.plans.empty())
      throw InputError{file_name_ + ": steps of " + std::to_string(global_batch) + " samples cannot be divided among " +
                       std::to_string(result_.gpus) +
                       " GPUs: expected a multiple of the workers that have samples of their own"};
    const double least = static_cast<double>(global_batch) / peak_samples_per_s(base);
    for (Degrees& degrees : space.plans)
      result_.plans.push_back({.degrees = std::move(degrees), .estimate_s = least, .summary = {}, .error = {}});
    if (has_degrees_) describe(base, plain);
  }

  void describe(const Scenario& base, const Json& plain) {
    const Workload& workload = base.workload;
    const Group& group = base.first_workers();
    const int slots = optimizer_slots(base.optimizer);
    EstimateInputs& model = model_;
    model.gpus = result_.gpus;
    model.island = smallest_island(base);
    model.global_batch = result_.global_batch;
    for (const Variable& variable : workload.variables)
      if (variable.is_trainable) model.parameters += static_cast<double>(variable.scalars());
    model.weight_bytes = weight_bytes(base.states);
    model.gradient_bytes = gradient_bytes(base.states);
    model.optimizer_bytes = optimizer_bytes(base.states, slots);
    model.sent_bytes = bytes_per_scalar(sent_gradients(base));
    model.update_s = update_bytes(base.states, slots) / group.accelerator->memory_bandwidth.value();
    reserved_ = as_double(group.accelerator->memory_reserved);
    model.layers = std::max(1.0, static_cast<double>(plan_gradient_units(base, 0).units.size()));
    if (const auto* net = std::get_if<Transformer>(&base.model.structure)) {
      model.layers = net->layers + net->decoder_layers;
      const double words = static_cast<double>(net->vocabulary) * net->width;
      const double experts_per_layer = 3.0 * net->experts.count * net->width * net->experts.feed_forward;
      for (int layer = 0; layer < net->layers; ++layer)
        if (net->experts.is_grouped && net->experts.are_in(layer)) model.expert_parameters += experts_per_layer;
      model.expert_parameters = std::min(model.expert_parameters, model.parameters);
      // Of a mixture a token passes some of the experts only.
      const double active =
          model.parameters -
          model.expert_parameters * (1 - static_cast<double>(net->experts.per_token) / std::max(1, net->experts.count));
      const double blocks = active - words * (net->is_tied ? 1 : 2);
      if (blocks > 0) model.ends = words / (blocks / model.layers);
      model.parameters -= model.expert_parameters;
    }
    std::set<std::string> algorithms;
    for (const SearchedPlan& plan : result_.plans) algorithms.insert(plan.degrees.algorithm);
    const int machines = group.count;
    for (const std::string& algorithm : algorithms) {
      Json other = plain;
      other["training"]["strategy"]["algorithm"] = algorithm;
      const Scenario scenario = read(other);
      model.near_s_per_byte[algorithm] = all_reduce_s_per_byte(scenario, 1);
      model.far_s_per_byte[algorithm] =
          machines > 1 ? all_reduce_s_per_byte(scenario, machines) : model.near_s_per_byte[algorithm];
    }
  }

  // Simulations

  /// What the simulation of a scenario gave.
  struct Result {
    SharedJson summary;  // null: an error
    std::string error;
    bool is_known = false;
  };

  /// Results of all, from the store as far as it has them: `context` is all that they depend on and do not state. Those that the
  /// limits have left out are not known.
  std::vector<Result> simulate_all(const std::vector<Json>& scenarios, const std::string& context, const Verb& verb,
                                   const Json& options) {
    std::vector<RunKey> keys;
    for (const Json& scenario : scenarios) keys.push_back(run_key(scenario.dump() + context, means_.program));
    const Experiment experiment{.count = scenarios.size(),
                                .job = [&](std::size_t i) { return verb.job(read(scenarios[i]), options); },
                                .key = [&](std::size_t i) { return keys[i]; },
                                .row =
                                    [&](std::size_t i) {
                                      return StoredRun{.name = scenarios[i].value("name", ""),
                                                       .parameters = scenarios[i]["training"]["strategy"].dump(),
                                                       .summary = {},
                                                       .error = {}};
                                    }};
    const auto count = [&](std::size_t, std::size_t) {
      if (means_.on_done) means_.on_done(++done_);
    };
    const bool is_complete =
        experiment.run(means_.store, {.pool = means_.pool, .on_done = count, .limits = means_.limits});
    if (!is_complete) result_.has_time = false;
    std::vector<Result> results(scenarios.size());
    for (std::size_t i = 0; i < scenarios.size(); ++i)
      if (const auto run = means_.store.find(keys[i]); run && (is_complete || !run->has_died))
        results[i] = {.summary = run->summary.empty() ? nullptr : share(parse_json(run->summary, "result store")),
                      .error = run->error,
                      .is_known = true};
    return results;
  }

  /// Leaves what the time of a pass depends on: neither how many machines there are, nor what they cost.
  static void keep_of_pass(Json& scenario, int machines) {
    Json& group = workers_of(scenario);
    group["count"] = machines;
    for (const char* key : {"market", "zone"}) group.erase(key);
    if (Json& cluster = scenario["cluster"]; cluster.contains("network"))  // whose switches are made for all machines
      for (const char* key : {"topology", "machines_per_leaf", "oversubscription", "uplinks", "machines_per_router",
                              "routers_per_group", "local_rate", "global_rate", "dimensions", "link_rate"})
        cluster["network"].erase(key);
    scenario["training"].erase("target");
    scenario["name"] = "a pass";
  }

  /// As few of the machines as the pass takes, in steps of one micro-batch.
  Json pass_scenario(const Degrees& pass) const {
    Json scenario = scenario_;
    Json& group = workers_of(scenario);
    const int on_machine = result_.gpus / group.value("count", 1);
    const int team = std::lcm(pass.tensor * pass.context, std::max(1, pass.experts) * (pass.has_sequence_parts ? 1
                                                                                       : pass.experts > 0 ? pass.tensor
                                                                                                          : 1));
    const int machines = std::lcm(team, on_machine) / on_machine;
    give_ample_memory(group, catalog_);
    const std::int64_t likes = machines * on_machine / (pass.tensor * pass.context);
    set_degrees(scenario, pass, likes * pass.microbatch);
    keep_of_pass(scenario, machines);
    scenario["name"] = "a pass: " + to_text(pass, machines * on_machine);
    return scenario;
  }

  void time_passes() {
    std::map<Degrees, PassTime> passes;
    for (const SearchedPlan& plan : result_.plans)
      if (fits_states(plan.degrees)) passes[pass_of(plan.degrees)] = {};
    std::vector<Json> scenarios;
    for (const auto& [pass, time] : passes) scenarios.push_back(pass_scenario(pass));
    const std::vector<Result> results = simulate_all(scenarios, context_of_passes_, kTimePass, Json::object());
    if (!result_.has_time) return;
    std::size_t i = 0;
    for (auto& [pass, time] : passes) {
      const Result& result = results[i++];
      if (!result.summary) {
        pass_errors_[pass] = result.error;
        continue;
      }
      const Json& found = *result.summary;
      time = {.time = found["time_s"].get<double>(), .exposed = found["exposed_s"].get<double>()};
    }
    for (SearchedPlan& plan : result_.plans) {
      const Degrees pass = pass_of(plan.degrees);
      if (const auto error = pass_errors_.find(pass); error != pass_errors_.end()) {
        plan.outcome = PlanOutcome::kWithoutResult;
        plan.error = error->second;
      } else if (const auto time = passes.find(pass); time == passes.end() || !fits_states(plan.degrees)) {
        plan.outcome = PlanOutcome::kTooLarge;
        plan.error = "its states alone";
      }
      const auto time = passes.find(pass);
      plan.estimate_s = std::numeric_limits<double>::infinity();
      if (time == passes.end()) continue;
      const double hidden = plan.degrees.merges_passes ? time->second.exposed : 0;  // at the most
      plan.estimate_s = estimate_step(model_, plan.degrees, time->second.time - hidden);
    }
    std::ranges::stable_sort(result_.plans, {}, [](const SearchedPlan& plan) {
      return std::pair{plan.estimate_s, plan.degrees};
    });
  }

  bool fits_states(const Degrees& degrees) const { return least_state_bytes(model_, degrees) + reserved_ <= memory_; }

  /// Of all workers, whether they go through steps together or not.
  double step_of(const Json& summary) const {
    return has_degrees_ ? summary["iteration_time_s"].get<double>()
                        : static_cast<double>(result_.global_batch) / summary["samples_per_s"].get<double>();
  }

  Json plan_scenario(const Degrees& degrees) const {
    Json scenario = scenario_;
    set_degrees(scenario, degrees, result_.global_batch);
    return scenario;
  }

  void go_through() {
    const std::size_t at_a_time =
        has_degrees_ ? 8 : 1;  // whatever the pool is, so that the result does not depend on it
    TooLarge too_large;
    double best = std::numeric_limits<double>::infinity(), least_ratio = options_.least_ratio;
    std::size_t simulated = 0, next = 0;
    while (next < result_.plans.size()) {
      if (!has_degrees_ && simulated > 0) break;
      result_.is_cut = !options_.is_exhaustive && result_.plans[next].estimate_s * least_ratio > options_.longest_s;
      if (result_.is_cut) break;
      if (!options_.is_exhaustive && simulated >= options_.least) {
        if (result_.plans[next].estimate_s * least_ratio > best) break;
        if (simulated >= options_.most) return finish(least_ratio, false);
      }
      std::vector<SearchedPlan*> chosen;
      std::vector<Json> scenarios;
      const std::size_t room =
          options_.is_exhaustive || simulated >= options_.most ? at_a_time : options_.most - simulated;
      for (; next < result_.plans.size() && chosen.size() < std::min(at_a_time, room); ++next) {
        SearchedPlan& plan = result_.plans[next];
        if (plan.outcome != PlanOutcome::kNotTried) continue;
        plan.error = too_large.why(plan.degrees);
        if (!plan.error.empty()) {
          plan.outcome = PlanOutcome::kTooLarge;
          continue;
        }
        chosen.push_back(&plan);
        scenarios.push_back(plan_scenario(plan.degrees));
      }
      const std::vector<Result> results = simulate_all(scenarios, context_, kSimulate, {{"has_revocations", false}});
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        SearchedPlan& plan = *chosen[i];
        if (!results[i].is_known) continue;
        plan.error = results[i].error;
        if (results[i].summary) {
          plan.summary = results[i].summary;
          plan.outcome = PlanOutcome::kSimulated;
          plan.step_s = step_of(*plan.summary);
          best = std::min(best, plan.step_s);
          least_ratio = std::min(least_ratio, plan.step_s / plan.estimate_s);
          ++simulated;
        } else if (plan.error.find(kMemoryExceeded) != std::string::npos) {
          plan.outcome = PlanOutcome::kTooLarge;
          too_large.add(plan.degrees, memory_exceeded_by(plan.error));
        } else {
          plan.outcome = PlanOutcome::kWithoutResult;
        }
      }
      if (!result_.has_time) return finish(least_ratio, false);
    }
    finish(least_ratio, true);
  }

  void finish(double least_ratio, bool is_complete) {
    result_.is_complete = is_complete;
    result_.least_ratio = least_ratio;
  }

  void sort_result() {
    std::ranges::stable_sort(result_.plans, {}, [](const SearchedPlan& plan) {
      const bool has_result = plan.outcome == PlanOutcome::kSimulated;
      return std::tuple{!has_result, has_result ? plan.step_s : plan.estimate_s, plan.degrees};
    });
    for (const SearchedPlan& plan : result_.plans) {
      std::size_t* const counts[] = {&result_.not_tried, &result_.too_large, &result_.without_result,
                                     &result_.simulated};
      ++*counts[static_cast<std::size_t>(plan.outcome)];
    }
  }

  Json scenario_;
  const std::string& file_name_;
  const Catalog& catalog_;
  DegreeOptions options_;
  const SearchMeans& means_;
  EstimateInputs model_;
  bool has_degrees_ = true;
  double memory_ = 0, reserved_ = 0;         // of a GPU
  std::string context_, context_of_passes_;  // of keys: all that the catalogs say of the scenario
  std::map<Degrees, std::string> pass_errors_;
  std::size_t done_ = 0;
  DegreeSearch result_;
};

}  // namespace

double estimate_step(const EstimateInputs& model, const Degrees& degrees, double pass) {
  const double p = degrees.stages, v = degrees.chunks, t = degrees.tensor;
  const double sharing = sharing_workers(degrees, model.gpus);
  const auto m = static_cast<double>(microbatches(degrees, model.gpus, model.global_batch));
  const double pieces = 2 * (model.layers + model.ends);
  const double stage = p > 1 ? pass * std::ceil(pieces / (p * v)) * v / pieces : pass;
  const double waits = degrees.schedule == "dualpipev" ? 2.0 / 3 : splits_backward(degrees) ? 1.0 / 3 : 1;
  const double bubble = (p - 1) / v * waits * stage;

  const double e = std::max(1, degrees.experts),
               expert_tensor = degrees.experts > 0 && !degrees.has_sequence_parts ? t : 1;
  const double held = model.parameters / (t * p) + model.expert_parameters / (e * expert_tensor * p);
  const double stride = t * (degrees.has_stages_first ? p : 1);  // between workers that have the same variables
  const bool is_near = stride * sharing <= model.island;
  const std::string& algorithm = degrees.algorithm;
  const double rate = is_near ? model.near_s_per_byte.at(algorithm)
                              : model.far_s_per_byte.at(algorithm) * std::min<double>(stride, model.island);
  const double reduced = sharing > 1 ? held * model.sent_bytes * rate : 0,
               gathered = sharing > 1 ? held * model.weight_bytes * rate / 2 : 0;
  const double layer = std::min(1.0, p / model.layers);
  const auto exposed = [&](double exchange, double hidden) { return std::max(exchange * layer, exchange - hidden); };
  const double backward = 2.0 / 3 * stage;
  double exchange = 0;
  if (degrees.sharding == "none") exchange = exposed(reduced, backward);
  if (degrees.sharding == "optimizer") exchange = exposed(reduced / 2, backward) + gathered;
  if (degrees.sharding == "gradients")
    exchange = (m - 1) * std::max(0.0, reduced / 2 - stage) + exposed(reduced / 2, backward) + gathered;
  if (degrees.sharding == "parameters")
    exchange = (m - 1) * std::max(0.0, reduced / 2 + 2 * gathered - stage) + exposed(reduced / 2 + 2 * gathered, stage);
  const double update = held * model.update_s / (degrees.sharding == "none" ? 1 : sharing);
  return m * stage + bubble + exchange + update;
}

double least_state_bytes(const EstimateInputs& model, const Degrees& degrees) {
  const double t = degrees.tensor, p = degrees.stages;
  const double e = std::max(1, degrees.experts),
               expert_tensor = degrees.experts > 0 && !degrees.has_sequence_parts ? t : 1;
  const bool has_spread = degrees.experts > 1;
  const auto of = [&](double parameters, double sharing) {
    const auto part = [&](double bytes, bool is_sharded) { return parameters * bytes / (is_sharded ? sharing : 1); };
    return part(model.optimizer_bytes, degrees.sharding != "none") +
           part(model.gradient_bytes, degrees.sharding == "gradients" || degrees.sharding == "parameters") +
           part(model.weight_bytes, degrees.sharding == "parameters");
  };
  const double dense = of(model.parameters / (t * p), model.gpus / (t * p));
  return dense + of(model.expert_parameters / ((has_spread ? e * expert_tensor : t) * p),
                    has_spread ? model.gpus / (p * e * expert_tensor) : model.gpus / (t * p));
}

const SearchedPlan* DegreeSearch::best_too_large() const {
  const SearchedPlan* best = nullptr;
  for (const SearchedPlan& plan : plans)
    if (plan.outcome == PlanOutcome::kTooLarge && std::isfinite(plan.estimate_s) &&
        plan.error.find(kMemoryExceeded) != std::string::npos &&
        (best == nullptr || plan.estimate_s < best->estimate_s))
      best = &plan;
  return best;
}

std::string why_slower(const Json& best, const Json& other) {
  struct Part {
    double more = 0;
    std::string what;
  };
  std::map<std::string, Part> parts;
  const auto add = [&](const Json& summary, double sign) {
    for (const Json& part : summary["step_parts"]) {
      Part& of = parts[part["part"].get<std::string>()];
      of.more += sign * part["time_s"].get<double>();
      std::string what = part["what"].get<std::string>();
      what = what.substr(0, what.find(" over "));  // which link it is differs from plan to plan
      of.what = what.substr(0, what.find(','));
    }
  };
  add(best, -1);
  add(other, 1);
  std::vector<Part> longer;
  for (const auto& [name, part] : parts) longer.push_back(part);
  std::ranges::stable_sort(longer, std::ranges::greater{}, &Part::more);
  std::string text;
  const double step = best["iteration_time_s"].get<double>();
  const double least = std::max(1e-4 * step, 0.1 * (other["iteration_time_s"].get<double>() - step));
  constexpr std::size_t kMost = 2;
  for (std::size_t i = 0; i < std::min(kMost, longer.size()); ++i) {
    if (longer[i].more < least) break;
    std::array<char, 40> number{};
    std::snprintf(number.data(), number.size(), "+%.3g s ", longer[i].more);
    text += (text.empty() ? "" : ", ") + std::string{number.data()} + longer[i].what;
  }
  return text;
}

DegreeSearch search_degrees(const Json& scenario, const std::string& file_name, std::int64_t global_batch,
                            const Catalog& catalog, const DegreeOptions& options, const SearchMeans& means) {
  return Search{scenario, file_name, global_batch, catalog, options, means}.run();
}

}  // namespace rehearse
