#include "platforms/profile.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

Json shipped(const std::string& name) {
  return load_json_file(source_folder() + "/calibration/profiles/" + name + ".json");
}

std::string refusal(const char* pointer, const char* value) {
  Json json = shipped("cm-dare");
  set_json_pointer(json, pointer, value);
  try {
    (void)read_profile(JsonReader{json, "p.json"});
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("a checkpoint takes fixed time + tensors x time per tensor + bytes / rate, for each of its stages") {
  Json json = shipped("ideal");
  CHECK_FALSE(read_profile(JsonReader{json, "p.json"}).checkpoint);
  json["checkpoint"] = {{"source", "made up"},
                        {"write", {{"fixed_time", "1s"}, {"time_per_tensor", "2ms"}, {"rate", "100MBps"}}}};
  // 1 + 50 x 0.002 + 20 MB / 100 MB/s
  CHECK(read_profile(JsonReader{json, "p.json"}).checkpoint->time(50, 20_MB).value() == doctest::Approx(1.3));
  json["checkpoint"]["upload"] = {{"fixed_time", "3s"}, {"rate", "10MBps"}};
  CHECK(read_profile(JsonReader{json, "p.json"}).checkpoint->time(50, 20_MB).value() == doctest::Approx(6.3));
}

TEST_CASE("mistakes in times of checkpoints and in a window are named") {
  CHECK(refusal("/checkpoint/write/rate", "50MBps") == "accepted");
  CHECK(refusal("/checkpoint/write/rate", "0Bps") ==
        "p.json: /checkpoint/write/rate: expected a rate above 0Bps; found \"0Bps\"");
  CHECK(refusal("/checkpoint/download", "1").find("unknown key \"download\"") != std::string::npos);
  CHECK(refusal("/network/connection_window", "1KiB") == "accepted");
  CHECK(refusal("/network/connection_window", "0B") ==
        "p.json: /network/connection_window: expected at least 1KiB; found \"0B\"");
  CHECK(refusal("/startup/staging/0/time/sigma", "0") ==
        "p.json: /startup/staging/0/time/sigma: expected 1e-6 to 10; found 0");
}

TEST_CASE("a payload by the efficiency of a protocol is a number of bytes") {
  for (const char* pointer :
       {"/collectives/protocols/ring_LL/efficiency", "/collectives/protocols/ring_LL/tuner/efficiency"}) {
    Json json = shipped("nccl");
    set_json_pointer(json, pointer, "1e-300");
    CHECK(test::error_of([&] {
            (void)read_profile(JsonReader{json, "p.json"});
          }) == "p.json: " + std::string{pointer} + ": expected a share from 0.001 to 1; found 1e-300");
  }
}

TEST_CASE("a framework is that whose name the label contains, or else the one for all others") {
  Json json = shipped("kernels");
  json["frameworks"] = {{"otherwise", {{"dispatch", "6us"}, {"step_overhead", "1ms"}, {"kernel_overhead", "2us"}}},
                        {"graphs",
                         {{"dispatch", "1us"},
                          {"step_overhead", "0s"},
                          {"kernel_overhead", "1us"},
                          {"tf32", true},
                          {"needs_alignment", true}}}};
  const Profile profile = read_profile(JsonReader{json, "p.json"});
  CHECK(profile.framework("graphs").dispatch == Seconds{1e-6});
  CHECK(profile.framework("graphs").uses_tf32);
  CHECK(profile.framework("CUDA graphs, captured").dispatch == Seconds{1e-6});
  CHECK(profile.framework("any").step_overhead == Seconds{1e-3});
  CHECK_FALSE(profile.framework("any").uses_tf32);
  CHECK(profile.framework("graphs").needs_alignment);
  CHECK_FALSE(profile.framework("any").needs_alignment);
  CHECK(Profile{}.framework("any").dispatch == Seconds{});
  const auto refused = [&](const char* pointer, const char* value) {
    Json changed = json;
    set_json_pointer(changed, pointer, value);
    return test::error_of([&] { (void)read_profile(JsonReader{changed, "p.json"}); });
  };
  CHECK(refused("/frameworks/graphs/dispatch", "2s") ==
        "p.json: /frameworks/graphs/dispatch: expected at most 1s; found \"2s\"");
  CHECK(refused("/frameworks/graphs/kernel_overhead", "2s") ==
        "p.json: /frameworks/graphs/kernel_overhead: expected at most 1s; found \"2s\"");
  CHECK(refused("/frameworks/graphs/composition", "0").find("expected 1 to 100 kernels; found 0") != std::string::npos);
  CHECK(refused("/frameworks/graphs/fusion", "1").find("expected a share of 0 to 0.99") != std::string::npos);
  CHECK(refused("/frameworks/graphs/copies", "-1").find("expected 0 to 100 kernels") != std::string::npos);
  CHECK(refused("/frameworks/graphs/mixed_scalars", "0.5").find("expected a factor of 1 to 100") != std::string::npos);
  CHECK(refused("/frameworks/graphs/update_dispatch", "2s").find("expected at most 1s") != std::string::npos);
  CHECK(refused("/frameworks/graphs/accumulation", "-1").find("expected 0 to 100 bytes") != std::string::npos);
  CHECK(refused("/frameworks/graphs/attention_rate", "0").find("expected a rate of 0.01 to 10") != std::string::npos);
  CHECK(refused("/frameworks/graphs/collective_dispatch", "2s").find("expected at most 1s") != std::string::npos);
  CHECK(refused("/frameworks/graphs/dispatch_beside_pipeline", "2s").find("expected at most 1s") != std::string::npos);
  CHECK(refused("/frameworks/graphs/load_wait", "2s").find("expected at most 1s") != std::string::npos);
  CHECK(refused("/frameworks/graphs/memory", R"({"kept_activations": 0})").find("expected a factor of 0.1 to 10") !=
        std::string::npos);
  CHECK(refused("/frameworks/graphs/memory", R"({"norm_copies": 11})").find("expected 0 to 10 tensors") !=
        std::string::npos);
  CHECK(refused("/frameworks/graphs/memory", R"({"held": "2TiB"})").find("expected at most 1TiB") != std::string::npos);
  CHECK(refused("/sustained_draw", R"({"Hopper": 0.7})").find("/sustained_draw/Hopper: expected a factor of 1 to 10") !=
        std::string::npos);
  CHECK(refused("/frameworks/graphs/fussion", "1").find("unknown key \"fussion\"") != std::string::npos);
}

TEST_CASE("what a framework leaves out is as otherwise") {
  Json json = shipped("kernels");
  json.erase("fit");
  json["frameworks"] = {
      {"otherwise",
       {{"dispatch", "6us"}, {"step_overhead", "1ms"}, {"kernel_overhead", "2us"}, {"copies", 1}, {"fusion", 0.5}}},
      {"A", {{"fusion", 0.25}, {"update_dispatch", "30us"}}}};
  const Profile profile = read_profile(JsonReader{json, "p.json"});
  CHECK(profile.framework("A").dispatch == Seconds{6e-6});
  CHECK(profile.framework("A").copies == 1.0);
  CHECK(profile.framework("A").fusion == 0.25);
  CHECK(profile.framework("A").update_dispatch == Seconds{30e-6});
  CHECK(profile.framework("B").update_dispatch == Seconds{6e-6});  // as a kernel's
  CHECK(profile.framework("B").fusion == 0.5);
}

TEST_CASE("how uncertain a value is can only be said of one that the profile has") {
  CHECK(refusal("/fit/spread/components", R"([{"/gpu/peak_efficiency/K80": 0.1}])") == "accepted");
  for (const char* pointer : {"", "/", "/nothing", "gpu", "/name", "/fit", "/servers/nothing", "/fit/seen/models/0"})
    CHECK(refusal("/fit/spread/components", ("[{\"" + std::string{pointer} + "\": 0.1}]").c_str())
              .find("expected a pointer to a number, time or rate above 0 of this profile") != std::string::npos);
}

TEST_CASE("profile cm-dare has the times of checkpoints and start-ups that were fitted into profiles of their own") {
  CHECK(shipped("cm-dare")["checkpoint"] == shipped("cm-dare-checkpoint")["checkpoint"]);
  CHECK(shipped("cm-dare")["startup"] == shipped("cm-dare-startup")["startup"]);
  for (const char* part : {"host", "gpu", "servers", "network"})
    for (const char* name : {"cm-dare-checkpoint", "cm-dare-startup"})
      CHECK(shipped("cm-dare")[part] == shipped(name)[part]);
}

}  // namespace rehearse
