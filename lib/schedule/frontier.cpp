// Shapes that nothing exceeds, in classes between which none stands for another.
#include "schedule/frontier.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"

namespace fathom::schedule {
namespace {

// Where every token counts the loss takes the rows as they are, without a copy of those that do.
bool gathers(const BatchShape& shape) { return shape.targets < shape.rows * shape.length; }

// Small sizes by themselves, larger ones by their power of two.
int64_t size_class(int64_t size) {
  constexpr int64_t kSmall = 64;
  return size <= kSmall ? size : kSmall + static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(size)));
}

}  // namespace

Frontier::Documents::Documents(const std::vector<int64_t>& lengths) : count(static_cast<int64_t>(lengths.size())) {
  for (const int64_t length : lengths) {
    longest = std::max(longest, length);
    squares = checked_add(squares, checked_multiply(length, length, "squares of lengths"), "squares of lengths");
  }
}

bool Frontier::Candidate::covers(const Candidate& small) const {
  const BatchShape &large_shape = member.shape, &small_shape = small.member.shape;
  return large_shape.rows >= small_shape.rows && large_shape.length >= small_shape.length &&
         large_shape.source_length >= small_shape.source_length && large_shape.targets >= small_shape.targets &&
         (gathers(large_shape) || !gathers(small_shape)) && documents.count >= small.documents.count &&
         documents.longest >= small.documents.longest && documents.squares >= small.documents.squares;
}

Frontier::Class Frontier::class_of(const BatchShape& shape) const {
  const bool beyond = window_ > 0 && longest_sequence(shape) > window_;
  if (within_ == Within::kAll) return {beyond, 0, 0, 0};
  if (within_ == Within::kRows) return {beyond, shape.rows, 0, 0};
  return {beyond, shape.rows, size_class(shape.rows * (shape.length + shape.source_length)), size_class(shape.targets)};
}

void Frontier::add(const BatchShape& shape, int64_t event) {
  const Candidate added({shape, event});
  std::vector<Candidate>& members = classes_[class_of(shape)];
  const auto covering =
      std::find_if(members.begin(), members.end(), [&](const Candidate& other) { return other.covers(added); });
  if (covering != members.end()) {
    covering->member.again = covering->member.again || covering->member.shape == shape;
    return;
  }
  std::erase_if(members, [&](const Candidate& other) { return added.covers(other); });
  members.push_back(added);
}

std::vector<Frontier::Member> Frontier::members() const {
  std::vector<Member> all;
  for (const auto& [name, members] : classes_) {
    for (const Candidate& candidate : members) all.push_back(candidate.member);
  }
  std::stable_sort(all.begin(), all.end(), [](const Member& a, const Member& b) { return a.first < b.first; });
  return all;
}

void StepFrontier::add(const StepShape& step, int64_t event) {
  if (step.empty()) return;
  first_.add(step.front(), event);
  for (size_t i = 1; i < step.size(); ++i) later_.add(step[i], event);
}

std::vector<StepFrontier::Member> StepFrontier::members() const {
  const std::vector<Frontier::Member> first = first_.members(), later = later_.members();
  std::vector<Member> steps;
  if (first.empty()) return steps;
  for (size_t i = 0; i < std::max(first.size(), later.size()); ++i) {
    const Frontier::Member& begins = first[std::min(i, first.size() - 1)];
    Member& step = steps.emplace_back(Member{{begins.shape}, begins.first, begins.again});
    if (later.empty()) continue;
    const Frontier::Member& follows = later[std::min(i, later.size() - 1)];
    step.step.push_back(follows.shape);
    step.first = std::max(step.first, follows.first);
    step.again = step.again || follows.again;
  }
  return steps;
}

}  // namespace fathom::schedule
