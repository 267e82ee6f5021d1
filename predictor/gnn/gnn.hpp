#pragma once
// Entry to predictor/gnn: graph neural networks on LibTorch. No header of this folder shows LibTorch; only its .cpp
// files include it. Read in this order:
//   torch_threads.hpp   one thread per process; which linear algebra library is in use
//   graph_batch.hpp   what a network is given
//   published_options.hpp, published_network.hpp   GCN, GIN, GAT and MPNN as published by Driple

#include "predictor/gnn/graph_batch.hpp"
#include "predictor/gnn/published_network.hpp"
#include "predictor/gnn/published_options.hpp"
#include "predictor/gnn/torch_threads.hpp"
