#include "platforms/schemas.hpp"

#include "platforms/kernels/kernels.hpp"

#include <string_view>

#include "sim/base/json_schema.hpp"

namespace rehearse {

namespace {

/// Times that are drawn (platforms/distribution.hpp, platforms/lifetime.hpp).
std::string time_law_schema() {
  return schema_text(R"json({
  "title": "Rehearse law of a random time",
  "type": "object",
  "required": ["law"],
  "oneOf": [
    { "$ref": "#/$defs/exponential" }, { "$ref": "#/$defs/lognormal" }, { "$ref": "#/$defs/weibull" },
    { "required": ["law", "parts"], "additionalProperties": false, "properties": {
        "law": { "const": "mixture" },
        "parts": { "type": "array", "minItems": 1, "maxItems": 16, "description": "what their weights leave of 1 never ends",
          "items": { "type": "object", "required": ["weight", "time"], "additionalProperties": false, "properties": {
            "weight": { "$ref": "#/$defs/share" }, "time": { "$ref": "#/$defs/distribution" } } } } } },
    { "required": ["law", "early", "early_mean", "late", "late_rise", "deadline"], "additionalProperties": false,
      "description": "early losses die out, late ones rise towards the deadline; what both shares leave of 1 never ends",
      "properties": {
        "law": { "const": "bathtub" },
        "early": { "$ref": "#/$defs/share" }, "early_mean": { "$ref": "#/$defs/time" },
        "late": { "$ref": "#/$defs/share" }, "late_rise": { "$ref": "#/$defs/time" }, "deadline": { "$ref": "#/$defs/time" } } },
    { "required": ["law", "ages", "cumulative"], "additionalProperties": false, "properties": {
        "law": { "const": "empirical" },
        "ages": { "type": "array", "minItems": 1, "maxItems": 100000, "items": { "$ref": "#/$defs/time" }, "description": "rising" },
        "cumulative": { "type": "array", "items": { "type": "number", "minimum": 0, "maximum": 1 }, "description": "share that has ended at each age" } } }
  ],
  "$defs": {
    "share": { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
    "exponential": { "required": ["law", "mean"], "additionalProperties": false, "properties": {
      "law": { "const": "exponential" }, "mean": { "$ref": "#/$defs/time" }, "minimum": { "$ref": "#/$defs/time" } } },
    "lognormal": { "required": ["law", "median", "sigma"], "additionalProperties": false, "properties": {
      "law": { "const": "lognormal" }, "median": { "$ref": "#/$defs/time" },
      "sigma": { "type": "number", "minimum": 1e-6, "maximum": 10 }, "minimum": { "$ref": "#/$defs/time" } } },
    "weibull": { "required": ["law", "scale", "shape"], "additionalProperties": false, "properties": {
      "law": { "const": "weibull" }, "scale": { "$ref": "#/$defs/time" },
      "shape": { "type": "number", "minimum": 0.05, "maximum": 100 }, "minimum": { "$ref": "#/$defs/time" } } },
    "distribution": { "type": "object", "required": ["law"],
      "oneOf": [ { "$ref": "#/$defs/exponential" }, { "$ref": "#/$defs/lognormal" }, { "$ref": "#/$defs/weibull" } ] }
  }
})json");
}

std::string startup_schema() {
  return object_schema({.title = "Rehearse start-up times of machines",
                        .required = {"source", "provisioning", "staging", "booting"},
                        .definitions = R"json({
    "startup_stage": { "type": "array", "description": "the first entry that fits a machine holds; without a condition it fits all",
      "items": { "type": "object", "required": ["time"], "additionalProperties": false, "properties": {
        "market": { "enum": ["on-demand", "spot"] }, "region": { "type": "string" }, "accelerator": { "type": "string" },
        "time": { "$ref": "#/$defs/distribution" } } } }
  })json"},
                       R"json({
    "source": { "type": "string" },
    "provisioning": { "$ref": "#/$defs/startup_stage" }, "staging": { "$ref": "#/$defs/startup_stage" }, "booting": { "$ref": "#/$defs/startup_stage" },
    "framework": { "type": "object", "required": ["fixed_time", "time_per_tensor", "cold_time"], "additionalProperties": false,
      "description": "start of a worker: fixed_time + time_per_tensor for each trainable variable; cold_time more on a new machine",
      "properties": { "fixed_time": { "$ref": "#/$defs/time" }, "time_per_tensor": { "$ref": "#/$defs/time" }, "cold_time": { "$ref": "#/$defs/time" } } }
  })json",
                       {{"time_law", time_law_schema}});
}

/// Files from maps of names to entries.
std::string entries(const char* kind) {
  return R"({ "type": "object", "description": "by name", "additionalProperties": { "$ref": "#/$defs/)" +
         std::string{kind} + "\" } }";
}

}  // namespace

std::string accelerator_schema() {
  return object_schema({.title = "Rehearse accelerator",
                        .required = {"peak_fp32", "peak_fp16", "memory_bandwidth", "memory", "memory_reserved",
                                     "multiprocessors", "host_link", "source"}},
                       R"json({
    "name": { "type": "string", "description": "of one inside a scenario; one of a catalog is named by its key" },
    "peak_fp32": { "$ref": "#/$defs/speed" },
    "peak_fp16": { "$ref": "#/$defs/speed", "description": "with the units that training in fp16 uses" },
    "memory_bandwidth": { "$ref": "#/$defs/rate" },
    "memory": { "$ref": "#/$defs/size" },
    "memory_reserved": { "$ref": "#/$defs/size", "description": "what driver and framework take of it" },
    "multiprocessors": { "type": "integer", "minimum": 1, "maximum": 4096 },
    "host_link": { "$ref": "#/$defs/rate", "description": "one direction of its PCIe link" },
    "architecture": { "type": "string", "description": "such as Ampere: kernels have values fitted for each; CPU: one thread of a processor" },
    "cores_per_multiprocessor": { "type": "integer", "minimum": 1, "maximum": 4096, "description": "fp32 units of each" },
    "l2": { "$ref": "#/$defs/size", "description": "second-level cache" },
    "process_nm": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "of the chip, in nm" },
    "dies": { "type": "integer", "minimum": 1, "maximum": 64, "default": 1, "description": "that act as one GPU" },
    "power": { "type": "string", "pattern": "^[0-9.]+(e[0-9]+)?W$", "description": "limit of the board, for one GPU: 400W" },
    "power_min": { "type": "string", "pattern": "^[0-9.]+(e[0-9]+)?W$", "description": "the lowest limit that may be set instead (nvidia-smi -q -d POWER); not stated: a quarter of power" },
    "memory_kind": { "type": "string", "pattern": "^(HBM|GDDR)[0-9][0-9A-Za-z]*$", "description": "such as HBM2e, GDDR6: what a byte takes of power" },
     "ecc": { "type": "boolean", "default": false, "description": "error correction is on unless someone turns it off; GDDR's costs a sixth of its bandwidth" },
    "peak_fp32_matrix": { "$ref": "#/$defs/speed", "description": "dense, with matrix units that multiply in fp32" },
    "peak_tf32": { "$ref": "#/$defs/speed", "description": "dense, with matrix units" },
    "peak_bf16": { "$ref": "#/$defs/speed", "description": "dense, with matrix units" },
    "peak_fp8": { "$ref": "#/$defs/speed", "description": "dense, with matrix units" },
    "peak_fp4": { "$ref": "#/$defs/speed", "description": "dense, with matrix units, of NVFP4" },
    "peak_bf16_sparse": { "$ref": "#/$defs/speed", "description": "as the data sheet states it for 2:4 sparsity: peak_bf16 must be half of it" },
    "boost_clock": { "type": "string", "pattern": "^[0-9.]+(e[0-9]+)?MHz$", "description": "peak_fp32 must be 2 multiprocessors * cores_per_multiprocessor * boost_clock within 3 %: 1410MHz" },
    "source": { "type": "string" }
  })json");
}

std::string interconnect_schema() {
  return schema_text(R"json({
  "title": "Rehearse links between the GPUs of a machine",
  "type": "object",
  "additionalProperties": false,
  "dependentRequired": { "nvlinks": ["nvlink_rate"], "nvlink_rate": ["nvlinks"], "gpus_per_root": ["pcie_root"],
    "socket_link": ["gpus_per_socket"], "gpus_per_socket": ["socket_link"] },
  "properties": {
    "name": { "type": "string", "description": "for the profile's by_interconnect; one of a catalog is named by its key" },
    "pcie": { "$ref": "#/$defs/rate", "description": "of each GPU, one direction; by default the accelerator's host_link" },
    "pcie_root": { "$ref": "#/$defs/rate", "description": "one direction of what all GPUs of a root share" },
    "gpus_per_root": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "default: all" },
    "socket_link": { "$ref": "#/$defs/rate", "description": "one direction of what connects a processor to the others (QPI, UPI), which copies between GPUs of two cross" },
    "gpus_per_socket": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "at one processor" },
    "reaches_nics_directly": { "type": "boolean", "default": false },
    "stages_copies_in_host": { "type": "boolean", "default": false, "description": "copies between GPUs cross the root twice" },
    "latency": { "$ref": "#/$defs/time", "default": "0s" },
    "generation": { "type": "string", "description": "of the links between GPUs, such as NVLink 4: the profile's by_generation" },
    "leaves_out": { "type": "string", "description": "links between machines that are not described, such as NVLinks: a warning where a scenario has several machines" },
    "nvswitch": { "$ref": "#/$defs/rate", "description": "of each GPU, one direction" },
    "reduces_in_switch": { "type": "boolean", "default": false, "description": "the nvswitch adds up what it passes on (NVLink SHARP)" },
    "nvlink_domain": { "type": "integer", "minimum": 2, "maximum": 576, "description": "GPUs that one nvswitch joins, those of other machines of the group included; default: those of a machine" },
    "nvlink_rate": { "$ref": "#/$defs/rate", "description": "one direction of one link" },
    "nvlinks": { "type": "array", "maxItems": 4096, "items": {
      "type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
        "a": { "type": "integer", "minimum": 0, "maximum": 575 }, "b": { "type": "integer", "minimum": 0, "maximum": 575 },
        "count": { "type": "integer", "minimum": 1, "maximum": 100, "default": 1 } } } },
    "source": { "type": "string" }
  }
})json");
}

std::string instance_schema() {
  return object_schema({.title = "Rehearse instance", .required = {"vcpus", "memory", "nic", "source"}},
                       R"json({
    "name": { "type": "string", "description": "of one inside a scenario; one of a catalog is named by its key" },
    "vcpus": { "type": "integer", "minimum": 1, "maximum": 4096 },
    "memory": { "$ref": "#/$defs/size" },
    "accelerator": { "anyOf": [{ "type": "string", "description": "rehearse list gpus" }, { "$ref": "#/$defs/accelerator" }] },
    "accelerators": { "type": "integer", "minimum": 0, "maximum": 576, "description": "default: 1 with an accelerator" },
    "interconnect": { "anyOf": [{ "type": "string", "description": "rehearse list interconnects" }, { "$ref": "#/$defs/interconnect" }] },
    "nic": { "$ref": "#/$defs/rate", "description": "of one NIC, one direction" },
    "nics": { "type": "integer", "minimum": 1, "maximum": 64, "default": 1, "description": "GPU i uses NIC i modulo nics; with more NICs than GPUs each GPU as many as all have, as one of their rates' sum" },
    "transport": { "enum": ["tcp", "rdma"], "description": "how a collective's data leave a machine: through sockets, whose bytes processors copy, or written by the adapter itself (InfiniBand, RoCE, EFA); default: not known, simulated as rdma" },
    "in_order": { "type": "boolean", "default": true, "description": "the adapter writes what it receives in the order in which it was sent; otherwise a collective library leaves out protocols that rely on it (LL, LL128), as NCCL over EFA before p5" },
    "plugin_latency": { "$ref": "#/$defs/time", "default": "0s", "description": "of a message between machines, as the adapter's plugin tells the collective library, which chooses by it" },
    "nic_burst": { "$ref": "#/$defs/size", "default": "0B", "description": "passes at once, in each direction, after a NIC has been idle: the depth of the token bucket that limits its rate" },
    "usd_per_hour_on_demand": { "type": "number", "minimum": 0 },
    "usd_per_hour_spot": { "type": "number", "minimum": 0 },
    "prices": { "type": "array", "description": "the first that fits a group's market and region holds, otherwise the two above", "items": {
      "type": "object", "required": ["regions", "usd_per_hour", "date", "source", "market"], "additionalProperties": false, "properties": {
        "regions": { "type": "array", "minItems": 1, "items": { "type": "string" } },
        "usd_per_hour": { "type": "number", "minimum": 0 },
        "date": { "type": "string" }, "source": { "type": "string" },
        "market": { "enum": ["on-demand", "spot"] } } } },
    "provider": { "description": "by whose rules time is billed", "anyOf": [
      { "type": "string", "examples": ["aws", "gce", "azure"] },
      { "type": "object", "required": ["source"], "additionalProperties": false, "properties": {
          "name": { "type": "string" },
          "granularity": { "$ref": "#/$defs/time", "default": "1s" },
          "minimum": { "$ref": "#/$defs/time", "default": "0s" },
          "free_if_revoked": { "$ref": "#/$defs/time", "default": "0s", "description": "within so long of its start" },
          "source": { "type": "string" } } }] },
    "source": { "type": "string" }
  })json",
                       {{"accelerator", accelerator_schema}, {"interconnect", interconnect_schema}});
}

std::string region_link_schema() {
  return object_schema(
      {.title = "Rehearse link between two regions, or inside one", .required = {"from", "to", "latency", "source"}},
      R"json({
    "from": { "type": "string" }, "to": { "type": "string" },
    "latency": { "$ref": "#/$defs/time", "description": "one way" },
    "per_flow_rate": { "$ref": "#/$defs/rate", "description": "limit of a single connection" },
    "packet_loss": { "type": "number", "minimum": 0, "maximum": 0.5, "default": 0, "description": "share of packets, each by itself" },
    "source": { "type": "string" }
  })json");
}

std::string storage_schema() {
  return object_schema({.title = "Rehearse price of storage", .required = {"usd_per_gib_month", "date", "source"}},
                       R"json({
    "name": { "type": "string", "description": "of one inside a scenario; one of a catalog is named by its key" },
    "usd_per_gib_month": { "type": "number", "minimum": 0 }, "date": { "type": "string" }, "source": { "type": "string" }
  })json");
}

std::string messaging_schema() {
  return object_schema({.title = "Rehearse messaging", .required = {"source"}},
                       R"json({
    "name": { "type": "string", "description": "of one inside a scenario; one of a catalog is named by its key" },
    "chunk": { "$ref": "#/$defs/size", "default": "0B", "description": "data behind one header; 0B: all of a message" },
    "chunk_header": { "$ref": "#/$defs/size", "default": "0B", "description": "before each chunk, at most 1MiB" },
    "message_header": { "$ref": "#/$defs/size", "default": "0B", "description": "once for each message, at most 1MiB" },
    "request": { "$ref": "#/$defs/size", "default": "0B", "description": "that the receiver sends for each message: counted as traffic, takes no time" },
    "coordination": { "$ref": "#/$defs/size", "default": "0B", "description": "payload of each of the ceil(log2 w) messages by which every one of w workers agrees with the others on what is ready: counted as traffic, takes no time" },
    "coordination_period": { "$ref": "#/$defs/time", "default": "0s", "description": "from one agreement to the next; 0s: one in each step" },
    "source": { "type": "string" }
  })json");
}

std::string spot_pool_schema() {
  return object_schema({.title = "Rehearse spot pool", .required = {"source", "lifetime"}},
                       R"json({
    "name": { "type": "string", "description": "of one inside a scenario; one of a catalog is named by its key" },
    "source": { "type": "string" },
    "lifetime": {
      "type": "object", "required": ["law"], "additionalProperties": false, "description": "of a machine, from its start to its revocation",
      "properties": {
        "law": { "$ref": "#/$defs/time_law" },
        "start": { "type": "object", "required": ["share"], "additionalProperties": false, "description": "machines that are lost right after their start", "properties": {
          "share": { "$ref": "#/$defs/share" }, "within": { "$ref": "#/$defs/time", "default": "0s" } } },
        "cap": { "$ref": "#/$defs/time", "description": "no machine lives longer" },
        "hours": { "type": "object", "required": ["factors"], "additionalProperties": false, "description": "how often machines are revoked by the hour of the day", "properties": {
          "utc_offset_h": { "type": "number", "minimum": -14, "maximum": 14, "default": 0 },
          "factors": { "type": "array", "minItems": 24, "maxItems": 24, "items": { "type": "number", "minimum": 0 }, "description": "with a mean of 1" } } } } },
    "notice": { "$ref": "#/$defs/time", "default": "0s", "description": "before a revocation" },
    "bulk": { "type": "object", "required": ["interval", "share"], "additionalProperties": false, "description": "many machines of a zone that are revoked together", "properties": {
      "interval": { "$ref": "#/$defs/distribution" },
      "share": { "type": "object", "required": ["a", "b"], "additionalProperties": false, "description": "of the machines, drawn from 1 - (1 - x^a)^b", "properties": {
        "a": { "type": "number", "minimum": 0.01, "maximum": 1000 }, "b": { "type": "number", "minimum": 0.01, "maximum": 1000 } } },
      "outage": { "$ref": "#/$defs/time_law", "description": "until machines are to be had again" } } },
    "churn": { "type": "object", "required": ["factor", "calm_mean", "churn_mean"], "additionalProperties": false, "description": "spells in which machines age faster by a factor", "properties": {
      "factor": { "type": "number", "minimum": 1, "maximum": 10000 }, "calm_mean": { "$ref": "#/$defs/time" }, "churn_mean": { "$ref": "#/$defs/time" } } },
    "wait": { "$ref": "#/$defs/time_law", "description": "from the request of a machine until there is one" },
    "fitted_on": { "type": "object", "additionalProperties": false, "dependentRequired": { "from": ["to"], "to": ["from"] },
      "description": "what was measured; use for another GPU, place or date is warned of",
      "properties": {
        "accelerator": { "type": "string" }, "place": { "type": "string" },
        "from": { "type": "string", "examples": ["2023", "2023-02", "2023-02-15"] }, "to": { "type": "string" } } }
  })json",
                       {{"time_law", time_law_schema}});
}

std::string catalog_schema() {
  return file_schema({.title = "Rehearse catalog file"},
                     R"json({
    "accelerators": )json" +
                         entries("accelerator") + R"(, "instances": )" + entries("instance") +
                         R"(, "interconnects": )" + entries("interconnect") + R"(, "spot_pools": )" +
                         entries("spot_pool") + R"(, "storage": )" + entries("storage") + R"(, "messaging": )" +
                         entries("messaging") + R"json(,
    "region_links": { "type": "array", "items": { "$ref": "#/$defs/region_link" } },
    "prediction_errors": { "type": "object", "description": "by kind of prediction; written by calibration/prediction_errors.py", "additionalProperties": {
      "type": "object", "required": ["rows", "sources", "median", "low", "high"], "additionalProperties": false, "properties": {
        "rows": { "type": "integer", "minimum": 0 }, "sources": { "type": "integer", "minimum": 0 },
        "median": { "type": "number", "minimum": 0, "maximum": 10, "description": "of the absolute errors ln(predicted / measured)" },
        "low": { "type": "number", "minimum": -10, "maximum": 10 }, "high": { "type": "number", "minimum": -10, "maximum": 10 } } } }
  })json",
                     {{"accelerator", accelerator_schema},
                      {"instance", instance_schema},
                      {"interconnect", interconnect_schema},
                      {"spot_pool", spot_pool_schema},
                      {"storage", storage_schema},
                      {"messaging", messaging_schema},
                      {"region_link", region_link_schema}});
}

std::string price_history_schema() {
  return schema_text(R"json({
  "title": "Rehearse history of spot prices",
  "type": "object",
  "required": ["format", "source"],
  "oneOf": [{ "required": ["file"] }, { "required": ["series"] }],
  "additionalProperties": false,
  "properties": {
    "format": { "const": 1 },
    "source": { "type": "string" },
    "file": { "type": "string", "description": "CSV, relative to this file: timestamp_utc, zone, instance_type, usd_per_hour" },
    "series": { "type": "array", "items": {
      "type": "object", "required": ["zone", "instance", "points"], "additionalProperties": false, "properties": {
        "zone": { "type": "string" }, "instance": { "type": "string" },
        "points": { "type": "array", "minItems": 1, "items": { "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "number", "minimum": 0 } },
                    "description": "[seconds since 1970 UTC, USD per hour]" } } } }
  }
})json");
}

namespace {

// A calibration profile (platforms/profile.hpp), section by section.

/// What a GPU, its host and a server take.
constexpr std::string_view kProfileCompute = R"json({
    "name": { "type": "string" },
    "source": { "type": "string" },
    "unstated": { "enum": ["nearest", "ideal"], "default": "nearest", "description": "what is not stated comes from the nearest profile that states it, or costs nothing" },
    "host": { "type": "object", "required": ["dispatch", "step_overhead"], "additionalProperties": false, "properties": {
      "dispatch": { "$ref": "#/$defs/time", "description": "of a kernel" }, "step_overhead": { "$ref": "#/$defs/time" } } },
    "sustained_draw": { "type": "object", "description": "what multiprocessors and memory draw in a training of hours, by what `power` says: by GPU, by architecture and memory (Ampere HBM, Ampere GDDR) or by architecture, the first that is there", "properties": { "source": { "type": "string" } }, "additionalProperties": { "type": "number", "minimum": 1, "maximum": 10 } },
    "power": { "type": "object", "additionalProperties": false, "description": "what GPUs' boards draw: platforms/board_power.hpp has the formulas, and where the values that are taken if none are stated come from", "properties": {
      "source": { "type": "string" },
      "rest_stacked": { "$ref": "#/$defs/share", "description": "of the board's limit, with HBM, that it draws without kernels" },
      "rest_soldered": { "type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "the same with GDDR, in W for each GB/s of its memory" },
      "active": { "type": "number", "exclusiveMinimum": 0, "maximum": 1000, "description": "pJ besides while a kernel runs, for each FLOP that fp32 units could compute meanwhile, at 16 nm" },
      "polling": { "$ref": "#/$defs/share", "description": "of the limit, besides while kernels of a collective wait" },
      "vector_flop": { "type": "number", "exclusiveMinimum": 0, "maximum": 1000, "description": "pJ per FLOP of fp32 units, at 16 nm" },
      "matrix_flop": { "type": "number", "exclusiveMinimum": 0, "maximum": 1000, "description": "pJ per FLOP of matrix units, 16 bits" },
      "byte_stacked": { "type": "number", "exclusiveMinimum": 0, "maximum": 10000, "description": "pJ per byte of HBM" },
      "byte_soldered": { "type": "number", "exclusiveMinimum": 0, "maximum": 10000, "description": "pJ per byte of GDDR" },
      "voltage_floor": { "$ref": "#/$defs/share", "description": "of the voltage at the full clock" },
      "voltage_slope": { "type": "number", "exclusiveMinimum": 0, "maximum": 10, "description": "of that share by the clock's, above the floor" } } },
    "frameworks": { "type": "object", "description": "with kernels: what a framework adds, by a part of the workload's label, the longest, or otherwise, which also has what another leaves out", "additionalProperties": {
      "type": "object", "additionalProperties": false, "properties": {
        "dispatch": { "$ref": "#/$defs/time", "default": "6us", "description": "of a kernel" }, "step_overhead": { "$ref": "#/$defs/time", "default": "1ms" },
        "waits_for_kernels": { "type": "boolean", "default": false, "description": "the host waits for the end of each kernel before it prepares the next one, as with CUDA_LAUNCH_BLOCKING=1" },
        "kernel_overhead": { "$ref": "#/$defs/time", "default": "2us", "description": "at most, besides a kernel's work" },
        "composition": { "type": "number", "minimum": 1, "maximum": 100, "default": 1, "description": "elementary kernels of a layer normalisation, dropout or GELU" },
        "tf32": { "type": "boolean", "default": false, "description": "products and convolutions in fp32 on matrix units, where the GPU has such" },
        "update_dispatch": { "$ref": "#/$defs/time", "description": "of the update of a variable; default: as a kernel's" },
        "update_loop": { "$ref": "#/$defs/time", "default": "0s", "description": "host time per variable of loops over variables behind the last kernel's dispatch, hidden as long as the GPU still runs kernels" },
        "gather_copy": { "$ref": "#/$defs/time", "default": "0s", "description": "host time per variable and worker that share a sharded optimizer, of the copies by which what has been gathered is unpacked" },
        "update_traffic": { "type": "number", "minimum": 0, "maximum": 1000, "default": 0, "description": "bytes of a parameter that the GPU reads and writes in these loops besides those of the optimizer's kernel: norms, clipping, copies; of all variables, also where an optimizer is sharded" },
        "copies": { "type": "number", "minimum": 0, "maximum": 100, "default": 0, "description": "kernels that read and write a product's output once more" },
        "mixed_scalars": { "type": "number", "minimum": 1, "maximum": 100, "default": 1, "description": "time of losses, layer normalisations, dropouts and GELU in mixed precision by that in fp16" },
        "fusion": { "type": "number", "minimum": 0, "maximum": 0.99, "default": 0, "description": "share of activations and sums that are part of the kernel before them" },
        "collective_dispatch": { "$ref": "#/$defs/time", "description": "of a collective within a layer; default: as a kernel's" },
        "accumulation": { "type": "number", "minimum": 0, "maximum": 100, "default": 0, "description": "bytes of a parameter that a kernel reads and writes to add a batch's gradients to those before" },
        "accumulates_in_product": { "type": "boolean", "default": false, "description": "the product adds its gradient to the sums itself, without a kernel: accumulation is what its output costs more than one in 16 bits" },
        "dispatch_beside_pipeline": { "$ref": "#/$defs/time", "default": "0s", "description": "host time of a collective within a layer besides collective_dispatch, for each of its GPUs, in a pipeline over several machines" },
        "load_wait": { "$ref": "#/$defs/time", "default": "0s", "description": "where experts have as many rows as tokens choose them: host time for the numbers of these, behind the kernels that compute them, before it launches what has sizes of them; 0s: it needs none" },
        "memory": { "type": "object", "additionalProperties": false, "description": "of a GPU, otherwise than single operators in the precision of kernels keep it", "properties": {
          "kept_activations": { "type": "number", "minimum": 0.1, "maximum": 10, "default": 1, "description": "by what operators keep" },
          "kept_split_activations": { "type": "number", "minimum": 0.1, "maximum": 10, "description": "the same where workers hold layers together; default: as otherwise" },
          "kept_gathered": { "type": "number", "minimum": 0, "maximum": 1, "default": 0, "description": "with sequence parallelism: share of what is gathered before products that is kept, instead of being gathered again" },
          "norm_copies": { "type": "number", "minimum": 0, "maximum": 10, "default": 0, "description": "tensors of a norm's size that one without biases (RMS) keeps besides its input, if it is composed of elementary kernels" },
          "gradient_temporaries": { "type": "number", "minimum": 0, "maximum": 100, "default": 0, "description": "bytes of a parameter, beside a product that computes a weight's gradient" },
          "gradient_buffers": { "type": "number", "minimum": 0, "maximum": 100, "default": 0, "description": "bytes of a parameter: a buffer for each shape of weights, which stays, as autograd is given it for a gradient that a product has added up itself" },
          "loss_in_place": { "type": "boolean", "default": false, "description": "the gradient of a loss of 16-bit logits (fused_loss) is written over them" },
          "held": { "$ref": "#/$defs/size", "default": "0B", "description": "all the time: workspaces, buffers" } } },
        "attention_rate": { "type": "number", "minimum": 0.01, "maximum": 10, "default": 1, "description": "of fused attention, by that of FlashAttention-2; no faster than kernels made for the GPU's architecture" },
        "transposes_images": { "type": "boolean", "default": false, "description": "images have their channels first: convolutions in fp16 have inputs and outputs transposed, batch norms a block of threads for each channel" },
        "convolution_workspace": { "$ref": "#/$defs/size", "default": "4GiB", "description": "of a convolution's transforms: none that need more" },
        "transforms_weight_gradients": { "type": "boolean", "default": true, "description": "weights' gradients of large kernels by Fourier transforms of tiles, as from cuDNN 6 on" },
        "variables_on_host": { "type": "boolean", "default": false, "description": "each step copies variables to the GPU and gradients back" },
        "needs_alignment": { "type": "boolean", "default": false, "description": "products in fp16 on matrix units only where their rows are multiples of 8 numbers, as cuBLAS before version 11" },
        "errors": { "type": "object", "required": ["rows", "accelerators", "low", "high"], "additionalProperties": false, "description": "of steps that the values were not fitted to: the interval of runs on such machines", "properties": {
          "rows": { "type": "integer", "minimum": 20 }, "accelerators": { "type": "array", "minItems": 1, "items": { "type": "string" } },
          "nic_min": { "$ref": "#/$defs/rate", "description": "all NICs of a machine together, each direction; default: single machines" }, "nic_max": { "$ref": "#/$defs/rate" },
          "low": { "type": "number", "description": "ln(predicted / measured), 5th percentile" }, "high": { "type": "number", "description": "the same, 95th percentile" } } },
        "source": { "type": "string" } } } },
    "gpu": {
      "type": "object",
      "required": ["kernel_overhead", "memory_efficiency", "reduction_half", "winograd_gain", "peak_efficiency"],
      "additionalProperties": false,
      "properties": {
        "kernel_overhead": { "$ref": "#/$defs/time" },
        "memory_efficiency": { "$ref": "#/$defs/share" },
        "reduction_half": { "type": "number", "minimum": 0, "maximum": 1e9, "description": "length of a sum at which a kernel has half of its speed" },
        "winograd_gain": { "type": "number", "minimum": 1, "maximum": 16 },
        "default_peak_efficiency": { "$ref": "#/$defs/share", "default": 1 },
        "peak_efficiency": { "type": "object", "description": "by accelerator", "additionalProperties": { "$ref": "#/$defs/share" } },
        "update_accesses": { "type": "object", "description": "memory accesses of an update for each scalar, by optimizer", "additionalProperties": { "type": "number", "minimum": 0, "maximum": 1000 } } } },
    "servers": {
      "type": "object",
      "required": ["time_per_variable", "time_per_byte", "time_per_split_update", "split_update_threshold"],
      "additionalProperties": false,
      "properties": {
        "time_per_variable": { "$ref": "#/$defs/time" }, "time_per_byte": { "$ref": "#/$defs/time" },
        "time_per_split_update": { "$ref": "#/$defs/time" }, "time_per_update": { "$ref": "#/$defs/time", "default": "0s" },
        "split_update_threshold": { "$ref": "#/$defs/size" },
        "threads": { "type": "integer", "minimum": 1, "maximum": 1024, "description": "of a server process that serialise, copy and parse messages (default: one on each core)" },
        "connection_rate": { "$ref": "#/$defs/rate", "description": "of one connection between a worker and a server, each direction" },
        "software": { "type": "string", "description": "whose these values are: a workload whose framework names it takes them where its own profile states none" },
        "by_framework": { "type": "object", "description": "values that are others where the workload's framework contains the name, each with its source", "additionalProperties": { "type": "object", "required": ["source"] } },
        "fitted": { "type": "object", "description": "written by rehearse: what the profile had seen from which these values were taken" },
        "between_processes": { "$ref": "#/$defs/local_exchange" }, "in_process": { "$ref": "#/$defs/local_exchange" } } },
)json";

/// What networks and collectives deliver.
constexpr std::string_view kProfileCommunication =
    R"json(    "network": { "type": "object", "required": ["nic_efficiency"], "additionalProperties": false, "properties": {
      "nic_efficiency": { "$ref": "#/$defs/share" },
      "nic_efficiency_of": { "type": "object", "description": "by instance", "additionalProperties": { "$ref": "#/$defs/share" } },
      "connection_window": { "$ref": "#/$defs/size" },
      "tcp_rate": { "$ref": "#/$defs/rate", "description": "what a collective library's sockets carry out of a machine, and into it, where the instance's transport is tcp; default: as much as its NICs" },
      "flow_efficiency": { "$ref": "#/$defs/share" },
      "duplex": { "type": "number", "exclusiveMinimum": 0, "maximum": 2, "default": 2, "description": "both directions of a NIC together, of one" } } },
    "collectives": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "pcie_efficiency": { "$ref": "#/$defs/share" }, "socket_efficiency": { "$ref": "#/$defs/share" }, "nvlink_efficiency": { "$ref": "#/$defs/share" },
        "nvlink_relay_efficiency": { "type": "number", "minimum": 0, "maximum": 1 },
        "launch": { "$ref": "#/$defs/time", "default": "0s", "description": "of every protocol, besides its own" },
        "launch_cycles": { "type": "number", "minimum": 0, "maximum": 1000000, "default": 0, "description": "the same in cycles of the GPU" },
        "hop": { "$ref": "#/$defs/time", "default": "0s", "description": "unit of launch_hops, step_hops and kept_hops" },
        "hop_cycles": { "type": "number", "minimum": 0, "maximum": 1000000, "default": 0, "description": "the same in cycles of the GPU" },
        "across_dies": { "type": "number", "minimum": 0.1, "maximum": 10, "default": 1, "description": "times as many cycles on a GPU of several dies" },
        "protocols": { "$ref": "#/$defs/protocols" },
        "by_generation": { "type": "object", "description": "what differs, by generation of the links between GPUs", "additionalProperties": { "$ref": "#/$defs/collectives_on" } },
        "by_interconnect": { "type": "object", "description": "what differs, by interconnect; before by_generation", "additionalProperties": { "$ref": "#/$defs/collectives_on" } } } },
)json";

/// What was measured as it is: steps, checkpoints, starts of machines.
constexpr std::string_view kProfileMeasured =
    R"json(    "step_times": { "type": "array", "description": "measured: forward and backward pass of one batch", "items": {
      "type": "object", "required": ["model", "accelerator", "precision", "batch", "time"], "additionalProperties": false, "properties": {
        "model": { "type": "string" }, "accelerator": { "type": "string" }, "precision": { "enum": ["fp32", "tf32", "fp16", "bf16"] },
        "framework": { "type": "string" },
        "gpus": { "type": "integer", "minimum": 1, "maximum": 64, "default": 1 },
        "batch": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "of all GPUs" },
        "time": { "$ref": "#/$defs/time" },
        "is_estimated": { "type": "boolean", "default": false, "description": "from what another model, GPU, precision or framework takes" } } } },
    "checkpoint": { "type": "object", "required": ["source", "write"], "additionalProperties": false, "properties": {
      "source": { "type": "string" }, "write": { "$ref": "#/$defs/checkpoint_stage" }, "upload": { "$ref": "#/$defs/checkpoint_stage" } } },
    "startup": { "$ref": "#/$defs/startup" },
)json";

/// What a fit and a substitution have left.
constexpr std::string_view kProfileFit = R"json(    "fit": {
      "type": "object", "required": ["values", "seen"], "description": "written by rehearse calibrate",
      "properties": {
        "values": { "type": "array", "items": { "type": "object", "required": ["pointer"], "properties": { "pointer": { "type": "string" } } } },
        "spread": { "type": "object", "required": ["residual", "low", "high", "components"], "properties": {
          "residual": { "type": "number", "minimum": 0, "maximum": 10 },
          "low": { "type": "number" }, "high": { "type": "number" },
          "components": { "type": "array", "items": { "$ref": "#/$defs/component" } } } },
        "seen": { "type": "object", "required": ["accelerators", "models", "batch_min", "batch_max", "workers_max", "servers_max"], "properties": {
          "accelerators": { "type": "array", "items": { "type": "string" } }, "models": { "type": "array", "items": { "type": "string" } },
          "batch_min": { "type": "integer" }, "batch_max": { "type": "integer" },
          "workers_max": { "type": "integer" }, "servers_max": { "type": "integer" },
          "server_traffic_max": { "$ref": "#/$defs/size", "description": "that one server sends in a step of each of the workers" },
          "frameworks": { "type": "array", "items": { "type": "string" } },
          "devices": { "enum": ["GPUs", "processors"], "description": "which exchanged; default GPUs" },
          "exchanges": { "type": "array", "items": { "type": "object", "required": ["strategy", "workers_max"], "additionalProperties": false, "properties": {
            "strategy": { "type": "string" }, "links": { "type": "string", "description": "between the GPUs of a machine" },
            "nic": { "$ref": "#/$defs/rate", "description": "all NICs of a machine with workers together, each direction; default: one machine" }, "workers_max": { "type": "integer" },
            "collective": { "type": "object", "description": "of collectives alone", "required": ["operation", "payload_min", "payload_max"], "additionalProperties": false, "properties": {
              "operation": { "type": "string" }, "payload_min": { "$ref": "#/$defs/size" }, "payload_max": { "$ref": "#/$defs/size" } } } } } } } } } },
    "prediction": { "type": "object", "description": "written by rehearse: of which kind predictions are, and how far such ones were off", "required": ["kind", "low", "high"], "additionalProperties": false, "properties": {
      "kind": { "type": "string" }, "low": { "type": "number" }, "high": { "type": "number" },
      "others": { "type": "object", "description": "profiles that would do nearly as well, complete, by name; the interval covers what they say" } } },
    "substitutes": { "type": "array", "description": "written by rehearse: what was taken from elsewhere", "items": {
      "type": "object", "required": ["text", "spread"], "additionalProperties": false, "properties": {
        "text": { "type": "string" }, "spread": { "type": "number", "minimum": 0, "maximum": 10 },
        "of_kind": { "type": "boolean", "description": "measured errors of such predictions include it" },
        "components": { "$ref": "#/$defs/component" } } } }
  })json";

/// What the sections share.
constexpr std::string_view kProfileDefinitions = R"json({
    "local_exchange": { "type": "object", "required": ["time_per_variable", "time_per_byte"], "additionalProperties": false, "properties": {
      "time_per_variable": { "$ref": "#/$defs/time" }, "time_per_byte": { "$ref": "#/$defs/time" } } },
    "protocols": { "type": "object", "description": "by name", "additionalProperties": {
      "type": "object", "additionalProperties": false, "properties": {
        "launch": { "$ref": "#/$defs/time" }, "nvlink_step": { "$ref": "#/$defs/time" },
        "pcie_step": { "$ref": "#/$defs/time" }, "network_step": { "$ref": "#/$defs/time" },
        "efficiency": { "type": "number", "minimum": 0.001, "maximum": 1 },
        "algorithm": { "type": "string", "description": "for which it is (rehearse list algorithms); default: all" },
        "in_gpu_order": { "type": "boolean" },
        "piece": { "$ref": "#/$defs/size", "default": "0B", "description": "along trees data are passed on in pieces of so many bytes; default: so small that only latencies add up" },
        "needs_order": { "type": "boolean", "default": false, "description": "only among machines whose adapters write in order (in_order of an instance): flags lie beside the data" },
        "fetched_above": { "$ref": "#/$defs/size", "description": "among machines whose adapters do not write in order, larger messages are announced and read by their receiver: network_step once more" },
        "receivers_announce": { "type": "boolean", "description": "data wait for a packet of their receiver; costs time where packets are lost" },
        "eager_limit": { "type": "string", "description": "larger messages between machines wait for an answer of their receiver, their ranks begin at random within launch; default: none do" },
        "launches_ahead": { "type": "boolean", "description": "the next collective's launch runs while one is under way" },
        "copy": { "$ref": "#/$defs/rate" },
        "operation": { "enum": ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"], "description": "for which alone it is; default: all-reduces, and others by rings" },
        "launch_hops": { "type": "number", "minimum": 0, "maximum": 1000, "default": 0, "description": "times the generation's hop, more than launch" },
        "step_hops": { "type": "number", "minimum": 0, "maximum": 1000, "default": 0, "description": "times the generation's hop, more than nvlink_step" },
        "kept_hops": { "type": "number", "minimum": 0, "maximum": 1000, "default": 0, "description": "times the generation's hop, more than kept_step" },
        "kept_step": { "$ref": "#/$defs/time", "default": "0s", "description": "more for a step over NVLinks whose data the GPU keeps, too: all of an all-gather's, half of an all-reduce's" },
        "overlap": { "type": "number", "minimum": 0, "maximum": 1, "default": 0, "description": "share of a step that bytes under way hide" },
        "tuner": { "type": "object", "additionalProperties": false, "description": "what the library takes it to cost when it chooses; default: what it costs", "properties": {
          "launch": { "$ref": "#/$defs/time" }, "nvlink_step": { "$ref": "#/$defs/time" }, "pcie_step": { "$ref": "#/$defs/time" },
          "network_step": { "$ref": "#/$defs/time" }, "efficiency": { "type": "number", "minimum": 0.001, "maximum": 1 } } } } } },
    "collectives_on": { "type": "object", "additionalProperties": false, "properties": {
      "pcie_efficiency": { "$ref": "#/$defs/share" }, "socket_efficiency": { "$ref": "#/$defs/share" }, "nvlink_efficiency": { "$ref": "#/$defs/share" },
      "nvlink_relay_efficiency": { "type": "number", "minimum": 0, "maximum": 1 },
      "launch": { "$ref": "#/$defs/time" }, "hop": { "$ref": "#/$defs/time" },
      "launch_cycles": { "type": "number", "minimum": 0, "maximum": 1000000 }, "hop_cycles": { "type": "number", "minimum": 0, "maximum": 1000000 },
      "across_dies": { "type": "number", "minimum": 0.1, "maximum": 10 },
      "protocols": { "$ref": "#/$defs/protocols" } } },
    "checkpoint_stage": { "type": "object", "required": ["fixed_time", "rate"], "additionalProperties": false, "properties": {
      "fixed_time": { "$ref": "#/$defs/time" }, "time_per_tensor": { "$ref": "#/$defs/time", "default": "0s" }, "rate": { "$ref": "#/$defs/rate" } } },
    "component": { "type": "object", "description": "changes of fitted values by one deviation, by pointer", "additionalProperties": { "type": "number", "minimum": -10, "maximum": 10 } }
  })json";

}  // namespace

std::string profile_schema() {
  std::string properties;
  for (const std::string_view section : {kProfileCompute, kProfileCommunication, kProfileMeasured, kProfileFit})
    properties += section;
  properties.insert(properties.rfind('}'), ", \"kernels\": " + kernels::model_schema_text() + "\n  ");
  return file_schema(
      {.title = "Rehearse calibration profile", .required = {"name", "source"}, .definitions = kProfileDefinitions},
      properties, {{"startup", startup_schema}});
}

}  // namespace rehearse
