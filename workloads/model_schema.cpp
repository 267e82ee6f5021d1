// What a model file holds.

#include <string>
#include <string_view>

#include "workloads/convergence.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

constexpr std::string_view kConvergence = "@convergence@";
constexpr std::string_view kModelSchema = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Rehearse model",
  "type": "object",
  "required": ["format", "source", "structure"],
  "if": { "required": ["structure"], "properties": { "structure": { "required": ["family"], "properties": { "family": {
    "enum": ["resnet_v2_basic", "shake_shake_2branch", "resnet", "densenet", "mobilenet_v2", "yolo_v3", "layers"] } } } } },
  "then": { "required": ["input"] },
  "else": { "properties": { "input": false },
    "if": { "required": ["structure"], "properties": { "structure": { "required": ["family"], "properties": { "family": { "const": "graph" } } } } },
    "else": { "properties": { "layout": false } } },
  "additionalProperties": false,
  "properties": {
    "format": { "const": 1 },
    "name": { "type": "string", "description": "for a model inside a scenario; a model file is named by its path" },
    "source": { "type": "string", "description": "where the structure comes from" },
    "input": { "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": 65536 }, "minItems": 3, "maxItems": 3,
               "description": "[height, width, channels] of one sample, for images" },
    "layout": { "enum": ["NCHW", "NHWC"], "default": "NCHW", "description": "for images" },
    "convergence": {
      "description": "as a scenario's workload has it, which goes before this one; or { \"missing\": why there is none although losses were published }",
      "anyOf": [
        { "type": "object", "required": ["missing"], "additionalProperties": false, "properties": { "missing": { "type": "string", "minLength": 1 } } },
        @convergence@ ] },
    "structure": {
      "type": "object",
      "oneOf": [
        { "required": ["family", "blocks_per_stage", "widths"],
          "additionalProperties": false,
          "properties": {
            "family": { "enum": ["resnet_v2_basic", "shake_shake_2branch"] },
            "blocks_per_stage": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
            "widths": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
            "stem_channels": { "type": "integer", "minimum": 1, "default": 16 },
            "stem_kernel": { "type": "integer", "minimum": 1 },
            "classes": { "type": "integer", "minimum": 1, "default": 10 } } },
        { "required": ["family", "block", "blocks_per_stage", "widths"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "resnet" },
            "block": { "enum": ["basic", "bottleneck"] },
            "blocks_per_stage": { "$ref": "#/$defs/extents" },
            "widths": { "$ref": "#/$defs/extents" },
            "stem": { "enum": ["imagenet", "small"], "default": "imagenet", "description": "7x7 with stride 2 and max pooling, or 3x3" },
            "stem_channels": { "type": "integer", "minimum": 1, "default": 64 },
            "skip": { "enum": ["projection", "padding"], "default": "projection", "description": "where shapes differ" },
            "strides_in_3x3": { "type": "boolean", "default": true, "description": "v1.5; false: in the first 1x1, as in the paper" },
            "biases": { "type": "boolean", "default": false, "description": "of convolutions, which batch normalisation follows" },
            "classes": { "type": "integer", "minimum": 1, "default": 1000 } } },
        { "required": ["family", "layers_per_block"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "densenet" },
            "layers_per_block": { "$ref": "#/$defs/extents" },
            "growth": { "type": "integer", "minimum": 1, "default": 32 },
            "stem_channels": { "type": "integer", "minimum": 1, "default": 64 },
            "classes": { "type": "integer", "minimum": 1, "default": 1000 } } },
        { "required": ["family", "blocks_per_stage", "widths", "expansions", "strides"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "mobilenet_v2" },
            "blocks_per_stage": { "$ref": "#/$defs/extents" },
            "widths": { "$ref": "#/$defs/extents" },
            "expansions": { "$ref": "#/$defs/extents" },
            "strides": { "$ref": "#/$defs/extents" },
            "stem_channels": { "type": "integer", "minimum": 1, "default": 32 },
            "head_channels": { "type": "integer", "minimum": 1, "default": 1280 },
            "classes": { "type": "integer", "minimum": 1, "default": 1000 } } },
        { "required": ["family", "blocks_per_stage"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "yolo_v3" },
            "blocks_per_stage": { "$ref": "#/$defs/extents" },
            "stem_channels": { "type": "integer", "minimum": 1, "default": 32 },
            "classes": { "type": "integer", "minimum": 1, "default": 80 } } },
        { "required": ["family", "layers"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "layers" },
            "layers": { "$ref": "#/$defs/layers" } } },
        { "required": ["family", "layers"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "graph" },
            "layers": { "type": "array", "minItems": 1, "maxItems": 100000, "items": { "$ref": "#/$defs/graph_layer" } },
            "outputs": { "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "with a loss on each; all layers that none reads, unless given" } } },
        { "required": ["family", "layers", "width", "heads", "feed_forward", "normalisation", "head"],
          "allOf": [
            { "if": { "required": ["head"], "properties": { "head": { "const": "bert_pretraining" } } },
              "then": { "required": ["predictions"] }, "else": { "properties": { "predictions": false } } },
            { "if": { "required": ["head"], "properties": { "head": { "enum": ["token_classes", "sequence_classes", "first_classes"] } } },
              "then": { "required": ["classes"] }, "else": { "properties": { "classes": false, "class_biases": false } } },
            { "if": { "required": ["head"], "properties": { "head": { "const": "token_classes" } } },
              "else": { "properties": { "class_layer": false } } },
            { "if": { "required": ["head"], "properties": { "head": { "const": "first_classes" } } },
              "else": { "properties": { "classified_tokens": false } } },
            { "if": { "required": ["head"], "properties": { "head": { "const": "language_model" } } },
              "else": { "properties": { "logits_bias": false } } },
            { "if": { "required": ["decoder_layers"], "properties": { "decoder_layers": { "minimum": 1 } } },
              "else": { "properties": { "decoder_positions": false, "decoder_sequence_length": false } } },
            { "if": { "required": ["embedding_width"] }, "else": { "properties": { "embedding_projection": false } } },
            { "if": { "anyOf": [ { "required": ["images"] }, { "required": ["waveform"] } ] },
              "then": { "properties": { "sequence_length": false } }, "else": { "required": ["sequence_length"] } },
            { "if": { "anyOf": [ { "required": ["images"] }, { "required": ["waveform"] }, { "required": ["spectrogram"] } ] },
              "then": { "properties": { "embedding_width": false, "token_types": false } }, "else": { "required": ["vocabulary"] } } ],
          "dependentRequired": { "experts": ["experts_per_token"], "experts_per_token": ["experts"], "shared_norm": ["parallel_sublayers"],
            "query_key_scales": ["query_key_norms"], "query_key_norm_scales": ["query_key_norms"], "expert_feed_forward": ["experts"], "expert_biases": ["experts"], "shared_feed_forward": ["experts"],
            "shared_gate": ["experts"], "dense_layers": ["experts"], "expert_period": ["experts"], "router_bias": ["experts"],
            "grouped_experts": ["experts"], "weighted_inner": ["experts"] },
          "additionalProperties": false,
          "properties": {
            "family": { "const": "transformer" },
            "layers": { "type": "integer", "minimum": 1, "maximum": 1000 },
            "decoder_layers": { "type": "integer", "minimum": 0, "maximum": 1000, "default": 0, "description": "of a second stack that attends to the first" },
            "width": { "$ref": "#/$defs/extent" },
            "heads": { "$ref": "#/$defs/extent" },
            "feed_forward": { "$ref": "#/$defs/extent" },
            "experts": { "$ref": "#/$defs/extent", "description": "feed-forward layers of a layer, all of them on each worker; one, unless given" },
            "experts_per_token": { "$ref": "#/$defs/extent", "description": "through how many of the experts a token passes; goes with experts" },
            "expert_feed_forward": { "$ref": "#/$defs/extent", "description": "inner features of an expert; feed_forward, unless given, which layers without experts have" },
            "expert_biases": { "type": "boolean", "description": "of the experts' products; as feed_forward_biases, unless given" },
            "shared_feed_forward": { "$ref": "#/$defs/extent", "description": "inner features of a dense part beside the experts, which all tokens pass: of all shared experts together" },
            "shared_gate": { "type": "boolean", "default": false, "description": "its output is multiplied by a sigmoid of a product for each token, as in Qwen2-MoE; goes with shared_feed_forward" },
            "dense_layers": { "type": "integer", "minimum": 0, "default": 0, "description": "the first layers, without experts" },
            "expert_period": { "$ref": "#/$defs/extent", "description": "1: all other layers have experts; 2: every second layer, as in Llama 4 Maverick: those whose number, from 1, it divides" },
            "router_bias": { "type": "boolean", "default": false, "description": "a number for each expert that its score is corrected by; counted as trained" },
            "grouped_experts": { "type": "boolean", "default": false, "description": "each product of all experts is one kernel with one variable [experts, in, out], as training runs them; tokens are put in the order of their experts and back. Without it experts run one after another" },
            "weighted_inner": { "type": "boolean", "default": false, "description": "tokens' weights are multiplied with the experts' inner values, by the kernel of the gates, instead of with their outputs, which need not be kept then, as in Megatron-LM; goes with grouped_experts" },
            "vocabulary": { "$ref": "#/$defs/extent" },
            "positions": { "$ref": "#/$defs/extent", "description": "rows of a learned table; computed without" },
            "token_types": { "$ref": "#/$defs/extent", "description": "rows of a learned table" },
            "embedding_width": { "$ref": "#/$defs/extent", "description": "of a word, as wide as the model unless given" },
            "embedding_projection": { "enum": ["words", "sum"], "description": "what a matrix makes as wide as the model: words, whose last states another makes narrow again, or their normalised sum with positions and types, with a bias" },
            "sequence_length": { "$ref": "#/$defs/extent", "description": "of what the encoder reads; of images and waveform it follows" },
            "decoder_positions": { "$ref": "#/$defs/extent", "description": "rows of the decoder's table; as positions, unless given" },
            "decoder_sequence_length": { "$ref": "#/$defs/extent", "description": "as sequence_length, unless given" },
            "images": { "type": "object", "required": ["size", "patch"], "additionalProperties": false, "description": "which the encoder reads instead of words, by patches",
              "properties": { "size": { "$ref": "#/$defs/extent", "description": "height and width" }, "channels": { "$ref": "#/$defs/extent" },
                "patch": { "$ref": "#/$defs/extent", "description": "height and width of what becomes a position" },
                "class_tokens": { "type": "integer", "minimum": 0, "maximum": 2, "default": 1, "description": "learned positions before the patches" },
                "biases": { "type": "boolean", "default": true } } },
            "spectrogram": { "type": "object", "required": ["bins"], "additionalProperties": false, "description": "which the encoder reads instead of words, through two convolutions, at twice its positions",
              "properties": { "bins": { "$ref": "#/$defs/extent" } } },
            "waveform": { "type": "object", "required": ["samples", "widths", "kernels", "strides", "position_kernel", "position_groups"], "additionalProperties": false, "description": "which the encoder reads instead of words, through convolutions",
              "properties": { "samples": { "$ref": "#/$defs/extent" },
                "widths": { "type": "array", "minItems": 1, "maxItems": 100, "items": { "$ref": "#/$defs/extent" } },
                "kernels": { "type": "array", "minItems": 1, "maxItems": 100, "items": { "$ref": "#/$defs/extent" } },
                "strides": { "type": "array", "minItems": 1, "maxItems": 100, "items": { "$ref": "#/$defs/extent" } },
                "biases": { "type": "boolean", "default": false },
                "normalises_all": { "type": "boolean", "default": false, "description": "after each convolution; or after the first" },
                "normalises_features": { "type": "boolean", "default": true, "description": "before they become as wide as the model" },
                "mask": { "type": "boolean", "default": true, "description": "a learned vector stands for what is masked" },
                "position_kernel": { "$ref": "#/$defs/extent", "description": "of the convolution that gives the positions" },
                "position_groups": { "$ref": "#/$defs/extent" } } },
            "normalisation": { "enum": ["pre", "post", "sandwich", "reordered"], "description": "of a sublayer's input, of the sum with it, of input and output, of the output" },
            "norm_scales": { "type": "boolean", "default": true },
            "norm_biases": { "type": "boolean", "default": true, "description": "of layer normalisations" },
            "normalises_embeddings": { "type": "boolean", "default": false },
            "kv_heads": { "$ref": "#/$defs/extent", "description": "of keys and values; heads, unless given" },
            "head_features": { "$ref": "#/$defs/extent", "description": "width / heads, unless given" },
            "rms_norm": { "type": "boolean", "default": false, "description": "instead of layer normalisation" },
            "attention_biases": { "type": "boolean", "default": true, "description": "of queries, keys and values" },
            "key_biases": { "type": "boolean", "default": true, "description": "where queries and values have them" },
            "attention_output_bias": { "type": "boolean", "description": "as attention_biases, unless given" },
            "feed_forward_biases": { "type": "boolean", "default": true },
            "gated_feed_forward": { "type": "boolean", "default": false, "description": "three matrices instead of two, as SwiGLU" },
            "joint_gates": { "type": "boolean", "default": false, "description": "two of the three are one variable and one product, as in Megatron-LM and vLLM; goes with gated_feed_forward" },
            "fused_gates": { "type": "boolean", "default": false, "description": "activation and product with it are one kernel, which keeps what it reads and nothing else; goes with gated_feed_forward" },
            "rotary_positions": { "type": "boolean", "default": false, "description": "turned into queries and keys" },
            "alibi": { "type": "boolean", "default": false, "description": "a computed bias by distance, added to the scores" },
            "relative_positions": { "$ref": "#/$defs/extent", "description": "rows of a learned table that is added to the scores of a stack" },
            "disentangled_positions": { "$ref": "#/$defs/extent", "description": "rows of a normalised table that the layers make keys and queries of, as DeBERTa" },
            "latent_attention": { "type": "object", "required": ["key_value_latent", "rotary_features", "plain_features", "value_features"], "additionalProperties": false, "description": "multi-head latent attention, as DeepSeek-V2: queries, and keys with values, are made of normalised latents",
              "properties": { "query_latent": { "$ref": "#/$defs/extent", "description": "features that queries are made of; the input, unless given" },
                "key_value_latent": { "$ref": "#/$defs/extent" },
                "rotary_features": { "$ref": "#/$defs/extent", "description": "of each head's queries and keys, one for all heads in keys, that positions are turned into" },
                "plain_features": { "$ref": "#/$defs/extent", "description": "the other ones of each head's queries and keys" },
                "value_features": { "$ref": "#/$defs/extent", "description": "of each head's values" } } },
            "attention_sinks": { "type": "boolean", "default": false, "description": "each head has a learned score beside those of the keys, as gpt-oss" },
            "fused_attention": { "type": "boolean", "default": false, "description": "scores, mask, softmax, dropout and sum of the values are one kernel, as FlashAttention, and no scores are kept" },
            "query_key_norms": { "type": "boolean", "default": false, "description": "queries and keys of each head are normalised" },
            "query_key_norm_scales": { "type": "boolean", "default": true, "description": "false: without scales, as in Llama 4; goes with query_key_norms" },
            "query_key_scales": { "type": "boolean", "default": false, "description": "by a scale for each feature of all heads, instead of one for all heads" },
            "causal": { "type": "boolean", "description": "a position sees none after it, which only fused_attention saves; of language models of one stack, unless given" },
            "parallel_sublayers": { "type": "boolean", "default": false, "description": "attention and feed-forward layer read the same" },
            "shared_norm": { "type": "boolean", "default": false, "description": "behind one normalisation; goes with parallel_sublayers" },
            "shared_layers": { "type": "boolean", "default": false, "description": "all layers have the variables of the first" },
            "dropout": { "type": "boolean", "default": true },
            "tied_embedding": { "type": "boolean", "default": true, "description": "its matrix also gives the logits" },
            "logits_bias": { "type": "boolean", "default": false, "description": "of a language_model" },
            "joint_projection": { "type": "boolean", "default": false, "description": "queries, keys and values are one variable" },
            "copies_values": { "type": "boolean", "default": false, "description": "values are copied out of the joint projection, or that of latent_attention, which need not be kept as a whole, as Transformer Engine does" },
            "head": { "enum": ["language_model", "masked_language_model", "pooler", "bert_pretraining", "hidden_states", "token_classes", "sequence_classes", "first_classes"] },
            "classes": { "$ref": "#/$defs/extent", "description": "that token_classes tells apart at every position, sequence_classes behind a pooler, and first_classes on the first position" },
            "class_layer": { "type": "boolean", "default": false, "description": "a dense layer before token_classes" },
            "classified_tokens": { "$ref": "#/$defs/extent", "description": "each with first_classes of its own; one, unless given" },
            "class_biases": { "type": "boolean", "default": true, "description": "one for each class" },
            "predictions": { "$ref": "#/$defs/extent", "description": "masked positions of bert_pretraining" } } },
        { "required": ["family", "text", "image", "projection"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "two_towers" },
            "text": { "type": "object", "description": "keys of a transformer of words" },
            "image": { "type": "object", "description": "keys of a transformer of images" },
            "projection": { "$ref": "#/$defs/extent", "description": "features that both are compared by" } } },
        { "required": ["family", "vocabulary", "embedding", "hidden", "layers", "sequence_length"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "lstm_language_model" },
            "vocabulary": { "$ref": "#/$defs/extent" },
            "embedding": { "$ref": "#/$defs/extent" },
            "hidden": { "$ref": "#/$defs/extent" },
            "layers": { "type": "integer", "minimum": 1, "maximum": 1000 },
            "sequence_length": { "$ref": "#/$defs/extent" } } },
        { "required": ["family", "vocabulary", "hidden", "encoder_layers", "decoder_layers", "sequence_length"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "gnmt" },
            "vocabulary": { "$ref": "#/$defs/extent" },
            "hidden": { "$ref": "#/$defs/extent" },
            "encoder_layers": { "type": "integer", "minimum": 2, "maximum": 1000 },
            "decoder_layers": { "type": "integer", "minimum": 2, "maximum": 1000 },
            "sequence_length": { "$ref": "#/$defs/extent" } } },
        { "required": ["family", "dense_features", "tables", "embedding", "bottom", "top"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "dlrm" },
            "dense_features": { "$ref": "#/$defs/extent" },
            "tables": { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 1, "maxItems": 10000, "description": "rows of each" },
            "embedding": { "$ref": "#/$defs/extent" },
            "bottom": { "$ref": "#/$defs/extents" },
            "top": { "$ref": "#/$defs/extents" } } },
        { "required": ["family", "bytes"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "collective" },
            "bytes": { "type": "integer", "minimum": 1, "maximum": 1099511627776, "description": "of one tensor that is exchanged in every step, without compute" },
            "operation": { "enum": ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"], "default": "all_reduce", "description": "others are for studies of collective_time_s alone" } } },
        { "required": ["family", "batch", "layers"],
          "additionalProperties": false,
          "properties": {
            "family": { "const": "timed_layers" },
            "batch": { "type": "integer", "minimum": 1, "maximum": 65536, "description": "samples with which the times were measured" },
            "scales_with_batch": { "type": "boolean", "default": false, "description": "with another batch times are in proportion; otherwise it is refused" },
            "optimizer_time": { "type": "string", "default": "0s", "description": "of one update of all variables" },
            "whole_step": { "type": "boolean", "default": false, "description": "the times are those of a whole step, to which nothing of the profile's host or optimizers is added" },
            "gpu": { "type": "string", "description": "on which they were measured; on another they count as they are, with a warning" },
            "layers": { "type": "array", "items": {
              "type": "object",
              "required": ["name", "gradient", "forward", "backward"],
              "additionalProperties": false,
              "properties": {
                "name": { "type": "string" },
                "gradient": { "type": "string", "description": "bytes at 4 per scalar, 0B without parameters" },
                "forward": { "type": "string" }, "backward": { "type": "string" },
                "output": { "type": "string", "description": "bytes at 4 per scalar that a batch's layer passes on to the next, which keeps them for its backward pass; needed where a pipeline is cut" },
                "kept": { "type": "string", "description": "bytes at 4 per scalar that it keeps of a batch for its backward pass; what it reads, unless given" } } } } } }
      ]
    }
  },
  "$defs": {
    "extent": { "type": "integer", "minimum": 1, "maximum": 1048576 },
    "extents": { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 1, "maxItems": 100 },
    "graph_layer": {
      "type": "object",
      "required": ["name", "layer"],
      "additionalProperties": false,
      "properties": {
        "name": { "type": "string" },
        "layer": { "enum": ["input", "identifiers", "parameter", "convolution", "transposed_convolution", "linear", "product", "attention",
                            "batch_norm", "group_norm", "layer_norm", "rms_norm", "activation", "dropout", "max_pool", "average_pool",
                            "global_average_pool", "add", "multiply", "elementwise", "concatenate", "embedding", "reshape", "copy", "part", "lstm", "gru", "rnn"] },
        "inputs": { "type": "array", "items": { "type": "string" }, "description": "layers before this one; of attention queries, keys, values [heads, positions, features], and perhaps a mask" },
        "shape": { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 1, "maxItems": 8,
                   "description": "of one sample's output; images are [channels, height, width] in NCHW. Of input, identifiers, parameter, product, reshape (no kernel), copy (another order), part (no kernel); of others where it does not follow" },
        "channels": { "$ref": "#/$defs/extent" }, "kernel": { "$ref": "#/$defs/kernel" }, "stride": { "$ref": "#/$defs/stride" },
        "padding": { "$ref": "#/$defs/padding" }, "groups": { "$ref": "#/$defs/groups" },
        "features": { "$ref": "#/$defs/extent" }, "hidden": { "$ref": "#/$defs/extent" },
        "rows": { "type": "integer", "minimum": 1, "maximum": 68719476736, "description": "of an embedding" },
        "reduction": { "type": "integer", "minimum": 1, "maximum": 68719476736, "description": "of a product: terms of each result's sum" },
        "axis": { "type": "integer", "minimum": 0, "maximum": 7, "description": "of a concatenation; the channels', unless given" },
        "bias": { "type": "boolean", "default": true }, "scale": { "type": "boolean", "default": true, "description": "of a normalisation" },
        "shares": { "type": "string", "description": "a layer whose variables it uses" } } },
    "kernel": { "description": "a size, or [height, width]",
                "oneOf": [{ "type": "integer", "minimum": 1 },
                          { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 2, "maxItems": 2 }] },
    "stride": { "type": "integer", "minimum": 1, "description": "1 for a convolution, the kernel for pooling, unless given" },
    "padding": { "oneOf": [{ "enum": ["same", "valid"] }, { "type": "integer", "minimum": 0 }], "default": "same",
                 "description": "same: ceil(input / stride) outputs; valid: none; or positions on every side" },
    "groups": { "type": "integer", "minimum": 1, "default": 1, "description": "its input channels for a depthwise convolution" },
    "layers": { "type": "array", "items": {
      "type": "object",
      "required": ["layer"],
      "oneOf": [
        { "required": ["layer", "channels", "kernel"], "additionalProperties": false, "properties": {
            "layer": { "const": "convolution" }, "channels": { "$ref": "#/$defs/extent" }, "kernel": { "$ref": "#/$defs/kernel" },
            "stride": { "$ref": "#/$defs/stride" }, "padding": { "$ref": "#/$defs/padding" }, "groups": { "$ref": "#/$defs/groups" },
            "bias": { "type": "boolean", "default": false } } },
        { "required": ["layer", "channels", "kernel"], "additionalProperties": false, "properties": {
            "layer": { "const": "convolution_unit", "description": "convolution without bias, batch normalisation, ReLU" },
            "channels": { "$ref": "#/$defs/extent" }, "kernel": { "$ref": "#/$defs/kernel" },
            "stride": { "$ref": "#/$defs/stride" }, "padding": { "$ref": "#/$defs/padding" }, "groups": { "$ref": "#/$defs/groups" } } },
        { "required": ["layer", "features"], "additionalProperties": false, "properties": {
            "layer": { "const": "dense" }, "features": { "$ref": "#/$defs/extent" }, "bias": { "type": "boolean", "default": true } } },
        { "required": ["layer", "kernel"], "additionalProperties": false, "properties": {
            "layer": { "enum": ["max_pool", "average_pool"] }, "kernel": { "$ref": "#/$defs/kernel" },
            "stride": { "$ref": "#/$defs/stride" }, "padding": { "$ref": "#/$defs/padding" } } },
        { "required": ["layer", "branches"], "additionalProperties": false, "properties": {
            "layer": { "const": "branches" }, "combine": { "enum": ["add", "mix", "concatenate"], "default": "add" },
            "branches": { "type": "array", "minItems": 2, "maxItems": 1000, "items": { "$ref": "#/$defs/layers" },
                          "description": "lists of layers that start from the same tensor; an empty list passes it on" } } },
        { "required": ["layer", "times", "layers"], "additionalProperties": false, "properties": {
            "layer": { "const": "repeat" }, "times": { "type": "integer", "minimum": 1, "maximum": 1000 },
            "layers": { "$ref": "#/$defs/layers" } } },
        { "additionalProperties": false, "properties": { "layer": { "enum": ["batch_norm", "relu", "global_average_pool"] } } }
      ] } }
  }
}
)";

}  // namespace

std::string_view model_schema() {
  static const std::string text = [] {
    std::string schema{kModelSchema};
    return schema.replace(schema.find(kConvergence), kConvergence.size(), convergence_schema());
  }();
  return text;
}

}  // namespace rehearse
