// A loop's place among its items. Generators are visited as lazily as Jinja visits them.
#include "jinja/loop.h"

namespace fathom::jinja {

Loop::Loop(const Value& iterable, Meter& meter) : depth(iterable.depth() + 1), length_(length_of(iterable, meter)) {
  if (depth > kDeepestValue) meter.fail("values nested deeper than " + std::to_string(kDeepestValue) + " levels");
  cursor_.emplace(iterable, meter);
}

const std::optional<Value>& Loop::peek() {
  if (!has_peeked_) after_ = cursor_ ? cursor_->next() : std::nullopt;
  has_peeked_ = true;
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

std::optional<Value> Loop::attribute(const std::string& name, Meter& meter) {
  const auto integer = [](int64_t value) { return Value(value); };
  if (name == "index") return integer(index0_ + 1);
  if (name == "index0") return integer(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek().has_value());
  if (name == "previtem") return before_ && index0_ > 0 ? *before_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *peek() : Value::undefined("there is no next item");
  if (name == "length" || name == "revindex" || name == "revindex0") {
    if (!length_) meter.fail("loop." + name + " over items that a filter or condition chooses is not supported");
    return integer(name == "length" ? *length_ : *length_ - index0_ - (name == "revindex" ? 0 : 1));
  }
  if (name == "depth" || name == "depth0") meter.fail("loop." + name + " is not supported");
  return std::nullopt;
}

}  // namespace fathom::jinja
