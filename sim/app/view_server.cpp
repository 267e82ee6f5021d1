#include "sim/app/view_server.hpp"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/view/router.hpp"

namespace rehearse {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kToArrive{10};              // a request
constexpr std::chrono::seconds kToBegin{10};               // until a reader takes more of a response
constexpr std::size_t kMostHead = std::size_t{64} << 10U;  // bytes of a request's line and headers
constexpr std::size_t kThreads = 48;                       // of each address
constexpr std::size_t kMostWaiting = 64;                   // connections that were taken and have no thread yet
constexpr std::size_t kMostDrained = 8 * kMiB;             // of a body that is refused
constexpr std::chrono::milliseconds kStep{100};            // between looks at whether the server ends

/// A connection with limits. The library's own stream waits anew for each byte.
class LimitedStream final : public httplib::Stream {
 public:
  LimitedStream(socket_t socket, const std::atomic<bool>& is_over)
      : socket_{socket}, is_over_{is_over}, end_{Clock::now() + kToArrive}, left_{kMostHead + Router::kMostBody} {}

  bool is_readable() const override { return begin_ < size_ || wait_for(POLLIN, end_); }
  bool is_writable() const override { return wait_for(POLLOUT, Clock::now() + kToBegin); }
  ssize_t read(char* to, size_t size) override {
    if (begin_ == size_ && !fill()) return -1;
    const size_t count = std::min(size, size_ - begin_);
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, size_t size) override {
    if (!is_writable()) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return socket_; }

  /// Takes what the other side still sends, for a moment: closing before would take the response back from it.
  void drain() {
    ::shutdown(socket_, SHUT_WR);
    end_ = Clock::now() + std::chrono::seconds{1};
    left_ = kMostDrained;
    while (fill()) {}
  }

 private:
  /// Whether `what` is possible by `end`. What is there is taken even if this process had no processor until later.
  bool wait_for(short what, Clock::time_point end) const {
    using std::chrono::milliseconds;
    while (!is_over_) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      pollfd one{socket_, what, 0};
      const int found = ::poll(&one, 1, static_cast<int>(std::clamp(left, milliseconds{0}, kStep).count()));
      if (found > 0) return (one.revents & what) != 0;
      if ((found < 0 && errno != EINTR) || left <= milliseconds{0}) return false;
    }
    return false;
  }
  bool fill() {
    if (left_ == 0 || !wait_for(POLLIN, end_)) return false;
    const ssize_t count = ::recv(socket_, buffer_.data(), std::min(buffer_.size(), left_), 0);
    begin_ = 0;
    size_ = count > 0 ? static_cast<size_t>(count) : 0;
    left_ -= size_;
    return size_ > 0;
  }

  socket_t socket_;
  const std::atomic<bool>& is_over_;
  Clock::time_point end_;
  size_t left_, begin_ = 0, size_ = 0;
  std::array<char, 8192> buffer_{};
};

/// The library's threads; a connection beyond kMostWaiting is not taken before another has its thread.
class BoundedPool final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return waiting_ < kMostWaiting; });
    ++waiting_;
    pool_.enqueue([this, task = std::move(task)] {
      {
        const std::lock_guard taken{mutex_};
        --waiting_;
      }
      changed_.notify_one();
      task();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t waiting_ = 0;
  httplib::ThreadPool pool_{kThreads};
};

HttpRequest request_of(const httplib::Request& from) {
  HttpRequest request{.method = from.method, .target = from.target, .headers = {}};
  for (const auto& [name, value] : from.headers) request.headers.emplace_back(name, value);
  return request;
}

void give(const HttpResponse& from, httplib::Response& to) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) to.set_header(name, value);
  if (!from.file) return to.set_content(from.body, from.type);
  to.set_content_provider(from.file->size(), from.type,
                          [file = from.file](size_t offset, size_t length, httplib::DataSink& sink) {
                            constexpr std::size_t kPart = std::size_t{64} << 10U;
                            const std::string part = file->read(offset, std::min(length, kPart));
                            return !part.empty() && sink.write(part.data(), part.size());
                          });
}

class LocalServer final : public httplib::Server {
 public:
  LocalServer(Router& router, const std::atomic<bool>& is_over) : is_over_{is_over} {
    new_task_queue = [] { return new BoundedPool; };
    set_payload_max_length(Router::kMostBody);
    set_tcp_nodelay(true);
    // Two servers at one port would share its requests: only a port of a server that has ended may be taken again.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_pre_routing_handler([&router](const httplib::Request& from, httplib::Response& to) {
      const HttpRequest request = request_of(from);
      if (request.method == "POST" && !router.refusal(request)) return HandlerResponse::Unhandled;
      give(router.answer(request), to);
      return HandlerResponse::Handled;
    });
    Post(".*", [&router](const httplib::Request& from, httplib::Response& to, const httplib::ContentReader& read) {
      HttpRequest request = request_of(from);
      read([&](const char* part, size_t size) {
        request.body.append(part, size);
        return request.body.size() <= Router::kMostBody;
      });
      give(router.answer(request), to);
    });
    // Of requests that the library answers by itself, as they are no HTTP.
    set_error_handler([](const httplib::Request&, httplib::Response& to) {
      if (to.has_header("Content-Security-Policy")) return;
      for (const auto& [name, value] : common_headers()) to.set_header(name, value);
      to.set_header("Content-Security-Policy", "default-src 'none'");
    });
  }

  /// Connections that the system holds until they are taken: the library asks for 5, and beyond them clients are hung up on.
  void hold_more() { ::listen(svr_sock_, SOMAXCONN); }

 private:
  /// One request, whose length nobody has to trust: the connection ends after it.
  bool process_and_close_socket(socket_t socket) override {
    LimitedStream stream{socket, is_over_};
    bool is_closed = false;
    const bool is_done = process_request(stream, true, is_closed, [](httplib::Request& request) {
      request.headers.erase("Accept-Encoding");  // compression costs more than what is sent within a machine
      request.ranges.clear();
    });
    stream.drain();
    ::close(socket);
    return is_done;
  }

  const std::atomic<bool>& is_over_;
};

}  // namespace

void serve(Router& router, int port, const std::function<void(int port)>& on_start,
           const std::function<bool()>& is_over) {
  std::atomic<bool> has_ended = false;
  LocalServer first{router, has_ended}, second{router, has_ended};
  const int bound = port == 0 ? first.bind_to_any_port("127.0.0.1") : first.bind_to_port("127.0.0.1", port) ? port : -1;
  if (bound < 0)
    throw InputError{"--port " + std::to_string(port) + ": cannot listen on 127.0.0.1: " + std::strerror(errno) +
                     "; --port 0 takes one that is free"};
  const bool has_second = second.bind_to_port("::1", bound);
  first.hold_more();
  if (has_second) second.hold_more();
  router.set_port(bound);
  std::thread of_first{[&] { first.listen_after_bind(); }}, of_second;
  if (has_second) of_second = std::thread{[&] { second.listen_after_bind(); }};
  on_start(bound);
  do std::this_thread::sleep_for(kStep);
  while (!is_over());
  has_ended = true;
  router.stop();
  first.stop();
  if (has_second) second.stop();
  of_first.join();
  if (has_second) of_second.join();
}

}  // namespace rehearse
