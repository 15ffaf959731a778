// The processes that compute one run, as its rank sees them. What is exchanged is the same on every rank, and its bits
// depend on ranks and their number alone, never on timing.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/lost_others.h"
#include "base/rounding.h"
#include "launch/processes.h"

namespace fathom::dist {

// An exchange that goes on.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Returns once what it reads may change and what it writes is there. Throws LostOthers.
  virtual void wait() = 0;
};

// Throws LostOthers, after which the group is of no use. Every rank makes the same calls in the same order.
class Group {
 public:
  virtual ~Group() = default;
  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  // Where another rank stands among all but this one.
  int64_t place_among_others(int64_t other) const { return other < rank_ ? other : other - 1; }

  // A sum over ranks, in the order of ranks, in place: each rank adds up its piece. What it takes besides is `staging`,
  // as large as staging_numbers(tensor.numel()) says, of the tensor's type.
  struct Sum {
    at::Tensor tensor, staging;
  };
  int64_t staging_numbers(int64_t numbers) const { return numbers == 0 ? 0 : (size_ - 1) * divide_up(numbers, size_); }
  // Begins to exchange: returns while that goes on.
  virtual void begin(Sum& sum) = 0;
  // Ends it. Between begin() and end() of one sum there may be begin() of others; they end in the order in which they
  // began.
  virtual void end(Sum& sum) = 0;

  // whole: [n], n a multiple of size(), of which this rank's piece is there; those of the others come. Transfers end in
  // the order in which they began.
  virtual std::unique_ptr<Transfer> begin_gather(const at::Tensor& whole) = 0;
  // Numbers of a contiguous [n].
  struct Span {
    at::Tensor of;
    int64_t first = 0, count = 0;
  };
  // By ranks, this one's left empty: what each is sent, and where what it sends comes to lie, in its order.
  virtual std::unique_ptr<Transfer> begin_exchange(const std::vector<std::vector<Span>>& sent,
                                                   const std::vector<std::vector<Span>>& received) = 0;

  // One number of every rank, by ranks.
  virtual std::vector<double> gather(double number) = 0;
  // One text of every rank, by ranks.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // The same at rank 0; elsewhere nothing comes.
  virtual std::vector<std::string> gather_to_first(const std::string& text) = 0;
  // Adds up each of them over the ranks, in place: exact for whole numbers, and where one rank alone has not 0.
  virtual void sum(std::vector<double>& numbers) = 0;
  // Returns once every rank has come.
  virtual void meet() = 0;
  // The same after work on files, for which one that gives signs of life may take far longer than the timeout: half an
  // hour.
  virtual void meet_after_files() { meet(); }

  // A group of these ranks of this one, ascending, with their places there as its ranks. They alone call it; failures
  // are told of ranks of the whole. It ends before this one.
  virtual std::unique_ptr<Group> part(const std::vector<int64_t>& ranks) = 0;

  // From now on the others may take so long to come, in the groups too that were made of this one.
  virtual void wait_at_most(std::chrono::milliseconds /*timeout*/) {}

  // Throws LostOthers where an exchange between devices has failed that one there has waited for: before anything is
  // made of its numbers.
  virtual void check() {}

  // Throws LostOthers where a rank has told that it fails: for those that wait for something else.
  virtual void listen() {}

  // What this rank does from now on, "step 12", for the messages of others.
  virtual void now(const std::string& activity) = 0;
  // Tells the others why this rank ends, before it does.
  virtual void tell_failure(const std::string& message) noexcept = 0;
  // Whether the first rank tells the same of itself, as where all have found the same: asked before this one tells, and
  // for about a second.
  virtual bool first_tells(const std::string& /*message*/) noexcept { return false; }

 protected:
  Group(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  // Of a tensor, that which a rank adds up or has; the last ones may be smaller.
  Span span(const at::Tensor& tensor, int64_t owner) const {
    const int64_t numbers = divide_up(tensor.numel(), size_), first = std::min(owner * numbers, tensor.numel());
    return {tensor, first, std::min(numbers, tensor.numel() - first)};
  }
  at::Tensor piece(const at::Tensor& tensor, int64_t owner) const { return numbers_of(span(tensor, owner)); }
  static at::Tensor numbers_of(const Span& span) { return span.of.narrow(0, span.first, span.count); }
  // Every rank's share of this rank's piece comes to it.
  std::unique_ptr<Transfer> begin_pieces(const Sum& sum);
  // This rank's piece becomes the sum.
  void add_up(const Sum& sum) const;

 private:
  Span staged(const Sum& sum, int64_t other) const;

  int64_t rank_, size_;
};

// Joins the other ranks over Gloo, on CPUs. timeout: for all that a rank waits for, the join included, until the group
// is told another.
std::unique_ptr<Group> join(const launch::Processes& processes, std::chrono::milliseconds timeout);

// One rank of so many that are not there: exchanges do nothing. For the dry run, whose numbers are none.
std::unique_ptr<Group> play(int64_t rank, int64_t size);

}  // namespace fathom::dist
