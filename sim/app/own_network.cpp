// Of rehearse: networks that predict without LibTorch.

#include "predictor/metrics_model.hpp"
#include "sim/app/any_predictor.hpp"
#include "sim/app/predictor_program.hpp"

namespace rehearse {

std::unique_ptr<MetricsPredictor> load_network(const TorchValue& state, const std::string& where) {
  if (state.at("network", where).text(where + ": network") == "learnt")
    return std::make_unique<MetricsModel>(state, where);
  continue_in(kPredictorProgram);
}

}  // namespace rehearse
