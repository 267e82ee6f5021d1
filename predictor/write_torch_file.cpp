#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "predictor/detail/torch_types.hpp"
#include "predictor/detail/zip.hpp"
#include "predictor/torch_file.hpp"
#include "sim/base/files.hpp"

namespace rehearse {
namespace {

using detail::append_bytes;

class Writer {
 public:
  std::string file(const TorchValue& value, std::string_view note) {
    pickle_ = "\x80\x02";
    add(value);
    pickle_ += '.';
    std::vector<std::pair<std::string, std::string_view>> records{{"archive/data.pkl", pickle_},
                                                                  {"archive/byteorder", "little"}};
    for (std::size_t i = 0; i < storages_.size(); ++i)
      records.emplace_back("archive/data/" + std::to_string(i), storages_[i]->bytes);
    records.emplace_back("archive/version", "3\n");
    if (!note.empty()) records.emplace_back(std::string{"archive/"} + detail::kNote, note);
    return detail::write_stored_zip(records);
  }

 private:
  void add(const TorchValue& value) {
    std::visit([this](const auto& held) { add(held); }, value.value);
  }
  void add(TorchValue::None) { pickle_ += 'N'; }
  void add(bool value) { pickle_ += value ? '\x88' : '\x89'; }
  void add(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      pickle_ += 'J';
      append_bytes(pickle_, static_cast<std::int32_t>(value));
    } else {
      pickle_ += "\x8a\x08";
      append_bytes(pickle_, value);
    }
  }
  void add(double value) {
    std::string digits;
    append_bytes(digits, value);
    std::ranges::reverse(digits);
    pickle_ += 'G' + digits;
  }
  void add(const std::string& text) {
    pickle_ += 'X';
    append_bytes(pickle_, static_cast<std::uint32_t>(text.size()));
    pickle_ += text;
  }
  void add_all(const TorchItems& items) {
    for (const TorchValue& item : items) add(item);
  }
  void add(const TorchTuple& tuple) {
    pickle_ += '(';
    add_all(tuple.items);
    pickle_ += 't';
  }
  void add(const TorchList& list) {
    pickle_ += "](";
    add_all(list.items);
    pickle_ += 'e';
  }
  void add(const TorchDict& dict) {
    pickle_ += dict.is_ordered ? "ccollections\nOrderedDict\n)R" : "}";
    pickle_ += '(';
    for (const auto& [key, value] : dict.items) {
      add(key);
      add(value);
    }
    pickle_ += 'u';
  }
  void add(const std::shared_ptr<const TorchTensor>& tensor) {
    const detail::TypeName& type = detail::names_of(tensor->type);
    pickle_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    add(std::string{"storage"});
    pickle_ += std::string{"ctorch\n"} + type.storage + "\n";
    add(std::to_string(storages_.size()));
    add(std::string{"cpu"});
    add(static_cast<std::int64_t>(tensor->size()));
    pickle_ += "tQ";
    add(std::int64_t{0});
    std::vector<std::int64_t> strides(tensor->shape.size(), 1);
    for (std::size_t i = strides.size(); i-- > 1;)
      strides[i - 1] = strides[i] * std::max<std::int64_t>(tensor->shape[i], 1);
    for (const std::vector<std::int64_t>* numbers : {&tensor->shape, &std::as_const(strides)}) {
      pickle_ += '(';
      for (const std::int64_t number : *numbers) add(number);
      pickle_ += 't';
    }
    pickle_ +=
        "\x89"
        "ccollections\nOrderedDict\n)RtR";
    storages_.push_back(tensor);
  }

  std::string pickle_;
  std::vector<std::shared_ptr<const TorchTensor>> storages_;
};

}  // namespace

std::string to_torch_file(const TorchValue& value, std::string_view note) { return Writer{}.file(value, note); }

void write_torch_file(const std::filesystem::path& path, const TorchValue& value) {
  write_file(path, to_torch_file(value));
}

}  // namespace rehearse
