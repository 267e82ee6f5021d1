#pragma once
// One configuration of transformers on its way to a model file: what its keys are asked for, and what was not there.

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "workloads/sizes.hpp"

namespace rehearse::huggingface {

/// What a class of transformers, such as LlamaForCausalLM, puts on the stacks of its model type.
struct ModelClass {
  std::string_view suffix;  // after the name that all classes of the type begin with
  std::string_view head;    // of a model of family "transformer"
  int classes = 0;          // of its head; kLabels: as many as the file has labels
  bool has_class_biases = true;
  bool has_decoder = true;       // false: the encoder of T5 alone
  bool has_class_layer = false;  // a dense layer before the classes of every position
  int classified_tokens = 1;
};
constexpr int kLabels = -1;

/// A size by its names in a file, between blanks, and what transformers takes where none is there.
struct Size {
  std::string_view names;
  int usual = 0;
};

/// A switch by its name in a file, and what transformers takes without it. Without a name it is always so.
struct Flag {
  const char* name = nullptr;
  bool usual = false;
};

constexpr int kLongestSequence = 4096;  // longer ones are trained with sequences parted among GPUs

/// One configuration on its way to a model of family "transformer".
struct Conversion {
  JsonReader config;
  std::string type{};
  ModelClass made{};
  Json structure{{"family", "transformer"}};
  std::vector<std::string> remarks{};
  mutable std::set<std::string, std::less<>> used{};  // keys that have been asked for
  mutable std::vector<std::string> defaults{};        // "vocab_size 32000": sizes that the file does not state

  /// A key that is null is not there.
  bool has(std::string_view key) const {
    used.emplace(key);
    return config.has(key) && !config.child(key).is_null();
  }
  int size(const Size& size) const;
  int size(std::string_view key, int usual) const { return size(Size{key, usual}); }
  /// Of keys that follow from others where none is there.
  int size_or(std::string_view names, int other) const;
  bool flag(std::string_view key, bool fallback) const { return has(key) ? config.required<bool>(key) : fallback; }
  bool flag(const Flag& flag) const { return flag.name == nullptr ? flag.usual : this->flag(flag.name, flag.usual); }
  std::string text(std::string_view key, const char* fallback) const {
    return has(key) ? config.required<std::string>(key) : fallback;
  }
  bool has_dropout(std::string_view names, double fallback) const;
  /// Throws InputError if a flag is set that changes the model in a way that is not built.
  void refuse_flag(std::string_view key, std::string_view why) const {
    if (flag(key, false)) config.fail(key, why);
  }
  void set_sequence_length(int longest);
  /// Of the feed-forward layers: ReLU, which keeps less than others, where the file or the model type says so.
  void set_activation();
  /// Classes of a head, as transformers counts them: id2label, num_labels, or `usual`.
  int labels(int usual);
  /// `is_tied`: what transformers takes where the file does not say.
  void set_head(bool is_tied, bool is_causal);

 private:
  /// The name that is there, or nothing; names that differ are refused.
  std::string_view name_of(std::string_view names) const;
};

/// `word` of `words` between blanks is taken by `take`, one after another.
template <class Take>
void for_each_word(std::string_view words, Take take) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0) take(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

/// Whether layers of this model type are mixtures of experts.
bool has_experts(std::string_view type);
/// .. whose number is "n_routed_experts", as DeepSeek's.
bool has_routed_experts(std::string_view type);

/// Throws InputError for what any configuration may ask for, and no model here has.
void refuse_what_is_not_built(const Conversion& to);

/// Throws InputError, with the file's names, if the width is no multiple of the heads and these have no size of their own,
/// or if there are too many experts.
void check_sizes(const Conversion& to);

/// Keys that nobody has used and that are not known to be without effect: refused where their name tells of structure
/// and they are not off, remarked otherwise.
void check_other_keys(Conversion& to);

// One conversion for each kind of model; they know which of their types they have from Conversion::type.
void convert_decoder(Conversion& to);
void convert_encoder(Conversion& to);
void convert_encoder_and_decoder(Conversion& to);
void convert_t5(Conversion& to);
void convert_vision(Conversion& to);
void convert_clip(Conversion& to);
void convert_whisper(Conversion& to);
void convert_waveform(Conversion& to);

}  // namespace rehearse::huggingface
