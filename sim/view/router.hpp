#pragma once
// What `rehearse view` answers. Start here to read sim/view/: a request in, a response out, no sockets.

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/files.hpp"
#include "sim/view/job_queue.hpp"
#include "sim/view/run_index.hpp"
#include "sim/view/served_folder.hpp"

namespace rehearse {

struct HttpRequest {
  std::string method, target;                                // as sent: "/files/a%20b/report.html"
  std::vector<std::pair<std::string, std::string>> headers;  // names in any case, as often as sent
  std::string body{};
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8", body{};
  std::shared_ptr<const OpenFile> file{};                      // instead of a body
  std::vector<std::pair<std::string, std::string>> headers{};  // besides the type and the length
};

/// Headers of every response, also of those that the router does not make. Pages may load and call this server alone, and
/// nobody may show them in a frame.
const std::vector<std::pair<std::string, std::string>>& common_headers();

/// Where things are, and what may be read.
struct ViewSetup {
  std::filesystem::path folder;                   // that is served
  std::filesystem::path program;                  // rehearse
  std::filesystem::path pages;                    // sim/app/pages of the shipped files
  std::vector<std::filesystem::path> catalogs{};  // the user's own, absolute
  std::vector<std::filesystem::path> readable{};  // besides the folder: files that scenarios may name
  std::string scenario_schema{}, sweep_schema{};
  std::string token{};  // of whoever may change something
  int parallel = 1;     // jobs at a time
};

/// Answers requests, by several threads at once. What is asked:
///   GET  /                     the page of pages/view.html, with the token
///   GET  /view.js, ...         what it loads
///   GET  /api/index/VERSION    RunIndex::text(), 204 if it is of that version
///   GET  /api/jobs             JobQueue::states()
///   GET  /api/schema/KIND      JSON Schema of scenario or sweep
///   GET  /api/scenario/PATH    {"text": the file, "json": its value}
///   GET  /files/PATH           a file of the folder, if its kind is known; pages in a sandbox
///   POST /api/check            {"kind", "path", "text", "vary"} -> {"is_valid", "said"}: what --dry-run prints
///   POST /api/run              the same with "name" -> {"id", "result"}: starts simulate, or sweep
///   POST /api/compare          {"a", "b"} -> {"id", "result"}, or {"page"} if there is a newer one: diff
///   POST /api/cancel           {"id"} -> {}
/// Refused with a line of text: 400 what is no such request, 403 another Host than this server's (a name that was made
/// to lead here), a POST without the token or from another site, 404, 405, 409 a name that is taken, 413 a body beyond kMostBody, 414,
/// 415 a body that is no JSON, 429 too many jobs.
class Router : private Pinned {
 public:
  static constexpr std::size_t kMostBody = kMiB;

  explicit Router(ViewSetup setup);

  /// The port of the Host that is answered; until it is set no request is.
  void set_port(int port) { port_ = port; }
  /// What is wrong with a request, whose body need not be there yet.
  std::optional<HttpResponse> refusal(const HttpRequest& request) const;
  HttpResponse answer(const HttpRequest& request);
  /// Ends all jobs.
  void stop();

 private:
  struct Draft;

  HttpResponse get(const std::string& path);
  HttpResponse post(const std::string& path, const Json& body);
  HttpResponse index(const std::string& version);
  HttpResponse page() const;
  HttpResponse file(const std::string& relative) const;
  HttpResponse scenario(const std::string& relative) const;
  HttpResponse check(const Json& body);
  HttpResponse run(const Json& body);
  HttpResponse compare(const Json& body);
  HttpResponse start(JobQueue::Job job);
  Draft read_draft(const Json& body) const;
  std::vector<std::string> arguments_of(const Draft& draft, const std::filesystem::path& file) const;

  ViewSetup setup_;
  ServedFolder folder_;
  RunIndex index_;
  JobQueue jobs_;
  std::atomic<int> port_ = 0;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<int> checks_ = 0;  // that are going on
  std::atomic<int> drafts_ = 0;  // that were checked
  std::mutex starting_;
};

}  // namespace rehearse
