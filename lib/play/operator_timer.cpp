// Each thread keeps the operators that are open on it: the time of one within another counts for itself alone.
#include "play/operator_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace fathom::play {
namespace {

thread_local std::vector<size_t> open;

}  // namespace

DeviceMark::DeviceMark(at::Device device) {
  if (device.is_cpu()) {
    at_ = std::chrono::steady_clock::now();
    return;
  }
  const c10::impl::VirtualGuardImpl of_device(device.type());
  at_.emplace<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT).record(of_device.getStream(device));
}

double DeviceMark::seconds_since(const DeviceMark& earlier) const {
  if (const auto* now = std::get_if<std::chrono::steady_clock::time_point>(&at_)) {
    return std::chrono::duration<double>(*now - std::get<std::chrono::steady_clock::time_point>(earlier.at_)).count();
  }
  constexpr double kMilli = 1e-3;
  return kMilli * std::get<c10::Event>(earlier.at_).elapsedTime(std::get<c10::Event>(at_));
}

void OperatorTimer::starts(const CountedOperator& op) {
  TimedOperator timed{std::string(op.name), op.type, op.product, op.attention, op.bytes};
  const std::optional<size_t> within = open.empty() ? std::nullopt : std::optional(open.back());
  DeviceMark begin(device_);
  const std::lock_guard lock(mutex_);
  open.push_back(spans_.size());
  spans_.push_back({std::move(timed), std::move(begin), std::nullopt, within});
}

void OperatorTimer::ends(int64_t result_bytes) {
  if (open.empty()) return;  // of what could not be counted, which ArithmeticCount tells
  DeviceMark end(device_);
  const bool is_outermost = open.size() == 1;
  std::optional<DeviceMark> first, second;
  if (is_outermost) {
    first.emplace(device_);
    second.emplace(device_);
  }
  const std::lock_guard lock(mutex_);
  if (is_outermost) idle_.emplace_back(std::move(*first), std::move(*second));
  Span& span = spans_.at(open.back());
  open.pop_back();
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
