#pragma once
// Files of trained models have checksums: instead of their bytes, targets change values of a sound one as the input says.

#include <cstdint>
#include <string_view>

#include "predictor/dataset.hpp"
#include "predictor/predicted_metrics.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse::fuzz {

/// Bytes of the input, one after another; zeros after its end.
class Bytes {
 public:
  explicit Bytes(std::string_view text) : text_{text} {}
  bool is_at_end() const { return text_.empty(); }
  std::uint8_t next();
  std::uint64_t eight();
  double number();
  std::size_t below(std::size_t count) { return count < 2 ? 0 : next() % count; }

 private:
  std::string_view text_;
};

/// `state` after at most 16 changes: values removed, added, exchanged, replaced by other ones, tensors of other numbers,
/// shapes or types.
TorchValue changed(TorchValue state, Bytes& bytes);

/// Two small graphs in four settings.
const Dataset& small_dataset();

/// A prediction for each label of that dataset, each in its interval; none negative, unless they may be, as those of the
/// published networks.
void require_sound_prediction(const PredictedMetrics& predicted, bool may_be_negative = false);

}  // namespace rehearse::fuzz
