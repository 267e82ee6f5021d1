// Networks, whose library includes headers that clang 14 refuses: fuzz_search looks for inputs, not libFuzzer.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "predictor/gnn/predictor_file.hpp"
#include "sim/base/base.hpp"
#include "tests/fuzz/targets/changed_state.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/small_predictor.hpp"

namespace rehearse::fuzz {
namespace {

/// A sound state that learned something, so that its optimizer has moments, too.
TorchValue state_of(const std::string& network) {
  PredictorChoice choice = test::small_predictor(network);
  choice.metrics = {.hidden = 2, .message_rounds = 1, .channels = 2, .readout = 3};
  choice.published.hidden = 4;
  const std::vector<std::size_t> samples{0, 1, 4, 5};
  const auto predictor = make_predictor(choice, small_dataset(), samples);
  predictor->learn(small_dataset(), samples, 1e-3);
  return predictor->state();
}

void run_predictor(const TorchValue& state, bool may_be_negative) {
  try {
    const auto predictor = load_predictor(state, "input");
    const std::string written = to_torch_file(predictor->state());
    const std::vector<std::size_t> samples{0, 3};
    for (const PredictedMetrics& predicted : predictor->predict(small_dataset(), samples))
      require_sound_prediction(predicted, may_be_negative);
    require(to_torch_file(load_predictor(parse_torch_file(written, "written"), "written")->state()) == written,
            "what was written is read back");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_learnt_model(std::string_view input) {
  static const TorchValue sound = state_of("learnt");
  Bytes bytes{input};
  run_predictor(changed(sound, bytes), false);
}

/// The first byte says of which published network.
void run_published_model(std::string_view input) {
  static const std::array sound{state_of("gcn"), state_of("gin"), state_of("gat"), state_of("mpnn")};
  Bytes bytes{input};
  const TorchValue& state = sound[bytes.below(sound.size())];
  run_predictor(changed(state, bytes), true);
}

}  // namespace

std::span<const Target> targets_of_networks() {
  static constexpr std::array kTargets{Target{"learnt_model", run_learnt_model},
                                       Target{"published_model", run_published_model}};
  return kTargets;
}

}  // namespace rehearse::fuzz
