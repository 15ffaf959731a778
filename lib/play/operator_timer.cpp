// Each thread keeps the operators that are open on it: the time of one within another counts for itself alone.
#include "play/operator_timer.h"

#include <algorithm>
#include <utility>

namespace fathom::play {
namespace {

thread_local std::vector<size_t> open_spans;

}  // namespace

void OperatorTimer::starts(const CountedOperator& op) {
  TimedOperator timed{std::string(op.name), op.type, op.product, op.attention, op.bytes};
  const std::optional<size_t> within = open_spans.empty() ? std::nullopt : std::optional(open_spans.back());
  ops::DeviceMark begin(device_);
  const std::lock_guard lock(mutex_);
  open_spans.push_back(spans_.size());
  spans_.push_back({std::move(timed), std::move(begin), std::nullopt, within});
}

void OperatorTimer::ends(int64_t result_bytes) {
  if (open_spans.empty()) return;  // of what could not be counted, which ArithmeticCount tells
  ops::DeviceMark end(device_);
  const bool is_outermost = open_spans.size() == 1;
  std::optional<ops::DeviceMark> first, second;
  if (is_outermost) {
    first.emplace(device_);
    second.emplace(device_);
  }
  const std::lock_guard lock(mutex_);
  if (is_outermost) idle_.emplace_back(std::move(*first), std::move(*second));
  Span& span = spans_.at(open_spans.back());
  open_spans.pop_back();
  span.op.bytes += result_bytes;
  span.end = std::move(end);
}

std::vector<TimedOperator> OperatorTimer::take() {
  const std::lock_guard lock(mutex_);
  std::vector<double> apart;
  apart.reserve(idle_.size());
  for (const auto& [first, second] : idle_) apart.push_back(second.seconds_since(first));
  const auto middle = apart.begin() + std::ssize(apart) / 2;
  std::nth_element(apart.begin(), middle, apart.end());
  const double idle = apart.empty() ? 0 : *middle;
  idle_.clear();
  for (Span& span : spans_) {
    if (!span.end) continue;  // it failed
    const double seconds = span.end->seconds_since(span.begin) - idle;
    span.op.seconds += seconds;
    if (span.within) spans_[*span.within].op.seconds -= seconds + 2 * idle;  // both of its marks
  }
  std::vector<TimedOperator> timed;
  for (Span& span : spans_) {
    const bool works = span.end && (span.op.product || span.op.attention || span.op.bytes > 0);
    if (works) timed.push_back(std::move(span.op));
  }
  spans_.clear();
  return timed;
}

}  // namespace fathom::play
