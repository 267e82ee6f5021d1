#pragma once
// Calibrated parameters: how real software uses the hardware of the catalog. A profile is written by `rehearse
// calibrate` or by hand; every value has a unit. platforms/README.md says what they mean, calibration/README.md where the
// shipped ones come from.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platforms/board_power.hpp"
#include "platforms/collective_algorithm.hpp"
#include "platforms/startup.hpp"
#include "sim/base/collective_kind.hpp"
#include "sim/base/json.hpp"
#include "sim/base/ordered_map.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

namespace kernels {
struct Model;
}

/// The keys of an object that its file states, by their places in the table of its keys (platforms/profile_fields.hpp).
using StatedKeys = std::uint64_t;

/// Host side of a worker.
struct HostParameters {
  Seconds dispatch{};       // host time per operator before the GPU may start it; the host may run ahead of the GPU
  Seconds step_overhead{};  // host time per step in which neither GPU nor network works for this worker (session call,
                            // input)
  StatedKeys stated = 0;    // none: the profile leaves the section out
};

/// GPU side: t = kernel_overhead + max(FLOPs / (peak e), bytes / (bandwidth m)).
struct GpuParameters {
  Seconds kernel_overhead{};           // GPU time per kernel besides its work
  double memory_efficiency = 1;        // m: share of peak device-memory bandwidth that kernels reach
  double reduction_half = 0;           // K_half: reduction length at which matrix-like kernels reach half of e_max
  double winograd_gain = 1;            // direct-convolution FLOPs done per FLOP executed, for 3x3 stride-1 kernels
  double default_peak_efficiency = 1;  // e_max of GPUs that the profile does not name, if it states one
  std::map<std::string, double> peak_efficiency;  // e_max by accelerator name
  /// Accesses to device memory per trained scalar of one update on a worker, by optimizer: 5 if one kernel does all of
  /// momentum's arithmetic, about 10 with a kernel for each elementary operation, about 20 for Adam so. An update takes
  /// accesses * bytes of the parameters in fp32 / (bandwidth m); none where an optimizer is not listed.
  std::map<std::string, double> update_accesses;
  StatedKeys stated = 0;  // none: the profile leaves the section out

  double efficiency_for(const std::string& accelerator) const;
  bool covers(const std::string& accelerator) const { return peak_efficiency.contains(accelerator); }
};

/// What a framework keeps in a GPU's memory otherwise than a graph of single operators in the precision of kernels does.
struct FrameworkMemory {
  double kept_activations = 1;  // by what the operators keep: less where kernels are fused, more with copies in fp32
  std::optional<double> kept_split_activations{};  // the same where workers hold layers together; none: as otherwise
  /// Where positions are split between layers' parts (sequence parallelism): share of what has been gathered before products that
  /// is kept, instead of being gathered again.
  double kept_gathered = 0;
  /// Tensors of a norm's size that one without biases keeps besides its input, if it is composed of elementary kernels: 2 of x r w,
  /// r = 1 / sqrt(mean(x x)), in PyTorch 1.13, which keeps x r and x x.
  double norm_copies = 0;
  double gradient_temporaries = 0;  // bytes of a parameter, beside a product that computes a weight's gradient
  /// Bytes of a parameter: a buffer for each shape of weights, which stays: where products add gradients up themselves, what autograd
  /// is given instead of them. Source: Transformer Engine, get_dummy_wgrad() in pytorch/module/base.py.
  double gradient_buffers = 0;
  /// The gradient of a loss that is computed of 16-bit logits is written over them. Source: Transformer Engine,
  /// cross_entropy_backward() in pytorch/triton/cross_entropy.py.
  bool loss_in_place = false;
  Bytes held{};  // all the time: workspaces of libraries, buffers
};

/// How far steps with a framework's values were off that had not been fitted to them.
struct FrameworkErrors {
  std::size_t rows = 0;
  std::vector<std::string> accelerators;  // of these rows
  BytesPerSecond nic_min{}, nic_max{};    // all of a machine, each direction; 0: all rows were of single machines
  double low = 0, high = 0;               // ln(predicted / measured): 5th and 95th percentile

  /// Whether they tell of machines with these GPUs and so much of NICs, 0 of a single one: half the least to twice
  /// the most.
  bool are_of(const std::vector<std::string>& gpus, BytesPerSecond nic_of_machine) const;
};

/// What a framework, or a recipe for one, adds to the kernels of a profile that has times of kernels (`Profile::kernels`).
struct Framework {
  Seconds dispatch{};  // host time per kernel before the GPU may start it; the host may run ahead of the GPU
  /// The host waits for the end of each kernel before it prepares the next one, so that the GPU idles for the time of each
  /// dispatch. Source: CUDA C++ Programming Guide, CUDA_LAUNCH_BLOCKING.
  bool waits_for_kernels = false;
  Seconds step_overhead{};    // as that of HostParameters
  Seconds kernel_overhead{};  // most that a kernel takes besides its work where it is launched before the last one ends
  double composition = 1;     // elementary kernels of a layer normalisation, dropout or GELU; 1: it has one for each
  /// Products and convolutions in fp32 are computed in TF32, where a GPU has units for it: by default in NVIDIA's
  /// containers and TensorFlow, not in PyTorch (products since version 1.12; its convolutions are).
  bool uses_tf32 = false;
  /// Products in fp16 run on matrix units only if their rows are aligned to 16 B, otherwise as in fp32. Source: cuBLAS
  /// before version 11, CUDA 10.2 documentation, cublasGemmEx().
  bool needs_alignment = false;
  Seconds update_dispatch{};  // host time for the update of a variable, before the next one's
  /// Host time per variable of loops over variables behind the last kernel's dispatch (norms, clipping, the optimizer, copies to 16
  /// bits): hidden as long as the GPU still runs kernels.
  Seconds update_loop{};
  /// Bytes of a parameter that the GPU reads and writes in these loops, besides those of a single kernel for the optimizer
  /// (update_bytes() of the states): norms, clipping, copies. A sharded optimizer has them of all variables, too.
  double update_traffic = 0;
  /// Time per variable and worker that share a sharded optimizer, of the copies by which what has been gathered is unpacked: so small
  /// that the host takes longest. nanotron: all_gather_coalesced() in src/nanotron/distributed.py.
  Seconds gather_copy{};
  double copies = 0;  // kernels that read and write a product's output once more: biases, heads transposed
  /// In mixed precision: time of losses, layer normalisations, dropouts and GELU by that in fp16. 1: all in fp16; 2: in
  /// fp32; more: with conversions.
  double mixed_scalars = 1;
  double fusion = 0;              // share of activations and sums that are part of the kernel before them
  Seconds collective_dispatch{};  // host time per collective within a layer
  /// Bytes of a parameter that are read and written, by a kernel for each variable, to add a batch's gradients to those of the
  /// batches before: 6 in 16 bits, 10 if the sums are in fp32.
  double accumulation = 0;
  /// The product that computes a gradient adds it to the sums itself, without a kernel: `accumulation` is then what its output
  /// costs more than one in 16 bits: 6 (sums in fp32 read and written for 2 written). Source: Megatron-LM,
  /// gradient_accumulation_fusion.
  bool accumulates_in_product = false;
  /// Rate of fused attention by that of FlashAttention-2. FlashAttention takes about twice as long. Source: Dao,
  /// FlashAttention-2, ICLR 2024, section 4.1.
  double attention_rate = 1;
  /// Host time that a collective within a layer takes besides, for each of the GPUs that hold the layer, in a pipeline over
  /// several machines. Found in steps of nanotron (calibration/data/nanotron-ultrascale): no layer with its backward pass takes
  /// less than 10, 15 and 25 ms on 2, 4 and 8 GPUs, whatever the model and the batch, and 4.5 without a pipeline or on one
  /// machine; the cause is not known.
  Seconds dispatch_beside_pipeline{};
  /// Where experts have as many rows as tokens choose them: host time for the numbers of these, behind the kernels that compute them,
  /// before it launches what has sizes of them: a copy to the host, and the host's wait for the stream. 0: sizes are not needed there,
  /// as in programs that are compiled for fixed shapes. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py, its
  /// synchronisation points, of which only drop_and_pad has none.
  Seconds load_wait{};
  FrameworkMemory memory;
  /// Images have their channels first: convolutions in fp16 have their inputs and outputs transposed, since matrix units want
  /// channels last, that is read and written once more, and batch norms go through each channel in one block of threads
  /// (kernels::channel_time()). Source: cuDNN Developer Guide, Tensor Core operations, tensor transformations.
  bool transposes_images = false;
  /// Device memory that an algorithm of a convolution may take besides its images and weights: transforms
  /// (kernels::fft_workspace()) that need more are not taken. Sources: MXNet, Convolution, "workspace" (1024 MB);
  /// TensorFlow, TF_CUDNN_WORKSPACE_LIMIT_IN_MB (4096).
  Bytes convolution_workspace{std::int64_t{4} << 30};
  /// Weights' gradients are computed by transforms of tiles, too. Source: cuDNN 6 release notes; cuDNN 5.1 has none.
  bool transforms_weight_gradients = true;
  bool has_variables_on_host = false;  // each step copies them to the GPU, and their gradients back
  std::optional<FrameworkErrors> errors{};
  StatedKeys stated = 0;
};

/// CPU time of one variable that does not pass between machines: time_per_variable + bytes * time_per_byte.
struct LocalExchange {
  Seconds time_per_variable{};
  Seconds time_per_byte{};  // seconds for each byte

  Seconds time(Bytes bytes) const { return time_per_variable + time_per_byte * as_double(bytes); }
};

/// An exchange between workers that a profile was fitted on.
struct SeenExchange {
  std::string strategy, links;  // as TrainingFacts has them (prediction_kind.hpp)
  BytesPerSecond nic{};         // of a machine; 0: all workers were in one machine
  int workers_max = 0;
  std::string collective{};  // of collectives alone: the operation, as TrainingFacts has it, with sizes from and to
  Bytes payload_min{}, payload_max{};
};

/// What the scenarios of a fit had of servers: beyond that a prediction is less certain (sim/scenario/server_range.hpp).
struct FittedServers {
  std::string profile;                  // that was fitted
  std::vector<SeenExchange> exchanges;  // that it was fitted on
  BytesPerSecond nic_min{}, nic_max{};  // of a machine with workers, all NICs together: those of exchanges with servers
  Bytes traffic_max{};                  // that one server sends, and as much receives, in a step of each of the workers
  int workers_max = 0, servers_max = 0;
};

/// CPU cost of one variable passing through a parameter server, on one of its cores:
/// t = time_per_variable + bytes * time_per_byte (+ time_per_split_update when a pushed tensor is large enough for its
/// update to be split over threads). Most of it is the remote call's: its messages are serialised, copied and parsed.
/// So one process carries at most min(threads, cores) / time_per_byte, both directions together, however fast its NIC is.
struct ServerParameters {
  Seconds time_per_variable{};
  Seconds time_per_byte{};  // seconds for each byte: its copies, each at the rate at which one thread copies memory
  /// Threads of one server process that serialise, copy and parse messages, at most one a core; none: one on each core.
  std::optional<int> threads;
  /// Payload that one connection between a worker and a server carries in one direction: its bytes pass through one
  /// thread at each end. None: what the NICs leave.
  std::optional<BytesPerSecond> connection_rate;
  Seconds time_per_split_update{};
  Seconds time_per_update{};       // synchronous: once per variable and step, when the gradients of all workers are in
  Bytes split_update_threshold{};  // updates of tensors above this size are split over the server's threads
  /// Cost of a variable between two processes of one machine: no NIC, but messages and copies. None: as over a NIC.
  std::optional<LocalExchange> between_processes;
  /// Cost of a variable in the workers' own process, which is no message and is copied over PCIe alone: arithmetic on
  /// one gradient or update. Above split_update_threshold all cores share its bytes.
  std::optional<LocalExchange> in_process;
  std::optional<FittedServers> fitted;  // none: unknown
  std::string software{};               // whose these values are: another profile's workload that names it takes them
  StatedKeys stated = 0;                // none: the profile leaves the section out

  /// Threads of `processes` on one machine that serve messages at the same time.
  int serving(int processes, int cores) const { return threads ? std::min(processes * *threads, cores) : cores; }
};

/// What a profile's servers cost by a framework where that is not as otherwise.
struct ServersOfFramework {
  std::string source;
  ServerParameters servers;       // whole
  std::vector<std::string> keys;  // of what is stated for the framework alone
};

struct NetworkParameters {
  double nic_efficiency = 1;  // share of the provider's NIC rate that the protocol delivers as payload
  std::map<std::string, double> nic_efficiency_of;  // the same for instances with a value of their own, by name
  /// Bytes that a connection may have under way without acknowledgement: its rate is at most window / round trip.
  /// None: unlimited. Source: RFC 7323, section 1.1.
  std::optional<Bytes> connection_window;

  /// What the sockets of a collective library carry out of a machine, and as much into it, where Instance::transport is
  /// kTcp: processors copy each byte. None: as much as the NICs.
  std::optional<BytesPerSecond> tcp_rate;

  double flow_efficiency = 1;  // share of the rate of a single connection (RegionLink) that it delivers as payload
  /// What all connections between two machines carry in both directions together, in units of the rate of a single
  /// one, where that is limited: 2 for independent directions and no limit on several connections; less where a tunnel
  /// makes one flow of them.
  double duplex = 2;
  StatedKeys stated = 0;  // none: the profile leaves the section out

  double nic_efficiency_for(const std::string& instance) const;
};

/// One part of writing a checkpoint: fixed_time + tensors * time_per_tensor + bytes / rate.
struct CheckpointStage {
  Seconds fixed_time{};
  Seconds time_per_tensor{};
  BytesPerSecond rate{};

  Seconds time(std::int64_t tensors, Bytes bytes) const {
    return fixed_time + time_per_tensor * static_cast<double>(tensors) + bytes / rate;
  }
};

/// A checkpoint is written to the machine's disk and then, if there is an upload, copied to remote storage.
struct CheckpointParameters {
  std::string source;
  CheckpointStage write;
  std::optional<CheckpointStage> upload;

  Seconds time(std::int64_t tensors, Bytes bytes) const {
    return write.time(tensors, bytes) + (upload ? upload->time(tensors, bytes) : Seconds{});
  }
};

/// Words of precisions of step times.
inline constexpr std::array<std::string_view, 4> kStepPrecisions{"fp32", "tf32", "fp16", "bf16"};

/// Measured time of one training step of a worker with one GPU, or with several in one machine, nothing exchanged:
/// forward and backward pass and whatever the host does, with `batch` samples in all. `framework` is a label; empty: of
/// any workload that does not name one itself.
struct StepTime {
  std::string model, accelerator, precision, framework;
  int gpus = 1;
  int batch = 0;
  Seconds time{};
  bool is_estimated = false;  // from what another model, GPU, precision or framework takes: substitutes.hpp
};

/// Of which kind predictions by a profile are, and how far such ones were off, as a scenario that was read has it
/// (prediction_kind.hpp).
struct StatedPrediction {
  std::string kind;
  double low = 0, high = 0;         // ln(predicted / measured): 5th and 95th percentile
  std::vector<std::string> others;  // profiles that would do nearly as well
};

/// What a profile does not know and has from elsewhere.
struct Substitute {
  std::string text;         // one sentence: what, from where, how far it may be off
  double uncertainty = 0;   // standard deviation of ln(predicted / measured) that it adds
  bool is_of_kind = false;  // what it adds is in the measured errors of the prediction's kind, if they are known
  std::map<std::string, double> components;  // and how uncertain its values are: see PredictionUncertainty
};

/// 5 % of a normal distribution lie above so many standard deviations.
inline constexpr double kNormal95 = 1.645;

/// How far predictions lie from measurements. ln(predicted / measured) has the standard deviation
///   sd = sqrt(residual^2 + sum over components of (what they change ln predicted by)^2)
/// and lay between low * sd and high * sd for 90 % of the rows that the fit had not seen. Every component is a
/// direction in which the fitted values are uncertain by one standard error, independently of the others.
struct PredictionUncertainty {
  double residual = 0;                                    // 0: unknown
  double low = 0, high = 0;                               // 5th and 95th percentile, in units of sd
  std::vector<std::map<std::string, double>> components;  // pointer into the profile -> change of the value's logarithm

  /// What a prediction is multiplied by for the two ends of its interval of 90 %; `by_parameters` is the root of the
  /// sum over components.
  std::pair<double, double> interval(double by_parameters) const;
  /// That a speed is at least so many times the predicted one: half for 1, and on either side of it by the normal distribution of its
  /// logarithm that has this end of the interval.
  double probability_of(double factor, double by_parameters) const;
  /// Adds their components, and residual := sqrt(residual^2 + sum of their uncertainty^2), with no narrower tails than those
  /// of a normal distribution.
  void widen(const std::vector<Substitute>& substitutes);
};

/// What a library takes a protocol to cost when it chooses one. Source: NCCL, src/graph/tuning.cc.
struct TunerCosts {
  Seconds launch{}, nvlink_step{}, pcie_step{}, network_step{};
  double efficiency = 1;  // of the rate that CollectiveParameters leaves of the links
  StatedKeys stated = 0;
};

/// One way in which a library carries out an all-reduce, and what it costs besides latency and rate of the links. An
/// all-reduce of n bytes over p GPUs in r rounds takes
///   launch + r (max(step, (1 - overlap) step + x) + L) + n / (p copy)
/// with x = (n / efficiency) / (r rates of the links) the time that a part is on its way, so with overlap = 0
///   launch + r (step + L) + (n / efficiency) / rates of the links + n / (p copy)
/// with L the links' latency and `step` the mean over the links that a part passes (rings), or the sum over those of
/// the longest way (trees). Form: NCCL's own cost model, src/graph/tuning.cc: base latency + steps * latency of NVLink,
/// PCIe and network + bytes / bandwidth, for each algorithm and protocol.
struct CollectiveProtocol {
  std::optional<CollectiveAlgorithm> algorithm;        // none: whichever the scenario asks for
  Seconds launch{};                                    // once for each collective
  Seconds nvlink_step{}, pcie_step{}, network_step{};  // software's time for passing a part on, over such a link
  double efficiency = 1;  // payload's share of the bytes on a link: LL sends a flag with every word, so 0.5
  /// One ring of the GPUs in the order of their numbers, over PCIe between two without an NVLink, instead of the rings
  /// that NVLinks make: NCCL 1 (src/core.cu, commBuildMaps).
  bool is_in_gpu_order = false;
  /// Flags in the data tell the receiver that they are there (LL, LL128): only among machines with Instance::is_in_order.
  bool needs_order = false;
  /// Among machines without that: a larger message is announced and its receiver reads it, which takes `network_step` once
  /// more. None: none is. libfabric's EFA provider, for memory of GPUs and messages of more than a packet:
  /// prov/efa/src/efa_hmem.c, min_read_msg_size.
  std::optional<Bytes> fetched_above;
  /// Data are sent when their receiver has told, in a packet of its own, that it waits for them. That costs time where
  /// it is lost and nothing follows it: with the last message of a section (CollectivePhase). Gloo: notifySendReady() and
  /// its counterpart in gloo/transport/tcp/pair.cc, 48 B before each of two parts of a message.
  bool receivers_announce = false;
  /// A larger message between machines waits until its receiver has answered: request, answer, then the data, on the
  /// connections of the data, so that an answer waits behind what its machine sends (QueueNetwork). Every rank then goes on
  /// by itself, and begins at a random moment of `launch`. Of each message, headers included; none: never asks. OpenMPI's
  /// ob1 over TCP: btl_tcp_eager_limit, 64 KiB; contiguous data are written to memory that the answer names.
  std::optional<Bytes> eager_limit;
  /// A second thread of the library prepares the next collective while one is under way: of `launch` only that is left
  /// which does not fit in the time since both were ready. c10d's Gloo: ProcessGroupGloo::Options, 2 threads.
  bool launches_ahead = false;
  std::optional<BytesPerSecond> copy;  // after the last round each GPU copies its part, n / p; not at all if not stated
  std::optional<CollectiveKind> operation;  // that it is for; none: all-reduces, and others if its algorithm is a ring
  std::optional<TunerCosts> tuner;          // by which it is chosen; none: by what it takes
  /// A message along trees is passed on in pieces of so many bytes, each when all of it has arrived: NCCL's protocol Simple, whose
  /// buffers of NCCL_BUFFSIZE (4 MiB) have eight steps. 0: in pieces so small that only latencies add up.
  Bytes piece{};
  /// Share of a step that is over when a part's last byte arrives, if that takes long enough: what the software does for the
  /// first bytes goes on while the others follow.
  double overlap = 0;
  /// In units of CollectiveParameters::hop, which are in `launch`, `nvlink_step` and `kept_step` already.
  double launch_hops = 0, step_hops = 0, kept_hops = 0;
  /// More than nvlink_step where a GPU writes what it passes on into its own result, too: in each step of an all-gather, in
  /// the later half of an all-reduce's, in none of a reduce-scatter's.
  Seconds kept_step{};
  StatedKeys stated = 0;
};

/// A collective library on one kind of machine. NCCL 2.5 and later: paths.cc lets the memory of a third GPU relay a
/// copy between two GPUs that have no NVLink in common, p2p.cc has the receiver read it from there.
struct CollectiveParameters {
  double pcie_efficiency = 1;          // share of the rate of PCIe links and roots that copies reach
  double socket_efficiency = 1;        // share of the rate of the link between sockets that copies between GPUs reach
  double nvlink_efficiency = 1;        // share of the rate of NVLinks and NVSwitch ports that payload and flags reach
  double nvlink_relay_efficiency = 0;  // share of one NVLink's rate that such a copy reaches; 0: it goes over PCIe
  /// What belongs to a generation of links, and not to a protocol, of which each takes `launch` + launch_hops hop to start and
  /// step_hops hop to pass a part on over NVLinks.
  Seconds launch{}, hop{};
  double launch_cycles = 0, hop_cycles = 0;  // of the GPU, besides `launch` and `hop`
  /// How many times as long these are on a GPU of several dies (Accelerator::dies).
  double across_dies = 1;
  /// By name. A collective takes the one that the library's tuner expects to end first; of equals the one that does.
  OrderedMap<CollectiveProtocol> protocols;
  bool states_protocols = false;  // if only that there are none
  StatedKeys stated = 0;
};

/// Collectives by interconnect, or by generation of the links between GPUs: other machines, other tuning. What an entry does
/// not state is as in `otherwise`, down to single values of a protocol of the same name.
struct CollectiveLibrary {
  CollectiveParameters otherwise;  // of interconnects that are not named
  OrderedMap<CollectiveParameters> by_generation;
  OrderedMap<CollectiveParameters> by_interconnect;  // before by_generation

  /// Whether the profile leaves the section out.
  bool empty() const {
    return otherwise.stated == 0 && !otherwise.states_protocols && by_generation.empty() && by_interconnect.empty();
  }

  const CollectiveParameters& on(const std::string& interconnect, const std::string& generation = {}) const;
  /// Whether any protocol has an `eager_limit`.
  bool asks_receivers() const;
};

/// What `own` states instead of `otherwise`.
CollectiveParameters over(const CollectiveParameters& own, const CollectiveParameters& otherwise);

struct Profile {
  std::string name;
  std::string source;
  bool is_ideal =
      false;  // what is not stated costs nothing, instead of what it does by the nearest profile that states it
  HostParameters host;
  GpuParameters gpu;
  /// Values of the formulas in platforms/kernels, by which steps are computed instead of by `host` and `gpu`; null: none
  /// stated.
  std::shared_ptr<const kernels::Model> kernels;
  /// What multiprocessors and memory draw in a training of hours, by what `power` says, which is by kernels that are measured for
  /// milliseconds, before a board holds its limit: by GPU, by architecture and memory ("Ampere HBM", "Ampere GDDR") or by
  /// architecture, the first that is there. 1 of others.
  std::map<std::string, double> sustained_draw;
  BoardPowerValues power;                       // what GPUs draw; by default what ships
  std::map<std::string, Framework> frameworks;  // with `kernels`; "otherwise": of all others, and what these leave out
  ServerParameters servers;
  std::map<std::string, ServersOfFramework> servers_of_frameworks;
  NetworkParameters network;
  CollectiveLibrary stated_collectives;  // as the file has them: what an entry does not state is missing there
  CollectiveLibrary collectives;         // whole, with what the links' generation costs in the protocols; by name
  std::optional<CheckpointParameters> checkpoint;
  std::optional<StartupParameters> startup;
  std::vector<StepTime> step_times;  // where one fits, it overrules the kernel model: sim/scenario/step_time.hpp
  bool is_fitted = false;
  PredictionUncertainty fit_spread;          // of the fit alone
  std::vector<std::string> free_parameters;  // pointers of the values that were fitted
  // What the fit has seen; a scenario outside of it is simulated with a warning.
  std::vector<std::string> fitted_accelerators;
  std::vector<std::string> fitted_models;
  int fitted_batch_min = 0, fitted_batch_max = 0;
  int fitted_workers_max = 0, fitted_servers_max = 0;
  std::vector<std::string> fitted_frameworks;
  std::vector<SeenExchange> fitted_exchanges;
  bool is_of_processors = false;      // processors exchanged, not GPUs
  PredictionUncertainty uncertainty;  // of the fit or of the kind of prediction, and of substitutes
  std::vector<Substitute> substitutes;
  std::optional<StatedPrediction> prediction;  // where `uncertainty` is that of a kind, and not of the fit

  /// That of framework_name(); one without costs if there is none.
  Framework framework(const std::string& label) const;

  /// What such a GPU's board draws in a training: `power`, by `sustained_draw`.
  BoardPowerValues power_of(const Accelerator& accelerator) const;
};

/// The longest of the names that the label contains, or "otherwise".
std::string framework_name(const std::vector<std::string>& names, const std::string& label);

/// The same of the keys of a map, such as Profile::frameworks.
template <class Entry>
std::string framework_name(const std::map<std::string, Entry>& entries, const std::string& label) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries) names.push_back(name);
  return framework_name(names, label);
}

/// Reads a profile file's object; a section that it leaves out costs nothing: sim/scenario/substitutes.hpp fills in what
/// a scenario needs. Throws InputError.
Profile read_profile(JsonReader json);

/// The object of a profile file: read_profile() of it is this profile again. It has what runs depend on, and of the record of a
/// fit what read_profile() reads of it. Profiles that would do nearly as well are left out.
Json to_json(const Profile& profile);

/// Puts into `document`, the object that `before` was read from, what has become of it since: texts of all else stay as they
/// are.
void put_changes(Json& document, const Profile& before, const Profile& after);

/// Sets what follows from the rest: `collectives` and `uncertainty`.
void set_consequences(Profile& profile);

/// Multiplies the number, time or rate at `pointer` by exp(`change`), to eight digits, as with a file that has the product there;
/// false: it would leave what a profile may hold.
bool move_value(Profile& profile, std::string_view pointer, double change);

}  // namespace rehearse
