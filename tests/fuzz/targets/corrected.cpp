#include "predictor/corrected/corrected.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/base/base.hpp"
#include "tests/fuzz/targets/changed_state.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace rehearse::fuzz {
namespace {

JobTraits job(std::size_t i) {
  return {.study = i < 15 ? "a" : "b",
          .gpu = i % 2 == 0 ? "V100" : "T4",
          .model = "model " + std::to_string(i % 3),
          .strategy = "ring",
          .workers = static_cast<double>(1 + i % 4),
          .machines = 1,
          .batch = 32};
}

void run_corrected_model(std::string_view input) {
  static const TorchValue sound = [] {
    Dataset data = small_dataset();
    EngineLabels engine;
    std::vector<std::size_t> samples;
    data.samples.resize(30, data.samples.front());
    for (std::size_t i = 0; i < data.samples.size(); ++i) {
      data.samples[i].origin = Origin::kMeasured;
      samples.push_back(i);
      engine.labels.push_back(data.samples[i].labels);
      for (double& label : engine.labels.back()) label *= 0.8 + 0.01 * static_cast<double>(i % 7);
      engine.traits.push_back(job(i));
      engine.samples_per_step.push_back(32);
      engine.questions.push_back({"model", "model", "model"});
    }
    return CorrectedEngine{data, samples, engine}.state();
  }();
  Bytes bytes{input};
  try {
    const CorrectedEngine engine{changed(sound, bytes), "input"};
    for (const std::size_t i : {0U, 20U})
      require_sound_prediction(engine.correct(small_dataset().samples[i % 4].labels, job(i)));
    require_sound_prediction(engine.correct(small_dataset().samples[0].labels, {}));
    const std::string written = to_torch_file(engine.state());
    require(to_torch_file(CorrectedEngine{parse_torch_file(written, "written"), "written"}.state()) == written,
            "what was written is read back");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_corrected() {
  static constexpr std::array kTargets{Target{"corrected_model", run_corrected_model}};
  return kTargets;
}

}  // namespace rehearse::fuzz
