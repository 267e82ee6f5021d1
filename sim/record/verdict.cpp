#include "sim/record/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace rehearse {

namespace {

/// Above this share of its capacity a shared resource sets the pace of the cluster.
constexpr double kSaturated = 0.9;

/// Smaller parts of a step are not named.
constexpr double kNamed = 0.1;

/// Share of a step that is the rounding of dates, and no part.
constexpr double kTimeRounding = 1e-9;

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

/// Something that workers share, and how busy it is.
struct SharedResource {
  std::string resource;  // "server_cpu", ...
  double share = 0;
  std::string name;  // "the NIC of ps"
  std::string remedy;

  std::string text() const { return name + ", busy " + percent(share); }
};

class Judge {
 public:
  Judge(const Scenario& scenario, const Summary& summary, const StepParts& step) : summary_{summary}, step_{step} {
    const Strategy& strategy = scenario.training.strategy;
    reduces_ = std::holds_alternative<AllReduceStrategy>(strategy.kind);
    is_synchronous_ = strategy.is_synchronous();
    has_few_threads_ = scenario.profile.servers.threads.has_value();
    sends_halves_ = scenario.precision != Precision::kFp32 || strategy.exchange.gradient_precision.has_value();
  }

  Verdict verdict(const LinkUse& link) {
    find_shared(link);
    const SharedResource* saturated = !network_ || cpu_.share >= network_->share ? &cpu_ : &*network_;
    if (saturated->share < kSaturated) saturated = nullptr;
    add_parts(saturated);
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const StepPart& a, const StepPart& b) { return a.time > b.time; });
    Verdict verdict;
    bool names_saturated = false;
    for (const StepPart& part : parts_) {
      if (part.share < kNamed && !verdict.text.empty()) break;
      if (!verdict.text.empty()) verdict.text += "; ";
      verdict.text += percent(part.share) + " " + part.what + ": " + part.remedy;
      names_saturated = names_saturated || (saturated != nullptr && part.part == saturated->resource);
    }
    if (saturated != nullptr) {
      verdict.resource = saturated->resource;
      verdict.share = saturated->share;
      if (!names_saturated)
        verdict.text += "; " + saturated->text() + ", is at its limit as well: " + saturated->remedy;
    } else if (!parts_.empty()) {
      verdict.resource = parts_.front().part;
      verdict.share = parts_.front().share;
    }
    verdict.parts = std::move(parts_);
    return verdict;
  }

 private:
  /// The busiest cores of servers, and the busiest of what messages cross.
  void find_shared(const LinkUse& link) {
    for (const MachineSummary& machine : summary_.machines) {
      if (machine.servers > 0 && (cpu_.name.empty() || machine.cpu_utilization > cpu_.share))
        cpu_ = {"server_cpu", machine.cpu_utilization,
                (has_few_threads_ ? "the threads of parameter server " : "the CPU of parameter server ") + machine.name,
                has_few_threads_ ? "another server process, or fewer and larger variables"
                                 : "more cores, another server, or fewer and larger variables"};
      const bool is_server = machine.servers > 0;
      const bool sends = machine.nic_send_utilization >= machine.nic_receive_utilization;
      consider({is_server ? "server_nic" : "worker_nic",
                std::max(machine.nic_send_utilization, machine.nic_receive_utilization),
                "the NIC of " + machine.name + (sends ? ", sending" : ", receiving"),
                is_server ? "a faster NIC, variables spread over more servers, or " + fewer_bytes()
                          : "faster NICs, or " + fewer_bytes()});
    }
    if (link.is_connection)
      consider({"connection", link.utilization, "the connection from " + link.name,
                "machines nearer to one another, or " + fewer_bytes()});
    else if (!link.name.empty())
      consider({"link", link.utilization, "the link \"" + link.name + "\"", "a faster one, or " + fewer_bytes()});
  }

  void consider(SharedResource resource) {
    if (!network_ || resource.share > network_->share) network_ = std::move(resource);
  }

  std::string fewer_bytes() const {
    return std::string{"fewer bytes for a sample ("} + (sends_halves_ ? "" : "gradients in half precision, ") +
           "a larger batch" + (reduces_ || is_synchronous_ ? ", accumulation)" : ")");
  }

  void add(const char* part, Seconds time, const std::string& what, const std::string& remedy) {
    if (!(time > step_.total() * kTimeRounding)) return;
    parts_.push_back({part, what, remedy, time, time / step_.total()});
  }

  void add_parts(const SharedResource* saturated) {
    const bool is_asynchronous_queue = saturated != nullptr && !is_synchronous_;
    add("worker_gpu", step_.kernels, "kernels on the GPUs",
        is_asynchronous_queue ? "faster ones alone would wait for " + saturated->name
                              : "faster GPUs, a lower precision, or more workers that share the samples");
    add("worker_update", step_.update, "the optimizer's update on the GPUs",
        "fewer updates for a sample (a larger batch, accumulation) or faster device memory");
    add("worker_host", step_.host, "the workers' hosts (step overhead, dispatch of kernels)",
        "more work in each kernel (a larger batch), fused or captured kernels, or faster hosts");
    add("input_copy", step_.input, "copying the samples to the GPUs",
        "copies that overlap compute, smaller samples, or PCIe links that no GPUs share");
    add("server_cpu", step_.server, "waiting for " + cpu_.text(), cpu_.remedy);
    const bool is_lossy = summary_.losses && summary_.losses->retransmitted > Bytes{};
    if (network_)
      add(network_->resource.c_str(), step_.network,
          "exposed communication over " + network_->text() + (is_lossy ? ", with packets that are lost" : ""),
          (is_lossy ? "a network that loses fewer packets, " : "") + network_->remedy);
    else
      add("network", step_.network, "exposed communication", fewer_bytes());
    add("latency", step_.latency, "latency of messages that nothing hides",
        reduces_ ? "fewer and larger buckets, an all-reduce of fewer rounds (tree, hierarchical), or overlap"
                 : "machines nearer to one another, or fewer steps (a larger batch)");
    add("pcie", step_.copies, "copies of variables and gradients between hosts and GPUs",
        "faster PCIe, NVLinks, or " + fewer_bytes());
    add("bubble", step_.bubble, "waiting for other stages of the pipeline",
        "more micro-batches in a step, fewer stages, or stages of equal length");
    add("slowest_worker", step_.others,
        is_synchronous_ ? "waiting for the slowest worker" : "waiting for workers that are behind",
        is_synchronous_ ? "workers of equal speed, batches by their speed, or a strategy that waits for fewer of them"
                        : "workers of equal speed, or a larger staleness bound");
    add("checkpoint", step_.checkpoint, "pauses for checkpoints", "fewer checkpoints or faster storage");
    add("stopped", step_.stopped, "the job standing still", "fewer revocations or a faster recovery");
  }

  const Summary& summary_;
  const StepParts& step_;
  bool reduces_ = false, is_synchronous_ = false, sends_halves_ = false;
  bool has_few_threads_ = false;  // a server process serves messages on fewer threads than it has cores
  SharedResource cpu_;
  std::optional<SharedResource> network_;
  std::vector<StepPart> parts_;
};

}  // namespace

Verdict judge(const Scenario& scenario, const Summary& summary, const StepParts& step, const LinkUse& busiest_link) {
  return Judge{scenario, summary, step}.verdict(busiest_link);
}

}  // namespace rehearse
