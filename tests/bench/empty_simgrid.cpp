// The least that a SimGrid program can do: an engine, one host, nothing to run. What tests/bench/run.sh compares with.

#include <simgrid/s4u.hpp>

int main(int argc, char** argv) {
  simgrid::s4u::Engine engine{&argc, argv};
  auto* zone = simgrid::s4u::create_star_zone("zone");
  zone->create_host("host", 1e9)->seal();
  zone->seal();
  engine.run();
  return 0;
}
