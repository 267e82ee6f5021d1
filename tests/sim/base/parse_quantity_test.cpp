#include "sim/base/parse_quantity.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/json.hpp"
#include "sim/base/quantity_hint.hpp"
#include "sim/base/random.hpp"

namespace rehearse {
namespace {

template <class Q>
std::string error_of(std::string_view text) {
  try {
    (void)parse_quantity<Q>(text);
  } catch (const QuantityError& error) { return error.what(); }
  return "no error";
}

/// Any positive finite double: all magnitudes, subnormal ones included.
double any_positive_double(Rng& rng) {
  while (true) {
    const auto value = std::bit_cast<double>(rng.bits() >> 1U);
    if (std::isfinite(value)) return value;
  }
}

}  // namespace

TEST_CASE("decimal prefixes are powers of 1000, binary ones of 1024, and eight bits are a byte") {
  CHECK(parse_bytes("80GiB").value() == std::int64_t{80} << 30);
  CHECK(parse_bytes("80GB").value() == 80'000'000'000);
  CHECK(parse_bytes("1.5 kB").value() == 1500);
  CHECK(parse_bytes("8Kib").value() == 1024);
  CHECK(parse_bytes_per_second("25GBps").value() == 25e9);
  CHECK(parse_bytes_per_second("200Gbps").value() == 25e9);
  CHECK(parse_bytes_per_second("1MiBps").value() == 1048576.0);
  CHECK(parse_flops("3.9Gflop").value() == 3.9e9);
  CHECK(parse_flops("2.5Zflop").value() == 2.5e21);
  CHECK(parse_flops_per_second("312Tflops").value() == 312e12);
}

TEST_CASE("times from nanoseconds to days") {
  CHECK(parse_seconds("1ns").value() == 1e-9);
  CHECK(parse_seconds("1.5us").value() == 1.5e-6);
  CHECK(parse_seconds("100ms").value() == 0.1);
  CHECK(parse_seconds("30s").value() == 30);
  CHECK(parse_seconds("5min").value() == 300);
  CHECK(parse_seconds("24h").value() == 86400);
  CHECK(parse_seconds("2d") == parse_seconds("48h"));
  CHECK(parse_seconds("1e-3s") == parse_seconds("1ms"));
}

TEST_CASE("decimal text is rounded once: a prefix gives the same double as an exponent") {
  // 4.35 * 1e-6 in doubles is 4.3499999999999995e-06, the nearest double to 4.35e-6 is another one
  CHECK(parse_seconds("4.35us").value() == 4.35e-6);
  CHECK(parse_seconds("0.7us").value() == 0.7e-6);
}

TEST_CASE("bytes are exact up to 2^63 - 1; with a prefix they are rounded to the nearest") {
  CHECK(parse_bytes("9223372036854775807B").value() == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_bytes("9007199254740993B").value() == 9007199254740993);  // 2^53 + 1 is no double
  CHECK(parse_bytes("1.3GiB").value() == 1395864371);                   // 1395864371.2
  CHECK(parse_bytes("1.7GiB").value() == 1825361101);                   // 1825361100.8
  CHECK(parse_bytes("0.3333333333333333333333GB").value() == 333333333);
  CHECK(parse_bytes("10Gb").value() == 1'250'000'000);
  CHECK(parse_bytes("1e9B").value() == 1'000'000'000);
  CHECK(parse_bytes("0.000000001GB").value() == 1);
  CHECK(parse_bytes("0b").value() == 0);
  CHECK(parse_bytes("1000000000000000000000e-12B").value() == 1'000'000'000);
}

TEST_CASE("an error says what was expected and what was found") {
  CHECK(error_of<BytesPerSecond>("25") ==
        R"(expected a rate with a unit, such as "25Bps" (bytes) or "25bps" (bits); found "25")");
  CHECK(error_of<BytesPerSecond>("fast") ==
        R"(expected a rate with a unit, such as "25GBps" (bytes) or "200Gbps" (bits); found "fast")");
  CHECK(error_of<Seconds>("1.5 parsecs") ==
        R"(expected a time with a unit, such as "1.5us" or "24h"; found "1.5 parsecs")");
  CHECK(error_of<Flops>("3.9Gflops") ==
        R"(expected an amount of work with a unit, such as "3.9Gflop"; found "3.9Gflops")");
  CHECK(error_of<FlopsPerSecond>("3.9Gflop") ==
        R"(expected a speed with a unit, such as "3.9Gflops"; found "3.9Gflop")");
  CHECK(error_of<Bytes>("0.5B") == R"(expected a whole number of bytes; found "0.5B")");
  CHECK(error_of<Bytes>("1e-30GB") == R"(expected a whole number of bytes; found "1e-30GB")");
  CHECK(error_of<Bytes>("8EiB") == R"(expected a size below 8EiB; found "8EiB")");
  CHECK(error_of<Seconds>("1e999s") ==
        R"(expected a time with a unit, such as "1.5us" or "24h" and within the range of a double; found "1e999s")");
}

TEST_CASE("a hint has the user's number, and bits where there were bits") {
  const auto hint = [](QuantityKind kind, const char* text) { return quantity_hint(kind, text); };
  struct Case {
    QuantityKind kind;
    const char *text, *hint;
  };
  constexpr auto kRate = QuantityKind::kRate, kSize = QuantityKind::kSize, kTime = QuantityKind::kTime;
  for (const Case& c : {Case{kRate, "1Gb/s", R"("1Gbps")"},
                        {kRate, "1 Gbit/s", R"("1Gbps")"},
                        {kRate, "1gbps", R"("1Gbps")"},
                        {kRate, "100GbE", R"("100Gbps")"},
                        {kRate, "10 GigE", R"("10Gbps")"},
                        {kRate, "100 Gb", R"("100Gbps")"},
                        {kRate, "2.5 gigabits per second", R"("2.5Gbps")"},
                        {kRate, "125MB/s", R"("125MBps")"},
                        {kRate, "125 MiB/s", R"("125MiBps")"},
                        {kRate, "125 KB/s", R"("125kBps")"},
                        {kRate, "125 Mbytes/sec", R"("125MBps")"},
                        {kRate, "1e3MB/s", R"("1e3MBps")"},
                        {kRate, "1GBPS", R"("1GBps" (bytes) or "1Gbps" (bits))"},
                        {kRate, "400G", R"("400GBps" (bytes) or "400Gbps" (bits))"},
                        {kRate, "2.5GT/s", ""},
                        {kRate, "-1Gb/s", ""},
                        {kSize, "25mb", R"("25MB" (bytes) or "25Mb" (bits))"},
                        {kSize, "25 megabytes", R"("25MB")"},
                        {kSize, "25 Mbit", R"("25Mb")"},
                        {kSize, "25M", R"("25MB" (bytes) or "25MiB" (powers of 1024))"},
                        {kSize, "25KB", R"("25kB" (bytes) or "25KiB" (powers of 1024))"},
                        {kSize, "25", R"("25B")"},
                        {kSize, "25GB/s", ""},
                        {kTime, "10 msec", R"("10ms")"},
                        {kTime, "10 Seconds", R"("10s")"},
                        {kTime, "1.5 \u00b5s", R"("1.5us")"},
                        {kTime, "5m", R"("5min" or "5ms")"},
                        {kTime, "3 hrs", R"("3h")"},
                        {kTime, "7", R"("7s" or "7ms")"},
                        {kTime, "1h30m", R"("90min")"},
                        {kTime, "1 h 30 min", R"("90min")"},
                        {kTime, "3 days 4 h", R"("76h")"},
                        {kTime, "3 days, 4 hours", R"("76h")"},
                        {kTime, "3 days and 4 hours", R"("76h")"},
                        {kTime, "2 weeks", R"("14d")"},
                        {kTime, "2 weeks 1 day", R"("15d")"},
                        {kTime, "0.1 weeks", R"("0.7d")"},
                        {kTime, "1:30:00", R"("5400s")"},
                        {kTime, "1:30", ""},
                        {kTime, "4 h 3 days", ""},
                        {kTime, "2 months", ""},
                        {kTime, "1 year", ""},
                        {kTime, "5 Ms", ""},
                        {kTime, "90 minutes", R"("90min")"},
                        {kTime, "1,5 h", R"("1.5h")"},
                        {kTime, "0,125 h", R"("0.125h")"},
                        {kTime, "1,500 h", ""},
                        {kTime, "1 5 h", ""},
                        {kTime, "1 500 msec", R"("1500ms")"},
                        {kTime, "1 500.5 msec", R"("1500.5ms")"},
                        {kTime, ".5 h", R"("0.5h")"},
                        {kTime, "5 dollars", ""},
                        {kTime, "5 min/step", ""},
                        {kSize, "1,5 GB", R"("1.5GB")"},
                        {kSize, "1,500 MB", ""},
                        {kSize, "1,500,000 B", R"("1500000B")"},
                        {kSize, "1,500.5 kB", R"("1500.5kB")"},
                        {kSize, "1.500.000 B", ""},
                        {kSize, "2 weeks", ""},
                        {kSize, "$3", ""},
                        {kRate, "1,5 Gbit/s", R"("1.5Gbps")"},
                        {kRate, "25GB/min", ""},
                        {kRate, "25 GB/h", ""},
                        {kRate, "4x25Gbps", ""},
                        {kRate, "$3/h", ""},
                        {QuantityKind::kSpeed, "19,5 TFLOPS", R"("19.5Tflops")"},
                        {QuantityKind::kSpeed, "624 TOPS", ""},
                        {QuantityKind::kSpeed, "312 TMACs/s", ""},
                        {QuantityKind::kWork, "2 GMACs", ""},
                        {QuantityKind::kWork, "3 PFLOP/s-days", ""},
                        {QuantityKind::kSpeed, "312 TFLOP/s", R"("312Tflops")"},
                        {QuantityKind::kSpeed, "312", ""},
                        {QuantityKind::kWork, "3.9 GFLOPs", R"("3.9Gflop")"}}) {
    CAPTURE(c.text);
    CHECK(hint(c.kind, c.text) == c.hint);
  }
}

TEST_CASE("a hint of a price is in dollars per hour, if that is what was written") {
  for (const char* text : {"3", "$3", "$3/h", "3 USD/hr", "3 USD per hour", "US$ 3 / hour", "3 $/h"}) {
    CAPTURE(text);
    CHECK(price_hint("hour", text) == "3");
  }
  CHECK(price_hint("hour", "1,5 USD") == "1.5");
  for (const char* text :
       {"3 EUR/h", "72 USD/day", "30 cents/h", "3 USD/GPU hour", "3 USD/month", "1,500 USD", "free", ""}) {
    CAPTURE(text);
    CHECK(price_hint("hour", text).empty());
  }
  CHECK(price_hint("gib_month", "$0.1/GiB-month") == "0.1");
  CHECK(price_hint("gib_month", "0.1 USD per GiB month") == "0.1");
  CHECK(price_hint("gib_month", "$0.1/GB-month").empty());
  CHECK(price_hint("gib_month", "$0.1/h").empty());
  const Json price = {{"usd_per_hour_spot", "$3/h"}, {"usd_per_gib_month", "3 EUR"}};
  const JsonReader json{price, "f"};
  CHECK_THROWS_WITH_AS((void)json.required<double>("usd_per_hour_spot"),
                       R"(f: /usd_per_hour_spot: expected a number of USD per hour, such as 3; found "$3/h")",
                       InputError);
  CHECK_THROWS_WITH_AS((void)json.required<double>("usd_per_gib_month"),
                       R"(f: /usd_per_gib_month: expected a number of USD per GiB and month; found "3 EUR")",
                       InputError);
}

TEST_CASE("what is not a plain positive number with a unit of its kind is refused") {
  for (const std::string text :
       {"",     " ",    "s",   "-1s", "+1s", "nan s", "infs", "0x10s", "1.s", ".5s",  "1..5s", "1e s",
        "1,5s", "1  s", " 1s", "1s ", "1ss", "1S",    "1Ks",  "1ks",   "1B",  "1e+s", "1\ts"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_seconds(text), QuantityError);
  }
  for (const std::string text :
       {"1KB", "1kiB", "1gB", "1GBps", "1GB/s", "B", "1iB", "-0B", "1e99999999999B", "1EiiB"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_bytes(text), QuantityError);
  }
  CHECK_THROWS_AS(parse_seconds(std::string{"1s\0", 3}), QuantityError);
}

TEST_CASE("megabytes of digits or of garbage are read or refused with a short message") {
  const std::string zeros(10'000'000, '0');
  CHECK(parse_seconds(zeros + "1s").value() == 1);
  CHECK(parse_bytes(zeros + "1B").value() == 1);
  CHECK(parse_bytes("1." + zeros + "B").value() == 1);
  CHECK(error_of<Bytes>("1" + zeros + "B").size() < 200);
  CHECK(error_of<Seconds>(std::string(10'000'000, '\xff')).size() < 400);
}

TEST_CASE("text takes the prefix that suits the size") {
  CHECK(to_text(Seconds{1.5e-6}) == "1.5us");
  CHECK(to_text(Seconds{0.1}) == "100ms");
  CHECK(to_text(Seconds{86400}) == "86400s");
  CHECK(to_text(Seconds{0}) == "0s");
  CHECK(to_text(Seconds{-2.5}) == "-2.5s");
  CHECK(to_text(Seconds{1e-300}) == "1e-300s");
  CHECK(to_text(Bytes{0}) == "0B");
  CHECK(to_text(Bytes{999}) == "999B");
  CHECK(to_text(Bytes{std::int64_t{80} << 30}) == "80GiB");
  CHECK(to_text(Bytes{1'500'000}) == "1.5MB");
  CHECK(to_text(Bytes{-1'500}) == "-1.5kB");
  CHECK(to_text(Bytes{std::numeric_limits<std::int64_t>::min()}) == "-8EiB");
  CHECK(to_text(BytesPerSecond{25e9}) == "25GBps");
  CHECK(to_text(Flops{3.9e9}) == "3.9Gflop");
  CHECK(to_text(FlopsPerSecond{312e12}) == "312Tflops");
}

TEST_CASE("every quantity parses back from its text exactly") {
  Rng rng{1, "quantities"};
  for (int i = 0; i < 20'000; ++i) {
    const double value = i % 2 == 0 ? any_positive_double(rng) : rng.uniform(0, 1e6);
    CAPTURE(value);
    REQUIRE(parse_seconds(to_text(Seconds{value})).value() == value);
    REQUIRE(parse_bytes_per_second(to_text(BytesPerSecond{value})).value() == value);
    REQUIRE(parse_flops(to_text(Flops{value})).value() == value);
    REQUIRE(parse_flops_per_second(to_text(FlopsPerSecond{value})).value() == value);
    const auto size = static_cast<std::int64_t>(rng.bits() >> (1 + rng.below(63)));
    REQUIRE(parse_bytes(to_text(Bytes{size})).value() == size);
  }
}

}  // namespace rehearse
