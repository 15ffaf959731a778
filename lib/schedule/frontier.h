// Of many batch shapes, those that can make the maxima of live bytes.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "schedule/steps.h"

namespace fathom::schedule {

// Keeps the shapes that no other exceeds in rows, length, source and targets; of packed ones also in the number of
// documents, the longest of them, and the sum of their squares: borders on the device and the flash kernel's padding
// follow the number, temporaries the longest, math attention's probabilities the squares.
class Frontier {
 public:
  // Which others a shape may stand for.
  enum class Within {
    kAll,
    kRows,  // those of as many rows: a CPU's threads share them out, and an odd one more may take less scratch memory
    kSize,  // of these, those with as many tokens and targets, to a power of two, and for small ones to the token:
            // kernels, and the pool of an allocator, are chosen by size
  };
  // window: of the model's attention, 0 for none: sequences within it take other kernels than those beyond, so that
  // neither stands for the other.
  explicit Frontier(int64_t window = 0, Within within = Within::kAll) : window_(window), within_(within) {}

  struct Member {
    BatchShape shape;
    int64_t first = 0;   // the event at which it came first
    bool again = false;  // it came once more
  };
  void add(const BatchShape& shape, int64_t event = 0);
  // In the order in which they came first.
  std::vector<Member> members() const;

 private:
  struct Documents {
    explicit Documents(const std::vector<int64_t>& lengths);
    int64_t count, longest = 0, squares = 0;
  };
  struct Candidate {
    explicit Candidate(Member member_in) : member(std::move(member_in)), documents(member.shape.document_lengths) {}
    bool covers(const Candidate& small) const;
    Member member;
    Documents documents;
  };
  using Class = std::tuple<bool, int64_t, int64_t, int64_t>;
  Class class_of(const BatchShape& shape) const;

  int64_t window_;
  Within within_;
  std::map<Class, std::vector<Candidate>> classes_;
};

// The same for steps: a step's memory is decided by its first micro-batch, before there are gradients, and by each
// later one on its own.
class StepFrontier {
 public:
  explicit StepFrontier(int64_t window = 0, Frontier::Within within = Frontier::Within::kAll)
      : first_(window, within), later_(window, within) {}
  void add(const StepShape& step, int64_t event = 0);
  struct Member {
    StepShape step;  // one micro-batch, or a first and a later one
    int64_t first = 0;
    bool again = false;
  };
  // In the order in which they came first.
  std::vector<Member> members() const;

 private:
  Frontier first_, later_;
};

}  // namespace fathom::schedule
