#pragma once
// Chakra's execution traces: nodes of one rank, each with its duration, what it waits for, and what it sends. They come
// as protocol buffers (NAME.<rank>.et, plain or gzip) and as JSON ("workload_graph"). chakra_run.hpp makes of them what
// is replayed, and back.
// Source: schema/protobuf/et_def.proto and src/feeder of mlcommons/chakra, which say what a node has and what a
// simulator reads of it.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/budget.hpp"
#include "workloads/traces/kineto.hpp"

namespace rehearse {

/// The numbers of the schema. Later versions add others, which are kept as they are.
enum class ChakraType : std::int32_t {
  kInvalid,
  kMetadata,
  kLoad,
  kStore,
  kCompute,
  kSend,
  kReceive,
  kCollective,
  kStorage,
  kBatch,
  kCheckpoint,
};

/// What Rehearse alone knows of a node or a file: its names begin with kOwnAttribute.
struct ChakraAttribute {
  using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>>;
  std::string name;
  Value value;

  friend bool operator==(const ChakraAttribute&, const ChakraAttribute&) = default;
};
inline constexpr std::string_view kOwnAttribute = "rehearse.";

inline constexpr Nanoseconds kNotRecorded = std::numeric_limits<Nanoseconds>::min();

struct ChakraNode {
  std::uint64_t id = 0;
  std::int32_t name = 0;  // in ChakraTrace::names
  ChakraType type = ChakraType::kInvalid;
  bool is_on_cpu = false;                                     // "is_cpu_op"; without it a node is on the GPU
  std::vector<std::uint64_t> data_deps, ctrl_deps;            // ids
  Nanoseconds start = kNotRecorded, duration = kNotRecorded;  // files state whole microseconds, Rehearse's own ns too
  std::int64_t thread = -1, stream = -1;  // "tid", of the GPU "stream", or "tid" if that is not there
  std::int64_t comm_type = -1;            // of a collective, as the schema counts: 0 all-reduce ... 9 barrier
  std::int64_t bytes = -1;                // "comm_size", of a load or store "tensor_size"
  std::int64_t source = -1, destination = -1, tag = -1;  // of a message: "comm_src", "comm_dst", "comm_tag"
  std::int32_t group = -1;                               // "pg_name", in ChakraTrace::groups; -1: all ranks
  std::vector<ChakraAttribute> own;

  friend bool operator==(const ChakraNode&, const ChakraNode&) = default;
};

struct ChakraTrace {
  std::string file_name;
  std::vector<std::string> names, groups;
  std::vector<ChakraNode> nodes;
  int world_size = 0;                // "ngpus" of JSON; 0: not recorded
  bool ctrl_deps_are_calls = false;  // of PyTorch's operators, which contain what they call: nobody waits for them
  std::vector<ChakraAttribute> own;
};

/// `attributes`' value of that name, without kOwnAttribute, if it is there and of that type; else null.
template <class T>
const T* own_value(const std::vector<ChakraAttribute>& attributes, std::string_view name) {
  for (const ChakraAttribute& attribute : attributes)
    if (std::string_view{attribute.name}.substr(kOwnAttribute.size()) == name) return std::get_if<T>(&attribute.value);
  return nullptr;
}
inline ChakraAttribute own_attribute(std::string_view name, ChakraAttribute::Value value) {
  return {std::string{kOwnAttribute} + std::string{name}, std::move(value)};
}

/// The trace of a file, message by message. Throws InputError "FILE: node 17 "aten::add": duration_micros: expected
/// ...; found ...", or with the byte at which the messages are broken. What nodes refer to is checked by recorded_run().
ChakraTrace read_chakra_et(const std::filesystem::path& file, const Budget& budget = {});
ChakraTrace parse_chakra_et(std::string_view bytes, const std::string& file_name);

/// The same for JSON.
ChakraTrace read_chakra_json(const std::filesystem::path& file, const Budget& budget = {});
ChakraTrace parse_chakra_json(std::string_view text, const std::string& file_name);

/// The trace as protocol buffers, with all that ChakraNode holds.
std::string chakra_et_bytes(const ChakraTrace& trace);

}  // namespace rehearse
