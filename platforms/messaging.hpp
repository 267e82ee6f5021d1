#pragma once
// What a communication library sends besides the data that it is asked to send.

#include <string>

#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// Bytes that a library adds to TCP's payload, as messages between machines carry them; headers of TCP, IP and Ethernet are not
/// of it (sim/traffic/messages.hpp). Of n bytes a message has
///   n + message_header + ceil(n / chunk) chunk_header
/// on the wire, at least one chunk, which takes time as data do. Requests and coordination are counted as traffic alone:
/// they are sent while data are on their way. Without any of it a message is its data.
struct Messaging {
  std::string name, source;  // of the catalog; empty: none
  Bytes chunk{};             // of data behind one header; 0: all of a message. Smaller chunks have more headers
  Bytes chunk_header{};      // before each chunk
  Bytes message_header{};    // once for each message
  Bytes request{};           // that the receiver sends for each message: a call of an RPC, an announcement, an answer
  Bytes coordination{};      // payload of each message by which workers agree on what is ready
  /// From one agreement to the next, during all of a step; 0: one in each step. In each every one of w workers sends
  /// ceil(log2 w) messages, to those 1, 2, 4, ... further, as an all-reduce of little data by recursive doubling does.
  Seconds coordination_period{};

  Bytes on_wire(Bytes data) const;
};

/// One entry of a catalog's "messaging". Throws InputError.
Messaging read_messaging(std::string name, const JsonReader& json);
/// What read_messaging() reads, with the name.
Json to_json(const Messaging& messaging);

}  // namespace rehearse
