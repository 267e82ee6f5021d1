#pragma once
// Entry to predictor/gnn: graph neural networks on LibTorch. No header of this folder shows LibTorch; only its .cpp
// files include it. Read in this order:
//   torch_threads.hpp   one thread per process; which linear algebra library is in use

#include "predictor/gnn/torch_threads.hpp"
