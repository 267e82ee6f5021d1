#include "sim/view/router.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestTarget = 4000;
constexpr int kMostChecks = 2;  // at a time
constexpr std::chrono::seconds kLongestCheck{30};
constexpr std::size_t kMostVaried = 20;

/// A request that is refused.
struct Refused {
  HttpResponse response;
};

HttpResponse refused(int status, const std::string& line) { return {.status = status, .body = line + "\n"}; }

HttpResponse json_response(const Json& json) {
  return {.type = "application/json", .body = json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

/// The value of a header that is there once; `otherwise` if it is not there; empty if it is there more than once.
std::string header(const HttpRequest& request, std::string_view name, const std::string& otherwise = {}) {
  std::optional<std::string> value;
  for (const auto& [key, text] : request.headers) {
    const bool is_it =
        std::ranges::equal(key, name, [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
    if (is_it && value) return {};
    if (is_it) value = text;
  }
  return value.value_or(otherwise);
}

/// In a time that does not depend on where they differ.
bool is_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

/// The path of a target, without a query and with %XX decoded once; nothing if it is none.
std::optional<std::string> path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (target.empty() || target.front() != '/') return {};
  std::string path;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    const auto digit = [&](std::size_t at) -> int {
      const char c = at < target.size() ? static_cast<char>(std::tolower(static_cast<unsigned char>(target[at]))) : ' ';
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    const int high = digit(i + 1), low = digit(i + 2);
    if (high < 0 || low < 0) return {};
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

/// What may be served of the folder.
std::string type_of(const fs::path& name) {
  static const std::map<std::string, std::string> types{{".html", "text/html; charset=utf-8"},
                                                        {".json", "application/json"},
                                                        {".csv", "text/csv; charset=utf-8"},
                                                        {".gz", "application/gzip"},
                                                        {".txt", "text/plain; charset=utf-8"},
                                                        {".md", "text/plain; charset=utf-8"},
                                                        {".svg", "image/svg+xml"},
                                                        {".png", "image/png"}};
  const auto found = types.find(name.extension().string());
  return found == types.end() ? "" : found->second;
}

std::string text_in(const Json& body, const char* key) {
  if (!body.contains(key) || !body[key].is_string())
    throw Refused{refused(400, "expected a text \"" + std::string{key} + "\" in the request")};
  return body[key].get<std::string>();
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

/// A name of a new folder: one that every shell and every file system takes as it is.
bool is_name(const std::string& name) {
  constexpr std::size_t kLongest = 80;
  return !name.empty() && name.size() <= kLongest && std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
         std::ranges::all_of(name, [](unsigned char c) {
           return c < 128 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
         });
}

std::string as_name(const std::string& path) {
  constexpr std::size_t kLongest = 30;
  std::string name = path.ends_with(".json") ? path.substr(0, path.size() - 5) : path;
  for (char& c : name)
    if (!is_name(std::string{'x', c})) c = '-';
  return name.substr(name.size() - std::min(name.size(), kLongest));
}

fs::file_time_type newest(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "summary.json" : path;
  return fs::last_write_time(file, error);
}

constexpr const char* kOwnPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";
/// Pages of results bring their scripts along. They have an origin of their own, which can ask this server for nothing.
constexpr const char* kPolicyOfFiles =
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

const std::vector<std::pair<std::string, std::string>>& common_headers() {
  static const std::vector<std::pair<std::string, std::string>> headers{{"X-Content-Type-Options", "nosniff"},
                                                                        {"X-Frame-Options", "DENY"},
                                                                        {"Referrer-Policy", "no-referrer"},
                                                                        {"Cross-Origin-Resource-Policy", "same-origin"},
                                                                        {"Cache-Control", "no-store"}};
  return headers;
}

/// A scenario, or sweep, as the form has sent it.
struct Router::Draft {
  std::string text, shown;        // shown: what messages call it
  fs::path folder;                // where its file would be, and paths in it begin
  std::vector<std::string> vary;  // "/pointer=values"
  bool is_sweep = false;
};

Router::Router(ViewSetup setup)
    : setup_{std::move(setup)},
      folder_{setup_.folder},
      index_{folder_},
      jobs_{setup_.program, folder_.root(), setup_.parallel} {
  setup_.readable.push_back(folder_.root());
}

void Router::stop() {
  is_stopped_ = true;
  jobs_.stop();
}

std::optional<HttpResponse> Router::refusal(const HttpRequest& request) const {
  const std::string port = std::to_string(port_);
  const std::string host = header(request, "host");
  if (port_ == 0 || (host != "localhost:" + port && host != "127.0.0.1:" + port && host != "[::1]:" + port))
    return refused(403, "this server answers to http://localhost:" + port + " alone");
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
    HttpResponse response = refused(405, "expected GET or POST");
    response.headers = {{"Allow", "GET, HEAD, POST"}};
    return response;
  }
  if (request.target.size() > kLongestTarget) return refused(414, "the address is too long");
  if (!path_of(request.target)) return refused(400, "expected the address of a page");
  if (request.method != "POST") return {};
  const std::string origin = header(request, "origin");
  const bool is_same_site = header(request, "sec-fetch-site", "same-origin") == "same-origin";
  if (origin != "http://" + host || !is_same_site) return refused(403, "requests from other sites are refused");
  if (!is_equal(header(request, "x-rehearse-token"), setup_.token) || setup_.token.empty())
    return refused(403, "expected the token of the page: reload it");
  if (header(request, "content-type").substr(0, 16) != "application/json")
    return refused(415, "expected application/json");
  const std::string length = header(request, "content-length", "0");
  const bool is_short =
      length.size() < 10 && std::ranges::all_of(length, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_short || std::strtoull(length.c_str(), nullptr, 10) > kMostBody || request.body.size() > kMostBody)
    return refused(413, "expected at most " + std::to_string(kMostBody) + " bytes");
  return {};
}

HttpResponse Router::answer(const HttpRequest& request) {
  HttpResponse response;
  try {
    if (const auto wrong = refusal(request))
      response = *wrong;
    else if (request.method == "POST")
      response = post(*path_of(request.target), parse_json(request.body, "request"));
    else
      response = get(*path_of(request.target));
  } catch (const Refused& refusal) { response = refusal.response; } catch (const InputError& error) {
    response = refused(400, error.what());
  } catch (const std::exception& error) { response = refused(500, std::string{"internal error: "} + error.what()); }
  const auto& common = common_headers();
  response.headers.insert(response.headers.end(), common.begin(), common.end());
  const bool has_policy =
      std::ranges::any_of(response.headers, [](const auto& one) { return one.first == "Content-Security-Policy"; });
  if (!has_policy) response.headers.emplace_back("Content-Security-Policy", kOwnPolicy);
  return response;
}

HttpResponse Router::get(const std::string& path) {
  const auto after = [&](std::string_view prefix) -> std::optional<std::string> {
    return path.starts_with(prefix) ? std::optional{path.substr(prefix.size())} : std::nullopt;
  };
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kShipped{
      {{"/page.css", "text/css; charset=utf-8"},
       {"/view.css", "text/css; charset=utf-8"},
       {"/tables.js", "text/javascript; charset=utf-8"},
       {"/form.js", "text/javascript; charset=utf-8"},
       {"/view.js", "text/javascript; charset=utf-8"}}};
  if (path == "/") return page();
  for (const auto& [name, type] : kShipped)
    if (path == name) return {.type = type, .body = read_file(setup_.pages / name.substr(1), kMiB)};
  if (const auto version = after("/api/index/")) return index(*version);
  if (path == "/api/jobs") return json_response(jobs_.states());
  if (path == "/api/schema/scenario") return {.type = "application/json", .body = setup_.scenario_schema};
  if (path == "/api/schema/sweep") return {.type = "application/json", .body = setup_.sweep_schema};
  if (const auto relative = after("/api/scenario/")) return scenario(*relative);
  if (const auto relative = after("/files/")) return file(*relative);
  return refused(404, "there is no such page");
}

HttpResponse Router::post(const std::string& path, const Json& body) {
  if (!body.is_object()) return refused(400, "expected a JSON object");
  if (path == "/api/check") return check(body);
  if (path == "/api/run") return run(body);
  if (path == "/api/compare") return compare(body);
  if (path == "/api/cancel") {
    const bool is_number = body.contains("id") && body["id"].is_number_integer();
    const bool is_known =
        is_number && body["id"] > 0 && body["id"] < 1'000'000'000 && jobs_.cancel(body["id"].get<int>());
    return is_known ? json_response(Json::object()) : refused(404, "there is no such job that has not ended");
  }
  return refused(404, "there is no such page");
}

HttpResponse Router::index(const std::string& version) {
  std::string text = index_.text();
  if (!version.empty() && text.starts_with("{\"version\":\"" + version + "\"")) return {.status = 204};
  return {.type = "application/json", .body = std::move(text)};
}

HttpResponse Router::page() const {
  std::string html = read_file(setup_.pages / "view.html", kMiB);
  replace_all(html, "{{token}}", setup_.token);
  return {.type = "text/html; charset=utf-8", .body = std::move(html)};
}

HttpResponse Router::file(const std::string& relative) const {
  const std::string type = type_of(relative);
  auto opened = type.empty() ? nullptr : folder_.open(relative);
  if (!opened) return refused(404, "there is no such file");
  return {.type = type, .file = std::move(opened), .headers = {{"Content-Security-Policy", kPolicyOfFiles}}};
}

HttpResponse Router::scenario(const std::string& relative) const {
  const auto opened = relative.ends_with(".json") ? folder_.open(relative) : nullptr;
  if (!opened) return refused(404, "there is no such file");
  if (opened->size() > kMostBody / 2) return refused(413, "a scenario of more than 512 KiB is no longer edited here");
  const std::string text = opened->read(0, kMostBody);
  return json_response({{"text", text}, {"json", parse_json(text, relative)}});
}

Router::Draft Router::read_draft(const Json& body) const {
  Draft draft{.text = text_in(body, "text"), .shown = text_in(body, "path"), .folder = folder_.root(), .vary = {}};
  if (!draft.shown.empty()) {
    const auto place = folder_.find(draft.shown);
    if (!place || place->extension() != ".json") throw Refused{refused(404, "there is no such scenario")};
    draft.folder = place->parent_path();
    std::error_code error;
    // What is made of a result goes beside its folder, whose files belong together.
    const bool is_result = fs::exists(draft.folder / "summary.json", error);
    if (is_result && draft.folder != folder_.root()) draft.folder = draft.folder.parent_path();
  } else {
    draft.shown = "scenario";
  }
  if (body.contains("vary") && !body["vary"].is_array()) throw Refused{refused(400, "expected a list \"vary\"")};
  const Json vary = body.value("vary", Json::array());
  if (vary.size() > kMostVaried) throw Refused{refused(400, "expected at most 20 places to vary")};
  const Json scenario = parse_json(draft.text, draft.shown);
  const std::vector<fs::path> from{draft.folder, folder_.root()};
  auto outside = find_path_outside(scenario, from, setup_.readable);
  for (const Json& one : vary) {
    const std::string text = one.is_string() ? one.get<std::string>() : "";
    const std::size_t equals = text.find('=');
    if (!text.starts_with('/') || equals == std::string::npos || text.find('\0') != std::string::npos)
      throw Refused{refused(400, "expected /pointer=values of what varies; found " + in_quotes(text))};
    draft.vary.push_back(text);
    if (!outside && find_path_outside(text.substr(equals + 1), from, setup_.readable)) outside = text.substr(0, equals);
  }
  if (outside)
    throw InputError{draft.shown + ": " + shortened(*outside, 200) +
                     ": expected a file of the folder that is served, or a name; found a path that leads out of it"};
  draft.is_sweep = (scenario.is_object() && scenario.contains("scenario")) || !draft.vary.empty();
  return draft;
}

std::vector<std::string> Router::arguments_of(const Draft& draft, const fs::path& file) const {
  std::vector<std::string> arguments{draft.is_sweep ? "sweep" : "simulate",
                                     file.lexically_relative(folder_.root()).string()};
  for (const std::string& one : draft.vary) arguments.push_back("--grid=" + one);
  for (const fs::path& catalog : setup_.catalogs) arguments.push_back("--catalog=" + catalog.string());
  return arguments;
}

HttpResponse Router::check(const Json& body) {
  Draft draft;
  try {
    draft = read_draft(body);
  } catch (const InputError& error) {
    return json_response({{"is_valid", false}, {"said", "rehearse: " + std::string{error.what()}}});
  }
  struct Count {
    std::atomic<int>& count;
    int before = count++;
    ~Count() { --count; }
  } count{checks_};
  if (count.before >= kMostChecks) return refused(429, "other scenarios are being checked: try again");
  struct Written {
    fs::path file;
    ~Written() {
      std::error_code error;
      fs::remove(file, error);
    }
  } written{draft.folder / (".view-" + std::to_string(::getpid()) + "-" + std::to_string(++drafts_) + ".json")};
  write_file(written.file, draft.text);
  std::vector<std::string> arguments = arguments_of(draft, written.file);
  arguments.emplace_back("--dry-run");
  const auto end = std::chrono::steady_clock::now() + kLongestCheck;
  CommandEnd ended = run_command({setup_.program, arguments, folder_.root()},
                                 [&] { return is_stopped_ || std::chrono::steady_clock::now() > end; });
  replace_all(ended.said, arguments[1], draft.shown);
  if (std::chrono::steady_clock::now() > end) ended.said += "rehearse: the check took longer than 30 s\n";
  return json_response({{"is_valid", ended.exit_code == 0}, {"said", ended.said}});
}

HttpResponse Router::start(JobQueue::Job job) {
  const std::string result = job.result;
  const auto id = jobs_.add(std::move(job));
  if (!id) throw Refused{refused(429, "too many jobs wait: try again when some have ended")};
  return json_response({{"id", *id}, {"result", result}});
}

HttpResponse Router::run(const Json& body) {
  const std::string name = text_in(body, "name");
  if (!is_name(name) || name.ends_with(".json"))
    return refused(400, "expected a name of letters, digits, dots, hyphens and underscores; found " + in_quotes(name));
  const Draft draft = read_draft(body);
  const std::lock_guard lock{starting_};  // of two with one name the second finds the file of the first
  const fs::path file = draft.folder / (name + ".json"), output = draft.folder / name;
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error)) || fs::exists(fs::symlink_status(output, error)))
    return refused(409, in_quotes(name) + " is there already: choose another name");
  const std::string result = output.lexically_relative(folder_.root()).string();
  std::vector<std::string> arguments = arguments_of(draft, file);
  const std::string verb = arguments.front();
  arguments.insert(arguments.end(), {"-o", result});
  write_file(file, draft.text);
  try {
    return start({.title = verb + " " + name, .arguments = std::move(arguments), .result = result, .inputs = {file}});
  } catch (const Refused&) {
    fs::remove(file, error);
    throw;
  }
}

HttpResponse Router::compare(const Json& body) {
  const std::string a = text_in(body, "a"), b = text_in(body, "b");
  const auto place_a = folder_.find(a), place_b = folder_.find(b);
  if (a.empty() || b.empty() || !place_a || !place_b) return refused(404, "there is no such run");
  const std::lock_guard lock{starting_};
  const std::string base = "diff-" + as_name(a) + "-" + as_name(b);
  std::string result = base;
  std::error_code error;
  const std::string title = "diff " + a + " " + b;
  if (const auto same = jobs_.find_active([&](const JobQueue::Job& job) { return job.title == title; }))
    return json_response({{"id", same->first}, {"result", same->second}});
  const auto is_taken = [&](const JobQueue::Job& job) { return job.result == result; };
  for (int i = 2; fs::exists(folder_.root() / result, error) || jobs_.find_active(is_taken); ++i) {
    const fs::path known = folder_.root() / result / "diff.json";
    const Json json = fs::is_regular_file(known, error) ? load_json_file(known) : Json{};
    const auto is_of = [&](const char* pointer, const std::string& run) {
      const Json* of = json_pointer_find(json, pointer);
      return of != nullptr && *of == run;
    };
    if (is_of("/a/run", a) && is_of("/b/run", b)) {
      if (fs::last_write_time(known, error) < std::max(newest(*place_a), newest(*place_b))) break;
      return json_response({{"page", result + "/diff.html"}});
    }
    result = base + "-" + std::to_string(i);
  }
  std::vector<std::string> arguments{"diff", a, b, "-o", result};
  for (const fs::path& catalog : setup_.catalogs) arguments.push_back("--catalog=" + catalog.string());
  return start({.title = title, .arguments = std::move(arguments), .result = result});
}

}  // namespace rehearse
