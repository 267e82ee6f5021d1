#include "workloads/overlapped_exchanges.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace rehearse {

namespace {

using Vertices = std::vector<std::size_t>;

bool is_product(const Operator& op) { return op.matrix.reduction > 0 && !op.attention && !op.convolution; }

bool is_exchange(const Operator& op, CollectiveKind kind) {
  return op.exchange && op.exchange->kind == kind && op.exchange->among == SplitGroup::kTensor;
}

/// Writes a graph anew, vertex by vertex, with some of them in parts.
class Rewriting {
 public:
  Rewriting(const Workload& workload, int degree)
      : old_(workload), degree_(degree), reads_(workload.graph.size()), written_(workload.graph.size()) {
    std::vector<Vertices> readers(workload.graph.size());
    for (const auto& [from, to] : workload.graph.edges()) {
      reads_[to].push_back(from);
      readers[from].push_back(to);
    }
    for (std::size_t vertex = 0; vertex < workload.graph.size(); ++vertex) {
      if (is_exchange(op(vertex), CollectiveKind::kAllGather)) {
        const auto product = std::ranges::find_if(readers[vertex], [&](std::size_t reader) {
          const Phase phase = op(reader).phase;
          return is_product(op(reader)) && (phase == Phase::kForward || phase == Phase::kBackwardData) &&
                 can_begin_at(reader, vertex);
        });
        if (product != readers[vertex].end()) product_behind_[vertex] = *product;
      } else if (is_exchange(op(vertex), CollectiveKind::kReduceScatter) && op(vertex).phase == Phase::kForward &&
                 reads_[vertex].size() == 1 && is_product(op(reads_[vertex][0]))) {
        scattered_by_[reads_[vertex][0]] = vertex;
      }
    }
    for (const auto& [gather, product] : product_behind_) scattered_by_.erase(product);
  }

  OperatorGraph graph() {
    for (std::size_t vertex = 0; vertex < old_.graph.size(); ++vertex) {
      if (!written_[vertex].empty()) continue;
      if (const auto product = product_behind_.find(vertex); product != product_behind_.end())
        write_gather(vertex, product->second);
      else if (const auto scatter = scattered_by_.find(vertex); scatter != scattered_by_.end())
        write_scatter(vertex, scatter->second);
      else
        write(vertex, op(vertex), read_by(vertex));
    }
    for (std::size_t vertex = 0; vertex < new_.size(); ++vertex)
      if (int& forward = new_.stored(vertex).backward_of; forward >= 0)
        forward = static_cast<int>(written_[static_cast<std::size_t>(forward)].back());
    return std::move(new_);
  }

 private:
  const Operator& op(std::size_t vertex) const { return old_.graph[vertex].stored(); }

  /// Whether all that the product reads besides stands before the exchange, or can stand there since it reads nothing.
  bool can_begin_at(std::size_t product, std::size_t exchange) const {
    return std::ranges::all_of(reads_[product],
                               [&](std::size_t read) { return read <= exchange || reads_[read].empty(); });
  }

  std::size_t write(std::size_t vertex, Operator part, const Vertices& reads) {
    const std::size_t written = new_.add(std::move(part));
    for (const std::size_t read : reads) new_.connect(read, written);
    written_[vertex].push_back(written);
    return written;
  }

  /// New vertices of all that the vertex reads, but of `without`.
  Vertices read_by(std::size_t vertex, std::size_t without = static_cast<std::size_t>(-1)) const {
    Vertices reads;
    for (const std::size_t read : reads_[vertex])
      if (read != without) reads.insert(reads.end(), written_[read].begin(), written_[read].end());
    return reads;
  }

  /// One of the parts of a product. What is kept of it, and its gradients, are there with the last one.
  Operator part_of(const Operator& whole, int index) const {
    Operator part = whole;
    part.name += "/part" + std::to_string(index + 1);
    part.is_further_part = index > 0;
    part.matrix.rows /= degree_;
    part.flops = whole.flops / degree_;
    Bytes weights{};
    for (const int variable : whole.reads_variables)
      weights += std::min(old_.variables[static_cast<std::size_t>(variable)].bytes, whole.bytes_read);
    part.bytes_read = weights + (whole.bytes_read - std::min(weights, whole.bytes_read)) / degree_;
    part.bytes_written = whole.bytes_written / degree_;
    if (part.output_shape.size() > 1 && part.output_shape[1] % degree_ == 0) part.output_shape[1] /= degree_;
    if (index > 0) part.kept_again = {};
    if (index + 1 < degree_) {
      part.output = part.kept = {};
      part.produces_gradients.clear();
    }
    return part;
  }

  void write_gather(std::size_t exchange, std::size_t product) {
    for (const std::size_t read : reads_[product])
      if (read > exchange && written_[read].empty()) write(read, op(read), {});
    const Operator whole = op(exchange);
    const Vertices own = read_by(exchange), beside = read_by(product, exchange);
    Vertices arrived = own;
    for (int index = 0; index < degree_; ++index) {
      Vertices reads = arrived;
      reads.insert(reads.end(), beside.begin(), beside.end());
      if (index + 1 < degree_) {
        Operator shift = whole;
        shift.name += "/part" + std::to_string(index + 1);
        shift.is_further_part = index > 0;
        shift.exchange->kind = CollectiveKind::kShift;
        shift.exchange->bytes = whole.exchange->bytes / degree_;
        if (index + 2 < degree_) shift.output = shift.kept = {};
        arrived = {write(exchange, std::move(shift), arrived)};
      }
      write(product, part_of(op(product), index), reads);
    }
    written_[exchange] = arrived;
  }

  void write_scatter(std::size_t product, std::size_t exchange) {
    const Vertices reads = read_by(product);
    for (int index = 0; index < degree_; ++index) {
      const std::size_t computed = write(product, part_of(op(product), index), reads);
      Operator sent = op(exchange);
      sent.name += "/part" + std::to_string(index + 1);
      sent.is_further_part = index > 0;
      sent.exchange->bytes = sent.exchange->bytes / degree_;
      if (index + 1 < degree_) sent.output = sent.kept = {};
      write(exchange, std::move(sent), {computed});
    }
  }

  const Workload& old_;
  int degree_;
  std::vector<Vertices> reads_;
  std::map<std::size_t, std::size_t> product_behind_;  // by the all-gather that it reads
  std::map<std::size_t, std::size_t> scattered_by_;    // the reduce-scatter of what a product gives
  std::vector<Vertices> written_;                      // by vertex: those of the new graph that give what it gave
  OperatorGraph new_;
};

}  // namespace

Workload overlap_exchanges(Workload workload, int degree) {
  workload.graph = Rewriting{workload, degree}.graph();
  return workload;
}

}  // namespace rehearse
