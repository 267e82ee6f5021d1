#pragma once
// Entry to predictor/gnn: graph neural networks on LibTorch. No header of this folder shows LibTorch; only its .cpp
// files include it. Read in this order:
//   torch_threads.hpp   one thread per process; which linear algebra library is in use
//   predictor.hpp, predictor_file.hpp   a network that learns from a dataset, by name and as a file
//   training.hpp   epochs, early stopping, going on where a training stopped
//   metrics_network.hpp   our own network
//   graph_batch.hpp   what a published network is given
//   published_options.hpp, published_network.hpp   GCN, GIN, GAT and MPNN as published by Driple
//   published_weights.hpp                          weights that Driple's program wrote

#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/gnn/training.hpp"
