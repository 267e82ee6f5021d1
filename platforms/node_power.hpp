#pragma once
// What a machine draws from the wall: GPUs, processors, memory, adapters, switches between GPUs, fans, power supplies. All values
// are from documents; none is fitted.

#include "platforms/instance.hpp"
#include "platforms/interconnect.hpp"

namespace rehearse {

struct NodePowerValues {
  /// W of a thread (vCPU) of a server's processor, at rest and busy: 350 W of thermal design power for 112 threads. Sources: Intel,
  /// Xeon Platinum 8480C; idle about a third, SPECpower_ssj2008 results of two-socket servers of 2023.
  double thread_rest = 1.0, thread_busy = 3.1;
  double memory_gib = 0.1;  // W: 64 GiB DDR5 modules of 5 to 7 W. Source: Micron, DDR5 power calculator
  /// W for each 100 Gbit/s of an adapter, optics included: 24 W of a ConnectX-7 with 400 Gbit/s. Source: NVIDIA, ConnectX-7 user
  /// manual, specifications.
  double nic_100g = 6;
  /// W of NVSwitches, for each 100 GB/s that a GPU has through them in one direction: four of about 100 W for eight GPUs with 450 GB/s.
  /// Source: NVIDIA, NVSwitch at Hot Chips 30, 2018 (under 100 W each); later ones are not stated and taken as that.
  double switch_100gb = 11;
  double board_thread =
      0.5;  // W of mainboard, drives and management, for each thread: about 100 W of a machine of eight GPUs
  /// Share of what components draw that fans take besides. Source: ASHRAE TC 9.9, servers' fans take 10 to 20 %; air-cooled.
  double fans = 0.12;
  double supply_efficiency =
      0.95;  // of power supplies between 20 and 100 % of load. Source: 80 PLUS Titanium, 230 V: 94, 96, 91 %
  /// Threads that a GPU's process keeps busy: the one that launches kernels polls, others read samples. An assumption.
  double busy_threads_of_gpu = 2;
};

/// W from the wall of a machine whose GPUs draw `gpus_w` together and whose threads are busy for a share of the time.
double node_power(const Instance& instance, const Interconnect& interconnect, double gpus_w, double busy_threads,
                  const NodePowerValues& values = {});

}  // namespace rehearse
