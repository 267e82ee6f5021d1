#include "sim/resources/tcp_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rehearse {

namespace {

constexpr double kCubicC = 0.4;  // RFC 8312, section 5, segments / s^3
constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kAcksBeforeKnown = 2;  // that come before a loss is, on average of segments sent apart and together
constexpr double kHeldBack = 1;         // duplicate ACKs that the receiver still holds back when the gap is filled
constexpr double kSlowStart = 4 * 2 / 1.2;  // windows grow to twice what waits, paced twice instead of 1.2 times
constexpr double kBeyondQueue = 4;       // segments let into the queue by each look at it, and on their way. From the
                                         // windows that a kernel states at 2 % of loss: 6.5 and 9 at 100 and 200 Mbit/s
constexpr double kLeastWindow = 2;       // after a loss: RFC 5681, section 3.1
constexpr double kLargestTimeout = 120;  // seconds. Linux: TCP_RTO_MAX

double decrease_of(CongestionControl congestion) { return congestion == CongestionControl::kCubic ? 0.7 : 0.5; }
/// In whole segments, as senders count.
double reduced(CongestionControl congestion, double window) {
  return std::max(kLeastWindow, std::floor(decrease_of(congestion) * std::floor(window)));
}
/// Segments in a round trip with the mean window of Reno: 3 (1 - b) / (1 + b), RFC 8312, section 4.2.
double increase_of(CongestionControl congestion) {
  const double b = decrease_of(congestion);
  return 3 * (1 - b) / (1 + b);
}

}  // namespace

Seconds delay_of_lone_packet(const TcpParameters& parameters, const LossyPath& path, Rng& random, LossCounts& losses) {
  Seconds delay{};
  if (random.uniform() >= path.loss) return delay;
  if (parameters.recovery == LossRecovery::kRack) {
    delay += path.round_trip * 2 + parameters.minimum_timeout;
    ++losses.probes;
    ++losses.late_probes;
    if (random.uniform() >= path.loss) return delay;
  }
  Seconds timeout = path.round_trip + parameters.minimum_timeout;
  do {
    delay += timeout;
    timeout = std::min(timeout * 2, std::max(timeout, Seconds{kLargestTimeout}));
    ++losses.timeouts;
  } while (random.uniform() < path.loss);
  return delay;
}

TcpSender::TcpSender(const TcpParameters& parameters, const LossyPath& path, Rng random)
    : parameters_{parameters},
      loss_{path.loss},
      round_trip_{path.round_trip.value()},
      per_second_{path.rate.value() / as_double(parameters.segment)},
      random_{random},
      gap_{next_gap()},
      window_{std::max<double>(parameters.initial_window,
                               std::ceil(per_second_ * (round_trip_ + kSlowStart * parameters.small_queue.value())))},
      threshold_{window_} {}

TcpTransfer TcpSender::send(std::int64_t segments, const TcpSurroundings& surroundings) {
  TcpTransfer transfer{.segments = segments};
  surroundings_ = surroundings;
  new_left_ = segments;
  arrived_in_turn_ = 0;
  recovery_point_ = std::min(recovery_point_, sent_);  // all that was sent before has arrived
  while (new_left_ + known_lost_ > 0 || !missing_.empty()) {
    if (new_left_ + known_lost_ > 0) send_flight(transfer);
    const bool has_sent_all = new_left_ + known_lost_ == 0;
    if (has_sent_all ? !missing_.empty() : !has_acks_) recover_tail(transfer);
  }
  backoff_ = 0;
  return transfer;
}

/// Of a segment that is sent now, and its ACK.
double TcpSender::round_trip(const TcpTransfer& transfer) const {
  const Seconds left = surroundings_.opposing - transfer.sending - transfer.waiting;
  return round_trip_ + std::clamp(left, Seconds{}, surroundings_.opposing_queue).value();
}

/// All of a flight: every second segment has one, each of them where something is missing.
bool TcpSender::are_acks_lost(std::int64_t arrived) {
  const std::int64_t acks = missing_.empty() && !is_recovering() ? (arrived + 1) / 2 : arrived;
  return acks == 0 || random_.uniform() < std::pow(loss_, static_cast<double>(acks));
}

/// Geometric: floor(ln(1 - u) / ln(1 - p)).
std::int64_t TcpSender::next_gap() {
  constexpr std::int64_t kNoMore = std::numeric_limits<std::int64_t>::max();
  if (loss_ == 0) return kNoMore;
  const double gap = std::floor(std::log1p(-random_.uniform()) / std::log1p(-loss_));
  return gap < 1e18 ? static_cast<std::int64_t>(gap) : kNoMore;
}

bool TcpSender::is_next_lost() {
  if (gap_ > 0) {
    --gap_;
    return false;
  }
  gap_ = next_gap();
  return true;
}

/// Sends a flight, the first of it once more; how many arrive.
std::int64_t TcpSender::send_some(std::int64_t count, std::int64_t retransmissions) {
  const std::int64_t arrived_before = arrived_, end = sent_ + count;
  const std::int64_t first_new = sent_ + retransmissions;
  if (retransmissions > 0) arrived_in_turn_ = -retransmissions;
  while (gap_ < end - sent_) {
    sent_ += gap_;
    arrived_ += gap_;
    arrived_in_turn_ = missing_.empty() ? arrived_in_turn_ + gap_ : gap_;
    missing_.push_back({.sent_at = sent_, .arrived_before = arrived_, .is_retransmission = sent_ < first_new});
    ++sent_;
    gap_ = next_gap();
  }
  gap_ -= end - sent_;
  arrived_ += end - sent_;
  if (missing_.empty())
    arrived_in_turn_ += end - sent_;
  else if (end > sent_)
    arrived_in_turn_ = 0;  // after a gap
  sent_ = end;
  return arrived_ - arrived_before;
}

void TcpSender::send_flight(TcpTransfer& transfer) {
  const auto window =
      static_cast<std::int64_t>(std::min(std::max(1.0, window_), std::exchange(recovery_flight_, kUnlimited)));
  std::int64_t flight = std::min(new_left_ + known_lost_, window);
  const std::int64_t retransmissions = std::min(flight, known_lost_);
  const bool is_alone = std::exchange(is_retransmission_alone_, false) && gap_ >= retransmissions;
  if (is_alone && retransmissions > 0) flight = retransmissions;
  known_lost_ -= retransmissions;
  new_left_ -= flight - retransmissions;
  transfer.retransmitted += retransmissions;
  const double round_trip = this->round_trip(transfer);
  const bool is_full = window_ + 1 > per_second_ * round_trip, has_more = new_left_ + known_lost_ > 0;
  const bool was_recovering = is_recovering(), may_grow = !was_recovering && flight == window;
  const std::int64_t arrived = send_some(flight, retransmissions);
  has_acks_ = !are_acks_lost(arrived);
  if (has_acks_) backoff_ = 0;
  const double on_wire = static_cast<double>(flight) / per_second_, round = std::max(on_wire, round_trip);
  transfer.sending += Seconds{has_more && !is_full ? round : on_wire};
  unacknowledged_ = has_acks_ ? static_cast<std::int64_t>(missing_.size()) : flight;
  if (!has_acks_) return;
  const std::int64_t episodes = transfer.fast_retransmits;
  const std::optional<Missing> last = find_losses(transfer);
  if (may_grow && transfer.fast_retransmits == episodes) {
    const double queue = parameters_.small_queue.value();
    grow(arrived, is_full ? on_wire : round,
         queue > 0 ? kBeyondQueue + per_second_ * (round_trip + queue) : kUnlimited);
  }
  if (has_more || !last) return;
  // Only retransmissions are left: they wait for the ACKs that tell of the last loss.
  const double after = static_cast<double>(sent_ - last->sent_at - 1) / per_second_;
  double wait = std::max(0.0, this->round_trip(transfer) - after);
  const bool is_reordering_possible = parameters_.recovery == LossRecovery::kRack && !was_recovering &&
                                      arrived_ - last->arrived_before < parameters_.duplicate_acks;
  if (is_reordering_possible) wait += round_trip_ / 4 + parameters_.timer_granularity.value();
  transfer.waiting += Seconds{wait};
}

/// Takes those out of what is missing that ACKs tell of; the last of them.
std::optional<TcpSender::Missing> TcpSender::find_losses(TcpTransfer& transfer) {
  const bool is_rack = parameters_.recovery == LossRecovery::kRack;
  const std::int64_t needed = is_rack ? 1 : parameters_.duplicate_acks;
  std::optional<Missing> last;
  std::erase_if(missing_, [&](const Missing& missing) {
    if (arrived_ - missing.arrived_before < needed || (missing.is_retransmission && !is_rack)) return false;
    ++known_lost_;
    shrink(missing, transfer);
    last = missing;
    return true;
  });
  return last;
}

/// Nothing is to be sent, or no ACK comes that would let it: of what is missing either other data or a timer tell.
void TcpSender::recover_tail(TcpTransfer& transfer) {
  if (has_acks_) transfer.waiting += Seconds{round_trip(transfer)};  // until the last ACK
  const bool is_rack = parameters_.recovery == LossRecovery::kRack;
  const bool has_sent_all = new_left_ + known_lost_ == 0;
  if (surroundings_.is_followed && has_sent_all && static_cast<double>(missing_.size()) < window_) {
    if (!has_acks_) transfer.waiting += Seconds{round_trip(transfer)};  // until that of what follows
    std::erase_if(missing_, [&](const Missing& missing) {
      if (missing.is_retransmission && !is_rack) return false;
      ++known_lost_;
      shrink(missing, transfer);
      return true;
    });
    if (missing_.empty()) return;
  }
  const bool is_recovering =
      this->is_recovering() || std::any_of(missing_.begin(), missing_.end(), [this](const Missing& missing) {
        return missing.is_retransmission || missing.sent_at < recovery_point_;
      });
  if (is_rack && !is_recovering && backoff_ == 0)
    probe(transfer);
  else
    time_out(transfer);
}

/// The last segment once more: if it arrives the others are known to be lost, a round trip later.
void TcpSender::probe(TcpTransfer& transfer) {
  const Seconds round_trip{this->round_trip(transfer)};
  const bool is_ack_delayed = arrived_in_turn_ > 0 && random_.uniform() < 0.5;
  if (unacknowledged_ == 1 && !is_ack_delayed) {
    ++transfer.late_probes;
    transfer.waiting += round_trip + parameters_.minimum_timeout;
  } else {
    transfer.waiting += round_trip * 2 + parameters_.timer_granularity;
  }
  ++transfer.probes;
  ++transfer.retransmitted;
  ++sent_;
  if (is_next_lost()) return time_out(transfer);
  if (missing_.empty()) return;  // the ACKs were lost
  ++arrived_;
  shrink(missing_.back(), transfer);
  missing_.pop_back();
  if (find_losses(transfer)) transfer.waiting += Seconds{this->round_trip(transfer)};
}

void TcpSender::time_out(TcpTransfer& transfer) {
  constexpr int kMostDoublings = 30;
  const double timeout = parameters_.minimum_timeout.value() + round_trip(transfer);
  transfer.waiting +=
      Seconds{std::max(timeout, std::min(kLargestTimeout, std::ldexp(timeout, std::min(backoff_, kMostDoublings))))};
  ++transfer.timeouts;
  if (backoff_++ == 0) threshold_ = reduced(parameters_.congestion, window_);
  most_ = friendly_ = threshold_;
  since_loss_ = 0;
  window_ = 1;
  recovery_flight_ = kUnlimited;
  recovery_point_ = sent_;
  known_lost_ += static_cast<std::int64_t>(missing_.size());
  missing_.clear();
}

void TcpSender::shrink(const Missing& missing, TcpTransfer& transfer) {
  if (missing.sent_at < recovery_point_) return;
  recovery_point_ = missing.sent_at + static_cast<std::int64_t>(std::ceil(window_));
  ++transfer.fast_retransmits;
  most_ = window_;
  since_loss_ = 0;
  is_retransmission_alone_ = std::floor(window_) - 1 <= parameters_.duplicate_acks + kHeldBack;
  recovery_flight_ =
      std::max(2.0, std::ceil(decrease_of(parameters_.congestion) * (std::floor(window_) - kAcksBeforeKnown)));
  window_ = threshold_ = friendly_ = reduced(parameters_.congestion, window_);
}

void TcpSender::grow(std::int64_t arrived, double time, double most) {
  const auto acks = static_cast<double>(arrived);
  if (window_ < threshold_) {
    window_ = std::min(window_ + acks, threshold_);
    return;
  }
  if (window_ >= most) return;
  const double increase = increase_of(parameters_.congestion) * acks / window_;
  if (parameters_.congestion == CongestionControl::kReno) {
    window_ += increase;
    return;
  }
  since_loss_ += time;
  friendly_ = std::max(friendly_, 1.0) + increase;
  const double below = most_ * (1 - decrease_of(parameters_.congestion));
  const double cubic = most_ + kCubicC * std::pow(since_loss_ + round_trip_ - std::cbrt(below / kCubicC), 3);
  window_ = std::max({window_, friendly_, std::min(cubic, 1.5 * window_)});
}

}  // namespace rehearse
