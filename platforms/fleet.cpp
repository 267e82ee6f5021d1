#include "platforms/fleet.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>
#include <utility>

#include "platforms/fleet_trace.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

/// So far ahead dates in calm and churn are looked for, more than any notice.
constexpr Seconds kHorizon{10 * 86400.0};

/// What is going to happen. `life` tells whether it still concerns the machine that is in the slot. Thousands of them are moved about
/// in a heap, so they are small.
struct Action {
  enum class Kind : std::uint8_t {
    kNotice,
    kRevoke,
    kRequest,
    kRun,
    kRecorded,
    kPlan,
    kFail,
    kAwait,
    kRepaired,
    kBulk,
    kPlanBulk
  };
  Seconds at{};
  std::uint64_t order = 0;  // and the kind, in the last bits
  std::uint32_t life = 0;
  int subject = 0;  // slot; of kBulk and kPlanBulk a zone; of kRecorded and kRepaired a group

  Kind kind() const { return static_cast<Kind>(order & (kKinds - 1)); }
  static constexpr std::uint64_t kKinds = 16;

  friend bool operator>(const Action& a,
                        const Action& b) {  // without a branch, which would be guessed wrong half of the time
    const bool is_later = a.at.value() > b.at.value(), is_same = a.at.value() == b.at.value();
    const bool is_after = a.order > b.order;
    return is_later | (is_same & is_after);
  }
};

/// Actions in their order. The nearest are in a heap, which stays small; thousands that come hours later, most of them never, wait
/// unsorted.
class ActionQueue {
 public:
  bool is_empty() const { return near_.empty(); }
  const Action& first() const { return near_.top(); }
  void push(const Action& action) {
    if (action.at < until_)
      near_.push(action);
    else
      far_.push_back(action);
    refill();
  }
  void pop() {
    near_.pop();
    refill();
  }

 private:
  /// The heap has what comes before `until_`, and something unless there is nothing.
  void refill() {
    constexpr std::size_t kMost = 512;  // unless more are due at the same date
    if (!near_.empty() || far_.empty()) return;
    const auto last = far_.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, far_.size()) - 1);
    std::ranges::nth_element(far_, last, {}, &Action::at);
    until_ = Seconds{std::nextafter(last->at.value(), kNever.value())};
    const auto rest = std::partition(far_.begin(), far_.end(), [this](const Action& a) { return a.at >= until_; });
    for (auto action = rest; action != far_.end(); ++action) near_.push(*action);
    far_.erase(rest, far_.end());
  }

  std::priority_queue<Action, std::vector<Action>, std::greater<>> near_;
  std::vector<Action> far_;
  Seconds until_{};
};

/// The random numbers of one slot, a stream for each use.
struct SlotStreams {
  Rng life, wait, startup, bulk, fault;
  SlotStreams(std::uint64_t seed, const std::string& slot)
      : life{seed, "fleet life " + slot},
        wait{seed, "fleet wait " + slot},
        startup{seed, "fleet startup " + slot},
        bulk{seed, "fleet bulk " + slot},
        fault{seed, "fleet fault " + slot} {}
};

struct Slot {
  enum class Use { kFree, kRequested, kRunning, kReplayed };
  int group = 0;
  std::optional<std::size_t> zone;  // whose bulk revocations hit it, or whose churn it lives in
  Use use = Use::kFree;
  bool is_announced = false;      // a notice was given, or would have been if the pool gave any
  bool has_next_machine = false;  // its replacement was requested at the notice
  Seconds runs_from{};            // of the machine that was requested
  Seconds revoked_at{};
  Seconds runs_since{}, dies_at_age{}, dies_by{};  // in churn: the age on the zone's clock, and the latest date
  std::uint32_t life = 0;  // counts the changes of the machine's dates, so that old actions are known
  SlotStreams streams;
};

/// Bulk revocations and churn of one pool in one zone.
struct Zone {
  const SpotPool* pool = nullptr;
  std::vector<int> slots;
  Rng rng, outage_rng;
  std::optional<ChurnClock> clock;
  Seconds next_age{}, next_at{};  // of the next bulk revocation: on the clock, or the same without one
  Seconds closed_until{};         // no machine for any request
};

}  // namespace

struct Fleet::State {
  std::vector<FleetGroup> groups;
  double start_s_utc = 0;
  std::vector<Slot> slots;
  std::vector<int> first_slots;           // of each group
  std::vector<std::size_t> replayed;      // of each group: so many events of its replay have happened
  std::vector<std::deque<int>> requests;  // waiting for a free slot of each group: slots whose machine was lost
  std::vector<std::deque<int>> awaiting;  // a spare of each group: slots whose machine is broken
  std::vector<int> spares;                // of each group: that are there
  std::vector<Zone> zones;
  ActionQueue actions;
  std::uint64_t actions_scheduled = 0;
  std::size_t actions_of_machines = 0;  // in the queue, besides bulk revocations
  std::deque<FleetEvent> events;        // happened, not yet told

  State(std::vector<FleetGroup> groups_, double start, std::uint64_t seed);

  const FleetGroup& group_of(int slot) const { return groups[index(slots[index(slot)].group)]; }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void schedule(Seconds at, Action::Kind kind, int subject, std::uint32_t life) {
    if (at > kLongest) return;
    const std::uint64_t order = actions_scheduled++ * Action::kKinds + static_cast<std::uint64_t>(kind);
    actions.push({.at = at, .order = order, .life = life, .subject = subject});
    if (kind != Action::Kind::kBulk && kind != Action::Kind::kPlanBulk) ++actions_of_machines;
  }
  void tell(Seconds at, int slot, FleetEvent::Kind kind) { events.push_back({at, slot, kind}); }

  void start_life(Seconds now, int slot);
  void set_revocation(Seconds now, int slot, Seconds at);
  void plan_revocation(Seconds now, int slot);
  void schedule_bulk(Seconds now, int zone);
  void plan_bulk(Seconds now, int zone);
  void request_replacement(Seconds now, int lost);
  void serve_requests(Seconds now, int group);
  void request(Seconds now, int slot);
  bool is_over() const;
  void act(const Action& action);
  void announce(Seconds now, int slot);
  void revoke(Seconds now, int slot);
  void replay(int group);
  void fail(Seconds now, int slot);
  void bring_spares(Seconds now, int group);
  void hit_zone(Seconds now, int zone);
};

Fleet::State::State(std::vector<FleetGroup> groups_, double start, std::uint64_t seed)
    : groups{std::move(groups_)},
      start_s_utc{start},
      replayed(groups.size()),
      requests(groups.size()),
      awaiting(groups.size()) {
  std::vector<std::string> zone_names;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const FleetGroup& group = groups[g];
    if (group.slots < 0 ||
        (group.replaced_by && (*group.replaced_by < 0 || index(*group.replaced_by) >= groups.size() ||
                               groups[index(*group.replaced_by)].replay)))
      throw std::invalid_argument{"Fleet: a group refers to a group that is not there, or has no place"};
    if (group.replay && group.replay->slots() != group.slots)
      throw std::invalid_argument{"Fleet: a replay of other slots than the group's"};
    if (group.faults && (group.pool || group.replay || group.replaced_by))
      throw std::invalid_argument{"Fleet: a group with faults has spares alone"};
    spares.push_back(group.faults ? group.faults->spares : 0);
    first_slots.push_back(static_cast<int>(slots.size()));
    std::optional<std::size_t> zone;
    if (group.pool && (group.pool->bulk || group.pool->churn)) {
      const std::string name = group.zone + '\n' + group.pool->name;
      zone = static_cast<std::size_t>(std::find(zone_names.begin(), zone_names.end(), name) - zone_names.begin());
      if (*zone == zones.size()) {
        zone_names.push_back(name);
        zones.push_back({.pool = &*group.pool,
                         .rng = Rng{seed, "fleet bulk of " + name},
                         .outage_rng = Rng{seed, "fleet outage of " + name}});
        if (const auto& churn = group.pool->churn)
          zones.back().clock.emplace(*churn, Rng{seed, "fleet churn of " + name});
      }
    }
    for (int i = 0; i < group.slots; ++i) {
      const int slot = static_cast<int>(slots.size());
      slots.push_back({.group = static_cast<int>(g),
                       .zone = zone,
                       .use = group.replay       ? Slot::Use::kReplayed
                              : group.is_standby ? Slot::Use::kFree
                                                 : Slot::Use::kRunning,
                       .streams = SlotStreams{seed, std::to_string(g) + ' ' + std::to_string(i)}});
      if (zone) zones[*zone].slots.push_back(slot);
    }
  }
  for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot)
    if (slots[index(slot)].use == Slot::Use::kRunning) start_life(Seconds{}, slot);
  for (int zone = 0; zone < static_cast<int>(zones.size()); ++zone)
    if (zones[index(zone)].pool->bulk) schedule_bulk(Seconds{}, zone);
  for (int group = 0; group < static_cast<int>(groups.size()); ++group)
    if (const auto& recorded = groups[index(group)].replay)
      for (const FleetEvent& event : recorded->events()) schedule(event.at, Action::Kind::kRecorded, group, 0);
}

/// The next event of the group's replay happens. Without a notice the request comes with the revocation.
void Fleet::State::replay(int group) {
  const FleetGroup& recorded = groups[index(group)];
  const FleetEvent event = recorded.replay->events()[replayed[index(group)]++];
  const int slot = first_slots[index(group)] + event.slot;
  tell(event.at, slot, event.kind);
  bool& is_announced = slots[index(slot)].is_announced;
  const bool is_requested =
      event.kind == FleetEvent::Kind::kNotice
          ? recorded.requests_at_notice
          : event.kind == FleetEvent::Kind::kRevoked && !(recorded.requests_at_notice && is_announced);
  is_announced = event.kind == FleetEvent::Kind::kNotice;
  if (is_requested && recorded.replaced_by)
    schedule(event.at + recorded.replacement_delay, Action::Kind::kRequest, slot, 0);
}

void Fleet::State::start_life(Seconds now, int slot) {
  Slot& machine = slots[index(slot)];
  machine.use = Slot::Use::kRunning;
  machine.is_announced = false;
  machine.has_next_machine = false;
  if (const auto& faults = group_of(slot).faults) {
    schedule(now + std::max(faults->between.draw(machine.streams.life), kShortestPeriod), Action::Kind::kFail, slot,
             ++machine.life);
    return;
  }
  const std::optional<SpotPool>& pool = group_of(slot).pool;
  if (machine.zone && zones[*machine.zone].clock) {
    const Lifetime::Age age = pool->lifetime.draw_age(machine.streams.life);
    machine.runs_since = now;
    machine.dies_at_age = age.is_lost_at_start ? kNever : zones[*machine.zone].clock->aged(now) + age.value;
    machine.dies_by = now + std::min(age.is_lost_at_start ? std::max(age.value, kShortestPeriod) : kNever,
                                     pool->lifetime.cap.value_or(kNever));
    return plan_revocation(now, slot);
  }
  set_revocation(now, slot, pool ? now + pool->lifetime.draw(machine.streams.life, start_s_utc + now.value()) : kNever);
}

void Fleet::State::set_revocation(Seconds now, int slot, Seconds at) {
  Slot& machine = slots[index(slot)];
  machine.revoked_at = at;
  ++machine.life;
  if (at == kNever) return;
  const Seconds notice = group_of(slot).pool->notice;
  schedule(std::max(now, at - notice), Action::Kind::kNotice, slot, machine.life);
  if (notice == Seconds{})
    schedule(at, Action::Kind::kRevoke, slot, machine.life);  // before what the notice brings about
}

/// What is beyond the horizon is looked for again, in time for its notice.
void Fleet::State::plan_revocation(Seconds now, int slot) {
  Slot& machine = slots[index(slot)];
  const std::optional<Seconds> date = zones[*machine.zone].clock->date(machine.dies_at_age, now + kHorizon);
  const Seconds at = std::min(date ? std::max(*date, machine.runs_since + kShortestPeriod) : kNever, machine.dies_by);
  if (at <= now + kHorizon) return set_revocation(now, slot, at);
  set_revocation(now, slot, kNever);
  schedule(now + kHorizon - group_of(slot).pool->notice, Action::Kind::kPlan, slot, machine.life);
}

void Fleet::State::schedule_bulk(Seconds now, int zone) {
  Zone& place = zones[index(zone)];
  place.next_age += std::max(place.pool->bulk->interval.draw(place.rng), kShortestPeriod);
  plan_bulk(now, zone);
}

void Fleet::State::plan_bulk(Seconds now, int zone) {
  Zone& place = zones[index(zone)];
  const std::optional<Seconds> date =
      place.clock ? place.clock->date(place.next_age, now + kHorizon) : std::optional{place.next_age};
  if (!date) return schedule(now + kHorizon - place.pool->notice, Action::Kind::kPlanBulk, zone, 0);
  place.next_at = std::max(*date, place.next_at + kShortestPeriod);
  schedule(std::max(now, place.next_at - place.pool->notice), Action::Kind::kBulk, zone, 0);
}

void Fleet::State::hit_zone(Seconds now, int zone) {
  Zone& place = zones[index(zone)];
  const double share = place.pool->bulk->draw_share(place.rng);
  if (const auto& outage = place.pool->bulk->outage)
    place.closed_until = std::max(place.closed_until, place.next_at + outage->at(place.outage_rng.uniform()));
  for (const int slot : place.slots) {
    Slot& machine = slots[index(slot)];
    const bool is_hit = machine.streams.bulk.uniform() < share;  // drawn in any case: one number for each revocation
    if (is_hit && machine.use == Slot::Use::kRunning && !machine.is_announced && machine.revoked_at > place.next_at)
      set_revocation(now, slot, place.next_at);
  }
  schedule_bulk(now, zone);
}

void Fleet::State::announce(Seconds now, int slot) {
  Slot& machine = slots[index(slot)];
  machine.is_announced = true;
  const FleetGroup& group = group_of(slot);
  if (group.pool->notice > Seconds{}) {
    tell(now, slot, FleetEvent::Kind::kNotice);
    schedule(machine.revoked_at, Action::Kind::kRevoke, slot, machine.life);
  }
  if (group.replaced_by && group.requests_at_notice)
    schedule(now + group.replacement_delay, Action::Kind::kRequest, slot, 0);
}

void Fleet::State::revoke(Seconds now, int slot) {
  Slot& machine = slots[index(slot)];
  const FleetGroup& group = group_of(slot);
  tell(now, slot, FleetEvent::Kind::kRevoked);
  ++machine.life;
  if (group.replaced_by && !group.requests_at_notice)
    schedule(now + group.replacement_delay, Action::Kind::kRequest, slot, 0);
  if (machine.has_next_machine) {
    machine.use = Slot::Use::kRequested;
    machine.has_next_machine = false;
    schedule(std::max(now, machine.runs_from), Action::Kind::kRun, slot, machine.life);
    return;
  }
  machine.use = Slot::Use::kFree;
  serve_requests(now, machine.group);
}

void Fleet::State::request_replacement(Seconds now, int lost) {
  const int group = *group_of(lost).replaced_by;
  requests[index(group)].push_back(lost);
  serve_requests(now, group);
}

void Fleet::State::serve_requests(Seconds now, int group) {
  std::deque<int>& waiting = requests[index(group)];
  while (!waiting.empty()) {
    const int lost = waiting.front();
    const int first = first_slots[index(group)], last = first + groups[index(group)].slots;
    const auto is_free = [&](int slot) { return slots[index(slot)].use == Slot::Use::kFree; };
    int found = last;
    if (slots[index(lost)].group == group && is_free(lost)) {
      found = lost;
    } else if (slots[index(lost)].group == group && groups[index(group)].requests_at_notice &&
               slots[index(lost)].use == Slot::Use::kRunning && slots[index(lost)].is_announced &&
               !slots[index(lost)].has_next_machine) {
      found = lost;  // its machine is about to go
    } else {
      for (found = first; found < last && !is_free(found);) ++found;
    }
    if (found == last) return;
    waiting.pop_front();
    request(now, found);
  }
}

void Fleet::State::request(Seconds now, int slot) {
  Slot& machine = slots[index(slot)];
  const FleetGroup& group = group_of(slot);
  tell(now, slot, FleetEvent::Kind::kRequested);
  Seconds ready = machine.zone ? std::max(now, zones[*machine.zone].closed_until) : now;
  if (group.pool && group.pool->wait) ready += group.pool->wait->at(machine.streams.wait.uniform());
  if (group.startup) ready += group.startup->draw(machine.streams.startup);
  machine.runs_from = ready;
  if (machine.use == Slot::Use::kRunning) {
    machine.has_next_machine = true;
    return;
  }
  machine.use = Slot::Use::kRequested;
  schedule(ready, Action::Kind::kRun, slot, ++machine.life);
}

/// The machine fails. Whether it breaks is drawn in any case: one number for each fault.
void Fleet::State::fail(Seconds now, int slot) {
  Slot& machine = slots[index(slot)];
  const MachineFaults& faults = *group_of(slot).faults;
  const Seconds noticed = now + group_of(slot).noticed_after;
  const bool is_broken = machine.streams.fault.uniform() < faults.repair_share;
  tell(now, slot, is_broken ? FleetEvent::Kind::kBroken : FleetEvent::Kind::kFailed);
  machine.use = Slot::Use::kRequested;
  ++machine.life;
  schedule(noticed, is_broken ? Action::Kind::kAwait : Action::Kind::kRun, slot, machine.life);
  if (is_broken) schedule(noticed + faults.repair, Action::Kind::kRepaired, machine.group, 0);
}

/// As many as there are, first come, first served.
void Fleet::State::bring_spares(Seconds now, int group) {
  std::deque<int>& waiting = awaiting[index(group)];
  for (int& there = spares[index(group)]; there > 0 && !waiting.empty(); --there) {
    const int slot = waiting.front();
    waiting.pop_front();
    tell(now, slot, FleetEvent::Kind::kRequested);
    schedule(now + groups[index(group)].faults->spare_start, Action::Kind::kRun, slot, slots[index(slot)].life);
  }
}

/// Nothing is planned, and no bulk revocation can find a machine.
bool Fleet::State::is_over() const {
  if (actions.is_empty()) return true;
  if (actions_of_machines > 0) return false;
  return std::none_of(zones.begin(), zones.end(), [&](const Zone& zone) {
    return zone.pool->bulk && std::any_of(zone.slots.begin(), zone.slots.end(),
                                          [&](int slot) { return slots[index(slot)].use == Slot::Use::kRunning; });
  });
}

void Fleet::State::act(const Action& action) {
  if (action.kind() == Action::Kind::kBulk) return hit_zone(action.at, action.subject);
  if (action.kind() == Action::Kind::kPlanBulk) return plan_bulk(action.at, action.subject);
  --actions_of_machines;
  if (action.kind() == Action::Kind::kRecorded) return replay(action.subject);
  if (action.kind() == Action::Kind::kRepaired) {
    ++spares[index(action.subject)];
    return bring_spares(action.at, action.subject);
  }
  if (action.kind() == Action::Kind::kRequest) return request_replacement(action.at, action.subject);
  if (action.life != slots[index(action.subject)].life) return;  // about dates that were changed since
  switch (action.kind()) {
    case Action::Kind::kNotice:
      return announce(action.at, action.subject);
    case Action::Kind::kPlan:
      return plan_revocation(action.at, action.subject);
    case Action::Kind::kFail:
      return fail(action.at, action.subject);
    case Action::Kind::kAwait:
      awaiting[index(slots[index(action.subject)].group)].push_back(action.subject);
      return bring_spares(action.at, slots[index(action.subject)].group);
    case Action::Kind::kRevoke:
      return revoke(action.at, action.subject);
    case Action::Kind::kRun:
      tell(action.at, action.subject, FleetEvent::Kind::kRunning);
      return start_life(action.at, action.subject);
    default:
      return;
  }
}

Fleet::Fleet(std::vector<FleetGroup> groups, double start_s_utc, std::uint64_t seed)
    : state_{std::make_unique<State>(std::move(groups), start_s_utc, seed)} {}
Fleet::~Fleet() = default;
Fleet::Fleet(Fleet&&) noexcept = default;

std::optional<FleetEvent> Fleet::next(Seconds until) {
  State& state = *state_;
  while (state.events.empty() && !state.is_over() && state.actions.first().at <= until) {
    const Action action = state.actions.first();
    state.actions.pop();
    state.act(action);
  }
  if (state.events.empty()) return {};
  const FleetEvent event = state.events.front();
  state.events.pop_front();
  return event;
}

Seconds Fleet::next_date() const {
  if (!state_->events.empty()) return state_->events.front().at;
  return state_->is_over() ? kNever : state_->actions.first().at;
}

void Fleet::request(Seconds now, int slot) { state_->request(now, slot); }

void Fleet::release(int slot) {
  Slot& machine = state_->slots[State::index(slot)];
  if (std::exchange(machine.has_next_machine, false)) return;
  ++machine.life;
  machine.use = Slot::Use::kFree;
}

bool Fleet::runs_at_start(int slot) const {
  const auto group = State::index(state_->slots[State::index(slot)].group);
  const FleetGroup& its = state_->groups[group];
  return its.replay ? its.replay->runs_at_start(slot - state_->first_slots[group]) : !its.is_standby;
}

int Fleet::slots() const { return static_cast<int>(state_->slots.size()); }

}  // namespace rehearse
