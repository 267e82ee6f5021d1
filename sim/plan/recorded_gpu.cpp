#include "sim/plan/recorded_gpu.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

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

/// Whether the name says that matrix units compute: cuBLAS and CUTLASS name the shape of their instruction, or a type of
/// two bytes.
bool is_on_matrix_units(std::string_view kernel) {
  const std::string name = lower_case(kernel);
  constexpr std::array<std::string_view, 8> kWords{"884", "1688", "16816", "tensorop", "hmma", "half", "fp16", "bf16"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != std::string::npos; });
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

double factor_of(KernelClass kernel, std::string_view name, const Accelerator& from, const Accelerator& to) {
  switch (bound_of(kernel)) {
    case Bound::kArithmetic:
      return is_on_matrix_units(name) ? from.peak_fp16 / to.peak_fp16 : from.peak_fp32 / to.peak_fp32;
    case Bound::kMemory: {
      const bool passes_host = kernel == KernelClass::kCopy && (name.find("HtoD") != std::string_view::npos ||
                                                                name.find("DtoH") != std::string_view::npos);
      return passes_host ? from.host_link / to.host_link : from.memory_bandwidth / to.memory_bandwidth;
    }
    case Bound::kUnknown:
      break;
  }
  return 1;
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

std::vector<std::string> move_to_gpu(RecordedChange& change, const RecordedJob& job, const Accelerator& from,
                                     const Accelerator& to) {
  constexpr std::size_t kClasses = kKernelClassNames.size();
  std::array<double, kClasses> time{}, moved{};
  for (const RecordedRun& run : job.ranks) {
    for (const RecordedOperation& operation : run.operations) {
      if (operation.kind != RecordedOperation::Kind::kGpu) continue;
      const auto index = static_cast<std::size_t>(operation.kernel);
      const auto duration = static_cast<double>(operation.duration);
      time[index] += duration;
      moved[index] +=
          duration * factor_of(operation.kernel, run.names[static_cast<std::size_t>(operation.name)], from, to);
    }
  }
  std::string scaled;
  double all = 0, unknown = 0;
  for (std::size_t c = 0; c < kClasses; ++c) {
    all += time[c];
    if (time[c] == 0) continue;
    if (bound_of(static_cast<KernelClass>(c)) == Bound::kUnknown) {
      unknown += time[c];
      continue;
    }
    change.kernels[c] *= moved[c] / time[c];
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%s%s %.3f", scaled.empty() ? "" : ", ", kKernelClassNames[c].data(),
                  moved[c] / time[c]);
    scaled += text.data();
  }
  std::array<char, 32> share{};
  std::snprintf(share.data(), share.size(), "%.1f %%", all > 0 ? 100 * unknown / all : 0);
  return {"what if: " + to.name + " instead of " + from.name + ", in the same precision; times of kernels by " + scaled,
          "what if: the host, collectives and kernels of unknown kind (" + std::string{share.data()} +
              " of the time of kernels) are not scaled"};
}

}  // namespace rehearse
