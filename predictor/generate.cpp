#include "predictor/generate.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "predictor/described_step.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/sqlite.hpp"
#include "sim/base/statistics.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/scenario/find_model.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr int kMostDraws = 1000;  // in a row without a new graph

/// A setting, ready to be given workloads.
struct Prepared {
  Scenario base;  // without workload
  Json scenario;  // the same as JSON, with what stays of the workload: with_workload()
  DatasetSetting described;
};

Prepared prepare(const SpaceSetting& setting, const Catalog& catalog) {
  Prepared prepared{
      .base = read_scenario(setting.scenario, setting.file, catalog, setting.origins), .scenario = {}, .described = {}};
  Scenario& base = prepared.base;
  require_regular(base, setting.file);
  if (!base.copies_input.value_or(true))
    throw InputError{setting.file + ": /workload/copies_input: expected samples that are copied, for random workloads"};
  if (base.precision != Precision::kFp32)
    throw InputError{setting.file +
                     ": /workload/precision: expected \"fp32\", in which random workloads compute; found " +
                     in_quotes(to_text(base.precision))};
  // They are of the scenario's own model: random workloads have none.
  base.profile.step_times.clear();
  base.profile.kernels.reset();
  base.profile.gpu.update_accesses.clear();
  Json scenario = *base.effective;
  if (Json& profile = scenario["calibration"]; profile.is_object()) {
    profile.erase("step_times");
    profile.erase("kernels");
    if (profile.contains("gpu")) profile["gpu"].erase("update_accesses");
  }
  Json workload = rest_of_workload(scenario["workload"]);
  workload["batch_per_worker"] = base.batch;
  for (const char* key : kJobSizes) scenario["training"].erase(key);
  scenario["training"]["steps"] = base.training.steps;  // as many of each workload
  scenario["workload"] = std::move(workload);
  prepared.described = {.name = setting.name, .group = setting.group, .provenance = scenario.dump()};
  prepared.scenario = std::move(scenario);
  base.workload = {};
  for (Group& group : base.groups) group.workload = nullptr;
  base.warnings.clear();
  base.effective.reset();
  return prepared;
}

/// A graph of the dataset, and what it takes to simulate it.
struct Drawn {
  DatasetGraph graph;
  Json as_scenario;  // of "workload"
  ModelDescription model;
  Workload workload;
  Optimizer optimizer{};
  Split split{};
};

Optimizer optimizer_named(const std::string& name) {
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kAdam})
    if (to_text(optimizer) == name) return optimizer;
  throw std::logic_error{"unknown optimizer"};
}

/// The graphs of a dataset, one after another.
class Graphs {
 public:
  Graphs(const Space& space, const Catalog& catalog, const std::vector<Prepared>& settings, std::uint64_t seed)
      : space_{space}, catalog_{catalog}, settings_{settings}, seed_{seed}, order_(settings.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    Rng random{seed, "order of the settings"};
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
  }

  std::shared_ptr<const Drawn> next() {
    for (int draws = 0; draws < kMostDraws; ++draws)
      if (auto drawn = draw()) return drawn;
    throw NoResultError{space_.file_name + ": /workloads: 1000 random workloads in a row gave no new graph: in all " +
                        std::to_string(redrawn_.duplicates) + " duplicates, " +
                        std::to_string(redrawn_.exceeding_memory) + " too large for a GPU, " +
                        std::to_string(redrawn_.other_sizes) + " with another number of operators, " +
                        std::to_string(redrawn_.unbuildable) + " that cannot be built" +
                        (redrawn_.last_reason.empty() ? "" : " (" + redrawn_.last_reason + ")")};
  }

  const Redrawn& redrawn() const { return redrawn_; }

  /// Samples come graph by graph, and settings cyclically, so that none is there twice for a graph and all are there
  /// equally often.
  std::int64_t graph_of(std::int64_t sample) const { return sample / space_.settings_per_graph; }
  std::int32_t setting_of(std::int64_t sample) const {
    return order_[static_cast<std::size_t>(sample) % order_.size()];
  }

 private:
  std::shared_ptr<Drawn> draw() {
    const DrawnWorkload chosen = draw_workload(space_, seed_, next_draw_++);
    auto drawn = std::make_shared<Drawn>();
    const std::string pointer = "/workloads/" + std::to_string(chosen.index) + "/model";
    const std::string model_text = chosen.model.dump();
    const bool is_named = chosen.model.is_string();
    std::string name =
        is_named ? chosen.model.get<std::string>() : chosen.family + "-" + run_key(model_text, "").text().substr(0, 8);
    Json model;
    try {
      const JsonReader own{chosen.model, space_.file_name, pointer};
      const FoundModel found =
          is_named ? find_model(name, own, catalog_) : FoundModel{.name = name, .imported = {}, .json = own};
      name = found.name;
      drawn->model = read_model(name, found.json);
      model["name"] = name;
      model.update(found.json.value());
      drawn->workload = build_workload(drawn->model, chosen.batch, Precision::kFp32, space_.file_name + ": " + pointer);
    } catch (const InputError& error) {
      ++redrawn_.unbuildable;
      redrawn_.last_reason = error.what();
      return nullptr;
    }
    const auto operators = static_cast<std::int64_t>(drawn->workload.graph.size());
    if (operators < space_.least_operators || operators > space_.most_operators) {
      ++redrawn_.other_sizes;
      return nullptr;
    }
    drawn->optimizer = optimizer_named(chosen.optimizer);
    if (!fits(*drawn, chosen.batch)) {
      ++redrawn_.exceeding_memory;
      return nullptr;
    }
    Json provenance{{"model", chosen.model},
                    {"batch_per_worker", chosen.batch},
                    {"optimizer", chosen.optimizer},
                    {"precision", "fp32"}};
    drawn->graph = {.family = chosen.family,
                    .name = name + " batch " + std::to_string(chosen.batch),
                    .provenance = provenance.dump(),
                    .features = node_features_of(drawn->workload, drawn->optimizer),
                    .edges = edges_of(drawn->workload)};
    if (!known_.insert(key_of(drawn->graph)).second) {
      ++redrawn_.duplicates;
      return nullptr;
    }
    drawn->split = split_of(model_text);
    drawn->as_scenario = std::move(provenance);
    drawn->as_scenario["model"] = std::move(model);
    return drawn;
  }

  bool fits(const Drawn& drawn, int batch) const {
    std::map<int, Workload> others;  // by batch
    return std::all_of(settings_.begin(), settings_.end(), [&](const Prepared& setting) {
      const int slots = setting.base.count(Role::kParameterServer) > 0 ? 0 : optimizer_slots(drawn.optimizer);
      return std::all_of(setting.base.groups.begin(), setting.base.groups.end(), [&](const Group& group) {
        if (group.role != Role::kWorker) return true;
        const int own = batch_of_group(group.batch / group.gpus_per_worker,
                                       setting.base.batch / setting.base.first_workers().gpus_per_worker, batch);
        const Workload* workload = &drawn.workload;
        if (own != batch) {
          if (!others.contains(own)) try {
              others.emplace(own, build_workload(drawn.model, own, Precision::kFp32, space_.file_name));
            } catch (const InputError&) { return false; }  // too large for any
          workload = &others.at(own);
        }
        return gpu_memory(*workload, *group.accelerator, default_states(Precision::kFp32), slots).total() <=
               group.accelerator->memory;
      });
    });
  }

  static RunKey key_of(const DatasetGraph& graph) {
    const auto bytes = [](const auto& values) {
      return std::string_view{reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
    };
    return run_key(bytes(graph.features), bytes(graph.edges));
  }

  Split split_of(const std::string& model) {
    const auto [entry, is_new] = splits_.emplace(model, Split::kTrain);
    if (!is_new) return entry->second;
    const double shares[] = {1 - space_.validation_share - space_.test_share, space_.validation_share,
                             space_.test_share};
    const auto models = static_cast<double>(splits_.size());
    int most_wanted = 0;
    for (int s = 1; s < 3; ++s)
      if (shares[s] * models - dealt_[s] > shares[most_wanted] * models - dealt_[most_wanted]) most_wanted = s;
    ++dealt_[most_wanted];
    return entry->second = static_cast<Split>(most_wanted);
  }

  const Space& space_;
  const Catalog& catalog_;
  const std::vector<Prepared>& settings_;
  std::uint64_t seed_;
  std::vector<std::int32_t> order_;
  std::uint64_t next_draw_ = 0;
  std::set<RunKey> known_;
  std::map<std::string, Split> splits_;  // by model
  double dealt_[3] = {0, 0, 0};          // models of each split
  Redrawn redrawn_;
};

/// What a simulation gave: labels, or why there are none.
struct Outcome {
  std::vector<double> labels;
  std::vector<float> step;  // Sample::step
  std::string error;
};

/// Finished samples, by graph and setting, beside the output until it is complete, if there are any:
///   meta(identity TEXT), results(graph INTEGER, setting INTEGER, labels, step BLOB or NULL, error TEXT)
class PartFile {
 public:
  PartFile(const fs::path& output, const std::string& identity)
      : path_{output.string() + ".part"}, shown_{path_.string()} {
    database_.emplace(path_, shown_, "dataset", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    run("PRAGMA synchronous = OFF");
    run("BEGIN");  // a file that is refused stays as it is
    run("CREATE TABLE IF NOT EXISTS meta(identity TEXT NOT NULL)");
    run("CREATE TABLE IF NOT EXISTS results(graph INTEGER NOT NULL, setting INTEGER NOT NULL, labels BLOB, step BLOB, "
        "error TEXT, "
        "PRIMARY KEY(graph, setting))");
    SqliteStatement meta = database_->prepare("SELECT identity FROM meta");
    if (meta.step()) {
      if (meta.text(0) != identity)
        throw InputError{shown_ + ": this file was begun with another space, seed or program: remove it to begin anew"};
    } else {
      database_->prepare("INSERT INTO meta VALUES(?1)").run(identity);
    }
    read();
    is_empty_ = results_.empty();
    insert_.emplace(database_->prepare("INSERT OR REPLACE INTO results VALUES(?1, ?2, ?3, ?4, ?5)"));
    keep();
  }
  ~PartFile() {
    if (is_empty_)
      remove();
    else
      insert_.reset();
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const Outcome* find(std::int64_t graph, std::int32_t setting) const {
    const auto found = results_.find({graph, setting});
    return found == results_.end() ? nullptr : &found->second;
  }

  void put(std::int64_t graph, std::int32_t setting, const Outcome& outcome) {
    is_empty_ = false;
    insert_->run(graph, std::int64_t{setting}, outcome.labels, outcome.step, outcome.error);
    if (const auto now = std::chrono::steady_clock::now(); now - committed_ > std::chrono::milliseconds{500}) {
      keep();
      committed_ = now;
    }
  }

  void keep() {
    run("COMMIT");
    run("BEGIN");
  }
  void end() { run("COMMIT"); }
  void remove() {
    insert_.reset();
    database_.reset();
    std::error_code ignored;
    fs::remove(path_, ignored);
  }

 private:
  void run(const char* sql) const { database_->execute(sql, "use this file"); }

  void read() {
    SqliteStatement rows = database_->prepare("SELECT graph, setting, labels, step, error FROM results");
    while (rows.step()) {
      Outcome outcome{.labels = rows.blob<double>(2), .step = rows.blob<float>(3), .error = rows.text(4)};
      if (outcome.labels.size() != label_names().size() && outcome.error.empty())
        throw InputError{shown_ + ": this file is damaged: remove it to begin anew"};
      results_[{rows.integer(0), static_cast<std::int32_t>(rows.integer(1))}] = std::move(outcome);
    }
  }

  fs::path path_;
  std::string shown_;
  std::optional<SqliteFile> database_;
  std::optional<SqliteStatement> insert_;
  std::map<std::pair<std::int64_t, std::int32_t>, Outcome> results_;  // of earlier calls
  bool is_empty_ = false;                                             // without finished samples it is of no use
  std::chrono::steady_clock::time_point committed_ = std::chrono::steady_clock::now();
};

std::vector<Prepared> prepare_all(const Space& space, const Catalog& catalog) {
  std::vector<Prepared> settings;
  for (const SpaceSetting& setting : space.settings) settings.push_back(prepare(setting, catalog));
  return settings;
}

class Run {
 public:
  Run(const Space& space, const Catalog& catalog, const GenerateRequest& request)
      : space_{space},
        request_{request},
        settings_{prepare_all(space, catalog)},
        graphs_{space, catalog, settings_, request.seed} {
    for (const Prepared& setting : settings_) generated_.settings.push_back(setting.described);
  }

  Generated plan() {
    for (std::int64_t sample = 0; sample < request_.count;) {
      if (is_stopped()) return std::move(generated_);
      const auto drawn = graphs_.next();
      for (const std::int64_t graph = graphs_.graph_of(sample);
           sample < request_.count && graphs_.graph_of(sample) == graph; ++sample)
        generated_.samples.push_back({.graph = static_cast<std::int32_t>(graph),
                                      .setting = graphs_.setting_of(sample),
                                      .split = drawn->split,
                                      .labels = {}});
      note(*drawn);
      if (request_.on_progress) request_.on_progress(sample, request_.count);
    }
    finish();
    return std::move(generated_);
  }

  Generated generate() {
    std::string identity = request_.program + "\nseed " + std::to_string(request_.seed) + "\n" + space_.text;
    for (const Prepared& setting : settings_) identity += "\n" + setting.described.provenance;
    DatasetWriter writer{request_.output, head()};  // first: it locks the output, and with it the part
    PartFile part{request_.output, run_key(identity, "").text()};
    for (const Prepared& setting : settings_) writer.add(setting.described);
    std::vector<std::int64_t> pending;  // graphs with samples that are not kept
    for (std::int64_t sample = 0; sample < request_.count; ++sample) {
      const std::int64_t graph = graphs_.graph_of(sample);
      if (part.find(graph, graphs_.setting_of(sample)) != nullptr)
        ++generated_.kept;
      else if (pending.empty() || pending.back() != graph)
        pending.push_back(graph);
    }
    std::size_t ended = 0;
    done_ = generated_.kept;
    const auto draw_ahead = [&] {  // of the jobs that may start before the next one ends
      const std::size_t ahead = ended + request_.pool.ahead() + 1;
      draw_to(ahead < pending.size() ? pending[ahead] : graphs_.graph_of(request_.count - 1), part, writer);
    };
    draw_ahead();
    const bool has_all = request_.pool.run(
        pending.size(), [&](std::size_t i) { return job_of(pending[i]); },
        [&](std::size_t i, const PooledRun& run) {
          keep(pending[i], run, part);
          ++ended;
          draw_ahead();
          write_finished(writer);
          if (request_.on_progress) request_.on_progress(done_, request_.count);
        },
        {.is_stopped = request_.is_stopped, .job_wall_s = {}});
    if (!has_all || is_stopped()) {
      part.end();
      return std::move(generated_);
    }
    finish();
    writer.finish();
    part.end();
    part.remove();
    return std::move(generated_);
  }

 private:
  /// A graph whose samples are not all there, or that comes after such a one.
  struct Waiting {
    std::shared_ptr<const Drawn> drawn;
    std::vector<Outcome> outcomes;   // [its samples]
    std::vector<std::int64_t> left;  // samples to be simulated
  };

  bool is_stopped() const { return request_.is_stopped && request_.is_stopped(); }

  /// The graphs as far as `last`, with what is kept of them.
  void draw_to(std::int64_t last, const PartFile& part, DatasetWriter& writer) {
    for (; drawn_ <= last && !is_stopped(); write_finished(writer), ++drawn_) {
      Waiting waiting{.drawn = graphs_.next(), .outcomes = {}, .left = {}};
      for (std::int64_t sample = drawn_ * space_.settings_per_graph;
           sample < request_.count && graphs_.graph_of(sample) == drawn_; ++sample) {
        const Outcome* kept = part.find(drawn_, graphs_.setting_of(sample));
        waiting.outcomes.push_back(kept != nullptr ? *kept : Outcome{});
        if (kept == nullptr) waiting.left.push_back(sample);
      }
      waiting_.push_back(std::move(waiting));
    }
  }

  const Prepared& setting_of(std::int64_t sample) const {
    return settings_[static_cast<std::size_t>(graphs_.setting_of(sample))];
  }

  PoolJob job_of(std::int64_t graph) const {
    const Waiting& waiting = waiting_[static_cast<std::size_t>(graph - written_)];
    std::vector<PoolJob> jobs;
    for (const std::int64_t sample : waiting.left) {
      const Prepared& setting = setting_of(sample);
      jobs.push_back(kLabels.job(
          with_workload(setting.scenario, waiting.drawn->as_scenario, setting.base.first_workers().gpus_per_worker),
          setting.base.file_name, Json::object()));
    }
    return batch_of(jobs);
  }

  void keep(std::int64_t graph, const PooledRun& run, PartFile& part) {
    if (!run.has_succeeded) throw NoResultError{space_.file_name + ": " + run.text};
    const Json results = run.json();
    Waiting& waiting = waiting_[static_cast<std::size_t>(graph - written_)];
    for (std::size_t i = 0; i < results.size(); ++i, ++done_) {
      const std::int64_t sample = waiting.left[i];
      Outcome& outcome = waiting.outcomes[static_cast<std::size_t>(sample - graph * space_.settings_per_graph)];
      if (results[i].contains("error"))
        outcome.error = setting_of(sample).described.name + ": " + results[i]["error"].get<std::string>();
      else
        read_result(results[i]["result"].get<std::string>(), outcome);
      part.put(graph, graphs_.setting_of(sample), outcome);
    }
    waiting.left.clear();
  }

  /// Of the verb kLabels.
  static void read_result(const std::string& text, Outcome& outcome) {
    const Json result = parse_json(text, "labels");
    outcome.labels = result["labels"].get<std::vector<double>>();
    outcome.step = result["step"].get<std::vector<float>>();
  }

  Dataset head() const {
    return {.provenance = Json{{"program", request_.program.substr(0, request_.program.rfind(' '))},
                               {"space", space_.name},
                               {"space_key", run_key(space_.text, "").text()},
                               {"seed", request_.seed},
                               {"iterations", space_.iterations},
                               {"warmup_steps", space_.warmup_steps},
                               {"sampling_period_s", space_.sampling_period.value()}}
                              .dump(),
            .node_features = node_feature_names(),
            .labels = label_names(),
            .settings = {},
            .graphs = {},
            .samples = {}};
  }

  void note(const Drawn& drawn) {
    operators_.push_back(static_cast<double>(drawn.workload.graph.size()));
    generated_.families.push_back(drawn.graph.family);
    ++generated_.graphs;
  }

  void write_finished(DatasetWriter& writer) {
    for (; !waiting_.empty() && waiting_.front().left.empty(); waiting_.pop_front(), ++written_) {
      const Waiting& ready = waiting_.front();
      writer.add(ready.drawn->graph);
      for (std::size_t slot = 0; slot < ready.outcomes.size(); ++slot) {
        const Outcome& outcome = ready.outcomes[slot];
        if (!outcome.error.empty()) {
          ++generated_.without_result;
          generated_.last_failure = outcome.error;
          continue;
        }
        generated_.samples.push_back(
            {.graph = static_cast<std::int32_t>(written_),
             .setting = graphs_.setting_of(written_ * space_.settings_per_graph + static_cast<std::int64_t>(slot)),
             .split = ready.drawn->split,
             .origin = Origin::kSimulated,
             .weight = 1,
             .labels = outcome.labels,
             .step = outcome.step});
        writer.add(generated_.samples.back());
      }
      note(*ready.drawn);
    }
  }

  void finish() {
    generated_.is_complete = true;
    generated_.redrawn = graphs_.redrawn();
    if (!operators_.empty()) generated_.median_operators = median(operators_);
  }

  const Space& space_;
  const GenerateRequest& request_;
  std::vector<Prepared> settings_;
  Graphs graphs_;
  Generated generated_;
  std::deque<Waiting> waiting_;
  std::vector<double> operators_;  // of the graphs
  std::int64_t drawn_ = 0;         // graphs
  std::int64_t done_ = 0;          // samples
  std::int64_t written_ = 0;       // graphs
};

}  // namespace

Generated plan_dataset(const Space& space, const Catalog& catalog, const GenerateRequest& request) {
  return Run{space, catalog, request}.plan();
}

Generated generate_dataset(const Space& space, const Catalog& catalog, const GenerateRequest& request) {
  return Run{space, catalog, request}.generate();
}

}  // namespace rehearse
