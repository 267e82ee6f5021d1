// Outputs of iperf3 --json and --json-stream.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "calibration/measurements.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/repeated_keys.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLongestName = 200;
const std::string kOtherDirection = "_bidir_reverse";

/// iperf3 writes "sock_bufsize" and the like once for each stream, and may write a sum for each direction.
std::string name_of_repeated(const std::string& key) {
  constexpr std::array<std::string_view, 3> kSums{"sum", "sum_sent", "sum_received"};
  constexpr std::array<std::string_view, 13> kRead{"start",    "intervals",       "end",     "error", "test_start",
                                                   "protocol", "num_streams",     "reverse", "bidir", "seconds",
                                                   "bytes",    "bits_per_second", "streams"};
  if (std::ranges::find(kSums, key) != kSums.end()) return key + kOtherDirection;
  const bool is_read = std::ranges::find(kRead, key) != kRead.end() || key.ends_with(kOtherDirection);
  return is_read ? "" : key;
}

/// One sum over streams: of an interval, or of all of them.
struct IperfSum {
  double seconds = 0, bytes = 0, bits_per_second = 0;
  std::string retransmits;
  bool is_omitted = false;
};

IperfSum read_iperf_sum(const JsonReader& json) {
  const auto number = [&](const char* key) {
    const auto value = json.required<double>(key);
    json.expect(value >= 0, key, "a number of at least 0");
    return value;
  };
  IperfSum sum{.seconds = number("seconds"),
               .bytes = number("bytes"),
               .bits_per_second = number("bits_per_second"),
               .retransmits = {},
               .is_omitted = json.optional<bool>("omitted", false)};
  if (json.has("retransmits")) sum.retransmits = CsvField{number("retransmits")}.text();
  return sum;
}

/// Which of the streams of both directions are meant; those that do not say are of any.
enum class StreamsOf { kBoth, kSenders, kReceivers };

/// Mean of the time `key` over the streams that tell it, at `part` of each stream if that is not empty; empty if none
/// does. A time of 0 is none: iperf3 writes it where the other side, or a system without TCP_INFO, told it nothing.
std::string mean_of_streams(const JsonReader& json, const char* part, const char* key, StreamsOf which) {
  if (!json.has("streams")) return {};
  double total = 0;
  int count = 0;
  for (const JsonReader& stream : json.children("streams")) {
    if (part[0] != '\0' && !stream.has(part)) continue;
    const JsonReader values = part[0] == '\0' ? stream : stream.child(part);
    if (!values.has(key)) continue;
    if (which != StreamsOf::kBoth && values.has("sender") &&
        values.required<bool>("sender") != (which == StreamsOf::kSenders))
      continue;
    const auto time = values.required<double>(key);
    if (time == 0) continue;
    total += time;
    ++count;
  }
  return count > 0 ? CsvField{total / count}.text() : "";
}

/// The parts of a --json-stream, a line each: {"event": "interval", "data": {...}}, as --json would have them.
Json gather_events(std::string_view text, const std::string& file_name) {
  Json whole = Json::object();
  whole["intervals"] = Json::array();
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = file_name + ":" + std::to_string(line);
    const Json event = parse_json_with_repeated_keys(part, place, name_of_repeated);
    const JsonReader json{event, place};
    const auto name = json.required<std::string>("event");
    const Json& data = json.child("data").value();
    if (name == "interval")
      whole["intervals"].push_back(data);
    else if (name == "start" || name == "end" || name == "error")
      whole[name] = data;
  }
  return whole;
}

/// Where the object that a text begins with ends; the text's size if it does not.
std::size_t end_of_object(std::string_view text) {
  int depth = 0;
  bool is_in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_in_string && text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      is_in_string = !is_in_string;
    else if (!is_in_string && text[at] == '{')
      ++depth;
    else if (!is_in_string && text[at] == '}' && --depth == 0)
      return at + 1;
  }
  return text.size();
}

void refuse_second_output(std::string_view text, std::size_t first, const std::string& file_name) {
  const std::size_t end = first + end_of_object(text.substr(first));
  const std::size_t second = text.find_first_not_of(" \t\r\n", end);
  if (second == std::string_view::npos || text[second] != '{') return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(second), '\n');
  throw InputError{
      file_name + ":" + std::to_string(line) +
      ": expected the output of one run of iperf3 --json; found another one behind it: give each run a file"};
}

/// iperf3 prints warnings above its output. They become blanks, so that places stay as they are.
std::string without_warnings(std::string_view text) {
  std::string rest{text};
  for (std::size_t begin = 0; begin < rest.size();) {
    const std::size_t end = std::min(rest.find('\n', begin), rest.size());
    const std::size_t first = rest.find_first_not_of(" \t\r\xef\xbb\xbf", begin);
    const bool is_warning =
        first < end && (rest.compare(first, 8, "warning:") == 0 || rest.compare(first, 8, "Warning:") == 0 ||
                        rest.compare(first, 8, "WARNING:") == 0);
    if (first < end && !is_warning) break;
    std::fill(rest.begin() + static_cast<std::ptrdiff_t>(begin), rest.begin() + static_cast<std::ptrdiff_t>(end), ' ');
    begin = end + 1;
  }
  return rest;
}

Json read_output(std::string_view whole, const std::string& file_name) {
  const std::string text = without_warnings(whole);
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n\xef\xbb\xbf"), text.size());
  const std::string_view content = std::string_view{text}.substr(first);
  const std::string_view start = content.substr(0, 4096);
  if (!start.empty() && !start.starts_with("{")) {
    const bool is_listing =
        start.find("[ ID] Interval") != std::string_view::npos || start.find("[ ID][Role]") != std::string_view::npos;
    throw InputError{file_name + ": expected the output of iperf3 --json; found " +
                     (is_listing ? "what iperf prints without it" : "other text")};
  }
  if (start.starts_with("{\"event\"")) return gather_events(content, file_name);
  if (start.starts_with("{")) refuse_second_output(text, first, file_name);
  return parse_json_with_repeated_keys(text, file_name, name_of_repeated);
}

struct IperfTest {
  std::string protocol;
  int streams = 1;
  bool is_reverse = false, is_both_ways = false;
  std::optional<double> asked_rate;  // bit/s; 0: as fast as possible
};

IperfTest read_test(const JsonReader& json) {
  IperfTest test{.protocol = json.required<std::string>("protocol"),
                 .streams = json.required<int>("num_streams"),
                 .is_reverse = json.optional<int>("reverse", 0) != 0,
                 .is_both_ways = json.optional<int>("bidir", 0) != 0,
                 .asked_rate = json.maybe<double>("target_bitrate")};
  json.expect(test.protocol.size() <= kLongestName, "protocol", "at most 200 bytes");
  return test;
}

/// What a UDP test lost, in percent of its packets; 0 if it does not say.
double lost_percent(const JsonReader& end) {
  for (const char* sum : {"sum_received", "sum"})
    if (end.has(sum) && end.child(sum).has("lost_percent")) return end.child(sum).required<double>("lost_percent");
  return 0;
}

/// Of a UDP test that lost more than a hundredth, intervals of the sender count what the network did not carry.
class LossyTest {
 public:
  LossyTest(const IperfTest& test, const JsonReader& end)
      : lost_{test.protocol == "UDP" ? lost_percent(end) : 0}, is_reverse_{test.is_reverse} {}

  bool leaves_out(const JsonReader& sum) {
    constexpr double kMostLost = 1;
    const bool is_left_out = lost_ > kMostLost && sum.optional<bool>("sender", !is_reverse_);
    has_left_out_ = has_left_out_ || is_left_out;
    return is_left_out;
  }
  bool has_left_out() const { return has_left_out_; }

  /// What the receiver got, in the place of the intervals.
  IperfSum received(const JsonReader& end) const {
    if (!end.has("sum_received"))
      end.fail("expected what the receiver got, \"sum_received\"; found that " + CsvField{lost_}.text() +
               " % of the packets were lost, and only what was sent");
    IperfSum sum = read_iperf_sum(end.child("sum_received"));
    if (sum.bytes == 0) end.fail("sum_received", "expected a test in which the receiver got something; found 0 B");
    return sum;
  }
  std::string remark() const {
    return "of UDP " + CsvField{lost_}.text() +
           " % was lost: in the place of the sender's intervals is what the receiver got, row \"received\"";
  }

 private:
  double lost_;
  bool is_reverse_;
  bool has_left_out_ = false;
};

/// Tests that end before anything has crossed the network tell what the sender's buffers take.
std::string why_no_measure(const JsonReader& end) {
  constexpr double kShortest = 0.1;
  if (!end.has("sum_sent")) return {};
  const IperfSum sent = read_iperf_sum(end.child("sum_sent"));
  if (end.has("sum_received") && sent.bytes > 0 && read_iperf_sum(end.child("sum_received")).bytes == 0)
    return "the receiver says that it got 0 B: rates are those at which the sender filled its own buffers";
  if (sent.seconds > 0 && sent.seconds < kShortest)
    return "the test took " + CsvField{sent.seconds}.text() +
           " s: rates are those at which the sender filled its own buffers";
  return {};
}

std::vector<std::string> remarks_of(const IperfTest& test, const std::string& file_name) {
  std::vector<std::string> remarks;
  const auto say = [&](const std::string& what) { remarks.push_back(file_name + ": " + what); };
  if (test.streams > 1) say("rates are those of " + std::to_string(test.streams) + " streams together (-P)");
  if (test.is_both_ways) say("both directions at the same time (--bidir): rows of both");
  const double asked = test.asked_rate.value_or(0);
  if (asked > 0)
    say("iperf3 was told to send no more than " + CsvField{asked / 1e6}.text() +
        " Mbit/s in a stream (-b): rates are what was asked for where the network gives more");
  else if (test.protocol == "UDP" && !test.asked_rate)
    say("UDP sends what -b asks for, 1 Mbit/s without it: rates are no limit of the network");
  return remarks;
}

}  // namespace

Measurements parse_iperf3(std::string_view text, const std::string& file_name) {
  const Json file = read_output(text, file_name);
  const JsonReader json{file, file_name};
  if (json.has("error"))
    json.fail("error", "expected a run without error; iperf3 says " + in_quotes(json.required<std::string>("error")));
  IperfTest test = read_test(json.child("start").child("test_start"));

  CsvWriter csv{{"interval", "is_omitted", "protocol", "streams", "is_reverse", "seconds", "bytes", "bits_per_second",
                 "bytes_per_second", "retransmits", "rtt_us"}};
  const auto add = [&](const std::string& interval, bool is_reverse, const IperfSum& sum, const std::string& rtt) {
    csv.row({interval, sum.is_omitted ? "true" : "false", test.protocol, test.streams, is_reverse ? "true" : "false",
             sum.seconds, sum.bytes, sum.bits_per_second, sum.bits_per_second / 8, sum.retransmits, rtt});
  };
  int number = 0;
  const JsonReader end = json.child("end");
  LossyTest loss{test, end};
  const bool is_reverse = test.is_reverse;
  for (const JsonReader& interval : json.children("intervals")) {
    const std::string name = std::to_string(number++), other = "sum" + kOtherDirection;
    const bool has_other = interval.has(other);
    if (const JsonReader sum = interval.child("sum"); !loss.leaves_out(sum))
      add(name, is_reverse, read_iperf_sum(sum),
          mean_of_streams(interval, "", "rtt", has_other ? StreamsOf::kSenders : StreamsOf::kBoth));
    if (has_other)
      add(name, !is_reverse, read_iperf_sum(interval.child(other)),
          mean_of_streams(interval, "", "rtt", StreamsOf::kReceivers));
    test.is_both_ways = test.is_both_ways || has_other;
  }
  if (loss.has_left_out()) add("received", is_reverse, loss.received(end), "");
  for (const char* side : {"sum_sent", "sum_received"}) {
    const std::string other = side + kOtherDirection;
    const auto rtt = [&](StreamsOf which) { return mean_of_streams(end, "sender", "mean_rtt", which); };
    if (end.has(side))
      add(side, is_reverse, read_iperf_sum(end.child(side)),
          rtt(end.has(other) ? StreamsOf::kSenders : StreamsOf::kBoth));
    if (end.has(other)) add(side, !is_reverse, read_iperf_sum(end.child(other)), rtt(StreamsOf::kReceivers));
  }
  Measurements measurements{.table = parse_csv(csv.text(), file_name), .remarks = remarks_of(test, file_name)};
  if (loss.has_left_out()) measurements.remarks.push_back(file_name + ": " + loss.remark());
  if (const std::string why = why_no_measure(end); !why.empty()) measurements.remarks.push_back(file_name + ": " + why);
  return measurements;
}

}  // namespace rehearse
