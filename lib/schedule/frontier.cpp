// Shapes that nothing exceeds, in classes between which none stands for another.
#include "schedule/frontier.h"

#include <algorithm>
#include <bit>

#include "arch/attention_by_scores.h"
#include "base/bytes.h"

namespace fathom::schedule {
namespace {

// Where every token counts the loss takes the rows as they are, without a copy of those that do.
bool gathers(const BatchShape& shape) { return shape.targets < shape.rows * shape.length; }

constexpr int64_t kSmall = 64;

int64_t power_of_two(int64_t size) { return std::bit_width(static_cast<uint64_t>(size)); }

// Small sizes by themselves, larger ones by their power of two.
int64_t size_class(int64_t size) { return size <= kSmall ? size : kSmall + power_of_two(size); }

}  // namespace

int64_t scores_at_once(int64_t groups, int64_t queries, int64_t keys) {
  if (groups == 0 || queries == 0 || keys == 0) return 0;
  return checked_multiply(checked_multiply(groups, keys, "attention's scores"),
                          arch::queries_at_once(groups, queries, keys), "attention's scores");
}

Frontier::Documents::Documents(const std::vector<int64_t>& lengths) : count(static_cast<int64_t>(lengths.size())) {
  for (const int64_t length : lengths) {
    longest = std::max(longest, length);
    squares = checked_add(squares, checked_multiply(length, length, "squares of lengths"), "squares of lengths");
  }
}

Frontier::Candidate::Candidate(Member member_in, int64_t score_heads)
    : member(std::move(member_in)), documents(member.shape.document_lengths) {
  const int64_t groups = checked_multiply(member.shape.rows, score_heads, "attention's scores"),
                length = member.shape.length, source = member.shape.source_length;
  scores = {scores_at_once(groups, length, length), scores_at_once(groups, source, source),
            scores_at_once(groups, length, source)};
}

bool Frontier::Candidate::covers(const Candidate& small) const {
  const BatchShape &large_shape = member.shape, &small_shape = small.member.shape;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < small.scores[i]) return false;
  }
  return large_shape.rows >= small_shape.rows && large_shape.length >= small_shape.length &&
         large_shape.source_length >= small_shape.source_length && large_shape.targets >= small_shape.targets &&
         (gathers(large_shape) || !gathers(small_shape)) && documents.count >= small.documents.count &&
         documents.longest >= small.documents.longest && documents.squares >= small.documents.squares;
}

Frontier::Class Frontier::class_of(const BatchShape& shape, int64_t stage) const {
  const bool beyond = traits_.window > 0 && longest_sequence(shape) > traits_.window;
  if (within_ == Within::kAll) return {stage, beyond, 0, 0, 0};
  const int64_t tokens = shape.rows * (shape.length + shape.source_length);
  if (within_ == Within::kRows) return {stage, beyond, shape.rows, power_of_two(std::min(tokens, kSmall)), 0};
  return {stage, beyond, shape.rows, size_class(tokens), size_class(shape.targets)};
}

void Frontier::add(const BatchShape& shape, int64_t event, int64_t stage) {
  const Candidate added({shape, event}, traits_.score_heads);
  std::vector<Candidate>& members = classes_[class_of(shape, stage)];
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

bool Frontier::covers(const BatchShape& shape, int64_t stage) const {
  const auto members = classes_.find(class_of(shape, stage));
  if (members == classes_.end()) return false;
  const Candidate small({shape}, traits_.score_heads);
  return std::any_of(members->second.begin(), members->second.end(),
                     [&](const Candidate& member) { return member.covers(small); });
}

Role role_of(size_t place, size_t count) {
  if (count == 1) return Role::kOnly;
  if (place == 0) return Role::kFirst;
  return place + 1 < count ? Role::kBetween : Role::kLast;
}

RoleFrontiers::RoleFrontiers(const KernelTraits& traits, Frontier::Within within) {
  roles_.fill(Frontier(traits, within));
}

void RoleFrontiers::add(const StepShape& step, int64_t event, int64_t stage) {
  for (size_t i = 0; i < step.size(); ++i) {
    roles_[static_cast<size_t>(role_of(i, step.size()))].add(step[i], event, stage);
  }
}

StepShape reduced(const StepShape& step, const KernelTraits& traits, Frontier::Within within) {
  if (step.size() <= 3) return step;
  Frontier between(traits, within);
  for (size_t i = 1; i + 1 < step.size(); ++i) between.add(step[i], static_cast<int64_t>(i));
  StepShape fewer = {step.front()};
  for (Frontier::Member& member : between.members()) fewer.push_back(std::move(member.shape));
  fewer.push_back(step.back());
  return fewer;
}

}  // namespace fathom::schedule
