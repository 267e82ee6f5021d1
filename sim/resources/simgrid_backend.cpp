#include "sim/resources/simgrid_backend.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#ifndef REHEARSE_SIMGRID_LIBRARY
#define REHEARSE_SIMGRID_LIBRARY "rehearse-simgrid.so"  // found by the run path of the program
#endif

namespace rehearse {

namespace {

using MakeEngine = SimgridBackend::Engine*(const Topology&, FlowSolver);

/// From the library, which stays loaded. Functions are bound as they are called: SimGrid's Debian package brings ns-3 with it, of
/// which a run calls none, and to bind all of them at once takes a third of a brief run.
MakeEngine* find_make_engine() {
  void* library = dlopen(REHEARSE_SIMGRID_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, "rehearse_make_simgrid_engine") : nullptr;
  if (symbol == nullptr) throw std::runtime_error{std::string{"SimGrid cannot be loaded: "} + dlerror()};
  return reinterpret_cast<MakeEngine*>(symbol);
}

}  // namespace

SimgridBackend::SimgridBackend(const Topology& topology, FlowSolver solver) {
  static MakeEngine* const make_engine = find_make_engine();
  engine_.reset(make_engine(topology, solver));
}
SimgridBackend::~SimgridBackend() = default;

}  // namespace rehearse
