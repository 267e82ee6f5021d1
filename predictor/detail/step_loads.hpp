#pragma once
// What a step asks of links and servers, for features.cpp.

#include <algorithm>
#include <cmath>
#include <vector>

#include "predictor/detail/described_step.hpp"
#include "sim/scenario/gradient_units.hpp"

namespace rehearse {

inline constexpr double kTiny = 1e-12;  // seconds

/// The machine, from 0, of a server. Servers stand machine by machine, the first machines having one more if it does
/// not come out even (sim/scenario/site.hpp).
inline int machine_of_server(int server, int servers, int machines) {
  const int each = servers / machines, more = servers % machines;
  return server < more * (each + 1) ? server / (each + 1) : more + (server - more * (each + 1)) / std::max(1, each);
}

/// Who uses links and servers at the same time: a worker alone, which no step can be shorter than; or all of them.
enum class Use { kOne, kAll };

/// What a step asks of links and servers.
class Loads {
 public:
  Loads(const Step& step, const DescribedCluster& cluster) : step_{step}, cluster_{cluster}, values_{cluster.values()} {
    const ClusterValues& c = values_;
    rate_ = std::max(cluster.rate(), 1.0);
    link_rate_ = cluster.is_one_machine() ? std::max(c.pcie, 1.0) : rate_;
    machines_ = std::max(1.0, c.machines);
    const bool has_others = cluster.has_others() && c.other_machines < machines_;
    const double first_machines = machines_ - (has_others ? c.other_machines : 0);
    local_ = (c.workers - (has_others ? c.other_workers : 0)) / first_machines;
    other_local_ = has_others ? c.other_workers / c.other_machines : 0;
    has_servers_ = !cluster.is_all_reduce() && c.servers > 0;
    servers_ = has_servers_ ? cluster.servers() : 0;
    server_machines_ = has_servers_ ? std::min(kMostServerNodes, cluster.server_machines()) : 0;
    cores_ = std::max(1.0, c.cores);
    work_.assign(static_cast<std::size_t>(std::max(1, servers_)), 0);
    sent_ = work_;
    const int nodes = static_cast<int>(std::min<double>(kMostMachineNodes, std::max(machines_, 1.0)));
    first_server_machine_ = c.is_colocated > 0 ? 0 : nodes;
    const double others = std::round(nodes * c.other_machines / machines_);
    first_other_machine_ = has_others ? nodes - static_cast<int>(std::clamp(others, 1.0, nodes - 1.0)) : nodes;
    worker_machines_ = nodes;
    const int count =
        c.is_colocated > 0 || !has_servers_ ? std::max(nodes, server_machines_) : nodes + server_machines_;
    received_.assign(static_cast<std::size_t>(count), 0);
    transmitted_ = received_;
    add_up();
  }

  /// Kernels of a worker on machine `m`, all batches of a step, and the overhead.
  double compute_s(std::size_t m) const {
    if (!has_workers(m)) return 0;
    const double passes = std::max(1.0, values_.accumulation);
    return is_other(m) ? other_compute_s() : step_.end * passes + values_.step_overhead;
  }
  double other_compute_s() const {
    return step_.other_end * std::max(1.0, values_.accumulation) + values_.other_step_overhead;
  }
  /// Mean step of workers that do not wait for one another: as often as they finish one, all together.
  double mean_step(double first, double other) const {
    const double others = values_.other_workers, all = std::max(1.0, values_.workers);
    return all / ((all - others) / std::max(first, kTiny) + others / std::max(other, kTiny));
  }
  /// Of a piece of a variable on its way between a worker and its server: a core, then `bytes` over the link; for all
  /// workers one after another, as many at a time as there are cores.
  double alone_s(const StepVariable& v, double bytes, Use use) const {
    if (!has_servers_ || bytes == 0) return 0;
    const double rate =
        values_.flow > 0 && !cluster_.is_one_machine() ? std::min(values_.flow, link_rate_) : link_rate_;
    const double one = server_s(v) / v.pieces;
    if (use == Use::kOne) return one + (values_.is_colocated > 0 ? 0 : bytes / v.pieces / rate);
    return std::ceil(values_.workers / cores_) * one + asked_of_busiest(v).link_s_per_byte * bytes;
  }
  double transfer_s(const StepVariable& v) const {
    return cluster_.is_all_reduce() ? v.pushed * values_.all_reduce_per_byte : v.pushed / link_rate_;
  }
  double server_s(const StepVariable& v) const {
    return has_servers_ ? v.pieces * values_.per_variable + v.pushed * values_.per_byte : 0;
  }
  bool has_split_update(const StepVariable& v) const {
    return has_servers_ && v.bytes / v.pieces > values_.split_above;
  }
  int machine_of(int server) const {
    return first_server_machine_ + machine_of_server(server, servers_, std::max(1, server_machines_));
  }
  /// Bytes of the variable that the chief's machine receives or sends, before the kernels and after them.
  struct Ways {
    double pull_in = 0, pull_out = 0, push_in = 0, push_out = 0;
  };
  Ways ways_of(const StepVariable& v) const {
    const double remote = values_.workers - local_;
    const double copies = std::max(1.0, values_.gpus_per_worker);  // over PCIe
    if (cluster_.is_all_reduce()) return {.push_in = reduced_bytes(v), .push_out = reduced_bytes(v)};
    if (!has_servers_) return {};
    if (cluster_.is_one_machine())
      return {.pull_in = v.pulled * values_.workers * copies, .push_out = v.pushed * values_.workers * copies};
    const double here = part_on(v, 0);
    return {.pull_in = v.pulled * local_ * (1 - here),
            .pull_out = v.pulled * remote * here,
            .push_in = v.pushed * remote * here,
            .push_out = v.pushed * local_ * (1 - here)};
  }

  StepBounds bounds() const {
    StepBounds bounds{.compute = compute_s(0)};
    if (cluster_.has_others())
      bounds.compute =
          waits_for_all() ? std::max(bounds.compute, other_compute_s()) : mean_step(bounds.compute, other_compute_s());
    if (cluster_.is_all_reduce()) {
      for (const Reduction& reduction : reductions()) bounds.link += reduction.time;
    } else if (has_servers_) {
      // Workers beside servers may step more often than others, which the sum over all does not allow for.
      const bool some_are_near = values_.is_colocated > 0 && !cluster_.is_one_machine() && !waits_for_all();
      for (std::size_t m = 0; m < received_.size() && !some_are_near; ++m)
        bounds.link = std::max({bounds.link, received_[m] / rate_of(m), transmitted_[m] / rate_of(m)});
      bounds.link *= std::max(1.0, values_.fabric_load);
      std::vector<double> work_of(received_.size());  // its cores are those of all servers of a machine
      for (int s = 0; s < servers_; ++s) work_of[static_cast<std::size_t>(machine_of(s))] += work(s);
      bounds.core = *std::max_element(work_of.begin(), work_of.end()) / cores_;
    }
    return bounds;
  }

  /// A collective of the gradients of some variables.
  struct Reduction {
    std::size_t last = 0;  // variable that is ready last
    double time = 0;       // seconds
  };
  /// All-reduces of a step in the order in which they can begin: of buckets that close when their bytes reach bucket_B
  /// (gradient_units.hpp), or of each variable. With a cycle time what is ready is fused in the run: nothing is known of
  /// their number, and their latency is left out.
  std::vector<Reduction> reductions() const {
    std::vector<Reduction> found;
    if (!cluster_.is_all_reduce()) return found;
    std::vector<std::size_t> order(step_.variables.size());
    for (std::size_t v = 0; v < order.size(); ++v) order[v] = v;
    const auto ready = [&](std::size_t v) {
      const int gradient = step_.variables[v].gradient;
      return gradient < 0 ? static_cast<int>(step_.kernels.size()) : gradient;
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ready(a) < ready(b); });
    std::erase_if(order, [&](std::size_t v) { return step_.variables[v].pulled == 0; });  // moving averages stay
    std::vector<double> bytes;
    for (const std::size_t v : order) bytes.push_back(step_.variables[v].bytes);
    const bool is_fused_later = values_.cycle > 0;
    const double full = is_fused_later ? 0 : values_.bucket;
    std::size_t begin = 0;
    for (const std::size_t end :
         bucket_ends(bytes, full > 0 && values_.first_bucket > 0 ? values_.first_bucket : full, full)) {
      double pushed = 0;
      for (; begin < end; ++begin) pushed += step_.variables[order[begin]].pushed;
      if (pushed == 0) continue;
      const double latencies = is_fused_later ? 0 : cluster_.cuts_of(pushed) * values_.all_reduce_latency;
      found.push_back({order[end - 1], pushed * values_.all_reduce_per_byte + latencies});
    }
    return found;
  }

  double rate() const { return rate_; }
  double cores() const { return cores_; }
  int servers() const { return servers_; }
  double work(int server) const { return work_[static_cast<std::size_t>(server)]; }
  double sent(int server) const { return sent_[static_cast<std::size_t>(server)]; }
  std::size_t machines() const { return received_.size(); }
  double received_s(std::size_t m) const { return received_[m] / rate_of(m); }
  double transmitted_s(std::size_t m) const { return transmitted_[m] / rate_of(m); }
  double local_workers(std::size_t m) const { return !has_workers(m) ? 0 : is_other(m) ? other_local_ : local_; }
  double gpus(std::size_t m) const { return !has_workers(m) ? 0 : is_other(m) ? values_.other_gpus : values_.gpus; }
  /// Whether no worker is ahead of another one.
  bool waits_for_all() const { return cluster_.is_all_reduce() || values_.is_synchronous > 0; }
  /// What the machine of the busiest server is asked for of a variable in a step: how often for all of it, and seconds a
  /// byte of it on the machine's links, which none of its own workers needs.
  struct Asked {
    double times = 0, link_s_per_byte = 0;
  };
  Asked asked_of_busiest(const StepVariable& v) const {
    const int busiest = static_cast<int>(std::max_element(work_.begin(), work_.end()) - work_.begin());
    const int machine = machine_of(busiest);
    const double part = part_on(v, machine);
    const auto m = static_cast<std::size_t>(machine);
    if (cluster_.is_one_machine()) return {part * values_.workers, part * values_.workers / rate_};
    return {part * values_.workers, part * (values_.workers - local_workers(m)) / rate_of(m)};
  }
  /// Of the chief's machine in a step.
  double received_bytes = 0, transmitted_bytes = 0;

 private:
  /// What the chief's machine sends of a variable in an all-reduce, or its GPUs do if they are all.
  double reduced_bytes(const StepVariable& v) const {
    if (!cluster_.is_one_machine() && values_.all_reduce_sent > 0) return v.pushed * values_.all_reduce_sent;
    const double ranks = cluster_.ranks();
    return 2 * (ranks - 1) / ranks * v.pushed * (cluster_.is_one_machine() ? values_.gpus : 1);
  }
  /// The part of a variable that servers of machine `m` hold.
  double part_on(const StepVariable& v, int m) const {
    double part = 0;
    for (int s = 0; s < servers_; ++s)
      if (machine_of(s) == m) part += v.parts[static_cast<std::size_t>(s)];
    return part;
  }
  bool has_workers(std::size_t m) const { return m < static_cast<std::size_t>(worker_machines_); }
  bool is_other(std::size_t m) const { return has_workers(m) && m >= static_cast<std::size_t>(first_other_machine_); }
  double rate_of(std::size_t m) const {
    if (cluster_.is_one_machine()) return rate_;
    if (is_other(m)) return std::max(1.0, values_.other_nic);
    return has_workers(m) || values_.server_nic <= 0 ? rate_ : values_.server_nic;
  }
  void add_up() {
    double pulled = 0, pushed = 0;
    std::vector<double> pulled_of(received_.size()), pushed_of(received_.size());
    for (const StepVariable& v : step_.variables) {
      const Ways ways = ways_of(v);
      received_bytes += ways.pull_in + ways.push_in;
      transmitted_bytes += ways.pull_out + ways.push_out;
      if (!has_servers_) continue;
      for (int s = 0; s < servers_; ++s) {
        const double part = v.parts[static_cast<std::size_t>(s)];
        if (part == 0) continue;
        work_[static_cast<std::size_t>(s)] += part * server_s(v) * values_.workers;
        sent_[static_cast<std::size_t>(s)] += part * v.pulled * values_.workers;
        const auto m = static_cast<std::size_t>(machine_of(s));
        pulled_of[m] += part * v.pulled;
        pushed_of[m] += part * v.pushed;
      }
      pulled += v.pulled;
      pushed += v.pushed;
    }
    if (cluster_.is_one_machine()) {
      received_bytes += step_.input_bytes * cluster_.ranks();
      received_[0] = received_bytes;
      transmitted_[0] = transmitted_bytes;
      return;
    }
    for (std::size_t m = 0; m < received_.size(); ++m) {
      const double local = local_workers(m), remote = values_.workers - local;
      received_[m] = pushed_of[m] * remote + (pulled - pulled_of[m]) * local;
      transmitted_[m] = pulled_of[m] * remote + (pushed - pushed_of[m]) * local;
    }
    if (cluster_.is_all_reduce()) {
      received_[0] = received_bytes;
      transmitted_[0] = transmitted_bytes;
    }
  }

  const Step& step_;
  const DescribedCluster& cluster_;
  const ClusterValues& values_;
  double rate_ = 0, link_rate_ = 0, machines_ = 0, local_ = 0, other_local_ = 0, cores_ = 0;
  bool has_servers_ = false;
  int servers_ = 0, server_machines_ = 0;
  // Nodes of machines: those like the chief's, other ones with workers, those with servers alone.
  int first_other_machine_ = 0, worker_machines_ = 0, first_server_machine_ = 0;
  std::vector<double> work_, sent_;             // [servers] seconds of one core; bytes
  std::vector<double> received_, transmitted_;  // [machines] bytes
};

}  // namespace rehearse
