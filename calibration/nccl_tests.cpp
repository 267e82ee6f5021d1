// Listings of nccl-tests and rccl-tests, as their programs print them, or as what started them passes them on.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "calibration/measurements.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxText = 256 * kMiB;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kMostListings = 4096;
constexpr std::size_t kLongestTag = 200;
constexpr std::size_t kFewestColumns = 9;  // size, count, type, and twice time, algbw, busbw

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  Words words;
  for (std::size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return words;
}

bool is_whole_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<double> number_of(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc{} && end == word.data() + word.size() && std::isfinite(value);
  return is_number ? std::optional{value} : std::nullopt;
}

/// Names of element types that nccl-tests and rccl-tests have had.
bool is_type(std::string_view word) {
  constexpr std::array<std::string_view, 20> kTypes{"int8",   "uint8",    "int32",    "uint32",      "int64",
                                                    "uint64", "char",     "int",      "half",        "float16",
                                                    "float",  "double",   "bfloat16", "bf16",        "f8e4m3",
                                                    "f8e5m2", "fp8_e4m3", "fp8_e5m2", "float8_e4m3", "float8_e5m2"};
  return std::ranges::find(kTypes, word) != kTypes.end();
}

/// Above how much nccl-tests before 2.13, which print the largest difference, call a result wrong: the limit of two
/// ranks, which grows with (ranks - 1). Source: DeltaMaxValue and CheckData of nccl-tests 2.0 to 2.12, src/common.cu.
double largest_difference(std::string_view type) {
  if (type == "half" || type == "bfloat16") return 1e-2;
  if (type == "float") return 1e-5;
  return type == "double" ? 1e-12 : 0;
}

/// Open MPI's `--tag-output` writes "[1,0]<stdout>:" at the start of each line, and again wherever the program had
/// flushed a part of it; version 5 has "[prterun-node1-123@1,0]<stdout>:", `--timestamp-output` a date before. `tag`
/// becomes the first of them, and the line is returned without any.
std::string_view without_tags(std::string_view line, std::string& buffer, std::string& tag) {
  tag.clear();
  std::size_t at = line.find("<std");
  if (at == std::string_view::npos) return line;
  buffer.clear();
  std::size_t begin = 0;
  for (; at != std::string_view::npos; at = line.find("<std", at)) {
    const std::string_view rest = line.substr(at);
    const std::size_t size = rest.starts_with("<stdout>:") || rest.starts_with("<stderr>:") ? 9 : 0;
    if (size == 0) {
      at += 4;
      continue;
    }
    std::size_t from = at;
    if (at > begin && line[at - 1] == ']') {
      const std::size_t earliest = std::max(begin, at - std::min(at, kLongestTag));
      const std::size_t bracket = line.substr(earliest, at - earliest).rfind('[');
      if (bracket != std::string_view::npos) from = earliest + bracket;
    }
    if (tag.empty()) tag = line.substr(from, at - from);
    buffer += line.substr(begin, from - begin);
    buffer += ' ';
    begin = at += size;
  }
  buffer += line.substr(begin);
  return buffer;
}

/// Whether a word says when: it has a time of day, as "12:03:05" or "2026-11-25T12:03:05.5Z" have.
bool is_time_of_day(std::string_view word) {
  const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '9'; };
  for (std::size_t at = word.find(':'); at != std::string_view::npos; at = word.find(':', at + 1))
    if (at > 0 && digit(at - 1) && digit(at + 1) && digit(at + 2) && at + 3 < word.size() && word[at + 3] == ':')
      return true;
  return false;
}

/// Who wrote a line, by what stands before it: "pod/launcher/nccl", "0:" of `srun -l`. When it was written differs from
/// line to line and is left out.
std::string writer_of(const std::string& tag, std::string_view before) {
  std::string writer = tag;
  for (const std::string_view word : words_of(before))
    if (!is_time_of_day(word)) writer += ' ' + std::string{word};
  return writer.substr(0, kLongestName);
}

/// What one process has printed so far above its next row.
struct Listing {
  std::string collective;
  int devices_each = 0;                  // of a process: threads times GPUs of a thread; 0: not said
  std::map<std::string, int> processes;  // devices listed, by host and process id
  int last_rank = -1, listed_ranks = 0;
  std::map<std::string, int> ranks;  // by group
  std::string group;                 // of the first rank: the one whose times are printed
  std::set<std::string> machines, devices;
  std::map<std::string, std::size_t> positions;  // of the columns of the current header
  std::size_t fields = 0;                        // of a row
  std::size_t run = 0;                           // of the file: its headers, counted
  double ticks_per_second = 1e6;                 // of times

  int rank_count() const {
    const auto own = ranks.find(group);
    return own == ranks.end() || !why_not_all().empty() ? 0 : own->second;
  }

  /// What tells that lines about ranks are left out, as texts that show a listing do; empty if nothing does.
  std::string why_not_all() const {
    if (last_rank + 1 > listed_ranks)
      return "lines about all ranks; found rank " + std::to_string(last_rank) + " and " + std::to_string(listed_ranks) +
             (listed_ranks == 1 ? " line" : " lines");
    for (const auto& [process, listed] : processes)
      if (devices_each > 0 && listed < devices_each)
        return "lines about all ranks; nThread and nGpus say " + std::to_string(devices_each) +
               " of each process, and found are " + std::to_string(listed) + " of one";
    return {};
  }
};

/// Reads a listing line by line.
class NcclTests {
 public:
  /// `told`: what is known of runs that do not say which collective they are, by their number in the file.
  explicit NcclTests(const std::string& file_name, std::map<std::size_t, std::string> told = {})
      : file_name_{file_name}, told_{std::move(told)} {}

  /// Runs whose larger rows tell which collective the smaller ones above them were, too.
  bool tells_late() const { return tells_late_; }
  const std::map<std::size_t, std::string>& told() const { return told_; }

  Measurements read(std::string_view text) {
    refuse_other_outputs(text);
    std::string buffer, tag;
    for (std::size_t begin = 0; begin < text.size(); ++line_) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      read_line(without_tags(text.substr(begin, end - begin), buffer, tag), tag);
      begin = end + 1;
    }
    if (cut_rows_ > rows_) throw InputError{first_cut_};  // no accident: the header is not theirs
    if (rows_ == 0) fail_without_rows(text);
    Measurements measurements{.table = parse_csv(csv_.text(), file_name_),
                              .remarks = {},
                              .missing = missing_,
                              .gpu_column = "device",
                              .is_of_collectives = true};
    if (rows_of_nothing_ > 0)
      measurements.remarks.push_back(
          file_name_ + ": rows of 0 B, which move nothing, are left out: " + std::to_string(rows_of_nothing_));
    if (cut_rows_ > 0)
      measurements.remarks.push_back(
          first_cut_ +
          "; such rows, into which another program may have written, are left out: " + std::to_string(cut_rows_));
    if (has_groups_)
      measurements.remarks.push_back(
          file_name_ + ": several groups of ranks ran at the same time; ranks are those of the first group");
    if (writers_with_rows_.size() > 1)
      measurements.remarks.push_back(file_name_ + ": listings of " + std::to_string(writers_with_rows_.size()) +
                                     " processes, which may have run at the same time");
    return measurements;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError{file_name_ + ":" + std::to_string(line_) + ": " + message};
  }

  void refuse_other_outputs(std::string_view text) const {
    const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
    if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[') &&
        text.substr(first, 65536).find('"') != std::string_view::npos &&
        (text.find("\"out_of_place\"") != std::string_view::npos || text.find("\"busBW\"") != std::string_view::npos ||
         text.find("\"busBw\"") != std::string_view::npos))
      throw InputError{file_name_ +
                       ": expected the listing that nccl-tests and rccl-tests print; found their JSON: give what they "
                       "print to the terminal"};
  }

  [[noreturn]] void fail_without_rows(std::string_view text) const {
    const std::string_view what = emptiness(text);
    throw InputError{file_name_ + ": expected the listing of an nccl-tests program; found " +
                     (!what.empty()          ? std::string{what}
                      : rows_of_nothing_ > 0 ? "rows of 0 B alone"
                      : has_header_          ? "its column names, but no row below them"
                                             : "no row of it")};
  }

  void read_line(std::string_view line, const std::string& tag) {
    constexpr int kMostMarks = 4;  // what stands before the line may have some, too
    std::size_t mark = line.find('#');
    for (int i = 0; i < kMostMarks && mark != std::string_view::npos; ++i, mark = line.find('#', mark + 1)) {
      const Words words = words_of(line.substr(mark + 1));
      if (words.size() < 2 || !is_ours(words)) continue;
      read_comment(listing_of(writer_of(tag, line.substr(0, mark))), words, line.substr(mark));
      return;
    }
    read_row(line, tag);
  }

  static bool is_ours(const Words& words) {
    const auto begins = [&](std::initializer_list<std::string_view> with) {
      return words.size() >= with.size() && std::equal(with.begin(), with.end(), words.begin());
    };
    return begins({"Collective", "test", "starting:"}) || words[0].starts_with("nThread") ||
           begins({"Using", "devices"}) || begins({"Rank"}) || begins({"size", "count"}) || begins({"bytes", "N"}) ||
           begins({"Out", "of", "bounds", "values"});
  }

  Listing& listing_of(const std::string& writer) {
    if (!listings_.contains(writer) && listings_.size() >= kMostListings)
      fail("expected listings of at most " + std::to_string(kMostListings) + " processes");
    return listings_[writer];
  }

  void read_comment(Listing& listing, const Words& words, std::string_view line) {
    if (words[0] == "Collective" && words.size() >= 4) {  // Collective test starting: all_reduce_perf
      listing.collective = words[3].substr(0, words[3].find("_perf"));
      check_name(listing.collective);
    } else if (words[0].starts_with("nThread") || words[0] == "Using") {  // a run begins
      if (words[0] != "Using") listing.devices_each = devices_of_process(words);
      listing.processes.clear();
      listing.last_rank = -1;
      listing.listed_ranks = 0;
      listing.ranks.clear();
      listing.machines.clear();
      listing.devices.clear();
    } else if (words[0] == "Rank") {
      read_rank(listing, words, line);
    } else if (words[0] == "Out") {  // Out of bounds values : 3 FAILED
      const auto count = words.size() > 5 ? number_of(words[5]) : std::nullopt;
      if (count && *count > 0)
        fail("expected a run with right results; nccl-tests found " + std::string{words[5]} + " out of bounds");
      listing.collective.clear();  // the run has ended; the next one's program may not say which it is
    } else {
      read_header(listing, words);
    }
  }

  /// nThread 1 nGpus 8 minBytes ..., before 2.9 with a colon behind each name.
  static int devices_of_process(const Words& words) {
    const auto number_after = [&](std::string_view name) {
      for (std::size_t i = 0; i + 1 < words.size(); ++i)
        if (words[i].starts_with(name) && words[i].size() <= name.size() + 1) {
          const double number = number_of(words[i + 1]).value_or(0);
          return number >= 1 && number <= 1024 ? static_cast<int>(number) : 0;
        }
      return 0;
    };
    return number_after("nThread") * number_after("nGpus");
  }

  /// #  Rank  0 Group  0 Pid  8261 on node-1 device  0 [0x10] NVIDIA A100-SXM4-80GB
  void read_rank(Listing& listing, const Words& words, std::string_view line) {
    const auto after = [&](std::string_view name) -> std::string {
      const auto found = std::ranges::find(words, name);
      return found != words.end() && found + 1 != words.end() ? std::string{*(found + 1)} : "";
    };
    const std::string group = after("Group"), machine = after("on");
    const std::string process = after("Pid");
    check_name(group);
    check_name(machine);
    check_name(process);
    if (!process.empty()) ++listing.processes[machine + " " + process];
    ++listing.listed_ranks;
    constexpr double kMostRanks = 1e6;
    if (const double rank = words.size() > 1 ? number_of(words[1]).value_or(-1) : -1; rank >= 0 && rank < kMostRanks)
      listing.last_rank = std::max(listing.last_rank, static_cast<int>(rank));
    if (listing.ranks.empty()) listing.group = group;
    has_groups_ = has_groups_ || group != listing.group;
    ++listing.ranks[group];
    if (group == listing.group && !machine.empty()) listing.machines.insert(machine);
    const std::size_t bracket = line.find("] ");
    if (bracket == std::string_view::npos) return;
    std::string device;
    for (const std::string_view word : words_of(line.substr(bracket + 2)))
      device += (device.empty() ? "" : " ") + std::string{word};
    check_name(device);
    if (!device.empty()) listing.devices.insert(device);
  }

  /// Names are repeated in every row.
  void check_name(const std::string& name) const {
    if (name.size() > kLongestName) fail("expected a name of at most 200 bytes; found " + std::to_string(name.size()));
  }

  ///  size  count  type  [redop]  [root]  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong
  /// Before 2.13 #wrong was "error", the largest difference; before 2.0 the columns began with "bytes  N  type  op",
  /// times were in milliseconds, and "error" was "res".
  void read_header(Listing& listing, const Words& words) {
    listing.positions.clear();
    listing.fields = words.size();
    listing.run = ++runs_;
    listing.ticks_per_second = words[0] == "bytes" ? 1e3 : 1e6;
    has_header_ = true;
    std::string in_place;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::string name{words[i]};
      check_name(name);
      for (const auto& [older, now] :
           {std::pair{"bytes", "size"}, std::pair{"N", "count"}, std::pair{"op", "redop"}, std::pair{"res", "error"}})
        if (name == older) name = now;
      if (name == "cputime")
        fail("expected times of the collective; found those that the host's calls take (nccl-tests -C 1)");
      if (name == "timestamp") ++listing.fields;  // "2026-11-25 12:03:05"
      if (name == "time" && listing.positions.contains(name)) in_place = "_in_place";
      if (!listing.positions.try_emplace(name + in_place, i).second)
        fail("expected distinct columns; found " + in_quotes(words[i]) + " too often");
    }
    for (const char* name :
         {"size", "count", "type", "time", "algbw", "busbw", "time_in_place", "algbw_in_place", "busbw_in_place"})
      if (!listing.positions.contains(name))
        fail("expected the columns of an nccl-tests program; found none for " + in_quotes(name));
  }

  /// Where a row begins: with two whole numbers and a type that is known, or else with a word; the end if there is none.
  static std::size_t begin_of_row(const Words& words) {
    std::size_t any = words.size();
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      if (!is_whole_number(words[i]) || !is_whole_number(words[i + 1])) continue;
      if (is_type(words[i + 2])) return i;
      const bool is_word = words[i + 2].find_first_not_of("0123456789.+-") != std::string_view::npos;
      if (is_word && any == words.size()) any = i;
    }
    return any;
  }

  /// A row begins with two whole numbers and the name of a type, behind whatever else the line begins with.
  void read_row(std::string_view line, const std::string& tag) {
    const Words all = words_of(line);
    const std::size_t first = begin_of_row(all);
    if (first == all.size()) return;
    const Words words{all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
    const std::string writer =
        writer_of(tag, line.substr(0, first == 0 ? 0 : static_cast<std::size_t>(words[0].data() - line.data())));
    const Listing* listing = find_listing(writer);
    const bool fits = listing != nullptr && words.size() == listing->fields;
    const bool is_timed = fits && number_of(words[listing->positions.at("time")]).has_value();
    if (!is_timed && !is_type(words[2])) return;  // another program's line
    if (listing == nullptr) {
      if (words.size() < kFewestColumns) return;
      fail("expected the line with the column names, \"#  size  count  type ...\", above the first row");
    }
    const Row row{.listing = *listing, .words = words};
    const std::string cut = fits ? why_no_number(row)
                                 : "expected " + std::to_string(listing->fields) + " fields as in the header; found " +
                                       std::to_string(words.size());
    if (cut.empty())
      add_row(row, writer);
    else if (cut_rows_++ == 0)
      first_cut_ = file_name_ + ":" + std::to_string(line_) + ": " + cut;
  }

  /// The listing that a line belongs to: its writer's, or the only one. Null if it has no column names yet.
  const Listing* find_listing(const std::string& writer) const {
    auto found = listings_.find(writer);
    if (found == listings_.end() && listings_.size() == 1) found = listings_.begin();
    return found == listings_.end() || found->second.positions.empty() ? nullptr : &found->second;
  }

  struct Row {
    const Listing& listing;
    const Words& words;
  };

  void add_row(const Row& row, const std::string& writer) {
    if (number_of(row.words[row.listing.positions.at("size")]) == 0.0) {
      ++rows_of_nothing_;
      return;
    }
    check_results(row);
    const Listing& listing = row.listing;
    const std::string device = listing.devices.size() == 1 ? *listing.devices.begin() : "";
    const int ranks = listing.rank_count();
    const std::string collective = collective_of(row);
    note_missing(listing, collective);
    csv_.skip_to_line(line_);
    csv_.row({collective, ranks > 0 ? std::to_string(ranks) : "",
              ranks == 0 || listing.machines.empty() ? "" : std::to_string(listing.machines.size()), device,
              number(row, "size"), number(row, "count"), std::string{text(row, "type")},
              std::string{text(row, "redop")}, std::string{text(row, "root")}, seconds(row, "time"),
              microseconds(row, "time"), number(row, "algbw"), number(row, "busbw"), seconds(row, "time_in_place"),
              microseconds(row, "time_in_place"), number(row, "algbw_in_place"), number(row, "busbw_in_place")});
    if (csv_.text().size() > kMaxText) throw InputError{file_name_ + ": expected a listing of fewer rows"};
    writers_with_rows_.insert(writer);
    ++rows_;
  }

  void check_results(const Row& row) const {
    for (const char* wrong : {"#wrong", "#wrong_in_place"})
      if (value(row, wrong).value_or(0) > 0)
        fail("expected a run with right results; found " + in_quotes(text(row, wrong)) + " wrong ones");
    const double most = largest_difference(text(row, "type")) * std::max(1, row.listing.rank_count() - 1);
    for (const char* error : {"error", "error_in_place"})
      if (value(row, error).value_or(0) > most)
        fail("expected a run with right results; found a difference of " + std::string{text(row, error)});
  }

  /// What the bus bandwidth is of the algorithm's: 1, (n-1)/n or 2(n-1)/n of the n ranks that took part; 0 if the listing
  /// or its digits tell it not. Source: nccl-tests, doc/PERFORMANCE.md. Other ranks were listed than took part where it is
  /// none of these.
  double bandwidth_factor(const Row& row, const std::string& where) const {
    const int ranks = row.listing.rank_count();
    if (ranks < 2 || row.listing.ranks.size() > 1) return 0;
    const auto algorithm = value(row, "algbw" + where), bus = value(row, "busbw" + where);
    constexpr double kLeast = 10, kDigit = 0.0051, kSlack = 1e-4;  // two digits behind the point are printed
    if (!algorithm || !bus || *algorithm < kLeast) return 0;
    const double share = (ranks - 1.0) / ranks;
    for (const double factor : {share, 2 * share, 1.0})
      if (std::abs(*bus - factor * *algorithm) <= kDigit * (1 + factor) + kSlack * *bus) return factor;
    fail("expected a bus bandwidth of " + std::to_string(ranks) + " ranks, of which lines tell above; found " +
         std::string{text(row, "busbw" + where)} + " GB/s beside the algorithm's " +
         std::string{text(row, "algbw" + where)} + " GB/s, which is that of another number of ranks");
  }

  /// As the listing says; programs before 2.17 do not. What sums without a root is an all-reduce or a reduce-scatter, as
  /// bandwidths tell. Empty: not known.
  std::string collective_of(const Row& row) {
    const Listing& listing = row.listing;
    const double out_of_place = bandwidth_factor(row, ""),
                 factor = std::max(out_of_place, bandwidth_factor(row, "_in_place"));
    if (!listing.collective.empty()) return listing.collective;
    const std::string_view redop = text(row, "redop");
    if (redop.empty() || redop == "none") return {};
    if (value(row, "root").value_or(-1) >= 0) return "reduce";
    if (const auto known = told_.find(listing.run); known != told_.end()) return known->second;
    if (factor == 0) {
      untold_.insert(listing.run);
      return {};
    }
    tells_late_ = tells_late_ || untold_.contains(listing.run);
    const double share = (listing.rank_count() - 1.0) / listing.rank_count();
    return told_[listing.run] = factor == share ? "reduce_scatter" : "all_reduce";
  }

  /// What makes columns empty, for whoever needs them.
  void note_missing(const Listing& listing, const std::string& collective) {
    const std::string above = file_name_ + ":" + std::to_string(line_) + ": expected above the row ";
    if (const std::string why = listing.why_not_all(); !why.empty()) {
      missing_.try_emplace("ranks", above + why);
      missing_.try_emplace("machines", above + why);
    }
    const std::string ranks =
        "the lines \"# Using devices\" and \"#  Rank  0 ... on HOST device  0 ...\", which say how many GPUs and "
        "machines took part; found none";
    if (collective.empty())
      missing_.try_emplace("collective", above + "the line \"# Collective test starting: ...\"; found none");
    if (listing.rank_count() == 0) missing_.try_emplace("ranks", above + ranks);
    if (listing.machines.empty()) missing_.try_emplace("machines", above + ranks);
    if (listing.devices.size() != 1)
      missing_.try_emplace("device",
                           listing.devices.empty() ? above + ranks : above + "GPUs of one kind; found several");
  }

  /// Empty where the program has no such column or no value in it.
  static std::string_view text(const Row& row, const std::string& column) {
    const auto position = row.listing.positions.find(column);
    if (position == row.listing.positions.end()) return {};
    const std::string_view word = row.words[position->second];
    return word == "N/A" ? std::string_view{} : word;
  }

  /// What another program writes at the same time can cut a row in two, or come behind it on its line: then there are more or
  /// fewer fields than in the header, or no number where one must be. Empty if all are there.
  static std::string why_no_number(const Row& row) {
    for (const char* column : {"size", "count", "time", "algbw", "busbw", "#wrong", "error"})
      for (const char* where : {"", "_in_place"}) {
        const std::string_view word = text(row, std::string{column} + where);
        if (!word.empty() && !(number_of(word).value_or(-1) >= 0))
          return "column " + in_quotes(std::string{column} + where) + ": expected a number; found " + in_quotes(word);
      }
    return {};
  }

  static std::optional<double> value(const Row& row, const std::string& column) {
    const std::string_view word = text(row, column);
    if (word.empty()) return {};
    return number_of(word);
  }

  static std::string number(const Row& row, const std::string& column) { return std::string{text(row, column)}; }

  static std::string seconds(const Row& row, const std::string& column) {
    const auto ticks = value(row, column);
    return ticks ? CsvField{*ticks / row.listing.ticks_per_second}.text() : "";
  }

  /// As it is written, if that is in microseconds.
  static std::string microseconds(const Row& row, const std::string& column) {
    const auto ticks = value(row, column);
    const bool has_milliseconds = row.listing.ticks_per_second < 1e6;
    return ticks && has_milliseconds ? CsvField{*ticks * 1e3}.text() : number(row, column);
  }

  const std::string& file_name_;
  std::size_t line_ = 1;
  std::size_t rows_ = 0, rows_of_nothing_ = 0, cut_rows_ = 0;
  std::string first_cut_;  // the line about the first of cut_rows_
  bool has_header_ = false, has_groups_ = false;
  std::map<std::string, Listing> listings_;  // by who writes it
  std::size_t runs_ = 0;
  std::map<std::size_t, std::string> told_;  // collectives of runs that do not say theirs
  std::set<std::size_t> untold_;             // runs with rows above the first that tells it
  bool tells_late_ = false;
  std::set<std::string> writers_with_rows_;
  std::map<std::string, std::string> missing_;
  CsvWriter csv_{{"collective", "ranks", "machines", "device", "bytes", "count", "type", "redop", "root", "time_s",
                  "time_us", "algbw_GBps", "busbw_GBps", "time_s_in_place", "time_us_in_place", "algbw_GBps_in_place",
                  "busbw_GBps_in_place"}};
};

}  // namespace

Measurements parse_nccl_tests(std::string_view text, const std::string& file_name) {
  NcclTests first{file_name};
  Measurements measurements = first.read(text);
  return first.tells_late() ? NcclTests{file_name, first.told()}.read(text) : measurements;
}

}  // namespace rehearse
