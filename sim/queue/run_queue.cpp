#include "sim/queue/run_queue.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/queue/shared_links.hpp"

namespace rehearse {

namespace {

constexpr QueueTime kNotYet = std::numeric_limits<QueueTime>::max();

/// A job on its GPUs. Its speed changes when others begin or cease to share its machines.
struct Running {
  JobSpan span;
  double speed = 0;         // steps per second, now
  QueueTime since = 0;      // when it became that, or the restart's end
  double steps_before = 0;  // done before that, in this span
  QueueTime end = 0;        // when the last step will be done
  QueueTime accounted = 0;  // until when its GPU time is counted
  double alone = 0;         // steps per second where nobody shares its NICs
  double waits = 0;         // JobSpan::waits before `since`, in microseconds
};

/// Jobs on one machine that have GPUs on others, too.
struct Spread {
  int jobs = 0, gpus = 0;
  void add(int more_jobs, int more_gpus) {
    jobs += more_jobs;
    gpus += more_gpus;
  }
};

/// Steps per second on the fewest machines of a group; 0: it has no speed, or too few GPUs.
double packed_speed(const QueueSetup& setup, JobSpeeds& speeds, std::size_t kind, std::size_t group, int gpus) {
  return gpus > setup.groups[group].gpus() ? 0 : speeds.steps_per_s(kind, packed_placement(setup, group, gpus));
}

class Clock {
 public:
  Clock(const QueueSetup& setup, const std::string& policy, JobSpeeds& speeds, const Budget& budget,
        const std::function<void(std::size_t, std::size_t)>& on_end)
      : setup_{setup},
        speeds_{speeds},
        budget_{budget},
        on_end_{on_end},
        policy_{make_policy(policy, setup)},
        round_{round_of(policy, setup)} {
    run_.policy = policy;
    run_.jobs.resize(setup.jobs.size());
    running_of_.resize(setup.jobs.size());
    run_.busy_of_group.resize(setup.groups.size());
    std::size_t machines = 0;
    for (const QueueGroup& group : setup.groups) {
      free_.emplace_back(static_cast<std::size_t>(group.machines), group.gpus_per_machine);
      first_machine_.push_back(machines);
      machines += static_cast<std::size_t>(group.machines);
      spread_.emplace_back(static_cast<std::size_t>(group.machines));
    }
    packed_ = packed_speeds(setup, speeds);
    for (std::size_t kind = 0; kind < setup.kinds.size(); ++kind)
      if (*std::ranges::max_element(packed_[kind]) <= 0) refuse(kind);
  }

  QueueRun run() {
    std::size_t next = 0;  // job to come
    bool has_changed = false;
    while (next < setup_.jobs.size() || !active_.empty()) {
      budget_.check();
      const QueueTime arrival = next < setup_.jobs.size() ? setup_.jobs[next].arrival : kNotYet;
      QueueTime event = arrival;
      for (const Running& running : running_) event = std::min(event, running.end);
      if (round_ > 0 && !active_.empty()) event = std::min(event, next_round());
      if (event == kNotYet)
        throw NoResultError{setup_.file + ": policy " + in_quotes(run_.policy) + " leaves " +
                            std::to_string(active_.size()) + " jobs waiting for ever, such as " +
                            in_quotes(setup_.jobs[active_.front().job].name)};
      advance(event);
      has_changed |= end_jobs();
      for (; next < setup_.jobs.size() && setup_.jobs[next].arrival <= now_; ++next) {
        active_.push_back({.job = next,
                           .steps_left = setup_.jobs[next].steps,
                           .gpu_time = 0,
                           .time_on_group = std::vector<QueueTime>(setup_.groups.size()),
                           .is_running = false,
                           .group = 0});
        has_changed = true;
      }
      const bool is_due = round_ > 0 ? now_ % round_ == 0 : has_changed;
      if (is_due) {
        decide(has_changed);
        has_changed = false;
      }
      note_load();
    }
    check_conservation();
    std::ranges::stable_sort(run_.spans, {}, [](const JobSpan& span) { return std::pair{span.start, span.job}; });
    return std::move(run_);
  }

 private:
  [[noreturn]] void refuse(std::size_t kind) const {
    const auto job = std::ranges::find(setup_.jobs, kind, &QueuedJob::kind);
    throw NoResultError{setup_.file + ": job " + in_quotes(job->name) + " runs on no group of the cluster"};
  }

  /// steps / speed, to the microsecond above. A run whose GPU time would not fit into 64 bits has no result.
  QueueTime time_of(double steps, double speed, std::size_t job) const {
    const double time = std::ceil(steps * static_cast<double>(kQueueSecond) / speed);
    if ((time + static_cast<double>(now_)) * setup_.gpus() < 4e18) return static_cast<QueueTime>(time);
    throw NoResultError{setup_.file + ": job " + in_quotes(setup_.jobs[job].name) + " would take " +
                        std::to_string(std::llround(steps / speed / (365.25 * 24 * 3600))) + " years"};
  }

  QueueTime next_round() const { return (now_ / round_ + 1) * round_; }

  void advance(QueueTime to) {
    const QueueTime passed = to - now_;
    for (std::size_t g = 0; g < free_.size(); ++g) run_.busy_of_group[g] += passed * busy(g);
    run_.shared_gpu_time += passed * sharing_;
    run_.unknown_gpu_time += passed * unknown_;
    now_ = to;
  }
  int busy(std::size_t group) const {
    return setup_.groups[group].gpus() - std::accumulate(free_[group].begin(), free_[group].end(), 0);
  }

  ActiveJob& active_of(std::size_t job) {
    return *std::ranges::lower_bound(active_, job, {}, &ActiveJob::job);  // jobs are numbered by arrival
  }

  double steps_done(const Running& running) const {
    if (now_ <= running.since) return running.steps_before;
    return running.steps_before +
           static_cast<double>(now_ - running.since) * running.speed / static_cast<double>(kQueueSecond);
  }

  bool end_jobs() {
    bool has_ended = false;
    for (std::size_t i = 0; i < running_.size();) {
      if (running_[i].end > now_) {
        ++i;
        continue;
      }
      const std::size_t job = running_[i].span.job;
      run_.jobs[job].end = now_;
      run_.end = std::max(run_.end, now_);
      stop(i, active_of(job).steps_left);
      active_.erase(std::ranges::lower_bound(active_, job, {}, &ActiveJob::job));
      if (on_end_) on_end_(++ended_, setup_.jobs.size());
      has_ended = true;
    }
    if (has_ended) share_links();
    return has_ended;
  }

  /// Takes the GPUs of running_[i], which has done `steps` on them.
  void stop(std::size_t i, std::int64_t steps) {
    JobSpan& span = running_[i].span;
    span.end = now_;
    span.steps = steps;
    span.restart = std::min(span.restart, span.end - span.start);
    span.waits = std::llround(running_[i].waits + waits_since(running_[i]));
    ActiveJob& active = active_of(span.job);
    account(active);
    active.steps_left -= steps;
    active.is_running = false;
    active.gpus = 0;
    run_.jobs[span.job].steps += steps;
    const bool is_spread = span.placement.parts.size() > 1;
    for (const GpuPlacement::Part& part : span.placement.parts) {
      free_[span.placement.group][static_cast<std::size_t>(part.machine)] += part.gpus;
      if (is_spread) spread_[span.placement.group][static_cast<std::size_t>(part.machine)].add(-1, -part.gpus);
    }
    has_spread_changed_ |= is_spread;
    run_.spans.push_back(std::move(span));
    if (i + 1 < running_.size()) {
      running_[i] = std::move(running_.back());
      running_of_[running_[i].span.job] = i;
    }
    running_.pop_back();
  }

  /// Brings the GPU time of a running job up to now.
  void account(ActiveJob& active) {
    const std::size_t i = running_of_[active.job];
    const QueueTime passed = now_ - running_[i].accounted;
    const QueueTime gpu_time = passed * active.gpus;
    active.gpu_time += gpu_time;
    active.time_on_group[active.group] += passed;
    run_.jobs[active.job].gpu_time += gpu_time;
    running_[i].accounted = now_;
  }

  /// A job on several machines, and on some of them others such that there are fewer NICs than GPUs of such jobs.
  bool shares_nics(const GpuPlacement& placement) const {
    const auto is_crowded = [&](const GpuPlacement::Part& part) { return is_shared(placement.group, part.machine); };
    return placement.parts.size() > 1 && std::ranges::any_of(placement.parts, is_crowded);
  }
  bool is_shared(std::size_t group, int machine) const {
    const Spread& spread = spread_[group][static_cast<std::size_t>(machine)];
    return spread.jobs > 1 && spread.gpus > setup_.groups[group].nics;
  }

  /// Who shares NICs after jobs on several machines have come or gone, and the speeds that follow.
  void share_links() {
    if (!has_spread_changed_) return;
    has_spread_changed_ = false;
    sharing_ = unknown_ = 0;
    std::vector<Running*> known;
    std::vector<LinkUser> users;
    for (Running& running : running_) {
      const JobSpan& span = running.span;
      if (!shares_nics(span.placement)) {
        set_speed(running, running.alone);
        continue;
      }
      const std::size_t kind = setup_.jobs[span.job].kind;
      sharing_ += span.placement.gpus();
      if (setup_.interference) {
        set_speed(running, running.alone * (1 - *setup_.interference));
      } else if (const auto use = speeds_.nic_use(kind, span.placement)) {
        known.push_back(&running);
        users.push_back(link_user(kind, span.placement, *use));
      } else {
        unknown_ += span.placement.gpus();
      }
    }
    const std::vector<double> slowdowns = slowdowns_on_links(users);
    for (std::size_t i = 0; i < known.size(); ++i)
      set_speed(*known[i],
                slowdowns[i] == 1 ? known[i]->alone : std::min(known[i]->alone, 1 / users[i].step_s(slowdowns[i])));
  }

  LinkUser link_user(std::size_t kind, const GpuPlacement& placement, const std::vector<double>& use) {
    LinkUser user{.uses = {}, .step_s = [this, kind, &placement](double slowdown) {
                    return speeds_.step_s(kind, placement, slowdown);
                  }};
    const double alone_s = user.step_s(1);
    for (std::size_t i = 0; i < use.size(); ++i) {
      const auto machine = static_cast<std::size_t>(placement.parts[i].machine);
      if (use[i] > 0 && is_shared(placement.group, placement.parts[i].machine))
        user.uses.push_back({.link = first_machine_[placement.group] + machine, .alone_s = use[i] * alone_s});
    }
    return user;
  }

  double alone_speed(const JobSpan& span) {
    const std::size_t kind = setup_.jobs[span.job].kind;
    const double speed = speeds_.steps_per_s(kind, span.placement);
    return speed > 0 ? speed : speed_of_size(kind, span.placement.group, span.placement.gpus());
  }
  void set_speed(Running& running, double speed) {
    if (speed == running.speed) return;
    running.steps_before = steps_done(running);
    running.waits += waits_since(running);
    running.since = std::max(now_, running.since);
    running.speed = speed;
    running.end =
        running.since + time_of(static_cast<double>(active_of(running.span.job).steps_left) - running.steps_before,
                                speed, running.span.job);
  }

  /// Part of the time since its speed was set by which the job would have been faster alone, in microseconds.
  double waits_since(const Running& running) const {
    return static_cast<double>(std::max(QueueTime{0}, now_ - running.since)) * (1 - running.speed / running.alone);
  }

  void decide(bool has_changed) {
    ++run_.decisions;
    for (ActiveJob& active : active_)
      if (active.is_running) account(active);
    std::vector<ActiveJob> seen = active_;  // with the steps that are done by now
    for (ActiveJob& active : seen)
      if (active.is_running)
        active.steps_left -= std::min(active.steps_left - 1, whole_steps(running_[running_of_[active.job]]));
    const std::vector<Choice> choices = policy_->choose(
        {setup_, now_, seen, packed_, has_changed,
         [this](std::size_t kind, std::size_t group, int gpus) { return speed_of_size(kind, group, gpus); }});
    std::vector<bool> is_chosen(active_.size());
    for (const Choice& choice : choices) is_chosen[choice.active] = true;
    for (const Choice& choice : choices)
      if (const ActiveJob& active = active_[choice.active];
          active.is_running && (active.group != choice.group || active.gpus != gpus_of(choice)))
        preempt(choice.active);
    for (std::size_t i = 0; i < active_.size(); ++i)
      if (active_[i].is_running && !is_chosen[i]) preempt(i);
    for (const Choice& choice : choices)
      if (!active_[choice.active].is_running) start(active_[choice.active], choice.group, gpus_of(choice));
    share_links();
  }

  int gpus_of(const Choice& choice) const {
    return choice.gpus > 0 ? choice.gpus : setup_.kinds[setup_.jobs[active_[choice.active].job].kind].gpus;
  }

  /// Steps per second of so many GPUs of a group that nobody else uses.
  double speed_of_size(std::size_t kind, std::size_t group, int gpus) {
    const auto [found, is_new] = speed_of_size_.try_emplace({kind, group, gpus}, 0);
    if (is_new) found->second = packed_speed(setup_, speeds_, kind, group, gpus);
    return found->second;
  }

  std::int64_t whole_steps(const Running& running) const {
    constexpr double kRounding = 1e-9;
    const double done = steps_done(running);
    return static_cast<std::int64_t>(std::floor(done * (1 + kRounding)));
  }

  void preempt(std::size_t index) {
    ActiveJob& active = active_[index];
    const std::size_t i = running_of_[active.job];
    active.preemptions = ++run_.jobs[active.job].preemptions;
    stop(i, std::min(active.steps_left - 1, whole_steps(running_[i])));
  }

  void start(ActiveJob& active, std::size_t group, int gpus) {
    Running running;
    running.span = {.job = active.job,
                    .placement = {.group = group, .parts = place_job(free_[group], gpus, setup_.placing)},
                    .start = now_,
                    .end = now_,
                    .restart = setup_.restart,
                    .steps = 0};
    running.speed = running.alone = alone_speed(running.span);
    running.since = now_ + setup_.restart;
    running.end = running.since + time_of(static_cast<double>(active.steps_left), running.speed, active.job);
    const bool is_spread = running.span.placement.parts.size() > 1;
    for (const GpuPlacement::Part& part : running.span.placement.parts) {
      free_[group][static_cast<std::size_t>(part.machine)] -= part.gpus;
      if (is_spread) spread_[group][static_cast<std::size_t>(part.machine)].add(1, part.gpus);
    }
    has_spread_changed_ |= is_spread;
    active.is_running = true;
    active.group = group;
    active.gpus = gpus;
    if (!run_.jobs[active.job].start) run_.jobs[active.job].start = now_;
    running.accounted = now_;
    running_of_[active.job] = running_.size();
    running_.push_back(std::move(running));
  }

  void note_load() {
    ClusterLoad load{.time = now_, .busy = 0, .waiting = active_.size() - running_.size()};
    for (std::size_t g = 0; g < free_.size(); ++g) load.busy += busy(g);
    if (!run_.load.empty() && run_.load.back().time == now_) run_.load.pop_back();
    if (run_.load.empty() || run_.load.back().busy != load.busy || run_.load.back().waiting != load.waiting)
      run_.load.push_back(load);
  }

  void check_conservation() const {
    QueueTime of_jobs = 0, of_spans = 0;
    for (const JobSpan& span : run_.spans) of_spans += (span.end - span.start) * span.placement.gpus();
    for (std::size_t i = 0; i < run_.jobs.size(); ++i) {
      of_jobs += run_.jobs[i].gpu_time;
      if (run_.jobs[i].steps != setup_.jobs[i].steps) throw std::logic_error{"a queue has lost steps"};
    }
    const QueueTime of_cluster = std::accumulate(run_.busy_of_group.begin(), run_.busy_of_group.end(), QueueTime{0});
    if (of_jobs != of_cluster || of_spans != of_cluster) throw std::logic_error{"a queue has lost GPU time"};
  }

  const QueueSetup& setup_;
  JobSpeeds& speeds_;
  const Budget& budget_;
  const std::function<void(std::size_t, std::size_t)>& on_end_;
  std::unique_ptr<QueuePolicy> policy_;
  QueueTime round_, now_ = 0;
  int sharing_ = 0;                  // GPUs of jobs that share NICs
  int unknown_ = 0;                  // and of those about whose exchange nothing is known
  bool has_spread_changed_ = false;  // since the last share_links()
  QueueRun run_;
  std::vector<ActiveJob> active_;
  std::vector<Running> running_;
  std::vector<std::size_t> running_of_;      // [jobs]: index into running_ of one that runs
  std::vector<std::vector<int>> free_;       // [groups][machines]
  std::vector<std::vector<Spread>> spread_;  // [groups][machines]
  std::vector<std::size_t> first_machine_;   // [groups]: number of its first machine among all
  std::vector<std::vector<double>> packed_;
  std::map<std::tuple<std::size_t, std::size_t, int>, double> speed_of_size_;  // by kind, group and GPUs
  std::size_t ended_ = 0;
};

}  // namespace

std::vector<std::vector<double>> packed_speeds(const QueueSetup& setup, JobSpeeds& speeds) {
  std::vector<std::vector<double>> packed;
  for (std::size_t kind = 0; kind < setup.kinds.size(); ++kind) {
    packed.emplace_back();
    for (std::size_t g = 0; g < setup.groups.size(); ++g)
      packed.back().push_back(packed_speed(setup, speeds, kind, g, setup.kinds[kind].gpus));
  }
  return packed;
}

GpuPlacement packed_placement(const QueueSetup& setup, std::size_t group, int gpus) {
  const QueueGroup& of = setup.groups[group];
  const std::vector<int> free(static_cast<std::size_t>(of.machines), of.gpus_per_machine);
  return {.group = group, .parts = place_job(free, gpus, Placing::kPacked)};
}

std::vector<GpuPlacement::Part> place_job(const std::vector<int>& free, int gpus, Placing placing) {
  std::vector<std::size_t> machines;  // a heap, with the emptiest first
  for (std::size_t m = 0; m < free.size(); ++m)
    if (free[m] > 0) machines.push_back(m);
  const auto is_fuller = [&](std::size_t a, std::size_t b) { return std::pair{free[a], b} < std::pair{free[b], a}; };
  std::ranges::make_heap(machines, is_fuller);
  std::vector<GpuPlacement::Part> parts;
  while (gpus > 0) {
    std::size_t best = machines.front();
    if (placing == Placing::kPacked && free[best] >= gpus) {  // the fullest that has room for the rest
      for (const std::size_t m : machines)
        if (free[m] >= gpus && std::pair{free[m], m} < std::pair{free[best], best}) best = m;
    } else {
      std::ranges::pop_heap(machines, is_fuller);
      machines.pop_back();
    }
    const int taken = std::min(gpus, free[best]);
    parts.push_back({static_cast<int>(best), taken});
    gpus -= taken;
  }
  std::ranges::sort(parts, {}, &GpuPlacement::Part::machine);
  return parts;
}

QueueRun run_queue(const QueueSetup& setup, const std::string& policy, JobSpeeds& speeds, const Budget& budget,
                   const std::function<void(std::size_t, std::size_t)>& on_end) {
  return Clock{setup, policy, speeds, budget, on_end}.run();
}

}  // namespace rehearse
