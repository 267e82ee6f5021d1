#include "sim/base/utc_time.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

namespace rehearse {

TEST_CASE("times in UTC are counted from 1970") {
  CHECK(parse_utc("1970-01-01") == 0);
  CHECK(parse_utc("1970-01-02T00:00:01Z") == 86401);
  // 18262 days from 1970 to 2020, of which 12 leap years: 50 * 365 + 12; January and February 2020 have 60 days.
  CHECK(parse_utc("2020-03-01T10:09:42") == (18262 + 60) * 86400.0 + 10 * 3600 + 9 * 60 + 42);
  CHECK(parse_utc("2019-12-22 23:47:44.250Z") == parse_utc("2019-12-22T23:47:44Z") + 0.25);
  CHECK(parse_utc("2020-02-29") + 86400 == parse_utc("2020-03-01"));
}

TEST_CASE("a time's text reads back the same") {
  for (const char* text : {"1970-01-01T00:00:00Z", "2019-12-31T23:59:59Z", "2020-02-29T12:00:00Z"})
    CHECK(utc_text(parse_utc(text)) == text);
}

TEST_CASE("what is no time is refused") {
  for (const char* text : {"", "2020", "2020-03", "2020-3-15", "2020-13-01", "2021-02-29", "2020-03-15T", "1969-12-31",
                           "2020-03-15T24:00:00", "2020-03-15T10:60:00", "2020-03-15T10:09:42.",
                           "2020-03-15T10:09:42+01", "2020-03-15T10:09:42ZZ", "-020-03-15", "2020-03-15T10:09"})
    CHECK_THROWS_AS((void)parse_utc(text), std::invalid_argument);
  CHECK_THROWS_WITH((void)parse_utc("noon"),
                    "expected a time in UTC, such as \"2020-03-15T10:09:42Z\"; found \"noon\"");
}

}  // namespace rehearse
