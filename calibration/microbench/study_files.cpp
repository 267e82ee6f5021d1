#include "calibration/microbench/study_files.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "sim/record/resource_profile.hpp"

namespace rehearse::microbench {

namespace fs = std::filesystem;

namespace {

constexpr double kSecondsPerMicro = 1e-6;

/// Four digits.
std::string digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string rate_text(double bytes_per_second) { return digits(bytes_per_second / 1e9) + "GBps"; }
std::string speed_text(double flops_per_second) { return digits(flops_per_second / 1e9) + "Gflops"; }
std::string size_text(Bytes bytes) { return std::to_string(bytes.value()) + "B"; }

Json table_entry(const std::string& table, const std::string& device, const std::string& kernel,
                 const std::string& precision) {
  Json sizes = Json::object();
  for (const std::string& column : key_columns(table))
    if (column != "device" && column != "kernel" && column != "pass" && column != "precision" && column != "layout")
      sizes[column] = column;
  Json entry{{"file", table + ".csv"},
             {"kernel", kernel},
             {"precision", precision},
             {"gpu", {{"column", "device"}, {"names", {{device, device}}}}},
             {"sizes", sizes},
             {"time", {{"column", "time_s"}, {"unit", "s"}}},
             {"where", {{"precision", {precision}}}}};
  return entry;
}

}  // namespace

Json catalog_entry(const Accelerator& accelerator) {
  Json entry{{"peak_fp32", speed_text(accelerator.peak_fp32.value())},
             {"peak_fp16", speed_text(accelerator.peak_fp16.value())},
             {"memory_bandwidth", rate_text(accelerator.memory_bandwidth.value())},
             {"memory", size_text(accelerator.memory)},
             {"memory_reserved", size_text(accelerator.memory_reserved)},
             {"multiprocessors", accelerator.multiprocessors},
             {"host_link", rate_text(accelerator.host_link.value())},
             {"architecture", accelerator.architecture},
             {"cores_per_multiprocessor", accelerator.cores_per_multiprocessor},
             {"l2", size_text(accelerator.l2)},
             {"source", accelerator.source}};
  if (accelerator.process_nm > 0) entry["process_nm"] = accelerator.process_nm;
  if (accelerator.power_w > 0) entry["power"] = digits(accelerator.power_w) + "W";
  for (const auto& [key, peak] :
       {std::pair{"peak_tf32", accelerator.peak_tf32}, std::pair{"peak_bf16", accelerator.peak_bf16},
        std::pair{"peak_fp8", accelerator.peak_fp8}})
    if (peak > FlopsPerSecond{}) entry[key] = speed_text(peak.value());
  const Json machine{{"vcpus", 1},
                     {"memory", size_text(accelerator.memory)},
                     {"accelerator", accelerator.name},
                     {"accelerators", 1},
                     {"nic", "1Gbps"},
                     {"source", "rehearse microbench; its NIC is not measured, and one worker does not use it"}};
  return {{"format", 1}, {"accelerators", {{accelerator.name, entry}}}, {"instances", {{kInstanceName, machine}}}};
}

std::optional<Accelerator> read_catalog_entry(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  const Json json = load_json_file(file);
  const JsonReader reader{json, file.string()};
  reader.expect_format();
  const auto entries = reader.child("accelerators").items();
  reader.expect(entries.size() == 1, "accelerators", "the one device that microbench measured");
  return read_accelerator(entries.front().first, entries.front().second);
}

Json kernel_study(const MeasuredTables& tables, const std::string& device) {
  Json entries = Json::array();
  for (const std::string& precision : tables.values("products", device, "precision"))
    entries.push_back(table_entry("products", device, "product", precision));
  for (const std::string& precision : tables.values("convolutions", device, "precision"))
    for (const std::string& pass : tables.values("convolutions", device, "pass")) {
      Json entry = table_entry("convolutions", device, "convolution", precision);
      entry["pass"] = pass;
      entry["where"]["pass"] = Json::array({pass});
      entries.push_back(std::move(entry));
    }
  for (const std::string& precision : tables.values("streaming", device, "precision"))
    for (const std::string& kernel : tables.values("streaming", device, "kernel")) {
      Json entry = table_entry("streaming", device, kernel, precision);
      entry["where"]["kernel"] = Json::array({kernel});
      entries.push_back(std::move(entry));
    }
  return {{"format", 1}, {"kind", "kernels"}, {"leave_out", "gpu"}, {"tables", entries}};
}

std::string system_table(const std::vector<SystemFigure>& figures) {
  CsvWriter csv{{"what", "partner", "size_B", "time_s", "value"}};
  for (const SystemFigure& figure : figures)
    csv.row({figure.what, figure.partner, figure.bytes, figure.time, figure.value});
  return csv.text();
}

Json profile_start(double dispatch) {
  const Json framework{{"dispatch", digits(dispatch / kSecondsPerMicro) + "us"},
                       {"step_overhead", "0s"},
                       {"kernel_overhead", "1s"},
                       {"composition", 1},
                       {"memory", {{"norm_copies", 2}}},
                       {"source",
                        "rehearse microbench: of a processor forward and backward pass of a chain of small operators, "
                        "without their kernels; of a GPU the start of an empty kernel; memory: RMS norms as its "
                        "networks compose them"}};
  return {{"format", 1},
          {"name", kProfileName},
          {"source", "rehearse microbench"},
          {"kernels", Json::object()},
          {"frameworks", {{"otherwise", framework}}}};
}

Json step_scenario(const std::string& model, int batch) {
  const Json link{{"from", "here"}, {"to", "here"}, {"latency", "1us"}, {"source", "one machine: not used"}};
  const Json worker{
      {"name", "machine"}, {"role", "worker"}, {"instance", kInstanceName}, {"count", 1}, {"region", "here"}};
  return {{"format", 1},
          {"name", model + " on one " + std::string{kInstanceName}},
          {"workload",
           {{"model", model},
            {"batch_per_worker", batch},
            {"optimizer", "sgd"},
            {"precision", "fp32"},
            {"copies_input", false}}},
          {"cluster",
           {{"groups", Json::array({worker})}, {"network", {{"topology", "star"}, {"links", Json::array({link})}}}}},
          {"training",
           {{"strategy", {{"kind", "all_reduce"}, {"algorithm", "ring"}, {"bucket_size", "25MiB"}}},
            {"steps", 20},
            {"warmup_steps", 2}}},
          {"calibration", kProfileName}};
}

Json paused_profile(Json profile, double pause) {
  profile["name"] = kPausedProfileName;
  profile["frameworks"]["otherwise"]["step_overhead"] = digits(pause * 1e3) + "ms";
  return profile;
}

std::string paused_series(const std::vector<BusySpan>& steps, double pause, double period) {
  const double end = steps.back().end + pause;
  std::vector<double> busy(static_cast<std::size_t>(end / period), 0.0);
  for (const BusySpan& step : steps) {
    const double share = step.end > step.start ? std::min(1.0, step.processor_time / (step.end - step.start)) : 0;
    spread(busy, Seconds{period}, {Seconds{step.start}, Seconds{step.end}}, share * (step.end - step.start) / period);
  }
  CsvWriter csv{{"time_s", "gpu_utilization"}};
  for (std::size_t i = 0; i < busy.size(); ++i) csv.row({static_cast<double>(i) * period, std::min(1.0, busy[i])});
  return csv.text();
}

double paused_step_time(const std::vector<BusySpan>& steps, double pause) {
  return (steps.back().end + pause - steps.front().start) / static_cast<double>(steps.size());
}

Json paused_measurement(const std::string& model, double step_time) {
  return {{"scenario", "../scenarios/" + model + ".json"},
          {"set", {{"/calibration", kPausedProfileName}}},
          {"setting", model + ", paused"},
          {"family", model},
          {"series", model + ".csv"},
          {"step_time", digits(step_time * 1e3) + "ms"}};
}

}  // namespace rehearse::microbench
