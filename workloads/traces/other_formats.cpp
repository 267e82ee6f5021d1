#include "workloads/traces/other_formats.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/unpacked_file.hpp"
#include "sim/base/varint.hpp"
#include "workloads/traces/kernel_class.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kStart = std::size_t{1} << 16U;
constexpr std::string_view kSqlite{"SQLite format 3\0", 16};
constexpr std::string_view kProfile =
    "record some steps with torch.profiler, ProfilerActivity.CUDA among its activities, and give what "
    "export_chrome_trace() "
    "writes";

bool has_any(const FileStart& file, std::initializer_list<std::string_view> texts) {
  return std::ranges::any_of(texts, [&](std::string_view text) { return file.has(text); });
}

bool has_all(const FileStart& file, std::initializer_list<std::string_view> texts) {
  return std::ranges::all_of(texts, [&](std::string_view text) { return file.has(text); });
}

bool is_named(const FileStart& file, std::initializer_list<std::string_view> endings) {
  const std::string name = lower_case(file.path.filename().string());
  return std::ranges::any_of(endings, [&](std::string_view ending) {
    return name.ends_with(ending) || name.ends_with(std::string{ending} + ".gz");
  });
}

std::string_view without_space(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

std::string_view first_line(const FileStart& file) {
  const std::string_view text = without_space(file.start);
  return text.substr(0, text.find_first_of("\r\n"));
}

bool is_sqlite(const FileStart& file) { return file.start.starts_with(kSqlite); }

bool is_nsight_sqlite(const FileStart& file) {
  return is_sqlite(file) &&
         has_any(file, {"TARGET_INFO_", "NVTX_EVENTS", "META_DATA_EXPORT", "CUPTI_ACTIVITY_KIND_"}) &&
         !file.has("StringTable");
}

bool is_nvprof_sqlite(const FileStart& file) {
  return is_sqlite(file) && has_all(file, {"CUPTI_ACTIVITY_KIND_", "StringTable"});
}

bool is_rocpd(const FileStart& file) { return is_sqlite(file) && file.has("rocpd_"); }

/// Any other database than ours, whose header names them (SQLite's application_id): datasets "Rehd", result stores "Rehs".
bool is_other_sqlite(const FileStart& file) {
  constexpr std::size_t kHeader = 100, kApplication = 68;
  return is_sqlite(file) && file.start.size() >= kHeader && file.start.substr(kApplication, 3) != "Reh";
}

/// nsys export --type jsonlines or json: an event a line, each under the name of its kind.
bool is_nsight_json(const FileStart& file) {
  return without_space(file.start).starts_with('{') &&
         has_any(file, {"\"CudaEvent\":", "\"NvtxEvent\":", "\"TraceProcessEvent\":", "\"OSRuntimeEvent\":"});
}

/// nsys stats: every kernel or call, a line each.
bool is_nsight_list(const FileStart& file) {
  const std::string_view line = first_line(file);
  return line.find("Start (ns)") != std::string_view::npos && line.find("Duration (ns)") != std::string_view::npos;
}

bool is_nsight_report(const FileStart& file) {
  const bool is_text = !without_space(file.start).empty() && file.start.find('\0') == std::string_view::npos;
  return !is_text && (is_named(file, {".nsys-rep", ".qdrep", ".qdstrm"}) || file.has("QuadDCommon") ||
                      file.start.starts_with("QDSTRM"));
}

bool is_compute_report(const FileStart& file) {
  return file.start.starts_with(std::string_view{"NVR\0", 4}) || is_named(file, {".ncu-rep", ".nsight-cuprof-report"});
}

/// A message of XSpace: the first of its planes (field 1) has an id (1), or none, and a name (2) of a host or device.
/// Source: tsl/profiler/protobuf/xplane.proto of OpenXLA.
bool is_xplane(const FileStart& file) {
  std::string_view rest = file.start;
  if (!rest.starts_with('\x0a')) return false;
  if (is_named(file, {".xplane.pb"})) return true;
  rest.remove_prefix(1);
  if (!take_varint(rest)) return false;  // length of the plane
  if (rest.starts_with('\x08')) {
    rest.remove_prefix(1);
    if (!take_varint(rest)) return false;
  }
  if (!rest.starts_with('\x12')) return false;
  rest.remove_prefix(1);
  const auto size = take_varint(rest);
  const std::string_view name = rest.substr(0, size.value_or(0));
  return std::ranges::any_of(
      std::array<std::string_view, 5>{"/host:", "/device:", "Task Environment", "/task:", "/tpu"},
      [&](std::string_view begin) { return name.starts_with(begin); });
}

bool is_perfetto(const FileStart& file) {
  return is_named(file, {".pftrace", ".perfetto-trace"}) && !file.start.empty();
}

bool is_rocprof_table(const FileStart& file) {
  const std::string_view line = first_line(file);
  const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  return (in_line("Index") && in_line("KernelName")) ||
         (in_line("Kernel_Name") && (in_line("Start_Timestamp") || in_line("Counter_Name"))) ||
         (in_line("Domain") && in_line("Function") && in_line("Start_Timestamp")) ||
         (in_line("Kind") && in_line("Agent_Id") && in_line("Start_Timestamp")) ||
         (in_line("TotalDurationNs") && in_line("Calls"));
}

bool is_rocprof_json(const FileStart& file) {
  return file.has("\"rocprofiler-sdk-tool\"") ||
         (file.has("\"traceEvents\"") && has_any(file, {"\"BeginNs\"", " HIP API\"", " HSA API\"", "CPU HIP API"}));
}

bool is_events(const FileStart& file) {
  const std::string_view text = without_space(file.start);
  return file.has("\"traceEvents\"") || (text.starts_with('[') && file.has("\"ph\""));
}

/// Their events have PyTorch's categories in part, without what links a kernel to the call that launched it.
bool is_paddle_trace(const FileStart& file) { return is_events(file) && file.has("\"SpanNumber\""); }

bool is_ascend_trace(const FileStart& file) {
  return is_events(file) && has_any(file, {"\"Ascend Hardware\"", "\"AscendCL\"", "\"Task Type\": \"AI_",
                                           "\"Task Type\":\"AI_", "\"CANN\""});
}

/// kernel_details.csv, op_summary.csv.
bool is_ascend_table(const FileStart& file) {
  const std::string_view line = first_line(file);
  const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  return (in_line("Accelerator Core") && in_line("Duration(us)")) ||
         (in_line("Op Name") && in_line("Task Duration(us)"));
}

bool is_viztracer(const FileStart& file) {
  return is_events(file) &&
         has_any(file, {"\"viztracer_metadata\"", "\"cat\": \"FEE\"", "\"cat\":\"FEE\"", "\"cat\": \"fee\""});
}

bool is_browser_trace(const FileStart& file) {
  return is_events(file) &&
         has_any(file, {"\"CrBrowserMain\"", "\"CrRendererMain\"", "devtools.timeline", "\"blink.user_timing"});
}

bool is_speedscope(const FileStart& file) { return file.has("speedscope.app/file-format-schema.json"); }

/// Stacks of calls, each line "outer;inner 17": export_stacks() of PyTorch, py-spy, input of flame graphs.
bool is_folded_stacks(const FileStart& file) {
  const auto is_stack = [](std::string_view line) {
    const std::size_t blank = line.find_last_of(" \t");
    const std::size_t between = line.find(';');
    if (blank == std::string_view::npos || between >= blank || line[between + 1] == ' ') return false;
    const std::string_view count = line.substr(blank + 1), frames = line.substr(0, blank);
    return !count.empty() && count.find_first_not_of("0123456789") == std::string_view::npos &&
           frames.find_first_not_of("0123456789.;, \t-") != std::string_view::npos;
  };
  const std::string_view text = without_space(file.start), first = first_line(file);
  const std::string_view rest = without_space(text.substr(std::min(first.size(), text.size())));
  const std::string_view second = rest.substr(0, rest.find_first_of("\r\n"));
  return is_stack(first) && !first.starts_with('{') && (rest.size() == second.size() || is_stack(second));
}

/// Tables of Holistic Trace Analysis.
bool is_hta_table(const FileStart& file) {
  const std::string_view line = first_line(file);
  return line.find("idle_time") != std::string_view::npos && line.find("compute_time") != std::string_view::npos;
}

bool is_nccl_inspector(const FileStart& file) { return file.has("\"inspector_output_format_version\""); }

/// StepStats of a run, as text.
bool is_run_metadata(const FileStart& file) {
  const std::string_view text = without_space(file.start);
  return (text.starts_with("step_stats") || text.starts_with("dev_stats")) &&
         has_any(file, {"node_stats", "dev_stats"});
}

/// Before torch.profiler: no categories, and kernels named as the operators that launched them.
bool is_autograd_trace(const FileStart& file) {
  return is_events(file) && has_any(file, {"\"CPU functions\"", "\"CUDA functions\""});
}

bool is_horovod_timeline(const FileStart& file) {
  return is_events(file) &&
         has_any(file, {"\"NEGOTIATE_ALLREDUCE\"", "\"NEGOTIATE_BROADCAST\"", "\"NEGOTIATE_ALLGATHER\""});
}

/// TensorFlow's Timeline, and what the profiler of TensorFlow and JAX writes for its viewer.
bool is_tensorflow_timeline(const FileStart& file) {
  const bool is_torch = has_any(file, {"\"deviceProperties\"", "\"cpu_op\"", "\"ProfilerStep#"});
  const bool has_devices = has_any(file, {"/host:CPU", "/device:TPU", "/device:GPU", "/device:CPU", "/device:XLA_",
                                          "/job:localhost", "/gpu:0 ", "/cpu:0 "});
  return is_events(file) && !is_torch && file.has("process_name") && has_devices;
}

/// A pickle of torch.cuda.memory._dump_snapshot(), the same as JSON, or the page that shows it.
bool is_memory_snapshot(const FileStart& file) {
  const std::string_view text = without_space(file.start);
  if (text.starts_with('{')) return has_all(file, {"\"segments\"", "\"device_traces\""});
  if (text.starts_with('<')) return has_any(file, {"MemoryViz", "memory_viz"});
  return file.start.starts_with('\x80') && file.has("segments") &&
         has_any(file, {"device_traces", "total_size", "allocated_size"});
}

/// export_memory_timeline(): lists of dates and sizes, a list of (date, action, bytes, category), or a page with a picture.
bool is_memory_timeline(const FileStart& file) {
  std::string_view text = without_space(file.start);
  if (text.starts_with('<')) return file.has("image/png;base64") && is_named(file, {".html"});
  if (!text.starts_with('[')) return false;
  text = without_space(text.substr(1));
  if (!text.starts_with('[')) return false;
  text = without_space(text.substr(1));
  return !text.empty() && (text[0] == ']' || text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
}

bool is_linked_trace(const FileStart& file) {
  return without_space(file.start).starts_with('{') && file.has("\"nodes\"") &&
         has_any(file, {"\"exclusive_dur\"", "\"inclusive_dur\""});
}

bool is_chakra_text(const FileStart& file) {
  return without_space(file.start).starts_with('{') &&
         !has_any(file, {"\"workload_graph\"", "\"nodes\"", "\"traceEvents\""}) &&
         has_any(file, {"\"ctrlDeps\"", "\"dataDeps\"", "\"durationMicros\"", "\"ctrl_deps\"", "\"data_deps\""});
}

/// ASTRA-sim's first version, to whose first line SimAI adds degrees of parallelism.
bool is_transformer_text(const FileStart& file) {
  const std::string_view line = first_line(file);
  return line.starts_with("HYBRID_TRANSFORMER_FWD_IN_BCKWD") ||
         line.find("model_parallel_NPU_group") != std::string_view::npos;
}

bool is_simai(const FileStart& file) {
  const std::string_view line = first_line(file);
  if (line.starts_with("comm_type,comm_group,")) return true;  // AICB's
  const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  return is_transformer_text(file) && (in_line(" pp:") || in_line(" ep:") || in_line("all_gpus"));
}

/// A zip archive that is no file of torch.save.
bool is_zip(const FileStart& file) {
  return file.start.starts_with("PK\x03\x04") && file.start.substr(0, 512).find("data.pkl") == std::string_view::npos;
}

/// Its first line names how the model is split, the second how many layers follow.
bool is_astra_sim(const FileStart& file) {
  constexpr std::array<std::string_view, 9> kSplits{"DATA",
                                                    "MODEL",
                                                    "HYBRID_DATA_MODEL",
                                                    "HYBRID_MODEL_DATA",
                                                    "HYBRID_DLRM",
                                                    "HYBRID_DLRM_ENHANCED",
                                                    "HYBRID_TRANSFORMER",
                                                    "HYBRID_CUSTOMIZED",
                                                    "MICRO"};
  const std::string_view line = first_line(file), word = line.substr(0, line.find_first_of(" \t"));
  const std::string_view text = without_space(file.start);
  const std::string_view second = without_space(text.substr(std::min(line.size(), text.size())));
  const bool is_count = !second.empty() && second[0] >= '0' && second[0] <= '9';
  return is_transformer_text(file) || (is_count && std::ranges::find(kSplits, word) != kSplits.end());
}

bool is_nvprof_text(const FileStart& file) {
  const std::string_view line = first_line(file);
  const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  if ((in_line("Time(%)") && in_line("Calls")) || (in_line("Start") && in_line("Duration") && in_line("Grid")))
    return true;  // without the lines above its tables
  return file.start.find('\0') == std::string_view::npos &&
         has_any(file, {"NVPROF is profiling process", "== Profiling result:", "==PROF== Connected"});
}

bool is_statistics(const FileStart& file) {
  const std::string_view line = first_line(file);
  const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  return (in_line("Time (%)") && in_line("Total Time")) ||
         (in_line("\"Process Name\"") && in_line("\"Kernel Name\"")) ||
         (file.has("Self CPU %") && file.has("# of Calls"));
}

/// What a checkout without Git LFS has in the place of a large file. Source: git-lfs, docs/spec.md.
bool is_lfs_pointer(const FileStart& file) {
  return file.start.starts_with("version https://git-lfs.github.com/spec/");
}

bool is_json_object(const FileStart& file) { return without_space(file.start).starts_with('{'); }

bool has_key(const FileStart& file, std::string_view key) {
  std::string text{'"'};
  text += key;
  text += '"';
  for (std::size_t at = file.start.find(text); at != std::string_view::npos; at = file.start.find(text, at + 1))
    if (without_space(file.start.substr(at + text.size())).starts_with(':')) return true;
  return false;
}

bool has_keys(const FileStart& file, std::initializer_list<std::string_view> keys) {
  return is_json_object(file) && std::ranges::all_of(keys, [&](std::string_view key) { return has_key(file, key); });
}

bool is_of_transformers(const FileStart& file) {
  return has_keys(file, {"model_type"}) || has_keys(file, {"architectures"});
}

/// What stands beside a config.json of transformers, or in its place.
bool is_adapter(const FileStart& file) { return has_keys(file, {"peft_type"}) && !is_of_transformers(file); }

bool is_diffusers(const FileStart& file) { return has_keys(file, {"_class_name", "_diffusers_version"}); }

bool is_open_clip(const FileStart& file) {
  return has_keys(file, {"vision_cfg", "text_cfg"}) && !is_of_transformers(file);
}

bool is_weight_index(const FileStart& file) { return has_keys(file, {"weight_map"}) && !is_of_transformers(file); }

bool is_tokenizer(const FileStart& file) {
  return (has_keys(file, {"tokenizer_class"}) || has_keys(file, {"added_tokens_decoder"})) &&
         !has_keys(file, {"vocab_size"}) && !is_of_transformers(file);
}

/// Of the code that Meta and Mistral publish beside their weights.
bool is_params_of_meta(const FileStart& file) {
  return has_keys(file, {"dim", "n_layers", "n_heads", "norm_eps"}) && !is_of_transformers(file);
}

bool is_deepspeed(const FileStart& file) {
  const bool has_batch = has_keys(file, {"train_batch_size"}) || has_keys(file, {"train_micro_batch_size_per_gpu"});
  return (has_keys(file, {"zero_optimization"}) || (has_batch && has_keys(file, {"optimizer"}))) &&
         !is_of_transformers(file) && !has_keys(file, {"format"});
}

/// What llm-analysis calls the sizes of a model.
bool is_llm_analysis(const FileStart& file) {
  return has_keys(file, {"num_layers", "n_head", "hidden_dim"}) && !has_keys(file, {"hidden_size"});
}

/// A model of ONNX as JSON, as text of its message or in the syntax of its parser.
bool is_onnx_text(const FileStart& file) {
  const std::string_view text = without_space(file.start);
  if (text.starts_with('{'))
    return has_keys(file, {"graph"}) && (has_key(file, "irVersion") || has_key(file, "ir_version"));
  return text.starts_with("ir_version:") || (text.starts_with('<') && file.has("ir_version:"));
}

/// model.to_json() of Keras, of all versions.
bool is_keras_json(const FileStart& file) {
  return has_keys(file, {"class_name", "config", "layers"}) &&
         has_any(file, {"\"Sequential\"", "\"Functional\"", "\"Model\"", "\"keras_version\"", "\"registered_name\""});
}

/// Eight bytes with the length of a JSON object, and the object. Source: safetensors, README.
bool is_safetensors(const FileStart& file) {
  return file.start.size() > 9 && file.start[8] == '{' &&
         file.start.substr(0, 8).find('\0') != std::string_view::npos && file.has("\"data_offsets\"");
}

bool is_gguf(const FileStart& file) { return file.start.starts_with("GGUF"); }

constexpr std::string_view kConfig = "give the config.json of the model";
constexpr std::string_view kOnnx = "give the model as ONNX, or as torch_graph.py writes it";

constexpr std::array kFormats{
    OtherFormat{"a pointer of Git LFS", is_lfs_pointer, "git lfs pull brings the file itself"},
    OtherFormat{"an adapter of PEFT (LoRA, ...)", is_adapter, "give the config.json of the model that it adapts"},
    OtherFormat{"a model of diffusers", is_diffusers, kOnnx},
    OtherFormat{"a configuration of open_clip", is_open_clip, "give the config.json of the model in transformers"},
    OtherFormat{"an index of weights", is_weight_index, kConfig},
    OtherFormat{"weights (safetensors)", is_safetensors, kConfig},
    OtherFormat{"weights of llama.cpp (GGUF)", is_gguf, kConfig},
    OtherFormat{"a tokenizer's configuration", is_tokenizer, kConfig},
    OtherFormat{"a params.json of Meta's or Mistral's code", is_params_of_meta,
                "give the config.json of the model in transformers"},
    OtherFormat{"a model of llm-analysis", is_llm_analysis, "give the config.json of the model in transformers"},
    OtherFormat{
        "a model of ONNX as text", is_onnx_text,
        "save it as binary: onnx.save(model, \"model.onnx\"), where onnx.parser or google.protobuf has read it"},
    OtherFormat{"a configuration of DeepSpeed", is_deepspeed,
                "it says how a model is trained: state that in a scenario"},
    OtherFormat{"a model of Keras as JSON", is_keras_json, "give it as GraphDef, SavedModel or ONNX"},
    OtherFormat{"an SQLite export of Nsight Systems", is_nsight_sqlite, kProfile},
    OtherFormat{"a profile of nvprof (SQLite)", is_nvprof_sqlite, kProfile},
    OtherFormat{"a database of rocprof (rocpd)", is_rocpd, kProfile},
    OtherFormat{"an SQLite database of another program", is_other_sqlite,
                "datasets are what rehearse generate and rehearse import write"},
    OtherFormat{"a JSON export of Nsight Systems", is_nsight_json, kProfile},
    OtherFormat{"a listing of Nsight Systems (nsys stats)", is_nsight_list, kProfile},
    OtherFormat{"a report of Nsight Systems", is_nsight_report, kProfile},
    OtherFormat{"a report of Nsight Compute", is_compute_report, kProfile},
    OtherFormat{"a profile of XLA (xplane), of TensorFlow or JAX", is_xplane,
                "give the model itself, as GraphDef or ONNX, or record the same model with torch.profiler"},
    OtherFormat{"a trace of Perfetto", is_perfetto, kProfile},
    OtherFormat{"a table of rocprof", is_rocprof_table, kProfile},
    OtherFormat{"a trace of rocprof", is_rocprof_json, kProfile},
    OtherFormat{"a trace of Paddle's profiler", is_paddle_trace, "record the same model with torch.profiler"},
    OtherFormat{"a trace of Ascend's profiler", is_ascend_trace, "record the same model with torch.profiler on a GPU"},
    OtherFormat{"a table of Ascend's profiler", is_ascend_table, "record the same model with torch.profiler on a GPU"},
    OtherFormat{"a trace of VizTracer", is_viztracer, kProfile},
    OtherFormat{"a trace of a browser", is_browser_trace, kProfile},
    OtherFormat{"a profile of speedscope", is_speedscope, kProfile},
    OtherFormat{"stacks of calls (a flame graph)", is_folded_stacks, kProfile},
    OtherFormat{"a table of Holistic Trace Analysis", is_hta_table, "give the traces that it was made of"},
    OtherFormat{"a log of NCCL's inspector", is_nccl_inspector,
                "studies read listings of nccl-tests: scenarios/studies/own/collectives.json"},
    OtherFormat{"a run's metadata of TensorFlow", is_run_metadata,
                "give the model itself, as GraphDef or ONNX, or record the same model with torch.profiler"},
    OtherFormat{"a trace of torch.autograd.profiler", is_autograd_trace, kProfile},
    OtherFormat{"a timeline of Horovod", is_horovod_timeline, kProfile},
    OtherFormat{"a timeline of TensorFlow or JAX", is_tensorflow_timeline,
                "give the model itself, as GraphDef or ONNX, or record the same model with torch.profiler"},
    OtherFormat{"a snapshot of PyTorch's memory", is_memory_snapshot, kProfile},
    OtherFormat{"a timeline of PyTorch's memory", is_memory_timeline, kProfile},
    OtherFormat{
        "a trace that chakra_trace_link has put together", is_linked_trace,
        "give the .et files that chakra_converter makes of it, or the profiler's trace and the execution trace"},
    OtherFormat{"a trace of Chakra that chakra_jsonizer has written as text", is_chakra_text,
                "give the .et file that it was made of"},
    OtherFormat{"a workload of SimAI", is_simai, "give a scenario with that model and strategy, or a trace of the job"},
    OtherFormat{"a text workload of ASTRA-sim", is_astra_sim,
                "give Chakra's traces of the job (.et), or a scenario with that model and strategy"},
    OtherFormat{"a zip archive", is_zip, "unpack it and give the file in it"},
    OtherFormat{"a listing of nvprof or Nsight Compute", is_nvprof_text, kProfile},
    OtherFormat{"a table of a profiler's sums", is_statistics, kProfile},
};

}  // namespace

std::span<const OtherFormat> other_formats() { return kFormats; }

const OtherFormat* find_other_format(const FileStart& file) {
  for (const OtherFormat& format : kFormats)
    if (format.recognizes(file)) return &format;
  return nullptr;
}

void refuse_other_format(const std::filesystem::path& file) {
  const std::string start = read_unpacked_start(file, kStart);
  if (const OtherFormat* other = find_other_format({.path = file, .start = start}))
    throw InputError{file.string() + ": expected a trace of PyTorch's profiler or Chakra's; found " +
                     std::string{other->name} + ", which is not read: " + std::string{other->instead}};
}

}  // namespace rehearse
