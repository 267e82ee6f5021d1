#include "platforms/interconnect.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "platforms/catalog.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::interconnect_test {

namespace {

using Ring = std::vector<int>;

Catalog shipped() {
  const std::string& root = source_folder();
  return Catalog{{{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
}

Interconnect shipped_interconnect(const std::string& name) {
  const Catalog catalog = shipped();
  const Json nobody;
  return read_interconnect(catalog.interconnect(name, JsonReader{nobody, "test"}), 1_GBps);
}

std::string refusal(const std::string& text) {
  const Json json = parse_json(text, "i.json");
  try {
    (void)read_interconnect(JsonReader{json, "i.json"}, 12_GBps);
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

/// [a][b] NVLinks between the GPUs of a machine of eight.
std::array<std::array<int, 8>, 8> link_counts(const Interconnect& interconnect) {
  std::array<std::array<int, 8>, 8> counts{};
  for (const NvlinkPair& pair : interconnect.nvlinks) {
    counts.at(static_cast<std::size_t>(pair.a)).at(static_cast<std::size_t>(pair.b)) += pair.count;
    counts.at(static_cast<std::size_t>(pair.b)).at(static_cast<std::size_t>(pair.a)) += pair.count;
  }
  return counts;
}

/// The largest set of directed rings over `gpus` that share no link in one direction, by trying all of them; rings may
/// be used without their reverse.
class AllRings {
 public:
  AllRings(const Interconnect& interconnect, const Ring& gpus) : left_{link_counts(interconnect)}, gpus_{gpus} {
    Ring ring = gpus;  // sorted: the first stays in place
    do {
      if (fits(ring)) rings_.push_back(ring);
    } while (std::next_permutation(ring.begin() + 1, ring.end()));
    search(0, 0);
  }
  std::size_t most() const { return most_; }

 private:
  int& left(int a, int b) { return left_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]; }
  template <class Each>
  void for_links(const Ring& ring, Each each) {
    for (std::size_t i = 0; i < ring.size(); ++i) each(left(ring[i], ring[(i + 1) % ring.size()]));
  }
  bool fits(const Ring& ring) {
    bool fits = true;
    for_links(ring, [&](const int& links) { fits = fits && links > 0; });
    return fits;
  }
  /// No more rings than the fewest links that lead from a GPU.
  std::size_t bound() {
    int fewest = 1000;
    for (const int a : gpus_) {
      int links = 0;
      for (const int b : gpus_) links += left(a, b);
      fewest = std::min(fewest, links);
    }
    return static_cast<std::size_t>(fewest);
  }
  void search(std::size_t first, std::size_t taken) {
    most_ = std::max(most_, taken);
    for (std::size_t r = first; r < rings_.size() && taken + bound() > most_; ++r) {
      if (!fits(rings_[r])) continue;
      for_links(rings_[r], [](int& links) { --links; });
      search(r, taken + 1);
      for_links(rings_[r], [](int& links) { ++links; });
    }
  }

  std::array<std::array<int, 8>, 8> left_;
  Ring gpus_;
  std::vector<Ring> rings_;
  std::size_t most_ = 0;
};

}  // namespace

TEST_CASE("every shipped interconnect can be read and has a source") {
  const Catalog catalog = shipped();
  const Json nobody;
  CHECK(catalog.interconnect_names().size() == 21);
  for (const std::string& name : catalog.interconnect_names()) {
    CAPTURE(name);
    const JsonReader entry = catalog.interconnect(name, JsonReader{nobody, "test"});
    CHECK(entry.required<std::string>("source").size() > 20);
    const Interconnect interconnect = read_interconnect(entry, 1_GBps);
    CHECK(interconnect.pcie > 1_GBps);  // its own
    if (interconnect.pcie_root) CHECK(*interconnect.pcie_root >= interconnect.pcie);
  }
  CHECK_THROWS_WITH_AS((void)catalog.interconnect("dgx-1v100", JsonReader{nobody, "s.json", "/x"}),
                       "s.json: /x: unknown interconnect \"dgx-1v100\"; did you mean \"dgx-1-v100\"?", InputError);
}

TEST_CASE("the hybrid cube mesh: six NVLinks for each V100, four for each P100, the same pairs of GPUs") {
  const auto v100 = link_counts(shipped_interconnect("dgx-1-v100"));
  const auto p100 = link_counts(shipped_interconnect("dgx-1-p100"));
  for (std::size_t a = 0; a < 8; ++a) {
    CHECK(std::accumulate(v100[a].begin(), v100[a].end(), 0) == 6);
    CHECK(std::accumulate(p100[a].begin(), p100[a].end(), 0) == 4);
    for (std::size_t b = 0; b < 8; ++b) {
      CHECK((v100[a][b] > 0) == (p100[a][b] > 0));
      CHECK(v100[a][b] <= 2);
      if (a / 4 == b / 4 && a != b) CHECK(v100[a][b] > 0);                // each half is fully connected
      if (a / 4 != b / 4) CHECK((v100[a][b] > 0) == (b == (a + 4) % 8));  // and each GPU to one of the other half
    }
  }
}

TEST_CASE("a DGX-1 has as many rings as its links allow: eight V100 six, eight P100 four") {
  // Every ring leaves each GPU by one link: no more rings than links of a GPU.
  const Ring all{0, 1, 2, 3, 4, 5, 6, 7};
  const Interconnect v100 = shipped_interconnect("dgx-1-v100"), p100 = shipped_interconnect("dgx-1-p100");
  CHECK(find_rings(v100, all).size() == 6);
  CHECK(find_rings(p100, all).size() == 4);
  CHECK(find_rings(v100, {0, 1, 2, 3}).size() == 4);  // GPU 0: four links to the three others
  CHECK(find_rings(p100, {0, 1, 2, 3}).size() == 2);  // three links, but three rings would leave no other ring of four
  CHECK(find_rings(v100, {0, 1, 2, 4, 5}).size() == 2);
  CHECK(find_rings(v100, {0, 1, 2, 3, 4}).empty());  // GPU 4 has links to GPU 0 alone
  CHECK(find_rings(v100, {0, 1, 2}).size() == 2);
  CHECK(find_rings(v100, {0, 1, 4}).empty());
  CHECK(find_rings(v100, {0, 1}).size() == 1);
  CHECK(find_rings(v100, {0, 3}).size() == 2);
  CHECK(find_rings(v100, {0, 5}).empty());
  CHECK(find_rings(v100, {0}).empty());
}

TEST_CASE("for every choice of GPUs of a DGX-1 the rings are as many as there can be, and share no link") {
  for (const char* name : {"dgx-1-v100", "dgx-1-p100"}) {
    const Interconnect mesh = shipped_interconnect(name);
    for (unsigned chosen = 1; chosen < 256; ++chosen) {
      Ring gpus;
      for (int gpu = 0; gpu < 8; ++gpu)
        if ((chosen >> gpu & 1U) != 0) gpus.push_back(gpu);
      if (gpus.size() < 3) continue;
      CAPTURE(name);
      CAPTURE(chosen);
      const std::vector<Ring> rings = find_rings(mesh, gpus);
      CHECK(rings.size() == AllRings{mesh, gpus}.most());
      CHECK(find_rings(mesh, gpus) == rings);
      auto left = link_counts(mesh);
      for (const Ring& ring : rings) {
        CHECK(std::set<int>(ring.begin(), ring.end()) == std::set<int>(gpus.begin(), gpus.end()));
        CHECK(ring.size() == gpus.size());
        for (std::size_t i = 0; i < ring.size(); ++i)
          CHECK(--left[static_cast<std::size_t>(ring[i])][static_cast<std::size_t>(ring[(i + 1) % ring.size()])] >= 0);
      }
    }
  }
}

TEST_CASE("without NVLinks from GPU to GPU there are no rings to look for") {
  CHECK(find_rings(shipped_interconnect("dgx-a100"), {0, 1, 2, 3}).empty());
  CHECK(find_rings(shipped_interconnect("pcie3-shared-4"), {0, 1, 2, 3}).empty());
}

TEST_CASE("an interconnect without a PCIe rate has that of the accelerator's host link") {
  const Json json{{"latency", "2us"}};
  const Interconnect interconnect = read_interconnect(JsonReader{json, "i.json"}, 12_GBps);
  CHECK(interconnect.pcie == 12_GBps);
  CHECK(interconnect.latency == 2.0_us);
  CHECK(!interconnect.pcie_root);
  CHECK(!interconnect.nvswitch);
}

TEST_CASE("mistakes in an interconnect are one line with their place") {
  CHECK(refusal("{}") == "accepted");
  CHECK(refusal("[]") == "i.json: expected an object; found an empty array");
  CHECK(refusal(R"({"pcie": "0GBps"})") == "i.json: /pcie: expected a rate above 0Bps; found \"0GBps\"");
  CHECK(refusal(R"({"pcie_rot": "1GBps"})") == "i.json: unknown key \"pcie_rot\"; did you mean \"pcie_root\"?");
  CHECK(refusal(R"({"gpus_per_socket": 2})") == "i.json: expected the key \"socket_link\"; found none");
  CHECK(refusal(R"({"gpus_per_root": 2})") ==
        "i.json: /gpus_per_root: expected a rate \"pcie_root\" beside it; found 2");
  CHECK(refusal(R"({"pcie_root": "1GBps", "gpus_per_root": 0})") ==
        "i.json: /gpus_per_root: expected 1 to 1000 GPUs; found 0");
  CHECK(refusal(R"({"latency": "2s"})") == "i.json: /latency: expected at most 1s; found \"2s\"");
  CHECK(refusal(R"({"nvlink_rate": "25GBps"})") == "i.json: expected the key \"nvlinks\"; found none");
  CHECK(refusal(R"({"nvlinks": []})") == "i.json: expected the key \"nvlink_rate\"; found none");
  const auto pair = [](const std::string& text) {
    return refusal(R"({"nvlink_rate": "25GBps", "nvlinks": [{"a": 0, "b": 1}, )" + text + "]}");
  };
  CHECK(pair(R"({"a": 1, "b": 2, "count": 2})") == "accepted");
  CHECK(pair(R"({"a": 1, "b": 576})") == "i.json: /nvlinks/1/b: expected a GPU from 0 to 575; found 576");
  CHECK(pair(R"({"a": 1, "b": 1})") == "i.json: /nvlinks/1/b: expected another GPU than \"a\"; found 1");
  CHECK(pair(R"({"a": 1, "b": 2, "count": 0})") == "i.json: /nvlinks/1/count: expected 1 to 100 links; found 0");
  CHECK(pair(R"({"a": 1, "b": 0})") ==
        "i.json: /nvlinks/1/b: these two GPUs are listed already; state their links as one \"count\"");
  CHECK(pair("3") == "i.json: /nvlinks/1: expected an object; found 3");
}

}  // namespace rehearse::interconnect_test
