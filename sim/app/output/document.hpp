#pragma once
// A report as a list of sections, and the page made of it: one HTML file that works offline. What is said and shown is decided
// here, how it looks in sim/app/pages.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rehearse {

struct Series {
  std::string name;
  std::vector<double> x, y;
  bool is_points = false;  // otherwise a line
};

struct Plot {
  std::string title, x_label, y_label;  // labels carry the unit
  std::vector<Series> series;
  bool has_diagonal = false;    // y = x, for measured against simulated
  bool is_logarithmic = false;  // both axes
};

/// Values of each row and column, the darker the larger they are.
struct HeatMap {
  std::string title, unit;
  std::vector<std::string> rows, columns;   // their labels
  std::vector<std::vector<double>> values;  // [rows][columns]; NaN is left empty
  std::string row_label{}, column_label{};  // what they are
};

/// Bars under one another, each of parts one after the other.
struct Bars {
  struct Part {
    std::string name;
    double value = 0;
    std::string note{};    // shown with the part
    std::string family{};  // parts of one have shades of one colour
  };
  struct Bar {
    std::string name;
    std::vector<Part> parts;
  };
  std::string title, unit;
  std::vector<Bar> bars;
};

/// How changes lead from one value to another; the last value is their sum.
struct Waterfall {
  std::string title, unit;
  std::string from_name, to_name;
  double from = 0;
  std::vector<std::pair<std::string, double>> changes;
};

/// What workers and servers do over a time.
struct Lanes {
  struct Work {
    std::size_t lane = 0, of_class = 0;
    double start = 0, end = 0;  // in the unit, from the beginning
    std::string name;
  };
  std::string title, unit;
  double length = 0;
  std::vector<std::string> lanes, classes;
  std::vector<Work> work;
};

/// Groups of like machines and the networks between them, coloured by load.
struct ClusterPicture {
  struct Network {
    std::string name, note;
  };
  struct Machines {
    std::string name, note;  // note: shown with the group
    int count = 1;
    std::size_t network = 0;  // index into networks
    std::string link;         // to the network: "NIC 50 GB/s"
    double load = 0;          // of that link, in the direction that has more
    int gpus = 0;             // of each machine; 0: servers
    std::string gpu;
    double gpu_busy = 0, cpu_busy = 0;
  };
  std::string title;
  std::vector<Network> networks;
  std::vector<Machines> groups;
};

/// A line over parallel axes for each row; coloured by the last axis, which is of numbers.
struct ParallelAxes {
  using Value = std::variant<double, std::string>;
  std::string title;
  std::vector<std::string> axes;
  std::vector<std::vector<Value>> rows;  // [rows][axes]
};

using Figure = std::variant<Plot, HeatMap, Bars, Waterfall, Lanes, ClusterPicture, ParallelAxes>;

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string csv{};  // name of a file beside the page that has all of it
};

struct Section {
  std::string title;
  std::vector<std::string> paragraphs;
  std::vector<Table> tables;
  std::vector<Figure> figures;
  bool is_wide = false;  // on the first screen: as wide as the page
};

struct KeyNumber {
  std::string label, value;  // the value with its unit
  std::string range{};       // "9.8 to 11.2", or what else is to be known of it
};

struct Document {
  std::string title;
  std::string subtitle;
  std::vector<KeyNumber> headlines;
  std::vector<Section> sections;
  std::string verdict{};            // one sentence that answers
  std::vector<Section> overview{};  // cards beside one another on the first screen
};

/// `text` with &, <, >, " and ' replaced: user-given names go through here.
std::string escape_html(std::string_view text);

/// As printf would print it: for numbers whose digits or columns are fixed.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);
/// A number for a reader: 4 significant digits.
std::string display(double value);
/// Empty of a value that is not known (NaN).
std::string display_if_known(double value);
/// A time in seconds, "12.3 s", with what a long one is to a person beside it: "7588 s (2 h 6 min)", "4.208e+07 s (487
/// days 1 h)". What is less than a picosecond is rounding: "0 s".
std::string time_text(double seconds);
/// A number of things: "4998", "61.04 million".
std::string count_text(double count);

/// A number of 3 digits with the prefix of its size: "10.6 k", "47.4".
std::string short_text(double value);
/// Three digits: "0.0123", "1.52", or all before the point below a million: "1523".
std::string brief(double value);
/// A time as people say it: "93.8 ms", "12.3 s", "41 min 5 s", "2 h 6 min", "487 days 1 h".
std::string short_time_text(double seconds);
/// The same for a column that may have minutes and hours in it: from a minute on in two units, "4 min 34 s", not "274 s".
std::string column_time_text(double seconds);
/// "83 %"; what is less than can be told of a run is said to be so.
std::string share_text(double share);

/// Text for a terminal: aligned columns, two spaces apart, one line each.
std::string to_text(const Table& table);

/// Series longer than 2000 points are thinned evenly. Throws InputError if the files of sim/app/pages are not there.
std::string render_html(const Document& document);

}  // namespace rehearse
