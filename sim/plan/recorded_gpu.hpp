#pragma once
// What a recording would be on another GPU, as far as its kernels tell what bounds them.

#include <string>
#include <string_view>
#include <vector>

#include "platforms/accelerator.hpp"
#include "sim/training/compile_recorded.hpp"

namespace rehearse {

/// The catalog's name of a GPU that a trace calls "NVIDIA A100-SXM4-40GB": the longest of `names` whose words are all in
/// it; empty if there is none.
std::string catalog_name(std::string_view recorded, const std::vector<std::string>& names);

/// Shares of the time of kernels, but for collectives and copies, that what-ifs by class or on another GPU do not scale.
struct UnscaledShare {
  double kind = 0;  // of kernels whose class is not known
  /// Of products, convolutions and attention whose precision is not known, or in which a GPU has no rate in the catalog.
  double precision = 0;
};
/// `from` and `to`: the recorded GPU and that of the what-if; without them a precision counts in which some GPU has a rate.
UnscaledShare unscaled_share(const RecordedJob& job, const Accelerator* from = nullptr,
                             const Accelerator* to = nullptr);

/// Scales the times of kernels, by class, in a precision that stays as it was:
///   matrix products, convolutions, attention   peak(from) / peak(to), in the precision that the kernel's name says
///   copies from and to the host                host link(from) / host link(to)
///   all others but collectives                 memory bandwidth(from) / memory bandwidth(to)
/// A class takes the mean over its recorded time. Host, collectives, and kernels whose kind or precision is not known stay
/// as they are. Returns what was done, a line each, with the share of kernel time that is not scaled. Source: the roofline model
/// (Williams et al., CACM 2009), each class at the roof that bounds it.
std::vector<std::string> move_to_gpu(RecordedChange& change, const RecordedJob& job, const Accelerator& from,
                                     const Accelerator& to);

}  // namespace rehearse
