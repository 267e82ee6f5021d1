#include "predictor/driple/driple_jobs.hpp"

#include <algorithm>
#include <unordered_map>

#include "predictor/driple_export.hpp"
#include "predictor/measured_series.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

constexpr std::array kJobColumns{"GPU", "Data Set", "Model", "Sync/Async", "Hyper-Parameter", "Job Name"};
constexpr std::array kLabelColumns{"avg Idle time", "avg Active time", "avg Peak consumption"};
const std::array<std::string, 4> kResources{"GPU MEM util", "GPU util", "Network_rx", "Network_tx"};

/// Steps as published: an unknown dimension sets the product back to 0, and 0 counts as 1 before the next dimension.
std::int64_t tensor_size(const std::vector<std::int64_t>& shape) {
  std::int64_t size = 0;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0)
      size = 0;
    else if (__builtin_mul_overflow(std::max<std::int64_t>(size, 1), dimension, &size))
      return 0;
  }
  return size;
}

}  // namespace

OperatorNetwork gpu_operators(const std::vector<GraphDefNode>& nodes, const TypeFrequencies& frequencies,
                              const std::string& where) {
  OperatorNetwork network;
  std::unordered_map<std::string_view, std::uint32_t> numbers;
  std::vector<const GraphDefNode*> kept;
  for (const GraphDefNode& node : nodes) {
    if (node.device.find("GPU") == std::string::npos) continue;
    const auto frequency = frequencies.find(node.op);
    if (frequency == frequencies.end()) {
      std::vector<std::string> known;
      for (const auto& [name, value] : frequencies) known.push_back(name);
      const auto nearest = nearest_name(node.op, known);
      throw InputError{where + ": node " + in_quotes(node.name) + ": no frequency is known of the operator type " +
                       in_quotes(node.op) + (nearest ? "; nearest: " + in_quotes(*nearest) : "")};
    }
    numbers.emplace(node.name, static_cast<std::uint32_t>(kept.size()));
    kept.push_back(&node);
    network.operators.push_back({.tensor_size = tensor_size(node.shape), .type_frequency = frequency->second});
  }
  for (std::uint32_t i = 0; i < kept.size(); ++i) {
    for (const std::string& input : kept[i]->inputs) {
      const auto from = numbers.find(producer_of(input));
      if (from != numbers.end()) network.edges.emplace_back(i, from->second);
    }
  }
  return network;
}

GroupedGraph group_gpu_operators(const std::vector<GraphDefNode>& nodes, const TypeFrequencies& frequencies,
                                 const std::string& where) {
  const OperatorNetwork network = gpu_operators(nodes, frequencies, where);
  try {
    return group_operators(largest_component(network), kDripleGroups);
  } catch (const InputError& error) { throw InputError{where + ": " + error.what()}; }
}

std::map<std::string, std::array<float, kDripleLabels>> load_job_labels(const std::filesystem::path& path) {
  struct Job {
    std::array<float, kDripleLabels> labels{};
    std::array<int, kResources.size()> rows{};
  };
  std::map<std::string, Job> jobs;
  const CsvTable table = load_csv_file(path);
  std::vector<std::string> columns{kJobColumns.begin(), kJobColumns.end()};
  columns.insert(columns.end(), kLabelColumns.begin(), kLabelColumns.end());
  columns.emplace_back("Resource");
  require_columns_among(table, columns);
  for (const CsvRow& row : table.rows()) {
    std::string name;
    for (const char* column : kJobColumns) name += (name.empty() ? "" : "_") + std::string{row.text(column)};
    const std::string resource{row.text("Resource")};
    const auto found = std::ranges::find(kResources, resource);
    if (found == kResources.end()) row.fail("Resource", unknown_name_message("resource", resource, kResources));
    const auto index = static_cast<std::size_t>(found - kResources.begin());
    Job& job = jobs[name];
    ++job.rows[index];
    std::size_t label = 3 * index;
    for (const char* column : kLabelColumns) job.labels[label++] = static_cast<float>(row.number(column));
  }
  std::map<std::string, std::array<float, kDripleLabels>> labels;
  for (const auto& [name, job] : jobs)
    if (std::ranges::all_of(job.rows, [](int rows) { return rows == 1; })) labels.emplace(name, job.labels);
  return labels;
}

}  // namespace rehearse
