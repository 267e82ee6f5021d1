#pragma once
// What a quantity that cannot be read was meant to be: "1Gb/s" is "1Gbps", bits as they were.

#include <string>
#include <string_view>

namespace rehearse {

enum class QuantityKind { kTime, kSize, kRate, kWork, kSpeed };

/// Texts that can be read and that `text` may have been meant as, with its number: `"1Gbps"`; of several with what tells
/// them apart, `"5min" or "5ms"`, `"25Bps" (bytes) or "25bps" (bits)`. Empty if it is not understood. Never another
/// number, nor bytes where bits are written.
std::string quantity_hint(QuantityKind kind, std::string_view text);

}  // namespace rehearse
