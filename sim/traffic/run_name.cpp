#include "sim/traffic/run_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "sim/traffic/fields.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kFields = 7;
constexpr int kWorkersOfStudy = 4;

/// The catalogue is Keras's; parameters as trained are counted from its definitions, four bytes each.
constexpr std::array kModels{StudiedModel{"mobilenetv2", 14e6, 9.0e6}, StudiedModel{"densenet201", 80e6, 73e6},
                             StudiedModel{"resnet50", 98e6, 94e6}, StudiedModel{"resnet101", 171e6, 171e6}};

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::optional<double> read_loss(std::string_view text) {
  if (text == "normal") return 0;
  if (text.starts_with("loss_")) text.remove_prefix(5);
  const auto loss = read_number<double>(text);
  if (!loss || !(*loss >= 0 && *loss <= 100)) return {};
  return loss;
}

std::optional<RunName> read_fields(const std::vector<std::string_view>& fields) {
  if (fields.size() != kFields || std::ranges::any_of(fields, &std::string_view::empty)) return {};
  const auto batch = read_number<int>(fields[3]);
  const auto loss = read_loss(fields[5]);
  if (!batch || *batch <= 0 || *batch > 1'000'000 || !loss) return {};
  RunName run{.framework = std::string{fields[0]},
              .model = std::string{fields[1]},
              .optimizer = std::string{fields[2]},
              .backend = std::string{fields[4]},
              .topology = std::string{fields[6]},
              .batch = *batch,
              .loss_percent = *loss};
  if (run.framework == "tensorflow") run.framework = "tf_sync";
  if (run.framework == "kungfu") run.framework = "kungfu_ssgd";
  return run;
}

}  // namespace

int RunName::batch_per_worker() const {
  return framework.starts_with("horovod") || framework.starts_with("kungfu") ? kWorkersOfStudy * batch : batch;
}

std::optional<RunName> parse_run_name(std::string_view name) { return read_fields(fields_of(name, '-')); }

std::optional<RunName> parse_setting_name(std::string_view name) {
  const std::vector<std::string_view> fields = fields_of(name, '-');
  if (fields.size() != 3 && fields.size() != 4) return {};
  auto run = read_fields(
      {fields[0], "model", "optimizer", fields[1], fields[2], "normal", fields.size() == 4 ? fields[3] : "pairs"});
  if (run) run->model = run->optimizer = "";
  return run;
}

std::optional<StudiedModel> find_studied_model(std::string_view name) {
  std::string known{name.substr(name.starts_with("tum/") ? 4 : 0)};
  std::erase(known, '_');
  const auto found = std::ranges::find(kModels, known, &StudiedModel::name);
  if (found == kModels.end()) return {};
  return *found;
}

}  // namespace rehearse
