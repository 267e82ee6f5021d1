#include "sim/plan/recorded_gpu.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

namespace rehearse {

namespace {

/// Of names of GPUs: letters and digits that stand together, in lower case.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  bool is_new = true;
  for (const char character : lower_case(name)) {
    const bool is_part = (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9');
    if (is_part && is_new) words.emplace_back();
    if (is_part) words.back() += character;
    is_new = !is_part;
  }
  return words;
}

enum class Bound { kArithmetic, kMemory, kUnknown };

Bound bound_of(KernelClass kernel) {
  switch (kernel) {
    case KernelClass::kMatrixProduct:
    case KernelClass::kConvolution:
    case KernelClass::kAttention:
      return Bound::kArithmetic;
    case KernelClass::kCollective:
    case KernelClass::kOther:
      return Bound::kUnknown;
    default:
      return Bound::kMemory;
  }
}

/// Old rate / new rate, of what both state.
std::optional<double> ratio(FlopsPerSecond from, FlopsPerSecond to) {
  if (!(from > FlopsPerSecond{}) || !(to > FlopsPerSecond{})) return {};
  return from / to;
}

/// Without TF32 such products are computed in fp32.
FlopsPerSecond tf32_rate(const Accelerator& gpu) {
  return gpu.peak_tf32 > FlopsPerSecond{} ? gpu.peak_tf32 : gpu.peak_fp32;
}

FlopsPerSecond fp32_rate(const Accelerator& gpu) { return std::max(gpu.peak_fp32, gpu.peak_fp32_matrix); }

/// Whether the catalog's GPUs state a rate in it.
bool has_rate(KernelPrecision precision) {
  return precision == KernelPrecision::kFp4 || precision == KernelPrecision::kFp8 ||
         precision == KernelPrecision::kBf16 || precision == KernelPrecision::kFp16 ||
         precision == KernelPrecision::kTf32 || precision == KernelPrecision::kFp32;
}

/// Of kernels that arithmetic bounds; nothing if the precision or a rate in it is not known.
std::optional<double> arithmetic_factor(KernelPrecision precision, const Accelerator& from, const Accelerator& to) {
  const bool states_bf16 = from.peak_bf16 > FlopsPerSecond{} || to.peak_bf16 > FlopsPerSecond{};
  switch (precision) {
    case KernelPrecision::kFp4:
      return ratio(from.peak_fp4, to.peak_fp4);
    case KernelPrecision::kFp8:
      return ratio(from.peak_fp8, to.peak_fp8);
    case KernelPrecision::kBf16:
      return states_bf16 ? ratio(from.peak_bf16, to.peak_bf16) : ratio(from.peak_fp16, to.peak_fp16);
    case KernelPrecision::kFp16:
      return ratio(from.peak_fp16, to.peak_fp16);
    case KernelPrecision::kTf32:
      return ratio(tf32_rate(from), tf32_rate(to));
    case KernelPrecision::kFp32:
      return ratio(fp32_rate(from), fp32_rate(to));
    default:
      return {};
  }
}

std::optional<double> factor_of(KernelClass kernel, std::string_view name, const Accelerator& from,
                                const Accelerator& to) {
  switch (bound_of(kernel)) {
    case Bound::kArithmetic:
      return arithmetic_factor(kernel_precision(name), from, to);
    case Bound::kMemory: {
      const bool passes_host = kernel == KernelClass::kCopy && (name.find("HtoD") != std::string_view::npos ||
                                                                name.find("DtoH") != std::string_view::npos);
      return passes_host ? from.host_link / to.host_link : from.memory_bandwidth / to.memory_bandwidth;
    }
    case Bound::kUnknown:
      break;
  }
  return {};
}

/// Time of kernels of all ranks, by class and name.
using TimeByName = std::map<std::pair<KernelClass, std::string_view>, double>;

TimeByName time_by_name(const RecordedJob& job) {
  TimeByName times;
  for (const RecordedRun& run : job.ranks)
    for (const RecordedOperation& operation : run.operations)
      if (operation.kind == RecordedOperation::Kind::kGpu)
        times[{operation.kernel, run.names[static_cast<std::size_t>(operation.name)]}] +=
            static_cast<double>(operation.duration);
  return times;
}

std::string three_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

}  // namespace

std::string catalog_name(std::string_view recorded, const std::vector<std::string>& names) {
  const std::vector<std::string> words = words_of(recorded);
  std::string best;
  for (const std::string& name : names) {
    const bool is_in = std::ranges::all_of(
        words_of(name), [&](const std::string& word) { return std::ranges::find(words, word) != words.end(); });
    if (is_in && name.size() > best.size()) best = name;
  }
  return best;
}

UnscaledShare unscaled_share(const RecordedJob& job, const Accelerator* from, const Accelerator* to) {
  double all = 0;
  UnscaledShare unscaled;
  const auto has_factor = [&](KernelPrecision precision) {
    return from != nullptr && to != nullptr ? arithmetic_factor(precision, *from, *to).has_value()
                                            : has_rate(precision);
  };
  for (const auto& [kernel, time] : time_by_name(job)) {
    const auto& [kind, name] = kernel;
    if (kind == KernelClass::kCollective || kind == KernelClass::kCopy) continue;
    all += time;
    if (kind == KernelClass::kOther) unscaled.kind += time;
    if (bound_of(kind) == Bound::kArithmetic && !has_factor(kernel_precision(name))) unscaled.precision += time;
  }
  if (all > 0) {
    unscaled.kind /= all;
    unscaled.precision /= all;
  }
  return unscaled;
}

std::vector<std::string> move_to_gpu(RecordedChange& change, const RecordedJob& job, const Accelerator& from,
                                     const Accelerator& to) {
  constexpr std::size_t kClasses = kKernelClassNames.size();
  std::array<double, kClasses> time{}, moved{};
  std::array<std::map<KernelPrecision, double>, kClasses> factors;  // by precision, where arithmetic bounds
  double all = 0, unknown = 0, without_rate = 0;
  for (const auto& [kernel, recorded] : time_by_name(job)) {
    const auto& [kind, name] = kernel;
    const auto place = static_cast<std::size_t>(kind);
    const std::optional<double> factor = factor_of(kind, name, from, to);
    all += recorded;
    time[place] += recorded;
    moved[place] += recorded * factor.value_or(1);
    if (!factor) (bound_of(kind) == Bound::kUnknown ? unknown : without_rate) += recorded;
    if (bound_of(kind) == Bound::kArithmetic) factors[place][kernel_precision(name)] = factor.value_or(1);
  }
  std::string scaled;
  for (std::size_t c = 0; c < kClasses; ++c) {
    if (time[c] == 0 || bound_of(static_cast<KernelClass>(c)) == Bound::kUnknown) continue;
    change.kernels[c] *= moved[c] / time[c];
    scaled += (scaled.empty() ? "" : ", ") + std::string{kKernelClassNames[c]} + ' ' + three_digits(moved[c] / time[c]);
    std::string parts;
    for (const auto& [precision, factor] : factors[c])
      parts += (parts.empty() ? "" : ", ") + std::string{to_text(precision)} + ' ' + three_digits(factor);
    if (!parts.empty()) scaled += " (" + parts + ')';
  }
  const auto share = [&](double part) { return percent(all > 0 ? part / all : 0); };
  std::vector<std::string> said{
      "what if: " + to.name + " instead of " + from.name + ", in the same precision; times of kernels by " + scaled,
      "what if: the host, collectives and kernels of unknown kind (" + share(unknown) +
          " of the time of kernels) are not scaled"};
  if (without_rate > 0)
    said.push_back(
        "what if: products, convolutions and attention whose precision is not known, or in which a rate of the "
        "GPUs is not (" +
        share(without_rate) + " of the time of kernels), are not scaled");
  return said;
}

}  // namespace rehearse
