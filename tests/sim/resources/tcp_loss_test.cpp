#include "sim/resources/tcp_loss.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace rehearse {

namespace {

constexpr BytesPerSecond kGigabit{125e6};

struct Means {
  double retransmitted = 0;  // per segment
  double probes = 0;         // per segment
  double timed_out = 0;      // share of transfers with a time-out
  double stalled = 0;        // or with a probe that was as late
  double rate = 0;           // bytes per second, while segments leave
  std::vector<double> times;
};

double time_of(const TcpTransfer& transfer) { return (transfer.sending + transfer.waiting).value(); }

Means means_of(const TcpParameters& parameters, const LossyPath& path, std::int64_t segments, int transfers,
               bool is_followed = false) {
  TcpSender sender{parameters, path, Rng{1, "transfers"}};
  Means means;
  double sending = 0;
  for (int i = 0; i < transfers; ++i) {
    const TcpTransfer transfer = sender.send(segments, {.is_followed = is_followed});
    means.retransmitted += static_cast<double>(transfer.retransmitted) / static_cast<double>(segments) / transfers;
    means.probes += static_cast<double>(transfer.probes) / static_cast<double>(segments) / transfers;
    means.timed_out += transfer.timeouts > 0 ? 1.0 / transfers : 0;
    means.stalled += transfer.timeouts + transfer.late_probes > 0 ? 1.0 / transfers : 0;
    sending += transfer.sending.value();
    means.times.push_back(time_of(transfer));
  }
  means.rate = static_cast<double>(segments) * transfers * as_double(parameters.segment) / sending;
  std::sort(means.times.begin(), means.times.end());
  return means;
}

double quantile_of(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

/// TCP segment by segment and ACK by ACK, written apart from the model: what has been sent when, which ACK comes when,
/// what timers expire. Sends a message of so many segments.
class LittleTcp {
 public:
  LittleTcp(const TcpParameters& parameters, const LossyPath& path, Rng& random)
      : parameters_{parameters},
        path_{path},
        random_{random},
        spacing_{as_double(parameters.segment) / path.rate.value()},
        window_{std::max<double>(parameters.initial_window, path.round_trip.value() / spacing_)} {}

  void send(int segments) {
    segments_ = segments;
    is_one_unacknowledged_ = random_.uniform() < 0.5;
    send_what_is_allowed();
    arm_timer();
    while (static_cast<int>(received_.size()) < segments) {
      now_ = std::min(timer_, events_.empty() ? timer_ : events_.begin()->first);
      if (!events_.empty() && events_.begin()->first <= timer_) {
        const auto action = events_.begin()->second;
        events_.erase(events_.begin());
        action();
      } else {
        expire();
      }
      send_what_is_allowed();
    }
  }
  bool has_timed_out() const { return timeouts_ > 0; }
  bool has_stalled() const { return timeouts_ + late_probes_ > 0; }

 private:
  struct Sent {
    int segment = 0;
    bool is_again = false;
    int later_acks = 0;
  };

  void send(int segment, bool is_again) {
    link_free_at_ = std::max(now_, link_free_at_) + spacing_;
    const int order = order_++;
    unknown_[order] = {segment, is_again};
    if (random_.uniform() < path_.loss) return;
    events_.emplace(link_free_at_ + path_.round_trip.value() / 2, [this, order, segment] { receive(order, segment); });
  }
  void send_what_is_allowed() {
    while (static_cast<double>(unknown_.size()) < std::floor(window_) && (!lost_.empty() || next_ < segments_)) {
      if (lost_.empty()) {
        send(next_++, false);
        continue;
      }
      const int segment = lost_.back();
      lost_.pop_back();
      send(segment, true);
    }
  }
  /// Every second segment that comes in its turn, and each that does not, is acknowledged at once.
  void receive(int order, int segment) {
    const bool had_hole = !received_.empty() && *received_.rbegin() >= static_cast<int>(received_.size());
    received_.insert(segment);
    unacknowledged_.push_back(order);
    const bool has_hole = *received_.rbegin() >= static_cast<int>(received_.size());
    if (had_hole || has_hole || unacknowledged_.size() + (is_one_unacknowledged_ ? 1 : 0) == 2) return acknowledge();
    events_.emplace(now_ + 0.04, [this, order] {
      if (!unacknowledged_.empty() && unacknowledged_.front() == order) acknowledge();
    });
  }
  void acknowledge() {
    is_one_unacknowledged_ = false;
    untold_.insert(untold_.end(), unacknowledged_.begin(), unacknowledged_.end());
    unacknowledged_.clear();
    if (random_.uniform() < path_.loss) return;  // the next one tells
    events_.emplace(now_ + path_.round_trip.value() / 2, [this, orders = std::exchange(untold_, {})] {
      for (const int order : orders) take_ack(order);
    });
  }
  void take_ack(int order) {
    unknown_.erase(order);
    backoff_ = 0;
    if (window_ < threshold_)
      window_ += 1;
    else if (order >= recovery_point_)
      window_ += 0.53 / window_;
    const bool is_rack = parameters_.recovery == LossRecovery::kRack;
    for (auto at = unknown_.begin(); at != unknown_.end();) {
      auto& [before, sent] = *at;
      const bool is_told = before < order && (!sent.is_again || is_rack) &&
                           ++sent.later_acks >= (is_rack ? 1 : parameters_.duplicate_acks);
      if (!is_told) {
        ++at;
        continue;
      }
      lost_.push_back(sent.segment);
      if (before >= recovery_point_) {
        recovery_point_ = order_;
        window_ = threshold_ = std::max(2.0, std::floor(0.7 * std::floor(window_)));
      }
      at = unknown_.erase(at);
    }
    arm_timer();
  }
  void arm_timer() {
    const double rtt = path_.round_trip.value();
    const bool is_open = lost_.empty() && std::all_of(unknown_.begin(), unknown_.end(), [this](const auto& entry) {
                           return !entry.second.is_again && entry.first >= recovery_point_;
                         });
    is_probe_ = parameters_.recovery == LossRecovery::kRack && is_open && backoff_ == 0;
    is_late_ = unknown_.size() == 1;
    const double timeout = (rtt + parameters_.minimum_timeout.value()) * std::ldexp(1.0, backoff_);
    const double early = 2 * rtt + parameters_.timer_granularity.value();
    timer_ = std::max(now_, link_free_at_) + (is_probe_ && !is_late_ ? early : timeout);
  }
  void expire() {
    if (is_probe_) {
      late_probes_ += is_late_ ? 1 : 0;
      is_probe_ = false;
      timer_ = now_ + path_.round_trip.value() + parameters_.minimum_timeout.value();
      if (next_ < segments_) return send(next_++, false);
      const int segment = std::prev(unknown_.end())->second.segment;
      unknown_.erase(std::prev(unknown_.end()));
      return send(segment, true);
    }
    ++timeouts_;
    ++backoff_;
    threshold_ = std::max(2.0, std::floor(0.7 * std::floor(window_)));
    window_ = 1;
    for (const auto& [order, sent] : unknown_) lost_.push_back(sent.segment);
    unknown_.clear();
    recovery_point_ = order_;
    send_what_is_allowed();
    arm_timer();
  }

  const TcpParameters& parameters_;
  LossyPath path_;
  Rng& random_;
  double spacing_, window_, threshold_ = 0;
  double now_ = 0, link_free_at_ = 0, timer_ = 0;
  bool is_probe_ = false, is_late_ = false;
  bool is_one_unacknowledged_ = false;  // of what came before the message
  int segments_ = 0, next_ = 0, order_ = 0, recovery_point_ = 0, timeouts_ = 0, late_probes_ = 0, backoff_ = 0;
  std::map<int, Sent> unknown_;  // by order of sending
  std::vector<int> lost_, unacknowledged_, untold_;
  std::set<int> received_;
  std::multimap<double, std::function<void()>> events_;
};

/// Transfers with a time-out, and with that or a late probe.
std::pair<double, double> little_shares(const TcpParameters& parameters, const LossyPath& path, int segments,
                                        int transfers) {
  Rng random{2, "little TCP"};
  int timed_out = 0, stalled = 0;
  for (int i = 0; i < transfers; ++i) {
    LittleTcp tcp{parameters, path, random};
    tcp.send(segments);
    timed_out += tcp.has_timed_out() ? 1 : 0;
    stalled += tcp.has_stalled() ? 1 : 0;
  }
  return {static_cast<double>(timed_out) / transfers, static_cast<double>(stalled) / transfers};
}

}  // namespace

TEST_CASE("without loss a message takes segments / rate, whatever the round trip") {
  for (const double rtt : {0.0, 1e-4, 0.1})
    for (const std::int64_t segments : {1, 7, 5000}) {
      TcpSender sender{{}, {.loss = 0, .round_trip = Seconds{rtt}, .rate = kGigabit}, Rng{1, "none"}};
      const TcpTransfer transfer = sender.send(segments);
      CHECK(transfer.sending.value() == doctest::Approx(static_cast<double>(segments) * 1448 / 125e6).epsilon(1e-12));
      CHECK(transfer.waiting == Seconds{});
      CHECK(transfer.retransmitted == 0);
    }
}

TEST_CASE("each segment is sent 1 / (1 - p) times, and each loss again; besides, probes where ACKs were lost") {
  for (const double p : {0.001, 0.02, 0.2})
    for (const LossRecovery recovery : {LossRecovery::kRack, LossRecovery::kDuplicateAcks}) {
      const LossyPath path{.loss = p, .round_trip = 100.0_us, .rate = kGigabit};
      const Means means = means_of({.recovery = recovery}, path, 1000, 2000);
      // Of N = 2 000 000 segments: variance p / (1 - p)^2 each.
      const double tolerance = 4 * std::sqrt(p) / (1 - p) / std::sqrt(2e6);
      CHECK(means.retransmitted > p / (1 - p) - tolerance);
      CHECK(means.retransmitted < p / (1 - p) + means.probes + tolerance);
      if (recovery == LossRecovery::kDuplicateAcks) CHECK(means.probes == 0);
    }
}

TEST_CASE("a time-out is as likely as in a little TCP of segments and ACKs") {
  constexpr int kTransfers = 4000;
  for (const auto& [recovery, p, segments] : {std::tuple{LossRecovery::kRack, 0.05, 1},
                                              {LossRecovery::kRack, 0.05, 4},
                                              {LossRecovery::kRack, 0.02, 60},
                                              {LossRecovery::kRack, 0.02, 200},
                                              {LossRecovery::kDuplicateAcks, 0.05, 2},
                                              {LossRecovery::kDuplicateAcks, 0.02, 10},
                                              {LossRecovery::kDuplicateAcks, 0.02, 60},
                                              {LossRecovery::kDuplicateAcks, 0.01, 200}}) {
    // The little receiver holds no ACK back: the fewest that the model takes to be sent before it does are 1 for kRack.
    const TcpParameters parameters{.duplicate_acks = recovery == LossRecovery::kRack ? 1 : 3, .recovery = recovery};
    const LossyPath path{.loss = p, .round_trip = 100.0_us, .rate = kGigabit};
    const Means model = means_of(parameters, path, segments, 10 * kTransfers);
    const auto [timed_out, stalled] = little_shares(parameters, path, segments, kTransfers);
    const std::string of = std::to_string(p) + ", segments " + std::to_string(segments) + ", model " +
                           std::to_string(model.timed_out) + " and " + std::to_string(model.stalled) + ", little TCP " +
                           std::to_string(timed_out) + " and " + std::to_string(stalled);
    CAPTURE(of);
    const auto agree = [](double a, double b) {
      return std::abs(a - b) < 4 * std::sqrt((b + 1.0 / kTransfers) * (1 - b) / kTransfers) + 0.05 * b;
    };
    CHECK(agree(model.timed_out, timed_out));
    CHECK(agree(model.stalled, stalled));
  }
}

TEST_CASE("only the tail of a message waits for a timer, and not even that where data follow") {
  const LossyPath path{.loss = 0.01, .round_trip = 50.0_us, .rate = kGigabit};
  // The last of 100 segments with p; the ACK of the one before is delayed half of the time. Besides, retransmissions at
  // the tail.
  const Means rack = means_of({}, path, 100, 40'000);
  CHECK(rack.stalled > 0.01 / 2);
  CHECK(rack.stalled < 0.01 / 2 + 0.003);
  CHECK(means_of({}, path, 1, 40'000).stalled == doctest::Approx(0.01).epsilon(0.2));
  const TcpParameters by_acks{.recovery = LossRecovery::kDuplicateAcks};
  // One of the last three; besides, of the 1 % that are sent again 1 % are lost again: 100 p^2.
  CHECK(means_of(by_acks, path, 100, 20'000).timed_out == doctest::Approx(0.03 + 0.01).epsilon(0.2));
  CHECK(means_of({}, path, 100, 20'000, true).stalled < 0.001);
  CHECK(means_of(by_acks, path, 100, 20'000, true).timed_out == doctest::Approx(0.01).epsilon(0.25));
}

TEST_CASE("at a LAN's round trip a loss of 1 or 2 % is a tail of time-outs: the median hardly moves") {
  for (const double p : {0.01, 0.02}) {
    const LossyPath path{.loss = p, .round_trip = 30.0_us, .rate = kGigabit};
    const double ideal = 2000 * 1448 / 125e6;
    const Means means = means_of({}, path, 2000, 4000);
    CHECK(quantile_of(means.times, 0.5) < 1.03 * ideal);
    CHECK(quantile_of(means.times, 0.5) > (1 + p) * ideal * 0.999);  // what is sent again
    CHECK(quantile_of(means.times, 1 - p / 4) > ideal + 0.2);
  }
}

TEST_CASE("at a long round trip the window limits the rate as Mathis et al. and RFC 8312 say") {
  for (const double p : {0.0005, 0.002, 0.01}) {
    const LossyPath path{.loss = p, .round_trip = 20.0_ms, .rate = kGigabit};
    const double mathis = 1.22 * 1448 / (0.02 * std::sqrt(p));
    CHECK(means_of({.congestion = CongestionControl::kReno}, path, 20'000, 40).rate ==
          doctest::Approx(mathis).epsilon(0.15));
    CHECK(means_of({}, path, 20'000, 40).rate == doctest::Approx(mathis).epsilon(0.2));  // whole segments cost more
  }
  // W = 1.054 (RTT / p)^(3/4) = 315 where losses come at equal distances, and Reno's is 1.22 / sqrt(p) = 122. At random
  // distances both are larger: Reno's by 1.31 / 1.22 (Ott et al., 1996), and the cubic function grows more in long ones.
  const LossyPath far{.loss = 1e-4, .round_trip = 0.2_s, .rate = kGigabit};
  const double window = means_of({}, far, 1'000'000, 20).rate * 0.2 / 1448;
  CHECK(window > 315);
  CHECK(window < 1.4 * 315);
}

TEST_CASE("more loss takes longer, and sends more") {
  for (const double rtt : {3e-5, 1e-3}) {
    double time = 0, again = -1;
    for (const double p : {0.0, 0.001, 0.004, 0.016, 0.064, 0.256}) {
      const Means means = means_of({}, {.loss = p, .round_trip = Seconds{rtt}, .rate = kGigabit}, 500, 2000);
      double mean = 0;
      for (const double one : means.times) mean += one / 2000;
      CHECK(mean > time);
      CHECK(means.retransmitted > again);
      time = mean;
      again = means.retransmitted;
    }
  }
}

TEST_CASE("ACKs that wait behind the receiver's data make the smaller window the limit: rate = W / (queue + RTT)") {
  const LossyPath path{.loss = 1e-9, .round_trip = 100.0_us, .rate = kGigabit};
  TcpSender sender{{.initial_window = 20, .small_queue = {}}, path, Rng{1, "opposed"}};
  const double segment = 1448 / 125e6;
  const TcpTransfer alone = sender.send(2000);
  CHECK(alone.sending.value() / segment == doctest::Approx(2000));
  // 100 segments wait there, for as long as 1000 are sent; meanwhile 20 leave in each round trip of 100 and the path's.
  sender = {{.initial_window = 20, .small_queue = {}}, path, Rng{1, "opposed"}};
  const TcpTransfer opposed =
      sender.send(2000, {.opposing = Seconds{1000 * segment}, .opposing_queue = Seconds{100 * segment}});
  const double rounds = 1000 * segment / (100 * segment + 1e-4);
  CHECK(opposed.sending.value() / segment == doctest::Approx(1000 + 2000 - 20 * rounds).epsilon(0.02));
  // A window above the queue does not care.
  TcpSender large{{.initial_window = 200, .small_queue = {}}, path, Rng{1, "opposed"}};
  CHECK(large.send(2000, {.opposing = Seconds{1000 * segment}, .opposing_queue = Seconds{100 * segment}})
                .sending.value() /
            segment ==
        doctest::Approx(2000));
}

TEST_CASE("a window that its own queue holds back does not grow, and a lone retransmission waits for the timer") {
  const auto window_of = [](Seconds small_queue, double loss) {
    TcpSender sender{{.small_queue = small_queue},
                     {.loss = loss, .round_trip = 50.0_us, .rate = BytesPerSecond{12.5e6}},
                     Rng{1, "held"}};
    double window = 0;
    for (int i = 0; i < 2000; ++i) {
      sender.send(2000);
      window += sender.window() / 2000;
    }
    return window;
  };
  const double most = 4 + 12.5e6 / 1448 * (50e-6 + 0.7365e-3);
  CHECK(window_of(0.7365_ms, 0.001) < most + 1);
  CHECK(window_of(0.7365_ms, 0.001) > 0.7 * most);
  CHECK(window_of({}, 0.001) > 3 * most);
  const auto timed_out = [](Seconds small_queue) {
    return means_of({.small_queue = small_queue}, {.loss = 0.02, .round_trip = 50.0_us, .rate = BytesPerSecond{3e6}},
                    2000, 2000)
        .timed_out;
  };
  CHECK(timed_out(0.1_ms) > 1.5 * timed_out({}));
}

TEST_CASE("in a window of up to 5 segments the timer waits for the ACK of a retransmission, and not for that itself") {
  const double p = 0.01;
  const auto timeouts_of_losses = [&](Seconds small_queue, int duplicate_acks) {
    const TcpParameters parameters{.duplicate_acks = duplicate_acks, .small_queue = small_queue};
    TcpSender sender{parameters, {.loss = p, .round_trip = 50.0_us, .rate = BytesPerSecond{3e6}}, Rng{1, "alone"}};
    double timeouts = 0, losses = 0;
    for (int i = 0; i < 200; ++i) {
      const TcpTransfer transfer = sender.send(10'000, {.is_followed = true});
      timeouts += static_cast<double>(transfer.timeouts);
      losses += static_cast<double>(transfer.fast_retransmits);
    }
    return timeouts / losses;
  };
  // Windows of at most 4 + 2072 / s * 0.15 ms; each loss waits with p. With 20 segments they do not.
  CHECK(timeouts_of_losses(0.1_ms, 3) == doctest::Approx(p).epsilon(0.15));
  CHECK(timeouts_of_losses(8.0_ms, 3) < 0.3 * p);
  CHECK(timeouts_of_losses(8.0_ms, 30) == doctest::Approx(p).epsilon(0.15));
}

TEST_CASE("a lone packet is late by a probe, then by time-outs that double") {
  const LossyPath path{.loss = 0.2, .round_trip = 10.0_ms, .rate = kGigabit};
  for (const LossRecovery recovery : {LossRecovery::kRack, LossRecovery::kDuplicateAcks}) {
    const TcpParameters parameters{.recovery = recovery};
    Rng random{1, "lone"};
    LossCounts losses;
    double mean = 0;
    for (int i = 0; i < 200'000; ++i) mean += delay_of_lone_packet(parameters, path, random, losses).value() / 200'000;
    // p^k of k losses. A probe after 0.22 s, time-outs after 0.21, 0.42 ... s.
    const double p = 0.2, timeouts = p * 0.21 / (1 - 2 * p);
    CHECK(mean == doctest::Approx(recovery == LossRecovery::kRack ? p * (0.22 + timeouts) : timeouts).epsilon(0.03));
    CHECK(static_cast<double>(losses.late_probes) / 200'000 ==
          doctest::Approx(recovery == LossRecovery::kRack ? p : 0).epsilon(0.03));
  }
}

TEST_CASE("time-outs in a row double") {
  // With p = 1/2 a segment takes k time-outs with 2^-(k + 1): (2^k - 1) of the first one's length.
  TcpSender sender{
      {.recovery = LossRecovery::kDuplicateAcks}, {.loss = 0.5, .round_trip = {}, .rate = kGigabit}, Rng{3, "rows"}};
  for (int i = 0; i < 200; ++i) {
    const TcpTransfer transfer = sender.send(1);
    CHECK(transfer.retransmitted == transfer.timeouts);
    if (transfer.timeouts < 9)
      CHECK(transfer.waiting.value() ==
            doctest::Approx(0.2 * (std::ldexp(1.0, static_cast<int>(transfer.timeouts)) - 1)));
  }
}

}  // namespace rehearse
