// Sums in pieces.
#include "dist/group.h"

#include <ATen/ATen.h>

namespace fathom::dist {

// Where the other's share of this rank's piece comes to lie.
Group::Span Group::staged(const Sum& sum, int64_t other) const {
  const int64_t numbers = span(sum.tensor, rank_).count;
  return {sum.staging, place_among_others(other) * numbers, numbers};
}

std::unique_ptr<Transfer> Group::begin_pieces(const Sum& sum) {
  std::vector<std::vector<Span>> sent(static_cast<size_t>(size_)), received(sent.size());
  for (int64_t other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    sent[static_cast<size_t>(other)].push_back(span(sum.tensor, other));
    received[static_cast<size_t>(other)].push_back(staged(sum, other));
  }
  return begin_exchange(sent, received);
}

// In the order of ranks, on the first share's place, which is its own or staged.
void Group::add_up(const Sum& sum) const {
  at::Tensor own = piece(sum.tensor, rank_);
  if (own.numel() == 0) return;
  at::Tensor total = rank_ == 0 ? own : numbers_of(staged(sum, 0));
  for (int64_t each = 1; each < size_; ++each) total.add_(each == rank_ ? own : numbers_of(staged(sum, each)));
  if (rank_ != 0) own.copy_(total);
}

}  // namespace fathom::dist
