#pragma once
// The two ways in which a run can end without a result. main() prints what() as one line and chooses the exit code.

#include <stdexcept>
#include <string>

namespace rehearse {

/// A mistake in what the user gave. what() is one line: where (file and JSON pointer, line), what was expected, what
/// was found. Exit code 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Valid input that has no result: deadlock, GPU memory exceeded, a limit reached. what() says who waits for what. Exit
/// code 3.
class NoResultError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A NoResultError from where the pointer in the scenario is known but not its file: simulate() adds that.
class RunError : public NoResultError {
 public:
  RunError(const std::string& pointer, const std::string& message) : NoResultError{pointer + ": " + message} {}
};

}  // namespace rehearse
