#include "predictor/dataset.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "predictor/described_step.hpp"
#include "predictor/node_features.hpp"
#include "predictor/run_labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_lock.hpp"
#include "sim/base/sqlite.hpp"

namespace rehearse {

namespace {

static_assert(std::endian::native == std::endian::little, "blobs are written as they are in memory");

constexpr int kApplicationId = 0x52656864;  // "Rehd": tells our files from other SQLite databases
constexpr int kVersion = 3;
constexpr const char *kKind = "dataset", *kWriting = "write this dataset";
constexpr std::size_t kMostNames = 1000;

/// The tables, by name; a file whose tables were made by any other text is refused.
struct Table {
  const char* name;
  const char* sql;
};
constexpr std::array kTables{
    Table{"meta", "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL)"},
    Table{"names", "CREATE TABLE names(kind TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL)"},
    Table{"settings",
          "CREATE TABLE settings(id INTEGER PRIMARY KEY, name TEXT NOT NULL, grouped TEXT NOT NULL, "
          "provenance TEXT NOT NULL)"},
    Table{"graphs",
          "CREATE TABLE graphs(id INTEGER PRIMARY KEY, family TEXT NOT NULL, name TEXT NOT NULL, "
          "provenance TEXT NOT NULL, nodes INTEGER NOT NULL, features BLOB NOT NULL, edges BLOB NOT NULL)"},
    Table{
        "samples",
        "CREATE TABLE samples(id INTEGER PRIMARY KEY, graph INTEGER NOT NULL, setting INTEGER NOT NULL, "
        "split TEXT NOT NULL, origin TEXT NOT NULL, weight REAL NOT NULL, labels BLOB NOT NULL, step BLOB NOT NULL)"}};

constexpr std::array kOrigins{Named{"simulated", Origin::kSimulated}, Named{"measured", Origin::kMeasured}};

}  // namespace

std::string to_text(Split split) { return name_in(kSplits, split); }

std::string to_text(Origin origin) { return name_in(kOrigins, origin); }

const std::string& study_of(const Dataset& dataset, const Sample& sample) {
  static const std::string none;
  if (sample.origin == Origin::kSimulated) return none;
  const DatasetSetting& setting = dataset.settings[static_cast<std::size_t>(sample.setting)];
  return setting.group == setting.name ? none : setting.group;
}

bool is_observed(const Dataset& dataset, const Sample& sample, std::size_t label) {
  if (std::isnan(sample.labels[label])) return false;
  const std::string& name = dataset.labels[label];
  const std::size_t mean = name.find("_mean_Bps");
  if (sample.origin == Origin::kSimulated || mean == std::string::npos) return true;
  const auto peak = std::find(dataset.labels.begin(), dataset.labels.end(), name.substr(0, mean) + "_peak_Bps");
  return peak != dataset.labels.end() &&
         !std::isnan(sample.labels[static_cast<std::size_t>(peak - dataset.labels.begin())]);
}

const std::vector<std::string>& node_feature_names() {
  static const std::vector<std::string> names = names_in(kNodeFeatures);
  return names;
}

const std::vector<std::string>& label_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, value] : named_labels({})) all.push_back(name);
    return all;
  }();
  return names;
}

std::vector<float> node_features_of(const Workload& workload, Optimizer optimizer, const States& states) {
  std::vector<float> features;
  features.reserve(workload.graph.size() * node_feature_names().size());
  auto updated = workload.variables.begin();  // updates are there for the trainable variables, in creation order
  for (std::size_t vertex = 0; vertex < workload.graph.size(); ++vertex) {
    const OperatorAt kernel = workload.graph[vertex];
    double elements = 1;
    for (const std::int64_t size : kernel->output_shape) elements *= static_cast<double>(size);
    const std::vector<int> reads = kernel.reads_variables();
    double variables = static_cast<double>(reads.size());
    double first = reads.empty() ? -1 : *std::min_element(reads.begin(), reads.end());
    Bytes parameters{}, averages{}, read = kernel->bytes_read, written = kernel->bytes_written;
    int statistics = 0, statistic = -1;
    for (const int variable : kernel.produces_gradients()) {
      const Variable& of = workload.variables[static_cast<std::size_t>(variable)];
      if (of.is_trainable) continue;
      statistic = statistics++ == 0 ? variable : std::min(statistic, variable);
      averages += of.bytes;
    }
    for (const int variable : reads) parameters += workload.variables[static_cast<std::size_t>(variable)].bytes;
    if (kernel->phase == Phase::kUpdate) {
      while (!updated->is_trainable) ++updated;
      parameters = updated->bytes;
      const double used = updated->rows_used ? as_double(*updated->rows_used) / as_double(updated->bytes) : 1;
      const auto touched = std::llround(static_cast<double>(updated->scalars()) * used);
      read = Bytes{touched * update_read_bytes(states, optimizer_slots(optimizer))};
      written = Bytes{touched * update_written_bytes(states, optimizer_slots(optimizer))};
      variables = 1;
      first = static_cast<double>(updated - workload.variables.begin());
      ++updated;
    }
    const auto number = [](auto value) { return static_cast<float>(value); };
    append({.kind = number(kernel->kind),
            .phase = number(kernel->phase),
            .flops = number(kernel->flops.value()),
            .read = number(as_double(read)),
            .written = number(as_double(written)),
            .parameters = number(as_double(parameters)),
            .elements = number(elements),
            .rows = number(kernel->matrix.rows),
            .columns = number(kernel->matrix.columns),
            .reduction = number(kernel->matrix.reduction),
            .products = number(kernel->matrix.products),
            .is_3x3_stride_1 = number(kernel->is_3x3_stride_1),
            .variables = number(variables),
            .variable = number(first),
            .statistics = number(statistics),
            .statistic = number(statistic),
            .statistic_bytes = number(as_double(averages)),
            .input_bytes = vertex == 0 ? number(as_double(workload.input_bytes)) : 0},
           features);
  }
  return features;
}

std::vector<GraphEdge> edges_of(const Workload& workload) {
  std::vector<GraphEdge> all;
  for (const OperatorEdge& edge : workload.graph.edges())
    all.push_back({static_cast<std::int32_t>(edge.from), static_cast<std::int32_t>(edge.to)});
  return all;
}

/// The file under a temporary name, and its prepared statements.
struct DatasetWriter::File {
  File(const std::filesystem::path& path_, const Dataset& head)
      : path{path_}, temporary{path_.string() + ".tmp"}, shown{shortened(path_.string(), 4096)}, lock{path_} {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);  // of a process that was killed: nobody else writes it now
    database.emplace(temporary, shown, kKind, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    execute("PRAGMA journal_mode = OFF");  // nobody sees the file before it is whole
    execute("PRAGMA synchronous = OFF");
    database->mark(kApplicationId, kVersion, kWriting);
    execute("BEGIN");
    for (const Table& table : kTables) execute(table.sql);
    database->prepare("INSERT INTO meta VALUES('provenance', ?1)").run(head.provenance);
    add_names("node_feature", head.node_features);
    add_names("label", head.labels);
    setting.emplace(database->prepare("INSERT INTO settings VALUES(?1, ?2, ?3, ?4)"));
    graph.emplace(database->prepare("INSERT INTO graphs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
    sample.emplace(database->prepare("INSERT INTO samples VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
    feature_count = head.node_features.size();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (!database) return;
    close();
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
  }

  void execute(const char* sql) const { database->execute(sql, kWriting); }

  void add_names(const std::string& kind, const std::vector<std::string>& names) {
    SqliteStatement insert = database->prepare("INSERT INTO names VALUES(?1, ?2, ?3)");
    for (std::size_t i = 0; i < names.size(); ++i) insert.run(kind, static_cast<std::int64_t>(i), names[i]);
  }

  void close() {
    setting.reset();
    graph.reset();
    sample.reset();
    database.reset();
  }

  std::filesystem::path path, temporary;
  std::string shown;
  OutputLock lock;  // held until the temporary is gone
  std::optional<SqliteFile> database;
  std::optional<SqliteStatement> setting, graph, sample;
  std::int64_t settings = 0, graphs = 0, samples = 0;
  std::size_t feature_count = 0;
};

DatasetWriter::DatasetWriter(const std::filesystem::path& path, const Dataset& head)
    : file_{std::make_unique<File>(path, head)} {}
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;
DatasetWriter::~DatasetWriter() = default;

void DatasetWriter::add(const DatasetSetting& setting) {
  file_->setting->run(file_->settings++, setting.name, setting.group, setting.provenance);
}

void DatasetWriter::add(const DatasetGraph& graph) {
  file_->graph->run(file_->graphs++, graph.family, graph.name, graph.provenance,
                    static_cast<std::int64_t>(graph.nodes(file_->feature_count)), graph.features, graph.edges);
}

void DatasetWriter::add(const Sample& sample) {
  file_->sample->run(file_->samples++, std::int64_t{sample.graph}, std::int64_t{sample.setting}, to_text(sample.split),
                     to_text(sample.origin), sample.weight, sample.labels, sample.step);
}

void DatasetWriter::finish() {
  file_->execute("COMMIT");
  file_->close();
  std::error_code error;
  std::filesystem::rename(file_->temporary, file_->path, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(file_->temporary, ignored);
  throw InputError{file_->shown + ": cannot write this dataset: " + error.message()};
}

void write_dataset(const std::filesystem::path& path, const Dataset& dataset) {
  DatasetWriter writer{path, dataset};
  for (const DatasetSetting& setting : dataset.settings) writer.add(setting);
  for (const DatasetGraph& graph : dataset.graphs) writer.add(graph);
  for (const Sample& sample : dataset.samples) writer.add(sample);
  writer.finish();
}

namespace {

class Loader {
 public:
  explicit Loader(const std::filesystem::path& path) : shown_{shortened(path.string(), 4096)} {
    if (read_file_start(path, 1).empty()) fail("expected a dataset of rehearse; the file is empty");
    database_.emplace(path, shown_, kKind, SQLITE_OPEN_READONLY);
  }

  Dataset load() {
    check_file();
    Dataset data;
    read_head(data);
    read_settings(data);
    read_graphs(data);
    read_samples(data);
    return data;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError{shown_ + ": " + what}; }
  [[noreturn]] void fail(const std::string& table, std::size_t row, const std::string& what) const {
    fail(table + " row " + std::to_string(row) + ": " + what);
  }
  SqliteStatement select(const std::string& sql) const { return database_->prepare(sql); }

  void check_file() const {
    const int version = database_->version_of(kApplicationId, 1, kVersion);
    if (version < kVersion) refuse_old(version);
    std::size_t found = 0;
    SqliteStatement tables = select("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex_%'");
    for (; tables.step(); ++found) {
      const std::string name = tables.text(0), sql = tables.text(1);
      if (std::none_of(kTables.begin(), kTables.end(), [&](const Table& t) { return name == t.name && sql == t.sql; }))
        fail("expected the tables of a dataset; found " + in_quotes(name));
    }
    if (found != kTables.size()) fail("a table of this dataset is missing");
  }

  /// A dataset without steps (Sample::step, 1), or whose bursts are of what monitors do not show (BurstThresholds, 2), with
  /// the command that makes it anew.
  [[noreturn]] void refuse_old(int version) const {
    const Json none = Json::object();
    SqliteStatement meta = select("SELECT value FROM meta WHERE key = 'provenance'");
    const Json provenance = meta.step() ? parse_json(meta.text(0), shown_ + ": provenance") : none;
    const auto text = [&](const char* key) {
      const auto at = provenance.is_object() ? provenance.find(key) : provenance.end();
      return at == provenance.end() ? std::string{} : at->is_string() ? at->get<std::string>() : at->dump();
    };
    SqliteStatement samples = select("SELECT count(*) FROM samples");
    const std::string count = samples.step() ? std::to_string(samples.integer(0)) : "N", space = text("space");
    std::string how = "import again what it is made of: rehearse import SOURCE... -o " + shown_;
    if (!space.empty())
      how = "make it anew: rehearse generate scenarios/spaces/" + shortened(space, 100) + ".json --count " + count +
            " --seed " + shortened(text("seed"), 20) + " -o " + shown_;
    else if (text("source") == "measured rows of studies")
      how = "make it anew: rehearse generate scenarios/studies/measured.json " +
            (text("options").empty() ? "" : shortened(text("options"), 100) + " ") + "-o " + shown_;
    fail("expected a dataset of version " + std::to_string(kVersion) + "; found version " + std::to_string(version) +
         ", whose " + (version == 1 ? "steps" : "bursts") + " are not those of this program: " + how);
  }

  std::string json(const std::string& text, const std::string& place) const {
    const Json value = parse_json(text, shown_ + ": " + place);
    if (!value.is_object()) fail(place + ": expected a JSON object");
    return text;
  }

  void read_head(Dataset& data) const {
    SqliteStatement meta = select("SELECT value FROM meta WHERE key = 'provenance'");
    if (!meta.step()) fail("expected a provenance");
    data.provenance = json(meta.text(0), "provenance");
    SqliteStatement names = select("SELECT kind, position, name FROM names ORDER BY kind, position");
    while (names.step()) {
      const std::string kind = names.text(0), name = names.text(2);
      std::vector<std::string>* list = kind == "node_feature" ? &data.node_features
                                       : kind == "label"      ? &data.labels
                                                              : nullptr;
      if (list == nullptr) fail("names: unknown kind " + in_quotes(kind));
      if (names.integer(1) != static_cast<std::int64_t>(list->size()))
        fail("names: expected the positions of each kind to count from 0");
      if (name.empty() || name.size() > 200 || list->size() == kMostNames || !known_.insert({kind, name}).second)
        fail("names: expected at most 1000 distinct names of 1 to 200 bytes; found " + in_quotes(name));
      list->push_back(name);
    }
    if (data.node_features.empty() || data.labels.empty()) fail("names: expected node features and labels");
  }

  /// read(row, i, where its provenance stands) of each row of the table: its id, and the values of these columns.
  template <class Read>
  void read_rows(const std::string& table, const std::string& columns, const Read& read) const {
    SqliteStatement row = select("SELECT id, " + columns + " FROM " + table + " ORDER BY id");
    for (std::size_t i = 0; row.step(); ++i) {
      if (row.integer(0) != static_cast<std::int64_t>(i)) fail(table, i, "expected identifiers from 0 without gaps");
      read(row, i, table + " row " + std::to_string(i) + ": provenance");
    }
  }

  void read_settings(Dataset& data) const {
    std::set<std::string> known;
    read_rows("settings", "name, grouped, provenance",
              [&](const SqliteStatement& row, std::size_t i, const std::string& place) {
                DatasetSetting setting{
                    .name = row.text(1), .group = row.text(2), .provenance = json(row.text(3), place)};
                if (!known.insert(setting.name).second) fail("settings", i, "another one has this name already");
                data.settings.push_back(std::move(setting));
              });
  }

  void read_graphs(Dataset& data) const {
    read_rows(
        "graphs", "family, name, provenance, nodes, features, edges",
        [&](const SqliteStatement& row, std::size_t i, const std::string& place) {
          DatasetGraph graph{.family = row.text(1),
                             .name = row.text(2),
                             .provenance = json(row.text(3), place),
                             .features = row.blob<float>(5),
                             .edges = row.blob<GraphEdge>(6)};
          const std::int64_t nodes = row.integer(4);
          const auto held = static_cast<std::int64_t>(data.nodes(graph));
          if (nodes < 1 || nodes != held || graph.features.size() % data.node_features.size() != 0)
            fail("graphs", i,
                 "expected " + std::to_string(data.node_features.size()) + " features of each of " +
                     std::to_string(nodes) + " nodes; found " + std::to_string(graph.features.size()));
          if (!std::all_of(graph.features.begin(), graph.features.end(), [](float v) { return std::isfinite(v); }))
            fail("graphs", i, "expected finite features");
          for (const GraphEdge& edge : graph.edges)
            if (edge.from < 0 || edge.from >= nodes || edge.to < 0 || edge.to >= nodes)
              fail("graphs", i,
                   "expected edges between nodes 0 to " + std::to_string(nodes - 1) + "; found " +
                       std::to_string(edge.from) + " to " + std::to_string(edge.to));
          data.graphs.push_back(std::move(graph));
        });
  }

  void read_samples(Dataset& data) const {
    std::map<std::pair<std::int64_t, std::string>, Split> split_of;  // by graph and study
    read_rows("samples", "graph, setting, split, origin, weight, labels, step",
              [&](const SqliteStatement& row, std::size_t i, const std::string&) {
                const std::int64_t graph = row.integer(1), setting = row.integer(2);
                if (graph < 0 || graph >= static_cast<std::int64_t>(data.graphs.size()))
                  fail("samples", i, "there is no graph " + std::to_string(graph));
                if (setting < 0 || setting >= static_cast<std::int64_t>(data.settings.size()))
                  fail("samples", i, "there is no setting " + std::to_string(setting));
                Sample sample{.graph = static_cast<std::int32_t>(graph),
                              .setting = static_cast<std::int32_t>(setting),
                              .weight = row.real(5),
                              .labels = row.blob<double>(6),
                              .step = row.blob<float>(7)};
                sample.split = word(row.text(3), i, kSplits);
                sample.origin = word(row.text(4), i, kOrigins);
                const std::string& study = study_of(data, sample);
                if (split_of.emplace(std::pair{graph, study}, sample.split).first->second != sample.split)
                  fail("samples", i,
                       "graph " + std::to_string(graph) + (study.empty() ? "" : " of study " + in_quotes(study)) +
                           " is in two splits");
                if (!(sample.weight >= 0)) fail("samples", i, "expected a weight of at least 0");
                if (sample.labels.size() != data.labels.size())
                  fail("samples", i,
                       "expected " + std::to_string(data.labels.size()) + " labels; found " +
                           std::to_string(sample.labels.size()));
                for (const double label : sample.labels)
                  if (std::isinf(label) || label < 0) fail("samples", i, "expected labels of at least 0, or NaN");
                if (!sample.step.empty())
                  (void)described_step(sample.step, shown_ + ": samples row " + std::to_string(i));
                data.samples.push_back(std::move(sample));
              });
  }

  template <class Value, std::size_t n>
  Value word(const std::string& text, std::size_t row, const std::array<Named<Value>, n>& words) const {
    for (const Named<Value>& known : words)
      if (known.name == text) return known.value;
    fail("samples", row, unknown_name_message("split or origin", text, names_in(words)));
  }

  std::string shown_;
  std::optional<SqliteFile> database_;
  mutable std::set<std::pair<std::string, std::string>> known_;
};

}  // namespace

Dataset load_dataset(const std::filesystem::path& path) { return Loader{path}.load(); }

}  // namespace rehearse
