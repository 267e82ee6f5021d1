// One libFuzzer program per target; REHEARSE_FUZZ_TARGET is its name.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto all = rehearse::fuzz::all_targets();
  static const auto target =
      *std::ranges::find(all, std::string_view{REHEARSE_FUZZ_TARGET}, &rehearse::fuzz::Target::name);
  target.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
