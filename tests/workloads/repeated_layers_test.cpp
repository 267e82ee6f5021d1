// Layers that are copies of one that is built, against all of them built.

#include "workloads/repeated_layers.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/llama_structure.hpp"
#include "tests/support/paths.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/overlapped_exchanges.hpp"

namespace rehearse {

namespace {

/// With all layers built.
Workload in_full(const ModelDescription& model, int batch) {
  GraphBuilder graph{"m.json", model.name,       model.layout,
                     batch,    Precision::kBf16, {model.split, model.context, model.expert_split}};
  const auto outputs =
      build(graph, std::get<Transformer>(model.structure),
            {.again = model.again, .adapters = model.adapters, .fp8 = model.fp8, .wide_layers = model.wide_layers});
  Workload workload = graph.finish(outputs, model.has_fused_loss, model.has_composed_loss);
  return model.split.is_asynchronous ? overlap_exchanges(std::move(workload), model.split.degree) : workload;
}

Workload repeated(const ModelDescription& model, int batch) {
  return build_workload(model, batch, Precision::kBf16, "m.json");
}

/// The first vertex in which both differ; -1: none.
int first_difference(const Workload& a, const Workload& b) {
  for (std::size_t v = 0; v < std::min(a.graph.size(), b.graph.size()); ++v)
    if (a.graph[v].whole() != b.graph[v].whole()) return static_cast<int>(v);
  return a.graph.size() == b.graph.size() ? -1 : static_cast<int>(std::min(a.graph.size(), b.graph.size()));
}

/// Checks that; returns whether layers are copies.
bool check_equal(const ModelDescription& model, int batch = 2) {
  const Workload copied = repeated(model, batch), full = in_full(model, batch);
  CHECK(copied.variables == full.variables);
  const int difference = first_difference(copied, full);
  if (difference >= 0 && difference < static_cast<int>(copied.graph.size()))
    CAPTURE(copied.graph[static_cast<std::size_t>(difference)].name());
  CHECK(difference == -1);
  CHECK(copied.graph.edges() == full.graph.edges());
  CHECK(copied.activation_bytes == full.activation_bytes);
  CHECK(copied.recomputed_bytes == full.recomputed_bytes);
  CHECK(copied.logits_bytes == full.logits_bytes);
  CHECK(copied.input_bytes == full.input_bytes);
  return copied.graph.stored_size() < copied.graph.size();
}

ModelDescription small(int layers, Json other = Json::object()) {
  Json sizes{{"layers", layers},    {"width", 64},      {"heads", 4},           {"kv_heads", 4},
             {"feed_forward", 128}, {"vocabulary", 64}, {"sequence_length", 16}};
  sizes.update(other);
  return test::model_of(test::llama_structure(sizes));
}

const Json kMixture{{"experts", 4}, {"experts_per_token", 2}, {"expert_feed_forward", 32}, {"grouped_experts", true}};

}  // namespace

TEST_CASE("of alike layers one is stored, however many they are") {
  const std::size_t few = repeated(small(8), 1).graph.stored_size();
  for (const int layers : {6, 9, 100, 1000}) {
    const Workload workload = repeated(small(layers), 1);
    CHECK(workload.graph.stored_size() == few);
    CHECK(workload.graph.size() - few == (workload.graph.size() - in_full(small(4), 1).graph.size()));
  }
  CHECK(repeated(small(5), 1).graph.stored_size() == in_full(small(5), 1).graph.size());
}

TEST_CASE("copies of layers are what is built without them: any traits, recomputation, precision and adapters") {
  for (const int layers : {5, 6, 7, 12}) CHECK(check_equal(small(layers)) == (layers > 5));
  for (const char* normalisation : {"pre", "post", "sandwich"})
    CHECK(check_equal(small(9, {{"normalisation", normalisation}})));
  CHECK(check_equal(small(9, {{"shared_layers", true}})));
  CHECK(check_equal(small(9, {{"fused_attention", false}})));
  CHECK(check_equal(small(9, {{"tied_embedding", true}, {"dropout", true}, {"joint_projection", true}})));
  CHECK(check_equal(small(9, {{"rotary_positions", false}, {"relative_positions", 32}, {"fused_attention", false}})));
  ModelDescription model = small(9);
  for (bool Recomputation::*again :
       {&Recomputation::layers, &Recomputation::core_attention, &Recomputation::every_second_product,
        &Recomputation::norms, &Recomputation::activations, &Recomputation::feed_forward}) {
    model.again = {};
    model.again.*again = true;
    CHECK(check_equal(model));
  }
  model.again = {};
  for (const Fp8 fp8 : {Fp8::kDelayed, Fp8::kMx, Fp8::kNvfp4})
    for (const int wide : {0, 2, 7}) {
      model.fp8 = fp8;
      model.wide_layers = wide;
      CHECK(check_equal(model));
    }
  model = small(9);
  model.adapters = {.rank = 4, .attention = true, .feed_forward = true};
  CHECK(check_equal(model));
}

TEST_CASE("copies of layers are what is built without them: held by several GPUs, and mixtures of experts") {
  for (const bool has_parts : {false, true})
    for (const bool is_asynchronous : {false, true}) {
      ModelDescription model = small(9);
      model.split = {.degree = 2, .has_sequence_parts = has_parts};
      model.split.is_asynchronous = has_parts && is_asynchronous;
      CHECK(check_equal(model));
    }
  ModelDescription context = small(9);
  context.context.positions = 2;
  CHECK(check_equal(context));
  for (const Json& other : {Json{{"dense_layers", 2}}, Json{{"dense_layers", 7}}, Json{{"expert_period", 2}},
                            Json{{"shared_feed_forward", 32}}}) {
    const bool are_in_turns = other.contains("expert_period");  // with layers of two kinds
    Json mixture = kMixture;
    mixture.update(other);
    for (const int degree : {1, 2}) {
      ModelDescription model = small(15, mixture);
      model.expert_split.degree = degree;
      CHECK(check_equal(model) == !are_in_turns);
      model.expert_split.zipf = 1;  // each layer has loads of its own where there are several GPUs
      CHECK(check_equal(model) == (!are_in_turns && degree == 1));
    }
  }
}

TEST_CASE("every transformer that ships is what is built of it layer by layer; those of many layers are copies") {
  const std::filesystem::path folder = source_folder() + "/workloads/models";
  int copied = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator{folder}) {
    if (file.path().extension() != ".json") continue;
    const std::string name = file.path().stem().string();
    const ModelDescription model = read_model(name, JsonReader{load_json_file(file.path().string()), name});
    const auto* net = std::get_if<Transformer>(&model.structure);
    if (net == nullptr) continue;
    CAPTURE(name);
    const bool is_copied = check_equal(model, 1);
    CHECK(is_copied == (net->layers >= AlikeLayers::kFewest));
    copied += is_copied ? 1 : 0;
  }
  CHECK(copied > 20);
}

}  // namespace rehearse
