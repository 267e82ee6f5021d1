#pragma once
// Asynchronous tensor parallelism: what GPUs that hold a layer together send one another runs beside the product that reads it, or
// that gives it. Sources: Wang et al., Overlap Communication with Dependent Computation via Decomposition, ASPLOS 2023; Transformer
// Engine, user buffers (tp_comm_overlap of Megatron-LM); PyTorch, symmetric memory (async_tp of torchtitan).

#include "workloads/operator_graph.hpp"

namespace rehearse {

/// The workload of one of `degree` GPUs (TensorSplit) with such pairs in as many parts. An all-gather becomes degree - 1 shifts of
/// a part each: the product begins with this GPU's own part, and computes each further one while the next is sent. A
/// reduce-scatter is sent in parts, each as soon as the product has computed it; the last one is waited for. Bytes and FLOPs stay
/// as they are, but each part of a product reads the weights. Gradients of weights read all parts, behind the other products of
/// their layer; reduce-scatters of the backward pass stay whole, as these run beside them.
Workload overlap_exchanges(Workload workload, int degree);

}  // namespace rehearse
