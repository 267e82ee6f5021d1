#include "sim/app/output/tables.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("every table of a hand-made run, to the byte") {
  RunRecord record;
  record.machines = {
      {.name = "w,1", .role = Role::kWorker, .workers = 1, .nic = BytesPerSecond{1000}},
      {.name = "ps", .group = 1, .role = Role::kParameterServer, .servers = 1, .cores = 2, .nic = BytesPerSecond{500}}};
  record.total = {{.sent = Bytes{300}, .received = Bytes{100}}, {.sent = Bytes{100}, .received = Bytes{300}}};
  record.carried = {{{0, 1}, Bytes{300}}, {{1, 0}, Bytes{100}}};
  record.end = Seconds{2};
  record.window = {Seconds{0}, Seconds{2}};
  record.recorder.steps = {{.global_step = 1,
                            .span = {Seconds{0}, Seconds{2}},
                            .last_pull = Seconds{0.5},
                            .compute_end = Seconds{1.5},
                            .staleness = 3}};
  record.recorder.events = {{0, "start", {Seconds{0}, Seconds{0}}, ""}};
  record.recorder.messages = {{{1}, {0, 0}, 0, 0, {Seconds{0}, Seconds{0.5}}, Seconds{0.5}, Bytes{100}},
                              {{0, 0}, {1}, 0, 0, {Seconds{0.5}, Seconds{2}}, Seconds{2}, Bytes{300}}};
  const RatePulses pull{.start = 0, .length = 0.5, .rate = 200}, push{.start = 0.5, .length = 1.5, .rate = 200};
  record.recorder.links = {{.machine = 0, .receives = true, .rate = BytesPerSecond{1000}},
                           {.machine = 0, .sends = true, .rate = BytesPerSecond{1000}},
                           {.machine = 1, .receives = true, .rate = BytesPerSecond{500}},
                           {.machine = 1, .sends = true, .rate = BytesPerSecond{500}}};
  record.recorder.rates = {{0, pull}, {1, push}, {2, push}, {3, pull}};
  CHECK(iterations_csv(record) ==
        "machine,gpu,step,global_step,start_s,end_s,pull_end_s,compute_end_s,staleness,repeats\n\"w,1\",0,0,1,0,2,0.5,"
        "1.5,3,1\n");
  // 300 B in 2 s are 150 B/s: 15 % of 1000 B/s, 30 % of 500 B/s
  CHECK(links_csv(record) ==
        "machine,direction,peer,size_B,mean_rate_Bps,nic_utilization\n"
        "\"w,1\",receive,,100,50,0.05\n\"w,1\",receive,ps,100,50,0.05\n"
        "\"w,1\",transmit,,300,150,0.15\n\"w,1\",transmit,ps,300,150,0.15\n"
        "ps,receive,,300,150,0.3\nps,receive,\"w,1\",300,150,0.3\n"
        "ps,transmit,,100,50,0.1\nps,transmit,\"w,1\",100,50,0.1\n");
  CHECK(events_csv(record) == "time_s,machine,kind,duration_s,detail\n0,\"w,1\",start,0,\n");
  ResourceProfile profile = resource_profile(record, Seconds{1});
  profile.series[0].gpu_memory = {7, 8};
  CHECK(resources_csv(record, profile) ==
        "machine,time_s,gpu_utilization,device_memory_busy,nic_receive_Bps,nic_transmit_Bps,gpu_memory_B\n"
        "\"w,1\",0,0,0,100,100,7\n\"w,1\",1,0,0,0,200,8\nps,0,0,0,100,100,0\nps,1,0,0,200,0,0\n");
  Scenario scenario;
  scenario.groups = {{.name = "w", .count = 2},
                     {.name = "ps", .role = Role::kParameterServer, .market = Market::kSpot}};
  scenario.groups[0].instance.usd_per_hour_on_demand = 2;
  scenario.groups[1].instance.usd_per_hour_on_demand = 1;  // rented at the spot price, which is unknown
  record.machines = {{.name = "w-0"}, {.name = "w-1"}, {.name = "ps", .group = 1}};
  record.rentals = {
      {{{Seconds{0}, Seconds{7200}}}}, {{{Seconds{3600}, Seconds{7200}}}}, {{{Seconds{0}, Seconds{7200}}}}};
  CHECK(costs_csv(scenario, record) ==
        "group,market,machines,hours,usd_per_hour,usd\nw,on-demand,2,1.5,2,6\nps,spot,1,2,,\n");
}

}  // namespace rehearse
