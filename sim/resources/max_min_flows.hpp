#pragma once
// Flows that share links max-min fairly: the arithmetic of the network, without a clock of its own.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/resources/earliest_date.hpp"

namespace rehearse {

/// A set of flows over links is max-min fair if no flow can gain rate without taking it from one that has no more:
/// every flow has a bottleneck, a saturated link (or its own cap) on which no flow is faster. Flows with weights are
/// compared by rate / weight.
/// Source: Bertsekas and Gallager, Data Networks, section 6.5.2 (progressive filling).
///
/// Starting or ending a flow changes rates only where bottlenecks change, so only that region is solved again: the flow
/// or the links that were its bottleneck, and as many others as it takes until every flow has a bottleneck once more.
/// As the max-min fair allocation is unique, the result is that of solving everything.
///
/// Many flows that wait for one link, and for no other, are a crowd of it: each gets the same share by weight, so that one date and
/// one amount of bytes say how far all of them are, and to the others the crowd is one more flow of that link. A flow leaves it when
/// another link that it crosses is, or could become, a bottleneck. So what is solved when one of a thousand flows ends is as much
/// as there are flows outside of crowds.
/// Source: virtual time of generalized processor sharing (Parekh and Gallager, IEEE/ACM Transactions on Networking, 1993).
///
/// Rates are in bytes per second, dates in seconds; raw doubles, as everything here is arithmetic.
class MaxMinFlows {
 public:
  using FlowIndex = std::uint32_t;
  static constexpr double kNever = EarliestDate::kNever;
  static constexpr FlowIndex kNone = std::numeric_limits<FlowIndex>::max();
  static constexpr std::size_t kMaxLinks = 40;

  /// When flows of a link become its crowd: as many as `flows`, every so many `solves` that change their rates.
  struct CrowdRule {
    std::size_t flows = 64;
    std::uint32_t solves = 8;
  };

  /// [links] capacities, above 0. A link takes 12 bytes until a flow crosses it.
  explicit MaxMinFlows(std::vector<double> capacities) : MaxMinFlows{std::move(capacities), CrowdRule{}} {}
  MaxMinFlows(std::vector<double> capacities, CrowdRule crowds);

  /// Weights are multiples of this, and at most 1 / kLeastWeight: their sums are exact.
  static constexpr double kLeastWeight = 1.0 / 16;

  /// Starts a flow over `links`, without repetition and at most kMaxLinks, of `bytes` > 0; `cap` limits this flow alone
  /// and is finite if there is no link. A flow of twice the `weight` gets twice as much of a link that both wait for; it is
  /// rounded to what is possible. The index may be that of an earlier flow that has ended.
  /// `predecessor`: a flow over the same links that has ended, or none. If it did so at this date, and was as this one is, this one
  /// goes on at its rate, and nothing has to be solved.
  FlowIndex start(std::span<const int> links, double bytes, double cap, double weight = 1,
                  FlowIndex predecessor = kNone);
  void cancel(FlowIndex flow);
  /// So many will be live at a time.
  void reserve(std::size_t flows) {
    flows_.reserve(flows);
    rests_.reserve(flows);
  }
  void set_capacity(int link, double capacity);

  /// The date of the next completion, kNever if there is none. Comes between what changes the flows and
  /// pop_completed().
  double next_completion(double now);
  /// Ends the flows that are due by `now` and appends them, in the order in which they were started.
  void pop_completed(double now, std::vector<FlowIndex>& completed);

  /// Valid after next_completion(), as all that follows.
  double rate(FlowIndex index) const {
    const Flow& flow = flows_[index];
    return flow.is_crowded ? crowd_of(flow).share * static_cast<double>(flow.weight) : flow.rate;
  }
  /// From now on take_changed() names the link once the sum of the rates over it may have changed.
  void watch(int link) { links_[slot_of(link)].is_watched = true; }
  /// Watched links whose sum may have changed since the last call.
  std::span<const std::uint32_t> take_changed() {
    last_changed_.swap(changed_);
    changed_.clear();
    for (std::uint32_t& link : last_changed_) {
      links_[link].has_changed = false;
      link = links_[link].number;
    }
    return last_changed_;
  }
  /// Sum of the rates of the flows that cross the link.
  double used(std::uint32_t link) const { return slots_[link] == kNone ? 0 : sum_over(slots_[link]); }
  /// Whether no flow crosses the link.
  bool is_idle(int link) const {
    const std::uint32_t slot = slots_[static_cast<std::size_t>(link)];
    return slot == kNone || links_[slot].weight == 0 ||
           (links_[slot].crowd == kNone &&
            std::ranges::all_of(links_[slot].members, [this](const Member& m) { return flows_[m.flow].is_vacant; }));
  }
  double capacity(int link) const { return capacities_[static_cast<std::size_t>(link)]; }
  std::size_t live() const { return live_; }
  std::size_t crowds() const { return crowds_.size() - free_crowds_.size(); }

 private:
  static constexpr std::size_t kNearLinks = 5;

  /// What a solve looks at: one cache line.
  struct alignas(64) Flow {
    double rate = 0;
    double new_rate = 0;     // during a solve; negative: not frozen yet
    double finish = kNever;  // date; while the rate is 0: the bytes to carry; in a crowd: `served` of it at the end
    std::uint32_t mark = 0;  // of the solve that last looked at it
    std::uint32_t owner = kNone;  // the link that lists this flow's completion: its bottleneck if it has one
    std::uint32_t new_owner = kNone;
    std::uint8_t count = 0;  // of links
    bool is_live : 1 = false;
    bool is_capped : 1 = false;
    bool is_crowded : 1 = false;  // in the crowd of its owner
    bool is_vacant : 1 = false;   // it has ended, and its place is there for one that follows it
    float weight = 1;
    std::array<std::uint32_t, kNearLinks> links{};  // the others are in Far
  };
  /// Of links behind the first kNearLinks, which few flows have.
  struct Far {
    std::array<std::uint32_t, kMaxLinks - kNearLinks> links{}, position{};
  };
  struct Rest {
    double cap = kNever;
    std::uint64_t sequence = 0;
    std::array<std::uint32_t, kNearLinks> position{};  // in each link's list, or in its crowd's
    std::unique_ptr<Far> far;                          // once a flow of this index had so many links
  };
  struct Member {
    FlowIndex flow;
    std::uint32_t slot;  // which of the flow's links this is
  };
  static constexpr auto flow_of = [](const Member& member) { return member.flow; };
  /// The first cache line is all that a solve needs of a link outside of the region.
  struct alignas(64) Link {
    double capacity = 0;
    double used = 0;                         // sum of the rates of its flows that are in no crowd
    double left = 0;                         // during a solve, as all up to `rescan`
    double used_before = 0, used_after = 0;  // by the flows of the region
    std::uint32_t mark = 0;
    float crossing = 0;  // weight of the flows of the region
    float unfrozen = 0;  // of those that have no new rate
    float weight = 0;    // of all its flows
    float moved = 0;     // sum of how far the rates of the region's flows have moved
    bool is_in_region : 1 = false;
    bool limits : 1 = false;  // bottleneck of a flow of the region
    bool rescan : 1 = false;
    bool is_bottleneck : 1 = false;  // of at least one flow
    bool is_dirty : 1 = false;
    bool is_unlisted : 1 = false;
    bool is_watched : 1 = false;
    bool has_changed : 1 = false;
    FlowIndex first = 0;          // of the flows that it owns, that which completes first
    double next = kNever;         // when that is
    double second = kNever;       // when the second one completes
    std::vector<Member> members;  // without those of its crowd
    std::uint32_t crowd = kNone;
    std::uint32_t number = 0;        // of the link, as those outside know it
    float crowded = 0;               // weight of members that are in the crowd of another link
    double room = kNever;            // the share that those crowds know they may have here
    std::uint32_t solves_left = 0;   // until it is seen whether members may be a crowd
    std::uint32_t solves_asked = 0;  // the last time; more after each that gave little

    /// A member leaves the crowd of another link.
    void leave(float its_weight) {
      crowded -= its_weight;
      if (crowded == 0) room = kNever;
    }
  };
  /// Flows that have one link as their only bottleneck.
  struct Crowd {
    struct End {
      double served;
      std::uint64_t sequence;
      FlowIndex flow;
    };
    std::uint32_t link = kNone;
    float weight = 0;              // of all members
    double share = 0;              // rate of a flow by its weight
    double new_share = 0;          // during a solve; negative: not known yet
    double served = 0;             // bytes by weight at `since`, from when it began
    double since = 0;              // date
    double most = kNever;          // no member has another bottleneck while `share` is at most this
    bool crosses_watched = false;  // another link of a member is watched
    std::vector<Member> members;
    std::vector<End> ends;  // heap; members that have left are still in it
  };
  struct Level {
    double share;
    std::uint64_t order;  // of equal shares: a link's number, and after all links, flows with their own cap
  };

  std::uint32_t link_of(FlowIndex flow, std::size_t i) const {
    return i < kNearLinks ? flows_[flow].links[i] : rests_[flow].far->links[i - kNearLinks];
  }
  std::uint32_t& position_of(FlowIndex flow, std::size_t i) {
    return i < kNearLinks ? rests_[flow].position[i] : rests_[flow].far->position[i - kNearLinks];
  }
  /// Where the link of this number is in links_, from now on.
  std::uint32_t slot_of(int link);
  double sum_over(std::uint32_t link) const;
  void mark_dirty(std::uint32_t link);
  void mark_changed(std::uint32_t link);
  void mark_unlisted(std::uint32_t link);
  void remove(FlowIndex flow);
  /// Of a flow that has ended: its place stays until the next date.
  void vacate(FlowIndex flow);
  bool take_over(FlowIndex place, double bytes, double cap, float weight);
  void clear_vacant();
  void solve(double now);
  Link& touch(std::uint32_t link);
  void take_flow(FlowIndex flow);
  void take_into_region(std::uint32_t link);
  void fill();
  bool grow_region();
  void commit(double now);
  void list_completions(std::uint32_t link);
  void note_completion(Link& link, FlowIndex flow);
  /// The next completion of what the link has listed and of its crowd.
  void set_next(std::uint32_t link);

  // Crowds: max_min_crowds.cpp.
  const Crowd& crowd_of(const Flow& flow) const { return crowds_[links_[flow.owner].crowd]; }
  Crowd& crowd_of(const Flow& flow) { return crowds_[links_[flow.owner].crowd]; }
  static bool ends_after(const Crowd::End& a, const Crowd::End& b) {
    return a.served != b.served ? a.served > b.served : a.sequence > b.sequence;
  }
  /// The members of the link that are, and whose other links are no bottlenecks, become its crowd if they are enough.
  void gather(std::uint32_t link, double now);
  /// Whether nothing but the link holds the flow back at `share`, and a bit more.
  bool may_be_crowded(std::uint32_t link, FlowIndex flow, double share) const;
  bool limits_crowd(const Link& link, double room) const;
  static double room_of(const Link& link, float more, double less);
  /// Of a flow that was started; false: it has another bottleneck, or none has a crowd.
  bool join_crowd(FlowIndex flow, double now);
  void add_to_crowd(Crowd& crowd, FlowIndex flow, double served);
  /// It is as all others from now on, at the rate that it has.
  void expel(FlowIndex flow, double now);
  /// Takes flows out of the region's crowds that another link would hold back at their new share, and into the region.
  bool expel_limited();
  /// The share that a member may have before another link holds it back.
  double most_of(FlowIndex flow) const;
  /// Tells crowds of other links what share they may have of this one.
  void tell_room(std::uint32_t link);
  void commit(Crowd& crowd, double now);
  void pop_crowded(Crowd& crowd, double until, std::vector<FlowIndex>& completed);
  /// The date of the first end of a member.
  double next_end(Crowd& crowd) const;
  static double date_of(const Crowd& crowd, double served) {
    return crowd.since + std::max(0.0, served - crowd.served) / crowd.share;
  }
  static void advance(Crowd& crowd, double now) {
    crowd.served += crowd.share * (now - crowd.since);
    crowd.since = now;
  }
  /// Takes entry `position` of a list away, by the last one.
  void take_from(std::vector<Member>& list, std::uint32_t position);
  void add_to(std::vector<Member>& list, Member member);

  std::vector<double> capacities_;    // [numbers]
  std::vector<std::uint32_t> slots_;  // [numbers] index in links_; kNone: no flow has crossed it
  std::vector<Link> links_;           // that a flow has crossed, or somebody watches: what follows means these
  std::vector<Flow> flows_;
  std::vector<Rest> rests_;  // [flows]
  std::vector<FlowIndex> free_;
  std::vector<std::uint32_t> dirty_;     // links whose capacity, or whose bottlenecked flows, have changed
  std::vector<FlowIndex> started_;       // since the last solve
  std::vector<FlowIndex> vacant_;        // ended since then; some of their places have been taken over
  double vacated_at_ = 0;                // date
  std::vector<std::uint32_t> unlisted_;  // links whose next completions have to be found anew
  std::vector<std::uint32_t> changed_, last_changed_;  // watched links whose `used` may have changed
  EarliestDate next_;                                  // [links] their next completions
  std::size_t live_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::uint32_t mark_ = 0;
  std::vector<std::uint32_t> region_;    // links solved
  std::vector<std::uint32_t> touched_;   // region_ and the other links of its flows
  std::vector<FlowIndex> region_flows_;  // flows that cross region_
  std::vector<FlowIndex> capped_;        // those of them that have a cap
  std::vector<Level> levels_;            // heap
  CrowdRule crowd_rule_;
  double solved_at_ = 0;  // date of the current solve
  std::vector<Crowd> crowds_;
  std::vector<std::uint32_t> free_crowds_, region_crowds_;
  std::vector<FlowIndex> limited_;  // members that another link holds back by now; they leave in the next solve
};

}  // namespace rehearse
