#include "sim/program/executor.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

RunningWorker& Executor::add_worker(const RunningWorker::Place& place, OwnedClock clock,
                                    std::shared_ptr<Counters> team) {
  return all_.emplace_back(*this, place, static_cast<int>(all_.size()), clock, std::move(team));
}

void Executor::expect(std::int64_t number, std::int64_t workers) {
  Round& round = round_of(number);
  if (round.number == number) return;
  round.number = number;
  round.expected = workers;
  round.updated = 0;
  round.completed = 0;
  std::fill(round.gradients.begin(), round.gradients.end(), 0);
}

void Executor::expect_fewer(std::int64_t number, std::int64_t workers) {
  Round* round = find_round(number);
  if (round == nullptr) return;
  const std::int64_t before = std::exchange(round->expected, workers);
  const auto is_enough_now = [&](std::int64_t come) { return come >= workers && come < before; };
  for (std::size_t i = 0; i < round->gradients.size(); ++i)
    if (is_enough_now(round->gradients[i])) complete(number, static_cast<int>(i), {}, clock_.now());
  if (is_enough_now(round->updated)) is_updated_ = true;
  tell_update();
}

void Executor::forget(std::int64_t number) {
  if (Round* round = find_round(number)) round->number = -1;
}

void Executor::begin_step(RunningWorker& worker, const Program& program, const std::vector<CollectiveGroup*>& groups,
                          std::int64_t number) {
  if (Round* round = find_round(number)) round->counters = program.common_counters;
  worker.begin_step(program, groups, number);
  tell_update();
}

void Executor::go_on(RunningWorker& worker, std::int64_t next) {
  if (worker.go_on(next)) return;
  if (may_begin(next))
    client_.begin_next(worker);
  else
    hold(worker);
}

void Executor::release() {
  for (RunningWorker* worker : std::exchange(held_, {})) client_.reconsider(*worker);
}

void Executor::reset(RunningWorker& worker, std::shared_ptr<Counters> team) {
  worker.reset(clock_.for_new_owner(), std::move(team));
  std::erase(held_, &worker);
}

void Executor::cut_fetches_from(const RunningWorker& from) {
  for (RunningWorker& worker : all_) worker.cut_fetch_from(from);
}

bool Executor::come_to_update(std::int64_t number) {
  Round* round = find_round(number);
  if (round != nullptr && ++round->updated == round->expected) is_updated_ = true;
  return round != nullptr;
}

bool Executor::count_gradient(std::int64_t number, int counter) {
  Round* round = find_round(number);
  if (round == nullptr) return false;
  if (round->gradients.size() <= at(counter)) round->gradients.resize(at(counter) + 1);
  return ++round->gradients[at(counter)] == round->expected;
}

void Executor::complete(std::int64_t number, int counter, const Counters::Place& by, Seconds when) {
  common_.advance(counter, by, when);
  if (Round* round = find_round(number); round != nullptr && ++round->completed == round->counters) is_updated_ = true;
}

void Executor::tell_update() {
  if (std::exchange(is_updated_, false)) client_.update();
}

}  // namespace rehearse
