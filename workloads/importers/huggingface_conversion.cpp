#include "workloads/importers/huggingface_conversion.hpp"

namespace rehearse::huggingface {

std::string_view Conversion::name_of(std::string_view names) const {
  std::string_view found;
  for_each_word(names, [&](std::string_view name) {
    if (!has(name)) return;
    if (!found.empty() && config.child(name).value() != config.child(found).value())
      config.fail(name, "another size than " + std::string{found} + ", which is the same of this model type");
    found = name;
  });
  return found;
}

int Conversion::size(const Size& size) const {
  if (const std::string_view name = name_of(size.names); !name.empty()) return read_size(config, name);
  const std::string text = std::string{size.names.substr(0, size.names.find(' '))} + " " + std::to_string(size.usual);
  if (std::ranges::find(defaults, text) == defaults.end()) defaults.push_back(text);
  return size.usual;
}

int Conversion::size_or(std::string_view names, int other) const {
  const std::string_view name = name_of(names);
  return name.empty() ? other : read_size(config, name);
}

bool Conversion::has_dropout(std::string_view names, double fallback) const {
  double highest = 0;
  for_each_word(names, [&](std::string_view name) {
    highest = std::max(highest, has(name) ? config.required<double>(name) : fallback);
  });
  return highest > 0;
}

void Conversion::set_sequence_length(int longest) {
  structure["sequence_length"] = std::min(longest, kLongestSequence);
  if (longest > kLongestSequence)
    remarks.push_back("sequence_length is " + std::to_string(kLongestSequence) + "; the model takes up to " +
                      std::to_string(longest));
}

void Conversion::set_activation() {
  constexpr std::string_view kNames = "hidden_act activation_function hidden_activation dense_act_fn feed_forward_proj";
  std::string activation = type == "opt" || type == "m2m_100" || type == "t5" ? "relu" : "";
  for_each_word(kNames, [&](std::string_view name) {
    if (has(name) && config.child(name).value().is_string()) activation = config.required<std::string>(name);
  });
  if (structure.contains("feed_forward") && (activation == "relu" || activation == "gated-relu"))
    structure["activation"] = "relu";
}

int Conversion::labels(int usual) {
  if (has("id2label")) {
    const JsonReader labels = config.child("id2label");
    labels.expect(labels.is_object() && !labels.value().empty(), "an object with a key for each label");
    if (has("num_labels") && size("num_labels", usual) != static_cast<int>(labels.value().size()))
      remarks.emplace_back("num_labels is not as many as id2label has, which count");
    return static_cast<int>(labels.value().size());
  }
  return size("num_labels", usual);
}

void Conversion::set_head(bool is_tied, bool is_causal) {
  structure["head"] = made.head;
  if (made.head == "bert_pretraining") structure["predictions"] = structure["sequence_length"];
  if (made.classes != 0) {
    structure["classes"] = made.classes == kLabels ? labels(type == "bart" ? 3 : 2) : made.classes;
    structure["class_biases"] =
        made.has_class_biases && (made.suffix != "ForTokenClassification" || flag("token_classification_bias", true));
  }
  if (made.has_class_layer) structure["class_layer"] = true;
  if (made.classified_tokens > 1) structure["classified_tokens"] = made.classified_tokens;
  const bool has_logits =
      made.head == "language_model" || made.head == "masked_language_model" || made.head == "bert_pretraining";
  const bool ties = flag("tie_word_embeddings", is_tied);
  if (has_logits) structure["tied_embedding"] = ties;
  structure["causal"] = is_causal;
  if (made.head == "hidden_states") remarks.emplace_back("no head: the loss is on what the last layer gives");
}

}  // namespace rehearse::huggingface
