#include "predictor/driple_dataset.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "predictor/torch_file.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"

namespace rehearse {
namespace {

std::vector<DripleSample> random_samples(std::size_t count, std::size_t nodes) {
  Rng random{1, "samples"};
  std::vector<DripleSample> samples(count);
  for (DripleSample& sample : samples) {
    sample.features.resize(nodes);
    for (auto& row : sample.features)
      for (float& feature : row) feature = static_cast<float>(random.uniform());
    for (std::uint32_t i = 0; i < nodes; ++i)
      for (std::uint32_t j = i + 1; j < nodes; ++j)
        if (random.uniform() < 0.3) sample.edges.emplace_back(i, j);
    for (float& label : sample.labels) label = static_cast<float>(random.uniform());
  }
  return samples;
}

/// As Driple does: the first int(0.6 n) for training, those up to int(0.8 n) for validation, the others for tests.
DripleDataset split_as_driple(std::vector<DripleSample> samples) {
  const auto share = [&](double part) {
    return samples.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(samples.size()));
  };
  const auto first = share(0.6), second = share(0.8);
  return {.train = {samples.begin(), first}, .val = {first, second}, .test = {second, samples.end()}};
}

void require_same(const std::vector<DripleSample>& a, const std::vector<DripleSample>& b, std::size_t count) {
  REQUIRE(a.size() == count);
  REQUIRE(b.size() >= count);
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(a[i].features == b[i].features);
    CHECK(a[i].edges == b[i].edges);
    CHECK(a[i].labels == b[i].labels);
  }
}

/// A file of one batch of one graph of two nodes, which `change` may spoil.
std::string refusal(const std::function<void(std::vector<float>& adjacency, std::vector<float>& labels)>& change) {
  std::vector<float> adjacency{0, 1, 1, 0}, features(6, 1.0F), labels(12, 1.0F);
  change(adjacency, labels);
  const auto parts = [](const TorchTensor& tensor) {
    return TorchDict{{{"train", TorchList{{tensor}}}, {"val", TorchList{}}, {"test", TorchList{}}}};
  };
  const auto count = static_cast<std::int64_t>(labels.size());
  try {
    parse_driple_dataset(to_torch_file(TorchTuple{{parts(TorchTensor::of_floats({1, 2, 2}, adjacency)),
                                                   parts(TorchTensor::of_floats({1, 2, 3}, features)),
                                                   parts(TorchTensor::of_floats({1, count}, labels))}}),
                         "f");
  } catch (const InputError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("a Driple file of 320 graphs has 6, 2 and 2 batches of 32, and is read back the same") {
  const DripleDataset dataset = split_as_driple(random_samples(320, 10));
  CHECK(dataset.train.size() == 192);
  CHECK(dataset.val.size() == 64);
  CHECK(dataset.test.size() == 64);
  const std::string bytes = to_driple_file(dataset);
  CHECK(to_driple_file(dataset) == bytes);
  const TorchValue root = parse_torch_file(bytes, "f");
  const TorchItems& train = root.list("f")[0].at("train", "f").list("f");
  REQUIRE(train.size() == 6);
  CHECK(train[0].tensor("f").shape == std::vector<std::int64_t>{32, 10, 10});
  CHECK(root.list("f")[1].at("val", "f").list("f")[1].tensor("f").shape == std::vector<std::int64_t>{32, 10, 3});
  CHECK(root.list("f")[2].at("test", "f").list("f")[1].tensor("f").shape == std::vector<std::int64_t>{32, 12});
  const DripleDataset read = parse_driple_dataset(bytes, "f");
  require_same(read.train, dataset.train, 192);
  require_same(read.val, dataset.val, 64);
  require_same(read.test, dataset.test, 64);
}

TEST_CASE("what fills no batch is dropped, and a part without batch is refused") {
  const DripleDataset dataset = split_as_driple(random_samples(23, 4));  // 13, 5, 5
  const DripleDataset read = parse_driple_dataset(to_driple_file(dataset, 4), "f");
  require_same(read.train, dataset.train, 12);
  require_same(read.test, dataset.test, 4);
  CHECK_THROWS_WITH_AS(to_driple_file(dataset), "the train part has 13 samples, less than a batch of 32", InputError);
  DripleDataset mixed = dataset;
  mixed.val[0].features.pop_back();
  CHECK_THROWS_WITH_AS(to_driple_file(mixed, 4), "expected graphs of 4 nodes; found one of 3", InputError);
}

TEST_CASE("files that are no Driple data set are refused with one line") {
  CHECK(refusal([](auto&, auto&) {}).empty());
  const std::string adjacency =
      "f: train/0: expected a symmetric adjacency of zeros and ones, with zeros on the diagonal";
  CHECK(refusal([](auto& a, auto&) { a[1] = 0; }) == adjacency);
  CHECK(refusal([](auto& a, auto&) { a[0] = 1; }) == adjacency);
  CHECK(refusal([](auto& a, auto&) { a[1] = a[2] = 2; }) == adjacency);
  CHECK(refusal([](auto&, auto& labels) { labels[3] = NAN; }) == "f: train/0: expected finite numbers");
  CHECK(refusal([](auto&, auto& labels) { labels[3] = -1; }) == "f: train/0: expected labels of at least 0");
  CHECK(refusal([](auto&, auto& labels) { labels.pop_back(); }) ==
        "f: train/0: expected a tensor of the shape [1, 12]; found [1, 11]");
  const auto refused = [](const TorchValue& value, const char* message) {
    CHECK_THROWS_WITH_AS(parse_driple_dataset(to_torch_file(value), "f"), message, InputError);
  };
  const auto empty = [] { return TorchDict{{{"train", TorchList{}}, {"val", TorchList{}}, {"test", TorchList{}}}}; };
  refused(TorchTuple{{empty(), empty(), empty()}}, "f: expected at least one graph");
  const auto no_node = [&](const TorchTensor& tensor) {
    TorchDict parts = empty();
    parts.items[0].second = TorchList{{tensor}};
    return parts;
  };
  refused(TorchTuple{{no_node(TorchTensor::of_floats({1, 0, 0}, {})), no_node(TorchTensor::of_floats({1, 0, 3}, {})),
                      no_node(TorchTensor::of_floats({1, 12}, std::vector<float>(12)))}},
          "f: train/0: expected graphs of at least one node");
  refused(TorchDict{}, "f: expected a list; found a dict");
  refused(TorchTuple{{1, 2}}, "f: expected a tuple of adjacency, features and labels; found 2 values");
  refused(TorchTuple{{TorchDict{}, TorchDict{}, TorchDict{}}}, "f: adjacency: expected the key \"train\"");
}

TEST_CASE("a note lies beside the tensors, and other files have none") {
  DripleDataset dataset = split_as_driple(random_samples(10, 3));
  CHECK(parse_driple_dataset(to_driple_file(dataset, 2), "f").note.empty());
  dataset.note = "{}";
  const std::string bytes = to_driple_file(dataset, 2);
  CHECK(parse_driple_dataset(bytes, "f").note == "{}");
  CHECK(is_driple_dataset(parse_torch_file(bytes, "f")));
  CHECK(!is_driple_dataset(parse_torch_file(to_torch_file(TorchDict{}), "f")));
}

}  // namespace rehearse
