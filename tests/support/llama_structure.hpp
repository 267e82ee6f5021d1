#pragma once
// Models as Llama's, of any size.

#include <nlohmann/json.hpp>

#include "workloads/model_zoo.hpp"

namespace rehearse::test {

/// Without sizes, which `more` has.
inline Json llama_structure(const Json& more) {
  Json structure{{"family", "transformer"},      {"normalisation", "pre"},     {"rms_norm", true},
                 {"rotary_positions", true},     {"gated_feed_forward", true}, {"attention_biases", false},
                 {"feed_forward_biases", false}, {"fused_attention", true},    {"dropout", false},
                 {"tied_embedding", false},      {"head", "language_model"}};
  structure.update(more);
  return structure;
}

/// The model of a structure, under the name "m".
inline ModelDescription model_of(const Json& structure) {
  return read_model("m", JsonReader{Json{{"format", 1}, {"source", "test"}, {"structure", structure}}, "m.json"});
}

}  // namespace rehearse::test
