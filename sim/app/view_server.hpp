#pragma once
// The sockets of `rehearse view`: what comes in goes to the router, within limits of time and size.

#include <functional>

namespace rehearse {

class Router;

/// Answers on 127.0.0.1, and ::1 where there is one, until `is_over` says true, which is asked ten times a second. Port 0: one that is free. `on_start` gets the port.
/// Each request has a connection of its own, 10 s to arrive, and at most 64 KiB besides its body; 96 are answered at a time, the others wait. InputError if the port is taken.
void serve(Router& router, int port, const std::function<void(int port)>& on_start,
           const std::function<bool()>& is_over);

}  // namespace rehearse
