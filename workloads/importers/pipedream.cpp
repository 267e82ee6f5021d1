#include "workloads/importers/pipedream.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <sstream>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/timed_layers.hpp"

namespace rehearse {

namespace {

constexpr std::string_view kColumns = "node,layer,forward_ms,backward_ms,activation_bytes,parameter_bytes";
constexpr std::string_view kSeparator = " -- ";
constexpr std::string_view kStage = "stage_id=", kVirtualStage = "vlayer_id=";  // the latter of Harmony
constexpr std::size_t kMostNodes = 100'000;
constexpr double kMostBytes = 1e12, kMostMilliseconds = 1e9, kMostStages = 1e5;

struct Node {
  std::string id, layer, place;
  double forward_ms = 0, backward_ms = 0;
  std::vector<double> outputs;  // bytes, of a tuple several
  double parameters = 0;        // bytes
  std::vector<std::size_t> inputs{}, readers{};
  double output() const {
    double sum = 0;
    for (const double bytes : outputs) sum += bytes;
    return sum;
  }
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

double number_of(std::string_view text, double most, const std::string& place, std::string_view what) {
  text = trimmed(text);
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= most))
    throw InputError{place + ": " + std::string{what} + ": expected a number from 0 to " + std::to_string(most) +
                     "; found " + in_quotes(text)};
  return value;
}

/// "12.0", or "[12.0; 4.0]" of a tuple.
std::vector<double> sizes_of(std::string_view text, const std::string& place) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<double> sizes;
  while (true) {
    const std::size_t end = text.find_first_of(";,");
    sizes.push_back(number_of(text.substr(0, end), kMostBytes, place, "activation size"));
    if (end == std::string_view::npos) return sizes;
    text.remove_prefix(end + 1);
  }
}

/// Nodes by their names, and what connects them.
class Profile {
 public:
  explicit Profile(std::string name) : name_{std::move(name)} {}

  void add(Node node) {
    if (nodes.size() == kMostNodes) throw InputError{node.place + ": more than 100000 nodes"};
    if (!index_.emplace(node.id, nodes.size()).second)
      throw InputError{node.place + ": " + in_quotes(node.id) + " is there twice"};
    nodes.push_back(std::move(node));
  }
  void connect(std::string_view from, std::string_view to, const std::string& place) {
    const std::size_t reader = find(to, place), read = find(from, place);
    if (!edges_.emplace(read, reader).second) return;
    nodes[reader].inputs.push_back(read);
    nodes[read].readers.push_back(reader);
  }

  /// Of nodes that are ready the one that the file names first. Throws InputError if there is a cycle.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> waits_for;
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      waits_for.push_back(nodes[i].inputs.size());
      if (nodes[i].inputs.empty()) ready.push(i);
    }
    std::vector<std::size_t> sorted;
    while (!ready.empty()) {
      const std::size_t next = ready.top();
      ready.pop();
      sorted.push_back(next);
      for (const std::size_t reader : nodes[next].readers)
        if (--waits_for[reader] == 0) ready.push(reader);
    }
    if (sorted.size() < nodes.size()) {
      const auto stuck = static_cast<std::size_t>(
          std::ranges::find_if(waits_for, [](std::size_t count) { return count > 0; }) - waits_for.begin());
      throw InputError{name_ + ": " + in_quotes(nodes[stuck].id) + " waits for a cycle of nodes"};
    }
    return sorted;
  }

  std::vector<Node> nodes;
  std::set<double> stages{};  // of PipeDream's own partition, if it was written

 private:
  std::size_t find(std::string_view id, const std::string& place) const {
    const auto found = index_.find(id);
    if (found == index_.end()) throw InputError{place + ": no node " + in_quotes(id)};
    return found->second;
  }

  std::string name_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::set<std::pair<std::size_t, std::size_t>> edges_;
};

Node node_of(std::string_view id, std::string_view layer, std::string_view fields, const std::string& place) {
  Node node{.id = std::string{id}, .layer = std::string{layer}, .place = place, .outputs = {}};
  std::map<std::string_view, std::string_view> values;
  while (!fields.empty()) {
    const std::size_t equals = fields.find('=');
    if (equals == std::string_view::npos) break;
    const std::size_t close = fields.substr(equals + 1).starts_with('[') ? fields.find(']', equals) : equals;
    const std::size_t end = close == std::string_view::npos ? close : fields.find(',', close);
    values[trimmed(fields.substr(0, equals))] =
        fields.substr(equals + 1, end == std::string_view::npos ? end : end - equals - 1);
    fields = end == std::string_view::npos ? "" : fields.substr(end + 1);
  }
  for (const char* key : {"forward_compute_time", "backward_compute_time", "activation_size", "parameter_size"})
    if (!values.contains(key)) throw InputError{place + ": expected " + key + "=... of " + in_quotes(id)};
  node.forward_ms = number_of(values["forward_compute_time"], kMostMilliseconds, place, "forward_compute_time");
  node.backward_ms = number_of(values["backward_compute_time"], kMostMilliseconds, place, "backward_compute_time");
  node.outputs = sizes_of(values["activation_size"], place);
  node.parameters = number_of(values["parameter_size"], kMostBytes, place, "parameter_size");
  return node;
}

Profile profile_of_text(const Source& source) {
  struct Edge {
    std::string from, to, place;
  };
  Profile profile{source.name()};
  std::vector<Edge> edges;
  std::istringstream lines{source.content()};
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = source.name() + ":" + std::to_string(++count);
    std::string_view text = trimmed(line);
    if (text.empty()) continue;
    std::size_t last = text.rfind(kSeparator);
    for (const std::string_view key : {kStage, kVirtualStage}) {
      const std::string_view end = last == std::string_view::npos ? "" : text.substr(last + kSeparator.size());
      if (!end.starts_with(key)) continue;
      profile.stages.insert(number_of(end.substr(key.size()), kMostStages, place, key.substr(0, key.size() - 1)));
      text = text.substr(0, last);
      last = text.rfind(kSeparator);
    }
    const std::size_t first = text.find(kSeparator);
    if (first == std::string_view::npos || (first < last && last < first + kSeparator.size()))
      throw InputError{place + ": expected \"node1 -- ...\"; found " + in_quotes(text)};
    const std::string_view id = text.substr(0, first), rest = text.substr(last + kSeparator.size());
    if (first == last)
      edges.push_back({std::string{id}, std::string{rest}, place});
    else
      profile.add(node_of(id, text.substr(first + kSeparator.size(), last - first - kSeparator.size()), rest, place));
  }
  for (const Edge& edge : edges) profile.connect(edge.from, edge.to, edge.place);
  return profile;
}

Profile profile_of_tables(const Source& source) {
  Profile profile{source.name()};
  const CsvTable nodes = parse_csv(source.content(), source.name());
  for (const CsvRow& row : nodes.rows()) {
    const std::string place = source.name() + ":" + std::to_string(row.line());
    profile.add({.id = std::string{row.text("node")},
                 .layer = std::string{row.text("layer")},
                 .place = place,
                 .forward_ms = number_of(row.text("forward_ms"), kMostMilliseconds, place, "forward_ms"),
                 .backward_ms = number_of(row.text("backward_ms"), kMostMilliseconds, place, "backward_ms"),
                 .outputs = sizes_of(row.text("activation_bytes"), place),
                 .parameters = number_of(row.text("parameter_bytes"), kMostBytes, place, "parameter_bytes")});
  }
  std::string beside = source.path().filename().string();
  const std::size_t word = beside.find("nodes");
  if (word == std::string::npos)
    throw InputError{source.name() + ": expected a name such as NAME.nodes.csv, with NAME.edges.csv beside it"};
  beside.replace(word, 5, "edges");
  const CsvTable edges = load_csv_file(source.path().parent_path() / beside);
  for (const CsvRow& row : edges.rows())
    profile.connect(row.text("src"), row.text("dst"), edges.file_name() + ":" + std::to_string(row.line()));
  return profile;
}

/// The number behind `name`, as in "Linear(in_features=9216, out_features=4096)" or "View(9216)"; 0 if there is none.
double argument(std::string_view layer, std::string_view name) {
  const std::size_t at = layer.find(name);
  if (at == std::string_view::npos) return 0;
  double value = 0;
  std::from_chars(layer.data() + at + name.size(), layer.data() + layer.size(), value);
  return value;
}

/// Without zeros at the end.
std::string decimals(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

/// Rows of a layer's output, samples or positions of all samples: 4 bytes for each feature that its name tells; 0 if they
/// are not whole, or the name tells no features.
int rows_of(double bytes, double features) {
  const double rows = features > 0 ? bytes / (4 * features) : 0;
  return rows >= 1 && rows <= 65536 && std::floor(rows) == rows ? static_cast<int>(rows) : 0;
}

bool has_features(std::string_view layer) {
  return layer.starts_with("LSTM(") || layer.starts_with("Linear(") || layer.starts_with("View(");
}

int rows_of(const Node& node) {
  const std::string_view layer = node.layer;
  if (layer.starts_with("LSTM(") && node.outputs.size() == 3)  // output, and the state of one position
    return rows_of(node.outputs[1], argument(layer, ", "));
  if (layer.starts_with("Linear(")) return rows_of(node.output(), argument(layer, "out_features="));
  return layer.starts_with("View(") ? rows_of(node.output(), argument(layer, "View(")) : 0;
}

/// Whether the node has a word for each of so many rows: embedded ones, or the 8 bytes of their numbers.
bool has_words(const Profile& profile, const Node& node, int rows) {
  const std::string_view layer = node.layer;
  if (layer.starts_with("Embedding(")) return rows_of(node.output(), argument(layer, ", ")) == rows;
  return layer.starts_with("Input") && node.output() == 8.0 * rows &&
         std::ranges::none_of(node.readers, [&](std::size_t reader) {
           return argument(profile.nodes[reader].layer, "in_features=") == 2;  // two numbers of 4 bytes
         });
}

/// Samples in a batch. A layer that is applied at each position has a row for each position of each sample, one behind
/// these a row for each sample: the fewest count. Throws InputError if layers contradict that, or none is behind them.
int batch_of(const Profile& profile, const std::string& name) {
  constexpr std::string_view kRemedy =
      "; give the profile of the whole model, or call a layer with a row for each sample Linear(out_features=N), of 4 "
      "N "
      "bytes for each";
  std::string found;
  const Node* fewest = nullptr;
  for (const Node& node : profile.nodes) {
    const int rows = rows_of(node);
    if (rows > 0 && node.layer.starts_with("LSTM(")) return rows;
    if (rows > 0 && (fewest == nullptr || rows < rows_of(*fewest))) fewest = &node;
    if (rows == 0 && found.empty() && has_features(node.layer))
      found = "; " + in_quotes(node.id) + " has " + decimals(node.output()) +
              " bytes, which are not 4 for each of its features and of 1 to 65536 samples";
  }
  if (fewest == nullptr)
    throw InputError{name + ": no layer tells the batch: expected a Linear, View or LSTM layer with its features" +
                     found + std::string{kRemedy}};
  const int batch = rows_of(*fewest);
  for (const Node& node : profile.nodes) {
    if (rows_of(node) % batch != 0)
      throw InputError{node.place + ": " + in_quotes(node.id) + " has " + std::to_string(rows_of(node)) +
                       " rows, which is no multiple of the " + std::to_string(batch) + " of " + in_quotes(fewest->id) +
                       ": they tell no batch" + std::string{kRemedy}};
    if (batch > 1 && has_words(profile, node, batch))
      throw InputError{fewest->place + ": " + in_quotes(fewest->id) + " has " + std::to_string(batch) +
                       " rows, as many as " + in_quotes(node.id) +
                       " has words: samples times positions, which no layer tells apart" + std::string{kRemedy}};
  }
  return batch;
}

Bytes whole_bytes(double bytes) { return Bytes{std::llround(bytes)}; }

}  // namespace

bool is_pipedream_profile(const Source& source) {
  const std::string_view line = std::string_view{source.start()}.substr(0, source.start().find('\n'));
  return line.starts_with(kColumns) || (line.starts_with("node") && line.find(kSeparator) != std::string_view::npos);
}

ImportedModel read_pipedream_profile(const Source& source) {
  const bool is_table = source.start().starts_with(kColumns);
  const Profile profile = is_table ? profile_of_tables(source) : profile_of_text(source);
  const int batch = batch_of(profile, source.name());

  const std::vector<std::size_t> order = profile.order();
  std::vector<std::size_t> last_reader(profile.nodes.size());  // position in the order
  for (std::size_t position = 0; position < order.size(); ++position)
    for (const std::size_t input : profile.nodes[order[position]].inputs) last_reader[input] = position;

  TimedLayers timed{.batch = batch, .layers = {}};
  std::vector<bool> is_kept(profile.nodes.size());
  double passed = 0;                        // bytes that layers still to come read
  std::multimap<std::size_t, double> ends;  // position after which bytes are read no more
  for (std::size_t position = 0; position < order.size(); ++position) {
    const Node& node = profile.nodes[order[position]];
    if (node.layer.starts_with("Input")) continue;
    double kept = 0;
    for (const std::size_t input : node.inputs) {
      if (!is_kept[input] && !profile.nodes[input].layer.starts_with("Input")) kept += profile.nodes[input].output();
      is_kept[input] = true;
    }
    if (last_reader[order[position]] > position) {
      passed += node.output();
      ends.emplace(last_reader[order[position]], node.output());
    }
    for (auto end = ends.begin(); end != ends.end() && end->first <= position; end = ends.erase(end))
      passed -= end->second;
    timed.layers.push_back({.name = node.id + " " + node.layer.substr(0, node.layer.find('(')),
                            .gradient = whole_bytes(node.parameters),
                            .forward = Seconds{node.forward_ms * 1e-3},
                            .backward = Seconds{node.backward_ms * 1e-3},
                            .output = whole_bytes(passed),
                            .kept = whole_bytes(kept)});
  }
  if (timed.layers.empty()) throw InputError{source.name() + ": expected a layer besides inputs"};
  std::vector<std::string> remarks{"times are those of one GPU, layer by layer, with a batch of " +
                                   std::to_string(batch)};
  if (!profile.stages.empty())
    remarks.push_back(
        "its partition into stages (stage_id, vlayer_id) is not taken over: a scenario's strategy states its own; "
        "stages: " +
        std::to_string(profile.stages.size()));
  return {.model_file = model_file(source, "PipeDream profile", timed_layers_json(timed)), .remarks = remarks};
}

}  // namespace rehearse
