// What libraries send besides data: the law, and the file.

#include "platforms/messaging.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/catalog.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

Messaging messaging_of(const std::string& text) {
  const Json json = parse_json(text, "m.json");
  return read_messaging("mine", JsonReader{json, "m.json"});
}

}  // namespace

TEST_CASE("a message of n bytes has n + header + ceil(n / chunk) chunk headers on the wire") {
  const Messaging grpc{.chunk = Bytes{16384}, .chunk_header = Bytes{9}, .message_header = Bytes{60}};
  CHECK(grpc.on_wire(Bytes{100}) == Bytes{100 + 60 + 9});
  CHECK(grpc.on_wire(Bytes{16384}) == Bytes{16384 + 60 + 9});
  CHECK(grpc.on_wire(Bytes{16385}) == Bytes{16385 + 60 + 2 * 9});
  CHECK(grpc.on_wire(Bytes{}) == Bytes{60 + 9});
  const Messaging one_chunk{.chunk = Bytes{std::numeric_limits<std::int64_t>::max()}, .chunk_header = Bytes{9}};
  CHECK(one_chunk.on_wire(Bytes{100}) == Bytes{109});
  const Messaging whole{.chunk_header = Bytes{4}, .message_header = Bytes{10}};
  CHECK(whole.on_wire(Bytes{1 << 30}) == Bytes{(1 << 30) + 14});
  CHECK(Messaging{}.on_wire(Bytes{12345}) == Bytes{12345});
}

TEST_CASE("messaging is written as it is read, and mistakes are named") {
  const Messaging messaging =
      messaging_of(R"({"source": "made up", "chunk": "1MiB", "chunk_header": "4B", "message_header": "96B",
    "request": "64B", "coordination": "54B", "coordination_period": "1ms"})");
  CHECK(messaging.coordination_period == Seconds{1e-3});
  Json again = to_json(messaging);
  again.erase("name");
  CHECK(to_json_text(to_json(messaging_of(again.dump()))) == to_json_text(to_json(messaging)));
  CHECK_THROWS_WITH_AS((void)messaging_of("{}"), doctest::Contains("\"source\""), InputError);
  CHECK_THROWS_WITH_AS((void)messaging_of(R"({"source": "s", "chunk": "1000B"})"),
                       doctest::Contains("/chunk: expected 0B, or at least 1KiB"), InputError);
  CHECK_THROWS_WITH_AS((void)messaging_of(R"({"source": "s", "request": "2MiB"})"),
                       doctest::Contains("/request: expected at most 1MiB"), InputError);
  CHECK_THROWS_WITH_AS((void)messaging_of(R"({"source": "s", "coordination_period": "1us"})"),
                       doctest::Contains("/coordination_period: expected 0s, or at least 10us"), InputError);
  CHECK_THROWS_WITH_AS((void)messaging_of(R"({"source": "s", "chunks": "1MiB"})"),
                       doctest::Contains("unknown key \"chunks\""), InputError);
}

}  // namespace rehearse
