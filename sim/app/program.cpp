#include "sim/app/program.hpp"

#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

/// A command that has come to its end is not ended by the alarm of its budget (setup.cpp) as well, however busy the machine is.
void cancel_alarm() {
  const itimerval none{};
  ::setitimer(ITIMER_REAL, &none, nullptr);
}

int report(const char* name, const std::string& message, int exit_code) {
  cancel_alarm();
  say(std::string{name} + ": " + shortened(message, 2000));
  return exit_code;
}

/// Whether standard output is a pipe that nobody reads any more, as after `| head`: the user has seen enough.
bool is_reader_gone() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/// The number that all of `text` is; none otherwise.
template <class Number>
bool is_number(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

int run_program(const char* name, int (*command_line)(int argc, char** argv), int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe shows up as a failed write
  std::signal(SIGXFSZ, SIG_IGN);  // as does a limit on the size of files
  try {
    const int exit_code = command_line(argc, argv);
    cancel_alarm();
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && !is_reader_gone())
      return report(name, "cannot write to standard output", kBadInput);
    return exit_code;
  } catch (const InputError& error) {
    return report(name, error.what(), kBadInput);
  } catch (const NoResultError& error) { return report(name, error.what(), kNoResult); } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    const std::string input = argc > 2 ? argv[2] : "";  // most often the file
    return report(name, input.empty() ? "out of memory" : input + ": out of memory", kNoResult);
  } catch (const std::filesystem::filesystem_error& error) {  // a path that is too long, a folder that may not be read
    return report(name, error.path1().string() + ": " + error.code().message(), kBadInput);
  } catch (const std::exception& error) { return report(name, std::string{"internal error: "} + error.what(), 70); }
}

std::string is_not_empty(const std::string& text) { return text.empty() ? "expected a value; found none" : ""; }

std::string is_positive(const std::string& text) {
  double value = 0;
  return is_number(text, value) && value > 0 ? "" : "expected a number above 0; found " + text;
}

std::string is_not_negative(const std::string& text) {
  double value = 0;
  return is_number(text, value) && value >= 0 ? "" : "expected a number of at least 0; found " + text;
}

std::function<std::string(const std::string&)> is_one_of(std::vector<std::string> known) {
  return [known = std::move(known)](const std::string& text) {
    const bool is_known = std::find(known.begin(), known.end(), text) != known.end();
    return is_known ? "" : unknown_name_message("value", text, known);
  };
}

std::string is_seed(const std::string& text) {
  std::uint64_t seed = 0;
  return is_number(text, seed) ? "" : "expected a whole number from 0, below 2^64; found " + in_quotes(text);
}

}  // namespace rehearse
