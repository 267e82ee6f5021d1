#pragma once
// Entry to predictor/: from operator graphs and measured or simulated resource profiles to the inputs and labels of graph neural
// networks. Nothing here needs LibTorch; networks learn in predictor/gnn. Read in this order:
//   dataset.hpp    graphs, settings and samples with labels, and their file
//   space.hpp, generate.hpp   random workloads and clusters -> a dataset
//   features.hpp   sample -> inputs of our network; metrics_model.hpp: the network, which learns in predictor/gnn
//   scoring.hpp    how good predictions are; what they have to beat is in predictor/baselines
//   engine_labels.hpp   samples -> what the engine says; predictor/corrected: times what measured jobs say of its errors
//   operator_types.hpp   operators under TensorFlow's names, for the published networks
//   grouping.hpp   operator graph -> graph of a fixed number of groups (asynchronous fluid communities)
//   torch_file.hpp   files of Python's torch.save, read and written without LibTorch
//   measurement_list.hpp, measured_series.hpp   what was measured of which job, and its labels
//   merge.hpp      datasets as one, simulated and measured
//   driple_dataset.hpp   the data set files of Driple; our datasets as such files: driple_export.hpp;
//       its inputs (GraphDef, table of jobs), and measured jobs as a dataset, are in predictor/driple

#include "predictor/driple_export.hpp"
#include "predictor/generate.hpp"
#include "predictor/scoring.hpp"
#include "predictor/torch_file.hpp"
