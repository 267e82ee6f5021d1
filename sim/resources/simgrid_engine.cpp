// What knows SimGrid. It is a library of its own that simgrid_backend.cpp loads: SimGrid takes longer to load than a small
// simulation takes.

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/resources/simgrid_backend.hpp"

namespace rehearse {

namespace sg = simgrid::s4u;
using simgrid::kernel::timer::Timer;

namespace {

/// Runs its argument with the calendar moved to SimGrid's date, and arms the next event.
using Enter = std::function<void(const std::function<void()>&)>;

/// A zone whose routes are the topology's paths: a SimGrid host for every endpoint.
class TopologyZone final : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit TopologyZone(const Topology& topology) : NetZoneImpl{"network"}, topology_{topology} {}

  /// Creates links and hosts; returns the hosts, [machines][1 + gpus], host memory first.
  std::vector<std::vector<sg::Host*>> build() {
    for (const TopologyLink& link : topology_.links())
      links_.push_back(add_link(link.rate.value(), sg::Link::SharingPolicy::SHARED));
    std::vector<std::vector<sg::Host*>> hosts;
    for (std::size_t m = 0; m < topology_.machines().size(); ++m) {
      hosts.emplace_back();
      for (int gpu = Endpoint::kHost; gpu < topology_.machines()[m].gpus; ++gpu) {
        hosts.back().push_back(create_host("endpoint " + std::to_string(endpoints_.size()), {1.0})->seal());
        endpoints_.push_back({static_cast<int>(m), gpu});
      }
    }
    for (const RegionLink& link : topology_.region_links())
      if (link.per_flow_rate && !limits_.contains(link.per_flow_rate->value()))
        limits_[link.per_flow_rate->value()] = add_link(link.per_flow_rate->value(), sg::Link::SharingPolicy::FATPIPE);
    for (const TopologyMachine& machine : topology_.machines()) {  // copies through a third GPU: Topology::path()
      const Interconnect& inside = machine.interconnect;
      const double rate = (inside.nvlink_rate * inside.nvlink_relay_efficiency).value();
      if (rate > 0 && !limits_.contains(rate)) limits_[rate] = add_link(rate, sg::Link::SharingPolicy::FATPIPE);
    }
    const auto& machines = topology_.machines();
    const auto& regions = topology_.region_links();
    if (std::any_of(machines.begin(), machines.end(), [](const auto& machine) { return machine.packet_loss > 0; }) ||
        std::any_of(regions.begin(), regions.end(), [](const auto& region) { return region.packet_loss > 0; }))
      for (int i = 0; i < kMostLimitedFlows; ++i) free_.push_back(add_link(1, sg::Link::SharingPolicy::FATPIPE));
    seal();
    return hosts;
  }
  /// A link of this rate, which the next route that is asked for has besides its own until let_go().
  sg::Link* limit_next(BytesPerSecond rate) {
    if (free_.empty())
      throw NoResultError{"more than " + std::to_string(kMostLimitedFlows) +
                          " messages at a time whose windows limit them, on SimGrid's own network"};
    next_limit_ = free_.back();
    free_.pop_back();
    next_limit_->set_bandwidth(rate.value());
    return next_limit_;
  }
  void let_go() { next_limit_ = nullptr; }
  void release(sg::Link* limit) { free_.push_back(limit); }
  sg::Link* link(int index) const { return links_[static_cast<std::size_t>(index)]; }

 private:
  void get_local_route(const simgrid::kernel::routing::NetPoint* from, const simgrid::kernel::routing::NetPoint* to,
                       simgrid::kernel::routing::Route* into, double*) override {
    const Path path = topology_.path(endpoints_[from->id()], endpoints_[to->id()]);
    for (const int link : path.links)
      into->link_list_.push_back(implementation(links_[static_cast<std::size_t>(link)]));
    if (path.per_flow_rate) into->link_list_.push_back(implementation(limits_.at(path.per_flow_rate->value())));
    if (next_limit_ != nullptr) into->link_list_.push_back(implementation(next_limit_));
  }
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}

  sg::Link* add_link(double rate, sg::Link::SharingPolicy policy) {
    return create_link("link " + std::to_string(count_++), {rate})
        ->set_latency(0.0)
        ->set_sharing_policy(policy)
        ->seal();
  }
  simgrid::kernel::resource::StandardLinkImpl* implementation(const sg::Link* link) {
    auto& known = implementations_[link];
    if (known == nullptr) known = get_link_by_name_or_null(link->get_name());
    return known;
  }

  const Topology& topology_;
  std::vector<sg::Link*> links_;
  std::map<double, sg::Link*> limits_;  // by rate: a fat pipe limits each flow on its own
  std::vector<Endpoint> endpoints_;     // by SimGrid's number of the host
  std::unordered_map<const sg::Link*, simgrid::kernel::resource::StandardLinkImpl*> implementations_;
  static constexpr int kMostLimitedFlows = 4096;  // SimGrid takes no more links once it runs
  std::vector<sg::Link*> free_;                   // of those that limit one flow
  sg::Link* next_limit_ = nullptr;
  int count_ = 0;
};

/// A model without actions, which SimGrid asks for its next event after it has asked the network's for that, and so has
/// shared the bandwidth, and before time goes on.
class RateWatcher final : public simgrid::kernel::resource::Model {
 public:
  explicit RateWatcher(std::function<void()> look) : Model{"watcher of rates"}, look_{std::move(look)} {}
  double next_occurring_event(double) override {
    look_();
    return -1;
  }
  void update_actions_state(double, double) override {}

 private:
  std::function<void()> look_;
};

/// Flows as SimGrid's communications.
class SimgridNetwork final : public Network {
 public:
  SimgridNetwork(const Topology& topology, Enter enter) : Network{topology}, enter_{std::move(enter)} {
    zone_ = new TopologyZone{topology};  // SimGrid's engine owns its root zone
    hosts_ = zone_->build();
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

  void cancel(FlowId id) override {
    due_.erase(id);
    const auto found = flows_.find(id);
    if (found == flows_.end()) return;
    sg::Activity* comm = found->second.comm;
    comm->set_data(nullptr);
    finished_.push_back({comm, found->second.limit});
    flows_.erase(found);
    comm->cancel();
  }

  Seconds now() const override { return Seconds{sg::Engine::get_clock()}; }

  void watch(const std::vector<int>& links, OnRate on_rate) override {
    sg::Engine::get_instance()->add_model(std::make_shared<RateWatcher>([this, links, on_rate] {
      for (const int link : links) on_rate(link, now(), zone_->link(link)->get_usage());
    }));
  }

 private:
  /// What a communication carries back to us.
  struct Flow {
    SimgridNetwork* network;
    FlowId id;
    std::function<void()> on_sent;
  };
  struct Running {
    sg::Activity* comm;
    Flow flow;
    sg::Link* limit = nullptr;  // its own
  };
  struct Finished {
    sg::Activity* comm;
    sg::Link* limit;
  };

  void set_rate(int link, BytesPerSecond rate) override { zone_->link(link)->set_bandwidth(rate.value()); }

  /// SimGrid shares evenly: the weight counts for nothing.
  FlowId start(PathIndex path, Bytes size, std::optional<BytesPerSecond> most, double,
               std::function<void()> on_sent) override {
    const FlowId id = next_flow_++;
    const sg::CommPtr comm = sg::Comm::sendto_init();
    comm->add_ref();
    const auto [entry, is_new] = flows_.emplace(id, Running{comm.get(), Flow{this, id, std::move(on_sent)}});
    if (most) entry->second.limit = zone_->limit_next(*most);
    comm->set_payload_size(static_cast<std::uint64_t>(size.value()));
    comm->set_data(&entry->second.flow);
    comm->set_source(host(source(path)));
    comm->set_destination(host(destination(path)));  // starts by itself here
    zone_->let_go();
    return id;
  }

  sg::Host* host(Endpoint endpoint) const {
    return hosts_[static_cast<std::size_t>(endpoint.machine)][static_cast<std::size_t>(endpoint.gpu + 1)];
  }

  /// Communications that end at the same date are handed on in the order in which they were started, as the other
  /// network does: a timer runs when all of them have been reported.
  void finish(Flow& flow, sg::Activity& comm) {
    if (due_.empty())
      Timer::set(sg::Engine::get_clock(), [this] {
        const auto due = std::exchange(due_, {});
        enter_([&due] {
          for (const auto& [id, on_sent] : due) on_sent();
        });
      });
    due_.emplace(flow.id, std::move(flow.on_sent));
    const auto ended = flows_.find(flow.id);
    finished_.push_back({&comm, ended->second.limit});
    flows_.erase(ended);
  }

  void release_finished() {
    for (const Finished& flow : finished_) {
      flow.comm->unref();
      if (flow.limit != nullptr) zone_->release(flow.limit);
    }
    finished_.clear();
  }

  Enter enter_;
  TopologyZone* zone_ = nullptr;
  std::vector<std::vector<sg::Host*>> hosts_;
  std::unordered_map<FlowId, Running> flows_;  // looked up by id only, never iterated
  std::map<FlowId, std::function<void()>> due_;
  std::vector<Finished> finished_;
  FlowId next_flow_ = 1;
};

/// SimGrid takes signals and its command line for itself; our caller's handlers stay.
std::unique_ptr<sg::Engine> make_engine() {
  static char program[] = "rehearse";
  static char quiet[] = "--log=root.t:critical";
  static char* arguments[] = {program, quiet, nullptr};
  static int argument_count = 2;
  struct sigaction interrupt {
  }, crash{};
  sigaction(SIGINT, nullptr, &interrupt);
  sigaction(SIGSEGV, nullptr, &crash);
  auto engine = std::make_unique<sg::Engine>(&argument_count, arguments);
  sigaction(SIGINT, &interrupt, nullptr);
  sigaction(SIGSEGV, &crash, nullptr);
  // Latency is paid outside flows (network.hpp), so links have none and sharing is fair; LV08's factors never apply.
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/crosstraffic:0");
  return engine;
}

/// What SimGrid asks for its next date.
class LoopModel final : public simgrid::kernel::resource::Model {
 public:
  explicit LoopModel(const SimgridBackend::GoOn& go_on) : Model{"max-min flows"}, go_on_{go_on} {}
  double next_occurring_event(double now) override { return go_on_(now); }
  void update_actions_state(double, double) override {}

 private:
  const SimgridBackend::GoOn& go_on_;
};

/// Flows of SimGrid's.
class FlowEngine final : public SimgridBackend::Engine {
 public:
  explicit FlowEngine(const Topology& topology)
      : network_{topology, [this](const std::function<void()>& action) {
                   enter([&] {
                     clock_.advance_to(Seconds{sg::Engine::get_clock()});
                     action();
                   });
                 }} {}

  Clock& clock() override { return clock_; }
  Network& network() override { return network_; }
  void run() override {
    arm();
    engine_->run();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  /// Every call from SimGrid into our code goes through here. An exception must not unwind SimGrid's frames: it waits
  /// until SimGrid has nothing left to do, while nothing of ours runs any more.
  template <class Action>
  void enter(Action action) {
    if (failure_ != nullptr) return;
    try {
      action();
      arm();
    } catch (...) { failure_ = std::current_exception(); }
  }

  /// Keeps one SimGrid timer, at the date of the earliest event of the calendar.
  void arm() {
    if (clock_.is_empty()) return;
    const double date = clock_.next_date().value();
    if (timer_ != nullptr) {
      if (armed_date_ <= date) return;
      timer_->remove();
    }
    armed_date_ = date;
    timer_ = Timer::set(date, [this] {
      timer_ = nullptr;
      enter([this] { clock_.advance_to(Seconds{std::max(armed_date_, sg::Engine::get_clock())}); });
    });
  }

  Clock clock_;
  Timer* timer_ = nullptr;
  double armed_date_ = 0;
  std::exception_ptr failure_;
  std::unique_ptr<sg::Engine> engine_ = make_engine();
  SimgridNetwork network_;
};

}  // namespace

}  // namespace rehearse

/// What SimgridBackend looks up in this library. Throws what run() throws where a platform cannot be made.
extern "C" rehearse::SimgridBackend::Engine* rehearse_make_simgrid_flows(const rehearse::Topology& topology) {
  return new rehearse::FlowEngine{topology};
}

/// The other one: SimGrid's loop asks `go_on` until there is no next date.
extern "C" void rehearse_run_on_simgrid(const rehearse::SimgridBackend::GoOn& go_on) {
  const auto engine = rehearse::make_engine();
  simgrid::s4u::create_empty_zone("network")->seal();  // SimGrid runs on no platform at all only with a warning
  engine->add_model(std::make_shared<rehearse::LoopModel>(go_on));
  engine->run();
}
