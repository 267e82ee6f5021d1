#include "platforms/messaging.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/schemas.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

constexpr Bytes kMostHeader{1 << 20};  // more would be data

}  // namespace

Bytes Messaging::on_wire(Bytes data) const {
  const std::int64_t chunks = chunk == Bytes{} || data == Bytes{}
                                  ? 1
                                  : (data.value() - 1) / chunk.value() + 1;  // no sum of both: a chunk may be near 2^63
  return data + message_header + chunk_header * chunks;
}

Messaging read_messaging(std::string name, const JsonReader& json) {
  json.use_schema(messaging_schema);
  const auto size = [&](const char* key) {
    const Bytes bytes = json.optional<Bytes>(key, Bytes{});
    json.expect(bytes <= kMostHeader, key, "at most 1MiB");
    return bytes;
  };
  Messaging messaging{.name = std::move(name),
                      .source = json.required<std::string>("source"),
                      .chunk = json.optional<Bytes>("chunk", Bytes{}),
                      .chunk_header = size("chunk_header"),
                      .message_header = size("message_header"),
                      .request = size("request"),
                      .coordination = size("coordination"),
                      .coordination_period = json.optional<Seconds>("coordination_period", Seconds{})};
  json.expect(messaging.chunk == Bytes{} || messaging.chunk >= Bytes{1024}, "chunk", "0B, or at least 1KiB");
  json.expect(messaging.coordination_period == Seconds{} || messaging.coordination_period >= Seconds{1e-5},
              "coordination_period", "0s, or at least 10us");
  json.reject_unknown_keys();
  return messaging;
}

Json to_json(const Messaging& messaging) {
  return {{"name", messaging.name},
          {"chunk", to_text(messaging.chunk)},
          {"chunk_header", to_text(messaging.chunk_header)},
          {"message_header", to_text(messaging.message_header)},
          {"request", to_text(messaging.request)},
          {"coordination", to_text(messaging.coordination)},
          {"coordination_period", to_text(messaging.coordination_period)},
          {"source", messaging.source}};
}

}  // namespace rehearse
