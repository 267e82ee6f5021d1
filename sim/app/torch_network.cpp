// Of rehearse-predictor: all networks.

#include "predictor/gnn/predictor_file.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "sim/app/any_predictor.hpp"

namespace rehearse {

std::unique_ptr<MetricsPredictor> load_network(const TorchValue& state, const std::string& where) {
  use_torch_threads(1);
  keep_freed_memory();
  return load_predictor(state, where);
}

}  // namespace rehearse
