#pragma once
// What a quantity that cannot be read was meant to be: "1Gb/s" is "1Gbps", bits as they were.

#include <string>
#include <string_view>

namespace rehearse {

enum class QuantityKind { kTime, kSize, kRate, kWork, kSpeed };

/// Texts that can be read and that `text` may have been meant as, with its number: `"1Gbps"`; of several with what tells
/// them apart, `"5min" or "5ms"`, `"25Bps" (bytes) or "25bps" (bits)`. Several numbers of a time become one, of the same
/// value: `"76h"` of 3 days 4 h. Empty if it is not understood or, as 1,500, could be two numbers. Never another value,
/// nor bytes where bits are written.
std::string quantity_hint(QuantityKind kind, std::string_view text);

/// The number of USD that `text`, "$3/h", is `per` "hour" or "gib_month": "3". Empty if it is of another currency or
/// another time.
std::string price_hint(std::string_view per, std::string_view text);

}  // namespace rehearse
