#include "workloads/importers/paleo.hpp"

#include <doctest/doctest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

ImportedModel paleo_net(const std::string& name) {
  return import_model(source_folder() + "/calibration/data/paleo-nets/" + name + ".json");
}

}  // namespace

TEST_CASE("Paleo's networks have the published parameters, or those of their filters") {
  CHECK(test::workload_of(paleo_net("vgg16")).parameters() == 138'357'544);
  // Without the auxiliary classifier, and without the convolution of Mixed_6a that the file leaves out.
  CHECK(test::workload_of(paleo_net("inception_v3")).parameters() == 23'834'568 - (3 * 3 * 96 * 96 + 2 * 96));
  // Filters and biases, as the files list them: 11x11x3x64 + 64, 5x5x64x192 + 192, ...
  const auto filter = [](std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out) {
    return height * width * in * out + out;
  };
  CHECK(test::workload_of(paleo_net("nin")).parameters() ==
        filter(11, 11, 3, 96) + 2 * filter(1, 1, 96, 96) + filter(5, 5, 96, 256) + 2 * filter(1, 1, 256, 256) +
            filter(3, 3, 256, 384) + 2 * filter(1, 1, 384, 384) + filter(3, 3, 384, 1024) + filter(1, 1, 1024, 1024) +
            filter(1, 1, 1024, 1000));
  for (const char* name : {"alex_v2", "overfeat"})
    CHECK(test::workload_of(paleo_net(name), 4).parameters() > 50'000'000);
  CHECK(test::workload_of(paleo_net("vgg16")).forward_flops().value() == 2.0 * 15'470'264'320);  // its multiply-adds
}

TEST_CASE("a network of Paleo that cannot be read is refused by its place") {
  const auto error = [](const std::string& layers) {
    return test::error_of([&] {
      (void)test::workload_of(import_model(Source{
          "n.json", R"({"layers": {"x": {"parents": [], "type": "Input", "tensor": [2, 8, 8, 3]}, )" + layers + "}}"}));
    });
  };
  CHECK(error(R"("a": {"parents": ["b"], "type": "Dropout"}, "b": {"parents": ["a"], "type": "Dropout"})") ==
        "n.json: /layers/b/parents: a cycle of layers goes through \"a\"");
  CHECK(error(R"("a": {"parents": ["y"], "type": "Dropout"})") == "n.json: /layers/a/parents: no layer \"y\"");
  CHECK(error(R"("a": {"parents": ["x"], "type": "Conv"})")
            .starts_with("n.json: /layers/a/type: unknown type of layer \"Conv\""));
  CHECK(
      error(
          R"("a": {"parents": ["x"], "type": "Pooling", "ksize": [1, 2], "strides": [1, 2, 2, 1], "padding": "SAME"})") ==
      "n.json: /layers/a/ksize: expected four integers from 1 to 1048576; found an array of 2");
  CHECK(error(R"("a": {"parents": ["x"], "type": "Block", "endpoint": "c", "layers": {"b": {"type": "Dropout"}}})") ==
        "n.json: /layers/a/endpoint: no layer \"c\"");
}

}  // namespace rehearse
