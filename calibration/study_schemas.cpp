// The texts that study.hpp, kernel_study.hpp, lifetime_study.hpp and training_fit.hpp declare.

#include "calibration/kernel_study.hpp"
#include "calibration/lifetime_study.hpp"
#include "calibration/study.hpp"
#include "calibration/training_fit.hpp"
#include "sim/base/json_schema.hpp"

namespace rehearse {

std::string study_schema() {
  return file_schema({.title = "Rehearse study",
                      .description = "measured rows, and the scenario of each: validate compares, calibrate fits",
                      .required = {"scenario", "measurements", "columns", "target"},
                      .definitions = R"json({
    "columns": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
    "filter": { "anyOf": [
      { "type": "object", "description": "by column: the value, or one of the values, that a row must have", "additionalProperties": {
        "anyOf": [{ "type": ["string", "number"] }, { "type": "array", "items": { "type": ["string", "number"] } }] } },
      { "type": "string", "description": "a condition over columns, such as tp > 8 and pp == 1" }] },
    "exclusions": { "type": "array", "items": { "type": "object", "required": ["where", "reason"], "additionalProperties": false, "properties": {
      "where": { "$ref": "#/$defs/filter" }, "reason": { "type": "string" } } } },
    "target": { "type": "object", "required": ["column", "metric"], "additionalProperties": false, "properties": {
      "column": { "type": "string", "description": "measured values" },
      "metric": { "type": "string", "description": "of the simulation, to be compared with them" },
      "traces": { "type": "string", "description": "trace, or folder of those of all ranks, relative to this file, that is replayed on the scenario; for replayed_step_s and replayed_after_first_collective_s" },
      "unit": { "enum": ["", "s", "ms", "us", "GB", "GiB"], "description": "of the column, for a metric in seconds or bytes" },
      "noise_column": { "type": "string", "description": "standard deviations of the measured values, in their unit" },
      "quantile": { "type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "below 1: the column has this quantile of a random value; default: its mean" },
      "trials": { "type": "string", "description": "column with the number of trials of which the target's column counts those with an outcome; errors are differences of shares, in percentage points" },
      "sample_of": { "$ref": "#/$defs/columns", "description": "rows with the same values in these are one sample of a random value" },
      "exclude": { "$ref": "#/$defs/exclusions", "description": "rows that are left out of this target, besides those of the study" } } }
  })json"},
                     R"json({
    "scenario": { "type": "string", "description": "scenario file, relative to this file" },
    "measurements": { "description": "relative to this file; may be compressed (.gz, and but for CSV .tar.gz of one file)", "anyOf": [
      { "type": "string", "description": "CSV file" },
      { "type": "object", "required": ["file", "format"], "additionalProperties": false, "properties": {
          "file": { "type": "string" }, "format": { "enum": ["csv", "nccl-tests", "iperf3", "kernel-table", "trace", "training-log", "gpu-log"] },
          "skip_steps": { "type": "integer", "minimum": 0, "maximum": 1000000000, "default": 10, "description": "training-log: steps at its beginning that are left out" },
          "batch": { "type": "integer", "minimum": 1, "maximum": 1000000000, "description": "training-log: samples of a step of all GPUs, if the log does not say it" },
          "gpus": { "type": "integer", "minimum": 1, "maximum": 1000000000, "description": "training-log: GPUs of the job, if the log does not say it" },
          "sequence_length": { "type": "integer", "minimum": 1, "maximum": 1000000000, "description": "training-log: tokens of a sample, if the log does not say it" } } }] },
    "set": { "type": "object", "description": "values by JSON pointer, the same for every row", "propertyNames": { "pattern": "^/" } },
    "columns": { "type": "object", "description": "what a column's value changes in the scenario", "additionalProperties": { "anyOf": [
      { "type": "string", "pattern": "^/", "description": "the value goes to this JSON pointer; an empty one leaves what is there" },
      { "type": "array", "minItems": 1, "items": { "type": "string", "pattern": "^/" }, "description": "the value goes to each of these" },
      { "type": "object", "required": ["plan", "group"], "additionalProperties": false, "description": "values such as 5*g3.8xlarge;3*g3.16xlarge", "properties": {
          "plan": { "type": "string", "pattern": "^/", "description": "array of groups to which each part is added" },
          "group": { "type": "object", "description": "fields of each group" },
          "instances": { "type": "object", "description": "fields by instance; no others are known", "additionalProperties": { "type": "object" } } } },
      { "type": "object", "required": ["list"], "additionalProperties": false, "description": "numbers that blanks separate, 7 9 9 9", "properties": {
          "list": { "type": "string", "pattern": "^/", "description": "they go there as an array" } } },
      { "type": "object", "description": "by value of the column: new values by JSON pointer", "additionalProperties": { "type": "object", "propertyNames": { "pattern": "^/" } } }] } },
    "derive": { "type": "object", "description": "by JSON pointer: a formula over columns and pointers, such as gpus / 8 or pp == 1 ? 1 : vp, set in this order after the columns", "propertyNames": { "pattern": "^/" }, "additionalProperties": { "type": "string" } },
    "target": { "description": "or a list: each is a study of its own, of the rows that have its value, and the first one is that which \"fit\" is about", "anyOf": [
      { "$ref": "#/$defs/target" }, { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/target" } }] },
    "exclude": { "$ref": "#/$defs/exclusions", "description": "rows that are left out" },
    "predicted_framework": { "type": "string", "description": "label of the framework whose costs validate --computation predicted takes; default: the workload's" },
    "only_by_step_times": { "type": "array", "description": "rows whose computation only measured step times tell, not the scenario's model: validate --computation predicted leaves them out", "items": { "type": "object", "required": ["where", "reason"], "additionalProperties": false, "properties": {
      "where": { "$ref": "#/$defs/filter" }, "reason": { "type": "string" } } } },
    "group_by": { "$ref": "#/$defs/columns", "description": "errors are printed for each value of these, too" },
    "choice_by": { "$ref": "#/$defs/columns", "description": "of targets that are times or rates: rows that agree in these do the same work in other ways; what choosing the one that simulates best costs is printed" },
    "curves": { "type": "object", "required": ["x"], "additionalProperties": false, "properties": {
      "x": { "type": "string", "description": "column with numbers of workers" }, "by": { "$ref": "#/$defs/columns" } } },
    "ratios": { "type": "array", "items": { "type": "object", "required": ["label", "numerator", "denominator"], "additionalProperties": false, "properties": {
      "label": { "type": "string" }, "numerator": { "$ref": "#/$defs/filter" }, "denominator": { "$ref": "#/$defs/filter" } } } },
    "about": { "type": "object", "required": ["source", "hardware"], "additionalProperties": false, "description": "for the table of a set of studies", "properties": {
      "source": { "type": "string" }, "hardware": { "type": "string" }, "best_published": { "type": "string" },
      "peers": { "type": "string", "description": "CSV, relative to this file, with errors of other tools on these rows: study, metric, peer, rows, mape, median, p90, choices, regret_median, regret_mean, rank_correlation" } } },
    "fit": { "type": "object", "additionalProperties": false, "properties": {
      "free": { "type": "array", "description": "values of the profile, by JSON pointer", "items": { "anyOf": [
        { "type": "string" },
        { "type": "object", "required": ["value"], "additionalProperties": false, "properties": {
            "value": { "type": "string" }, "min": { "type": ["string", "number"] }, "max": { "type": ["string", "number"] },
            "prior": { "type": ["string", "number"], "description": "what it is expected to be without measurements, or the pointer of a value that it is expected to equal" },
            "prior_factor": { "type": "number", "exclusiveMinimum": 1, "maximum": 1e6, "default": 2, "description": "by which it may well be more or less" } } }] } },
      "where": { "$ref": "#/$defs/filter", "description": "rows that the fit sees (default: all)" },
      "step_times": { "$ref": "#/$defs/filter", "description": "rows whose step times go into the profile as they are" },
      "cross_validate": { "$ref": "#/$defs/columns", "description": "rows with one value of these are left out in turn" },
      "interval_by": { "$ref": "#/$defs/columns", "description": "the same for the errors that the interval is made of: what a new row may share with none of those fitted, such as the session of measuring; default: as cross_validate" },
      "leave_out_of": { "enum": ["all_studies", "this_study"] } } }
  })json");
}

std::string study_set_schema() {
  return file_schema({.title = "Rehearse set of studies", .required = {"studies"}},
                     R"json({
    "studies": { "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "study files, relative to this file" },
    "headlines": { "type": "array", "description": "studies whose errors are told in one line", "items": {
      "type": "object", "required": ["of", "studies"], "additionalProperties": false, "properties": {
        "of": { "type": "string", "description": "what they measure" },
        "studies": { "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "as in the list of all" } } } }
  })json");
}

std::string lifetime_study_schema() {
  return file_schema({.title = "Rehearse study of lifetimes",
                      .description = "when machines on the spot market were revoked; calibrate fits spot pools",
                      .required = {"kind", "series"}},
                     R"json({
    "kind": { "const": "lifetimes" },
    "series": { "type": "array", "minItems": 1, "items": {
      "type": "object",
      "required": ["rows", "name", "source", "file"],
      "oneOf": [
        { "properties": { "rows": { "const": "fleet" } } },
        { "required": ["from", "to", "count"], "properties": { "rows": { "const": "hourly_counts" } } },
        { "properties": { "rows": { "const": "durations" } },
          "if": { "required": ["low"] }, "then": { "required": ["high"] }, "else": { "required": ["age"] } }
      ],
      "additionalProperties": false,
      "properties": {
        "rows": { "enum": ["fleet", "hourly_counts", "durations"] },
        "name": { "type": "string", "description": "of the pool; {column} stands for the value of a column of group_by" },
        "source": { "type": "string" },
        "file": { "type": "string", "description": "CSV, relative to this file" },
        "fitted_on": { "type": "object", "description": "as in a spot pool" },
        "notice": { "$ref": "#/$defs/time" },
        "cap": { "$ref": "#/$defs/time", "description": "no machine lives longer" },
        "start_within": { "$ref": "#/$defs/time", "description": "a share of the machines may be lost within so long of its start" },
        "from": { "type": "string", "description": "fleet: time at which to begin; hourly_counts: column" },
        "slots": { "type": "integer", "minimum": 1, "maximum": 10000, "description": "fleet: machines that were asked for" },
        "resolution": { "$ref": "#/$defs/time", "description": "fleet: of its times" },
        "group_by": { "type": "array", "items": { "type": "string" }, "description": "a pool for each combination of values" },
        "where": { "type": "object", "additionalProperties": { "type": "string" }, "description": "only rows with these values" },
        "to": { "type": "string", "description": "hourly_counts: column" },
        "count": { "type": "string", "description": "hourly_counts: column with machines revoked at ages between from and to" },
        "instances": { "type": "string", "description": "hourly_counts: column with machines started" },
        "unit": { "$ref": "#/$defs/time", "default": "1s", "description": "hourly_counts: of the ages" },
        "age": { "type": "string", "description": "durations: column, in seconds" },
        "censored": { "type": "string", "description": "durations: column, 1 where the machine was not revoked" },
        "bin": { "$ref": "#/$defs/time", "default": "1s", "description": "durations: resolution of the ages" },
        "low": { "type": "string", "description": "durations, in place of age: column of the last age at which it was seen" },
        "high": { "type": "string", "description": "durations, with low: column of the first at which it was gone, empty if it never was" },
        "hours": { "type": "object", "required": ["file", "hour", "count"], "additionalProperties": false, "description": "revocations by the hour of the day",
          "dependentRequired": { "utc_offset_by": ["utc_offset_h"] },
          "properties": {
            "file": { "type": "string" }, "hour": { "type": "string" }, "count": { "type": "string" },
            "group_by": { "type": "array", "items": { "type": "string" } },
            "utc_offset_by": { "type": "string", "description": "column by whose values utc_offset_h is stated" },
            "utc_offset_h": { "anyOf": [{ "type": "number", "minimum": -14, "maximum": 14 }, { "type": "object", "additionalProperties": { "type": "number" } }] } } }
      } } }
  })json");
}

std::string training_log_study_schema() {
  return file_schema({.title = "Rehearse study of training logs",
                      .description = "steps and losses of workers; calibrate fits what provision needs of a workload",
                      .required = {"kind", "logs"}},
                     R"json({
    "kind": { "const": "training_logs" },
    "logs": { "type": "array", "minItems": 1, "items": { "type": "object", "required": ["file"],
      "if": { "required": ["line"] },
      "then": { "required": ["cluster", "worker", "instance", "batch"] },
      "else": { "additionalProperties": false, "properties": { "file": {} } },
      "additionalProperties": false,
      "properties": {
        "file": { "type": "string", "description": "relative to this file, may be compressed (.gz): a table of entries (CSV), or with line the text that one worker has logged" },
        "line": { "type": "string", "description": "what an entry looks like, with {step}, {time} and more in place of its values" },
        "cluster": { "type": "string" }, "worker": { "type": "string" }, "instance": { "type": "string" },
        "gpus": { "type": "integer", "minimum": 1, "maximum": 64, "default": 1 },
        "batch": { "type": "integer", "minimum": 1, "maximum": 1000000 },
        "steps_per_entry": { "type": "integer", "minimum": 1, "maximum": 1000000, "default": 1 } } } },
    "parameters": { "$ref": "#/$defs/size" },
    "required_bandwidth": { "$ref": "#/$defs/rate" },
    "server_bandwidth": { "$ref": "#/$defs/rate" },
    "pcie_bandwidth": { "$ref": "#/$defs/rate" },
    "uses_spread": { "type": "boolean", "default": false, "description": "fit spread_offset of the loss" },
    "skip_first": { "type": "integer", "minimum": 0, "maximum": 1000000, "description": "entries of each worker" },
    "skip_last": { "type": "integer", "minimum": 0, "maximum": 1000000 }
  })json");
}

std::string kernel_study_schema() {
  return file_schema(
      {.title = "Rehearse study of kernels",
       .description = "times of single kernels; validate predicts each GPU by a fit to the others, calibrate "
                      "fits the formulas' values to all",
       .required = {"kind", "tables", "leave_out"}},
      R"json({
    "kind": { "const": "kernels" },
    "leave_out": { "enum": ["gpu", "multiprocessor", "architecture", "nothing"], "description": "what is predicted by a fit to the others; multiprocessor: GPUs of an architecture with as many cores in each; nothing: all rows are predicted by a profile" },
    "profile": { "type": "string", "description": "of the catalog, with leave_out nothing: what predicts all rows, as it is" },
    "tables": { "type": "array", "minItems": 1, "items": { "type": "object",
      "required": ["file", "kernel", "gpu", "sizes", "precision", "time"], "additionalProperties": false,
      "properties": {
        "file": { "type": "string", "description": "CSV, relative to this file, may be compressed (.gz); rows of the same kernel and GPU count as one, with their median" },
        "kernel": { "enum": ["product", "convolution", "transformer", "transformer_training", "unary", "binary", "copy", "reduction", "softmax", "softmax_backward", "layer_norm", "layer_norm_backward", "embedding", "embedding_backward", "cross_entropy", "sgd", "momentum", "adam", "batch_norm", "batch_norm_backward", "gelu", "gelu_backward", "pooling", "pooling_backward"] },
        "name": { "type": "string", "description": "what it is called in results; default: folder and file, and kernel" },
        "pass": { "enum": ["forward", "data", "weights"], "default": "forward", "description": "of a convolution" },
        "harness": { "type": "string", "description": "for tables that were measured alike: what gap and floor are fitted for" },
        "gpu": { "anyOf": [{ "type": "string", "description": "GPU of the catalog that measured all rows" },
          { "type": "object", "required": ["column", "names"], "additionalProperties": false, "properties": {
            "column": { "type": "string" },
            "names": { "type": "object", "description": "GPU of the catalog by value of the column; other rows are left out", "additionalProperties": { "type": "string" } } } }] },
        "groups": { "type": "array", "items": { "type": "string" }, "description": "columns; errors are told of the rows of each of their values, too" },
        "sizes": { "type": "object", "description": "column or number by size: of a product m, n, k, batch; of others rows, columns; of a convolution batch, in_channels, out_channels, height, width, kernel_height and more", "additionalProperties": {
          "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 0, "maximum": 1000000000 }] } },
        "precision": { "enum": ["fp32", "tf32", "fp16", "bf16", "fp8"] },
        "time": { "type": "object", "required": ["column", "unit"], "additionalProperties": false, "properties": {
          "column": { "type": "string" }, "unit": { "enum": ["s", "ms", "us"] } } },
        "power": { "type": "string", "description": "of products: column of the board's power in W, which is predicted with the measured time" },
        "where": { "type": "object", "description": "values that a row must have one of, by column", "additionalProperties": { "type": "array", "items": { "type": "string" } } }
      } } }
  })json");
}

}  // namespace rehearse
