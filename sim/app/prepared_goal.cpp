#include "sim/app/prepared_goal.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/provision_request.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

bool names_machines(const GoalCommand& goal) {
  return !goal.gpus_named.empty() || !goal.instances.empty() || !goal.providers.empty() || !goal.markets.empty();
}

std::vector<std::string> overrides_of(const GoalCommand& goal, const GoalQuestion& question) {
  std::vector<std::string> overrides;
  if (!goal.precision.empty()) overrides.push_back("/workload/precision=" + goal.precision);
  if (!goal.optimizer.empty()) overrides.push_back("/workload/optimizer=" + goal.optimizer);
  if (!goal.calibration.empty()) overrides.push_back("/calibration=" + goal.calibration);
  if (goal.sequence) overrides.push_back("/workload/model/structure/sequence_length=" + std::to_string(*goal.sequence));
  overrides.insert(overrides.end(), question.overrides.begin(), question.overrides.end());
  return overrides;
}

namespace {

/// Samples of a step where neither options nor a scenario say it: four million tokens, or so many images.
constexpr double kUsualTokens = 1 << 22;
constexpr std::int64_t kUsualSamples = 1024;
/// That are simulated of each worker, with a strategy whose workers may not go through steps together.
constexpr int kStepsOfWorkers = 30;

/// "1T", "15.6 T", "300B", "1e12", "122070313": k, M, B or G, and T are powers of 1000.
double read_count(const std::string& option, const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string_view unit{rest, static_cast<std::size_t>(end - rest)};
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::array kUnits{Named{"", 1.0},  Named{"k", 1e3}, Named{"M", 1e6},
                              Named{"B", 1e9}, Named{"G", 1e9}, Named{"T", 1e12}};
  const auto found = std::ranges::find(kUnits, unit, [](const auto& known) { return std::string_view{known.name}; });
  constexpr double kMost = 1e15;
  if (error != std::errc{} || found == kUnits.end() || !(number * found->value >= 1 && number * found->value <= kMost))
    throw InputError{option + ": expected a number from 1 to 1e15, such as 300B or 1.5T; found " + in_quotes(text)};
  return number * found->value;
}

/// "2000USD", "1.5M USD".
double read_budget(const std::string& text) {
  constexpr std::string_view kUnit = "USD";
  std::string amount = text;
  const bool has_unit = amount.ends_with(kUnit);
  if (has_unit) amount.resize(amount.size() - kUnit.size());
  while (amount.ends_with(' ')) amount.pop_back();
  try {
    if (has_unit) return read_count("--budget", amount);
  } catch (const InputError&) {}
  throw InputError{"--budget: expected an amount with its currency, such as 2000USD or 1.5MUSD; found " +
                   in_quotes(text)};
}

MachineFilter read_filter(const GoalCommand& goal) {
  MachineFilter filter{
      .gpus = goal.gpus_named, .instances = {}, .numbers = {}, .providers = goal.providers, .gpu_count = goal.gpus};
  for (const std::string& text : goal.instances) {
    if (text.find('=') == std::string::npos) {
      filter.instances.push_back(text);
      continue;
    }
    const auto [name, machines] = read_machine_number("--instance", text);
    if (machines == 0)
      throw InputError{"--instance: expected a name, or a name and 1 or more machines, such as p4d.24xlarge=4; found " +
                       in_quotes(text)};
    filter.instances.push_back(name);
    filter.numbers[name].push_back(machines);
  }
  if (!filter.numbers.empty() && (goal.gpus || goal.most_gpus))
    throw InputError{std::string{goal.gpus ? "--gpus" : "--max-gpus"} +
                     ": expected none beside numbers of machines in --instance"};
  if (!goal.gpus) filter.most_gpus = goal.most_gpus.value_or(kMostGpus);
  if (!goal.markets.empty()) filter.are_spot.clear();
  for (std::string market : goal.markets) {
    std::ranges::replace(market, '_', '-');
    if (market != "spot" && market != "on-demand")
      throw InputError{"--market: " +
                       unknown_name_message("market", market, std::vector<std::string>{"on-demand", "spot"})};
    filter.are_spot.push_back(market == "spot");
  }
  return filter;
}

/// A scenario before its degrees: where it came from, and what it is.
struct Basis {
  Json scenario;
  std::string file_name;
};

/// Sets what options say, below the scenario's own values.
void apply_options(Json& scenario, const GoalCommand& goal, const GoalQuestion& question, const Catalog& catalog,
                   const std::string& file_name) {
  JsonOrigins origins;
  scenario["training"]["memory_check"] = "warn";  // of a plan that nobody has chosen
  override_scenario(scenario, file_name, overrides_of(goal, question), catalog, origins);
}

/// The plainest training of the scenario, whatever memory it takes.
Scenario read_plain(Json scenario, const std::string& file_name, const Catalog& catalog) {
  clear_degrees(scenario);
  scenario["workload"]["batch_per_worker"] = 1;
  scenario["training"]["memory_check"] = "warn";
  return read_scenario(scenario, file_name, catalog, {}, {.seeks_remedies = false});
}

double samples_of(const GoalCommand& goal, const Json& scenario, const Scenario& plain) {
  const int stated = (goal.tokens.empty() ? 0 : 1) + (goal.samples.empty() ? 0 : 1) + (goal.epochs ? 1 : 0);
  if (stated != 1) throw InputError{"expected one of --tokens, --samples and --epochs, the size of the training"};
  if (!goal.samples.empty()) return std::ceil(read_count("--samples", goal.samples));
  if (goal.epochs) {
    const Json* all = json_pointer_find(scenario, "/workload/samples_per_epoch");
    if (all == nullptr)
      throw InputError{
          "--epochs: expected the size of the data set, which no scenario states: --set /workload/samples_per_epoch=N"};
    return std::ceil(*goal.epochs * all->get<double>());
  }
  const int positions = tokens_of_sample(plain);
  if (positions == 0)
    throw InputError{"--tokens: expected --samples of model " + in_quotes(plain.model.name) + ", which reads no words"};
  return std::ceil(read_count("--tokens", goal.tokens) / positions);
}

/// Nobody says it, too, of a scenario that cannot be read as it is, as of one whose degrees do not go with another --model.
OwnStep own_step(const Json& scenario, const std::string& file_name, const Catalog& catalog) {
  if (const Json* stated = json_pointer_find(scenario, "/training/strategy/global_batch")) {
    if (!stated->is_number_integer()) (void)read_scenario(scenario, file_name, catalog);  // refuses it
    return {.samples = stated->get<double>()};
  }
  try {
    const Scenario read = read_scenario(scenario, file_name, catalog, {}, {.seeks_remedies = false});
    return {.samples = samples_per_update(read),
            .is_of_each = !read.training.strategy.is_synchronous(),
            .workers = read.count(Role::kWorker)};
  } catch (const InputError&) { return {}; } catch (const NoResultError&) {
    return {};
  }
}

/// Samples of a step of all workers, of the trainings that are compared.
std::vector<std::int64_t> global_batches_of(const GoalCommand& goal, const OwnStep& own, const Scenario& plain,
                                            std::int64_t odd_gpus) {
  if (!goal.global_batches.empty()) return {goal.global_batches.begin(), goal.global_batches.end()};
  if (own.samples > 0) {
    const int workers = plain.training.strategy.is_synchronous() ? own.workers : plain.count(Role::kWorker);
    return {std::llround(own.samples * (own.is_of_each ? workers : 1))};
  }
  const int positions = tokens_of_sample(plain);
  const double usual = positions == 0 ? kUsualSamples : kUsualTokens / positions;
  const double rest = usual / static_cast<double>(odd_gpus);
  return {odd_gpus * (std::int64_t{1} << std::max(0L, std::lround(std::log2(rest))))};
}

/// The odd number by which the GPUs of all machines can be divided together: 3 of 6, 8 and 24 GPUs; 1 if that were a large one.
std::int64_t odd_part(const std::vector<MachineChoice>& choices) {
  constexpr std::int64_t kMost = 45;
  std::int64_t all = 1;
  for (const MachineChoice& machines : choices)
    if (machines.gpus > 0) {
      all = std::lcm(all, std::int64_t{machines.gpus >> std::countr_zero(static_cast<unsigned>(machines.gpus))});
      if (all > kMost) return 1;
    }
  return all;
}

Basis basis_for(const GoalCommand& goal, const GoalQuestion& question, const MachineChoice* machines,
                const Catalog& catalog) {
  if (question.file.empty()) return {scenario_of_model(goal.model, *machines, catalog), "--model " + goal.model};
  Basis basis{load_json_file(question.file), question.file.string()};
  if (!goal.model.empty()) basis.scenario["workload"]["model"] = goal.model;
  (void)only_workers(basis.scenario, basis.file_name);
  if (machines != nullptr) set_machines(basis.scenario, *machines, catalog, basis.file_name);
  return basis;
}

/// The scenario's own machines, or so many of them.
MachineChoice own_machines(const Scenario& plain, const GoalCommand& goal) {
  const Group& group = plain.first_workers();
  MachineChoice own{.instance = group.instance.name,
                    .count = group.count,
                    .is_spot = group.market == Market::kSpot,
                    .gpus = 0,
                    .gpu = group.accelerator->name,
                    .usd_per_hour = {},
                    .region = group.region};
  const int each = group.instance.accelerators;
  if (goal.gpus) {
    if (*goal.gpus % each != 0)
      throw InputError{"--gpus: expected a multiple of the " + std::to_string(each) + " GPUs of " +
                       with_article(own.instance) + "; found " + std::to_string(*goal.gpus)};
    own.count = *goal.gpus / each;
    if (own.count > kMostMachinesOfScenario)
      throw InputError{"--gpus: expected those of 20000 machines at most, " +
                       std::to_string(std::int64_t{kMostMachinesOfScenario} * each) + "; found " +
                       std::to_string(*goal.gpus)};
  }
  own.gpus = own.count * each;
  own.usd_per_hour = plain.costs.usd_per_hour(group.instance, own.is_spot, group.zone, Seconds{}, Seconds{});
  return own;
}

/// Machines for servers, in words, and what all of them cost in an hour; none: no price.
struct ServerMachines {
  std::string text;
  std::optional<double> usd_per_hour = 0;
};

ServerMachines servers_of(const Scenario& plain) {
  ServerMachines servers;
  for (const Group& group : plain.groups) {
    if (group.role != Role::kParameterServer || group.colocated_with >= 0) continue;
    servers.text += " and " + std::to_string(group.count) + " x " + group.instance.name +
                    (group.count == 1 ? " as server" : " as servers");
    const auto usd =
        plain.costs.usd_per_hour(group.instance, group.market == Market::kSpot, group.zone, Seconds{}, Seconds{});
    servers.usd_per_hour =
        usd && servers.usd_per_hour ? std::optional{*servers.usd_per_hour + *usd * group.count} : std::nullopt;
  }
  return servers;
}

/// All trainings with one strategy on the machines, with as many servers and samples of a step as are in question.
void add_candidates(PreparedGoal& prepared, const Basis& basis, const MachineChoice& machines, const GoalCommand& goal,
                    const Catalog& catalog) {
  const Scenario any = read_plain(basis.scenario, basis.file_name, catalog);
  std::vector<int> servers = server_counts(basis.scenario, any.count(Role::kWorker));
  if (servers.empty()) servers.push_back(0);  // as it is
  prepared.asked.model = any.model.name;
  prepared.asked.positions = tokens_of_sample(any);
  prepared.asked.goal.samples = samples_of(goal, basis.scenario, any);
  const std::vector<std::int64_t> batches = global_batches_of(goal, prepared.own_step, any, prepared.odd_gpus);
  prepared.global_batch = batches.front();
  const bool divides = has_degrees(basis.scenario);
  prepared.has_assumed_restarts |= divides && !goal.spot_pool.empty();
  prepared.has_other_updates |=
      batches.size() > 1 || (goal.strategies.size() > 1 && !any.training.strategy.is_synchronous());
  for (const int count : servers) {
    Json scenario = basis.scenario;
    if (count > 0) set_servers(scenario, count);
    const ServerMachines its = servers_of(count > 0 ? read_plain(scenario, basis.file_name, catalog) : any);
    prepared.has_servers |= !its.text.empty();
    Json& training = scenario["training"];
    for (const char* key : {"steps", "steps_per_worker", "samples", "epochs", "memory_check", "target"})
      training.erase(key);
    scenario["workload"].erase("samples_per_epoch");  // the goal has the samples
    if (divides) {
      training["steps"] = 2;
      training["warmup_steps"] = 0;
    } else {
      training["steps_per_worker"] = kStepsOfWorkers;
    }
    training["target"] = {{"samples", prepared.asked.goal.samples}};
    std::optional<double> usd;
    if (machines.usd_per_hour && its.usd_per_hour) usd = *machines.usd_per_hour * machines.count + *its.usd_per_hour;
    for (const std::int64_t batch : batches) {
      std::string training_text = divides ? "" : describe_strategy(any.training.strategy);
      if (batches.size() > 1)
        training_text +=
            (training_text.empty() ? "" : ", ") + std::string{"steps of "} + std::to_string(batch) + " samples";
      prepared.candidates.push_back({.machines = machines.text() + its.text,
                                     .training = std::move(training_text),
                                     .instance = machines.instance,
                                     .scenario = share(scenario),
                                     .file_name = basis.file_name,
                                     .global_batch = batch,
                                     .gpus = machines.gpus,
                                     .spot_pool = machines.is_spot ? goal.spot_pool : "",
                                     .usd_per_hour = usd});
    }
  }
}

/// The same, with each strategy that is in question.
void add_strategies(PreparedGoal& prepared, const Basis& basis, const MachineChoice& machines, const GoalCommand& goal,
                    const GoalQuestion& question, const Catalog& catalog) {
  std::vector<std::string> words = goal.strategies;
  if (words.empty()) words.emplace_back();  // the scenario's own
  for (const std::string& word : words) {
    Basis its = basis;
    if (!word.empty()) set_strategy(its.scenario, word, catalog, basis.file_name);
    choose_server(its.scenario, goal.server, catalog, basis.file_name);
    apply_options(its.scenario, goal, question, catalog, basis.file_name);
    add_candidates(prepared, its, machines, goal, catalog);
  }
}

}  // namespace

PreparedGoal prepare_goal(const GoalCommand& goal, const GoalQuestion& question, const Catalog& catalog) {
  if (question.file.empty() && goal.model.empty())
    throw InputError{"expected a scenario, or --model (rehearse list models)"};
  if (goal.gpus && goal.most_gpus) throw InputError{"--max-gpus: expected none beside --gpus"};
  PreparedGoal prepared;
  prepared.asked.goal.deadline = read_seconds("--deadline", question.deadline);
  if (prepared.asked.goal.deadline && !(*prepared.asked.goal.deadline > Seconds{}))
    throw InputError{"--deadline: expected a time above 0s; found " + to_text(*prepared.asked.goal.deadline)};
  if (!goal.budget.empty()) prepared.asked.goal.budget_usd = read_budget(goal.budget);
  prepared.asked.goal.confidence = question.confidence;
  if (!question.file.empty()) {
    Basis basis = basis_for(goal, question, nullptr, catalog);
    apply_options(basis.scenario, goal, question, catalog, basis.file_name);
    prepared.own_step = own_step(basis.scenario, basis.file_name, catalog);
  }
  const bool is_own = !question.file.empty() && !names_machines(goal) && !goal.most_gpus;
  if (is_own) {
    Basis basis = basis_for(goal, question, nullptr, catalog);
    Json with_options = basis.scenario;
    apply_options(with_options, goal, question, catalog, basis.file_name);
    const MachineChoice own = own_machines(read_plain(with_options, basis.file_name, catalog), goal);
    only_workers(basis.scenario, basis.file_name)["count"] = own.count;
    add_strategies(prepared, basis, own, goal, question, catalog);
  } else {
    const MachineFilter filter = read_filter(goal);
    prepared.has_assumed_gpus =
        !goal.gpus && !goal.most_gpus && filter.numbers.size() < std::max<std::size_t>(1, filter.instances.size());
    std::optional<InputError> first_error;
    const std::vector<MachineChoice> choices = machine_choices(catalog, filter, &prepared.asked.unmatched);
    prepared.odd_gpus = odd_part(choices);
    for (const MachineChoice& machines : choices) try {
        add_strategies(prepared, basis_for(goal, question, &machines, catalog), machines, goal, question, catalog);
      } catch (const InputError& error) {
        if (!first_error) first_error = error;
        prepared.asked.unmatched.push_back(machines.text() + ": " + error.what());
      }
    if (prepared.candidates.empty()) throw InputError{*first_error};
  }
  if (!goal.server.empty() && !prepared.has_servers)
    throw InputError{"--server: expected servers, as by --strategy synchronous_servers"};
  prepared.has_assumed_batch = goal.global_batches.empty() && prepared.own_step.samples == 0;
  if (goal.spot_pool.empty()) return prepared;
  check_spot_pool(catalog, goal.spot_pool);
  if (std::ranges::all_of(prepared.candidates, [](const GoalCandidate& one) { return one.spot_pool.empty(); }))
    throw InputError{"--spot-pool: expected machines on the spot market, as by --market spot"};
  prepared.has_assumed_restarts = prepared.has_assumed_restarts && question.file.empty();
  return prepared;
}

}  // namespace rehearse
