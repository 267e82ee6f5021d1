// Time of a training step of each published network:  predictor_step [NETWORK [ITERATIONS [GRAPHS [STEPS]]]]
// or of our own on the first GRAPHS samples of a dataset for training:  predictor_step profile DATASET [GRAPHS [STEPS]]
// One thread; graphs of 100 nodes and 240 links, hidden 64, float32. Prints "NETWORK ITERATIONS GRAPHS MILLISECONDS
// LOSS", the median of STEPS steps after one that warms up, in processor time, which a busy machine disturbs less than
// wall time. predictor_step.py is its twin in Python.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "predictor/gnn/metrics_network.hpp"
#include "predictor/gnn/published_network.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/gnn/training.hpp"
#include "sim/base/statistics.hpp"

namespace {

using namespace rehearse;

/// Node i of every graph is linked with i + 1, and with i + 7 and i + 31 for some i: a formula that Python repeats.
GraphBatch synthetic_batch(int graphs) {
  constexpr std::uint32_t kNodes = 100;
  GraphBatch batch;
  for (int g = 0; g < graphs; ++g) {
    const std::uint32_t first = batch.offsets.back();
    for (std::uint32_t i = 0; i < kNodes; ++i) {
      if (i + 1 < kNodes) batch.edges.emplace_back(first + i, first + i + 1);
      if (i + 7 < kNodes) batch.edges.emplace_back(first + i, first + i + 7);
      if (i + 31 < kNodes && (i + static_cast<std::uint32_t>(g)) % 3 != 0)
        batch.edges.emplace_back(first + i, first + i + 31);
      for (int f = 0; f < 3; ++f) batch.node_features.push_back(std::abs(std::sin(0.37 * i + 1.3 * f + 0.11 * g)));
    }
    batch.offsets.push_back(first + kNodes);
    for (int k = 0; k < 12; ++k) batch.labels.push_back(std::abs(std::sin(0.5 * k + 0.21 * g)));
  }
  return batch;
}

std::function<double()> step_of(const std::string& network, const std::string& what, int graphs) {
  if (network == "learnt") {
    auto dataset = std::make_shared<Dataset>(load_dataset(what));
    auto samples = std::make_shared<std::vector<std::size_t>>(choose_samples(*dataset, Split::kTrain, {}));
    samples->resize(std::min(samples->size(), static_cast<std::size_t>(graphs)));
    auto model = std::make_shared<MetricsNetwork>(*dataset, *samples, MetricsNetworkOptions{});
    return [=] { return model->learn(*dataset, *samples, 1e-3); };
  }
  auto trained = std::make_shared<PublishedNetwork>(
      PublishedOptions{.convolution = parse_convolution(network), .iterations = what}, 1);
  return [=, batch = synthetic_batch(graphs)] { return trained->train(batch); };
}

}  // namespace

int main(int argc, char** argv) {
  use_torch_threads(1);
  keep_freed_memory();
  const std::string network = argc > 1 ? argv[1] : "gcn", iterations = argc > 2 ? argv[2] : "Nover2";
  const int graphs = argc > 3 ? std::atoi(argv[3]) : 32, steps = argc > 4 ? std::atoi(argv[4]) : 5;
  const std::function<double()> train = step_of(network, iterations, graphs);
  std::vector<double> times;
  double loss = 0.0;
  for (int step = 0; step <= steps; ++step) {
    const std::clock_t start = std::clock();
    loss = train();
    if (step > 0) times.push_back(1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::printf("%s %s %d %.1f %.5f\n", network.c_str(), iterations.c_str(), graphs, median(times), loss);
}
