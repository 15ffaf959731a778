// What the ranks of a run tell each other of themselves, and with it who of them is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "dist/group.h"
#include "dist/heart.h"

namespace fathom::dist {

// Of one rank. Called by any of its threads, but one at a time.
class Notices {
 public:
  // What of this process waits for other ranks.
  class Waiting {
   public:
    virtual ~Waiting() = default;
    // From now on an exchange may take so long.
    virtual void wait_at_most(std::chrono::milliseconds timeout) = 0;
    // Those that wait for this rank hear at once that it has left.
    virtual void close() = 0;
  };

  // owner: who has the store, for what is said where it is gone. patience: for another to tell why it ends, and to hear
  // why this one does.
  Notices(c10::intrusive_ptr<c10d::Store> store, std::string owner, int64_t rank, int64_t size,
          std::chrono::milliseconds patience);

  // Of a failure all that waits hears: others may wait for this process in any of it.
  void add(Waiting& waiting) { waiting_.insert(&waiting); }
  void remove(Waiting& waiting) { waiting_.erase(&waiting); }
  // What others wait for, and keys of the store that should be there.
  void wait_at_most(std::chrono::milliseconds timeout);

  // What this rank does from now on.
  void now(const std::string& activity) { set("now/", activity); }
  // Throws Error where another has failed.
  void listen();
  void tell_failure(const std::string& message) noexcept;
  // Whether rank 0 has told this of itself, within a second.
  bool first_tells(const std::string& message) noexcept;
  // Of a wait for others that may be long: ends it where the heart of one of them stands still.
  class Vigil {
   public:
    Vigil(Notices& notices, std::chrono::milliseconds patience);
    // Throws Error where one has not beaten for as long as patience goes. Looks once a second, however often it is
    // called.
    void look();

   private:
    struct Seen {
      std::vector<uint8_t> beat;
      std::chrono::steady_clock::time_point since;
    };
    Notices& notices_;
    std::chrono::milliseconds patience_;
    std::chrono::steady_clock::time_point next_;
    std::vector<std::string> keys_;  // of beats, by ranks
    std::map<size_t, Seen> seen_;
  };
  // Who is lost, where an exchange has failed for `reason`: those whose hearts have stopped, or if all beat those that
  // have noticed nothing of it; or who has told why it failed.
  LostOthers explained(const std::string& reason);

 private:
  using Ranks = std::vector<int64_t>;
  using Beats = std::map<int64_t, std::optional<std::string>>;  // of ranks: the last sign of each

  Ranks all() const;
  void close();
  LostOthers named(const std::string& reason);
  void let_hear(Ranks ranks, std::chrono::milliseconds at_most);
  Beats beats_of(const Ranks& ranks);
  Ranks stopped_since(const Beats& before, const Ranks& ranks);
  // Asks of each until it is true, for as long as patience goes; returns the ranks of which it is not.
  template <typename Predicate>
  Ranks wait_for(Ranks ranks, const Predicate& has_told) const;
  void set(const std::string& what, const std::string& text);
  std::optional<std::string> find(const std::string& what, int64_t of);

  c10::intrusive_ptr<c10d::Store> store_;
  std::string owner_;
  int64_t rank_, size_;
  std::chrono::milliseconds patience_;
  std::set<Waiting*> waiting_;
  Heart heart_;
};

}  // namespace fathom::dist
