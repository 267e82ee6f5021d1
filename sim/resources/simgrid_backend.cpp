#include "sim/resources/simgrid_backend.hpp"

#include <exception>

#include "sim/base/loaded_library.hpp"
#include "sim/resources/plain_loop.hpp"

namespace rehearse {

namespace {

template <class Function>
Function* function_of_engine(const char* name) {
  return reinterpret_cast<Function*>(function_of_library("rehearse-simgrid.so", name));
}

/// Flows of our own. A turn of SimGrid's takes as long as several of the plain loop's, so that does many of these at a time, and
/// SimGrid's clock follows.
class LoopEngine final : public SimgridBackend::Engine {
 public:
  explicit LoopEngine(const Topology& topology) : loop_{topology} {}

  Clock& clock() override { return loop_.clock(); }
  Network& network() override { return loop_.network(); }
  void run() override {
    run_on_simgrid_([this](double now) { return go_on(now); });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  /// Exceptions must not unwind SimGrid's frames: once there is one nothing happens any more.
  double go_on(double now) try {
    constexpr int kTurns = 256;
    for (int turn = 0; turn < kTurns || loop_.network().now().value() <= now; ++turn)
      if (failure_ != nullptr || !loop_.turn()) break;
    const double passed = loop_.network().now().value() - now;
    return passed > 0 ? passed : -1;
  } catch (...) {
    failure_ = std::current_exception();
    return -1;
  }

  void (*run_on_simgrid_)(const SimgridBackend::GoOn&) =
      function_of_engine<void(const SimgridBackend::GoOn&)>("rehearse_run_on_simgrid");
  PlainLoop loop_;
  std::exception_ptr failure_;
};

}  // namespace

SimgridBackend::SimgridBackend(const Topology& topology, FlowSolver solver) {
  if (solver == FlowSolver::kMaxMinFlows)
    engine_ = std::make_unique<LoopEngine>(topology);
  else
    engine_.reset(function_of_engine<Engine*(const Topology&)>("rehearse_make_simgrid_flows")(topology));
}
SimgridBackend::~SimgridBackend() = default;

}  // namespace rehearse
