#include "sim/job/replay.hpp"

#include <optional>
#include <variant>

#include "sim/program/executor.hpp"
#include "sim/resources/plain_loop.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

namespace {

/// One machine with a GPU for each rank. Its links carry nothing: collectives last as recorded.
Scenario recorded_machine(std::size_t ranks) {
  Scenario scenario;
  scenario.groups.push_back({.name = "recorded"});
  Group& group = scenario.groups.back();
  group.instance.vcpus = 1;
  group.instance.accelerators = static_cast<int>(ranks);
  group.instance.nic = group.interconnect.pcie = BytesPerSecond{1e9};
  return scenario;
}

class Player final : public Executor::Client {
 public:
  /// `is_recorded`: on the machine of the recording, where collectives last as they did.
  Player(const Scenario& scenario, const RecordedJob& job, const RecordedChange& change, bool is_recorded)
      : job_{job}, scenario_{scenario} {
    recorder_.keeps_activity = true;
    recorder_.scope.ends_with_profile = false;
    const auto team = std::make_shared<Counters>();
    const std::size_t workers = site_.workers.size();
    if (!is_recorded) simulated_ = simulated_collectives(job);
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
      programs_.push_back(compile_recorded(job, rank, change, simulated_));
      const Endpoint gpu = site_.workers[rank].front();
      workers_.push_back(&executor_.add_worker({.host = {gpu.machine, Endpoint::kHost},
                                                .gpu = gpu,
                                                .workers = static_cast<std::int64_t>(workers / job.ranks.size())},
                                               clock(), team));
    }
    std::vector<Endpoint> gpus;
    for (const std::vector<Endpoint>& worker : site_.workers) gpus.push_back(worker.front());
    collectives_.emplace(executor_, clock(), static_cast<std::int64_t>(workers), CollectiveGroup::Rule{},
                         std::make_unique<Communicator>(
                             cluster_, clock(), std::move(gpus),
                             scenario_.has_links_with_memory() ? CollectiveEvents::kMessages : CollectiveEvents::kAll));
  }

  Replay run() {
    const std::vector<CollectiveGroup*> groups{&*collectives_};
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      executor_.begin_step(*workers_[rank], programs_[rank].program, groups, 0);
    loop_.run();
    if (ended_ < programs_.size()) throw NoResultError{refused_meeting()};
    Replay replay;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) replay.ranks.push_back(host_dates(rank));
    for (const KernelSpan& kernel : recorder_.kernels) {
      const std::size_t rank = rank_of({kernel.machine, kernel.gpu});
      Span& span = replay.ranks[rank].operations[at(kernel.vertex)];
      span = {kernel.span.start + programs_[rank].gap, kernel.span.end};
    }
    begin_simulated(replay);
    for (const ReplayedRank& rank : replay.ranks)
      for (const Span& span : rank.operations) replay.end = std::max(replay.end, span.end);
    return replay;
  }

  double begin_kernels(RunningWorker&, Seconds) override { return 1; }
  void know_end(RunningWorker&, Seconds) override { ++ended_; }
  void update() override {}

 private:
  std::size_t rank_of(Endpoint gpu) const {
    std::size_t rank = 0;
    while (site_.workers[rank].front() != gpu) ++rank;
    return rank;
  }

  OwnedClock clock() { return OwnedClock{loop_.clock(), 0}; }

  ReplayedRank host_dates(std::size_t rank) const {
    const RecordedRun& run = job_.ranks[rank];
    const RecordedProgram& compiled = programs_[rank];
    ReplayedRank dates{.operations = std::vector<Span>(run.operations.size()),
                       .steps = std::vector<Seconds>(run.steps.empty() ? 0 : run.steps.size() + 1)};
    for (std::size_t i = 0; i < run.operations.size(); ++i) {
      if (run.operations[i].kind != RecordedOperation::Kind::kHost) continue;
      const OperationIndex operation = compiled.operations[i];
      const Seconds start = workers_[rank]->ready_at(operation);
      dates.operations[i] = {start, start + std::get<Delay>(compiled.program.operation(operation)).time};
      if (run.operations[i].step >= 0) dates.steps[at(run.operations[i].step)] = dates.operations[i].end;
      if (static_cast<std::int32_t>(i) == run.end_of_steps) dates.steps.back() = dates.operations[i].end;
    }
    return dates;
  }

  /// The kernels of simulated collectives begin when the last rank could.
  void begin_simulated(Replay& replay) const {
    std::vector<Seconds> begins(job_.meetings.size());
    const auto for_all = [&](const auto& visit) {
      for (std::size_t r = 0; r < simulated_.size(); ++r)
        for (std::size_t k = 0; k < simulated_[r].size(); ++k)
          if (simulated_[r][k]) visit(r, k, job_.ranks[r].collectives[k].operation);
    };
    for_all([&](std::size_t r, std::size_t k, std::int32_t operation) {
      if (job_.meetings.empty()) return;
      Seconds& begin = begins[at(job_.meeting_of[r][k])];
      begin = std::max(begin, ready_date(job_.ranks[r], replay.ranks[r], operation));
    });
    for_all([&](std::size_t r, std::size_t k, std::int32_t operation) {
      Span& span = replay.ranks[r].operations[at(operation)];
      const Seconds begin = job_.meetings.empty() ? ready_date(job_.ranks[r], replay.ranks[r], operation)
                                                  : begins[at(job_.meeting_of[r][k])];
      span.start = std::min(begin, span.end);
    });
  }

  /// Ranks that come to their collectives in different orders wait for one another for ever.
  std::string refused_meeting() const {
    return job_.ranks.front().file_name + ": the ranks wait for each other: their collectives come in different orders";
  }

  const RecordedJob& job_;
  Scenario scenario_;
  Site site_{scenario_};
  Recorder recorder_;
  PlainLoop loop_{site_.topology};
  Cluster cluster_{site_, loop_.clock(), loop_.network(), recorder_};
  Executor executor_{cluster_, clock(), *this};
  SimulatedCollectives simulated_;  // empty on the machine of the recording
  std::vector<RecordedProgram> programs_;
  std::vector<RunningWorker*> workers_;
  std::optional<CollectiveGroup> collectives_;
  std::size_t ended_ = 0;
};

}  // namespace

Seconds ready_date(const RecordedRun& run, const ReplayedRank& replayed, std::int32_t operation) {
  Seconds ready{};
  for (const Dependency& dependency : run.waits_of(operation))
    ready = std::max(ready, replayed.operations[at(dependency.earlier)].end + seconds(run.lag(dependency)));
  return ready;
}

Replay replay(const RecordedJob& job, const RecordedChange& change) {
  return Player{recorded_machine(job.ranks.size()), job, change, true}.run();
}

Replay replay_on(const Scenario& scenario, const RecordedJob& job, const RecordedChange& change) {
  const auto refuse = [&](const std::string& what) -> void { throw InputError{scenario.file_name + ": " + what}; };
  if (scenario.training.strategy.kind->collectives() == nullptr)
    refuse(
        "/training/strategy/kind: a recorded job is replayed on machines whose strategy is all_reduce; found another, "
        "for which rehearse import makes a model of the trace");
  const auto workers = static_cast<std::size_t>(scenario.count(Role::kWorker));
  if (workers != job.ranks.size() && job.ranks.size() > 1)
    refuse("/cluster/groups: has " + std::to_string(workers) + " workers; there are traces of " +
           std::to_string(job.ranks.size()) + " ranks, and only one trace may stand for others");
  return Player{scenario, job, change, false}.run();
}

}  // namespace rehearse
