#include "predictor/driple_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "predictor/detail/torch_types.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kLargestFile = (std::size_t{1} << 32U) - 1;
constexpr std::array<const char*, 3> kParts{"train", "val", "test"};

struct Lists {
  TorchList adjacency, features, labels;
};

Lists batches_of(const std::vector<DripleSample>& samples, std::size_t batch_size, std::size_t nodes) {
  Lists lists;
  const auto b = static_cast<std::int64_t>(batch_size), n = static_cast<std::int64_t>(nodes);
  for (std::size_t begin = 0; begin + batch_size <= samples.size(); begin += batch_size) {
    std::vector<float> adjacency(batch_size * nodes * nodes, 0.0F), features, labels;
    for (std::size_t k = 0; k < batch_size; ++k) {
      const DripleSample& sample = samples[begin + k];
      float* matrix = adjacency.data() + k * nodes * nodes;
      for (const auto& [from, to] : sample.edges) matrix[from * nodes + to] = matrix[to * nodes + from] = 1.0F;
      for (const auto& row : sample.features) features.insert(features.end(), row.begin(), row.end());
      labels.insert(labels.end(), sample.labels.begin(), sample.labels.end());
    }
    lists.adjacency.items.emplace_back(TorchTensor::of_floats({b, n, n}, adjacency));
    lists.features.items.emplace_back(TorchTensor::of_floats({b, n, kDripleFeatures}, features));
    lists.labels.items.emplace_back(TorchTensor::of_floats({b, kDripleLabels}, labels));
  }
  return lists;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t length : shape)
    text += (text.empty() ? "" : ", ") + (length < 0 ? std::string{"any"} : std::to_string(length));
  return "[" + text + "]";
}

/// The three dicts of a file, of which no more is read than they can hold: a list may name one tensor a million times.
struct Reading {
  const TorchItems& root;
  const std::string& file_name;
  std::size_t bytes_left;
};

/// The numbers of batch `index` of one of the three dicts; `shape` as expected, -1 for any length, which it is set to.
std::vector<float> numbers_of(Reading& reading, const TorchItems& batches, std::size_t index,
                              std::vector<std::int64_t>& shape, const std::string& where) {
  const std::string here = where + "/" + std::to_string(index);
  const TorchTensor& tensor = batches[index].tensor(here);
  if (tensor.bytes.size() > reading.bytes_left) throw InputError{here + ": the file repeats its tensors too often"};
  reading.bytes_left -= tensor.bytes.size();
  const std::string expected = text_of(shape);
  bool fits = tensor.shape.size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    if (shape[i] < 0) shape[i] = tensor.shape[i];
    fits = shape[i] == tensor.shape[i];
  }
  if (!fits)
    throw InputError{here + ": expected a tensor of the shape " + expected + "; found " + text_of(tensor.shape)};
  std::vector<float> numbers = tensor.floats();
  if (!std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); }))
    throw InputError{here + ": expected finite numbers"};
  return numbers;
}

/// The graphs of one batch: `x`, `a` and `y` are its features [graphs, n, 3], adjacency and labels.
void add_graphs(std::vector<DripleSample>& samples, std::size_t n, const std::vector<float>& x,
                const std::vector<float>& a, const std::vector<float>& y, const std::string& where) {
  for (std::size_t g = 0; g < y.size() / kDripleLabels; ++g) {
    DripleSample sample;
    sample.features.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>((g * n + i) * kDripleFeatures), kDripleFeatures,
                  sample.features[i].begin());
      for (std::size_t j = i; j < n; ++j) {
        const float there = a[(g * n + i) * n + j], back = a[(g * n + j) * n + i];
        if (there != back || (there != 0.0F && (there != 1.0F || i == j)))
          throw InputError{where + ": expected a symmetric adjacency of zeros and ones, with zeros on the diagonal"};
        if (there != 0.0F) sample.edges.emplace_back(i, j);
      }
    }
    std::copy_n(y.begin() + static_cast<std::ptrdiff_t>(g * kDripleLabels), kDripleLabels, sample.labels.begin());
    samples.push_back(std::move(sample));
  }
}

std::vector<DripleSample> samples_of(Reading& reading, const char* part) {
  const auto list = [&](std::size_t which, const char* name) -> const TorchItems& {
    const std::string where = reading.file_name + ": " + name;
    return reading.root[which].at(part, where).list(where + "/" + part);
  };
  const TorchItems &adjacency = list(0, "adjacency"), &features = list(1, "features"), &labels = list(2, "labels");
  if (adjacency.size() != features.size() || features.size() != labels.size())
    throw InputError{reading.file_name + ": " + part +
                     ": adjacency, features and labels differ in their number of batches"};
  std::vector<DripleSample> samples;
  for (std::size_t k = 0; k < features.size(); ++k) {
    const std::string where = reading.file_name + ": " + part;
    std::vector<std::int64_t> shape{-1, -1, kDripleFeatures};
    const std::vector<float> x = numbers_of(reading, features, k, shape, where);
    const std::int64_t graphs = shape[0], nodes = shape[1];
    std::vector<std::int64_t> square{graphs, nodes, nodes}, table{graphs, kDripleLabels};
    const std::vector<float> a = numbers_of(reading, adjacency, k, square, where),
                             y = numbers_of(reading, labels, k, table, where);
    const std::string here = where + "/" + std::to_string(k);
    if (nodes < 1) throw InputError{here + ": expected graphs of at least one node"};
    if (std::ranges::any_of(y, [](float label) { return label < 0; }))
      throw InputError{here + ": expected labels of at least 0"};
    add_graphs(samples, static_cast<std::size_t>(nodes), x, a, y, here);
  }
  return samples;
}

}  // namespace

std::string to_driple_file(const DripleDataset& dataset, std::size_t batch_size) {
  if (batch_size < 1) throw InputError{"expected a batch size of at least 1"};
  const std::array<const std::vector<DripleSample>*, 3> parts{&dataset.train, &dataset.val, &dataset.test};
  TorchDict adjacency, features, labels;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part]->size() < batch_size)
      throw InputError{std::string{"the "} + kParts[part] + " part has " + std::to_string(parts[part]->size()) +
                       " samples, less than a batch of " + std::to_string(batch_size)};
    const std::size_t nodes = dataset.train.front().features.size();
    for (const DripleSample& sample : *parts[part]) {
      if (sample.features.size() != nodes)
        throw InputError{"expected graphs of " + std::to_string(nodes) + " nodes; found one of " +
                         std::to_string(sample.features.size())};
      for (const auto& [from, to] : sample.edges)
        if (from >= to || to >= nodes) throw InputError{"expected edges between the nodes of a graph, i < j"};
    }
    Lists lists = batches_of(*parts[part], batch_size, nodes);
    adjacency.items.emplace_back(kParts[part], std::move(lists.adjacency));
    features.items.emplace_back(kParts[part], std::move(lists.features));
    labels.items.emplace_back(kParts[part], std::move(lists.labels));
  }
  return to_torch_file(TorchTuple{{std::move(adjacency), std::move(features), std::move(labels)}}, dataset.note);
}

DripleDataset load_driple_dataset(const std::filesystem::path& path) {
  return parse_driple_dataset(read_file(path, kLargestFile), path.string());
}

bool is_driple_dataset(const TorchValue& root) {
  return std::holds_alternative<TorchTuple>(root.value) || std::holds_alternative<TorchList>(root.value);
}

DripleDataset parse_driple_dataset(std::string_view bytes, const std::string& file_name) {
  const TorchValue root = parse_torch_file(bytes, file_name);
  const TorchItems& items = root.list(file_name);
  if (items.size() != 3)
    throw InputError{file_name + ": expected a tuple of adjacency, features and labels; found " +
                     std::to_string(items.size()) + " values"};
  Reading reading{items, file_name, bytes.size() + kMiB};
  DripleDataset dataset{.train = samples_of(reading, kParts[0]),
                        .val = samples_of(reading, kParts[1]),
                        .test = samples_of(reading, kParts[2]),
                        .note = torch_file_note(bytes, file_name)};
  if (dataset.train.empty() && dataset.val.empty() && dataset.test.empty())
    throw InputError{file_name + ": expected at least one graph"};
  return dataset;
}

}  // namespace rehearse
