// A loop's place among its items. Generators are visited as lazily as Jinja visits them.
#include "jinja/loop.h"

namespace fathom::jinja {

Loop::Loop(const Value& iterable, Meter& meter)
    : depth(iterable.depth() + 1), meter_(meter), length_(length_of(iterable, meter)) {
  if (depth > kDeepestValue) meter.fail("values nested deeper than " + std::to_string(kDeepestValue) + " levels");
  cursor_.emplace(iterable, meter);
}

const std::optional<Value>& Loop::peek() {
  if (has_peeked_) return after_;
  has_peeked_ = true;
  if (is_drained_) {
    after_ = drained_at_ < drained_.size() ? std::optional(drained_[drained_at_++]) : std::nullopt;
  } else {
    after_ = cursor_ ? cursor_->next() : std::nullopt;
  }
  return after_;
}

std::optional<Value> Loop::advance() {
  std::optional<Value> item = peek();
  has_peeked_ = false;
  after_.reset();
  if (!item) return std::nullopt;
  ++index0_;
  before_ = std::move(current_);
  current_ = item;
  return item;
}

void Loop::close() {
  cursor_.reset();
  drained_.clear();
  is_drained_ = false;
}

int64_t Loop::length() {
  if (length_) return *length_;
  const int64_t seen = index0_ + 1 + (has_peeked_ && after_ ? 1 : 0);
  while (cursor_) {
    std::optional<Value> item = cursor_->next();
    if (!item) break;
    meter_.make(sizeof(Value));
    drained_.push_back(std::move(*item));
  }
  is_drained_ = true;
  length_ = seen + static_cast<int64_t>(drained_.size());
  return *length_;
}

std::optional<Value> Loop::attribute(const std::string& name) {
  const auto integer = [](int64_t value) { return Value(Value::Data(value)); };
  if (name == "index") return integer(index0_ + 1);
  if (name == "index0") return integer(index0_);
  if (name == "first") return Value(Value::Data(index0_ == 0));
  if (name == "last") return Value(Value::Data(!peek().has_value()));
  if (name == "length") return integer(length());
  if (name == "revindex") return integer(length() - index0_);
  if (name == "revindex0") return integer(length() - index0_ - 1);
  if (name == "depth") return integer(1);
  if (name == "depth0") return integer(0);
  if (name == "previtem") return before_ && index0_ > 0 ? *before_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *peek() : Value::undefined("there is no next item");
  return std::nullopt;
}

}  // namespace fathom::jinja
