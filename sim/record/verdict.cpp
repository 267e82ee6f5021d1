#include "sim/record/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "sim/scenario/site.hpp"

namespace rehearse {

namespace {

/// Above this share of its capacity a shared resource sets the pace of the cluster.
constexpr double kSaturated = 0.9;

/// Above this share of the busiest's utilization another resource limits as well.
constexpr double kAsBusy = 0.9;

/// Below this share of their capacity more cores would be idle, too.
constexpr double kIdle = 0.5;

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
  Judge(const Scenario& scenario, const Summary& summary, const StepParts& step)
      : scenario_{scenario}, summary_{summary}, step_{step} {
    const Strategy& strategy = scenario.training.strategy;
    remedies_ = strategy.kind->verdict_remedies();
    is_synchronous_ = strategy.is_synchronous();
    has_few_threads_ = scenario.profile.servers.threads.has_value();
    sends_halves_ = is_half(scenario.precision) || strategy.exchange.gradient_precision.has_value();
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
      if (!names_saturated) verdict.text += "; at the limit as well, " + saturated->text() + ": " + saturated->remedy;
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
                : machine.cpu_utilization < kIdle
                    ? "faster cores, or fewer and larger variables"
                    : "more or faster cores, another server, or fewer and larger variables"};
      const bool is_server = machine.servers > 0;
      const bool sends = machine.nic_send_utilization >= machine.nic_receive_utilization;
      const bool is_by_sockets =
          is_limited_by_sockets(scenario_, scenario_.groups[static_cast<std::size_t>(machine.group)]);
      consider(
          {is_server ? "server_nic" : "worker_nic",
           std::max(machine.nic_send_utilization, machine.nic_receive_utilization),
           (is_by_sockets ? "the sockets of " : "the NIC of ") + machine.name + (sends ? ", sending" : ", receiving"),
           is_server       ? "a faster NIC, variables spread over more servers, or " + fewer_bytes()
           : is_by_sockets ? "RDMA instead of TCP, whose sockets carry less than the NICs, or " + fewer_bytes()
                           : "faster NICs, or " + fewer_bytes()});
    }
    if (link.is_connection)
      consider({"connection", link.utilization, "the connection from " + link.name,
                "machines nearer to one another, or " + fewer_bytes()});
    else if (!link.name.empty())
      consider({"link", link.utilization, "the link \"" + link.name + "\"", "a faster link, or " + fewer_bytes()});
    std::string others;
    for (const auto& [kind, resource] : busiest_)
      if (kind != network_->resource && resource.share > network_->share * kAsBusy)
        others += (others.empty() ? "" : " and ") + resource.name;
    if (!others.empty()) network_->remedy += "; a faster one alone does not help, as " + others + " is as busy";
  }

  void consider(SharedResource resource) {
    if (!network_ || resource.share > network_->share) network_ = resource;
    SharedResource& busiest = busiest_[resource.resource];
    if (busiest.name.empty() || resource.share > busiest.share) busiest = std::move(resource);
  }

  std::string fewer_bytes() const {
    return std::string{"fewer bytes for a sample ("} + (sends_halves_ ? "" : "gradients in half precision, ") +
           "a larger batch" + (is_synchronous_ ? ", accumulation)" : ")");
  }

  /// The strategy's, or else the usual one.
  std::string remedy_of(const std::string& part, const std::string& usual) const {
    const auto own = remedies_.find(part);
    return own != remedies_.end() ? own->second : usual;
  }

  void add(const char* part, Seconds time, const std::string& what, const std::string& remedy) {
    if (!(time > step_.total() * kTimeRounding)) return;
    parts_.push_back({part, what, remedy_of(part, remedy), time, time / step_.total()});
  }

  void add_parts(const SharedResource* saturated) {
    const bool is_asynchronous_queue = saturated != nullptr && !is_synchronous_;
    const std::string is_full = scenario_.precision == Precision::kFp32 ? "a lower precision, " : "";
    add("worker_gpu", step_.kernels, "kernels on the GPUs",
        is_asynchronous_queue ? "faster ones alone would wait for " + saturated->name
                              : "faster GPUs, " + is_full + "or more workers that share the samples");
    add("kernel_launch", step_.launch, "starting kernels on the GPUs, before their work begins",
        "fewer and larger kernels (fused layers, a compiler, a larger batch) or captured ones (CUDA graphs); faster "
        "GPUs "
        "help little");
    add("worker_update", step_.update, "the optimizer's update on the GPUs",
        "fewer updates for a sample (a larger batch, accumulation), a fused update, or faster device memory");
    add("host_update", step_.host_update, "the optimizer's update of what the hosts keep, at the rate of their memory",
        "a smaller share of the optimizer on the hosts, fewer updates for a sample (a larger batch, accumulation), "
        "more "
        "GPUs that share the states, or hosts with faster memory");
    const std::size_t variables = scenario_.workload.trainable_tensors();
    add("update_dispatch", step_.update_dispatch,
        "host dispatch of the optimizer's update, of " + std::to_string(variables) +
            (variables == 1 ? " variable" : " variables one after the other"),
        "an optimizer that updates many variables at once (fused, multi-tensor), captured kernels (CUDA graphs), fewer "
        "updates for a sample (a larger batch, accumulation), or faster hosts; faster GPUs do not help");
    add_host();
    add("host_copies", step_.host_copies, "copying variables that lie on the hosts to the GPUs, and gradients back",
        "variables that stay on the GPUs, or faster PCIe links");
    add("input_load", step_.load, "waiting for samples that are read and decoded",
        "more loaders or vCPUs, faster storage, samples that are decoded once and kept, or decoding on the GPUs");
    add("input_copy", step_.input, "copying the samples to the GPUs",
        "copies that overlap compute, smaller samples, or PCIe links that no GPUs share");
    add("server_cpu", step_.server, "waiting for " + cpu_.text(), cpu_.remedy);
    const bool is_lossy = summary_.losses && summary_.losses->retransmitted > Bytes{};
    if (network_)
      add(network_->resource.c_str(), step_.network + step_.beside_fetch,
          (step_.beside_fetch > Seconds{} ? "fetching models over " : "exposed communication over ") +
              network_->text() + (is_lossy ? ", with packets that are lost" : ""),
          (is_lossy ? "a network that loses fewer packets, " : "") + remedy_of("network", network_->remedy));
    else
      add("network", step_.network + step_.beside_fetch, "exposed communication", fewer_bytes());
    add("latency", step_.latency, "latency of messages that nothing hides",
        "machines nearer to one another, or fewer steps (a larger batch)");
    const bool has_activations = scenario_.training.strategy.kind->offload().activations > 0;
    add("pcie", step_.copies,
        std::string{"copies of "} + (has_activations ? "activations, " : "") +
            "variables and gradients between hosts and GPUs",
        has_activations ? "activations of fewer layers on the hosts, or faster PCIe"
                        : "faster PCIe, NVLinks, or " + fewer_bytes());
    add("bubble", step_.bubble, "waiting for other stages of the pipeline",
        "more micro-batches in a step, fewer stages, or stages of equal length");
    add("slowest_worker", step_.others,
        is_synchronous_ ? "waiting for the slowest worker" : "waiting for workers that are behind",
        is_synchronous_ ? "workers of equal speed, batches by their speed, or a strategy that waits for fewer of them"
                        : "workers of equal speed, or a larger staleness bound");
    add("checkpoint", step_.checkpoint, "pauses for checkpoints", "fewer checkpoints or faster storage");
    add("stopped", step_.stopped, "the job standing still", "fewer revocations or a faster recovery");
  }

  /// What dispatches kernels is what begins the step.
  void add_host() {
    const bool dispatches = step_.host - step_.overhead > step_.host * kNamed;
    const bool begins = step_.overhead > step_.host * kNamed;
    add("worker_host", step_.host,
        std::string{"the workers' hosts ("} + (begins ? "overhead of each step" : "") +
            (begins && dispatches ? ", " : "") + (dispatches ? "dispatch of kernels" : "") +
            "), for which the GPUs wait",
        std::string{"more samples in each step (a larger batch), "} +
            (dispatches ? "fused or captured kernels (CUDA graphs), " : "") +
            "or faster hosts; faster GPUs do not help");
  }

  const Scenario& scenario_;
  const Summary& summary_;
  const StepParts& step_;
  std::map<std::string, std::string> remedies_;  // of the strategy, by part
  bool is_synchronous_ = false, sends_halves_ = false;
  bool has_few_threads_ = false;  // a server process serves messages on fewer threads than it has cores
  SharedResource cpu_;
  std::optional<SharedResource> network_;
  std::map<std::string, SharedResource> busiest_;  // of each kind of what messages cross
  std::vector<StepPart> parts_;
};

}  // namespace

Verdict judge(const Scenario& scenario, const Summary& summary, const StepParts& step, const LinkUse& busiest_link) {
  return Judge{scenario, summary, step}.verdict(busiest_link);
}

}  // namespace rehearse
