#include "sim/program/collective_run.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace rehearse {

namespace {
constexpr double kRounding = 1e-12;  // of dates
}  // namespace

CollectiveRun::~CollectiveRun() {
  settle();
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    lose(phase().edges[e], edge.on_way);
    if (edge.leg == Leg::kNone) continue;
    if (edge.has_left) {
      lose(edge.path, edge.size);
    } else if (edge.channel == nullptr) {
      cluster_.network.cancel(edge.flow);
      cluster_.network.count(edge.path, Bytes{} - edge.size);
    }
  }
}

void CollectiveRun::lose(PathIndex path, Bytes size) {
  cluster_.traffic.lost(cluster_.network.source(path), cluster_.network.destination(path), size);
}

void CollectiveRun::start(Task task, std::function<void()> on_done) {
  task_ = std::move(task);
  on_done_ = std::move(on_done);
  known_.try_emplace(task_.method, plan().size());
  phase_ = 0;
  edges_.clear();
  if (task_.launch == Seconds{} || plan().empty() || task_.asks)
    begin_phase();
  else
    clock_.schedule_in(task_.launch, [this] { begin_phase(); });
}

void CollectiveRun::begin_phase() {
  edges_.clear();
  if (phase_ == plan().size()) return std::exchange(on_done_, {})();
  if (!hold_rounds(0)) begin_messages();
}

void CollectiveRun::begin_messages() {
  its_ = &ranks_of_phase();
  edges_.assign(phase().edges.size(), {});
  ranks_.assign(its_->outgoing.size(), {});
  ranks_left_ = ranks_.size();
  const bool begins_at_random = task_.asks && phase_ == 0;
  if (begins_at_random && !launches_)
    launches_.emplace(cluster_.site.scenario.seed, "launches " + std::to_string(cluster_.asking_communicators++));
  const Seconds now = clock_.now(), latest = now + task_.launch;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (begins_at_random)
      clock_.schedule(Seconds{launches_->uniform(now.value(), latest.value())}, [this, rank] { begin_round(rank); });
    else
      begin_round(rank);
}

const CollectiveRun::RanksOfPhase& CollectiveRun::ranks_of_phase() {
  std::optional<RanksOfPhase>& ranks = known().ranks;
  if (ranks) return *ranks;
  ranks.emplace();
  Network& network = cluster_.network;
  const MachineFold& fold = network.fold();
  std::map<std::pair<MachineIndex, int>, std::size_t> numbers;
  const auto number_of = [&](const Endpoint& end) {  // of who does what this one does
    const int gpu = fold.joins_gpus ? std::min(end.gpu, 0) : end.gpu;
    return numbers.try_emplace({fold.standing_for(end.machine), gpu}, numbers.size()).first->second;
  };
  for (const PathIndex path : phase().edges) {
    const Endpoint from = network.source(path), to = network.destination(path);
    ranks->from.push_back(number_of(from));
    ranks->to.push_back(number_of(to));
    const bool answers = task_.method->protocol.eager_limit && network.path(path).kind == PathKind::kNetwork;
    ranks->back.push_back(answers ? network.path(to, from) : -1);
  }
  ranks->outgoing.resize(numbers.size());
  ranks->incoming.resize(numbers.size());
  for (std::size_t e = 0; e < ranks->from.size(); ++e) {
    ranks->outgoing[ranks->from[e]].push_back(e);
    ranks->incoming[ranks->to[e]].push_back(e);
  }
  return *ranks;
}

void CollectiveRun::begin_round(std::size_t number) {
  Rank& rank = ranks_[number];
  if (rank.round == phase().repeat) {
    if (--ranks_left_ > 0) return;
    ++phase_;
    return begin_phase();
  }
  ++rank.round;
  const std::vector<std::size_t>&outgoing = its_->outgoing[number], &incoming = its_->incoming[number];
  rank.left = outgoing.size() + static_cast<std::size_t>(std::ranges::count_if(
                                    incoming, [&](std::size_t e) { return edges_[e].arrived < rank.round; }));
  if (rank.left == 0) return come_to_round(number);
  for (const std::size_t e : outgoing) offer(e);
  for (const std::size_t e : incoming) answer(e);
}

void CollectiveRun::end_message(std::size_t rank) {
  if (--ranks_[rank].left == 0) come_to_round(rank);
}

/// Where rounds may be joined, once all are known that come to one at this date.
void CollectiveRun::come_to_round(std::size_t rank) {
  if (ranks_[rank].round == phase().repeat) return begin_round(rank);
  if (phase().waits_for_all) {
    ready_.push_back(rank);
    if (ready_.size() == ranks_.size()) begin_together();
    return;
  }
  if (!task_.joins_rounds || joined_links().empty()) return begin_round(rank);
  if (ready_.empty()) clock_.schedule_in(Seconds{}, [this] { begin_together(); });
  ready_.push_back(rank);
}

void CollectiveRun::begin_together() {
  const std::vector<std::size_t> ready = std::exchange(ready_, {});
  const std::int64_t round = ranks_[ready.front()].round;
  if (ready.size() == ranks_.size() &&
      std::ranges::all_of(ranks_, [&](const Rank& rank) { return rank.round == round; }) && hold_rounds(round))
    return edges_.clear();
  for (const std::size_t rank : ready) begin_round(rank);
}

void CollectiveRun::offer(std::size_t index) {
  if (!task_.asks && !task_.method->protocol.receivers_announce) return send_data(index);
  if (task_.asks && its_->back[index] >= 0) return transfer(index, Leg::kRequest, phase().edges[index], kRequest);
  edges_[index].is_asked = true;
  answer(index);
}

/// If there is a request, and its receiver awaits it.
void CollectiveRun::answer(std::size_t index) {
  Edge& edge = edges_[index];
  if (!edge.is_asked || ranks_[its_->to[index]].round <= edge.arrived) return;
  edge.is_asked = false;
  if (task_.asks && its_->back[index] >= 0)
    transfer(index, Leg::kAnswer, its_->back[index], kAnswer);
  else
    send_data(index);
}

void CollectiveRun::send_data(std::size_t index) { transfer(index, Leg::kData, phase().edges[index], size_of(index)); }

Bytes CollectiveRun::size_of(std::size_t edge) const {
  const Bytes one = task_.size_of ? task_.size_of(phase(), edge) : message_size(phase(), task_.on_wire);
  return one * times_of(phase(), edge);
}

void CollectiveRun::transfer(std::size_t index, Leg leg, PathIndex path, Bytes size) {
  Edge& edge = edges_[index];
  edge.leg = leg;
  edge.has_left = false;
  edge.path = path;
  edge.size = size;
  edge.channel = free_channel(path);
  const auto on_left = [this, index, start = clock_.now()] { leave(index, start); };
  if (edge.channel == nullptr) {
    edge.flow = cluster_.network.start_flow(path, size, on_left, {}, times_of(phase(), index));
    return;
  }
  const std::int64_t round = ranks_[its_->from[index]].round;
  const bool is_last_of_section = round % (phase().repeat / phase().sections) == 0;
  edge.channel->send(size, round < phase().repeat, on_left,
                     task_.method->protocol.receivers_announce && is_last_of_section);
}

void CollectiveRun::leave(std::size_t index, Seconds start) {
  Edge& edge = edges_[index];
  const Seconds now = clock_.now();
  const bool is_data = edge.leg == Leg::kData;
  const Seconds latency = is_data ? this->latency(index, now - start) : cluster_.network.latency(edge.path);
  const Endpoint from = cluster_.network.source(edge.path), to = cluster_.network.destination(edge.path);
  cluster_.traffic.sent(from, to, edge.size);
  cluster_.recorder.add(MessageSpan{from,
                                    to,
                                    task_.unit,
                                    task_.step,
                                    {start, now},
                                    now + latency,
                                    edge.size,
                                    edge.channel != nullptr ? edge.channel->retransmitted() : Bytes{},
                                    true});
  if (is_data) return send_on(index, now + latency);
  edge.has_left = true;
  clock_.schedule_in(latency, [this, index] { arrive_unladen(index); });
}

/// The data have left, and arrive then.
void CollectiveRun::send_on(std::size_t index, Seconds arrival) {
  Edge& edge = edges_[index];
  edge.leg = Leg::kNone;
  edge.on_way += edge.size;
  clock_.schedule(arrival, [this, index, size = edge.size] { arrive(index, size); });
  if (task_.asks) end_message(its_->from[index]);
}

void CollectiveRun::arrive(std::size_t index, Bytes size) {
  Edge& edge = edges_[index];
  const PathIndex path = phase().edges[index];
  cluster_.traffic.received(cluster_.network.source(path), cluster_.network.destination(path), size);
  edge.on_way -= size;
  const std::size_t from = its_->from[index], to = its_->to[index];
  const bool is_awaited = ranks_[to].round == ++edge.arrived;
  if (!task_.asks) end_message(from);
  if (is_awaited) end_message(to);
}

/// A request, or an answer.
void CollectiveRun::arrive_unladen(std::size_t index) {
  Edge& edge = edges_[index];
  cluster_.traffic.received(cluster_.network.source(edge.path), cluster_.network.destination(edge.path), edge.size);
  if (std::exchange(edge.leg, Leg::kNone) == Leg::kAnswer) return send_data(index);
  edge.is_asked = true;
  answer(index);
}

/// None where no packets are lost.
LossyChannel* CollectiveRun::free_channel(PathIndex path) {
  if (!(cluster_.network.path(path).packet_loss > 0)) return nullptr;
  auto& channels = channels_[path];
  const auto found =
      std::find_if(channels.begin(), channels.end(), [](const auto& known) { return !known->is_busy(); });
  if (found != channels.end()) return found->get();
  channels.push_back(lossy_channel(clock_, cluster_, path));
  return channels.back().get();
}

const std::vector<int>& CollectiveRun::joined_links() {
  std::optional<std::vector<int>>& links = known().joined_links;
  if (links) return *links;
  links.emplace();
  if (!task_.timer->has_constant_rates(phase_) || !(keeps_step() || senders_are_apart())) return *links;
  const Network& network = cluster_.network;
  const bool loses =
      std::ranges::any_of(phase().edges, [&](PathIndex edge) { return network.path(edge).packet_loss > 0; });
  std::vector<int> binding = binding_links(phase(), network);
  const bool has_burst = std::ranges::any_of(
      binding, [&](int link) { return network.topology().links()[static_cast<std::size_t>(link)].burst > Bytes{}; });
  if (!loses && !has_burst) *links = std::move(binding);
  return *links;
}

/// Of the phase, [ranks] whether it has a part in one of the slowest messages: such ranks begin each round at the same time if nothing
/// disturbs them.
std::vector<bool> CollectiveRun::slow_ranks() {
  constexpr double kAlike = 1 - 1e-9;
  const RanksOfPhase& ranks = ranks_of_phase();
  const std::vector<double>& per_byte = task_.timer->seconds_per_byte(phase_);
  const double slowest = *std::ranges::max_element(per_byte);
  Seconds longest{};
  for (std::size_t e = 0; e < per_byte.size(); ++e) longest = std::max(longest, latency(e, Seconds{}));
  std::vector<bool> is_slow(ranks.outgoing.size());
  for (std::size_t e = 0; e < per_byte.size(); ++e)
    if (per_byte[e] >= slowest * kAlike && latency(e, Seconds{}) >= longest * kAlike)
      is_slow[ranks.from[e]] = is_slow[ranks.to[e]] = true;
  return is_slow;
}

/// Whether all ranks begin each round at the same time if nothing disturbs them.
bool CollectiveRun::keeps_step() {
  if (phase().repeat == 1 || phase().waits_for_all) return true;
  const std::vector<bool> is_slow = slow_ranks();
  return std::find(is_slow.begin(), is_slow.end(), false) == is_slow.end();
}

/// Whether messages that share a link always begin to leave together: they are of one rank, or of slow ones.
bool CollectiveRun::senders_are_apart() {
  const RanksOfPhase& ranks = ranks_of_phase();
  const std::vector<bool> is_slow = slow_ranks();
  const std::size_t together = ranks.outgoing.size();
  std::map<int, std::size_t> sender_of;  // by link
  for (std::size_t e = 0; e < phase().edges.size(); ++e)
    for (const int link : cluster_.network.path(phase().edges[e]).links) {
      if (cluster_.network.topology().links()[static_cast<std::size_t>(link)].never_binds) continue;
      const std::size_t sender = is_slow[ranks.from[e]] ? together : ranks.from[e];
      if (sender_of.try_emplace(link, sender).first->second != sender) return false;
    }
  return true;
}

/// Makes the rounds of the phase after those that are `done` one event, if nothing else uses the links of their messages.
bool CollectiveRun::hold_rounds(std::int64_t done) {
  if (!task_.joins_rounds) return false;
  const std::vector<int>& links = joined_links();
  if (links.empty()) return false;
  const HoldId hold = cluster_.network.hold(links, [this] { let_go(); });
  if (hold == 0) return false;
  held_ = {.hold = hold,
           .since = clock_.now(),
           .each = task_.timer->round(phase_, task_.on_wire),
           .done = done,
           .rounds = phase().repeat - done,
           .number = held_.number + 1};
  clock_.schedule_in(held_.each * static_cast<double>(held_.rounds), [this, number = held_.number] {
    if (number == held_.number) end_hold();
  });
  return true;
}

void CollectiveRun::end_hold() {
  cluster_.network.release(std::exchange(held_.hold, 0));
  count_rounds();
  ++phase_;
  begin_phase();
}

/// Of messages that had the links for themselves.
void CollectiveRun::count(std::size_t edge, std::int64_t messages) {
  const PathIndex path = phase().edges[edge];
  const Bytes all = size_of(edge) * messages;
  cluster_.traffic.sent(cluster_.network.source(path), cluster_.network.destination(path), all);
  cluster_.traffic.received(cluster_.network.source(path), cluster_.network.destination(path), all);
  cluster_.network.count(path, all);
}

void CollectiveRun::count_rounds() {
  for (std::size_t e = 0; e < phase().edges.size(); ++e) count(e, held_.rounds);
}

/// Goes on message by message from where the held rounds have come to.
void CollectiveRun::let_go() {
  cluster_.network.release(std::exchange(held_.hold, 0));
  const Seconds elapsed = clock_.now() - held_.since;
  const auto ended = static_cast<std::int64_t>(elapsed / held_.each * (1 + kRounding));
  if (ended >= held_.rounds) {  // end_hold() is due
    count_rounds();
    held_.rounds = 0;
    return;
  }
  ++held_.number;
  its_ = &ranks_of_phase();
  const std::int64_t together = keeps_step() ? ended : 0;
  const std::vector<Seconds> begun =
      advance(held_.done + together, elapsed - held_.each * static_cast<double>(together));
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    count(e, edges_[e].arrived - held_.done);
    for (const std::size_t rank : {its_->from[e], its_->to[e]})
      ranks_[rank].left += edges_[e].arrived < ranks_[rank].round ? 1 : 0;
  }
  ready_.clear();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].left == 0 && ranks_[rank].round < phase().repeat) ready_.push_back(rank);  // waits for the others
  ranks_left_ = ready_.size() +
                static_cast<std::size_t>(std::ranges::count_if(ranks_, [](const Rank& rank) { return rank.left > 0; }));
  for (std::size_t e = 0; e < edges_.size(); ++e)
    if (const std::size_t from = its_->from[e]; edges_[e].arrived < ranks_[from].round)
      resume(e, std::max(Seconds{}, elapsed - held_.each * static_cast<double>(together) - begun[from]));
}

/// Puts ranks and edges where they are so long after all ranks have begun the round behind those that are `done`, if nothing has
/// disturbed them. Returns when each has begun the round that it is in.
std::vector<Seconds> CollectiveRun::advance(std::int64_t done, Seconds elapsed) {
  edges_.assign(phase().edges.size(), {.arrived = done});
  ranks_.assign(its_->outgoing.size(), {.round = done + 1});
  std::vector<Seconds> begun(ranks_.size()), begins = begun, next = begun;
  bool goes_on = true;
  for (std::int64_t round = done + 1; goes_on; ++round) {
    goes_on = false;
    std::ranges::fill(next, Seconds{});
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const std::size_t from = its_->from[e], to = its_->to[e];
      const Seconds transfer = transfer_time(e), arrival = begins[from] + transfer + latency(e, transfer);
      next[from] = std::max(next[from], arrival);
      next[to] = std::max(next[to], arrival);
      if (arrival <= elapsed * (1 + kRounding)) edges_[e].arrived = round;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (next[rank] > elapsed * (1 + kRounding) || round == phase().repeat || phase().waits_for_all) continue;
      ranks_[rank].round = round + 1;
      begun[rank] = next[rank];
      goes_on = true;
    }
    begins = next;
  }
  return begun;
}

/// Puts a message that began to leave so long ago, without a flow, where it is now.
void CollectiveRun::resume(std::size_t index, Seconds before) {
  Edge& edge = edges_[index];
  edge.leg = Leg::kData;
  edge.path = phase().edges[index];
  edge.size = size_of(index);
  const Seconds transfer = transfer_time(index), start = clock_.now() - before;
  if (before < transfer) {
    edge.flow = cluster_.network.resume_flow(
        edge.path, edge.size, 1 - before / transfer, [this, index, start] { leave(index, start); },
        times_of(phase(), index));
    return;
  }
  cluster_.network.count(edge.path, edge.size);
  cluster_.traffic.sent(cluster_.network.source(edge.path), cluster_.network.destination(edge.path), edge.size);
  send_on(index, std::max(clock_.now(), start + transfer + latency(index, transfer)));
}

}  // namespace rehearse
