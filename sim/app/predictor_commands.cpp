#include "sim/app/predictor_commands.hpp"

#include "sim/app/program.hpp"

namespace rehearse {

void add_choice(Options options, SampleChoice& choice, std::string& origin) {
  options.add_repeatable("--setting", choice.settings, "NAME",
                         "Only samples of this setting, or group of settings; repeatable");
  options.add_repeatable("--leave-out-setting", choice.left_out_settings, "NAME",
                         "No samples of this setting, or group of settings; repeatable");
  options.add_repeatable("--leave-out-family", choice.left_out_families, "NAME",
                         "No samples of this family; repeatable");
  options.add_option("--family", choice.family, "NAME", "Only samples of this family");
  options.add_option("--origin", origin, "WORD", "Only samples that are simulated, or measured (default: both)")
      .check(is_one_of({"simulated", "measured", "both"}));
}

void set_origin(SampleChoice& choice, const std::string& origin) {
  if (origin == "simulated") choice.origin = Origin::kSimulated;
  if (origin == "measured") choice.origin = Origin::kMeasured;
}

}  // namespace rehearse
