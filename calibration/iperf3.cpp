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

Json read_output(std::string_view text, const std::string& file_name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const std::string_view content = first == std::string_view::npos ? text : text.substr(first);
  const std::string_view start = content.substr(0, 4096);
  if (!start.starts_with("{") && start.find("[ ID] Interval") != std::string_view::npos)
    throw InputError{file_name + ": expected the output of iperf3 --json; found what iperf prints without it"};
  return start.starts_with("{\"event\"") ? gather_events(content, file_name)
                                         : parse_json_with_repeated_keys(text, file_name, name_of_repeated);
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
  const bool is_reverse = test.is_reverse;
  for (const JsonReader& interval : json.children("intervals")) {
    const std::string name = std::to_string(number++), other = "sum" + kOtherDirection;
    const bool has_other = interval.has(other);
    add(name, is_reverse, read_iperf_sum(interval.child("sum")),
        mean_of_streams(interval, "", "rtt", has_other ? StreamsOf::kSenders : StreamsOf::kBoth));
    if (has_other)
      add(name, !is_reverse, read_iperf_sum(interval.child(other)),
          mean_of_streams(interval, "", "rtt", StreamsOf::kReceivers));
    test.is_both_ways = test.is_both_ways || has_other;
  }
  const JsonReader end = json.child("end");
  for (const char* side : {"sum_sent", "sum_received"}) {
    const std::string other = side + kOtherDirection;
    const auto rtt = [&](StreamsOf which) { return mean_of_streams(end, "sender", "mean_rtt", which); };
    if (end.has(side))
      add(side, is_reverse, read_iperf_sum(end.child(side)),
          rtt(end.has(other) ? StreamsOf::kSenders : StreamsOf::kBoth));
    if (end.has(other)) add(side, !is_reverse, read_iperf_sum(end.child(other)), rtt(StreamsOf::kReceivers));
  }
  return {.table = parse_csv(csv.text(), file_name), .remarks = remarks_of(test, file_name)};
}

}  // namespace rehearse
