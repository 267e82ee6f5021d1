#include "workloads/operator_graph.hpp"

namespace rehearse {

namespace {

template <class Value, class Select>
Value sum_variables(const Workload& workload, Select select) {
  Value total{};
  for (const Variable& variable : workload.variables) total += select(variable);
  return total;
}

}  // namespace

std::string OperatorAt::name() const { return copy_ == nullptr ? stored_->name : copy_->named(stored_->name); }

std::vector<int> OperatorAt::own(std::vector<int> variables) const {
  if (copy_ != nullptr)
    for (int& variable : variables) variable = copy_->variable(variable);
  return variables;
}

int OperatorAt::backward_of() const {
  const int of = stored_->backward_of;
  return copy_ != nullptr && of >= copy_->first_vertex && of < copy_->behind_vertex ? of + copy_->vertices : of;
}

Operator OperatorAt::whole() const {
  Operator whole = *stored_;
  if (copy_ == nullptr) return whole;
  whole.name = name();
  whole.reads_variables = reads_variables();
  whole.produces_gradients = produces_gradients();
  whole.backward_of = backward_of();
  return whole;
}

std::int64_t Variable::scalars() const {
  std::int64_t scalars = 1;
  for (const std::int64_t size : shape) scalars *= size;
  return scalars;
}

std::int64_t Workload::parameters() const {
  return sum_variables<std::int64_t>(
      *this, [](const Variable& variable) { return variable.is_trainable ? variable.scalars() : 0; });
}

std::int64_t Workload::parameters_of_all(int gpus) const {
  return sum_variables<std::int64_t>(*this, [gpus](const Variable& variable) {
    const int parts = variable.parts_of_experts > 0 ? variable.parts_of_experts : variable.is_shard ? gpus : 1;
    return variable.is_trainable ? variable.scalars() * parts : 0;
  });
}

int Workload::trainable_tensors() const {
  return sum_variables<int>(*this, [](const Variable& variable) { return variable.is_trainable ? 1 : 0; });
}

std::int64_t Workload::gradient_scalars(const Operator& op) const {
  std::int64_t sum = 0;
  for (const int variable : op.produces_gradients) sum += variables[static_cast<std::size_t>(variable)].scalars();
  return sum;
}

Bytes Workload::parameter_bytes() const {
  return sum_variables<Bytes>(
      *this, [](const Variable& variable) { return variable.is_trainable ? variable.bytes : Bytes{}; });
}

Bytes Workload::variable_bytes() const {
  return sum_variables<Bytes>(*this, [](const Variable& variable) { return variable.bytes; });
}

Flops Workload::forward_flops() const {
  Flops total{};
  for (const OperatorAt op : graph)
    if (op->is_of_forward_pass()) total += op->flops;
  return total;
}

Flops Workload::training_flops() const {
  Flops total{};
  for (const OperatorAt op : graph) total += op->flops;
  return total;
}

}  // namespace rehearse
