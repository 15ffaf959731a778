// Of many batch shapes, those that can make the maxima of live bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/steps.h"

namespace fathom::schedule {

// Keeps the shapes that no other exceeds in rows, length, source and targets; of packed ones also in the number of
// documents, the longest of them, and the sum of their squares: borders on the device and the flash kernel's padding
// follow the number, temporaries the longest, math attention's probabilities the squares. Where scores are made a few
// queries at a time, also in how many there are then, which a longer batch may have fewer of.
class Frontier {
 public:
  // Which others a shape may stand for.
  enum class Within {
    kAll,
    kRows,  // those of as many rows: a CPU's threads share them out, and an odd one more may take less scratch memory;
            // and of few tokens those of as many, to a power of two: some kernels are for a few rows alone
    kSize,  // of these, those with as many tokens and targets, to a power of two, and for small ones to the token:
            // kernels, and the pool of an allocator, are chosen by size
  };
  explicit Frontier(const KernelTraits& traits = {}, Within within = Within::kAll) : traits_(traits), within_(within) {}

  struct Member {
    BatchShape shape;
    int64_t first = 0;   // the event at which it came first
    bool again = false;  // it came once more
  };
  // stage: of the run; a shape stands for others of its own stage alone.
  void add(const BatchShape& shape, int64_t event = 0, int64_t stage = 0);
  // In the order in which they came first.
  std::vector<Member> members() const;
  // Whether a member may stand for the shape, and exceeds it or is like it.
  bool covers(const BatchShape& shape, int64_t stage = 0) const;

 private:
  struct Documents {
    explicit Documents(const std::vector<int64_t>& lengths);
    int64_t count, longest = 0, squares = 0;
  };
  struct Candidate {
    Candidate(Member member_in, int64_t score_heads);
    bool covers(const Candidate& small) const;
    Member member;
    Documents documents;
    std::array<int64_t, 3> scores;  // that are there at a time: of a row, of its source, of a row with its source
  };
  using Class = std::tuple<int64_t, bool, int64_t, int64_t, int64_t>;
  Class class_of(const BatchShape& shape, int64_t stage) const;

  KernelTraits traits_;
  Within within_;
  std::map<Class, std::vector<Candidate>> classes_;
};

// Of heads of all rows, the scores that are there at a time where they are made a few queries at a time.
int64_t scores_at_once(int64_t groups, int64_t queries, int64_t keys);

// In which of its ways a step treats a micro-batch: before the first one there are no gradients, with the last one
// those of other processes come. Each finds the memory as any other between the first and the last does.
enum class Role { kOnly, kFirst, kBetween, kLast };
inline constexpr std::array<Role, 4> kRoles = {Role::kOnly, Role::kFirst, Role::kBetween, Role::kLast};
// Of the micro-batch at `place` of so many.
Role role_of(size_t place, size_t count);

// The shapes of steps, each beside those of its role alone.
class RoleFrontiers {
 public:
  RoleFrontiers(const KernelTraits& traits, Frontier::Within within);
  void add(const StepShape& step, int64_t event = 0, int64_t stage = 0);
  const Frontier& of(Role role) const { return roles_[static_cast<size_t>(role)]; }

 private:
  std::array<Frontier, kRoles.size()> roles_;
};

// The step with fewer micro-batches between its first and its last: those that no other of them exceeds, in order.
StepShape reduced(const StepShape& step, const KernelTraits& traits, Frontier::Within within);

}  // namespace fathom::schedule
