#include "sim/engine/simgrid_backend.hpp"

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <unordered_map>
#include <utility>

namespace rehearse {

namespace sg = simgrid::s4u;
using simgrid::kernel::timer::Timer;

namespace {

class SimgridNetwork;

/// What a SimGrid communication carries back to us.
struct Flow {
  SimgridNetwork* network;
  FlowId id;
  std::function<void()> on_sent;
};

class SimgridNetwork final : public Network {
 public:
  /// `at_current_date` runs its argument with the calendar moved to SimGrid's date, and re-arms the calendar's timer.
  SimgridNetwork(const NetworkDescription& description,
                 std::function<void(const std::function<void()>&)> at_current_date)
      : at_current_date_{std::move(at_current_date)} {
    build_platform(description);
    sg::Activity::on_completion_cb([](const sg::Activity& activity) {
      auto& finished = const_cast<sg::Activity&>(activity);           // the signal hands out const, set_data needs more
      if (auto* flow = finished.get_data<Flow>(); flow != nullptr) {  // null: cancel() reports twice
        finished.set_data(nullptr);
        flow->network->finish(*flow, finished);
      }
    });
    // SimGrid must not lose the last reference to a communication inside its completion signal.
    sg::Engine::on_time_advance_cb([this](double) { release_finished(); });
  }
  ~SimgridNetwork() override { release_finished(); }

  FlowId start_flow(MachineIndex from, MachineIndex to, Bytes size, std::function<void()> on_sent) override {
    const FlowId id = next_flow_++;
    const sg::CommPtr comm = sg::Comm::sendto_init();
    comm->add_ref();
    const auto [entry, is_new] = flows_.emplace(id, Running{comm.get(), Flow{this, id, std::move(on_sent)}});
    comm->set_payload_size(static_cast<std::uint64_t>(std::max<std::int64_t>(size.value(), 1)));
    comm->set_data(&entry->second.flow);
    comm->set_source(hosts_[static_cast<std::size_t>(from)]);
    comm->set_destination(hosts_[static_cast<std::size_t>(to)]);  // starts by itself here
    return id;
  }

  void cancel(FlowId id) override {
    const auto found = flows_.find(id);
    if (found == flows_.end()) return;
    sg::Activity* comm = found->second.comm;
    comm->set_data(nullptr);
    finished_.push_back(comm);
    flows_.erase(found);
    comm->cancel();
  }

  void set_capacity(MachineIndex machine, BytesPerSecond rate) override {
    for (sg::Link* direction : nics_[static_cast<std::size_t>(machine)]) direction->set_bandwidth(rate.value());
  }

  Seconds now() const override { return Seconds{sg::Engine::get_clock()}; }

  Seconds latency(MachineIndex from, MachineIndex to) const override {
    return latencies_.at({regions_[static_cast<std::size_t>(from)], regions_[static_cast<std::size_t>(to)]});
  }

 private:
  struct Running {
    sg::Activity* comm;
    Flow flow;
  };

  void build_platform(const NetworkDescription& description) {
    sg::NetZone* root = sg::create_full_zone("network");
    struct Region {
      sg::NetZone* zone = nullptr;
      simgrid::kernel::routing::NetPoint* gateway = nullptr;
    };
    std::map<std::string, Region> zones;
    for (const NetworkMachine& machine : description.machines) {
      // SimGrid wants unique names: numbers are, whatever the user calls things.
      Region& region = zones[machine.region];
      if (region.zone == nullptr) {
        const std::string number = std::to_string(zones.size());
        region.zone = sg::create_star_zone("region " + number);
        region.zone->set_parent(root);
        region.gateway = region.zone->create_router("router " + number);
      }
      const std::string number = std::to_string(hosts_.size());
      sg::Host* host = region.zone->create_host("machine " + number, 1.0)->seal();
      auto* nic = region.zone->create_split_duplex_link("nic " + number, machine.nic.value());
      nic->set_latency(0.0)->seal();
      region.zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {{nic, sg::LinkInRoute::Direction::UP}},
                             true);
      hosts_.push_back(host);
      nics_.push_back({nic->get_link_up(), nic->get_link_down()});
      regions_.push_back(machine.region);
    }
    int pipes = 0;
    for (const NetworkPath& path : description.paths) {
      latencies_[{path.from, path.to}] = path.latency;
      latencies_[{path.to, path.from}] = path.latency;
      if (path.from == path.to || !zones.contains(path.from) || !zones.contains(path.to)) continue;
      // A fat pipe limits each flow on its own: sharing happens at the NICs.
      const double rate = path.per_flow_rate ? path.per_flow_rate->value() : 1e15;
      const Region& from = zones[path.from];
      const Region& to = zones[path.to];
      sg::Link* pipe = root->create_link("pipe " + std::to_string(pipes++), rate)
                           ->set_latency(0.0)
                           ->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)
                           ->seal();
      root->add_route(from.zone->get_netpoint(), to.zone->get_netpoint(), from.gateway, to.gateway,
                      {sg::LinkInRoute{pipe}}, true);
    }
    for (auto& [name, region] : zones) region.zone->seal();
    root->seal();
  }

  void finish(Flow& flow, sg::Activity& comm) {
    const std::function<void()> on_sent = std::move(flow.on_sent);
    finished_.push_back(&comm);
    flows_.erase(flow.id);
    at_current_date_(on_sent);
  }

  void release_finished() {
    for (sg::Activity* comm : finished_) comm->unref();
    finished_.clear();
  }

  std::function<void(const std::function<void()>&)> at_current_date_;
  std::vector<sg::Host*> hosts_;
  std::vector<std::vector<sg::Link*>> nics_;
  std::vector<std::string> regions_;
  std::map<std::pair<std::string, std::string>, Seconds> latencies_;
  std::unordered_map<FlowId, Running> flows_;  // looked up by id only, never iterated
  std::vector<sg::Activity*> finished_;
  FlowId next_flow_ = 1;
};

}  // namespace

struct SimgridBackend::Implementation {
  explicit Implementation(const NetworkDescription& description) {
    static char program[] = "rehearse";
    static char quiet[] = "--log=root.t:critical";
    static char* arguments[] = {program, quiet, nullptr};
    static int argument_count = 2;
    // SimGrid takes Ctrl-C and crashes for itself; our caller's handlers stay.
    struct sigaction interrupt {
    }, crash{};
    sigaction(SIGINT, nullptr, &interrupt);
    sigaction(SIGSEGV, nullptr, &crash);
    engine = std::make_unique<sg::Engine>(&argument_count, arguments);
    sigaction(SIGINT, &interrupt, nullptr);
    sigaction(SIGSEGV, &crash, nullptr);
    // Latency is paid outside flows (network.hpp), so links have none and sharing is fair; LV08's factors never apply.
    sg::Engine::set_config("network/model:CM02");
    sg::Engine::set_config("network/crosstraffic:0");
    network = std::make_unique<SimgridNetwork>(description, [this](const std::function<void()>& action) {
      enter([&] {
        clock.advance_to(Seconds{sg::Engine::get_clock()});
        action();
      });
    });
  }

  /// Every call from SimGrid into our code goes through here. An exception must not unwind SimGrid's frames: it waits
  /// until SimGrid has nothing left to do, while nothing of ours runs any more.
  template <class Action>
  void enter(Action action) {
    if (failure != nullptr) return;
    try {
      action();
      arm();
    } catch (...) { failure = std::current_exception(); }
  }

  /// Keeps one SimGrid timer, at the date of the earliest event of the calendar.
  void arm() {
    if (clock.is_empty()) return;
    const double date = clock.next_date().value();
    if (timer != nullptr) {
      if (armed_date <= date) return;
      timer->remove();
    }
    armed_date = date;
    timer = Timer::set(date, [this] {
      timer = nullptr;
      enter([this] { clock.advance_to(Seconds{std::max(armed_date, sg::Engine::get_clock())}); });
    });
  }

  Clock clock;
  Timer* timer = nullptr;
  double armed_date = 0;
  std::exception_ptr failure;
  std::unique_ptr<sg::Engine> engine;
  std::unique_ptr<SimgridNetwork> network;
};

SimgridBackend::SimgridBackend(const NetworkDescription& description)
    : implementation_{std::make_unique<Implementation>(description)} {}
SimgridBackend::~SimgridBackend() = default;

Clock& SimgridBackend::clock() { return implementation_->clock; }
Network& SimgridBackend::network() { return *implementation_->network; }

void SimgridBackend::run() {
  implementation_->arm();
  implementation_->engine->run();
  if (implementation_->failure != nullptr) std::rethrow_exception(implementation_->failure);
}

}  // namespace rehearse
