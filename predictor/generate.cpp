#include "predictor/generate.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "predictor/detail/sqlite.hpp"
#include "predictor/labels.hpp"
#include "predictor/undescribed.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"
#include "sim/engine/machines.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr int kMostDraws = 1000;  // in a row without a new graph

/// A setting, ready to be given workloads.
struct Prepared {
  Scenario base;  // without workload
  DatasetSetting described;
};

Prepared prepare(const SpaceSetting& setting, const Catalog& catalog) {
  Prepared prepared{.base = read_scenario(setting.scenario, setting.file, catalog, setting.origins), .described = {}};
  Scenario& base = prepared.base;
  require_described(base, setting.file);
  if (!base.copies_input.value_or(true))
    throw InputError{setting.file + ": /workload/copies_input: expected samples that are copied, for random workloads"};
  // Both depend on the scenario's own model, and the descriptor holds them as one value: random workloads have none.
  base.profile.step_times.clear();
  base.profile.gpu.update_accesses.clear();
  Json scenario = parse_json(base.effective, setting.file);
  if (Json& profile = scenario["calibration"]; profile.is_object()) {
    profile.erase("step_times");
    if (profile.contains("gpu")) profile["gpu"].erase("update_accesses");
  }
  scenario.erase("workload");
  prepared.described = {
      .name = setting.name, .group = setting.group, .provenance = scenario.dump(), .descriptor = descriptor_of(base)};
  base.workload = {};
  base.warnings.clear();
  base.effective.clear();
  return prepared;
}

/// A graph of the dataset, and what it takes to simulate it.
struct Drawn {
  DatasetGraph graph;
  ModelDescription model;
  Workload workload;
  int batch = 0;
  Optimizer optimizer{};
  Split split{};
  std::vector<std::int32_t> settings;
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
      if (auto drawn = draw()) {
        drawn->settings = next_settings();
        return drawn;
      }
    throw NoResultError{space_.file_name + ": /workloads: 1000 random workloads in a row gave no new graph: in all " +
                        std::to_string(redrawn_.duplicates) + " duplicates, " +
                        std::to_string(redrawn_.exceeding_memory) + " too large for a GPU, " +
                        std::to_string(redrawn_.other_sizes) + " with another number of operators, " +
                        std::to_string(redrawn_.unbuildable) + " that cannot be built" +
                        (redrawn_.last_reason.empty() ? "" : " (" + redrawn_.last_reason + ")")};
  }

  const Redrawn& redrawn() const { return redrawn_; }

 private:
  std::shared_ptr<Drawn> draw() {
    const DrawnWorkload chosen = draw_workload(space_, seed_, next_draw_++);
    auto drawn = std::make_shared<Drawn>();
    const std::string pointer = "/workloads/" + std::to_string(chosen.index) + "/model";
    const std::string model_text = chosen.model.dump();
    try {
      const bool is_named = chosen.model.is_string();
      const std::string name = is_named ? chosen.model.get<std::string>()
                                        : chosen.family + "-" + run_key(model_text, "").text().substr(0, 8);
      const JsonReader own{chosen.model, space_.file_name, pointer};
      drawn->model = read_model(name, is_named ? catalog_.model(name, own) : own);
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
    drawn->batch = chosen.batch;
    drawn->optimizer = optimizer_named(chosen.optimizer);
    if (!fits(*drawn)) {
      ++redrawn_.exceeding_memory;
      return nullptr;
    }
    drawn->graph = {.family = chosen.family,
                    .name = drawn->model.name + " batch " + std::to_string(chosen.batch),
                    .provenance = Json{{"model", chosen.model},
                                       {"batch_per_worker", chosen.batch},
                                       {"optimizer", chosen.optimizer},
                                       {"precision", "fp32"}}
                                      .dump(),
                    .features = node_features_of(drawn->workload, drawn->optimizer),
                    .edges = edges_of(drawn->workload)};
    if (!known_.insert(key_of(drawn->graph)).second) {
      ++redrawn_.duplicates;
      return nullptr;
    }
    drawn->split = split_of(model_text);
    return drawn;
  }

  bool fits(const Drawn& drawn) const {
    return std::all_of(settings_.begin(), settings_.end(), [&](const Prepared& setting) {
      const int slots = setting.base.count(Role::kParameterServer) > 0 ? 0 : optimizer_slots(drawn.optimizer);
      return std::all_of(setting.base.groups.begin(), setting.base.groups.end(), [&](const Group& group) {
        return group.role != Role::kWorker ||
               gpu_memory_needed(drawn.workload, *group.accelerator, slots) <= group.accelerator->memory;
      });
    });
  }

  static RunKey key_of(const DatasetGraph& graph) {
    const auto bytes = [](const auto& values) {
      return std::string_view{reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
    };
    return run_key(bytes(graph.features), bytes(graph.edges));
  }

  /// Cyclically, so that none is there twice for a graph and all are there equally often.
  std::vector<std::int32_t> next_settings() {
    std::vector<std::int32_t> chosen;
    for (int i = 0; i < space_.settings_per_graph; ++i) chosen.push_back(order_[next_setting_++ % order_.size()]);
    return chosen;
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
  std::size_t next_setting_ = 0;
  std::set<RunKey> known_;
  std::map<std::string, Split> splits_;  // by model
  double dealt_[3] = {0, 0, 0};          // models of each split
  Redrawn redrawn_;
};

/// What a simulation gave: labels, or why there are none.
struct Outcome {
  std::vector<double> labels;
  std::string error;
};

/// Finished samples, by graph and setting, beside the output until it is complete, if there are any:
///   meta(identity TEXT), results(graph INTEGER, setting INTEGER, labels BLOB or NULL, error TEXT)
class PartFile {
 public:
  PartFile(const fs::path& output, const std::string& identity)
      : path_{output.string() + ".part"}, shown_{path_.string()} {
    database_ = detail::open(path_, shown_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    run("PRAGMA synchronous = OFF");
    run("BEGIN");  // a file that is refused stays as it is
    run("CREATE TABLE IF NOT EXISTS meta(identity TEXT NOT NULL)");
    run("CREATE TABLE IF NOT EXISTS results(graph INTEGER NOT NULL, setting INTEGER NOT NULL, labels BLOB, error TEXT, "
        "PRIMARY KEY(graph, setting))");
    detail::Statement meta{database_.get(), shown_, "SELECT identity FROM meta"};
    if (meta.step()) {
      if (meta.text(0) != identity)
        throw InputError{shown_ + ": this file was begun with another space, seed or program: remove it to begin anew"};
    } else {
      detail::Statement insert{database_.get(), shown_, "INSERT INTO meta VALUES(?1)"};
      insert.bind(0, identity);
      insert.run();
    }
    read();
    is_empty_ = results_.empty();
    insert_.emplace(database_.get(), shown_, "INSERT OR REPLACE INTO results VALUES(?1, ?2, ?3, ?4)");
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
    insert_->bind(0, graph);
    insert_->bind(1, std::int64_t{setting});
    insert_->bind(2, outcome.labels);
    insert_->bind(3, outcome.error);
    insert_->run();
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
  void run(const char* sql) const {
    if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      throw InputError{shown_ + ": cannot use this file: " + sqlite3_errmsg(database_.get())};
  }

  void read() {
    detail::Statement rows{database_.get(), shown_, "SELECT graph, setting, labels, error FROM results"};
    while (rows.step()) {
      Outcome outcome{.labels = rows.blob<double>(2), .error = rows.text(3)};
      if (outcome.labels.size() != label_names().size() && outcome.error.empty())
        throw InputError{shown_ + ": this file is damaged: remove it to begin anew"};
      results_[{rows.integer(0), static_cast<std::int32_t>(rows.integer(1))}] = std::move(outcome);
    }
  }

  fs::path path_;
  std::string shown_;
  detail::Database database_;
  std::optional<detail::Statement> insert_;
  std::map<std::pair<std::int64_t, std::int32_t>, Outcome> results_;  // of earlier calls
  bool is_empty_ = false;                                             // without finished samples it is of no use
  std::chrono::steady_clock::time_point committed_ = std::chrono::steady_clock::now();
};

/// Threads that simulate.
class Simulators {
 public:
  struct Task {
    std::int64_t graph = 0;
    std::size_t slot = 0;  // in Drawn::settings
    std::shared_ptr<const Drawn> drawn;
  };
  struct Done {
    Task task;
    Outcome outcome;
  };

  Simulators(const std::vector<Prepared>& settings, int threads) : settings_{settings} {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Simulators() {
    {
      const std::lock_guard lock{mutex_};
      tasks_.clear();
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Simulators(const Simulators&) = delete;
  Simulators& operator=(const Simulators&) = delete;

  void add(Task task) {
    const std::lock_guard lock{mutex_};
    tasks_.push_back(std::move(task));
    ++under_way_;
    changed_.notify_one();
  }
  std::size_t under_way() const { return under_way_; }

  /// Waits up to a fifth of a second for results.
  std::vector<Done> take() {
    std::unique_lock lock{mutex_};
    finished_.wait_for(lock, std::chrono::milliseconds{200}, [this] { return !done_.empty(); });
    under_way_ -= done_.size();
    return std::exchange(done_, {});
  }

 private:
  void work() {
    std::unique_lock lock{mutex_};
    while (true) {
      changed_.wait(lock, [this] { return is_over_ || !tasks_.empty(); });
      if (is_over_) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      Outcome outcome = simulate(task);
      lock.lock();
      done_.push_back({std::move(task), std::move(outcome)});
      finished_.notify_one();
    }
  }

  Outcome simulate(const Task& task) const {
    const Drawn& drawn = *task.drawn;
    const Prepared& setting = settings_[static_cast<std::size_t>(drawn.settings[task.slot])];
    try {
      return {simulate_labels(with_workload(setting.base, drawn.model, drawn.workload, drawn.batch, drawn.optimizer)),
              ""};
    } catch (const std::exception& error) { return {{}, setting.described.name + ": " + error.what()}; }
  }

  const std::vector<Prepared>& settings_;
  std::mutex mutex_;
  std::condition_variable changed_, finished_;
  std::deque<Task> tasks_;
  std::vector<Done> done_;
  std::size_t under_way_ = 0;  // only the owner's thread writes it
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

std::vector<Prepared> prepare_all(const Space& space, const Catalog& catalog) {
  std::vector<Prepared> settings;
  for (const SpaceSetting& setting : space.settings) settings.push_back(prepare(setting, catalog));
  return settings;
}

Generated begin(const Space& space, const std::vector<Prepared>& settings) {
  Generated generated;
  for (const Prepared& setting : settings) generated.settings.push_back(setting.described);
  (void)space;
  return generated;
}

/// Settings of graph number `graph` that still count.
std::size_t wanted(const Drawn& drawn, std::int64_t before, std::int64_t count) {
  return std::min(drawn.settings.size(), static_cast<std::size_t>(count - before));
}

class Run {
 public:
  Run(const Space& space, const Catalog& catalog, const GenerateRequest& request)
      : space_{space},
        request_{request},
        settings_{prepare_all(space, catalog)},
        graphs_{space, catalog, settings_, request.seed},
        generated_{begin(space, settings_)} {}

  Generated plan() {
    std::vector<double> operators;
    for (std::int64_t samples = 0; samples < request_.count;) {
      if (request_.is_stopped && request_.is_stopped()) return std::move(generated_);
      const auto drawn = graphs_.next();
      const std::size_t count = wanted(*drawn, samples, request_.count);
      for (std::size_t slot = 0; slot < count; ++slot)
        generated_.samples.push_back({.graph = static_cast<std::int32_t>(generated_.graphs),
                                      .setting = drawn->settings[slot],
                                      .split = drawn->split,
                                      .labels = {}});
      samples += static_cast<std::int64_t>(count);
      note(*drawn, operators);
      if (request_.on_progress) request_.on_progress(samples, request_.count);
    }
    finish(operators);
    return std::move(generated_);
  }

  Generated generate() {
    std::string identity = request_.program + "\nseed " + std::to_string(request_.seed) + "\n" + space_.text;
    for (const Prepared& setting : settings_) identity += "\n" + setting.described.provenance;
    DatasetWriter writer{request_.output, head()};  // first: it locks the output, and with it the part
    PartFile part{request_.output, run_key(identity, "").text()};
    for (const Prepared& setting : settings_) writer.add(setting.described);
    Simulators simulators{settings_, request_.parallel};
    std::vector<double> operators;
    std::int64_t asked = 0, done = 0, next_graph = 0;
    const auto most_under_way = static_cast<std::size_t>(2 * request_.parallel + 2);
    while (asked < request_.count || !waiting_.empty()) {
      if (request_.is_stopped && request_.is_stopped()) {
        part.end();
        return std::move(generated_);
      }
      while (asked < request_.count && simulators.under_way() < most_under_way) {
        Waiting waiting{.drawn = graphs_.next(), .outcomes = {}, .left = 0};
        waiting.outcomes.resize(wanted(*waiting.drawn, asked, request_.count));
        for (std::size_t slot = 0; slot < waiting.outcomes.size(); ++slot) {
          if (const Outcome* kept = part.find(next_graph, waiting.drawn->settings[slot])) {
            waiting.outcomes[slot] = *kept;
            ++generated_.kept;
            ++done;
          } else {
            ++waiting.left;
            simulators.add({next_graph, slot, waiting.drawn});
          }
        }
        asked += static_cast<std::int64_t>(waiting.outcomes.size());
        waiting_.push_back(std::move(waiting));
        ++next_graph;
        write_finished(writer, operators);
      }
      if (simulators.under_way() > 0)
        for (Simulators::Done& result : simulators.take()) {
          Waiting& waiting = waiting_[static_cast<std::size_t>(result.task.graph - written_)];
          part.put(result.task.graph, waiting.drawn->settings[result.task.slot], result.outcome);
          waiting.outcomes[result.task.slot] = std::move(result.outcome);
          --waiting.left;
          ++done;
        }
      write_finished(writer, operators);
      if (request_.on_progress) request_.on_progress(done, request_.count);
    }
    finish(operators);
    writer.finish();
    part.end();
    part.remove();
    return std::move(generated_);
  }

 private:
  /// A graph whose samples are not all there, or that comes after such a one.
  struct Waiting {
    std::shared_ptr<const Drawn> drawn;
    std::vector<Outcome> outcomes;  // [its settings]
    std::size_t left = 0;
  };

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
            .descriptors = descriptor_names(),
            .labels = label_names(),
            .settings = {},
            .graphs = {},
            .samples = {}};
  }

  void note(const Drawn& drawn, std::vector<double>& operators) {
    operators.push_back(static_cast<double>(drawn.workload.graph.size()));
    generated_.families.push_back(drawn.graph.family);
    ++generated_.graphs;
  }

  void write_finished(DatasetWriter& writer, std::vector<double>& operators) {
    for (; !waiting_.empty() && waiting_.front().left == 0; waiting_.pop_front(), ++written_) {
      const Waiting& ready = waiting_.front();
      writer.add(ready.drawn->graph);
      for (std::size_t slot = 0; slot < ready.outcomes.size(); ++slot) {
        const Outcome& outcome = ready.outcomes[slot];
        if (!outcome.error.empty()) {
          ++generated_.without_result;
          generated_.last_failure = outcome.error;
          continue;
        }
        generated_.samples.push_back({.graph = static_cast<std::int32_t>(written_),
                                      .setting = ready.drawn->settings[slot],
                                      .split = ready.drawn->split,
                                      .origin = Origin::kSimulated,
                                      .weight = 1,
                                      .labels = outcome.labels});
        writer.add(generated_.samples.back());
      }
      note(*ready.drawn, operators);
    }
  }

  void finish(const std::vector<double>& operators) {
    generated_.is_complete = true;
    generated_.redrawn = graphs_.redrawn();
    if (!operators.empty()) generated_.median_operators = median(operators);
  }

  const Space& space_;
  const GenerateRequest& request_;
  std::vector<Prepared> settings_;
  Graphs graphs_;
  Generated generated_;
  std::deque<Waiting> waiting_;
  std::int64_t written_ = 0;  // graphs
};

}  // namespace

Generated plan_dataset(const Space& space, const Catalog& catalog, const GenerateRequest& request) {
  return Run{space, catalog, request}.plan();
}

Generated generate_dataset(const Space& space, const Catalog& catalog, const GenerateRequest& request) {
  return Run{space, catalog, request}.generate();
}

}  // namespace rehearse
