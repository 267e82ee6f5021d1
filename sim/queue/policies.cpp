#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/random.hpp"
#include "sim/queue/goodput_policy.hpp"
#include "sim/queue/max_min_allocation.hpp"
#include "sim/queue/policy.hpp"

namespace rehearse {

namespace {

const QueuedJob& job_of(const QueueView& view, const ActiveJob& active) { return view.setup.jobs[active.job]; }
const std::vector<double>& speeds_of(const QueueView& view, const ActiveJob& active) {
  return view.speeds[job_of(view, active).kind];
}
int gpus_of(const QueueView& view, const ActiveJob& active) { return view.setup.kinds[job_of(view, active).kind].gpus; }

/// Free GPUs of each group, from which jobs take theirs.
class FreeGpus {
 public:
  explicit FreeGpus(const QueueView& view) : view_{view} {
    for (const QueueGroup& group : view.setup.groups) free_.push_back(group.gpus());
  }
  bool has_room(const ActiveJob& active, std::size_t group) const {
    return speeds_of(view_, active)[group] > 0 && gpus_of(view_, active) <= free_[group];
  }
  void take(const ActiveJob& active, std::size_t group) { free_[group] -= gpus_of(view_, active); }
  /// The group that has room and where the job is fastest; where it runs, of equally fast ones.
  std::optional<std::size_t> fastest(const ActiveJob& active) const {
    std::optional<std::size_t> best;
    for (std::size_t g = 0; g < free_.size(); ++g) {
      if (!has_room(active, g)) continue;
      const double speed = speeds_of(view_, active)[g];
      if (!best || speed > speeds_of(view_, active)[*best] ||
          (speed == speeds_of(view_, active)[*best] && active.is_running && g == active.group))
        best = g;
    }
    return best;
  }

 private:
  const QueueView& view_;
  std::vector<int> free_;
};

/// Who runs goes on; then who came first, each on the fastest GPUs that are free, until one does not fit.
class FirstInFirstOut : public QueuePolicy {
 public:
  std::vector<Choice> choose(const QueueView& view) override {
    FreeGpus free{view};
    std::vector<Choice> choices;
    for (std::size_t i = 0; i < view.active.size(); ++i)
      if (view.active[i].is_running) {
        free.take(view.active[i], view.active[i].group);
        choices.push_back({i, view.active[i].group});
      }
    for (std::size_t i = 0; i < view.active.size(); ++i) {
      if (view.active[i].is_running) continue;
      const auto group = free.fastest(view.active[i]);
      if (!group) break;
      free.take(view.active[i], *group);
      choices.push_back({i, *group});
    }
    return choices;
  }
};

/// Takes jobs in an order, each on the fastest GPUs that are left; who does not fit is passed over.
std::vector<Choice> in_order(const QueueView& view, const std::vector<std::size_t>& order) {
  FreeGpus free{view};
  std::vector<Choice> choices;
  for (const std::size_t i : order)
    if (const auto group = free.fastest(view.active[i])) {
      free.take(view.active[i], *group);
      choices.push_back({i, *group});
    }
  return choices;
}

/// The least time left on its fastest GPUs first; of equal ones who came first.
class ShortestRemainingTime : public QueuePolicy {
 public:
  std::vector<Choice> choose(const QueueView& view) override {
    std::vector<double> left;
    for (const ActiveJob& active : view.active)
      left.push_back(static_cast<double>(active.steps_left) / *std::ranges::max_element(speeds_of(view, active)));
    std::vector<std::size_t> order(view.active.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return left[i]; });
    return in_order(view, order);
  }
};

/// Discretized two-dimensional least attained service: who has had less than a GPU time comes before the others; in
/// both queues who entered first.
/// Source: Gu et al., Tiresias, NSDI 2019, with two queues, as Pollux's authors simulate it.
class Tiresias : public QueuePolicy {
 public:
  std::vector<Choice> choose(const QueueView& view) override {
    std::map<std::size_t, std::size_t> index;
    for (std::size_t i = 0; i < view.active.size(); ++i) index[view.active[i].job] = i;
    std::erase_if(demoted_, [&](std::size_t job) { return !index.contains(job); });
    for (const ActiveJob& active : view.active)
      if (active.gpu_time >= view.setup.service_threshold && std::ranges::find(demoted_, active.job) == demoted_.end())
        demoted_.push_back(active.job);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < view.active.size(); ++i)
      if (std::ranges::find(demoted_, view.active[i].job) == demoted_.end()) order.push_back(i);
    for (const std::size_t job : demoted_) order.push_back(index[job]);
    return in_order(view, order);
  }

 private:
  std::vector<std::size_t> demoted_;  // jobs, by when they were
};

/// A policy that gives each job shares of the time of each type of GPU. In each round a type takes the jobs that have
/// had the least of their shares: by x / f, f the part of the type's time since the shares were made that was theirs.
/// Shares are made again when jobs have come or ended, but no sooner than the reallocation time.
/// Source: Narayanan et al., OSDI 2020, section 5, and their released simulator for what the paper leaves open.
class SharingPolicy : public QueuePolicy {
 public:
  explicit SharingPolicy(bool knows_speeds, std::uint64_t seed)
      : knows_speeds_{knows_speeds}, types_{seed, "queue: order of types"} {}

  std::vector<Choice> choose(const QueueView& view) override {
    const std::size_t groups = view.setup.groups.size();
    observe(view);
    needs_shares_ |= view.has_changed;
    if (needs_shares_ && !view.active.empty() &&
        (!last_shares_ || view.now - *last_shares_ >= view.setup.reallocation)) {
      shares_.clear();
      const auto shares = allocate(view);
      for (std::size_t i = 0; i < view.active.size(); ++i) shares_[view.active[i].job] = shares[i];
      base_.clear();
      for (const ActiveJob& active : view.active) base_[active.job] = active.time_on_group;
      last_shares_ = view.now;
      needs_shares_ = false;
    }
    // Every job counts as having had half a round of each type, which lets the first round follow the shares.
    const double head_start = static_cast<double>(round_of("", view.setup)) / 2;
    std::vector<std::size_t> order(groups);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!knows_speeds_)
      for (std::size_t k = groups; k > 1; --k) std::swap(order[k - 1], order[types_.below(k)]);
    FreeGpus free{view};
    std::vector<bool> is_taken(view.active.size());
    std::vector<Choice> choices;
    for (const std::size_t group : order) {
      std::vector<double> had;
      double all = 0;
      for (const ActiveJob& active : view.active) {
        const auto base = base_.find(active.job);
        had.push_back(head_start + static_cast<double>(active.time_on_group[group] -
                                                       (base == base_.end() ? 0 : base->second[group])));
        all += had.back();
      }
      std::vector<std::pair<double, double>> priority;
      for (std::size_t i = 0; i < view.active.size(); ++i) {
        const auto found = shares_.find(view.active[i].job);
        const double share = found == shares_.end() ? 0 : found->second[group];
        priority.emplace_back(share / (had[i] / all), share);
      }
      std::vector<std::size_t> jobs(view.active.size());
      std::iota(jobs.begin(), jobs.end(), std::size_t{0});
      std::ranges::stable_sort(jobs, [&](std::size_t a, std::size_t b) { return priority[a] > priority[b]; });
      for (const std::size_t i : jobs) {
        if (is_taken[i] || !free.has_room(view.active[i], group)) continue;
        is_taken[i] = true;
        free.take(view.active[i], group);
        choices.push_back({i, group});
      }
    }
    std::ranges::stable_sort(choices, std::greater{}, [&](const Choice& choice) {
      return gpus_of(view, view.active[choice.active]);  // large ones find whole machines
    });
    return choices;
  }

 protected:
  /// [active][groups]
  virtual std::vector<std::vector<double>> allocate(const QueueView& view) = 0;
  /// Called before each decision.
  virtual void observe(const QueueView& /*view*/) {}

  /// What a share of each group is worth to a job: its speed there, or to a policy that does not know it the highest
  /// one for all.
  std::vector<double> worth(const QueueView& view, const ActiveJob& active) const {
    std::vector<double> worth = speeds_of(view, active);
    if (!knows_speeds_)
      for (const double highest = *std::ranges::max_element(worth); double& value : worth)
        if (value > 0) value = highest;
    return worth;
  }
  std::vector<std::vector<double>> solve(const QueueView& view, const std::vector<std::vector<double>>& rates) const {
    std::vector<double> gpus, capacity;
    for (const ActiveJob& active : view.active) gpus.push_back(gpus_of(view, active));
    for (const QueueGroup& group : view.setup.groups) capacity.push_back(group.gpus());
    return max_min_allocation(rates, gpus, capacity);
  }
  /// The rates are what jobs are worth on each group, after `weigh(active, row)` has changed the row of each.
  template <class Weigh>
  std::vector<std::vector<double>> solve_weighed(const QueueView& view, const Weigh& weigh) const {
    std::vector<std::vector<double>> rates;
    for (const ActiveJob& active : view.active) weigh(active, rates.emplace_back(worth(view, active)));
    return solve(view, rates);
  }

 private:
  bool knows_speeds_;
  Rng types_;
  bool needs_shares_ = false;
  std::optional<QueueTime> last_shares_;
  std::map<std::size_t, std::vector<double>> shares_;
  std::map<std::size_t, std::vector<QueueTime>> base_;  // time_on_group when the shares were made
};

/// Max-min fairness of GPU time: maximize the least of gpus_i / weight_i * sum_j v_ij x_ij, v the speed over that on an
/// equal share of each type.
class LeastAttainedService : public SharingPolicy {
 public:
  using SharingPolicy::SharingPolicy;

 private:
  std::vector<std::vector<double>> allocate(const QueueView& view) override {
    return solve_weighed(view, [&](const ActiveJob& active, std::vector<double>& row) {
      double equal = 0;
      for (std::size_t g = 0; g < row.size(); ++g)
        equal += row[g] * view.setup.groups[g].gpus() / static_cast<double>(view.setup.gpus());
      for (double& value : row) value *= gpus_of(view, active) / (equal * job_of(view, active).weight);
    });
  }
};

/// Minimizes the time until all are done: maximize the least of sum_j v_ij x_ij / steps left.
class Makespan : public SharingPolicy {
 public:
  using SharingPolicy::SharingPolicy;

 private:
  std::vector<std::vector<double>> allocate(const QueueView& view) override {
    return solve_weighed(view, [](const ActiveJob& active, std::vector<double>& row) {
      for (double& value : row) value /= static_cast<double>(active.steps_left);
    });
  }
};

/// Finish-time fairness: minimize the largest of rho_i, the time that job i takes in all over the time that it would take
/// on a share of 1 / n of each type, n the jobs there are. For a given rho job i needs the speed
/// steps left / (rho alone_i - elapsed_i), which is a max-min allocation; rho is found by bisection.
/// Source: Mahajan et al., Themis, NSDI 2020; Narayanan et al., OSDI 2020, section 4.2.
class FinishTimeFairness : public SharingPolicy {
 public:
  using SharingPolicy::SharingPolicy;

 private:
  /// Adds up what the steps since the last decision would have taken alone.
  void observe(const QueueView& view) override {
    for (const ActiveJob& active : view.active) {
      auto [state, is_new] = alone_.try_emplace(active.job, Alone{.time_s = 0, .steps_left = active.steps_left});
      const double speed = equal_speed(view, active);
      state->second.time_s += static_cast<double>(state->second.steps_left - active.steps_left) / speed;
      state->second.steps_left = active.steps_left;
    }
  }

  double equal_speed(const QueueView& view, const ActiveJob& active) const {
    const std::vector<double> row = worth(view, active);
    const double gpus = gpus_of(view, active), jobs = static_cast<double>(view.active.size());
    double share = 0, speed = 0;
    for (std::size_t g = 0; g < row.size(); ++g) {
      const double part = view.setup.groups[g].gpus() / jobs / gpus;
      share += part;
      speed += part * row[g];
    }
    return speed / std::max(1.0, share);
  }

  std::vector<std::vector<double>> allocate(const QueueView& view) override {
    std::vector<double> alone, elapsed;
    double low = 0, high = 0;
    for (const ActiveJob& active : view.active) {
      elapsed.push_back(to_seconds(view.now - job_of(view, active).arrival).value());
      alone.push_back(alone_[active.job].time_s + static_cast<double>(active.steps_left) / equal_speed(view, active));
      const std::vector<double> row = worth(view, active);
      const double fastest = static_cast<double>(active.steps_left) / *std::ranges::max_element(row);
      low = std::max(low, (elapsed.back() + fastest) / alone.back());
      high =
          std::max(high, (elapsed.back() + 2 * alone.back() * static_cast<double>(view.active.size())) / alone.back());
    }
    high = std::max(high, 2 * low);
    std::vector<std::vector<double>> shares;
    constexpr int kHalvings = 24;
    for (int k = 0; k < kHalvings && high > low * 1.001; ++k) {
      const double rho = k == 0 ? low : std::sqrt(low * high);
      std::vector<std::vector<double>> rates;
      for (std::size_t i = 0; i < view.active.size(); ++i) {
        std::vector<double> row = worth(view, view.active[i]);
        const double left = std::max(1e-9 * alone[i], rho * alone[i] - elapsed[i]);
        for (double& value : row) value *= left / static_cast<double>(view.active[i].steps_left);
        rates.push_back(std::move(row));
      }
      std::vector<std::vector<double>> found = solve(view, rates);
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < found.size(); ++i)
        least = std::min(least, std::inner_product(rates[i].begin(), rates[i].end(), found[i].begin(), 0.0));
      constexpr double kTolerance = 1e-5;
      const bool is_enough = least >= 1 - kTolerance;
      if (is_enough || shares.empty()) shares = std::move(found);
      (is_enough ? high : low) = rho;
      if (is_enough && k == 0) break;  // nobody could be sooner
    }
    return shares;
  }

  struct Alone {
    double time_s = 0;
    std::int64_t steps_left = 0;
  };
  std::map<std::size_t, Alone> alone_;
};

template <class Policy>
std::unique_ptr<QueuePolicy> make(const QueueSetup& /*setup*/) {
  return std::make_unique<Policy>();
}
template <class Policy, bool knows_speeds>
std::unique_ptr<QueuePolicy> make_sharing(const QueueSetup& setup) {
  return std::make_unique<Policy>(knows_speeds, setup.seed);
}

struct PolicyEntry {
  const char *name, *text;
  std::unique_ptr<QueuePolicy> (*make)(const QueueSetup& setup);
  enum { kNeither, kSharesTime, kResizesJobs } kind;
};

constexpr std::array kPolicies{
    PolicyEntry{"fifo", "first in first out, without preemption; who does not fit blocks those behind it",
                make<FirstInFirstOut>, PolicyEntry::kNeither},
    PolicyEntry{"srtf", "shortest remaining time first, with preemption", make<ShortestRemainingTime>,
                PolicyEntry::kNeither},
    PolicyEntry{"tiresias", "least attained GPU time first, in two queues (Gu et al., NSDI 2019)", make<Tiresias>,
                PolicyEntry::kNeither},
    PolicyEntry{"las", "max-min fairness of GPU time that knows no speeds, in rounds (Gavel's baseline)",
                make_sharing<LeastAttainedService, false>, PolicyEntry::kSharesTime},
    PolicyEntry{"gavel_las",
                "max-min fairness of speeds over an equal share's, in rounds (Narayanan et al., OSDI 2020)",
                make_sharing<LeastAttainedService, true>, PolicyEntry::kSharesTime},
    PolicyEntry{"ftf", "finish-time fairness that knows one speed for all GPUs (Mahajan et al., NSDI 2020)",
                make_sharing<FinishTimeFairness, false>, PolicyEntry::kSharesTime},
    PolicyEntry{"gavel_ftf", "finish-time fairness that knows the speed on each GPU",
                make_sharing<FinishTimeFairness, true>, PolicyEntry::kSharesTime},
    PolicyEntry{"gavel_makespan", "least time until all are done", make_sharing<Makespan, true>,
                PolicyEntry::kSharesTime},
    PolicyEntry{
        "pollux",
        "resizes elastic jobs for the largest mean of what each gains over a fair share (Qiao et al., OSDI 2021)",
        make_goodput_policy, PolicyEntry::kResizesJobs},
};

const PolicyEntry& entry_of(const std::string& name) {
  return *std::ranges::find_if(kPolicies, [&](const PolicyEntry& entry) { return entry.name == name; });
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

std::string policy_text(const std::string& name) { return entry_of(name).text; }

std::unique_ptr<QueuePolicy> make_policy(const std::string& name, const QueueSetup& setup) {
  return entry_of(name).make(setup);
}

bool shares_time(const std::string& policy) { return entry_of(policy).kind == PolicyEntry::kSharesTime; }
bool resizes_jobs(const std::string& policy) { return entry_of(policy).kind == PolicyEntry::kResizesJobs; }

QueueTime round_of(const std::string& name, const QueueSetup& setup) {
  constexpr QueueTime kGavelRound = 360 * kQueueSecond, kPolluxRound = 60 * kQueueSecond;
  if (setup.round) return *setup.round;
  if (name.empty() || shares_time(name)) return kGavelRound;
  return resizes_jobs(name) ? kPolluxRound : 0;
}

}  // namespace rehearse
