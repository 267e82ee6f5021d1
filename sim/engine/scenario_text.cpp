// The two texts that describe scenario files: their JSON Schema and the commented file that `rehearse init` writes.
// tests/sim/engine/scenario_test.cpp checks that both agree with the reader.

#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/scenario.hpp"

#include <nlohmann/json.hpp>

namespace rehearse {

std::string_view scenario_schema() {
  return R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Rehearse scenario",
  "type": "object",
  "required": ["format", "workload", "cluster", "training", "calibration"],
  "additionalProperties": false,
  "properties": {
    "format": { "const": 1 },
    "name": { "type": "string", "default": "unnamed" },
    "seed": { "type": "integer", "minimum": 0, "default": 1 },
    "workload": {
      "type": "object",
      "required": ["model", "batch_per_worker"],
      "additionalProperties": false,
      "properties": {
        "model": { "description": "a name (rehearse list models) or a model object (rehearse schema model)", "type": ["string", "object"] },
        "batch_per_worker": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "samples per worker and step" },
        "optimizer": { "enum": ["momentum", "sgd", "adam"], "default": "momentum" },
        "precision": { "enum": ["fp32", "fp16"], "default": "fp32" }
      }
    },
    "cluster": {
      "type": "object",
      "required": ["groups"],
      "additionalProperties": false,
      "properties": {
        "groups": { "type": "array", "minItems": 1, "items": {
          "type": "object",
          "required": ["name", "role", "instance", "region"],
          "additionalProperties": false,
          "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100 },
            "role": { "enum": ["worker", "parameter_server"] },
            "instance": { "description": "a name (rehearse list instances) or an object of the catalog's form", "type": ["string", "object"] },
            "count": { "type": "integer", "minimum": 1, "maximum": 20000, "default": 1 },
            "region": { "type": "string" },
            "market": { "enum": ["on-demand", "spot"], "default": "on-demand", "description": "which of the instance's prices applies" }
          } } },
        "network": {
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "topology": { "enum": ["star"], "default": "star" },
            "links": { "type": "array", "description": "between regions, or inside one; override the catalogs", "items": {
              "type": "object",
              "required": ["from", "to", "latency", "source"],
              "additionalProperties": false,
              "properties": {
                "from": { "type": "string" }, "to": { "type": "string" },
                "latency": { "$ref": "#/$defs/time", "description": "one way" },
                "per_flow_rate": { "$ref": "#/$defs/rate", "description": "limit of a single connection" },
                "source": { "type": "string" } } } }
          }
        }
      }
    },
    "training": {
      "type": "object",
      "required": ["strategy"],
      "oneOf": [{ "required": ["steps"] }, { "required": ["steps_per_worker"] }],
      "additionalProperties": false,
      "properties": {
        "strategy": {
          "type": "object",
          "required": ["kind", "synchronization"],
          "additionalProperties": false,
          "properties": {
            "kind": { "enum": ["parameter_server"] },
            "synchronization": { "enum": ["asynchronous"] },
            "placement": { "enum": ["round_robin", "greedy_by_bytes"], "default": "round_robin" }
          }
        },
        "steps": { "type": "integer", "minimum": 1, "maximum": 10000000, "description": "updates of all workers together" },
        "steps_per_worker": { "type": "integer", "minimum": 1, "description": "instead of steps: times the number of workers" },
        "warmup_steps": { "type": "integer", "minimum": 0, "default": 5, "description": "first steps of each worker, left out of steady-state figures" },
        "start_interval": { "$ref": "#/$defs/time", "default": "0s", "description": "between the starts of two workers" },
        "step_time_variation": { "type": "number", "minimum": 0, "maximum": 10, "default": 0,
                                 "description": "coefficient of variation of a lognormal factor on the compute time of each step" },
        "checkpoint": {
          "type": "object",
          "required": ["every_steps", "fixed_time", "rate"],
          "additionalProperties": false,
          "description": "the chief pauses for fixed_time + bytes / rate",
          "properties": {
            "every_steps": { "type": "integer", "minimum": 1 },
            "fixed_time": { "$ref": "#/$defs/time" },
            "rate": { "$ref": "#/$defs/rate" } }
        }
      }
    },
    "calibration": { "description": "a name (rehearse list profiles) or a profile object", "type": ["string", "object"] },
    "output": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "sampling_period": { "$ref": "#/$defs/time", "default": "100ms", "description": "of resources.csv" },
        "timeline_start": { "$ref": "#/$defs/time", "default": "0s" },
        "timeline_length": { "$ref": "#/$defs/time", "default": "2s" }
      }
    }
  },
  "$defs": {
    "time": { "type": "string", "pattern": "^[0-9.eE+-]+ ?(ns|us|ms|s|min|h|d)$", "examples": ["1.5us", "100ms", "2h"] },
    "rate": { "type": "string", "pattern": "^[0-9.eE+-]+ ?([kMGTPE]i?)?[bB]ps$", "examples": ["25GBps", "200Gbps"] }
  }
}
)json";
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
