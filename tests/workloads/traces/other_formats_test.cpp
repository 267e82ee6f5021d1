#include "workloads/traces/other_formats.hpp"

#include <doctest/doctest.h>

#include <map>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

std::string name_of(const std::string& start, const std::string& file = "some.file") {
  const OtherFormat* format = find_other_format({.path = file, .start = start});
  return format == nullptr ? "" : std::string{format->name};
}

/// An SQLite file whose header has this application_id, and what its schema says.
std::string sqlite(const std::string& application, const std::string& schema) {
  std::string header = std::string{"SQLite format 3\0", 16} + std::string(84, '\x01');
  header.replace(68, application.size(), application);
  return header + schema;
}

std::string events(const std::string& list) { return R"({"schemaVersion": 1, "traceEvents": [)" + list + "]}"; }

std::string reading(const std::string& trace) {
  const test::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files{folder.write("t.json", trace)};
  const std::string error = test::error_of([&] { (void)read_recorded_runs(files); });
  return error.substr(std::min(error.size(), error.find("t.json: ")));
}

const std::string kOperator =
    R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2})";

}  // namespace

TEST_CASE("what lies beside a model's configuration, or in its place, is known by name") {
  CHECK(name_of("version https://git-lfs.github.com/spec/v1\noid sha256:08\nsize 1653\n", "config.json") ==
        "a pointer of Git LFS");
  CHECK(name_of(R"({"base_model_name_or_path": "a/b", "peft_type": "LORA", "r": 8})") ==
        "an adapter of PEFT (LoRA, ...)");
  CHECK(name_of(R"({"_class_name": "FluxTransformer2DModel", "_diffusers_version": "0.31.0", "num_layers": 19})") ==
        "a model of diffusers");
  CHECK(name_of(R"({"embed_dim": 512, "vision_cfg": {"layers": 12}, "text_cfg": {"width": 512}})") ==
        "a configuration of open_clip");
  CHECK(name_of(R"({"metadata": {"total_size": 4}, "weight_map": {"a.weight": "model-1.safetensors"}})") ==
        "an index of weights");
  CHECK(name_of(std::string{"\x30\0\0\0\0\0\0\0", 8} + R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})") ==
        "weights (safetensors)");
  CHECK(name_of(std::string{"GGUF\x03\0\0\0", 8}) == "weights of llama.cpp (GGUF)");
  CHECK(name_of(R"({"tokenizer_class": "BertTokenizer", "model_max_length": 512})") == "a tokenizer's configuration");
  CHECK(name_of(R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "norm_eps": 1e-05, "vocab_size": 32000})") ==
        "a params.json of Meta's or Mistral's code");
  CHECK(name_of(R"({"train_batch_size": "auto", "zero_optimization": {"stage": 2}})") ==
        "a configuration of DeepSpeed");
  CHECK(name_of(R"({"class_name": "Sequential", "config": {"layers": []}, "keras_version": "2.4.0"})") ==
        "a model of Keras as JSON");
  for (const char* own :
       {R"({"model_type": "bert", "tokenizer_class": "BertTokenizer", "peft_type": "x"})",
        R"({"architectures": ["LlamaModel"], "dim": 1, "n_layers": 1, "n_heads": 1, "norm_eps": 1})",
        R"({"format": 1, "name": "peft_type", "optimizer": "sgd", "train_batch_size": 8, "workload": {}})",
        R"({"vocab_size": 30522, "tokenizer_class": "BertTokenizer"})", R"(["peft_type", "weight_map"])"})
    CHECK(name_of(own) == "");
}

TEST_CASE("files of other profilers and simulators are known by name") {
  CHECK(name_of(sqlite("", "CREATE TABLE StringIds CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL")) ==
        "an SQLite export of Nsight Systems");
  CHECK(name_of(sqlite("", "CREATE TABLE TARGET_INFO_GPU")) == "an SQLite export of Nsight Systems");
  CHECK(name_of(sqlite("", "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL CREATE TABLE StringTable")) ==
        "a profile of nvprof (SQLite)");
  CHECK(name_of(sqlite("", "CREATE TABLE \"rocpd_kernel_dispatch_0000\"")) == "a database of rocprof (rocpd)");
  CHECK(name_of(sqlite("", "CREATE TABLE runs")) == "an SQLite database of another program");
  CHECK(name_of(sqlite("Rehd", "CREATE TABLE samples")) == "");
  CHECK(name_of(std::string{"\x08\x01\0\x02", 4}, "run.nsys-rep") == "a report of Nsight Systems");
  CHECK(name_of(std::string{"\0\x02", 2}, "Run.QDREP") == "a report of Nsight Systems");
  CHECK(name_of(std::string{"\0 QuadDCommon", 13}) == "a report of Nsight Systems");
  CHECK(name_of("kernel", "run.ncu-rep") == "a report of Nsight Compute");
  // XSpace{planes: {id: 1, name: "/host:CPU"}}, and without an id.
  CHECK(name_of("\x0a\x0d\x08\x01\x12\x09/host:CPU") == "a profile of XLA (xplane), of TensorFlow or JAX");
  CHECK(name_of("\x0a\x0f\x12\x0d/device:TPU:0") == "a profile of XLA (xplane), of TensorFlow or JAX");
  // A GraphDef begins with a node's name (1), then its operator (2).
  CHECK(name_of("\x0a\x0c\x0a\x01x\x12\x07/device") == "");
  CHECK(name_of("\x0a\x04", "trace.pftrace") == "a trace of Perfetto");
  for (const char* header :
       {"\"Index\",\"KernelName\",\"gpu-id\",\"queue-id\"\n0,\"Cijk\",1,0\n",
        "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\"\n",
        "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\"\n",
        "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\"\n"})
    CHECK(name_of(header) == "a table of rocprof");
  CHECK(name_of(R"({"rocprofiler-sdk-tool": [{"metadata": {}}]})") == "a trace of rocprof");
  CHECK(name_of(events(R"({"args": {"name": "0 CPU HIP API"}, "ph": "M", "pid": "2", "name": "process_name"})")) ==
        "a trace of rocprof");
  CHECK(name_of(R"({"schemaVersion": "1.0.0", "SpanNumber": "0", "traceEvents": [{"ph": "X", "cat": "kernel"}]})") ==
        "a trace of Paddle's profiler");
  CHECK(name_of(R"([{"name": "process_name", "args": {"name": "Ascend Hardware"}, "ph": "M"},)") ==
        "a trace of Ascend's profiler");
  CHECK(name_of(R"([{"name": "MatMulV2", "ts": "60.25", "args": {"Task Type": "AI_CORE"}, "ph": "X"},)") ==
        "a trace of Ascend's profiler");
  CHECK(name_of(R"([{"name": "conv2d", "ph": "X", "ts": 1.0, "dur": 100.0, "tid": 1, "pid": "CPU functions"},)") ==
        "a trace of torch.autograd.profiler");
  CHECK(name_of(R"([{"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": 1, "pid": 1},)") == "a timeline of Horovod");
  CHECK(
      name_of(events(
          R"({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "/job:localhost/replica:0 Compute"}})")) ==
      "a timeline of TensorFlow or JAX");
  CHECK(name_of(events(R"({"ph": "M", "name": "process_name", "args": {"name": "/host:CPU"}})")) ==
        "a timeline of TensorFlow or JAX");
  CHECK(name_of("\x80\x04\x95}\x94(\x8c\x08segments\x94]\x94 device_traces") == "a snapshot of PyTorch's memory");
  CHECK(name_of("[[1712, 1713], [[0, 1], [2, 3]]]") == "a timeline of PyTorch's memory");
  CHECK(name_of("[ [-1, 0, 4096, 6], ") == "a timeline of PyTorch's memory");
  CHECK(name_of("<html><img src='data:image/png;base64,iVBO'>", "memory.html") == "a timeline of PyTorch's memory");
  CHECK(name_of(R"({"schema": "1.0.2-chakra.0.0.4", "nodes": [{"id": 2, "exclusive_dur": 5}]})") ==
        "a trace that chakra_trace_link has put together");
  CHECK(name_of("{\n  \"version\": \"0.0.4\"\n}{\n  \"id\": \"1\", \"dataDeps\": [\"0\"]\n}") ==
        "a trace of Chakra that chakra_jsonizer has written as text");
  CHECK(name_of("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 8 ga: 1\n30\n") ==
        "a workload of SimAI");
  CHECK(name_of("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 2 46 92\n94\n") ==
        "a text workload of ASTRA-sim");
  CHECK(name_of("PK\x03\x04 trace.json") == "a zip archive");
  CHECK(name_of("PK\x03\x04 archive/data.pkl") == "");
  CHECK(name_of("\x0a\x02\x08\x01", "host.xplane.pb") == "a profile of XLA (xplane), of TensorFlow or JAX");
  for (const char* split : {"DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_TRANSFORMER", "MICRO", "HYBRID_DLRM\t5"})
    CHECK(name_of(std::string{split} + "\r\n16\nconv1 -1 629792 NONE 0 629792 NONE 0\n") ==
          "a text workload of ASTRA-sim");
  CHECK(name_of("==123== NVPROF is profiling process 123\n") == "a listing of nvprof or Nsight Compute");
  CHECK(name_of("Time (%),Total Time (ns),Instances,Avg (ns),Name\n") == "a table of a profiler's sums");
  CHECK(name_of("---- \n Name  Self CPU %   Self CPU  # of Calls \n") == "a table of a profiler's sums");
}

TEST_CASE("exports of profilers as text, tables and JSON are known by name") {
  for (const char* line :
       {R"({"Type":80,"CudaEvent":{"startNs":"1000","endNs":"2000"}})",
        R"({"Type": 59, "NvtxEvent": {"Text": "step"}})", R"({"Type":48,"TraceProcessEvent":{"startNs":"1"}})"})
    CHECK(name_of(std::string{line} + "\n") == "a JSON export of Nsight Systems");
  CHECK(name_of("Start (ns),Duration (ns),CorrId,GrdX,Name\n1,2,5,1,k\n") ==
        "a listing of Nsight Systems (nsys stats)");
  CHECK(name_of("Start (ns),Duration (ns),Name,Result\n") == "a listing of Nsight Systems (nsys stats)");
  for (const char* header :
       {"\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\"\n,%,ms,,ms\n",
        "            Type  Time(%)      Time     Calls       Avg\n",
        "\"Start\",\"Duration\",\"Grid X\",\"Grid Y\"\nms,us,,\n", "   Start  Duration  Grid Size\n"})
    CHECK(name_of(header) == "a listing of nvprof or Nsight Compute");
  CHECK(name_of("\"Correlation_Id\",\"Kernel_Name\",\"Counter_Name\",\"Counter_Value\"\n1,k,c,2\n") ==
        "a table of rocprof");
  for (const char* header : {"Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n",
                             "Device_id,Model ID,Op Name,OP Type,Task Type,Task Duration(us)\n"})
    CHECK(name_of(header) == "a table of Ascend's profiler");
  CHECK(name_of(events(kOperator + R"(,{"ph":"X","cat":"AscendCL","name":"aclrtSynchronizeStream","ts":1})")) ==
        "a trace of Ascend's profiler");
  CHECK(name_of(events(R"({"ph": "X", "ts": 1, "dur": 2, "name": "f", "cat": "FEE"
})")) == "a trace of VizTracer");
  CHECK(name_of(R"({"traceEvents": [], "viztracer_metadata": {"version": "0.16"}})") == "a trace of VizTracer");
  CHECK(name_of(events(R"({"args":{"name":"CrBrowserMain"},"cat":"__metadata","ph":"M"})")) == "a trace of a browser");
  CHECK(name_of(events(R"({"cat":"devtools.timeline","name":"RunTask","ph":"X"})")) == "a trace of a browser");
  CHECK(
      name_of(R"({"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[{"type":"evented"}]})") ==
      "a profile of speedscope");
  for (const char* stacks : {"train.py(10): <module>;module.py(5): _call_impl;aten::linear 1234\na;b 2\n",
                             "main;step 7", "all;void f<int, 2>(float*) 12\r\nall 3;x 4\r\n"})
    CHECK(name_of(stacks) == "stacks of calls (a flame graph)");
  for (const char* none : {"1;2;3 4\n1;2;3 5\n", "a b 3\n", "a;b 2\nno stack\n", "x; y = 3\n", "{\"a;b\": 3, 4\n"})
    CHECK(name_of(none) == "");
  CHECK(name_of("rank,idle_time(us),compute_time(us),non_compute_time(us)\n") == "a table of Holistic Trace Analysis");
  CHECK(name_of(R"({"header":{"rank":0},"metadata":{"inspector_output_format_version":"v4.0"}})") ==
        "a log of NCCL's inspector");
  CHECK(name_of("step_stats {\n  dev_stats {\n device: \"/device:CPU:0\"") == "a run's metadata of TensorFlow");
  CHECK(name_of(R"({"segments": [{"device": 0}], "device_traces": [[]]})") == "a snapshot of PyTorch's memory");
  CHECK(name_of("<!DOCTYPE html><script src=\"https://a/torch/utils/viz/MemoryViz.js\">", "m.html") ==
        "a snapshot of PyTorch's memory");
  CHECK(name_of("comm_type,comm_group,comm_group_size,msg_size\n") == "a workload of SimAI");
}

TEST_CASE("models as text are known by name") {
  for (const char* text : {R"({"irVersion": "7", "producerName": "pytorch", "graph": {"node": []}})",
                           R"({"ir_version": 8, "graph": {}})", "ir_version: 7\ngraph {\n node { op_type: \"MatMul\" }",
                           "<ir_version: 10, opset_import: [\"\" : 18]>\nagraph (float[3] x)", "<\n  ir_version: 7,\n"})
    CHECK(name_of(text) == "a model of ONNX as text");
  CHECK(name_of(R"({"name": "a", "num_layers": 80, "n_head": 64, "hidden_dim": 8192, "model_type": "llama"})") ==
        "a model of llm-analysis");
  CHECK(name_of(R"({"num_layers": 80, "n_head": 64, "hidden_dim": 8192, "hidden_size": 8192})") == "");
  CHECK(name_of("node { name: \"a\" op: \"Conv2D\" }") == "");
}

TEST_CASE("what is read is none of them") {
  for (const std::string& text :
       {events(kOperator), std::string{R"([{"ph": "X", "ts": 1}])"},
        std::string{R"({"workload_graph": [{"data_deps": 1}]})"},
        std::string{R"({"schema": "1.0.1", "pid": 1, "nodes": [{"name": "a", "id": 2, "rf_id": 0}]})"},
        std::string{"DATA of a run\n"}, std::string{"model_type"},
        std::string{"node1 -- Input -- forward_compute_time=0"}, std::string{"[]"}, std::string{"[{}]"},
        std::string{"{}"}, std::string{}, std::string{"kind,m,n,k\n"},
        std::string{"\x04\x0a\x02v1\x04\x08\x01\x12\0", 9}})
    CHECK(name_of(text) == "");
}

TEST_CASE("they are refused with what to record instead, packed or not") {
  const test::TemporaryFolder folder;
  const std::string database = sqlite("", "CREATE TABLE TARGET_INFO_GPU");
  const std::vector<std::filesystem::path> files{folder.write("n.sqlite", database)};
  const std::string error = test::error_of([&] { (void)read_recorded_runs(files); });
  CHECK(error.ends_with(
      "n.sqlite: expected a trace of PyTorch's profiler or Chakra's; found an SQLite export of Nsight Systems, which "
      "is "
      "not read: record some steps with torch.profiler, ProfilerActivity.CUDA among its activities, and give what "
      "export_chrome_trace() writes"));
  const std::vector<std::filesystem::path> packed{folder.write("n.gz", gzip(database))};
  CHECK(test::error_of([&] { (void)read_recorded_runs(packed); }).find("Nsight Systems") != std::string::npos);
}

TEST_CASE("traces without work of a GPU say whose work they have") {
  const std::string expected = "t.json: expected work of GPUs (events of category \"kernel\"); found ";
  CHECK(reading(events(kOperator)) ==
        expected + "the host's alone: record on a GPU, with ProfilerActivity.CUDA among the profiler's activities");
  CHECK(reading(events(kOperator + R"(, {"ph": "X", "cat": "mtia_ccp_events", "name": "k", "ts": 6, "dur": 1})")) ==
        expected + "that of MTIA, Meta's accelerator, which is not read: record the same model on a GPU");
  CHECK(reading(events(R"({"ph": "X", "cat": "sched", "name": "run", "ts": 6, "dur": 1})")) ==
        expected + "events of \"sched\" alone, which are not PyTorch's: record with torch.profiler");
  CHECK(reading(events(R"({"ph": "X", "name": "Source", "pid": 1, "tid": 2, "ts": 6, "dur": 1})")) ==
        expected + "events of no category alone, which are not PyTorch's: record with torch.profiler");
  CHECK(reading("\x05 no trace") ==
        "t.json: expected a trace of PyTorch's profiler (JSON) or Chakra's (.et, JSON); found neither");
}

TEST_CASE("a trace in an archive of its own is read") {
  const std::string text = events(
      kOperator +
      R"(, {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 8, "dur": 3, "args": {"stream": 7}})");
  std::string header(512, '\0');
  header.replace(0, 6, "t.json");
  const std::string size = "0000000" + std::string{static_cast<char>('0' + text.size() / 512 % 8)} +
                           std::string{static_cast<char>('0' + text.size() / 64 % 8)} +
                           std::string{static_cast<char>('0' + text.size() / 8 % 8)} +
                           std::string{static_cast<char>('0' + text.size() % 8)};
  header.replace(124, size.size(), size);
  header.replace(257, 5, "ustar");
  const std::string archive = header + text + std::string(1536 - text.size() % 512, '\0');
  const test::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files{folder.write("t.tar.gz", gzip(archive))};
  CHECK(read_recorded_runs(files).front().operations.size() >= 2);
}

}  // namespace rehearse
