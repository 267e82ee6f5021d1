#include "sim/view/router.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::fuzz {
namespace {

constexpr const char* kSecret = "of the user";

/// A folder with a link to a file outside of it, and a router that starts no jobs and checks with a program that does nothing.
struct Served {
  Served() {
    namespace fs = std::filesystem;
    fs::create_directories(folder / "served/run");
    folder.write("secret.json", "\"" + std::string{kSecret} + "\"");
    folder.write("served/a.json", R"({"workload": {}, "cluster": {}})");
    folder.write("served/run/summary.json", R"({"format": 1, "steps_per_s": 1})");
    fs::create_symlink(folder / "secret.json", folder / "served/link.json");
    router = std::make_unique<Router>(ViewSetup{.folder = folder / "served",
                                                .program = "/bin/true",
                                                .pages = source_folder() + "/sim/app/pages",
                                                .scenario_schema = "{}",
                                                .sweep_schema = "{}",
                                                .token = "token",
                                                .parallel = 0});
    router->set_port(1);
  }
  test::TemporaryFolder folder;
  std::unique_ptr<Router> router;
};

/// "METHOD target", lines of headers, an empty line, the body. A request without headers is the page's own.
void run_view_request(std::string_view input) {
  static const Served served;
  const bool knows_secret = input.find(kSecret) != std::string_view::npos;  // messages quote what they refuse
  const auto line = [&] {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string_view text = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    return std::string{text};
  };
  const std::string first = line();
  const std::size_t space = std::min(first.find(' '), first.size());
  HttpRequest request{
      .method = first.substr(0, space), .target = first.substr(std::min(space + 1, first.size())), .headers = {}};
  for (std::string text = line(); !text.empty(); text = line()) {
    const std::size_t colon = std::min(text.find(": "), text.size());
    request.headers.emplace_back(text.substr(0, colon), text.substr(std::min(colon + 2, text.size())));
  }
  if (request.headers.empty())
    request.headers = {{"Host", "localhost:1"},
                       {"Origin", "http://localhost:1"},
                       {"X-Rehearse-Token", "token"},
                       {"Content-Type", "application/json"}};
  request.body = input;
  const HttpResponse response = served.router->answer(request);
  require(response.status != 500, "a request is answered or refused");
  const std::string body = response.file ? response.file->read(0, kMiB) : response.body;
  require(knows_secret || body.find(kSecret) == std::string::npos, "nothing outside of the folder is given");
  if (response.status >= 400) require_one_line(std::string_view{body}.substr(0, body.size() - 1));
}

}  // namespace

std::span<const Target> targets_of_view() {
  static constexpr std::array kTargets{Target{"view_request", run_view_request}};
  return kTargets;
}

}  // namespace rehearse::fuzz
