#pragma once
// What a dataset says of an operator: the columns of DatasetGraph::features, each with its name and its place.

#include <array>
#include <vector>

namespace rehearse {

/// A row of features. Physical values, not normalised; sizes are for the whole batch.
struct NodeFeatures {
  float kind = 0, phase = 0;                   // OperatorKind and Phase as integers
  float flops = 0;                             // 2 per multiply-add
  float read = 0, written = 0;                 // bytes of device memory
  float parameters = 0;                        // bytes of the variables that it reads; of an update, that it applies
  float elements = 0;                          // product of the output shape
  float rows = 0, columns = 0, reduction = 0;  // MatrixShape; zero but for products
  float products = 0;                          // of kernels that are not matrix-like
  float is_3x3_stride_1 = 0;                   // 0 or 1
  float variables = 0;                         // how many it reads; 1 of an update
  float variable = 0;                          // creation number of the first of them, from 0; -1 without
  float statistics = 0, statistic = 0;         // the same of moving averages that it updates,
  float statistic_bytes = 0;                   // and the size of all of them
  float input_bytes = 0;                       // of one batch of samples, in the row of the first operator
};

struct NodeFeature {
  const char* name;
  float NodeFeatures::*value;
};

/// The columns, in their order.
inline constexpr std::array kNodeFeatures{NodeFeature{"kind", &NodeFeatures::kind},
                                          NodeFeature{"phase", &NodeFeatures::phase},
                                          NodeFeature{"flops", &NodeFeatures::flops},
                                          NodeFeature{"bytes_read", &NodeFeatures::read},
                                          NodeFeature{"bytes_written", &NodeFeatures::written},
                                          NodeFeature{"parameter_bytes", &NodeFeatures::parameters},
                                          NodeFeature{"output_elements", &NodeFeatures::elements},
                                          NodeFeature{"rows", &NodeFeatures::rows},
                                          NodeFeature{"columns", &NodeFeatures::columns},
                                          NodeFeature{"reduction", &NodeFeatures::reduction},
                                          NodeFeature{"products", &NodeFeatures::products},
                                          NodeFeature{"is_3x3_stride_1", &NodeFeatures::is_3x3_stride_1},
                                          NodeFeature{"variables", &NodeFeatures::variables},
                                          NodeFeature{"variable", &NodeFeatures::variable},
                                          NodeFeature{"statistics", &NodeFeatures::statistics},
                                          NodeFeature{"statistic", &NodeFeatures::statistic},
                                          NodeFeature{"statistic_bytes", &NodeFeatures::statistic_bytes},
                                          NodeFeature{"input_bytes", &NodeFeatures::input_bytes}};

/// The features of the operator at whose columns `row` points: kNodeFeatures.size() of them.
inline NodeFeatures read_node(const float* row) {
  NodeFeatures node;
  for (const NodeFeature& feature : kNodeFeatures) node.*feature.value = *row++;
  return node;
}

inline void append(const NodeFeatures& node, std::vector<float>& rows) {
  for (const NodeFeature& feature : kNodeFeatures) rows.push_back(node.*feature.value);
}

}  // namespace rehearse
