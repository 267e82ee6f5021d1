#include "sim/resources/simgrid_backend.hpp"

#include "sim/base/loaded_library.hpp"

namespace rehearse {

SimgridBackend::SimgridBackend(const Topology& topology, FlowSolver solver) {
  using MakeEngine = Engine*(const Topology&, FlowSolver);
  static auto* const make_engine =
      reinterpret_cast<MakeEngine*>(function_of_library("rehearse-simgrid.so", "rehearse_make_simgrid_engine"));
  engine_.reset(make_engine(topology, solver));
}
SimgridBackend::~SimgridBackend() = default;

}  // namespace rehearse
