// Chakra's traces as JSON, value by value.

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "workloads/traces/chakra.hpp"
#include "workloads/traces/detail/chakra_checks.hpp"
#include "workloads/traces/detail/characters.hpp"
#include "workloads/traces/detail/interned.hpp"
#include "workloads/traces/detail/json_places.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLongestNodeName = 4096;
constexpr double kLargestNumber = 9e18;

enum class NodeKey : std::uint8_t {
  kOther,
  kNodes,
  kRanks,
  kId,
  kName,
  kType,
  kCtrlDeps,
  kDataDeps,
  kStart,
  kDuration,
  kIsOnCpu,
  kThread,
  kStream,
  kCommType,
  kBytes,
  kSource,
  kDestination,
  kTag,
  kGroup,
};
const std::unordered_map<std::string_view, NodeKey> kNodeKeys{{"workload_graph", NodeKey::kNodes},
                                                              {"ngpus", NodeKey::kRanks},
                                                              {"Id", NodeKey::kId},
                                                              {"Name", NodeKey::kName},
                                                              {"NodeType", NodeKey::kType},
                                                              {"ctrlDeps", NodeKey::kCtrlDeps},
                                                              {"ctrl_deps", NodeKey::kCtrlDeps},
                                                              {"data_deps", NodeKey::kDataDeps},
                                                              {"start_time_micros", NodeKey::kStart},
                                                              {"runtime", NodeKey::kDuration},
                                                              {"duration_micros", NodeKey::kDuration},
                                                              {"is_cpu_op", NodeKey::kIsOnCpu},
                                                              {"tid", NodeKey::kThread},
                                                              {"stream", NodeKey::kStream},
                                                              {"comm_type", NodeKey::kCommType},
                                                              {"comm_size", NodeKey::kBytes},
                                                              {"tensor_size", NodeKey::kBytes},
                                                              {"comm_src", NodeKey::kSource},
                                                              {"comm_dst", NodeKey::kDestination},
                                                              {"comm_tag", NodeKey::kTag},
                                                              {"pg_name", NodeKey::kGroup}};

/// Those of numbers that are kept as they are.
constexpr std::array kPlainNumbers{
    std::pair{NodeKey::kCommType, &ChakraNode::comm_type}, std::pair{NodeKey::kBytes, &ChakraNode::bytes},
    std::pair{NodeKey::kSource, &ChakraNode::source}, std::pair{NodeKey::kDestination, &ChakraNode::destination},
    std::pair{NodeKey::kTag, &ChakraNode::tag}};

enum class GraphPlace : std::uint8_t { kRoot, kNodes, kNode, kDataDeps, kCtrlDeps, kOther };

/// What the parser calls.
class NodeHandler : public JsonPlaces<GraphPlace> {
  using Place = GraphPlace;

 public:
  explicit NodeHandler(ChakraTrace& trace) : JsonPlaces{trace.file_name}, trace_{trace} {}

  bool boolean(bool value) {
    if (place() == Place::kNode && key_ == NodeKey::kIsOnCpu) node_.is_on_cpu = value;
    return true;
  }
  bool number_integer(std::int64_t value) { return number(value, std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return number(static_cast<std::int64_t>(value), std::to_string(value));
    if (expects_number()) refuse("a whole number from 0 to 2^63", std::to_string(value));
    return true;
  }
  bool number_float(double value, const std::string& text) {
    if (place() == Place::kNode && (key_ == NodeKey::kStart || key_ == NodeKey::kDuration)) {
      const double most = static_cast<double>(key_ == NodeKey::kStart ? kLatestMicroseconds : kLongestMicroseconds);
      if (!(value >= 0 && value <= most)) refuse("microseconds from 0 to " + std::to_string(std::llround(most)), text);
      (key_ == NodeKey::kStart ? node_.start : node_.duration) = std::llround(value * 1000);
      return true;
    }
    if (!(std::abs(value) < kLargestNumber) || value != std::floor(value)) {
      if (expects_number()) refuse("a whole number", text);
      return true;
    }
    return number(static_cast<std::int64_t>(value), text);
  }
  bool string(std::string& value) {
    if (value.size() > kLongestNodeName) value.resize(kLongestNodeName);
    if (place() == Place::kNode && key_ == NodeKey::kName) name_ = value;
    if (place() == Place::kNode && key_ == NodeKey::kGroup && !value.empty())
      node_.group = groups_(value);
    else if (expects_number())
      refuse("a number", '"' + value + '"');
    return true;
  }
  bool key(std::string& name) {
    const auto found = kNodeKeys.find(name);
    key_ = found == kNodeKeys.end() ? NodeKey::kOther : found->second;
    key_name_ = key_ == NodeKey::kOther ? "" : name;
    return true;
  }
  bool start_object(std::size_t) {
    if (depth() == 0) return enter(Place::kRoot);
    if (place() != Place::kNodes) return enter(Place::kOther);
    node_ = {};
    name_.clear();
    has_id_ = false;
    return enter(Place::kNode);
  }
  bool end_object() {
    if (place() == Place::kNode) end_node();
    return leave();
  }
  bool start_array(std::size_t) {
    if (place() == Place::kRoot && key_ == NodeKey::kNodes) return enter(Place::kNodes);
    if (place() == Place::kNode && key_ == NodeKey::kDataDeps) return enter(Place::kDataDeps);
    if (place() == Place::kNode && key_ == NodeKey::kCtrlDeps) return enter(Place::kCtrlDeps);
    return enter(Place::kOther);
  }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) {
    refuse_syntax(byte, "node " + std::to_string(trace_.nodes.size()), error);
  }

 private:
  bool expects_number() const {
    if (place() == Place::kDataDeps || place() == Place::kCtrlDeps) return true;
    return place() == Place::kNode && key_ != NodeKey::kOther && key_ != NodeKey::kName && key_ != NodeKey::kGroup &&
           key_ != NodeKey::kIsOnCpu && key_ != NodeKey::kDataDeps && key_ != NodeKey::kCtrlDeps;
  }
  /// The node is known by its id, or where that is missing by its place in the list.
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    const std::string node =
        has_id_ ? node_text(node_.id, name_) : "node " + std::to_string(trace_.nodes.size() + 1) + " of the list";
    throw InputError{trace_.file_name + ": " + node + ": " + key_name_ + ": expected " + expected + "; found " +
                     shortened(found, 80)};
  }

  bool number(std::int64_t value, const std::string& text) {
    if (place() == Place::kRoot && key_ == NodeKey::kRanks) {
      if (value < 1 || value > 1'000'000)
        throw InputError{trace_.file_name + ": /ngpus: expected 1 to 1000000; found " + text};
      trace_.world_size = static_cast<int>(value);
      return true;
    }
    if (place() == Place::kNode && key_ == NodeKey::kIsOnCpu) node_.is_on_cpu = value != 0;
    if (place() == Place::kNode && key_ == NodeKey::kGroup) node_.group = groups_(text);
    if (!expects_number()) return true;
    if (place() == Place::kNode && (key_ == NodeKey::kThread || key_ == NodeKey::kStream)) {
      (key_ == NodeKey::kThread ? node_.thread : node_.stream) = value;
      return true;
    }
    if (value < 0) refuse("a whole number from 0", text);
    if (place() == Place::kDataDeps)
      node_.data_deps.push_back(static_cast<std::uint64_t>(value));
    else if (place() == Place::kCtrlDeps)
      node_.ctrl_deps.push_back(static_cast<std::uint64_t>(value));
    else
      set(value, text);
    return true;
  }

  void set(std::int64_t value, const std::string& text) {
    const auto microseconds = [&](std::int64_t most) {
      if (value > most) refuse("microseconds from 0 to " + std::to_string(most), text);
      return value * 1000;
    };
    switch (key_) {
      case NodeKey::kId:
        node_.id = static_cast<std::uint64_t>(value);
        has_id_ = true;
        break;
      case NodeKey::kType:
        if (value > std::numeric_limits<std::int32_t>::max()) refuse("the number of a type", text);
        node_.type = static_cast<ChakraType>(value);
        break;
      case NodeKey::kStart:
        node_.start = microseconds(kLatestMicroseconds);
        break;
      case NodeKey::kDuration:
        node_.duration = microseconds(kLongestMicroseconds);
        break;
      default:
        for (const auto& [key, member] : kPlainNumbers)
          if (key == key_) node_.*member = value;
        break;
    }
  }

  void end_node() {
    if (!has_id_) {
      key_name_ = "Id";
      refuse("a whole number from 0", "nothing");
    }
    node_.name = names_(name_);
    if (!node_.is_on_cpu && node_.stream < 0) node_.stream = node_.thread;
    if (!node_.is_on_cpu) node_.thread = -1;
    trace_.nodes.push_back(std::move(node_));
  }

  ChakraTrace& trace_;
  Interned names_{trace_.names}, groups_{trace_.groups};
  NodeKey key_ = NodeKey::kOther;
  std::string key_name_, name_;
  ChakraNode node_;
  bool has_id_ = false;
};

template <class Iterator>
ChakraTrace parse_nodes(Iterator begin, Iterator end, const std::string& file_name) {
  // As in traces that are converted from PyTorch's, whose JSON this is: control dependencies are its calls.
  ChakraTrace trace{.file_name = file_name, .ctrl_deps_are_calls = true};
  NodeHandler handler{trace};
  nlohmann::json::sax_parse(begin, end, &handler);
  if (trace.nodes.empty())
    throw InputError{file_name + ": expected a trace of Chakra: an object with the list workload_graph of nodes"};
  return trace;
}

}  // namespace

ChakraTrace read_chakra_json(const std::filesystem::path& file, const Budget& budget) {
  Characters characters{file, budget};
  return parse_nodes(CharacterIterator{&characters}, CharacterIterator{}, file.string());
}

ChakraTrace parse_chakra_json(std::string_view text, const std::string& file_name) {
  return parse_nodes(text.begin(), text.end(), file_name);
}

}  // namespace rehearse
