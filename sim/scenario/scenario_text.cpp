// The two texts that describe scenario files: their JSON Schema and the commented file that `rehearse init` writes.
// tests/sim/scenario/scenario_test.cpp checks that both agree with the reader.

#include <nlohmann/json.hpp>

#include "platforms/fabric.hpp"
#include "platforms/schemas.hpp"
#include "sim/base/json.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/strategy.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

/// All but the keys of the network's fabric.
constexpr std::string_view kProperties = R"json({
    "name": { "type": "string", "default": "unnamed" },
    "seed": { "type": "integer", "minimum": 0, "default": 1 },
    "workload": {
      "type": "object",
      "required": ["model", "batch_per_worker"],
      "additionalProperties": false,
      "properties": {
        "model": { "description": "a name (rehearse list models), a file (rehearse import --help) or a model object", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/model" }] },
        "batch_per_worker": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "samples per worker and step" },
        "optimizer": { "enum": ["momentum", "sgd", "adam"], "default": "momentum" },
        "optimizer_implementation": { "enum": ["loop", "foreach", "fused"], "description": "how an update becomes kernels on a GPU, in PyTorch's words: loop: one for each elementary operation and variable; foreach (its default): the same for many variables at once; fused: one for all operations of many variables. Host times as on an H200's host, in proportion to the framework's dispatch; default: what the profile says of the framework, which is mostly of recipes of 2017 to 2022, whose updates take as long as loops" },
        "precision": { "enum": ["fp32", "tf32", "fp16", "bf16"], "default": "fp32", "description": "in which kernels compute: fp32 without matrix units (PyTorch's products since version 1.12), tf32 with them (NVIDIA's containers, TensorFlow; PyTorch's convolutions); fp16 and bf16 mixed, with master weights in fp32" },
        "states": {
          "type": "object",
          "description": "in which precisions a parameter's states are stored; by default as mixed precision does: 16-bit weights and gradients, fp32 master weights and moments, 16 bytes of a parameter with Adam; fp32 and tf32: all fp32, no master weights",
          "additionalProperties": false,
          "properties": {
            "weights": { "enum": ["fp32", "fp16", "bf16"], "description": "that are kept; fp32 beside a 16-bit precision: those that the optimizer updates, as FSDP's shards, converted for kernels" },
            "gradients": { "enum": ["fp32", "fp16", "bf16"], "description": "as they are held; default: as weights, or fp32 if gradient_precision is (Megatron: 18 bytes with Adam)" },
            "master_weights": { "enum": ["fp32", "fp16", "bf16", "none"], "description": "that the optimizer updates beside weights in 16 bits; default: fp32 beside those" },
            "moments": { "enum": ["fp32", "fp16", "bf16"], "default": "fp32", "description": "of the optimizer: adam two, momentum one" }
          }
        },
        "framework": { "type": "string", "description": "label that chooses among the profile's measured step times" },
        "recompute": { "description": "what of each layer of a transformer is computed again in the backward pass instead of being kept: nothing, all, or some parts: core_attention (scores, softmax, their sum of the values), feed_forward (all of it), activations (of the feed-forward layer), norms; every_second_product: all but attention in one kernel, what is added up over GPUs that hold the layer together, and the first, third and so on of its products with weights (torchtitan's selective checkpointing by operators)", "default": "none",
          "anyOf": [ { "enum": ["none", "full", "every_second_product"] }, { "type": "array", "uniqueItems": true, "items": { "enum": ["core_attention", "feed_forward", "activations", "norms"] } } ] },
        "fp8": { "enum": ["none", "delayed", "current", "block", "mxfp8", "nvfp4", "tensorwise", "rowwise"], "default": "none", "description": "in which recipe the layers' products with weights multiply in 8 bits, or 4, beside precision bf16 or fp16, which all else stays in (attention, norms, routers, embeddings, logits): Transformer Engine's delayed or current scales of tensors, of blocks as DeepSeek's, or of 32 numbers, or of 16 of 4 bits (Blackwell); torchao's tensorwise or rowwise. Times in fp4 are coarse: those of fp8 at the rate of fp4" },
        "wide_layers": { "type": "integer", "minimum": 0, "description": "how many layers, the last ones, keep their products in 16 bits beside fp8; default: 0, and 15 % of the layers with nvfp4" },
        "lora": { "type": "object", "required": ["rank"], "additionalProperties": false, "description": "low-rank adapters beside products of a transformer's layers are trained, and all else is frozen: no gradients, no states, nothing sent of it",
          "properties": {
            "rank": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "features between the two products of an adapter" },
            "modules": { "type": "array", "minItems": 1, "uniqueItems": true, "items": { "enum": ["attention", "feed_forward"] }, "description": "whose products have adapters: queries, keys, values and output; inner, gates and outer; default: both" } } },
        "fused_loss": { "type": "boolean", "default": false, "description": "whether the loss is computed of 16-bit logits as they are (FlashAttention's cross-entropy, Liger, Megatron-LM's --cross-entropy-loss-fusion), or of a copy in fp32, as by PyTorch's" },
        "composed_loss": { "type": "boolean", "default": false, "description": "whether the loss is composed of kernels with outputs in fp32, as PyTorch's cross_entropy of a copy in fp32 unless it is compiled: 12 bytes of a logit at the most instead of 8" },
        "copies_input": { "type": "boolean", "description": "whether the samples of a step are copied to the GPU before its first kernel, over PCIe that GPUs may share; by default unless the profile has a measured step time, of which the copy is then a part" },
        "input": { "type": "object", "additionalProperties": false, "description": "how samples come into the memory of the worker's machine: its loaders each read one, decode it, and take the next; by default they are always there. A batch takes the longest of (decode_time + sample_size / read_rate) / loaders, decode_time / vCPUs of the worker, and what all workers read at either rate",
          "properties": {
            "sample_size": { "$ref": "#/$defs/size", "default": "0B", "description": "of a sample as it is stored" },
            "read_rate": { "$ref": "#/$defs/rate", "description": "of the storage that the workers of a machine read from: a disk, its share of a file server" },
            "shared_read_rate": { "$ref": "#/$defs/rate", "description": "of the storage that all workers read from" },
            "decode_time": { "$ref": "#/$defs/time", "default": "0s", "description": "of one vCPU for a sample: decompression and augmentation" },
            "loaders": { "type": "integer", "minimum": 1, "maximum": 4096, "description": "processes or threads of each worker (num_workers of PyTorch, num_parallel_calls of TensorFlow); default: as many as it has vCPUs, and 1 without prefetch" },
            "prefetch": { "type": "boolean", "default": true, "description": "whether the next batch is loaded while the GPUs compute; false: num_workers=0 of PyTorch" } } },
        "samples_per_epoch": { "type": "integer", "minimum": 1, "description": "samples of the training set, for epochs" },
        "convergence": {}
      }
    },
    "cluster": {
      "type": "object",
      "required": ["groups"],
      "additionalProperties": false,
      "properties": {
        "groups": { "type": "array", "minItems": 1, "items": {
          "type": "object",
          "required": ["name", "role"],
          "if": { "required": ["colocated_with"] }, "else": { "required": ["instance", "region"] },
          "additionalProperties": false,
          "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100 },
            "role": { "enum": ["worker", "parameter_server"] },
            "instance": { "description": "a name (rehearse list instances) or an object of the catalog's form; every GPU of a worker's machine trains", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/instance" }] },
            "workers_per_machine": { "type": "integer", "minimum": 1, "description": "with servers; a divisor of the machine's GPUs, which its workers share: a worker with several GPUs adds their gradients up and exchanges them once; by default a worker on every GPU" },
            "batch_per_worker": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "instead of the workload's, of all GPUs of a worker together" },
            "power_limit": { "type": "string", "pattern": "^[0-9.]+(e[0-9]+)?W$", "description": "of each GPU's board, 300W: kernels that would draw more run at a lower clock; at most the board's own, and no less than it takes (rehearse schema accelerator --keys: power, power_min)" },
            "step_time": { "type": "object", "required": ["time"], "additionalProperties": false, "description": "measured: a step of one of its workers that exchanges nothing, instead of the profile's step times, with the recomputation and adapters that the scenario states; where several GPUs have parts of the model, of one that has all of it and batch_per_worker samples", "properties": {
              "time": { "$ref": "#/$defs/time" },
              "power_limit": { "type": "string", "pattern": "^[0-9.]+(e[0-9]+)?W$", "description": "of each GPU's board while it was measured; default: the board's own" } } },
            "count": { "type": "integer", "minimum": 1, "maximum": 20000, "default": 1, "description": "machines" },
            "nvlink_domain": { "type": "integer", "minimum": 1, "maximum": 576, "description": "GPUs that one NVSwitch joins, of machines one after another; by default what the interconnect states (72 of a GB200 NVL72's rack), or those of a machine" },
            "region": { "type": "string" },
            "market": { "enum": ["on-demand", "spot"], "default": "on-demand", "description": "which of the instance's prices applies" },
            "zone": { "type": "string", "description": "part of the region in which bulk revocations and prices are shared; default: the region" },
            "spot_pool": { "description": "from which machines on the spot market are revoked: a name (rehearse list spot_pools) or an object of the catalog's form (\"source\", \"lifetime\", \"notice\", \"bulk\", \"churn\", \"wait\"); or { \"replay\": a trace file with time_s,event,node or an array of [seconds, \"add\" or \"remove\", node], \"notice\": a time }", "anyOf": [
              { "type": "string" },
              { "type": "object", "required": ["replay"], "additionalProperties": false, "properties": {
                  "replay": { "type": ["string", "array"] }, "notice": { "$ref": "#/$defs/time" } } },
              { "$ref": "#/$defs/spot_pool" }] },
            "faults": {
              "type": "object",
              "description": "of its machines, of themselves: each then starts again, or is repaired while a spare takes its place; noticed after recovery.timeout",
              "anyOf": [{ "required": ["gpu_mtbf"] }, { "required": ["machine_mtbf"] }],
              "additionalProperties": false,
              "properties": {
                "gpu_mtbf": { "$ref": "#/$defs/time", "description": "mean time between two faults of one GPU" },
                "machine_mtbf": { "$ref": "#/$defs/time", "description": "the same of what else is in a machine, or of all of it where gpu_mtbf is not stated" },
                "shape": { "type": "number", "minimum": 0.2, "maximum": 20, "default": 1, "description": "of Weibull's law with the machine's mean time; 1: exponential; below 1 most faults come soon after a start" },
                "repair_share": { "type": "number", "minimum": 0, "maximum": 1, "default": 0, "description": "of the faults: the machine is broken and away for repair_time; after the others it starts again" },
                "repair_time": { "$ref": "#/$defs/time", "description": "until a broken machine is one of the spares" },
                "spares": { "type": "integer", "minimum": 0, "maximum": 20000, "default": 0, "description": "machines besides count that wait to replace broken ones, and are paid for; without one the job waits for a repair, or goes on with fewer (recovery.lost_worker)" },
                "spare_start_time": { "$ref": "#/$defs/time", "default": "0s", "description": "until a spare runs; 0s: hot spares" } } },
            "disk": {
              "type": "object",
              "description": "of each machine, paid for while it is rented, besides its price",
              "required": ["size", "storage"],
              "additionalProperties": false,
              "properties": {
                "size": { "$ref": "#/$defs/size" },
                "storage": { "description": "name in a catalog's storage, or an object of that form", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/storage" }] } } },
            "standby": { "type": "boolean", "default": false, "description": "its machines are requested only to replace others; count is the quota" },
            "replacement": {
              "type": "object",
              "description": "of revoked machines; by default another of the same group at once; of a replay, which brings its own, none",
              "additionalProperties": false,
              "properties": {
                "with": { "type": "string", "description": "name of a group of the same role, or none" },
                "delay": { "$ref": "#/$defs/time", "default": "0s", "description": "from then to the request" },
                "at": { "enum": ["notice", "revocation"], "description": "when the delay begins; by default with the notice if recovery uses it" } } },
            "joins_at": { "$ref": "#/$defs/time", "default": "0s", "description": "when the group's workers come to train: recovery.membership_change" },
            "leaves_at": { "$ref": "#/$defs/time", "description": "when the group's workers end the step that they are in and leave" },
            "colocated_with": { "type": "string", "description": "instead of instance and region, for parameter servers: they run in turn on the machines of this group of workers" }
          } } },
        "start": { "type": "string", "description": "UTC date and time at which the cluster starts, for prices and revocations that depend on it: 2020-01-15T08:00:00Z" },
        "electricity": {},
        "prices": { "description": "history of spot prices, by its name in a catalog, or inline", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/price_history" }] },
        "network": {
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "hop_latency": { "$ref": "#/$defs/time", "description": "one way, of each link between NIC and switch and between switches; by default the region's latency covers the whole way" },
            "packet_loss": { "type": "number", "minimum": 0, "maximum": 0.5, "default": 0, "description": "share of the packets that leave a machine, each by itself; TCP sends them again" },
            "tcp": {
              "type": "object",
              "description": "how it does, which matters where packets are lost; and turns of connections",
              "additionalProperties": false,
              "properties": {
                "segment": { "$ref": "#/$defs/size", "default": "1448B", "description": "payload of a packet" },
                "minimum_timeout": { "$ref": "#/$defs/time", "default": "200ms", "description": "besides a round trip; doubles with each that follows another" },
                "timer_granularity": { "$ref": "#/$defs/time", "default": "8ms", "description": "rack: added to its timers" },
                "small_queue": { "$ref": "#/$defs/time", "default": "736.5us", "description": "of its rate: as much as a connection lets wait in its own machine; windows that are larger do not grow; 0s: no limit" },
                "turn": { "$ref": "#/$defs/size", "default": "0B", "description": "the most of a connection that waits at its NIC, which serves connections in turns of so much, first in, first out; 0B: evenly at any moment. 128KiB on a LAN with Linux. On one switch, without loss" },
                "duplicate_acks": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 3, "description": "later packets that arrive, which tell of a loss" },
                "initial_window": { "type": "integer", "minimum": 1, "maximum": 100000, "default": 10, "description": "packets; more if the path holds more" },
                "recovery": { "enum": ["rack", "duplicate_acks"], "default": "rack", "description": "rack: one later packet is enough, and a probe comes before the time-out (RFC 8985); duplicate_acks: neither, and a packet that is lost again waits for the time-out (RFC 6675)" },
                "congestion": { "enum": ["cubic", "reno"], "default": "cubic" },
                "connections": { "type": "integer", "minimum": 1, "maximum": 64, "default": 1, "description": "that share each message" } } },
            "messaging": { "description": "what the workers' library sends besides data: a name (rehearse list messaging) or an object of the catalog's form; by default nothing", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/messaging" }] },
            "links": { "type": "array", "description": "between regions, or inside one; override the catalogs", "items": { "$ref": "#/$defs/region_link" } }
          }
        }
      }
    },
    "training": {
      "type": "object",
      "required": ["strategy"],
      "oneOf": [{ "required": ["steps"] }, { "required": ["steps_per_worker"] }, { "required": ["samples"] }, { "required": ["epochs"] }],
      "additionalProperties": false,
      "properties": {
        "strategy": {
          "type": "object",
          "required": ["kind"],
          "allOf": [],
          "additionalProperties": false,
          "properties": {
            "bucket_size": { "$ref": "#/$defs/size", "description": "gradients are fused until they reach it; 0B: each goes by itself. Default: all_reduce 25MiB after a first one of 1MiB, as PyTorch's DDP; with sharding a block of the model, such as a transformer's layer, and what is outside of blocks as one, as FSDP; each by itself with cycle_time, partition_size, order priority or overlap forward, and with servers" },
            "first_bucket_size": { "$ref": "#/$defs/size", "description": "of the first bucket" },
            "cycle_time": { "$ref": "#/$defs/time", "description": "what is ready at the end of a cycle is fused, up to bucket_size: all_reduce: at all workers; parameter_server: at one, for the same server" },
            "partition_size": { "$ref": "#/$defs/size", "description": "larger tensors are cut into pieces" },
            "order": { "enum": ["fifo", "priority"], "default": "fifo", "description": "priority: what the next forward pass needs first goes first" },
            "overlap": { "enum": ["none", "backward", "forward"], "default": "backward", "description": "of communication with compute; backward: gradients go as they are ready; forward: besides, a step begins with the kernels of the one before, and each kernel waits for the variables that it reads" },
            "gradient_precision": { "enum": ["fp32", "fp16", "bf16"], "description": "as sent; default: as they are held" },
            "accumulation_steps": { "type": "integer", "minimum": 1, "maximum": 10000, "default": 1, "description": "batches whose gradients are added up before they are exchanged" }
          }
        },
        "steps": { "type": "integer", "minimum": 1, "maximum": 10000000, "description": "the size of the job in steps of the full cluster, the workers that are there from the start; synchronous: of all together; otherwise the sum of their steps. A cluster with fewer workers does as many samples" },
        "steps_per_worker": { "type": "integer", "minimum": 1, "description": "instead of steps" },
        "samples": { "type": "integer", "minimum": 1, "description": "instead of steps" },
        "epochs": { "type": "number", "exclusiveMinimum": 0, "description": "instead of steps; of samples_per_epoch in the workload" },
        "smaller_cluster": { "enum": ["keeps_batch_per_worker", "larger_shares", "accumulates"], "default": "keeps_batch_per_worker",
                             "description": "what synchronous workers do when they are fewer, or more, than in the full cluster: keep their batch, so that a step has fewer samples and the job takes more steps; or keep the global batch, by a larger share of each (whose memory is checked) or by more batches whose gradients are added up" },
        "memory_check": { "enum": ["refuse", "warn"], "default": "refuse", "description": "what becomes of a training that needs more of a GPU's memory than there is: it is refused; or only a warning says so, as its framework may save what is not modelled" },
        "warmup_steps": { "type": "integer", "minimum": 0, "default": 5, "description": "first steps of each worker, left out of steady-state figures" },
        "start_interval": { "anyOf": [{ "enum": ["random", "even"] }, { "$ref": "#/$defs/time" }], "default": "0s", "description": "between the starts of two workers; of workers that do not wait for one another (asynchronous, stale synchronous, in pairs) also random, the default: each starts at a random date within a step, drawn from the seed; or even: the same, evenly spread. Started together they stay in phase" },
        "share_variation": { "type": "number", "minimum": 0, "maximum": 2, "description": "parameter_server: standard deviation of the logarithm of a connection's share of a link against others', drawn for each of its worker's steps; 0: equal shares, as with --exact, with turns and where packets are lost. Default: 1 where workers start at random dates, otherwise 0" },
        "step_time_variation": { "type": "number", "minimum": 0, "maximum": 10, "default": 0,
                                 "description": "coefficient of variation of a lognormal factor on the compute time of each step. CM-DARE's speeds over 100 steps vary by 1.5 % in the median (calibration/data/cm-dare, steps_per_s_std): 0.015 where all of those steps are slow at once, 0.15 where each is by itself" },
        "target": {
          "type": "object",
          "description": "where the whole training would end, at the speed of the simulated steps: adds training_time_s and more to summary.json",
          "oneOf": [{ "required": ["loss"] }, { "required": ["samples"] }],
          "additionalProperties": false,
          "properties": {
            "loss": { "type": "number", "description": "asynchronous parameter servers and a workload with convergence" },
            "samples": { "type": "number", "minimum": 1 }
          }
        },
        "recovery": {
          "type": "object",
          "additionalProperties": false,
          "description": "what the job does when machines come and go; without a server it restarts from the last checkpoint",
          "properties": {
            "lost_worker": { "enum": ["continue", "shrink", "wait", "restart"], "description": "asynchronous: continue (default) or restart from the last checkpoint; synchronous: shrink (default), wait for as many as before, or restart" },
            "membership_change": { "enum": ["at_once", "rendezvous", "restart"], "description": "what happens when workers join (joins_at, replacements) or leave by themselves. at_once: the others go on, newcomers get the variables meanwhile (default with servers and in pairs); rendezvous: after their step all stop for restart_time, then variables and optimizer state are broadcast (Horovod Elastic; default of all-reduces); restart: all restart from the last checkpoint (TorchElastic; default with lost_worker restart). Stated, it is also what a loss that stops the others costs after the timeout (shrink, wait); unstated they go on after the timeout alone" },
            "lost_chief": { "enum": ["hand_over", "restart"], "default": "hand_over", "description": "restart: no checkpoints until its machine is back, then the job restarts from the last one" },
            "timeout": { "$ref": "#/$defs/time", "default": "30s", "description": "until the others notice that a worker is gone; of faults until a machine or spare is started" },
            "restart_time": { "$ref": "#/$defs/time", "default": "20s", "description": "of the job, besides reading the checkpoint; of a rendezvous until the broadcast" },
            "uses_notice": { "type": "boolean", "default": false, "description": "who is given notice leaves after its step, and its replacement is requested unless replacement.at says when; a checkpoint is written where the loss would cost work" },
            "minimum_workers": { "type": "integer", "minimum": 1, "description": "with fewer the job waits; default: 1, or as many as before to wait and to restart" },
            "give_up_after": { "$ref": "#/$defs/time", "description": "a run that takes longer has no result; of many (simulate --runs, provision) it is given up, and means are lower bounds. Default: none for one run; of many 60 days, ten times the time without revocations, or the deadline, whichever is last" } }
        },
        "control": {
          "type": "object",
          "minProperties": 1,
          "additionalProperties": false,
          "description": "rules that start and release machines while an asynchronous job with parameter servers runs, or change the batch of synchronous workers; simulate --runs asks them, and compares with the fixed plan",
          "properties": {
            "replan": {
              "type": "object", "required": ["deadline"], "additionalProperties": false,
              "description": "after a notice or a loss of workers, the cheapest machines that do what is left by the deadline, as spotDNN's planner (provision) finds them among all groups of workers, each with at most count machines. Takes the place of replacement. Needs target.loss",
              "properties": {
                "deadline": { "$ref": "#/$defs/time", "description": "from the start of the job" },
                "takeover": { "$ref": "#/$defs/time", "default": "30s", "description": "that the planner expects newcomers to take, waits for machines of their pools included" },
                "margin": { "type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0, "description": "share of the time that is left by which plans are to be early: the planner knows no further losses" },
                "planning_time": { "$ref": "#/$defs/time", "default": "0.2s", "description": "from the first notice or loss to the requests" },
                "releases": { "type": "boolean", "default": false, "description": "machines that train may be given back; else each plan keeps them, as spotDNN's do" } } },
            "add_servers": {
              "type": "object", "required": ["group"], "additionalProperties": false,
              "description": "a standby server is requested, and the job restarts once it is there, where all workers together do fewer updates than the sum of what each does alone, as CM-DARE finds a bottleneck",
              "properties": {
                "group": { "type": "string", "description": "of parameter_server with standby: true; its count is the most that are added" },
                "warmup": { "$ref": "#/$defs/time", "default": "30s", "description": "after each change of who trains" },
                "window": { "$ref": "#/$defs/time", "default": "30s", "description": "in which updates are counted; anew if a checkpoint is written in it" },
                "threshold": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.067, "description": "share of the sum that may be missing" } } },
            "elastic_batch": {
              "type": "object", "required": ["largest_batch_per_worker", "noise_scale"], "additionalProperties": false,
              "description": "of synchronous workers with whole models: of the whole multiples of batch_per_worker that one is used with which the machines that are there come forward fastest, m samples of a step being worth m (noise_scale + m0) / (noise_scale + m) of the full cluster's m0, as Pollux (OSDI 2021) has it; the job's samples are counted so, in the fixed plan, too",
              "properties": {
                "largest_batch_per_worker": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "in one pass; batches that do not fit into memory are not tried" },
                "noise_scale": { "description": "of the gradient, in samples: a number, or pairs [share of the job's samples from which on, noise scale]", "oneOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "array", "minItems": 1, "maxItems": 1000, "items": { "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "number" } } }] } } } }
        },
        "checkpoint": {
          "type": "object",
          "oneOf": [{ "required": ["every_steps"] }, { "required": ["every"] }, { "required": ["interval"] }],
          "dependentRequired": { "fixed_time": ["rate"], "rate": ["fixed_time"] },
          "additionalProperties": false,
          "description": "the chief pauses for fixed_time + bytes / rate, by default for the profile's times of checkpoints; a restart reads as long",
          "properties": {
            "every_steps": { "type": "integer", "minimum": 1 },
            "every": { "$ref": "#/$defs/time", "description": "between the beginnings of two" },
            "interval": { "enum": ["young_daly"], "description": "sqrt(2 C M): C the time for which training stands still, M the mean time to a revocation or fault that costs work" },
            "writers": { "enum": ["chief", "machines"], "default": "chief", "description": "all_reduce: machines: each writes its part at rate, all at once, as of sharded (distributed) checkpoints" },
            "storage_rate": { "$ref": "#/$defs/rate", "description": "of the storage, which all that write share; default: no limit" },
            "mode": { "enum": ["synchronous", "asynchronous"], "default": "synchronous", "description": "asynchronous: training stands still only until states are copied to the hosts, and goes on while they are written; a fault before that ends goes back to the checkpoint before" },
            "copy_rate": { "$ref": "#/$defs/rate", "description": "of one GPU to its host, for asynchronous and in_memory; default: its PCIe" },
            "in_memory": { "type": "object", "oneOf": [{ "required": ["every_steps"] }, { "required": ["every"] }], "additionalProperties": false, "description": "all_reduce: besides, each machine keeps its part in its own memory and in that of a second one (pairs of machines, one after another); lost if both are, then the job goes back to storage",
              "properties": {
                "every_steps": { "type": "integer", "minimum": 1 },
                "every": { "$ref": "#/$defs/time" } } },
            "pauses": { "enum": ["chief", "all"], "default": "chief", "description": "who waits while it is written" },
            "to": { "enum": ["bucket", "disk"], "default": "bucket", "description": "disk: lost with the chief's machine" },
            "fixed_time": { "$ref": "#/$defs/time" },
            "rate": { "$ref": "#/$defs/rate" } }
        }
      }
    },
    "calibration": { "description": "a name (rehearse list profiles), a profile object, or auto: the profile whose predictions of such trainings were least off", "default": "auto", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/profile" }] },
    "output": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "sampling_period": { "$ref": "#/$defs/time", "default": "100ms", "description": "of resources.csv" },
        "reading_interval": { "$ref": "#/$defs/time", "default": "0s", "description": "of NICs' counters, which are taken to grow evenly from one reading to the next, as by a monitor; 0s: read at all times" },
        "timeline_start": { "$ref": "#/$defs/time", "default": "0s" },
        "timeline_length": { "$ref": "#/$defs/time", "default": "2s" }
      }
    }
  })json";

}  // namespace

std::string scenario_schema() {
  const std::string text =
      file_schema({.title = "Rehearse scenario", .required = {"workload", "cluster", "training"}}, kProperties,
                  {{"model", [] { return std::string{model_schema()}; }},
                   {"instance", instance_schema},
                   {"spot_pool", spot_pool_schema},
                   {"storage", storage_schema},
                   {"messaging", messaging_schema},
                   {"price_history", price_history_schema},
                   {"profile", profile_schema},
                   {"region_link", region_link_schema}});
  Json schema = parse_json(text, "schema of scenarios");
  const Json fabric = parse_json(fabric_schema(), "schema of fabrics");
  schema["properties"]["workload"]["properties"]["convergence"] =
      parse_json(convergence_schema(), "schema of convergence");
  Json& cluster = schema["properties"]["cluster"]["properties"];
  cluster["electricity"] = parse_json(electricity_schema(), "schema of electricity");
  Json& network = cluster["network"];
  for (const auto& [key, rule] : fabric["properties"].items()) network["properties"][key] = rule;
  network["allOf"] = fabric["allOf"];
  Json& strategy = schema["properties"]["training"]["properties"]["strategy"];
  Json of_kinds = strategy_schema();  // their keys before those of every exchange
  of_kinds["properties"].update(strategy["properties"]);
  strategy.update(of_kinds);
  return to_json_text(schema);
}

std::string starter_scenario(const std::string& name) {
  return "// Run it:  rehearse simulate FILE -o DIR      What may stand here:  rehearse schema scenario\n"
         "{\n"
         "  \"format\": 1,\n"
         "  \"name\": " +
         Json(name).dump() + R"(,
  "workload": {
    "model": "cm-dare/resnet32",     // rehearse list models
    "batch_per_worker": 128,
    "optimizer": "momentum",
    "precision": "fp32"
  },
  "cluster": {
    "groups": [                      // rehearse list instances
      { "name": "ps", "role": "parameter_server", "instance": "gce-custom-4", "count": 1, "region": "us-west1" },
      { "name": "workers", "role": "worker", "instance": "gce-custom-8-p100", "count": 4, "region": "us-west1" }
    ],
    "network": { "topology": "star" }
  },
  "training": {
    "strategy": { "kind": "parameter_server", "synchronization": "asynchronous", "placement": "round_robin" },
    "steps": 1000                    // updates of all workers together
  },
  "calibration": "cm-dare",          // rehearse list profiles
  "output": { "sampling_period": "100ms", "timeline_start": "0s", "timeline_length": "2s" },
  "seed": 1
}
)";
}

}  // namespace rehearse
