#include "workloads/traces/kernel_class.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "workloads/traces/detail/kernel_name.hpp"

namespace rehearse {

extern const char* const kKernelNamePatterns;  // kernel_names.txt

namespace {

constexpr std::pair<std::string_view, CollectiveWork> kCollectiveWords[] = {
    {"allreduce", CollectiveWork::kAllReduce}, {"reducescatter", CollectiveWork::kReduceScatter},
    {"allgather", CollectiveWork::kAllGather}, {"broadcast", CollectiveWork::kBroadcast},
    {"alltoall", CollectiveWork::kAllToAll},
};

/// A row of kernel_names.txt: a label and the words that a name has to have, or must not have.
struct Pattern {
  std::size_t label = 0;
  std::vector<std::string_view> words, arguments, path, absent;
};

/// By what the rows of a section are called: a class, a precision, or "generic".
struct Patterns {
  std::vector<Pattern> classes, precisions;
  std::vector<std::string_view> generic;  // names of functions that say nothing: their arguments do
};

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

template <std::size_t size>
std::optional<std::size_t> label_of(std::string_view word, const std::array<std::string_view, size>& names) {
  const auto found = std::ranges::find(names, word);
  return found == names.end() ? std::nullopt : std::optional{static_cast<std::size_t>(found - names.begin())};
}

void add_row(Patterns& patterns, std::string_view line) {
  const std::vector<std::string_view> row = split(line.substr(0, line.find('#')));
  if (row.empty()) return;
  if (row.front() == "generic") {
    patterns.generic.insert(patterns.generic.end(), row.begin() + 1, row.end());
    return;
  }
  const auto kernel = label_of(row.front(), kKernelClassNames);
  const auto precision = label_of(row.front(), kKernelPrecisionNames);
  if ((!kernel && !precision) || row.size() < 2)
    throw std::logic_error{"kernel_names.txt: " + std::string{line} + ": neither a class nor a precision"};
  Pattern pattern;
  pattern.label = kernel ? *kernel : *precision;
  for (const std::string_view word : std::span{row}.subspan(1)) {
    if (word.starts_with('<'))
      pattern.arguments.push_back(word.substr(1));
    else if (word.starts_with(':'))
      pattern.path.push_back(word.substr(1));
    else if (word.starts_with('!'))
      pattern.absent.push_back(word.substr(1));
    else
      pattern.words.push_back(word);
  }
  (kernel ? patterns.classes : patterns.precisions).push_back(std::move(pattern));
}

const Patterns& patterns() {
  static const Patterns all = [] {
    Patterns read;
    std::string_view text = kKernelNamePatterns;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      add_row(read, text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return read;
  }();
  return all;
}

auto has(const NameWords& words) {
  return [&words](std::string_view word) { return words.has(word); };
}

bool fits_words(const Pattern& pattern, const NameWords& words) {
  return std::ranges::all_of(pattern.words, has(words)) && std::ranges::none_of(pattern.absent, has(words));
}

/// Whatever the words that are looked at.
bool fits_name(const Pattern& pattern, const KernelName& name) {
  return std::ranges::all_of(pattern.arguments, has(name.arguments)) &&
         std::ranges::all_of(pattern.path, has(name.path)) && std::ranges::none_of(pattern.absent, has(name.path));
}

bool fits(const Pattern& pattern, const NameWords& words, const KernelName& name) {
  return fits_words(pattern, words) && fits_name(pattern, name);
}

const Pattern* first_fit(const std::vector<Pattern>& rows, const NameWords& words, const KernelName& name) {
  const auto found = std::ranges::find_if(rows, [&](const Pattern& pattern) { return fits(pattern, words, name); });
  return found == rows.end() ? nullptr : &*found;
}

/// Of a function that says nothing: its arguments name what it runs first.
const Pattern* fit_of_arguments(const std::vector<Pattern>& rows, const KernelName& name) {
  const auto is_somewhere = [&](std::string_view word) { return word.starts_with('=') || name.arguments.has(word); };
  std::vector<const Pattern*> possible;  // so that a name of many arguments is searched once, not for each of them
  for (const Pattern& pattern : rows)
    if (std::ranges::all_of(pattern.words, is_somewhere) && fits_name(pattern, name)) possible.push_back(&pattern);
  for (const NameWords& words : name.each)
    for (const Pattern* pattern : possible)
      if (fits_words(*pattern, words)) return pattern;
  return nullptr;
}

}  // namespace

std::string lower_case(std::string_view name) {
  std::string lower{name};
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

KernelClass kernel_class(std::string_view name) {
  const KernelName parts = kernel_name(name);
  const std::vector<Pattern>& rows = patterns().classes;
  const auto label = [](const Pattern* row) {
    return row == nullptr ? KernelClass::kOther : static_cast<KernelClass>(row->label);
  };
  if (const Pattern* row = first_fit(rows, parts.own, parts)) return label(row);
  const bool is_generic = parts.own.consists_of(patterns().generic);
  if (is_generic)
    if (const Pattern* row = fit_of_arguments(rows, parts)) return label(row);
  // What a library is called does not say what each of its kernels does, but for those that only communicate.
  const KernelClass of_namespace = label(first_fit(rows, parts.path, parts));
  return is_generic || of_namespace == KernelClass::kCollective ? of_namespace : KernelClass::kOther;
}

KernelPrecision kernel_precision(std::string_view name) {
  const KernelName parts = kernel_name(name);
  auto narrowest = KernelPrecision::kUnknown;
  bool has_fp8 = false;
  for (const NameWords* words : {&parts.path, &parts.arguments, &parts.parameters}) {
    for (const Pattern& pattern : patterns().precisions) {
      if (!fits(pattern, *words, parts)) continue;
      const auto precision = static_cast<KernelPrecision>(pattern.label);
      narrowest = std::min(narrowest, precision);
      has_fp8 = has_fp8 || precision == KernelPrecision::kFp8;
    }
    if (words != &parts.path && narrowest != KernelPrecision::kUnknown) break;
  }
  return narrowest == KernelPrecision::kFp4 && has_fp8 ? KernelPrecision::kFp8 : narrowest;
}

CollectiveWork collective_work(std::string_view name) {
  std::string lower = lower_case(name);
  std::erase(lower, '_');
  for (const auto& [word, work] : kCollectiveWords)
    if (lower.find(word) != std::string::npos) return work;
  return CollectiveWork::kOther;
}

}  // namespace rehearse
