// Fits of kernel_study.hpp, and predictions by values that have not seen the row's fold.

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "calibration/detail/least_squares.hpp"
#include "calibration/detail/like_rows.hpp"
#include "calibration/kernel_study.hpp"
#include "platforms/board_power.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr int kMostKernelSteps = 25;
constexpr double kNearlyZero = 1e-9;
constexpr std::string_view kChosenValue = "batched_cells";
constexpr std::array<double, 4> kBatchedCells{0, 4096, 8192, 16384};  // 64 x 64, 64 x 128, 128 x 128
constexpr Harness kHarness{.gap = 10e-6, .floor = 20e-6};             // to start with
constexpr double kShortestHarness = 1e-7, kLongestHarness = 1e-3;     // s
constexpr double kFastestHost = 0.5, kSlowestHost = 2;                // by another host
constexpr std::size_t kFewestRows = 100;                              // of an architecture with values of its own

kernels::Class class_of_row(const KernelStudy& study, std::size_t row) {
  return kernels::class_of(study.rows[row].kernel, study.gpus[study.rows[row].gpu]);
}

/// Every so-many-th of the rows of each GPU and table, at most kFittedRows of each, and how much each counts: once.
std::pair<std::vector<std::size_t>, Eigen::VectorXd> sample(const KernelStudy& study,
                                                            const std::vector<std::size_t>& rows) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> groups;
  for (const std::size_t row : rows) groups[{study.rows[row].gpu, study.rows[row].table}].push_back(row);
  std::vector<std::size_t> sampled;
  std::vector<double> counts;
  for (const auto& [key, members] : groups) {
    const std::size_t taken = std::min(members.size(), kFittedRows);
    for (std::size_t i = 0; i < taken; ++i) {
      sampled.push_back(members[i * members.size() / taken]);
      counts.push_back(1);
    }
  }
  return {sampled, Eigen::Map<Eigen::VectorXd>(counts.data(), static_cast<Eigen::Index>(counts.size()))};
}

Eigen::VectorXd logarithms(const std::vector<double>& values) {
  Eigen::VectorXd result(static_cast<Eigen::Index>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    result[static_cast<Eigen::Index>(i)] = std::log(std::max(values[i], kNearlyZero));
  return result;
}

std::vector<double> exponentials(const Eigen::VectorXd& values) {
  std::vector<double> result(static_cast<std::size_t>(values.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::exp(values[static_cast<Eigen::Index>(i)]);
  return result;
}

/// How slow the host of a GPU is for a harness, by the first one.
using Hosts = std::map<std::pair<std::string, std::size_t>, double>;

/// What is fitted for one class: values, but for those that libraries choose, then gap and floor of each harness, then how
/// slow the hosts are, but for the first of each harness.
struct Unknowns {
  kernels::Class kind;
  std::vector<std::size_t> values;  // of the class's
  std::vector<std::string> harnesses;
  std::vector<std::pair<std::string, std::size_t>> hosts;
  std::vector<double> low, high;

  std::size_t size() const { return low.size(); }

  Eigen::VectorXd of(const KernelFit& fit) const {
    const std::vector<double> all = kernels::values_of(fit.values, kind);
    std::vector<double> result;
    for (const std::size_t value : values) result.push_back(all[value]);
    for (const std::string& name : harnesses) {
      const auto known = fit.harnesses.find({kind, name});
      const Harness harness = known != fit.harnesses.end() ? known->second : kHarness;
      result.insert(result.end(), {harness.gap, harness.floor});
    }
    result.resize(size(), 1);
    return logarithms(result);
  }

  /// Sets the values of `fit`, and returns what hosts have.
  Hosts set(KernelFit& fit, const Eigen::VectorXd& point) const {
    const std::vector<double> to = exponentials(point);
    std::vector<double> all = kernels::values_of(fit.values, kind);
    for (std::size_t i = 0; i < values.size(); ++i) all[values[i]] = to[i];
    kernels::set_values(fit.values, kind, all);
    for (std::size_t i = 0; i < harnesses.size(); ++i)
      fit.harnesses[{kind, harnesses[i]}] = {.gap = to[values.size() + 2 * i], .floor = to[values.size() + 2 * i + 1]};
    Hosts slow;
    for (std::size_t i = 0; i < hosts.size(); ++i) slow[hosts[i]] = to[values.size() + 2 * harnesses.size() + i];
    return slow;
  }
};

Unknowns unknowns_of(const KernelStudy& study, const std::vector<std::size_t>& rows, kernels::Class kind) {
  Unknowns unknowns{.kind = kind};
  const std::vector<kernels::ValueBounds> bounds = kernels::bounds_of(kind);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (std::string_view{bounds[i].name} == kChosenValue) continue;
    unknowns.values.push_back(i);
    unknowns.low.push_back(bounds[i].low);
    unknowns.high.push_back(bounds[i].high);
  }
  std::map<std::string, std::set<std::size_t>> gpus;
  for (const std::size_t row : rows) gpus[study.harnesses[study.rows[row].table]].insert(study.rows[row].gpu);
  gpus.erase("");
  for (const auto& [name, of_harness] : gpus) {
    unknowns.harnesses.push_back(name);
    unknowns.low.insert(unknowns.low.end(), {kShortestHarness, kShortestHarness});
    unknowns.high.insert(unknowns.high.end(), {kLongestHarness, kLongestHarness});
    for (auto gpu = std::next(of_harness.begin()); gpu != of_harness.end(); ++gpu)
      unknowns.hosts.emplace_back(name, *gpu);
  }
  unknowns.low.insert(unknowns.low.end(), unknowns.hosts.size(), kFastestHost);
  unknowns.high.insert(unknowns.high.end(), unknowns.hosts.size(), kSlowestHost);
  return unknowns;
}

/// The harness of a row; none if the kernel alone was measured.
const Harness* harness_of(const KernelStudy& study, const KernelRow& row, const KernelFit& fit) {
  const auto harness =
      fit.harnesses.find({kernels::class_of(row.kernel, study.gpus[row.gpu]), study.harnesses[row.table]});
  return harness != fit.harnesses.end() ? &harness->second : nullptr;
}

/// `host`: how slow the host is.
double predicted(const KernelStudy& study, const KernelRow& row, const KernelFit& fit, double host = 1) {
  const double time = kernels::time(row.kernel, study.gpus[row.gpu], fit.values).value();
  const Harness* harness = harness_of(study, row, fit);
  return harness != nullptr ? Harness{host * harness->gap, host * harness->floor}.measured(time) : time;
}

double host_of(const KernelStudy& study, const KernelRow& row, const Hosts& hosts) {
  const auto known = hosts.find({study.harnesses[row.table], row.gpu});
  return known != hosts.end() ? known->second : 1;
}

/// Gives each harness of a class the geometric mean of those hosts that made a row of `rows` wait: what is to be expected
/// of another host.
void average_hosts(KernelFit& fit, const KernelStudy& study, const std::vector<std::size_t>& rows,
                   const Unknowns& unknowns, const Hosts& hosts) {
  std::map<std::string, std::map<std::size_t, double>> waited_for;  // ln, by GPU
  for (const std::size_t i : rows) {
    const KernelRow& row = study.rows[i];
    const Harness* harness = harness_of(study, row, fit);
    if (harness == nullptr) continue;
    const double host = host_of(study, row, hosts),
                 kernel = kernels::time(row.kernel, study.gpus[row.gpu], fit.values).value();
    if (host * harness->floor > host * harness->gap + kernel)
      waited_for[study.harnesses[row.table]][row.gpu] = std::log(host);
  }
  for (const auto& [name, of_gpus] : waited_for) {
    double sum = 0;
    for (const auto& [gpu, logarithm] : of_gpus) sum += logarithm;
    const double mean = std::exp(sum / static_cast<double>(of_gpus.size()));
    Harness& harness = fit.harnesses[{unknowns.kind, name}];
    harness = {.gap = mean * harness.gap, .floor = mean * harness.floor};
  }
}

/// How slow a host is, within what hosts differ by: a table without any short kernel says nothing.
double host_factor(double ratio) { return std::clamp(ratio, kFastestHost, kSlowestHost); }

/// The shortest measured time of each GPU, class and harness.
using HostKey = std::tuple<std::size_t, kernels::Class, std::string>;
HostKey host_key(const KernelStudy& study, const KernelRow& row) {
  return {row.gpu, kernels::class_of(row.kernel, study.gpus[row.gpu]), study.harnesses[row.table]};
}
std::map<HostKey, double> shortest_times(const KernelStudy& study) {
  std::map<HostKey, double> shortest;
  for (const KernelRow& row : study.rows) {
    double& least = shortest.emplace(host_key(study, row), row.measured).first->second;
    least = std::min(least, row.measured);
  }
  return shortest;
}

/// Fits the values of one class to rows that are all of it; returns the loss.
double fit_class(KernelFit& fit, const KernelStudy& study, const std::vector<std::size_t>& rows, kernels::Class kind,
                 const Budget& budget) {
  const auto sampled_and_counts = sample(study, rows);
  const std::vector<std::size_t>& sampled = sampled_and_counts.first;
  const Eigen::VectorXd& counts = sampled_and_counts.second;
  const Unknowns unknowns = unknowns_of(study, rows, kind);
  const auto residuals = [&](const std::vector<Eigen::VectorXd>& points) {
    std::vector<Eigen::VectorXd> result;
    for (const Eigen::VectorXd& point : points) {
      budget.check();
      KernelFit tried = fit;
      const Hosts hosts = unknowns.set(tried, point);
      Eigen::VectorXd errors(static_cast<Eigen::Index>(sampled.size()));
      for (std::size_t i = 0; i < sampled.size(); ++i) {
        const KernelRow& row = study.rows[sampled[i]];
        errors[static_cast<Eigen::Index>(i)] =
            std::log(predicted(study, row, tried, host_of(study, row, hosts)) / row.measured);
      }
      result.push_back(std::move(errors));
    }
    return result;
  };
  const Bounds bounds{logarithms(unknowns.low), logarithms(unknowns.high)};
  const LinearModel minimum = minimize(residuals, unknowns.of(fit), counts, bounds, kMostKernelSteps);
  average_hosts(fit, study, sampled, unknowns, unknowns.set(fit, minimum.at));
  const Eigen::VectorXd deviation = covariance(minimum, counts).diagonal().cwiseMax(0).cwiseSqrt();
  const double t = student_t_95(static_cast<double>(sampled.size()) - static_cast<double>(unknowns.size()));
  auto& intervals = fit.intervals[kind];
  intervals.clear();
  for (Eigen::Index i = 0; i < static_cast<Eigen::Index>(unknowns.values.size()); ++i)
    intervals.emplace_back(std::exp(std::max(bounds.low[i], minimum.at[i] - t * deviation[i])),
                           std::exp(std::min(bounds.high[i], minimum.at[i] + t * deviation[i])));
  fit.rows += sampled.size();
  return huber_loss(minimum.residuals, counts);
}

/// Sets the tile of batched products: the median over architectures of what fits each best.
void choose_tile(KernelFit& fit, const KernelStudy& study, const std::vector<std::size_t>& rows, kernels::Class kind,
                 const Budget& budget) {
  const std::vector<kernels::ValueBounds> bounds = kernels::bounds_of(kind);
  std::size_t chosen = 0;
  while (chosen < bounds.size() && std::string_view{bounds[chosen].name} != kChosenValue) ++chosen;
  std::map<std::string, std::vector<std::size_t>> batched;  // by architecture and cores
  for (const std::size_t row : rows)
    if (const auto* product = std::get_if<kernels::Product>(&study.rows[row].kernel); product && product->batch > 1) {
      const kernels::Gpu& gpu = study.gpus[study.rows[row].gpu];
      batched[gpu.architecture + std::to_string(gpu.cores)].push_back(row);
    }
  if (chosen == bounds.size() || batched.empty()) return;
  const auto with_cells = [&](KernelFit& changed, double cells) {
    std::vector<double> values = kernels::values_of(changed.values, kind);
    values[chosen] = cells;
    kernels::set_values(changed.values, kind, values);
  };
  std::vector<double> best_cells;
  for (const auto& [architecture, members] : batched) {
    double least = INFINITY;
    double best = 0;
    for (const double cells : kBatchedCells) {
      KernelFit tried = fit;
      with_cells(tried, cells);
      if (const double loss = fit_class(tried, study, members, kind, budget); loss < least) {
        least = loss;
        best = cells;
      }
    }
    best_cells.push_back(best);
  }
  std::ranges::sort(best_cells);
  with_cells(fit, best_cells[best_cells.size() / 2]);
}

/// ln of the sizes, for distances between kernels.
std::array<double, 12> size_logarithms(const kernels::Kernel& kernel) {
  std::array<double, 12> result{};
  std::size_t i = 0;
  const auto add = [&](std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t size : sizes) result[i++] = std::log(static_cast<double>(size + (size == 0)));
  };
  if (const auto* product = std::get_if<kernels::Product>(&kernel))
    add({product->batch, product->m, product->n, product->k});
  else if (const auto* c = std::get_if<kernels::Convolution>(&kernel))
    add({c->batch, c->in_channels, c->out_channels, c->height, c->width, c->kernel_height, c->kernel_width,
         c->stride_height, c->stride_width, c->groups});
  else if (const auto* t = std::get_if<kernels::Transformer>(&kernel))
    add({t->batch, t->sequence, t->layers, t->hidden, t->heads, t->feed_forward, t->vocabulary});
  else
    add({std::get<kernels::Streaming>(kernel).rows, std::get<kernels::Streaming>(kernel).columns});
  return result;
}

/// The measured kernel of `others` that is nearest to `row`.
const KernelRow& nearest(const KernelStudy& study, const std::vector<std::size_t>& others, const KernelRow& row) {
  const std::array wanted = size_logarithms(row.kernel);
  const auto found = nearest_of(others, [&](std::size_t other) {
    const kernels::Kernel& kernel = study.rows[other].kernel;
    return kernel.index() == row.kernel.index() ? squared_distance(size_logarithms(kernel), wanted) : INFINITY;
  });
  return study.rows[found.value_or(others.front())];
}

/// `value` with four digits, as profiles have them.
double four_digits(double value) {
  if (!(std::abs(value) > 0)) return 0;
  const double scale = std::pow(10, 4 - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

KernelFit fit_kernels(const KernelStudy& study, const std::vector<std::size_t>& rows, const kernels::Values& start,
                      const Budget& budget) {
  KernelFit fit{.values = start, .intervals = {}};
  std::map<kernels::Class, std::vector<std::size_t>> classes;
  for (const std::size_t row : rows)
    if (!kernels::is_composite(study.rows[row].kernel)) classes[class_of_row(study, row)].push_back(row);
  for (const auto& [kind, members] : classes) {
    choose_tile(fit, study, members, kind, budget);
    fit_class(fit, study, members, kind, budget);
  }
  return fit;
}

KernelPredictions cross_validate(const KernelStudy& study, const kernels::Values& start,
                                 const std::function<void(std::size_t, std::size_t)>& on_fold, const Budget& budget) {
  KernelPredictions predictions;
  const std::size_t count = study.rows.size();
  for (auto* values : {&predictions.model, &predictions.with_host, &predictions.roofline, &predictions.nearest})
    values->resize(count);
  const auto shortest = shortest_times(study);
  const std::set<std::string> folds{study.folds.begin(), study.folds.end()};
  std::size_t done = 0;
  for (const std::string& fold : folds) {
    std::vector<std::size_t> seen, unseen;
    for (std::size_t i = 0; i < count; ++i) (study.folds[study.rows[i].gpu] == fold ? unseen : seen).push_back(i);
    if (!seen.empty()) {
      const KernelFit fit = fit_kernels(study, seen, start, budget);
      predictions.values[fold] = fit.values;
      BoundFactors factors;  // by table
      for (const std::size_t i : seen)
        factors.add(study.tables[study.rows[i].table], study.rows[i].measured,
                    kernels::roofline(study.rows[i].kernel, study.gpus[study.rows[i].gpu]).value());
      std::map<std::string, double> factor_of;
      for (const std::string& table : study.tables) factor_of[table] = factors.of(table).value_or(1);
      const std::vector<std::size_t> others = sample(study, seen).first;
      for (const std::size_t i : unseen) {
        const KernelRow& row = study.rows[i];
        const kernels::Gpu& gpu = study.gpus[row.gpu];
        const double bound = kernels::roofline(row.kernel, gpu).value();
        predictions.model[i] = predictions.with_host[i] = predicted(study, row, fit);
        if (const Harness* harness = harness_of(study, row, fit))
          predictions.with_host[i] = predicted(
              study, row, fit, host_factor(shortest.at(host_key(study, row)) / std::max(harness->floor, harness->gap)));
        predictions.roofline[i] = bound * factor_of.at(study.tables[row.table]);
        const KernelRow& like = nearest(study, others, row);
        predictions.nearest[i] = like.measured * bound / kernels::roofline(like.kernel, study.gpus[like.gpu]).value();
      }
    }
    if (on_fold) on_fold(++done, folds.size());
  }
  return predictions;
}

KernelPredictions predict_by_profile(const KernelStudy& study) {
  KernelPredictions predictions;
  for (const KernelRow& row : study.rows) {
    const kernels::Gpu& gpu = study.gpus[row.gpu];
    predictions.model.push_back(kernels::time(row.kernel, gpu, study.model->of(gpu)).value());
    predictions.roofline.push_back(kernels::roofline(row.kernel, gpu).value());
  }
  return predictions;
}

std::vector<double> predict_power(const KernelStudy& study) {
  std::vector<double> watts;
  for (const KernelRow& row : study.rows) {
    watts.push_back(0);
    if (!row.power) continue;
    const auto& product = std::get<kernels::Product>(row.kernel);
    const Accelerator& gpu = study.accelerators[row.gpu];
    const BoardPowerValues values;
    const BoardPower board{gpu, values, gpu.power_w, gpu.power_w};
    const auto batch = kernels::number(product.batch), m = kernels::number(product.m), n = kernels::number(product.n),
               k = kernels::number(product.k);
    const double bytes = batch * (m * k + k * n + m * n) * kernels::bytes_of(product.precision);
    const Draw draw = board.of({.time = row.measured,
                                .flops = 2 * batch * m * n * k * kernels::flop_energy(gpu, values, product.precision),
                                .bytes = bytes * board.byte_energy()});
    watts.back() = board.rest_w() + draw.energy / row.measured;
  }
  return watts;
}

Json kernel_profile(const KernelStudy& study, const std::string& command, const Budget& budget) {
  std::vector<std::size_t> all(study.rows.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const KernelFit together = fit_kernels(study, all, {}, budget);
  std::map<std::string, std::map<kernels::Class, std::vector<std::size_t>>> by_architecture;
  for (const std::size_t i : all)
    if (!kernels::is_composite(study.rows[i].kernel))
      by_architecture[study.gpus[study.rows[i].gpu].architecture][class_of_row(study, i)].push_back(i);
  Json classes = Json::object();
  for (const auto& [kind, intervals] : together.intervals) {
    const auto as_json = [kind = kind](const kernels::Values& values) {
      Json result = Json::object();
      const std::vector<double> numbers = kernels::values_of(values, kind);
      const std::vector<kernels::ValueBounds> bounds = kernels::bounds_of(kind);
      for (std::size_t i = 0; i < bounds.size(); ++i)
        result[bounds[i].name] = std::clamp(four_digits(numbers[i]), bounds[i].low, bounds[i].high);
      return result;
    };
    Json& entry = classes[name_in(kernels::kClasses, kind)];
    entry["values"] = as_json(together.values);
    const std::vector<kernels::ValueBounds> bounds = kernels::bounds_of(kind);
    std::size_t fitted = 0;
    for (const kernels::ValueBounds& value : bounds) {
      if (std::string_view{value.name} == kChosenValue) continue;
      entry["intervals"][value.name] = {four_digits(intervals[fitted].first), four_digits(intervals[fitted].second)};
      ++fitted;
    }
    for (const auto& [architecture, members] : by_architecture) {
      const auto rows = members.find(kind);
      if (architecture.empty() || rows == members.end() || rows->second.size() < kFewestRows) continue;
      entry["by_architecture"][architecture] =
          as_json(fit_kernels(study, rows->second, together.values, budget).values);
    }
  }
  return {{"format", 1}, {"name", "kernels"}, {"source", "fitted by: " + command}, {"kernels", classes}};
}

}  // namespace rehearse
