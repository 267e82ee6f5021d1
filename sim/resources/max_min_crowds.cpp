// Crowds of flows that wait for one link: max_min_flows.hpp.

#include <algorithm>
#include <cmath>

#include "sim/resources/max_min_flows.hpp"

namespace rehearse {

namespace {
/// A flow is in a crowd as long as no other link holds it back at so many times its share: shares move.
constexpr double kSlack = 1.25;
}  // namespace

double MaxMinFlows::next_end(Crowd& crowd) const {
  const auto has_left = [this, &crowd](const Crowd::End& end) {
    const Flow& flow = flows_[end.flow];
    return !flow.is_crowded || flow.owner != crowd.link || flow.finish != end.served ||
           rests_[end.flow].sequence != end.sequence;
  };
  while (!crowd.ends.empty() && has_left(crowd.ends.front())) {
    std::pop_heap(crowd.ends.begin(), crowd.ends.end(), ends_after);
    crowd.ends.pop_back();
  }
  return crowd.ends.empty() ? kNever : date_of(crowd, crowd.ends.front().served);
}

void MaxMinFlows::pop_crowded(Crowd& crowd, double until, std::vector<FlowIndex>& completed) {
  while (next_end(crowd) <= until) {
    completed.push_back(crowd.ends.front().flow);
    remove(completed.back());  // before the next look: who has left and come again is in `ends` twice
  }
}

/// Of a link with `more` weight in crowds and `less` used by others. Said for up to twice the weight, so that not every flow that
/// comes lowers it.
double MaxMinFlows::room_of(const Link& link, float more, double less) {
  const double weight = std::exp2(std::ceil(std::log2(static_cast<double>(link.crowded + more))));
  return std::max(0.0, link.capacity - link.used + less) / weight;
}

void MaxMinFlows::tell_room(std::uint32_t index) {
  Link& link = links_[index];
  const double room = room_of(link, 0, 0);
  if (room >= link.room) return;
  link.room = room;
  for (const Member& member : link.members) {
    if (!flows_[member.flow].is_crowded) continue;
    Crowd& crowd = crowd_of(flows_[member.flow]);
    if (room >= crowd.share) {
      crowd.most = std::min(crowd.most, room);
      continue;
    }
    limited_.push_back(member.flow);
    mark_dirty(crowd.link);
  }
}

double MaxMinFlows::most_of(FlowIndex index) const {
  const Flow& flow = flows_[index];
  double most = flow.is_capped ? rests_[index].cap / static_cast<double>(flow.weight) : kNever;
  for (std::size_t i = 0; i < flow.count; ++i)
    if (const std::uint32_t link = link_of(index, i); link != flow.owner) most = std::min(most, links_[link].room);
  return most;
}

bool MaxMinFlows::may_be_crowded(std::uint32_t index, FlowIndex member, double share) const {
  const Flow& flow = flows_[member];
  if (flow.is_capped && rests_[member].cap < kSlack * share * static_cast<double>(flow.weight)) return false;
  for (std::size_t i = 0; i < flow.count; ++i) {
    const std::uint32_t number = link_of(member, i);
    const Link& link = links_[number];
    if (number == index) continue;
    const double room = room_of(link, flow.weight, flow.rate);
    if (link.is_bottleneck || link.crowd != kNone || room < kSlack * share || limits_crowd(link, room)) return false;
  }
  return true;
}

/// Whether the link, with so much room, holds back a member of a crowd: two crowds would expel each other's members in turn.
bool MaxMinFlows::limits_crowd(const Link& link, double room) const {
  return room < link.room && link.crowded > 0 && std::ranges::any_of(link.members, [&](const Member& member) {
           const Flow& flow = flows_[member.flow];
           return flow.is_crowded && crowd_of(flow).share > room;
         });
}

/// The flow is in the lists of its links, as any other.
void MaxMinFlows::add_to_crowd(Crowd& crowd, FlowIndex index, double served) {
  Flow& flow = flows_[index];
  flow.owner = crowd.link;
  flow.is_crowded = true;
  flow.rate = 0;
  flow.finish = served;
  crowd.weight += flow.weight;
  crowd.ends.push_back({served, rests_[index].sequence, index});
  std::push_heap(crowd.ends.begin(), crowd.ends.end(), ends_after);
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const std::uint32_t number = link_of(index, i);
    Link& link = links_[number];
    if (number == crowd.link) {
      take_from(link.members, position_of(index, i));
      add_to(crowd.members, {index, i});
      continue;
    }
    link.crowded += flow.weight;
    tell_room(number);
    crowd.crosses_watched = crowd.crosses_watched || link.is_watched;
  }
  crowd.most = std::min(crowd.most, most_of(index));
}

bool MaxMinFlows::join_crowd(FlowIndex index, double now) {
  const Flow& flow = flows_[index];
  if (!flow.is_live) return false;
  for (std::size_t i = 0; i < flow.count; ++i) {
    const std::uint32_t number = link_of(index, i);
    if (links_[number].crowd == kNone) continue;
    Crowd& crowd = crowds_[links_[number].crowd];
    if (!may_be_crowded(number, index, crowd.share)) return false;
    advance(crowd, now);
    add_to_crowd(crowd, index, crowd.served + flow.finish / static_cast<double>(flow.weight));
    mark_dirty(number);
    return true;
  }
  return false;
}

void MaxMinFlows::gather(std::uint32_t index, double now) {
  Link& link = links_[index];
  if (link.solves_left > 0) {
    --link.solves_left;
    return;
  }
  constexpr double kSame = 1 - 1e-9;
  std::vector<FlowIndex> those;  // for which the link is the bottleneck
  double share = 0;
  const auto share_of = [this](FlowIndex flow) { return flows_[flow].rate / static_cast<double>(flows_[flow].weight); };
  for (const Member& member : link.members)
    if (flows_[member.flow].owner == index) share = std::max(share, share_of(member.flow));
  for (const Member& member : link.members)
    if (flows_[member.flow].owner == index && share_of(member.flow) >= share * kSame &&
        may_be_crowded(index, member.flow, share))
      those.push_back(member.flow);
  constexpr std::uint32_t kMostSolves = 1U << 12U;
  const bool is_worth_it = those.size() >= crowd_rule_.flows;
  link.solves_asked = is_worth_it ? crowd_rule_.solves : std::min(2 * link.solves_asked + 1, kMostSolves);
  link.solves_left = link.solves_asked;
  if (!is_worth_it) return;
  if (link.crowd == kNone) {
    if (free_crowds_.empty()) {
      free_crowds_.push_back(static_cast<std::uint32_t>(crowds_.size()));
      crowds_.emplace_back();
    }
    link.crowd = free_crowds_.back();
    free_crowds_.pop_back();
    crowds_[link.crowd] = {.link = index, .share = share, .since = now, .members = {}, .ends = {}};
  }
  Crowd& crowd = crowds_[link.crowd];
  advance(crowd, now);
  for (const FlowIndex member : those) {
    if (!may_be_crowded(index, member, share)) continue;  // others, which have become members, leave too little room
    const Flow& flow = flows_[member];
    const double rate = flow.rate, left = std::max(0.0, flow.finish - now) * rate;
    for (std::size_t i = 0; i < flow.count; ++i) {
      Link& crossed = links_[link_of(member, i)];
      crossed.used = std::max(0.0, crossed.used - rate);
    }
    add_to_crowd(crowd, member, crowd.served + left / static_cast<double>(flow.weight));
  }
  list_completions(index);
}

void MaxMinFlows::expel(FlowIndex index, double now) {
  Flow& flow = flows_[index];
  Crowd& crowd = crowd_of(flow);
  advance(crowd, now);
  flow.is_crowded = false;
  flow.rate = crowd.share * static_cast<double>(flow.weight);
  flow.finish = now + std::max(0.0, flow.finish - crowd.served) / crowd.share;
  crowd.weight -= flow.weight;
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const std::uint32_t number = link_of(index, i);
    Link& link = links_[number];
    link.used += flow.rate;
    if (number == crowd.link) {
      take_from(crowd.members, position_of(index, i));
      add_to(link.members, {index, i});
    } else {
      link.leave(flow.weight);
    }
  }
  mark_unlisted(crowd.link);
}

bool MaxMinFlows::expel_limited() {
  bool has_expelled = false;
  for (const std::uint32_t number : region_crowds_) {
    Crowd& crowd = crowds_[number];
    if (crowd.weight == 0 || crowd.new_share <= crowd.most) continue;
    std::vector<FlowIndex> those;
    crowd.most = kNever;
    for (const Member& member : crowd.members)
      if (const double most = most_of(member.flow); most < crowd.new_share * kSlack)
        those.push_back(member.flow);
      else
        crowd.most = std::min(crowd.most, most);
    for (const FlowIndex flow : those) take_flow(flow);
    has_expelled = has_expelled || !those.empty();
  }
  return has_expelled;
}

void MaxMinFlows::commit(Crowd& crowd, double now) {
  Link& link = links_[crowd.link];
  if (crowd.members.empty()) {
    free_crowds_.push_back(std::exchange(link.crowd, kNone));
    crowd = {};
    return;
  }
  advance(crowd, now);
  crowd.share = crowd.new_share;
  if (!crowd.crosses_watched) return;
  for (const Member& member : crowd.members)
    for (std::size_t i = 0; i < flows_[member.flow].count; ++i)
      if (const std::uint32_t other = link_of(member.flow, i); links_[other].is_watched) mark_changed(other);
}

}  // namespace rehearse
