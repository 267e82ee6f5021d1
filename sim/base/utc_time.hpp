#pragma once
// Calendar time, as seconds since 1970-01-01T00:00:00Z without leap seconds (POSIX time).

#include <string>
#include <string_view>

namespace rehearse {

/// "2020-03-15T10:09:42", with fractions of a second, "Z" or neither; without a zone it is taken as UTC. The date alone
/// is its midnight. Throws std::invalid_argument, `expected a time in UTC, such as "2020-03-15T10:09:42Z"; found "x"`.
double parse_utc(std::string_view text);

/// "2020-03-15T10:09:42Z"; fractions are cut off. For times from 1970 to 9999.
std::string utc_text(double utc_s);

}  // namespace rehearse
