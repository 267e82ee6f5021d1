#pragma once
// The words of a kernel's name: "void ns::RMSNormKernel<c10::BFloat16, 8>(int)" is the function RMS-Norm-Kernel of ns,
// with the arguments c10-B-Float-16 and 8.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// Words one after the other, in lower case. One begins where the text has anything but letters and digits, before a
/// capital letter that begins a word, and between letters and digits.
class NameWords {
 public:
  void add(std::string_view text);

  /// Whether some words, one after the other, make up `word`: "layernorm" is in "LayerNormKernel" and in
  /// "layer_norm_kernel", not in "layernormal". A star at an end stands for the rest of a word, a leading = for all of the text.
  bool has(std::string_view word) const { return find(word) != std::string::npos; }
  /// Where; npos if nowhere.
  std::size_t find(std::string_view word) const;
  /// Whether each word, digits and single letters apart, is one of these.
  bool consists_of(std::span<const std::string_view> words) const;

 private:
  bool begins_at(std::size_t place) const { return place == text_.size() || begins_[place]; }

  std::string text_;
  std::vector<bool> begins_;  // [characters] whether a word does
};

struct KernelName {
  NameWords own, path;          // of the function: without and with its namespaces
  NameWords arguments;          // of its template
  std::vector<NameWords> each;  // of the names in them
  NameWords parameters;         // their types
};

/// Names may be mangled (Itanium ABI), demangled by c++filt or CUPTI, or those of Triton; cut off after any character.
KernelName kernel_name(std::string_view name);

}  // namespace rehearse
