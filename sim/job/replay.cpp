#include "sim/job/replay.hpp"

#include <deque>

#include "sim/program/executor.hpp"
#include "sim/program/plain_loop.hpp"
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
  Player(const RecordedJob& job, const RecordedChange& change)
      : job_{job}, scenario_{recorded_machine(job.ranks.size())} {
    recorder_.keeps_activity = true;
    recorder_.scope.ends_with_profile = false;
    const auto team = std::make_shared<Counters>();
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
      programs_.push_back(compile_recorded(job, rank, change));
      workers_.push_back(
          &executor_.add_worker({.host = {0, Endpoint::kHost}, .gpu = {0, static_cast<int>(rank)}}, clock(), team));
    }
  }

  Replay run() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      executor_.begin_step(*workers_[rank], programs_[rank].program, {}, 0);
    loop_.run();
    if (ended_ < programs_.size()) throw NoResultError{refused_meeting()};
    Replay replay;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) replay.ranks.push_back(host_dates(rank));
    for (const KernelSpan& kernel : recorder_.kernels) {
      Span& span = replay.ranks[at(kernel.gpu)].operations[at(kernel.vertex)];
      span = kernel.span;
      span.start += programs_[at(kernel.gpu)].gap;
    }
    for (const ReplayedRank& rank : replay.ranks)
      for (const Span& span : rank.operations) replay.end = std::max(replay.end, span.end);
    return replay;
  }

  double begin_kernels(RunningWorker&, Seconds) override { return 1; }
  void know_end(RunningWorker&, Seconds) override { ++ended_; }
  void update() override {}

 private:
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
      dates.operations[i] = {start, start + compiled.program.operations[at(operation)].time};
      if (run.operations[i].step >= 0) dates.steps[at(run.operations[i].step)] = dates.operations[i].end;
      if (static_cast<std::int32_t>(i) == run.end_of_steps) dates.steps.back() = dates.operations[i].end;
    }
    return dates;
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
  std::vector<RecordedProgram> programs_;
  std::vector<RunningWorker*> workers_;
  std::size_t ended_ = 0;
};

}  // namespace

Replay replay(const RecordedJob& job, const RecordedChange& change) { return Player{job, change}.run(); }

}  // namespace rehearse
