#include "calibration/microbench/cases.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/microbench/measured_tables.hpp"
#include "calibration/microbench/network_comparison.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::microbench {

namespace {

std::set<std::string> texts(const std::vector<Case>& cases) {
  std::set<std::string> all;
  for (const Case& of : cases) all.insert(table_of(of.kernel) + " " + to_text(of));
  return all;
}

std::vector<kernels::Kernel> kernels_of_networks() {
  std::vector<kernels::Kernel> all;
  for (const Network& network : kNetworks) {
    const std::string file = source_folder() + "/calibration/microbench/networks/" + network.name + ".json";
    for (const kernels::Kernel& kernel : kernels_of_step(load_json_file(file), network.name, network.batch))
      all.push_back(kernel);
  }
  return all;
}

}  // namespace

TEST_CASE("the cases of a device are the same each time, of all its classes, and mostly of different sizes") {
  for (const Extent extent : {Extent::kQuick, Extent::kDefault}) {
    const std::vector<Case> processor = processor_cases(extent);
    CHECK(texts(processor) == texts(processor_cases(extent)));
    CHECK(texts(processor).size() > processor.size() * 9 / 10);
    CHECK(texts(gpu_cases(extent)).size() > gpu_cases(extent).size() * 9 / 10);
    std::map<std::string, std::size_t> counts;
    std::set<kernels::StreamingKind> kinds;
    for (const Case& of : processor) {
      ++counts[table_of(of.kernel)];
      if (const auto* kernel = std::get_if<kernels::Streaming>(&of.kernel)) kinds.insert(kernel->kind);
    }
    for (const char* table : {"products", "convolutions", "streaming"}) CHECK(counts[table] >= 60);
    CHECK(kinds.size() == kernels::kStreamingKinds.size());
  }
}

TEST_CASE("what is measured until an interrupt is of all classes") {
  const std::vector<Case> cases = processor_cases(Extent::kDefault);
  std::set<std::string> tables;
  for (std::size_t i = 0; i < cases.size() / 20; ++i) tables.insert(table_of(cases[i].kernel));
  CHECK(tables.size() == 3);
}

TEST_CASE("no kernel of the networks whose steps are predicted is measured") {
  const std::vector<kernels::Kernel> predicted = kernels_of_networks();
  CHECK(predicted.size() > 300);
  const std::vector<Case> cases = without(processor_cases(Extent::kDefault), predicted);
  CHECK(cases.size() > 900);
  for (const Case& of : cases)
    for (const kernels::Kernel& kernel : predicted) {
      if (of.kernel.index() != kernel.index() || table_of(of.kernel) == "streaming") continue;
      CHECK_FALSE(is_same(of.kernel, kernel));
    }
  // One that is among them goes; its layout does not matter.
  const Case first{predicted.front(), Layout::kFirstTransposed};
  CHECK(without({first}, predicted).empty());
}

TEST_CASE("a case in words has its kind, precision and sizes") {
  CHECK(to_text({kernels::Product{.batch = 2, .m = 3, .n = 4, .k = 5}, Layout::kSecondTransposed}) ==
        "product fp32 2 3 4 5 second_transposed");
  CHECK(to_text({kernels::Streaming{.kind = kernels::StreamingKind::kGelu, .rows = 7, .columns = 8}}) ==
        "gelu fp32 7 8");
}

}  // namespace rehearse::microbench
