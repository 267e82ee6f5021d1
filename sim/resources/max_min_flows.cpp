#include "sim/resources/max_min_flows.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <utility>

namespace rehearse {

namespace {

/// Rates are sums and differences of at most a few thousand terms: what differs by less is equal.
constexpr double kRounding = 1e-9;
/// Completions closer than this share of the date are one: SimGrid's clock adds up delays.
constexpr double kDateRounding = 4e-15;

/// Calls visit(index) for the flow of each entry. The flows lie far apart in memory, so each is asked for some turns
/// before it is needed (measured with tests/bench/peers.py: 10 % of the last case).
template <class Flows, class Entries, class Index, class Visit>
void for_each_flow(const Flows& flows, const Entries& entries, Index index_of, Visit visit) {
  constexpr std::size_t kTurns = 6;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i + kTurns < entries.size()) __builtin_prefetch(&flows[index_of(entries[i + kTurns])], 1);
    visit(index_of(entries[i]));
  }
}

}  // namespace

MaxMinFlows::MaxMinFlows(std::vector<double> capacities, CrowdRule crowds)
    : capacities_{std::move(capacities)}, slots_(capacities_.size(), kNone), crowd_rule_{crowds} {}

std::uint32_t MaxMinFlows::slot_of(int link) {
  const auto number = static_cast<std::uint32_t>(link);
  std::uint32_t& slot = slots_[number];
  if (slot != kNone) return slot;
  slot = static_cast<std::uint32_t>(links_.size());
  Link& added = links_.emplace_back();
  added.capacity = capacities_[number];
  added.number = number;
  added.solves_left = added.solves_asked = crowd_rule_.solves;
  next_.extend_to(links_.size());
  return slot;
}

MaxMinFlows::FlowIndex MaxMinFlows::start(std::span<const int> links, double bytes, double cap, double weight,
                                          FlowIndex predecessor) {
  assert(links.size() <= kMaxLinks && bytes > 0);
  const double possible = std::clamp(weight, kLeastWeight, 1 / kLeastWeight);
  const auto rounded = weight == 1 ? 1.0F : static_cast<float>(std::round(possible / kLeastWeight) * kLeastWeight);
  if (predecessor != kNone && take_over(predecessor, bytes, cap, rounded)) return predecessor;
  FlowIndex index;
  if (free_.empty()) {
    index = static_cast<FlowIndex>(flows_.size());
    flows_.emplace_back();
    rests_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[index];
  Rest& rest = rests_[index];
  flow.rate = 0;
  flow.finish = bytes;
  flow.owner = kNone;
  flow.is_live = true;
  flow.is_crowded = false;
  flow.is_capped = cap != kNever;
  flow.weight = rounded;
  flow.count = static_cast<std::uint8_t>(links.size());
  if (links.size() > kNearLinks && rest.far == nullptr) rest.far = std::make_unique<Far>();
  rest.cap = cap;
  rest.sequence = next_sequence_++;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::uint32_t number = slot_of(links[i]);
    (i < kNearLinks ? flow.links[i] : rest.far->links[i - kNearLinks]) = number;
    links_[number].weight += flow.weight;
    add_to(links_[number].members, {index, static_cast<std::uint32_t>(i)});
  }
  started_.push_back(index);
  ++live_;
  return index;
}

void MaxMinFlows::add_to(std::vector<Member>& list, Member member) {
  position_of(member.flow, member.slot) = static_cast<std::uint32_t>(list.size());
  list.push_back(member);
}

void MaxMinFlows::take_from(std::vector<Member>& list, std::uint32_t position) {
  const Member last = list.back();
  list[position] = last;
  position_of(last.flow, last.slot) = position;
  list.pop_back();
}

void MaxMinFlows::mark_dirty(std::uint32_t link) {
  if (links_[link].is_dirty) return;
  links_[link].is_dirty = true;
  dirty_.push_back(link);
}

void MaxMinFlows::mark_changed(std::uint32_t link) {
  if (links_[link].has_changed) return;
  links_[link].has_changed = true;
  changed_.push_back(link);
}

void MaxMinFlows::mark_unlisted(std::uint32_t link) {
  if (links_[link].is_unlisted) return;
  links_[link].is_unlisted = true;
  unlisted_.push_back(link);
  next_.set(link, kNever);
}

void MaxMinFlows::remove(FlowIndex index) {
  Flow& flow = flows_[index];
  for (std::size_t i = 0; i < flow.count; ++i) {
    const std::uint32_t number = link_of(index, i);
    Link& link = links_[number];
    const bool is_of_crowd = flow.is_crowded && number == flow.owner;
    take_from(is_of_crowd ? crowds_[link.crowd].members : link.members, position_of(index, i));
    link.weight -= flow.weight;
    if (is_of_crowd)
      crowds_[link.crowd].weight -= flow.weight;
    else if (flow.is_crowded)
      link.leave(flow.weight);
    else
      link.used = link.members.empty() ? 0 : link.used - flow.rate;
    if (link.is_watched) mark_changed(number);
    if (link.is_bottleneck) mark_dirty(number);  // elsewhere nobody waits for what it leaves
  }
  if (flow.owner != kNone) mark_unlisted(flow.owner);
  flow.is_live = flow.is_crowded = flow.is_vacant = false;
  free_.push_back(index);
  --live_;
}

void MaxMinFlows::vacate(FlowIndex index) {
  Flow& flow = flows_[index];
  flow.is_vacant = true;
  if (flow.owner != kNone) mark_unlisted(flow.owner);
  vacant_.push_back(index);
  --live_;
}

/// The max-min fair allocation is that of the flows before, as they differ in nothing else.
bool MaxMinFlows::take_over(FlowIndex place, double bytes, double cap, float weight) {
  Flow& flow = flows_[place];
  Rest& rest = rests_[place];
  if (!flow.is_vacant || flow.weight != weight || rest.cap != cap) return false;
  flow.is_vacant = false;
  flow.finish = vacated_at_ + bytes / flow.rate;
  rest.sequence = next_sequence_++;
  ++live_;
  return true;
}

void MaxMinFlows::clear_vacant() {
  for (const FlowIndex flow : vacant_)
    if (flows_[flow].is_vacant) {
      ++live_;
      remove(flow);
    }
  vacant_.clear();
}

void MaxMinFlows::cancel(FlowIndex flow) { remove(flow); }

void MaxMinFlows::set_capacity(int link, double capacity) {
  capacities_[static_cast<std::size_t>(link)] = capacity;
  const std::uint32_t slot = slot_of(link);
  links_[slot].capacity = capacity;
  mark_dirty(slot);
}

double MaxMinFlows::next_completion(double now) {
  clear_vacant();
  if (crowds() > 0)
    std::erase_if(started_, [&](FlowIndex flow) { return flows_[flow].is_crowded || join_crowd(flow, now); });
  while (!dirty_.empty() || !started_.empty()) solve(now);
  for (const std::uint32_t link : unlisted_)
    if (links_[link].is_unlisted) list_completions(link);
  unlisted_.clear();
  return std::max(now, next_.date());
}

void MaxMinFlows::pop_completed(double now, std::vector<FlowIndex>& completed) {
  const double until = now * (1 + kDateRounding);
  vacated_at_ = now;
  const auto first = static_cast<std::ptrdiff_t>(completed.size());
  while (next_.date() <= until) {
    const auto index = static_cast<std::uint32_t>(next_.index());
    const Link& link = links_[index];
    mark_unlisted(index);
    if (link.crowd != kNone) pop_crowded(crowds_[link.crowd], until, completed);
    const std::size_t before = completed.size();
    if (link.next <= until && link.second > until)
      completed.push_back(link.first);
    else if (link.next <= until)
      for (const Member& member : link.members)
        if (const Flow& flow = flows_[member.flow]; flow.owner == index && flow.rate > 0 && flow.finish <= until)
          completed.push_back(member.flow);
    for (std::size_t i = before; i < completed.size(); ++i) vacate(completed[i]);
  }
  std::sort(completed.begin() + first, completed.end(),
            [this](FlowIndex a, FlowIndex b) { return rests_[a].sequence < rests_[b].sequence; });
}

void MaxMinFlows::list_completions(std::uint32_t index) {
  Link& link = links_[index];
  link.next = link.second = kNever;
  for (const Member& member : link.members)
    if (flows_[member.flow].owner == index) note_completion(link, member.flow);
  link.is_unlisted = false;
  set_next(index);
}

void MaxMinFlows::set_next(std::uint32_t index) {
  const Link& link = links_[index];
  next_.set(index, link.crowd == kNone ? link.next : std::min(link.next, next_end(crowds_[link.crowd])));
}

void MaxMinFlows::note_completion(Link& link, FlowIndex index) {
  if (flows_[index].rate == 0 || flows_[index].is_crowded) return;
  const double finish = flows_[index].finish;
  if (finish < link.next) {
    link.second = link.next;
    link.next = finish;
    link.first = index;
  } else {
    link.second = std::min(link.second, finish);
  }
}

double MaxMinFlows::sum_over(std::uint32_t index) const {
  const Link& link = links_[index];
  double sum = link.used;
  if (link.crowd != kNone) sum += crowds_[link.crowd].share * static_cast<double>(crowds_[link.crowd].weight);
  if (link.crowded > 0)
    for (const Member& member : link.members)
      if (flows_[member.flow].is_crowded) sum += rate(member.flow);
  return sum;
}

void MaxMinFlows::solve(double now) {
  ++mark_;
  solved_at_ = now;
  region_.clear();
  region_crowds_.clear();
  touched_.clear();
  region_flows_.clear();
  capped_.clear();
  for (const std::uint32_t link : dirty_) {
    links_[link].is_dirty = false;
    take_into_region(link);
  }
  dirty_.clear();
  for (const FlowIndex flow : std::exchange(limited_, {}))
    if (flows_[flow].is_crowded) take_flow(flow);
  for (const FlowIndex index : started_) {
    const Flow& flow = flows_[index];
    if (!flow.is_live) continue;
    if (flow.mark != mark_) take_flow(index);
    for (std::size_t i = 0; i < flow.count; ++i)
      if (const std::uint32_t link = link_of(index, i); links_[link].is_bottleneck)
        take_into_region(link);  // it will have to share
  }
  started_.clear();
  fill();
  while (grow_region() || expel_limited()) {
    for (const FlowIndex flow : region_flows_) flows_[flow].new_rate = -1;
    fill();
  }
  commit(now);
}

MaxMinFlows::Link& MaxMinFlows::touch(std::uint32_t index) {
  Link& link = links_[index];
  if (link.mark != mark_) {
    link.mark = mark_;
    link.is_in_region = false;
    link.used_before = 0;
    link.rescan = false;
    link.crossing = 0;
    touched_.push_back(index);
  }
  return link;
}

void MaxMinFlows::take_flow(FlowIndex index) {
  Flow& flow = flows_[index];
  if (flow.is_crowded) expel(index, solved_at_);
  flow.mark = mark_;
  flow.new_rate = -1;
  region_flows_.push_back(index);
  if (flow.is_capped) capped_.push_back(index);
  for (std::size_t i = 0; i < flow.count; ++i) {
    Link& crossed = touch(link_of(index, i));
    crossed.used_before += flow.rate;
    crossed.crossing += flow.weight;
  }
}

/// Adds a link and the flows that cross it to what is being solved.
void MaxMinFlows::take_into_region(std::uint32_t index) {
  Link& link = touch(index);
  if (link.is_in_region) return;
  link.is_in_region = true;
  region_.push_back(index);
  if (link.crowd != kNone) region_crowds_.push_back(link.crowd);
  for_each_flow(flows_, link.members, flow_of, [this](FlowIndex flow) {
    if (flows_[flow].mark != mark_) take_flow(flow);
  });
}

/// Progressive filling of the region's flows; the flows outside keep what they have.
void MaxMinFlows::fill() {
  const auto is_higher = [](const Level& a, const Level& b) {  // without a branch, as no guess of it would be good
    const bool is_more = a.share > b.share, is_same = a.share == b.share, is_after = a.order > b.order;
    return is_more | (is_same & is_after);
  };
  constexpr std::uint64_t kFlow = std::uint64_t{1} << 32U;
  levels_.clear();
  for (const FlowIndex index : capped_) levels_.push_back({rests_[index].cap / flows_[index].weight, kFlow | index});
  for (const std::uint32_t l : touched_) {
    Link& link = links_[l];
    link.limits = false;
    link.used_after = 0;
    link.moved = 0;
    link.left = link.is_in_region ? link.capacity : std::max(0.0, link.capacity - (sum_over(l) - link.used_before));
    link.unfrozen = link.crossing;
    if (link.is_in_region && link.crowd != kNone) link.unfrozen += crowds_[link.crowd].weight;
    if (link.unfrozen > 0) levels_.push_back({link.left / link.unfrozen, link.number});
  }
  for (const std::uint32_t crowd : region_crowds_) crowds_[crowd].new_share = -1;
  const auto freeze = [this](FlowIndex index, double rate, std::uint32_t bottleneck) {
    Flow& flow = flows_[index];
    flow.new_rate = rate;
    flow.new_owner = bottleneck;
    for (std::size_t i = 0; i < flow.count; ++i) {
      Link& crossed = links_[link_of(index, i)];
      crossed.left -= rate;
      crossed.used_after += rate;
      crossed.moved += static_cast<float>(std::abs(rate - flow.rate));
      crossed.unfrozen -= flow.weight;
    }
  };
  constexpr std::size_t kFew = 16;
  const bool is_heap_worth_it = levels_.size() > kFew;
  const std::size_t count = region_flows_.size() + region_crowds_.size();
  std::size_t frozen = 0;
  for (int taken = 0; frozen < count && !levels_.empty(); ++taken) {
    // Most often the lowest level is that of all flows, so a heap is made only when a second one is needed.
    if (taken == 0 || !is_heap_worth_it)
      std::iter_swap(std::min_element(levels_.begin(), levels_.end(),
                                      [&](const Level& a, const Level& b) { return is_higher(b, a); }),
                     levels_.end() - 1);
    else if (taken == 1)
      std::make_heap(levels_.begin(), levels_.end(), is_higher);
    if (taken > 0 && is_heap_worth_it) std::pop_heap(levels_.begin(), levels_.end(), is_higher);
    const Level level = levels_.back();
    levels_.pop_back();
    if (level.order >= kFlow) {
      const auto flow = static_cast<FlowIndex>(level.order);
      if (flows_[flow].new_rate >= 0) continue;
      freeze(flow, rests_[flow].cap, kNone);
      ++frozen;
      continue;
    }
    const std::uint32_t slot = slots_[level.order];
    Link& link = links_[slot];
    if (link.unfrozen == 0) continue;
    const double share = std::max(link.left, 0.0) / link.unfrozen;
    if (share > level.share) {  // flows frozen since then left more for the others
      levels_.push_back({share, level.order});
      if (taken > 0 && is_heap_worth_it) std::push_heap(levels_.begin(), levels_.end(), is_higher);
      continue;
    }
    link.limits = true;
    if (link.is_in_region && link.crowd != kNone) {
      Crowd& crowd = crowds_[link.crowd];
      crowd.new_share = share;
      link.left -= share * static_cast<double>(crowd.weight);
      link.unfrozen -= crowd.weight;
      ++frozen;
    }
    for_each_flow(flows_, link.members, flow_of, [&](FlowIndex index) {
      const Flow& flow = flows_[index];
      if (flow.mark != mark_ || flow.new_rate >= 0) return;
      freeze(index, share * flow.weight, slot);
      ++frozen;
    });
  }
}

/// Takes in links outside the region on which a flow outside may have won or lost its bottleneck.
bool MaxMinFlows::grow_region() {
  bool has_grown = false;
  const std::size_t count = touched_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t l = touched_[i];
    const Link& link = links_[l];
    if (link.is_in_region) continue;
    if (link.crossing == link.weight) continue;
    // That the sum is the same says nothing: one flow may have what another one had, and more than those that wait here.
    if (link.limits || (link.is_bottleneck && static_cast<double>(link.moved) > kRounding * link.capacity)) {
      take_into_region(l);
      has_grown = true;
    }
  }
  return has_grown;
}

void MaxMinFlows::commit(double now) {
  for (const std::uint32_t l : region_) links_[l].next = links_[l].second = kNever;
  for_each_flow(flows_, region_flows_, std::identity{}, [&](FlowIndex index) {
    Flow& flow = flows_[index];
    const std::uint32_t owner = flow.new_owner != kNone ? flow.new_owner : flow.links[0];
    if (owner != flow.owner) {
      if (flow.owner != kNone) links_[flow.owner].rescan = true;
      links_[owner].rescan = true;
      flow.owner = owner;
    }
    if (flow.new_rate != flow.rate) {
      links_[owner].rescan = true;
      const double left = flow.rate > 0 ? std::max(0.0, flow.finish - now) * flow.rate : flow.finish;
      flow.rate = flow.new_rate;
      flow.finish = flow.rate > 0 ? now + left / flow.rate : left;
    }
    if (Link& link = links_[owner]; link.is_in_region) note_completion(link, index);
  });
  for (const std::uint32_t l : touched_) {
    Link& link = links_[l];
    const float by_crowd = link.crowd != kNone ? crowds_[link.crowd].weight : 0;
    const bool has_others = link.crossing + (link.is_in_region ? by_crowd : 0) != link.weight;
    link.used = link.crossing != link.weight - link.crowded - by_crowd
                    ? link.used + (link.used_after - link.used_before)
                    : link.used_after;
    if (!has_others) link.is_bottleneck = link.limits;
    if (link.crowded > 0) tell_room(l);
    if (link.is_watched) mark_changed(l);
    if (link.is_in_region) {
      link.is_unlisted = false;
      if (link.crowd != kNone) commit(crowds_[link.crowd], now);
      set_next(l);
    } else if (link.rescan) {
      mark_unlisted(l);
    }
  }
  for (const std::uint32_t crowd : region_crowds_)
    if (crowds_[crowd].share > crowds_[crowd].most)
      mark_dirty(crowds_[crowd].link);  // other links have changed with it
  for (const std::uint32_t l : touched_)
    if (links_[l].limits && links_[l].members.size() >= crowd_rule_.flows) gather(l, now);
}

}  // namespace rehearse
