#include "predictor/gnn/torch_threads.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("the linear algebra library is known, and the reference one is warned of") {
  use_torch_threads(1);
  const std::string library = linear_algebra_library();
  CHECK(!library.empty());
  CHECK(linear_algebra_warning().empty() == (library.find("/blas/libblas") == std::string::npos));
}

}  // namespace rehearse
