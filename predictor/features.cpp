#include "predictor/features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "predictor/detail/described_cluster.hpp"
#include "predictor/detail/described_step.hpp"
#include "predictor/detail/step_loads.hpp"
#include "predictor/node_features.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

float scaled_log(double x) { return static_cast<float>(std::log(std::max(x, 0.0) + 1e-6) / 3 + 2); }

/// A step without compute has no places: the first part.
std::int32_t part_at(double place) {
  const auto bins = static_cast<std::int32_t>(kTimelineBins);
  return place > 0 ? static_cast<std::int32_t>(std::min(place * bins, bins - 1.0)) : 0;
}

/// The loads of each part of the compute bound, in units of `unit` seconds:
///   0-3   bytes over the rate of the chief's links: received and sent for variables that are first read in it,
///         received and sent for gradients that are complete in it
///   4, 5  cores of servers: of the former for one worker, of the latter for all
///   6-8   of the machine of the busiest server: sent to others, received from others, work
///   9, 10 GPU; its memory
///   11    the part's own length
///   12    all-reduces that can begin in it
using Timeline = std::array<std::array<double, kTimelineInputs>, kTimelineBins>;  // seconds

Timeline timeline_of(const Step& step, const Loads& loads, const SampleFeatures& parts, double workers) {
  Timeline rows{};
  const auto add = [&](std::int32_t part, std::size_t column, double seconds) {
    rows[static_cast<std::size_t>(part)][column] += seconds;
  };
  for (std::size_t v = 0; v < step.variables.size(); ++v) {
    const StepVariable& variable = step.variables[v];
    const Loads::Ways ways = loads.ways_of(variable);
    const std::int32_t needed = parts.needed[v], ready = parts.ready[v];
    add(needed, 0, ways.pull_in / loads.rate());
    add(needed, 1, ways.pull_out / loads.rate());
    add(ready, 2, ways.push_in / loads.rate());
    add(ready, 3, ways.push_out / loads.rate());
    if (loads.servers() == 0) continue;
    const double work = loads.server_s(variable) / loads.cores();
    add(needed, 4, work);
    add(ready, 5, work * workers);
    const auto [asked, link_time] = loads.asked_of_busiest(variable);
    add(needed, 6, variable.pulled * link_time);
    add(ready, 7, variable.pushed * link_time);
    add(ready, 8, asked * work);
  }
  for (std::size_t k = 0; k < step.kernels.size(); ++k) {
    add(parts.part[k], 9, step.kernels[k].time);
    add(parts.part[k], 10, step.kernels[k].memory);
  }
  const double length = step.end / static_cast<double>(kTimelineBins);
  for (std::size_t part = 0; part < kTimelineBins; ++part) add(static_cast<std::int32_t>(part), 11, length);
  for (const Loads::Reduction& reduction : loads.reductions()) add(parts.ready[reduction.last], 12, reduction.time);
  return rows;
}

/// What must follow one another in a step.
class Chains {
 public:
  Chains(const Step& step, const Loads& loads, const ClusterValues& cluster, const SampleFeatures& parts,
         const Timeline& timeline)
      : step_{step},
        loads_{loads},
        cluster_{cluster},
        parts_{parts},
        timeline_{timeline},
        stretch_{step.end > 0 ? step.other_end / step.end : 0} {}

  /// Sets StepBounds::chain and at_once. Workers that wait for all wait for the slowest one; others take the mean of both
  /// kinds.
  void add_to(StepBounds& bounds) const {
    bounds.at_once = longest(Use::kAll, Use::kAll);
    if (loads_.waits_for_all())
      bounds.chain = std::max(longest(Use::kAll, Use::kOne), longest(Use::kOne, Use::kAll));
    else if (stretch_ > 0)
      bounds.chain = loads_.mean_step(on_first(Use::kOne, Use::kOne), on_others(Use::kOne, Use::kOne));
    else
      bounds.chain = on_first(Use::kOne, Use::kOne);
  }

 private:
  double on_first(Use comes, Use goes) const { return loads_.compute_s(0) - step_.end + seconds(1, comes, goes); }
  double on_others(Use comes, Use goes) const {
    return loads_.other_compute_s() - step_.other_end + seconds(stretch_, comes, goes);
  }
  double longest(Use comes, Use goes) const {
    return stretch_ > 0 ? std::max(on_first(comes, goes), on_others(comes, goes)) : on_first(comes, goes);
  }

  /// Of the longest chain of a worker whose kernels take `stretch` times as long as the chief's:
  ///   what comes for parts up to a, the parts between a and b, what goes for parts from b on      a <= b
  /// of whatever link or server is busiest with what comes, and with what goes; or of a single variable on its way
  /// through a core of its server and the link. Without overlap everything goes last, with forward overlap in the next
  /// step.
  double seconds(double stretch, Use comes, Use goes) const {
    // Columns of the timeline, and what of them one worker has.
    const double of_chief = 1 / std::max(1.0, loads_.local_workers(0)), of_all = 1 / std::max(1.0, cluster_.workers);
    struct Column {
      std::size_t column;
      double of_one;
    };
    const std::array come{Column{0, of_chief}, Column{1, 0}, Column{6, of_all}};
    const std::array go{Column{2, 0}, Column{3, of_chief}, Column{7, of_all}, Column{8, of_all}, Column{12, 1}};
    const bool is_reduced = cluster_.is_all_reduce > 0;  // column 12 says all of it
    const auto share = [](const Column& of, Use use) { return use == Use::kAll ? 1 : of.of_one; };

    std::array<double, kTimelineBins> comes_alone{}, goes_alone{};  // the longest of a variable
    for (std::size_t v = 0; v < step_.variables.size(); ++v) {
      const StepVariable& variable = step_.variables[v];
      const auto needed = static_cast<std::size_t>(parts_.needed[v]), ready = static_cast<std::size_t>(parts_.ready[v]);
      comes_alone[needed] = std::max(comes_alone[needed], loads_.alone_s(variable, variable.pulled, comes));
      goes_alone[ready] = std::max(goes_alone[ready], loads_.alone_s(variable, variable.pushed, goes));
    }

    std::array<double, go.size()> left{};
    if (cluster_.overlaps_forward == 0)
      for (std::size_t i = 0; i < go.size(); ++i)
        for (const auto& row : timeline_)
          if (!is_reduced || go[i].column == 12) left[i] += row[go[i].column] * share(go[i], goes);
    const double all_left = *std::max_element(left.begin(), left.end());
    const bool overlaps = !is_reduced || cluster_.overlaps > 0;
    std::array<double, come.size()> came{};
    double longest = 0, done = 0;  // of the kernels, at the earliest, before a part
    for (std::size_t part = 0; part < kTimelineBins; ++part) {
      const auto& row = timeline_[part];
      for (std::size_t i = 0; i < come.size(); ++i) came[i] += row[come[i].column] * share(come[i], comes);
      if (overlaps && cluster_.overlaps_forward == 0)
        longest = std::max({longest, done + *std::max_element(left.begin(), left.end()), done + goes_alone[part]});
      done = std::max({done + row[11] * stretch, *std::max_element(came.begin(), came.end()), comes_alone[part]});
      for (std::size_t i = 0; i < go.size(); ++i)
        left[i] = std::max(0.0, left[i] - row[go[i].column] * share(go[i], goes));
    }
    return std::max(longest, overlaps ? done : done + all_left);
  }

  const Step& step_;
  const Loads& loads_;
  const ClusterValues& cluster_;
  const SampleFeatures& parts_;
  const Timeline& timeline_;
  double stretch_;  // of kernels on machines of another kind; 0: there are none
};

/// What totals are made from.
struct TotalsOf {
  const Step& step;
  const Loads& loads;
  const ClusterValues& cluster;
  StepBounds bounds;
  double unit = 1;  // seconds
  double gpu = 0, memory = 0, bytes = 0, pieces = 0, largest = 0, server = 0, splits = 0;
  bool is_one_machine = false;

  double time(double seconds) const { return std::log(seconds / unit + 1e-5); }
};

struct Total {
  const char* name;
  double (*value)(const TotalsOf&);
  enum class Kind {
    kAny,
    kBound,     // left out without bounds
    kMechanism  // 0 of jobs that do without it: where it always was, nothing is known of others
  } kind = Kind::kAny;
};
constexpr std::array kTotals{
    Total{"ln compute", [](const TotalsOf& t) { return t.time(t.bounds.compute); }, Total::Kind::kBound},
    Total{"ln link", [](const TotalsOf& t) { return t.time(t.bounds.link); }, Total::Kind::kBound},
    Total{"ln core", [](const TotalsOf& t) { return t.time(t.bounds.core); }, Total::Kind::kBound},
    Total{"ln chain", [](const TotalsOf& t) { return t.time(t.bounds.chain); }, Total::Kind::kBound},
    Total{"ln chain at once", [](const TotalsOf& t) { return t.time(t.bounds.at_once); }, Total::Kind::kBound},
    Total{"ln bound_s", [](const TotalsOf& t) { return std::log(t.bounds.all()); }, Total::Kind::kBound},
    Total{"ln received", [](const TotalsOf& t) { return t.time(t.loads.received_bytes / t.loads.rate()); }},
    Total{"ln transmitted", [](const TotalsOf& t) { return t.time(t.loads.transmitted_bytes / t.loads.rate()); }},
    Total{"ln gpu", [](const TotalsOf& t) { return t.time(t.gpu); }},
    Total{"ln memory", [](const TotalsOf& t) { return t.time(t.memory); }},
    Total{"ln flops", [](const TotalsOf& t) { return std::log1p(t.step.flops); }},
    Total{"ln variable_bytes", [](const TotalsOf& t) { return std::log1p(t.bytes); }},
    Total{"ln kernels", [](const TotalsOf& t) { return std::log1p(static_cast<double>(t.step.kernels.size())); }},
    Total{"ln variables", [](const TotalsOf& t) { return std::log1p(static_cast<double>(t.step.variables.size())); }},
    Total{"ln overhead", [](const TotalsOf& t) { return t.time(t.cluster.step_overhead); }},
    Total{"ln dispatches",
          [](const TotalsOf& t) { return t.time(t.cluster.dispatch * static_cast<double>(t.step.kernels.size())); }},
    Total{"ln largest transfer", [](const TotalsOf& t) { return t.time(t.largest / t.loads.rate()); }},
    Total{"ln largest server work", [](const TotalsOf& t) { return t.time(t.server); }},
    Total{"ln split updates", [](const TotalsOf& t) { return t.time(t.splits * t.cluster.per_split_update); }},
    Total{"ln split update", [](const TotalsOf& t) { return t.time(t.cluster.per_split_update); }},
    Total{
        "ln update",
        [](const TotalsOf& t) { return t.time(t.cluster.per_update * static_cast<double>(t.step.variables.size())); }},
    Total{"ln input copy",
          [](const TotalsOf& t) { return t.time(t.step.input_bytes / std::max(t.cluster.pcie, 1.0)); }},
    Total{"ln variables over the GPU's link",
          [](const TotalsOf& t) { return t.time(t.bytes / std::max(t.cluster.pcie, 1.0)); }},
    Total{"ln transfer over one connection",
          [](const TotalsOf& t) { return t.time(t.bytes / (t.cluster.flow > 0 ? t.cluster.flow : t.loads.rate())); }},
    Total{"ln latency", [](const TotalsOf& t) { return t.time(t.cluster.latency); }},
    Total{"ln sampling_period", [](const TotalsOf& t) { return t.time(t.cluster.period); }},
    Total{"ln bytes a sample", [](const TotalsOf& t) { return std::log1p(t.cluster.period * t.loads.rate()); }},
    Total{"ln workers", [](const TotalsOf& t) { return std::log1p(t.cluster.workers); }},
    Total{"ln worker_machines", [](const TotalsOf& t) { return std::log1p(t.cluster.machines); }},
    Total{"ln gpus_per_machine", [](const TotalsOf& t) { return std::log1p(t.cluster.gpus); }},
    Total{"ln servers", [](const TotalsOf& t) { return std::log1p(t.cluster.servers); }},
    Total{"ln server_cores", [](const TotalsOf& t) { return std::log1p(t.cluster.cores); }},
    Total{"is_one_machine", [](const TotalsOf& t) { return t.is_one_machine ? 1.0 : 0.0; }},
    Total{"is_colocated", [](const TotalsOf& t) { return t.cluster.is_colocated; }},
    Total{"is_synchronous", [](const TotalsOf& t) { return t.cluster.is_synchronous; }},
    Total{"is_round_robin", [](const TotalsOf& t) { return t.cluster.is_round_robin; }},
    Total{"is_all_reduce", [](const TotalsOf& t) { return t.cluster.is_all_reduce; }, Total::Kind::kMechanism},
    Total{"overlaps_backward", [](const TotalsOf& t) { return t.cluster.overlaps; }, Total::Kind::kMechanism},
    Total{"ln all_reduce_latency", [](const TotalsOf& t) { return t.time(t.cluster.all_reduce_latency); }},
    Total{"ln buckets",
          [](const TotalsOf& t) { return t.cluster.bucket > 0 ? std::log1p(t.bytes / t.cluster.bucket) : 0.0; },
          Total::Kind::kMechanism},
    Total{"ln cycle", [](const TotalsOf& t) { return t.time(t.cluster.cycle); }},
    Total{"ln first bucket", [](const TotalsOf& t) { return std::log1p(t.cluster.first_bucket); },
          Total::Kind::kMechanism},
    Total{"ln pieces of a variable",
          [](const TotalsOf& t) {
            return std::log(std::max(1.0, t.pieces) /
                            std::max<double>(1, static_cast<double>(t.step.variables.size())));
          },
          Total::Kind::kMechanism},
    Total{"ln gradient_bytes_ratio",
          [](const TotalsOf& t) { return std::log(std::max(1e-3, t.cluster.gradient_ratio)); },
          Total::Kind::kMechanism},
    Total{"is_by_priority", [](const TotalsOf& t) { return t.cluster.is_by_priority; }, Total::Kind::kMechanism},
    Total{"overlaps_forward", [](const TotalsOf& t) { return t.cluster.overlaps_forward; }, Total::Kind::kMechanism},
    Total{"ln accumulation_steps", [](const TotalsOf& t) { return std::log(std::max(1.0, t.cluster.accumulation)); },
          Total::Kind::kMechanism},
    Total{"is_stale_synchronous", [](const TotalsOf& t) { return t.cluster.is_stale; }, Total::Kind::kMechanism},
    Total{"ln staleness_bound", [](const TotalsOf& t) { return std::log1p(t.cluster.staleness); },
          Total::Kind::kMechanism},
    Total{"ln backup_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.backups); },
          Total::Kind::kMechanism},
    Total{"ln other_batch_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.other_batch_workers); },
          Total::Kind::kMechanism},
    Total{"other_batch_ratio", [](const TotalsOf& t) { return t.cluster.other_batch_ratio; }},
    Total{"ln joining_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.joining); },
          Total::Kind::kMechanism},
    Total{"ln joins_at", [](const TotalsOf& t) { return t.time(t.cluster.joins_at); }},
    Total{"ln leaving_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.leaving); },
          Total::Kind::kMechanism},
    Total{"ln leaves_at", [](const TotalsOf& t) { return t.time(t.cluster.leaves_at); }},
    Total{"is_pairwise_averaging", [](const TotalsOf& t) { return t.cluster.is_pairwise; }, Total::Kind::kMechanism},
    Total{"ln gpus_per_worker", [](const TotalsOf& t) { return std::log(std::max(1.0, t.cluster.gpus_per_worker)); },
          Total::Kind::kMechanism},
    Total{"ln fabric_load_ratio", [](const TotalsOf& t) { return std::log(std::max(1.0, t.cluster.fabric_load)); },
          Total::Kind::kMechanism},
    Total{"ln other_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.other_workers); },
          Total::Kind::kMechanism},
    Total{"ln compute of others",
          [](const TotalsOf& t) {
            return t.step.other_end > 0 ? std::log(t.step.other_end / std::max(t.step.end, kTiny)) : 0.0;
          }},
    Total{"ln nic of others",
          [](const TotalsOf& t) {
            return t.cluster.other_nic > 0 && t.cluster.nic > 0 ? std::log(t.cluster.other_nic / t.cluster.nic) : 0.0;
          }}};

std::vector<float> totals_of(const Step& step, const Loads& loads, const DescribedCluster& cluster,
                             const StepBounds& bounds, double unit, bool has_bounds) {
  TotalsOf of{.step = step,
              .loads = loads,
              .cluster = cluster.values(),
              .bounds = bounds,
              .unit = unit,
              .is_one_machine = cluster.is_one_machine()};
  for (const StepKernel& kernel : step.kernels) {
    of.gpu += kernel.time;
    of.memory += kernel.memory;
  }
  for (const StepVariable& variable : step.variables) {
    of.bytes += variable.pushed;
    of.pieces += variable.pieces;
    of.largest = std::max(of.largest, variable.pushed);
    of.server = std::max(of.server, loads.server_s(variable));
    of.splits += loads.has_split_update(variable) ? 1 : 0;
  }
  std::vector<float> totals;
  for (const Total& total : kTotals)
    totals.push_back(total.kind == Total::Kind::kBound && !has_bounds ? 0.0F : static_cast<float>(total.value(of)));
  return totals;
}

/// In which part of the timeline kernels end, and variables are needed and ready.
void add_parts(const Step& step, SampleFeatures& features) {
  const double last = std::max(step.end, kTiny);
  for (const StepKernel& kernel : step.kernels) features.part.push_back(part_at(kernel.end / last));
  const auto part_of = [&](int kernel) {
    return kernel < 0 ? part_at(1) : features.part[static_cast<std::size_t>(kernel)];
  };
  for (const StepVariable& v : step.variables) {
    features.needed.push_back(part_of(v.reader));
    features.ready.push_back(part_of(v.gradient));
  }
}

/// The nodes, with what they cost relative to `unit` seconds.
void add_nodes(const Step& step, const Loads& loads, const ClusterValues& cluster, double unit,
               SampleFeatures& features) {
  const double last = std::max(step.end, kTiny);
  for (const StepKernel& kernel : step.kernels) {
    const double place = kernel.end / last, angle = 6.2831853 * place;
    features.kinds.push_back(kernel.kind);
    features.operators.insert(features.operators.end(),
                              {scaled_log(kernel.time / unit), scaled_log(kernel.memory / unit),
                               static_cast<float>(place), static_cast<float>(std::sin(angle)),
                               static_cast<float>(std::cos(angle)), kernel.time < cluster.dispatch ? 1.0F : 0.0F});
  }
  for (const StepVariable& v : step.variables) {
    features.variables.insert(features.variables.end(),
                              {static_cast<float>(std::log1p(v.pushed) / 10), scaled_log(loads.transfer_s(v) / unit),
                               scaled_log(loads.server_s(v) / unit), loads.has_split_update(v) ? 1.0F : 0.0F,
                               v.pulled > 0 ? 0.0F : 1.0F, static_cast<float>(std::log(v.pieces))});
  }
  for (int s = 0; s < loads.servers(); ++s) {
    const int machine = loads.machine_of(s);
    features.servers.insert(
        features.servers.end(),
        {scaled_log(loads.work(s) / loads.cores() / unit), scaled_log(loads.sent(s) / loads.rate() / unit),
         machine == 0 ? 1.0F : 0.0F, static_cast<float>(std::log1p(loads.cores()) / 4)});
    features.hosted.emplace_back(s, machine);
  }
  for (std::size_t m = 0; m < loads.machines(); ++m) {
    const double here =
        static_cast<double>(std::count_if(features.hosted.begin(), features.hosted.end(), [&](const auto& link) {
          return static_cast<std::size_t>(link.second) == m;
        }));
    features.machines.insert(
        features.machines.end(),
        {scaled_log(loads.received_s(m) / unit), scaled_log(loads.transmitted_s(m) / unit),
         static_cast<float>(std::log1p(loads.gpus(m))), static_cast<float>(std::log1p(loads.local_workers(m))),
         static_cast<float>(std::log1p(here)), m == 0 ? 1.0F : 0.0F, scaled_log(loads.compute_s(m) / unit)});
  }
  for (std::size_t v = 0; v < step.variables.size(); ++v)
    for (int s = 0; s < loads.servers(); ++s)
      if (step.variables[v].parts[static_cast<std::size_t>(s)] > 0)
        features.placed.emplace_back(static_cast<std::int32_t>(v), s);
}

bool is_duration(const std::string& label) { return label.ends_with("_s"); }

}  // namespace

FeatureReader::FeatureReader(const Dataset& dataset, Ablation ablation) : ablation_{ablation}, labels_{dataset.labels} {
  if (dataset.node_features != node_feature_names())
    throw InputError{"the dataset's node features are not those of this program"};
  for (const ClusterValue& value : kClusterValues) needed_.push_back(position(dataset.descriptors, value));
}

std::size_t FeatureReader::kinds() { return kOperatorKinds.size() * kPhases; }

const std::vector<std::string>& FeatureReader::total_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const Total& total : kTotals) made.emplace_back(total.name);
    return made;
  }();
  return names;
}

bool FeatureReader::is_mechanism(std::size_t total) { return kTotals.at(total).kind == Total::Kind::kMechanism; }

void FeatureReader::check(const Dataset& dataset) const {
  for (const DatasetGraph& graph : dataset.graphs)
    for (std::size_t i = 0; i < dataset.nodes(graph); ++i)
      check_node(read_node(graph.features.data() + i * kNodeFeatures.size()), graph);
  for (const DatasetSetting& setting : dataset.settings) (void)DescribedCluster{setting.descriptor, needed_};
}

SampleFeatures FeatureReader::read(const Dataset& dataset, const Sample& sample) const {
  const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
  const DescribedCluster cluster{dataset.settings[static_cast<std::size_t>(sample.setting)].descriptor, needed_};
  Step step = step_of(graph, cluster);
  SampleFeatures features;
  features.bounds = Loads{step, cluster}.bounds();
  if (ablation_ == Ablation::kEdges) shuffle_edges(step);
  const Loads loads{step, cluster};
  add_parts(step, features);
  const Timeline timeline = timeline_of(step, loads, features, cluster.values().workers);
  Chains{step, loads, cluster.values(), features, timeline}.add_to(features.bounds);
  const double bound = std::max(features.bounds.all(), kTiny);
  const bool has_bounds = ablation_ != Ablation::kBounds;
  const double unit = has_bounds ? bound : 1;
  add_nodes(step, loads, cluster.values(), unit, features);
  for (const auto& row : timeline)
    for (const double seconds : row) features.timeline.push_back(static_cast<float>(seconds / unit));
  features.totals = totals_of(step, loads, cluster, features.bounds, unit, has_bounds);
  features.window_steps = cluster.values().window;
  for (const std::string& label : labels_) {
    const double bytes = label == "receive_mean_Bps"    ? loads.received_bytes
                         : label == "transmit_mean_Bps" ? loads.transmitted_bytes
                                                        : 0;
    const bool is_rate = label.ends_with("_Bps");
    const bool is_share = label.ends_with("_peak");
    features.bases.push_back(is_duration(label) ? unit : bytes > 0 ? bytes / unit : 1);
    features.limits.push_back(is_share ? 1 : is_rate && bytes == 0 ? loads.rate() : 0);
  }
  features.flow = std::move(step.flow);
  features.reads = std::move(step.reads);
  features.writes = std::move(step.writes);
  return features;
}

}  // namespace rehearse
