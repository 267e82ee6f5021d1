#include "workloads/traces/pytorch_et.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "workloads/traces/detail/chakra_checks.hpp"
#include "workloads/traces/detail/characters.hpp"
#include "workloads/traces/detail/interned.hpp"

namespace rehearse {

namespace {

using Value = nlohmann::json;

constexpr int kDeepestValue = 64;
constexpr std::size_t kLongestOperatorName = 4096;
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
constexpr std::int64_t kLargestElement = 1024;  // bytes

const Value* find(const Value& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

/// A whole number that is there.
std::optional<std::int64_t> whole_value(const Value* value) {
  if (value == nullptr || !value->is_number_integer()) return {};
  if (value->is_number_unsigned() && value->get<std::uint64_t>() >> 63U != 0) return {};
  return value->get<std::int64_t>();
}

/// What the observer writes of a tensor: its number, its storage's, offset, elements, bytes of one, device.
bool is_tensor(const Value& value) {
  constexpr std::size_t kFields = 6;
  return value.is_array() && value.size() == kFields && value[kFields - 1].is_string() &&
         std::all_of(value.begin(), value.end() - 1, [](const Value& field) { return field.is_number_integer(); });
}

class OperatorReader {
 public:
  explicit OperatorReader(const std::string& file_name) { trace_.file_name = file_name; }

  template <class Iterator>
  PytorchTrace read(Iterator begin, Iterator end) {
    try {
      const Value root = Value::parse(begin, end, [this](int depth, Value::parse_event_t event, Value& value) {
        return keep(depth, event, value);
      });
      if (const Value* schema = find(root, "schema"); schema != nullptr && schema->is_string())
        trace_.schema = schema->get<std::string>();
    } catch (const Value::exception& error) {
      const std::string_view what = error.what();
      const std::size_t dash = what.find("- ");
      throw InputError{trace_.file_name + ": in or after node " + std::to_string(trace_.operators.size()) +
                       " of the list: no JSON: " +
                       printable(what.substr(dash == std::string_view::npos ? 0 : dash + 2).substr(0, 200))};
    }
    if (trace_.operators.empty())
      throw InputError{trace_.file_name + ": expected an execution trace of PyTorch: an object with the list nodes"};
    check_callers();
    return std::move(trace_);
  }

 private:
  /// Nodes are read when they end, and not kept.
  bool keep(int depth, Value::parse_event_t event, Value& value) {
    using Event = Value::parse_event_t;
    if (depth > kDeepestValue) throw InputError{trace_.file_name + ": more than 64 nested levels"};
    if (event == Event::key && depth == 1) is_in_nodes_ = value == "nodes";
    if (!is_in_nodes_ || depth != 2 || event != Event::object_end) return true;
    add(value);
    return false;
  }

  void add(const Value& node) {
    const std::optional<std::int64_t> id = whole_value(find(node, "id"));
    if (!id || *id < 0)
      throw InputError{trace_.file_name + ": node " + std::to_string(trace_.operators.size() + 1) +
                       " of the list: id: expected a whole number from 0"};
    const Value* named = find(node, "name");
    std::string name = named != nullptr && named->is_string() ? named->get<std::string>() : std::string{};
    if (name.size() > kLongestOperatorName) name.resize(kLongestOperatorName);
    PytorchOperator added{.id = static_cast<std::uint64_t>(*id), .name = names_(name)};
    const NodePlace place{trace_.file_name, added.id, name};
    const Value* caller = find(node, "ctrl_deps") != nullptr ? find(node, "ctrl_deps") : find(node, "parent");
    const std::optional<std::int64_t> parent = whole_value(caller);
    if (!parent || *parent < 0)
      place.refuse("parent", "the id of a node", caller == nullptr ? "nothing" : caller->dump());
    added.parent = static_cast<std::uint64_t>(*parent);
    added.order = whole_value(attribute(node, "rf_id")).value_or(0);
    added.thread = whole_value(attribute(node, "tid")).value_or(0);
    const Value* inputs = find(node, "inputs");
    const bool are_objects = inputs != nullptr && inputs->is_object();
    const auto part = [&](const char* of, const char* object, const char* list) {
      return are_objects ? (find(node, of) == nullptr ? nullptr : find(*find(node, of), object)) : find(node, list);
    };
    const Value* values = part("inputs", "values", "inputs");
    add_tensors(values, part("inputs", "shapes", "input_shapes"), part("inputs", "types", "input_types"), place,
                added.inputs);
    add_tensors(part("outputs", "values", "outputs"), part("outputs", "shapes", "output_shapes"),
                part("outputs", "types", "output_types"), place, added.outputs);
    if (name == "record_param_comms" && values != nullptr) read_collective(node, *values, added);
    if (name.find("process_group:init") != std::string::npos && values != nullptr) read_groups(*values, place);
    trace_.operators.push_back(std::move(added));
  }

  /// Of newer versions in the list "attrs".
  static const Value* attribute(const Value& node, const char* key) {
    const Value* attributes = find(node, "attrs");
    if (attributes == nullptr || !attributes->is_array()) return find(node, key);
    for (const Value& one : *attributes)
      if (const Value* name = find(one, "name"); name != nullptr && *name == key) return find(one, "value");
    return nullptr;
  }

  /// The types of tensors in "GenericList[Tensor(float),Tensor(int)]", one after the other.
  static std::vector<std::string> tensor_types(const Value* types, std::size_t index) {
    std::vector<std::string> found;
    if (types == nullptr || !types->is_array() || index >= types->size() || !(*types)[index].is_string()) return found;
    const auto text = (*types)[index].get<std::string>();
    constexpr std::string_view kBegin = "Tensor(";
    for (std::size_t begin = text.find(kBegin); begin != std::string::npos; begin = text.find(kBegin, begin)) {
      begin += kBegin.size();
      found.push_back(text.substr(begin, text.find(')', begin) - begin));
    }
    return found;
  }

  void add_tensors(const Value* values, const Value* shapes, const Value* types, const NodePlace& place,
                   std::vector<PytorchTensor>& tensors) {
    if (values == nullptr || !values->is_array()) return;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const Value* shape = shapes != nullptr && shapes->is_array() && i < shapes->size() ? &(*shapes)[i] : nullptr;
      const std::vector<std::string> named = tensor_types(types, i);
      const std::size_t first = tensors.size();
      collect((*values)[i], shape, place, tensors);
      for (std::size_t k = first; k < tensors.size(); ++k)
        tensors[k].type = types_(named.empty() ? "" : named[std::min(k - first, named.size() - 1)]);
    }
  }

  /// A tensor, or those of a list.
  void collect(const Value& value, const Value* shape, const NodePlace& place, std::vector<PytorchTensor>& tensors) {
    if (!is_tensor(value)) {
      if (!value.is_array()) return;
      for (std::size_t i = 0; i < value.size(); ++i)
        if (value[i].is_array())
          collect(value[i], shape != nullptr && shape->is_array() && i < shape->size() ? &(*shape)[i] : nullptr, place,
                  tensors);
      return;
    }
    PytorchTensor tensor{.element_size = whole_value(&value[4]).value_or(-1)};
    if (tensor.element_size < 0 || tensor.element_size > kLargestElement)
      place.refuse("tensor", "0 to 1024 bytes an element", value[4].dump());
    tensor.elements = 1;
    if (shape != nullptr && shape->is_array()) {
      for (const Value& length : *shape) {
        const std::int64_t size = whole_value(&length).value_or(-1);
        if (size < 0 || (size > 0 && tensor.elements > kMostElements / size))
          place.refuse("shape", "at most 2^50 elements", shape->dump());
        tensor.shape.push_back(size);
        tensor.elements *= size;
      }
    } else {
      tensor.elements = whole_value(&value[3]).value_or(-1);
      if (tensor.elements < 0 || tensor.elements > kMostElements)
        place.refuse("tensor", "at most 2^50 elements", value[3].dump());
    }
    tensors.push_back(std::move(tensor));
  }

  /// What is done is an attribute, or the first text among the inputs; the group's name the first text of a pair.
  void read_collective(const Value& node, const Value& values, PytorchOperator& added) {
    const Value* named = attribute(node, "collective_name");
    const Value* group = attribute(node, "pg_name");
    if (values.is_array())
      for (const Value& value : values) {
        if (named == nullptr && value.is_string()) named = &value;
        if (group == nullptr && value.is_array() && value.size() == 2 && value[0].is_string()) group = &value[0];
      }
    if (named != nullptr && named->is_string()) added.collective = names_(named->get<std::string>());
    if (group == nullptr || !group->is_string()) return;
    const auto name = group->get<std::string>();
    const auto known = std::ranges::find(trace_.groups, name, &PytorchGroup::name);
    added.group = static_cast<std::int32_t>(known - trace_.groups.begin());
    if (known == trace_.groups.end()) trace_.groups.push_back({.name = name});
  }

  /// A text of JSON: [{"pg_name": "0", "ranks": [], "group_size": 2}].
  void read_groups(const Value& values, const NodePlace& place) {
    if (!values.is_array() || values.empty() || !values[0].is_string()) return;
    const Value groups = Value::parse(values[0].get<std::string>(), nullptr, false);
    if (!groups.is_array()) place.refuse("inputs", "process groups as a list in JSON", values[0].get<std::string>());
    for (const Value& stated : groups) {
      const Value* name = find(stated, "pg_name");
      if (name == nullptr || !name->is_string()) continue;
      PytorchGroup group{.name = name->get<std::string>(), .size = whole_value(find(stated, "group_size")).value_or(0)};
      if (const Value* ranks = find(stated, "ranks"); ranks != nullptr && ranks->is_array())
        for (const Value& rank : *ranks) group.ranks.push_back(whole_value(&rank).value_or(-1));
      trace_.groups.push_back(std::move(group));
    }
  }

  void check_callers() {
    std::unordered_map<std::uint64_t, std::size_t> place_of;
    const auto refuse = [&](const PytorchOperator& at, const std::string& what) {
      throw InputError{trace_.file_name + ": " + node_text(at.id, trace_.names[static_cast<std::size_t>(at.name)]) +
                       ": " + what};
    };
    for (std::size_t i = 0; i < trace_.operators.size(); ++i)
      if (!place_of.try_emplace(trace_.operators[i].id, i).second)
        refuse(trace_.operators[i], "an earlier node has this id");
    std::vector<std::uint8_t> state(trace_.operators.size());  // 1: on the way up, 2: ends at one that nobody calls
    for (std::size_t i = 0; i < trace_.operators.size(); ++i) {
      std::vector<std::size_t> way;
      std::size_t here = i;
      while (state[here] == 0) {
        state[here] = 1;
        way.push_back(here);
        const PytorchOperator& at = trace_.operators[here];
        if (at.parent == at.id) break;
        const auto parent = place_of.find(at.parent);
        if (parent == place_of.end()) refuse(at, "parent: node " + std::to_string(at.parent) + " is not in the file");
        trace_.operators[parent->second].is_leaf = false;
        here = parent->second;
        if (state[here] == 1) refuse(trace_.operators[here], "parent: calls itself, by others that it calls");
      }
      for (const std::size_t passed : way) state[passed] = 2;
    }
  }

  PytorchTrace trace_;
  Interned names_{trace_.names}, types_{trace_.types};
  bool is_in_nodes_ = false;
};

}  // namespace

PytorchTrace read_pytorch_trace(const std::filesystem::path& file, const Budget& budget) {
  Characters characters{file, budget};
  return OperatorReader{file.string()}.read(CharacterIterator{&characters}, CharacterIterator{});
}

PytorchTrace parse_pytorch_trace(std::string_view text, const std::string& file_name) {
  return OperatorReader{file_name}.read(text.begin(), text.end());
}

}  // namespace rehearse
