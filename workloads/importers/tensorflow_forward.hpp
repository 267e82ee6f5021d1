#pragma once
// Of a GraphDef, the nodes that make the forward pass of its model: neither the input pipeline, nor gradients, updates,
// savers, summaries and metrics, nor the same model once more for another GPU.

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/importers/graph_def.hpp"

namespace rehearse {

bool is_tensorflow_variable(std::string_view op);
/// Where samples come from: placeholders, queues, iterators, decoders.
bool is_tensorflow_source(std::string_view op);
bool is_tensorflow_lookup(std::string_view op);
bool is_tensorflow_convolution(std::string_view op);
bool is_tensorflow_product(std::string_view op);
bool is_tensorflow_lstm(std::string_view op);
bool is_tensorflow_loss(std::string_view op);
bool is_tensorflow_random(std::string_view op);
bool is_tensorflow_reduction(std::string_view op);
/// Convolutions, products, lookups and recurrent layers.
bool has_tensorflow_weights(std::string_view op);
/// Integers, truth values or texts.
bool gives_no_floating_numbers(const GraphDefNode& node);

class TensorflowForward {
 public:
  /// One output of a node.
  struct Tensor {
    std::size_t node = kNowhere, output = 0;
  };
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  /// `where` precedes errors; `file` stays as it is. Throws InputError if there is no model, or an operator of it that
  /// cannot be taken over, such as a loop: with the reason.
  TensorflowForward(std::string where, const GraphDefFile& file);

  /// Nodes, those that are read first.
  const std::vector<std::size_t>& order() const { return order_; }
  /// What nobody reads further: logits, or what a signature names, or ends with parameters of their own.
  const std::vector<std::size_t>& ends() const { return ends_; }
  /// What node `i` reads of the model; nothing if it is a source, but for queues.
  const std::vector<Tensor>& inputs(std::size_t i) const { return inputs_[i]; }
  /// Whether node `i` is a variable, or a constant of a graph without variables, that was learned.
  bool is_learned(std::size_t i) const;
  /// Whether the integers of node `i` are looked up in a table.
  bool is_looked_up(std::size_t i) const { return looked_up_[i]; }
  /// Positions of sequences, different ones, at most `most`: those of which a cell of each reads one.
  std::vector<std::int64_t> sequence_lengths(std::size_t most) const;
  bool has_variables() const { return has_variables_; }
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  [[noreturn]] void fail(const GraphDefNode& node, const std::string& message) const;
  void connect();
  void find_loops();
  bool begins_loop(std::string_view op) const;
  void find_read();
  void keep_needed_inputs();
  void find_learned();
  std::size_t variable_behind(std::size_t node) const;
  void mark_weights(std::size_t node, std::size_t place);
  void find_ends();
  std::vector<std::size_t> losses_of_one_tower();
  bool sees_new_parameters(std::size_t end);
  void order_before(std::size_t end);
  void find_identifiers();

  std::string where_;
  const GraphDefFile& file_;
  const std::vector<GraphDefNode>& nodes_;
  std::map<std::string_view, std::size_t> by_name_;
  std::vector<std::vector<Tensor>> inputs_;
  std::set<std::string_view> trainable_;
  std::set<std::size_t> weights_;  // at places for them
  std::set<std::string> towers_;
  std::vector<bool> is_read_, is_seen_, looked_up_;
  std::vector<char> state_;  // 1: its inputs are being ordered, 2: it is in the order
  bool has_variables_ = false, sees_products_ = false, loops_have_weights_ = false;
  std::vector<std::size_t> ends_, order_;
  std::vector<std::string> remarks_;
};

}  // namespace rehearse
