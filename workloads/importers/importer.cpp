#include "workloads/importers/importer.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"
#include "workloads/importers/huggingface.hpp"
#include "workloads/importers/neusight.hpp"
#include "workloads/importers/onnx.hpp"
#include "workloads/importers/paleo.hpp"
#include "workloads/importers/pipedream.hpp"
#include "workloads/importers/tensorflow.hpp"
#include "workloads/importers/torch_graph.hpp"
#include "workloads/traces/other_formats.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStart = std::size_t{1} << 16U;
constexpr std::size_t kLargestSource = std::size_t{1} << 30U;
constexpr std::array<std::string_view, 3> kNonFinite{"-Infinity", "Infinity", "NaN"};

/// Python's json module writes NaN, Infinity and -Infinity, which JSON does not have: they become texts, so that whoever
/// needs a number there says so.
std::string quote_non_finite(const std::string& text) {
  if (text.find("Infinity") == std::string::npos && text.find("NaN") == std::string::npos) return text;
  std::string quoted;
  bool is_in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_in_text && text[at] == '\\' && at + 1 < text.size())
      quoted += text[at++];
    else if (text[at] == '"')
      is_in_text = !is_in_text;
    const auto* literal = is_in_text ? kNonFinite.end() : std::ranges::find_if(kNonFinite, [&](std::string_view each) {
      return text.compare(at, each.size(), each) == 0;
    });
    if (literal == kNonFinite.end()) {
      quoted += text[at];
      continue;
    }
    quoted += '"' + std::string{*literal} + '"';
    at += literal->size() - 1;
  }
  return quoted;
}

bool is_dataset(const Source& source) { return source.start().starts_with(std::string_view{"SQLite format 3\0", 16}); }

/// An archive whose first entry is the pickle, or, before PyTorch 1.6, pickles one after another, of which the first is
/// a number that says so.
bool is_torch_file(const Source& source) {
  const std::string_view start = source.start();
  const bool is_archive =
      start.starts_with("PK\x03\x04") && start.substr(0, 512).find("/data.pkl") != std::string::npos;
  return is_archive || start.starts_with("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.");
}

/// Their beginning tells them: such a file may have a gigabyte, too much for a value.
bool is_json_trace(const Source& source) {
  const auto has = [&](const char* key) { return source.start().find(key) != std::string::npos; };
  const bool is_execution_trace = has("\"nodes\"") && has("\"rf_id\"");
  return source.is_json() && (has("\"traceEvents\"") || has("\"workload_graph\"") || is_execution_trace ||
                              (has("\"ph\"") && has("\"ts\"")));
}

bool is_binary_trace(const Source& source) { return !source.is_json() && begins_as_chakra_et(source.start()); }

/// Whether it is an object with these keys.
template <class... Keys>
bool has_keys(const Source& source, Keys... keys) {
  return source.is_json() && source.json().is_object() && (source.json().contains(keys) && ...);
}

bool is_model(const Source& source) { return has_keys(source, "structure"); }
bool is_scenario(const Source& source) { return has_keys(source, "workload", "cluster"); }

bool is_measurement_list(const Source& source) {
  return has_keys(source, "source", "profiles") || has_keys(source, "source", "jobs");
}

ImportedModel read_model_file(const Source& source) { return {.model_file = source.json()}; }

constexpr std::string_view kPredictor = "rehearse-predictor";

/// What nothing here reads, in the order of other_formats().
std::vector<FormatReader> unread_formats() {
  std::vector<FormatReader> formats;
  for (const OtherFormat& other : other_formats())
    formats.push_back({SourceFormat::kOther, other.name, nullptr, nullptr, other.instead});
  return formats;
}

}  // namespace

Source::Source(fs::path path) : path_{std::move(path)}, start_{read_unpacked_start(path_, kStart)} {}

Source::Source(std::string name, const std::string& content)
    : path_{std::move(name)}, content_{unpacked_text(content, kLargestSource, path_.string())} {
  start_ = content_->substr(0, kStart);
}

const std::string& Source::content() const {
  if (!content_) content_ = read_unpacked_file(path_, kLargestSource);
  return *content_;
}

std::string_view Source::emptiness() const {
  return rehearse::emptiness(start_).empty() ? std::string_view{} : rehearse::emptiness(content());
}

bool Source::is_json() const {
  const std::size_t first = start_.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) return false;
  const std::string_view text = std::string_view{start_}.substr(first);
  return text[0] == '{' || text[0] == '[' || text.starts_with("//") || text.starts_with("/*");
}

const Json& Source::json() const {
  if (!json_) json_ = std::make_unique<const Json>(parse_json(quote_non_finite(content()), name()));
  return *json_;
}

std::string precision_remark(const std::string& stored_type) {
  const std::string word = stored_type == "bfloat16"                           ? "bf16"
                           : stored_type == "float16" || stored_type == "half" ? "fp16"
                                                                               : "";
  return "its weights are stored in " + printable(stored_type) +
         ", which is not taken over: a workload states its precision" +
         (word.empty() ? std::string{", and without that has fp32"}
                       : ", \"precision\": " + in_quotes(word) + ", and without that has fp32");
}

Json model_file(const Source& source, const std::string& kind, Json structure) {
  return {{"format", 1},
          {"source", kind + " " + shortened(source.path().filename().string(), 200)},
          {"structure", std::move(structure)}};
}

std::span<const FormatReader> source_formats() {
  static constexpr std::array kFormats{
      FormatReader{SourceFormat::kDataset, "dataset", is_dataset, nullptr, kPredictor},
      FormatReader{SourceFormat::kTorchFile, "file of torch.save", is_torch_file, nullptr, kPredictor},
      FormatReader{SourceFormat::kTrace, "trace", is_json_trace, nullptr, "rehearse import --batch N"},
      FormatReader{SourceFormat::kModel, "model file", is_model, read_model_file, ""},
      FormatReader{SourceFormat::kScenario, "scenario", is_scenario, nullptr, "rehearse simulate"},
      FormatReader{SourceFormat::kMeasurementList, "list of measured jobs", is_measurement_list, nullptr, kPredictor},
      FormatReader{SourceFormat::kHuggingfaceConfig, "HuggingFace config.json", is_huggingface_config,
                   read_huggingface_config, ""},
      FormatReader{SourceFormat::kTorchGraph, "PyTorch graph", is_torch_graph, read_torch_graph, ""},
      FormatReader{SourceFormat::kOnnx, "ONNX model", is_onnx, read_onnx, ""},
      FormatReader{SourceFormat::kPipedreamProfile, "PipeDream profile", is_pipedream_profile, read_pipedream_profile,
                   ""},
      FormatReader{SourceFormat::kNeusightGraph, "NeuSight graph", is_neusight_graph, read_neusight_graph, ""},
      FormatReader{SourceFormat::kPaleoNet, "Paleo network", is_paleo_net, read_paleo_net, ""},
      FormatReader{SourceFormat::kTensorflowGraph, "TensorFlow GraphDef", is_tensorflow_graph, read_tensorflow_graph,
                   ""},
      FormatReader{SourceFormat::kTrace, "trace", is_binary_trace, nullptr, "rehearse import --batch N"},
  };
  return kFormats;
}

const FormatReader* find_format(const Source& source) {
  if (!source.emptiness().empty()) return nullptr;  // white space would pass as the length of a record
  static const std::vector<FormatReader> others = unread_formats();
  if (const OtherFormat* other = find_other_format({.path = source.path(), .start = source.start()}))
    return &others[static_cast<std::size_t>(other - other_formats().data())];
  for (const FormatReader& reader : source_formats())
    if (reader.recognizes(source)) return &reader;
  return nullptr;
}

std::string what_it_is(const FormatReader& reader) {
  if (reader.format == SourceFormat::kOther)
    return std::string{reader.name} + ", which is not read: " + std::string{reader.read_by};
  const std::string name{reader.name};
  return reader.read != nullptr ? name : name + ", which " + std::string{reader.read_by} + " reads";
}

SourceFormat recognized_format(const fs::path& file) {
  const FormatReader* reader = find_format(Source{file});
  return reader == nullptr ? SourceFormat::kOther : reader->format;
}

ImportedModel import_model(const Source& source) {
  const FormatReader* reader = find_format(source);
  if (reader == nullptr) {
    if (const std::string_view what = source.emptiness(); !what.empty())
      throw InputError{source.name() + ": expected a model; found " + std::string{what}};
    std::string known;
    for (const FormatReader& format : source_formats())
      if (format.read != nullptr) known += (known.empty() ? "" : ", ") + std::string{format.name};
    throw InputError{source.name() + ": unknown content; known: " + known};
  }
  if (reader->read == nullptr)
    throw InputError{source.name() + ": expected a model; found " +
                     (reader->format == SourceFormat::kOther ? "" : "a ") + what_it_is(*reader)};
  return reader->read(source);
}

ImportedModel import_model(const fs::path& file) { return import_model(Source{file}); }

}  // namespace rehearse
