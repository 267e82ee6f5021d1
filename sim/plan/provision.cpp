#include "sim/plan/provision.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One worker of each offer in a cluster of a certain size.
struct WorkerRate {
  double updates_per_s = 0, samples_per_s = 0;
};

Seconds step_of(const ProvisionProblem& problem, const MachineOffer& offer, int workers, SpeedModel model) {
  if (model == SpeedModel::kIdeal) return offer.worker.step_alone;
  return predict_step(offer.worker, problem.workload, problem.server, workers, SpotdnnVariant::kPaper);
}

/// j(loss) - j so far, for a cluster with this A. It does not fall as A grows.
double remaining_updates(const ProvisionProblem& problem, double numerator) {
  const Objective& objective = problem.objective;
  const double all = updates_to_loss(problem.convergence, numerator, objective.loss);
  const double done = objective.loss_so_far ? updates_to_loss(problem.convergence, numerator, *objective.loss_so_far)
                                            : objective.updates_so_far;
  return std::max(0.0, all - done);
}

/// A few, so that rounding does not throw out a cluster of equal workers at the end of the range.
constexpr double kRounding = 1e-9;

bool is_batch_in_range(const Convergence& model, double weighted_batch) {
  return weighted_batch >= model.weighted_batch.first * (1 - kRounding) &&
         weighted_batch <= model.weighted_batch.second * (1 + kRounding);
}

bool is_size_in_range(const Convergence& model, int workers) {
  return workers >= model.workers.first && workers <= model.workers.second;
}

int all_workers(const ProvisionProblem& problem) {
  int workers = 0;
  for (const MachineOffer& offer : problem.offers) workers += offer.quota * offer.workers;
  return workers;
}

std::vector<int> existing_counts(const ProvisionProblem& problem) {
  std::vector<int> counts;
  for (const MachineOffer& offer : problem.offers) counts.push_back(offer.existing);
  return counts;
}

int workers_of(const ProvisionProblem& problem, const std::vector<int>& counts) {
  int workers = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) workers += counts[i] * problem.offers[i].workers;
  return workers;
}

bool is_wanted(const ProvisionProblem& problem, const MachinePlan& plan) {
  return plan.is_in_range || (!problem.objective.keeps_range && std::isfinite(plan.updates));
}

bool is_in_time(const ProvisionProblem& problem, const MachinePlan& plan) {
  return plan.time <= problem.objective.deadline;
}

/// Decimal: the value that the shortest text with so many digits after the point stands for, halves of the exact value
/// to even.
double rounded(double value, int digits) {
  std::array<char, 400> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  double result = 0;
  std::from_chars(text.data(), end.ptr, result);
  return result;
}

/// Offers by their step alone; equal ones as they are listed.
std::vector<std::size_t> sorted_by_step(const ProvisionProblem& problem, bool is_longest_first) {
  std::vector<std::size_t> order(problem.offers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Seconds step_a = problem.offers[a].worker.step_alone, step_b = problem.offers[b].worker.step_alone;
    return is_longest_first ? step_a > step_b : step_a < step_b;
  });
  return order;
}

}  // namespace

std::string plan_text(const ProvisionProblem& problem, const std::vector<int>& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) text += (text.empty() ? "" : ";") + std::to_string(counts[i]) + "*" + problem.offers[i].name;
  return text;
}

MachinePlan evaluate_plan(const ProvisionProblem& problem, const std::vector<int>& counts, SpeedModel model) {
  MachinePlan plan{.counts = counts, .workers = workers_of(problem, counts)};
  double squares = 0, fastest = 0;
  bool is_joining = false, has_existing = false;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const MachineOffer& offer = problem.offers[i];
    const double step = step_of(problem, offer, plan.workers, model).value();
    const double samples = offer.worker.batch / step, workers = counts[i] * offer.workers;
    plan.usd_per_hour += counts[i] * offer.usd_per_hour;
    plan.updates_per_s += workers / step;
    plan.samples_per_s += workers * samples;
    squares += workers * samples * samples;
    fastest = std::max(fastest, samples);
    is_joining |= counts[i] > offer.existing;
    has_existing |= offer.existing > 0;
  }
  plan.weighted_batch = plan.samples_per_s / plan.updates_per_s;
  const double largest = fastest / plan.samples_per_s;
  plan.spread = std::sqrt(std::max(
      0.0, squares / (plan.samples_per_s * plan.samples_per_s) - largest * largest + (1 - largest) * (1 - largest)));
  plan.is_in_range = is_batch_in_range(problem.convergence, plan.weighted_batch) &&
                     is_size_in_range(problem.convergence, plan.workers);
  const auto numerator = loss_numerator(
      problem.convergence, {.workers = plan.workers, .weighted_batch = plan.weighted_batch, .spread = plan.spread});
  plan.updates = numerator ? remaining_updates(problem, *numerator) : kInfinity;
  plan.is_in_range = plan.is_in_range && numerator.has_value();
  plan.time = Seconds{plan.updates / plan.updates_per_s};
  if (is_joining && has_existing) plan.time += problem.objective.takeover;
  plan.cost_usd = (plan.usd_per_hour + problem.objective.fixed_usd_per_hour) * plan.time.value() / 3600;
  return plan;
}

int least_workers(const ProvisionProblem& problem) {
  double least_batch = kInfinity, fastest = 0;
  for (const MachineOffer& offer : problem.offers) {
    least_batch = std::min(least_batch, offer.worker.batch);
    fastest = std::max(fastest, offer.worker.batch / offer.worker.step_alone.value());
  }
  const auto numerator =
      loss_numerator(problem.convergence, {.workers = 1, .weighted_batch = least_batch, .spread = 0});
  if (!numerator) return 1;
  const double n =
      std::ceil(least_batch * remaining_updates(problem, *numerator) / (fastest * problem.objective.deadline.value()));
  return n >= 1 ? static_cast<int>(std::min(n, 1e6)) : 1;  // not a number: no deadline for a loss never reached
}

int most_workers(const ProvisionProblem& problem) {
  const int all = all_workers(problem);
  const Contention& contention = problem.workload.contention;
  if (!(contention.slope > 0)) return all;
  const double root = std::max(0.0, (1 - contention.intercept) / contention.slope);
  return static_cast<int>(std::min(std::floor(root * root), static_cast<double>(all)));
}

PlannerResult spotdnn_plan(const ProvisionProblem& problem, SpeedModel model,
                           const std::function<void(const MachinePlan&)>& on_each) {
  std::vector<std::size_t> machines;  // offers, one for each machine that may be rented
  for (const std::size_t offer : sorted_by_step(problem, true))
    machines.insert(machines.end(),
                    static_cast<std::size_t>(problem.offers[offer].quota - problem.offers[offer].existing), offer);
  const std::vector<int> existing = existing_counts(problem);
  const int least = least_workers(problem), most = most_workers(problem);
  PlannerResult result;
  const auto consider = [&](const std::vector<int>& counts, int workers) {
    if (workers < least || workers > most) return;
    const MachinePlan plan = evaluate_plan(problem, counts, model);
    ++result.considered;
    if (on_each) on_each(plan);
    if (!is_wanted(problem, plan)) return void(++result.out_of_range);
    if (is_in_time(problem, plan) && (!result.plan || plan.cost_usd < result.plan->cost_usd)) result.plan = plan;
  };
  if (const int workers = workers_of(problem, existing); workers > 0) consider(existing, workers);
  for (std::size_t n = 1; n <= machines.size(); ++n) {
    std::vector<int> counts = existing;
    for (std::size_t i = 0; i < n; ++i) ++counts[machines[i]];
    int workers = workers_of(problem, counts);
    for (std::size_t first = 0;; ++first) {
      if (first == 0 || machines[first - 1] != machines[first + n - 1]) consider(counts, workers);
      if (first + n == machines.size()) break;
      --counts[machines[first]];
      ++counts[machines[first + n]];
      workers += problem.offers[machines[first + n]].workers - problem.offers[machines[first]].workers;
    }
  }
  return result;
}

MachinePlan evaluate_released_plan(const ProvisionProblem& problem, const std::vector<int>& counts) {
  MachinePlan plan{.counts = counts, .workers = workers_of(problem, counts)};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const MachineOffer& offer = problem.offers[i];
    const double step =
        predict_step(offer.worker, problem.workload, problem.server, plan.workers, SpotdnnVariant::kReleased).value();
    plan.usd_per_hour += counts[i] * offer.usd_per_hour;
    plan.updates_per_s += counts[i] * offer.workers / step;
    plan.samples_per_s += counts[i] * offer.workers * offer.worker.batch / step;
  }
  plan.weighted_batch = rounded(plan.samples_per_s / plan.updates_per_s, 1);
  plan.is_in_range = is_batch_in_range(problem.convergence, plan.weighted_batch) &&
                     is_size_in_range(problem.convergence, plan.workers);
  Convergence without_spread = problem.convergence;
  without_spread.spread_offset.reset();
  const auto numerator =
      loss_numerator(without_spread, {.workers = plan.workers, .weighted_batch = plan.weighted_batch, .spread = 0});
  plan.is_in_range = plan.is_in_range && numerator.has_value();
  plan.updates =
      numerator ? rounded(updates_to_loss(without_spread, *numerator, problem.objective.loss), 0) : kInfinity;
  if (!numerator) {
    plan.time = Seconds{kInfinity};
    plan.cost_usd = kInfinity;
    return plan;
  }
  plan.time = Seconds{rounded(plan.updates * plan.weighted_batch / plan.samples_per_s, 2)};
  plan.cost_usd = rounded(plan.usd_per_hour * plan.time.value() / 3600, 6);
  return plan;
}

PlannerResult spotdnn_released_plan(const ProvisionProblem& problem) {
  std::vector<std::size_t> machines;
  for (const std::size_t offer : sorted_by_step(problem, false))
    machines.insert(machines.end(), static_cast<std::size_t>(problem.offers[offer].quota), offer);
  PlannerResult result;
  for (std::size_t n = 1; n < machines.size(); ++n) {
    std::vector<int> counts(problem.offers.size());
    for (std::size_t i = 0; i < n; ++i) ++counts[machines[i]];
    int workers = workers_of(problem, counts);
    for (std::size_t first = 0; first < machines.size(); ++first) {
      if (first > 0) {
        const std::size_t goes = machines[first - 1], comes = machines[(first - 1 + n) % machines.size()];
        if (goes == comes) continue;
        --counts[goes];
        ++counts[comes];
        workers += problem.offers[comes].workers - problem.offers[goes].workers;
      }
      ++result.considered;
      if (problem.objective.keeps_range && !is_size_in_range(problem.convergence, workers)) {
        ++result.out_of_range;
        continue;
      }
      const MachinePlan plan = evaluate_released_plan(problem, counts);
      if (!is_wanted(problem, plan)) {
        ++result.out_of_range;
        continue;
      }
      if (plan.time > Seconds{} && is_in_time(problem, plan) && (!result.plan || plan.cost_usd < result.plan->cost_usd))
        result.plan = plan;
    }
  }
  return result;
}

MachinePlan homogeneous_plan(const ProvisionProblem& problem, const MachinePlan& plan, bool is_fast) {
  std::optional<std::size_t> chosen;
  const auto speed = [&](std::size_t i) {
    return problem.offers[i].worker.batch / problem.offers[i].worker.step_alone.value();
  };
  for (std::size_t i = 0; i < plan.counts.size(); ++i)
    if (plan.counts[i] > 0 && (!chosen || (is_fast ? speed(i) > speed(*chosen) : speed(i) < speed(*chosen))))
      chosen = i;
  std::vector<int> counts(plan.counts.size());
  counts[*chosen] = (plan.workers + problem.offers[*chosen].workers - 1) / problem.offers[*chosen].workers;
  return evaluate_plan(problem, counts);
}

PlannerResult exhaustive_plan(const ProvisionProblem& problem) {
  double combinations = 1;
  for (const MachineOffer& offer : problem.offers) combinations *= offer.quota - offer.existing + 1;
  if (combinations > kMostEnumerated)
    throw NoResultError{"--planner exhaustive: expected at most " + to_text(kMostEnumerated) +
                        " combinations of machines; found " + to_text(combinations)};
  PlannerResult result{.plan = {}, .is_optimal = true};
  std::vector<int> counts = existing_counts(problem);
  const auto next = [&] {  // the first offer's count varies fastest
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] < problem.offers[i].quota) {
        ++counts[i];
        return true;
      }
      counts[i] = problem.offers[i].existing;
    }
    return false;
  };
  do {
    if (workers_of(problem, counts) == 0) continue;
    const MachinePlan plan = evaluate_plan(problem, counts);
    ++result.considered;
    if (!is_wanted(problem, plan)) {
      ++result.out_of_range;
      continue;
    }
    if (is_in_time(problem, plan) && (!result.plan || plan.cost_usd < result.plan->cost_usd)) result.plan = plan;
  } while (next());
  return result;
}

namespace {

/// The cheapest plans so far.
class BestPlans {
 public:
  explicit BestPlans(std::size_t most) : most_{most} {}
  void offer(double cost, const std::vector<int>& counts) {
    if (!(cost < worst())) return;
    if (!known_.insert({cost, counts}).second) return;
    if (known_.size() > most_) known_.erase(std::prev(known_.end()));
  }
  /// What a plan must cost less than to be of interest.
  double worst() const {
    if (known_.size() < most_) return kInfinity;
    return known_.rbegin()->first;
  }
  const std::set<std::pair<double, std::vector<int>>>& plans() const { return known_; }

 private:
  std::size_t most_;
  std::set<std::pair<double, std::vector<int>>> known_;
};

/// Branch and bound over the counts of one offer after the other, for one number of workers at a time: then every
/// worker's step is known. Below a node, with some counts fixed and r workers still to be chosen,
///   U <= U fixed + the r fastest,   b_w and R between what the extremes of the rest allow, so A >= A_low,
///   time >= j(A_low) / U,           cost >= j(A_low) (P + P_fixed) / U
/// and a cost below C needs a choice with  P + P_fixed - 3600 C / j(A_low) U < 0,  whose least value the r workers with
/// the least  price - 3600 C / j(A_low) updates/s  give. Of offers that differ in their price alone the dearer one is taken
/// where the cheaper ones are used up: with one of these in its place no plan gets dearer.
class BranchAndBound {
 public:
  BranchAndBound(const ProvisionProblem& problem, BestPlans& best, std::size_t most_nodes)
      : problem_{problem}, best_{best}, most_nodes_{most_nodes} {}

  /// False if the limit has ended it.
  bool run() {
    std::vector<int> sizes;
    const int existing = workers_of(problem_, existing_counts(problem_));
    for (int n = std::max(1, existing); n <= all_workers(problem_); ++n)
      if (!problem_.objective.keeps_range || is_size_in_range(problem_.convergence, n)) sizes.push_back(n);
    // The best plan is soon found near the best that is known.
    const int likely = best_.plans().empty() ? 1 : workers_of(problem_, best_.plans().begin()->second);
    std::stable_sort(sizes.begin(), sizes.end(),
                     [&](int a, int b) { return std::abs(a - likely) < std::abs(b - likely); });
    for (const int workers : sizes) {
      prepare(workers);
      visit({.rest = workers}, 0);
    }
    return nodes_ <= most_nodes_;
  }

  std::size_t nodes() const { return nodes_; }
  std::size_t out_of_range() const { return out_of_range_; }

 private:
  struct Offer {
    std::size_t index = 0;                                // in the problem
    double updates = 0, samples = 0, batch = 0, usd = 0;  // of one worker; USD per hour
    int workers = 1;                                      // on a machine
    int least = 0, most = 0;                              // machines
    std::optional<std::size_t> cheaper;  // level of the next cheaper one that differs in its price alone
  };
  struct Node {
    int rest = 0;  // workers to choose
    double updates = 0, samples = 0, squares = 0, usd = 0, fastest = 0;
  };

  void prepare(int workers) {
    workers_ = workers;
    offers_.clear();
    for (std::size_t i = 0; i < problem_.offers.size(); ++i) {
      const MachineOffer& offer = problem_.offers[i];
      const double step = step_of(problem_, offer, workers, SpeedModel::kPaper).value();
      offers_.push_back({.index = i,
                         .updates = 1 / step,
                         .samples = offer.worker.batch / step,
                         .batch = offer.worker.batch,
                         .usd = offer.usd_per_hour / offer.workers,
                         .workers = offer.workers,
                         .least = offer.existing,
                         .most = offer.quota});
    }
    std::stable_sort(offers_.begin(), offers_.end(),
                     [](const Offer& a, const Offer& b) { return a.usd * b.updates < b.usd * a.updates; });
    std::map<std::array<double, 4>, std::size_t> alike;
    for (std::size_t level = 0; level < offers_.size(); ++level) {
      Offer& offer = offers_[level];
      const std::array does{offer.updates, offer.samples, offer.batch, static_cast<double>(offer.workers)};
      if (const auto [known, is_first] = alike.try_emplace(does, level); !is_first)
        offer.cheaper = std::exchange(known->second, level);
    }
    counts_.assign(problem_.offers.size(), 0);
  }

  /// Whether one that differs in its price alone is cheaper, and not used up.
  bool has_cheaper_left(std::size_t level) const {
    for (auto cheaper = offers_[level].cheaper; cheaper; cheaper = offers_[*cheaper].cheaper) {
      const Offer& offer = offers_[*cheaper];
      if (counts_[offer.index] < offer.most) return true;
      if (offer.most > offer.least) return false;  // then those before it are used up
    }
    return false;
  }

  static Node with(Node node, const Offer& offer, int machines) {
    const double workers = machines * offer.workers;
    node.rest -= machines * offer.workers;
    node.updates += workers * offer.updates;
    node.samples += workers * offer.samples;
    node.squares += workers * offer.samples * offer.samples;
    node.usd += workers * offer.usd;
    if (machines > 0) node.fastest = std::max(node.fastest, offer.samples);
    return node;
  }

  /// Sum over the `rest` workers of offers from `level` on with the least `value`; infinite if there are not as many.
  template <class Value>
  double least_sum(const Node& node, std::size_t level, Value value) {
    if (node.rest == 0) return 0;
    order_.clear();
    for (std::size_t i = level; i < offers_.size(); ++i) order_.emplace_back(value(offers_[i]), i);
    std::sort(order_.begin(), order_.end());
    double sum = 0;
    int rest = node.rest;
    for (const auto& [each, i] : order_) {
      const int workers = std::min(rest, offers_[i].most * offers_[i].workers);
      sum += workers * each;
      rest -= workers;
      if (rest == 0) return sum;
    }
    return kInfinity;
  }

  /// Whether a plan below can be wanted, in time and cheaper than the best ones.
  bool may_hold_better(const Node& node, std::size_t level) {
    const double more = -least_sum(node, level, [](const Offer& offer) { return -offer.updates; });
    if (!std::isfinite(more)) return false;
    const double updates = node.updates + more;
    double largest = 0, smallest = kInfinity, fastest = node.fastest;
    if (node.updates > 0) {
      largest = node.samples / node.updates;
      smallest = largest;
    }
    if (node.rest > 0)
      for (std::size_t i = level; i < offers_.size(); ++i) {
        if (offers_[i].most == 0) continue;
        largest = std::max(largest, offers_[i].batch);
        smallest = std::min(smallest, offers_[i].batch);
        fastest = std::max(fastest, offers_[i].samples);
      }
    const Convergence& model = problem_.convergence;
    if (problem_.objective.keeps_range) {
      if (largest < model.weighted_batch.first * (1 - kRounding) ||
          smallest > model.weighted_batch.second * (1 + kRounding)) {
        ++out_of_range_;
        return false;
      }
      largest = std::min(largest, model.weighted_batch.second * (1 + kRounding));
      smallest = std::max(smallest, model.weighted_batch.first * (1 - kRounding));
    }
    double spread = 0;
    if (model.spread_offset && workers_ > 1) {
      // R^2 = (1 - w_1)^2 + sum of the others' squares, at least that of equal others, and w_1 <= fastest / slowest
      // sum.
      const double samples = node.samples + least_sum(node, level, [](const Offer& offer) { return offer.samples; });
      const double share = std::min(1.0, fastest / samples);
      spread = (1 - share) * std::sqrt(workers_ / (workers_ - 1.0));
    }
    const double batch = model.batch_slope < 0 ? largest : smallest;
    const auto numerator = loss_numerator(model, {.workers = workers_, .weighted_batch = batch, .spread = spread});
    const double to_do = numerator ? remaining_updates(problem_, *numerator) : 0;
    if (to_do / updates * (1 - kRounding) > problem_.objective.deadline.value()) return false;
    const double worst = best_.worst();
    if (to_do == 0 || !std::isfinite(worst)) return true;
    const double fixed = problem_.objective.fixed_usd_per_hour;
    const double price = 3600 * worst / to_do;  // of one update per second, at the cost of the best ones
    const double excess = node.usd + fixed - price * node.updates +
                          least_sum(node, level, [&](const Offer& offer) { return offer.usd - price * offer.updates; });
    return excess <= kRounding * (node.usd + fixed + price * updates);
  }

  void visit(Node node, std::size_t level) {
    for (; level < offers_.size() && (node.rest == 0 || has_cheaper_left(level)); ++level) {
      counts_[offers_[level].index] = offers_[level].least;
      node = with(node, offers_[level], offers_[level].least);
    }
    if (node.rest < 0) return;
    if (++nodes_ > most_nodes_) return;
    if (level == offers_.size()) {
      if (node.rest == 0) complete();
      return;
    }
    if (!may_hold_better(node, level)) return;
    const Offer& offer = offers_[level];
    const int most = std::min(offer.most, node.rest / offer.workers);
    if (level + 1 == offers_.size()) {
      if (node.rest % offer.workers != 0 || most * offer.workers != node.rest || most < offer.least) return;
      counts_[offer.index] = most;
      return complete();
    }
    for (int machines = most; machines >= offer.least; --machines) {
      counts_[offer.index] = machines;
      visit(with(node, offer, machines), level + 1);
    }
  }

  void complete() {
    const MachinePlan plan = evaluate_plan(problem_, counts_);
    if (!is_wanted(problem_, plan)) return void(++out_of_range_);
    if (is_in_time(problem_, plan)) best_.offer(plan.cost_usd, counts_);
  }

  const ProvisionProblem& problem_;
  BestPlans& best_;
  std::size_t most_nodes_;
  std::size_t nodes_ = 0, out_of_range_ = 0;
  int workers_ = 0;
  std::vector<Offer> offers_;  // cheapest update first
  std::vector<int> counts_;
  std::vector<std::pair<double, std::size_t>> order_;
};

/// Adds, removes and exchanges single machines as long as that lowers the cost.
void improve(const ProvisionProblem& problem, std::vector<int> counts, BestPlans& best) {
  MachinePlan plan = evaluate_plan(problem, counts);
  while (true) {
    std::optional<MachinePlan> better;
    const auto consider = [&] {
      if (workers_of(problem, counts) == 0) return;
      const MachinePlan other = evaluate_plan(problem, counts);
      if (!is_wanted(problem, other) || !is_in_time(problem, other)) return;
      best.offer(other.cost_usd, counts);
      if (other.cost_usd < (better ? better->cost_usd : plan.cost_usd)) better = other;
    };
    const auto consider_one_more = [&](std::size_t offer) {
      if (counts[offer] >= problem.offers[offer].quota) return;
      ++counts[offer];
      consider();
      --counts[offer];
    };
    for (std::size_t i = 0; i < counts.size(); ++i) {
      consider_one_more(i);
      if (counts[i] == problem.offers[i].existing) continue;
      --counts[i];
      consider();
      for (std::size_t k = 0; k < counts.size(); ++k)
        if (k != i) consider_one_more(k);
      ++counts[i];
    }
    if (!better) return;
    plan = *better;
    counts = plan.counts;
  }
}

}  // namespace

CheapestPlans cheapest_plans(const ProvisionProblem& problem, std::size_t most, std::size_t most_nodes) {
  BestPlans best{most};
  std::vector<std::vector<int>> starts;
  spotdnn_plan(problem, SpeedModel::kPaper, [&](const MachinePlan& plan) {
    if (is_wanted(problem, plan) && is_in_time(problem, plan)) best.offer(plan.cost_usd, plan.counts);
  });
  for (const auto& [cost, counts] : best.plans()) starts.push_back(counts);
  for (const std::vector<int>& counts : starts) improve(problem, counts, best);
  BranchAndBound search{problem, best, most_nodes};
  CheapestPlans result;
  result.is_optimal = search.run();
  result.nodes = search.nodes();
  result.out_of_range = search.out_of_range();
  for (const auto& [cost, counts] : best.plans()) result.plans.push_back(evaluate_plan(problem, counts));
  return result;
}

std::vector<MachinePlan> fastest_plans(const ProvisionProblem& problem, std::size_t most) {
  std::vector<MachinePlan> plans;
  ProvisionProblem at_leisure = problem;  // the deadline bounds the number of workers from below
  at_leisure.objective.deadline = Seconds{kInfinity};
  spotdnn_plan(at_leisure, SpeedModel::kPaper, [&](const MachinePlan& plan) {
    if (is_wanted(problem, plan)) plans.push_back(plan);
  });
  std::stable_sort(plans.begin(), plans.end(),
                   [](const MachinePlan& a, const MachinePlan& b) { return a.time < b.time; });
  if (plans.size() > most) plans.resize(most);
  return plans;
}

}  // namespace rehearse
