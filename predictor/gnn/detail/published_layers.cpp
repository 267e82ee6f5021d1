#include "predictor/gnn/detail/published_layers.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "predictor/gnn/detail/kernels.hpp"

namespace rehearse::detail {
namespace {

using at::Tensor;

constexpr std::int64_t kParts = 4;      // heads of GAT, towers of MPNN
constexpr double kLeak = 0.01;          // of GCN, MPNN and the last layer
constexpr double kAttentionLeak = 0.2;  // of GAT
constexpr double kSmallest = 1e-5;      // added before a root

// --- names and shapes ---

class Shapes {
 public:
  void uniform(std::string name, std::vector<std::int64_t> shape, std::int64_t width) {
    add(std::move(name), std::move(shape), ParameterShape::Start::kUniform,
        1.0 / std::sqrt(static_cast<double>(width)));
  }
  void xavier(std::string name, std::vector<std::int64_t> shape, double gain) {
    add(std::move(name), std::move(shape), ParameterShape::Start::kXavier, gain);
  }
  void constant(std::string name, std::vector<std::int64_t> shape, double value) {
    add(std::move(name), std::move(shape), ParameterShape::Start::kConstant, value);
  }
  /// A `gain` of 0 stands for 1 / in.
  void linear(const std::string& prefix, std::int64_t in, std::int64_t out, double gain = 0.0) {
    xavier(prefix + ".linear.weight", {out, in}, gain > 0.0 ? gain : 1.0 / static_cast<double>(in));
    add(prefix + ".linear.bias", {out}, ParameterShape::Start::kZero, 0.0);
  }
  /// `layers` linear layers, in -> hidden -> ... -> hidden -> out.
  void fully_connected(const std::string& prefix, std::int64_t in, std::int64_t hidden, std::int64_t out, int layers,
                       double gain = 0.0) {
    for (int i = 0; i < layers; ++i)
      linear(prefix + ".fully_connected." + std::to_string(i), i == 0 ? in : hidden, i + 1 == layers ? out : hidden,
             gain);
  }

  std::vector<ParameterShape> list;

 private:
  void add(std::string name, std::vector<std::int64_t> shape, ParameterShape::Start start, double scale) {
    list.push_back({std::move(name), std::move(shape), start, scale});
  }
};

/// What a tower of MPNN sees: all features in the first convolution, a slice of the hidden state in the others.
std::int64_t tower_inputs(const PublishedOptions& options, bool is_first) {
  return is_first ? options.features : options.hidden / kParts;
}

void add_convolution(Shapes& shapes, const PublishedOptions& options, int index) {
  const std::string prefix = "conv_layers." + std::to_string(index);
  const std::int64_t out = options.hidden, in = index == 0 ? options.features : out;
  switch (options.convolution) {
    case Convolution::kGcn:
      shapes.uniform(prefix + ".W", {in, out}, out);
      shapes.uniform(prefix + ".b", {out}, out);
      break;
    case Convolution::kGin:
      shapes.constant(prefix + ".epsilon", {1}, 0.1);
      shapes.fully_connected(prefix + ".post_transformation", in, std::max(in, out), out, options.gin_mlp_layers);
      break;
    case Convolution::kGat:
    case Convolution::kGatTextbook:
      for (std::int64_t k = 0; k < kParts; ++k) {
        const std::string head = prefix + ".heads." + std::to_string(k);
        shapes.xavier(head + ".W", {in, out / kParts}, 0.1414);
        shapes.xavier(head + ".a", {2 * out / kParts, 1}, 0.1414);
      }
      break;
    case Convolution::kMpnn: {
      const std::int64_t seen = tower_inputs(options, index == 0), result = out / kParts;
      const auto aggregates = static_cast<std::int64_t>(options.mpnn_aggregators.size() * options.mpnn_scalers.size());
      for (std::int64_t k = 0; k < kParts; ++k) {
        const std::string tower = prefix + ".towers." + std::to_string(k);
        shapes.fully_connected(tower + ".pretrans", 2 * seen, seen, seen, options.mpnn_pre_layers);
        shapes.fully_connected(tower + ".posttrans", (aggregates + 1) * seen, result, result, options.mpnn_post_layers);
      }
      shapes.linear(prefix + ".mixing_network", out, out);
      break;
    }
  }
}

// --- graphs ---

using Neighbours = std::vector<std::vector<std::int64_t>>;

Neighbours neighbours_of(const EqualGraphs& graphs, bool with_self) {
  Neighbours neighbours(static_cast<std::size_t>(graphs.graphs * graphs.nodes));
  for (const auto& [from, to] : graphs.edges) {
    neighbours[from].push_back(to);
    neighbours[to].push_back(from);
  }
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    if (with_self) neighbours[i].push_back(static_cast<std::int64_t>(i));
    std::ranges::sort(neighbours[i]);
    neighbours[i].erase(std::ranges::unique(neighbours[i]).begin(), neighbours[i].end());
  }
  return neighbours;
}

/// The adjacency, or with `is_normalized` D^-1/2 A D^-1/2, D the row sums.
std::shared_ptr<const Links> links_of(const Neighbours& neighbours, bool is_normalized) {
  Links links{.starts = {0}};
  for (const auto& row : neighbours) {
    for (const std::int64_t column : row) {
      const auto degrees =
          static_cast<double>(row.size()) * static_cast<double>(neighbours[static_cast<std::size_t>(column)].size());
      links.columns.push_back(column);
      links.weights.push_back(is_normalized ? 1.0 / std::sqrt(degrees) : 1.0);
    }
    links.starts.push_back(static_cast<std::int64_t>(links.columns.size()));
  }
  return std::make_shared<const Links>(std::move(links));
}

/// Softmax over the neighbours j of i, i among them; score of (i, j): a . [h_i, h_j].
/// Source: Velickovic et al., "Graph Attention Networks", ICLR 2018.
std::shared_ptr<const Attention> textbook_attention(const Neighbours& neighbours_and_self) {
  Attention attention{.group_starts = {0}};
  for (std::size_t i = 0; i < neighbours_and_self.size(); ++i) {
    for (const std::int64_t j : neighbours_and_self[i]) {
      attention.targets.push_back(static_cast<std::int64_t>(i));
      attention.sources.push_back(j);
      attention.first_nodes.push_back(static_cast<std::int64_t>(i));
      attention.second_nodes.push_back(j);
    }
    attention.group_starts.push_back(static_cast<std::int64_t>(attention.targets.size()));
  }
  return std::make_shared<const Attention>(std::move(attention));
}

/// As in Driple's program: softmax over the rows i of a column j, and the score of (i, j) from two rows 2p and 2p + 1,
/// p = i N + j, of a stack of 2 N^2 node numbers: m / N for m < N^2, then (m - N^2) mod N. All of a column without
/// neighbour get equal shares.
std::shared_ptr<const Attention> published_attention(const Neighbours& neighbours, std::int64_t nodes) {
  const auto stacked = [&](std::int64_t m) { return m < nodes * nodes ? m / nodes : (m - nodes * nodes) % nodes; };
  Attention attention{.group_starts = {0}};
  for (std::size_t column = 0; column < neighbours.size(); ++column) {
    const auto global = static_cast<std::int64_t>(column);
    const std::int64_t j = global % nodes, graph_start = global - j;
    const auto add = [&](std::int64_t target, std::int64_t first, std::int64_t second) {
      attention.targets.push_back(target);
      attention.sources.push_back(global);
      attention.first_nodes.push_back(graph_start + first);
      attention.second_nodes.push_back(graph_start + second);
    };
    for (const std::int64_t target : neighbours[column]) {
      const std::int64_t pair = (target - graph_start) * nodes + j;
      add(target, stacked(2 * pair), stacked(2 * pair + 1));
    }
    if (neighbours[column].empty())
      for (std::int64_t i = 0; i < nodes; ++i) add(graph_start + i, 0, 0);  // equal scores
    attention.group_starts.push_back(static_cast<std::int64_t>(attention.targets.size()));
  }
  return std::make_shared<const Attention>(std::move(attention));
}

// --- the network ---

using Parameters = std::map<std::string, Tensor>;

Parameters by_name(const PublishedOptions& options, const std::vector<Tensor>& parameters) {
  const std::vector<ParameterShape> shapes = parameter_shapes(options);
  Parameters named;
  for (std::size_t i = 0; i < shapes.size(); ++i) named[shapes[i].name] = parameters[i];
  return named;
}

class Embedding {
 public:
  Embedding(const PublishedOptions& options, const std::vector<Tensor>& parameters, const EqualGraphs& graphs,
            const ForwardSettings& settings)
      : options_{options}, graphs_{graphs}, settings_{settings}, parameters_{by_name(options, parameters)} {
    const bool with_self = options.convolution == Convolution::kGcn ||
                           options.convolution == Convolution::kGatTextbook ||
                           (options.convolution == Convolution::kMpnn && options.mpnn_self_loop);
    const Neighbours neighbours = neighbours_of(graphs, with_self);
    switch (options.convolution) {
      case Convolution::kGat:
        attention_ = published_attention(neighbours, graphs.nodes);
        break;
      case Convolution::kGatTextbook:
        attention_ = textbook_attention(neighbours);
        break;
      default:
        links_ = links_of(neighbours, options.convolution == Convolution::kGcn);
    }
    std::vector<double> degrees;
    for (const auto& row : neighbours) degrees.push_back(static_cast<double>(row.size()));
    const Tensor& like = parameters.front();
    degrees_ = at::tensor(degrees, at::TensorOptions{}.dtype(at::kDouble)).to(like.options()).unsqueeze(1);
    x_ = at::tensor(graphs.features, at::TensorOptions{}.dtype(at::kDouble))
             .to(like.options())
             .view({graphs.graphs * graphs.nodes, options.features});
  }

  Tensor run() {
    const std::int64_t iterations = iteration_count(options_.iterations, graphs_.nodes);
    const std::int64_t kept = 1 + (iterations - 1) / 2;  // iterations without the third convolution, as intended
    Tensor x = at::constant_pad_nd(x_, {0, options_.hidden - options_.features});
    Convolve convolve = prepare(0);
    for (std::int64_t t = 0; t < iterations; ++t) {
      if (t == 1) convolve = prepare(1);
      if (t >= 1 && t == kept && options_.transfer == Transfer::kAsIntended) convolve = prepare(2);
      const Tensor y = convolve(t == 0 ? x_ : x);
      trace("conv", t, y);
      x = at::gru_cell(x, y, get("gru.gru.weight_ih_l0"), get("gru.gru.weight_hh_l0"), get("gru.gru.bias_ih_l0"),
                       get("gru.gru.bias_hh_l0"));
      trace("gru", t, x);
      if (settings_.dropout && t + 1 < iterations) x = x * settings_.dropout(t);
    }
    return set_to_set_of(x);
  }

 private:
  using Convolve = std::function<Tensor(const Tensor&)>;

  const Tensor& get(const std::string& name) const { return parameters_.at(name); }
  void trace(const std::string& name, std::int64_t index, const Tensor& value) const {
    if (settings_.trace) settings_.trace(name + " " + std::to_string(index), value);
  }

  Tensor set_to_set_of(const Tensor& x) const {
    const std::int64_t steps = options_.set2set_steps > 0 ? options_.set2set_steps : graphs_.nodes;
    const std::string lstm = "graph_read_out.set2set.lstm.";
    const Tensor value = set_to_set(x.view({graphs_.graphs, graphs_.nodes, options_.hidden}),
                                    {.input_weight = get(lstm + "weight_ih_l0"),
                                     .state_weight = get(lstm + "weight_hh_l0"),
                                     .input_bias = get(lstm + "bias_ih_l0"),
                                     .state_bias = get(lstm + "bias_hh_l0")},
                                    steps);
    trace("set2set", 0, value);
    return value;
  }

  Tensor linear(const std::string& prefix, const Tensor& x) const {
    return at::linear(x, get(prefix + ".linear.weight"), get(prefix + ".linear.bias"));
  }

  Convolve prepare(int index) const {
    const std::string prefix = "conv_layers." + std::to_string(index);
    switch (options_.convolution) {
      case Convolution::kGcn:
        return prepare_gcn(prefix);
      case Convolution::kGin:
        return prepare_gin(prefix);
      case Convolution::kMpnn:
        return prepare_mpnn(prefix, index == 0);
      default:
        return prepare_gat(prefix);
    }
  }

  Convolve prepare_gcn(const std::string& prefix) const {
    return [this, weight = get(prefix + ".W"), bias = get(prefix + ".b")](const Tensor& x) {
      return at::leaky_relu(propagate(links_, at::mm(x, weight)) + bias, kLeak);
    };
  }

  /// The first layer is linear, so it may come before the sum over neighbours.
  Convolve prepare_gin(const std::string& prefix) const {
    const Tensor self = 1.0 + get(prefix + ".epsilon");
    return [this, self, layers = prefix + ".post_transformation.fully_connected."](const Tensor& x) {
      const Tensor z = at::mm(x, get(layers + "0.linear.weight").t());
      Tensor y = at::relu(propagate(links_, z) + at::addcmul(get(layers + "0.linear.bias"), z, self));
      for (int i = 1; i < options_.gin_mlp_layers; ++i) y = at::relu(linear(layers + std::to_string(i), y));
      return y;
    };
  }

  /// a . [h_u, h_v] = (a_1 . h_u) + (a_2 . h_v), so pairs of nodes are never formed.
  Convolve prepare_gat(const std::string& prefix) const {
    std::vector<Tensor> weights, first, second;
    const std::int64_t width = options_.hidden / kParts;
    for (std::int64_t k = 0; k < kParts; ++k) {
      const std::string head = prefix + ".heads." + std::to_string(k);
      const Tensor& a = get(head + ".a");
      weights.push_back(get(head + ".W"));
      first.push_back(at::mm(weights.back(), a.narrow(0, 0, width)));
      second.push_back(at::mm(weights.back(), a.narrow(0, width, width)));
    }
    return [this, weight = at::cat(weights, 1), a = at::cat(first, 1), b = at::cat(second, 1)](const Tensor& x) {
      return at::elu(attend(attention_, at::mm(x, weight), at::mm(x, a), at::mm(x, b), kAttentionLeak));
    };
  }

  /// The towers side by side. `part` narrows a tower's weight; towers see disjoint slices of x, except in the first
  /// convolution.
  Tensor of_towers(const std::string& prefix, const std::string& name, bool is_block_diagonal,
                   const std::function<Tensor(const Tensor&)>& part) const {
    std::vector<Tensor> parts;
    for (std::int64_t k = 0; k < kParts; ++k)
      parts.push_back(part(get(prefix + ".towers." + std::to_string(k) + name)));
    return is_block_diagonal ? at::block_diag(parts) : at::cat(parts, 0);
  }

  Convolve prepare_mpnn(const std::string& prefix, bool is_first) const {
    const std::int64_t seen = tower_inputs(options_, is_first);
    const auto columns = [seen](std::int64_t block) {
      return [seen, block](const Tensor& weight) { return weight.narrow(1, block * seen, seen); };
    };
    const auto whole = [](const Tensor& tensor) { return tensor; };
    const std::string before = ".pretrans.fully_connected.", after = ".posttrans.fully_connected.";
    // Message of a link: m_ij = P1 x_i + P2 x_j + p. Update: u_i = Q0 x_i + sum over aggregates s of Q_s M_s,i + q.
    const Tensor p1 = of_towers(prefix, before + "0.linear.weight", !is_first, columns(0));
    const Tensor p2 = of_towers(prefix, before + "0.linear.weight", !is_first, columns(1));
    const Tensor p = of_towers(prefix, before + "0.linear.bias", false, whole);
    const Tensor q0 = of_towers(prefix, after + "0.linear.weight", !is_first, columns(0));
    Tensor q = of_towers(prefix, after + "0.linear.bias", false, whole);
    std::vector<Tensor> q_s;
    const auto aggregates = static_cast<std::int64_t>(options_.mpnn_aggregators.size() * options_.mpnn_scalers.size());
    for (std::int64_t s = 1; s <= aggregates; ++s)
      q_s.push_back(of_towers(prefix, after + "0.linear.weight", true, columns(s)));
    const Tensor& mix = get(prefix + ".mixing_network.linear.weight");
    const Tensor& mix_bias = get(prefix + ".mixing_network.linear.bias");

    const bool is_linear = options_.mpnn_pre_layers == 1 && options_.mpnn_post_layers == 1 && aggregates == 1 &&
                           options_.mpnn_aggregators.front() == "sum" && options_.mpnn_scalers.front() == "identity";
    if (is_linear) {
      // All before the last activation is linear: one matrix for x_i, one for d_i x_i, one for the sum of the x_j.
      const Tensor from_sum = at::mm(mix, q_s.front());
      const Tensor weight = at::cat({at::mm(mix, q0), at::mm(from_sum, p1), at::mm(from_sum, p2)}, 0).t();
      const Tensor bias = at::addmv(mix_bias, mix, q) + degrees_ * at::mv(from_sum, p);
      return [this, weight, bias](const Tensor& x) {
        const std::vector<Tensor> z = at::chunk(at::mm(x, weight), 3, 1);
        return at::leaky_relu(at::addcmul(bias + z[0], z[1], degrees_) + propagate(links_, z[2].contiguous()), kLeak);
      };
    }
    std::vector<std::pair<Tensor, Tensor>> deeper_before, deeper_after;
    for (int i = 1; i < options_.mpnn_pre_layers; ++i)
      deeper_before.emplace_back(of_towers(prefix, before + std::to_string(i) + ".linear.weight", true, whole),
                                 of_towers(prefix, before + std::to_string(i) + ".linear.bias", false, whole));
    for (int i = 1; i < options_.mpnn_post_layers; ++i)
      deeper_after.emplace_back(of_towers(prefix, after + std::to_string(i) + ".linear.weight", true, whole),
                                of_towers(prefix, after + std::to_string(i) + ".linear.bias", false, whole));
    return [=, this](const Tensor& x) {
      const std::vector<Tensor> aggregated = aggregate(at::linear(x, p1, p), at::linear(x, p2), deeper_before);
      Tensor u = at::linear(x, q0, q);
      std::size_t s = 0;
      for (const std::string& scaler : options_.mpnn_scalers)
        for (const Tensor& value : aggregated) u = u + at::linear(value * scale(scaler), q_s[s++]);
      for (const auto& [weight, bias] : deeper_after) u = at::linear(at::relu(u), weight, bias);
      return at::leaky_relu(at::linear(u, mix, mix_bias), kLeak);
    };
  }

  /// [nodes, 1]; 0 for a node without neighbour where the formula has none.
  Tensor scale(const std::string& scaler) const {
    const Tensor logarithm = at::log(degrees_ + 1.0);
    if (scaler == "amplification") return logarithm / options_.average_log_degree;
    if (scaler == "attenuation")
      return at::where(degrees_ > 0, options_.average_log_degree / at::clamp_min(logarithm, 0.1),
                       at::zeros_like(degrees_));
    if (scaler == "linear") return degrees_ / options_.average_degree;
    if (scaler == "inverse_linear")
      return at::where(degrees_ > 0, options_.average_degree / at::clamp_min(degrees_, 1.0), at::zeros_like(degrees_));
    return at::ones_like(degrees_);
  }

  /// Of the messages a_i + b_j over the neighbours j of i, each aggregator's value; 0 for a node without neighbour.
  std::vector<Tensor> aggregate(const Tensor& a, const Tensor& b,
                                const std::vector<std::pair<Tensor, Tensor>>& deeper) const {
    const bool is_sum_of_two = deeper.empty();
    const auto sums_suffice = [](const std::string& name) {
      return name == "sum" || name == "mean" || name == "var" || name == "std" || name == "identity";
    };
    const auto through = [&](Tensor message) {
      for (const auto& [weight, bias] : deeper) message = at::linear(at::relu(message), weight, bias);
      return message;
    };
    Tensor rows, columns, messages;  // of every link, without a_i if it is only added
    if (!is_sum_of_two || !std::ranges::all_of(options_.mpnn_aggregators, sums_suffice)) {
      std::vector<std::int64_t> row;
      for (std::size_t i = 0; i + 1 < links_->starts.size(); ++i)
        row.insert(row.end(), static_cast<std::size_t>(links_->starts[i + 1] - links_->starts[i]),
                   static_cast<std::int64_t>(i));
      const auto index = [&](const std::vector<std::int64_t>& values) {
        return at::tensor(values, at::TensorOptions{}.dtype(at::kLong)).to(a.device());
      };
      rows = index(row);
      columns = index(links_->columns);
      messages = b.index_select(0, columns);
      if (!is_sum_of_two) messages = through(messages + a.index_select(0, rows));
    }
    const auto sum_of = [&](const Tensor& values) { return at::zeros_like(a).index_add(0, rows, values); };
    const auto sum = [&](bool is_squared) {
      if (is_sum_of_two) return propagate(links_, is_squared ? b.square() : b);
      return sum_of(is_squared ? messages.square() : messages);
    };
    const Tensor counts = at::clamp_min(degrees_, 1.0);
    const Tensor has_neighbours = (degrees_ > 0).to(a.scalar_type());
    // Adds what `messages` lack to a mean of them, in which their shares add up to 1.
    const auto whole = [&](const Tensor& mean) { return is_sum_of_two ? at::addcmul(mean, a, has_neighbours) : mean; };
    const auto variance = [&] {
      const Tensor average = sum(false) / counts;
      return at::relu(sum(true) / counts - average.square());
    };
    const auto extreme = [&](bool is_smallest) {
      const Tensor found = extremes(links_->starts, messages, is_smallest);
      return is_sum_of_two ? (found + a) * has_neighbours : found;
    };
    const auto normalised_mean = [&] {
      const Tensor roots = at::rsqrt(counts);
      const Tensor all = is_sum_of_two ? messages + a.index_select(0, rows) : messages;
      return sum_of(all * roots.index_select(0, columns)) * roots;
    };
    const auto soft_extreme = [&](double sign) {
      const Tensor signed_messages = messages * sign;
      const Tensor largest = extremes(links_->starts, signed_messages, false).detach();  // no exponential exceeds 1
      const Tensor weights = at::exp(signed_messages - largest.index_select(0, rows));
      return whole(sum_of(weights * messages) / at::clamp_min(sum_of(weights), kSmallest));
    };
    const auto moment = [&](int order) {
      const Tensor from_mean = messages - (sum(false) / counts).index_select(0, rows);
      const Tensor value = sum_of(at::pow(from_mean, order)) / counts;
      return value * at::pow(at::abs(value) + kSmallest, 1.0 / order - 1.0);
    };
    std::vector<Tensor> values;
    for (const std::string& name : options_.mpnn_aggregators) {
      if (name == "sum") values.push_back(is_sum_of_two ? at::addcmul(sum(false), a, degrees_) : sum(false));
      if (name == "mean") values.push_back(whole(sum(false) / counts));
      if (name == "max") values.push_back(extreme(false));
      if (name == "min") values.push_back(extreme(true));
      if (name == "var") values.push_back(variance());
      if (name == "std") values.push_back(at::sqrt(variance() + kSmallest));
      if (name == "normalised_mean") values.push_back(normalised_mean());
      if (name == "softmax") values.push_back(soft_extreme(1.0));
      if (name == "softmin") values.push_back(soft_extreme(-1.0));
      if (name.starts_with("moment")) values.push_back(moment(name.back() - '0'));
      if (name == "identity") values.push_back(through(a + b));
    }
    return values;
  }

  const PublishedOptions& options_;
  const EqualGraphs& graphs_;
  const ForwardSettings& settings_;
  Parameters parameters_;
  std::shared_ptr<const Links> links_;
  std::shared_ptr<const Attention> attention_;
  Tensor degrees_;  // [nodes, 1]
  Tensor x_;        // [nodes, features]
};

}  // namespace

std::vector<ParameterShape> parameter_shapes(const PublishedOptions& options) {
  Shapes shapes;
  const int convolutions = options.transfer == Transfer::kNone ? 2 : 3;
  for (int i = 0; i < convolutions; ++i) add_convolution(shapes, options, i);
  const std::int64_t hidden = options.hidden;
  shapes.uniform("gru.gru.weight_ih_l0", {3 * hidden, hidden}, hidden);
  shapes.uniform("gru.gru.weight_hh_l0", {3 * hidden, hidden}, hidden);
  shapes.uniform("gru.gru.bias_ih_l0", {3 * hidden}, hidden);
  shapes.uniform("gru.gru.bias_hh_l0", {3 * hidden}, hidden);
  shapes.uniform("graph_read_out.set2set.lstm.weight_ih_l0", {4 * hidden, 2 * hidden}, hidden);
  shapes.uniform("graph_read_out.set2set.lstm.weight_hh_l0", {4 * hidden, hidden}, hidden);
  shapes.uniform("graph_read_out.set2set.lstm.bias_ih_l0", {4 * hidden}, hidden);
  shapes.uniform("graph_read_out.set2set.lstm.bias_hh_l0", {4 * hidden}, hidden);
  shapes.fully_connected("graph_read_out.mlp", 2 * hidden, hidden, options.outputs, options.mlp_layers,
                         options.mlp_gain);
  return shapes.list;
}

Tensor embed(const PublishedOptions& options, const std::vector<Tensor>& parameters, const EqualGraphs& graphs,
             const ForwardSettings& settings) {
  return Embedding{options, parameters, graphs, settings}.run();
}

Tensor read_out(const PublishedOptions& options, const std::vector<Tensor>& parameters, const Tensor& embedding,
                const Trace& trace) {
  const Parameters named = by_name(options, parameters);
  Tensor value = embedding;
  for (int i = 0; i < options.mlp_layers; ++i) {
    const std::string layer = "graph_read_out.mlp.fully_connected." + std::to_string(i) + ".linear.";
    value = at::linear(value, named.at(layer + "weight"), named.at(layer + "bias"));
    const bool is_last = i + 1 == options.mlp_layers;
    if (!is_last) value = at::relu(value);
    if (is_last && options.labels == LabelScaling::kMaxima) value = at::leaky_relu(value, kLeak);
    if (trace) trace("mlp " + std::to_string(i), value);
  }
  return value;
}

}  // namespace rehearse::detail
