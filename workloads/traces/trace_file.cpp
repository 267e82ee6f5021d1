#include "workloads/traces/trace_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/base/varint.hpp"
#include "workloads/traces/chakra_run.hpp"
#include "workloads/traces/detail/characters.hpp"
#include "workloads/traces/other_formats.hpp"
#include "workloads/traces/pytorch_et.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kBeginning = 1 << 16;

/// What the parser calls: it goes on until a key at the top says which format this is.
class KeyHandler {
 public:
  std::optional<TraceFormat> format;

  // Values do not matter.
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t) { return true; }
  bool number_unsigned(std::uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(std::vector<std::uint8_t>&) { return true; }
  bool start_object(std::size_t) {
    ++depth_;
    return true;
  }
  bool key(std::string& name) {
    if (depth_ != 1) return true;
    if (name == "traceEvents") format = TraceFormat::kKineto;
    if (name == "workload_graph") format = TraceFormat::kChakraJson;
    if (name == "nodes") format = TraceFormat::kPytorchEt;
    return !format;
  }
  bool end_object() {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) {
    if (++depth_ == 1) format = TraceFormat::kKineto;
    return !format;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) { return false; }

 private:
  std::int64_t depth_ = 0;
};

/// Those of PyTorch: each needs the profiler's trace of the same run, which is the one at its place among those.
std::vector<std::filesystem::path> execution_traces(std::span<const std::filesystem::path> files,
                                                    std::span<const TraceFormat> formats) {
  std::vector<std::filesystem::path> found;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (formats[i] == TraceFormat::kPytorchEt) found.push_back(files[i]);
  if (!found.empty() && std::ranges::count(formats, TraceFormat::kKineto) != std::ssize(found))
    throw InputError{
        found.front().string() +
        ": is an execution trace, which has no durations: give the profiler's trace of the same run besides it"};
  return found;
}

bool begins_as_json(const std::filesystem::path& file) {
  constexpr std::size_t kStart = 4096;
  const std::string start = read_unpacked_start(file, kStart);
  const std::size_t first = start.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string::npos && (start[first] == '{' || start[first] == '[');
}

/// A trace of hosts alone tells nothing of a training on GPUs, and other accelerators' kernels are not read.
void require_gpu_work(const KinetoTrace& trace) {
  if (trace.has_gpu_work || (trace.events.empty() && trace.unread.empty())) return;
  const auto has = [&](std::string_view family) {
    return std::ranges::any_of(trace.unread,
                               [&](const std::string& name) { return lower_case(name).starts_with(family); });
  };
  const std::string expected = trace.file_name + ": expected work of GPUs (events of category \"kernel\"); found ";
  for (const auto& [family, name] : {std::pair{"mtia", "MTIA, Meta's accelerator"}, std::pair{"hpu", "Gaudi"},
                                     std::pair{"glow", "Glow"}, std::pair{"tpu", "TPUs"}})
    if (has(family))
      throw InputError{expected + "that of " + name + ", which is not read: record the same model on a GPU"};
  if (!trace.events.empty())
    throw InputError{expected +
                     "the host's alone: record on a GPU, with ProfilerActivity.CUDA among the profiler's activities"};
  std::string categories;
  for (const std::string& name : trace.unread)
    categories += (categories.empty() ? "" : ", ") + (name.empty() ? "no category" : in_quotes(name, 40));
  throw InputError{expected + "events of " + categories +
                   " alone, which are not PyTorch's: record with torch.profiler"};
}

}  // namespace

bool begins_as_chakra_et(std::string_view bytes) {
  const std::optional<std::uint64_t> size = take_varint(bytes);
  if (!size) return false;
  const bool is_whole = *size <= bytes.size();
  std::string_view metadata = bytes.substr(0, *size);
  while (!metadata.empty()) {
    const std::optional<std::uint64_t> tag = take_varint(metadata);
    if (!tag || (*tag != 0x0A && *tag != 0x12)) return false;  // a version, or an attribute: each behind its length
    const std::optional<std::uint64_t> length = take_varint(metadata);
    if (!length || *length > metadata.size()) return !is_whole && length;
    metadata.remove_prefix(*length);
  }
  // Then a node, whose id comes first unless it is 0.
  if (*size > 0 || !is_whole) return true;
  bytes.remove_prefix(*size);
  const std::optional<std::uint64_t> node = take_varint(bytes);
  return node && !bytes.empty() && (bytes.front() == 0x08 || bytes.front() == 0x12);
}

std::optional<TraceFormat> find_trace_format(const std::filesystem::path& file, const Budget& budget) {
  std::string beginning(kBeginning, '\0');
  {
    UnpackedFile unpacked{file, budget};
    std::size_t size = 0;
    while (size < kBeginning) {
      const std::size_t count = unpacked.read(beginning.data() + size, kBeginning - size);
      if (count == 0) break;
      size += count;
    }
    beginning.resize(size);
  }
  if (const std::string_view what = emptiness(beginning); !what.empty() && beginning.size() < kBeginning)
    throw InputError{file.string() + ": expected a trace; found " + std::string{what}};
  if (begins_as_chakra_et(beginning)) return TraceFormat::kChakraEt;
  Characters characters{file, budget};
  KeyHandler handler;
  nlohmann::json::sax_parse(CharacterIterator{&characters}, CharacterIterator{}, &handler);
  return handler.format;
}

std::vector<RecordedRun> read_recorded_runs(std::span<const std::filesystem::path> files, const Budget& budget,
                                            const KinetoOptions& options) {
  std::vector<TraceFormat> formats;
  // The reader of Kineto's traces says best why a file is none.
  for (const std::filesystem::path& file : files) {
    refuse_other_format(file);
    const std::optional<TraceFormat> format = find_trace_format(file, budget);
    if (!format && !begins_as_json(file))
      throw InputError{file.string() +
                       ": expected a trace of PyTorch's profiler (JSON) or Chakra's (.et, JSON); found neither"};
    formats.push_back(format.value_or(TraceFormat::kKineto));
  }
  const std::vector<std::filesystem::path> tensors = execution_traces(files, formats);
  KinetoOptions of_each = options;
  std::vector<RecordedRun> runs;
  std::size_t linked = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    switch (formats[i]) {
      case TraceFormat::kKineto: {
        KinetoTrace trace = read_kineto_trace(files[i], budget, of_each);
        require_gpu_work(trace);
        if (trace.steps) of_each.steps = trace.steps;
        if (!tensors.empty()) add_tensors(trace, read_pytorch_trace(tensors[linked++], budget));
        runs.push_back(recorded_run(trace));
        break;
      }
      case TraceFormat::kChakraJson:
        runs.push_back(recorded_run(read_chakra_json(files[i], budget)));
        break;
      case TraceFormat::kChakraEt:
        runs.push_back(recorded_run(read_chakra_et(files[i], budget)));
        break;
      case TraceFormat::kPytorchEt:
        break;
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].has_rank) continue;
    runs[i].rank = static_cast<int>(i);
    if (runs[i].world_size == 0) runs[i].world_size = static_cast<int>(runs.size());
  }
  return runs;
}

}  // namespace rehearse
