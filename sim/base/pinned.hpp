#pragma once
// Objects that stay where they are: others hold their address, or they hold what only one may hold.

namespace rehearse {

/// A base of what is neither copied nor moved.
struct Pinned {
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 protected:
  ~Pinned() = default;
};

}  // namespace rehearse
