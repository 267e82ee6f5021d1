#pragma once
// Entry to predictor/: from operator graphs and measured or simulated profiles to the inputs and labels of graph neural
// networks. Nothing here needs LibTorch; the networks are in predictor/gnn. Read in this order:
//   grouping.hpp   operator graph -> graph of a fixed number of groups (asynchronous fluid communities)

#include "predictor/grouping.hpp"
