#pragma once
// A report as a list of sections, and its rendering as one HTML file that works offline: no script, no external
// resource.

#include <string>
#include <string_view>
#include <utility>
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
  bool has_diagonal = false;  // y = x, for measured against simulated
};

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/// Values of each row and column, drawn darker the larger they are.
struct HeatMap {
  std::string title, unit;
  std::vector<std::string> labels;          // of rows and columns
  std::vector<std::vector<double>> values;  // [rows][columns]; 0 is left empty
};

struct Section {
  std::string title;
  std::vector<std::string> paragraphs;
  std::vector<Table> tables;
  std::vector<Plot> plots;
  std::vector<HeatMap> heat_maps;
};

struct Document {
  std::string title;
  std::string subtitle;
  std::vector<std::pair<std::string, std::string>> headlines;  // label, value with unit
  std::vector<Section> sections;
};

/// `text` with &, <, >, " and ' replaced: user-given names go through here.
std::string escape_html(std::string_view text);

/// A number for a reader: 4 significant digits.
std::string display(double value);
/// Empty of a value that is not known (NaN).
std::string display_if_known(double value);
/// A time in seconds, "12.3 s", with what a long one is to a person beside it: "7588 s (2 h 6 min)", "4.208e+07 s (487
/// days 1 h)". What is less than a picosecond is rounding: "0 s".
std::string time_text(double seconds);
/// A number of things: "4998", "61.04 million".
std::string count_text(double count);

/// Text for a terminal: aligned columns, two spaces apart, one line each.
std::string to_text(const Table& table);

/// Series longer than 2000 points are thinned evenly.
std::string render_html(const Document& document);

}  // namespace rehearse
