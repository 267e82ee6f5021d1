#pragma once
// Files of other tools that describe a model become model files. A format is one file here, which recognizes its files
// by what is in them and reads them; the table in importer.cpp lists them.

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

enum class SourceFormat {
  kOther,
  kDataset,          // of rehearse generate
  kMeasurementList,  // measured jobs
  kTorchFile,        // of torch.save: weights, or data of Driple
  kScenario,
  kModel,  // a model file as it is
  kTrace,  // of PyTorch's profiler, or Chakra's
  kHuggingfaceConfig,
  kTorchGraph,
  kOnnx,
  kPipedreamProfile,
  kNeusightGraph,
  kPaleoNet,
  kTensorflowGraph,
};

/// A file whose format is to be found out. What is asked for is read once.
class Source {
 public:
  /// Reads the first bytes. Throws InputError, also if a packed file is damaged.
  explicit Source(std::filesystem::path path);
  /// A file that is nowhere, for tests.
  Source(std::string name, const std::string& content);

  const std::filesystem::path& path() const { return path_; }
  std::string name() const { return path_.string(); }
  /// The first 64 KiB, unpacked (unpacked_file.hpp).
  const std::string& start() const { return start_; }
  /// All of it, unpacked. Throws InputError if that is more than 1 GiB.
  const std::string& content() const;
  /// What it is called if it says nothing, emptiness() of files.hpp. Throws InputError if it is damaged.
  std::string_view emptiness() const;
  /// Whether it begins as JSON does.
  bool is_json() const;
  /// Its value. Throws InputError.
  const Json& json() const;

 private:
  std::filesystem::path path_;
  std::string start_;
  mutable std::optional<std::string> content_;
  mutable std::unique_ptr<const Json> json_;
};

/// A model file with this structure; its source is `kind`, such as "ONNX model", and the name of the file.
Json model_file(const Source& source, const std::string& kind, Json structure);

/// A model file, and what of its source could not be taken over, a line each.
struct ImportedModel {
  Json model_file;
  std::vector<std::string> remarks{};
  /// In what the source keeps its weights, as it says it, such as "bfloat16"; empty if it says nothing or fp32. A model has
  /// no precision: the workload states it, so whoever knows none of the workload's tells of it by precision_remark().
  std::string stored_type{};
};

/// "its weights are stored in bfloat16; computed is in what the workload states, here in fp32: \"precision\": \"bf16\" ...".
std::string precision_remark(const std::string& stored_type);

struct FormatReader {
  SourceFormat format;
  std::string_view name;                        // what such a file is called
  bool (*recognizes)(const Source& source);     // none: what nothing here reads (other_formats.hpp)
  ImportedModel (*read)(const Source& source);  // none: such a file is no model
  std::string_view read_by;                     // who reads it instead; of what nothing reads, what to export instead
};

/// In the order in which they are tried.
std::span<const FormatReader> source_formats();

/// By the content of the file, whatever it is called. Throws InputError if it cannot be read.
SourceFormat recognized_format(const std::filesystem::path& file);
const FormatReader* find_format(const Source& source);
/// "ONNX model", "dataset, which rehearse-predictor reads", "a trace of Perfetto, which is not read: ...".
std::string what_it_is(const FormatReader& reader);

/// Throws InputError, which says what the file is, or what is known, if it is no model.
ImportedModel import_model(const Source& source);
ImportedModel import_model(const std::filesystem::path& file);

}  // namespace rehearse
