#pragma once
// The data set files of Driple: grouped graphs with twelve labels, as its training program reads them.
// A file is one tuple (adjacency, features, labels) of dicts with the keys train, val, test, each a list of float32
// tensors, one per batch: [B, N, N], [B, N, 3] and [B, 12].
// Source: Yang et al., Proc. ACM Meas. Anal. Comput. Syst. 6(2), art. 29, 2022, and its program.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "predictor/torch_file.hpp"

namespace rehearse {

/// A sample has three labels for each of GPU memory utilization, GPU utilization, network receive and transmit, in this
/// order: mean idle duration, mean active duration, mean peak of the bursts.
inline constexpr std::size_t kDripleLabels = 12;
inline constexpr std::size_t kDripleFeatures = 3;
inline constexpr std::size_t kDripleBatch = 32;  // samples

/// An undirected graph, its edges i < j in rising order, without self loops.
struct DripleSample {
  std::vector<std::array<float, kDripleFeatures>> features;  // [nodes]
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::array<float, kDripleLabels> labels{};  // in their own units
};

struct DripleDataset {
  std::vector<DripleSample> train, val, test;
  std::string note{};  // what `rehearse generate` says of its own files (driple_export.hpp); empty: nothing
};

/// The file's bytes. Of each part, whole batches of `batch_size` samples are written and the remainder is dropped.
/// Throws InputError if a part has no whole batch, or the samples differ in their number of nodes.
std::string to_driple_file(const DripleDataset& dataset, std::size_t batch_size = kDripleBatch);

/// Whether a file of torch.save holds a tuple, as these do, and not the dict of a network's weights.
bool is_driple_dataset(const TorchValue& root);

/// Throws InputError, "file: ...", unless it is such a file, with symmetric adjacency of zeros and ones, zeros on the
/// diagonal, and finite numbers, labels of at least 0. Graphs of one batch have the same number of nodes.
DripleDataset load_driple_dataset(const std::filesystem::path& path);
DripleDataset parse_driple_dataset(std::string_view bytes, const std::string& file_name);

}  // namespace rehearse
