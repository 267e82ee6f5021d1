#include "workloads/importers/neusight.hpp"

#include <doctest/doctest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

const std::string kHeader = "name,op,target,inputs,input_shapes,output_shape,dtype,fw_ms,bw_ms,acc_ms\n";
const std::string kInput = "ids,placeholder,ids,,[],\"(2, 8)\",torch.int64,0.0,0.0,0.0\n";

}  // namespace

TEST_CASE("graphs of NeuSight are their operators' measured times and parameters") {
  struct Graph {
    const char* name;
    int batch;
    std::int64_t parameters;  // of one block, last normalisation and head; of tables only those read as a whole
    std::size_t remarks;
  };
  // A block has 12 w^2 + 13 w; GPT-2's last normalisation 2 w, its head w vocabulary (and one bias that no shape denies).
  const std::int64_t w = 1280, vocabulary = 50257;
  for (const Graph& graph :
       {Graph{"gpt2_large-train-1024-4", 4, 12 * w * w + 13 * w + 2 * w + vocabulary * (w + 1), 3},
        Graph{"opt_13-train-2048-1", 1, 12 * 2048 * 2048 + 13 * 2048 + 2 * 2048 + 50272 * 2049 + 2050 * 2048, 2}}) {
    CAPTURE(graph.name);
    const ImportedModel imported =
        import_model(source_folder() + "/calibration/data/neusight-graphs/" + graph.name + ".csv.gz");
    const Workload workload = test::workload_of(imported);
    CHECK(workload.batch == graph.batch);
    CHECK(workload.parameters() == graph.parameters);
    CHECK(imported.remarks.size() == graph.remarks);
  }
}

TEST_CASE("a table of NeuSight gives one layer for each tensor") {
  const ImportedModel imported = import_model(
      Source{"g.csv", kHeader + kInput +
                          "size,call_method,size,ids,\"[[2, 8]]\",\"(1,)\",,0.5,0.0,0.0\n"
                          "w,get_attr,a.weight,,[],\"(4, 6)\",torch.float32,0.0,0.0,0.0\n"
                          "y,call_function,addmm,ids w,\"[[2, 8]]\",\"(2, 6)\",torch.float32,1.5,2.0,0.25\n"});
  const auto timed = std::get<TimedLayers>(test::model_of(imported).structure);
  REQUIRE(timed.layers.size() == 1);
  CHECK(timed.layers[0].gradient == Bytes{96});
  CHECK(timed.layers[0].forward.value() == doctest::Approx(1.5e-3));
  CHECK(timed.layers[0].backward.value() == doctest::Approx(2.25e-3));
  CHECK(timed.layers[0].output == Bytes{48});
}

TEST_CASE("a table of NeuSight that cannot be read is refused by its line") {
  const auto error = [](const std::string& rows) {
    return test::error_of([&] { import_model(Source{"g.csv", kHeader + rows}); });
  };
  CHECK(error("a,call_function,add,,[],\"(2,)\",torch.float32,1,1,0\n") ==
        "g.csv: expected an input (op placeholder) with a batch");
  CHECK(error(kInput) == "g.csv: expected an operator besides inputs");
  CHECK(error(kInput + "a,call_function,add,,[],\"(2,)\",torch.float32,-1,1,0\n") ==
        "g.csv:3: column \"fw_ms\": expected 0 to 1e9 ms");
}

}  // namespace rehearse
